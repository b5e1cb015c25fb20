//! Agents, and the API servers of their clusters.

use engine::EffectKind;
use engine::ports::Ports;
use framework::{Time, Uid};

use super::mirror::ErrandAnswer;
use super::{
    API_TIMEOUT, Asker, Caller, Event, GRACE_PERIOD, SHORTEST_TICK, Waiting, Watched, World,
    with_ports,
};
use crate::agent::{self, Agent, AgentOutput};
use crate::message::{Request, Response};
use crate::simulation::servers::{
    ManagementOperation, ManagementWrite, MemberAnswer, MemberEvent, MemberOperation,
    MemberOutcome, MemberPod, Work,
};

impl World {
    pub(super) fn with_agent(
        &mut self,
        cluster: usize,
        life: u32,
        run: impl FnOnce(&mut Agent, Time, &mut Ports<'_>),
    ) {
        let (member, now) = (&self.members[cluster], self.now);
        if member.life != life || member.agent.is_none() {
            return;
        }
        let work = |own: &mut Self| {
            if let Some(agent) = &mut own.members[cluster].agent {
                with_ports(|ports| run(agent, now, ports));
            }
        };
        self.timed(|costs| &mut costs.agents, work);
        self.after_agent(cluster);
    }

    pub(super) fn work_of_agent(&mut self, cluster: usize) {
        let member = &mut self.members[cluster];
        if member.is_busy || member.agent.is_none() {
            if member.agent.is_none() {
                member.waiting.clear();
            }
            return;
        }
        let Some((caller, request)) = member.waiting.pop_front() else { return };
        member.is_busy = true;
        member.next_call += 1;
        let call = agent::CallId(member.next_call);
        member.callers.insert(call, caller);
        let life = member.life;
        let work = match &request {
            Request::Sample(_) => self.settings.latencies.sample,
            _ => self.settings.latencies.commit,
        };
        self.measure_before(cluster, &request);
        self.push(self.now + work, Event::AgentFree(cluster));
        self.with_agent(cluster, life, |agent, now, ports| agent.call(call, &request, now, ports));
    }

    /// Carries out what the agent asks for.
    pub(super) fn after_agent(&mut self, cluster: usize) {
        let member = &mut self.members[cluster];
        let Some(agent) = &mut member.agent else { return };
        let (outputs, deadline, life) = (agent.take_outputs(), agent.next_deadline(), member.life);
        for output in outputs {
            let (asker, operation) = match output {
                AgentOutput::Reply(call, response) => {
                    if let Some(caller) = self.members[cluster].callers.remove(&call) {
                        self.answer(cluster, &caller, &response);
                    }
                    continue;
                }
                // The clusters have no Secrets and ConfigMaps.
                AgentOutput::Copy { .. } => continue,
                AgentOutput::Create { id, pod, mark } => {
                    (Asker::Agent(id), MemberOperation::Create { pod, mark })
                }
                AgentOutput::Read { id, pod } => (Asker::Agent(id), MemberOperation::Read { pod }),
                AgentOutput::Delete { id, pod, uid, resource_version } => {
                    (Asker::Agent(id), MemberOperation::Delete { pod, uid, resource_version })
                }
                AgentOutput::Fence { id, pod, uid } => {
                    (Asker::Agent(id), MemberOperation::End { pod, uid })
                }
                AgentOutput::KeepLeases { id, renewed } => {
                    (Asker::Agent(id), MemberOperation::KeepLeases { renewed })
                }
                AgentOutput::Effect(effect) => match effect.kind {
                    EffectKind::Bind { .. }
                    | EffectKind::ReadPod { .. }
                    | EffectKind::Fence { .. } => {
                        (Asker::Engine(effect.id), MemberOperation::Effect(effect))
                    }
                    // Nothing waits for events.
                    EffectKind::Event(_) => {
                        self.operate_member(cluster, MemberOperation::Effect(effect), None);
                        continue;
                    }
                    _ => continue,
                },
            };
            self.operate(cluster, life, asker, operation);
        }
        let tick = &mut self.members[cluster].tick;
        if let Some(deadline) = deadline.filter(|time| tick.is_none_or(|tick| *time < tick)) {
            *tick = Some(deadline);
            self.push(deadline.max(self.now + SHORTEST_TICK), Event::AgentTick { cluster, life });
        }
    }

    /// Sends the answer of an agent.
    fn answer(&mut self, cluster: usize, caller: &Caller, response: &Response) {
        let work = self.settings.latencies.sample;
        match (caller, response) {
            (&Caller::Scheduler { scheduler, life, call }, _) => {
                self.send(cluster, work, move || Event::Response {
                    scheduler,
                    life,
                    call,
                    response: response.clone(),
                });
            }
            (Caller::Mirror(id), Response::Seal(outcome)) => {
                let answer = ErrandAnswer::Sealed(outcome.clone());
                let event = || Event::Errand { id: id.clone(), answer: answer.clone() };
                self.send(cluster, work, event);
            }
            (Caller::Mirror(_), _) => {}
        }
    }

    fn operate(&mut self, cluster: usize, life: u32, asker: Asker, operation: MemberOperation) {
        let takes = self.around(self.settings.latencies.api.div_f64(2.0));
        if self.rng.f64() >= self.settings.faults.lost_writes {
            let event = Event::Operation { cluster, life, asker: Some(asker), operation };
            return self.push(self.now + takes, event);
        }
        let answer = operation.lost();
        self.push(self.now + API_TIMEOUT, Event::Answer { cluster, life, asker, answer });
        match self.rng.u8(..3) {
            0 => {}
            1 => {
                let event = Event::Operation { cluster, life, asker: None, operation };
                self.push(self.now + takes, event);
            }
            _ => {
                let late = self.settings.faults.longest_delay.mul_f64(self.rng.f64());
                let event = Event::Operation { cluster, life, asker: None, operation };
                self.push(self.now + late, event);
            }
        }
    }

    /// Carries out an operation at the API server of a member.
    pub(super) fn operate_member(
        &mut self,
        cluster: usize,
        operation: MemberOperation,
        asker: Option<Waiting>,
    ) {
        let now = self.now;
        if let MemberOperation::KeepLeases { renewed } = operation {
            self.members[cluster].renewed = renewed;
            let answer = MemberAnswer::Agent(agent::WriteAnswer::Done);
            return self.member_answered(cluster, now, asker, answer);
        }
        self.writes += u64::from(operation.is_write());
        let begin = |own: &mut Self| own.members[cluster].server.carry_out(operation, now);
        let work = self.timed(|costs| &mut costs.servers, begin);
        match self.lead {
            None => self.operated(cluster, now, asker, work),
            Some(lead) => {
                self.push(now + lead, Event::Operated { cluster, at: now, asker, work });
            }
        }
    }

    /// Handles what the API server of a member has done at this time, and lets its watches show
    /// it.
    pub(super) fn operated(
        &mut self,
        cluster: usize,
        at: Time,
        asker: Option<Waiting>,
        work: Work<MemberOutcome>,
    ) {
        let (answer, events) = self.timed(|costs| &mut costs.servers, |_| work.wait());
        for event in events {
            self.member_changed(cluster, at, event);
        }
        self.member_answered(cluster, at, asker, answer);
    }

    fn member_answered(
        &mut self,
        cluster: usize,
        at: Time,
        asker: Option<Waiting>,
        answer: MemberAnswer,
    ) {
        if let Some(Waiting { life, asker }) = asker {
            let takes = self.around(self.settings.latencies.api.div_f64(2.0));
            self.push(at + takes, Event::Answer { cluster, life, asker, answer });
        }
    }

    /// Handles a change of a member. A pod that is being ended is gone after a part of its grace
    /// period.
    fn member_changed(&mut self, cluster: usize, at: Time, event: MemberEvent) {
        let pods = &mut self.members[cluster].pods;
        let watched = match event {
            MemberEvent::Event(uid, event) => Watched::Event(uid, event),
            MemberEvent::Deleted(key, _) => {
                let Some(gone) = pods.remove(&key) else { return };
                if gone.pod.node_name.is_some() {
                    self.checks.gone(cluster, &gone.pod, gone.mark.as_ref());
                }
                Watched::Deleted(gone)
            }
            MemberEvent::Changed(changed) => {
                let before = pods.insert(changed.pod.key.clone(), changed.clone());
                let before = before.filter(|before| before.pod.uid == changed.pod.uid);
                let was = |is: fn(&MemberPod) -> bool| before.as_ref().is_some_and(is);
                if changed.pod.terminating && !was(|before| before.pod.terminating) {
                    let takes = GRACE_PERIOD.mul_f64(self.rng.f64());
                    let (pod, uid) = (changed.pod.key.clone(), changed.pod.uid.clone());
                    self.push(self.now + takes, Event::Ended { cluster, pod, uid });
                }
                if changed.pod.node_name.is_some() && !was(|before| before.pod.node_name.is_some())
                {
                    self.delegate_bound(cluster, &changed);
                }
                Watched::Changed(changed)
            }
        };
        self.watch(cluster, at, watched);
    }

    fn delegate_bound(&mut self, cluster: usize, bound: &MemberPod) {
        let Some(mark) = &bound.mark else { return };
        let origin = &mark.key.pod;
        let is_gone = !self.originals.contains_key(&Uid::from(&**origin));
        self.checks.bound_in_vain += u64::from(is_gone);
        self.checks.bound(cluster, &bound.pod, mark);
        self.measurement.committed += 1;
        self.measurement.last_bind = self.now;
        self.bound.push_back((cluster, bound.pod.key.clone(), origin.clone()));
        if self.settings.live.is_some_and(|live| self.bound.len() > live) {
            self.end_oldest();
        }
    }

    /// The pod that was bound first ends: its delegate and the original are deleted.
    fn end_oldest(&mut self) {
        let Some((cluster, pod, origin)) = self.bound.pop_front() else { return };
        if let Some(uid) = self.members[cluster].pods.get(&pod).map(|own| own.pod.uid.clone()) {
            let operation = MemberOperation::Remove { pod: pod.clone(), uid };
            self.operate_member(cluster, operation, None);
        }
        let (uid, operation) = (Uid::from(&*origin), ManagementOperation::Remove);
        self.manage(ManagementWrite { pod, uid, operation }, None);
    }

    fn watch(&mut self, cluster: usize, at: Time, watched: Watched) {
        let takes = self.around(self.settings.latencies.watch);
        let member = &mut self.members[cluster];
        let time = (at + takes).max(member.last_shown);
        member.last_shown = time;
        let life = member.life;
        if member.agent.is_some() {
            self.push(time, Event::Watch { cluster, life, watched });
        }
    }
}
