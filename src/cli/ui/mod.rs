//! `loadmaster ui`: a page that shows nodes, pending pods and decisions.

mod answers;
mod page;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use framework::Registry;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::TcpListener;

use self::answers::Answers;
use self::page::Page;
use super::explain::{DumpGates, Source};
use super::print;

/// Serves a local page with nodes, pending pods and decisions
///
/// The page listens on 127.0.0.1 only. Its address carries a token; without it the page answers
/// nothing. It asks the running scheduler with the permissions of the kubeconfig, as
/// `loadmaster explain` does, or a dump. Over a recording of `loadmaster run --record`, a slider
/// moves through the time of its last process.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Port of the page; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// Shows this recording: a directory of `loadmaster run --record`, the folder of one process,
    /// or one file
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dump", "server", "scheduler"])]
    recording: Option<PathBuf>,

    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    gates: DumpGates,
}

/// Serves the page until a signal ends the process.
///
/// # Errors
/// The recording or the dump cannot be read, or the port is taken.
pub(super) fn run(args: &Args, registry: Registry) -> anyhow::Result<ExitCode> {
    let answers = match &args.recording {
        Some(recording) => Answers::of_recording(recording, registry)?,
        None => Answers::new(&args.source, &args.gates, registry)?,
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let served = async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        let page = Page::new(answers, listener.local_addr()?, token()?);
        print(&format!("{}\n", page.address()))?;
        axum::serve(listener, page.router()).await.context("cannot serve the page")
    };
    runtime.context("cannot start the runtime")?.block_on(served)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a random token of 128 bits.
fn token() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow!("no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
