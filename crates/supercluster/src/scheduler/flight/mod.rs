//! The way of one pod.
//!
//! ```text
//!             ┌────────── every candidate met a conflict: fresh samples ──────────┐
//!             ▼                                                                   │
//!  start ─▶ Sampling ─▶ decide ─▶ Claiming ─▶ Committing ── conflict: next candidate ─┤
//!    │                    │          │            │  │ answer lost                 │
//!    │ an intent          ▼          ▼            │  └▶ Asking ── sealed ──────────┘
//!    │ is found        back off   try again       ▼        │ committed
//!    ├▶ Elsewhere                              Recording ◀─┘
//!    └▶ Recovering ── sealed everywhere: Sampling; committed: Recording
//! ```
//!
//! In Asking and Recovering a pod may run in a member, so it stays there until the agents have
//! answered. Pods in these two phases do not count against the maximum number in flight, and
//! neither do those whose commit waits for an agent that does not answer at all.

mod commits;
mod earlier;
mod samples;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::Ports;
use framework::{CycleState, QueuedPod, Status, Time, Uid};

use super::clusters::{ClusterIx, Members};
use super::decision::Candidate;
use super::placement::Placement;
use super::{CallId, Scheduler, SchedulerOutput, WriteId};
use crate::message::{
    CommitKey, CommitOutcome, PodObject, RefusalCode, Request, Response, SampleResponse,
    SealOutcome, TryNumber,
};

/// First pause before a question or a write is repeated; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A pod between the queue and its placement.
#[derive(Debug)]
pub(super) struct Flight {
    queued: QueuedPod,
    object: PodObject,
    /// Number of the latest attempt that was seen or written on the pod.
    attempt: u32,
    /// Attempts up to this one have failed for good.
    closed: u32,
    /// `metadata.resourceVersion` after the last intent that this flight wrote.
    version: u64,
    /// Number of rounds in this flight.
    rounds: u32,
    /// The terms of the delegate, if the pod may be replaced when its cluster is lost.
    fence_after_s: Option<u32>,
    /// Whether the next round asks all clusters, because the last one found no node.
    asks_all: bool,
    phase: Phase,
    timer: Option<Time>,
}

#[derive(Debug)]
enum Phase {
    /// Another scheduler may place the pod.
    Elsewhere {
        takes_over: bool,
    },
    /// The clusters of an earlier attempt are asked what became of it, with calls after this one.
    Recovering {
        waiting: BTreeSet<ClusterIx>,
        after: CallId,
        pause: Duration,
    },
    Sampling(Sampling),
    /// The intent is written.
    Claiming {
        candidates: Vec<Candidate>,
        write: WriteId,
    },
    /// `began` is the time of the call. `is_stalled` says that the agent has not answered anything
    /// since.
    Committing {
        candidates: Vec<Candidate>,
        place: usize,
        call: CallId,
        began: Time,
        is_stalled: bool,
    },
    /// The answer to a commit was lost. `commit` is its call, whose answer may still come.
    Asking {
        candidates: Vec<Candidate>,
        place: usize,
        commit: CallId,
        pause: Duration,
    },
    Recording {
        placement: Placement,
        pause: Duration,
    },
}

/// The samples of a round.
#[derive(Debug)]
struct Sampling {
    state: CycleState,
    /// The clusters that were asked, with their calls while they have not answered.
    asked: Vec<(ClusterIx, Option<CallId>)>,
    samples: Vec<(ClusterIx, Arc<SampleResponse>)>,
    /// Why clusters have no node for the pod.
    reasons: Vec<(ClusterIx, String)>,
    deadline: Time,
    /// Whether all clusters were asked that may be.
    is_complete: bool,
}

