//! The one owner of an engine, which writes down every call.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use engine::cycle::Form;
use engine::ports::{
    CallError, ExtenderCall, ExtenderClient, Filtered, HostPriorities, MetaVictims, Outage, Ports,
    PreemptionCall, Probing,
};
use engine::{Attempt, Change, Effect, EffectId, Engine, Evaluation};
use framework::{Answer, Pod, PodKey, Time, WallOffset};

use crate::encoder::{Chunk, Encoder};

/// An engine whose calls are recorded, if a recording was begun. It can be read as an [`Engine`], and changed
/// only by the calls here.
#[derive(Debug)]
pub struct RecordedEngine {
    engine: Engine,
    encoder: Option<Encoder>,
}

impl From<Engine> for RecordedEngine {
    fn from(engine: Engine) -> Self {
        Self { engine, encoder: None }
    }
}

impl Deref for RecordedEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl RecordedEngine {
    /// Creates an engine that is recorded from its first call on.
    pub const fn recording(engine: Engine, encoder: Encoder) -> Self {
        Self { engine, encoder: Some(encoder) }
    }

    /// Takes what was recorded since the last call, if it is at least this many bytes.
    pub fn take_recorded(&mut self, least: usize) -> Option<Chunk> {
        let encoder = self.encoder.as_mut()?;
        (!encoder.is_empty() && encoder.len() >= least).then(|| encoder.take())
    }

    /// Returns whether a new file begins with what is recorded next.
    pub fn begins_file(&self) -> bool {
        self.encoder.as_ref().is_some_and(Encoder::starts)
    }

    /// Returns the number of bytes after which a new file begins.
    pub fn file_size(&self) -> usize {
        self.encoder.as_ref().map_or(0, Encoder::reset_after)
    }

    /// Writes a part of a checkpoint: objects that the engine knows, as changes that add them. No file ends before
    /// the checkpoint does. Returns the number of bytes.
    pub fn record_known(&mut self, objects: &[Change]) -> usize {
        let Some(encoder) = &mut self.encoder else { return 0 };
        let before = encoder.len();
        objects.iter().for_each(|object| encoder.known(object));
        encoder.len() - before
    }

    /// Ends a checkpoint. Whether it is complete or given up, the next file may begin.
    pub fn end_checkpoint(&mut self, is_complete: bool) {
        match &mut self.encoder {
            Some(encoder) if is_complete => encoder.checkpoint(),
            Some(encoder) => encoder.abandon_checkpoint(),
            None => {}
        }
    }

    /// Ends the recording.
    pub fn end_recording(&mut self) {
        self.encoder = None;
    }

    /// Calls [`Engine::set_wall_offset`].
    pub fn set_wall_offset(&mut self, offset: WallOffset) {
        if let Some(encoder) = &mut self.encoder {
            encoder.wall_offset(offset);
        }
        self.engine.set_wall_offset(offset);
    }

    /// Calls [`Engine::apply`].
    pub fn apply(&mut self, change: Change, now: Time, ports: &mut Ports<'_>) {
        if let Some(encoder) = &mut self.encoder {
            encoder.change(&change, now);
        }
        self.call(ports, |engine, ports| engine.apply(change, now, ports));
    }

    /// Calls [`Engine::answer`].
    pub fn answer(&mut self, effect: EffectId, answer: &Answer, now: Time, ports: &mut Ports<'_>) {
        if let Some(encoder) = &mut self.encoder {
            encoder.answer(effect, answer, now);
        }
        self.call(ports, |engine, ports| engine.answer(effect, answer, now, ports));
    }

    /// Calls [`Engine::extender_probed`].
    pub fn extender_probed(
        &mut self,
        extender: usize,
        outcome: Result<(), String>,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        if let Some(encoder) = &mut self.encoder {
            encoder.extender_probed(extender, &outcome, now);
        }
        self.call(ports, |engine, ports| engine.extender_probed(extender, outcome, now, ports));
    }

