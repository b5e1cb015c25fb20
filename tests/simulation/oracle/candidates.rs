//! The choice of a node for evictions, computed naively.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{Pod, Time, Uid};

use super::budgets::Budgets;
use super::{Oracle, Place};

/// A node on which evictions make room for a pod.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// The name of the node.
    pub(crate) node: Arc<str>,
    /// The pods to evict.
    pub(crate) victims: BTreeSet<Uid>,
    /// The rank of the candidate, as Kubernetes defines it: the candidate of the lowest one is
    /// chosen.
    pub(crate) rank: Rank,
}

/// Number of victims that a budget protects; the highest priority, the sum of the priorities and
/// the number of victims; the start of the longest running of the most important ones, latest
/// first.
type Rank = (usize, i32, i64, usize, Reverse<Time>);

impl Oracle<'_> {
    /// Returns the candidates. Returns `None` if the victims are not certain: pods of equal
    /// importance may be spared in any order.
    pub(crate) fn candidates(
        &self,
        pod: &Pod,
        budgets: &Budgets,
        now: Time,
    ) -> Option<Vec<Candidate>> {
        let givers: BTreeSet<_> = self.givers(pod).into_iter().collect();
        let places = self.places.iter().filter(|place| givers.contains(&place.node.name));
        places.map(|place| self.candidate(place, pod, budgets, now)).collect()
    }

    fn candidate(
        &self,
        place: &Place,
        pod: &Pod,
        budgets: &Budgets,
        now: Time,
    ) -> Option<Candidate> {
        let start = |pod: &Pod| pod.start_time.get().unwrap_or(now);
        let mut lower: Vec<&Arc<Pod>> = place.lower(pod).collect();
        lower.sort_by_key(|pod| (Reverse(pod.priority()), start(pod)));
        let is_tied = |pair: &[&Arc<Pod>]| {
            pair[0].priority() == pair[1].priority() && start(pair[0]) == start(pair[1])
        };
        if lower.windows(2).any(is_tied) {
            return None;
        }
        let protected = self.protected_from(pod, &place.node.name, budgets, now);
        let mut gone: BTreeSet<Uid> = lower.iter().map(|pod| pod.uid.clone()).collect();
        // Protected pods are spared first, and the most important ones among them.
        let is_protected = |pod: &&&Arc<Pod>| protected.contains(&pod.uid);
        let (first, second): (Vec<_>, Vec<_>) = lower.iter().partition(is_protected);
        let order: Vec<&Arc<Pod>> = first.into_iter().chain(second).copied().collect();
        for spared in order {
            gone.remove(&spared.uid);
            if !self.takes_at(place, pod, &gone) {
                gone.insert(spared.uid.clone());
            }
        }
        lower.retain(|pod| gone.contains(&pod.uid));
        let highest = lower.first()?.priority();
        let most_important = lower.iter().filter(|pod| pod.priority() == highest);
        let rank = (
            gone.intersection(&protected).count(),
            highest,
            lower.iter().map(|pod| i64::from(pod.priority()) - i64::from(i32::MIN)).sum(),
            lower.len(),
            Reverse(most_important.map(|pod| start(pod)).min()?),
        );
        Some(Candidate { node: place.node.name.clone(), victims: gone, rank })
    }
}
