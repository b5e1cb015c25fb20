//! The mirror between original pods and their delegates.
//!
//! | Change | Effect |
//! |---|---|
//! | status of the delegate | written on the original |
//! | event of the delegate | created on the original, at most [`MAX_SHOWN`] |
//! | no answer of the agent for [`UNREACHABLE_AFTER`] | condition Ready of the original is False |
//! | original is deleted | attempts are sealed, the delegate is deleted, then the finalizer is removed |
//! | delegate is gone, and its agent confirms it | the original is deleted, and its owner creates another one; one that may be replaced is placed anew |
//! | delegate is left over from an earlier try, or its original is gone | the delegate is deleted |
//! | original was taken out of a lost cluster | its status is Pending |
//! | its cluster is drained, and it may be replaced | the delegate is evicted, when the budgets of its cluster allow it |
//!
//! It compares both sides like a controller: a changed pod is put into a set, and is looked at as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framework::{PodKey, Uid};
use jiff::Timestamp;
use serde_json::{Value, json};
use supercluster::message::{CommitKey, SealOutcome, SealRequest, TryNumber};
use supercluster::scheduler::OriginalPod;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tracing::{info, warn};

use super::super::messages::{
    Delegate, DelegateList, DeletionOutcome, DeletionRequest, EvictionRefusal,
};
use super::SchedulerEvent;
use super::agents::Agents;
use super::events;
use super::originals::{FINALIZER, Originals};
use crate::scheduling_loop::LoopEvent;
use crate::supervision::catch_panic;

/// Time without an answer of an agent after which its pods are not Ready, as for a node.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(40);
/// Maximum number of pods that are looked at at the same time.
const MAX_CONCURRENT: usize = 64;
/// Maximum number of events of its delegates that are shown on a pod by this process.
const MAX_SHOWN: usize = 50;
/// First pause before a pod is looked at again whose writes have failed; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// An original pod.
#[derive(Debug, Clone)]
struct Original {
    pod: OriginalPod,
    /// What is written on it: the cluster, the version of the delegate there, and whether its agent answers.
    mirrored: Option<(usize, u64, bool)>,
    /// The status that was written last.
    written: Option<Arc<Value>>,
    /// Events that are shown, by name, with their counts.
    shown: BTreeMap<String, u32>,
}

/// An event to show: its name, the object, and its count if it exists.
type ShownEvent = (String, Value, Option<Value>, u32);

impl Original {
    fn finalizers(&self) -> Vec<String> {
        let object = &self.pod.object.object;
        let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        let names = list.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    }

    /// Returns the events of a delegate that are not shown yet, or with another count.
    fn events_to_show(&self, delegate: &Delegate, cluster: &str) -> Vec<ShownEvent> {
        let pod = &self.pod.object.pod;
        let (key, uid, now) = (&pod.key, pod.uid.to_string(), Timestamp::now());
        let mut room = MAX_SHOWN.saturating_sub(self.shown.len());
        let to_show = delegate.events.iter().filter_map(|event| {
            let name = events::name(event, cluster, &uid);
            let repeated = match self.shown.get(&name) {
                Some(count) if *count == event.count => return None,
                Some(_) => Some(events::repeated(event, now)),
                None => {
                    room = room.checked_sub(1)?;
                    None
                }
            };
            let created = events::shown(event, cluster, (key, &uid), now);
            Some((name, created, repeated, event.count))
        });
        to_show.collect()
    }
}

/// What is known of a member.
#[derive(Debug)]
struct Member {
    /// The life of its agent, and the last revision that it gave.
    incarnation: Arc<str>,
    revision: u64,
    /// The delegates by UID of the original, each with a number that grows with every change.
    delegates: BTreeMap<Uid, (Arc<Delegate>, u64)>,
    /// Delegates that a list that has begun anew has not shown yet.
    unconfirmed: BTreeSet<Uid>,
    /// Whether all delegates are known.
    is_complete: bool,
    last_answer: Instant,
    is_reachable: bool,
}

impl Member {
    fn new() -> Self {
        Self {
            incarnation: "".into(),
            revision: 0,
            delegates: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            is_complete: false,
            last_answer: Instant::now(),
            is_reachable: true,
        }
    }
}

#[derive(Debug)]
struct State {
    originals: BTreeMap<Uid, Original>,
    members: Vec<Member>,
    /// Pods to look at.
    changed: BTreeSet<Uid>,
    /// Pods that are looked at, which are not looked at twice at the same time.
    busy: BTreeSet<Uid>,
    /// The pause after the last failure.
    pauses: BTreeMap<Uid, Duration>,
    changes: u64,
    /// Whether all originals are known.
    is_synced: bool,
    /// Deleted pods with the lost clusters in which their delegates are gone.
    released: BTreeMap<Uid, BTreeSet<Arc<str>>>,
}

