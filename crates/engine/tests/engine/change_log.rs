//! The change log: which changes of nodes and placed pods leave an entry.

use std::collections::{BTreeMap, BTreeSet};

use engine::Engine;
use engine::world::{LogEntry, LoggedChange, Placement};
use framework::{Answer, Cluster, Node, NodeChange, NodeIx, Plugin, PodIx, Uid};
use serde_json::{Value, json};
use testkit::{node, pod};

use crate::harness::*;

impl World {
    /// Runs `change` and returns the log entries that it leaves.
    fn log_of(&mut self, change: impl FnOnce(&mut Self)) -> Vec<LogEntry> {
        let state = self.engine.changes().state();
        change(self);
        self.engine.changes().since(state).expect("the entries are kept").collect()
    }

    fn node_ix(&self, name: &str) -> NodeIx {
        self.engine.cluster().node_named(name).expect("the node exists")
    }

    /// Returns the entry for a change of the node object.
    fn node_entry(&self, name: &str, change: NodeChange) -> LogEntry {
        LogEntry { node: self.node_ix(name), change: LoggedChange::Node(change) }
    }

    /// Returns the entry for the placement of a pod that is placed.
    fn placed_entry(&self, name: &str) -> LogEntry {
        let uid = Uid::from(&*self.server[&key(name)].metadata.uid);
        let placed = self.engine.world().placement(&uid).expect("the pod is placed");
        LogEntry { node: placed.node, change: LoggedChange::PodPlaced(placed.ix) }
    }
}

/// Returns the entry for another start time of the pod that `placed` is the entry of.
fn started(placed: LogEntry) -> LogEntry {
    let LoggedChange::PodPlaced(pod) = placed.change else { panic!("{placed:?} is no placement") };
    LogEntry { change: LoggedChange::PodStarted(pod), ..placed }
}

/// Returns the entry for the end of the placement that `placed` is the entry of.
fn gone(placed: LogEntry) -> LogEntry {
    let LoggedChange::PodPlaced(pod) = placed.change else { panic!("{placed:?} is no placement") };
    LogEntry { change: LoggedChange::PodGone(pod), ..placed }
}

/// A copy of what the cluster holds, kept up to date by the change log alone.
#[derive(Default)]
pub(crate) struct Replica {
    state: u64,
    /// Generations of the nodes.
    nodes: BTreeMap<NodeIx, Option<u64>>,
    pods: BTreeMap<PodIx, NodeIx>,
}

impl Replica {
    /// Reads the entries since the last call and checks that they lead to the present state.
    pub(crate) fn catch_up(&mut self, engine: &Engine) {
        let log = engine.changes();
        let mut changed = BTreeSet::new();
        for LogEntry { node, change } in log.since(self.state).expect("the entries are kept") {
            changed.insert(node);
            match change {
                LoggedChange::Node(NodeChange::ADDED) => {
                    assert!(self.nodes.insert(node, None).is_none(), "{node:?} was added before");
                }
                LoggedChange::Node(NodeChange::REMOVED) => {
                    assert!(self.nodes.remove(&node).is_some(), "{node:?} is not known");
                }
                LoggedChange::Node(change) => {
                    assert!(self.nodes.contains_key(&node), "{change:?} of an unknown node");
                }
                LoggedChange::PodPlaced(pod) => {
                    assert_eq!(self.pods.insert(pod, node), None, "the pod was placed before");
                }
                LoggedChange::PodGone(pod) => {
                    assert_eq!(self.pods.remove(&pod), Some(node), "the pod was not there");
                }
                LoggedChange::PodStarted(pod) => {
                    assert_eq!(self.pods.get(&pod), Some(&node), "the pod is not there");
                }
            }
        }
        self.state = log.state();
        self.check_nodes(engine.cluster(), &changed);
        self.check_pods(engine.world());
    }

    /// A node whose generation is another one has an entry.
    fn check_nodes(&mut self, cluster: &Cluster, changed: &BTreeSet<NodeIx>) {
        assert_eq!(self.nodes.len(), cluster.node_count());
        for (node, known) in &mut self.nodes {
            let generation = cluster.node(*node).generation();
            assert!(*known == generation || changed.contains(node), "{node:?} has no entry");
            *known = generation;
        }
    }

