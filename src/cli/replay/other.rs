//! `--config`: the recorded nodes and pods with another configuration.
//!
//! What came from outside is fed to a dry run: nodes, pods of users, deletions, other objects. What
//! the recorded scheduler did is not: where it bound pods, and that its victims ended. Both
//! configurations are simulated, so that the difference between them is one of the configurations
//! alone.
//!
//! The comparison begins with the first recorded decision. Before that, the process synced its
//! informers or stood by, and another scheduler bound pods: those run from the beginning on.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use dry_run::table::{Colour, Column, Table};
use dry_run::{Limit, Object, Settings, State, World};
use engine::{Change, Input};
use framework::{
    EventResource, ExtraFields, ObjectKey, OptionalTime, Pod, PodKey, Registry, Time, Uid,
};
use recording::{EffectSummary, Operation};

use super::find::lives_of;
use super::lives::{FirstDecision, Life, Lives, duration_text};
use super::moment::Moment;
use super::run::Run;
use crate::cli::config::read;
use crate::cli::{complain, print};
use crate::config::{self, Configuration};
use crate::plugin_watchdog::PluginWatchdog;

/// Number of pods that are named for each kind of difference.
const NAMED: usize = 10;

/// Simulates the run with both configurations, and prints how they compare.
///
/// # Errors
/// The recording or the configuration cannot be used.
pub(super) fn compare(
    run: &Run,
    file: &Path,
    until: Option<&Moment>,
    registry: Registry,
) -> anyhow::Result<ExitCode> {
    let gates = run.setup.gates()?;
    let other = config::load(&read(file)?, &gates).with_context(|| file.display().to_string())?;
    let registry = Arc::new(registry);
    let recorded = run.setup.configuration()?;
    let note = recorded.extenders_not_asked().or_else(|| other.config.extenders_not_asked());
    let fields = |config: &Configuration| -> anyhow::Result<ExtraFields> {
        Ok(config.build_profiles(&registry)?.extra_fields())
    };
    let missing = fields(&other.config)?.missing_in(&fields(&recorded)?);
    let missing = (!missing.is_empty()).then(|| {
        format!("the recording lacks fields that plugins of {} read: {missing}", file.display())
    });
    note.iter().chain(&missing).for_each(|note| complain("warning", note));
    let (lives, notes) = lives_of(run, until)?;
    let Some(first) = lives.first_decision else {
        bail!("run {} made no decision{}: it stood by", run.name(), moment_text(until));
    };
    let period = Period { run, until, first, lives: &lives };
    let mut sides = Vec::new();
    for config in [&recorded, &other.config] {
        let settings = settings(run, config, &registry)?;
        sides.push(Side::simulate(&period, &settings)?);
    }
    let [before, after] = &*sides else { return Ok(ExitCode::FAILURE) };
    for note in notes {
        complain("note", &note);
    }
    print(&report(&period, before, after))?;
    Ok(ExitCode::SUCCESS)
}

const fn moment_text(until: Option<&Moment>) -> &'static str {
    if until.is_some() { " until the moment" } else { "" }
}

/// The input on which both configurations are compared.
struct Period<'a> {
    run: &'a Run,
    until: Option<&'a Moment>,
    first: FirstDecision,
    lives: &'a Lives,
}

fn settings(
    run: &Run,
    config: &Configuration,
    registry: &Arc<Registry>,
) -> anyhow::Result<Settings> {
    let config = config.clone().with_ignored_resources()?;
    let mut queue = config.queue();
    queue.max_in_unschedulable = run.setup.unschedulable_timeout;
    Ok(Settings {
        seed: run.header.seed,
        percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
        adaptive_sampling: run.setup.adaptive_sampling,
        queue,
        profiles: config.scheduler_profiles(),
        registry: Arc::new(Registry::clone(registry).with_gates(config.plugin_gates)),
        monitor: || Box::new(PluginWatchdog::default()),
        extenders: None,
        limit: Limit::default(),
    })
}

/// The outcome of the pods under one configuration.
struct Side {
    /// The node of each pod that was placed, with the time.
    placed: BTreeMap<PodKey, (Arc<str>, Time)>,
    evicted: usize,
    warnings: Vec<String>,
}

/// A pod of the recording in the simulation.
struct Guest {
    pod: Pod,
    /// Whether the scheduler has to find a node.
    is_ours: bool,
    /// Whether it was added and not removed.
    is_present: bool,
}

/// Feeds what came from outside.
struct Feeder<'a> {
    world: World,
    lives: &'a Lives,
    /// The number of operations before the first decision.
    until_first: u64,
    guests: BTreeMap<Uid, Guest>,
    /// The UID of the last pod of each name.
    uids: BTreeMap<PodKey, Uid>,
    /// The victims of the recorded scheduler, whose end is not fed.
    victims: Vec<PodKey>,
    /// When pods that end by themselves do so.
    departures: BTreeMap<(Time, Uid), ()>,
}

