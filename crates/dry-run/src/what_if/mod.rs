//! The effects of a change of a cluster on its pods.
//!
//! [`apply`] changes the content of a dump. [`answer`] schedules the dump as it is and the changed
//! one, with equal seeds, and compares the pods: which of them move, get a node, lose one, or are
//! evicted because of the change.

mod apply;
mod changes;
mod nodes;
mod pools;
mod quotas;
mod unseen;
mod workloads;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use framework::{EventResource, PodKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::apply::{Applied, Cause, Inventory, Limits, LostPod, RemovedPod, apply};
pub use self::changes::{
    AddNodes, ChangeQuota, Changes, LabelNodes, Objection, Scale, SetPriority, TaintNodes,
    UpgradeNodes,
};
pub(crate) use self::nodes::{cordon, make_again};
use crate::cluster::{Dump, Error, LeftPod, LeftState, Question, Simulation, simulate};
use crate::workloads::Unread;
use crate::{DumpedPod, NodeUsage, QuotaUsage, RolloutStep, Usage, budgets};

/// The effects of a change. Its JSON form is an interface: fields are added, never renamed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WhatIf {
    /// Seed of random choices.
    pub seed: u64,
    /// Numbers of pods and nodes.
    pub summary: Summary,
    /// Pods that leave their node and get another one.
    pub moved: Vec<MovedPod>,
    /// New pods that get a node, and pods that have a node only with the change.
    pub placed: Vec<GainedPod>,
    /// New pods without a node, and pods that have a node only without the change.
    pub pending: Vec<WaitingPod>,
    /// Pods that are evicted only with the change.
    pub evicted: Vec<Victim>,
    /// Pods that their workloads no longer want.
    pub scaled_down: Vec<RemovedPod>,
    /// Pods that leave their node and that no controller makes again.
    pub lost: Vec<LostPod>,
    /// The sum over the nodes after each run, by resource.
    pub utilisation: Sides<BTreeMap<String, Usage>>,
    /// The quotas whose usage, guarantee or number of waiting pods differs, by name and resource.
    #[serde(default)]
    pub quotas: Vec<Sides<QuotaUsage>>,
    /// The upgrade of each node, in its order.
    #[serde(default)]
    pub upgrade: Vec<RolloutStep>,
    /// PodDisruptionBudgets that hold up drains, because they allow fewer disruptions at once than
    /// pods leave.
    #[serde(default)]
    pub budgets: Vec<BudgetInTheWay>,
    /// The nodes after each run, sorted by name; only if they are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Sides<Vec<NodeUsage>>>,
    /// Workloads that only the changed input has and that could not be expanded, so that their pods
    /// are missing here.
    #[serde(default)]
    pub unread: Vec<Unread>,
    /// Warnings about probable mistakes in the input and about settings without effect.
    pub warnings: Vec<String>,
}

/// A value without and with the change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides<T> {
    /// Without the change.
    pub before: T,
    /// With the change.
    pub after: T,
}

/// Numbers of pods and nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Number of nodes.
    pub nodes: Sides<usize>,
    /// Number of pods with a node after each run.
    pub running: Sides<usize>,
    /// Number of pods that move.
    pub moved: usize,
    /// Number of pods that get a node because of the change.
    pub placed: usize,
    /// Number of pods without a node because of the change, other than evicted pods that ran.
    pub pending: usize,
    /// Number of pods without a node with and without the change.
    pub pending_anyway: usize,
    /// Number of pods evicted because of the change.
    pub evicted: usize,
    /// Number of pods evicted with and without the change.
    pub evicted_anyway: usize,
    /// Number of pods that were pending in the dump and get another node than without the change.
    pub placed_elsewhere: usize,
    /// Number of pods that their workloads no longer want.
    pub scaled_down: usize,
    /// Number of lost pods.
    pub lost: usize,
    /// Number of pods that have no node while one is upgraded.
    #[serde(default)]
    pub waiting_for_upgrade: usize,
    /// Number of pods of DaemonSets and of kubelets that go with their node, and of pods that were
    /// being deleted there.
    pub gone_with_nodes: usize,
}

/// A pod that leaves its node and gets another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MovedPod {
    /// Namespace.
    pub namespace: String,
    /// Name; the pod that the controller makes has another one.
    pub name: String,
    /// Its node in the dump.
    pub from: String,
    /// Its node with the change.
    pub to: String,
    /// The reason it leaves its node.
    pub cause: Cause,
}

/// A pod that gets a node because of the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GainedPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Whether the pod is absent without the change.
    pub is_new: bool,
}

