//! Pods that are evicted together or not at all under quotas.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::super::units::{priority_of, start_of};
use super::{Level, Reclaim, Right};
use crate::quota::{Amounts, QuotaIx, QuotaView, Sums};
use crate::{BudgetIx, NodeIx, Pod, PodGroup, PodGroupKey, PodIx, SchedulingPolicy, Time};

/// Pods that are evicted together or not at all: those of a gang that it cannot do without, those
/// of a PodGroup with the disruption mode `all`, or one pod.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// The pods, at least one.
    pub(super) pods: SmallVec<[PodIx; 1]>,
    pub(super) right: Right,
    /// The quota of the pods, and what they use.
    quota: Option<(QuotaIx, Amounts)>,
    pub(super) importance: Importance,
    /// Whether all pods are ending anyway.
    pub(super) ends: bool,
    /// Number of pods whose eviction violates a PodDisruptionBudget if all more important units are
    /// evicted too.
    pub(super) violations: usize,
    /// The gang whose needed members these are. Its other members go with them.
    pub(super) core_of: Option<PodGroupKey>,
}

/// The importance of a unit; the most important is the smallest. Pods that have not borrowed go
/// before pods that have; then by priority, members that a gang needs before others, and the
/// earliest start first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Importance {
    has_borrowed: bool,
    priority: Reverse<i32>,
    is_surplus: bool,
    start: Time,
    place: usize,
}

