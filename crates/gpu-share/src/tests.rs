//! Tests of the plugin through its extension points.

use std::collections::BTreeMap;

use framework::{Attempt, AttemptMut, Cluster, Code, Metric, NodeIx, Overlay, PerNode, PodIx};
use proptest::prelude::{Just, any, prop, prop_oneof, proptest};
use proptest::strategy::Strategy as Values;
use serde_json::Value;
use testkit::{Harness, NodeBuilder, PodBuilder, handle, node, pod};

use super::*;

fn make(args: Value) -> Plugin {
    plugin(&PluginArgs::new(args)).expect("the arguments are in order")
}

fn best_fit() -> Plugin {
    make(json!({}))
}

/// Returns a plugin whose workload has tasks that need half a device, one device, two devices and
/// none.
fn gradient() -> Plugin {
    let task = |cpu: u32, milli: u32, popularity: u32| {
        let requests = json!({"cpu": cpu, GPU_MILLI: milli});
        json!({"requests": requests, "popularity": popularity})
    };
    let workload = [task(2, 500, 4), task(2, 1000, 3), task(4, 2000, 2), task(4, 0, 1)];
    make(json!({"strategy": "FragmentationGradient", "workload": workload}))
}

fn gpu_node(name: &str, gpus: u32) -> NodeBuilder {
    node(name).allocatable(GPU_MILLI, &(gpus * 1000).to_string())
}

fn gpu_pod(name: &str, milli: i64) -> PodBuilder {
    pod(name).cpu("1").request(GPU_MILLI, &milli.to_string())
}

/// Returns the pod with its annotation, decoded as in the cluster.
fn annotated(pod: PodBuilder, plugin: &Plugin, index: &str) -> Pod {
    let api = pod.with(|pod| drop(pod.metadata.annotations.insert(GPU_INDEX.into(), index.into())));
    let object = serde_json::to_value(api.api()).unwrap();
    Pod::from_json(&object, &plugin.extra_fields).unwrap()
}

/// A cluster that assumes, reserves, binds and unreserves pods like the engine.
struct World {
    plugin: Plugin,
    cluster: Cluster,
    placed: BTreeMap<String, PodIx>,
}

impl World {
    fn new(plugin: Plugin, nodes: impl IntoIterator<Item = NodeBuilder>) -> Self {
        let mut cluster = Cluster::default();
        for node in nodes {
            cluster.set_node(&node.build());
        }
        Self { plugin, cluster, placed: BTreeMap::new() }
    }

    fn place(&mut self, pod: Pod) {
        let node = pod.node_name.clone().unwrap();
        if let Some(old) = self.placed.remove(&*pod.key.name) {
            self.cluster.remove_pod(old);
        }
        let name = pod.key.name.to_string();
        self.placed.insert(name, self.cluster.place_pod(Arc::new(pod), &node));
    }

    fn remove(&mut self, name: &str) {
        self.cluster.remove_pod(self.placed.remove(name).unwrap());
    }

    /// Assumes and reserves the pod. Returns its devices, or reverts the assumption and returns the
    /// status.
    fn reserve(&mut self, pod: PodBuilder, node: &str) -> Result<(CycleState, String), Status> {
        let pod = pod.on(node).build();
        self.place(pod.clone());
        let mut state = CycleState::new();
        let reserve = self.plugin.reserve.clone().unwrap();
        let status =
            reserve.reserve(AttemptMut::new(&mut state, &pod, &handle(&self.cluster)), node);
        if !status.is_success() {
            self.undo(&pod, &mut state);
            return Err(status);
        }
        let taken = state.read::<Taken>().map(Taken::to_string).unwrap_or_default();
        Ok((state, taken))
    }

    fn undo(&mut self, pod: &Pod, state: &mut CycleState) {
        let node = pod.node_name.clone().unwrap();
        let reserve = self.plugin.reserve.as_ref().unwrap();
        reserve.unreserve(AttemptMut::new(state, pod, &handle(&self.cluster)), &node);
        self.remove(&pod.key.name);
    }

