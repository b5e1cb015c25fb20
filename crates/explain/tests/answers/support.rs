//! What the tests have in common: objects, a simulated world, and questions to a copy of its
//! engine.

use std::sync::Arc;

use dry_run::{Limit, Object, Settings, State, World};
use engine::profile::{PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::queue::QueueConfig;
use engine::{Change, EngineConfig};
use explain::{ClusterCopy, Lab, PodAnswer, explain_pod, facts};
use framework::{EventResource, ObjectKey, Pod, PodKey};
use loadmaster_explain as explain;
use serde_json::{Value, json};
use testkit::PodBuilder;

pub(crate) fn object(
    kind: EventResource,
    namespace: &str,
    name: &str,
    mut object: Value,
) -> Object {
    object["metadata"]["name"] = json!(name);
    object["metadata"]["uid"] = json!(format!("uid-{name}"));
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    Object { kind, namespace: namespace.into(), name: name.into(), object: Arc::new(object) }
}

pub(crate) fn class(name: &str, mode: &str) -> Object {
    let spec = json!({"provisioner": "csi.example.com", "volumeBindingMode": mode});
    object(EventResource::StorageClass, "", name, spec)
}

pub(crate) fn claim(name: &str, class: &str, modes: &[&str], volume: Option<&str>) -> Object {
    object(EventResource::PersistentVolumeClaim, "default", name, claim_of(class, modes, volume))
}

/// Returns a claim without its name; with a volume, it is bound to it.
pub(crate) fn claim_of(class: &str, modes: &[&str], volume: Option<&str>) -> Value {
    let mut claim = json!({
        "spec": {
            "storageClassName": class,
            "accessModes": modes,
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    });
    if let Some(volume) = volume {
        claim["spec"]["volumeName"] = json!(volume);
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim["status"]["phase"] = json!("Bound");
    }
    claim
}

pub(crate) fn volume(name: &str, claim: &str, zone: Option<&str>) -> Object {
    object(EventResource::PersistentVolume, "", name, volume_of(name, claim, zone))
}

/// Returns a volume without its name, which is bound to a claim.
pub(crate) fn volume_of(handle: &str, claim: &str, zone: Option<&str>) -> Value {
    let mut volume = json!({
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "claimRef": {"namespace": "default", "name": claim, "uid": format!("uid-{claim}")},
            "csi": {"driver": "csi.example.com", "volumeHandle": handle},
        },
        "status": {"phase": "Bound"},
    });
    if let Some(zone) = zone {
        let expression =
            json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]});
        volume["spec"]["nodeAffinity"] =
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}});
    }
    volume
}

pub(crate) fn with_api(pod: PodBuilder, part: Value) -> PodBuilder {
    pod.with(|own| {
        let affinity: framework::api::PodSpec =
            serde_json::from_value(part).expect("a part of a pod");
        own.spec.affinity = affinity.affinity;
        own.spec.topology_spread_constraints = affinity.topology_spread_constraints;
        own.spec.resource_claims = affinity.resource_claims;
        own.spec.volumes = affinity.volumes;
    })
}

pub(crate) fn anti_affinity(pod: PodBuilder, app: &str) -> PodBuilder {
    with_api(pod, near("podAntiAffinity", app, "kubernetes.io/hostname"))
}

pub(crate) fn near(kind: &str, app: &str, key: &str) -> Value {
    let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    let mut affinity = json!({});
    affinity[kind] = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    json!({"affinity": affinity})
}

pub(crate) fn required_node(key: &str, operator: &str, values: &[&str]) -> Value {
    let expression = json!({"key": key, "operator": operator, "values": values});
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}})
}

pub(crate) fn spread(key: &str) -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]})
}

/// Spreads over at least three domains.
pub(crate) fn few_domains(key: &str) -> Value {
    let mut spread = spread(key);
    spread["topologySpreadConstraints"][0]["minDomains"] = json!(3);
    spread
}

pub(crate) fn uses_disk(pod: PodBuilder) -> PodBuilder {
    let disk = json!({"name": "disk", "gcePersistentDisk": {"pdName": "disk-1"}});
    with_api(pod, json!({"volumes": [disk]}))
}

pub(crate) fn deleted(mut object: Object) -> Object {
    Arc::make_mut(&mut object.object)["metadata"]["deletionTimestamp"] =
        json!("2026-01-01T00:00:00Z");
    object
}

pub(crate) fn device_class(name: &str) -> Object {
    object(EventResource::DeviceClass, "", name, json!({"spec": {}}))
}

