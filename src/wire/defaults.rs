//! Defaults that the API server adds to new objects, and checks with which it refuses them.
//!
//! Dumps of a cluster contain the defaults; manifests written by hand do not.

use framework::{
    EventResource, Node, NodeSelector, Pod, PodKey, Problem, SelectorError, Uid, api,
    is_scalar_resource_name, merge_patch,
};
use serde_json::{Value, json};

use super::Location;

pub(super) const DEFAULT_NAMESPACE: &str = "default";
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Resources that are not scalar resources.
const USUAL_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Fills in absent fields of a node: allocatable defaults to the capacity.
pub(super) fn complete_node(node: &mut api::Node, raw: &Value) {
    if node.status.allocatable.is_empty()
        && let Ok(capacity) = serde::Deserialize::deserialize(&raw["status"]["capacity"])
    {
        node.status.allocatable = capacity;
    }
}

/// Returns warnings about probable mistakes in a node, other than quantities that cannot be parsed.
pub(super) fn faults_of_node(object: &api::Node, node: &Node) -> Vec<Problem> {
    let mut faults = Vec::new();
    let allocatable = &object.status.allocatable;
    if allocatable.is_empty() {
        faults.push(Problem::new("status.allocatable", "is missing; no pod fits on the node"));
    } else if !allocatable.contains_key("pods") {
        faults
            .push(Problem::new("status.allocatable[pods]", "is missing; no pod fits on the node"));
    }
    let own = &node.allocatable;
    let scalars = own.scalars.iter().map(|(name, amount)| (&**name, *amount));
    let amounts = [("cpu", own.milli_cpu), ("memory", own.memory), ("pods", node.allowed_pods)];
    for (name, _) in amounts.into_iter().chain(scalars).filter(|(_, amount)| *amount == i64::MAX) {
        let path = format!("status.allocatable[{name}]");
        let message = format!("is absurdly large and counts as {}", i64::MAX);
        faults.push(Problem::new(path, message));
    }
    for (index, taint) in object.spec.taints.iter().enumerate() {
        if !matches!(taint.effect.as_str(), "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let path = format!("spec.taints[{index}].effect");
            let message = format!(
                "{:?} is none of NoSchedule, PreferNoSchedule and NoExecute; the taint has no effect",
                taint.effect
            );
            faults.push(Problem::new(path, message));
        }
    }
    faults
}

/// Returns the errors for which the API server would refuse the pod, as far as they concern
/// scheduling.
pub(super) fn faults_of_pod(pod: &api::Pod) -> Vec<Problem> {
    let mut faults = Vec::new();
    if pod.metadata.name.is_empty() {
        faults.push(Problem::new("metadata.name", "is missing"));
    }
    if pod.spec.containers.is_empty() {
        faults
            .push(Problem::new("spec.containers", "is missing; a pod has at least one container"));
    }
    faults.extend(unknown_resources(&pod.spec.init_containers, "spec.initContainers"));
    faults.extend(unknown_resources(&pod.spec.containers, "spec.containers"));
    let constraints = pod.spec.topology_spread_constraints.iter().enumerate();
    faults.extend(constraints.flat_map(|(index, constraint)| faults_of_spread(index, constraint)));
    faults
}

fn faults_of_spread(index: usize, constraint: &api::TopologySpreadConstraint) -> Vec<Problem> {
    let rows = [
        ("maxSkew", constraint.max_skew > 0, "is not greater than zero"),
        ("topologyKey", !constraint.topology_key.is_empty(), "is missing"),
        (
            "whenUnsatisfiable",
            matches!(constraint.when_unsatisfiable.as_str(), "DoNotSchedule" | "ScheduleAnyway"),
            "is neither DoNotSchedule nor ScheduleAnyway",
        ),
        (
            "minDomains",
            constraint.min_domains.is_none_or(|count| count > 0),
            "is not greater than zero",
        ),
    ];
    let broken = rows.into_iter().filter(|(_, is_good, _)| !is_good);
    let path = |field: &str| format!("spec.topologySpreadConstraints[{index}].{field}");
    broken.map(|(field, _, message)| Problem::new(path(field), message)).collect()
}

/// Returns requests under names that no scheduler counts; they would have no effect.
fn unknown_resources(containers: &[api::Container], path: &str) -> Vec<Problem> {
    let mut faults = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let own =
            [("requests", &container.resources.requests), ("limits", &container.resources.limits)];
        for (list, name) in
            own.iter().flat_map(|(list, names)| names.keys().map(move |n| (list, n)))
        {
            if !USUAL_RESOURCES.contains(&name.as_str()) && !is_scalar_resource_name(name) {
                let path = format!("{path}[{index}].resources.{list}[{name}]");
                faults.push(Problem::new(path, "is no name of a resource"));
            }
        }
    }
    faults
}

/// Returns the selectors that cannot be parsed. The API server refuses them.
pub(super) fn broken_selectors(pod: &Pod) -> Vec<Problem> {
    let spec = &pod.spec;
    let mut faults = Vec::new();
    let mut add = |path: &str, error: Option<&SelectorError>| {
        let messages = error.into_iter().flat_map(SelectorError::messages);
        faults.extend(messages.map(|message| Problem::new(format!("spec.{path}"), message)));
    };
    let required = spec.required_node_affinity.selector().and_then(NodeSelector::error);
    add("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", required.as_ref());
    let preferred = spec.preferred_node_affinity.as_ref().and_then(|terms| terms.as_ref().err());
    add("affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", preferred);
    let pods = [("podAffinity", &spec.pod_affinity), ("podAntiAffinity", &spec.pod_anti_affinity)];
    for (side, affinity) in pods {
        let Some(affinity) = affinity else { continue };
        add(&format!("affinity.{side}"), affinity.required.as_ref().err());
        add(&format!("affinity.{side}"), affinity.preferred.as_ref().err());
    }
    for (index, constraint) in spec.topology_spread_constraints.iter().enumerate() {
        let path = format!("topologySpreadConstraints[{index}].labelSelector");
        add(&path, constraint.selector.as_ref().err());
    }
    faults
}