    /// Returns the names of the feasible nodes, checked in both forms.
    fn feasible(&self, pod: &Pod) -> Vec<String> {
        let mut state = CycleState::new();
        let pre_filter = self.plugin.pre_filter.as_ref().unwrap();
        let handle = handle(&self.cluster);
        pre_filter.pre_filter(AttemptMut::new(&mut state, pod, &handle)).unwrap();
        let filter = self.plugin.filter.as_ref().unwrap();
        let mut nodes = self.cluster.nodes().clone();
        filter.filter_set(&Attempt::new(&state, pod, &handle), &mut nodes).unwrap();
        for ix in self.cluster.nodes().iter() {
            let status = filter.filter(&Attempt::new(&state, pod, &handle), &self.cluster.node(ix));
            let passes = status.is_success();
            assert_eq!(passes, nodes.contains(ix), "forms agree");
        }
        nodes.iter().map(|ix| self.cluster.node_name(ix).to_string()).collect()
    }

    /// Returns raw scores by node, checked in both forms.
    fn scores(&self, pod: &Pod) -> Vec<i64> {
        let nodes: Vec<NodeIx> = self.cluster.nodes().iter().collect();
        let (state, score) = (CycleState::new(), self.plugin.score.as_ref().unwrap());
        let mut scores = vec![-1; nodes.len()];
        let handle = handle(&self.cluster);
        score
            .score_set(&Attempt::new(&state, pod, &handle), PerNode::new(&nodes, &mut scores))
            .unwrap();
        let view = |ix: &NodeIx| self.cluster.node(*ix);
        let one =
            |ix: &NodeIx| score.score(&Attempt::new(&state, pod, &handle), &view(ix)).unwrap();
        assert!(nodes.iter().map(one).eq(scores.iter().copied()), "forms agree");
        scores
    }
}

#[test]
fn part_must_fit_one_device_and_whole_devices_must_be_unused() {
    let plugin = best_fit();
    let on = |name: &str, milli, node: &str, index| {
        annotated(gpu_pod(name, milli).on(node), &plugin, index)
    };
    let harness = Harness::new(plugin.clone())
        .node(gpu_node("a", 2).build())
        .pod(on("a0", 600, "a", "0"))
        .pod(on("a1", 600, "a", "1"))
        .node(gpu_node("b", 2).build())
        .pod(on("b1", 500, "b", "1"))
        .node(gpu_node("c", 4).build())
        .pod(on("c1", 2000, "c", "1-3"))
        .node(node("none").build());
    let verdict = |milli, node: &str| {
        let run = harness.run(&gpu_pod("p", milli).build());
        let status = &run.verdicts[node];
        (status.code(), status.message())
    };
    for (milli, node, code, message) in [
        (400, "a", Code::Success, ""),
        (401, "a", Code::Unschedulable, NO_ROOM),
        (401, "b", Code::Success, ""),
        (1000, "a", Code::Unschedulable, TOO_FEW_UNUSED),
        (1000, "b", Code::Success, ""),
        (2000, "b", Code::Unschedulable, TOO_FEW_UNUSED),
        (2000, "c", Code::Success, ""),
        (3000, "b", Code::UnschedulableAndUnresolvable, TOO_FEW_DEVICES),
        (3000, "c", Code::Unschedulable, TOO_FEW_UNUSED),
        (1, "none", Code::UnschedulableAndUnresolvable, TOO_FEW_DEVICES),
        (i64::MAX / 1000 * 1000, "c", Code::UnschedulableAndUnresolvable, TOO_FEW_DEVICES),
    ] {
        assert_eq!(verdict(milli, node), (code, message.to_owned()), "{milli} on {node}");
    }
}

#[test]
fn pods_without_demand_pass_and_invalid_demands_are_rejected() {
    let harness = Harness::new(best_fit()).node(node("none").build());
    assert!(harness.run(&pod("p").build()).pre_filter.is_success());
    assert_eq!(harness.run(&pod("p").build()).feasible(), ["none"]);
    let run = harness.run(&gpu_pod("p", 1500).build());
    assert_eq!((run.pre_filter.code(), run.pre_filter.message().as_str()), {
        (Code::UnschedulableAndUnresolvable, NOT_WHOLE)
    });
}

