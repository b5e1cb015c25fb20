use std::collections::BTreeMap;

use framework::testing::{PodBuilder, cluster, node, pod};
use framework::{Code, PendingPods, Time, Uid, WaitingPod};
use serde_json::{Value, json};

use super::*;
use crate::{catalogue, forms};

fn stand_in(name: &str) -> Plugin {
    plugin(catalogue::get(name).unwrap())
}

/// A pod with these fields of its spec.
fn with_spec(name: &str, fields: &Value) -> PodBuilder {
    pod(name).with(|api| {
        let mut spec = serde_json::to_value(&api.spec).unwrap();
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        api.spec = serde_json::from_value(spec).unwrap();
    })
}

fn anti_affinity(term: &Value) -> Value {
    json!({"affinity": {"podAntiAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn pre_filter(plugin: &Plugin, pod: &Pod, cluster: &Cluster) -> Status {
    let point = plugin.pre_filter.as_ref().unwrap();
    point.pre_filter(&mut CycleState::new(), pod, cluster).unwrap_err()
}

#[test]
fn pods_that_need_the_plugin_are_rejected_by_name() {
    let spread = |when| {
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": when}]})
    };
    let term = json!({"topologyKey": "zone", "labelSelector": {}});
    let affinity = json!({"affinity": {"podAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    let weighted = json!({"weight": 1, "podAffinityTerm": term});
    let preferred = json!({"affinity": {"podAffinity":
        {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}});
    let claim = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
    let ephemeral = json!({"volumes": [{"name": "v", "ephemeral": {}}]});
    let disk = json!({"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]});
    let devices = json!({"resourceClaims": [{"name": "r"}]});
    for (name, fields, needed) in [
        ("PodTopologySpread", &spread("DoNotSchedule"), true),
        ("PodTopologySpread", &spread("ScheduleAnyway"), false),
        ("InterPodAffinity", &affinity, true),
        ("InterPodAffinity", &anti_affinity(&term), true),
        ("InterPodAffinity", &preferred, false),
        ("VolumeBinding", &claim, true),
        ("VolumeBinding", &ephemeral, true),
        ("VolumeBinding", &disk, false),
        ("VolumeRestrictions", &disk, true),
        ("VolumeZone", &claim, false),
        ("NodeVolumeLimits", &claim, false),
        ("DynamicResources", &devices, true),
        ("DynamicResources", &json!({}), false),
    ] {
        let pod = with_spec("p", fields).build();
        let status = pre_filter(&stand_in(name), &pod, &Cluster::default());
        let code = if needed { Code::UnschedulableAndUnresolvable } else { Code::Skip };
        assert_eq!(status.code(), code, "{name} {fields}");
        let start = format!("plugin {name} is not built yet, and the pod has ");
        assert_eq!(status.message().starts_with(&start), needed, "{status:?}");
    }
}

#[test]
fn the_reason_names_plugin_and_need() {
    let constraint = json!({"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
    let pod = with_spec("p", &json!({"topologySpreadConstraints": [constraint]})).build();
    let expected = "plugin PodTopologySpread is not built yet, and the pod has DoNotSchedule \
                    topology spread constraints";
    let status = pre_filter(&stand_in("PodTopologySpread"), &pod, &Cluster::default());
    assert_eq!(status, Status::unresolvable(expected));
}

#[test]
fn anti_affinity_of_placed_pods_needs_the_plugin() {
    let web = || json!({"matchLabels": {"app": "web"}});
    for (term, needed) in [
        (json!({"topologyKey": "zone", "labelSelector": web()}), true),
        (json!({"topologyKey": "rack", "labelSelector": web()}), false),
        (json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}), false),
        (json!({"topologyKey": "zone", "labelSelector": web(), "namespaces": ["other"]}), false),
        (
            json!({"topologyKey": "zone", "labelSelector": web(),
                "namespaceSelector": {"matchLabels": {"team": "a"}}}),
            true,
        ),
    ] {
        let placed = with_spec("q", &anti_affinity(&term)).on("n").build();
        let cluster = cluster([node("n").label("zone", "a").build()], [placed]);
        let incoming = pod("p").label("app", "web").build();
        let status = pre_filter(&stand_in("InterPodAffinity"), &incoming, &cluster);
        assert_eq!(status.is_rejection(), needed, "{term}");
    }
}

#[test]
fn a_filter_without_its_pre_filter_is_as_strict() {
    let cluster = cluster([node("n").build()], []);
    let plugin = stand_in("DynamicResources");
    let filter = plugin.filter.as_ref().unwrap();
    let claiming = with_spec("p", &json!({"resourceClaims": [{"name": "r"}]})).build();
    let state = CycleState::new();
    for (pod, passes) in [(claiming, false), (pod("p").build(), true)] {
        let mut nodes = cluster.nodes().clone();
        filter.filter_set(&state, &pod, &cluster, &mut nodes).unwrap();
        assert_eq!(!nodes.is_empty(), passes);
        let view = cluster.node(cluster.node_named("n").unwrap());
        assert_eq!(filter.filter(&state, &pod, &view).is_success(), passes);
    }
}

#[test]
fn preemption_says_that_it_is_not_built() {
    let (cluster, mut commands) = (Cluster::default(), Vec::new());
    let waiting: BTreeMap<Uid, WaitingPod> = BTreeMap::new();
    let pending = PendingPods::new();
    let mut handle = Handle::new(&cluster, &waiting, &pending, &(), Time::ZERO, &mut commands);
    for (name, message) in [
        ("DefaultPreemption", "preemption: plugin DefaultPreemption is not built yet."),
        ("DynamicResources", ""),
    ] {
        let plugin = stand_in(name);
        let point = plugin.post_filter.as_ref().unwrap();
        let pod = pod("p").build();
        let result =
            point.post_filter(&mut CycleState::new(), &pod, &Verdicts::default(), &mut handle);
        assert_eq!(result.status.code(), Code::Unschedulable);
        assert_eq!(result.status.message(), message);
        assert_eq!(result.nominating, NominatingInfo::Noop);
    }
}

#[test]
fn a_repelled_pod_waits_for_the_repelling_one_to_go() {
    let plugin = stand_in("InterPodAffinity");
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}});
    let repelling = with_spec("q", &anti_affinity(&term)).on("n").build();
    let demanding = with_spec("p", &anti_affinity(&term)).label("app", "web").build();
    let repelled = pod("p").label("app", "web").build();
    let hint = |waiting: &Pod, action, old: Option<&Pod>, new: Option<&Pod>| {
        let objects = EventObjects::Pod { old, new };
        forms::hint(&plugin, waiting, EventResource::Pod, action, &objects)
    };
    let gone = |waiting: &Pod, old: &Pod| hint(waiting, ActionType::DELETE, Some(old), None);
    assert_eq!(gone(&repelled, &repelling), QueueingHint::Queue);
    assert_eq!(gone(&pod("p").build(), &repelling), QueueingHint::Skip);
    assert_eq!(gone(&repelled, &pod("q").on("n").build()), QueueingHint::Skip);
    assert_eq!(gone(&demanding, &repelling), QueueingHint::Skip);
    let node = |waiting: &Pod| {
        let objects = EventObjects::Node { old: None, new: None };
        let action = ActionType::UPDATE_NODE_LABEL;
        forms::hint(&plugin, waiting, EventResource::Node, action, &objects)
    };
    assert_eq!(node(&repelled), QueueingHint::Queue);
    assert_eq!(node(&demanding), QueueingHint::Skip);
    let relabelled = |new: &Pod| hint(&repelled, ActionType::UPDATE_POD_LABEL, None, Some(new));
    assert_eq!(relabelled(&repelled), QueueingHint::Queue);
    assert_eq!(relabelled(&repelling), QueueingHint::Skip);
}

#[test]
fn what_never_helps_is_registered_for_nothing() {
    for entry in catalogue::ALL.iter().filter(|entry| !entry.is_built()) {
        let events = plugin(entry).events.unwrap();
        assert_eq!(events.is_empty(), entry.name != "InterPodAffinity", "{}", entry.name);
    }
}

#[test]
fn ignored_preferences_are_named() {
    let term = json!({"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}});
    let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [term]});
    let soft = json!({"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"});
    let all = json!({
        "topologySpreadConstraints": [soft],
        "affinity": {"podAffinity": preferred, "podAntiAffinity": preferred},
    });
    let names = |pod: PodBuilder| ignored_preferences(&pod.build()).collect::<Vec<_>>();
    let expected = [
        "ScheduleAnyway topology spread constraints",
        "preferred pod affinity",
        "preferred pod anti-affinity",
    ];
    assert_eq!(names(with_spec("p", &all)), expected);
    assert!(names(pod("p")).is_empty());
}
