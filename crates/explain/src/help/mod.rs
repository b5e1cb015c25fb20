//! Changes that would get a pending pod a node.
//!
//! Each module proposes changes for one kind of cause. Proposals are cheap and may be wrong;
//! `search` tries each in the engine and keeps those after which the pod gets a node. A change of a
//! node is proposed only for nodes that nothing else rejects, so one change is enough.

mod affinity;
mod devices;
mod labels;
mod pod_group;
mod pools;
mod priority;
mod remedies;
mod resources;
mod spread;
mod storage;
mod taints;

use std::sync::Arc;

use engine::{Change, Trial};
use framework::{Cluster, ControllerKind, Node, NodeIx, ObjectKey, Pod, PodKey, PodSpec};
use serde_json::Value;

pub(crate) use self::pod_group::{WaitingGroup, of_group};
use crate::answer::Suggestion;
use crate::group::deployment;
use crate::lab::Lab;
use crate::now::Findings;

/// Maximum number of suggestions in an answer.
const SUGGESTIONS: usize = 8;
/// Number of proposals of one kind that are tried.
const TRIES: usize = 4;
/// Labels that controllers set on their pods.
const LABELS_OF_CONTROLLERS: [&str; 6] = [
    "pod-template-hash",
    "controller-revision-hash",
    "statefulset.kubernetes.io/pod-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "job-name",
];

/// How large changes of each kind are. The smallest change comes first: what is missing or in the
/// way as such, then the pod, one node, other pods, and more nodes.
mod size {
    /// A gate, or an object that the pod names and that does not exist.
    pub(super) const MISSING: f64 = 0.0;
    /// A cordon, or a node that is not healthy.
    pub(super) const NODE_STATE: f64 = 1.0;
    /// A field of the pod.
    pub(super) const POD: f64 = 2.0;
    /// A cordon or an unhealthy node, while open nodes that the pod is meant for lack room.
    pub(super) const CLOSED_NODE: f64 = 2.7;
    /// A field of a node, or a volume or device more.
    pub(super) const NODE: f64 = 3.0;
    /// The way to a node that the pod is not meant for, while nodes that it is meant for lack room.
    pub(super) const OTHER_POOL: f64 = 3.8;
    /// One other pod more or less.
    pub(super) const OTHER_POD: f64 = 4.0;
    /// A node that joins a pool by its labels, while nodes of the pool lack room; or a rule of the
    /// pod that is given up.
    pub(super) const RULE: f64 = 4.8;
    /// Evictions.
    pub(super) const PRIORITY: f64 = 5.0;
    /// Another node.
    pub(super) const NEW_NODE: f64 = 6.0;
}

/// A change that may help.
#[derive(Debug, Clone)]
struct Proposal {
    kind: &'static str,
    text: String,
    command: Option<String>,
    size: f64,
    changes: Vec<Change>,
    /// The pod that ends.
    ends: Option<Arc<Pod>>,
}

impl Proposal {
    fn new(kind: &'static str, size: f64, text: String, changes: Vec<Change>) -> Self {
        Self { kind, text, command: None, size, changes, ends: None }
    }

    fn command(self, command: String) -> Self {
        Self { command: Some(command), ..self }
    }

    /// Whether both make the same object.
    fn is_about_the_same(&self, other: &Self) -> bool {
        let name = |own: &Self| match own.changes.last() {
            Some(Change::Object(object)) => Some(object.key().clone()),
            _ => None,
        };
        self.kind == other.kind && name(self) == name(other)
    }

    /// A change of the pod itself.
    fn of_pod(kind: &'static str, extent: f64, text: String, pod: Pod) -> Self {
        Self::new(kind, size::POD + extent, text, vec![Change::Pod(Box::new(pod))])
    }

    /// A change of a node.
    fn of_node(kind: &'static str, extent: f64, text: String, node: Node) -> Self {
        Self::new(kind, size::NODE + extent, text, vec![Change::Node(node)])
    }

    /// The end of another pod: of one replica, if a controller would make the pod again.
    fn without(kind: &'static str, text: String, pod: &Arc<Pod>) -> Self {
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        let changes = vec![Change::PodDeleted { key, uid }];
        let owner = owner_of(pod).map(|(kind, name)| format!(", one of {kind} {name}"));
        let text = text + &owner.unwrap_or_default();
        Self { ends: Some(pod.clone()), ..Self::new(kind, size::OTHER_POD, text, changes) }
    }

    /// An object that exists then.
    fn object(kind: &'static str, size: f64, text: String, key: ObjectKey, object: Value) -> Self {
        // Without a change, the proposal helps no pod and is dropped.
        let change = Change::decode(key, Some(object)).ok();
        Self::new(kind, size, text, change.into_iter().collect())
    }
}

