//! `loadmaster whatif`: what a change of a cluster does to its pods.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use framework::Registry;
use simulator::cluster::{Dump, Question};
use simulator::report::cluster::Detail;
use simulator::report::what_if as report;
use simulator::what_if::{self, Applied, Changes, Inventory, Sides};
use simulator::workloads::Made;
use table::Colour;

use super::print;
use super::simulate::settings::{EngineArgs, Setup, dump_of, make};
use super::simulate::{Output, Validate, print_json, print_yaml, warn};
use crate::wire::{self, Faults, Input, Object, Wanted};

/// `apiVersion` and kind of documents with changes.
const VERSION: &str = "whatif.loadmaster.io/v1";
const KIND: &str = "Changes";

/// Says what a change of a cluster does to its pods, without a server
///
/// Schedules a dump as it is and with the change, and compares the two: pods that move, pods that get or lose a node
/// because of the change, evicted and lost pods, and the utilisation. The dump is one that `loadmaster simulate -f`
/// reads.
///
/// Files with changes have Kubernetes manifests, which are added or replace the object of the same kind and name, and
/// documents of this form, in which every list is optional:
///
/// {apiVersion: whatif.loadmaster.io/v1, kind: Changes, drain: [node-1], cordon: [node-2], uncordon: [node-3],
/// removeNodes: [node-4], addNodes: [{like: node-1, count: 3}], scale: [{kind: Deployment, namespace: shop, name: web,
/// replicas: 5}], taint: [{nodeSelector: {pool: gpu}, taint: "team=ml:NoSchedule"}], untaint: [{nodes: [node-5], taint:
/// spot}], label: [{nodes: [node-6], labels: {disk: ssd}}], priority: [{kind: Pod, name: a, value: 1000}]}
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files or folders with the change, `-` for standard input; can be repeated
    #[arg(short, long, value_name = "CHANGES", num_args = 1.., required_unless_present = "config_after")]
    filename: Vec<PathBuf>,

    /// Files or folders with the dump, `-` for standard input; can be repeated
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    dump: Vec<PathBuf>,

    /// What happens to unknown fields, fields given twice, and unknown kinds or versions of the dump; in a change
    /// they are errors, unless ignored
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Validate::Warn,
        num_args = 0..=1, require_equals = true, default_missing_value = "strict")]
    validate: Validate,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Exits with 1 if the change leaves a pod without a node that is new or has one without the change: it pends,
    /// is evicted, or lost
    #[arg(long)]
    fail_if_pending: bool,

    /// Schedules only pods of this scheduler name instead of all pending pods; can be repeated
    #[arg(long, value_name = "NAME")]
    scheduler_name: Vec<String>,

    #[command(flatten)]
    engine: EngineArgs,

    /// KubeSchedulerConfiguration; pods of a scheduler name without a profile use the first one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Another KubeSchedulerConfiguration for the run with the change
    #[arg(long, value_name = "FILE")]
    config_after: Option<PathBuf>,
}

