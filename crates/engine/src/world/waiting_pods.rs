//! The pods that wait in Permit.

use std::collections::BTreeSet;
use std::time::Duration;

use framework::{PluginName, Status, Time, Uid, WaitingPod, WaitingPods};

use crate::go_duration::go_duration;

/// The waiting pods, indexed by the earliest deadline of each.
#[derive(Debug, Default)]
pub(crate) struct WaitingPodsMap {
    pods: WaitingPods,
    by_deadline: BTreeSet<(Time, Uid)>,
}

/// A plugin whose wait has timed out.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpiredWait {
    /// The pod.
    pub pod: Uid,
    /// The plugin.
    pub plugin: PluginName,
    /// The timeout that the plugin set.
    pub timeout: Duration,
}

impl ExpiredWait {
    /// Returns the status with which the plugin rejects the pod.
    pub fn status(&self) -> Status {
        let (plugin, waited) = (&self.plugin, go_duration(self.timeout));
        let text = format!("rejected due to timeout after waiting {waited} at plugin {plugin}");
        Status::unschedulable(text).by(plugin)
    }
}

impl WaitingPodsMap {
    pub(crate) const fn pods(&self) -> &WaitingPods {
        &self.pods
    }

    pub(crate) fn insert(&mut self, pod: WaitingPod) {
        let uid = pod.pod.uid.clone();
        self.remove(&uid);
        if let Some(deadline) = deadline(&pod) {
            self.by_deadline.insert((deadline, uid.clone()));
        }
        self.pods.insert(uid, pod);
    }

    pub(crate) fn remove(&mut self, uid: &Uid) -> Option<WaitingPod> {
        let pod = self.pods.remove(uid)?;
        if let Some(deadline) = deadline(&pod) {
            self.by_deadline.remove(&(deadline, uid.clone()));
        }
        Some(pod)
    }

    /// Ends the wait of one plugin. Returns the pod once no plugin is left to wait for.
    pub(crate) fn allow(&mut self, uid: &Uid, plugin: &PluginName) -> Option<WaitingPod> {
        let mut pod = self.remove(uid)?;
        pod.pending.remove(plugin);
        if pod.pending.is_empty() {
            return Some(pod);
        }
        self.insert(pod);
        None
    }

    /// Returns the earliest wait that has timed out. The pod stays until it is removed.
    pub(crate) fn first_expired(&self, now: Time) -> Option<ExpiredWait> {
        let (_, uid) = self.by_deadline.first().filter(|(deadline, _)| *deadline <= now)?;
        let pod = self.pods.get(uid)?;
        let (plugin, deadline) = pod.pending.iter().min_by_key(|(_, deadline)| **deadline)?;
        let timeout = deadline.since(pod.since);
        Some(ExpiredWait { pod: uid.clone(), plugin: plugin.clone(), timeout })
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }
}

fn deadline(pod: &WaitingPod) -> Option<Time> {
    pod.pending.values().min().copied()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::NodeIx;
    use testkit::pod;

    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_secs(seconds)
    }

    fn waiting(name: &str, pending: &[(&str, i64)]) -> WaitingPod {
        WaitingPod {
            pod: Arc::new(pod(name).build()),
            node: NodeIx::new(0),
            since: at(1),
            pending: pending.iter().map(|(name, end)| ((*name).into(), at(*end))).collect(),
        }
    }

    #[test]
    fn waits_expire_in_the_order_of_their_deadlines() {
        let mut map = WaitingPodsMap::default();
        map.insert(waiting("late", &[("P", 9)]));
        map.insert(waiting("early", &[("P", 7), ("Q", 5)]));
        assert_eq!((map.next_deadline(), map.first_expired(at(4))), (Some(at(5)), None));
        let expired = map.first_expired(at(8)).unwrap();
        let early = waiting("early", &[]).pod.uid.clone();
        assert_eq!((&expired.pod, &*expired.plugin), (&early, "Q"));
        assert_eq!(expired.timeout, Duration::from_secs(4));

        assert!(map.allow(&early, &"Q".into()).is_none());
        assert_eq!(map.next_deadline(), Some(at(7)), "the other plugin still waits");
        assert!(map.allow(&early, &"P".into()).is_some());
        assert_eq!(map.next_deadline(), Some(at(9)));
        assert!(map.remove(&waiting("late", &[]).pod.uid).is_some());
        assert_eq!((map.next_deadline(), map.pods().len()), (None, 0));
    }
}