impl Side {
    fn simulate(period: &Period<'_>, settings: &Settings) -> anyhow::Result<Self> {
        let Period { run, until, first, lives } = *period;
        let names = lives.scheduler_names().iter().map(String::as_str);
        let mut world = World::new(settings, names)?;
        world.advance_to(first.at);
        let mut feeder = Feeder {
            world,
            lives,
            until_first: first.operation,
            guests: BTreeMap::new(),
            uids: BTreeMap::new(),
            victims: Vec::new(),
            departures: BTreeMap::new(),
        };
        run.operations(until, |at, operation| {
            feeder.step(at, operation);
            true
        })?;
        feeder.advance_to(lives.end);
        Ok(feeder.into_side())
    }
}

impl Feeder<'_> {
    fn step(&mut self, at: Time, operation: Operation) {
        if self.until_first > 0 {
            self.until_first -= 1;
            if let Operation::Input { input: Input::Change(change), .. }
            | Operation::Known(change) = operation
            {
                self.change(change, at);
            }
            return;
        }
        match operation {
            Operation::Input { input: Input::Change(change), .. } | Operation::Known(change) => {
                self.advance_to(at);
                self.change(change, at);
            }
            // The recorded scheduler was free to decide. Otherwise it waited for the API server.
            Operation::Input { input: Input::Schedule, .. } => {
                self.advance_to(at);
                self.world.run_ready();
            }
            Operation::Effects(taken) => {
                for effect in taken.effects {
                    if let EffectSummary::Evict(victim, _) = effect {
                        self.victims.push(victim);
                    }
                }
            }
            _ => {}
        }
    }

    fn advance_to(&mut self, time: Time) {
        while let Some(((at, uid), ())) = self.departures.pop_first() {
            if at > time {
                self.departures.insert((at, uid), ());
                break;
            }
            self.world.advance_to(at);
            self.leave(&uid);
            self.world.run_ready();
        }
        self.world.advance_to(time);
    }

    fn change(&mut self, change: Change, at: Time) {
        match change {
            Change::Node(node) => self.world.add_node(node),
            Change::NodeDeleted(name) => self.world.remove_node(&name),
            Change::Object(object) => {
                if !is_written_by_us(object.kind()) || !self.knows(object.key()) {
                    let ObjectKey { kind, namespace, name } = object.key().clone();
                    let object = object.json();
                    self.world.add_object(Object { kind, namespace, name, object });
                }
            }
            Change::ObjectDeleted(ObjectKey { kind, namespace, name }) => {
                self.world.remove_object(kind, namespace, name);
            }
            Change::Pod(pod) => self.pod(*pod, at),
            Change::PodDeleted { key, uid } => {
                let is_victim = self.victims.contains(&key);
                let leaves_later = self.departures.keys().any(|(_, leaving)| *leaving == uid);
                if !is_victim && !leaves_later {
                    self.leave(&uid);
                }
            }
        }
    }

    /// Whether an object that the scheduler writes is known, whose later forms may be its own work.
    fn knows(&self, key: &ObjectKey) -> bool {
        self.world.engine().cluster().stored_object(key).is_some()
    }

    fn pod(&mut self, mut pod: Pod, at: Time) {
        let uid = pod.uid.clone();
        self.uids.insert(pod.key.clone(), uid.clone());
        let is_ours = self.lives.of_pod(&uid).is_some_and(Life::is_for_this_process);
        if pod.terminal {
            self.ends(&uid, at);
            return;
        }
        if is_ours {
            // Its node, its nomination and its condition are what the recorded scheduler did.
            let placed = self.world.engine().world().placed(&uid);
            let cluster = self.world.engine().cluster();
            pod.node_name = placed.map(|placed| cluster.node_name(placed.node).clone());
            pod.set_nominated_node_name(None);
            pod.scheduled_condition = None;
            pod.start_time = OptionalTime::NONE;
            pod.terminating = pod.terminating && !self.victims.contains(&pod.key);
            pod.preempted = false;
        }
        pod.resource_version = 0;
        let known = self.guests.get(&uid);
        if known.is_some_and(|guest| guest.pod == pod || !guest.is_present) {
            return;
        }
        self.world.add_pod(pod.clone());
        self.guests.insert(uid, Guest { pod, is_ours, is_present: true });
    }

    /// Lets a pod end that has run for as long as in the recording.
    fn ends(&mut self, uid: &Uid, at: Time) {
        let Some(guest) = self.guests.get(uid) else { return };
        let bound = self.lives.of_pod(uid).and_then(|life| life.bound.as_ref());
        let ran = bound.map(|(bound, _)| at.since(*bound));
        let placed = match self.world.history(&guest.pod.key).map(|history| &history.state) {
            Some(State::Placed { at, .. }) => Some(*at),
            _ => None,
        };
        match (ran, placed) {
            (Some(ran), Some(placed)) if placed + ran > at => {
                self.departures.insert((placed + ran, uid.clone()), ());
            }
            _ => self.leave(uid),
        }
    }

    fn leave(&mut self, uid: &Uid) {
        if let Some(guest) = self.guests.get_mut(uid).filter(|guest| guest.is_present) {
            guest.is_present = false;
            let pod = guest.pod.clone();
            self.world.remove_pod(&pod);
        }
    }

    fn into_side(self) -> Side {
        let ours = self.guests.values().filter(|guest| guest.is_ours);
        let placed = ours.filter_map(|guest| {
            let key = &guest.pod.key;
            match &self.world.history(key)?.state {
                State::Placed { node, at } => Some((key.clone(), (node.clone(), *at))),
                _ => None,
            }
        });
        Side {
            placed: placed.collect(),
            evicted: self.world.evicted().len(),
            warnings: self.world.warnings(),
        }
    }
}

