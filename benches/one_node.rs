//! The overhead of a one-node plugin: `cargo bench --bench one_node`.
//!
//! The same decision is made with and without an out-of-tree filter and score of a few instructions
//! in their one-node form. The difference is the cost of calling them for each node.

mod support;
#[path = "support/templates.rs"]
mod templates;

use std::time::{Duration, Instant};

use engine::ports::Ports;
use engine::profile::PluginRef;
use engine::{Change, Engine, Input};
use framework::{Answer, Attempt, Filter, NodeView, Plugin, Registry, Score, Status, Time};

const NODES: usize = 20_000;
const DECISIONS: u32 = 300;

/// Accepts every node and gives every node the same score.
struct Trivial;

impl Filter for Trivial {
    fn filter(&self, _: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        if node.ix().index() == usize::MAX {
            Status::unschedulable("no")
        } else {
            Status::success()
        }
    }
}

impl Score for Trivial {
    fn score(&self, _: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        Ok(i64::from(node.ix().index() == usize::MAX))
    }
}

fn main() {
    let without = decision(None);
    let filter = decision(Some("Filter"));
    let score = decision(Some("Score"));
    let per_node =
        |with: Duration| (with.as_secs_f64() - without.as_secs_f64()) * 1e9 / NODES as f64;
    println!("{NODES} nodes, a decision without the plugin: {:.1} us", without.as_secs_f64() * 1e6);
    println!("one-node filter: {:+.1} ns a node", per_node(filter));
    println!("one-node score:  {:+.1} ns a node", per_node(score));
}

/// Returns the shortest of several decisions.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn decision(plugin: Option<&str>) -> Duration {
    let (mut engine, pods) = engine(plugin);
    let mut shortest = Duration::MAX;
    for number in 0..DECISIONS {
        let pod = templates::pod(pods + number as usize);
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        support::apply(&mut engine, Change::Pod(Box::new(pod)));
        let mut ports = Ports { extenders: &mut (), probe: &mut () };
        let start = Instant::now();
        engine.step(Input::Schedule, Time::ZERO, &mut ports).attempt().expect("a pod is ready");
        shortest = shortest.min(start.elapsed());
        for effect in engine.take_effects() {
            engine.step(
                Input::Answer { effect: effect.id, answer: Answer::ok() },
                Time::ZERO,
                &mut ports,
            );
        }
        support::apply(&mut engine, Change::PodDeleted { key, uid });
    }
    shortest
}

fn engine(plugin: Option<&str>) -> (Engine, usize) {
    let mut registry: Registry = plugins::registry();
    registry
        .register("Filter", |_| Ok(Plugin::new("Filter", Trivial).filter().no_events().build()))
        .and_then(|()| {
            registry.register("Score", |_| Ok(Plugin::new("Score", Trivial).score().build()))
        })
        .expect("the names are free");
    let mut defaults = support::default_plugins();
    defaults.extend(plugin.map(|name| PluginRef::new(name, 1)));
    templates::engine(support::config(&defaults, &registry), NODES)
}