impl Reclaim<'_> {
    /// Returns the units with pods on these nodes, the most important first.
    pub(super) fn units(&self, nodes: impl Iterator<Item = NodeIx>) -> Vec<Unit> {
        let mut units = Vec::new();
        // Never iterated.
        let mut known: HashSet<PodGroupKey> = HashSet::new();
        for (ix, pod) in nodes.flat_map(|node| self.cluster.node(node).placed()) {
            let priority = priority_of(self.cluster, pod);
            let leaves = |pod: &Pod| self.cluster.is_evicted(&pod.uid);
            let right = self.right_to(pod, priority);
            if right.is_none() && !leaves(pod) {
                continue;
            }
            let group = self.cluster.pod_group_of(pod);
            if self.spared.is_some() && group.as_ref().map(|(key, _)| key) == self.spared {
                continue;
            }
            let together = group.and_then(|(key, group)| {
                let pods = self.pods_together(&key, group, ix)?;
                Some((key, pods))
            });
            let (key, pods) = match together {
                Some((key, pods)) if known.insert(key.clone()) => (Some(key), pods),
                Some(_) => continue,
                None => (None, SmallVec::from_elem(ix, 1)),
            };
            let mut placed = pods.iter().map(|ix| &*self.cluster.pod(*ix).pod);
            let right = match placed.clone().all(leaves) {
                true => Right::Priority,
                false => match right.filter(|_| !placed.any(self.exempts)) {
                    Some(right) => right,
                    None => continue,
                },
            };
            let place = units.len();
            units.push(self.unit(pods, right, priority, key, place));
        }
        units.sort_by_key(|unit| unit.importance);
        self.mark_violations(&mut units);
        units
    }

    fn unit(
        &self,
        pods: SmallVec<[PodIx; 1]>,
        right: Right,
        priority: i32,
        core_of: Option<PodGroupKey>,
        place: usize,
    ) -> Unit {
        let books = self.books();
        let placed = || pods.iter().map(|ix| &self.cluster.pod(*ix).pod);
        let quota = placed().next().and_then(|pod| books.quota_of(pod)).map(QuotaView::ix);
        let mut amounts = Amounts::default();
        let leaves = |pod: &Pod| self.cluster.is_evicted(&pod.uid);
        let staying = placed().filter(|pod| !leaves(pod));
        staying.for_each(|pod| amounts.add_all(&books.used_by(pod)));
        let start = placed().map(|pod| start_of(pod, self.wall_time)).min();
        let is_surplus = core_of.is_none()
            && placed()
                .any(|pod| self.cluster.pod_group_of(pod).is_some_and(|(_, own)| is_gang(own)));
        Unit {
            right,
            quota: quota.map(|quota| (quota, amounts)),
            importance: Importance {
                has_borrowed: right != Right::Priority,
                priority: Reverse(priority),
                is_surplus,
                start: start.unwrap_or(self.wall_time),
                place,
            },
            ends: placed().all(|pod| pod.terminating || leaves(pod)),
            violations: 0,
            core_of,
            pods,
        }
    }

    /// Returns the pods that are evicted with a pod, if it belongs to a group that is evicted
    /// whole, or to the members that a gang cannot do without.
    fn pods_together(
        &self,
        key: &PodGroupKey,
        group: &Arc<PodGroup>,
        pod: PodIx,
    ) -> Option<SmallVec<[PodIx; 1]>> {
        let state = self.cluster.pod_group_state(key)?;
        if group.is_disrupted_whole {
            return Some(state.scheduled().collect());
        }
        if !is_gang(group) {
            return None;
        }
        let core = self.core(key, group);
        core.contains(&pod).then_some(core)
    }

    /// Returns the members that a gang cannot do without: of those with a node the oldest.
    fn core(&self, key: &PodGroupKey, group: &Arc<PodGroup>) -> SmallVec<[PodIx; 1]> {
        let Some(state) = self.cluster.pod_group_state(key) else { return SmallVec::new() };
        let mut members: SmallVec<[PodIx; 1]> = state.scheduled().collect();
        let start = |ix: &PodIx| {
            let pod = &self.cluster.pod(*ix).pod;
            (pod.terminating, start_of(pod, self.wall_time))
        };
        members.sort_by_key(start);
        members.truncate(usize::try_from(group.min_count()).unwrap_or(usize::MAX));
        members
    }

    /// Takes a unit off the books, or with the sign -1 puts it back.
    pub(super) fn take_off(&self, less: &mut Sums, unit: &Unit, sign: i128) {
        if let Some((quota, amounts)) = &unit.quota {
            self.books().sum_up(less, *quota, amounts, sign);
        }
    }

    /// Takes units off the books, the least important first: all that have no more right to stay
    /// than their priority, and those of quotas until they have come down to their shares, then to
    /// their guarantees. Calls `take` for each.
    ///
    /// # Errors
    /// That of `take`.
    pub(super) fn take_all<E>(
        &self,
        units: Vec<Unit>,
        less: &mut Sums,
        mut take: impl FnMut(Unit) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = units;
        for level in Level::ALL {
            let mut kept = Vec::new();
            for unit in left.into_iter().rev() {
                if self.may_take(level, &unit, less) {
                    self.take_off(less, &unit, 1);
                    take(unit)?;
                } else {
                    kept.push(unit);
                }
            }
            kept.reverse();
            left = kept;
        }
        Ok(())
    }

    /// Whether the unit may be taken beside what is gone.
    pub(super) fn may_take(&self, level: Level, unit: &Unit, less: &Sums) -> bool {
        match unit.right {
            Right::Priority => true,
            Right::Borrowed(quota) => self.is_above(level, quota, less),
        }
    }

    /// Returns the pods of the victims, the most important first. With the needed members of a gang
    /// go the others.
    pub(super) fn pods_of(&self, victims: &[Unit]) -> Vec<PodIx> {
        let mut pods: Vec<PodIx> = Vec::new();
        let mut add = |ix: PodIx| {
            if !pods.contains(&ix) {
                pods.push(ix);
            }
        };
        for unit in victims {
            unit.pods.iter().copied().for_each(&mut add);
            let of_group = unit.core_of.as_ref().and_then(|key| self.cluster.pod_group_state(key));
            of_group.into_iter().flat_map(|state| state.scheduled()).for_each(&mut add);
        }
        pods
    }

    /// Counts the pods of each unit whose eviction violates a PodDisruptionBudget.
    fn mark_violations(&self, units: &mut [Unit]) {
        let mut left: BTreeMap<BudgetIx, i64> = BTreeMap::new();
        for unit in units {
            for pod in &unit.pods {
                let mut violates = false;
                for (ix, budget) in self.cluster.disruption_budgets_of(*pod) {
                    let left = left.entry(ix).or_insert_with(|| budget.disruptions_left());
                    *left -= 1;
                    violates |= *left < 0;
                }
                unit.violations += usize::from(violates);
            }
        }
    }
}

/// Whether the group needs several members.
fn is_gang(group: &PodGroup) -> bool {
    matches!(group.policy, SchedulingPolicy::Gang { min_count } if min_count > 1)
}
