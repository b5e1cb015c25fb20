//! The victims of a preemption on one node.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{FailedAttempt, Victims};
use crate::{BudgetIx, Cluster, NodeIx, Pod, PodIx, Status, Time, Trial};

/// A pod that may become a victim.
struct Potential<'a> {
    ix: PodIx,
    pod: &'a Arc<Pod>,
    /// The order of importance, the most important first: by priority, then by start time.
    importance: (Reverse<i32>, Time),
    /// Whether its eviction violates a PodDisruptionBudget if all more important pods are evicted
    /// too.
    violates_budget: bool,
}

/// Selects the victims as DefaultPreemption does (`SelectVictimsOnNode`). It removes all pods of
/// lower priority. If the pod fits then, it adds back as many as possible: first the pods whose
/// eviction violates a PodDisruptionBudget, then the others, the most important first.
///
/// # Errors
/// The node has no pods of lower priority, the pod does not fit without them, or a plugin fails.
pub fn select_victims_on_node(
    attempt: &FailedAttempt<'_>,
    node: NodeIx,
    trial: &mut dyn Trial,
) -> Result<Victims, Status> {
    let (pod, handle) = (attempt.pod, attempt.handle);
    let (cluster, wall_time) = (handle.cluster, handle.wall_time());
    let placed = cluster.node(node).placed();
    let mut potential: Vec<Potential<'_>> = Vec::with_capacity(placed.len());
    for (ix, other) in placed {
        if other.priority() < pod.priority() {
            trial.remove_pod(ix)?;
            let importance =
                (Reverse(other.priority()), other.start_time.get().unwrap_or(wall_time));
            potential.push(Potential { ix, pod: other, importance, violates_budget: false });
        }
    }
    if potential.is_empty() {
        return Err(Status::unresolvable("No preemption victims found for incoming pod"));
    }
    trial.run_filters().ok()?;
    potential.sort_by_key(|other| other.importance);
    mark_violations(cluster, &mut potential);
    potential.sort_by_key(|other| !other.violates_budget);
    let mut victims = not_reprieved(trial, potential)?;
    victims.sort_by_key(|victim| victim.importance);
    Ok(Victims {
        pdb_violations: victims.iter().filter(|victim| victim.violates_budget).count(),
        pods: victims.into_iter().map(|victim| victim.pod.clone()).collect(),
    })
}

/// Adds pods back in this order, as long as the pod fits, and returns the pods that stay removed.
fn not_reprieved<'a>(
    trial: &mut dyn Trial,
    potential: Vec<Potential<'a>>,
) -> Result<Vec<Potential<'a>>, Status> {
    let mut victims = Vec::new();
    for other in potential {
        trial.add_pod(other.ix)?;
        if !trial.run_filters().is_success() {
            trial.remove_pod(other.ix)?;
            victims.push(other);
        }
    }
    Ok(victims)
}

/// Marks the `pods` whose eviction violates a PodDisruptionBudget if all pods before them are
/// evicted too.
fn mark_violations(cluster: &Cluster, pods: &mut [Potential<'_>]) {
    let mut left: Vec<(BudgetIx, i64)> = Vec::new();
    for pod in pods {
        for (ix, budget) in cluster.disruption_budgets_of(pod.ix) {
            let place = left.iter().position(|(known, _)| *known == ix).unwrap_or_else(|| {
                left.push((ix, budget.disruptions_left()));
                left.len() - 1
            });
            left[place].1 -= 1;
            pod.violates_budget |= left[place].1 < 0;
        }
    }
}
