//! Moves of the pods of a dump: room for a pending pod, and nodes that can be emptied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use ::make_room::Limits;
use ::make_room::{Answer, Cost, Drains, Movable, Move, Plan, Stays};
use framework::{ControllerKind, Pod, PodKey, Time};
use serde::Serialize;
use serde_json::Value;

use crate::cluster::{Dump, Error};
use crate::{DumpedPod, Settings, World, budgets};

/// How the pods of a dump are to be moved.
#[derive(Debug, Clone)]
pub struct Question {
    /// Settings of the engine.
    pub settings: Settings,
    /// Pods of a higher priority are not moved.
    pub highest_priority: i32,
    /// The limits of the search.
    pub limits: Limits,
}

/// The room for a pod. Its JSON form is an interface: fields are added, never renamed.
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

/// The nodes that can be emptied. Its JSON form is an interface: fields are added, never renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EmptyNodes {
    /// The nodes, in the order in which they are to be emptied.
    pub nodes: Vec<EmptyNode>,
    /// The nodes that stay.
    pub staying: Vec<StayingNode>,
    /// Whether every node was tried. False if the search ended early.
    pub is_complete: bool,
    /// Warnings about the input.
    pub warnings: Vec<String>,
}

/// A node that can be emptied after those before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EmptyNode {
    /// Its name.
    pub name: String,
    /// The moves of its pods, in their order.
    pub moves: Vec<RoomMove>,
    /// The sum of the costs, in thousandths of the move of a new pod of a ReplicaSet.
    pub cost: Cost,
}

/// A node that is not emptied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StayingNode {
    /// Its name.
    pub name: String,
    /// A pod that stays on it: `NAMESPACE/NAME`.
    pub pod: String,
    /// Why.
    pub reason: &'static str,
}

/// A dump whose pods are to be moved.
struct Moving {
    world: World,
    movable: Vec<Movable>,
    kept: Vec<KeptPod>,
    warnings: Vec<String>,
}

/// A running pod that is not moved.
struct KeptPod {
    key: PodKey,
    node: Arc<str>,
    reason: &'static str,
    /// Whether it goes with its node.
    goes_with_node: bool,
}

impl Moving {
    fn read(mut dump: Dump, question: &Question) -> Result<Self, Error> {
        budgets::complete(&mut dump.objects, &dump.pods);
        let names = dump.pods.iter().map(|own| &*own.pod.spec.scheduler_name);
        let mut world = World::new(&question.settings, names)?;
        dump.nodes.into_iter().for_each(|node| world.add_node(node));
        dump.objects.into_iter().for_each(|object| world.add_object(object.parsed()));
        let now = dump.pods.iter().filter_map(|own| own.created).max().unwrap_or(Time::ZERO);
        let (mut movable, mut kept) = (Vec::new(), Vec::new());
        for own in &dump.pods {
            world.add_pod(own.pod.clone());
            let Some(node) = own.pod.node_name.clone() else { continue };
            match why_kept(own, question.highest_priority) {
                Some(Kept { reason, goes_with_node }) => {
                    kept.push(KeptPod { key: own.pod.key.clone(), node, reason, goes_with_node });
                }
                None => {
                    let age = own.created.map(|created| now.since(created)).unwrap_or_default();
                    let cost = Cost::of_move(&own.pod, age);
                    movable.push(Movable { pod: Arc::new(own.pod.clone()), cost });
                }
            }
        }
        Ok(Self { world, movable, kept, warnings: dump.warnings })
    }
}

/// Looks for moves after which a pending pod of the dump fits. Other pending pods wait.
///
/// # Errors
/// A profile cannot be built, or the dump has no such pod without a node.
pub fn room_for(pod: &PodKey, dump: Dump, question: &Question) -> Result<Room, Error> {
    let asked = dump.pods.iter().find(|own| own.pod.key == *pod && own.is_pending());
    let asked = asked.map(|own| Arc::new(own.pod.clone()));
    let pod = asked.ok_or_else(|| Error::NotPending(pod.clone()))?;
    let Moving { mut world, movable, kept: pods, warnings } = Moving::read(dump, question)?;
    let limits = question.limits;
    let found = world.make_room(&::make_room::Question { pod: &pod, movable: &movable, limits });
    let mut kept = BTreeMap::new();
    pods.iter().for_each(|own| *kept.entry(own.reason).or_default() += 1);
    Ok(Room { kept, warnings, ..room(&pod, found) })
}

/// Looks for nodes of the dump whose pods all fit elsewhere. Pending pods wait.
///
/// # Errors
/// A profile cannot be built.
pub fn empty_nodes(dump: Dump, question: &Question) -> Result<EmptyNodes, Error> {
    let Moving { mut world, movable, kept, warnings } = Moving::read(dump, question)?;
    let holding = || kept.iter().filter(|own| !own.goes_with_node);
    let held: BTreeSet<Arc<str>> = holding().map(|own| own.node.clone()).collect();
    let decisions = question.limits.decisions;
    let found = world.empty_nodes(&Drains { movable: &movable, held: &held, decisions });
    let others = found.staying.iter().filter(|(node, _)| !held.contains(*node));
    let others = others.map(|(node, stays)| {
        let (pod, reason) = match stays {
            Stays::Keeps(pod) => (pod, "fits nowhere else, or its budget allows no eviction"),
            Stays::Takes(pod) => (pod, "is moved there"),
        };
        StayingNode { name: node.to_string(), pod: pod.to_string(), reason }
    });
    let holding = holding().map(|own| StayingNode {
        name: own.node.to_string(),
        pod: own.key.to_string(),
        reason: own.reason,
    });
    let mut staying: Vec<StayingNode> = others.chain(holding).collect();
    staying.sort();
    staying.dedup_by(|later, first| later.name == first.name);
    let nodes = found.nodes.iter().map(|own| EmptyNode {
        name: own.node.to_string(),
        moves: own.moves.iter().map(RoomMove::of).collect(),
        cost: own.cost,
    });
    Ok(EmptyNodes { nodes: nodes.collect(), staying, is_complete: found.is_complete, warnings })
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

/// Why a running pod is not moved.
struct Kept {
    reason: &'static str,
    /// Whether the pod goes with its node, so that it does not keep the node.
    goes_with_node: bool,
}

/// Returns why a running pod is not moved; `None` if it may be.
fn why_kept(own: &DumpedPod, highest_priority: i32) -> Option<Kept> {
    let pod = &own.pod;
    let object = own.object();
    let annotation = |name: &str| object["metadata"]["annotations"][name].as_str();
    let kind = pod.controller.as_ref().map(|own| own.kind);
    let goes_with_node = [
        (kind == Some(ControllerKind::DaemonSet), "belongs to a DaemonSet"),
        (kind == Some(ControllerKind::Node), "is a static pod"),
        (pod.terminating, "ends"),
    ];
    let stays = [
        (kind.is_none(), "has no controller"),
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
    let kept = |reasons: &[(bool, &'static str)], goes_with_node| {
        let (_, reason) = reasons.iter().find(|(holds, _)| *holds)?;
        Some(Kept { reason, goes_with_node })
    };
    kept(&goes_with_node, true).or_else(|| kept(&stays, false))
}

/// Whether a volume of the pod is on the disk of its node. Volumes in memory do not count.
fn has_local_data(pod: &Value) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.into_iter().any(|volume| {
        let in_memory = volume["emptyDir"]["medium"] == "Memory";
        !volume["hostPath"].is_null() || !volume["emptyDir"].is_null() && !in_memory
    })
}
