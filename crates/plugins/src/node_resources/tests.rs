//! Worked examples of both plugins, and comparisons with an oracle on random clusters.

use std::sync::Arc;

use framework::{
    ActionType, Attempt, AttemptMut, Cluster, Code, CpuMemory, CycleState, EventObjects,
    EventResource, GroupPlacement, Node, NodeIx, PerNode, PlacedGroup, Plugin, PluginArgs,
    PluginGates, Pod, PodGroupKey, PodRequests, Prospect, ProspectiveGroup, QueueingHint,
    Resources, Status, Verdicts, api, is_extended_resource_name,
};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};
use testkit::{NodeBuilder, PodBuilder, SetJson, cluster, handle, node, pod};

use super::{balanced_allocation, fit};
use crate::arbitrary::{self, World, history};
use crate::forms;

const GPU: &str = "example.com/gpu";

fn fit(args: Value) -> Plugin {
    fit::plugin(&PluginArgs::new(args)).unwrap()
}

fn fit_by(kind: &str, resources: Value, ratio: Value) -> Plugin {
    let strategy = json!({"type": kind, "resources": resources, "requestedToCapacityRatio": ratio});
    fit(json!({"scoringStrategy": strategy}))
}

fn balanced(resources: Value) -> Plugin {
    balanced_allocation::plugin(&PluginArgs::new(json!({"resources": resources}))).unwrap()
}

fn shape(points: &[(i32, i32)]) -> Value {
    let point =
        |(utilization, score): &(i32, i32)| json!({"utilization": utilization, "score": score});
    json!({"shape": points.iter().map(point).collect::<Vec<_>>()})
}

/// Returns a node with this allocatable and 110 pod slots.
fn node_with(amounts: &[(&str, &str)]) -> NodeBuilder {
    let bare = node("n").with(|node| node.status.allocatable.clear()).allocatable("pods", "110");
    amounts.iter().fold(bare, |node, (name, amount)| node.allocatable(name, amount))
}

fn pod_with(amounts: &[(&str, &str)]) -> PodBuilder {
    amounts.iter().fold(pod("p"), |pod, (name, amount)| pod.request(name, amount))
}

/// Returns the verdict of all forms on the only node.
#[track_caller]
fn verdict(plugin: &Plugin, node: NodeBuilder, placed: &[Pod], pod: &Pod) -> (Code, String) {
    let cluster = cluster([node.build()], placed.iter().cloned());
    let mut state = CycleState::new();
    plugin
        .pre_filter
        .as_ref()
        .unwrap()
        .pre_filter(AttemptMut::new(&mut state, pod, &handle(&cluster)))
        .unwrap();
    let (ix, filter) = (NodeIx::new(0), plugin.filter.as_ref().unwrap());
    let status = filter.filter(&Attempt::new(&state, pod, &handle(&cluster)), &cluster.node(ix));
    let mut nodes = cluster.nodes().clone();
    filter.filter_set(&Attempt::new(&state, pod, &handle(&cluster)), &mut nodes).unwrap();
    assert_eq!(nodes.contains(ix), status.is_success());
    let mut verdicts = Verdicts::with_len(1);
    filter.explain_set(
        &Attempt::new(&state, pod, &handle(&cluster)),
        cluster.nodes(),
        &mut verdicts,
    );
    assert_eq!(*verdicts.get(ix), status);
    (status.code(), status.message())
}

/// Returns the score of both forms for the only node.
#[track_caller]
fn score(plugin: &Plugin, node: NodeBuilder, placed: &[Pod], pod: &Pod) -> i64 {
    let cluster = cluster([node.build()], placed.iter().cloned());
    let (nodes, state) = ([NodeIx::new(0)], CycleState::new());
    let plugin = plugin.score.as_ref().unwrap();
    let score = plugin
        .score(&Attempt::new(&state, pod, &handle(&cluster)), &cluster.node(nodes[0]))
        .unwrap();
    let mut scores = [-1];
    plugin
        .score_set(&Attempt::new(&state, pod, &handle(&cluster)), PerNode::new(&nodes, &mut scores))
        .unwrap();
    assert_eq!(scores, [score]);
    score
}

