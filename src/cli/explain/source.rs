//! Where answers come from.

use std::path::PathBuf;

/// A running scheduler, or a dump of a cluster.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::cli) struct Source {
    /// Kubeconfig file; otherwise $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,

    /// Lease of the scheduler, whose holder is asked
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/loadmaster")]
    pub(super) lease: String,

    /// Pod of the scheduler, instead of the holder of the Lease
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) scheduler: Option<String>,

    /// Address of the secure port of the scheduler, such as https://127.0.0.1:10259, with the credentials of the
    /// kubeconfig
    #[arg(long, value_name = "URL", conflicts_with_all = ["lease", "scheduler"])]
    pub(super) server: Option<String>,

    /// Accepts any certificate of --server, for example the one that the scheduler generates
    #[arg(long, requires = "server")]
    pub(super) insecure_skip_tls_verify: bool,

    /// Answers from these files or folders with objects, `-` for standard input, instead of a scheduler
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["server", "scheduler"])]
    pub(in crate::cli) dump: Vec<PathBuf>,

    /// KubeSchedulerConfiguration for --dump
    #[arg(long, value_name = "FILE", requires = "dump")]
    pub(in crate::cli) config: Option<PathBuf>,
}

impl Source {
    /// Describes the source in a few words.
    pub(in crate::cli) fn text(&self) -> String {
        if !self.dump.is_empty() {
            let files: Vec<_> = self.dump.iter().map(|path| path.display().to_string()).collect();
            return format!("dump {}", files.join(", "));
        }
        match (&self.server, &self.scheduler) {
            (Some(server), _) => format!("scheduler at {server}"),
            (None, Some(pod)) => format!("scheduler {pod}"),
            (None, None) => format!("scheduler with the Lease {}", self.lease),
        }
    }
}
