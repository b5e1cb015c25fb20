//! Pods that wait for something to happen.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use framework::{PluginName, Pod, PodKey, QueuedPod, Time};

use super::Place;
use super::hint::rejectors;

/// A pod's place in line: those that wait longest come first, then those that came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    since: Time,
    arrival: u64,
}

/// Rejected and gated pods, indexed by the plugins that keep them here, so that an event is only
/// put to pods it might help.
#[derive(Debug, Default)]
pub(super) struct UnschedulablePods {
    /// Never iterated.
    slots: HashMap<PodKey, Slot>,
    rejected: BTreeMap<Slot, QueuedPod>,
    gated: BTreeMap<Slot, QueuedPod>,
    /// Rejected pods under each of their rejectors, gated pods under the plugin that gates them.
    by_plugin: BTreeMap<PluginName, BTreeSet<Slot>>,
    /// Counts arrivals.
    arrivals: u64,
}

impl UnschedulablePods {
    /// Number of pods that were rejected in an attempt.
    pub(super) fn rejected_count(&self) -> usize {
        self.rejected.len()
    }

    /// Number of pods that a PreEnqueue plugin holds back.
    pub(super) fn gated_count(&self) -> usize {
        self.gated.len()
    }

    /// The pod called `key`.
    pub(super) fn get(&self, key: &PodKey) -> Option<(Place, &QueuedPod)> {
        let slot = self.slots.get(key)?;
        let rejected = self.rejected.get(slot).map(|pod| (Place::Unschedulable, pod));
        rejected.or_else(|| Some((Place::Gated, self.gated.get(slot)?)))
    }

    /// The pod at a place in line.
    pub(super) fn at(&self, slot: Slot) -> Option<&QueuedPod> {
        self.rejected.get(&slot).or_else(|| self.gated.get(&slot))
    }

    /// Every pod.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &QueuedPod)> {
        let rejected = self.rejected.values().map(|pod| (Place::Unschedulable, pod));
        rejected.chain(self.gated.values().map(|pod| (Place::Gated, pod)))
    }

    /// Adds a pod whose name is not here yet; it is gated if it says which plugin gates it.
    pub(super) fn insert(&mut self, pod: QueuedPod) -> Place {
        debug_assert!(!pod.has_no_rejector(), "{} could wait for nothing", pod.pod.key);
        let slot = Slot { since: pod.timestamp, arrival: self.arrivals };
        self.arrivals += 1;
        for plugin in waits_for(&pod) {
            self.by_plugin.entry(plugin.clone()).or_default().insert(slot);
        }
        self.slots.insert(pod.pod.key.clone(), slot);
        if pod.gating_plugin.is_some() {
            self.gated.insert(slot, pod);
            Place::Gated
        } else {
            self.rejected.insert(slot, pod);
            Place::Unschedulable
        }
    }

    /// Takes the pod called `key`.
    pub(super) fn remove(&mut self, key: &PodKey) -> Option<QueuedPod> {
        let slot = self.slots.remove(key)?;
        let pod = self.rejected.remove(&slot).or_else(|| self.gated.remove(&slot))?;
        for plugin in waits_for(&pod) {
            if let Some(slots) = self.by_plugin.get_mut(plugin) {
                slots.remove(&slot);
            }
        }
        Some(pod)
    }

    /// Replaces the object of a pod; `false` if it is not here.
    pub(super) fn update(&mut self, pod: &Arc<Pod>) -> bool {
        let Some(slot) = self.slots.get(&pod.key) else { return false };
        let queued = self.rejected.get_mut(slot).or_else(|| self.gated.get_mut(slot));
        queued.expect("a slot holds a pod").pod = pod.clone();
        true
    }

    /// The pods that any of these plugins keeps here, in line.
    pub(super) fn kept_by<'a>(&self, plugins: impl Iterator<Item = &'a PluginName>) -> Vec<Slot> {
        let kept = plugins.filter_map(|plugin| self.by_plugin.get(plugin)).flatten();
        in_line(kept.copied().collect())
    }

    /// All rejected pods, and the gated ones that any of these plugins keeps here, in line.
    pub(super) fn rejected_or_kept_by<'a>(
        &self,
        plugins: impl Iterator<Item = &'a PluginName>,
    ) -> Vec<Slot> {
        let mut slots = self.kept_by(plugins);
        slots.extend(self.rejected.keys());
        in_line(slots)
    }

    /// Whether some pod, gated or not, has waited for more than `patience` at `now`.
    pub(super) fn any_overdue(&self, now: Time, patience: Duration) -> bool {
        let oldest = [self.rejected.first_key_value(), self.gated.first_key_value()];
        oldest.into_iter().flatten().any(|(slot, _)| slot.is_overdue(now, patience))
    }

    /// Of these pods the ones that have waited for more than `patience` at `now`.
    pub(super) fn overdue(slots: Vec<Slot>, now: Time, patience: Duration) -> Vec<Slot> {
        slots.into_iter().take_while(|slot| slot.is_overdue(now, patience)).collect()
    }

    /// Since when the rejected pod waits that waits longest.
    pub(super) fn oldest_rejected(&self) -> Option<Time> {
        self.rejected.first_key_value().map(|(slot, _)| slot.since)
    }
}