#[test]
fn best_fit_prefers_the_node_with_the_least_left() {
    let harness = Harness::new(best_fit())
        .node(gpu_node("big", 8).allocatable("cpu", "96").build())
        .node(gpu_node("small", 2).allocatable("cpu", "16").build())
        .node(node("none").allocatable("cpu", "64").build());
    let run = harness.run(&gpu_pod("p", 1000).build());
    // CPU and GPU count half each. Left are 95 of 128 CPUs and 7 of 8 devices on "big", and 15 CPUs
    // and 1 device on "small".
    assert_eq!(run.raw_scores["big"] / scorer::PARTS_PER_POINT, 100 - 37 - 44);
    assert_eq!(run.raw_scores["small"] / scorer::PARTS_PER_POINT, 100 - 5 - 7 - 1);
    assert_eq!((run.scores["big"], run.scores["small"]), (19, 88));
    let run = harness.run(&pod("p").cpu("16").build());
    assert_eq!(run.scores["small"], 88, "it fills up, although it takes CPU from devices: {run}");
}

#[test]
fn gradient_avoids_fragmentation_of_devices_and_cpu() {
    let plugin = gradient();
    let half = annotated(gpu_pod("half", 500).on("half"), &plugin, "0");
    let harness = Harness::new(plugin)
        .node(gpu_node("half", 2).build())
        .pod(half)
        .node(gpu_node("unused", 2).build())
        .node(node("none").build());
    let run = harness.run(&gpu_pod("p", 500).build());
    assert!(run.scores["half"] > run.scores["unused"], "{run}");
    let run = harness.run(&gpu_pod("p", 2000).build());
    assert_eq!(run.feasible(), ["unused"]);
    let run = harness.run(&pod("p").cpu("7").build());
    assert_eq!(run.scores["none"], 51, "nothing is fragmented there: {run}");
    assert!(run.scores["unused"] < 50 && run.scores["half"] < 50, "{run}");
}

#[test]
fn gradient_chooses_the_device() {
    // No task can use less than 600: best fit would leave 100 and 1000, the gradient 600 and 500.
    let workload = json!([{"requests": {GPU_MILLI: 600}, "popularity": 1}]);
    let args = json!({"strategy": "FragmentationGradient", "workload": workload});
    for (plugin, expected) in [(make(args), "1"), (best_fit(), "0")] {
        let there = annotated(gpu_pod("there", 300).on("n"), &plugin, "0");
        let mut world = World::new(plugin, [gpu_node("n", 2)]);
        world.place(there);
        let (_, taken) = world.reserve(gpu_pod("p", 400), "n").unwrap();
        assert_eq!(taken, expected);
    }
}

#[test]
fn reserved_devices_count_before_the_annotation_is_written() {
    let mut world = World::new(best_fit(), [gpu_node("n", 2)]);
    let mut take = |name, milli| world.reserve(gpu_pod(name, milli), "n").map(|(_, taken)| taken);
    assert_eq!(take("a", 600), Ok("0".to_owned()));
    assert_eq!(take("b", 600), Ok("1".to_owned()));
    assert_eq!(take("c", 300), Ok("0".to_owned()));
    let refused = take("d", 600).unwrap_err();
    assert_eq!(refused.code(), Code::Unschedulable);
    assert!(world.feasible(&gpu_pod("e", 500).build()).is_empty());
    let Metric::Counter(refused) = &world.plugin.metrics[0] else { panic!("a counter") };
    assert_eq!(refused.get(), 1);
}

#[test]
fn unreserved_devices_are_free_again() {
    let mut world = World::new(best_fit(), [gpu_node("n", 1)]);
    let pod = gpu_pod("a", 1000).on("n").build();
    let (mut state, _) = world.reserve(gpu_pod("a", 1000), "n").unwrap();
    assert!(world.feasible(&gpu_pod("b", 1).build()).is_empty());
    world.undo(&pod, &mut state);
    assert_eq!(world.feasible(&gpu_pod("b", 1000).build()), ["n"]);
    // Unreserve without Reserve, repeated, and with the node removed.
    world.place(pod.clone());
    world.cluster.remove_node("n");
    world.undo(&pod, &mut state);
    assert!(world.feasible(&gpu_pod("b", 1000).build()).is_empty());
}

#[test]
fn pod_without_demand_reserves_and_writes_nothing() {
    let mut world = World::new(best_fit(), [gpu_node("n", 1)]);
    let (state, taken) = world.reserve(pod("p"), "n").unwrap();
    assert_eq!(taken, "");
    let pre_bind = world.plugin.pre_bind.as_ref().unwrap();
    let pre_flight =
        pre_bind.pre_flight(&Attempt::new(&state, &pod("p").build(), &handle(&world.cluster)), "n");
    assert_eq!(pre_flight, PreBindPreFlight::Skip { allow_parallel: true });
}