impl Phase {
    /// Whether the pod counts against the maximum number in flight. A pod that waits for a silent
    /// cluster does not count, because pods of other clusters would wait for that cluster, too.
    const fn is_active(&self) -> bool {
        !matches!(
            self,
            Self::Elsewhere { .. }
                | Self::Recovering { .. }
                | Self::Asking { .. }
                | Self::Committing { is_stalled: true, .. }
        )
    }
}

impl Flight {
    /// Says what is done about the pod.
    pub(super) fn explain(&self, members: &Members) -> String {
        let name = |cluster: &ClusterIx| members.get(*cluster).name.to_string();
        match &self.phase {
            Phase::Elsewhere { .. } => "another scheduler places the pod".to_owned(),
            Phase::Recovering { waiting, .. } => {
                let names: Vec<String> = waiting.iter().map(name).collect();
                let names = names.join(", ");
                format!("waiting for {names} to say whether an earlier attempt placed the pod")
            }
            Phase::Sampling(sampling) => {
                let open = sampling.asked.iter().filter(|(_, call)| call.is_some()).count();
                format!("waiting for samples of {open} clusters")
            }
            Phase::Claiming { .. } => "writing the intent on the pod".to_owned(),
            Phase::Committing { candidates, place, .. } => {
                let Candidate { cluster, node, .. } = &candidates[*place];
                format!("committing to node {node} of {}", name(cluster))
            }
            Phase::Asking { candidates, place, .. } => {
                let cluster = name(&candidates[*place].cluster);
                format!("waiting for {cluster} to say whether it has placed the pod")
            }
            Phase::Recording { placement, .. } => {
                format!("writing on the pod that it runs in {}", placement.cluster)
            }
        }
    }

    /// Returns the number of the latest attempt that was seen or written.
    pub(super) const fn attempt(&self) -> u32 {
        self.attempt
    }

    fn key(&self, number: TryNumber) -> CommitKey {
        CommitKey { pod: self.object.pod.uid.to_string().into(), number }
    }

    fn try_number(&self, place: usize) -> TryNumber {
        let candidate = u16::try_from(place).unwrap_or(u16::MAX - 1);
        TryNumber { attempt: self.attempt, candidate }
    }
}

/// Beginnings and ends.
impl Scheduler {
    /// Begins with a pod of the queue.
    pub(super) fn start(&mut self, queued: QueuedPod, now: Time, ports: &mut Ports<'_>) {
        let uid = queued.pod.uid.clone();
        let Some(original) = self.pods.get(&uid).filter(|_| !self.flights.contains_key(&uid))
        else {
            return self.engine.delegated(&queued.pod, now, ports);
        };
        let object = original.object.clone();
        let flight = Flight {
            queued,
            object,
            attempt: 0,
            closed: 0,
            version: 0,
            rounds: 0,
            fence_after_s: None,
            asks_all: false,
            phase: Phase::Elsewhere { takes_over: false },
            timer: None,
        };
        self.flights.insert(uid.clone(), flight);
        if self.pods.get(&uid).is_some_and(|original| original.intent.is_none())
            && !self.is_own_turn(&uid)
        {
            return self.leave_to_others(&uid, now);
        }
        self.begin_round(&uid, now, ports);
    }

    /// Looks at the latest attempt that is written on the pod, and begins a round if that one has
    /// failed for good.
    fn begin_round(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        let Some(original) = self.pods.get(uid).filter(|own| own.placement.is_none()) else {
            return self.drop_pod(uid, now, ports);
        };
        let (object, intent) = (original.object.clone(), original.intent.clone());
        let fence_after_s = match original.fence_after_s(self.config.replace_after) {
            Ok(fence_after_s) => fence_after_s,
            Err(error) => return self.back_off(uid, &Status::unresolvable(error), now, ports),
        };
        let Some(flight) = self.flights.get_mut(uid) else { return };
        (flight.object, flight.fence_after_s) = (object, fence_after_s);
        match intent.filter(|intent| intent.attempt > flight.closed) {
            None => self.ask_for_samples(uid, now, ports),
            // This scheduler wrote it in an earlier flight or an earlier life, which has ended.
            Some(intent) if intent.scheduler == self.config.name => {
                self.recover(uid, &intent, now, ports);
            }
            Some(intent) => {
                flight.attempt = intent.attempt;
                self.leave_to_others(uid, now);
            }
        }
    }

