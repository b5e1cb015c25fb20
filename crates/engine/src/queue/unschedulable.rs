//! Pods that wait for an event (`unschedulablePods` in kube-scheduler).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use framework::{PluginName, Pod, PodKey, QueuedPod, Template, Time};

use super::backoff::{Backoff, is_backing_off};
use super::place::Place;

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
    /// The number of the class, if the pods are of one template and share the answer of each attempt.
    class: Option<u64>,
}

/// Returns the plugins that rejected a pod, by name.
pub(super) fn rejectors(pod: &QueuedPod) -> impl Iterator<Item = &PluginName> {
    pod.unschedulable_plugins.union(&pod.pending_plugins)
}

/// The properties of the pods of a class.
type ClassKey = (Template, Box<[PluginName]>);

/// Rejected and gated pods. They are grouped by the plugins that rejected or gate them, so that an
/// event visits only the groups that it may help. Rejected pods of one template that share their
/// answer are a group of their own, a *class*.
#[derive(Debug, Default)]
pub(super) struct UnschedulablePods {
    /// Never iterated.
    slots: HashMap<PodKey, (Arc<Group>, Slot)>,
    /// No group is empty.
    groups: BTreeMap<Arc<Group>, BTreeMap<Slot, QueuedPod>>,
    /// The group of each class.
    classes: HashMap<ClassKey, Arc<Group>>,
    gated: usize,
    /// Number of arrivals.
    arrivals: u64,
}

/// What the new object of a pod changes.
#[derive(Debug)]
pub(super) enum Replaced {
    /// The pod stays where it is.
    InPlace,
    /// The pod leaves this class.
    LeavesClass(Arc<Group>),
}

