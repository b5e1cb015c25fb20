//! Replay of a trace with its recorded arrivals and lifetimes.
//!
//! A pod arrives at its creation time. It leaves one lifetime after it was placed *in the replay*.
//! Its lifetime is the time from scheduling to deletion in the recording, or from creation to
//! deletion if the recording has no scheduling time. A pod that waits longer in the replay
//! therefore ends later than recorded, and a pod that is never placed never ends. Within one
//! second, pods leave before others arrive.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use dry_run::{BuildError, Settings, State, World};
use framework::{Extra, Node, Pod, PodKey, RUN_TIME_ANNOTATION, RUN_TIME_FIELD, Time};
use serde_json::json;

use crate::report::allocation::Meter;
use crate::report::waiting::{Moment, Wait};
use crate::trace::{TimelineError, Trace, TracePod};
use crate::{Course, Progress, Tally};

/// The scheduler name of the pods.
pub const SCHEDULER: &str = "default-scheduler";

/// The reason a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The profile cannot be built.
    #[error(transparent)]
    Profile(#[from] BuildError),
    /// The trace has pods without a creation time.
    #[error(transparent)]
    Timeline(#[from] TimelineError),
}

/// Creates a world with the nodes of a trace.
pub(super) fn world_of(trace: &Trace, settings: &Settings) -> Result<World, BuildError> {
    let mut world = World::new(settings, [SCHEDULER])?;
    for node in &trace.nodes {
        world.add_node(Node::from_api(&node.to_node()).0);
    }
    Ok(world)
}

/// Replays the trace. If `declares` is set, pods declare their lifetime as their run time.
///
/// # Errors
/// A profile cannot be built, or the trace has no times.
pub fn replay(
    trace: &Trace,
    settings: &Settings,
    declares: bool,
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
        began: arrivals.first().map_or(Time::ZERO, |(at, _)| seconds(*at)),
        moments: Vec::new(),
        waits: Vec::new(),
        declares,
    };
    let mut samples = Vec::with_capacity(arrivals.len());
    let last = arrivals.last().map_or(Time::ZERO, |(at, _)| seconds(*at));
    for (at, pod) in arrivals {
        replay.run_until(seconds(at));
        replay.arrive(pod);
        samples.push(replay.meter.sample());
        progress.arrived();
    }
    replay.run_out();
    let warnings = replay.world.warnings();
    let Replay { tally, moments, waits, began, .. } = replay;
    let last_arrival = last.since(began).as_secs();
    Ok(Course { seed: settings.seed, tally, samples, moments, waits, last_arrival, warnings })
}

struct Replay<'a> {
    trace: &'a Trace,
    world: World,
    meter: Meter,
    tally: Tally,
    /// Index of each present pod in the trace; looked up by name, never iterated.
    pods: HashMap<PodKey, usize>,
    /// The departures, the next one on top.
    departures: BinaryHeap<Reverse<(Time, usize)>>,
    /// The time of the first arrival.
    began: Time,
    moments: Vec<Moment>,
    waits: Vec<Wait>,
    /// Whether pods declare their lifetime as their run time.
    declares: bool,
}

impl Replay<'_> {
    fn arrive(&mut self, index: usize) {
        let row = &self.trace.pods[index];
        let mut pod = Pod::from_api(&row.to_pod(SCHEDULER));
        if self.declares {
            pod.extra = declared_run_time(row);
        }
        self.tally.arrive();
        self.meter.arrive(row.demand());
        self.pods.insert(pod.key.clone(), index);
        self.world.add_pod(pod);
        self.world.run_ready();
        self.record_placed();
        self.record_moment();
    }

    /// Removes the pods whose departure is not later than `time`.
    fn run_until(&mut self, time: Time) {
        while let Some(Reverse((at, index))) = self.departures.peek().copied() {
            if at > time {
                break;
            }
            self.departures.pop();
            self.leave(at, index);
        }
        self.world.advance_to(time);
        self.record_placed();
    }

    /// Processes all remaining departures.
    fn run_out(&mut self) {
        while let Some(Reverse((at, index))) = self.departures.pop() {
            self.leave(at, index);
        }
        self.world.run_until_idle();
        self.record_placed();
    }

    fn leave(&mut self, at: Time, index: usize) {
        self.world.advance_to(at);
        self.record_placed();
        let row = &self.trace.pods[index];
        let pod = Pod::from_api(&row.to_pod(SCHEDULER));
        self.meter.release(row.demand());
        self.pods.remove(&pod.key);
        self.world.remove_pod(&pod);
        self.world.run_ready();
        self.record_placed();
        self.record_moment();
    }

    fn record_moment(&mut self) {
        self.moments.push(Moment {
            seconds: self.world.now().since(self.began).as_secs(),
            allocated: self.meter.sample().allocated,
            waiting: self.tally.never,
        });
    }

    fn record_placed(&mut self) {
        for key in self.world.take_placed() {
            let (Some(&index), Some(history)) = (self.pods.get(&key), self.world.history(&key))
            else {
                continue;
            };
            let State::Placed { at, .. } = history.state else { continue };
            self.tally.place(history);
            let row = &self.trace.pods[index];
            let (demand, seconds) = (row.demand(), at.since(history.arrived).as_secs());
            let (gpu_milli, cpu_milli) = (demand.gpu_milli, demand.cpu_milli);
            self.waits.push(Wait { gpu_milli, cpu_milli, seconds });
            self.meter.allocate(row.demand());
            if let Some(lifetime) = lifetime(row) {
                let end = at + std::time::Duration::from_secs(lifetime);
                self.departures.push(Reverse((end, index)));
            }
        }
    }
}

/// Returns the annotation of a pod with its lifetime.
fn declared_run_time(pod: &TracePod) -> Extra {
    let Some(lifetime) = lifetime(pod) else { return Extra::default() };
    let annotations = json!({RUN_TIME_ANNOTATION: lifetime.to_string()});
    let object = json!({"metadata": {"annotations": annotations}});
    Extra::of(&object, &BTreeSet::from([RUN_TIME_FIELD.into()]))
}

/// Returns how long the pod ran in the recording, in seconds; `None` if it was not deleted.
fn lifetime(pod: &TracePod) -> Option<u64> {
    let began = pod.scheduled.or(pod.created)?;
    Some(pod.deleted?.saturating_sub(began))
}

fn seconds(seconds: u64) -> Time {
    Time::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))
}
