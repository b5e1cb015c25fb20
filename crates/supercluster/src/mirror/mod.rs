//! The mirror between original pods and their delegates.
//!
//! | Change | Effect |
//! |---|---|
//! | status of the delegate | written on the original |
//! | event of the delegate | created on the original, at most `MAX_SHOWN` |
//! | no answer of the agent for [`UNREACHABLE_AFTER`] | condition Ready of the original is False |
//! | original is deleted | attempts are sealed, the delegate is deleted, then the finalizer is removed |
//! | delegate is gone, and its agent confirms it | the original is deleted, and its owner creates another one; one that may be replaced is placed anew |
//! | delegate is left over from an earlier try, or its original is gone | the delegate is deleted |
//! | original was taken out of a lost cluster | its status is Pending |
//! | its cluster is drained, and it may be replaced | the delegate is evicted, when the budgets of its cluster allow it |
//!
//! It compares both sides like a controller: a changed pod is put into a set, and is looked at as a
//! whole. Of several schedulers, the one whose intent is on the pod acts. Another one waits, and
//! acts if that scheduler has not (`duty`).
//!
//! Inputs are methods. [`Mirror::next`] returns what is to be done about a pod, and the caller says
//! with [`Mirror::done`] what came of it.

mod duty;
mod in_flight;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework::{PodKey, Time, Uid};
use serde_json::Value;

pub use self::plan::{Plan, ShownEvent};

use self::duty::Duty;
use self::in_flight::InFlight;
use crate::message::{Delegate, DelegateEvent, DelegateList};
use crate::scheduler::{OriginalPod, SchedulerConfig};

/// Keeps an original pod until its delegate is gone. Written with the intent, before there can be a
/// delegate.
pub const FINALIZER: &str = "supercluster.loadmaster.io/delegate";
/// Time without an answer of an agent after which its pods are not Ready, as for a node.
pub const UNREACHABLE_AFTER: Duration = Duration::from_secs(40);
/// Maximum number of events of its delegates that are shown on a pod by this process.
const MAX_SHOWN: usize = 50;
/// First pause before a pod is looked at again whose writes have failed; doubled up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The members as the mirror needs them.
pub trait Roster {
    /// Returns the index of the member of this name; `None` if it is not a member.
    fn named(&self, name: &str) -> Option<usize>;

    /// Whether pods that may be replaced leave the member.
    fn is_draining(&self, member: usize) -> bool;
}

/// An original pod.
#[derive(Debug, Clone)]
struct Original {
    pod: OriginalPod,
    /// The status that was written since the watch showed the pod.
    written: Option<Value>,
    /// Events that are shown, by cluster and UID, with their counts.
    shown: BTreeMap<(Arc<str>, Arc<str>), u32>,
    /// Whether this scheduler has done the work of the one whose pod it is, which may be gone.
    is_adopted: bool,
    /// Whether this scheduler has written that the agent does not answer.
    is_unreachable: bool,
}

impl Original {
    const fn new(pod: OriginalPod) -> Self {
        let shown = BTreeMap::new();
        Self { pod, written: None, shown, is_adopted: false, is_unreachable: false }
    }

    /// Whether the pod shows this status.
    fn shows(&self, status: &Value) -> bool {
        let watched = self.pod.object.object.get("status").unwrap_or(&Value::Null);
        self.written.as_ref() == Some(status) || status::shows(watched, status)
    }

    fn finalizers(&self) -> Vec<String> {
        let object = &self.pod.object.object;
        let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        let names = list.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    }

    /// Returns the events of a delegate that are not shown yet, or with another count.
    fn events_to_show(&self, delegate: &Delegate, cluster: &Arc<str>) -> Vec<ShownEvent> {
        let mut room = MAX_SHOWN.saturating_sub(self.shown.len());
        let to_show = delegate.events.iter().filter_map(|event| {
            let shown = self.shown.get(&(cluster.clone(), event.uid.clone()));
            match shown {
                Some(count) if *count == event.count => return None,
                Some(_) => {}
                None => room = room.checked_sub(1)?,
            }
            let (cluster, is_repeated) = (cluster.clone(), shown.is_some());
            Some(ShownEvent { cluster, event: event.clone(), is_repeated })
        });
        to_show.collect()
    }
}

