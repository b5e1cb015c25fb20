//! An upgrade node by node: each node is drained, and comes back empty before the next one follows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{Pod, PodKey};
use serde::{Deserialize, Serialize};

use crate::what_if::make_again;
use crate::{DumpedPod, State, World};

/// The upgrade of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStep {
    /// The node.
    pub node: String,
    /// Number of pods that left it.
    pub displaced: usize,
    /// The pods without a node while this one is away, as `NAMESPACE/NAME`. They may have a node
    /// again when it is back.
    pub waiting: Vec<String>,
}

/// The effects of an upgrade.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rollout {
    pub(crate) steps: Vec<RolloutStep>,
    /// Pods that left a node, as their controllers made them again.
    pub(crate) displaced: BTreeMap<PodKey, DumpedPod>,
    /// Pods that left a node and that no controller makes again, with the node.
    pub(crate) lost: Vec<(PodKey, Arc<str>)>,
}

/// Upgrades nodes. `pods` are all pods of the input.
pub(crate) fn run(
    world: &mut World,
    nodes: &[Arc<str>],
    pods: &BTreeMap<PodKey, DumpedPod>,
) -> Rollout {
    let mut rollout = Rollout::default();
    for name in nodes {
        let Some(was_cordoned) = world.cordon(name, true) else { continue };
        let mut step = RolloutStep { node: name.to_string(), ..RolloutStep::default() };
        let mut away: BTreeSet<PodKey> = BTreeSet::new();
        for pod in world.pods_on(name) {
            let known = rollout.displaced.get(&pod.key).or_else(|| pods.get(&pod.key));
            let kind = known.and_then(|own| own.owner.as_ref()).map(|owner| &*owner.kind);
            match (known, kind) {
                // They start again on the node.
                (_, Some("DaemonSet" | "Node")) => {}
                (Some(known), Some(_)) if !pod.terminating => {
                    let mut again = known.clone();
                    again.pod = Pod::clone(&pod);
                    make_again(&mut again);
                    again.pod.set_generated_claims(pod.generated_claims().cloned());
                    world.replace_pod(&pod, again.pod.clone());
                    away.insert(pod.key.clone());
                    rollout.displaced.insert(pod.key.clone(), again);
                }
                _ => {
                    world.remove_pod(&pod);
                    if !pod.terminating {
                        rollout.lost.push((pod.key.clone(), name.clone()));
                    }
                }
            }
        }
        step.displaced = away.len();
        world.run_until_idle();
        let waits = |pod: &&PodKey| {
            !world.history(pod).is_some_and(|own| matches!(own.state, State::Placed { .. }))
        };
        step.waiting = away.iter().filter(waits).map(ToString::to_string).collect();
        world.cordon(name, was_cordoned);
        world.run_until_idle();
        rollout.steps.push(step);
    }
    rollout
}
