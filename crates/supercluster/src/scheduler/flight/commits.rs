//! The intent, the commits, and the placement that is written at the end.

use std::sync::Arc;

use engine::ports::Ports;
use framework::{Status, Time, Uid};

use super::{FIRST_PAUSE, Flight, LONGEST_PAUSE, Phase};
use crate::message::{CommitOutcome, CommitRequest, CommitTarget, Committed, PodObject, Request};
use crate::scheduler::clusters::ClusterIx;
use crate::scheduler::decision::Candidate;
use crate::scheduler::explain::outcome_text;
use crate::scheduler::pipeline::Pipeline;
use crate::scheduler::placement::{Intent, Placement};
use crate::scheduler::{Scheduler, SchedulerOutput, WriteAnswer, WriteId};

impl Scheduler {
    /// Writes the intent, so that no other scheduler commits the pod, and a restarted one knows
    /// whom to ask.
    pub(super) fn claim(&mut self, uid: &Uid, candidates: Vec<Candidate>) {
        let write = WriteId(self.next_id());
        let Some(flight) = self.flights.get_mut(uid) else { return };
        flight.attempt += 1;
        let mut clusters: Vec<Arc<str>> = Vec::new();
        for candidate in &candidates {
            let name = &self.members.get(candidate.cluster).name;
            if !clusters.contains(name) {
                clusters.push(name.clone());
            }
        }
        let pod = &flight.object.pod;
        let scheduler = self.config.name.clone();
        let output = SchedulerOutput::WriteIntent {
            id: write,
            pod: pod.key.clone(),
            uid: uid.clone(),
            resource_version: pod.resource_version.max(flight.version),
            intent: Intent {
                attempt: flight.attempt,
                scheduler,
                clusters,
                fence_after_s: flight.fence_after_s,
            },
        };
        self.outputs.push(output);
        self.writes.insert(write, uid.clone());
        self.enter(uid, Phase::Claiming { candidates, write });
    }

    pub(in crate::scheduler) fn write_answered(
        &mut self,
        uid: &Uid,
        id: WriteId,
        answer: WriteAnswer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        match &mut flight.phase {
            Phase::Claiming { candidates, write } if *write == id => match answer {
                WriteAnswer::Done(version) => {
                    let candidates = std::mem::take(candidates);
                    flight.version = version;
                    self.try_candidate(uid, candidates, 0, now, ports);
                }
                WriteAnswer::Gone => self.drop_pod(uid, now, ports),
                // Another scheduler was faster, or somebody has changed the pod. The watch shows
                // it.
                WriteAnswer::Conflict => {
                    self.rounds.ended(uid, "another scheduler was faster, or the pod has changed");
                    self.enter(uid, Phase::Elsewhere { takes_over: false });
                    self.set_timer(uid, Some(now + FIRST_PAUSE));
                }
                WriteAnswer::Failed(error) => {
                    let text = format!("writing the intent on the pod: {error}");
                    self.back_off(uid, &Status::error(text), now, ports);
                }
            },
            Phase::Recording { pause, .. } => match answer {
                WriteAnswer::Done(version) => self.recorded(uid, version, now, ports),
                WriteAnswer::Gone => self.drop_pod(uid, now, ports),
                WriteAnswer::Conflict | WriteAnswer::Failed(_) => {
                    let wait = *pause;
                    *pause = (wait * 2).min(LONGEST_PAUSE);
                    self.set_timer(uid, Some(now + wait));
                }
            },
            _ => {}
        }
    }

    /// Tries the candidates from `place` on.
    pub(super) fn try_candidate(
        &mut self,
        uid: &Uid,
        candidates: Vec<Candidate>,
        mut place: usize,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let Some(object) = self.flights.get(uid).map(|flight| flight.object.clone()) else {
            return;
        };
        let fence_after_s = self.flights.get(uid).and_then(|flight| flight.fence_after_s);
        let mut terms = None;
        while let Some(candidate) = candidates.get(place) {
            let name = &self.members.get(candidate.cluster).name;
            terms = fence_after_s.and_then(|seconds| self.leases.terms(name, seconds));
            let has_terms = terms.is_some() == fence_after_s.is_some();
            let has_left = self.members.has_left(candidate.cluster);
            if has_terms && !has_left {
                let plugins = &self.config.plugins;
                let mut pipeline = Pipeline { plugins, probe: &mut *ports.probe };
                match pipeline.reserve(&object, self.members.get(candidate.cluster)) {
                    Ok(()) => break,
                    Err(status) if status.is_rejection() => {}
                    Err(status) => return self.back_off(uid, &status, now, ports),
                }
            }
            place += 1;
        }
        let Some(candidate) = candidates.get(place) else {
            return self.all_conflicted(uid, now, ports);
        };
        let Some(flight) = self.flights.get(uid) else { return };
        let request = CommitRequest {
            key: flight.key(flight.try_number(place)),
            snapshot: candidate.snapshot.clone(),
            pod: object,
            target: CommitTarget {
                node: candidate.node.clone(),
                best_of_at_least: candidate.best_of_at_least,
            },
            origin: self.config.origin.clone(),
            terms,
            copies: Arc::from([]),
        };
        let cluster = candidate.cluster;
        self.placed.insert(&request.pod.pod, &self.members.get(cluster).name);
        self.stats.commits += 1;
        let call = self.call(uid, cluster, Request::Commit(Arc::new(request)));
        let (began, is_stalled) = (now, false);
        self.enter(uid, Phase::Committing { candidates, place, call, began, is_stalled });
        self.set_timer(uid, Some(now + self.config.commit_timeout.min(self.config.sample_timeout)));
    }

