//! `loadmaster simulate`: schedules a dump of a cluster, or a trace, without any server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{ArgGroup, ValueEnum};
use framework::{PodKey, Registry};
use gpu_share::Strategy;
use serde::Serialize;
use serde_json::Value;

use super::config::read as read_config;
use super::progress::Bar;
use super::{complain, print};
use crate::config::{self, Gates};
use crate::report::arrivals::{self, Arrivals};
use crate::report::cluster::Detail;
use crate::report::comparison::{Comparison, TraceComparison};
use crate::report::table::Colour;
use crate::report::{allocation, cluster as report};
use crate::simulate::cluster::{Question, Simulation};
use crate::simulate::{Course, Settings, cluster, gpu, inflation, replay};
use crate::trace::{Trace, openb};
use crate::wire;

/// Warnings printed; `-o json` has all of them.
const WARNINGS_SHOWN: usize = 20;

/// Schedules a cluster dump, or a trace, without any server
///
/// With -f, the pending pods of a dump (`kubectl get nodes,pods,ns,svc,rc,rs,sts,pdb -A -o yaml`) are
/// scheduled as if Loadmaster took over: placements, reasons for the pods left, and how full the nodes
/// are afterwards.
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

    /// KubeSchedulerConfiguration with the profiles; pods of other names get its first profile
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Runs the input under each of several configurations and shows what differs; repeat it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "explain", "plot"])]
    compare: Vec<PathBuf>,

    /// Feature gates, as `Name=true,Other=false`; may be repeated
    #[arg(long, value_name = "GATES")]
    feature_gates: Vec<String>,

    /// Looks at so many percent of the nodes, whatever the configuration says; 0 means all
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(i32).range(0..=100))]
    percentage_of_nodes_to_score: Option<i32>,

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

    /// Places on single GPU devices by the plugin GpuShare, which alone scores then
    #[arg(long, value_enum, requires = "trace", conflicts_with_all = ["config", "compare"])]
    gpu_share: Option<GpuStrategy>,

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

/// Which node, and which of its devices, GpuShare takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GpuStrategy {
    /// The one on which the least is left
    BestFit,
    /// The one on which the least becomes unusable for the pods of the trace (FGD)
    FragmentationGradient,
}

impl From<GpuStrategy> for Strategy {
    fn from(strategy: GpuStrategy) -> Self {
        match strategy {
            GpuStrategy::BestFit => Self::BestFit,
            GpuStrategy::FragmentationGradient => Self::FragmentationGradient,
        }
    }
}

fn pod_key(text: &str) -> Result<PodKey, String> {
    match text.split_once('/').unwrap_or(("default", text)) {
        (namespace, name) if !namespace.is_empty() && !name.is_empty() => {
            Ok(PodKey::new(namespace, name))
        }
        _ => Err("expected NAMESPACE/NAME".to_owned()),
    }
}

/// Runs the command with these plugins.
///
/// # Errors
/// The input or a configuration cannot be used, or the answer not be written.
pub(super) fn run(args: &Args, registry: Registry) -> anyhow::Result<()> {
    let registry = Arc::new(registry);
    match (args.trace, args.compare.as_slice()) {
        (None, []) => run_cluster(args, &args.settings(args.config.as_deref(), registry)?),
        (Some(TraceFormat::Openb), []) => {
            run_trace(args, args.settings(args.config.as_deref(), registry)?)
        }
        (_, [_]) => bail!("--compare needs at least two configurations: give it once for each"),
        (None, files) => compare_clusters(args, &args.named_settings(files, &registry)?),
        (Some(TraceFormat::Openb), files) => {
            compare_traces(args, &args.named_settings(files, &registry)?)
        }
    }
}

impl Args {
    /// The settings under one configuration, the default one if none is given.
    fn settings(&self, file: Option<&Path>, registry: Arc<Registry>) -> anyhow::Result<Settings> {
        let gates = Gates::parse(self.feature_gates.iter().map(String::as_str))?;
        gates.warnings().iter().for_each(|warning| complain("warning", warning));
        gates.check_built()?;
        let config = match file {
            None => config::defaults(&gates),
            Some(file) => {
                let loaded = config::load(&read_config(file)?, &gates);
                loaded.with_context(|| file.display().to_string())?.config
            }
        };
        if !config.extenders.is_empty() {
            complain("warning", "extenders are not asked in a simulation");
        }
        let settings = Settings {
            seed: self.seed,
            percentage_of_nodes_to_score: self.percentage_of_nodes_to_score,
            adaptive_sampling: self.adaptive_sampling,
            config: Arc::new(config),
            registry,
        };
        if let Some(file) = file {
            settings.wanted().with_context(|| file.display().to_string())?;
        }
        Ok(settings)
    }