    fn is_own_turn(&self, uid: &Uid) -> bool {
        let (turn, of) = self.config.turn;
        let text = uid.to_string();
        // FNV-1a.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        of < 2 || hash % of == turn
    }

    /// Lets another scheduler place the pod, and takes over if it has not after a while.
    fn leave_to_others(&mut self, uid: &Uid, now: Time) {
        self.enter(uid, Phase::Elsewhere { takes_over: true });
        self.set_timer(uid, Some(now + self.config.takeover_wait));
    }

    fn enter(&mut self, uid: &Uid, phase: Phase) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        self.active -= usize::from(flight.phase.is_active());
        flight.phase = phase;
        self.active += usize::from(flight.phase.is_active());
    }

    fn leave(&mut self, uid: &Uid) -> Option<Flight> {
        self.set_timer(uid, None);
        let flight = self.flights.remove(uid)?;
        self.active -= usize::from(flight.phase.is_active());
        Some(flight)
    }

    /// Ends with a pod that is placed or gone.
    fn drop_pod(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        if let Some(flight) = self.leave(uid) {
            self.engine.delegated(&flight.queued.pod, now, ports);
        }
    }

    /// Puts the pod back into the queue with a backoff.
    fn back_off(&mut self, uid: &Uid, status: &Status, now: Time, ports: &mut Ports<'_>) {
        self.placed.remove(uid);
        let Some(flight) = self.leave(uid) else { return };
        if self.pods.contains_key(uid) {
            *self.retries.entry(uid.clone()).or_default() += 1;
        }
        self.engine.failed(flight.queued, status, now, ports);
    }

    fn set_timer(&mut self, uid: &Uid, time: Option<Time>) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        if let Some(old) = flight.timer.take() {
            self.timers.remove(&(old, uid.clone()));
        }
        if let Some(time) = time {
            flight.timer = Some(time);
            self.timers.insert((time, uid.clone()));
        }
    }

    fn call(&mut self, uid: &Uid, cluster: ClusterIx, request: Request) -> CallId {
        let id = CallId(self.next_id());
        self.calls.insert(id, (uid.clone(), cluster));
        self.outputs.push(SchedulerOutput::Call { id, cluster, request });
        id
    }
}

/// A request to an agent, about a pod.
#[derive(Debug)]
pub(super) struct OpenCall {
    pub(super) uid: Uid,
    pub(super) cluster: ClusterIx,
    pub(super) id: CallId,
}

/// Inputs of flights.
impl Scheduler {
    pub(super) fn answered(
        &mut self,
        call: &OpenCall,
        answer: Result<Response, String>,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let OpenCall { uid, cluster, id } = call;
        let (cluster, id) = (*cluster, *id);
        if answer.is_ok() {
            self.members.heard(cluster, now);
        }
        let answer = answer.and_then(|answer| of_pod(answer, uid));
        let Some(flight) = self.flights.get_mut(uid) else { return };
        match (&mut flight.phase, answer) {
            (Phase::Sampling(_), answer) => {
                self.sampled(call, answer, now, ports);
            }
            (Phase::Committing { call, .. }, answer) if *call == id => match answer {
                Ok(Response::Commit(CommitOutcome::Rejected(refusal)))
                    if matches!(
                        refusal.code,
                        RefusalCode::OtherIncarnation | RefusalCode::NotReady
                    ) =>
                {
                    // An earlier life of the agent may have carried out a copy of the request.
                    self.ask_agent(uid, now);
                }
                Ok(Response::Commit(outcome)) => self.commit_ended(uid, outcome, now, ports),
                Ok(_) | Err(_) => self.ask_agent(uid, now),
            },
            // The answer comes late. A rejection says nothing about an earlier copy of the request.
            (Phase::Asking { commit, .. }, Ok(Response::Commit(outcome)))
                if *commit == id && !matches!(outcome, CommitOutcome::Rejected(_)) =>
            {
                self.commit_ended(uid, outcome, now, ports);
            }
            // The answer to an earlier seal says nothing about this try.
            (Phase::Asking { commit, .. }, Ok(Response::Seal(outcome))) if *commit < id => {
                self.sealed(uid, outcome, now, ports);
            }
            (Phase::Recovering { after, .. }, Ok(Response::Seal(outcome))) if *after < id => {
                self.recovered(uid, cluster, outcome, now, ports);
            }
            _ => {}
        }
    }

