//! The answers. Their JSON form is an interface: fields are added, never renamed.

use std::collections::BTreeMap;

use engine::Change;
use serde::{Deserialize, Serialize};

/// The answer about one pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodAnswer {
    /// The facts that the scheduler knows of the pod.
    pub facts: PodFacts,
    /// Every node for the pod, computed for this answer; `None` if no profile is responsible for
    /// the pod.
    pub now: Option<Now>,
    /// The node that the question names.
    pub node: Option<NodeCheck>,
    /// Changes that would get the pod a node, the smallest first.
    pub help: Vec<Suggestion>,
    /// Whether the search for them ended early, because it took too long.
    pub help_is_incomplete: bool,
    /// Notes for people about parts that the answer leaves out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Stands for a pod that the caller may not read.
const OTHER: &str = "(a pod of another namespace)";
/// Stands for a PodGroup that the caller may not read.
const OTHER_GROUP: &str = "(a PodGroup of another namespace)";

/// Removes the suggestions about pods of other namespaces, and notes that there are some.
fn restrict_help(namespace: &str, help: &mut Vec<Suggestion>, notes: &mut Vec<String>) {
    let is_own = |change: &Change| match change {
        Change::PodDeleted { key, .. } => *key.namespace == *namespace,
        Change::Pod(pod) => *pod.key.namespace == *namespace,
        _ => true,
    };
    let before = help.len();
    help.retain(|suggestion| suggestion.changes.iter().all(is_own));
    if help.len() < before {
        notes.push("suggestions about pods of other namespaces are left out".to_owned());
    }
}

impl GroupAnswer {
    /// Removes what may name pods of other namespaces, for a caller that may read only the pods of
    /// its own.
    pub fn restrict(&mut self) {
        self.causes.iter_mut().for_each(|cause| cause.help = None);
    }
}

impl PodGroupAnswer {
    /// Removes the names of pods and PodGroups of other namespaces, for a caller that may read only
    /// the pods of its own.
    pub fn restrict(&mut self) {
        self.causes.iter_mut().for_each(|cause| cause.help = None);
        let namespace = self.group.split('/').next().unwrap_or_default();
        restrict_help(namespace, &mut self.help, &mut self.notes);
        let own = format!("{namespace}/");
        let domains = self.topology.iter_mut().flat_map(|topology| &mut topology.domains);
        let domains = domains.chain(self.levels.iter_mut().flat_map(|level| &mut level.domains));
        for share in domains.flat_map(|domain| &mut domain.held_by) {
            if !share.group.starts_with(&own) {
                share.group = OTHER_GROUP.into();
            }
        }
    }
}

impl PodAnswer {
    /// Removes the names of pods of other namespaces, for a caller that may read only the pods of
    /// its own.
    pub fn restrict(&mut self) {
        let own = format!("{}/", self.facts.namespace);
        let hide = |names: &mut Vec<String>| {
            names
                .iter_mut()
                .filter(|name| !name.starts_with(&own))
                .for_each(|name| *name = OTHER.into());
        };
        for attempt in &mut self.facts.history {
            hide(&mut attempt.victims);
        }
        if let Some(preemption) = self.now.as_mut().and_then(|now| now.preemption.as_mut()) {
            hide(&mut preemption.victims);
        }
        restrict_help(&self.facts.namespace, &mut self.help, &mut self.notes);
        self.help.iter_mut().for_each(|suggestion| hide(&mut suggestion.evicts));
    }
}