    /// The settings under each of several configurations, with the name of its file.
    fn named_settings(
        &self,
        files: &[PathBuf],
        registry: &Arc<Registry>,
    ) -> anyhow::Result<Vec<(String, Settings)>> {
        let named = |file: &PathBuf| {
            Ok((file.display().to_string(), self.settings(Some(file), registry.clone())?))
        };
        files.iter().map(named).collect()
    }

    fn detail(&self) -> Detail {
        if self.output == Output::Wide { Detail::Wide } else { Detail::Usual }
    }

    /// How GPUs are counted.
    fn note(&self) -> &'static str {
        match self.gpu_share {
            None => allocation::FRAGMENTATION_NOTE,
            Some(_) => allocation::DEVICES_NOTE,
        }
    }

    fn question(&self, settings: Settings) -> Question {
        Question {
            settings,
            scheduler_names: self.scheduler_name.clone(),
            explain: self.explain.clone(),
            explain_left: self.output == Output::Wide,
        }
    }
}

fn run_cluster(args: &Args, settings: &Settings) -> anyhow::Result<()> {
    let input = wire::read(&args.filename, &settings.wanted()?)?;
    let simulation = cluster::simulate(input, &args.question(settings.clone()))?;
    warn(&simulation.warnings);
    match args.output {
        Output::Table | Output::Wide => {
            print(&report::simulation(&simulation, args.detail(), Colour::of_stdout()))
        }
        Output::Json => print_json(&PlacedPods::of(&simulation)),
        Output::Yaml => print_yaml(&PlacedPods::of(&simulation)),
    }
}

fn compare_clusters(args: &Args, named: &[(String, Settings)]) -> anyhow::Result<()> {
    let mut wanted = wire::Wanted::default();
    for (_, settings) in named {
        wanted.extend(settings.wanted()?);
    }
    let input = wire::read(&args.filename, &wanted)?;
    let simulations = named
        .iter()
        .map(|(name, settings)| {
            let simulation = cluster::simulate(input.clone(), &args.question(settings.clone()))?;
            Ok((name.clone(), simulation))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some((_, first)) = simulations.first() {
        warn(&first.warnings);
    }
    let comparison = Comparison::of(&simulations);
    match args.output {
        Output::Table | Output::Wide => print(&comparison.render(Colour::of_stdout())),
        Output::Json => print_json(&comparison),
        Output::Yaml => print_yaml(&comparison),
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

fn run_trace(args: &Args, settings: Settings) -> anyhow::Result<()> {
    let trace = read_trace(args)?;
    let settings = match args.gpu_share {
        None => settings,
        Some(strategy) => gpu::settings(settings, &trace, strategy.into())?,
    };
    let (mode, courses) = drive(args, &trace, &settings)?;
    let curve = arrivals::curve(&courses);
    if let Some(path) = &args.plot {
        let plot = allocation::plot(format!("openb, {mode}"), &curve, args.note());
        write(path, &plot.to_string())?;
    }
    let arrivals = Arrivals::of(mode, &trace, &courses, &curve, args.note());
    match args.output {
        Output::Table | Output::Wide => print(&arrivals.render(Colour::of_stdout())),
        Output::Json => print_json(&arrivals),
        Output::Yaml => print_yaml(&arrivals),
    }
}

fn compare_traces(args: &Args, named: &[(String, Settings)]) -> anyhow::Result<()> {
    let trace = read_trace(args)?;
    let arrivals = |(name, settings): &(String, Settings)| {
        let (mode, courses) = drive(args, &trace, settings)?;
        let curve = arrivals::curve(&courses);
        Ok((name.clone(), Arrivals::of(mode, &trace, &courses, &curve, args.note())))
    };
    let runs = named.iter().map(arrivals).collect::<anyhow::Result<_>>()?;
    let comparison = TraceComparison(runs);
    match args.output {
        Output::Table | Output::Wide => print(&comparison.render(Colour::of_stdout())),
        Output::Json => print_json(&comparison),
        Output::Yaml => print_yaml(&comparison),
    }
}

fn read_trace(args: &Args) -> anyhow::Result<Trace> {
    let (Some(nodes), Some(pods)) = (&args.nodes, &args.pods) else {
        bail!("--trace needs --nodes and --pods");
    };
    let parsed = openb::load(nodes, pods)?;
    let warnings: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
    warn(&warnings);
    Ok(parsed.value)
}

/// Runs the trace; returns what was done and how it went.
fn drive(args: &Args, trace: &Trace, settings: &Settings) -> anyhow::Result<(String, Vec<Course>)> {
    let bar = Bar::new();
    let Some(percent) = args.inflate else {
        let course = replay::replay(trace, settings, &bar)?;
        warn(&course.warnings);
        return Ok(("replay".to_owned(), vec![course]));
    };
    let seeds: Vec<u64> = (0..args.seeds).map(|n| args.seed.wrapping_add(n)).collect();
    let courses = inflation::run(trace, percent, &seeds, settings, &bar)?;
    courses.iter().for_each(|course| warn(&course.warnings));
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
