//! Inflation: a workload of a chosen size is drawn from a trace. Pods arrive one by one and never
//! leave.

use std::collections::HashMap;

use dry_run::{BuildError, Settings};
use framework::{Pod, PodKey};
use rayon::prelude::*;

use crate::moves::MoveBudget;
use crate::replay::{SCHEDULER, world_of};
use crate::report::allocation::Meter;
use crate::trace::inflate::{InflateError, inflate};
use crate::trace::{Amounts, Trace, TracePod};
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

/// How a workload is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Inflation<'a> {
    /// The GPU demand of all pods, in percent of the capacity.
    pub percent: u32,
    /// The seeds of the runs. A seed determines both the drawing and the choice among equal nodes.
    pub seeds: &'a [u64],
    /// How many placed pods may be moved for pods that fit nowhere, in percent of all pods.
    pub moves: u32,
}

/// Draws and schedules pods. Runs once per seed, in parallel.
///
/// # Errors
/// A profile cannot be built, or the target cannot be reached with this trace.
pub fn run(
    trace: &Trace,
    inflation: Inflation<'_>,
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<Vec<Course>, Error> {
    let Inflation { percent, seeds, moves } = inflation;
    let drawings: Vec<(u64, Vec<TracePod>)> = seeds
        .par_iter()
        .map(|seed| Ok((*seed, inflate(trace, percent, *seed)?)))
        .collect::<Result<_, InflateError>>()?;
    progress.expect(drawings.iter().map(|(_, pods)| pods.len()).sum());
    let course = |(seed, pods): &(u64, Vec<TracePod>)| {
        let moves = pods.len().saturating_mul(moves as usize) / 100;
        let settings = Settings { seed: *seed, ..settings.clone() };
        course(trace, pods, MoveBudget::new(moves), settings, progress)
    };
    Ok(drawings.par_iter().map(course).collect::<Result<_, BuildError>>()?)
}

fn course(
    trace: &Trace,
    pods: &[TracePod],
    mut moves: MoveBudget,
    settings: Settings,
    progress: &dyn Progress,
) -> Result<Course, BuildError> {
    let mut world = world_of(trace, &settings)?;
    let mut meter = Meter::new(trace.capacity());
    let mut tally = Tally::default();
    let mut samples = Vec::with_capacity(pods.len());
    let mut waiting: HashMap<PodKey, Amounts> = HashMap::new();
    for row in pods {
        let pod = Pod::from_api(&row.to_pod(SCHEDULER));
        tally.arrive();
        meter.arrive(row.demand());
        waiting.insert(pod.key.clone(), row.demand());
        world.add_pod(pod.clone());
        world.run_ready();
        let is_helped = world.engine().pending_pod(&pod.key).is_some()
            && moves.make_room(&pod, tally.arrived, &mut world);
        for placed in world.take_placed() {
            // A pod that was moved is allocated.
            let Some(demand) = waiting.remove(&placed) else { continue };
            match world.history(&placed) {
                Some(history) if !is_helped => tally.place(history),
                _ => tally.place_after_moves(),
            }
            meter.allocate(demand);
        }
        samples.push(meter.sample());
        progress.arrived();
    }
    tally.moves = moves.made();
    let (moments, waits, last_arrival) = (Vec::new(), Vec::new(), 0);
    let (seed, warnings) = (settings.seed, world.warnings());
    Ok(Course { seed, tally, samples, moments, waits, last_arrival, warnings })
}
