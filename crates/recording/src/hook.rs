//! The hook through which an engine is recorded.

use std::collections::BTreeMap;

use engine::ports::{
    CallError, ExtenderCall, ExtenderClient, Filtered, HostPriorities, MetaVictims, Outage, Ports,
    PreemptionCall, Probing,
};
use engine::{Effect, Engine, Input, Output};
use framework::Time;

use crate::encoder::Encoder;

impl Encoder {
    /// Lets the engine take a step and writes it down: the input before the step, the results of
    /// extenders as they arrive, and the outcome after it.
    pub fn step(
        &mut self,
        engine: &mut Engine,
        input: Input,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Output {
        self.input(&input, engine, now);
        let mut extenders = RecordedExtenders { client: &mut *ports.extenders, encoder: self };
        let ports = &mut Ports { extenders: &mut extenders, probe: &mut *ports.probe };
        let output = engine.step(input, now, ports);
        self.output(&output);
        output
    }

    /// Takes the effects of the engine and writes them down.
    pub fn take_effects(&mut self, engine: &mut Engine) -> Vec<Effect> {
        let effects = engine.take_effects();
        self.effects(&effects);
        effects
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
