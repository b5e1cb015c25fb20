//! Whether evicting pods of lower priority makes room.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{Pod, Time, Uid};

use super::budgets::Budgets;
use super::{Oracle, Place};

impl Oracle<'_> {
    /// The nodes that take the pod if all pods of lower priority go. That others would, where it
    /// has to be near such a pod, is not looked for.
    pub(crate) fn givers(&self, pod: &Pod) -> Vec<&Arc<str>> {
        self.names(|place| self.gives(place, pod, &BTreeSet::new()))
    }

    /// Those that take it also if none goes that a budget protects.
    pub(crate) fn kind_givers(&self, pod: &Pod, budgets: &Budgets, now: Time) -> Vec<&Arc<str>> {
        self.names(|place| {
            let protected = place.protected_from(pod, budgets, now);
            self.gives(place, pod, &BTreeSet::new()) && self.gives(place, pod, &protected)
        })
    }

    /// Whether a node takes the pod if its pods of lower priority go, but for these.
    fn gives(&self, place: &Place, pod: &Pod, spared: &BTreeSet<Uid>) -> bool {
        let lower = place.lower(pod).filter(|other| !spared.contains(&other.uid));
        let lower: BTreeSet<Uid> = lower.map(|other| other.uid.clone()).collect();
        !lower.is_empty() && self.takes_at(place, pod, &lower)
    }

    fn names(&self, is_meant: impl Fn(&Place) -> bool) -> Vec<&Arc<str>> {
        let places = self.places.iter().filter(|place| is_meant(place));
        places.map(|place| &place.node.name).collect()
    }

    /// Those of the pods on a node that have to make room for `pod` only if there is no other way.
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

    /// Whether a node takes the pod if these pods go.
    pub(crate) fn takes_without(&self, node: &str, pod: &Pod, gone: &BTreeSet<Uid>) -> bool {
        self.place(node).is_some_and(|place| self.takes_at(place, pod, gone))
    }

    /// Some pod of lower priority is ending on the node to which the pod is nominated: that is what
    /// it waits for.
    pub(crate) fn waits_for_victims(&self, pod: &Pod) -> bool {
        let place = pod.nominated_node_name.as_ref().and_then(|node| self.place(node));
        place.is_some_and(|place| place.lower(pod).any(|other| other.terminating))
    }

    /// Room is being made for the pod where it is nominated to, and it would do.
    pub(crate) fn room_is_being_made(&self, pod: &Pod) -> bool {
        let place = pod.nominated_node_name.as_ref().and_then(|node| self.place(node));
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
    /// Its pods of lower priority than this one.
    fn lower<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods.iter().filter(|other| other.priority() < pod.priority())
    }

    /// Budgets are used up by the most important pods first, of whichever has to go in the end.
    fn protected_from(&self, pod: &Pod, budgets: &Budgets, now: Time) -> BTreeSet<Uid> {
        let mut lower: Vec<&Pod> = self.lower(pod).map(|other| &**other).collect();
        lower.sort_by_key(|pod| (Reverse(pod.priority()), pod.start_time.unwrap_or(now)));
        budgets.protect(lower.into_iter())
    }
}
