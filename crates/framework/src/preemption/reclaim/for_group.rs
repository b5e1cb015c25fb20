//! The victims of a pod group.

use std::cell::RefCell;
use std::convert::Infallible;

use super::units::Unit;
use super::{Exempts, Reclaim, leaving};
use crate::preemption::groups::{Candidate, preempt_among};
use crate::quota::{Amounts, QuotaView, Reading, Request};
use crate::{Handle, PluginName, Pod, PodGroupPostFilterResult, PodGroupTrial, PodIx, QueuedPod};

/// Finds pods to evict so that enough members of a group fit on nodes and into their quota,
/// nominates the members to their nodes and requests the evictions. The group as a whole must stay
/// within its guarantee to take back what others have borrowed. Of each quota above its guarantee,
/// the least important pods are candidates, until it has come down to that.
pub fn reclaim_for_group(
    plugin: &PluginName,
    trial: &mut dyn PodGroupTrial,
    reading: Reading,
    exempts: &dyn Fn(&Pod, &Handle<'_>) -> bool,
) -> PodGroupPostFilterResult {
    preempt_among(plugin, trial, |trial, priority| {
        let handle = trial.handle();
        let exempts = |pod: &Pod| exempts(pod, &handle);
        let reclaim = of_group(trial, &handle, reading, priority, &exempts);
        let units = reclaim.units(handle.cluster.nodes().iter());
        reclaim.candidates(reclaim.takeable(units))
    })
}

/// Returns the preemptor that a group is: its members that are still needed.
fn of_group<'a>(
    trial: &'a dyn PodGroupTrial,
    handle: &Handle<'a>,
    reading: Reading,
    priority: i32,
    exempts: Exempts<'a>,
) -> Reclaim<'a> {
    let (cluster, members) = (handle.cluster, trial.members());
    let books = cluster.quotas();
    let group = cluster.pod_group(trial.group());
    let scheduled = cluster.pod_group_state(trial.group()).map_or(0, |own| own.scheduled_count());
    let needed = group.map_or(1, |group| group.min_count()).saturating_sub(scheduled);
    let needed = usize::try_from(needed).unwrap_or(usize::MAX).clamp(1, members.len().max(1));
    let mut asked = Amounts::default();
    members.iter().take(needed).for_each(|own| asked.add_all(&books.request_of(&own.pod)));
    let quota_of = |own: &QueuedPod| books.quota_of(&own.pod).map(QuotaView::ix);
    let quota = members.first().and_then(quota_of);
    Reclaim {
        cluster,
        reading,
        priority,
        quota,
        request: Request { own: asked.clone(), ..Request::default() },
        asked,
        spared: Some(trial.group()),
        exempts,
        leaving: leaving(cluster),
        wall_time: handle.wall_time(),
        shares: RefCell::default(),
        gives: RefCell::default(),
    }
}

impl Reclaim<'_> {
    /// Returns the units that may all be taken, from the least important on: a quota gives no more
    /// once it has come down to its guarantee.
    fn takeable(&self, units: Vec<Unit>) -> Vec<Unit> {
        let mut less = self.leaving.clone();
        let mut taken = Vec::new();
        let take = |unit| {
            taken.push(unit);
            Ok::<(), Infallible>(())
        };
        let Ok(()) = self.take_all(units, &mut less, take);
        taken.sort_by_key(|unit| (unit.ends, unit.violations == 0, unit.importance));
        taken
    }

    fn candidates(&self, units: Vec<Unit>) -> Vec<Candidate> {
        let mut order: Vec<usize> = (0..units.len()).collect();
        order.sort_by_key(|place| units[*place].importance);
        let mut ranks = vec![0; units.len()];
        order.into_iter().enumerate().for_each(|(rank, place)| ranks[place] = rank);
        let pods =
            |pods: &[PodIx]| pods.iter().map(|pod| self.cluster.pod(*pod).pod.clone()).collect();
        let candidate = |(unit, rank): (Unit, usize)| Candidate {
            pods: pods(&unit.pods),
            followers: pods(&self.pods_of(std::slice::from_ref(&unit))[unit.pods.len()..]),
            rank,
            is_victim: false,
        };
        units.into_iter().zip(ranks).map(candidate).collect()
    }
}
