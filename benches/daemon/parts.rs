//! The parts of the benchmark.

use std::time::{Duration, Instant};

use anyhow::bail;
use futures::FutureExt;

use crate::client::{Admin, scrape};
use crate::cluster::{self, WAITING};
use crate::figures::{Figure, Part};
use crate::process::{Process, Sandbox, free_port};
use crate::radius::radius;
use crate::rate::rate;
use crate::soak::soak;
use crate::start::start;

pub(crate) static ALL: [Part; 9] = [
    Part { name: "throughput", measure: || throughput().boxed_local() },
    Part { name: "cold-start", measure: || cold_start().boxed_local() },
    Part { name: "preemption", measure: || preemption().boxed_local() },
    Part { name: "noise", measure: || noise().boxed_local() },
    Part { name: "idle", measure: || idle().boxed_local() },
    Part { name: "takeover", measure: || takeover().boxed_local() },
    Part { name: "radius", measure: || radius().boxed_local() },
    Part { name: "start", measure: || start().boxed_local() },
    Part { name: "rate", measure: || rate().boxed_local() },
];

/// A part that runs only if it is asked for.
pub(crate) static SOAK: Part = Part { name: "soak", measure: || soak().boxed_local() };

const NODES: usize = 5_000;
const PODS: usize = 20_000;
/// Number of placed pods in a cold start.
const MANY_PODS: usize = 150_000;
/// Number of pending pods in a cold start.
const FEW_PODS: usize = 10;
/// Number of pods that belong to ReplicaSets.
const OWNED: usize = PODS / 10 * 9;
/// Preemptors per second, and pods per second that need no preemption.
pub(crate) const RATE: u32 = 320;
const PREEMPTORS: usize = 6_400;
/// Number of rounds; each updates a node and a pod.
const ROUNDS: usize = 25_000;
const UPDATES: usize = 2 * ROUNDS;

/// Number of placed pods in a takeover.
const TAKEOVER_PODS: usize = 50_000;
/// Time after which a Lease of the default duration expires.
const LEASE: Duration = Duration::from_secs(15);

/// Time after the last binding in which the scheduler completes its remaining work.
pub(crate) const SETTLE: Duration = Duration::from_secs(3);
/// Duration of the measurement; CPU time has a resolution of 10 ms.
const IDLE: Duration = Duration::from_secs(60);

/// Measures from the start of the scheduler to the last of many bindings, and to the last of their
/// events. It elects itself leader, as by default.
async fn throughput() -> anyhow::Result<Vec<Figure>> {
    let pods = cluster::pods("apps", PODS - OWNED);
    let objects = cluster::nodes(NODES).chain(cluster::replica_sets(OWNED)).chain(pods);
    let sandbox = Sandbox::start(objects.collect())?;
    let admin = Admin::connect(&sandbox.kubeconfig).await?;
    admin.until_pods_exist(PODS).await?;
    let before = sandbox.process.cpu()?;
    let started = now();
    let scheduler = Process::replica(&sandbox.kubeconfig, free_port()?)?;
    admin.until_all_are_bound().await?;
    let took = started.elapsed();
    admin.until_events_exist(PODS).await?;
    let with_events = started.elapsed();
    tokio::time::sleep(SETTLE).await;
    let per_pod = |cpu: Duration| cpu.as_secs_f64() * 1e3 / PODS as f64;
    Ok(vec![
        Figure::new("pods/s", PODS as f64 / took.as_secs_f64()).with_target("> 3000"),
        Figure::new("s to the last binding", took.as_secs_f64()),
        Figure::new("s to the last event", with_events.as_secs_f64()),
        Figure::new("scheduler CPU ms/pod", per_pod(scheduler.cpu()?)).with_target("< 0.15"),
        Figure::new("scheduler peak MiB", scheduler.peak_mib()?).with_target("< 150"),
        Figure::new("sandbox CPU ms/pod", per_pod(sandbox.process.cpu()? - before)),
    ])
}

/// Measures from the start of the scheduler to the first binding in a large cluster.
async fn cold_start() -> anyhow::Result<Vec<Figure>> {
    let sandbox = running_cluster(MANY_PODS)?;
    let admin = Admin::connect(&sandbox.kubeconfig).await?;
    let started = now();
    let scheduler = Process::scheduler(&sandbox.kubeconfig)?;
    admin.until_one_is_bound().await?;
    let took = started.elapsed();
    let cpu = scheduler.cpu()?;
    tokio::time::sleep(SETTLE).await;
    Ok(vec![
        Figure::new("s to first binding", took.as_secs_f64()),
        Figure::new("scheduler CPU s to first binding", cpu.as_secs_f64()),
        Figure::new("scheduler peak MiB", scheduler.peak_mib()?),
    ])
}

/// Measures a steady stream of preemptors and of pods that fit without preemption.
async fn preemption() -> anyhow::Result<Vec<Figure>> {
    let objects = cluster::crowded(NODES).chain(cluster::pods(WAITING, FEW_PODS));
    let sandbox = Sandbox::start(objects.collect())?;
    let admin = Admin::connect(&sandbox.kubeconfig).await?;
    let victims = admin.count_pods("apps").await?;
    let scheduler = settled_scheduler(&sandbox, &admin).await?;
    let (before, started) = (scheduler.cpu()?, now());
    tokio::try_join!(
        admin.create_pods(cluster::preemptors(PREEMPTORS), RATE),
        admin.create_pods(cluster::small_pods(PREEMPTORS), RATE),
    )?;
    let created = started.elapsed();
    admin.until_all_are_bound().await?;
    let took = started.elapsed();
    tokio::time::sleep(SETTLE).await;
    let victims = victims - admin.count_pods("apps").await?;
    let rate = PREEMPTORS as f64 / took.as_secs_f64();
    let spent = (scheduler.cpu()? - before).as_secs_f64();
    Ok(vec![
        Figure::new("preemptors/s", rate).with_target("> 300"),
        Figure::new("ordinary pods/s", rate).with_target("> 160"),
        Figure::new("victims/preemptor", victims as f64 / PREEMPTORS as f64).with_target("1"),
        Figure::new("s to quiet after the last pod", (took - created).as_secs_f64()),
        Figure::new("scheduler CPU ms/preemptor", spent * 1e3 / PREEMPTORS as f64),
        Figure::new("scheduler peak MiB", scheduler.peak_mib()?),
    ])
}