pub(crate) fn slice(node: &str, devices: &[&str]) -> Object {
    let devices: Vec<_> = devices.iter().map(|name| json!({"name": name})).collect();
    let spec = json!({"spec": {
        "driver": "gpu.example.com",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }});
    object(EventResource::ResourceSlice, "", &format!("slice-{node}"), spec)
}

fn claim_for(class: &str) -> Value {
    json!({"spec": {"devices": {"requests": [{
        "name": "gpu",
        "exactly": {"deviceClassName": class, "allocationMode": "ExactCount", "count": 1},
    }]}}})
}

pub(crate) fn resource_claim(name: &str, class: &str) -> Object {
    object(EventResource::ResourceClaim, "default", name, claim_for(class))
}

/// Returns a claim that another pod uses, with a device of this node.
pub(crate) fn claim_in_use(name: &str, class: &str, node: &str, device: &str) -> Object {
    let mut spec = claim_for(class);
    spec["status"] = json!({
        "allocation": {"devices": {"results": [{
            "request": "gpu", "driver": "gpu.example.com", "pool": node, "device": device,
        }]}},
        "reservedFor": [{"resource": "pods", "name": "other", "uid": "uid-other"}],
    });
    object(EventResource::ResourceClaim, "default", name, spec)
}

pub(crate) fn uses_devices(pod: PodBuilder, claim: &str) -> PodBuilder {
    with_api(pod, json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}))
}

pub(crate) fn profile() -> SchedulerProfile {
    let enabled = plugins::catalogue::defaults()
        .map(|entry| PluginRef::new(entry.name, entry.default_weight));
    let multi_point = PluginSet { enabled: enabled.collect(), ..PluginSet::default() };
    SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        plugins: PluginSets { multi_point, ..PluginSets::default() },
        ..SchedulerProfile::default()
    }
}

pub(crate) fn config() -> EngineConfig {
    let registry = plugins::registry();
    EngineConfig::new(
        Profiles::build(&[profile()], &[], &registry, false).expect("the profile is in order"),
    )
}

/// Asks a copy of the engine, as the daemon does.
pub(crate) fn ask<T>(world: &World, question: impl FnOnce(&mut Lab<'_>) -> T) -> T {
    let now = world.now();
    let mut engine = ClusterCopy::of(world.engine(), now).engine(config(), now);
    question(&mut Lab::new(&mut engine, now, &|| false))
}

pub(crate) fn explained(world: &World, name: &str, node: Option<&str>) -> PodAnswer {
    let facts = facts(world.engine(), &PodKey::new("default", name), world.now())
        .expect("the pod is known");
    ask(world, |lab| explain_pod(lab, facts, node)).expect("the pod is known")
}

/// Carries a suggestion out.
pub(crate) fn carry_out(world: &mut World, changes: &[Change]) {
    for change in changes.iter().cloned() {
        match change {
            Change::Node(node) => world.add_node(node),
            Change::Pod(pod) => {
                // Most fields of a pod cannot be changed: its controller makes another.
                if let Some(pending) = world.engine().pending_pod(&pod.key).cloned() {
                    world.remove_pod(&pending);
                }
                world.add_pod(*pod);
            }
            Change::PodDeleted { uid, .. } => {
                let pod = Pod::clone(
                    &world.engine().world().placed(&uid).expect("the pod is placed").pod,
                );
                world.remove_pod(&pod);
            }
            Change::Object(object) => {
                let (key, object) = (object.key().clone(), object.json());
                let ObjectKey { kind, namespace, name } = key;
                // The spec of a claim cannot be changed: another one is made.
                if kind == EventResource::ResourceClaim {
                    world.remove_object(kind.clone(), namespace.clone(), name.clone());
                }
                world.add_object(Object { kind, namespace, name, object });
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Returns a world without objects.
pub(crate) fn empty_world() -> World {
    let settings = Settings {
        seed: 0,
        percentage_of_nodes_to_score: 0,
        adaptive_sampling: false,
        queue: QueueConfig::default(),
        profiles: vec![profile()],
        registry: Arc::new(plugins::registry()),
        monitor: || Box::new(()),
        limit: Limit::default(),
        extenders: None,
    };
    World::new(&settings, ["default-scheduler"]).expect("a world")
}

/// Returns the node that the pod of this name in `default` has.
pub(crate) fn node_of(world: &World, name: &str) -> Option<String> {
    match &world.history(&PodKey::new("default", name))?.state {
        State::Placed { node, .. } => Some(node.to_string()),
        _ => None,
    }
}
