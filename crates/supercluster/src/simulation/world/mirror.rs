//! The mirrors of the schedulers, and what they ask for: reads and writes of agents and of the
//! management cluster, which may be lost or late.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use framework::{PodKey, Uid};
use serde_json::{Value, json};

use super::{Caller, Event, Watched, World};
use crate::message::{
    CommitKey, Delegate, DelegateList, Request, SealOutcome, SealRequest, TryNumber,
};
use crate::mirror::{Mirror, Plan, Roster};
use crate::scheduler::WriteAnswer;
use crate::simulation::servers::{
    ManagementOperation, ManagementWrite, MemberOperation, MemberPod,
};

/// Time between two lists of a cluster's delegates by one scheduler.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which an answer counts as lost.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The members are named `c0`, `c1` and so on.
struct Names {
    members: usize,
    draining: Option<usize>,
}

impl Roster for Names {
    fn named(&self, name: &str) -> Option<usize> {
        name.strip_prefix('c')?.parse().ok().filter(|member| *member < self.members)
    }

    fn is_draining(&self, member: usize) -> bool {
        self.draining == Some(member)
    }
}

/// Work on a pod that waits for an answer.
#[derive(Debug)]
pub(super) struct Errand {
    /// Identifies the answer that it waits for.
    number: u64,
    step: Step,
}

#[derive(Debug, Clone)]
enum Step {
    /// Writes of the management cluster, one after the other.
    Write(VecDeque<ManagementWrite>),
    /// A seal in a member. Afterwards, this is done.
    Seal(usize, CommitKey, Then),
    /// The deletion of a delegate.
    Delete(usize, Deletion, Then),
}

impl Step {
    fn write(write: ManagementWrite) -> Self {
        Self::Write([write].into())
    }
}

/// The step after a seal or a deletion.
#[derive(Debug, Clone)]
enum Then {
    /// Nothing; whether the delegate must be gone.
    End { must_be_gone: bool },
    /// The pod is placed anew without this delegate.
    Replace(Arc<str>),
    /// The original is deleted.
    DeleteOriginal(Box<ManagementWrite>),
    /// The next member is released, and at last this is written, unless a cluster may be lost.
    Release { release: Box<Releasing>, is_committed: bool },
}

/// A deleted pod that is released.
#[derive(Debug, Clone)]
struct Releasing {
    name: PodKey,
    key: CommitKey,
    /// The members that are left.
    rest: Vec<usize>,
    /// The write at the end; none if a cluster may be lost.
    last: Option<ManagementWrite>,
}

impl Releasing {
    /// Returns the seal in the next member, or the write at the end.
    fn next(mut self) -> Option<Step> {
        if self.rest.is_empty() {
            return self.last.map(Step::write);
        }
        let (member, key) = (self.rest.remove(0), self.key.clone());
        let then = Then::Release { release: Box::new(self), is_committed: false };
        Some(Step::Seal(member, key, then))
    }
}

/// The delegate of this pod, of this UID if it has one.
#[derive(Debug, Clone)]
pub(super) struct Deletion {
    pod: Uid,
    name: PodKey,
    delegate: Option<Arc<str>>,
}

/// The answer to a step.
#[derive(Debug, Clone)]
pub(super) enum ErrandAnswer {
    Written(WriteAnswer),
    Sealed(SealOutcome),
    /// Whether no delegate exists.
    Deleted(bool),
    Lost,
}

/// Which errand of which scheduler.
#[derive(Debug, Clone)]
pub(super) struct ErrandId {
    pub(super) scheduler: usize,
    pub(super) life: u32,
    pub(super) pod: Uid,
    pub(super) number: u64,
}

impl World {
    /// Makes the mirror of a scheduler that has started.
    pub(super) fn start_mirror(&mut self, seat: usize, config: &crate::scheduler::SchedulerConfig) {
        if !self.has_mirror {
            return;
        }
        let mut mirror = Mirror::new(config);
        (0..self.members.len()).for_each(|member| mirror.follow(member, self.now));
        self.originals.values().for_each(|own| mirror.see(own.pod.clone()));
        mirror.set_synced();
        self.seats[seat].mirror = Some(mirror);
        self.seats[seat].errands.clear();
        let life = self.seats[seat].life;
        for cluster in 0..self.members.len() {
            self.push(self.now, Event::List { scheduler: seat, life, cluster });
        }
    }

