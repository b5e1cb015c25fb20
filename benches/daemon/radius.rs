//! Throughput and latency beside a namespace whose admission webhook is down.

use std::env;

use anyhow::{Context, ensure};
use futures::TryFutureExt;
use serde_json::json;

use crate::client::{Admin, scheduling_durations};
use crate::cluster::{self, WAITING};
use crate::figures::Figure;
use crate::parts::{RATE, SETTLE, now};
use crate::process::{Process, Sandbox, free_port};

const NODES: usize = 5_000;
/// Pods whose bind fails. They have a webhook, and no other difference.
const FAILING: usize = 2_000;
/// Pods that come at a fixed rate, for the latency.
const STEADY: usize = 3_200;
/// Pods that come at once, for the throughput.
const BURST: usize = 10_000;
/// The namespace of the failing pods.
const BAD: &str = "bad";

/// The figures of one run.
struct Run {
    pods_per_second: f64,
    milliseconds: f64,
}

/// Measures both without and with the failing pods, in `RADIUS_PAIRS` pairs of runs (1 without the
/// variable). Every second pair begins with the failing pods. The figures are medians.
pub(crate) async fn radius() -> anyhow::Result<Vec<Figure>> {
    let pairs: usize = match env::var("RADIUS_PAIRS") {
        Ok(text) => text.parse().context("RADIUS_PAIRS")?,
        Err(_) => 1,
    };
    ensure!(pairs > 0, "RADIUS_PAIRS: there has to be one pair");
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        for failing in if pair % 2 == 0 { [0, FAILING] } else { [FAILING, 0] } {
            let run = run(failing).await?;
            eprintln!(
                "radius: {failing} failing pods, {:.0} pods/s, {:.3} ms per pod",
                run.pods_per_second, run.milliseconds
            );
            if failing == 0 { alone.push(run) } else { beside.push(run) }
        }
    }
    let rate = |run: &Run| run.pods_per_second;
    let time = |run: &Run| run.milliseconds;
    let ratio = |value: fn(&Run) -> f64| {
        median(beside.iter().zip(&alone).map(|(beside, alone)| value(beside) / value(alone)))
    };
    Ok(vec![
        Figure::new("pods/s alone", median(alone.iter().map(rate))),
        Figure::new("pods/s beside failing pods", median(beside.iter().map(rate))),
        Figure::new("ratio of pods/s", ratio(rate)).with_target("> 0.9"),
        Figure::new("ms per pod alone", median(alone.iter().map(time))),
        Figure::new("ms per pod beside failing pods", median(beside.iter().map(time))),
        Figure::new("ratio of ms per pod", ratio(time)).with_target("< 1.1"),
    ])
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn run(failing: usize) -> anyhow::Result<Run> {
    let objects = cluster::nodes(NODES).chain(cluster::pods(WAITING, 1));
    let sandbox = Sandbox::start(objects.chain(cluster::pods(BAD, failing)).collect())?;
    let admin = Admin::connect(&sandbox.kubeconfig).await?;
    let path = format!("/namespaces/{BAD}/pods/");
    let faults = json!({ "webhooks-down": 1, "only-methods": "POST", "only-path": path });
    admin.set_faults(&faults).await?;
    let port = free_port()?;
    let scheduler = Process::replica(&sandbox.kubeconfig, port)?;
    admin.until_all_are_bound_in(WAITING).await?;
    // The failing pods have failed a few times, and their backoff has grown.
    tokio::time::sleep(SETTLE * 10).await;

    let before = scheduling_durations(port).await?;
    let steady = cluster::pods(WAITING, 1 + STEADY).skip(1);
    admin.create_pods(steady, RATE).and_then(|()| admin.until_all_are_bound_in(WAITING)).await?;
    let after = scheduling_durations(port).await?;
    ensure!(after.count > before.count, "no pod was measured");
    let milliseconds = 1e3 * (after.seconds - before.seconds) / (after.count - before.count);

    let started = now();
    admin.create_at_once(cluster::pods(WAITING, 1 + STEADY + BURST).skip(1 + STEADY)).await?;
    admin.until_all_are_bound_in(WAITING).await?;
    let pods_per_second = BURST as f64 / started.elapsed().as_secs_f64();
    drop(scheduler);
    Ok(Run { pods_per_second, milliseconds })
}
