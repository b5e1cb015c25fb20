//! Inflation: a workload of a chosen size is drawn from a trace. Pods arrive one by one and never
//! leave.

use dry_run::{BuildError, Settings};
use framework::Pod;
use rayon::prelude::*;

use crate::replay::{SCHEDULER, world_of};
use crate::report::allocation::Meter;
use crate::trace::inflate::{InflateError, inflate};
use crate::trace::{Trace, TracePod};
use crate::{Course, Progress, Tally};

/// The reason a trace cannot be inflated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The profile cannot be built.
    #[error(transparent)]
    Profile(#[from] BuildError),
    /// No workload can be drawn.
    #[error(transparent)]
    Draw(#[from] InflateError),
}

/// Draws and schedules pods until their GPU demand is `percent` of the capacity. Runs once per
/// seed, in parallel. The seed determines both the drawing and the choice among equal nodes.
///
/// # Errors
/// A profile cannot be built, or the target cannot be reached with this trace.
pub fn run(
    trace: &Trace,
    percent: u32,
    seeds: &[u64],
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<Vec<Course>, Error> {
    let drawings: Vec<(u64, Vec<TracePod>)> = seeds
        .par_iter()
        .map(|seed| Ok((*seed, inflate(trace, percent, *seed)?)))
        .collect::<Result<_, InflateError>>()?;
    progress.expect(drawings.iter().map(|(_, pods)| pods.len()).sum());
    let course = |(seed, pods): &(u64, Vec<TracePod>)| {
        course(trace, pods, Settings { seed: *seed, ..settings.clone() }, progress)
    };
    Ok(drawings.par_iter().map(course).collect::<Result<_, BuildError>>()?)
}

fn course(
    trace: &Trace,
    pods: &[TracePod],
    settings: Settings,
    progress: &dyn Progress,
) -> Result<Course, BuildError> {
    let mut world = world_of(trace, &settings)?;
    let mut meter = Meter::new(trace.capacity());
    let mut tally = Tally::default();
    let mut samples = Vec::with_capacity(pods.len());
    for row in pods {
        let pod = Pod::from_api(&row.to_pod(SCHEDULER));
        let key = pod.key.clone();
        tally.arrive();
        meter.arrive(row.demand());
        world.add_pod(pod);
        world.run_ready();
        for placed in world.take_placed() {
            debug_assert_eq!(placed, key, "without departures no other pod can get a place");
            if let Some(history) = world.history(&placed) {
                tally.place(history);
                meter.allocate(row.demand());
            }
        }
        samples.push(meter.sample());
        progress.arrived();
    }
    let (moments, waits, last_arrival) = (Vec::new(), Vec::new(), 0);
    let (seed, warnings) = (settings.seed, world.warnings());
    Ok(Course { seed, tally, samples, moments, waits, last_arrival, warnings })
}
