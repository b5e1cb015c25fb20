//! The threads on which servers work.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use supercluster::simulation::Work;

/// Work that a thread does.
type Job = Box<dyn FnOnce() + Send>;

/// The threads of servers. Without any, servers work on the thread of the roles.
#[derive(Debug, Clone, Default)]
pub(crate) struct Threads(Vec<Sender<Job>>);

impl Threads {
    /// Starts as many threads. They end with the last server.
    #[expect(
        clippy::disallowed_methods,
        reason = "the servers of the example have threads of their own"
    )]
    pub(crate) fn start(number: usize) -> Self {
        let start = |_| {
            let (sender, jobs): (Sender<Job>, Receiver<Job>) = channel();
            thread::spawn(move || jobs.into_iter().for_each(|job| job()));
            sender
        };
        Self((0..number).map(start).collect())
    }

    /// Returns the CPU time of each thread up to now, after the work that it has.
    pub(crate) fn cpu_times(&self) -> Vec<Duration> {
        let asked: Vec<Work<Duration>> =
            self.0.iter().map(|sender| later(sender, cpu_time_of_thread)).collect();
        asked.into_iter().map(Work::wait).collect()
    }
}

/// Returns the CPU time of this thread; nothing where the kernel does not say.
pub(crate) fn cpu_time_of_thread() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = statistics.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// A server and the thread on which it works. It does one thing after the other.
pub(super) struct Host<S> {
    server: Arc<Mutex<S>>,
    thread: Option<Sender<Job>>,
}

impl<S: Send + 'static> Host<S> {
    /// Gives the server with this number to one of the threads.
    pub(super) fn new(server: S, number: usize, threads: &Threads) -> Self {
        let thread = number.checked_rem(threads.0.len()).map(|thread| threads.0[thread].clone());
        Self { server: Arc::new(Mutex::new(server)), thread }
    }

    /// Begins work of the server.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Work<T> {
        let server = self.server.clone();
        let work = move || work(&mut server.lock().unwrap_or_else(PoisonError::into_inner));
        match &self.thread {
            Some(thread) => later(thread, work),
            None => Work::done(work()),
        }
    }
}

fn later<T: Send + 'static>(
    thread: &Sender<Job>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Work<T> {
    let (result, coming) = channel();
    // The send fails only if nobody waits for the result.
    let job = Box::new(move || drop(result.send(work())));
    thread.send(job).expect("a thread runs as long as it has servers");
    Work::new(move || coming.recv().expect("the server has panicked"))
}
