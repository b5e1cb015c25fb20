//! Where answers come from.

use std::path::PathBuf;

use clap::ArgGroup;
use framework::Level;

use super::remote::has_scheduler;
use crate::cli::complain;
use crate::cli::dump::{Local, of_cluster};
use crate::cli::flags::VersionFlags;
use crate::config::Gates;
use crate::wire::Origin;

/// A running scheduler, a dump of a cluster, or a cluster that is read as one.
#[derive(Debug, Clone, clap::Args)]
#[command(group(ArgGroup::new("here").args(["dump", "read_cluster"])))]
pub(in crate::cli) struct Source {
    /// Kubeconfig file; otherwise $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,

    /// Lease of the scheduler, whose holder is asked; otherwise kube-system/loadmaster, and if no
    /// scheduler holds it, the answer is about the cluster as it is read
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) lease: Option<String>,

    /// Pod of the scheduler, instead of the holder of the Lease
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) scheduler: Option<String>,

    /// Address of the secure port of the scheduler, such as https://127.0.0.1:10259, with the
    /// credentials of the kubeconfig
    #[arg(long, value_name = "URL", conflicts_with_all = ["lease", "scheduler"])]
    pub(super) server: Option<String>,

    /// Accepts any certificate of --server, for example the one that the scheduler generates
    #[arg(long, requires = "server")]
    pub(super) insecure_skip_tls_verify: bool,

    /// Answers from these files or folders with objects, `-` for standard input, instead of a
    /// scheduler
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["server", "scheduler"])]
    pub(in crate::cli) dump: Vec<PathBuf>,

    /// Answers from the cluster of the kubeconfig, which is read as `loadmaster dump` does, instead
    /// of a scheduler
    #[arg(long, conflicts_with_all = ["server", "scheduler", "lease"])]
    pub(in crate::cli) read_cluster: bool,

    /// KubeSchedulerConfiguration for --dump and --read-cluster
    #[arg(long, value_name = "FILE", requires = "here")]
    pub(in crate::cli) config: Option<PathBuf>,
}

/// The feature gates of answers without a scheduler.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::cli) struct DumpGates {
    /// Feature gates for --dump and --read-cluster, as `Name=true,Other=false`; can be repeated
    #[arg(long, value_name = "GATES", requires = "here")]
    feature_gates: Vec<String>,

    #[command(flatten)]
    versions: VersionFlags,
}

impl DumpGates {
    /// Returns the gates at the level that was asked for, or else at that of the API server. The
    /// PodGroups of a dump are enforced unless a flag says otherwise, as those that an API server
    /// serves.
    ///
    /// # Errors
    /// A gate is unknown or not built.
    pub(in crate::cli) fn gates(&self, server: Option<Level>) -> anyhow::Result<Gates> {
        let level = self.versions.level()?.or(server).unwrap_or_default();
        let gates = self.versions.gates(level)?;
        let gates = gates.with_flags(self.feature_gates.iter().map(String::as_str))?;
        gates.check_built()?;
        Ok(if gates.leave_groups_open() { gates.with_groups() } else { gates })
    }
}

/// The Lease of a scheduler that has not set another name.
const LEASE: &str = "kube-system/loadmaster";

impl Source {
    /// Returns the namespace and the name of the Lease.
    pub(super) fn lease(&self) -> &str {
        self.lease.as_deref().unwrap_or(LEASE)
    }

    /// Returns what answers come from without a scheduler: the files of a dump, or the cluster if
    /// it was asked for or no scheduler holds the Lease. `None` if a scheduler is asked.
    ///
    /// # Errors
    /// The cluster cannot be read.
    pub(in crate::cli) fn local(&self) -> anyhow::Result<Option<Local>> {
        if !self.dump.is_empty() {
            return Ok(Some(Local { origins: Origin::of_paths(&self.dump), level: None }));
        }
        let names_scheduler =
            self.server.is_some() || self.scheduler.is_some() || self.lease.is_some();
        if !self.read_cluster && (names_scheduler || has_scheduler(self)?) {
            return Ok(None);
        }
        if !self.read_cluster {
            let lease = self.lease();
            complain(
                "note",
                &format!(
                    "no scheduler holds the Lease {lease}: the answer is about the cluster as `loadmaster dump` reads it"
                ),
            );
        }
        let (kubeconfig, context) = (self.kubeconfig.as_deref(), self.context.as_deref());
        of_cluster(kubeconfig, context).map(Some)
    }

    /// Describes the source in a few words.
    pub(in crate::cli) fn text(&self) -> String {
        if !self.dump.is_empty() {
            let files: Vec<_> = self.dump.iter().map(|path| path.display().to_string()).collect();
            return format!("dump {}", files.join(", "));
        }
        match (&self.server, &self.scheduler) {
            (Some(server), _) => format!("scheduler at {server}"),
            (None, Some(pod)) => format!("scheduler {pod}"),
            (None, None) if self.read_cluster => "cluster".to_owned(),
            (None, None) => format!("scheduler with the Lease {}", self.lease()),
        }
    }
}