    /// A scheduler asks an agent for its delegates.
    pub(super) fn list(&mut self, seat: usize, life: u32, cluster: usize) {
        if self.seats[seat].life != life {
            return;
        }
        let Some(mirror) = &self.seats[seat].mirror else { return };
        let known = mirror.known(cluster);
        let takes = self.around(self.settings.latencies.network * 2);
        let late = self.rng.f64() < self.settings.faults.late;
        let takes = if late { takes + TIMEOUT.mul_f64(self.rng.f64()) } else { takes };
        let is_lost = self.rng.f64() < self.settings.faults.lost || self.members[cluster].is_cut;
        let member = &self.members[cluster];
        let incarnation: Arc<str> = format!("c{cluster}-{}", member.life).into();
        let table = member.agent.as_ref().map(|_| &member.delegates).filter(|_| !is_lost);
        let list =
            table.map(|table| table.list(&incarnation, &known.0, known.1, self.settings.list_page));
        self.push(self.now + takes, Event::Listed { scheduler: seat, life, cluster, list });
    }

    pub(super) fn listed(
        &mut self,
        seat: usize,
        life: u32,
        cluster: usize,
        list: Option<DelegateList>,
    ) {
        if self.seats[seat].life != life {
            return;
        }
        let Some(mirror) = &mut self.seats[seat].mirror else { return };
        let more = list.as_ref().is_some_and(|list| list.more);
        match list {
            Some(list) => mirror.take(cluster, list, self.now),
            None => drop(mirror.no_answer(cluster, self.now)),
        }
        let pause = if more { Duration::from_millis(1) } else { LIST_INTERVAL };
        self.push(self.now + pause, Event::List { scheduler: seat, life, cluster });
        self.work_of_mirror(seat);
    }

    /// Begins what the mirror of a scheduler asks for.
    pub(super) fn work_of_mirror(&mut self, seat: usize) {
        let roster = Names { members: self.members.len(), draining: self.draining };
        loop {
            let Some(mirror) = &mut self.seats[seat].mirror else { return };
            let Some((uid, plan)) = mirror.next(&roster, self.now, self.now) else { break };
            self.begin_errand(seat, uid, plan);
        }
        let own = &mut self.seats[seat];
        let deadline = own.mirror.as_ref().and_then(Mirror::next_deadline);
        if let Some(deadline) = deadline.filter(|time| own.look.is_none_or(|look| *time < look)) {
            own.look = Some(deadline);
            let life = own.life;
            self.push(deadline, Event::Look { scheduler: seat, life });
        }
    }

    fn begin_errand(&mut self, seat: usize, uid: Uid, plan: Plan) {
        let step = match plan {
            Plan::Stuck(_) => return self.end_errand(seat, &uid, false),
            Plan::Show { pod, status, is_unreachable, events } => {
                self.status_writes += u64::from(status.is_some());
                let status =
                    status.map(|status| ManagementOperation::Status { status, is_unreachable });
                let events =
                    events.into_iter().map(|event| ManagementOperation::Event(Box::new(event)));
                let write =
                    |operation| ManagementWrite { pod: pod.clone(), uid: uid.clone(), operation };
                Step::Write(status.into_iter().chain(events).map(write).collect())
            }
            Plan::Missing { member, key, delegate, is_replaceable: true, .. } => {
                Step::Seal(member, key, Then::Replace(delegate))
            }
            Plan::Missing { pod, member, key, .. } => {
                let operation = ManagementOperation::Delete;
                let delete = ManagementWrite { pod, uid: uid.clone(), operation };
                Step::Seal(member, key, Then::DeleteOriginal(Box::new(delete)))
            }
            Plan::LeftOver { is_orphan: true, .. } if self.originals.contains_key(&uid) => {
                return self.end_errand(seat, &uid, true);
            }
            Plan::LeftOver { member, delegate, .. } => {
                let name = PodKey::new(&delegate.namespace, &delegate.name);
                let delegate = Some(delegate.uid.clone());
                let deletion = Deletion { pod: uid.clone(), name, delegate };
                Step::Delete(member, deletion, Then::End { must_be_gone: true })
            }
            Plan::Evict { pod, member, delegate } => {
                let delegate = Some(delegate);
                let deletion = Deletion { pod: uid.clone(), name: pod, delegate };
                Step::Delete(member, deletion, Then::End { must_be_gone: false })
            }
            Plan::Release { pod, attempt, members, may_be_lost, resource_version, finalizers } => {
                let is_waiting = !may_be_lost.is_empty();
                let (life, now) = (self.seats[seat].life, self.now);
                self.with_scheduler(seat, life, |scheduler, _, _| {
                    for (cluster, after) in may_be_lost {
                        scheduler.await_end(&cluster, &uid, after, now);
                    }
                });
                let operation = ManagementOperation::Release { resource_version, finalizers };
                let last = ManagementWrite { pod: pod.clone(), uid: uid.clone(), operation };
                let last = (!is_waiting).then_some(last);
                let key =
                    CommitKey { pod: uid.to_string().into(), number: TryNumber::last_of(attempt) };
                match (Releasing { name: pod, key, rest: members, last }).next() {
                    Some(step) => step,
                    None => return self.end_errand(seat, &uid, false),
                }
            }
        };
        self.take_step(seat, uid, step);
    }