    fn check_pods(&self, world: &engine::world::World) {
        let placements = world.cluster().pods().map(|placed| {
            let Placement { node, ix } = world.placement(&placed.pod.uid).expect("it is placed");
            (ix, node)
        });
        assert_eq!(placements.collect::<BTreeMap<_, _>>(), self.pods);
    }
}

const TIER: &str = "/metadata/annotations/example.com~1tier";

/// Applies a node given as JSON, with the fields that plugins asked for.
fn apply_node(world: &mut World, node: &Value) {
    let wanted = world.engine.profiles().extra_fields();
    let (node, problems) = Node::from_json(node, &wanted).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    world.apply(engine::Change::Node(node));
}

fn node_json() -> Value {
    json!({
        "metadata": {
            "name": "n",
            "resourceVersion": "1",
            "labels": { "zone": "x" },
            "annotations": { "example.com/tier": "gold" },
        },
        "spec": { "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule" }] },
        "status": {
            "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" },
            "conditions": [
                { "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z" },
            ],
            "images": [{ "names": ["web:1"], "sizeBytes": 200 }],
            "volumesInUse": ["v1"],
        },
    })
}

#[test]
fn node_update_leaves_an_entry_only_for_what_the_cluster_keeps() {
    // Pointer, new value, what is logged.
    let rows = [
        // A heartbeat.
        ("/metadata/resourceVersion", json!("2"), None),
        ("/status/conditions/0/lastHeartbeatTime", json!("2026-01-01T00:05:00Z"), None),
        // Node `m` reported another size of the image first.
        ("/status/images/0/sizeBytes", json!(300), None),
        // Written in another way.
        ("/status/allocatable/cpu", json!("4000m"), None),
        ("/status/allocatable/cpu", json!("5"), Some(NodeChange::ALLOCATABLE)),
        ("/metadata/labels/zone", json!("y"), Some(NodeChange::LABELS)),
        ("/spec/taints/0/value", json!("w"), Some(NodeChange::TAINTS)),
        ("/spec/unschedulable", json!(true), Some(NodeChange::UNSCHEDULABLE)),
        ("/status/conditions/0/status", json!("False"), Some(NodeChange::CONDITIONS)),
        ("/status/images/0/names/0", json!("db:1"), Some(NodeChange::IMAGES)),
        // A kept field, alone and together with the annotations.
        ("/status/volumesInUse/0", json!("v2"), Some(NodeChange::EXTRA_FIELDS)),
        (TIER, json!("silver"), Some(NodeChange::ANNOTATIONS | NodeChange::EXTRA_FIELDS)),
    ];
    for (pointer, value, change) in rows {
        let keeper = Plugin::new("Keeper", ());
        let keeper = keeper.keep_node_field(TIER).keep_node_field("/status/volumesInUse").build();
        let mut world = Setup::new([fit()]).plugin(keeper).build();
        world.node(node("m").image("web:1", 100));
        let before = node_json();
        let added = world.log_of(|world| apply_node(world, &before));
        assert_eq!(added, [world.node_entry("n", NodeChange::ADDED)]);
        let mut after = before.clone();
        match after.pointer_mut(pointer) {
            Some(field) => *field = value,
            None => after["spec"]["unschedulable"] = value,
        }
        let expected: Vec<_> =
            change.map(|change| world.node_entry("n", change)).into_iter().collect();
        assert_eq!(world.log_of(|world| apply_node(world, &after)), expected, "{pointer}");
        assert_eq!(world.log_of(|world| apply_node(world, &after)), [], "{pointer}, once more");
    }
}

#[test]
fn removed_node_leaves_one_entry() {
    let mut world = world([fit()]);
    let removed = world.node_entry("a", NodeChange::REMOVED);
    assert_eq!(world.log_of(|world| world.delete_node("a")), [removed]);
    assert_eq!(world.log_of(|world| world.delete_node("a")), []);
}

