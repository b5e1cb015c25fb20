//! The arguments of NodeResourceTopologyMatch.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::scoring::{Scorer, Strategy};
use super::topology::Policy;
use crate::args::{Faults, ResourceSpec};

/// `NodeResourceTopologyMatchArgs`, and two fields of Loadmaster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodeResourceTopologyMatchArgs {
    /// How nodes are scored.
    pub scoring_strategy: Option<ScoringStrategy>,
    /// Above 0: pods for which a node does not account yet are subtracted from its NUMA nodes.
    pub cache_resync_period_seconds: i64,
    /// A node takes no pod while another one is being bound to it.
    pub discard_reserved_nodes: bool,
    /// Details of `cacheResyncPeriodSeconds`.
    pub cache: Cache,
    /// `Disabled` or `Enabled`.
    pub preemption_mode: Option<String>,
    /// Policies of the topology manager whose nodes are filtered; by default `single-numa-node`.
    pub filter_policies: Option<Vec<String>>,
    /// `Accept` or `Reject`: what becomes of nodes without a NodeResourceTopology.
    pub nodes_without_topology: Option<String>,
}

/// How nodes are scored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ScoringStrategy {
    /// The type of the strategy.
    #[serde(rename = "type")]
    pub kind: String,
    /// Resources with their weights; 0 counts as 1.
    pub resources: Vec<ResourceSpec>,
}

/// Details of the cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Cache {
    /// `All`, `None` or `OnlyExclusiveResources`.
    pub foreign_pods_detect: Option<String>,
    /// `Autodetect`, `All` or `OnlyExclusiveResources`.
    pub resync_method: Option<String>,
    /// `Dedicated` or `Shared`.
    pub informer_mode: Option<String>,
    /// `All` or `OnlyResources`.
    pub resync_scope: Option<String>,
}

/// Which pods of other schedulers make the report of a node stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    All,
    None,
    OnlyExclusiveResources,
}

/// The arguments as the plugin uses them.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) scorer: Scorer,
    pub(super) over_reserve: bool,
    pub(super) discard_reserved: bool,
    pub(super) foreign: Foreign,
    /// Whether fingerprints leave out pods without exclusive resources; `None` asks each report.
    pub(super) only_exclusive: Option<bool>,
    /// Whether a report with another configuration of the kubelet counts at once.
    pub(super) follows_attributes: bool,
    /// Whether the victims of a preemption leave room on NUMA nodes.
    pub(super) frees_victims: bool,
    policies: Vec<Policy>,
    pub(super) rejects_missing: bool,
}

impl Settings {
    pub(super) fn filters(&self, policy: Policy) -> bool {
        self.policies.contains(&policy)
    }
}

impl NodeResourceTopologyMatchArgs {
    /// Fills in the defaults.
    pub(super) fn with_defaults(mut self) -> Self {
        let strategy = self.scoring_strategy.get_or_insert_with(|| ScoringStrategy {
            kind: "LeastAllocated".to_owned(),
            resources: Vec::new(),
        });
        if strategy.resources.is_empty() {
            strategy.resources = ["cpu", "memory"].map(|name| ResourceSpec::new(name, 1)).into();
        }
        for resource in &mut strategy.resources {
            if resource.weight == 0 {
                resource.weight = 1;
            }
        }
        let fill = |field: &mut Option<String>, default: &str| {
            field.get_or_insert_with(|| default.to_owned());
        };
        fill(&mut self.cache.foreign_pods_detect, "All");
        fill(&mut self.cache.resync_method, "Autodetect");
        fill(&mut self.cache.informer_mode, "Dedicated");
        fill(&mut self.cache.resync_scope, "All");
        fill(&mut self.preemption_mode, "Disabled");
        fill(&mut self.nodes_without_topology, "Accept");
        self.filter_policies.get_or_insert_with(|| vec!["single-numa-node".to_owned()]);
        self
    }

