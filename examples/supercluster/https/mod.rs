//! The same over HTTPS on loopback: every agent and scheduler is a process of the binary, and the
//! API servers of all clusters are sandboxes in this process. All of them share the cores of the
//! machine.

mod clusters;
mod outcome;
mod roles;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use perf::process::Usage;
use serde_json::{Value, json};

use self::clusters::Clusters;
use self::outcome::{CpuSeconds, Outcome};
use self::roles::Roles;
use crate::Args;

/// Time between two looks at the clusters.
const LOOK: Duration = Duration::from_millis(100);
/// Time without a bind or a placement after which the run ends: the rest fits nowhere.
const PATIENCE: Duration = Duration::from_secs(15);
/// Number of pods that are created at a time; other work of this process comes between.
const CHUNK: usize = 50;

/// Runs the roles until the pods are placed, and prints what came of it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let outcome = runtime.block_on(measure(args))?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
async fn measure(args: &Args) -> anyhow::Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let clusters = Clusters::start(args).await?;
    let mut roles = Roles::start(folder.path(), args, &clusters).await?;
    let before = cpu(&roles)?;
    let begun = Instant::now();
    let pods = args.pods as usize;
    let creation = async {
        for first in (0..pods).step_by(CHUNK) {
            let chunk = (first..(first + CHUNK).min(pods)).map(|number| pod(args.seed, number));
            clusters.create_pods(chunk)?;
            match args.load {
                Some(rate) => {
                    let due = Duration::from_secs_f64((first + CHUNK) as f64 / rate);
                    tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
                }
                None => tokio::task::yield_now().await,
            }
        }
        anyhow::Ok(())
    };
    let watching = async {
        let mut progress = (0, 0, Instant::now());
        let mut last_bind = Duration::ZERO;
        loop {
            tokio::time::sleep(LOOK).await;
            let (bound, placed) = (clusters.bound(), clusters.placed());
            if bound > progress.0 {
                last_bind = begun.elapsed();
            }
            if (bound, placed) != (progress.0, progress.1) {
                progress = (bound, placed, Instant::now());
            }
            if (bound, placed) == (pods, pods) {
                return anyhow::Ok(last_bind);
            }
            if progress.2.elapsed() > PATIENCE {
                roles.check_run()?;
                eprintln!("{placed} of {pods} pods are placed, {bound} are bound");
                return Ok(last_bind);
            }
        }
    };
    let (created, last_bind) = tokio::join!(creation, watching);
    created?;
    let (last_bind, cpu_s) = (last_bind?, cpu(&roles)?.since(&before));
    let (commits, conflicts) = roles.commits().await?;
    if commits == 0 {
        bail!("no commit was made");
    }
    Ok(clusters.outcome(commits, conflicts, last_bind, cpu_s))
}

fn cpu(roles: &Roles) -> anyhow::Result<CpuSeconds> {
    let api_servers = Usage::of(std::process::id()).cpu()?.as_secs_f64();
    let (schedulers, agents) = roles.cpu()?;
    Ok(CpuSeconds { schedulers, agents, api_servers })
}

/// A pod of one of five sizes.
fn pod(seed: u64, number: usize) -> Value {
    const SIZES: [(&str, &str); 5] =
        [("250m", "512Mi"), ("500m", "2Gi"), ("1", "2Gi"), ("1", "4Gi"), ("2", "4Gi")];
    let size = fastrand::Rng::with_seed(seed ^ number as u64).usize(..SIZES.len());
    let (cpu, memory) = SIZES[size];
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number}"), "namespace": "default",
            "labels": {"app": format!("app-{size}")}},
        "spec": {"schedulerName": "supercluster", "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "pause",
                "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}})
}