#[test]
fn pod_that_others_place_leaves_an_entry_when_placed_and_when_gone() {
    let mut world = world([fit()]);
    let placed = world.log_of(|world| world.pod(pod("p").on("b")));
    assert_eq!(placed, [world.placed_entry("p")]);
    assert_eq!(
        world.log_of(|world| world.delete("p")),
        placed.iter().copied().map(gone).collect::<Vec<_>>()
    );
}

#[test]
fn update_of_a_placed_pod_leaves_entries_only_if_its_counts_may_change() {
    type Change = fn(&mut framework::api::Pod);
    type Expected = fn(LogEntry) -> Vec<LogEntry>;
    let [none, again, started]: [Expected; 3] =
        [|_| Vec::new(), |placed| vec![gone(placed), placed], |placed| vec![started(placed)]];
    let rows: [(&str, Change, Expected); 5] = [
        ("phase", |pod| pod.status.phase = "Running".to_owned(), none),
        (
            "start time",
            |pod| pod.status.start_time = Some("2026-01-01T00:00:00Z".to_owned()),
            started,
        ),
        ("nothing", |_| {}, none),
        ("label", |pod| drop(pod.metadata.labels.insert("app".into(), "web".into())), again),
        (
            "deletion",
            |pod| pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned()),
            again,
        ),
    ];
    for (name, change, expected) in rows {
        let mut world = world([fit()]);
        world.pod(pod("p").on("b"));
        let placed = world.placed_entry("p");
        let entries = world.log_of(|world| world.update("p", change));
        assert_eq!(entries, expected(placed), "{name}");
    }
}

#[test]
fn ended_pod_leaves_one_entry_and_its_deletion_none() {
    let mut world = world([fit()]);
    world.pod(pod("p").on("b"));
    let placed = world.placed_entry("p");
    let ended =
        world.log_of(|world| world.update("p", |pod| pod.status.phase = "Succeeded".into()));
    assert_eq!(ended, [gone(placed)]);
    assert_eq!(world.log_of(|world| world.delete("p")), []);
}

#[test]
fn confirmation_of_an_assumed_pod_leaves_no_entry() {
    let mut world = world([fit()]);
    assert_eq!(world.log_of(|world| world.pod(pod("p").cpu("1"))), [], "the pod is pending");
    let assumed = world.log_of(|world| drop(world.attempt()));
    assert_eq!((world.place("p"), &*assumed), ("assumed", &[world.placed_entry("p")][..]));
    assert_eq!(world.log_of(World::run), [], "bound and confirmed");
    assert_eq!(world.place("p"), "placed");
}

#[test]
fn failed_bind_leaves_an_entry_for_the_end_of_the_placement() {
    let mut world = world([fit()]);
    world.schedule(pod("p").cpu("1"));
    let placed = world.placed_entry("p");
    let (bind, _) = world.take_bind("p");
    let refused = Answer::Error("refused".to_owned());
    assert_eq!(world.log_of(|world| world.answer(bind, &refused)), [gone(placed)]);
}

#[test]
fn pod_that_another_scheduler_binds_elsewhere_moves_in_the_log() {
    let mut world = world([fit()]);
    world.schedule(pod("p").cpu("1"));
    let assumed = world.placed_entry("p");
    let moved = world.log_of(|world| world.update("p", |pod| pod.spec.node_name = "b".to_owned()));
    assert_eq!(moved, [gone(assumed), world.placed_entry("p")]);
    assert_eq!(moved[1].node, world.node_ix("b"));
}

#[test]
fn deletion_of_an_assumed_pod_leaves_one_entry() {
    let mut world = world([fit()]);
    world.schedule(pod("p").cpu("1"));
    let placed = world.placed_entry("p");
    assert_eq!(world.log_of(|world| world.delete("p")), [gone(placed)]);
    let (bind, _) = world.take_bind("p");
    assert_eq!(world.log_of(|world| world.answer(bind, &Answer::Gone("gone".to_owned()))), []);
}