/// Measures updates that do not affect scheduling.
async fn noise() -> anyhow::Result<Vec<Figure>> {
    let sandbox = running_cluster(PODS)?;
    let admin = Admin::connect(&sandbox.kubeconfig).await?;
    let scheduler = settled_scheduler(&sandbox, &admin).await?;
    let (before, started) = (scheduler.cpu()?, now());
    admin.renew_conditions(ROUNDS, NODES, PODS).await?;
    let took = started.elapsed();
    tokio::time::sleep(SETTLE).await;
    let spent = (scheduler.cpu()? - before).as_secs_f64();
    if spent == 0.0 {
        bail!("the scheduler did not notice any of {UPDATES} updates");
    }
    Ok(vec![
        Figure::new("updates/s of a scheduler core", UPDATES as f64 / spent),
        Figure::new("scheduler CPU s/100000 updates", spent * 1e5 / UPDATES as f64),
        Figure::new("updates/s sent", UPDATES as f64 / took.as_secs_f64()),
    ])
}

/// Measures an idle cluster.
async fn idle() -> anyhow::Result<Vec<Figure>> {
    let sandbox = running_cluster(PODS)?;
    let admin = Admin::connect(&sandbox.kubeconfig).await?;
    let scheduler = settled_scheduler(&sandbox, &admin).await?;
    let before = scheduler.cpu()?;
    tokio::time::sleep(IDLE).await;
    let spent = scheduler.cpu()? - before;
    let share = 100.0 * spent.as_secs_f64() / IDLE.as_secs_f64();
    Ok(vec![
        Figure::new("% of a core", share).with_target("< 0.1"),
        Figure::new("scheduler peak MiB", scheduler.peak_mib()?),
    ])
}

/// Measures how long no pod is bound after the leader was killed, and after it was asked to end,
/// and what a standby costs.
async fn takeover() -> anyhow::Result<Vec<Figure>> {
    let sandbox = running_cluster(TAKEOVER_PODS)?;
    let admin = Admin::connect(&sandbox.kubeconfig).await?;
    let port = free_port()?;
    let first = Process::replica(&sandbox.kubeconfig, port)?;
    admin.until_all_are_bound().await?;
    let scrape = scrape(port).await?;
    let second = standby(&sandbox).await?;
    let before = second.cpu()?;
    tokio::time::sleep(IDLE).await;
    let share = 100.0 * (second.cpu()? - before).as_secs_f64() / IDLE.as_secs_f64();
    first.signal("KILL")?;
    let killed = now();
    admin.create_pods(cluster::pods(WAITING, FEW_PODS + 1).skip(FEW_PODS), RATE).await?;
    admin.until_all_are_bound().await?;
    let after_crash = killed.elapsed();
    let third = standby(&sandbox).await?;
    second.signal("TERM")?;
    let stopped = now();
    admin.create_pods(cluster::pods(WAITING, FEW_PODS + 2).skip(FEW_PODS + 1), RATE).await?;
    admin.until_all_are_bound().await?;
    let after_shutdown = stopped.elapsed();
    Ok(vec![
        Figure::new("standby: % of a core", share).with_target("< 1"),
        Figure::new("s from SIGKILL to the first binding", after_crash.as_secs_f64())
            .with_target("< 17"),
        Figure::new("... beyond the lease", after_crash.as_secs_f64() - LEASE.as_secs_f64())
            .with_target("< 2"),
        Figure::new("s from SIGTERM to the first binding", after_shutdown.as_secs_f64())
            .with_target("< 1"),
        Figure::new("ms per scrape of the leader", scrape.as_secs_f64() * 1e3).with_target("< 5"),
        Figure::new("leader peak MiB", third.peak_mib()?),
    ])
}

/// Starts another replica and waits until it has synced and is idle.
async fn standby(sandbox: &Sandbox) -> anyhow::Result<Process> {
    let replica = Process::replica(&sandbox.kubeconfig, free_port()?)?;
    loop {
        let before = replica.cpu()?;
        tokio::time::sleep(SETTLE).await;
        if replica.cpu()? - before < SETTLE / 20 {
            return Ok(replica);
        }
    }
}

/// A cluster of running pods with a few pending ones.
fn running_cluster(pods: usize) -> anyhow::Result<Sandbox> {
    let running = cluster::running_pods(pods, NODES);
    let objects = cluster::nodes(NODES).chain(running).chain(cluster::pods(WAITING, FEW_PODS));
    Sandbox::start(objects.collect())
}

/// Starts a scheduler and waits until it is idle.
async fn settled_scheduler(sandbox: &Sandbox, admin: &Admin) -> anyhow::Result<Process> {
    let scheduler = Process::scheduler(&sandbox.kubeconfig)?;
    admin.until_all_are_bound().await?;
    tokio::time::sleep(SETTLE).await;
    Ok(scheduler)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
