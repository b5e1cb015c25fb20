//! Room for a pending pod of a dump, made by moves of other pods.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use ::make_room::Limits;
use ::make_room::{Answer, Cost, Movable, Move, Plan};
use framework::{ControllerKind, Pod, PodKey, Time};
use serde::Serialize;
use serde_json::Value;

use crate::cluster::{Dump, Error};
use crate::{DumpedPod, Settings, World, budgets};

/// For which pod of a dump room is to be made.
#[derive(Debug, Clone)]
pub struct Question {
    /// Settings of the engine.
    pub settings: Settings,
    /// The pod without a node.
    pub pod: PodKey,
    /// Pods of a higher priority are not moved.
    pub highest_priority: i32,
    /// The limits of the search.
    pub limits: Limits,
}

/// The answer. Its JSON form is an interface: fields are added, never renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// What the search found.
    pub outcome: Outcome,
    /// The node of the pod, after the moves.
    pub node: Option<String>,
    /// The moves, in the order in which they are to be made.
    pub moves: Vec<RoomMove>,
    /// The sum of the costs, in thousandths of the move of a new pod of a ReplicaSet.
    pub cost: Cost,
    /// Whether the search was complete: no plan costs less, or there is none. False if it ended
    /// early.
    pub is_certain: bool,
    /// Why the pod cannot be decided.
    pub reason: Option<String>,
    /// Number of pods that are not moved, by reason.
    pub kept: BTreeMap<&'static str, usize>,
    /// Warnings about the input.
    pub warnings: Vec<String>,
}

/// What the search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The pod fits without a move.
    Fits,
    /// The pod fits after the moves.
    Plan,
    /// No moves were found after which the pod fits.
    NoPlan,
    /// The pod cannot be decided.
    Undecided,
}

/// A move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoomMove {
    /// Namespace of the pod that ends.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node that it leaves.
    pub from: String,
    /// The node of the pod that its controller makes instead.
    pub to: String,
    /// The cost, in thousandths of the move of a new pod of a ReplicaSet.
    pub cost: Cost,
}

/// The annotation with which pods of the cluster autoscaler forbid or allow their eviction.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// The annotation with which pods of Karpenter forbid it.
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Looks for moves after which a pending pod of the dump fits. Other pending pods wait.
///
/// # Errors
/// A profile cannot be built, or the dump has no such pod without a node.
pub fn answer(mut dump: Dump, question: &Question) -> Result<Room, Error> {
    budgets::complete(&mut dump.objects, &dump.pods);
    let is_asked = |own: &&DumpedPod| own.pod.key == question.pod;
    let asked = dump.pods.iter().find(is_asked).filter(|own| own.is_pending());
    let pod = asked.map(|own| Arc::new(own.pod.clone()));
    let pod = pod.ok_or_else(|| Error::NotPending(question.pod.clone()))?;
    let names = dump.pods.iter().map(|own| &*own.pod.spec.scheduler_name);
    let mut world = World::new(&question.settings, names)?;
    dump.nodes.into_iter().for_each(|node| world.add_node(node));
    dump.objects.into_iter().for_each(|object| world.add_object(object.parsed()));
    let now = dump.pods.iter().filter_map(|own| own.created).max().unwrap_or(Time::ZERO);
    let (mut movable, mut kept) = (Vec::new(), BTreeMap::new());
    for own in &dump.pods {
        world.add_pod(own.pod.clone());
        if own.is_pending() {
            continue;
        }
        match why_kept(own, question.highest_priority) {
            Some(reason) => *kept.entry(reason).or_default() += 1,
            None => {
                let age = own.created.map(|created| now.since(created)).unwrap_or_default();
                let cost = Cost::of_move(&own.pod, age);
                movable.push(Movable { pod: Arc::new(own.pod.clone()), cost });
            }
        }
    }
    let limits = question.limits;
    let found = world.make_room(&::make_room::Question { pod: &pod, movable: &movable, limits });
    Ok(Room { kept, warnings: dump.warnings, ..room(&pod, found) })
}

fn room(pod: &Pod, found: Answer) -> Room {
    let room = Room {
        namespace: pod.key.namespace.to_string(),
        name: pod.key.name.to_string(),
        outcome: Outcome::NoPlan,
        node: None,
        moves: Vec::new(),
        cost: Cost::default(),
        is_certain: true,
        reason: None,
        kept: BTreeMap::new(),
        warnings: Vec::new(),
    };
    match found {
        Answer::Fits(node) => Room { outcome: Outcome::Fits, node: Some(node.to_string()), ..room },
        Answer::Plan(Plan { moves, node, cost, is_cheapest }) => Room {
            outcome: Outcome::Plan,
            node: Some(node.to_string()),
            moves: moves.iter().map(RoomMove::of).collect(),
            cost,
            is_certain: is_cheapest,
            ..room
        },
        Answer::NoPlan { is_certain } => Room { is_certain, ..room },
        Answer::Undecided(reason) => {
            Room { outcome: Outcome::Undecided, reason: Some(reason), ..room }
        }
    }
}

impl RoomMove {
    fn of(step: &Move) -> Self {
        Self {
            namespace: step.pod.namespace.to_string(),
            name: step.pod.name.to_string(),
            from: step.from.to_string(),
            to: step.to.to_string(),
            cost: step.cost,
        }
    }
}

/// Returns why a running pod is not moved; `None` if it may be.
fn why_kept(own: &DumpedPod, highest_priority: i32) -> Option<&'static str> {
    let pod = &own.pod;
    let object = own.object();
    let annotation = |name: &str| object["metadata"]["annotations"][name].as_str();
    match pod.controller.as_ref().map(|own| own.kind) {
        None => return Some("has no controller"),
        Some(ControllerKind::DaemonSet) => return Some("belongs to a DaemonSet"),
        Some(ControllerKind::Node) => return Some("is a static pod"),
        Some(_) => {}
    }
    let reasons = [
        (pod.terminating, "ends"),
        (pod.priority() > highest_priority, "has a higher priority than is moved"),
        (pod.group().is_some(), "belongs to a PodGroup"),
        (!pod.spec.resource_claims.is_empty(), "uses ResourceClaims"),
        (annotation(SAFE_TO_EVICT) == Some("false"), "has the annotation safe-to-evict: false"),
        (annotation(DO_NOT_DISRUPT) == Some("true"), "has the annotation do-not-disrupt: true"),
        (
            annotation(SAFE_TO_EVICT) != Some("true") && has_local_data(&object),
            "has local data: emptyDir or hostPath",
        ),
    ];
    reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

/// Whether a volume of the pod is on the disk of its node. Volumes in memory do not count.
fn has_local_data(pod: &Value) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.into_iter().any(|volume| {
        let in_memory = volume["emptyDir"]["medium"] == "Memory";
        !volume["hostPath"].is_null() || !volume["emptyDir"].is_null() && !in_memory
    })
}