/// A pod without a node because of the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its node without the change.
    pub from: Option<String>,
    /// Whether the pod is absent without the change.
    pub is_new: bool,
    /// The reason it is pending.
    pub state: LeftState,
    /// The message of its condition.
    pub reason: String,
    /// Its priority.
    pub priority: i32,
}

/// A pod that is evicted because of the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Victim {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Its priority.
    pub priority: i32,
    /// The preemptor, as `NAMESPACE/NAME`.
    pub preemptor: String,
    /// Whether the pod is absent without the change.
    pub is_new: bool,
}

/// A PodDisruptionBudget that holds up a drain or an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetInTheWay {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Number of its pods that may be disrupted now.
    pub allowed: i64,
    /// Number of its pods that leave the drained nodes, or one of the nodes to upgrade.
    pub leaving: usize,
}

impl WhatIf {
    /// Whether the change leaves a pod without a node that is new or has one without the change: it
    /// pends, is evicted, or lost. The pods of a workload that could not be expanded count as such.
    pub const fn leaves_pods_behind(&self) -> bool {
        let has_victims = !(self.evicted.is_empty() && self.lost.is_empty());
        has_victims || !self.pending.is_empty() || !self.unread.is_empty()
    }
}

/// Schedules a dump and the changed dump, each until no further pod can be placed, and compares
/// them. `changed` is the dump after [`apply`], which returned `applied`.
///
/// # Errors
/// A profile cannot be built.
pub fn answer(
    dump: Dump,
    mut changed: Dump,
    mut applied: Applied,
    questions: &Sides<Question>,
) -> Result<WhatIf, Error> {
    set_priorities(&mut changed, &applied.priorities);
    changed.leaving = std::mem::take(&mut applied.leaving);
    changed.upgrade = std::mem::take(&mut applied.rollout);
    let budgets = budgets_in_the_way(&dump, &changed, &applied);
    let rosters = Sides { before: Roster::of(&dump), after: Roster::of(&changed) };
    // Extenders get the calls of one run after the calls of the other.
    let in_turn = [&questions.before, &questions.after]
        .into_iter()
        .any(|question| question.settings.extenders.is_some());
    let (before, after) = thread::scope(|scope| {
        let before = scope.spawn(|| simulate(dump, &questions.before));
        let join = || before.join().unwrap_or_else(|panic| resume_unwind(panic));
        if in_turn {
            let before = join();
            return (before, simulate(changed, &questions.after));
        }
        let after = simulate(changed, &questions.after);
        (join(), after)
    });
    let runs = Sides { before: before?, after: after? };
    Ok(WhatIf { budgets, ..compare(&rosters, runs, applied) })
}

/// Returns the budgets that allow fewer disruptions than pods leave drained nodes, or one node that
/// is upgraded. They count as they are before the change, except budgets that the change brings.
fn budgets_in_the_way(dump: &Dump, changed: &Dump, applied: &Applied) -> Vec<BudgetInTheWay> {
    let is_drained = |pod: &DumpedPod| {
        applied.displaced.get(&pod.pod.key).map(|own| own.cause == Cause::Drained)
    };
    let drained: Vec<&DumpedPod> =
        dump.pods.iter().filter(|pod| is_drained(pod) == Some(true)).collect();
    if drained.is_empty() && changed.upgrade.is_empty() {
        return Vec::new();
    }
    let upgraded: HashMap<&str, usize> =
        changed.upgrade.iter().enumerate().map(|(place, node)| (&**node, place)).collect();
    let budgets = changed.objects.iter();
    let budgets = budgets.filter(|object| object.kind == EventResource::PodDisruptionBudget);
    let mut budgets: Vec<_> = budgets.cloned().collect();
    budgets::complete(&mut budgets, &dump.pods);
    let mut found = Vec::new();
    for object in budgets {
        let budget: Value = serde_json::from_str(object.raw.get()).unwrap_or_default();
        let Some(selector) = budgets::selector_of(&budget) else { continue };
        let selects = |own: &DumpedPod| {
            own.pod.key.namespace == object.namespace && selector.matches(&own.pod.labels)
        };
        let mut leaving = vec![0_usize; changed.upgrade.len() + 1];
        leaving[changed.upgrade.len()] = drained.iter().filter(|own| selects(own)).count();
        let evictable = |own: &&DumpedPod| {
            own.owner.as_ref().is_some_and(|owner| !matches!(&*owner.kind, "DaemonSet" | "Node"))
        };
        for own in changed.pods.iter().filter(evictable).filter(|own| selects(own)) {
            let node = own.pod.node_name.as_deref();
            if let Some(place) = node.and_then(|node| upgraded.get(node)) {
                leaving[*place] += 1;
            }
        }
        let leaving = leaving.into_iter().max().unwrap_or(0);
        let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
        if i64::try_from(leaving).is_ok_and(|leaving| leaving > allowed) {
            let (namespace, name) = (object.namespace.to_string(), object.name.to_string());
            found.push(BudgetInTheWay { namespace, name, allowed, leaving });
        }
    }
    found
}

