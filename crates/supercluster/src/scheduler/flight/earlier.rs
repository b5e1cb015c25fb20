//! Attempts that were begun before, by this scheduler or by another one.

use std::collections::BTreeSet;

use engine::ports::Ports;
use framework::{Status, Time, Uid};

use super::{FIRST_PAUSE, LONGEST_PAUSE, Phase};
use crate::message::{Request, SealOutcome, SealRequest, TryNumber};
use crate::scheduler::clusters::ClusterIx;
use crate::scheduler::placement::Intent;
use crate::scheduler::{CallId, Scheduler};

impl Scheduler {
    /// Takes over from an earlier attempt, once its clusters have said that it has failed for good.
    pub(super) fn recover(&mut self, uid: &Uid, intent: &Intent, now: Time, ports: &mut Ports<'_>) {
        let clusters = intent.clusters.iter();
        let left = clusters.filter(|name| !self.leases.is_given_up(uid, name, intent.attempt));
        let members = left.map(|name| self.members.named(name).ok_or(name));
        match members.collect::<Result<BTreeSet<ClusterIx>, _>>() {
            Ok(waiting) => {
                if let Some(flight) = self.flights.get_mut(uid) {
                    flight.attempt = intent.attempt;
                }
                if waiting.is_empty() {
                    return self.attempt_failed(uid, now, ports);
                }
                let (after, pause) = (CallId(self.next_id()), FIRST_PAUSE);
                self.enter(uid, Phase::Recovering { waiting, after, pause });
                self.ask_what_became(uid, now);
            }
            Err(name) => {
                let text = format!(
                    "cluster {name:?} may run the pod since an earlier attempt, and is no member any more"
                );
                self.back_off(uid, &Status::error(text), now, ports);
            }
        }
    }

    /// Gives up the commits of clusters that are lost. Returns whether no cluster is left to ask.
    pub(super) fn give_up_lost(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) -> bool {
        let (members, leases) = (&self.members, &self.leases);
        let Some(flight) = self.flights.get_mut(uid) else { return true };
        let attempt = flight.attempt;
        let is_lost = |ix: ClusterIx| leases.is_given_up(uid, &members.get(ix).name, attempt);
        match &mut flight.phase {
            Phase::Recovering { waiting, .. } => {
                waiting.retain(|ix| !is_lost(*ix));
                if waiting.is_empty() {
                    self.attempt_failed(uid, now, ports);
                    return true;
                }
            }
            Phase::Asking { candidates, place, .. } if is_lost(candidates[*place].cluster) => {
                self.sealed(uid, SealOutcome::Sealed, now, ports);
                return true;
            }
            _ => {}
        }
        false
    }

    /// Asks the clusters that may have placed the pod.
    pub(super) fn ask_what_became(&mut self, uid: &Uid, now: Time) {
        let Some(flight) = self.flights.get_mut(uid) else { return };
        let (clusters, number, pause) = match &mut flight.phase {
            Phase::Recovering { waiting, pause, .. } => {
                let clusters: Vec<ClusterIx> = waiting.iter().copied().collect();
                (clusters, TryNumber::last_of(flight.attempt), pause)
            }
            Phase::Asking { candidates, place, pause, .. } => {
                let (cluster, place) = (candidates[*place].cluster, *place);
                let candidate = u16::try_from(place).unwrap_or(u16::MAX - 1);
                (vec![cluster], TryNumber { attempt: flight.attempt, candidate }, pause)
            }
            _ => return,
        };
        let wait = *pause;
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        let key = flight.key(number);
        for cluster in clusters {
            self.call(uid, cluster, Request::Seal(SealRequest { key: key.clone() }));
        }
        self.set_timer(uid, Some(now + wait));
    }

    /// Handles the intent that a pod shows.
    pub(in crate::scheduler) fn intent_seen(&mut self, uid: &Uid, now: Time) {
        let intent = self.pods.get(uid).and_then(|original| original.intent.clone());
        let Some(flight) = self.flights.get_mut(uid) else { return };
        let attempt = intent.map_or(0, |intent| intent.attempt);
        if matches!(flight.phase, Phase::Elsewhere { .. }) && attempt > flight.attempt {
            // The other scheduler is alive.
            flight.attempt = attempt;
            self.leave_to_others(uid, now);
        }
    }

    /// The latest attempt has failed for good: begins a fresh round.
    pub(super) fn attempt_failed(&mut self, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        self.placed.remove(uid);
        if let Some(flight) = self.flights.get_mut(uid) {
            flight.closed = flight.attempt;
        }
        self.begin_round(uid, now, ports);
    }

    /// Handles the placement that a pod shows.
    pub(in crate::scheduler) fn placement_seen(
        &mut self,
        uid: &Uid,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let Some(flight) = self.flights.get(uid) else { return };
        let is_over = match flight.phase {
            Phase::Elsewhere { .. } | Phase::Recovering { .. } | Phase::Sampling(_) => true,
            // A commit that was sent may still be carried out: its answer decides.
            Phase::Claiming { .. } | Phase::Committing { .. } | Phase::Asking { .. } => false,
            Phase::Recording { .. } => true,
        };
        if is_over {
            self.drop_pod(uid, now, ports);
        }
    }
}
