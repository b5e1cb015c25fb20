//! Schedulers, and the API server of the management cluster.

use std::sync::Arc;
use std::time::Duration;

use engine::EffectKind;
use engine::ports::Ports;
use framework::{PodKey, Time, Uid};

use super::{API_TIMEOUT, Caller, Event, SHORTEST_TICK, World, with_ports};
use crate::scheduler::{
    self, ClusterIx, LeaseAnswer, LeaseOperation, OriginalPod, Scheduler, SchedulerOutput,
};
use crate::simulation::management::ManagementOperation;
use crate::simulation::member::MemberEvent;

impl World {
    pub(super) fn with_scheduler(
        &mut self,
        seat: usize,
        life: u32,
        run: impl FnOnce(&mut Scheduler, Time, &mut Ports<'_>),
    ) {
        let (own, now) = (&mut self.seats[seat], self.now);
        if own.life != life {
            return;
        }
        if let Some(scheduler) = &mut own.scheduler {
            with_ports(|ports| run(scheduler, now, ports));
            self.after_scheduler(seat);
        }
    }

    pub(super) fn work_of_scheduler(&mut self, seat: usize) {
        let own = &mut self.seats[seat];
        if own.is_busy {
            return;
        }
        let Some((call, response)) = own.waiting.pop_front() else { return };
        own.is_busy = true;
        let life = own.life;
        self.push(self.now + self.settings.latencies.message, Event::SchedulerFree(seat));
        self.with_scheduler(seat, life, |scheduler, now, ports| {
            scheduler.called(call, Ok(response), now, ports);
        });
    }

    /// Carries out what the scheduler asks for.
    pub(super) fn after_scheduler(&mut self, seat: usize) {
        let own = &mut self.seats[seat];
        let Some(scheduler) = &mut own.scheduler else { return };
        let (outputs, deadline) = (scheduler.take_outputs(), scheduler.next_deadline());
        let life = own.life;
        for output in outputs {
            match output {
                SchedulerOutput::Call { id, cluster: ClusterIx(cluster), request } => {
                    let caller = Caller::Scheduler { scheduler: seat, life, call: id };
                    self.send(cluster, Duration::ZERO, move || Event::Request {
                        cluster,
                        caller: caller.clone(),
                        request: request.clone(),
                    });
                }
                SchedulerOutput::WriteIntent { id, uid, resource_version, intent, .. } => {
                    let operation = ManagementOperation::Intent { uid, resource_version, intent };
                    self.write_later(seat, life, Some(id), operation);
                }
                SchedulerOutput::WritePlacement { id, uid, placement, .. } => {
                    let operation = ManagementOperation::Placement { uid, placement };
                    self.write_later(seat, life, Some(id), operation);
                }
                SchedulerOutput::Lease { id, cluster, operation } => {
                    self.write_lease_later(seat, life, id, (cluster, operation));
                }
                SchedulerOutput::Released { .. } => {}
                SchedulerOutput::Effect(effect) => {
                    if let EffectKind::PatchPodStatus { uid, patch, .. } = effect.kind
                        && let Some(condition) = patch.condition
                    {
                        let message = condition.message.to_string();
                        let operation = ManagementOperation::Condition { uid, message };
                        self.write_later(seat, life, None, operation);
                    }
                }
                SchedulerOutput::Decided(decision) => self.measure_decision(&decision),
                SchedulerOutput::Abandoned { cluster, committed } => {
                    let pods = &self.members[cluster.0].api.pods;
                    let found = pods.values().find(|own| own.pod.uid == Uid::from(&*committed.uid));
                    let Some(key) = found.map(|own| own.pod.key.clone()) else { continue };
                    if let Some(gone) = self.members[cluster.0].api.remove(&key) {
                        self.member_changed(cluster.0, MemberEvent::Deleted(gone));
                    }
                }
            }
        }
        let tick = &mut self.seats[seat].tick;
        if let Some(deadline) = deadline.filter(|time| tick.is_none_or(|tick| *time < tick)) {
            *tick = Some(deadline);
            let tick = Event::SchedulerTick { scheduler: seat, life };
            self.push(deadline.max(self.now + SHORTEST_TICK), tick);
        }
    }

    fn write_later(
        &mut self,
        scheduler: usize,
        life: u32,
        id: Option<scheduler::WriteId>,
        operation: ManagementOperation,
    ) {
        let takes = self.around(self.settings.latencies.api.div_f64(2.0));
        let Some(own) = id.filter(|_| self.rng.f64() < self.settings.faults.lost_writes) else {
            return self.push(self.now + takes, Event::Write { scheduler, life, id, operation });
        };
        let answer = scheduler::WriteAnswer::Failed("no answer in time".to_owned());
        self.push(self.now + API_TIMEOUT, Event::Written { scheduler, life, id: own, answer });
        if self.rng.bool() {
            let late = self.settings.faults.longest_delay.mul_f64(self.rng.f64());
            self.push(self.now + late, Event::Write { scheduler, life, id: None, operation });
        }
    }

    fn write_lease_later(
        &mut self,
        scheduler: usize,
        life: u32,
        id: scheduler::WriteId,
        (cluster, operation): (Arc<str>, LeaseOperation),
    ) {
        let takes = self.around(self.settings.latencies.api.div_f64(2.0));
        let is_lost = self.rng.f64() < self.settings.faults.lost_writes;
        let asker = (!is_lost).then_some(id);
        let event = |asker| Event::LeaseWrite { scheduler, life, id: asker, cluster, operation };
        if !is_lost {
            return self.push(self.now + takes, event(asker));
        }
        let answer = LeaseAnswer::Failed("no answer in time".to_owned());
        self.push(self.now + API_TIMEOUT, Event::LeaseAnswered { scheduler, life, id, answer });
        if self.rng.bool() {
            let late = self.settings.faults.longest_delay.mul_f64(self.rng.f64());
            self.push(self.now + late, event(None));
        }
    }

    pub(super) fn write_lease(
        &mut self,
        (scheduler, life): (usize, u32),
        id: Option<scheduler::WriteId>,
        cluster: &Arc<str>,
        operation: &LeaseOperation,
    ) {
        let answer = self.management.lease(cluster, operation);
        if let Some(id) = id {
            let takes = self.around(self.settings.latencies.api.div_f64(2.0));
            let answered = Event::LeaseAnswered { scheduler, life, id, answer };
            self.push(self.now + takes, answered);
        }
    }

    /// The mirror of the program, which sees both sides of every cluster that answers: delegates that are left over from an
    /// earlier try are deleted, and pods whose delegate is gone are placed anew.
    pub(super) fn mirror(&mut self) {
        for cluster in 0..self.members.len() {
            let member = &self.members[cluster];
            if member.is_cut || member.agent.is_none() {
                continue;
            }
            let left_over = member.api.pods.values().filter(|own| {
                let Some(mark) = &own.mark else { return false };
                let original = self.management.original(&Uid::from(&*mark.key.pod));
                let uid = own.pod.uid.to_string();
                // A pod that is being deleted is released in all its clusters.
                let is_deleted = self.management.is_terminating(&mark.key.pod);
                !own.pod.terminating
                    && !is_deleted
                    && original.is_none_or(|pod| pod.is_left_over(&uid, mark.key.number))
            });
            let left_over: Vec<(PodKey, Uid)> =
                left_over.map(|own| (own.pod.key.clone(), own.pod.uid.clone())).collect();
            let exists = |key: &PodKey, uid: &str| {
                let known = member.api.pods.get(key);
                known.is_some_and(|known| known.pod.uid == Uid::from(uid))
            };
            let missing = self.management.pods.iter().filter(|(_, pod)| {
                let here = pod
                    .placement
                    .as_ref()
                    .filter(|own| *own.cluster == format!("c{cluster}") && !pod.terminating);
                here.is_some_and(|own| !exists(&pod.pod.key, &own.committed.uid))
            });
            let missing = missing.filter_map(|(uid, pod)| {
                Some((uid.clone(), pod.placement.as_ref()?.committed.uid.clone()))
            });
            let missing: Vec<(Uid, Arc<str>)> = missing.collect();
            for (pod, uid) in left_over {
                if let Some(event) = self.members[cluster].api.end(&pod, &uid) {
                    self.member_changed(cluster, event);
                }
            }
            let seat = self.rng.usize(..self.seats.len());
            let life = self.seats[seat].life;
            self.with_scheduler(seat, life, |scheduler, _, _| {
                missing.iter().for_each(|(uid, delegate)| scheduler.replace(uid, delegate));
            });
        }
    }

    pub(super) fn write(
        &mut self,
        scheduler: usize,
        life: u32,
        id: Option<scheduler::WriteId>,
        operation: &ManagementOperation,
    ) {
        let (answer, is_changed) = self.management.carry_out(operation);
        if is_changed {
            let (ManagementOperation::Intent { uid, .. }
            | ManagementOperation::Placement { uid, .. }
            | ManagementOperation::Condition { uid, .. }) = operation;
            self.show(uid);
        }
        if let Some(id) = id {
            let takes = self.around(self.settings.latencies.api.div_f64(2.0));
            self.push(self.now + takes, Event::Written { scheduler, life, id, answer });
        }
    }

    pub(super) fn seats_of(&self, owner: Option<usize>) -> Vec<usize> {
        owner.map_or_else(|| (0..self.seats.len()).collect(), |owner| vec![owner])
    }

    /// Lets the watches show a pod.
    pub(super) fn show(&mut self, uid: &Uid) {
        let Some(known) = self.management.pods.get(uid) else { return };
        let (owner, is_deleted) = (known.owner, known.terminating);
        let key = known.pod.key.clone();
        for seat in self.seats_of(owner) {
            if is_deleted {
                self.shown(seat, Err((key.clone(), uid.clone())));
                continue;
            }
            if let Some(original) = self.management.original(uid) {
                self.shown(seat, Ok(Box::new(original)));
            }
        }
    }

    pub(super) fn shown(&mut self, seat: usize, original: Result<Box<OriginalPod>, (PodKey, Uid)>) {
        let takes = self.around(self.settings.latencies.watch);
        let own = &mut self.seats[seat];
        let time = (self.now + takes).max(own.last_shown);
        own.last_shown = time;
        let life = own.life;
        if own.scheduler.is_some() {
            self.push(time, Event::Shown { scheduler: seat, life, original });
        }
    }
}