impl State {
    fn new(members: usize) -> Self {
        Self {
            originals: BTreeMap::new(),
            members: std::iter::repeat_with(Member::new).take(members).collect(),
            changed: BTreeSet::new(),
            busy: BTreeSet::new(),
            pauses: BTreeMap::new(),
            changes: 0,
            is_synced: false,
            released: BTreeMap::new(),
        }
    }
}

/// The mirror.
pub(super) struct Mirror {
    state: Mutex<State>,
    wake: Notify,
    agents: Agents,
    originals: Originals,
    /// The ID of the management cluster.
    origin: Arc<str>,
    /// Number of pods that are looked at.
    slots: Arc<Semaphore>,
}

/// What is to be done about a pod.
#[derive(Debug)]
enum Plan {
    Nothing,
    /// Write this status. `mirrored` is noted when it is done.
    WriteStatus {
        pod: PodKey,
        status: Value,
        mirrored: (usize, u64, bool),
        events: Vec<ShownEvent>,
    },
    /// The delegate of this commit is not in the list of its agent.
    Missing {
        pod: PodKey,
        member: usize,
        key: CommitKey,
        delegate: Arc<str>,
        is_replaceable: bool,
    },
    /// A delegate that no original has. `is_orphan` says that its original is not known.
    LeftOver {
        member: usize,
        delegate: Arc<Delegate>,
        is_orphan: bool,
    },
    /// The cluster of a pod that may be replaced is drained.
    Evict {
        pod: PodKey,
        member: usize,
        delegate: Arc<str>,
    },
    /// The original is being deleted.
    Release {
        pod: PodKey,
        attempt: u32,
        members: Vec<usize>,
        /// Clusters that may be lost, and the time without a renewal after which no delegate runs there.
        may_be_lost: Vec<(Arc<str>, Duration)>,
        resource_version: u64,
        finalizers: Vec<String>,
    },
    /// A cluster that may run the pod is no member any more.
    Stuck(String),
}

impl Mirror {
    pub(super) fn new(agents: Agents, originals: Originals, origin: Arc<str>) -> Self {
        let state = State::new(agents.len());
        let slots = Arc::new(Semaphore::new(MAX_CONCURRENT));
        Self { state: Mutex::new(state), wake: Notify::new(), agents, originals, origin, slots }
    }

    /// Follows a member over this connection.
    pub(super) fn add(self: &Arc<Self>, member: usize, connection: u64) {
        let mut state = self.lock();
        while state.members.len() <= member {
            state.members.push(Member::new());
        }
        // It may have been away for a while.
        state.members[member].last_answer = Instant::now();
        // Pods of it may wait.
        state.look_at_all();
        drop(state);
        self.wake.notify_one();
        self.originals.runtime.spawn(self.clone().follow(member, connection));
    }

    /// Looks at all pods again.
    pub(super) fn look_again(&self) {
        self.lock().look_at_all();
        self.wake.notify_one();
    }

    /// Takes in an original pod as the watch shows it.
    pub(super) fn see(&self, pod: OriginalPod) {
        let uid = pod.object.pod.uid.clone();
        let mut state = self.lock();
        match state.originals.get_mut(&uid) {
            Some(original) => original.pod = pod,
            None => {
                let (mirrored, written, shown) = (None, None, BTreeMap::new());
                state.originals.insert(uid.clone(), Original { pod, mirrored, written, shown });
            }
        }
        state.changed.insert(uid);
        drop(state);
        self.wake.notify_one();
    }

    /// Takes in that an original pod is gone.
    pub(super) fn forget(&self, uid: &Uid) {
        let mut state = self.lock();
        state.originals.remove(uid);
        state.pauses.remove(uid);
        state.released.remove(uid);
        // It may have left a delegate.
        state.changed.insert(uid.clone());
        drop(state);
        self.wake.notify_one();
    }

    /// Takes in that all originals are known: a delegate of another one is an orphan.
    pub(super) fn set_synced(&self) {
        let mut state = self.lock();
        state.is_synced = true;
        let listed = state.members.iter().flat_map(|member| member.delegates.keys());
        let listed: Vec<Uid> = listed.cloned().collect();
        state.changed.extend(listed);
        drop(state);
        self.wake.notify_one();
    }

