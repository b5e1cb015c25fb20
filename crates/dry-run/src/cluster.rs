//! Simulation of the pending pods of a cluster dump.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{Node, Pod, PodKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::claim_templates::ClaimTemplates;
pub use crate::claims::PlacedDevice;
use crate::explain::{Explanation, explain};
use crate::extenders::ReadObjects;
use crate::manifest::Manifest;
use crate::rollout::{self, Rollout, RolloutStep};
use crate::workloads::{Unread, Workload};
use crate::world::Evicted;
use crate::{
    BuildError, DumpedObject, DumpedPod, NodeUsage, QuotaUsage, Settings, State, Usage, World,
    budgets, ephemeral, quotas, usage,
};

/// A cluster dump, decoded.
#[derive(Debug, Clone)]
pub struct Dump {
    /// Nodes, in the order of the input.
    pub nodes: Vec<Node>,
    /// Nodes as they were read, by name, if extenders get them.
    pub read_nodes: BTreeMap<Arc<str>, Arc<RawValue>>,
    /// Pods other than ended ones, in the order of the input.
    pub pods: Vec<DumpedPod>,
    /// Number of ended pods (`Succeeded` or `Failed`).
    pub ended: usize,
    /// Running pods that leave before the run and free their devices.
    pub leaving: Vec<Pod>,
    /// Nodes to upgrade after the run, one after the other.
    pub upgrade: Vec<Arc<str>>,
    /// Objects of kinds that a plugin reads, in the order of the input.
    pub objects: Vec<DumpedObject>,
    /// ResourceClaimTemplates, from which pending pods get their claims.
    pub claim_templates: Vec<Value>,
    /// Workloads whose pods are in the dump.
    pub workloads: Vec<Workload>,
    /// Workloads whose pods are not in the dump.
    pub unread: Vec<Unread>,
    /// Number of objects of every other kind.
    pub other_kinds: BTreeMap<String, usize>,
    /// Warnings of the decoder.
    pub warnings: Vec<String>,
}

/// The settings of a simulation and the contents of its result.
#[derive(Debug, Clone)]
pub struct Question {
    /// Settings of the engine.
    pub settings: Settings,
    /// Scheduler names whose pods are scheduled; empty for all pending pods.
    pub scheduler_names: Vec<String>,
    /// The pods to explain.
    pub explain: Vec<PodKey>,
    /// Whether to explain every pod that stays pending, too.
    pub explain_left: bool,
}

/// The result of a simulation. Its JSON form is an interface: fields are added, never renamed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulation {
    /// Seed of random choices.
    pub seed: u64,
    /// The scheduler names whose pods were scheduled.
    pub scheduler_names: Vec<String>,
    /// Numbers of nodes and pods.
    pub summary: Summary,
    /// The workloads that no other workload controls, in the order of the input.
    pub workloads: Vec<WorkloadOutcome>,
    /// Workloads that could not be expanded, so that their pods are missing here.
    pub unread: Vec<Unread>,
    /// Placed pods, in the order of the decisions.
    pub placed: Vec<Placement>,
    /// Pods that stay pending, in the order of the input.
    pub left: Vec<LeftPod>,
    /// Evicted pods, in the order of the decisions.
    pub evicted: Vec<EvictedPod>,
    /// The nodes after the run, sorted by name.
    pub nodes: Vec<NodeUsage>,
    /// The sum over the nodes.
    pub total: BTreeMap<String, Usage>,
    /// What the pods of ElasticQuotas use after the run.
    pub quotas: Vec<QuotaUsage>,
    /// Number of ignored objects, by kind.
    pub other_kinds: BTreeMap<String, usize>,
    /// Metrics of plugins, by name.
    pub metrics: BTreeMap<String, i64>,
    /// Warnings about probable mistakes in the input and about settings without effect.
    pub warnings: Vec<String>,
    /// Explanations of single pods.
    pub explanations: Vec<Explanation>,
    /// The upgrade of nodes, in its order.
    #[serde(skip)]
    pub upgrade: Vec<RolloutStep>,
    /// Pods that left nodes that were upgraded.
    #[serde(skip)]
    pub(crate) displaced: BTreeSet<PodKey>,
    /// Pods that left nodes that were upgraded, and that no controller makes again, with the node.
    #[serde(skip)]
    pub(crate) lost: Vec<(PodKey, Arc<str>)>,
    /// The placed pods as objects.
    #[serde(skip)]
    pub manifests: Vec<Manifest>,
}