impl Group {
    /// Whether the pods are of one template and share the answer of each attempt.
    pub(super) const fn is_class(&self) -> bool {
        self.class.is_some()
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
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Number of pods that were rejected in an attempt.
    pub(super) fn rejected_count(&self) -> usize {
        self.slots.len() - self.gated
    }

    /// Number of classes.
    #[cfg(test)]
    pub(super) fn class_count(&self) -> usize {
        self.classes.len()
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

    /// Returns the group of the pod called `key`.
    pub(super) fn group(&self, key: &PodKey) -> Option<&Group> {
        Some(&self.slots.get(key)?.0)
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
        let group = self.group_of(&pod);
        let place = group.place();
        self.insert_at(group, slot, pod);
        place
    }

    fn insert_at(&mut self, group: Arc<Group>, slot: Slot, pod: QueuedPod) {
        self.gated += usize::from(group.is_gated());
        self.slots.insert(pod.pod.key.clone(), (group.clone(), slot));
        self.groups.entry(group).or_default().insert(slot, pod);
    }

    /// Returns the group that the pod belongs to, with a new one for the first pod of a class.
    fn group_of(&mut self, pod: &QueuedPod) -> Arc<Group> {
        let class_key = class_key(pod);
        if let Some(known) = class_key.as_ref().and_then(|key| self.classes.get(key)) {
            return known.clone();
        }
        let group = Group {
            gate: pod.gating_plugin.clone(),
            scheduler_name: pod.pod.spec.scheduler_name.clone(),
            rejectors: rejectors(pod).cloned().collect(),
            class: class_key.is_some().then_some(self.arrivals),
        };
        let known = self.groups.get_key_value(&group).map(|(known, _)| known.clone());
        let group = known.unwrap_or_else(|| Arc::new(group));
        if let Some(key) = class_key {
            self.classes.insert(key, group.clone());
        }
        group
    }

    /// Removes and returns the pod called `key`.
    pub(super) fn remove(&mut self, key: &PodKey) -> Option<QueuedPod> {
        Some(self.take(key)?.1)
    }

    /// Removes and returns the pod called `key` and its group.
    pub(super) fn take(&mut self, key: &PodKey) -> Option<(Arc<Group>, QueuedPod)> {
        let (group, slot) = self.slots.remove(key)?;
        self.gated -= usize::from(group.is_gated());
        let pods = self.groups.get_mut(&group)?;
        let pod = pods.remove(&slot)?;
        if pods.is_empty() {
            self.groups.remove(&group);
            if let Some(key) = class_key(&pod) {
                self.classes.remove(&key);
            }
        }
        Some((group, pod))
    }

    /// Replaces the object of a pod, whose scheduler name is immutable. Returns `None` if there is none. A
    /// pod whose template has changed leaves its class.
    pub(super) fn update(&mut self, pod: &Arc<Pod>) -> Option<Replaced> {
        let (class, slot) = self.slots.get(&pod.key).cloned()?;
        let queued = self.groups.get_mut(&class).and_then(|pods| pods.get_mut(&slot));
        let queued = queued.expect("a slot holds a pod");
        if !class.is_class() || Template::of(&queued.pod) == Template::of(pod) {
            queued.set_pod(pod.clone());
            return Some(Replaced::InPlace);
        }
        let mut queued = self.remove(&pod.key).expect("a slot holds a pod");
        queued.set_pod(pod.clone());
        queued.template_rejected = false;
        let group = self.group_of(&queued);
        self.insert_at(group, slot, queued);
        Some(Replaced::LeavesClass(class))
    }

    /// Returns the pod of a class to try first: the longest waiting pod that does not back off, or else
    /// the pod whose backoff ends first.
    pub(super) fn first_to_try<'a>(
        pods: impl Iterator<Item = (&'a Slot, &'a QueuedPod)>,
        backoff: Backoff,
        now: Time,
    ) -> Option<(&'a Slot, &'a QueuedPod)> {
        let mut first: Option<(Time, (&Slot, &QueuedPod))> = None;
        for (slot, pod) in pods {
            match pod.backoff_expiration.or_else(|| backoff.expiration(pod)) {
                Some(end) if is_backing_off(Some(end), now) => {
                    if first.is_none_or(|(earliest, _)| end < earliest) {
                        first = Some((end, (slot, pod)));
                    }
                }
                _ => return Some((slot, pod)),
            }
        }
        first.map(|(_, pod)| pod)
    }

    /// Returns the pods of a group by slot.
    pub(super) fn pods_of(&self, group: &Group) -> Option<&BTreeMap<Slot, QueuedPod>> {
        self.groups.get(group)
    }

    /// Notes that the pods of a class were rejected together with the waiting pod called `rejected`, by
    /// its rejectors.
    pub(super) fn reject_alike(&mut self, class: &Arc<Group>, rejected: &PodKey) {
        let Some((group, slot)) = self.slots.get(rejected).cloned() else { return };
        let first = self.pods_of(class).and_then(BTreeMap::first_key_value);
        let Some(before) = first.and_then(|(_, first)| class_key(first)) else { return };
        let rejected = &self.groups[&group][&slot];
        if group == *class || before.0 != Template::of(&rejected.pod) {
            return;
        }
        let plugins = rejected.unschedulable_plugins.clone();
        self.classes.remove(&before);
        for (slot, mut pod) in self.groups.remove(class).into_iter().flatten() {
            pod.unschedulable_plugins.clone_from(&plugins);
            self.insert_at(group.clone(), slot, pod);
        }
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

/// Returns the properties of the class that the pod belongs to, if it shares its answer.
fn class_key(pod: &QueuedPod) -> Option<ClassKey> {
    let shares = pod.template_rejected && pod.gating_plugin.is_none();
    shares.then(|| (Template::of(&pod.pod), rejectors(pod).cloned().collect()))
}

impl Slot {
    /// Whether the pod has waited for more than `max_wait` at `now`.
    pub(super) fn is_overdue(&self, now: Time, max_wait: Duration) -> bool {
        now.since(self.since) > max_wait
    }
}

#[cfg(test)]
mod tests {
    use testkit::pod;

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
