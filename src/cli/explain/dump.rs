//! Answers from a dump of a cluster, or from a recording at one moment.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use dry_run::what_if::WhatIf;
use dry_run::{Limit, workloads};
use engine::ports::Ports;
use engine::profile::{Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig};
use explain::{
    ClusterAnswer, ClusterCopy, Filter, GroupAnswer, GroupWaits, GroupsAnswer, Lab, NamesAnswer,
    NodeAnswer, NodesAnswer, PodAnswer, PodGroupAnswer, PodGroupsAnswer, PodsAnswer, QuotasAnswer,
    explain_cluster, explain_group, explain_node, explain_pod, explain_pod_group, explain_quotas,
    facts, find_names, list_groups, list_nodes, list_pod_groups, list_pods,
};
use framework::{ObjectKey, PodKey, Registry, Time};
use make_room::report::{Asking, Options, Room};
use serde_json::Value;

use crate::cli::complain;
use crate::cli::config::read;
use crate::cli::replay::Replayed;
use crate::clock::Clock;
use crate::config::{self, Gates};
use crate::what_if::{self, Trial, make};
use crate::wire::{self, Input, Origin, Validation, Wanted};

/// Time after which no further trial is made.
const TRIALS_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of the scheduler whose decisions a dump is asked about.
pub(in crate::cli) struct DumpSettings<'a> {
    /// The file of its configuration.
    pub(in crate::cli) config: Option<&'a Path>,
    pub(in crate::cli) gates: Gates,
}

/// A cluster from a dump or a recording, in an engine that makes no attempts.
pub(in crate::cli) struct Dump {
    engine: Engine,
    now: Time,
    /// The recorded engine, which knows the history of attempts.
    replayed: Option<Replayed>,
    group_waits: GroupWaits,
    trial: Trial,
    /// What answers leave out.
    notes: Vec<String>,
}

impl Dump {
    /// Reads a dump.
    ///
    /// # Errors
    /// The configuration or an object is invalid, or a file cannot be read.
    pub(in crate::cli) fn read(
        origins: &[Origin],
        settings: DumpSettings<'_>,
        registry: Registry,
    ) -> anyhow::Result<Self> {
        let (engine, trial) = engine(origins, settings, registry)?;
        let notes = trial.config.extenders_not_asked().into_iter().collect();
        Ok(Self {
            engine,
            now: Time::ZERO,
            replayed: None,
            group_waits: GroupWaits::new(),
            trial,
            notes,
        })
    }

    /// Copies the cluster of a replay. Trials happen in the copy, by an engine of this
    /// configuration.
    pub(in crate::cli) fn of_recording(
        replayed: Replayed,
        config: EngineConfig,
        trial: Trial,
    ) -> Self {
        let now = replayed.now();
        let mut notes = vec![format!("\"now\" is {} of the recording", replayed.wall_time())];
        notes.extend(trial.config.extenders_not_asked());
        if !replayed.has_history() {
            notes.push(
                "the beginning of the recording is missing: there is no history of attempts"
                    .to_owned(),
            );
        }
        let config = EngineConfig { extenders: Vec::new(), ..config };
        let mut copy = ClusterCopy::of(replayed.engine(), now);
        let group_waits = copy.take_group_waits();
        let engine = copy.engine(config, now);
        Self { engine, now, replayed: Some(replayed), group_waits, trial, notes }
    }

    /// Answers about a pod, and about one node for it.
    ///
    /// # Errors
    /// The dump has no such pod.
    pub(in crate::cli) fn pod(
        &mut self,
        key: &PodKey,
        node: Option<&str>,
    ) -> anyhow::Result<PodAnswer> {
        let recorded = self.replayed.as_ref().map(Replayed::engine);
        let facts = facts(recorded.unwrap_or(&self.engine), key, self.now);
        let known = facts.and_then(|facts| self.in_lab(|lab| explain_pod(lab, facts, node)));
        let mut answer = known.ok_or_else(|| match &self.replayed {
            Some(replayed) => anyhow!("no pod {key} was known at {}", replayed.wall_time()),
            None => anyhow!("the dump has no pod {key} that runs or waits"),
        })?;
        answer.notes.extend_from_slice(&self.notes);
        if self.replayed.is_none() {
            answer.notes.push("a dump has no history of attempts".to_owned());
        }
        Ok(answer)
    }

    /// Answers about a node.
    ///
    /// # Errors
    /// The dump has no such node.
    pub(in crate::cli) fn node(&mut self, name: &str) -> anyhow::Result<NodeAnswer> {
        let known = self.in_lab(|lab| explain_node(lab, name));
        let known = known.map(|answer| NodeAnswer { notes: self.notes.clone(), ..answer });
        known.ok_or_else(|| anyhow!("{} has no node {name}", self.kind()))
    }

