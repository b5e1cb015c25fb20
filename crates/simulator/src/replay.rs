//! A trace as it was: pods arrive when they did, and stay as long as they did.
//!
//! A pod arrives at its creation time. It leaves its own lifetime after it was *placed here*; the lifetime
//! is the time it ran in the recording, from when it was scheduled to when it was deleted, or from its
//! creation where the recording does not say when it was scheduled. A pod that waits here thus ends later
//! than it did, and one that is never placed never ends. At one second, pods leave before others arrive.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use framework::{Node, Pod, PodKey, Time};

use crate::report::allocation::Meter;
use crate::trace::{TimelineError, Trace, TracePod};
use crate::{BuildError, Course, Progress, Settings, State, Tally, World};

/// The scheduler the pods are given to.
pub const SCHEDULER: &str = "default-scheduler";

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The profile cannot be built.
    #[error(transparent)]
    Profile(#[from] BuildError),
    /// The trace does not say when its pods came.
    #[error(transparent)]
    Timeline(#[from] TimelineError),
}

/// A world with the nodes of a trace.
pub(super) fn world_of(trace: &Trace, settings: &Settings) -> Result<World, BuildError> {
    let mut world = World::new(settings, [SCHEDULER])?;
    for node in &trace.nodes {
        world.add_node(Node::from_api(&node.to_node()).0);
    }
    Ok(world)
}

/// Replays the trace.
///
/// # Errors
/// The trace has no times.
pub fn replay(
    trace: &Trace,
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<Course, Error> {
    let arrivals = trace.arrivals()?;
    progress.expect(arrivals.len());
    let mut replay = Replay {
        trace,
        world: world_of(trace, settings)?,
        meter: Meter::new(trace.capacity()),
        tally: Tally::default(),
        pods: HashMap::new(),
        departures: BinaryHeap::new(),
    };
    let mut samples = Vec::with_capacity(arrivals.len());
    for (at, pod) in arrivals {
        replay.run_until(seconds(at));
        replay.arrive(pod);
        samples.push(replay.meter.sample());
        progress.arrived();
    }
    replay.run_out();
    let warnings = replay.world.warnings();
    Ok(Course { seed: settings.seed, tally: replay.tally, samples, warnings })
}

struct Replay<'a> {
    trace: &'a Trace,
    world: World,
    meter: Meter,
    tally: Tally,
    /// Index into the trace of the pods that are there; looked up by name, never iterated.
    pods: HashMap<PodKey, usize>,
    /// When which pod leaves, the next one on top.
    departures: BinaryHeap<Reverse<(Time, usize)>>,
}

impl Replay<'_> {
    fn arrive(&mut self, index: usize) {
        let row = &self.trace.pods[index];
        let pod = Pod::from_api(&row.to_pod(SCHEDULER));
        self.tally.arrive();
        self.meter.arrive(row.demand());
        self.pods.insert(pod.key.clone(), index);
        self.world.add_pod(pod);
        self.world.run_ready();
        self.note_placed();
    }

    /// Removes the pods whose lifetime ends until `time`.
    fn run_until(&mut self, time: Time) {
        while let Some(Reverse((at, index))) = self.departures.peek().copied() {
            if at > time {
                break;
            }
            self.departures.pop();
            self.leave(at, index);
        }
        self.world.advance_to(time);
        self.note_placed();
    }

    /// Removes all pods that have an end.
    fn run_out(&mut self) {
        while let Some(Reverse((at, index))) = self.departures.pop() {
            self.leave(at, index);
        }
        self.world.settle();
        self.note_placed();
    }

    fn leave(&mut self, at: Time, index: usize) {
        self.world.advance_to(at);
        self.note_placed();
        let row = &self.trace.pods[index];
        let pod = Pod::from_api(&row.to_pod(SCHEDULER));
        self.meter.release(row.demand());
        self.pods.remove(&pod.key);
        self.world.remove_pod(&pod);
        self.world.run_ready();
        self.note_placed();
    }

    fn note_placed(&mut self) {
        for key in self.world.take_placed() {
            let (Some(&index), Some(fate)) = (self.pods.get(&key), self.world.fate(&key)) else {
                continue;
            };
            let State::Placed { at, .. } = fate.state else { continue };
            self.tally.place(fate);
            let row = &self.trace.pods[index];
            self.meter.allocate(row.demand());
            if let Some(lifetime) = lifetime(row) {
                let end = at + std::time::Duration::from_secs(lifetime);
                self.departures.push(Reverse((end, index)));
            }
        }
    }
}

/// How long the pod ran in the recording, in seconds; `None` if it was not deleted.
fn lifetime(pod: &TracePod) -> Option<u64> {
    let began = pod.scheduled.or(pod.created)?;
    Some(pod.deleted?.saturating_sub(began))
}

fn seconds(seconds: u64) -> Time {
    Time::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))
}
