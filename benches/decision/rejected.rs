//! Pods of a template that fits nowhere.

use std::time::{Duration, Instant};

use engine::cycle::Form;
use engine::ports::Ports;
use engine::{Change, Engine, Input, Outcome};
use framework::{Pod, Time};

use crate::support::{apply, node_name};
use crate::text::text;
use crate::{config, templates};

/// Number of attempts that are measured.
const ATTEMPTS: usize = 1_000;
/// Number of attempts until the verdicts of the template are known.
const WARM_UP: usize = 4;

/// Prints the time of a failed attempt, from the queue to condition and event: while nothing
/// changes, and after the change of one node.
pub(crate) fn print(sizes: &[usize]) {
    println!("\n{:>8} {:>14} {:>14} {:>14}", "nodes", "unchanged", "one changed", "full pass");
    for nodes in sizes.iter().copied() {
        let [unchanged, changed] =
            [false, true].map(|changes| measure(Form::Ranked, nodes, changes));
        let full = measure(Form::Set, nodes, false);
        println!("{nodes:>8} {:>14} {:>14} {:>14}", text(unchanged), text(changed), text(full));
    }
}

/// Returns the median time of an attempt.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn measure(form: Form, nodes: usize, changes: bool) -> Duration {
    let (mut engine, pods) = templates::engine(config(form), nodes);
    let mut times = Vec::new();
    for number in 0..WARM_UP + ATTEMPTS {
        if changes {
            let node_name = Some(node_name(number % nodes).into());
            let pod = templates::pod(pods + 8 * (number + 100_000) + 1);
            apply(&mut engine, Change::Pod(Box::new(Pod { node_name, ..pod })));
        }
        apply(&mut engine, Change::Pod(Box::new(huge(pods + 8 * number))));
        let start = Instant::now();
        attempt(&mut engine);
        times.push(start.elapsed());
        engine.take_effects();
    }
    let measured = &mut times[WARM_UP..];
    measured.sort_unstable();
    measured[ATTEMPTS / 2]
}

fn attempt(engine: &mut Engine) {
    let mut ports = Ports { extenders: &mut (), probe: &mut () };
    let attempt =
        engine.step(Input::Schedule, Time::ZERO, &mut ports).attempt().expect("a pod is ready");
    assert!(matches!(attempt.outcome, Outcome::Unschedulable(_)), "{:?}", attempt.outcome);
}

/// Returns a pod that requests more than any node has.
fn huge(number: usize) -> Pod {
    let pod = templates::pod(number);
    let mut requests = (*pod.requests).clone();
    requests.fit.milli_cpu = 1_000_000;
    Pod { requests: requests.into(), ..pod }
}
