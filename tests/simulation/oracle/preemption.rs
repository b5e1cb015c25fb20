//! Whether evictions of pods of lower priority make room, computed naively.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{Pod, Time, Uid};

use super::budgets::Budgets;
use super::{Oracle, Place};

impl Oracle<'_> {
    /// Returns the nodes where the pod fits if all pods of lower priority are evicted. Nodes that
    /// need such a pod for the affinity of the preemptor are not searched.
    pub(crate) fn givers(&self, pod: &Pod) -> Vec<&Arc<str>> {
        self.names(|place| self.gives(place, pod, &BTreeSet::new()))
    }

    /// Returns those of these nodes where it also fits if no protected pod is evicted.
    pub(crate) fn kind_givers(&self, pod: &Pod, budgets: &Budgets, now: Time) -> Vec<&Arc<str>> {
        self.names(|place| {
            let protected = place.protected_from(pod, budgets, now);
            self.gives(place, pod, &BTreeSet::new()) && self.gives(place, pod, &protected)
        })
    }

    /// Whether the pod fits on a node without its pods of lower priority, except these.
    fn gives(&self, place: &Place, pod: &Pod, spared: &BTreeSet<Uid>) -> bool {
        let lower = place.lower(pod).filter(|other| !spared.contains(&other.uid));
        let lower: BTreeSet<Uid> = lower.map(|other| other.uid.clone()).collect();
        !lower.is_empty() && self.takes_at(place, pod, &lower)
    }

    fn names(&self, is_meant: impl Fn(&Place) -> bool) -> Vec<&Arc<str>> {
        let places = self.places.iter().filter(|place| is_meant(place));
        places.map(|place| &place.node.name).collect()
    }

    /// Returns the pods on a node that are victims of `pod` only without an alternative.
    pub(crate) fn protected_from(
        &self,
        pod: &Pod,
        node: &str,
        budgets: &Budgets,
        now: Time,
    ) -> BTreeSet<Uid> {
        let place = self.place(node);
        place.map_or_else(BTreeSet::new, |place| place.protected_from(pod, budgets, now))
    }

    /// Whether the pod fits on a node without these pods.
    pub(crate) fn takes_without(&self, node: &str, pod: &Pod, gone: &BTreeSet<Uid>) -> bool {
        self.place(node).is_some_and(|place| self.takes_at(place, pod, gone))
    }

    /// Whether a pod of lower priority is terminating on the node to which the pod is nominated, so
    /// that the pod waits for it.
    pub(crate) fn waits_for_victims(&self, pod: &Pod) -> bool {
        let place = pod.nominated_node_name().and_then(|node| self.place(node));
        place.is_some_and(|place| place.lower(pod).any(|other| other.terminating))
    }

    /// Whether victims are terminating on the nominated node of the pod, and their room is enough.
    pub(crate) fn room_is_being_made(&self, pod: &Pod) -> bool {
        let place = pod.nominated_node_name().and_then(|node| self.place(node));
        place.is_some_and(|place| {
            place.lower(pod).any(|other| other.terminating && other.preempted)
                && self.gives(place, pod, &BTreeSet::new())
        })
    }

    fn place(&self, node: &str) -> Option<&Place> {
        self.places.iter().find(|place| *place.node.name == *node)
    }
}

impl Place {
    /// Returns the pods of the node with lower priority than this one.
    pub(super) fn lower<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods.iter().filter(|other| other.priority() < pod.priority())
    }

    /// The most important pods use up budgets first, whichever pods become victims.
    fn protected_from(&self, pod: &Pod, budgets: &Budgets, now: Time) -> BTreeSet<Uid> {
        let mut lower: Vec<&Pod> = self.lower(pod).map(|other| &**other).collect();
        lower.sort_by_key(|pod| (Reverse(pod.priority()), pod.start_time.get().unwrap_or(now)));
        budgets.protect(lower.into_iter())
    }
}
