//! The victims of a pod on one node, and elsewhere if the limits of its quota ask for more.

use super::units::Unit;
use super::{Level, Reclaim};
use crate::preemption::Victims;
use crate::{NodeIx, PodIx, Status, Trial};

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const OVER_QUOTA: &str = "global quota max exceeded";

/// The units of the whole cluster, which are looked up once for all nodes, and only if a node needs
/// victims elsewhere.
#[derive(Debug, Default)]
pub struct Elsewhere(Option<Vec<Unit>>);

/// A victim, and whether it makes room on the node.
struct Victim {
    unit: Unit,
    is_here: bool,
}

/// Selects the victims with which a pod fits on a node and into its quota. First all pods of the
/// node that the preemptor may take are taken, the least important first, as long as their quotas
/// are above their guarantees. If its quota still has no room, pods of other nodes follow. Then as
/// many as possible are put back: first those whose eviction violates a PodDisruptionBudget, then
/// the others, the most important first. Pods that end anyway are put back last. Pods that are
/// evicted for others count as gone in their quotas.
///
/// # Errors
/// No pod may be taken, the pod does not fit without them, or a plugin fails.
pub fn reclaim_on_node(
    reclaim: &Reclaim<'_>,
    node: NodeIx,
    trial: &mut dyn Trial,
    elsewhere: &mut Elsewhere,
) -> Result<Victims, Status> {
    let mut less = reclaim.leaving.clone();
    let mut victims: Vec<Victim> = Vec::new();
    reclaim.take_all(reclaim.units(std::iter::once(node)), &mut less, |unit| {
        unit.pods.iter().try_for_each(|pod| trial.remove_pod(*pod))?;
        victims.push(Victim { unit, is_here: true });
        Ok::<(), Status>(())
    })?;
    trial.run_filters().ok()?;
    if !reclaim.fits_quota(&less) {
        let all = elsewhere.0.get_or_insert_with(|| reclaim.units(reclaim.cluster.nodes().iter()));
        let by_level = Level::ALL
            .into_iter()
            .flat_map(|level| all.iter().rev().map(move |unit| (level, unit)));
        for (level, unit) in by_level {
            if reclaim.fits_quota(&less) {
                break;
            }
            let is_known = |victim: &Victim| victim.unit.pods.contains(&unit.pods[0]);
            if !victims.iter().any(is_known) && reclaim.may_take(level, unit, &less) {
                reclaim.take_off(&mut less, unit, 1);
                victims.push(Victim { unit: unit.clone(), is_here: false });
            }
        }
        if !reclaim.fits_quota(&less) {
            return Err(Status::unschedulable(OVER_QUOTA));
        }
    }
    if victims.is_empty() {
        return Err(Status::unresolvable(NO_VICTIMS));
    }
    victims.sort_by_key(|Victim { unit, .. }| (unit.ends, unit.violations == 0, unit.importance));
    let mut kept = Vec::new();
    for victim in victims {
        let Victim { unit, is_here } = &victim;
        if *is_here {
            unit.pods.iter().try_for_each(|pod| trial.add_pod(*pod))?;
        }
        reclaim.take_off(&mut less, unit, -1);
        let fits = reclaim.fits_quota(&less) && (!is_here || trial.run_filters().is_success());
        if !fits {
            if *is_here {
                unit.pods.iter().try_for_each(|pod| trial.remove_pod(*pod))?;
            }
            reclaim.take_off(&mut less, unit, 1);
            kept.push(victim.unit);
        }
    }
    kept.sort_by_key(|unit| unit.importance);
    let pods = reclaim.pods_of(&kept);
    let pod = |ix: PodIx| reclaim.cluster.pod(ix).pod.clone();
    Ok(Victims {
        pdb_violations: kept.iter().map(|unit| unit.violations).sum(),
        pods: pods.into_iter().map(pod).collect(),
    })
}