#[test]
fn node_fits_if_all_requests_are_free() {
    let one_pod =
        || node_with(&[("cpu", "4"), ("memory", "10"), (GPU, "5")]).allocatable("pods", "1");
    let roomy = || one_pod().allocatable("pods", "110");
    let placed = |amounts: &[(&str, &str)]| pod_with(amounts).on("n").build();
    let full = [placed(&[("cpu", "4"), ("memory", "10"), (GPU, "5")])];
    let over = [placed(&[("cpu", "9")])];
    let (success, unschedulable, unresolvable) =
        (Code::Success, Code::Unschedulable, Code::UnschedulableAndUnresolvable);
    let rows: [(NodeBuilder, &[Pod], PodBuilder, Code, &str); 11] = [
        (roomy(), &[], pod_with(&[("cpu", "4"), ("memory", "10")]), success, ""),
        (roomy(), &[], pod_with(&[(GPU, "6")]), unresolvable, "Insufficient example.com/gpu"),
        (roomy(), &full, pod_with(&[(GPU, "1")]), unschedulable, "Insufficient example.com/gpu"),
        (roomy(), &full, pod_with(&[("cpu", "0"), (GPU, "0")]), success, ""),
        (roomy(), &over, pod_with(&[("memory", "1"), ("cpu", "0")]), success, ""),
        (roomy(), &over, pod_with(&[("cpu", "1m")]), unschedulable, "Insufficient cpu"),
        (one_pod(), &full, pod("p"), unschedulable, "Too many pods"),
        (
            one_pod(),
            &full,
            pod_with(&[("cpu", "5")]),
            unresolvable,
            "Too many pods, Insufficient cpu",
        ),
        (one_pod().allocatable("pods", "0"), &[], pod("p"), unschedulable, "Too many pods"),
        (
            node_with(&[]),
            &[],
            pod_with(&[("cpu", "1"), ("memory", "1"), ("ephemeral-storage", "1"), (GPU, "1")]),
            unresolvable,
            "Insufficient cpu, Insufficient memory, Insufficient ephemeral-storage, \
             Insufficient example.com/gpu",
        ),
        (roomy(), &[], pod_with(&[("unheard-of", "7")]), success, ""),
    ];
    for (node, placed, pod, code, message) in rows {
        let pod = pod.build();
        let verdict = verdict(&fit(json!({})), node, placed, &pod);
        assert_eq!(verdict, (code, message.to_owned()), "{:?}", pod.requests.fit);
    }
}

#[test]
fn only_extended_resources_can_be_ignored() {
    let ignoring = fit(json!({
        "ignoredResources": ["a.io/x", "hugepages-2Mi", "cpu"],
        "ignoredResourceGroups": ["b.io", "sub.kubernetes.io"],
    }));
    let rows = [
        ("a.io/x", true),
        ("a.io/y", false),
        ("b.io/z", true),
        ("c.b.io/z", false),
        ("hugepages-2Mi", false),
        ("sub.kubernetes.io/w", false),
        ("cpu", false),
    ];
    for (name, ignored) in rows {
        let pod = pod_with(&[(name, "1")]).build();
        let (code, _) = verdict(&ignoring, node_with(&[]), &[], &pod);
        assert_eq!(code == Code::Success, ignored, "{name}");
    }
}

#[test]
fn filter_without_pre_filter_is_an_error() {
    let (plugin, pod) = (fit(json!({})), pod("p").build());
    let cluster = cluster([node("n").build()], []);
    let filter = plugin.filter.as_ref().unwrap();
    let status = filter.filter(
        &Attempt::new(&CycleState::new(), &pod, &handle(&cluster)),
        &cluster.node(NodeIx::new(0)),
    );
    assert_eq!(status.code(), Code::Error);
    let mut nodes = cluster.nodes().clone();
    assert_eq!(
        filter.filter_set(&Attempt::new(&CycleState::new(), &pod, &handle(&cluster)), &mut nodes),
        Err(status)
    );
}

#[test]
fn strategies_score_the_worked_examples() {
    let node = || node_with(&[("cpu", "4"), ("memory", "10000"), (GPU, "4")]);
    let pod = pod_with(&[("cpu", "3"), ("memory", "5000")]).build();
    let both = || json!([{"name": "cpu"}, {"name": "memory"}]);
    let heavy = json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 2}]);
    let falling = || shape(&[(0, 10), (100, 0)]);
    let rows = [
        ("LeastAllocated", both(), json!(null), 37),
        ("LeastAllocated", heavy, json!(null), 41),
        ("MostAllocated", both(), json!(null), 62),
        ("RequestedToCapacityRatio", both(), falling(), 38),
        // A score leaves out resources that the node lacks, and scalars that the pod does not
        // request.
        (
            "LeastAllocated",
            json!([{"name": "cpu"}, {"name": "ephemeral-storage"}]),
            json!(null),
            25,
        ),
        ("LeastAllocated", json!([{"name": "cpu"}, {"name": GPU}]), json!(null), 25),
        ("MostAllocated", json!([{"name": GPU}, {"name": "nothing"}]), json!(null), 0),
    ];
    for (kind, resources, ratio, expected) in rows {
        let plugin = fit_by(kind, resources.clone(), ratio);
        assert_eq!(score(&plugin, node(), &[], &pod), expected, "{kind} of {resources}");
    }
    let rising = fit_by("RequestedToCapacityRatio", both(), shape(&[(0, 0), (100, 10)]));
    let idle = pod_with(&[("cpu", "0"), ("memory", "5000")]).build();
    assert_eq!(score(&rising, node(), &[], &idle), 50, "a resource rated 0 does not count");
    let least = fit_by("LeastAllocated", json!([{"name": "cpu"}]), json!(null));
    let level = pod_with(&[("memory", "1")]).with(|pod| {
        let requests = [("cpu".to_owned(), api::QuantityText("4".to_owned()))].into();
        pod.spec.resources = Some(api::ResourceRequirements { requests, ..Default::default() });
    });
    assert_eq!(score(&least, node(), &[], &level.build()), 97, "pod-level requests do not count");
}

