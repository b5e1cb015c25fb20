//! Answers as JSON, for people and programs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::Engine;
use foldhash::HashMap;
use framework::{Pod, PodGroupKey, PodGroupSource, PodKey, Template, Time};
use serde::{Deserialize, Serialize};

use crate::running::{KeptPod, RunningPods};
use crate::{
    Answer, Cost, Drains, GroupAnswer, GroupQuestion, Limits, Move, PlacedMember, Plan, Question,
    Stays,
};

/// How pods may be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Pods of a higher priority are not moved.
    pub highest_priority: i32,
    /// The limits of the search.
    pub limits: Limits,
}

impl Default for Options {
    /// Moves pods of all priorities that users may give; those of the system are higher.
    fn default() -> Self {
        Self { highest_priority: 1_000_000_000, limits: Limits::default() }
    }
}

/// The room for a pod, or for a PodGroup. Its JSON form is an interface: fields are added, never
/// renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// Namespace of the pod or PodGroup.
    pub namespace: String,
    /// Name of the pod or PodGroup.
    pub name: String,
    /// Whether it is a PodGroup.
    #[serde(default)]
    pub is_group: bool,
    /// What the search found.
    pub outcome: Outcome,
    /// The node of the pod, after the moves; `None` for a PodGroup.
    pub node: Option<String>,
    /// The moves, in the order in which they are to be made.
    pub moves: Vec<RoomMove>,
    /// The sum of the costs, in thousandths of the move of a new pod of a ReplicaSet.
    pub cost: Cost,
    /// Whether the search was complete: no plan costs less, or there is none. False if it ended
    /// early.
    pub is_certain: bool,
    /// The members of a PodGroup that fit, without or after the moves. Their nodes are those of one
    /// decision, and the next one may be another.
    #[serde(default)]
    pub members: Vec<RoomMember>,
    /// Why the pod cannot be decided.
    pub reason: Option<String>,
    /// Number of pods that are not moved, by reason.
    pub kept: BTreeMap<Cow<'static, str>, usize>,
    /// Warnings about the input.
    pub warnings: Vec<String>,
}

/// What the search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// A member of a PodGroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoomMember {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
}

/// The room for pods of several shapes. Its JSON form is an interface: fields are added, never
/// renamed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShapesRoom {
    /// The shapes, the largest first, each as if it were alone.
    pub shapes: Vec<ShapeRoom>,
    /// Warnings about the input.
    pub warnings: Vec<String>,
}

/// The room for one more pod of a shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShapeRoom {
    /// The requests, by resource.
    pub requests: BTreeMap<String, String>,
    /// Number of pods that have the shape: of those that wait, or if none waits, of those that run.
    pub pods: usize,
    /// The room, for one of them.
    pub room: Room,
}

/// The nodes that can be emptied. Its JSON form is an interface: fields are added, never renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StayingNode {
    /// Its name.
    pub name: String,
    /// A pod that stays on it: `NAMESPACE/NAME`.
    pub pod: String,
    /// Why.
    pub reason: Cow<'static, str>,
}

/// Asks an engine about moves. Afterwards the engine is as before.
pub struct Asking<'a> {
    /// The engine.
    pub engine: &'a mut Engine,
    /// The time.
    pub now: Time,
    /// How pods may be moved.
    pub options: Options,
    /// Says whether the time for the answer is over, so that the search ends early.
    pub is_over: &'a dyn Fn() -> bool,
}