/// Returns a copy of the pod with another spec.
fn with_spec(pod: &Pod, change: impl FnOnce(&mut PodSpec)) -> Pod {
    let mut spec = PodSpec::clone(&pod.spec);
    change(&mut spec);
    Pod { spec: Arc::new(spec), ..pod.clone() }
}

/// Returns a copy of the node with a change.
fn with_node(lab: &Lab<'_>, node: NodeIx, change: impl FnOnce(&mut Node)) -> Node {
    let mut node = lab.cluster().copy_of_node(node);
    change(&mut node);
    node
}

/// Finds changes that get the pod a node, the smallest first. Returns none if the pod needs no
/// help: a node can take it, or the next attempt evicts pods for it.
///
/// If no single change helps, the missing parts are tried together, and with one change more.
pub(crate) fn search(lab: &mut Lab<'_>, findings: &Findings) -> Vec<Suggestion> {
    let gated = findings.gate.is_some();
    if !gated && (!findings.evaluation.feasible.is_empty() || findings.preemption().is_some()) {
        return Vec::new();
    }
    let proposals = proposals(lab, findings);
    let missing: Vec<Proposal> =
        proposals.iter().filter(|own| own.size < size::NODE_STATE).cloned().collect();
    let single = single(lab, findings, proposals);
    match single.is_empty() {
        true => several(lab, findings, &missing),
        false => single,
    }
}

/// Finds single changes that help, the smallest first.
fn single(lab: &mut Lab<'_>, findings: &Findings, mut proposals: Vec<Proposal>) -> Vec<Suggestion> {
    proposals.sort_by(|a, b| a.size.total_cmp(&b.size));
    let mut suggestions: Vec<Suggestion> = Vec::new();
    let mut tries: Vec<(&str, usize)> = Vec::new();
    for proposal in proposals {
        if suggestions.len() == SUGGESTIONS || lab.is_exhausted() {
            break;
        }
        let tried = match tries.iter_mut().find(|(kind, _)| *kind == proposal.kind) {
            Some((_, tried)) => tried,
            None => {
                tries.push((proposal.kind, 0));
                &mut tries.last_mut().expect("pushed just now").1
            }
        };
        // One suggestion of a kind is enough.
        let is_known = suggestions.iter().any(|known| known.kind == proposal.kind);
        if is_known || *tried == TRIES {
            continue;
        }
        *tried += 1;
        suggestions.extend(verified(lab, &findings.pod, proposal));
    }
    if findings.gate.is_none() {
        suggestions.extend(priority::search(lab, findings));
        suggestions.extend(pools::search(lab, findings));
    }
    suggestions.sort_by(|a, b| a.size.total_cmp(&b.size));
    suggestions
}

/// Finds what helps together with everything that is missing: all of it at once, or with one change
/// more.
fn several(lab: &mut Lab<'_>, findings: &Findings, missing: &[Proposal]) -> Vec<Suggestion> {
    let first = missing.iter().enumerate().filter(|(place, own)| {
        // Of the examples for one object, the first is enough.
        !missing[..*place].iter().any(|earlier| earlier.is_about_the_same(own))
    });
    let first: Vec<&Proposal> = first.map(|(_, own)| own).collect();
    let Some(kind) = first.first().map(|own| own.kind) else { return Vec::new() };
    let texts: Vec<&str> = first.iter().map(|own| own.text.as_str()).collect();
    let text = texts.join(", and ");
    let changes: Vec<Change> = first.iter().flat_map(|own| own.changes.iter().cloned()).collect();
    if first.len() > 1 {
        let all = Proposal::new(kind, size::MISSING, text.clone(), changes.clone());
        if let Some(suggestion) = verified(lab, &findings.pod, all) {
            return vec![suggestion];
        }
    }
    let found = lab.with(&findings.pod, &changes, |lab, pod| {
        let findings = Findings::of(lab, pod)?;
        let proposals = proposals(lab, &findings);
        Some(single(lab, &findings, proposals))
    });
    let with_missing = |own: Suggestion| Suggestion {
        text: format!("{text}, and then {}", own.text),
        changes: changes.iter().chain(&own.changes).cloned().collect(),
        ..own
    };
    found.unwrap_or_default().into_iter().map(with_missing).collect()
}

/// Returns what may help. The end of a sibling does not: its controller makes it again, and then
/// that one waits.
fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let mut proposals = all_proposals(lab, findings);
    let ends_sibling = |own: &Proposal| {
        own.ends.as_ref().is_some_and(|ending| are_siblings(&findings.pod, ending))
    };
    proposals.retain(|own| !ends_sibling(own));
    proposals
}

