//! Changes that would get a pending pod a node.
//!
//! Each module proposes changes for one kind of cause. Proposals are cheap and may be wrong; `search` tries
//! each in the engine and keeps those after which the pod gets a node. A change of a node is proposed only for
//! nodes that nothing else rejects, so one change is enough.

mod affinity;
mod devices;
mod labels;
mod pools;
mod priority;
mod resources;
mod spread;
mod storage;
mod taints;

use std::sync::Arc;

use engine::{Change, Trial};
use framework::{EventResource, Node, NodeIx, Pod, PodSpec};
use serde_json::Value;

use crate::answer::Suggestion;
use crate::lab::Lab;
use crate::now::Findings;

/// Maximum number of suggestions in an answer.
const SUGGESTIONS: usize = 8;
/// Number of proposals of one kind that are tried.
const TRIES: usize = 4;

/// How large changes of each kind are. The smallest change comes first: what is missing or in the way as such,
/// then the pod, one node, other pods, and more nodes.
mod size {
    /// A gate, or an object that the pod names and that does not exist.
    pub(super) const MISSING: f64 = 0.0;
    /// A cordon, or a node that is not healthy.
    pub(super) const NODE_STATE: f64 = 1.0;
    /// A field of the pod.
    pub(super) const POD: f64 = 2.0;
    /// A field of a node, or a volume or device more.
    pub(super) const NODE: f64 = 3.0;
    /// One other pod more or less.
    pub(super) const OTHER_POD: f64 = 4.0;
    /// Evictions.
    pub(super) const PRIORITY: f64 = 5.0;
    /// Another node.
    pub(super) const NEW_NODE: f64 = 6.0;
}

/// A change that may help.
#[derive(Debug)]
struct Proposal {
    kind: &'static str,
    text: String,
    command: Option<String>,
    size: f64,
    changes: Vec<Change>,
}

impl Proposal {
    fn new(kind: &'static str, size: f64, text: String, changes: Vec<Change>) -> Self {
        Self { kind, text, command: None, size, changes }
    }

    fn command(self, command: String) -> Self {
        Self { command: Some(command), ..self }
    }

    /// A change of the pod itself.
    fn of_pod(kind: &'static str, extent: f64, text: String, pod: Pod) -> Self {
        Self::new(kind, size::POD + extent, text, vec![Change::Pod(Box::new(pod))])
    }

    /// A change of a node.
    fn of_node(kind: &'static str, extent: f64, text: String, node: Node) -> Self {
        Self::new(kind, size::NODE + extent, text, vec![Change::Node(node)])
    }

    /// The end of another pod.
    fn without(kind: &'static str, text: String, pod: &Pod) -> Self {
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        let changes = vec![Change::PodDeleted { key: key.clone(), uid }];
        Self::new(kind, size::OTHER_POD, text, changes)
            .command(format!("kubectl delete pod {} -n {}", key.name, key.namespace))
    }

    /// An object that exists then.
    fn object(
        kind: &'static str,
        size: f64,
        text: String,
        (resource, namespace, name): (EventResource, &str, &str),
        object: Value,
    ) -> Self {
        let change = Change::Object {
            kind: resource,
            namespace: namespace.into(),
            name: name.into(),
            object: Some(Arc::new(object)),
        };
        Self::new(kind, size, text, vec![change])
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

/// Finds changes that get the pod a node, the smallest first. Returns none if the pod needs no help: a node can take it,
/// or the next attempt evicts pods for it.
pub(crate) fn search(lab: &mut Lab<'_>, findings: &Findings) -> Vec<Suggestion> {
    let gated = findings.gate.is_some();
    if !gated && (!findings.evaluation.feasible.is_empty() || findings.preemption().is_some()) {
        return Vec::new();
    }
    let mut proposals = proposals(lab, findings);
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
    if !gated {
        suggestions.extend(priority::search(lab, findings));
        suggestions.extend(pools::search(lab, findings));
    }
    suggestions.sort_by(|a, b| a.size.total_cmp(&b.size));
    suggestions
}

fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    if findings.gate.is_some() {
        return [gates(findings), devices::proposals(lab, findings)]
            .into_iter()
            .flatten()
            .collect();
    }
    [
        resources::proposals(lab, findings),
        taints::proposals(lab, findings),
        labels::proposals(lab, findings),
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
    let effect = match &trial {
        Trial::Fits { feasible: 1, .. } => "the pod fits on 1 node".to_owned(),
        Trial::Fits { feasible, .. } => format!("the pod fits on {feasible} nodes"),
        Trial::Preempts(preemption) => {
            let count = preemption.victims.len();
            let pods = if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") };
            format!("the pod fits on {} after the eviction of {pods}", preemption.node)
        }
        _ => return None,
    };
    let evicts = match &trial {
        Trial::Preempts(preemption) => {
            preemption.victims.iter().map(|victim| victim.key.to_string()).collect()
        }
        _ => Vec::new(),
    };
    let Proposal { kind, text, command, size, changes } = proposal;
    Some(Suggestion { text, effect, evicts, kind: kind.to_owned(), size, command, changes })
}

/// Returns a taint as kubectl writes it.
pub(crate) fn taint_text(taint: &framework::Taint) -> String {
    taints::text_of(taint)
}