impl Asking<'_> {
    /// Looks for moves after which a pod without a node fits, or its PodGroup if the scheduler
    /// decides about the group. Other pending pods wait.
    pub fn room_for(mut self, pod: &Arc<Pod>) -> Room {
        let running = self.running();
        match pod.pod_group().filter(|group| self.has_members(group)) {
            Some(group) => self.of_group(&group, &running),
            None => self.of_pod(pod, &running),
        }
    }

    /// Looks for moves after which this pending pod fits, or the PodGroup of this name. `None` if
    /// neither waits.
    pub fn room_for_pending(mut self, name: &PodKey) -> Option<Room> {
        if let Some((_, queued)) = self.engine.queue().get(name) {
            let pod = queued.pod.clone();
            return Some(self.room_for(&pod));
        }
        let groups = [PodGroupSource::Kubernetes, PodGroupSource::Coscheduling]
            .map(|source| PodGroupKey { source, ..PodGroupKey::new(&name.namespace, &name.name) });
        let group = groups.iter().find(|group| self.has_members(group))?;
        let running = self.running();
        Some(self.of_group(group, &running))
    }

    /// Looks for moves for one more pod of each of the `most` largest shapes, by the share of the
    /// cluster: those of pods that wait, or if none waits, of those that run.
    pub fn room_for_largest(mut self, most: usize) -> ShapesRoom {
        let running = self.running();
        let shapes = largest_shapes(self.engine, most);
        let shapes = shapes.into_iter().map(|Shape { pod, pods }| ShapeRoom {
            requests: shown_requests(&pod),
            pods,
            room: self.of_pod(&pod, &running),
        });
        ShapesRoom { shapes: shapes.collect(), warnings: Vec::new() }
    }

    fn running(&self) -> RunningPods {
        RunningPods::of(self.engine.cluster(), self.options.highest_priority)
    }

    fn has_members(&self, group: &PodGroupKey) -> bool {
        !self.engine.queue().members_of(group).is_empty()
    }

    fn of_pod(&mut self, pod: &Arc<Pod>, running: &RunningPods) -> Room {
        let Options { limits, .. } = self.options;
        let question = Question { pod, movable: &running.movable, limits };
        let found = crate::make_room_until(self.engine, &question, self.now, self.is_over);
        Room { kept: by_reason(&running.kept), ..room(&pod.key, found) }
    }

    fn of_group(&mut self, group: &PodGroupKey, running: &RunningPods) -> Room {
        let Options { limits, .. } = self.options;
        let question = GroupQuestion { group, movable: &running.movable, limits };
        let found = crate::make_room_for_group(self.engine, &question, self.now, self.is_over);
        Room { kept: by_reason(&running.kept), ..room_of_group(group, found) }
    }

    /// Looks for nodes whose pods all fit elsewhere. Pending pods wait.
    pub fn empty_nodes(self) -> EmptyNodes {
        let RunningPods { movable, kept } = self.running();
        let Self { engine, now, options, is_over } = self;
        let holding = || kept.iter().filter(|own| !own.why.goes_with_node);
        let held: BTreeSet<Arc<str>> = holding().map(|own| own.node.clone()).collect();
        let drains = Drains { movable: &movable, held: &held, decisions: options.limits.decisions };
        let found = crate::empty_nodes_until(engine, &drains, now, is_over);
        let others = found.staying.iter().filter(|(node, _)| !held.contains(*node));
        let others = others.map(|(node, stays)| {
            let (pod, reason) = match stays {
                Stays::Keeps(pod) => (pod, "fits nowhere else, or its budget allows no eviction"),
                Stays::Takes(pod) => (pod, "is moved there"),
            };
            StayingNode { name: node.to_string(), pod: pod.to_string(), reason: reason.into() }
        });
        let holding = holding().map(|own| StayingNode {
            name: own.node.to_string(),
            pod: own.key.to_string(),
            reason: own.why.reason.into(),
        });
        let mut staying: Vec<StayingNode> = others.chain(holding).collect();
        staying.sort();
        staying.dedup_by(|later, first| later.name == first.name);
        let nodes = found.nodes.iter().map(|own| EmptyNode {
            name: own.node.to_string(),
            moves: own.moves.iter().map(RoomMove::of).collect(),
            cost: own.cost,
        });
        EmptyNodes {
            nodes: nodes.collect(),
            staying,
            is_complete: found.is_complete,
            warnings: Vec::new(),
        }
    }
}

fn by_reason(pods: &[KeptPod]) -> BTreeMap<Cow<'static, str>, usize> {
    let mut kept = BTreeMap::new();
    pods.iter().for_each(|own| *kept.entry(own.why.reason.into()).or_default() += 1);
    kept
}

/// Pods with equal templates.
struct Shape {
    pod: Arc<Pod>,
    pods: usize,
}

