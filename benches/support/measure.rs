//! Timing of an engine.

use std::time::{Duration, Instant};

use engine::ports::Ports;
use engine::{Attempt, Change, EffectKind, Engine, Input, Outcome};
use framework::{Answer, Pod, Time};

use crate::support::apply;

/// Minimum duration of the measurement of decisions.
const MEASURED: Duration = Duration::from_millis(300);
/// Number of pods that are added and removed.
const CHANGED: usize = 10_000;

/// Returns the median time of a decision, without the first `warm_up` ones. Each pod is removed
/// before the next one, so the cluster stays equally full.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn decision(
    engine: &mut Engine,
    warm_up: usize,
    pod: impl Fn(usize) -> Pod,
) -> Duration {
    let mut spent = Duration::ZERO;
    let mut decisions = Vec::new();
    for number in 0.. {
        apply(engine, Change::Pod(Box::new(pod(number))));
        let start = Instant::now();
        let attempt = schedule(engine);
        let took = start.elapsed();
        if number >= warm_up {
            decisions.push(took);
            spent += took;
        }
        take_off(engine, &attempt);
        if spent >= MEASURED {
            break;
        }
    }
    decisions.sort_unstable();
    decisions[decisions.len() / 2]
}

fn schedule(engine: &mut Engine) -> Attempt {
    let mut ports = Ports { extenders: &mut (), probe: &mut () };
    let attempt =
        engine.step(Input::Schedule, Time::ZERO, &mut ports).attempt().expect("a pod is ready");
    assert!(matches!(attempt.outcome, Outcome::Assumed(_)), "{:?}", attempt.outcome);
    attempt
}

/// Refuses the writes of plugins, so that the objects stay unchanged.
fn take_off(engine: &mut Engine, attempt: &Attempt) {
    for effect in engine.take_effects() {
        let answer = match effect.kind {
            EffectKind::Write(_) => Answer::Conflict("refused".to_owned()),
            _ => Answer::ok(),
        };
        let mut ports = Ports { extenders: &mut (), probe: &mut () };
        engine.step(
            Input::Answer { effect: effect.id, answer: answer.clone() },
            Time::ZERO,
            &mut ports,
        );
    }
    apply(engine, gone(&attempt.pod));
    engine.take_effects();
}

fn gone(pod: &Pod) -> Change {
    Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() }
}

/// Returns the mean time of an added placed pod, and of a deleted one; `pod` creates them by
/// number.
pub(crate) fn changes(engine: &mut Engine, pod: impl Fn(usize) -> Pod) -> (Duration, Duration) {
    let pods: Vec<Pod> = (0..CHANGED).map(pod).collect();
    let gone = pods.iter().map(gone).collect();
    let new = pods.into_iter().map(|pod| Change::Pod(Box::new(pod))).collect();
    (mean(engine, new), mean(engine, gone))
}

/// Returns the mean time of a change.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn mean(engine: &mut Engine, changes: Vec<Change>) -> Duration {
    let start = Instant::now();
    for change in changes {
        apply(engine, change);
    }
    start.elapsed() / CHANGED as u32
}
