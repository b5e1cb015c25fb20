//! `loadmaster simulate`: schedules a dump of a cluster, or a trace, without a server.

mod gpu_share;
mod progress;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use ::gpu_share::Strategy;
use anyhow::bail;
use clap::{ArgGroup, ValueEnum};
use dry_run::cluster::{self, Dump, Question, Simulation};
use dry_run::report::cluster as report;
use dry_run::report::cluster::{Detail, Layout};
use dry_run::table::Colour;
use dry_run::{Manifest, Settings};
use framework::{PodKey, Registry};
use serde::Serialize;
use simulator::inflation::{self, Inflation};
use simulator::report::arrivals::{self, Arrivals};
use simulator::report::comparison::{Comparison, TraceComparison};
use simulator::report::{allocation, waiting};
use simulator::trace::{Trace, openb};
use simulator::{Course, replay};

use self::progress::Bar;
use super::dry_runs::{EngineArgs, Output, Setup, Validate, print_json, print_yaml, warn, write};
use super::dump::of_cluster;
use super::print;
use crate::what_if::read_dump;
use crate::wire::{self, Origin, Wanted};

/// Schedules a cluster dump, or a trace, without a server
///
/// With -f, Loadmaster schedules the pending pods of a dump, and the pods that controllers make
/// from its workloads (Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs, and
/// JobSets, LeaderWorkerSets, Ray clusters, training jobs, Volcano Jobs and Rollouts). The output
/// shows each placement, the reason for each pod left pending, and the usage of each node.
/// `loadmaster dump` writes a complete dump, and with --kubeconfig the cluster is read like that.
///
/// With --trace, the pods of a recorded cluster arrive one by one. --replay keeps the recorded
/// times: a pod leaves its recorded lifetime after the simulation placed it. --inflate draws pods
/// until they request a chosen share of the GPUs.
#[derive(Debug, clap::Args)]
#[command(
    group(ArgGroup::new("input").required(true).args(["filename", "kubeconfig", "trace"])),
    group(ArgGroup::new("drive").args(["replay", "inflate"])),
)]
pub(super) struct Args {
    /// Files or folders with objects, `-` for standard input; can be repeated
    #[arg(short, long, value_name = "PATH", num_args = 1..)]
    filename: Vec<PathBuf>,

    /// Reads the cluster of this kubeconfig, as `loadmaster dump` does
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,

    /// What happens to unknown fields, fields given twice, and unknown kinds or versions, as with
    /// kubectl
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Validate::Warn,
        num_args = 0..=1, require_equals = true, default_missing_value = "strict", conflicts_with = "trace")]
    validate: Validate,

    /// Output format: json and yaml print a List of the placed pods that kubectl accepts, with
    /// everything else under the key `simulation`
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Exits with 1 if a pod stays without a node, or if the input has a workload whose pods cannot
    /// be made
    #[arg(long, conflicts_with_all = ["trace", "compare"])]
    fail_if_pending: bool,

    /// Shows tables in full, which are cut after 50 rows otherwise
    #[arg(long)]
    all: bool,

    /// Explains one pod, placed or not, on the state after the run; can be repeated
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = pod_key, conflicts_with = "trace")]
    explain: Vec<PodKey>,

    /// Schedules only pods of this scheduler name instead of all pending pods; can be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "trace")]
    scheduler_name: Vec<String>,

    #[command(flatten)]
    engine: EngineArgs,

    /// KubeSchedulerConfiguration; pods of a scheduler name without a profile use the first one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Runs the input under several configurations and shows the differences: give it once for
    /// each, or once to compare with the defaults
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "explain", "plot"])]
    compare: Vec<PathBuf>,

    /// Reads a trace in this format
    #[arg(long, value_enum, requires_all = ["nodes", "pods", "drive"])]
    trace: Option<TraceFormat>,

    /// File with the nodes of the trace
    #[arg(long, value_name = "CSV", requires = "trace")]
    nodes: Option<PathBuf>,

    /// File with the pods of the trace
    #[arg(long, value_name = "CSV", requires = "trace")]
    pods: Option<PathBuf>,

    /// Replays the trace in virtual time
    #[arg(long, requires = "trace")]
    replay: bool,

    /// Lets pods declare their recorded lifetime as their run time
    #[arg(long, requires = "replay")]
    declare_run_times: bool,

    /// Draws pods until they request this percentage of the GPUs
    #[arg(long, value_name = "PERCENT", requires = "trace",
        value_parser = clap::value_parser!(u32).range(1..))]
    inflate: Option<u32>,

    /// Number of drawings; the first uses the seed of --seed, each further one the next number
    #[arg(long, value_name = "N", default_value_t = 1, requires = "inflate",
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,

    /// Moves placed pods for pods that fit nowhere, at most this percentage of all pods
    #[arg(long, value_name = "PERCENT", default_value_t = 0, requires = "inflate",
        value_parser = clap::value_parser!(u32).range(0..=1000))]
    make_room: u32,

    /// Places pods on single GPU devices: the plugin GpuShare replaces all other scores
    #[arg(long, value_enum, requires = "trace", conflicts_with_all = ["config", "compare"])]
    gpu_share: Option<GpuStrategy>,

    /// Writes a plot of the allocation to this file: over arrivals, or over time with --replay
    #[arg(long, value_name = "SVG", requires = "trace")]
    plot: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    /// Alibaba cluster-trace-gpu-v2023
    Openb,
}

