//! Schedulers, and the API server of the management cluster.

use std::sync::Arc;
use std::time::Duration;

use engine::ports::Ports;
use engine::{Effect, EffectKind};
use framework::{PodKey, Time, Uid};

use super::mirror::ErrandAnswer;
use super::{API_TIMEOUT, Caller, Event, SHORTEST_TICK, World, Writer, with_ports};
use crate::mirror::Mirror;
use crate::scheduler::{
    self, Cluster, ClusterIx, LeaseAnswer, LeaseOperation, OriginalPod, Scheduler, SchedulerOutput,
};
use crate::simulation::originals::Original;
use crate::simulation::servers::{
    ManagementEvent, ManagementOperation, ManagementOutcome, ManagementWrite, MemberOperation, Work,
};

impl World {
    pub(super) fn with_scheduler(
        &mut self,
        seat: usize,
        life: u32,
        run: impl FnOnce(&mut Scheduler, Time, &mut Ports<'_>),
    ) {
        let (own, now) = (&self.seats[seat], self.now);
        if own.life != life || own.scheduler.is_none() {
            return;
        }
        let work = |own: &mut Self| {
            if let Some(scheduler) = &mut own.seats[seat].scheduler {
                with_ports(|ports| run(scheduler, now, ports));
            }
        };
        self.timed(|costs| &mut costs.schedulers, work);
        self.after_scheduler(seat);
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
                SchedulerOutput::WriteIntent { id, pod, uid, resource_version, intent } => {
                    let finalizers =
                        self.originals.get(&uid).map(Original::finalizers).unwrap_or_default();
                    let operation =
                        ManagementOperation::Intent { resource_version, intent, finalizers };
                    let write = ManagementWrite { pod, uid, operation };
                    self.write_later(seat, life, Some(id), write);
                }
                SchedulerOutput::WritePlacement { id, pod, uid, placement } => {
                    let operation = ManagementOperation::Placement(placement);
                    let write = ManagementWrite { pod, uid, operation };
                    self.write_later(seat, life, Some(id), write);
                }
                SchedulerOutput::Lease { id, cluster, operation } => {
                    self.write_lease_later(seat, life, id, cluster, operation);
                }
                SchedulerOutput::Released { cluster, pod } => {
                    if let Some(mirror) = &mut self.seats[seat].mirror {
                        mirror.release(&cluster, &pod);
                        self.push(self.now, Event::Look { scheduler: seat, life });
                    }
                }
                SchedulerOutput::Effect(effect) => self.carry_out_effect(seat, life, effect),
                SchedulerOutput::Decided(decision) => self.measure_decision(&decision),
                SchedulerOutput::Abandoned { cluster, committed } => {
                    let pods = &self.members[cluster.0].pods;
                    let uid = Uid::from(&*committed.uid);
                    let found = pods.values().find(|own| own.pod.uid == uid);
                    let Some(pod) = found.map(|own| own.pod.key.clone()) else { continue };
                    self.operate_member(cluster.0, MemberOperation::Remove { pod, uid }, None);
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
        write: ManagementWrite,
    ) {
        let takes = self.around(self.settings.latencies.api.div_f64(2.0));
        let Some(own) = id.filter(|_| self.rng.f64() < self.settings.faults.lost_writes) else {
            return self.push(self.now + takes, Event::Write { scheduler, life, id, write });
        };
        let answer = scheduler::WriteAnswer::Failed("no answer in time".to_owned());
        self.push(self.now + API_TIMEOUT, Event::Written { scheduler, life, id: own, answer });
        if self.rng.bool() {
            let late = self.settings.faults.longest_delay.mul_f64(self.rng.f64());
            self.push(self.now + late, Event::Write { scheduler, life, id: None, write });
        }
    }

    fn write_lease_later(
        &mut self,
        scheduler: usize,
        life: u32,
        id: scheduler::WriteId,
        cluster: Arc<str>,
        operation: LeaseOperation,
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
        scheduler: usize,
        life: u32,
        id: Option<scheduler::WriteId>,
        cluster: &Arc<str>,
        operation: &LeaseOperation,
    ) {
        let answer = self.leases.carry_out(cluster, operation);
        if let Some(id) = id {
            let takes = self.around(self.settings.latencies.api.div_f64(2.0));
            let answered = Event::LeaseAnswered { scheduler, life, id, answer };
            self.push(self.now + takes, answered);
        }
    }

    /// Carries out an effect of the engine of a scheduler. Nothing waits for its answer.
    fn carry_out_effect(&mut self, scheduler: usize, life: u32, effect: Effect) {
        let (pod, uid) = match &effect.kind {
            EffectKind::PatchPodStatus { pod, uid, .. } => (pod.clone(), uid.clone()),
            EffectKind::Event(event) => {
                let (pod, uid) = (event.regarding.clone(), event.uid.clone());
                let operation = ManagementOperation::Effect(effect);
                self.manage(ManagementWrite { pod, uid, operation }, None);
                return;
            }
            _ => return,
        };
        let operation = ManagementOperation::Effect(effect);
        self.write_later(scheduler, life, None, ManagementWrite { pod, uid, operation });
    }

    /// Carries out a write of an original pod.
    pub(super) fn manage(&mut self, write: ManagementWrite, writer: Option<Writer>) {
        self.writes += 1;
        let (now, uid, note) = (self.now, write.uid.clone(), Note::of(&write.operation));
        let begin = |own: &mut Self| own.management.carry_out(write, now);
        let work = self.timed(|costs| &mut costs.servers, begin);
        match self.lead {
            None => self.managed(now, &uid, note, writer, work),
            Some(lead) => {
                self.push(now + lead, Event::Managed { at: now, uid, note, writer, work });
            }
        }
    }

    /// Handles what the API server of the management cluster has done at this time, and lets the
    /// watches show it.
    pub(super) fn managed(
        &mut self,
        at: Time,
        uid: &Uid,
        note: Option<Note>,
        writer: Option<Writer>,
        work: Work<ManagementOutcome>,
    ) {
        let (answer, events) = self.timed(|costs| &mut costs.servers, |_| work.wait());
        if let scheduler::WriteAnswer::Done(_) = answer
            && let Some(note) = note
            && let Some(own) = self.originals.get_mut(uid)
        {
            note.write(own);
        }
        self.management_changed(events, None, at);
        let Some(writer) = writer else { return };
        let answered = match writer {
            Writer::Scheduler { scheduler, life, id } => {
                Event::Written { scheduler, life, id, answer }
            }
            Writer::Mirror(id) => Event::Errand { id, answer: ErrandAnswer::Written(answer) },
        };
        let takes = self.around(self.settings.latencies.api.div_f64(2.0));
        self.push(at + takes, answered);
    }

    /// Drains this member, or none.
    pub(super) fn drain(&mut self, drained: Option<usize>) {
        self.draining = drained;
        let clusters = self.settings.scheduler.clusters.clone();
        for seat in 0..self.seats.len() {
            let life = self.seats[seat].life;
            self.with_scheduler(seat, life, |scheduler, now, _| {
                for (member, cluster) in clusters.iter().enumerate() {
                    let closed = (drained == Some(member)).then(|| "it is drained".into());
                    scheduler.set_cluster(
                        ClusterIx(member),
                        Cluster { closed, ..cluster.clone() },
                        now,
                    );
                }
            });
            self.seats[seat].mirror.iter_mut().for_each(Mirror::look_at_all);
            self.work_of_mirror(seat);
        }
    }

    pub(super) fn seats_of(&self, owner: Option<usize>) -> Vec<usize> {
        owner.map_or_else(|| (0..self.seats.len()).collect(), |owner| vec![owner])
    }

    /// Handles what has changed in the management cluster, and lets the watches of schedulers show
    /// it. A new pod belongs to `owner`.
    pub(super) fn management_changed(
        &mut self,
        events: Vec<ManagementEvent>,
        owner: Option<usize>,
        at: Time,
    ) {
        for event in events {
            match event {
                ManagementEvent::Changed(pod) => {
                    let uid = pod.object.pod.uid.clone();
                    let known = self.originals.entry(uid);
                    let known = known.or_insert_with(|| Original::new((*pod).clone(), owner));
                    known.pod.clone_from(&pod);
                    for seat in self.seats_of(self.originals[&pod.object.pod.uid].owner) {
                        self.shown(seat, at, Ok(pod.clone()));
                    }
                }
                ManagementEvent::Deleted(key, uid) => {
                    let Some(gone) = self.originals.remove(&uid) else { continue };
                    for seat in self.seats_of(gone.owner) {
                        self.shown(seat, at, Err((key.clone(), uid.clone())));
                    }
                }
            }
        }
    }

    /// A watch shows a pod to a scheduler and its mirror.
    pub(super) fn shown_to(
        &mut self,
        seat: usize,
        life: u32,
        original: Result<Box<OriginalPod>, (PodKey, Uid)>,
    ) {
        if self.seats[seat].life == life
            && let Some(mirror) = &mut self.seats[seat].mirror
        {
            match &original {
                Ok(original) => mirror.see(OriginalPod::clone(original)),
                Err((_, uid)) => mirror.forget(uid),
            }
        }
        self.with_scheduler(seat, life, |scheduler, now, ports| match original {
            Ok(original) if original.object.pod.terminating => {
                let pod = &original.object.pod;
                scheduler.pod_deleted(&pod.key, &pod.uid, now, ports);
            }
            Ok(original) => scheduler.original(*original, now, ports),
            Err((key, uid)) => scheduler.pod_deleted(&key, &uid, now, ports),
        });
        self.work_of_mirror(seat);
    }

    fn shown(&mut self, seat: usize, at: Time, original: Result<Box<OriginalPod>, (PodKey, Uid)>) {
        let takes = self.around(self.settings.latencies.watch);
        let own = &mut self.seats[seat];
        let time = (at + takes).max(own.last_shown);
        own.last_shown = time;
        let life = own.life;
        if own.scheduler.is_some() {
            self.push(time, Event::Shown { scheduler: seat, life, original });
        }
    }
}

/// The data that the world keeps of a write that was carried out, for its checks.
#[derive(Debug)]
pub(super) enum Note {
    IsUnreachable(bool),
    /// The message of the condition PodScheduled.
    Condition(String),
}

impl Note {
    fn of(operation: &ManagementOperation) -> Option<Self> {
        match operation {
            ManagementOperation::Status { is_unreachable, .. } => {
                Some(Self::IsUnreachable(*is_unreachable))
            }
            ManagementOperation::Effect(Effect {
                kind: EffectKind::PatchPodStatus { patch, .. },
                ..
            }) => {
                let condition = patch.condition.as_ref()?;
                Some(Self::Condition(condition.message.to_string()))
            }
            _ => None,
        }
    }

    fn write(self, to: &mut Original) {
        match self {
            Self::IsUnreachable(is_unreachable) => to.is_unreachable = is_unreachable,
            Self::Condition(message) => to.condition = Some(message),
        }
    }
}