/// Returns the shapes with the largest share of the cluster, the largest first.
fn largest_shapes(engine: &Engine, most: usize) -> Vec<Shape> {
    let cluster = engine.cluster();
    let mut shapes = shapes_of(engine.queue().iter().map(|(_, queued)| &queued.pod));
    if shapes.is_empty() {
        shapes = shapes_of(cluster.pods().map(|placed| &placed.pod));
    }
    let mut totals: BTreeMap<&str, i64> = BTreeMap::new();
    let [cpu, memory] = [&cluster.allocatable().milli_cpu, &cluster.allocatable().memory]
        .map(|column| cluster.nodes().iter().map(|node| column[node.index()]).sum::<i64>());
    let names = shapes.iter().flat_map(|own| &own.pod.requests.fit.scalars);
    let names: BTreeSet<&str> = names.map(|(name, _)| &**name).collect();
    totals.extend(names.into_iter().filter_map(|name| {
        let column = cluster.scalar(name)?;
        Some((name, cluster.nodes().iter().map(|node| column.get(node).allocatable).sum()))
    }));
    // In millionths; a resource that no node has counts for nothing.
    let share = |amount: i64, total: i64| {
        i128::from(amount).saturating_mul(1_000_000).checked_div(i128::from(total)).unwrap_or(0)
    };
    let dominant = |own: &Shape| {
        let requests = &own.pod.requests.fit;
        let scalars = requests
            .scalars
            .iter()
            .map(|(name, amount)| share(*amount, totals.get(&**name).copied().unwrap_or(0)));
        let basic = [share(requests.milli_cpu, cpu), share(requests.memory, memory)];
        basic.into_iter().chain(scalars).max()
    };
    let mut ranked: Vec<_> = shapes.iter().map(dominant).zip(0..).collect();
    ranked.sort_by_key(|(share, place)| (std::cmp::Reverse(*share), *place));
    let chosen: Vec<usize> = ranked.into_iter().take(most).map(|(_, place)| place).collect();
    let mut shapes: Vec<Option<Shape>> = shapes.into_iter().map(Some).collect();
    chosen.into_iter().filter_map(|place| shapes[place].take()).collect()
}

/// Returns the shapes of pods that ask for different amounts or places, each as a pod without a
/// node, sorted by the name of the first.
fn shapes_of<'p>(pods: impl Iterator<Item = &'p Arc<Pod>>) -> Vec<Shape> {
    let mut places: HashMap<Template, usize> = HashMap::default();
    let mut shapes: Vec<Shape> = Vec::new();
    for pod in pods.filter(|pod| pod.spec.scheduling_gates.is_empty() && !pod.terminating) {
        let place = *places.entry(Template::of(pod)).or_insert(shapes.len());
        if place == shapes.len() {
            shapes.push(Shape { pod: pod.clone(), pods: 0 });
        }
        let own = &mut shapes[place];
        own.pods += 1;
        if pod.key < own.pod.key {
            own.pod = pod.clone();
        }
    }
    shapes.sort_by(|a, b| a.pod.key.cmp(&b.pod.key));
    for own in &mut shapes {
        if own.pod.node_name.is_some() {
            own.pod = Arc::new(Pod { node_name: None, uncommon: None, ..Pod::clone(&own.pod) });
        }
    }
    shapes
}

fn shown_requests(pod: &Pod) -> BTreeMap<String, String> {
    let requests = &pod.requests.fit;
    let cpu = match requests.milli_cpu {
        own if own % 1000 == 0 => (own / 1000).to_string(),
        own => format!("{own}m"),
    };
    let scalars = requests.scalars.iter().map(|(name, amount)| (&**name, amount.to_string()));
    let basic = [("cpu", cpu), ("memory", requests.memory.to_string())];
    let all = basic.into_iter().chain(scalars).filter(|(_, amount)| amount != "0");
    all.map(|(name, amount)| (name.to_owned(), amount)).collect()
}

fn room_of_group(group: &PodGroupKey, found: GroupAnswer) -> Room {
    let key = PodKey { namespace: group.namespace.clone(), name: group.name.clone() };
    let members = |members: Vec<PlacedMember>| {
        let members = members
            .iter()
            .map(|own| RoomMember { name: own.pod.name.to_string(), node: own.node.to_string() });
        members.collect()
    };
    let none = Room { is_group: true, ..room(&key, Answer::NoPlan { is_certain: false }) };
    match found {
        GroupAnswer::Fits(own) => {
            Room { outcome: Outcome::Fits, members: members(own), is_certain: true, ..none }
        }
        GroupAnswer::Plan(plan) => Room {
            outcome: Outcome::Plan,
            moves: plan.moves.iter().map(RoomMove::of).collect(),
            members: members(plan.members),
            cost: plan.cost,
            ..none
        },
        GroupAnswer::NoPlan => none,
        GroupAnswer::Undecided(reason) => {
            Room { outcome: Outcome::Undecided, reason: Some(reason), ..none }
        }
    }
}

fn room(pod: &PodKey, found: Answer) -> Room {
    let room = Room {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        is_group: false,
        members: Vec::new(),
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