#[test]
fn balance_scores_the_worked_examples() {
    let both = || json!([{"name": "cpu"}, {"name": "memory"}]);
    let three = json!([{"name": "cpu"}, {"name": "memory"}, {"name": GPU}]);
    let pod = || pod_with(&[("cpu", "3"), ("memory", "5000")]).build();
    let placed = |amounts: &[(&str, &str)]| [pod_with(amounts).on("n").build()];
    let small = || node_with(&[("cpu", "4"), ("memory", "10000")]);
    assert_eq!(score(&balanced(both()), small(), &[], &pod()), 68);
    let large = node_with(&[("cpu", "10"), ("memory", "20000")]);
    assert_eq!(score(&balanced(both()), large, &placed(&[("cpu", "3")]), &pod()), 73);
    let with_gpus = node_with(&[("cpu", "3500m"), ("memory", "40000"), (GPU, "8")]);
    let before = placed(&[("cpu", "3"), ("memory", "5000"), (GPU, "3")]);
    let gpu = pod_with(&[(GPU, "1")]).build();
    assert_eq!(score(&balanced(three), with_gpus, &before, &gpu), 75);
    assert_eq!(score(&balanced(json!([{"name": "cpu"}])), small(), &[], &pod()), 75);
    let full_of_cpu = placed(&[("cpu", "4")]);
    let memory = pod_with(&[("memory", "10000")]).build();
    assert_eq!(score(&balanced(both()), small(), &full_of_cpu, &memory), 100);
}

#[test]
fn balance_skips_pods_without_rated_requests() {
    let plugin = balanced(json!([{"name": "cpu"}, {"name": GPU}]));
    let cluster = cluster([node("n").build()], []);
    let pre_score = |pod: PodBuilder| {
        let mut state = CycleState::new();
        plugin
            .pre_score
            .as_ref()
            .unwrap()
            .pre_score(AttemptMut::new(&mut state, &pod.build(), &handle(&cluster)), &[])
    };
    assert!(pre_score(pod_with(&[("memory", "1Gi"), ("cpu", "0")])).is_skip());
    assert!(pre_score(pod_with(&[(GPU, "1")])).is_success());
    assert_eq!(score(&plugin, node("n"), &[], &pod_with(&[("memory", "1")]).build()), 0);
}

fn hint(
    plugin: &Plugin,
    pod: &PodBuilder,
    resource: EventResource,
    action: ActionType,
    objects: EventObjects<'_>,
) -> QueueingHint {
    forms::hint(plugin, &pod.clone().build(), resource, action, objects)
}

#[test]
fn deleted_or_shrunk_pod_requeues() {
    use QueueingHint::{Queue, Skip};
    let (plugin, waiting) = (fit(json!({})), pod_with(&[("cpu", "1"), (GPU, "1")]).uid("w"));
    let other = |amounts: &[(&str, &str)]| pod_with(amounts).uid("o");
    let gone = |old: PodBuilder| {
        let (old, action) = (old.build(), ActionType::DELETE);
        let objects = EventObjects::Pod { old: Some(&old), new: None };
        hint(&plugin, &waiting, EventResource::Pod, action, objects)
    };
    assert_eq!(gone(other(&[]).on("n")), Queue);
    assert_eq!(gone(other(&[]).nominated("n")), Queue);
    assert_eq!(gone(other(&[("cpu", "1")])), Skip);
    let shrunk = |old: PodBuilder, new: PodBuilder| {
        let (old, new, action) = (old.build(), new.build(), ActionType::UPDATE_POD_SCALE_DOWN);
        let objects = EventObjects::Pod { old: Some(&old), new: Some(&new) };
        hint(&plugin, &waiting, EventResource::AssignedPod, action, objects)
    };
    assert_eq!(shrunk(waiting.clone().cpu("2"), waiting.clone()), Queue);
    assert_eq!(shrunk(other(&[("cpu", "2")]), other(&[("cpu", "1")])), Skip);
    assert_eq!(shrunk(other(&[("cpu", "2")]).on("n"), other(&[("cpu", "1")]).on("n")), Queue);
    assert_eq!(shrunk(other(&[(GPU, "2")]).on("n"), other(&[]).on("n")), Queue);
    assert_eq!(shrunk(other(&[("memory", "2")]).on("n"), other(&[]).on("n")), Skip);
}

