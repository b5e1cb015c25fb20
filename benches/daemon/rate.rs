//! Pods that come at a fixed rate after the start, as most pods do: each is a change, a decision
//! and two requests of its own.
//!
//! The API server is the sandbox, or kube-apiserver from the folder `KUBEBUILDER_ASSETS`.

use std::env;

use anyhow::{Context, ensure};

use crate::client::{Admin, scheduling_durations};
use crate::cluster::{self, WAITING};
use crate::figures::Figure;
use crate::parts::{SETTLE, now};
use crate::process::{Process, free_port};
use crate::server::Server;

const NODES: usize = 1_000;
/// Pods per second, unless `RATE` has others.
const RATES: &str = "20,400";
/// Time for which pods come, in seconds, unless `RATE_SECONDS` says otherwise.
const SECONDS: usize = 20;
/// Pods that are bound before the measurement.
const WARM_UP: usize = 500;

/// Measures what a pod costs at each rate.
pub(crate) async fn rate() -> anyhow::Result<Vec<Figure>> {
    let rates = env::var("RATE").unwrap_or_else(|_| RATES.to_owned());
    let seconds = match env::var("RATE_SECONDS") {
        Ok(text) => text.parse().context("RATE_SECONDS")?,
        Err(_) => SECONDS,
    };
    let mut figures = Vec::new();
    for rate in rates.split(',') {
        figures.extend(measure(rate.trim().parse().context("RATE")?, seconds).await?);
    }
    Ok(figures)
}

async fn measure(rate: u32, seconds: usize) -> anyhow::Result<Vec<Figure>> {
    let objects = cluster::nodes(NODES).chain(cluster::pods(WAITING, WARM_UP));
    let server = Server::start(objects.collect()).await?;
    let admin = Admin::connect(server.kubeconfig()).await?;
    let port = free_port()?;
    let scheduler = Process::replica(server.kubeconfig(), port)?;
    admin.until_all_are_bound_in(WAITING).await?;
    tokio::time::sleep(SETTLE).await;

    let pods = rate as usize * seconds;
    let before = scheduling_durations(port).await?;
    let (cpu, waits) = (scheduler.cpu()?, scheduler.waits()?);
    admin.create_pods(cluster::pods(WAITING, WARM_UP + pods).skip(WARM_UP), rate).await?;
    let created = now();
    admin.until_all_are_bound_in(WAITING).await?;
    admin.until_events_exist(WARM_UP + pods).await?;
    let quiet = created.elapsed();
    let (cpu, waits) = (scheduler.cpu()? - cpu, scheduler.waits()? - waits);
    let after = scheduling_durations(port).await?;
    ensure!(after.count > before.count, "no pod was measured");
    let took = 1e3 * (after.seconds - before.seconds) / (after.count - before.count);

    let figure = |text: &str, value: f64| Figure::new(format!("{rate} pods/s: {text}"), value);
    let aim = if rate >= 400 { "< 0.2" } else { "" };
    Ok(vec![
        figure("CPU ms/pod", cpu.as_secs_f64() * 1e3 / pods as f64).with_target(aim),
        figure("waits of threads/pod", waits as f64 / pods as f64),
        figure("ms from the first attempt to the binding", took),
        figure("s from the last pod to its event", quiet.as_secs_f64()),
    ])
}
