//! Which plugins that are not built would have a say about a pod.
//!
//! Needed where a recording does not name the plugin behind each entry.

use std::collections::BTreeSet;

use framework::{Code, CycleState, Pod, PodAffinity};

use super::setting::{Setting, is_unbuilt};
use super::world::World;

const SPREAD: &str = "PodTopologySpread";
const AFFINITY: &str = "InterPodAffinity";

/// The unbuilt plugins that would have a say.
#[derive(Debug, Default)]
pub(crate) struct Say {
    /// Which nodes can take the pod.
    pub(crate) filter: BTreeSet<String>,
    /// Which of them is better.
    pub(crate) score: BTreeSet<String>,
}

impl Say {
    /// About `pod` in this cluster.
    pub(crate) fn about(pod: &Pod, world: &World, setting: &Setting) -> Self {
        Self { filter: filters(pod, world, setting), score: scores(pod, world, setting) }
    }
}

/// The stand-ins for plugins that are not built turn down the pods that need them.
fn filters(pod: &Pod, world: &World, setting: &Setting) -> BTreeSet<String> {
    let stand_ins = setting.full().pre_filter.iter().filter(|plugin| is_unbuilt(&plugin.name));
    stand_ins
        .filter(|stand_in| {
            let mut state = CycleState::new();
            let answer = stand_in.plugin.pre_filter(&mut state, pod, world.cluster());
            answer.is_err_and(|status| status.code() != Code::Skip)
        })
        .map(|stand_in| stand_in.name.to_string())
        .collect()
}

fn scores(pod: &Pod, world: &World, setting: &Setting) -> BTreeSet<String> {
    let constraints = &pod.spec.topology_spread_constraints;
    let spreads = constraints.iter().any(|own| own.when_unsatisfiable == "ScheduleAnyway")
        || (constraints.is_empty() && world.has_service_for(pod));
    let attracts =
        has_affinity(pod) || world.cluster().pods().any(|other| has_affinity(&other.pod));
    [(SPREAD, spreads), (AFFINITY, attracts)]
        .into_iter()
        .filter(|(plugin, has_say)| *has_say && is_unbuilt(plugin) && setting.scores_with(plugin))
        .map(|(plugin, _)| plugin.to_owned())
        .collect()
}

/// Whether the pod has terms by which InterPodAffinity scores, its own or those of others: all but
/// required anti-affinity.
fn has_affinity(pod: &Pod) -> bool {
    let prefers = |affinity: &PodAffinity| affinity.preferred.iter().any(|terms| !terms.is_empty());
    let requires = |affinity: &PodAffinity| affinity.required.iter().any(|terms| !terms.is_empty());
    let (affinity, anti) = (pod.spec.pod_affinity.as_ref(), pod.spec.pod_anti_affinity.as_ref());
    affinity.is_some_and(|affinity| prefers(affinity) || requires(affinity))
        || anti.is_some_and(prefers)
}