    /// A commit has no answer yet. It is asked for after the timeout. Before, a pod whose agent
    /// does not answer anything makes place for others.
    pub(super) fn commit_waits(&mut self, uid: &Uid, now: Time) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        let Phase::Committing { candidates, place, began, is_stalled, .. } = &mut flight.phase
        else {
            return;
        };
        let (cluster, timeout) = (candidates[*place].cluster, *began + self.config.commit_timeout);
        if timeout <= now {
            self.members.failed(cluster, now);
            return self.ask_agent(uid, now);
        }
        if !*is_stalled && self.members.is_silent_since(cluster, *began) {
            *is_stalled = true;
            self.active -= 1;
        }
        self.set_timer(uid, Some(timeout.min(now + self.config.sample_timeout)));
    }

    fn all_conflicted(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        self.stats.failed_rounds += 1;
        let Some(flight) = self.flights.get_mut(uid) else { return };
        if flight.rounds < self.config.rounds {
            *self.retries.entry(uid.clone()).or_default() += 1;
            return self.attempt_failed(uid, now, ports);
        }
        let text = format!("no commit was made in {} rounds", flight.rounds);
        self.back_off(uid, &Status::error(text), now, ports);
    }

    /// Goes on after the outcome of the commit at hand.
    pub(super) fn commit_ended(
        &mut self,
        uid: &Uid,
        outcome: CommitOutcome,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        let (candidates, place) = match &mut flight.phase {
            Phase::Committing { candidates, place, .. }
            | Phase::Asking { candidates, place, .. } => (std::mem::take(candidates), *place),
            _ => return,
        };
        let cluster = candidates[place].cluster;
        let object = flight.object.clone();
        self.rounds.committed(uid, place, outcome_text(&outcome));
        match outcome {
            CommitOutcome::Committed(committed) => {
                self.record(uid, cluster, committed, now, ports);
            }
            CommitOutcome::Conflict(_) => {
                self.stats.conflicts += 1;
                self.stats.first_conflicts += u64::from(place == 0);
                self.not_committed(&object, cluster, ports);
                self.try_candidate(uid, candidates, place + 1, now, ports);
            }
            CommitOutcome::Rejected(_) => {
                self.not_committed(&object, cluster, ports);
                self.try_candidate(uid, candidates, place + 1, now, ports);
            }
        }
    }

    pub(super) fn not_committed(
        &mut self,
        object: &PodObject,
        cluster: ClusterIx,
        ports: &mut Ports<'_>,
    ) {
        self.placed.remove(&object.pod.uid);
        let mut pipeline = Pipeline { plugins: &self.config.plugins, probe: &mut *ports.probe };
        pipeline.unreserve(object, self.members.get(cluster));
    }

    /// The answer to a commit is lost: the agent is asked before another cluster is tried.
    pub(super) fn ask_agent(&mut self, uid: &Uid, now: Time) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        let Phase::Committing { candidates, place, call, .. } = &mut flight.phase else { return };
        let (candidates, place, commit) = (std::mem::take(candidates), *place, *call);
        self.stats.lost_answers += 1;
        self.rounds.committed(uid, place, "no answer: the agent is asked what became of it");
        self.enter(uid, Phase::Asking { candidates, place, commit, pause: FIRST_PAUSE });
        self.ask_what_became(uid, now);
    }

    /// Writes the placement on the pod.
    pub(super) fn record(
        &mut self,
        uid: &Uid,
        cluster: ClusterIx,
        committed: Committed,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        if !self.pods.contains_key(uid) {
            self.outputs.push(SchedulerOutput::Abandoned { cluster, committed });
            self.placed.remove(uid);
            return self.drop_pod(uid, now, ports);
        }
        self.stats.placed += 1;
        let placement = Placement { cluster: self.members.get(cluster).name.clone(), committed };
        if let Some(flight) = self.flights.get(uid) {
            self.placed.insert(&flight.object.pod, &placement.cluster);
        }
        self.enter(uid, Phase::Recording { placement, pause: FIRST_PAUSE });
        self.write_placement(uid, now);
    }

    pub(super) fn write_placement(&mut self, uid: &Uid, now: Time) {
        let id = WriteId(self.next_id());
        let Some(flight) = self.flights.get(uid) else { return };
        let Phase::Recording { placement, .. } = &flight.phase else { return };
        let (pod, placement) = (flight.object.pod.key.clone(), placement.clone());
        let uid_of = uid.clone();
        self.outputs.push(SchedulerOutput::WritePlacement { id, pod, uid: uid_of, placement });
        self.writes.insert(id, uid.clone());
        // A write that gets no answer is repeated.
        self.set_timer(uid, Some(now + LONGEST_PAUSE));
    }

    fn recorded(&mut self, uid: &Uid, version: u64, now: Time, ports: &mut Ports<'_>) {
        self.retries.remove(uid);
        if let Some(Flight { phase: Phase::Recording { placement, .. }, .. }) =
            self.flights.get(uid)
            && let Some(original) = self.pods.get_mut(uid)
            && original.version < version
        {
            original.version = version;
            original.placement = Some(placement.clone());
        }
        self.drop_pod(uid, now, ports);
    }
}
