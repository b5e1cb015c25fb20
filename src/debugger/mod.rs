//! The cache debugger: it compares the cache with the API server and writes both cache and queue to
//! the log.
//!
//! SIGUSR2 asks for both. A comparison also runs every hour, so that an alert can tell of a
//! mismatch.

mod comparer;
mod dumper;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::time::MissedTickBehavior;
use tracing::{debug, info, warn};

use self::comparer::{Comparer, Differences};
use crate::api_client::ApiClient;
use crate::metrics::Metrics;
use crate::scheduling_loop::EventSender;
use crate::supervision::catch_panic;

/// Interval between comparisons that no signal asked for.
const COMPARE_INTERVAL: Duration = Duration::from_hours(1);

/// The cache debugger.
pub struct CacheDebugger {
    comparer: Comparer,
    events: EventSender,
    metrics: Arc<Metrics>,
}

impl CacheDebugger {
    /// Creates a debugger of the cache of this scheduling loop, which is responsible for the pods
    /// with these scheduler names.
    pub const fn new(
        client: ApiClient,
        events: EventSender,
        metrics: Arc<Metrics>,
        scheduler_names: Vec<String>,
    ) -> Self {
        let comparer = Comparer { client, scheduler_names };
        Self { comparer, events, metrics }
    }

    /// Compares every hour, and compares and dumps at each signal. Never ends.
    pub async fn run(self, mut signal: Option<Signal>) -> Infallible {
        let mut hours = tokio::time::interval(COMPARE_INTERVAL);
        hours.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is immediate, and the watches have not synced yet.
        hours.tick().await;
        loop {
            tokio::select! {
                () = next(&mut signal) => {
                    self.compare().await;
                    self.dump().await;
                }
                _ = hours.tick() => self.compare().await,
            }
        }
    }

    /// Compares the cache with the API server, and logs the difference.
    async fn compare(&self) {
        debug!("Cache comparer started");
        let compared = catch_panic(self.comparer.compare(&self.events)).await;
        match compared.unwrap_or_else(|panic| Err(panic.to_string())) {
            Ok(Some(Differences { nodes, pods })) => {
                if !nodes.is_empty() {
                    let (missed, redundant) = (nodes.missed(), nodes.redundant());
                    warn!(missedNodes = missed, redundantNodes = redundant, "Cache mismatch");
                }
                if !pods.is_empty() {
                    let (missed, redundant) = (pods.missed(), pods.redundant());
                    warn!(missedPods = missed, redundantPods = redundant, "Cache mismatch");
                }
                self.metrics.set_cache_mismatches(nodes.len(), pods.len());
            }
            Ok(None) => {}
            Err(err) => warn!(err, "Cannot compare the cache with the API server"),
        }
        debug!("Cache comparer finished");
    }

    /// Writes cache and queue to the log.
    async fn dump(&self) {
        let Some(snapshot) = self.events.snapshot().await else { return };
        let log = move || {
            for nodes in dumper::nodes(&snapshot) {
                info!(nodes, "Dump of cached NodeInfo");
            }
            let summary = dumper::summary(&snapshot);
            for pods in dumper::pending_pods(&snapshot) {
                info!(summary, pods, "Dump of scheduling queue");
            }
        };
        // A panic is in the log, and the dump is only read by people.
        let _ = tokio::task::spawn_blocking(log).await;
    }
}

/// Waits for the next signal; without end if the process listens for none.
async fn next(signal: &mut Option<Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending().await
    }
}