#[test]
fn new_or_grown_node_requeues_if_the_pod_fits_it_empty() {
    use QueueingHint::{Queue, Skip};
    let waiting = pod_with(&[("cpu", "2"), (GPU, "1")]);
    let with = |cpu: &str, gpus: &str| node_with(&[("cpu", cpu), (GPU, gpus)]);
    let rows = [
        (None, with("2", "1"), Queue),
        (None, with("1", "1"), Skip),
        (None, with("2", "1").allocatable("pods", "0"), Skip),
        (Some(with("1", "1")), with("2", "1"), Queue),
        (Some(with("4", "0")), with("2", "1"), Queue),
        (Some(with("4", "1")), with("2", "1").allocatable("memory", "1Gi"), Skip),
        (Some(with("4", "1")), with("2", "1").allocatable("pods", "111"), Queue),
        (Some(with("1", "1")), with("2", "0"), Skip),
    ];
    for (old, new, expected) in rows {
        let (old, new) = (old.map(NodeBuilder::build), new.build());
        let action =
            if old.is_some() { ActionType::UPDATE_NODE_ALLOCATABLE } else { ActionType::ADD };
        let objects = EventObjects::Node { old: old.as_ref(), new: Some(&new) };
        let hint = hint(&fit(json!({})), &waiting, EventResource::Node, action, objects);
        assert_eq!(hint, expected, "{old:?} {new:?}");
    }
}

#[test]
fn ignored_resource_does_not_prevent_requeueing() {
    let waiting = pod_with(&[("cpu", "2"), (GPU, "1")]);
    let new = node_with(&[("cpu", "2")]).build();
    let objects = EventObjects::Node { old: None, new: Some(&new) };
    let hint = |args| hint(&fit(args), &waiting, EventResource::Node, ActionType::ADD, objects);
    assert_eq!(hint(json!({})), QueueingHint::Skip);
    assert_eq!(hint(json!({"ignoredResources": [GPU]})), QueueingHint::Queue);
    assert_eq!(hint(json!({"ignoredResourceGroups": ["example.com"]})), QueueingHint::Queue);
}

#[test]
fn device_class_of_a_requested_resource_requeues() {
    use QueueingHint::{Queue, Skip};
    let class = |extended: Option<&str>| {
        let spec = json!({"extendedResourceName": extended});
        json!({"metadata": {"name": "gpu"}, "spec": spec})
    };
    let hint = |requested: &str, old: Option<Value>, new: Value| {
        let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
        let decoded = |json: Value| testkit::object(EventResource::DeviceClass, json);
        let (old, new) = (old.map(decoded), decoded(new));
        let objects = EventObjects::Other { old: old.as_ref(), new: Some(&new) };
        let pod = pod_with(&[(requested, "1")]);
        hint(&fit(json!({})), &pod, EventResource::DeviceClass, action, objects)
    };
    let implicit = "deviceclass.resource.kubernetes.io/gpu";
    assert_eq!(hint("cpu", None, class(None)), Skip);
    assert_eq!(hint(implicit, None, class(None)), Queue);
    assert_eq!(hint(implicit, Some(class(None)), class(Some("a.io/b"))), Skip);
    assert_eq!(hint(GPU, None, class(Some(GPU))), Queue);
    assert_eq!(hint(GPU, Some(class(None)), class(Some(GPU))), Queue);
    assert_eq!(hint(GPU, Some(class(Some(GPU))), class(Some(GPU))), Skip);
    assert_eq!(hint(GPU, Some(class(Some(GPU))), class(None)), Skip);
}

