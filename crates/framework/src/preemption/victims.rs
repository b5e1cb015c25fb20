//! The victims of a preemption on one node.

use super::units::{Below, Unit, mark_violations};
use super::{FailedAttempt, Victims};
use crate::{NodeIx, Status, Trial};

/// Selects the victims as DefaultPreemption does (`SelectVictimsOnNode`). It removes all pods of
/// lower priority. If the pod fits then, it adds back as many as possible: first the pods whose
/// eviction violates a PodDisruptionBudget, then the others, the most important first. The pods of
/// a PodGroup with the disruption mode `all` are removed and added back together, also those on
/// other nodes.
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
    let mut units =
        Below { cluster, priority: pod.priority(), spared: None, spares_minima: false, wall_time }
            .on(node);
    if units.is_empty() {
        return Err(Status::unresolvable("No preemption victims found for incoming pod"));
    }
    units.iter().flat_map(|unit| &unit.pods).try_for_each(|pod| trial.remove_pod(*pod))?;
    trial.run_filters().ok()?;
    units.sort_by_key(|unit| unit.importance);
    mark_violations(cluster, &mut units);
    units.sort_by_key(|unit| !unit.violates_budget());
    let mut victims = not_reprieved(trial, units)?;
    victims.sort_by_key(|victim| victim.importance);
    let pods = victims.iter().flat_map(|victim| &victim.pods);
    Ok(Victims {
        pdb_violations: victims.iter().map(|victim| victim.violations).sum(),
        pods: pods.map(|pod| cluster.pod(*pod).pod.clone()).collect(),
    })
}

/// Adds units back in this order, as long as the pod fits, and returns the units that stay removed.
fn not_reprieved(trial: &mut dyn Trial, units: Vec<Unit>) -> Result<Vec<Unit>, Status> {
    let mut victims = Vec::new();
    for unit in units {
        unit.pods.iter().try_for_each(|pod| trial.add_pod(*pod))?;
        if !trial.run_filters().is_success() {
            unit.pods.iter().try_for_each(|pod| trial.remove_pod(*pod))?;
            victims.push(unit);
        }
    }
    Ok(victims)
}
