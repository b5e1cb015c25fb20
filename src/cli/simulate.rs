//! `loadmaster simulate`: schedules a dump of a cluster, or a trace, without any server.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{ArgGroup, ValueEnum};
use framework::PodKey;
use serde::Serialize;
use serde_json::Value;

use super::progress::Bar;
use super::{complain, print};
use crate::report::arrivals::{self, Arrivals};
use crate::report::cluster::Detail;
use crate::report::table::Colour;
use crate::report::{allocation, cluster as report};
use crate::simulate::cluster::{Question, Simulation};
use crate::simulate::{Course, Settings, cluster, inflation, replay};
use crate::trace::{Trace, openb};
use crate::wire;

/// Warnings printed; `-o json` has all of them.
const WARNINGS_SHOWN: usize = 20;

/// Schedules a cluster dump, or a trace, without any server
///
/// With -f, the pending pods of a dump (`kubectl get nodes,pods -A -o yaml`) are scheduled as if
/// Loadmaster took over: placements, reasons for the pods left, and how full the nodes are afterwards.
///
/// With --trace, the pods of a recorded cluster arrive one by one: as they did (--replay; a pod leaves its
/// recorded lifetime after it was placed here), or drawn to a chosen demand (--inflate).
#[derive(Debug, clap::Args)]
#[command(
    group(ArgGroup::new("input").required(true).args(["filename", "trace"])),
    group(ArgGroup::new("drive").args(["replay", "inflate"])),
)]
pub(super) struct Args {
    /// Files or folders with objects, `-` for standard input; may be repeated
    #[arg(short, long, value_name = "PATH", num_args = 1..)]
    filename: Vec<PathBuf>,

    /// Output: json and yaml are a List of the placed pods, which kubectl takes, with everything
    /// else under the key `simulation`
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Explains one pod, placed or not, on the state after the run; may be repeated
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = pod_key, conflicts_with = "trace")]
    explain: Vec<PodKey>,

    /// Schedules only pods of this scheduler name instead of all pending pods; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "trace")]
    scheduler_name: Vec<String>,

    /// Seed of random choices: equal input and seed give equal output
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Looks at so many percent of the nodes; 0 means all
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
        value_parser = clap::value_parser!(i32).range(0..=100))]
    percentage_of_nodes_to_score: i32,

    /// Samples nodes like kube-scheduler does by default
    #[arg(long)]
    adaptive_sampling: bool,

    /// Reads a trace in this format
    #[arg(long, value_enum, requires_all = ["nodes", "pods", "drive"])]
    trace: Option<TraceFormat>,

    /// Nodes of the trace
    #[arg(long, value_name = "CSV", requires = "trace")]
    nodes: Option<PathBuf>,

    /// Pods of the trace
    #[arg(long, value_name = "CSV", requires = "trace")]
    pods: Option<PathBuf>,

    /// Replays the trace in virtual time
    #[arg(long, requires = "trace")]
    replay: bool,

    /// Draws pods until their GPU demand is so many percent of the capacity
    #[arg(long, value_name = "PERCENT", requires = "trace",
        value_parser = clap::value_parser!(u32).range(1..))]
    inflate: Option<u32>,

    /// Number of drawings, with seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 1, requires = "inflate",
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,

    /// Writes a plot of the allocation over arrivals
    #[arg(long, value_name = "SVG", requires = "trace")]
    plot: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text in columns
    Table,
    /// The same with further columns, every name, and every pod left explained
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    /// Alibaba cluster-trace-gpu-v2023
    Openb,
}

fn pod_key(text: &str) -> Result<PodKey, String> {
    match text.split_once('/').unwrap_or(("default", text)) {
        (namespace, name) if !namespace.is_empty() && !name.is_empty() => {
            Ok(PodKey::new(namespace, name))
        }
        _ => Err("expected NAMESPACE/NAME".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// The input cannot be used, or the answer not be written.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match args.trace {
        None => run_cluster(args),
        Some(TraceFormat::Openb) => run_trace(args),
    }
}

impl Args {
    fn settings(&self) -> Settings {
        Settings {
            seed: self.seed,
            percentage_of_nodes_to_score: self.percentage_of_nodes_to_score,
            adaptive_sampling: self.adaptive_sampling,
        }
    }

    fn detail(&self) -> Detail {
        if self.output == Output::Wide { Detail::Wide } else { Detail::Usual }
    }
}

fn run_cluster(args: &Args) -> anyhow::Result<()> {
    let input = wire::read(&args.filename)?;
    let question = Question {
        settings: args.settings(),
        scheduler_names: args.scheduler_name.clone(),
        explain: args.explain.clone(),
        explain_left: args.output == Output::Wide,
    };
    let simulation = cluster::simulate(input, &question)?;
    warn(&simulation.warnings);
    match args.output {
        Output::Table | Output::Wide => {
            print(&report::simulation(&simulation, args.detail(), Colour::of_stdout()))
        }
        Output::Json => print_json(&PlacedPods::of(&simulation)),
        Output::Yaml => print_yaml(&PlacedPods::of(&simulation)),
    }
}

/// What `-o json|yaml` prints: a list of pods for kubectl, which does not look at the rest.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlacedPods<'a> {
    api_version: &'static str,
    kind: &'static str,
    simulation: &'a Simulation,
    items: &'a [Value],
}

impl<'a> PlacedPods<'a> {
    fn of(simulation: &'a Simulation) -> Self {
        Self { api_version: "v1", kind: "List", simulation, items: &simulation.manifests }
    }
}

fn run_trace(args: &Args) -> anyhow::Result<()> {
    let (Some(nodes), Some(pods)) = (&args.nodes, &args.pods) else {
        bail!("--trace needs --nodes and --pods");
    };
    let parsed = openb::load(nodes, pods)?;
    let warnings: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
    warn(&warnings);
    let trace = parsed.value;
    let (mode, courses) = drive(args, &trace)?;
    let curve = arrivals::curve(&courses);
    if let Some(path) = &args.plot {
        let plot = allocation::plot(format!("openb, {mode}"), &curve);
        write(path, &plot.to_string())?;
    }
    let arrivals = Arrivals::of(mode, &trace, &courses, &curve);
    match args.output {
        Output::Table | Output::Wide => print(&arrivals.render(Colour::of_stdout())),
        Output::Json => print_json(&arrivals),
        Output::Yaml => print_yaml(&arrivals),
    }
}

/// Runs the trace; returns what was done and how it went.
fn drive(args: &Args, trace: &Trace) -> anyhow::Result<(String, Vec<Course>)> {
    let bar = Bar::new();
    let Some(percent) = args.inflate else {
        let course = replay::replay(trace, args.settings(), &bar)?;
        return Ok(("replay".to_owned(), vec![course]));
    };
    let seeds: Vec<u64> = (0..args.seeds).map(|n| args.seed.wrapping_add(n)).collect();
    let courses = inflation::run(trace, percent, &seeds, args.settings(), &bar)?;
    Ok((format!("inflated to {percent} % of the GPU capacity"), courses))
}

fn warn(warnings: &[String]) {
    for warning in warnings.iter().take(WARNINGS_SHOWN) {
        complain("warning", warning);
    }
    if let Some(more) = warnings.len().checked_sub(WARNINGS_SHOWN).filter(|more| *more > 0) {
        complain("warning", &format!("and {more} more; -o json has all of them"));
    }
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    print(&(text + "\n"))
}

fn print_yaml(value: &impl Serialize) -> anyhow::Result<()> {
    match wire::to_yaml(value) {
        Ok(text) => print(&text),
        Err(error) => bail!("cannot write YAML: {error}"),
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