/// Runs the command with these plugins.
///
/// # Errors
/// The dump, the change or a configuration cannot be used, or the answer cannot be written.
pub(super) fn run(args: &Args, registry: Registry) -> anyhow::Result<ExitCode> {
    let stdin = Path::new("-");
    if args.filename.iter().chain(&args.dump).filter(|path| *path == stdin).count() > 1 {
        bail!("standard input can only be read once");
    }
    let registry = Arc::new(registry);
    let read = |file: Option<&PathBuf>| {
        Setup::read(&args.engine, file.map(PathBuf::as_path), registry.clone())
    };
    let before = read(args.config.as_ref())?;
    let after = args.config_after.as_ref().map(|file| read(Some(file))).transpose()?;
    let mut wanted = before.wanted()?;
    if let Some(after) = &after {
        wanted.extend(after.wanted()?);
    }
    let (dump, changed, applied) = read_dumps(args, &wanted)?;
    let question = |setup: &Setup| -> anyhow::Result<Question> {
        Ok(Question {
            settings: setup.settings(&args.engine)?,
            scheduler_names: args.scheduler_name.clone(),
            explain: Vec::new(),
            explain_left: false,
        })
    };
    let questions =
        Sides { before: question(&before)?, after: question(after.as_ref().unwrap_or(&before))? };
    let answer = what_if::answer(dump, changed, applied, &questions)?;
    warn(&answer.warnings);
    let detail = if args.output == Output::Wide { Detail::Wide } else { Detail::Usual };
    match args.output {
        Output::Table | Output::Wide => {
            print(&report::what_if(&answer, detail, Colour::of_stdout()))?;
        }
        Output::Json => print_json(&answer)?,
        Output::Yaml => print_yaml(&answer)?,
    }
    let fails = args.fail_if_pending && answer.leaves_pods_behind();
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads the dump, and the dump with the change.
fn read_dumps(args: &Args, wanted: &Wanted) -> anyhow::Result<(Dump, Dump, Applied)> {
    let (documents, manifests) = read_changes(args)?;
    if documents.changes.is_empty() && manifests.is_empty() && args.config_after.is_none() {
        bail!("the change has no object: expected manifests, or {KIND} of {VERSION}");
    }
    let mut applied = Applied::default();
    let mut made = Vec::<Made>::new();
    let controllers = |input: &Input| {
        made.push(make(input));
        made.last_mut().map(|made| std::mem::take(&mut made.objects)).unwrap_or_default()
    };
    let change = |input: &mut Input, first_changed: usize| {
        let mut inventory = inventory_of(input, first_changed);
        let outcome = what_if::apply(&mut inventory, &documents.changes);
        give_back(inventory, input);
        applied = outcome.map_err(|objections| documents.faults(objections))?;
        Ok(())
    };
    let reading = (wanted, args.validate.into());
    let (before, after) =
        wire::read_with_change(&args.dump, manifests, reading, controllers, change)?;
    // The changed dump is made first.
    let (before_made, after_made) = (made.pop(), made.pop());
    let dump = dump_of(before, before_made.unwrap_or_default());
    Ok((dump, dump_of(after, after_made.unwrap_or_default()), applied))
}

/// Documents with changes.
struct Documents {
    objects: Vec<Object>,
    changes: Vec<Changes>,
}

impl Documents {
    /// Returns the errors that name the documents.
    fn faults(&self, objections: Vec<what_if::Objection>) -> Faults {
        let fault = |own: what_if::Objection| {
            self.objects[own.document].fault(&format!("{}: {}", own.field, own.message))
        };
        Faults(objections.into_iter().map(fault).collect())
    }
}

/// Reads the change: its documents, and its manifests.
fn read_changes(args: &Args) -> Result<(Documents, Vec<Object>), Faults> {
    let objects = wire::read_objects(&args.filename)?;
    let group = VERSION.split('/').next().unwrap_or_default();
    let is_ours = |object: &Object| object.api_version.split('/').next() == Some(group);
    let (objects, manifests): (Vec<Object>, Vec<Object>) = objects.into_iter().partition(is_ours);
    let (mut changes, mut faults) = (Vec::new(), Vec::new());
    for object in &objects {
        if (object.api_version.as_str(), object.kind.as_str()) != (VERSION, KIND) {
            let message = format!("{}: expected {KIND} of {VERSION}", object.api_version);
            faults.push(object.fault(&message));
            continue;
        }
        match object.decode::<Changes>() {
            Ok(change) if change.is_empty() => faults.push(object.fault("changes nothing")),
            Ok(change) => changes.push(change),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() {
        Ok((Documents { objects, changes }, manifests))
    } else {
        Err(Faults(faults))
    }
}

/// Takes what a change concerns from the input.
fn inventory_of(input: &mut Input, first_changed: usize) -> Inventory {
    Inventory {
        nodes: std::mem::take(&mut input.nodes),
        pods: std::mem::take(&mut input.pods).into_iter().map(Into::into).collect(),
        objects: std::mem::take(&mut input.objects).into_iter().map(Into::into).collect(),
        workloads: std::mem::take(&mut input.workloads),
        first_changed,
    }
}

fn give_back(inventory: Inventory, input: &mut Input) {
    input.nodes = inventory.nodes;
    input.pods = inventory.pods.into_iter().map(Into::into).collect();
    input.objects = inventory.objects.into_iter().map(Into::into).collect();
    input.workloads = inventory.workloads;
}
