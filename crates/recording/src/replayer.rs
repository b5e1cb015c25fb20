//! The same decisions again.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use engine::ports::{
    CallError, ExtenderCall, ExtenderClient, Filtered, HostPriorities, MetaVictims, Ports,
    PreemptionCall,
};
use engine::{Engine, Input};
use framework::{PodKey, Time, WallOffset};

use crate::encoder::digest;
use crate::operation::{Called, Decided, EffectSummary, Operation, Taken};

/// The first operation that came out otherwise than recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Number of the operation, counted from 1.
    pub number: u64,
    /// The time of the engine.
    pub time: Time,
    /// The input after which the difference was found.
    pub operation: String,
    /// The recorded value.
    pub recorded: String,
    /// The value of the replay.
    pub computed: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, operation, recorded, computed, .. } = self;
        write!(
            f,
            "operation {number}, {operation}: recorded was {recorded}, the replay has {computed}"
        )
    }
}

/// An engine that is fed with recorded operations.
#[derive(Debug)]
pub struct Replayer {
    engine: Engine,
    /// The last input, whose step is taken when all results of its extenders are known.
    held: Option<Held>,
    /// The operations so far.
    count: u64,
    now: Time,
    wall_offset: WallOffset,
    digest: u32,
    /// The input of the last step.
    last: String,
    /// Its attempt, if it made one.
    attempt: Option<(PodKey, Decided)>,
}

/// An input whose step has not been taken.
#[derive(Debug)]
struct Held {
    text: String,
    /// The time of the step, if it was recorded.
    now: Option<Time>,
    input: Input,
    results: VecDeque<Called>,
}

impl Replayer {
    /// Creates a replay on an engine that knows no object.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            held: None,
            count: 0,
            now: Time::ZERO,
            wall_offset: WallOffset::default(),
            digest: 0,
            last: String::new(),
            attempt: None,
        }
    }

    /// Returns the engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the time of the last step.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Returns the wall time of the last step.
    pub const fn wall_time(&self) -> Time {
        self.wall_offset.wall_time(self.now)
    }

    /// Returns the number of operations.
    pub const fn operations(&self) -> u64 {
        self.count
    }

    /// Takes the next operation. The step of an input is taken when the next operation arrives.
    ///
    /// # Errors
    /// The engine decides otherwise than recorded.
    pub fn step(&mut self, operation: Operation) -> Result<(), Box<Difference>> {
        if matches!(operation, Operation::Known(_) | Operation::Checkpoint) {
            return Ok(());
        }
        if let Operation::Called(called) = operation {
            if let Some(held) = &mut self.held {
                held.results.push_back(called);
            }
            return Ok(());
        }
        self.step_held()?;
        self.count += 1;
        let (text, now) = (operation.to_string(), operation.time());
        match operation {
            Operation::Attempt { pod, outcome } => {
                let computed = self.attempt.take();
                let recorded = Some((pod, outcome));
                let text = |attempt: &Option<(PodKey, Decided)>| match attempt {
                    Some((pod, outcome)) => format!("an attempt for pod {pod}: {outcome}"),
                    None => "no attempt".to_owned(),
                };
                if computed != recorded {
                    return Err(self.difference(text(&recorded), text(&computed)));
                }
            }
            Operation::Effects(taken) => self.compare(&taken)?,
            Operation::Input { input, .. } => {
                self.held = Some(Held { text, now, input, results: VecDeque::new() });
            }
            Operation::Called(_) | Operation::Known(_) | Operation::Checkpoint => {}
        }
        Ok(())
    }

    /// Takes the step of the last input.
    ///
    /// # Errors
    /// The engine decides otherwise than recorded.
    pub fn finish(&mut self) -> Result<(), Box<Difference>> {
        self.step_held()
    }

    fn step_held(&mut self) -> Result<(), Box<Difference>> {
        let Some(Held { text, now, input, results }) = self.held.take() else { return Ok(()) };
        self.last = text;
        self.now = now.unwrap_or(self.now);
        if let Input::WallOffset(offset) = input {
            self.wall_offset = offset;
        }
        let mut extenders = RecordedResults { results, missing: false };
        let ports = &mut Ports { extenders: &mut extenders, probe: &mut () };
        let attempt = self.engine.step(input, self.now, ports).attempt();
        self.attempt = attempt.map(|attempt| (attempt.pod.key.clone(), Decided::of(&attempt)));
        if extenders.missing {
            let recorded = "no further call of an extender".to_owned();
            return Err(self.difference(recorded, "a call of an extender".to_owned()));
        }
        if let Some(unused) = extenders.results.front() {
            let recorded = format!("a call of {unused}");
            return Err(self.difference(recorded, "no such call".to_owned()));
        }
        Ok(())
    }

    fn compare(&mut self, recorded: &Taken) -> Result<(), Box<Difference>> {
        let effects = self.engine.take_effects();
        let digest = digest(&mut self.digest, &mut Vec::new(), &effects);
        if digest == recorded.digest {
            return Ok(());
        }
        let computed: Vec<EffectSummary> = effects.iter().map(EffectSummary::of).collect();
        let (before, after) = (listed(&recorded.effects), listed(&computed));
        let after = match before == after {
            true => format!("the same with other details: {effects:?}"),
            false => after,
        };
        Err(self.difference(before, after))
    }

    fn difference(&self, recorded: String, computed: String) -> Box<Difference> {
        let operation = self.last.clone();
        Box::new(Difference { number: self.count, time: self.now, operation, recorded, computed })
    }
}

fn listed(effects: &[EffectSummary]) -> String {
    match effects {
        [] => "no effect".to_owned(),
        effects => effects.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Extenders that return what was recorded.
struct RecordedResults {
    results: VecDeque<Called>,
    /// Whether there was a call that was not recorded.
    missing: bool,
}

impl RecordedResults {
    fn none(&mut self) -> CallError {
        self.missing = true;
        CallError::Failed("the recording has no such call".to_owned())
    }
}

impl ExtenderClient for RecordedResults {
    fn filter(
        &mut self,
        _call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<Filtered, CallError>, Time) {
        match self.results.pop_front() {
            Some(Called::Filter(result, until)) => (result, until),
            _ => (Err(self.none()), now),
        }
    }

    fn prioritize(
        &mut self,
        calls: &[ExtenderCall<'_>],
        now: Time,
    ) -> (Vec<Result<HostPriorities, CallError>>, Time) {
        match self.results.pop_front() {
            Some(Called::Prioritize(results, until)) => (results, until),
            _ => (calls.iter().map(|_| Err(self.none())).collect(), now),
        }
    }

    fn process_preemption(
        &mut self,
        _call: &PreemptionCall<'_>,
        now: Time,
    ) -> (Result<BTreeMap<String, MetaVictims>, CallError>, Time) {
        match self.results.pop_front() {
            Some(Called::Preempt(result, until)) => (result, until),
            _ => (Err(self.none()), now),
        }
    }
}