/// The pods of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadOutcome {
    /// The kind.
    pub kind: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Number of pods that it wants.
    pub wanted: usize,
    /// Number of its pods that had a node before the run.
    pub running: usize,
    /// Number of its pods that were placed.
    pub placed: usize,
    /// Number of its pods that stay pending.
    pub left: usize,
}

/// Numbers of nodes and pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of pods that had a node before the run.
    pub running: usize,
    /// Number of pods that were pending before the run.
    pub pending: usize,
    /// Number of pending pods that were placed.
    pub placed: usize,
    /// Number of pending pods that stay pending.
    pub left: usize,
    /// Number of evicted pods.
    pub evicted: usize,
    /// Number of pending pods of other schedulers, which the run ignores.
    pub of_other_schedulers: usize,
    /// Number of ended pods, which the run ignores.
    pub ended: usize,
}

/// A placed pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The node.
    pub node: String,
    /// Its scheduler name.
    pub scheduler_name: String,
    /// Its priority.
    pub priority: i32,
    /// Number of scheduling attempts.
    pub attempts: u32,
    /// Its devices.
    pub devices: Vec<PlacedDevice>,
}

/// A pod that stays pending.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The reason it is pending.
    pub state: LeftState,
    /// The message of its condition.
    pub reason: String,
    /// Its scheduler name.
    pub scheduler_name: String,
    /// Its priority.
    pub priority: i32,
    /// Number of scheduling attempts.
    pub attempts: u32,
}

/// A pod that was evicted for another pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictedPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its node before the eviction.
    pub node: String,
    /// Its priority.
    pub priority: i32,
    /// The preemptor, as `NAMESPACE/NAME`.
    pub preemptor: String,
}

/// The reason a pod is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LeftState {
    /// No node fits.
    Unschedulable,
    /// A PreEnqueue plugin gates the pod.
    Gated,
    /// The last attempt failed with an error.
    Failed,
    /// It is being deleted.
    Terminating,
    /// The pod was placed, and then evicted for another pod.
    Evicted,
    /// The run ended before an attempt.
    Untried,
}

impl Simulation {
    /// Whether a pod stays without a node, or a workload could not be read.
    pub fn leaves_pods_behind(&self) -> bool {
        let is_behind = !self.left.is_empty() || !self.unread.is_empty();
        is_behind || self.has_evicted_pods()
    }

    /// Whether an evicted pod gets no other node.
    fn has_evicted_pods(&self) -> bool {
        if self.evicted.is_empty() {
            return false;
        }
        let placed: BTreeSet<_> =
            self.placed.iter().map(|pod| (&pod.namespace, &pod.name)).collect();
        self.evicted.iter().any(|pod| !placed.contains(&(&pod.namespace, &pod.name)))
    }
}

impl LeftState {
    /// Returns the state as a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unschedulable => "unschedulable",
            Self::Gated => "gated",
            Self::Failed => "failed",
            Self::Terminating => "terminating",
            Self::Evicted => "evicted",
            Self::Untried => "untried",
        }
    }
}