    /// Calls [`Engine::tick`]. It is recorded if something is due.
    pub fn tick(&mut self, now: Time, ports: &mut Ports<'_>) {
        if let Some(encoder) = &mut self.encoder
            && self.engine.next_deadline().is_some_and(|deadline| deadline <= now)
        {
            encoder.tick(now);
        }
        self.call(ports, |engine, ports| engine.tick(now, ports));
    }

    /// Calls [`Engine::touch`] for a pending pod.
    pub fn touch(&mut self, pod: &PodKey) -> Option<EffectId> {
        let pod = self.engine.pending_pod(pod)?.clone();
        if let Some(encoder) = &mut self.encoder {
            encoder.touch(&pod);
        }
        Some(self.engine.touch(&pod))
    }

    /// Calls [`Engine::schedule_one`].
    pub fn schedule_one(&mut self, now: Time, ports: &mut Ports<'_>) -> Option<Attempt> {
        if let Some(encoder) = &mut self.encoder {
            encoder.schedule(now);
        }
        let attempt = self.call(ports, |engine, ports| engine.schedule_one(now, ports));
        if let (Some(encoder), Some(attempt)) = (&mut self.encoder, &attempt) {
            encoder.attempt(attempt);
        }
        attempt
    }

    /// Calls [`Engine::evaluate`]. It is recorded because it may try an extender again.
    pub fn evaluate(
        &mut self,
        pod: &Arc<Pod>,
        form: Form,
        start: Option<usize>,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Option<Evaluation> {
        if let Some(encoder) = &mut self.encoder {
            encoder.evaluate(pod, form, start, now);
        }
        self.call(ports, |engine, ports| engine.evaluate(pod, form, start, now, ports))
    }

    /// Calls [`Engine::take_effects`].
    pub fn take_effects(&mut self) -> Vec<Effect> {
        let effects = self.engine.take_effects();
        if let Some(encoder) = &mut self.encoder {
            encoder.effects(&effects);
        }
        effects
    }

    /// Calls the engine with ports that record what extenders return.
    fn call<T>(
        &mut self,
        ports: &mut Ports<'_>,
        call: impl FnOnce(&mut Engine, &mut Ports<'_>) -> T,
    ) -> T {
        let Some(encoder) = &mut self.encoder else { return call(&mut self.engine, ports) };
        let mut extenders = RecordedExtenders { client: &mut *ports.extenders, encoder };
        let ports = &mut Ports { extenders: &mut extenders, probe: &mut *ports.probe };
        call(&mut self.engine, ports)
    }
}

/// Extenders whose results are recorded.
struct RecordedExtenders<'a> {
    client: &'a mut dyn ExtenderClient,
    encoder: &'a mut Encoder,
}

impl ExtenderClient for RecordedExtenders<'_> {
    fn filter(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<Filtered, CallError>, Time) {
        let (result, until) = self.client.filter(call, now);
        self.encoder.filtered(&result, until);
        (result, until)
    }

    fn prioritize(
        &mut self,
        calls: &[ExtenderCall<'_>],
        now: Time,
    ) -> (Vec<Result<HostPriorities, CallError>>, Time) {
        let (results, until) = self.client.prioritize(calls, now);
        self.encoder.prioritized(&results, until);
        (results, until)
    }

    fn process_preemption(
        &mut self,
        call: &PreemptionCall<'_>,
        now: Time,
    ) -> (Result<BTreeMap<String, MetaVictims>, CallError>, Time) {
        let (result, until) = self.client.process_preemption(call, now);
        self.encoder.preempted(&result, until);
        (result, until)
    }

    fn probe(&mut self, call: Probing<'_>) {
        self.client.probe(call);
    }

    fn skipped(&mut self, extender: usize, error: &str) {
        self.client.skipped(extender, error);
    }

    fn outage_changed(&mut self, extender: usize, outage: Option<&Outage>) {
        self.client.outage_changed(extender, outage);
    }
}
