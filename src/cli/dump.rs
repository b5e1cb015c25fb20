//! `loadmaster dump`: the objects of a cluster that the tools read, in one file.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use framework::Level;

use super::{complain, print};
use crate::api_client::{ApiClient, Credentials};
use crate::dump::{Anonymizer, Dump, read};
use crate::metrics::Metrics;
use crate::wire::Origin;

/// Writes what simulate, whatif, explain and ui read of a cluster to a file
///
/// Lists nodes, pods, workloads, claims, volumes, devices, quotas and the other kinds that these
/// commands read, in pages. Kinds that the cluster does not have, or that the caller may not list,
/// are named and left out. Secrets and ConfigMaps are never read; environments, arguments, probes,
/// parameters of drivers and annotations other than those of Kubernetes are not written.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// File to write, compressed if its name ends with .gz; standard output unless given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Gives names, namespaces, labels and images others, the same ones everywhere in the dump, and
    /// leaves out addresses. Resource names, drivers, sizes and scheduler names stay
    #[arg(long)]
    anonymize: bool,
}

/// A cluster that is read.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ClusterArgs {
    /// Kubeconfig file; otherwise $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// The cluster cannot be read, or the file cannot be written.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut anonymizer = args.anonymize.then(Anonymizer::default);
    let ClusterArgs { kubeconfig, context } = &args.cluster;
    let dump = read_cluster(kubeconfig.as_deref(), context.as_deref(), anonymizer.as_mut())?.dump;
    match &args.output {
        None => print(&dump.text())?,
        Some(file) => {
            write(file, &dump.text())
                .with_context(|| format!("cannot write {}", file.display()))?;
            complain("note", &format!("{} has {} objects", file.display(), dump.objects.len()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What answers come from without a scheduler.
pub(super) struct Local {
    pub(super) origins: Vec<Origin>,
    /// The level of the API server, if it was read from one that tells it.
    pub(super) level: Option<Level>,
}

/// Reads a cluster as a dump.
///
/// # Errors
/// The cluster cannot be read.
pub(super) fn of_cluster(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> anyhow::Result<Local> {
    let ReadCluster { dump, level } = read_cluster(kubeconfig, context, None)?;
    Ok(Local { origins: vec![Origin::of_text("the cluster", dump.text())], level })
}

/// A cluster as a dump.
struct ReadCluster {
    dump: Dump,
    /// The level of its API server, if it tells it.
    level: Option<Level>,
}

fn read_cluster(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    anonymizer: Option<&mut Anonymizer>,
) -> anyhow::Result<ReadCluster> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let cluster = runtime.context("cannot start the runtime")?.block_on(async {
        let credentials = Credentials::of_user(kubeconfig, context).await?;
        let client =
            ApiClient::new(&credentials, "dump", Metrics::new().rest_client(), Arc::default())?;
        let dump = read(&client, anonymizer).await;
        let dump = dump.with_context(|| format!("asked {}", credentials.server()))?;
        let version = client.version().await.ok();
        let level = version.and_then(|version| version.minor()).and_then(Level::of_minor);
        anyhow::Ok(ReadCluster { dump, level })
    })?;
    cluster.dump.notes().iter().for_each(|note| complain("note", note));
    Ok(cluster)
}

/// Writes a file that only its owner can read.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    if path.extension().is_none_or(|ending| ending != "gz") {
        return (&file).write_all(text.as_bytes());
    }
    let mut encoder = GzEncoder::new(file, Compression::default());
    encoder.write_all(text.as_bytes())?;
    encoder.finish().map(drop)
}
