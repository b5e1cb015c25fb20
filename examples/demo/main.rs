//! `make demo`: a cluster in memory, the daemon connected to it, and pods that get their nodes.
//!
//! The API server runs in this process, `loadmaster run` in another; they communicate over HTTPS.
//! The script decides on the actions. A terminal shows the nodes, and the cluster stays with a page
//! of `loadmaster ui` until Ctrl-C. Any other output gets a line per decision, and the demo ends
//! with its script. It leaves no files behind.

mod claims;
mod cluster;
mod clusters;
mod devices;
mod explanation;
mod folder;
mod page;
mod process;
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
use page::Page;
use process::Process;
use screen::Screen;
use script::{END, SCRIPT};

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new();
    let outcome = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                // Ctrl-C also ends the other processes, which is no error then.
                biased;
                interrupted = interrupted() => interrupted.map_err(anyhow::Error::from),
                outcome = chosen() => outcome,
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

/// Waits for Ctrl-C, SIGTERM or the end of the terminal. Dropping `demo` ends everything that it
/// started.
async fn interrupted() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt,
        _ = terminate.recv() => Ok(()),
        _ = hang_up.recv() => Ok(()),
    }
}

/// Runs the demo of many clusters for the argument `clusters`.
async fn chosen() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("clusters") => clusters::demo().await,
        _ => demo().await,
    }
}

async fn demo() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let cluster = Cluster::start().await?;
    let kubeconfig = folder.write("kubeconfig", &cluster.kubeconfig())?;
    let on_terminal = io::stdout().is_terminal();
    let port = on_terminal.then(scheduler::free_port).transpose()?;
    let mut scheduler = scheduler::start(&folder, &kubeconfig, port)?;
    let mut page = match port {
        Some(port) => Some(Page::start(&folder, &kubeconfig, port).await?),
        None => None,
    };
    let address = page.as_ref().map(|page| page.address().to_owned());
    let address = address.as_deref();
    let mut screen = Screen::new(on_terminal);
    screen.open(&cluster.url(), address)?;
    play(&cluster, &mut scheduler, page.as_mut(), &mut screen).await?;
    let summary = [claims::of(&cluster), devices::of(&cluster)].join("\n");
    screen.close(&summary, &explanation::of(&cluster), address)?;
    if let Some(page) = page {
        return stay(scheduler, page).await;
    }
    scheduler.stop().await?;
    cluster.stop().await;
    Ok(())
}

/// Performs the script.
async fn play(
    cluster: &Cluster,
    scheduler: &mut Process,
    mut page: Option<&mut Page>,
    screen: &mut Screen,
) -> anyhow::Result<()> {
    let mut script = SCRIPT.iter().peekable();
    let mut frames = interval(FRAME);
    let began = frames.tick().await;
    loop {
        let elapsed = frames.tick().await - began;
        scheduler.check()?;
        if let Some(page) = &mut page {
            page.check()?;
        }
        while let Some(scene) = script.next_if(|scene| scene.at <= elapsed) {
            cluster.perform(&scene.deed)?;
            screen.announce(scene, elapsed)?;
        }
        screen.show(cluster.snapshot(), elapsed)?;
        if elapsed >= END {
            return Ok(());
        }
    }
}

/// Waits until a process ends, which is an error.
async fn stay(mut scheduler: Process, mut page: Page) -> anyhow::Result<()> {
    let mut frames = interval(FRAME);
    loop {
        frames.tick().await;
        scheduler.check()?;
        page.check()?;
    }
}