#[test]
fn pre_bind_writes_the_device_annotation() {
    let mut world = World::new(best_fit(), [gpu_node("n", 4)]);
    let (mut state, _) = world.reserve(gpu_pod("p", 3000), "n").unwrap();
    let (pod, handle) = (gpu_pod("p", 3000).build(), handle(&world.cluster));
    let pre_bind = world.plugin.pre_bind.as_ref().unwrap();
    let pre_flight = pre_bind.pre_flight(&Attempt::new(&state, &pod, &handle), "n");
    assert_eq!(pre_flight, PreBindPreFlight::Run { allow_parallel: true });
    let mut step =
        |input| pre_bind.pre_bind(AttemptMut::new(&mut state, &pod, &handle), "n", input);
    let PreBindStep::Write(write) = step(PreBindInput::Start) else { panic!("a write") };
    assert_eq!((&*write.resource, &*write.name), ("pods", "p"));
    let expected = json!({"metadata": {"uid": "uid-p", "annotations": {GPU_INDEX: "0-1-2"}}});
    assert_eq!(*write.body(), expected);
    let failed = Answer::Conflict("the object has been modified".to_owned());
    let PreBindStep::Done(status) = step(PreBindInput::Answer(&failed)) else { panic!("done") };
    assert!(status.message().ends_with("the object has been modified"));
    let PreBindStep::Done(status) = step(PreBindInput::Answer(&Answer::ok())) else {
        panic!("done")
    };
    assert!(status.is_success());
}

#[test]
fn annotations_restore_devices_after_a_restart() {
    let mut world = World::new(best_fit(), [gpu_node("n", 3)]);
    let devices_of =
        |world: &mut World, name: &str, milli| world.reserve(gpu_pod(name, milli), "n").unwrap().1;
    assert_eq!(devices_of(&mut world, "a", 300), "0");
    assert_eq!(devices_of(&mut world, "b", 1000), "1");
    for (name, milli, index) in [("a", 300, "0"), ("b", 1000, "1")] {
        world.place(annotated(gpu_pod(name, milli).on("n"), &world.plugin, index));
    }
    world.remove("a");
    world.plugin = best_fit();
    assert_eq!(devices_of(&mut world, "c", 2000), "0-2");
}

#[test]
fn pods_with_unknown_devices_still_take_devices() {
    let plugin = best_fit();
    let unreadable = ["", "x", "7", "0-1"];
    for index in unreadable {
        let there = annotated(gpu_pod("there", 700).on("n"), &plugin, index);
        let mut world = World::new(best_fit(), [gpu_node("n", 1)]);
        world.place(there);
        assert!(world.feasible(&gpu_pod("p", 301).build()).is_empty(), "{index}");
        assert_eq!(world.feasible(&gpu_pod("p", 300).build()), ["n"], "{index}");
    }
    // The pods request more than the node has, with or without annotations.
    let mut world = World::new(best_fit(), [gpu_node("n", 2)]);
    for name in ["a", "b", "c"] {
        world.place(annotated(gpu_pod(name, 900).on("n"), &plugin, "0"));
        world.place(gpu_pod(&format!("{name}-too"), 1_000_000_000).on("n").build());
    }
    assert!(world.feasible(&gpu_pod("p", 1).build()).is_empty());
}

#[test]
fn annotation_of_a_failed_attempt_is_ignored() {
    let mut world = World::new(best_fit(), [gpu_node("n", 2)]);
    let first = annotated(gpu_pod("first", 1000).on("n"), &world.plugin, "0");
    world.place(first);
    // An earlier attempt gave "p" device 0 of another node; now it is assumed here.
    let stale = annotated(gpu_pod("p", 1000).on("n"), &world.plugin, "0");
    world.place(stale.clone());
    let mut state = CycleState::new();
    let reserve = world.plugin.reserve.clone().unwrap();
    assert!(
        reserve
            .reserve(AttemptMut::new(&mut state, &stale, &handle(&world.cluster)), "n")
            .is_success()
    );
    assert_eq!(state.read::<Taken>().unwrap().devices(), [1]);
    assert!(world.feasible(&gpu_pod("q", 1).build()).is_empty());
}