/// Fills in absent fields of a pod.
pub(super) fn complete_pod(pod: &mut api::Pod, at: &Location) {
    let metadata = &mut pod.metadata;
    if metadata.namespace.is_empty() {
        metadata.namespace = DEFAULT_NAMESPACE.to_owned();
    }
    if metadata.name.is_empty() {
        metadata.name = format!("(no name in {at})");
    }
    if metadata.uid.is_empty() {
        metadata.uid = made_up_uid(&PodKey::new(&metadata.namespace, &metadata.name)).to_string();
    }
    let spec = &mut pod.spec;
    if spec.scheduler_name.is_empty() {
        spec.scheduler_name = DEFAULT_SCHEDULER.to_owned();
    }
    let host_network = spec.host_network;
    for container in spec.init_containers.iter_mut().chain(&mut spec.containers) {
        requests_from_limits(&mut container.resources);
        for port in container.ports.iter_mut().filter(|port| host_network && port.host_port == 0) {
            port.host_port = port.container_port;
        }
    }
    pod_requests_from_limits(spec);
}

/// Returns a uid for a pod without one, the same in every run.
pub(super) fn made_up_uid(key: &PodKey) -> Uid {
    Uid::from(key.to_string().as_str())
}

/// Fills in absent fields of a claim, volume or class: name and uid, the phase Available of a
/// volume, and the binding mode Immediate.
pub(super) fn complete_storage(kind: &EventResource, namespace: &str, object: &mut Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut defaults = match kind {
        EventResource::PersistentVolume => {
            json!({"metadata": {"uid": name}, "status": {"phase": "Available"}})
        }
        EventResource::PersistentVolumeClaim | EventResource::ResourceClaim => {
            json!({"metadata": {"uid": format!("{namespace}/{name}"), "namespace": namespace}})
        }
        EventResource::StorageClass => json!({"volumeBindingMode": "Immediate"}),
        _ => return,
    };
    merge_patch(&mut defaults, object);
    *object = defaults;
}

/// Sets absent requests to the limits.
fn requests_from_limits(resources: &mut api::ResourceRequirements) {
    for (name, limit) in &resources.limits {
        resources.requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

/// Sets absent requests of the pod to its limits, for resources that no container requests.
fn pod_requests_from_limits(spec: &mut api::PodSpec) {
    let Some(resources) = &mut spec.resources else { return };
    let containers = spec.init_containers.iter().chain(&spec.containers);
    let asked: Vec<&String> = containers.flat_map(|c| c.resources.requests.keys()).collect();
    resources.limits.iter().filter(|(name, _)| !asked.contains(name)).for_each(|(name, limit)| {
        resources.requests.entry(name.clone()).or_insert_with(|| limit.clone());
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn complete(pod: Value) -> api::Pod {
        let mut pod = serde_json::from_value(pod).unwrap();
        complete_pod(&mut pod, &Location::named("pod.yaml"));
        pod
    }

    #[test]
    fn absent_names_get_the_defaults_of_the_api_server() {
        let pod = complete(json!({"metadata": {"name": "p"}}));
        assert_eq!(pod.metadata.namespace, "default");
        assert_eq!(pod.metadata.uid, "default/p");
        assert_eq!(pod.spec.scheduler_name, "default-scheduler");
        let nameless = complete(json!({}));
        assert_eq!(nameless.metadata.name, "(no name in pod.yaml)");
    }

    #[test]
    fn absent_requests_default_to_limits() {
        let pod = complete(json!({"spec": {
            "resources": {"limits": {"cpu": "9", "memory": "9Gi"}},
            "containers": [{"resources": {
                "limits": {"cpu": "2", "example.com/gpu": "1"}, "requests": {"cpu": "1"},
            }}],
        }}));
        let requests = |resources: &api::ResourceRequirements| {
            let pairs = resources.requests.iter().map(|(name, text)| format!("{name}={}", text.0));
            pairs.collect::<Vec<_>>()
        };
        assert_eq!(requests(&pod.spec.containers[0].resources), ["cpu=1", "example.com/gpu=1"]);
        let whole = pod.spec.resources.as_ref().map(requests);
        assert_eq!(whole.unwrap(), ["memory=9Gi"], "a container asks for cpu");
    }

    #[test]
    fn container_ports_of_host_network_pods_are_host_ports() {
        let ports = json!([{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]);
        let spec = |host: bool| json!({"hostNetwork": host, "containers": [{"ports": ports}]});
        let host_ports = |pod: api::Pod| {
            pod.spec.containers[0].ports.iter().map(|port| port.host_port).collect::<Vec<_>>()
        };
        assert_eq!(host_ports(complete(json!({"spec": spec(true)}))), [80, 8081]);
        assert_eq!(host_ports(complete(json!({"spec": spec(false)}))), [0, 8081]);
    }
}
