//! Pods that wait for an event (`unschedulablePods` in kube-scheduler).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use framework::{PluginName, Pod, PodKey, QueuedPod, Time};

use super::Place;
use super::hint::rejectors;

/// The position of a pod among the waiting pods: longest wait first, then first arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    since: Time,
    arrival: u64,
}

/// The properties of a pod that determine which events may move it. Groups of rejected pods sort
/// before groups of gated pods.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    gate: Option<PluginName>,
    scheduler_name: Arc<str>,
    /// Sorted by name.
    rejectors: Box<[PluginName]>,
}

/// Rejected and gated pods. They are grouped by the plugins that rejected or gate them, so that an
/// event visits only the groups that it may help.
#[derive(Debug, Default)]
pub(super) struct UnschedulablePods {
    /// Never iterated.
    slots: HashMap<PodKey, (Arc<Group>, Slot)>,
    /// No group is empty.
    groups: BTreeMap<Arc<Group>, BTreeMap<Slot, QueuedPod>>,
    gated: usize,
    /// Number of arrivals.
    arrivals: u64,
}

impl Group {
    fn of(pod: &QueuedPod) -> Self {
        Self {
            gate: pod.gating_plugin.clone(),
            scheduler_name: pod.pod.spec.scheduler_name.clone(),
            rejectors: rejectors(pod).cloned().collect(),
        }
    }

    const fn place(&self) -> Place {
        match self.gate {
            None => Place::Unschedulable,
            Some(_) => Place::Gated,
        }
    }

    /// Whether a PreEnqueue plugin gates the pods.
    pub(super) const fn is_gated(&self) -> bool {
        self.gate.is_some()
    }

    /// Returns the scheduler name of the pods.
    pub(super) fn scheduler_name(&self) -> &str {
        &self.scheduler_name
    }

    /// Returns the plugins that rejected the pods, by name.
    pub(super) fn rejectors(&self) -> &[PluginName] {
        &self.rejectors
    }

    /// Returns the plugins whose events may move the pods. Only events of the gating plugin move a
    /// gated pod.
    pub(super) fn waits_for(&self) -> &[PluginName] {
        self.gate.as_ref().map_or(&self.rejectors, std::slice::from_ref)
    }
}

impl UnschedulablePods {
    /// Number of pods that were rejected in an attempt.
    pub(super) fn rejected_count(&self) -> usize {
        self.slots.len() - self.gated
    }

    /// Number of pods that a PreEnqueue plugin gates.
    pub(super) const fn gated_count(&self) -> usize {
        self.gated
    }

    /// Returns the pod called `key`.
    pub(super) fn get(&self, key: &PodKey) -> Option<(Place, &QueuedPod)> {
        let (group, slot) = self.slots.get(key)?;
        Some((group.place(), self.groups.get(group)?.get(slot)?))
    }