#[test]
fn overlay_is_computed_separately() {
    let mut world = World::new(best_fit(), [gpu_node("n", 1)]);
    world.reserve(gpu_pod("there", 1000), "n").unwrap();
    let wanted = gpu_pod("p", 500).build();
    let mut state = CycleState::new();
    let plugin = &world.plugin;
    let handle = handle(&world.cluster);
    plugin
        .pre_filter
        .as_ref()
        .unwrap()
        .pre_filter(AttemptMut::new(&mut state, &wanted, &handle))
        .unwrap();
    let node = world.cluster.node(world.cluster.node_named("n").unwrap());
    let filter = plugin.filter.as_ref().unwrap();
    let passes = |node| filter.filter(&Attempt::new(&state, &wanted, &handle), &node).is_success();
    let mut without = Overlay::default();
    without.remove(&world.cluster, world.placed["there"]);
    assert!(!passes(node) && passes(node.with(&without)) && !passes(node));
    let mut nominated = without.clone();
    nominated.add(Arc::new(gpu_pod("nominated", 600).build()));
    assert!(!passes(node.with(&nominated)));
}

#[test]
fn hints_queue_pods_that_may_fit() {
    let harness = Harness::new(best_fit());
    let wanted = gpu_pod("p", 2000).build();
    let gone = |pod: PodBuilder| {
        let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
        harness.hint(&wanted, &event, EventObjects::Pod { old: Some(&pod.build()), new: None })
    };
    assert_eq!(gone(gpu_pod("x", 1).on("n")), Some(QueueingHint::Queue));
    assert_eq!(gone(gpu_pod("x", 1).nominated("n")), Some(QueueingHint::Queue));
    assert_eq!(gone(gpu_pod("x", 1)), Some(QueueingHint::Skip));
    assert_eq!(gone(pod("x").on("n")), Some(QueueingHint::Skip));
    let changed = |old: Option<u32>, new: u32, action| {
        let (old, new) = (old.map(|gpus| gpu_node("n", gpus).build()), gpu_node("n", new).build());
        let event = ClusterEvent::new(EventResource::Node, action);
        let objects = EventObjects::Node { old: old.as_ref(), new: Some(&new) };
        harness.hint(&wanted, &event, objects)
    };
    let (added, grown) = (ActionType::ADD, ActionType::UPDATE_NODE_ALLOCATABLE);
    assert_eq!(changed(None, 2, added), Some(QueueingHint::Queue));
    assert_eq!(changed(None, 1, added), Some(QueueingHint::Skip));
    assert_eq!(changed(Some(1), 2, grown), Some(QueueingHint::Queue));
    assert_eq!(changed(Some(4), 2, grown), Some(QueueingHint::Skip));
    assert_eq!(changed(Some(2), 2, ActionType::UPDATE_NODE_LABEL), None);
}

#[test]
fn invalid_arguments_are_named_in_the_error() {
    let error = |args| plugin(&PluginArgs::new(args)).map(|_| ()).unwrap_err();
    assert!(error(json!({"strategie": "BestFit"})).contains("unknown field `strategie`"));
    let workload = json!([{"requests": {"memory": "1GB"}, "popularity": 1}]);
    assert!(error(json!({"workload": workload})).contains("workload[0].requests[memory]"));
    assert_eq!(best_fit().args.unwrap()["fullNode"], json!({"cpus": 128, "gpus": 8}));
}

/// A change of a cluster.
#[derive(Debug, Clone)]
enum Step {
    /// A pod arrives and is placed if it fits.
    Arrive(i64),
    /// The annotation of a pod that is being bound arrives.
    Confirm(usize),
    /// The binding of a pod fails.
    Fail(usize),
    /// A pod is deleted.
    Leave(usize),
    /// A node is updated without a change.
    Touch(usize),
    /// The scheduler restarts: unbound pods are forgotten.
    Restart,
}

fn step() -> impl Values<Value = Step> {
    let milli = prop_oneof![4 => 1..1000_i64, 2 => (1..5_i64).prop_map(|gpus| gpus * 1000)];
    prop_oneof![
        10 => milli.prop_map(Step::Arrive),
        4 => any::<usize>().prop_map(Step::Confirm),
        2 => any::<usize>().prop_map(Step::Fail),
        4 => any::<usize>().prop_map(Step::Leave),
        2 => any::<usize>().prop_map(Step::Touch),
        1 => Just(Step::Restart),
    ]
}