    /// Sends the request of a step.
    fn take_step(&mut self, seat: usize, pod: Uid, step: Step) {
        self.next_errand += 1;
        let (number, life) = (self.next_errand, self.seats[seat].life);
        let id = ErrandId { scheduler: seat, life, pod: pod.clone(), number };
        let lost = ErrandAnswer::Lost;
        self.push(self.now + TIMEOUT, Event::Errand { id: id.clone(), answer: lost });
        self.send_step(&step, id);
        self.seats[seat].errands.insert(pod, Errand { number, step });
    }

    fn send_step(&mut self, step: &Step, id: ErrandId) {
        match step {
            Step::Write(writes) => {
                let Some(write) = writes.front().cloned() else { return };
                let takes = self.around(self.settings.latencies.api.div_f64(2.0));
                let is_lost = self.rng.f64() < self.settings.faults.lost_writes;
                if !is_lost {
                    let event = Event::ErrandWrite { id: Some(id), write };
                    return self.push(self.now + takes, event);
                }
                if self.rng.bool() {
                    let late = self.settings.faults.longest_delay.mul_f64(self.rng.f64());
                    let event = Event::ErrandWrite { id: None, write };
                    self.push(self.now + late, event);
                }
            }
            &Step::Seal(cluster, ref key, _) => {
                self.send(cluster, Duration::ZERO, move || Event::Request {
                    cluster,
                    caller: Caller::Mirror(id.clone()),
                    request: Request::Seal(SealRequest { key: key.clone() }),
                });
            }
            &Step::Delete(cluster, ref deletion, _) => {
                self.send(cluster, Duration::ZERO, move || Event::DelegateDeletion {
                    cluster,
                    id: id.clone(),
                    deletion: deletion.clone(),
                });
            }
        }
    }

    /// An agent deletes the delegate of a pod, whether it is bound or has ended.
    pub(super) fn delete_delegate(&mut self, cluster: usize, id: ErrandId, deletion: &Deletion) {
        if self.members[cluster].agent.is_none() {
            return;
        }
        let known = self.members[cluster].pods.get(&deletion.name);
        let known = known.filter(|own| {
            let mark = own.mark.as_ref();
            let is_of_pod = mark.is_some_and(|mark| Uid::from(&*mark.key.pod) == deletion.pod);
            let uid = own.pod.uid.to_string();
            is_of_pod && deletion.delegate.as_ref().is_none_or(|delegate| **delegate == *uid)
        });
        let is_gone = known.is_none();
        if let Some(uid) = known.map(|own| own.pod.uid.clone()) {
            let pod = deletion.name.clone();
            self.operate_member(cluster, MemberOperation::End { pod, uid }, None);
        }
        let work = self.settings.latencies.api;
        let answer = ErrandAnswer::Deleted(is_gone);
        self.send(cluster, work, move || Event::Errand { id: id.clone(), answer: answer.clone() });
    }

    /// Goes on with an errand after an answer.
    pub(super) fn errand_answered(&mut self, id: ErrandId, answer: ErrandAnswer) {
        let ErrandId { scheduler: seat, life, pod, number } = id;
        if self.seats[seat].life != life || self.seats[seat].mirror.is_none() {
            return;
        }
        let errands = &mut self.seats[seat].errands;
        let is_awaited = errands.get(&pod).is_some_and(|own| own.number == number);
        let Some(Errand { step, .. }) = is_awaited.then(|| errands.remove(&pod)).flatten() else {
            return;
        };
        let next = match (step, answer) {
            (_, ErrandAnswer::Lost) => Err(false),
            (Step::Write(mut writes), ErrandAnswer::Written(answer)) => {
                let written = writes.pop_front();
                match self.errand_written(seat, &pod, written, &answer) {
                    true if !writes.is_empty() => Ok(Step::Write(writes)),
                    is_done => Err(is_done),
                }
            }
            (Step::Seal(member, _, then), ErrandAnswer::Sealed(outcome)) => {
                self.sealed(seat, &pod, member, then, outcome)
            }
            (Step::Delete(.., Then::End { must_be_gone }), ErrandAnswer::Deleted(is_gone)) => {
                Err(is_gone || !must_be_gone)
            }
            (
                Step::Delete(.., Then::Release { release, is_committed: false }),
                ErrandAnswer::Deleted(true),
            ) => release.next().ok_or(false),
            _ => Err(false),
        };
        match next {
            Ok(step) => self.take_step(seat, pod, step),
            Err(is_done) => self.end_errand(seat, &pod, is_done),
        }
    }