/// Sets priorities of existing pods. Pods of one template go on sharing it.
fn set_priorities(dump: &mut Dump, priorities: &BTreeMap<PodKey, i32>) {
    if priorities.is_empty() {
        return;
    }
    let mut templates = HashMap::new();
    for object in &mut dump.pods {
        let Some(priority) = priorities.get(&object.pod.key) else { continue };
        let spec = &mut object.pod.spec;
        let changed = templates.entry((spec.clone(), *priority)).or_insert_with(|| {
            let mut changed = (**spec).clone();
            changed.priority = *priority;
            Arc::new(changed)
        });
        *spec = changed.clone();
    }
}

/// The pods of a dump in its order, with their nodes.
struct Roster {
    pods: Vec<(PodKey, Option<Arc<str>>)>,
    places: HashMap<PodKey, usize>,
}

impl Roster {
    fn of(dump: &Dump) -> Self {
        let pods = dump.pods.iter().map(|object| &object.pod);
        let pods: Vec<_> = pods.map(|pod| (pod.key.clone(), pod.node_name.clone())).collect();
        let places = pods.iter().enumerate().map(|(place, (key, _))| (key.clone(), place));
        Self { places: places.collect(), pods }
    }

    /// Returns the node of a pod in the dump; `None` if the dump lacks the pod.
    fn node(&self, pod: &PodKey) -> Option<Option<&str>> {
        self.places.get(pod).map(|place| self.pods[*place].1.as_deref())
    }

    /// Returns the node of each pod after a run, in the order of the dump.
    fn outcome<'a>(&'a self, run: &'a Simulation) -> Vec<Option<&'a str>> {
        let mut nodes: Vec<_> = self.pods.iter().map(|(_, node)| node.as_deref()).collect();
        let place =
            |namespace: &str, name: &str| self.places.get(&PodKey::new(namespace, name)).copied();
        for evicted in &run.evicted {
            if let Some(place) = place(&evicted.namespace, &evicted.name) {
                nodes[place] = None;
            }
        }
        let lost = run.lost.iter().map(|(pod, _)| pod);
        for place in run.displaced.iter().chain(lost).filter_map(|pod| self.places.get(pod)) {
            nodes[*place] = None;
        }
        for placed in &run.placed {
            if let Some(place) = place(&placed.namespace, &placed.name) {
                nodes[place] = Some(&placed.node);
            }
        }
        nodes
    }
}

/// The outcome of the run without the change.
struct Before<'a> {
    roster: &'a Roster,
    nodes: Vec<Option<&'a str>>,
}

impl Before<'_> {
    /// Returns the node of a pod after the run; `None` if the dump lacks the pod.
    fn node(&self, pod: &PodKey) -> Option<Option<&str>> {
        self.roster.places.get(pod).map(|place| self.nodes[*place])
    }
}