/// A node that offers the resource itself decides by its amount; the others are left to devices,
/// whatever the pod requests.
#[test]
fn resource_of_a_device_class_is_left_to_devices_on_nodes_without_it() {
    let class = json!({
        "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU},
    });
    let nodes = [("none", None), ("few", Some("1")), ("many", Some("4"))];
    let nodes = nodes.map(|(name, gpus)| {
        let node = node(name);
        gpus.map_or_else(|| node.clone(), |gpus| node.clone().allocatable(GPU, gpus)).build()
    });
    let mut cluster = cluster(nodes, []);
    let off = PluginGates { extended_resources: false, ..PluginGates::default() };
    let off = fit::plugin(&PluginArgs::default().with_gates(off)).unwrap();
    let has_event = |plugin: &Plugin| {
        let mut events = plugin.events.as_ref().unwrap().iter();
        events.any(|own| own.event.resource == EventResource::DeviceClass)
    };
    let on = fit(json!({}));
    assert!(has_event(&on) && !has_event(&off));
    let pod = pod_with(&[(GPU, "2")]).build();
    let feasible = |plugin: &Plugin, cluster: &Cluster| {
        let mut state = CycleState::new();
        plugin
            .pre_filter
            .as_ref()
            .unwrap()
            .pre_filter(AttemptMut::new(&mut state, &pod, &handle(cluster)))
            .unwrap();
        let filter = plugin.filter.as_ref().unwrap();
        let mut kept = cluster.nodes().clone();
        filter.filter_set(&Attempt::new(&state, &pod, &handle(cluster)), &mut kept).unwrap();
        for node in cluster.nodes().iter() {
            let status =
                filter.filter(&Attempt::new(&state, &pod, &handle(cluster)), &cluster.node(node));
            assert_eq!(kept.contains(node), status.is_success(), "{status:?}");
        }
        kept.iter().map(|node| cluster.node_name(node).to_string()).collect::<Vec<_>>()
    };
    assert_eq!(feasible(&on, &cluster), ["many"]);
    cluster.set_json(&EventResource::DeviceClass, "", "gpu", Some(class.into()));
    assert_eq!(feasible(&on, &cluster), ["none", "many"]);
    assert_eq!(feasible(&off, &cluster), ["many"], "DRAExtendedResource is off");
}

/// Returns one amount by its Kubernetes name.
fn amount(resources: &Resources, name: &str) -> i64 {
    match name {
        "cpu" => resources.milli_cpu,
        "memory" => resources.memory,
        "ephemeral-storage" => resources.ephemeral_storage,
        _ => resources.scalar(name),
    }
}

/// Returns allocatable of a node and the requests of its pods.
fn amounts(world: &World, node: &api::Node, name: &str, non_zero: bool) -> (i64, i64) {
    let requested = world.pods_on(&node.metadata.name).map(|pod| {
        let requests = Pod::from_api(pod).requests;
        match name {
            "cpu" if non_zero => requests.placed_non_zero.milli_cpu,
            "memory" if non_zero => requests.placed_non_zero.memory,
            _ => amount(&requests.placed, name),
        }
    });
    (amount(&Node::from_api(node).0.allocatable, name), requested.sum())
}

/// Implements the filter rule, resource by resource.
fn filter_oracle(world: &World, pod: &api::Pod, node: &api::Node, ignored: &[&str]) -> Status {
    let requests = Pod::from_api(pod).requests.fit.clone();
    let mut reasons = Vec::new();
    let mut unresolvable = false;
    let pods = world.pods_on(&node.metadata.name).count();
    if pods as i64 + 1 > Node::from_api(node).0.allowed_pods {
        reasons.push("Too many pods".into());
    }
    let scalars: Vec<&str> = requests.scalars.iter().map(|(name, _)| &**name).collect();
    for name in ["cpu", "memory", "ephemeral-storage"].into_iter().chain(scalars) {
        let (allocatable, requested) = amounts(world, node, name, false);
        let request = amount(&requests, name);
        let group = name.split('/').next().unwrap();
        let is_ignored = is_extended_resource_name(name)
            && (ignored.contains(&name) || ignored.contains(&group));
        if request > 0 && !is_ignored && request > allocatable - requested {
            reasons.push(format!("Insufficient {name}").into());
            unresolvable |= request > allocatable;
        }
    }
    match (reasons.is_empty(), unresolvable) {
        (true, _) => Status::success(),
        (_, true) => Status::with_reasons(Code::UnschedulableAndUnresolvable, reasons),
        (_, false) => Status::with_reasons(Code::Unschedulable, reasons),
    }
}

