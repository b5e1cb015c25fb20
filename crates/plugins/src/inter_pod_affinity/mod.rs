//! InterPodAffinity: keeps pods near some pods and away from others, within domains of nodes that
//! share a label value (the topology key names the label).
//!
//! Three kinds of terms bear on a pod: what it must be near, what it must not be near, and whom of
//! the placed pods wants it away. The first two are counted by standing queries, the third is known
//! by the distinct terms of placed pods, so no attempt looks at the pods one by one.

mod filtering;
mod hints;
mod scoring;
mod terms;
#[cfg(test)]
mod tests;
mod topology;

use framework::{ActionType, ClusterEvent, EventResource, Plugin, PluginArgs};
use serde::{Deserialize, Serialize};

use crate::args::{Faults, decode_strictly};

/// Plugin name.
pub const NAME: &str = "InterPodAffinity";

/// `InterPodAffinityArgs`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Args {
    hard_pod_affinity_weight: i32,
    ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self { hard_pod_affinity_weight: 1, ignore_preferred_terms_of_existing_pods: false }
    }
}

/// The plugin.
#[derive(Debug)]
struct InterPodAffinity {
    /// What a required affinity term of a placed pod that means the pod counts for in scores; 0 to
    /// 100.
    hard_pod_affinity_weight: i32,
    /// Whether placed pods have no say in the scores of pods without preferences of their own.
    ignore_preferred_terms_of_existing_pods: bool,
}

/// Makes the plugin from `InterPodAffinityArgs`.
///
/// # Errors
/// The arguments do not decode, or the weight is not within 0 to 100.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let pods = ActionType::ADD | ActionType::DELETE | ActionType::UPDATE_POD_LABEL;
    let nodes = ActionType::ADD | ActionType::DELETE | ActionType::UPDATE_NODE_LABEL;
    let namespaces = ActionType::ALL;
    let event = ClusterEvent::new;
    Ok(Plugin::new(NAME, InterPodAffinity::new(args)?)
        .pre_filter()
        .pre_filter_extensions()
        .filter()
        .pre_score()
        .score()
        .normalize_score()
        .standing_queries()
        .read(EventResource::Namespace)
        .on_with_hint(event(EventResource::Pod, pods), InterPodAffinity::after_pod_change)
        .on_with_hint(event(EventResource::Node, nodes), InterPodAffinity::after_node_change)
        .on_with_hint(
            event(EventResource::Namespace, namespaces),
            InterPodAffinity::after_namespace_change,
        )
        .build())
}

impl InterPodAffinity {
    fn new(args: &PluginArgs) -> Result<Self, String> {
        let args: Args = decode_strictly(args)?;
        let weight = args.hard_pod_affinity_weight;
        let mut faults = Faults::default();
        if !(0..=100).contains(&weight) {
            faults.invalid("hardPodAffinityWeight", weight, "not in valid range [0, 100]");
        }
        faults.none_or(Self {
            hard_pod_affinity_weight: weight,
            ignore_preferred_terms_of_existing_pods: args.ignore_preferred_terms_of_existing_pods,
        })
    }
}