    /// Returns every pod, rejected pods first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &QueuedPod)> {
        let groups = self.groups.iter();
        groups.flat_map(|(group, pods)| pods.values().map(|pod| (group.place(), pod)))
    }

    /// Returns the groups, each with its pods by [`Slot`].
    pub(super) fn groups(&self) -> impl Iterator<Item = (&Group, &BTreeMap<Slot, QueuedPod>)> {
        self.groups.iter().map(|(group, pods)| (&**group, pods))
    }

    /// Adds a pod whose name is new. The pod is gated if its record names a gating plugin.
    pub(super) fn insert(&mut self, pod: QueuedPod) -> Place {
        debug_assert!(!pod.has_no_rejector(), "no event can move {}", pod.pod.key);
        let slot = Slot { since: pod.timestamp, arrival: self.arrivals };
        self.arrivals += 1;
        let group = Group::of(&pod);
        let known = self.groups.get_key_value(&group).map(|(known, _)| known.clone());
        let group = known.unwrap_or_else(|| Arc::new(group));
        let place = group.place();
        self.gated += usize::from(group.is_gated());
        self.slots.insert(pod.pod.key.clone(), (group.clone(), slot));
        self.groups.entry(group).or_default().insert(slot, pod);
        place
    }

    /// Removes and returns the pod called `key`.
    pub(super) fn remove(&mut self, key: &PodKey) -> Option<QueuedPod> {
        let (group, slot) = self.slots.remove(key)?;
        self.gated -= usize::from(group.is_gated());
        let pods = self.groups.get_mut(&group)?;
        let pod = pods.remove(&slot);
        if pods.is_empty() {
            self.groups.remove(&group);
        }
        pod
    }

    /// Replaces the object of a pod, whose scheduler name is immutable. Returns whether there is one.
    pub(super) fn update(&mut self, pod: &Arc<Pod>) -> bool {
        let Some((group, slot)) = self.slots.get(&pod.key) else { return false };
        let queued = self.groups.get_mut(group).and_then(|pods| pods.get_mut(slot));
        queued.expect("a slot holds a pod").pod = pod.clone();
        true
    }

    /// Whether some pod, gated or not, has waited for more than `max_wait` at `now`.
    pub(super) fn any_overdue(&self, now: Time, max_wait: Duration) -> bool {
        let mut oldest = self.groups.values().filter_map(BTreeMap::first_key_value);
        oldest.any(|(slot, _)| slot.is_overdue(now, max_wait))
    }

    /// Returns the start of the longest wait of a rejected pod.
    pub(super) fn oldest_rejected(&self) -> Option<Time> {
        let rejected = self.groups.iter().filter(|(group, _)| !group.is_gated());
        rejected.filter_map(|(_, pods)| pods.first_key_value()).map(|(slot, _)| slot.since).min()
    }
}

impl Slot {
    /// Whether the pod has waited for more than `max_wait` at `now`.
    pub(super) fn is_overdue(&self, now: Time, max_wait: Duration) -> bool {
        now.since(self.since) > max_wait
    }
}

#[cfg(test)]
mod tests {
    use framework::testing::pod;

    use super::*;

    fn waiting(name: &str, seconds: i64, rejectors: &[&str], gate: Option<&str>) -> QueuedPod {
        let mut queued = QueuedPod::new(Arc::new(pod(name).build()), Time::from_secs(seconds));
        queued.unschedulable_plugins = rejectors.iter().map(|name| (*name).into()).collect();
        queued.gating_plugin = gate.map(PluginName::from);
        queued
    }

    /// The plugins each group waits for, and the pods of the group.
    fn groups(pods: &UnschedulablePods) -> Vec<(String, String)> {
        let names = |pods: &BTreeMap<Slot, QueuedPod>| {
            pods.values().map(|pod| pod.pod.key.name.to_string()).collect::<Vec<_>>().join(" ")
        };
        let plugins = |group: &Group| {
            group.waits_for().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        pods.groups().map(|(group, pods)| (plugins(group), names(pods))).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn pods_are_grouped_by_their_rejectors() {
        let mut pods = UnschedulablePods::default();
        pods.insert(waiting("late", 9, &["Fit"], None));
        pods.insert(waiting("both", 5, &["Fit", "Ports"], None));
        pods.insert(waiting("gated", 1, &["Fit", "Gates"], Some("Gates")));
        pods.insert(waiting("early", 5, &["Fit"], None));
        pods.insert(waiting("second", 5, &["Fit"], None));
        let expected = [("Fit", "early second late"), ("Fit Ports", "both"), ("Gates", "gated")];
        assert_eq!(groups(&pods), pairs(&expected));
        assert_eq!((pods.rejected_count(), pods.gated_count()), (4, 1));
        assert_eq!(pods.oldest_rejected(), Some(Time::from_secs(5)));
        let overdue = |seconds| pods.any_overdue(Time::from_secs(seconds), Duration::from_secs(5));
        assert_eq!((overdue(6), overdue(7)), (false, true));

        assert!(pods.remove(&PodKey::new("default", "both")).is_some());
        assert!(pods.remove(&PodKey::new("default", "both")).is_none());
        assert!(pods.remove(&PodKey::new("default", "gated")).is_some());
        assert_eq!(groups(&pods), pairs(&[("Fit", "early second late")]));
        assert_eq!((pods.rejected_count(), pods.gated_count()), (3, 0));
    }
}