/// The facts that the scheduler knows of a pod without computing.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFacts {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Its scheduler name.
    pub scheduler_name: String,
    /// Its priority.
    pub priority: i32,
    /// `running`, `assumed` (a node is chosen and the bind is under way), `waitingOnPermit`,
    /// `active`, `backoff`, `errorBackoff`, `unschedulable`, `gated`, `inFlight`, or `unknown`.
    pub state: String,
    /// Its node.
    pub node: Option<String>,
    /// The node that is nominated for it.
    pub nominated: Option<String>,
    /// Whether evictions for it are under way.
    pub is_preempting: bool,
    /// The room that is reserved for it, and when it can start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// Number of attempts.
    pub attempts: u32,
    /// Seconds since the pod entered the queue for its first attempt.
    pub pending_seconds: Option<f64>,
    /// Seconds that it has spent in each part of the queue.
    pub times: QueueTimes,
    /// Seconds until its backoff ends.
    pub backoff_seconds: Option<f64>,
    /// The plugins that it waits for, with the events that may help.
    pub waits_for: Vec<Waiting>,
    /// Its recorded attempts, oldest first. Attempts between the first and the last ones are not
    /// kept.
    pub history: Vec<Attempt>,
    /// Number of the state of the cluster when the facts were read.
    pub state_number: u64,
}

/// Seconds that a pod has spent in each part of the queue.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueTimes {
    /// Ready for an attempt.
    pub active: f64,
    /// Backing off.
    pub backoff: f64,
    /// Waiting for an event.
    pub unschedulable: f64,
    /// Gated.
    pub gated: f64,
}

/// A plugin that a pod waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The plugin.
    pub plugin: String,
    /// The events that it registered.
    pub events: Vec<String>,
    /// The same in words of users: `a node is added`.
    #[serde(default)]
    pub words: Vec<String>,
}

/// A recorded attempt.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// Seconds since the attempt.
    pub seconds_ago: f64,
    /// Number of the state of the cluster that it read.
    pub state_number: u64,
    /// `chosen`, `rejected` or `failed`.
    pub outcome: String,
    /// The chosen node.
    pub node: Option<String>,
    /// Number of nodes that were as good as the chosen one, itself included.
    pub ties: Option<u64>,
    /// Total score of the chosen node, if nodes were scored.
    pub total: Option<i64>,
    /// Number of nodes that could take the pod, if one was chosen.
    pub feasible: Option<u32>,
    /// Number of nodes that were rejected.
    pub nodes: Option<u32>,
    /// The rejections of the most nodes.
    pub rejections: Vec<Rejection>,
    /// Number of further distinct rejections.
    pub further_rejections: u32,
    /// The message of PostFilter, or of the failure.
    pub message: String,
    /// The node that was nominated.
    pub nominated: Option<String>,
    /// The pods that were evicted for it, `namespace/name`.
    pub victims: Vec<String>,
    /// Number of further victims.
    pub further_victims: u32,
    /// Seconds that the pod had spent in each part of the queue.
    pub times: QueueTimes,
}

/// A rejection that some nodes share.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    /// The plugin; empty if the framework rejected the nodes.
    pub plugin: String,
    /// The status code.
    pub code: String,
    /// The reasons.
    pub reasons: Vec<String>,
    /// Number of nodes.
    pub count: usize,
    /// Some of the nodes, sorted by name.
    pub nodes: Vec<String>,
    /// The details that the plugin adds to its reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
}

/// A detail that a plugin adds to its reasons, about nodes that it rejected.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Detail {
    /// The text.
    pub text: String,
    /// Number of nodes.
    pub count: usize,
}

/// Every node for a pod, computed for the answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Now {
    /// Always `now`: this was not recorded at the time of a decision.
    pub as_of: String,
    /// The message of the PreEnqueue plugin that gates the pod.
    pub gate: Option<String>,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of nodes that can take the pod.
    pub feasible: usize,
    /// The rejections of the other nodes, the most frequent first.
    pub rejections: Vec<Rejection>,
    /// The nodes that each filter plugin rejects alone.
    pub constraints: Vec<Constraint>,
    /// The best nodes.
    pub best: Vec<Best>,
    /// The plugins without which another node would win.
    pub without: Vec<Without>,
    /// The evictions that the next attempt would ask for.
    pub preemption: Option<Preemption>,
    /// The message of the `PodScheduled` condition.
    pub message: Option<String>,
    /// The error, if the evaluation failed.
    pub error: Option<String>,
}

/// The nodes that one filter plugin rejects, whatever the other plugins do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Constraint {
    /// The plugin.
    pub plugin: String,
    /// Number of nodes that it rejects.
    pub rejects: usize,
    /// Number of nodes that it rejects and all other plugins accept.
    pub alone: usize,
}

