//! `make demo`: a cluster in memory, the daemon connected to it, and pods that get their nodes.
//!
//! The API server runs in this process, `loadmaster run` in another; they communicate over HTTPS.
//! The script decides on the actions. A terminal shows the nodes; any other output gets a line per
//! decision. The demo ends on its own and leaves no files behind.

mod claims;
mod cluster;
mod devices;
mod explanation;
mod folder;
mod scheduler;
mod screen;
mod script;
mod snapshot;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;

use cluster::Cluster;
use folder::Folder;
use scheduler::Scheduler;
use screen::Screen;
use script::{END, SCRIPT};

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new();
    let outcome = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                outcome = demo() => outcome,
                interrupted = interrupted() => interrupted.map_err(anyhow::Error::from),
            }
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Waits for Ctrl-C or SIGTERM. Dropping `demo` ends everything that it started.
async fn interrupted() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt,
        _ = terminate.recv() => Ok(()),
    }
}

async fn demo() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let cluster = Cluster::start().await?;
    let mut scheduler = Scheduler::start(&folder, &cluster.kubeconfig())?;
    let mut screen = Screen::new(io::stdout().is_terminal());
    screen.open(&cluster.url())?;
    let mut script = SCRIPT.iter().peekable();
    let mut frames = interval(FRAME);
    let began = frames.tick().await;
    loop {
        let elapsed = frames.tick().await - began;
        scheduler.check()?;
        while let Some(scene) = script.next_if(|scene| scene.at <= elapsed) {
            cluster.perform(&scene.deed)?;
            screen.announce(scene, elapsed)?;
        }
        screen.show(cluster.snapshot(), elapsed)?;
        if elapsed >= END {
            break;
        }
    }
    let summary = [claims::of(&cluster), devices::of(&cluster)].join("\n");
    screen.close(&summary, &explanation::of(&cluster))?;
    scheduler.stop().await?;
    cluster.stop().await;
    Ok(())
}