impl Slot {
    fn is_overdue(&self, now: Time, patience: Duration) -> bool {
        now.since(self.since) > patience
    }
}

/// The plugins whose events may release a pod. A gated pod ignores what its other rejectors wait
/// for.
fn waits_for(pod: &QueuedPod) -> impl Iterator<Item = &PluginName> {
    let gate = pod.gating_plugin.as_ref();
    gate.into_iter().chain(rejectors(pod).filter(move |_| gate.is_none()))
}

/// Sorted, each slot once.
fn in_line(mut slots: Vec<Slot>) -> Vec<Slot> {
    // Stable on purpose: it merges the sorted runs the indexes deliver.
    slots.sort();
    slots.dedup();
    slots
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

    fn names(pods: &UnschedulablePods, slots: Vec<Slot>) -> Vec<&str> {
        slots.into_iter().map(|slot| &*pods.at(slot).unwrap().pod.key.name).collect()
    }

    #[test]
    fn pods_are_found_by_what_keeps_them() {
        let mut pods = UnschedulablePods::default();
        pods.insert(waiting("late", 9, &["Fit"], None));
        pods.insert(waiting("both", 5, &["Fit", "Ports"], None));
        pods.insert(waiting("gated", 1, &["Fit", "Gates"], Some("Gates")));
        pods.insert(waiting("ports", 5, &["Ports"], None));
        let plugins =
            |names: &[&str]| names.iter().map(|n| PluginName::from(*n)).collect::<Vec<_>>();
        let rows: [(&[&str], &[&str]); 5] = [
            (&["Fit"], &["both", "late"]),
            (&["Fit", "Ports"], &["both", "ports", "late"]),
            (&["Gates"], &["gated"]),
            (&["Ports", "Gates"], &["gated", "both", "ports"]),
            (&["Nobody"], &[]),
        ];
        for (keepers, expected) in rows {
            let kept = pods.kept_by(plugins(keepers).iter());
            assert_eq!(names(&pods, kept), expected, "{keepers:?}");
        }
        let all = pods.rejected_or_kept_by(plugins(&["Gates"]).iter());
        assert_eq!(names(&pods, all), ["gated", "both", "ports", "late"]);
        assert_eq!((pods.rejected_count(), pods.gated_count()), (3, 1));

        assert!(pods.remove(&PodKey::new("default", "both")).is_some());
        assert!(pods.remove(&PodKey::new("default", "both")).is_none());
        let kept = pods.kept_by(plugins(&["Fit", "Ports"]).iter());
        assert_eq!(names(&pods, kept), ["ports", "late"]);
    }
}