/// Schedules the pending pods of the input until no further pod can be placed.
///
/// The pods arrive in the order of their creation. Pods without a creation time follow in the order
/// of the input.
///
/// # Errors
/// A profile cannot be built, or a pod to explain was not pending.
pub fn simulate(mut dump: Dump, question: &Question) -> Result<Simulation, Error> {
    budgets::complete(&mut dump.objects, &dump.pods);
    // An upgrade needs the controllers of running pods.
    let is_rolled = !dump.upgrade.is_empty();
    let all = dump.pods.iter().filter(|_| is_rolled);
    let all: BTreeMap<PodKey, DumpedPod> =
        all.map(|object| (object.pod.key.clone(), object.clone())).collect();
    let names = scheduler_names(&dump.pods, &question.scheduler_names);
    let read = read_objects(&mut dump, &question.settings);
    let names_of_profiles = names.iter().map(String::as_str);
    let mut world = World::with_objects(&question.settings, names_of_profiles, read)?;
    let mut warnings = dump.warnings;
    for node in dump.nodes {
        world.add_node(node);
    }
    let (pending, running): (Vec<_>, Vec<_>) =
        dump.pods.into_iter().partition(DumpedPod::is_pending);
    let (mut pending, others): (Vec<_>, Vec<_>) =
        pending.into_iter().partition(|object| names.contains(&*object.pod.spec.scheduler_name));
    let mut summary = Summary {
        nodes: world.engine().cluster().node_count(),
        running: running.len(),
        pending: pending.len(),
        of_other_schedulers: others.len(),
        ended: dump.ended,
        ..Summary::default()
    };
    let mut templates = ClaimTemplates::new(dump.claim_templates, &dump.objects);
    for object in dump.objects {
        world.add_object(object.parsed());
    }
    for object in running {
        world.add_pod(object.pod);
    }
    for pod in dump.leaving {
        world.add_pod(pod.clone());
        world.remove_pod(&pod);
    }
    pending.sort_by_key(|object| (object.created.is_none(), object.created));
    for object in &mut pending {
        ephemeral::claims_of(object).into_iter().for_each(|claim| world.add_missing_claim(claim));
        for claim in templates.complete(object, &mut warnings) {
            world.add_object(claim);
        }
        world.add_pod(object.pod.clone());
    }
    world.run_until_idle();
    let Rollout { steps, displaced, lost } = rollout::run(&mut world, &dump.upgrade, &all);
    if world.is_cut() {
        return Err(Error::OutOfTime);
    }
    // Pods that were pending before count as waiting, whatever the upgrade did to them.
    let is_known: BTreeSet<PodKey> = pending.iter().map(|own| own.pod.key.clone()).collect();
    let rolled: BTreeSet<PodKey> = displaced.keys().cloned().collect();
    let rest = displaced.into_iter().filter(|(key, _)| !is_known.contains(key));
    pending.extend(rest.map(|(_, object)| object));

    let (placed, manifests) = placements(&mut world, &pending);
    let workloads = dump.workloads.iter().map(|workload| outcome(&world, workload)).collect();
    let left = left_pods(&world, &pending);
    let evicted: Vec<_> = world.evicted().iter().map(evicted_pod).collect();
    (summary.placed, summary.left) = (placed.len(), left.len());
    summary.evicted = evicted.len();
    let nodes = usage::of_nodes(world.engine().cluster());
    let total = usage::total(&nodes);
    let quotas = quotas::of_quotas(world.engine().cluster());
    let explanations = explanations(&mut world, &pending, &left, question)?;
    warnings.extend(world.warnings());
    Ok(Simulation {
        seed: question.settings.seed,
        scheduler_names: names.into_iter().collect(),
        summary,
        workloads,
        unread: dump.unread,
        placed,
        left,
        evicted,
        nodes,
        total,
        quotas,
        other_kinds: dump.other_kinds,
        metrics: world.metrics(),
        warnings,
        explanations,
        upgrade: steps,
        displaced: rolled,
        lost,
        manifests,
    })
}

/// Returns nodes and pods as they were read, if extenders get them.
fn read_objects(dump: &mut Dump, settings: &Settings) -> ReadObjects {
    if settings.extenders.is_none() {
        return ReadObjects::default();
    }
    let pods = dump.pods.iter();
    let pods = pods.filter_map(|own| Some((own.pod.key.clone(), own.raw.clone()?)));
    ReadObjects { nodes: std::mem::take(&mut dump.read_nodes), pods: pods.collect() }
}

/// An error of a simulation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A profile cannot be built.
    #[error(transparent)]
    Profile(#[from] BuildError),
    /// The run took longer than its limit allows.
    #[error("the dry run took too long")]
    OutOfTime,
    /// A pod to explain was not pending.
    #[error("cannot explain {pod}: {why}")]
    NoSuchPod {
        /// The pod.
        pod: PodKey,
        /// The reason the pod cannot be explained.
        why: &'static str,
    },
    /// A pod to make room for has a node, or is not in the dump.
    #[error("cannot make room for {0}: the dump has no such pod without a node")]
    NotPending(PodKey),
}

/// Returns the requested scheduler names, or the names of all pending pods. Returns at least one
/// name, so that there is a profile.
fn scheduler_names(pods: &[DumpedPod], asked: &[String]) -> BTreeSet<String> {
    if !asked.is_empty() {
        return asked.iter().cloned().collect();
    }
    let pending = pods.iter().filter(|object| object.is_pending());
    let names: BTreeSet<String> =
        pending.map(|object| object.pod.spec.scheduler_name.to_string()).collect();
    if names.is_empty() { ["default-scheduler".to_owned()].into() } else { names }
}