    /// Answers about the pods of a controller.
    ///
    /// # Errors
    /// The dump has no pods of such a controller.
    pub(in crate::cli) fn group(
        &mut self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<GroupAnswer> {
        let known = self.in_lab(|lab| explain_group(lab, namespace, name));
        let known = known.map(|answer| GroupAnswer { notes: self.notes.clone(), ..answer });
        let kind = self.kind();
        known.ok_or_else(|| anyhow!("{kind} has no pods of a controller {namespace}/{name}"))
    }

    /// Answers about a PodGroup.
    ///
    /// # Errors
    /// The dump has no such PodGroup, and no pods of it.
    pub(in crate::cli) fn pod_group(
        &mut self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<PodGroupAnswer> {
        let known = self.in_lab(|lab| explain_pod_group(lab, namespace, name));
        let known = known.map(|mut answer| {
            answer.notes.extend_from_slice(&self.notes);
            answer
        });
        let kind = self.kind();
        known.ok_or_else(|| anyhow!("{kind} has no PodGroup {namespace}/{name}"))
    }

    /// Answers about quotas.
    pub(in crate::cli) fn quotas(&self) -> QuotasAnswer {
        explain_quotas(self.engine.cluster())
    }

    /// Answers about the cluster.
    pub(in crate::cli) fn cluster(&mut self) -> ClusterAnswer {
        let answer = self.in_lab(explain_cluster);
        ClusterAnswer { notes: self.notes.clone(), ..answer }
    }

    /// Says what a change does, with the nodes.
    ///
    /// # Errors
    /// The change cannot be read or made, or takes too long.
    pub(in crate::cli) fn what_if(&self, change: String) -> anyhow::Result<WhatIf> {
        let clock = Clock::start();
        let limit = Limit::new(move || clock.elapsed() > TRIALS_TIMEOUT);
        let options = what_if::Options { with_nodes: true, limit, ..what_if::Options::default() };
        let change = Trial::read(change)?;
        let copy = ClusterCopy::of(&self.engine, self.now);
        Ok(self.trial.answer(copy, &change, options)?)
    }

    /// Says which moves make room for a pending pod.
    ///
    /// # Errors
    /// No such pod waits.
    pub(in crate::cli) fn room(&mut self, key: &PodKey) -> anyhow::Result<Room> {
        let options = Options::default();
        let found = self.in_lab(|lab| {
            lab.lend(|engine, now, is_over| {
                Asking { engine, now, options, is_over }.room_for_pending(key)
            })
        });
        let room = found.ok_or_else(|| anyhow!("{} has no pod {key} that waits", self.kind()))?;
        Ok(Room { warnings: self.trial.config.extenders_not_asked().into_iter().collect(), ..room })
    }

    /// Lists the nodes, with their values of a label.
    pub(in crate::cli) fn nodes(&self, label: Option<&str>) -> NodesAnswer {
        list_nodes(self.engine.cluster(), label)
    }

    /// Lists pods.
    pub(in crate::cli) fn pods(&mut self, filter: &Filter) -> PodsAnswer {
        self.in_lab(|lab| list_pods(lab, filter))
    }

    /// Lists controllers of pods.
    pub(in crate::cli) fn groups(&mut self, filter: &Filter) -> GroupsAnswer {
        self.in_lab(|lab| list_groups(lab, filter))
    }

    /// Lists PodGroups.
    pub(in crate::cli) fn pod_groups(&mut self, filter: &Filter) -> PodGroupsAnswer {
        self.in_lab(|lab| list_pod_groups(lab, filter))
    }

    /// Finds names of pods, nodes and controllers.
    pub(in crate::cli) fn names(&mut self, filter: &Filter) -> NamesAnswer {
        self.in_lab(|lab| find_names(lab, filter))
    }

    const fn kind(&self) -> &'static str {
        if self.replayed.is_some() { "this moment of the recording" } else { "the dump" }
    }

    fn in_lab<T>(&mut self, question: impl FnOnce(&mut Lab<'_>) -> T) -> T {
        let clock = Clock::start();
        let is_over = || clock.elapsed() > TRIALS_TIMEOUT;
        let lab = Lab::new(&mut self.engine, self.now, &is_over);
        question(&mut lab.with_group_waits(self.group_waits.clone()))
    }
}

/// Builds an engine that knows the dump. Pods of a scheduler name without a profile use the first
/// one.
fn engine(
    origins: &[Origin],
    settings: DumpSettings<'_>,
    registry: Registry,
) -> anyhow::Result<(Engine, Trial)> {
    let DumpSettings { config, gates } = settings;
    let config = match config {
        None => config::defaults(&gates),
        Some(file) => {
            let loaded = config::load(&read(file)?, &gates);
            loaded.with_context(|| file.display().to_string())?.config
        }
    };
    let wanted = Wanted::of(&config.build_profiles(&registry)?);
    let input = wire::read(origins, &wanted, Validation::Warn, |input| {
        make(input, input.workloads.len(), workloads::MOST_PODS).objects
    })?;
    input.warnings.iter().for_each(|warning| complain("warning", warning));
    let trial = Trial {
        config: config.clone(),
        registry: Arc::new(registry.clone()),
        gates,
        adaptive_sampling: false,
        every_scheduler: true,
    };
    let config = config.with_ignored_resources()?;
    let mut profiles: Vec<SchedulerProfile> = config.scheduler_profiles();
    for object in &input.pods {
        let name = &*object.pod.spec.scheduler_name;
        let known = profiles.iter().any(|profile| profile.scheduler_name == name);
        if let Some(first) = profiles.first().filter(|_| !known) {
            profiles.push(SchedulerProfile { scheduler_name: name.to_owned(), ..first.clone() });
        }
    }
    let registry = Arc::new(registry.with_gates(config.plugin_gates));
    let profiles = Profiles::build(&profiles, &[], &registry, false)?;
    let mut engine = Engine::new(EngineConfig {
        percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
        ..EngineConfig::new(profiles)
    });
    fill(&mut engine, input);
    Ok((engine, trial))
}

fn fill(engine: &mut Engine, input: Input) {
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    let objects = input.objects.into_iter().filter_map(|own| {
        let object: Value = serde_json::from_str(own.object.get()).ok()?;
        let key = ObjectKey::namespaced(own.kind, own.namespace, own.name);
        Change::decode(key, Some(object)).ok()
    });
    let nodes = input.nodes.into_iter().map(Change::Node);
    let pods = input.pods.into_iter().map(|own| Change::Pod(Box::new(own.pod)));
    for change in objects.chain(nodes).chain(pods) {
        engine.step(engine::Input::Change(change), Time::ZERO, ports);
    }
    engine.take_effects();
}
