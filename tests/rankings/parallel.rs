//! Passes over many nodes are divided among threads. How many there are, and which comes first,
//! does not matter.

use std::thread;

use engine::ports::{Parallelizer, Task};

use super::*;

/// Enough nodes for two parts, also without those that are tainted or unschedulable.
const NODES: usize = 42_000;

/// A parallelizer with so many threads. Each runs its tasks from the last to the first.
#[derive(Debug)]
struct Threads {
    count: usize,
    /// Number of passes with several tasks.
    passes: Arc<AtomicUsize>,
}

impl Parallelizer for Threads {
    fn run(&self, mut tasks: Vec<Task<'_>>) {
        self.passes.fetch_add(1, Ordering::Relaxed);
        assert!(tasks.len() > 1);
        thread::scope(|scope| {
            for left in (1..=self.count).rev() {
                let own = tasks.split_off(tasks.len() - tasks.len() / left);
                scope.spawn(|| own.into_iter().rev().for_each(|task| task()));
            }
        });
        assert!(tasks.is_empty());
    }
}

#[test]
fn decisions_are_the_same_for_any_number_of_threads() {
    let mut rng = Rng::with_seed(1);
    let nodes = (0..NODES).map(|number| Change::Node(any_node(number, &mut rng).build()));
    let mut nodes: Vec<Change> = nodes.collect();
    nodes.push(service(Some(json!({"tier": "web"}))));
    let effects = |threads: Option<usize>| {
        let passes = Arc::new(AtomicUsize::new(0));
        let mut scheduler = Scheduler::on(&[], |config| match threads {
            None => EngineConfig { form: Form::Set, ..config },
            Some(count) => {
                let parallelizer = Box::new(Threads { count, passes: passes.clone() });
                EngineConfig { parallelizer, ..config }
            }
        });
        for node in &nodes {
            scheduler.apply(node.clone(), Time::ZERO);
        }
        for template in 0..TEMPLATES {
            for variant in 0..2 {
                let name = format!("p{template}-{variant}");
                let pod = any_pod(&name, template, variant).uid(&name).build();
                scheduler.apply(Change::Pod(Box::new(pod)), Time::ZERO);
            }
        }
        scheduler.run(Time::ZERO);
        let divided = passes.load(Ordering::Relaxed);
        assert!(threads.is_none() || divided >= 14, "only {divided} passes were divided");
        let called = scheduler.task_calls.load(Ordering::Relaxed);
        assert!(called >= 2 * divided, "the probe notes {called} calls in {divided} passes");
        scheduler.effects
    };
    let runs = [None, Some(1), Some(2), Some(3), Some(7)];
    let effects: Vec<_> = runs.into_par_iter().map(effects).collect();
    for (threads, own) in runs.iter().zip(&effects) {
        assert!(own.len() >= 2 * TEMPLATES);
        assert_eq!(*own, effects[0], "{threads:?} threads");
    }
}
