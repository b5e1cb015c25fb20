//! `--explain`: a pod as it was at a moment of a recording.

use std::time::Duration;

use anyhow::Context;
use engine::EngineConfig;
use explain::{ClusterCopy, Lab, explain_pod, facts};
use framework::{PodKey, Registry};
use recording::Replayer;

use super::run::Run;
use crate::cli::explain::pod_text;
use crate::clock::Clock;

/// Time after which no further trial is made.
const TRIALS_TIMEOUT: Duration = Duration::from_secs(30);

/// Explains a pod at the end of the replay.
///
/// # Errors
/// The scheduler did not know the pod.
pub(super) fn explain(
    run: &Run,
    replayer: &Replayer,
    pod: &PodKey,
    registry: &Registry,
) -> anyhow::Result<String> {
    let (engine, now) = (replayer.engine(), replayer.now());
    let unknown = || format!("no pod {pod} was known at {}", replayer.wall_time());
    let facts = facts(engine, pod, now).with_context(unknown)?;
    // Trials need an engine of their own.
    let config = run.setup.configuration()?;
    let config = run.setup.engine_config(&config, registry, run.header.seed)?;
    let config = EngineConfig { extenders: Vec::new(), ..config };
    let mut copy = ClusterCopy::of(engine, now).engine(config, now);
    let clock = Clock::start();
    let is_over = || clock.elapsed() > TRIALS_TIMEOUT;
    let mut lab = Lab::new(&mut copy, now, &is_over);
    let mut answer = explain_pod(&mut lab, facts, None).with_context(unknown)?;
    answer.notes.push(format!("\"now\" is {} of the recording", replayer.wall_time()));
    if !run.setup.configuration["extenders"].is_null() {
        answer.notes.push("extenders were not asked".to_owned());
    }
    Ok(pod_text(&answer))
}
