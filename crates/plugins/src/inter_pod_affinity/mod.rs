//! InterPodAffinity: places pods near some pods and away from others, within topology domains. A
//! domain is a set of nodes with the same value of a label (the topology key).
//!
//! Three kinds of terms affect a pod: its own affinity terms, its own anti-affinity terms, and the
//! anti-affinity terms of placed pods that match it. Standing queries count the pods for the first
//! two. The index of distinct terms of placed pods answers the third. No attempt scans all pods.

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

/// The InterPodAffinity plugin.
#[derive(Debug)]
struct InterPodAffinity {
    /// Weight in scores of a required affinity term of a placed pod that matches the pod; 0 to 100.
    hard_pod_affinity_weight: i32,
    /// Whether preferred terms of placed pods are ignored for pods without preferred terms.
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
