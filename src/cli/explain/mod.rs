//! `loadmaster explain`: why a pod is where it is, why it waits, and what would help.

mod dump;
mod remote;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use explain::{ClusterAnswer, GroupAnswer, NodeAnswer, PodAnswer};
use framework::Registry;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::print;
use crate::wire;

/// Explains decisions: why this node, why not that node, why pending, what would help
///
/// Asks the running scheduler: through the API server the pod that holds the Lease, or with --server a port. With
/// --dump it answers from a dump of a cluster without a scheduler. What is computed for the answer is labelled
/// `now`; the history of attempts is what was recorded when they were made.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    question: Question,
}

#[derive(Debug, clap::Subcommand)]
enum Question {
    /// Explains one pod, and what would help it if it is pending
    Pod {
        /// Name of the pod
        name: String,
        /// Also says why this node takes the pod or does not
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
        #[command(flatten)]
        source: Source,
    },
    /// Explains what a node offers, and why pending pods do not run there
    Node {
        /// Name of the node
        name: String,
        #[command(flatten)]
        source: Source,
    },
    /// Explains why pods of a controller wait: a Deployment, ReplicaSet, StatefulSet or Job
    Group {
        /// Name of the controller
        name: String,
        #[command(flatten)]
        source: Source,
    },
    /// Explains which pods wait and why, what is stranded, and what each constraint costs
    Cluster {
        #[command(flatten)]
        source: Source,
    },
}

/// Where the answer comes from, and its form.
#[derive(Debug, Clone, clap::Args)]
struct Source {
    /// Namespace of the pod or controller
    #[arg(short, long, default_value = "default")]
    namespace: String,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Kubeconfig file; otherwise $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Lease of the scheduler, whose holder is asked
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/loadmaster")]
    lease: String,

    /// Pod of the scheduler, instead of the holder of the Lease
    #[arg(long, value_name = "NAMESPACE/NAME")]
    scheduler: Option<String>,

    /// Address of the secure port of the scheduler, such as https://127.0.0.1:10259, with the credentials of the
    /// kubeconfig
    #[arg(long, value_name = "URL", conflicts_with_all = ["lease", "scheduler"])]
    server: Option<String>,

    /// Accepts any certificate of --server, for example the one that the scheduler generates
    #[arg(long, requires = "server")]
    insecure_skip_tls_verify: bool,

    /// Answers from these files or folders with objects, `-` for standard input, instead of a scheduler
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["server", "scheduler"])]
    dump: Vec<PathBuf>,

    /// KubeSchedulerConfiguration for --dump
    #[arg(long, value_name = "FILE", requires = "dump")]
    config: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text
    Table,
    /// Text with all names, scores and suggestions
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// An answer that can be shown as text.
trait Answer: Serialize + DeserializeOwned {
    fn text(&self, wide: bool) -> String;
}

impl Answer for PodAnswer {
    fn text(&self, wide: bool) -> String {
        text::pod(self, wide)
    }
}

impl Answer for NodeAnswer {
    fn text(&self, wide: bool) -> String {
        text::node(self, wide)
    }
}

impl Answer for GroupAnswer {
    fn text(&self, wide: bool) -> String {
        text::group(self, wide)
    }
}

impl Answer for ClusterAnswer {
    fn text(&self, wide: bool) -> String {
        text::cluster(self, wide)
    }
}

/// Runs the command. The exit code is 0 if there is an answer, also for a pod that waits.
///
/// # Errors
/// There is no answer, or it cannot be written.
pub(super) fn run(args: &Args, registry: Registry) -> anyhow::Result<ExitCode> {
    match &args.question {
        Question::Pod { name, node, source } => {
            check_name(name)?;
            let node_query =
                node.as_ref().map(|node| format!("?node={}", escaped(node))).unwrap_or_default();
            let path = format!("pods/{}/{}{node_query}", escaped(&source.namespace), escaped(name));
            if !source.dump.is_empty() {
                return show(source, &dump::pod(source, registry, name, node.as_deref())?);
            }
            ask::<PodAnswer>(source, &path)
        }
        Question::Node { name, source } => {
            check_name(name)?;
            if !source.dump.is_empty() {
                return show(source, &dump::node(source, registry, name)?);
            }
            ask::<NodeAnswer>(source, &format!("nodes/{}", escaped(name)))
        }
        Question::Group { name, source } => {
            check_name(name)?;
            if !source.dump.is_empty() {
                return show(source, &dump::group(source, registry, name)?);
            }
            let path = format!("groups/{}/{}", escaped(&source.namespace), escaped(name));
            ask::<GroupAnswer>(source, &path)
        }
        Question::Cluster { source } => {
            if !source.dump.is_empty() {
                return show(source, &dump::cluster(source, registry)?);
            }
            ask::<ClusterAnswer>(source, "cluster")
        }
    }
}

fn check_name(name: &str) -> anyhow::Result<()> {
    if name.is_empty() || name.contains('/') {
        bail!("{name:?} is not a name: give the name alone, and its namespace with -n");
    }
    Ok(())
}

/// Escapes a name for a path.
fn escaped(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn ask<A: Answer>(source: &Source, path: &str) -> anyhow::Result<ExitCode> {
    let body = remote::get(source, path)?;
    let answer: A = serde_json::from_slice(&body)
        .context("the answer cannot be read: is the scheduler of another version?")?;
    show(source, &answer)
}

fn show<A: Answer>(source: &Source, answer: &A) -> anyhow::Result<ExitCode> {
    let text = match source.output {
        Output::Table => answer.text(false),
        Output::Wide => answer.text(true),
        Output::Json => serde_json::to_string_pretty(answer).context("cannot write JSON")? + "\n",
        Output::Yaml => match wire::to_yaml(answer) {
            Ok(text) => text,
            Err(error) => bail!("cannot write YAML: {error}"),
        },
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