/// The rule by which GpuShare chooses a node and its devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GpuStrategy {
    /// Leaves the least room on the chosen node
    BestFit,
    /// Makes the least room unusable for the pods of the trace (FGD)
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
/// The input or a configuration cannot be used, or the answer cannot be written.
pub(super) fn run(args: &Args, registry: Registry) -> anyhow::Result<ExitCode> {
    let registry = Arc::new(registry);
    let setup = || Setup::read(&args.engine, args.config.as_deref(), registry.clone());
    match (args.trace, args.compare.as_slice()) {
        (None, []) => return run_cluster(args, &setup()?),
        (Some(TraceFormat::Openb), []) => run_trace(args, args.of_trace(&setup()?)?),
        (None, files) => compare_clusters(args, &args.named_setups(files, &registry)?),
        (Some(TraceFormat::Openb), files) => {
            compare_traces(args, &args.named_setups(files, &registry)?)
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Reads several configurations, each with the name of its file. A single one is compared with
    /// the defaults.
    fn named_setups(
        &self,
        files: &[PathBuf],
        registry: &Arc<Registry>,
    ) -> anyhow::Result<Vec<(String, Setup)>> {
        let named = |file: Option<&PathBuf>| {
            let name = file.map_or("defaults".to_owned(), |file| file.display().to_string());
            Ok((name, Setup::read(&self.engine, file.map(PathBuf::as_path), registry.clone())?))
        };
        let defaults = (files.len() == 1).then_some(None);
        defaults.into_iter().chain(files.iter().map(Some)).map(named).collect()
    }

    /// Returns the settings of a run of a trace.
    ///
    /// # Errors
    /// Extenders are to be called: a trace has no objects to send.
    fn of_trace(&self, setup: &Setup) -> anyhow::Result<Settings> {
        if self.engine.call_extenders {
            bail!("--call-extenders needs objects: give -f or --kubeconfig in place of --trace");
        }
        warn(&setup.note().into_iter().collect::<Vec<_>>());
        Ok(setup.settings(&self.engine)?)
    }

    fn detail(&self) -> Detail {
        if self.output == Output::Wide { Detail::Wide } else { Detail::Usual }
    }

    fn layout(&self) -> Layout {
        Layout::of_stdout(self.detail(), self.all)
    }

    /// The note that says how GPUs are counted.
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

fn run_cluster(args: &Args, setup: &Setup) -> anyhow::Result<ExitCode> {
    let mut dump = read(args, &setup.wanted()?)?;
    dump.warnings.extend(setup.note());
    let simulation = cluster::simulate(dump, &args.question(setup.settings(&args.engine)?))?;
    warn(&simulation.warnings);
    match args.output {
        Output::Table | Output::Wide => print(&report::simulation(&simulation, args.layout())),
        Output::Json => print_json(&PlacedPods::of(&simulation)),
        Output::Yaml => print_yaml(&PlacedPods::of(&simulation)),
    }?;
    let fails = args.fail_if_pending && simulation.leaves_pods_behind();
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn compare_clusters(args: &Args, named: &[(String, Setup)]) -> anyhow::Result<()> {
    let mut wanted = wire::Wanted::default();
    for (_, setup) in named {
        wanted.extend(setup.wanted()?);
    }
    let dump = read(args, &wanted)?;
    let simulations = named
        .iter()
        .map(|(name, setup)| {
            let question = args.question(setup.settings(&args.engine)?);
            let simulation = cluster::simulate(dump.clone(), &question)?;
            Ok((name.clone(), simulation))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some((_, first)) = simulations.first() {
        warn(&first.warnings);
    }
    let notes = named.iter().filter_map(|(name, own)| Some(format!("{name}: {}", own.note()?)));
    warn(&notes.collect::<Vec<_>>());
    let comparison = Comparison::of(&simulations);
    match args.output {
        Output::Table | Output::Wide => print(&comparison.render(args.layout())),
        Output::Json => print_json(&comparison),
        Output::Yaml => print_yaml(&comparison),
    }
}

/// The output of `-o json|yaml`: a list of pods for kubectl, which ignores the key `simulation`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlacedPods<'a> {
    api_version: &'static str,
    kind: &'static str,
    simulation: &'a Simulation,
    items: &'a [Manifest],
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
        Some(strategy) => gpu_share::settings(settings, &trace, strategy.into())?,
    };
    let (mode, courses) = drive(args, &trace, &settings)?;
    let curve = arrivals::curve(&courses);
    if let Some(path) = &args.plot {
        let title = format!("openb, {mode}");
        let replayed = courses.iter().find(|course| !course.moments.is_empty());
        let plot = match replayed {
            Some(course) => waiting::plot(title, &course.moments, args.note()),
            None => allocation::plot(title, &curve, args.note()),
        };
        write(path, &plot.to_svg()?)?;
    }
    let arrivals = Arrivals::of(mode, &trace, &courses, &curve, args.note());
    match args.output {
        Output::Table | Output::Wide => print(&arrivals.render(Colour::of_stdout())),
        Output::Json => print_json(&arrivals),
        Output::Yaml => print_yaml(&arrivals),
    }
}

fn compare_traces(args: &Args, named: &[(String, Setup)]) -> anyhow::Result<()> {
    let trace = read_trace(args)?;
    let arrivals = |(name, setup): &(String, Setup)| {
        let (mode, courses) = drive(args, &trace, &args.of_trace(setup)?)?;
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

/// Runs the trace. Returns the name of the mode and the runs.
fn drive(args: &Args, trace: &Trace, settings: &Settings) -> anyhow::Result<(String, Vec<Course>)> {
    let bar = Bar::new();
    let Some(percent) = args.inflate else {
        let course = replay::replay(trace, settings, args.declare_run_times, &bar)?;
        warn(&course.warnings);
        return Ok(("replay".to_owned(), vec![course]));
    };
    let seeds: Vec<u64> = (0..args.seeds).map(|n| args.engine.seed.wrapping_add(n)).collect();
    let inflation = Inflation { percent, seeds: &seeds, moves: args.make_room };
    let courses = inflation::run(trace, inflation, settings, &bar)?;
    courses.iter().for_each(|course| warn(&course.warnings));
    Ok((format!("inflated to {percent} % of the GPU capacity"), courses))
}

/// Reads the input with the pods that controllers make from its workloads.
///
/// # Errors
/// The input cannot be used.
fn read(args: &Args, wanted: &Wanted) -> anyhow::Result<Dump> {
    let origins = match &args.kubeconfig {
        None => Origin::of_paths(&args.filename),
        Some(file) => of_cluster(Some(file), args.context.as_deref())?.origins,
    };
    Ok(read_dump(&origins, wanted, args.validate.into())?)
}