/// A node that can take the pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Best {
    /// The node.
    pub node: String,
    /// Sum of the scores; absent for a single feasible node.
    pub total: Option<i64>,
    /// The scores of each plugin.
    pub scores: Vec<PluginScore>,
}

/// The score of one plugin for one node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginScore {
    /// The plugin.
    pub plugin: String,
    /// Before normalising, for plugins that normalise.
    pub raw: Option<i64>,
    /// Normalised and weighted.
    pub weighted: i64,
    /// What it consists of, if the plugin says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<String>,
}

/// The effect of one score plugin on the choice.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Without {
    /// The plugin.
    pub plugin: String,
    /// The node that would win without it.
    pub node: String,
}

/// Evictions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Preemption {
    /// The node.
    pub node: String,
    /// The victims, `namespace/name`.
    pub victims: Vec<String>,
}

/// One node for one pod, computed for the answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCheck {
    /// Always `now`.
    pub as_of: String,
    /// The node.
    pub node: String,
    /// Whether the node exists.
    pub exists: bool,
    /// Whether it can take the pod.
    pub feasible: bool,
    /// The reasons of the verdict.
    pub reasons: Vec<String>,
    /// Every filter plugin that rejects the node, not only the first.
    pub rejecting: Vec<String>,
    /// Its scores, if it is feasible and nodes were scored.
    pub scores: Vec<PluginScore>,
    /// Its total score.
    pub total: Option<i64>,
    /// The number of feasible nodes with a higher total.
    pub better: Option<usize>,
}

/// A change that would get the pod a node. The engine has tried it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    /// The change, for people.
    pub text: String,
    /// The effect of the change: `the pod fits on 3 nodes`.
    pub effect: String,
    /// The pods that are evicted then, `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicts: Vec<String>,
    /// The kind of the change, one word.
    pub kind: String,
    /// How large the change is. It sorts suggestions; the number has no unit.
    pub size: f64,
    /// A command, if one line says it.
    pub command: Option<String>,
    /// The changes as the engine took them in.
    #[serde(skip)]
    pub changes: Vec<Change>,
}

/// The answer about one node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAnswer {
    /// Always `now`.
    pub as_of: String,
    /// The node.
    pub node: String,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its taints that keep pods away.
    pub taints: Vec<String>,
    /// Number of pods, and the maximum.
    pub pods: (i64, i64),
    /// Requested and allocatable amounts by resource.
    pub resources: BTreeMap<String, (String, String)>,
    /// The pods on the node, those with the highest priority first.
    #[serde(default)]
    pub placed: Vec<NodePod>,
    /// Number of pending pods that were asked about.
    pub pending: usize,
    /// Number of pending pods that fit on the node now.
    pub fitting: usize,
    /// Why the others do not, the most frequent first.
    pub rejections: Vec<PendingCause>,
    /// Whether there were more pending pods than were asked about.
    pub is_incomplete: bool,
    /// The parts that the answer leaves out.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// All nodes, for a picture or a table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodesAnswer {
    /// Always `now`.
    pub as_of: String,
    /// The nodes, by name.
    pub nodes: Vec<NodeRow>,
    /// The labels that nodes have, with the number of their values.
    #[serde(default)]
    pub labels: BTreeMap<String, usize>,
}

/// A node in a list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// The node.
    pub name: String,
    /// Its zone: the label `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// Its pool: the label of the provider or autoscaler, or else its instance type.
    pub pool: Option<String>,
    /// The value of the label that the question names, if the node has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Number of pods, and the maximum.
    pub pods: (i64, i64),
    /// Requested and allocatable amounts by resource: milli-CPU, bytes, or numbers.
    pub resources: BTreeMap<String, (i64, i64)>,
}

/// A list of pods.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsAnswer {
    /// Always `now`.
    pub as_of: String,
    /// Number of pods.
    pub total: usize,
    /// Number of pods that the filter selects.
    pub matching: usize,
    /// The first of them, those without a node before the others.
    pub pods: Vec<PodRow>,
}

