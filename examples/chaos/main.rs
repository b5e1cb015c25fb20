//! Two replicas of the daemon with leader election, as real processes, under load and under
//! trouble.
//!
//! ```text
//! cargo run --release --example chaos -- --minutes 10
//! ```
//!
//! With `--clusters N`: agents and schedulers over many clusters ([`clusters`]).
//!
//! The API server is the sandbox in this process, or kube-apiserver from the folder
//! `KUBEBUILDER_ASSETS`. A watch of the pods checks after each change that no rule is broken. At
//! the end all trouble ceases, and every pod has to be bound or to say why it is not. No gang may
//! be bound in part.

mod api_server;
mod clusters;
mod gangs;
mod load;
mod moves;
mod pods;
mod replica;
mod rules;
mod trouble;

#[path = "../../tests/e2e/control_plane.rs"]
#[expect(clippy::unwrap_used, dead_code, reason = "shared with end-to-end tests")]
mod control_plane;
#[path = "../../tests/e2e/process.rs"]
#[expect(clippy::unwrap_used, reason = "shared with end-to-end tests")]
mod process;
#[path = "../../tests/e2e/proxy.rs"]
#[expect(clippy::unwrap_used, reason = "shared with end-to-end tests")]
mod proxy;
#[path = "../../tests/e2e/wait.rs"]
mod wait;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;

use self::api_server::ApiServer;
use self::load::Load;
use self::pods::create_nodes;
use self::replica::Replicas;
use self::rules::Watcher;
use self::trouble::Trouble;

/// Time until every pod is bound or explained once the trouble has ceased. A watch that went silent
/// is noticed when its next bookmark does not come.
const SETTLING: Duration = Duration::from_secs(150);
/// Maximum number of pods that an error names.
const SHOWN: usize = 5;

/// Kills, stops and cuts off replicas that schedule a changing load, and checks over the API that
/// no pod is lost, bound twice, or overcommits a node. Exits with 1 if a rule is broken.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct Args {
    /// Duration of the trouble
    #[arg(long, value_name = "M", default_value_t = 2.0)]
    minutes: f64,
    /// Seed of the load and of the trouble
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Number of nodes [default: 12, or 4 in each cluster]
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// Number of member clusters, with schedulers over them in place of one cluster
    #[arg(long, value_name = "N", default_value_t = 0)]
    clusters: usize,
    /// Number of processes of the agent of each cluster
    #[arg(long, value_name = "N", default_value_t = 2)]
    agents: usize,
}

fn main() -> ExitCode {
    // The replicas are this program, so that one command builds all there is to run.
    if env::args_os().nth(1).is_some_and(is_command) {
        return loadmaster::run_with(framework::Registry::new());
    }
    let args = Args::parse();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be created");
    let outcome = match args.clusters {
        0 => runtime.block_on(run(&args)),
        _ => runtime.block_on(clusters::run(&args)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_command(argument: OsString) -> bool {
    replica::COMMANDS.iter().any(|command| argument == *command)
}

async fn run(args: &Args) -> anyhow::Result<()> {
    let duration = Duration::try_from_secs_f64(args.minutes * 60.0).context("--minutes")?;
    let api_server = ApiServer::start(args.seed).await?;
    let client = api_server.client().await?;
    let mut load = Load::new(client.clone(), args.seed);
    let nodes = args.nodes.unwrap_or(12);
    create_nodes(&client, nodes).await?;
    moves::create_movable(&client, nodes).await?;
    let watcher = Watcher::start(client.clone()).await?;
    let mut replicas = Replicas::start(&api_server).await?;
    let mut trouble = Trouble::new(args.seed);

    let started = now();
    while started.elapsed() < duration {
        trouble.go_on(&mut replicas, &api_server, started.elapsed())?;
        load.go_on().await;
        replicas.restart_ended()?;
        watcher.check()?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    trouble.cease(&mut replicas, &api_server);
    eprintln!("[{:>6.1} s] all trouble ceases", started.elapsed().as_secs_f64());
    let ceased = now();
    let mut unsettled = load.unsettled().await;
    while !matches!(&unsettled, Ok(pods) if pods.is_empty()) {
        replicas.restart_ended()?;
        watcher.check()?;
        if ceased.elapsed() > SETTLING {
            let pods = unsettled.context("cannot list the pods")?;
            replicas.show_logs();
            let first = pods[..pods.len().min(SHOWN)].join("; ");
            bail!("{} pods are neither bound nor explained, for example: {first}", pods.len());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        unsettled = load.unsettled().await;
    }
    let settled = ceased.elapsed();
    load.assert_bound_once().await?;
    watcher.check()?;
    println!("{}", watcher.summary());
    println!("{}", load.summary());
    println!("{}", moves::summary(&client).await?);
    println!("{}", trouble.summary());
    println!(
        "every pod was bound or explained {:.1} s after the trouble; no rule was broken",
        settled.as_secs_f64()
    );
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the trouble has a real duration")]
fn now() -> Instant {
    Instant::now()
}