/// Returns allocatable, requested without and with the pod, and weight of each counting resource.
fn rated(
    world: &World,
    requests: &Resources,
    node: &api::Node,
    resources: &[(&str, i64)],
    non_zero: bool,
) -> Vec<(i64, i64, i64, i64)> {
    let scalar = |name: &str| !["cpu", "memory", "ephemeral-storage"].contains(&name);
    resources
        .iter()
        .filter(|(name, _)| !scalar(name) || amount(requests, name) != 0)
        .map(|(name, weight)| {
            let (allocatable, requested) = amounts(world, node, name, non_zero);
            (allocatable, requested, requested + amount(requests, name), *weight)
        })
        .filter(|(allocatable, ..)| *allocatable != 0)
        .collect()
}

/// Implements the three strategies.
fn fit_oracle(kind: &str, points: &[(i32, i32)], rated: &[(i64, i64, i64, i64)]) -> i64 {
    let least = |cap: i64, asked: i64| if asked > cap { 0 } else { (cap - asked) * 100 / cap };
    let most = |cap: i64, asked: i64| asked.min(cap) * 100 / cap;
    let ratio = |cap: i64, asked: i64| {
        let used = if asked > cap { 100 } else { asked * 100 / cap };
        let line: Vec<_> =
            points.iter().map(|(x, y)| (i64::from(*x), i64::from(*y) * 10)).collect();
        match line.iter().position(|(x, _)| used <= *x) {
            None => line.last().unwrap().1,
            Some(0) => line[0].1,
            Some(i) => {
                let ((x0, y0), (x1, y1)) = (line[i - 1], line[i]);
                y0 + ((y1 - y0) * (used - x0)) / (x1 - x0)
            }
        }
    };
    let by_ratio = kind == "RequestedToCapacityRatio";
    let ratings = rated.iter().map(|(cap, _, asked, weight)| match kind {
        "LeastAllocated" => (least(*cap, *asked), *weight),
        "MostAllocated" => (most(*cap, *asked), *weight),
        _ => (ratio(*cap, *asked), *weight),
    });
    let counted: Vec<_> = ratings.filter(|(rating, _)| !by_ratio || *rating > 0).collect();
    let sum: i64 = counted.iter().map(|(rating, weight)| rating * weight).sum();
    let weights: i64 = counted.iter().map(|(_, weight)| weight).sum();
    match (weights, by_ratio) {
        (0, _) => 0,
        (_, true) => (sum as f64 / weights as f64).round() as i64,
        (_, false) => sum / weights,
    }
}

/// Implements the balance rule of 1.36.
fn balance_oracle(rated: &[(i64, i64, i64, i64)]) -> i64 {
    let balance = |requested: fn(&(i64, i64, i64, i64)) -> i64| {
        let fraction = |rated| (requested(rated) as f64 / rated.0 as f64).min(1.0);
        let f: Vec<f64> = rated.iter().map(fraction).collect();
        let n = f.len() as f64;
        let deviation = match f.len() {
            0 | 1 => 0.0,
            2 => ((f[0] - f[1]) / 2.0).abs(),
            _ => {
                let mut total = 0.0;
                f.iter().for_each(|fraction| total += fraction);
                let mean = total / n;
                let mut squares = 0.0;
                f.iter().for_each(|fraction| squares += (fraction - mean) * (fraction - mean));
                (squares / n).sqrt()
            }
        };
        ((1.0 - deviation) * 100.0) as i64
    };
    50 + (50 + balance(|rated| rated.2) - balance(|rated| rated.1)) / 2
}

/// Generates amounts of every magnitude, including values next to powers of two and to the limits.
pub(super) fn any_amount() -> impl Strategy<Value = i64> {
    let near_power = (0_u32..63, -2_i64..3)
        .prop_map(|(power, offset)| (1_i64 << power).saturating_add(offset).max(0));
    let any = (0_u32..63, 0..i64::MAX).prop_map(|(shift, amount)| amount >> shift);
    prop_oneof![Just(0), Just(i64::MAX), near_power, any]
}

/// Generates mostly realistic amounts, so that some blocks contain no extreme values.
fn resources() -> impl Strategy<Value = Resources> {
    let amount = || prop_oneof![30 => 0_i64..1 << 40, 1 => any_amount()];
    let gpus = prop::option::of(prop_oneof![30 => 0_i64..9, 1 => any_amount()]);
    (amount(), amount(), amount(), gpus).prop_map(|(milli_cpu, memory, ephemeral_storage, gpus)| {
        let scalars = gpus.into_iter().map(|gpus| (GPU.into(), gpus)).collect();
        Resources { milli_cpu, memory, ephemeral_storage, scalars }
    })
}

fn pod_of(requests: &Resources) -> Pod {
    let requested = CpuMemory { milli_cpu: requests.milli_cpu, memory: requests.memory };
    let requests = PodRequests {
        fit: requests.clone(),
        score: requests.clone(),
        placed: requests.clone(),
        placed_non_zero: requested,
        by_container: None,
    };
    Pod { requests: requests.into(), ..pod("p").build() }
}