/// Returns the placed pods in the order of the decisions, and their objects.
fn placements(world: &mut World, pending: &[DumpedPod]) -> (Vec<Placement>, Vec<Manifest>) {
    let by_key: BTreeMap<&PodKey, &DumpedPod> =
        pending.iter().map(|object| (&object.pod.key, object)).collect();
    let mut placements = Vec::new();
    let mut manifests = Vec::new();
    // A pod that left a node that was upgraded may be placed several times.
    let mut seen = BTreeSet::new();
    for key in world.take_placed().into_iter().filter(|key| seen.insert(key.clone())) {
        let (Some(object), Some(history)) = (by_key.get(&key), world.history(&key)) else {
            continue;
        };
        let State::Placed { node, .. } = &history.state else { continue };
        let devices = world.devices_of(&object.pod);
        manifests.extend(object.raw.clone().map(|raw| Manifest { raw, node: node.clone() }));
        placements.push(Placement {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            node: node.to_string(),
            scheduler_name: object.pod.spec.scheduler_name.to_string(),
            priority: object.pod.priority(),
            attempts: history.attempts,
            devices,
        });
    }
    (placements, manifests)
}

/// Counts the pods of a workload that had no node before the run. Pods of other schedulers stay
/// pending.
fn outcome(world: &World, workload: &Workload) -> WorkloadOutcome {
    let is_placed = |pod: &&PodKey| {
        world.history(pod).is_some_and(|history| matches!(history.state, State::Placed { .. }))
    };
    let placed = workload.pending.iter().filter(is_placed).count();
    WorkloadOutcome {
        kind: workload.kind,
        namespace: workload.namespace.clone(),
        name: workload.name.clone(),
        wanted: workload.wanted,
        running: workload.running,
        placed,
        left: workload.pending.len() - placed,
    }
}

fn evicted_pod(evicted: &Evicted) -> EvictedPod {
    let Evicted { pod, node, priority, preemptor } = evicted;
    EvictedPod {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        node: node.to_string(),
        priority: *priority,
        preemptor: preemptor.to_string(),
    }
}

fn left_pods(world: &World, pending: &[DumpedPod]) -> Vec<LeftPod> {
    pending.iter().filter_map(|object| left_pod(world, &object.pod)).collect()
}

fn left_pod(world: &World, pod: &Pod) -> Option<LeftPod> {
    let history = world.history(&pod.key)?;
    let (state, reason) = match (&history.state, world.gate_of(&pod.key)) {
        (State::Placed { .. }, _) => return None,
        (_, Some(gate)) => (LeftState::Gated, gate),
        (State::Unschedulable(reason), None) => (LeftState::Unschedulable, reason.clone()),
        (State::Failed(reason), None) => (LeftState::Failed, reason.clone()),
        (State::Terminating, None) => (LeftState::Terminating, "is being deleted".to_owned()),
        (State::Evicted, None) => {
            (LeftState::Evicted, "was evicted to make room for a pod of higher priority".to_owned())
        }
        (State::New, None) => (LeftState::Untried, "was not tried".to_owned()),
    };
    Some(LeftPod {
        namespace: pod.key.namespace.to_string(),
        name: pod.key.name.to_string(),
        state,
        reason,
        scheduler_name: pod.spec.scheduler_name.to_string(),
        priority: pod.priority(),
        attempts: history.attempts,
    })
}

fn explanations(
    world: &mut World,
    pending: &[DumpedPod],
    left: &[LeftPod],
    question: &Question,
) -> Result<Vec<Explanation>, Error> {
    let mut wanted = question.explain.clone();
    if question.explain_left {
        let left = left.iter().map(|pod| PodKey::new(&pod.namespace, &pod.name));
        wanted.extend(left.filter(|pod| !question.explain.contains(pod)));
    }
    let mut explanations = Vec::new();
    for key in wanted {
        let object = pending.iter().find(|object| object.pod.key == key);
        let explanation = object.and_then(|object| explain(world, &object.pod));
        explanations.push(explanation.ok_or(Error::NoSuchPod {
            pod: key,
            why: "it is not among the pods that waited for a node",
        })?);
    }
    Ok(explanations)
}
