//! `loadmaster explain`: why a pod is where it is, why it waits, and what would help.

mod clusters;
mod dump;
mod remote;
mod source;
mod text;

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use explain::{ClusterAnswer, GroupAnswer, NodeAnswer, PodAnswer, PodGroupAnswer, QuotasAnswer};
use framework::{Level, PodKey, Registry};
use serde::Serialize;
use serde::de::DeserializeOwned;
use supercluster::scheduler::PodExplanation;

pub(super) use self::dump::{Dump, DumpSettings};
pub(super) use self::remote::{ask, ask_async};
pub(super) use self::source::{DumpGates, Source};
use self::text::Layout;
use super::dump::Local;
use super::print;

/// Explains decisions: why this node, why not that node, why pending, what would help
///
/// Asks the running scheduler: through the API server the pod that holds the Lease, or with
/// --server a port. With --dump it answers from a dump of a cluster, with --read-cluster from the
/// cluster itself, without a scheduler. What is computed for the answer is labelled `now`; the
/// history of attempts is what was recorded when they were made.
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
        /// Also says why this node takes the pod or does not; `CLUSTER/NODE` of a scheduler over
        /// many clusters
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
        #[command(flatten)]
        form: Form,
    },
    /// Explains what a node offers, and why pending pods do not run there
    Node {
        /// Name of the node
        name: String,
        #[command(flatten)]
        form: Form,
    },
    /// Explains why pods of a controller wait: a Deployment, ReplicaSet, StatefulSet or Job
    Group {
        /// Name of the controller
        name: String,
        #[command(flatten)]
        form: Form,
    },
    /// Explains how many pods of a PodGroup fit together, and what is missing
    #[command(name = "podgroup")]
    PodGroup {
        /// Name of the PodGroup
        name: String,
        #[command(flatten)]
        form: Form,
    },
    /// Explains what quotas guarantee, use and borrow, and what they may use
    Quota {
        /// Name of an ElasticQuota, shown with those above and below it; all without a name
        name: Option<String>,
        #[command(flatten)]
        form: Form,
    },
    /// Explains which pods wait and why, what is stranded, and what each constraint costs
    Cluster {
        #[command(flatten)]
        form: Form,
    },
}

/// Namespace and form of an answer, and where it comes from.
#[derive(Debug, Clone, clap::Args)]
struct Form {
    /// Namespace of the pod, controller, PodGroup or ElasticQuota
    #[arg(short, long, default_value = "default")]
    namespace: String,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Shows tables in full, which are cut otherwise
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    gates: DumpGates,
}

impl Form {
    /// Returns the settings of answers from a dump.
    ///
    /// # Errors
    /// A feature gate is unknown or not built.
    fn settings(&self, server: Option<Level>) -> anyhow::Result<DumpSettings<'_>> {
        let gates = self.gates.gates(server)?;
        Ok(DumpSettings { config: self.source.config.as_deref(), gates })
    }
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
    fn text(&self, layout: Layout) -> String;
}

impl Answer for PodAnswer {
    fn text(&self, layout: Layout) -> String {
        text::pod(self, layout)
    }
}

impl Answer for PodExplanation {
    fn text(&self, layout: Layout) -> String {
        clusters::pod(self, layout.wide)
    }
}

impl Answer for NodeAnswer {
    fn text(&self, layout: Layout) -> String {
        text::node(self, layout)
    }
}

impl Answer for GroupAnswer {
    fn text(&self, layout: Layout) -> String {
        text::group(self, layout)
    }
}

impl Answer for PodGroupAnswer {
    fn text(&self, layout: Layout) -> String {
        text::pod_group(self, layout)
    }
}

impl Answer for QuotasAnswer {
    fn text(&self, layout: Layout) -> String {
        text::quotas(self, layout)
    }
}

impl Answer for ClusterAnswer {
    fn text(&self, layout: Layout) -> String {
        text::cluster(self, layout)
    }
}

/// Returns the answer about a pod as text.
pub(super) fn pod_text(answer: &PodAnswer) -> String {
    text::pod(answer, Layout::default())
}

