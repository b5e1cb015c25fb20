//! The threads of a pass over many nodes (`Parallelizer` in Kubernetes).

use std::fmt;
use std::sync::OnceLock;
use std::thread;

use engine::ports::{Parallelizer, Task};
use rayon_core::{ThreadPool, ThreadPoolBuilder};

/// Runs the tasks of a pass on the calling thread and on others, which sleep from one pass to the
/// next.
///
/// The calling thread takes tasks, too, and waits only for tasks that another thread has begun. On
/// a busy machine, where the others are late, it therefore does the whole work alone.
pub struct Threads {
    /// Maximum number of threads, the calling one included.
    count: usize,
    /// Made by the first pass, and of its thread.
    pool: OnceLock<Option<ThreadPool>>,
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Threads {
    /// Uses as many threads as there are cores for this process, and at most `parallelism`, that of
    /// `KubeSchedulerConfiguration`.
    pub fn new(parallelism: i32) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self::of(cores.min(usize::try_from(parallelism).unwrap_or(1)))
    }

    const fn of(count: usize) -> Self {
        Self { count, pool: OnceLock::new() }
    }

    /// Returns the pool; `None` for a single thread, or if threads cannot start.
    fn pool(&self) -> Option<&ThreadPool> {
        let build = || {
            let builder = ThreadPoolBuilder::new().num_threads(self.count).use_current_thread();
            builder.thread_name(|number| format!("parallelizer-{number}")).build().ok()
        };
        self.pool.get_or_init(|| if self.count > 1 { build() } else { None }).as_ref()
    }
}

impl Parallelizer for Threads {
    fn run(&self, tasks: Vec<Task<'_>>) {
        match self.pool() {
            Some(pool) => {
                pool.scope(|scope| tasks.into_iter().for_each(|task| scope.spawn(|_| task())));
            }
            None => ().run(tasks),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_task_runs_once_for_any_number_of_threads() {
        for count in [0, 1, 2, 5] {
            // A thread belongs to one pool at most.
            let test = move || {
                let threads = Threads::of(count);
                for tasks in [0, 1, 2, 50] {
                    let runs: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                    let tasks = runs.iter().map(|run| {
                        let task = || {
                            run.fetch_add(1, Ordering::Relaxed);
                        };
                        Box::new(task) as Task<'_>
                    });
                    threads.run(tasks.collect());
                    assert!(runs.iter().all(|run| run.load(Ordering::Relaxed) == 1));
                }
            };
            thread::scope(|scope| scope.spawn(test).join()).unwrap();
        }
    }

    #[test]
    fn limit_is_the_configured_parallelism() {
        assert_eq!([-1, 0, 1].map(|parallelism| Threads::new(parallelism).count), [1, 0, 1]);
        let cores = thread::available_parallelism().unwrap().get();
        assert_eq!(Threads::new(i32::MAX).count, cores);
    }
}