/// A pod in a list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRow {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its node, if it has one.
    pub node: Option<String>,
    /// The name of its controller.
    pub group: Option<String>,
    /// Its priority.
    pub priority: i32,
    /// Its requests by resource.
    pub requests: BTreeMap<String, String>,
}

/// A list of controllers of pods.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupsAnswer {
    /// Always `now`.
    pub as_of: String,
    /// Number of controllers.
    pub total: usize,
    /// Number of controllers that the filter selects.
    pub matching: usize,
    /// The first of them, those with the most waiting pods before the others.
    pub groups: Vec<GroupRow>,
}

/// A controller in a list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRow {
    /// Namespace.
    pub namespace: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Number of its pods.
    pub pods: usize,
    /// Number of its pods with a node.
    pub placed: usize,
}

/// A list of PodGroups.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupsAnswer {
    /// Always `now`.
    pub as_of: String,
    /// Number of PodGroups.
    pub total: usize,
    /// Number of PodGroups that the filter selects.
    pub matching: usize,
    /// The first of them, those that do not run before the others.
    #[serde(rename = "podgroups")]
    pub pod_groups: Vec<PodGroupRow>,
    /// Whether there was no time to try the pods of some of them.
    #[serde(default)]
    pub is_incomplete: bool,
}

/// A PodGroup in a list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupRow {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The state as in [`PodGroupAnswer`], or `waits` if its pods were not tried.
    pub state: String,
    /// Number of its pods.
    pub pods: usize,
    /// Number of its pods with a node.
    pub placed: usize,
    /// Number of pods that start together.
    pub min_count: u32,
    /// Number of its pods without a node that fit now, all together, if they were tried.
    pub fit: Option<usize>,
    /// Number of pods that are missing to `minCount`, if its pods were tried.
    pub shortfall: Option<usize>,
    /// Seconds since the first of its waiting pods entered the queue, if a scheduler knows.
    pub pending_seconds: Option<f64>,
    /// The key of its topology.
    pub topology: Option<String>,
    /// The domains that its pods are in, or else the one where most of them fit.
    pub domains: Vec<String>,
}

/// Names that contain a text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamesAnswer {
    /// Always `now`.
    pub as_of: String,
    /// Pods, `namespace/name`.
    pub pods: Vec<String>,
    /// Nodes.
    pub nodes: Vec<String>,
    /// Controllers, `namespace/name`.
    pub groups: Vec<String>,
}

/// The latest decisions of a running scheduler.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionsAnswer {
    /// Number of decisions so far. The next question names it.
    pub number: u64,
    /// The decisions after the decision that the question names, oldest first; if there are many,
    /// the latest ones.
    pub decisions: Vec<Decision>,
}

/// A decision about one pod.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The finding of the attempt.
    pub attempt: Attempt,
}

/// A pod on a node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its priority.
    pub priority: i32,
    /// Its requests by resource.
    pub requests: BTreeMap<String, String>,
}

/// Pending pods with one cause.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingCause {
    /// The plugins and reasons, as one line.
    pub cause: String,
    /// Number of pods.
    pub count: usize,
    /// Some of the pods, `namespace/name`.
    pub pods: Vec<String>,
    /// The smallest change that helps the first of these pods.
    pub help: Option<String>,
}