/// Runs the command. The exit code is 0 if there is an answer, also for a pod that waits.
///
/// # Errors
/// There is no answer, or it cannot be written.
pub(super) fn run(args: &Args, registry: Registry) -> anyhow::Result<ExitCode> {
    match &args.question {
        Question::Pod { name, node, form } => {
            check_name(name)?;
            let node_query =
                node.as_ref().map(|node| format!("?node={}", escaped(node))).unwrap_or_default();
            let path = format!("pods/{}/{}{node_query}", escaped(&form.namespace), escaped(name));
            let key = PodKey::new(&form.namespace, name);
            match form.source.local()? {
                None => pod_of_scheduler(form, &path),
                Some(Local { origins, level }) => {
                    let mut dump = Dump::read(&origins, form.settings(level)?, registry)?;
                    show(form, &dump.pod(&key, node.as_deref())?)
                }
            }
        }
        Question::Node { name, form } => {
            check_name(name)?;
            let path = format!("nodes/{}", escaped(name));
            answer(form, registry, &path, |dump| dump.node(name))
        }
        Question::Group { name, form } => {
            check_name(name)?;
            let path = format!("groups/{}/{}", escaped(&form.namespace), escaped(name));
            answer(form, registry, &path, |dump| dump.group(&form.namespace, name))
        }
        Question::PodGroup { name, form } => {
            check_name(name)?;
            let path = format!("podgroups/{}/{}", escaped(&form.namespace), escaped(name));
            answer(form, registry, &path, |dump| dump.pod_group(&form.namespace, name))
        }
        Question::Quota { name, form } => quotas(form, name.as_deref(), registry),
        Question::Cluster { form } => answer(form, registry, "cluster", |dump| Ok(dump.cluster())),
    }
}

/// Shows the answer of the scheduler about a pod. A scheduler over many clusters has other answers.
fn pod_of_scheduler(form: &Form, path: &str) -> anyhow::Result<ExitCode> {
    let body = remote::ask(&form.source, &format!("/explain/{path}"), None)?;
    let of_role: Result<PodExplanation, _> = serde_json::from_slice(&body);
    match of_role {
        Ok(answer) => show(form, &answer),
        Err(_) => show(form, &decoded::<PodAnswer>(&body)?),
    }
}

/// Shows all quotas, or one with those above and below it.
fn quotas(form: &Form, name: Option<&str>, registry: Registry) -> anyhow::Result<ExitCode> {
    let mut answer: QuotasAnswer = match form.source.local()? {
        Some(Local { origins, level }) => {
            Dump::read(&origins, form.settings(level)?, registry)?.quotas()
        }
        None => decoded(&remote::ask(&form.source, "/explain/quotas", None)?)?,
    };
    if let Some(name) = name {
        check_name(name)?;
        let key = format!("{}/{name}", form.namespace);
        if !answer.retain(&key) {
            bail!("there is no ElasticQuota {key} that counts: {}", answer.summary);
        }
    }
    show(form, &answer)
}

fn decoded<A: Answer>(body: &[u8]) -> anyhow::Result<A> {
    serde_json::from_slice(body)
        .context("the answer cannot be read: is the scheduler of another version?")
}

/// Shows the answer of the scheduler at this path, or the answer of the dump.
fn answer<A: Answer>(
    form: &Form,
    registry: Registry,
    path: &str,
    ask: impl FnOnce(&mut Dump) -> anyhow::Result<A>,
) -> anyhow::Result<ExitCode> {
    if let Some(Local { origins, level }) = form.source.local()? {
        let mut dump = Dump::read(&origins, form.settings(level)?, registry)?;
        return show(form, &ask(&mut dump)?);
    }
    let body = remote::ask(&form.source, &format!("/explain/{path}"), None)?;
    show(form, &decoded::<A>(&body)?)
}

fn check_name(name: &str) -> anyhow::Result<()> {
    if name.is_empty() || name.contains('/') {
        bail!("{name:?} is not a name: give the name alone, and its namespace with -n");
    }
    Ok(())
}

/// Escapes a name for a path.
pub(super) fn escaped(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn show<A: Answer>(form: &Form, answer: &A) -> anyhow::Result<ExitCode> {
    let text = match form.output {
        Output::Table | Output::Wide => {
            answer.text(Layout::of_stdout(form.output == Output::Wide, form.all))
        }
        Output::Json => serde_json::to_string_pretty(answer).context("cannot write JSON")? + "\n",
        Output::Yaml => match yaml::to_string(answer) {
            Ok(text) => text,
            Err(error) => bail!("cannot write YAML: {error}"),
        },
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
