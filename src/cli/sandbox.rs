//! `loadmaster sandbox`: a Kubernetes API in memory for experiments and tests.

mod clusters;
mod manifests;
mod secrets;

use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, anyhow};
use framework::Registry;
use sandbox::devices::Devices;
use sandbox::faults::Settings;
use sandbox::http::{Options, Server, StartError};
use sandbox::kubelet;
use supercluster::registry::PipelineRegistry;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::manifests::Loaded;
use super::{complain, in_process, print};
use crate::wire::{self, ReadObjects};

/// Runs a Kubernetes API in memory, with kubelets, controllers and a scheduler
///
/// kubectl, client libraries and other schedulers work with it as with a cluster, but no containers
/// run: simulated kubelets make bound pods Running and reject pods that do not fit. It runs until
/// it is interrupted and stores nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files or folders with initial objects, `-` for standard input; may be repeated. Manifests or
    /// a dump (docs/simulate.md has the command), also of custom resources and their definitions;
    /// missing namespaces and priority classes are created
    #[arg(short, long, value_name = "PATH", num_args = 1..)]
    filename: Vec<PathBuf>,

    /// Port of the API; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// Address on which the API listens
    #[arg(long, value_name = "IP", default_value_t = Ipv4Addr::LOCALHOST.into())]
    bind_address: IpAddr,

    /// Path of the administrator's kubeconfig; certificates and tokens are generated at every start
    #[arg(long, value_name = "FILE", default_value = "sandbox.kubeconfig")]
    write_kubeconfig: PathBuf,

    /// Folder for the authorities of client certificates and front proxies with their keys, and for
    /// the certificate of a front proxy: `ca.crt`, `ca.key`, `front-proxy-ca.crt` and so on, as
    /// kubeadm names them
    #[arg(long, value_name = "FOLDER")]
    write_pki: Option<PathBuf>,

    /// Leaves all pods to other schedulers; without it, this process schedules the pods of
    /// `default-scheduler` and `loadmaster`
    #[arg(long)]
    no_scheduler: bool,

    /// KubeSchedulerConfiguration of the scheduler of this process. Without it, `default-scheduler`
    /// and `loadmaster` have the default plugins. Leader election is left out
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_scheduler", "clusters"])]
    config: Option<PathBuf>,

    /// Runs no kubelets: bound pods stay Pending and nodes as written
    #[arg(long)]
    no_kubelets: bool,

    /// Publishes devices of every node, with the DeviceClasses `gpu`, `gpu-half` and `nic`
    ///
    /// The annotation `sandbox.loadmaster.dev/devices` of a node names other devices, or `gpu=0`
    /// for none. A GPU can be divided in halves: `gpu-half` is half of its memory. GPUs and network
    /// cards are spread over the PCIe roots of the node (attribute
    /// `resource.kubernetes.io/pcieRoot`), one root for each network card.
    /// `sandbox.loadmaster.dev/gpu` is the class `gpu` as an extended resource.
    #[arg(long, value_name = "gpu=N,nic=N")]
    devices: Option<Devices>,

    /// Injects faults into the API; may be repeated
    ///
    /// Shares of requests: `lost-answers=0.01` (carried out, never answered), `conflicts`,
    /// `throttling`, `errors`, `webhooks-down` (as if a fail-closed admission webhook could not be
    /// called); of connections: `refused-connections`; of watches per second: `dropped-watches`,
    /// `stalled-watches`. Times: `latency=5ms..50ms`, `compaction=30s`. To limit faults to some
    /// requests: `only-methods=POST,PATCH`, `only-path=/binding,/leases`. At run time, GET and PUT
    /// /sandbox/faults read and replace them.
    #[arg(long = "fault", value_name = "NAME=VALUE")]
    faults: Vec<String>,

    /// Runs so many member clusters with agents, and one more for management, whose pods of the
    /// scheduler `supercluster` are placed in the members. Nodes of --filename are in each member,
    /// namespaces in all clusters, other objects in the management cluster. Without nodes each
    /// member has three
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    clusters: Option<u8>,

    /// Folder for the kubeconfigs, tokens and certificates of --clusters, and for `clusters.yaml`,
    /// the file of `loadmaster run --clusters`
    #[arg(long, value_name = "FOLDER", default_value = "sandbox-clusters")]
    write_clusters: PathBuf,

    /// Seed of uids, generated names and faults
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Runs a sandbox until it is interrupted, with a scheduler that has the plugins of the registry.
pub(super) fn run(
    args: &Args,
    registry: Registry,
    pipelines: &PipelineRegistry,
) -> anyhow::Result<()> {
    if let Some(members) = args.clusters {
        return clusters::run(args, members, &registry, pipelines);
    }
    let options = options(args)?;
    let config = args.config.as_deref().map(in_process::read_config).transpose()?;
    let ReadObjects { objects, strays } = wire::read_objects(&args.filename)?;
    strays.iter().for_each(|stray| complain("warning", &stray.to_string()));
    let runtime = Builder::new_multi_thread().worker_threads(io_threads()).enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    runtime.block_on(async {
        let server = Server::start(options).await.map_err(with_advice)?;
        let loaded = server.with_store(|store, now| manifests::load(store, objects, now))?;
        loaded.warnings.iter().for_each(|warning| complain("warning", warning));
        let kubeconfig = server.kubeconfig();
        let path = secrets::write_kubeconfig(&args.write_kubeconfig, &kubeconfig)?;
        if let Some(folder) = &args.write_pki {
            secrets::write_pki(folder, &server)?;
        }
        print(&welcome(&server.url(), &path, &loaded, args))?;

        let stop = CancellationToken::new();
        let scheduling = async {
            if args.no_scheduler {
                stop.cancelled().await;
                return Ok(());
            }
            in_process::schedule(registry, config, kubeconfig, stop.clone()).await
        };
        let outcome = until_interrupted(scheduling, &stop).await;
        server.stop().await;
        outcome
    })
}