    /// Takes in that the delegate of a deleted pod in a lost cluster is gone.
    pub(super) fn released(&self, cluster: &Arc<str>, pod: &Uid) {
        let mut state = self.lock();
        if state.originals.contains_key(pod) {
            state.released.entry(pod.clone()).or_default().insert(cluster.clone());
            state.changed.insert(pod.clone());
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Returns the member in which a pod is placed.
    pub(super) fn member_of(&self, uid: &Uid) -> Option<usize> {
        let state = self.lock();
        let cluster = &state.originals.get(uid)?.pod.placement.as_ref()?.cluster;
        self.agents.named(cluster)
    }

    /// Returns the finalizers of an original pod.
    pub(super) fn finalizers(&self, uid: &Uid) -> Vec<String> {
        self.lock().originals.get(uid).map(Original::finalizers).unwrap_or_default()
    }

    /// Seals a commit for a pod that is gone, and deletes its delegate.
    pub(super) async fn abandon(self: Arc<Self>, member: usize, pod: PodKey, key: CommitKey) {
        let mut pause = FIRST_PAUSE;
        while let Err(err) = self.release(member, &pod, &key).await {
            info!(%pod, err, "Deleting the delegate of a pod that is gone; retrying");
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Looks at changed pods without end.
    pub(super) async fn run(self: Arc<Self>) -> Infallible {
        loop {
            let Ok(slot) = self.slots.clone().acquire_owned().await else {
                // The semaphore is never closed.
                std::future::pending::<()>().await;
                continue;
            };
            let Some(uid) = self.next() else {
                drop(slot);
                self.wake.notified().await;
                continue;
            };
            let own = self.clone();
            tokio::spawn(async move {
                let result = catch_panic(own.reconcile(&uid)).await;
                own.reconciled(&uid, result.unwrap_or_else(|panic| Err(panic.to_string())));
                drop(slot);
            });
        }
    }

    fn next(&self) -> Option<Uid> {
        let mut state = self.lock();
        let uid = state.changed.iter().find(|uid| !state.busy.contains(*uid)).cloned()?;
        state.changed.remove(&uid);
        state.busy.insert(uid.clone());
        Some(uid)
    }

    /// Ends a look at a pod. After a failure it is looked at again.
    fn reconciled(self: &Arc<Self>, uid: &Uid, result: Result<(), String>) {
        let mut state = self.lock();
        state.busy.remove(uid);
        let pod = state.originals.get(uid).map(|original| original.pod.object.pod.key.to_string());
        let pod = pod.unwrap_or_else(|| format!("(deleted) {uid}"));
        match result {
            Ok(()) => drop(state.pauses.remove(uid)),
            Err(err) => {
                let pause = state.pauses.get(uid).map_or(FIRST_PAUSE, |last| *last * 2);
                let pause = pause.min(LONGEST_PAUSE);
                if pause == LONGEST_PAUSE {
                    warn!(pod, err, "A pod and its delegate differ");
                }
                state.pauses.insert(uid.clone(), pause);
                let (own, uid) = (self.clone(), uid.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    own.lock().changed.insert(uid);
                    own.wake.notify_one();
                });
            }
        }
        drop(state);
        self.wake.notify_one();
    }

    async fn reconcile(&self, uid: &Uid) -> Result<(), String> {
        let plan = self.lock().plan(uid, &self.agents, &self.origin);
        match plan {
            Plan::Nothing => Ok(()),
            Plan::Stuck(reason) => Err(reason),
            Plan::WriteStatus { pod, status, mirrored, events } => {
                let is_written = {
                    let state = self.lock();
                    let known = state.originals.get(uid).and_then(|own| own.written.as_ref());
                    known.is_some_and(|known| **known == status)
                };
                if !is_written {
                    self.originals.write_status(&pod, uid, &status).await?;
                }
                for (name, created, repeated, count) in events {
                    let event = (&*name, created, repeated);
                    self.originals.write_event(&pod.namespace, event).await?;
                    if let Some(original) = self.lock().originals.get_mut(uid) {
                        original.shown.insert(name, count);
                    }
                }
                if let Some(original) = self.lock().originals.get_mut(uid) {
                    original.mirrored = Some(mirrored);
                    original.written = Some(Arc::new(status));
                }
                Ok(())
            }
            Plan::LeftOver { member, delegate, is_orphan } => {
                let pod = PodKey::new(&delegate.namespace, &delegate.name);
                if is_orphan && !self.originals.is_gone(&pod, &delegate.pod).await? {
                    return Ok(());
                }
                let (agent, _) = self.agents.get(member);
                info!(%pod, cluster = &*agent.name, "Deleting a delegate that its original does not have");
                let deletion = DeletionRequest {
                    pod: delegate.pod.clone(),
                    namespace: delegate.namespace.clone(),
                    name: delegate.name.clone(),
                    delegate: Some(delegate.uid.clone()),
                    grace_period_seconds: None,
                    evict: false,
                };
                match agent.delete(&deletion).await? {
                    DeletionOutcome::Gone => Ok(()),
                    _ => Err("it ends".to_owned()),
                }
            }
            Plan::Missing { pod, member, key, delegate, is_replaceable } => {
                let (agent, _) = self.agents.get(member);
                match agent.seal(&SealRequest { key }).await? {
                    SealOutcome::Sealed if is_replaceable => {
                        let cluster = &*agent.name;
                        info!(%pod, cluster, "The delegate is gone: placing the pod anew");
                        self.tell(SchedulerEvent::DelegateGone(uid.clone(), delegate));
                        // Until the pod shows that it has been taken out.
                        Err("the pod is about to be placed anew".to_owned())
                    }
                    SealOutcome::Sealed => {
                        let cluster = &*agent.name;
                        info!(%pod, cluster, "The delegate is gone: deleting the pod");
                        self.originals.delete(&pod, uid).await
                    }
                    SealOutcome::Committed(_) => Err("the list does not show it yet".to_owned()),
                    SealOutcome::Rejected(refusal) => Err(refusal.message),
                }
            }
            Plan::Evict { pod, member, delegate } => {
                let (agent, _) = self.agents.get(member);
                let cluster = &*agent.name;
                let deletion = DeletionRequest {
                    pod: uid.to_string().into(),
                    namespace: pod.namespace.clone(),
                    name: pod.name.clone(),
                    delegate: Some(delegate),
                    grace_period_seconds: None,
                    evict: true,
                };
                match agent.delete(&deletion).await? {
                    DeletionOutcome::Refused(EvictionRefusal { message: reason }) => {
                        info!(%pod, cluster, reason, "The cluster is drained: the pod may not leave yet");
                        Err(format!("its eviction is refused: {reason}"))
                    }
                    // The list of delegates shows when it is gone.
                    _ => {
                        info!(%pod, cluster, "The cluster is drained: the pod leaves");
                        Ok(())
                    }
                }
            }
            Plan::Release { pod, attempt, members, may_be_lost, resource_version, finalizers } => {
                let is_waiting = !may_be_lost.is_empty();
                for (cluster, after) in may_be_lost {
                    self.tell(SchedulerEvent::AwaitEnd(cluster, uid.clone(), after));
                }
                let number = TryNumber::last_of(attempt);
                let key = CommitKey { pod: uid.to_string().into(), number };
                for member in members {
                    self.release(member, &pod, &key).await?;
                }
                if is_waiting {
                    return Err("its delegate may run in a cluster that does not answer".to_owned());
                }
                let version = (resource_version, &*finalizers);
                self.originals.remove_finalizer(&pod, uid, version).await
            }
        }
    }

    fn tell(&self, event: SchedulerEvent) {
        self.originals.events.send(LoopEvent::Own(event));
    }

    /// Seals the commits for a pod up to this one in a cluster, and deletes its delegate there. An error if it
    /// still exists.
    async fn release(&self, member: usize, pod: &PodKey, key: &CommitKey) -> Result<(), String> {
        let (agent, _) = self.agents.get(member);
        let sealed = agent.seal(&SealRequest { key: key.clone() }).await?;
        if let SealOutcome::Rejected(refusal) = sealed {
            return Err(refusal.message);
        }
        let deletion = DeletionRequest {
            pod: key.pod.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            delegate: None,
            grace_period_seconds: None,
            evict: false,
        };
        match (agent.delete(&deletion).await?, sealed) {
            (DeletionOutcome::Gone, SealOutcome::Sealed) => Ok(()),
            _ => Err(format!("its delegate in {} ends", agent.name)),
        }
    }

    /// Follows the delegates of a member while it is reached over this connection.
    async fn follow(self: Arc<Self>, member: usize, connection: u64) {
        let (agent, metrics) = self.agents.get(member);
        let mut pause = FIRST_PAUSE;
        let mut logged: Option<String> = None;
        while self.agents.is_current(member, connection) {
            let (incarnation, revision) = {
                let state = self.lock();
                let own = &state.members[member];
                (own.incarnation.clone(), own.revision)
            };
            let listed = agent.delegates(&incarnation, revision).await;
            if !self.agents.is_current(member, connection) {
                return;
            }
            match listed {
                Ok(list) => {
                    if logged.take().is_some() {
                        info!(cluster = &*agent.name, "The agent answers again");
                    }
                    pause = FIRST_PAUSE;
                    metrics.answered();
                    self.lock().take(member, list);
                    self.wake.notify_one();
                }
                Err(err) => {
                    if logged.as_ref() != Some(&err) {
                        warn!(cluster = &*agent.name, err, "Cannot list the delegates; retrying");
                        logged = Some(err);
                    }
                    if !self.lock().no_answer(member, &agent.name) {
                        metrics.unreachable();
                    }
                    self.wake.notify_one();
                    tokio::time::sleep(pause).await;
                    pause = Duration::from_secs(5).min(pause * 2);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes in a list of delegates.
    fn take(&mut self, member: usize, list: DelegateList) {
        let own = &mut self.members[member];
        own.last_answer = Instant::now();
        if list.begins_anew {
            own.unconfirmed = own.delegates.keys().cloned().collect();
            own.is_complete = false;
        }
        (own.incarnation, own.revision) = (list.incarnation, list.revision);
        for delegate in list.delegates {
            self.changes += 1;
            let pod = Uid::from(&*delegate.pod);
            own.unconfirmed.remove(&pod);
            own.delegates.insert(pod.clone(), (delegate, self.changes));
            self.changed.insert(pod);
        }
        for gone in list.gone {
            let pod = Uid::from(&*gone.pod);
            if own.delegates.get(&pod).is_some_and(|(known, _)| known.uid == gone.uid) {
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

    /// Takes in that an agent has not answered. Returns whether it still counts as reachable.
    fn no_answer(&mut self, member: usize, cluster: &str) -> bool {
        let own = &mut self.members[member];
        if own.is_reachable && own.last_answer.elapsed() >= UNREACHABLE_AFTER {
            own.is_reachable = false;
            let seconds = UNREACHABLE_AFTER.as_secs();
            warn!(
                cluster,
                seconds, "The agent does not answer: its pods are not Ready. They stay there"
            );
            self.look_at_all();
        }
        self.members[member].is_reachable
    }

    fn look_at_all(&mut self) {
        self.changed.extend(self.originals.keys().cloned());
    }

    fn plan(&self, uid: &Uid, agents: &Agents, origin: &str) -> Plan {
        if let Some((member, delegate)) = self.left_over(uid, origin) {
            let is_orphan = !self.originals.contains_key(uid);
            return Plan::LeftOver { member, delegate, is_orphan };
        }
        let Some(original) = self.originals.get(uid) else { return Plan::Nothing };
        let pod = &original.pod.object.pod;
        let key = pod.key.clone();
        let find = |name: &str| agents.named(name);
        if pod.terminating {
            let none = BTreeSet::new();
            let released = self.released.get(uid).unwrap_or(&none);
            return Self::plan_release(original, released, |name| {
                let member = find(name)?;
                Some((member, self.members[member].is_reachable))
            });
        }
        let Some(placement) = &original.pod.placement else { return plan_pending(original) };
        let Some(member) = find(&placement.cluster) else { return Plan::Nothing };
        let own = &self.members[member];
        let delegate = own.delegates.get(uid);
        let delegate = delegate.filter(|(known, _)| known.uid == placement.committed.uid);
        let Some((delegate, version)) = delegate else {
            let is_missing = own.is_complete && own.is_reachable && !pod.terminal;
            // The attempt is over, so that its last number asks for the delegate that exists, if there is one.
            let attempt = placement.committed.key.number.attempt;
            let number = TryNumber::last_of(attempt);
            let commit = CommitKey { pod: placement.committed.key.pod.clone(), number };
            let is_replaceable = original.pod.placed_for().is_some();
            let delegate = placement.committed.uid.clone();
            return match is_missing {
                true => Plan::Missing { pod: key, member, key: commit, delegate, is_replaceable },
                false => Plan::Nothing,
            };
        };
        let leaves = agents.is_draining(member) && !delegate.terminating && !pod.terminal;
        if leaves && original.pod.placed_for().is_some() {
            let delegate = placement.committed.uid.clone();
            return Plan::Evict { pod: key, member, delegate };
        }
        let mirrored = (member, *version, own.is_reachable);
        if original.mirrored == Some(mirrored) {
            return Plan::Nothing;
        }
        let mut status = status_of(delegate);
        if !own.is_reachable {
            set_unreachable(&mut status, &placement.cluster);
        }
        let events = original.events_to_show(delegate, &placement.cluster);
        Plan::WriteStatus { pod: key, status, mirrored, events }
    }

    /// Returns a delegate that the original does not have, and its member.
    fn left_over(&self, uid: &Uid, origin: &str) -> Option<(usize, Arc<Delegate>)> {
        let original = self.originals.get(uid);
        let members = self.members.iter().enumerate();
        let mut listed = members.filter_map(|(ix, own)| Some((ix, &own.delegates.get(uid)?.0)));
        let (member, delegate) = listed.find(|(_, delegate)| match original {
            // A pod that is being deleted is released in all its clusters.
            Some(original) if original.pod.object.pod.terminating => false,
            Some(original) => original.pod.is_left_over(&delegate.uid, delegate.number),
            None => self.is_synced && delegate.origin.as_deref() == Some(origin),
        })?;
        Some((member, delegate.clone()))
    }

    /// `find` returns the member of this name, and whether its agent answers.
    fn plan_release(
        original: &Original,
        released: &BTreeSet<Arc<str>>,
        find: impl Fn(&str) -> Option<(usize, bool)>,
    ) -> Plan {
        let finalizers = original.finalizers();
        if !finalizers.iter().any(|own| own == FINALIZER) {
            return Plan::Nothing;
        }
        let OriginalPod { object, intent, placement, .. } = &original.pod;
        let placed = placement.as_ref().map(|placement| &placement.cluster);
        let intended = intent.iter().flat_map(|intent| &intent.clusters);
        let (mut members, mut may_be_lost) = (BTreeSet::new(), Vec::new());
        let named: BTreeSet<&Arc<str>> = intended.chain(placed).collect();
        for name in named.into_iter().filter(|name| !released.contains(*name)) {
            let found = find(name);
            let after = original.pod.gone_after(name);
            if let Some(after) = after.filter(|_| !found.is_some_and(|(_, answers)| answers)) {
                may_be_lost.push((name.clone(), after));
            }
            match found {
                Some((member, _)) => drop(members.insert(member)),
                None if after.is_some() => {}
                None => {
                    return Plan::Stuck(format!(
                        "cluster {name:?} may run the pod and is no member: list it again, or remove the \
                         finalizer {FINALIZER} by hand"
                    ));
                }
            }
        }
        let committed = placement.as_ref().map_or(0, |own| own.committed.key.number.attempt);
        let attempt = intent.as_ref().map_or(0, |intent| intent.attempt).max(committed);
        Plan::Release {
            pod: object.pod.key.clone(),
            attempt,
            members: members.into_iter().collect(),
            may_be_lost,
            resource_version: object.pod.resource_version,
            finalizers,
        }
    }
}

/// A pod that was taken out of a cluster is Pending again, until its next delegate has a status.
fn plan_pending(original: &Original) -> Plan {
    let OriginalPod { object, intent, .. } = &original.pod;
    let phase = object.object.pointer("/status/phase").and_then(Value::as_str);
    let was_placed = intent.is_some() && phase.is_some_and(|phase| phase != "Pending");
    if !was_placed || object.pod.terminal {
        return Plan::Nothing;
    }
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "DelegateGone",
        "message": "the pod has no delegate any more, and is placed anew",
        "lastTransitionTime": now_text()});
    let status = json!({"phase": "Pending", "conditions": [condition], "startTime": null,
        "containerStatuses": null, "initContainerStatuses": null, "hostIP": null, "hostIPs": null,
        "podIP": null, "podIPs": null});
    let mirrored = (usize::MAX, 0, true);
    Plan::WriteStatus { pod: object.pod.key.clone(), status, mirrored, events: Vec::new() }
}

fn now_text() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the status of a delegate as its original shows it: without what refers to objects of the member. The
/// condition PodScheduled is shown once it is True: a delegate that is not scheduled is none of an autoscaler's
/// business here.
fn status_of(delegate: &Delegate) -> Value {
    let mut status = delegate.status.clone();
    let Some(fields) = status.as_object_mut() else { return json!({}) };
    for field in ["nominatedNodeName", "resourceClaimStatuses", "observedGeneration"] {
        fields.remove(field);
    }
    if let Some(conditions) = fields.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|own| own["type"] != "PodScheduled" || own["status"] == "True");
    }
    status
}

/// Says that the pod is not Ready, because nobody knows.
fn set_unreachable(status: &mut Value, cluster: &str) {
    let Some(fields) = status.as_object_mut() else { return };
    let conditions = fields.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    conditions.retain(|own| own["type"] != "Ready");
    conditions.push(json!({"type": "Ready", "status": "False", "reason": "ClusterUnreachable",
        "message": format!("the agent of {cluster} does not answer"),
        "lastTransitionTime": now_text()}));
}

#[cfg(test)]
mod tests {
    use super::super::super::messages::DelegateEvent;
    use supercluster::message::{Committed, PodObject};
    use supercluster::scheduler::{Intent, Placement};

    use super::*;

    fn delegate(pod: &str, uid: &str, status: Value) -> Arc<Delegate> {
        Arc::new(Delegate {
            pod: pod.into(),
            number: TryNumber { attempt: 2, candidate: 0 },
            namespace: "ns".into(),
            name: pod.into(),
            origin: None,
            uid: uid.into(),
            node: Some("n".into()),
            terminating: false,
            status,
            events: Vec::new(),
        })
    }

    fn original(uid: &str, finalizers: &[&str], clusters: &[&str]) -> Original {
        let object = json!({"metadata": {"name": uid, "namespace": "ns", "uid": uid,
            "resourceVersion": "7", "finalizers": finalizers}, "spec": {}});
        let key = CommitKey { pod: uid.into(), number: TryNumber { attempt: 2, candidate: 0 } };
        let committed = Committed { key, uid: "d".into(), node: "n".into(), fence_after_s: None };
        let intended: Vec<Arc<str>> = clusters.iter().map(|name| (*name).into()).collect();
        let placement = Placement { cluster: intended[0].clone(), committed };
        let (attempt, scheduler, clusters) = (3, "s".into(), intended);
        let intent = Intent { attempt, scheduler, clusters, fence_after_s: None };
        let mut pod = OriginalPod::new(PodObject::from_json(object).unwrap());
        (pod.intent, pod.placement) = (Some(intent), Some(placement));
        Original { pod, mirrored: None, written: None, shown: BTreeMap::new() }
    }

    fn list(begins_anew: bool, more: bool, pods: &[&str]) -> DelegateList {
        let delegates = pods.iter().map(|pod| delegate(pod, "d", json!({})));
        DelegateList {
            incarnation: "life".into(),
            revision: 1,
            begins_anew,
            more,
            delegates: delegates.collect(),
            gone: Vec::new(),
        }
    }

    fn state() -> State {
        State::new(1)
    }

    #[test]
    fn status_keeps_what_is_true_in_both_clusters() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let status = json!({"phase": "Pending", "nominatedNodeName": "n", "podIP": "10.0.0.1",
            "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c-x1"}],
            "conditions": [condition("PodScheduled", "False"), condition("Ready", "False")]});
        let expected = json!({"phase": "Pending", "podIP": "10.0.0.1",
            "conditions": [condition("Ready", "False")]});
        assert_eq!(status_of(&delegate("p", "d", status)), expected);
        let scheduled = json!({"conditions": [condition("PodScheduled", "True")]});
        assert_eq!(status_of(&delegate("p", "d", scheduled.clone())), scheduled);
        assert_eq!(status_of(&delegate("p", "d", Value::Null)), json!({}));
    }

    #[test]
    fn pod_of_a_silent_cluster_is_not_ready() {
        let mut status = json!({"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]});
        set_unreachable(&mut status, "eu");
        assert_eq!(status["conditions"].as_array().unwrap().len(), 1);
        assert_eq!(status["conditions"][0]["status"], "False");
        assert_eq!(status["conditions"][0]["message"], "the agent of eu does not answer");
    }

    #[test]
    fn deleted_pod_is_released_in_every_cluster_that_may_run_it() {
        let find = |name: &str| {
            ["eu", "us"].iter().position(|own| *own == name).map(|member| (member, true))
        };
        let none = BTreeSet::new();
        let pod = original("p", &[FINALIZER, "x"], &["us", "eu"]);
        let plan = State::plan_release(&pod, &none, find);
        let Plan::Release { attempt, members, resource_version, finalizers, .. } = plan else {
            panic!("{plan:?}")
        };
        assert_eq!((attempt, &*members, resource_version), (3, &[0, 1][..], 7));
        assert_eq!(finalizers, [FINALIZER, "x"]);
        let plan = State::plan_release(&original("p", &[FINALIZER], &["us", "asia"]), &none, find);
        assert!(matches!(&plan, Plan::Stuck(reason) if reason.contains("asia")), "{plan:?}");
        let plan = State::plan_release(&original("p", &["x"], &["us"]), &none, find);
        assert!(matches!(plan, Plan::Nothing), "the finalizer is gone: {plan:?}");
    }

    #[test]
    fn deleted_pod_that_may_be_replaced_is_released_without_a_lost_cluster() {
        let mut pod = original("p", &[FINALIZER], &["asia"]);
        pod.pod.placement.as_mut().unwrap().committed.fence_after_s = Some(60);
        let plan = State::plan_release(&pod, &BTreeSet::new(), |_| None);
        let Plan::Release { members, may_be_lost, .. } = plan else { panic!("{plan:?}") };
        let after = Duration::from_secs(60 + 30 + 15);
        assert_eq!((members.len(), &*may_be_lost), (0, &[("asia".into(), after)][..]));
        let plan = State::plan_release(&pod, &["asia".into()].into(), |_| Some((0, false)));
        let Plan::Release { members, may_be_lost, .. } = plan else { panic!("{plan:?}") };
        assert!(members.is_empty() && may_be_lost.is_empty());
    }

    #[test]
    fn delegate_without_an_original_is_an_orphan_of_its_own_management_cluster() {
        let mut state = state();
        state.take(0, list(true, false, &["p"]));
        let uid = Uid::from("p");
        let set_origin = |state: &mut State, origin: Option<&str>| {
            let (known, _) = state.members[0].delegates.get_mut(&Uid::from("p")).unwrap();
            Arc::make_mut(known).origin = origin.map(Arc::from);
        };
        set_origin(&mut state, Some("own"));
        assert!(state.left_over(&uid, "own").is_none(), "its original may not be listed yet");
        state.is_synced = true;
        assert!(state.left_over(&uid, "own").is_some());
        set_origin(&mut state, Some("other"));
        assert!(state.left_over(&uid, "own").is_none());
        state.originals.insert(uid.clone(), original("p", &[], &["eu"]));
        assert!(state.left_over(&uid, "own").is_none(), "it is placed there");
        let later = TryNumber { attempt: 4, candidate: 0 };
        let own = state.originals.get_mut(&uid).unwrap().pod.placement.as_mut().unwrap();
        (own.committed.key.number, own.committed.uid) = (later, "e".into());
        assert!(state.left_over(&uid, "own").is_some(), "the pod runs elsewhere since");
    }

    #[test]
    fn events_of_a_delegate_are_shown_once_and_in_bounds() {
        let mut pod = original("p", &[], &["eu"]);
        let mut own = Delegate::clone(&delegate("p", "d", json!({})));
        let event = |number: usize, count| DelegateEvent {
            uid: number.to_string().into(),
            warning: false,
            reason: "Pulled".into(),
            message: "image".into(),
            component: "kubelet".into(),
            count,
        };
        own.events = vec![event(1, 1), event(2, 1)];
        let first = pod.events_to_show(&own, "eu");
        assert_eq!(first.len(), 2);
        assert!(first.iter().all(|(_, _, repeated, _)| repeated.is_none()));
        for (name, _, _, count) in first {
            pod.shown.insert(name, count);
        }
        own.events = vec![event(1, 1), event(2, 3)];
        let [(_, _, Some(repeated), 3)] = &pod.events_to_show(&own, "eu")[..] else {
            panic!("the count has changed")
        };
        assert_eq!(repeated["series"]["count"], 3);
        own.events = (0..100).map(|number| event(number, 1)).collect();
        let shown = pod.events_to_show(&own, "eu");
        let created = shown.iter().filter(|(_, _, repeated, _)| repeated.is_none()).count();
        assert_eq!(created, MAX_SHOWN - 2);
    }

    #[test]
    fn pod_that_lost_its_delegate_is_pending() {
        let mut pod = original("p", &[], &["eu"]);
        pod.pod.placement = None;
        assert!(matches!(plan_pending(&pod), Plan::Nothing), "it has no status");
        Arc::make_mut(&mut pod.pod.object.object)["status"]["phase"] = "Running".into();
        let Plan::WriteStatus { status, .. } = plan_pending(&pod) else { panic!("a status") };
        assert_eq!(status["phase"], "Pending");
        assert!(status["podIP"].is_null());
    }

    #[test]
    fn delegate_that_a_whole_list_does_not_show_is_gone() {
        let mut state = state();
        state.take(0, list(true, false, &["p", "q"]));
        assert!(state.members[0].is_complete);
        state.changed.clear();
        // The agent has been restarted, and lists in two pages.
        state.take(0, list(true, true, &["p"]));
        assert!(!state.members[0].is_complete, "the rest may be on the next page");
        assert_eq!(state.members[0].delegates.len(), 2);
        state.take(0, list(false, false, &["r"]));
        let known: Vec<String> =
            state.members[0].delegates.keys().map(ToString::to_string).collect();
        assert_eq!(known, ["p", "r"]);
        assert!(state.changed.contains(&Uid::from("q")));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_of_an_agent_is_noticed_and_forgiven() {
        let mut state = state();
        state.originals.insert(Uid::from("p"), original("p", &[], &["eu"]));
        state.no_answer(0, "eu");
        assert!(state.members[0].is_reachable, "it has answered a moment ago");
        tokio::time::advance(UNREACHABLE_AFTER).await;
        state.no_answer(0, "eu");
        assert!(!state.members[0].is_reachable && state.changed.contains(&Uid::from("p")));
        state.changed.clear();
        state.take(0, list(false, false, &[]));
        assert!(state.members[0].is_reachable && state.changed.contains(&Uid::from("p")));
    }
}