/// The known state of a member.
#[derive(Debug)]
struct Member {
    /// The life of its agent, and the last revision that it gave.
    incarnation: Arc<str>,
    revision: u64,
    /// The delegates by UID of the original.
    delegates: BTreeMap<Uid, Arc<Delegate>>,
    /// Delegates that a list that has begun anew has not shown yet.
    unconfirmed: BTreeSet<Uid>,
    /// Whether all delegates are known.
    is_complete: bool,
    last_answer: Time,
    is_reachable: bool,
}

impl Member {
    fn new(now: Time) -> Self {
        Self {
            incarnation: "".into(),
            revision: 0,
            delegates: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            is_complete: false,
            last_answer: now,
            is_reachable: true,
        }
    }
}

/// The mirror of one scheduler.
#[derive(Debug)]
pub struct Mirror {
    originals: BTreeMap<Uid, Original>,
    members: Vec<Member>,
    /// The ID of the management cluster.
    origin: Arc<str>,
    /// Pods to look at.
    changed: BTreeSet<Uid>,
    in_flight: InFlight,
    /// The pause after the last failure.
    pauses: BTreeMap<Uid, Duration>,
    /// Pods to look at later.
    timers: BTreeSet<(Time, Uid)>,
    /// Whether all originals are known.
    is_synced: bool,
    /// Deleted pods with the lost clusters in which their delegates are gone.
    released: BTreeMap<Uid, BTreeSet<Arc<str>>>,
    duty: Duty,
}

/// Inputs.
impl Mirror {
    /// Makes the mirror of a scheduler, which knows no pod and no member.
    pub fn new(config: &SchedulerConfig) -> Self {
        Self {
            originals: BTreeMap::new(),
            members: Vec::new(),
            origin: config.origin.clone().unwrap_or_else(|| "".into()),
            changed: BTreeSet::new(),
            in_flight: InFlight::default(),
            pauses: BTreeMap::new(),
            timers: BTreeSet::new(),
            is_synced: false,
            released: BTreeMap::new(),
            duty: Duty::new(config),
        }
    }

    /// Notes that the agent of a member is asked for its delegates from now on.
    pub fn follow(&mut self, member: usize, now: Time) {
        while self.members.len() <= member {
            self.members.push(Member::new(now));
        }
        // It may have been away for a while.
        self.members[member].last_answer = now;
        // Pods of it may wait.
        self.look_at_all();
    }

    /// Looks at all pods again.
    pub fn look_at_all(&mut self) {
        self.changed.extend(self.originals.keys().cloned());
    }

    /// Applies an original pod as the watch shows it.
    pub fn see(&mut self, pod: OriginalPod) {
        let uid = pod.object.pod.uid.clone();
        match self.originals.get_mut(&uid) {
            Some(original) => (original.pod, original.written) = (pod, None),
            None => drop(self.originals.insert(uid.clone(), Original::new(pod))),
        }
        self.changed.insert(uid);
    }

    /// Notes that an original pod is gone.
    pub fn forget(&mut self, uid: &Uid) {
        self.originals.remove(uid);
        self.pauses.remove(uid);
        self.released.remove(uid);
        self.duty.done(uid);
        // It may have left a delegate.
        self.changed.insert(uid.clone());
    }

    /// Notes that all originals are known: a delegate of another one is an orphan.
    pub fn set_synced(&mut self) {
        self.is_synced = true;
        let listed = self.members.iter().flat_map(|member| member.delegates.keys());
        self.changed.extend(listed.cloned());
    }

    /// Notes that the delegate of a deleted pod in a lost cluster is gone.
    pub fn release(&mut self, cluster: &Arc<str>, pod: &Uid) {
        if self.originals.contains_key(pod) {
            self.released.entry(pod.clone()).or_default().insert(cluster.clone());
            self.changed.insert(pod.clone());
        }
    }

    /// Applies a list of delegates.
    pub fn take(&mut self, member: usize, list: DelegateList, now: Time) {
        let own = &mut self.members[member];
        own.last_answer = now;
        if list.begins_anew {
            own.unconfirmed = own.delegates.keys().cloned().collect();
            own.is_complete = false;
        }
        (own.incarnation, own.revision) = (list.incarnation, list.revision);
        for delegate in list.delegates {
            let pod = Uid::from(&*delegate.pod);
            own.unconfirmed.remove(&pod);
            own.delegates.insert(pod.clone(), delegate);
            self.changed.insert(pod);
        }
        for gone in list.gone {
            let pod = Uid::from(&*gone.pod);
            if own.delegates.get(&pod).is_some_and(|known| known.uid == gone.uid) {
                own.delegates.remove(&pod);
                self.changed.insert(pod);
            }
        }
        if !list.more {
            for pod in std::mem::take(&mut own.unconfirmed) {
                own.delegates.remove(&pod);
                self.changed.insert(pod);
            }
            if !std::mem::replace(&mut own.is_complete, true) {
                self.look_at_all();
            }
        }
        if !std::mem::replace(&mut self.members[member].is_reachable, true) {
            self.look_at_all();
        }
    }

