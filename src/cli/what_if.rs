//! `loadmaster whatif`: what a change of a cluster does to its pods.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ArgGroup;
use dry_run::NodeUsage;
use dry_run::cluster::{Dump, Question};
use dry_run::make_room::{self, Limits, Outcome};
use dry_run::report::cluster::{Detail, Layout};
use dry_run::report::make_room as report_of_moves;
use dry_run::report::what_if as report;
use dry_run::what_if::{self, Sides, WhatIf};
use framework::{PodKey, Registry};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

#[cfg(feature = "simulator")]
use super::dry_runs::write;
use super::dry_runs::{EngineArgs, Output, Setup, Validate, print_json, print_yaml, warn};
use super::dump::Local;
use super::explain::{Source, ask, escaped};
use super::print;
use crate::what_if::{Change, Changed, read_dump};
use crate::wire::{self, Object, ReadObjects, Whole};

/// Says what a change of a cluster does to its pods
///
/// Asks the running scheduler, in the ways of `loadmaster explain`, or with --dump works on a dump
/// without a server. The cluster is scheduled as it is and with the change, and the two are
/// compared: pods that move, pods that get or lose a node because of the change, evicted and lost
/// pods, and the utilisation. Nothing changes in the cluster.
///
/// Files with changes have Kubernetes manifests, which are added or replace the object of the same
/// kind and name, a KubeSchedulerConfiguration for the run with the change, and documents of this
/// form, in which every list is optional:
///
/// {apiVersion: whatif.loadmaster.io/v1, kind: Changes, drain: [node-1], cordon: [node-2],
/// uncordon: [node-3], removeNodes: [node-4], addNodes: [{like: node-1, count: 3}], upgrade:
/// [{nodeSelector: {pool: a}}], scale: [{kind: Deployment, namespace: shop, name: web, replicas:
/// 5}], taint: [{nodeSelector: {pool: gpu}, taint: "team=ml:NoSchedule"}], untaint: [{nodes:
/// [node-5], taint: spot}], label: [{nodes: [node-6], labels: {disk: ssd}}], priority: [{kind: Pod,
/// name: a, value: 1000}], quotas: [{namespace: team-a, name: quota, by: +10%}]}
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("plots"))]
pub(super) struct Args {
    /// Files or folders with the change, `-` for standard input; can be repeated
    #[arg(short, long, value_name = "CHANGES", num_args = 1..,
        required_unless_present_any = ["config_after", "moves"])]
    filename: Vec<PathBuf>,

    /// Looks for moves of running pods after which this pending pod or PodGroup fits, instead of a
    /// change; NAMESPACE/NAME, or a name in `default`. A pod of a PodGroup stands for its group
    #[arg(long, value_name = "POD", group = "moves",
        conflicts_with_all = ["filename", "config_after", "plots"])]
    make_room_for: Option<String>,

    /// Looks for moves after which one more pod fits, for each of the N largest shapes of pending
    /// pods, or of running pods if none waits
    #[arg(long, value_name = "N", group = "moves",
        conflicts_with_all = ["filename", "config_after", "plots", "fail_if_pending"])]
    make_room_for_largest: Option<usize>,

    /// Looks for nodes whose pods all fit elsewhere, one after the other, instead of a change
    #[arg(long, group = "moves",
        conflicts_with_all = ["filename", "config_after", "plots", "fail_if_pending"])]
    empty_nodes: bool,

    /// Does not move pods of a higher priority, with --make-room-for... and --empty-nodes
    #[arg(long, value_name = "PRIORITY", default_value_t = make_room::Options::default().highest_priority,
        requires = "moves", allow_negative_numbers = true)]
    highest_priority: i32,

    /// Moves at most so many pods, with --make-room-for...
    #[arg(long, value_name = "N", default_value_t = Limits::default().moves, requires = "moves",
        conflicts_with = "empty_nodes")]
    most_moves: usize,

    /// What happens to unknown fields, fields given twice, and unknown kinds or versions of the
    /// dump; in a change they are errors, unless ignored
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Validate::Warn,
        num_args = 0..=1, require_equals = true, default_missing_value = "strict")]
    validate: Validate,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Shows tables in full, which are cut after 50 rows otherwise
    #[arg(long)]
    all: bool,

    /// Exits with 1 if the change leaves a pod without a node that is new or has one without the
    /// change: it pends, is evicted, or lost; or if the change has a workload whose pods cannot be
    /// made
    #[arg(long)]
    fail_if_pending: bool,

    /// Writes a picture to this file: the nodes without and with the change, coloured by what is
    /// requested of them
    #[cfg(feature = "simulator")]
    #[arg(long, value_name = "SVG", group = "plots")]
    plot: Option<PathBuf>,

    /// Schedules only pods of this scheduler name instead of all pending pods; can be repeated; for
    /// --dump and --read-cluster
    #[arg(long, value_name = "NAME", requires = "here")]
    scheduler_name: Vec<String>,

    #[command(flatten)]
    engine: EngineArgs,

    #[command(flatten)]
    source: Source,

    /// Another KubeSchedulerConfiguration for the run with the change
    #[arg(long, value_name = "FILE")]
    config_after: Option<PathBuf>,
}