/// A placed pod, as recorded by the test.
#[derive(Debug, Clone)]
struct Known {
    name: String,
    node: String,
    milli: i64,
    taken: Taken,
    confirmed: bool,
}

impl Known {
    fn pod(&self) -> PodBuilder {
        gpu_pod(&self.name, self.milli).on(&self.node)
    }
}

const NODES: [(&str, usize); 3] = [("one", 1), ("two", 2), ("four", 4)];

/// Returns the free amount of each device, computed from the results of Reserve.
fn free(known: &[Known]) -> BTreeMap<&str, Vec<i64>> {
    let mut free: BTreeMap<_, _> = NODES.map(|(node, gpus)| (node, vec![1000; gpus])).into();
    for pod in known {
        for device in pod.taken.devices() {
            free.get_mut(&*pod.node).unwrap()[*device] -= pod.milli.min(1000);
        }
    }
    free
}

fn fits(free: &[i64], milli: i64) -> bool {
    let devices = usize::try_from(milli / 1000).unwrap().max(1);
    free.iter().filter(|free| **free >= milli.min(1000)).count() >= devices
}

fn live(args: fn() -> Plugin, steps: &[Step]) {
    let nodes = || NODES.map(|(name, gpus)| gpu_node(name, u32::try_from(gpus).unwrap()));
    let mut world = World::new(args(), nodes());
    let mut known: Vec<Known> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let pick = |place: usize, known: &[Known], confirmed: Option<bool>| {
            let mut ready: Vec<usize> = (0..known.len()).collect();
            ready.retain(|ix| confirmed.is_none_or(|wanted| known[*ix].confirmed == wanted));
            (!ready.is_empty()).then(|| ready[place % ready.len()])
        };
        match *step {
            Step::Arrive(milli) => {
                let name = format!("p{number}");
                let pod = gpu_pod(&name, milli);
                let mut expected: Vec<_> = NODES.map(|(node, _)| node.to_owned()).into();
                expected.retain(|node| fits(&free(&known)[&**node], milli));
                assert_eq!(world.feasible(&pod.clone().build()), expected, "{milli}");
                let scores = world.scores(&pod.clone().build());
                let places = NODES
                    .iter()
                    .zip(scores)
                    .filter(|((name, _), _)| expected.iter().any(|node| node == name));
                let Some(((node, _), _)) = places.max_by_key(|(_, score)| *score) else {
                    continue;
                };
                let (state, _) = world.reserve(pod, node).unwrap();
                let taken = state.read::<Taken>().unwrap().clone();
                let node = (*node).to_owned();
                known.push(Known { name, node, milli, taken, confirmed: false });
                assert!(free(&known).values().flatten().all(|free| *free >= 0), "{known:?}");
            }
            Step::Confirm(place) => {
                let Some(ix) = pick(place, &known, Some(false)) else { continue };
                known[ix].confirmed = true;
                let index = known[ix].taken.to_string();
                world.place(annotated(known[ix].pod(), &world.plugin, &index));
            }
            Step::Fail(place) => {
                let Some(ix) = pick(place, &known, Some(false)) else { continue };
                let pod = known.remove(ix).pod().build();
                world.undo(&pod, &mut CycleState::new());
            }
            Step::Leave(place) => {
                let Some(ix) = pick(place, &known, None) else { continue };
                world.remove(&known.remove(ix).name);
            }
            Step::Touch(place) => {
                let [one, two, four] = nodes();
                let node = [one, two, four].into_iter().nth(place % 3).unwrap();
                world.cluster.set_node(&node.build());
            }
            Step::Restart => {
                world.plugin = args();
                let (confirmed, on_their_way) = known.into_iter().partition(|pod| pod.confirmed);
                known = confirmed;
                let on_their_way: Vec<Known> = on_their_way;
                on_their_way.iter().for_each(|pod| world.remove(&pod.name));
            }
        }
    }
}

proptest! {
    #[test]
    fn no_device_is_allocated_twice(steps in prop::collection::vec(step(), 0..60)) {
        live(best_fit, &steps);
        live(gradient, &steps);
    }
}