/// Returns the number of threads that serve requests: half of the cores. Clients need the others,
/// and requests wait for one another at the store, so more threads mostly wake each other.
fn io_threads() -> usize {
    available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}

fn options(args: &Args) -> anyhow::Result<Options> {
    let mut faults = Settings::default();
    for setting in &args.faults {
        faults = faults.with(setting)?;
    }
    Ok(Options {
        bind_address: args.bind_address,
        port: args.port,
        seed: args.seed,
        controllers: true,
        devices: args.devices.unwrap_or_default(),
        kubelets: (!args.no_kubelets).then(slow_enough_to_see),
        faults,
    })
}

/// Pods take a moment to start and to stop, so that the change is visible.
fn slow_enough_to_see() -> kubelet::Settings {
    const MOMENT: Duration = Duration::from_millis(500);
    kubelet::Settings { start_delay: MOMENT, stop_delay: MOMENT, ..kubelet::Settings::default() }
}

fn with_advice(error: StartError) -> anyhow::Error {
    let advice = match &error {
        StartError::Bind { source, .. } => match source.kind() {
            io::ErrorKind::AddrInUse => "; choose another --port, or 0 for any that is free",
            io::ErrorKind::PermissionDenied => "; choose a --port above 1023",
            io::ErrorKind::AddrNotAvailable => "; choose a --bind-address of this machine",
            _ => "",
        },
        _ => "",
    };
    anyhow!("{error}{advice}")
}

/// Runs `work` until it ends or is interrupted. After an interrupt it may finish, unless a second
/// one arrives.
async fn until_interrupted(
    work: impl Future<Output = anyhow::Result<()>>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    const CANNOT_LISTEN: &str = "cannot listen for signals";
    let mut interrupt = signal(SignalKind::interrupt()).context(CANNOT_LISTEN)?;
    let mut terminate = signal(SignalKind::terminate()).context(CANNOT_LISTEN)?;
    let mut work = std::pin::pin!(work);
    for _ in 0..2 {
        tokio::select! {
            outcome = &mut work => return outcome,
            _ = interrupt.recv() => stop.cancel(),
            _ = terminate.recv() => stop.cancel(),
        }
    }
    Ok(())
}

/// Prints the next steps on a terminal, one line per fact elsewhere.
fn welcome(url: &str, kubeconfig: &Path, loaded: &Loaded, args: &Args) -> String {
    let kubeconfig = kubeconfig.display();
    if !io::stdout().is_terminal() {
        return format!("serving {url}\nkubeconfig {kubeconfig}\nloaded {loaded}\n");
    }
    let scheduling = match args.no_scheduler {
        true => "Nothing is scheduled until you run a scheduler",
        false => "Pods of default-scheduler and loadmaster are scheduled",
    };
    format!(
        "A Kubernetes API is served at {url}, with {loaded}.

  export KUBECONFIG={kubeconfig}
  kubectl get nodes

{scheduling}. Ctrl-C ends it; nothing is kept.
"
    )
}