    /// Handles a write that was answered. Returns whether it was carried out, or need not be.
    fn errand_written(
        &mut self,
        seat: usize,
        pod: &Uid,
        written: Option<ManagementWrite>,
        answer: &WriteAnswer,
    ) -> bool {
        let operation = written.map(|write| write.operation);
        let is_done = match answer {
            WriteAnswer::Done(_) | WriteAnswer::Gone => true,
            // The event exists.
            WriteAnswer::Conflict => matches!(operation, Some(ManagementOperation::Event(_))),
            WriteAnswer::Failed(_) => false,
        };
        let Some(mirror) = self.seats[seat].mirror.as_mut().filter(|_| is_done) else {
            return is_done;
        };
        match operation {
            Some(ManagementOperation::Status { status, is_unreachable }) => {
                mirror.status_written(pod, status, is_unreachable);
            }
            Some(ManagementOperation::Event(shown)) => {
                mirror.event_shown(pod, &shown.cluster, &shown.event);
            }
            _ => {}
        }
        is_done
    }

    /// Returns what follows a seal, or whether the errand is done.
    fn sealed(
        &mut self,
        seat: usize,
        pod: &Uid,
        member: usize,
        then: Then,
        outcome: SealOutcome,
    ) -> Result<Step, bool> {
        let is_sealed = outcome == SealOutcome::Sealed;
        match then {
            Then::Release { .. } if matches!(outcome, SealOutcome::Rejected(_)) => Err(false),
            Then::Release { release, .. } => {
                let (name, pod) = (release.name.clone(), pod.clone());
                let deletion = Deletion { pod, name, delegate: None };
                let then = Then::Release { release, is_committed: !is_sealed };
                Ok(Step::Delete(member, deletion, then))
            }
            Then::Replace(delegate) if is_sealed => {
                let life = self.seats[seat].life;
                self.with_scheduler(seat, life, |own, _, _| own.replace(pod, &delegate));
                Err(false)
            }
            Then::DeleteOriginal(delete) if is_sealed => Ok(Step::write(*delete)),
            _ => Err(false),
        }
    }

    fn end_errand(&mut self, seat: usize, uid: &Uid, is_done: bool) {
        let now = self.now;
        self.seats[seat].errands.remove(uid);
        if let Some(mirror) = &mut self.seats[seat].mirror {
            mirror.done(uid, is_done, now);
        }
        // Its turn comes after what is at hand.
        let life = self.seats[seat].life;
        self.push(now, Event::Look { scheduler: seat, life });
    }

    /// Handles a pod of a member, or its event, as the watches of its agent show it.
    pub(super) fn show_delegate(&mut self, cluster: usize, watched: &Watched) {
        let has_kubelets = self.settings.kubelets;
        let table = &mut self.members[cluster].delegates;
        match watched {
            Watched::Changed(MemberPod { pod, mark: Some(mark), status }) => {
                let delegate = Delegate {
                    pod: mark.key.pod.clone(),
                    number: mark.key.number,
                    namespace: pod.key.namespace.clone(),
                    name: pod.key.name.clone(),
                    uid: pod.uid.to_string().into(),
                    origin: mark.origin.clone(),
                    node: pod.node_name.clone(),
                    terminating: pod.terminating,
                    status: if has_kubelets { status_of(pod) } else { Value::clone(status) },
                    events: Vec::new(),
                };
                table.set(&pod.uid, delegate);
            }
            Watched::Changed(_) => {}
            Watched::Deleted(MemberPod { pod, .. }) => drop(table.remove(&pod.uid)),
            Watched::Event(uid, event) => drop(table.add_event(uid, event.clone())),
        }
    }
}

/// Returns the status that a kubelet gives a delegate. It names the delegate.
fn status_of(pod: &framework::Pod) -> serde_json::Value {
    match pod.node_name {
        Some(_) => json!({"phase": "Running", "podIP": pod.uid.to_string()}),
        None => json!({"phase": "Pending"}),
    }
}