impl Args {
    /// Returns the file for a picture. Only a build with the simulator can draw one.
    #[cfg(feature = "simulator")]
    fn plot(&self) -> Option<&Path> {
        self.plot.as_deref()
    }

    #[cfg(not(feature = "simulator"))]
    const fn plot(&self) -> Option<&Path> {
        None
    }
}

#[cfg(feature = "simulator")]
fn plot(path: &Path, Sides { before, after }: &Sides<Vec<NodeUsage>>) -> anyhow::Result<()> {
    write(path, &simulator::report::heat_map::plot(before, after).to_svg()?)
}

#[cfg(not(feature = "simulator"))]
fn plot(_path: &Path, _nodes: &Sides<Vec<NodeUsage>>) -> anyhow::Result<()> {
    bail!("this build draws no pictures")
}

/// Runs the command with these plugins.
///
/// # Errors
/// The dump, the change or a configuration cannot be used, the scheduler does not answer, or the
/// answer cannot be written.
pub(super) fn run(args: &Args, registry: Registry) -> anyhow::Result<ExitCode> {
    let stdin = Path::new("-");
    if args.filename.iter().chain(&args.source.dump).filter(|path| *path == stdin).count() > 1 {
        bail!("standard input can only be read once");
    }
    let local = args.source.local()?;
    if let Some(pod) = &args.make_room_for {
        return room_for(args, pod, local.as_ref(), registry);
    }
    if let Some(most) = args.make_room_for_largest {
        return room_for_largest(args, most, local.as_ref(), registry);
    }
    if args.empty_nodes {
        return empty_nodes(args, local.as_ref(), registry);
    }
    let objects = read_change(args)?;
    let mut answer = match &local {
        None => of_scheduler(args, objects)?,
        Some(local) => of_dump(args, objects, local, registry)?,
    };
    warn(&answer.warnings);
    let nodes = answer.nodes.take();
    if let Some((path, nodes)) = args.plot().zip(nodes) {
        plot(path, &nodes)?;
    }
    let detail = if args.output == Output::Wide { Detail::Wide } else { Detail::Usual };
    match args.output {
        Output::Table | Output::Wide => {
            print(&report::what_if(&answer, Layout::of_stdout(detail, args.all)))?;
        }
        Output::Json => print_json(&answer)?,
        Output::Yaml => print_yaml(&answer)?,
    }
    let fails = args.fail_if_pending && answer.leaves_pods_behind();
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Says which moves make room for a pod.
fn room_for(
    args: &Args,
    pod: &str,
    local: Option<&Local>,
    registry: Registry,
) -> anyhow::Result<ExitCode> {
    let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
    let room = match local {
        Some(local) => {
            let (dump, question) = moving(args, local, registry)?;
            make_room::room_for(&PodKey::new(namespace, name), dump, &question)?
        }
        None => {
            let path = format!("room/pods/{}/{}", escaped(namespace), escaped(name));
            moves_of_scheduler(args, &format!("{path}?mostMoves={}&", args.most_moves))?
        }
    };
    warn(&room.warnings);
    show(args, &room, report_of_moves::make_room)?;
    let fits = matches!(room.outcome, Outcome::Fits | Outcome::Plan);
    let fails = args.fail_if_pending && !fits;
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Says which moves make room for one more pod of each of the largest shapes.
fn room_for_largest(
    args: &Args,
    most: usize,
    local: Option<&Local>,
    registry: Registry,
) -> anyhow::Result<ExitCode> {
    let found = match local {
        Some(local) => {
            let (dump, question) = moving(args, local, registry)?;
            make_room::room_for_largest(most, dump, &question)?
        }
        None => {
            let path = format!("room/largest/{most}?mostMoves={}&", args.most_moves);
            moves_of_scheduler(args, &path)?
        }
    };
    warn(&found.warnings);
    show(args, &found, report_of_moves::shapes)?;
    Ok(ExitCode::SUCCESS)
}

/// Says which nodes can be emptied.
fn empty_nodes(args: &Args, local: Option<&Local>, registry: Registry) -> anyhow::Result<ExitCode> {
    let found = match local {
        Some(local) => {
            let (dump, question) = moving(args, local, registry)?;
            make_room::empty_nodes(dump, &question)?
        }
        None => moves_of_scheduler(args, "emptynodes?")?,
    };
    warn(&found.warnings);
    show(args, &found, report_of_moves::empty_nodes)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks the scheduler about moves, at a path that ends where a parameter begins.
fn moves_of_scheduler<T: DeserializeOwned>(args: &Args, path: &str) -> anyhow::Result<T> {
    if !args.engine.are_default() || args.engine.seed != 0 {
        bail!(
            "a running scheduler decides by its own settings: others need --dump or --read-cluster"
        );
    }
    let path = format!("/whatif/v1/{path}highestPriority={}", args.highest_priority);
    decoded(&ask(&args.source, &path, None)?)
}

fn decoded<T: DeserializeOwned>(body: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(body)
        .context("the answer cannot be read: is the scheduler of another version?")
}

/// Reads a dump whose pods are to be moved.
fn moving(
    args: &Args,
    local: &Local,
    registry: Registry,
) -> anyhow::Result<(Dump, make_room::Question)> {
    let engine = args.engine.for_server(local.level);
    let file = args.source.config.as_deref();
    let setup = Setup::read(&engine, file, Arc::new(registry))?;
    let wanted = setup.wanted()?.with_whole(Whole { placed_pods: true, ..Whole::NONE });
    let dump = read_dump(&local.origins, &wanted, args.validate.into())?;
    let question = make_room::Question {
        settings: setup.settings(&engine)?,
        options: make_room::Options {
            highest_priority: args.highest_priority,
            limits: Limits { moves: args.most_moves, ..Limits::default() },
        },
    };
    Ok((dump, question))
}

/// Prints an answer in the form that is asked for.
fn show<T: Serialize>(
    args: &Args,
    answer: &T,
    report: impl FnOnce(&T, Layout) -> String,
) -> anyhow::Result<()> {
    match args.output {
        Output::Table | Output::Wide => {
            print(&report(answer, Layout::of_stdout(Detail::Usual, args.all)))
        }
        Output::Json => print_json(answer),
        Output::Yaml => print_yaml(answer),
    }
}

/// Reads the files of the change.
fn read_change(args: &Args) -> anyhow::Result<Vec<Object>> {
    let ReadObjects { objects, strays } = match args.filename.as_slice() {
        [] => ReadObjects::default(),
        files => wire::read_objects(files)?,
    };
    let strays: Vec<String> = strays.iter().map(ToString::to_string).collect();
    match args.validate {
        Validate::Strict if !strays.is_empty() => bail!(strays.join("\n")),
        Validate::Ignore => {}
        _ => warn(&strays),
    }
    Ok(objects)
}

/// Asks the scheduler.
fn of_scheduler(args: &Args, mut objects: Vec<Object>) -> anyhow::Result<WhatIf> {
    if !args.engine.are_default() {
        bail!(
            "only --seed may be given for a running scheduler: the others need --dump or --read-cluster"
        );
    }
    if let Some(file) = &args.config_after {
        objects.extend(wire::read_objects(std::slice::from_ref(file))?.objects);
    }
    // The scheduler does not know the files, so that errors in documents are found here.
    Change::of(objects.clone())?.check_not_empty()?;
    let items: Vec<_> = objects.into_iter().map(|object| object.value).collect();
    let body = serde_json::to_vec(&json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
    let nodes = if args.plot().is_some() { "&nodes=true" } else { "" };
    let validate = if args.validate == Validate::Ignore { "&validate=ignore" } else { "" };
    let path = format!("/whatif/v1?seed={}{nodes}{validate}", args.engine.seed);
    decoded(&ask(&args.source, &path, Some(body))?)
}

/// Answers from a dump.
fn of_dump(
    args: &Args,
    objects: Vec<Object>,
    local: &Local,
    registry: Registry,
) -> anyhow::Result<WhatIf> {
    let registry = Arc::new(registry);
    let engine = args.engine.for_server(local.level);
    let read =
        |file: Option<&PathBuf>| Setup::read(&engine, file.map(PathBuf::as_path), registry.clone());
    let before = read(args.source.config.as_ref())?;
    let change = Change::of(objects)?;
    let given = change.configuration(&engine.gates()?)?;
    let after = match (&args.config_after, given) {
        (Some(_), Some(_)) => bail!("the change has a configuration, and so has --config-after"),
        (Some(file), None) => Some(read(Some(file))?),
        (None, given) => given.map(|config| before.with(&engine, config)).transpose()?,
    };
    if after.is_none() {
        change.check_not_empty()?;
    }
    let mut wanted = before.wanted()?;
    if let Some(after) = &after {
        wanted.extend(after.wanted()?);
    }
    let Changed { before: dump, after: changed, applied } =
        change.of_dump(&local.origins, &wanted, args.validate.into())?;
    let question = |setup: &Setup| -> anyhow::Result<Question> {
        Ok(Question {
            settings: setup.settings(&engine)?,
            scheduler_names: args.scheduler_name.clone(),
            explain: Vec::new(),
            explain_left: false,
        })
    };
    let questions =
        Sides { before: question(&before)?, after: question(after.as_ref().unwrap_or(&before))? };
    let mut answer = what_if::answer(dump, changed, applied, &questions)?;
    let notes = [Some(&before), after.as_ref()].into_iter().flatten().filter_map(Setup::note);
    let notes: BTreeSet<String> = notes.collect();
    answer.warnings.extend(notes);
    Ok(answer)
}