/// Builds nodes with these amounts, each with two pods of this request.
fn cluster_of(rows: &[(Resources, Resources)]) -> Cluster {
    let mut cluster = Cluster::default();
    for (number, (allocatable, requests)) in rows.iter().enumerate() {
        let name = format!("n{number}");
        let node = Node { allocatable: allocatable.clone(), ..node(&name).build() };
        cluster.set_node(&node);
        for _ in 0..2 {
            cluster.place_pod(pod_of(requests).into(), &name);
        }
    }
    cluster
}

const NAMES: [&str; 6] = ["cpu", "memory", "ephemeral-storage", GPU, "hugepages-2Mi", "unheard"];

fn rated_resources() -> impl Strategy<Value = Vec<(&'static str, i64)>> {
    let weighted = |names: Vec<&'static str>| {
        let weights = prop::collection::vec(1_i64..=100, names.len());
        (Just(names).prop_shuffle(), weights)
            .prop_map(|(names, weights)| names.into_iter().zip(weights).collect())
    };
    prop_oneof![
        Just(vec![("cpu", 1), ("memory", 1)]),
        subsequence(NAMES.to_vec(), 1..=NAMES.len()).prop_flat_map(weighted),
    ]
}

fn specs(resources: &[(&str, i64)]) -> Value {
    let spec = |(name, weight): &(&str, i64)| json!({"name": name, "weight": weight});
    resources.iter().map(spec).collect()
}

fn points() -> impl Strategy<Value = Vec<(i32, i32)>> {
    prop::collection::btree_map(0..=100, 0..=10, 1..5)
        .prop_map(|points| points.into_iter().collect())
}

