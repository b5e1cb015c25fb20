//! Every registered event of a plugin occurs in its scenarios, with both answers of its hint.

use std::collections::BTreeSet;

use framework::{ActionType, ClusterEvent, EventRegistration, PluginName};

use super::scenario::Scenario;
use super::world::{configuration, registry};
use super::{
    default_preemption, default_spread, dynamic_resources, inter_pod_affinity, node_affinity,
    node_declared_features, node_ports, node_resources_fit, node_unschedulable, node_volume_limits,
    nominated, pod_groups, pod_topology_spread, scheduling_gates, taint_toleration, volume_binding,
    volume_restrictions, volume_zone,
};

/// The single kinds of updates.
const UPDATES: [ActionType; 11] = [
    ActionType::UPDATE_NODE_ALLOCATABLE,
    ActionType::UPDATE_NODE_LABEL,
    ActionType::UPDATE_NODE_TAINT,
    ActionType::UPDATE_NODE_CONDITION,
    ActionType::UPDATE_NODE_ANNOTATION,
    ActionType::UPDATE_NODE_DECLARED_FEATURE,
    ActionType::UPDATE_POD_LABEL,
    ActionType::UPDATE_POD_SCALE_DOWN,
    ActionType::UPDATE_POD_TOLERATION,
    ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
];

/// Events of a plugin that cannot requeue a rejected pod (`true`), or cannot leave one (`false`).
const IMPOSSIBLE: [(&str, &str, bool); 15] = [
    // A pod that names its node is not queued.
    ("NodeName", "NodeAdd", true),
    ("NodeName", "NodeUpdateNodeTaint", true),
    // Any new node may help, and any change of features of a node.
    ("NodeDeclaredFeatures", "NodeAdd", false),
    ("NodeDeclaredFeatures", "NodeUpdateNodeDeclaredFeature", false),
    // Every deleted pod frees resources.
    ("NodeResourcesFit", "PodDelete", false),
    // The fields that decide on the features of a pod are immutable.
    ("NodeDeclaredFeatures", "PodUpdate", true),
    // SchedulingGates registers only updates of the pod itself; the event occurs when the last gate
    // is removed.
    ("SchedulingGates", "PodUpdatePodSchedulingGatesEliminated", false),
    // Their selectors are immutable, and no other field is read.
    ("PodTopologySpread", "apps/ReplicaSetUpdate", true),
    ("PodTopologySpread", "apps/ReplicaSetUpdate", false),
    ("PodTopologySpread", "apps/StatefulSetUpdate", true),
    ("PodTopologySpread", "apps/StatefulSetUpdate", false),
    // The hints always answer Queue, as in Kubernetes.
    ("VolumeBinding", "storage.k8s.io/CSINodeAdd", false),
    ("VolumeBinding", "storage.k8s.io/CSIStorageCapacityAdd", false),
    ("VolumeBinding", "storage.k8s.io/StorageClassAdd", false),
    ("VolumeZone", "PersistentVolumeAdd", false),
];

fn scenarios() -> Vec<Scenario> {
    let of_plugins = [
        default_preemption::scenarios,
        default_spread::scenarios,
        dynamic_resources::scenarios,
        inter_pod_affinity::scenarios,
        node_affinity::scenarios,
        node_declared_features::scenarios,
        node_ports::scenarios,
        node_resources_fit::scenarios,
        node_unschedulable::scenarios,
        node_volume_limits::scenarios,
        nominated::scenarios,
        pod_groups::scenarios,
        pod_topology_spread::scenarios,
        scheduling_gates::scenarios,
        taint_toleration::scenarios,
        volume_binding::scenarios,
        volume_restrictions::scenarios,
        volume_zone::scenarios,
    ];
    of_plugins.into_iter().flat_map(|scenarios| scenarios()).collect()
}

/// Returns the registered events of the plugins in the profile of this configuration.
fn registered(config: &str) -> Vec<(PluginName, EventRegistration)> {
    let profiles = configuration(config).build_profiles(&registry()).unwrap();
    profiles.iter().flat_map(|profile| profile.events.clone()).collect()
}

/// Returns the events of a registration. If a plugin registers all updates, one is enough.
fn events_of(registered: &ClusterEvent) -> Vec<ClusterEvent> {
    let event = |action: &ActionType| ClusterEvent::new(registered.resource.clone(), *action);
    let updates = match registered.matches(&event(&ActionType::UPDATE)) {
        true => &[ActionType::UPDATE][..],
        false => &UPDATES,
    };
    let all = [ActionType::ADD, ActionType::DELETE];
    let all = all.iter().chain(updates).map(event);
    all.filter(|event| registered.matches(event)).collect()
}

/// Returns which answers the events of a registration can have: without a hint only Queue.
fn answers_of(registration: &EventRegistration) -> &'static [bool] {
    if registration.hint.is_some() { &[true, false] } else { &[true] }
}

#[test]
fn every_registered_event_occurs_with_both_answers() {
    let scenarios = scenarios();
    let occurs = |plugin: &str, event: &ClusterEvent, tried: bool| {
        let mut rows =
            scenarios.iter().filter(|own| own.plugin == plugin).flat_map(Scenario::events);
        rows.any(|row| event.matches(row.0) && row.1 == tried)
    };
    let configs: BTreeSet<&str> = scenarios.iter().map(|scenario| scenario.config).collect();
    let mut missing = BTreeSet::new();
    for (plugin, registration) in configs.into_iter().flat_map(registered) {
        for event in events_of(&registration.event) {
            let answers = answers_of(&registration).iter();
            let unseen = answers.filter(|tried| !occurs(&plugin, &event, **tried));
            missing.extend(unseen.map(|tried| (plugin.to_string(), event.to_string(), *tried)));
        }
    }
    let impossible = IMPOSSIBLE.map(|(plugin, event, tried)| (plugin.into(), event.into(), tried));
    assert_eq!(missing, impossible.into());
}
