//! Which pods of one node have to go.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::{Attempt, Victims};
use crate::{BudgetKey, Cluster, NodeIx, Pod, PodIx, Status, Trial};

/// A pod that may be evicted.
type Potential<'a> = (PodIx, &'a Arc<Pod>);

/// The rule of DefaultPreemption (`SelectVictimsOnNode`): takes every pod of lower priority away and,
/// if the pod fits then, puts back as many as possible, first those that a PodDisruptionBudget would
/// keep, the most important first.
///
/// # Errors
/// The node has no pods of lower priority, the pod does not fit even without them, or a plugin fails.
pub fn select_victims_on_node(
    attempt: &Attempt<'_>,
    node: NodeIx,
    trial: &mut dyn Trial,
) -> Result<Victims, Status> {
    let Attempt { pod, cluster, now, .. } = *attempt;
    let placed = cluster.node(node).placed();
    let mut potential: Vec<Potential<'_>> =
        placed.filter(|(_, other)| other.priority() < pod.priority()).collect();
    if potential.is_empty() {
        return Err(Status::unresolvable("No preemption victims found for incoming pod"));
    }
    for (other, _) in &potential {
        trial.remove_pod(*other)?;
    }
    trial.run_filters().ok()?;
    let importance = |pod: &Pod| (Reverse(pod.priority()), pod.start_time.unwrap_or(now));
    potential.sort_by_key(|(_, other)| importance(other));
    let (violating, others) = split_by_budgets(cluster, &potential);

    let mut victims = not_reprieved(trial, violating)?;
    let pdb_violations = victims.len();
    victims.extend(not_reprieved(trial, others)?);
    victims.sort_by_key(|other| importance(other));
    Ok(Victims { pods: victims, pdb_violations })
}

/// Puts pods back, in this order, unless the pod would not fit any more. Returns those that stay away.
fn not_reprieved(trial: &mut dyn Trial, pods: Vec<Potential<'_>>) -> Result<Vec<Arc<Pod>>, Status> {
    let mut victims = Vec::new();
    for (ix, pod) in pods {
        trial.add_pod(ix)?;
        if !trial.run_filters().is_success() {
            trial.remove_pod(ix)?;
            victims.push(pod.clone());
        }
    }
    Ok(victims)
}

/// Those of `pods` whose eviction would violate a PodDisruptionBudget if all before them are evicted
/// too, and the others, both in their order.
fn split_by_budgets<'a>(
    cluster: &Cluster,
    pods: &[Potential<'a>],
) -> (Vec<Potential<'a>>, Vec<Potential<'a>>) {
    let mut left: HashMap<BudgetKey, i64> = HashMap::new();
    pods.iter().partition(|(_, pod)| {
        let mut violates = false;
        for (key, budget) in cluster.disruption_budgets_of(pod) {
            let left = left.entry(key).or_insert_with(|| budget.disruptions_left());
            *left -= 1;
            violates |= *left < 0;
        }
        violates
    })
}