proptest! {
    #![proptest_config(forms::config())]

    #[test]
    fn filter_agrees_with_the_oracle(
        history in history(),
        pod in arbitrary::pod(),
        choice: u64,
        ignored in subsequence(vec![GPU, "hugepages-2Mi"], 0..=2),
        groups in subsequence(vec!["example.com"], 0..=1),
    ) {
        let world = history.replay();
        let plugin = fit(json!({"ignoredResources": ignored, "ignoredResourceGroups": groups}));
        let ignored: Vec<_> = ignored.into_iter().chain(groups).collect();
        forms::check_filter(&plugin, &world, &pod, choice, |node| {
            filter_oracle(&world, &pod, node, &ignored)
        });
    }

    #[test]
    fn strategies_agree_with_the_oracle(
        history in history(),
        pod in arbitrary::pod(),
        choice: u64,
        kind in select(vec!["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]),
        resources in rated_resources(),
        points in points(),
    ) {
        let world = history.replay();
        let ratio = if kind == "RequestedToCapacityRatio" { shape(&points) } else { json!(null) };
        let plugin = fit_by(kind, specs(&resources), ratio);
        let requests = Pod::from_api(&pod).requests;
        forms::check_score(&plugin, &world, &pod, choice, |node| {
            fit_oracle(kind, &points, &rated(&world, &requests.score, node, &resources, true))
        });
    }

    #[test]
    fn balance_agrees_with_the_oracle(
        history in history(),
        pod in arbitrary::pod(),
        choice: u64,
        resources in rated_resources(),
    ) {
        let world = history.replay();
        let resources: Vec<_> = resources.into_iter().map(|(name, _)| (name, 1)).collect();
        let requests = Pod::from_api(&pod).requests;
        let unrequested = resources.iter().all(|(name, _)| amount(&requests.placed, name) == 0);
        forms::check_score(&balanced(specs(&resources)), &world, &pod, choice, |node| {
            let rated = rated(&world, &requests.placed, node, &resources, false);
            if unrequested { 0 } else { balance_oracle(&rated) }
        });
    }
}

proptest! {
    #[test]
    fn forms_agree_on_extreme_amounts(
        rows in prop::collection::vec((resources(), resources()), 1..200),
        requests in resources(),
        resources in rated_resources(),
        points in points(),
    ) {
        let (cluster, pod) = (cluster_of(&rows), pod_of(&requests));
        let mut state = CycleState::new();
        let filtering = fit(json!({}));
        filtering.pre_filter.unwrap().pre_filter(AttemptMut::new(&mut state, &pod, &handle(&cluster))).unwrap();
        let (filter, mut fitting) = (filtering.filter.unwrap(), cluster.nodes().clone());
        filter.filter_set(&Attempt::new(&state, &pod, &handle(&cluster)), &mut fitting).unwrap();
        let nodes: Vec<_> = cluster.nodes().iter().collect();
        for node in &nodes {
            let status = filter.filter(&Attempt::new(&state, &pod, &handle(&cluster)), &cluster.node(*node));
            prop_assert_eq!(fitting.contains(*node), status.is_success());
        }
        let specs = specs(&resources);
        for plugin in [
            fit_by("LeastAllocated", specs.clone(), json!(null)),
            fit_by("MostAllocated", specs.clone(), json!(null)),
            fit_by("RequestedToCapacityRatio", specs, shape(&points)),
            balanced(resources.iter().map(|(name, _)| json!({"name": name})).collect()),
        ] {
            let score = plugin.score.unwrap();
            let mut scores = vec![-1; nodes.len()];
            score.score_set(&Attempt::new(&state, &pod, &handle(&cluster)), PerNode::new(&nodes, &mut scores)).unwrap();
            for (node, from_set) in nodes.iter().zip(scores) {
                let from_node = score.score(&Attempt::new(&state, &pod, &handle(&cluster)), &cluster.node(*node)).unwrap();
                prop_assert_eq!(from_set, from_node, "{} on {:?}", plugin.name, rows[node.index()]);
                prop_assert!((0..=100).contains(&from_set));
            }
        }
    }
}

/// Returns the bound of how many such pods fit on the only node.
fn room(plugin: &Plugin, node: NodeBuilder, placed: &[Pod], pod: &Pod) -> i64 {
    let cluster = cluster([node.build()], placed.iter().cloned());
    let (nodes, mut room) = ([NodeIx::new(0)], [1000]);
    let rooms = PerNode::new(&nodes, &mut room);
    plugin.pod_room.as_ref().unwrap().pod_room(pod, &handle(&cluster), rooms);
    room[0]
}

#[test]
fn room_is_what_is_free_divided_by_the_requests() {
    let plugin = fit(json!({"ignoredResources": ["example.com/ignored"]}));
    let four = || node_with(&[("cpu", "4"), ("memory", "8Gi"), (GPU, "3")]);
    let rows: [(&[(&str, &str)], i64); 7] = [
        (&[("cpu", "1")], 4),
        (&[("cpu", "1500m"), ("memory", "1Gi")], 2),
        (&[("cpu", "1"), (GPU, "1")], 3),
        (&[("cpu", "5")], 0),
        (&[("example.com/unknown", "1")], 0),
        (&[("example.com/ignored", "1")], 110),
        (&[], 110),
    ];
    for (amounts, expected) in rows {
        let pod = pod_with(amounts).build();
        assert_eq!(room(&plugin, four(), &[], &pod), expected, "{amounts:?}");
    }
    let placed = ["x", "y"].map(|name| pod(name).cpu("3").on("n").build());
    let pod = pod_with(&[("cpu", "1")]).build();
    assert_eq!(room(&plugin, four(), &placed[..1], &pod), 1);
    assert_eq!(room(&plugin, four(), &placed, &pod), 0, "the node is overcommitted");
}

#[test]
fn placement_is_scored_by_what_is_allocated_together() {
    let plugin = fit(json!({}));
    let score = plugin.placement_score.as_ref().unwrap();
    let nodes = ["a", "b"]
        .map(|name| node(name).allocatable("cpu", "4").allocatable("memory", "8Gi").build());
    let member = |name| Arc::new(pod(name).cpu("2").memory("2Gi").build());
    let members = [member("m"), member("n")];
    let mut cluster = cluster(nodes, [pod("x").cpu("1").memory("1Gi").on("a").build()]);
    let group = &PodGroupKey::new("default", "g");
    let placement =
        Arc::new(GroupPlacement { name: "r".into(), nodes: cluster.nodes().iter().collect() });
    let prospects = [Prospect { placement: placement.clone(), most: 2 }];
    let prospective = ProspectiveGroup { group, members: &members, prospects: &prospects };
    // 5 of 8 CPUs and 5 of 16 GiB.
    let limits = score.placement_score_limits(prospective, &handle(&cluster));
    assert_eq!(limits, Some(vec![(62 + 31) / 2]));
    let placed = PlacedGroup { group, placement: &placement, members: &members };
    let with = |cluster: &Cluster| score.placement_score(placed, &handle(cluster));
    assert_eq!(with(&cluster), Ok((12 + 6) / 2));
    cluster.place_pod(members[0].clone(), "b");
    assert_eq!(with(&cluster), Ok((37 + 18) / 2));
    cluster.place_pod(members[1].clone(), "a");
    assert_eq!(with(&cluster), Ok((62 + 31) / 2), "the limit is reached");
}