/// The answer about the pods of one controller.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupAnswer {
    /// Always `now`.
    pub as_of: String,
    /// The controller, `namespace/kind/name`.
    pub group: String,
    /// Number of its pods.
    pub pods: usize,
    /// Number of its pods with a node.
    pub placed: usize,
    /// Why the others wait, the most frequent first.
    pub causes: Vec<PendingCause>,
    /// Number of its pods on each node, the most first.
    pub nodes: Vec<GroupPod>,
    /// The parts that the answer leaves out.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The answer about a PodGroup.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupAnswer {
    /// Always `now`.
    pub as_of: String,
    /// `namespace/name`.
    pub group: String,
    /// The API group of the PodGroup.
    pub api_group: String,
    /// Whether the PodGroup exists.
    pub exists: bool,
    /// `running`, `fits`, `unschedulable`, `preempts`, `waitsForPods`, `waitsForPodGroup` or
    /// `isNotDecided`.
    pub state: String,
    /// One sentence about the state.
    pub summary: String,
    /// Number of pods that start together.
    pub min_count: u32,
    /// Number of pods of the group.
    pub pods: usize,
    /// Number of its pods with a node.
    pub placed: usize,
    /// Number of its pods without a node that fit now, all together.
    pub fit: usize,
    /// Number of pods that are missing to `minCount`.
    pub shortfall: usize,
    /// Seconds since the first of its waiting pods entered the queue, if a scheduler knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_seconds: Option<f64>,
    /// The condition that the API server shows.
    pub condition: Option<String>,
    /// The topology of which one domain takes all pods, if the PodGroup asks for one. `fit`,
    /// `causes` and `members` are about its first domain then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<PodGroupTopology>,
    /// The levels of a topology that the group asks for, the widest first, if it prefers one or is
    /// divided among the domains of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<PodGroupLevel>,
    /// Why the other pods do not fit, the most frequent first.
    pub causes: Vec<PendingCause>,
    /// Changes after which the group starts.
    pub help: Vec<Suggestion>,
    /// The pods, in the order in which they are tried.
    pub members: Vec<PodGroupMember>,
    /// The parts that the answer leaves out.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The topology of a PodGroup.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupTopology {
    /// The key of the node label.
    pub key: String,
    /// The domains that the pods may be in, the one where most of them fit first.
    pub domains: Vec<PodGroupDomain>,
}

/// A level of a topology, for a PodGroup.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupLevel {
    /// The key of the node label.
    pub key: String,
    /// What the group asks for: `required`, `preferred`, `blocks of N` or `over N`.
    pub wish: String,
    /// What the domains take, and what they lack.
    pub summary: String,
    /// The domains that the pods may be in, the one where most of them fit first.
    pub domains: Vec<PodGroupDomain>,
}

/// A value of the node label of a topology, for a PodGroup.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupDomain {
    /// The value of the label.
    pub name: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of pods of the group that have a node there.
    pub placed: usize,
    /// Number of its pods without a node that fit there now, all together.
    pub fit: usize,
    /// Whether `fit` is only a maximum, by the free resources: the pods were not tried there.
    pub is_bound: bool,
    /// Free and allocatable amounts of the resources that the pods request.
    pub resources: BTreeMap<String, (String, String)>,
    /// The other PodGroups with pods there, those with the most pods first.
    pub held_by: Vec<PodGroupShare>,
    /// Why the first pod that does not fit there does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// The pods of a PodGroup in one place.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupShare {
    /// `namespace/name`.
    pub group: String,
    /// Number of pods.
    pub pods: usize,
}

/// A pod of a PodGroup.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupMember {
    /// Name.
    pub pod: String,
    /// `placed`, `fits` or `doesNotFit`.
    pub state: String,
    /// The node that the pod has, or that it would get.
    pub node: Option<String>,
    /// Why it does not fit.
    pub reason: Option<String>,
}

/// Pods of a group on one node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupPod {
    /// The node.
    pub node: String,
    /// Number of pods.
    pub count: usize,
}

/// The answer about the cluster.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAnswer {
    /// Always `now`.
    pub as_of: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of pods with a node.
    pub placed: usize,
    /// Number of pods without one.
    pub pending: usize,
    /// Pending pods by cause, the most frequent first.
    pub causes: Vec<PendingCause>,
    /// Free amounts that no pending pod can use.
    pub stranded: Vec<Stranded>,
    /// The cost of each constraint: pairs of node and pod that only this plugin rejects.
    pub constraints: Vec<Constraint>,
    /// Number of templates of pending pods that were evaluated.
    pub templates: usize,
    /// Whether there were more templates than were evaluated.
    pub is_incomplete: bool,
    /// The parts that the answer leaves out.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The free amount of one resource.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stranded {
    /// The resource.
    pub resource: String,
    /// The free amount on all nodes.
    pub free: String,
    /// The part of it on nodes that can take no pending pod.
    pub stranded: String,
    /// That part in percent of the free amount.
    pub percent: f64,
}
