//! The same decisions again.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use engine::Engine;
use engine::ports::{
    CallError, ExtenderCall, ExtenderClient, Filtered, HostPriorities, MetaVictims, Ports,
    PreemptionCall,
};
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
    /// The call after which the difference was found.
    pub operation: String,
    /// What was recorded.
    pub recorded: String,
    /// What came out.
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
    /// The last call, which runs when all results of its extenders are known.
    held: Option<(Operation, VecDeque<Called>)>,
    /// The operations so far.
    count: u64,
    now: Time,
    wall_offset: WallOffset,
    digest: u32,
    /// The last call that ran.
    last: String,
    /// Its attempt, if it made one.
    attempt: Option<(PodKey, Decided)>,
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

    /// Returns the time of the last call.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Returns the wall time of the last call.
    pub const fn wall_time(&self) -> Time {
        self.wall_offset.wall_time(self.now)
    }

    /// Returns the number of operations.
    pub const fn operations(&self) -> u64 {
        self.count
    }

    /// Takes the next operation. A call runs when the next one arrives.
    ///
    /// # Errors
    /// The engine decides otherwise than recorded.
    pub fn step(&mut self, operation: Operation) -> Result<(), Box<Difference>> {
        if matches!(operation, Operation::Known(_) | Operation::Checkpoint) {
            return Ok(());
        }
        if let Operation::Called(called) = operation {
            if let Some((_, results)) = &mut self.held {
                results.push_back(called);
            }
            return Ok(());
        }
        self.run_held()?;
        self.count += 1;
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
            call => self.held = Some((call, VecDeque::new())),
        }
        Ok(())
    }

    /// Runs the last call.
    ///
    /// # Errors
    /// The engine decides otherwise than recorded.
    pub fn finish(&mut self) -> Result<(), Box<Difference>> {
        self.run_held()
    }

    fn run_held(&mut self) -> Result<(), Box<Difference>> {
        let Some((call, results)) = self.held.take() else { return Ok(()) };
        self.last = call.to_string();
        self.now = call.time().unwrap_or(self.now);
        let mut extenders = RecordedResults { results, missing: false };
        let ports = &mut Ports { extenders: &mut extenders, probe: &mut () };
        let engine = &mut self.engine;
        match call {
            Operation::WallOffset(offset) => {
                self.wall_offset = offset;
                engine.set_wall_offset(offset);
            }
            Operation::Change { now, change } => engine.apply(change, now, ports),
            Operation::Answer { now, effect, answer } => {
                engine.answer(effect, &answer, now, ports);
            }
            Operation::ExtenderProbed { now, extender, outcome } => {
                engine.extender_probed(extender, outcome, now, ports);
            }
            Operation::Tick { now } => engine.tick(now, ports),
            Operation::Touch { pod } => {
                if let Some(pod) = engine.pending_pod(&pod).cloned() {
                    engine.touch(&pod);
                }
            }
            Operation::Schedule { now } => {
                let attempt = engine.schedule_one(now, ports);
                self.attempt = attempt.map(|attempt| {
                    let outcome = Decided::of(&attempt);
                    (attempt.pod.key.clone(), outcome)
                });
            }
            Operation::Evaluate { now, pod, form, start } => {
                engine.evaluate(&pod, form, start, now, ports);
            }
            Operation::Called(_)
            | Operation::Attempt { .. }
            | Operation::Effects(_)
            | Operation::Known(_)
            | Operation::Checkpoint => {}
        }
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