    /// Notes that an agent has not answered. Returns whether it counts as unreachable since.
    pub fn no_answer(&mut self, member: usize, now: Time) -> bool {
        let own = &mut self.members[member];
        let is_lost = own.is_reachable && now.since(own.last_answer) >= UNREACHABLE_AFTER;
        if is_lost {
            own.is_reachable = false;
            self.look_at_all();
        }
        is_lost
    }
}

/// Looking in.
impl Mirror {
    /// Returns the incarnation of the agent of a member and its last known revision, after which to
    /// ask for changes.
    pub fn known(&self, member: usize) -> (Arc<str>, u64) {
        let own = &self.members[member];
        (own.incarnation.clone(), own.revision)
    }

    /// Whether the agent of a member has answered lately.
    pub fn is_reachable(&self, member: usize) -> bool {
        self.members[member].is_reachable
    }

    /// Returns the name of the cluster in which a pod is placed.
    pub fn cluster_of(&self, uid: &Uid) -> Option<&Arc<str>> {
        Some(&self.originals.get(uid)?.pod.placement.as_ref()?.cluster)
    }

    /// Returns the finalizers of an original pod.
    pub fn finalizers(&self, uid: &Uid) -> Vec<String> {
        self.originals.get(uid).map(Original::finalizers).unwrap_or_default()
    }

    /// Returns the name of an original pod.
    pub fn name_of(&self, uid: &Uid) -> Option<&PodKey> {
        self.originals.get(uid).map(|original| &original.pod.object.pod.key)
    }

    /// Returns the time at which [`next`](Self::next) has a pod to look at, if nothing happens
    /// before.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }
}

/// Work.
impl Mirror {
    /// Returns a pod about which something is to be done. It is not returned again until
    /// [`done`](Self::done), and there are at most 64 such pods. `wall` is the wall time, for
    /// statuses.
    pub fn next(&mut self, roster: &impl Roster, now: Time, wall: Time) -> Option<(Uid, Plan)> {
        while self.timers.first().is_some_and(|(time, _)| *time <= now) {
            let due = self.timers.pop_first();
            self.changed.extend(due.map(|(_, uid)| uid));
        }
        while !self.in_flight.is_full() {
            let uid = self.changed.iter().find(|uid| !self.in_flight.contains(uid)).cloned();
            let Some(uid) = uid else {
                let waiting = self.in_flight.take_waiting();
                if waiting.is_empty() {
                    break;
                }
                self.changed.extend(waiting);
                continue;
            };
            self.changed.remove(&uid);
            match self.plan_of_duty(&uid, roster, now, wall) {
                Some(plan) if self.in_flight.begin(&uid, plan.path()) => return Some((uid, plan)),
                Some(_) => {}
                None => drop(self.pauses.remove(&uid)),
            }
        }
        None
    }

    /// Notes that a status was written.
    pub fn status_written(&mut self, uid: &Uid, status: Value, is_unreachable: bool) {
        if let Some(original) = self.originals.get_mut(uid) {
            (original.written, original.is_unreachable) = (Some(status), is_unreachable);
        }
    }

    /// Notes that an event is shown.
    pub fn event_shown(&mut self, uid: &Uid, cluster: &Arc<str>, event: &DelegateEvent) {
        if let Some(original) = self.originals.get_mut(uid) {
            original.shown.insert((cluster.clone(), event.uid.clone()), event.count);
        }
    }

    /// Ends a look at a pod. A failed look is repeated after a pause. Returns whether it is the
    /// longest pause.
    pub fn done(&mut self, uid: &Uid, is_done: bool, now: Time) -> bool {
        self.in_flight.end(uid);
        if is_done {
            self.pauses.remove(uid);
            return false;
        }
        let pause = self.pauses.get(uid).map_or(FIRST_PAUSE, |last| *last * 2);
        let pause = pause.min(LONGEST_PAUSE);
        self.pauses.insert(uid.clone(), pause);
        self.timers.insert((now + pause, uid.clone()));
        pause == LONGEST_PAUSE
    }
}
