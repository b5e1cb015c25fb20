//! Measurements.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at, sleep};

use super::Run;
use crate::pods::{Labels, Pods};
use crate::process::Usage;
use crate::throughput::{INTERVAL, Samples, Throughput};

/// The longest time for what the scheduler still does for the measured pods, such as events.
const SETTLE: Duration = Duration::from_secs(3);
/// A scheduler without CPU time for this long is done.
const QUIET: Duration = Duration::from_millis(300);

/// The measurements between the start and the end of a collection of metrics.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// The namespace of the measured pods, or the name in `startCollectingMetrics`.
    pub label: String,
    /// Number of measured pods that were scheduled.
    pub pods: usize,
    /// Time from the start to the last of these pods; to the end without pods.
    pub seconds: f64,
    /// Pods per second. Without samples, all pods over all the time.
    pub throughput: Option<Throughput>,
    /// Number of samples of the throughput.
    pub samples: usize,
    /// CPU time of the scheduler, with what it did for the pods after the end.
    pub cpu_seconds: f64,
    /// CPU time per pod in milliseconds.
    pub cpu_milliseconds_per_pod: Option<f64>,
    /// Peak resident set of the scheduler in the whole workload, in MiB.
    pub peak_mib: f64,
}

/// A measurement that goes on.
pub(super) struct Ongoing {
    label: String,
    start: Instant,
    cpu: Duration,
    samples: Arc<Mutex<Samples>>,
    sampling: JoinHandle<()>,
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        self.sampling.abort();
    }
}

impl Run<'_> {
    pub(super) fn start_measurement(
        &mut self,
        label: &str,
        namespaces: Vec<String>,
        labels: Labels,
    ) -> anyhow::Result<()> {
        ensure!(
            self.ongoing.is_none(),
            "another measurement has not ended; add the operation stopCollectingMetrics before"
        );
        let samples = Arc::<Mutex<Samples>>::default();
        self.pods.start_counter(namespaces, labels);
        let start = Instant::now();
        self.ongoing = Some(Ongoing {
            label: label.to_owned(),
            start,
            cpu: self.launched.scheduler.usage()?.cpu()?,
            samples: samples.clone(),
            sampling: tokio::spawn(sample(self.pods.clone(), samples, start)),
        });
        Ok(())
    }

    pub(super) async fn stop_measurement(&mut self) -> anyhow::Result<()> {
        let ongoing = self.ongoing.take();
        let ongoing = ongoing.context("no measurement goes on; start one before")?;
        ongoing.sampling.abort();
        let counter = self.pods.counter().context("no pods were counted")?;
        let end = counter.last.unwrap_or_else(Instant::now);
        let time = end - ongoing.start;
        self.progress.doing("waiting until the scheduler is idle");
        let cpu = settled(self.launched.scheduler.usage()?).await? - ongoing.cpu;
        let samples = ongoing.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let pods = counter.scheduled;
        let per_pod = cpu.as_secs_f64() * 1e3 / pods as f64;
        self.measurements.push(Measurement {
            label: ongoing.label.clone(),
            pods,
            seconds: time.as_secs_f64(),
            throughput: samples.throughput().or_else(|| Throughput::overall(pods, time)),
            samples: samples.len(),
            cpu_seconds: cpu.as_secs_f64(),
            cpu_milliseconds_per_pod: (pods > 0).then_some(per_pod),
            peak_mib: 0.0,
        });
        Ok(())
    }
}

async fn sample(pods: Arc<Pods>, samples: Arc<Mutex<Samples>>, start: Instant) {
    let mut turns = interval_at(start + INTERVAL, INTERVAL);
    loop {
        turns.tick().await;
        if let Some(counter) = pods.counter() {
            let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
            samples.record(start.elapsed(), counter.scheduled);
        }
    }
}

/// Returns the CPU time of a process when it is idle.
async fn settled(process: Usage) -> anyhow::Result<Duration> {
    let deadline = Instant::now() + SETTLE;
    let mut cpu = process.cpu()?;
    while Instant::now() < deadline {
        sleep(QUIET).await;
        let later = process.cpu()?;
        if later == cpu {
            break;
        }
        cpu = later;
    }
    Ok(cpu)
}