    /// Checks arguments whose defaults are filled in, and converts them.
    pub(super) fn settings(&self) -> Result<Settings, String> {
        let mut faults = Faults::default();
        let strategy = self.scoring_strategy.clone().unwrap_or_default();
        let kind = Strategy::named(&strategy.kind);
        if kind.is_none() {
            let shown = format_args!("{:?}", strategy.kind);
            faults.invalid("scoringStrategy.type", shown, "invalid ScoringStrategyType");
        }
        let cache = &self.cache;
        for (path, value, allowed) in [
            (
                "cache.foreignPodsDetect",
                &cache.foreign_pods_detect,
                &["All", "None", "OnlyExclusiveResources"][..],
            ),
            (
                "cache.resyncMethod",
                &cache.resync_method,
                &["Autodetect", "All", "OnlyExclusiveResources"],
            ),
            ("cache.informerMode", &cache.informer_mode, &["Dedicated", "Shared"]),
            ("cache.resyncScope", &cache.resync_scope, &["All", "OnlyResources"]),
            ("preemptionMode", &self.preemption_mode, &["Disabled", "Enabled"]),
            ("nodesWithoutTopology", &self.nodes_without_topology, &["Accept", "Reject"]),
        ] {
            let value = value.as_deref().unwrap_or_default();
            if !allowed.contains(&value) {
                let detail = format!("must be one of {}", allowed.join(", "));
                faults.invalid(path, format_args!("{value:?}"), &detail);
            }
        }
        let period = self.cache_resync_period_seconds;
        if period < 0 {
            faults.invalid("cacheResyncPeriodSeconds", period, "must be 0 or more");
        }
        let mut policies = BTreeSet::new();
        let mut filtered = Vec::new();
        for (place, name) in self.filter_policies.iter().flatten().enumerate() {
            match Policy::named(name).filter(|policy| *policy != Policy::None) {
                Some(policy) if policies.insert(name) => filtered.push(policy),
                Some(_) => {}
                None => {
                    let detail = "must be one of single-numa-node, restricted, best-effort";
                    let path = format!("filterPolicies[{place}]");
                    faults.invalid(path, format_args!("{name:?}"), detail);
                }
            }
        }
        let weights = strategy.resources.iter();
        let settings = Settings {
            scorer: Scorer {
                strategy: kind.unwrap_or(Strategy::LeastAllocated),
                weights: weights.map(|own| (own.name.clone(), own.weight)).collect(),
            },
            over_reserve: period > 0 && !self.discard_reserved_nodes,
            discard_reserved: self.discard_reserved_nodes,
            foreign: match cache.foreign_pods_detect.as_deref() {
                Some("None") => Foreign::None,
                Some("OnlyExclusiveResources") => Foreign::OnlyExclusiveResources,
                _ => Foreign::All,
            },
            only_exclusive: match cache.resync_method.as_deref() {
                Some("All") => Some(false),
                Some("OnlyExclusiveResources") => Some(true),
                _ => None,
            },
            follows_attributes: cache.resync_scope.as_deref() != Some("OnlyResources"),
            frees_victims: self.preempts(),
            policies: filtered,
            rejects_missing: self.nodes_without_topology.as_deref() == Some("Reject"),
        };
        faults.none_or(settings)
    }

    /// Whether the victims of a preemption leave room on NUMA nodes: only with over-reservation.
    fn preempts(&self) -> bool {
        self.preemption_mode.as_deref() == Some("Enabled")
            && self.cache_resync_period_seconds > 0
            && !self.discard_reserved_nodes
    }

    /// Says which arguments have no effect, or another one than in scheduler-plugins.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.cache_resync_period_seconds > 0 {
            notes.push(
                "cacheResyncPeriodSeconds switches over-reservation on; its length has no effect, \
                 since a watch brings each report at once",
            );
        }
        if self.preemption_mode.as_deref() == Some("Enabled") && !self.preempts() {
            notes.push(
                "preemptionMode Enabled has no effect without cacheResyncPeriodSeconds: a report \
                 does not say for which pods it accounts",
            );
        }
        if self.cache.informer_mode.as_deref() == Some("Shared") {
            notes.push("cache.informerMode has no effect: there is one watch of pods");
        }
        notes.into_iter().map(str::to_owned).collect()
    }
}