fn compare(rosters: &Sides<Roster>, runs: Sides<Simulation>, mut applied: Applied) -> WhatIf {
    applied.lost.extend(runs.after.lost.iter().map(|(pod, node)| LostPod {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        node: node.to_string(),
        cause: Cause::Upgraded,
    }));
    let before = Before { roster: &rosters.before, nodes: rosters.before.outcome(&runs.before) };
    let nodes = rosters.after.outcome(&runs.after);
    let left = runs.after.left.iter().map(|pod| (PodKey::new(&pod.namespace, &pod.name), pod));
    let left: HashMap<PodKey, &LeftPod> = left.collect();
    let (evicted, evicted_anyway) = evictions(&before, &runs.after);
    let mut summary = Summary { evicted_anyway, ..Summary::default() };
    let (mut moved, mut placed, mut pending) = (Vec::new(), Vec::new(), Vec::new());
    for ((key, in_dump), after) in rosters.after.pods.iter().zip(&nodes) {
        let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
        let was = before.node(key);
        let is_new = was.is_none();
        let is_upgraded = runs.after.displaced.contains(key);
        let from = rosters.before.node(key).flatten();
        let from = from.filter(|_| in_dump.is_none() || is_upgraded);
        match (from, *after) {
            (Some(from), Some(to)) => {
                if from != to {
                    let displaced = applied.displaced.get(key);
                    let other = if is_upgraded { Cause::Upgraded } else { Cause::Replaced };
                    let cause = displaced.map_or(other, |displaced| displaced.cause);
                    let (from, to) = (from.to_owned(), to.to_owned());
                    moved.push(MovedPod { namespace, name, from, to, cause });
                }
            }
            (None, Some(node)) if was.flatten().is_none() => {
                placed.push(GainedPod { namespace, name, node: node.to_owned(), is_new });
            }
            (None, Some(node)) => {
                let is_elsewhere = in_dump.is_none() && was.flatten() != Some(node);
                summary.placed_elsewhere += usize::from(is_elsewhere);
            }
            (_, None) if !is_new && was.flatten().is_none() => summary.pending_anyway += 1,
            // A pod that ran and is evicted is not pending: the run makes no new pod in its place.
            (_, None) if in_dump.is_some() && !is_upgraded => {}
            (_, None) => {
                let from = was.flatten().map(str::to_owned);
                let left = left.get(key).copied();
                pending.push(waiting(namespace, name, from, is_new, left));
            }
        }
    }
    summary.nodes = Sides { before: runs.before.summary.nodes, after: runs.after.summary.nodes };
    let running = |nodes: &[Option<&str>]| nodes.iter().flatten().count();
    summary.running = Sides { before: running(&before.nodes), after: running(&nodes) };
    summary.moved = moved.len();
    summary.placed = placed.len();
    summary.pending = pending.len();
    summary.evicted = evicted.len();
    summary.scaled_down = applied.scaled_down.len();
    summary.lost = applied.lost.len();
    let waiting = runs.after.upgrade.iter().flat_map(|step| &step.waiting);
    summary.waiting_for_upgrade = waiting.collect::<HashSet<_>>().len();
    summary.gone_with_nodes = applied.gone_with_nodes;
    let is_new = |own: &Unread| !runs.before.unread.contains(own);
    let unread = runs.after.unread.iter().filter(|own| is_new(own)).cloned().collect();
    WhatIf {
        seed: runs.after.seed,
        summary,
        moved,
        placed,
        pending,
        evicted,
        scaled_down: applied.scaled_down,
        lost: applied.lost,
        warnings: warnings(&[&runs.before.warnings, &applied.warnings, &runs.after.warnings]),
        utilisation: Sides { before: runs.before.total, after: runs.after.total },
        quotas: quotas(runs.before.quotas, runs.after.quotas),
        upgrade: runs.after.upgrade,
        budgets: Vec::new(),
        unread,
        nodes: Some(Sides { before: runs.before.nodes, after: runs.after.nodes }),
    }
}

/// Returns the quotas that differ. A quota or resource that only one side has counts as 0 on the
/// other.
fn quotas(before: Vec<QuotaUsage>, after: Vec<QuotaUsage>) -> Vec<Sides<QuotaUsage>> {
    let nothing =
        |own: &QuotaUsage| QuotaUsage { guaranteed: 0.0, used: 0.0, pending: 0, ..own.clone() };
    let mut rows: BTreeMap<(String, String), Sides<QuotaUsage>> = BTreeMap::new();
    let key = |own: &QuotaUsage| (own.quota.clone(), own.resource.clone());
    for own in before {
        rows.insert(key(&own), Sides { after: nothing(&own), before: own });
    }
    for own in after {
        let row = Sides { before: nothing(&own), after: own.clone() };
        rows.entry(key(&own)).or_insert(row).after.clone_from(&own);
    }
    rows.into_values().filter(|row| row.before != row.after).collect()
}

/// Returns the evictions of the change, and the number of them that happen without it, too.
fn evictions(before: &Before<'_>, run: &Simulation) -> (Vec<Victim>, usize) {
    let (mut victims, mut anyway) = (Vec::new(), 0);
    for pod in &run.evicted {
        let was = before.node(&PodKey::new(&pod.namespace, &pod.name));
        if was == Some(None) {
            anyway += 1;
            continue;
        }
        victims.push(Victim {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            node: pod.node.clone(),
            priority: pod.priority,
            preemptor: pod.preemptor.clone(),
            is_new: was.is_none(),
        });
    }
    (victims, anyway)
}

fn waiting(
    namespace: String,
    name: String,
    from: Option<String>,
    is_new: bool,
    left: Option<&LeftPod>,
) -> WaitingPod {
    let state = left.map_or(LeftState::Untried, |left| left.state);
    let reason = left.map_or("its scheduler is not among those of the run", |left| &left.reason);
    let (reason, priority) = (reason.to_owned(), left.map_or(0, |left| left.priority));
    WaitingPod { namespace, name, from, is_new, state, reason, priority }
}

/// Returns each warning once.
fn warnings(lists: &[&[String]]) -> Vec<String> {
    let mut seen = HashSet::new();
    let all = lists.iter().flat_map(|list| *list);
    all.filter(|warning| seen.insert(warning.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests;