    /// Handles the outcome of the commit whose answer was lost.
    fn sealed(&mut self, uid: &Uid, outcome: SealOutcome, now: Time, ports: &mut Ports<'_>) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        let Phase::Asking { candidates, place, .. } = &mut flight.phase else { return };
        match outcome {
            SealOutcome::Committed(committed) => {
                self.commit_ended(uid, CommitOutcome::Committed(committed), now, ports);
            }
            SealOutcome::Sealed => {
                let (candidates, place) = (std::mem::take(candidates), *place);
                let (object, cluster) = (flight.object.clone(), candidates[place].cluster);
                self.rounds.committed(
                    uid,
                    place,
                    "not made: its answer was lost, and it is sealed",
                );
                self.not_committed(&object, cluster, ports);
                self.try_candidate(uid, candidates, place + 1, now, ports);
            }
            SealOutcome::Rejected(_) => {}
        }
    }

    /// Handles the outcome of an earlier attempt in one of its clusters.
    fn recovered(
        &mut self,
        uid: &Uid,
        cluster: ClusterIx,
        outcome: SealOutcome,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        let Phase::Recovering { waiting, .. } = &mut flight.phase else { return };
        match outcome {
            SealOutcome::Committed(committed) => {
                self.record(uid, cluster, committed, now, ports);
            }
            SealOutcome::Sealed => {
                waiting.remove(&cluster);
                if waiting.is_empty() {
                    self.attempt_failed(uid, now, ports);
                }
            }
            SealOutcome::Rejected(_) => {}
        }
    }

    pub(super) fn timer_fired(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        self.set_timer(uid, None);
        let Some(flight) = self.flights.get(uid) else { return };
        match &flight.phase {
            Phase::Sampling(_) => self.decide(uid, now, ports),
            Phase::Committing { .. } => self.commit_waits(uid, now),
            Phase::Asking { .. } | Phase::Recovering { .. } => {
                if !self.give_up_lost(uid, now, ports) {
                    self.ask_what_became(uid, now);
                }
            }
            Phase::Recording { .. } => self.write_placement(uid, now),
            Phase::Claiming { .. } => {}
            Phase::Elsewhere { takes_over: false } => self.begin_round(uid, now, ports),
            Phase::Elsewhere { takes_over: true } => {
                let intent = self.pods.get(uid).and_then(|original| original.intent.clone());
                match intent.filter(|intent| intent.attempt > flight.closed) {
                    Some(intent) => self.recover(uid, &intent, now, ports),
                    None => self.begin_round(uid, now, ports),
                }
            }
        }
    }
}

/// Refuses an answer that names a delegate of another pod: the agent has a bug or lies.
fn of_pod(answer: Response, uid: &Uid) -> Result<Response, String> {
    let committed = match &answer {
        Response::Commit(CommitOutcome::Committed(committed))
        | Response::Seal(SealOutcome::Committed(committed)) => committed,
        _ => return Ok(answer),
    };
    match *committed.key.pod == *uid.to_string() {
        true => Ok(answer),
        false => Err("its agent named the delegate of another pod".to_owned()),
    }
}
