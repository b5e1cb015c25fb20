//! Throughput and latency beside a namespace whose admission webhook is down.

use anyhow::ensure;
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

/// Measures both without and with the failing pods.
pub(crate) async fn radius() -> anyhow::Result<Vec<Figure>> {
    let alone = run(0).await?;
    let beside = run(FAILING).await?;
    Ok(vec![
        Figure::new("pods/s alone", alone.pods_per_second),
        Figure::new("pods/s beside failing pods", beside.pods_per_second),
        Figure::new("ratio of pods/s", beside.pods_per_second / alone.pods_per_second)
            .with_target("> 0.9"),
        Figure::new("ms per pod alone", alone.milliseconds),
        Figure::new("ms per pod beside failing pods", beside.milliseconds),
        Figure::new("ratio of ms per pod", beside.milliseconds / alone.milliseconds)
            .with_target("< 1.1"),
    ])
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