fn all_proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    if findings.gate.is_some() {
        let own = gates(findings).into_iter();
        let others = devices::proposals(lab, findings).into_iter();
        let others = others.chain(storage::proposals(lab, findings));
        return own.chain(others.filter(|own| own.size < size::NODE_STATE)).collect();
    }
    [
        resources::proposals(lab, findings),
        taints::proposals(lab, findings),
        labels::proposals(lab, findings),
        remedies::proposals(lab, findings),
        affinity::proposals(lab, findings),
        spread::proposals(lab, findings),
        storage::proposals(lab, findings),
        devices::proposals(lab, findings),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn gates(findings: &Findings) -> Vec<Proposal> {
    let pod = &findings.pod;
    if pod.spec.scheduling_gates.is_empty() {
        return Vec::new();
    }
    let changed = with_spec(pod, |spec| spec.scheduling_gates = Box::default());
    let names = pod.spec.scheduling_gates.join(", ");
    let text =
        format!("remove the scheduling gates of the pod ({names}); their controllers do that");
    let changes = vec![Change::Pod(Box::new(changed))];
    let command = format!(
        "kubectl patch pod {} -n {} --type=json -p '[{{\"op\":\"remove\",\"path\":\"/spec/schedulingGates\"}}]'",
        pod.key.name, pod.key.namespace
    );
    vec![Proposal::new("gate", size::MISSING, text, changes).command(command)]
}

/// Tries a proposal. Returns the suggestion if the pod gets a node.
fn verified(lab: &mut Lab<'_>, pod: &Arc<Pod>, proposal: Proposal) -> Option<Suggestion> {
    let trial = lab.try_with(pod, &proposal.changes)?;
    let ends = proposal.ends.clone();
    let mut suggestion = suggestion(proposal, &trial)?;
    let command = || {
        let ends = ends.as_ref().filter(|ends| ends.key.namespace == pod.key.namespace)?;
        end_of(lab.cluster(), ends)
    };
    suggestion.command = suggestion.command.or_else(command);
    Some(suggestion)
}

/// Returns the kind and the name of what a user changes to have fewer pods like this one.
fn owner_of(pod: &Pod) -> Option<(&'static str, &str)> {
    let controller = pod.controller.as_ref()?;
    match deployment(pod) {
        Some(deployment) => Some(("Deployment", deployment)),
        None => Some((controller.kind.name(), &controller.name)),
    }
}

/// Whether both pods are of one controller.
fn are_siblings(pod: &Pod, other: &Pod) -> bool {
    let owner = owner_of(pod);
    owner.is_some() && owner == owner_of(other) && pod.key.namespace == other.key.namespace
}

/// Whether a controller has made the pod. Dumps may have lost the references to owners, but not the
/// labels.
fn has_controller(pod: &Pod) -> bool {
    pod.controller.is_some()
        || LABELS_OF_CONTROLLERS.iter().any(|key| pod.labels.get(key).is_some())
}

/// Returns the command that ends a pod for good; `None` if its controller would make it again, or
/// choose another one.
fn end_of(cluster: &Cluster, pod: &Arc<Pod>) -> Option<String> {
    let PodKey { namespace, name } = &pod.key;
    if !has_controller(pod) {
        return Some(format!("kubectl delete pod {name} -n {namespace}"));
    }
    let controller = pod.controller.as_ref()?;
    let kind = match controller.kind {
        ControllerKind::ReplicaSet if deployment(pod).is_some() => "deployment",
        ControllerKind::ReplicaSet => "replicaset",
        ControllerKind::ReplicationController => "replicationcontroller",
        _ => return None,
    };
    let (_, owner) = owner_of(pod)?;
    let is_alike =
        |other: &Pod| other.key.namespace == pod.key.namespace && owner_of(other) == owner_of(pod);
    let replicas = cluster.pods().filter(|placed| is_alike(&placed.pod)).count();
    Some(format!(
        "kubectl annotate pod {name} -n {namespace} controller.kubernetes.io/pod-deletion-cost=-1000 && \
         kubectl scale {kind} {owner} -n {namespace} --replicas={}",
        replicas.saturating_sub(1)
    ))
}

/// Returns the suggestion if the pod got a node in the trial.
fn suggestion(proposal: Proposal, trial: &Trial) -> Option<Suggestion> {
    let effect = match trial {
        Trial::Fits { feasible: 1, .. } => "the pod fits on 1 node".to_owned(),
        Trial::Fits { feasible, .. } => format!("the pod fits on {feasible} nodes"),
        Trial::Preempts(preemption) => {
            let count = preemption.victims.len();
            let pods = if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") };
            format!("the pod fits on {} after the eviction of {pods}", preemption.node)
        }
        _ => return None,
    };
    let evicts = match trial {
        Trial::Preempts(preemption) => {
            preemption.victims.iter().map(|victim| victim.key.to_string()).collect()
        }
        _ => Vec::new(),
    };
    let Proposal { kind, text, command, size, changes, .. } = proposal;
    Some(Suggestion { text, effect, evicts, kind: kind.to_owned(), size, command, changes })
}

/// Returns a taint as kubectl writes it.
pub(crate) fn taint_text(taint: &framework::Taint) -> String {
    taints::text_of(taint)
}