/// Whether plugins write objects of this kind while they schedule.
const fn is_written_by_us(kind: &EventResource) -> bool {
    matches!(
        kind,
        EventResource::PersistentVolume
            | EventResource::PersistentVolumeClaim
            | EventResource::ResourceClaim
    )
}

fn report(period: &Period<'_>, before: &Side, after: &Side) -> String {
    let Period { run, first, lives, .. } = *period;
    let ours: Vec<&Life> = lives.pods().iter().filter(|life| life.is_for_this_process()).collect();
    let arrivals: BTreeMap<&PodKey, Time> =
        ours.iter().map(|life| (&life.pod, life.arrived.max(first.at))).collect();
    let waits = |side: &Side| {
        let wait =
            |(pod, (_, at)): (&PodKey, &(Arc<str>, Time))| Some(at.since(*arrivals.get(pod)?));
        let mut waits: Vec<Duration> = side.placed.iter().filter_map(wait).collect();
        waits.sort_unstable();
        waits
    };
    let quantile = |waits: &[Duration], percent: usize| {
        let place = (waits.len() * percent / 100).min(waits.len().saturating_sub(1));
        waits.get(place).map_or_else(|| "-".to_owned(), |wait| duration_text(*wait))
    };
    let mut table = Table::new([
        Column::words(""),
        Column::numbers("RECORDED CONFIGURATION"),
        Column::numbers("OTHER CONFIGURATION"),
    ]);
    let (waits_before, waits_after) = (waits(before), waits(after));
    let count = ours.len();
    let mut row = |name: &str, values: [String; 2]| {
        let [before, after] = values;
        table.row([name.to_owned(), before, after]);
    };
    row("pods to schedule", [count, count].map(|count| count.to_string()));
    row("placed", [before, after].map(|side| side.placed.len().to_string()));
    row(
        "without a node",
        [before, after].map(|side| (count - side.placed.len().min(count)).to_string()),
    );
    row("evicted", [before, after].map(|side| side.evicted.to_string()));
    for (name, percent) in [("wait, median", 50), ("wait, 95 %", 95), ("wait, longest", 100)] {
        row(name, [&waits_before, &waits_after].map(|waits| quantile(waits, percent)));
    }
    let mut text = format!(
        "run {}, simulated with both configurations from its first decision at {} on\n",
        run.name(),
        first.at.floor_to_second()
    );
    text += &table.render(Colour::of_stdout());
    let as_recorded = ours.iter().filter(|life| {
        let simulated = before.placed.get(&life.pod).map(|(node, _)| node);
        simulated == life.bound.as_ref().map(|(_, node)| node)
    });
    text += &format!(
        "\nWith the recorded configuration, {} of {count} pods are where they were recorded.\n",
        as_recorded.count()
    );
    let side = |title: &str, pods: Vec<String>| match pods.len() {
        0 => String::new(),
        count => {
            let mut text = format!("\n{title}: {count} pods\n");
            for pod in pods.iter().take(NAMED) {
                text += &format!("  {pod}\n");
            }
            if count > NAMED {
                text += &format!("  and {} more\n", count - NAMED);
            }
            text
        }
    };
    let only = |one: &Side, other: &Side| {
        let pods = one.placed.iter().filter(|(pod, _)| !other.placed.contains_key(*pod));
        pods.map(|(pod, (node, _))| format!("{pod} on {node}")).collect::<Vec<_>>()
    };
    let elsewhere = before.placed.iter().filter_map(|(pod, (node, _))| {
        let (other, _) = after.placed.get(pod)?;
        (other != node).then(|| format!("{pod} on {other} instead of {node}"))
    });
    text += &side("Placed on another node", elsewhere.collect());
    text += &side("Placed only with the other configuration", only(after, before));
    text += &side("Placed only with the recorded configuration", only(before, after));
    for warning in before.warnings.iter().chain(&after.warnings) {
        text += &format!("\nwarning: {warning}\n");
    }
    text
}
