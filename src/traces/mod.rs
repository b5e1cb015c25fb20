//! Traces of pods: a span for the pod, and below it spans for its attempts, its waits and its bind.
//!
//! ```text
//! schedule pod                    from the first sight of the pod to its bind
//!   scheduling attempt            what it found, as in the decision record
//!     Filter                      points and plugins that took a millisecond or more
//!       Filter/NodeAffinity
//!   Permit, PreBind, Bind         waits and requests
//! ```
//!
//! A [`Tracer`] on the thread of the engine makes spans from measurements and decision records, and
//! puts them into a bounded queue. An [`Exporter`] on the runtime sends them to a collector. A full
//! queue and a collector that does not answer cost spans, never time of the scheduler.

mod config;
mod export;
mod spans;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use control::TraceIds;
use tokio::sync::mpsc;

pub use self::config::{TracingConfiguration, TracingError};
pub use self::export::Exporter;
pub use self::spans::Tracer;
use crate::metrics::Metrics;

/// Number of spans that may wait for their export, which take about a kilobyte each.
const MAX_WAITING: usize = 8_192;

/// Creates what makes spans and what sends them, for the process with this identity.
///
/// # Errors
/// The endpoint cannot be used.
pub fn start(
    config: &TracingConfiguration,
    identity: &str,
    metrics: Arc<Metrics>,
) -> Result<(Tracer, Exporter), TracingError> {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let exporter = Exporter::new(config, identity, receiver, metrics.clone())?;
    Ok((Tracer::new(config.trace_ids(), sender, metrics), exporter))
}

impl TracingConfiguration {
    /// Which pods are traced.
    pub const fn trace_ids(&self) -> TraceIds {
        TraceIds::new(self.sampling_rate_per_million)
    }
}
