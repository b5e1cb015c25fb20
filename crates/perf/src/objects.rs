//! Objects of the operations, from templates or as scheduler_perf makes them without one.

use framework::storage::MIGRATED_PLUGINS;
use serde_json::{Map, Value, json};

use crate::workload::{LabelNodePrepareStrategy, NodeAllocatableStrategy};

/// Returns the node of an operation without a template.
pub(crate) fn base_node(operation: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "generateName": format!("node-{operation}-") },
        "status": {
            "capacity": { "pods": "110", "cpu": "4", "memory": "32Gi" },
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

/// Returns the pod of an operation without a template.
pub(crate) fn base_pod() -> Value {
    let resources = json!({ "cpu": "100m", "memory": "500Mi" });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "generateName": "pod-" },
        "spec": { "containers": [{
            "name": "pause",
            "image": "registry.k8s.io/pause:3.10.2",
            "ports": [{ "containerPort": 80 }],
            "resources": { "limits": resources, "requests": resources },
        }] },
    })
}

/// Returns a namespace.
pub(crate) fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// Gives an object of a template a name: its own, or its `generateName` with a number.
pub(crate) fn set_name(object: &mut Value, number: usize) -> String {
    let metadata = &mut object["metadata"];
    if let Some(name) = metadata["name"].as_str() {
        return name.to_owned();
    }
    let prefix = metadata["generateName"].as_str().unwrap_or("object-");
    let name = format!("{prefix}{number:05}");
    metadata["name"] = json!(name);
    name
}

/// Writes the label that kubelets set, and the features that the node declares.
pub(crate) fn set_node_fields(node: &mut Value, name: &str, declared_features: usize) {
    node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
    if declared_features > 0 {
        let mut features: Vec<String> =
            (1..=declared_features).map(|number| format!("Feature{number}")).collect();
        features.sort();
        node["status"]["declaredFeatures"] = json!(features);
    }
}

impl LabelNodePrepareStrategy {
    /// Labels the node with this index.
    pub(crate) fn apply(&self, node: &mut Value, index: usize) {
        let value = &self.label_values[index % self.label_values.len()];
        node["metadata"]["labels"][&self.label_key] = json!(value);
    }
}

impl NodeAllocatableStrategy {
    /// Adds the resources to a node.
    pub(crate) fn apply(&self, node: &mut Value) {
        let status = &mut node["status"];
        if !status["allocatable"].is_object() {
            status["allocatable"] = status["capacity"].clone();
        }
        for (resource, amount) in &self.node_allocatable {
            status["allocatable"][resource] = amount.clone();
        }
    }

    /// Returns the CSINode of a node.
    pub(crate) fn csi_node(&self, name: &str) -> Value {
        let driver = |(driver, allocatable): (&String, &Value)| json!({ "name": driver, "nodeID": name, "allocatable": allocatable });
        let drivers: Vec<Value> = self.csi_node_allocatable.iter().map(driver).collect();
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {
                "name": name,
                "annotations": { MIGRATED_PLUGINS: self.migrated_plugins.join(",") },
            },
            "spec": { "drivers": drivers },
        })
    }
}

/// Binds a volume and a claim to each other, and the pod to the claim.
pub(crate) fn bind_volume(
    volume: &mut Value,
    claim: &mut Value,
    pod: &mut Value,
    namespace: &str,
    index: usize,
) {
    let (volume_name, claim_name) = (format!("{namespace}-vol-{index}"), format!("pvc-{index}"));
    volume["metadata"]["name"] = json!(volume_name);
    claim["metadata"]["name"] = json!(claim_name);
    let spec = &mut volume["spec"];
    for (source, id) in [("csi", "volumeHandle"), ("awsElasticBlockStore", "volumeID")] {
        if spec[source].is_object() {
            spec[source][id] = json!(volume_name);
        }
    }
    spec["claimRef"] = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": claim_name,
    });
    claim["spec"]["volumeName"] = json!(volume_name);
    let source = json!({ "claimName": claim_name });
    pod["spec"]["volumes"] = json!([{ "name": "vol", "persistentVolumeClaim": source }]);
}

/// Moves the priority of a pod into a PriorityClass, which is returned: an API server rejects pods
/// with a priority of their own.
pub(crate) fn take_priority(pod: &mut Value) -> Option<Value> {
    let spec =
        pod["spec"].as_object_mut().filter(|spec| !spec.contains_key("priorityClassName"))?;
    let priority = spec.remove("priority")?;
    let name = format!("scheduler-perf-{priority}");
    spec.insert("priorityClassName".to_owned(), json!(name));
    Some(json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": { "name": name },
        "value": priority,
    }))
}

/// Copies into the new version of a pod what admission plugins have written into the current one,
/// and what may not be changed. scheduler_perf runs its API server without these plugins.
pub(crate) fn keep_admitted(pod: &mut Value, current: &Value) {
    const FIELDS: [&str; 6] = [
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "serviceAccount",
        "serviceAccountName",
        "volumes",
    ];
    const OF_ADMISSION: [&str; 2] =
        ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    for field in FIELDS {
        if let (None, Some(value)) = (pod["spec"].get(field), current["spec"].get(field)) {
            pod["spec"][field] = value.clone();
        }
    }
    let entries = |spec: &Value, list: &str| spec[list].as_array().cloned().unwrap_or_default();
    let admitted = entries(&current["spec"], "tolerations")
        .into_iter()
        .filter(|own| OF_ADMISSION.iter().any(|key| own["key"] == *key));
    let mut tolerations = entries(&pod["spec"], "tolerations");
    tolerations.extend(admitted);
    pod["spec"]["tolerations"] = json!(tolerations);
    let before = entries(&current["spec"], "containers");
    let containers = pod["spec"]["containers"].as_array_mut().into_iter().flatten();
    for container in containers.filter(|container| container.is_object()) {
        let own = before.iter().find(|own| own["name"] == container["name"]);
        if let Some(mounts) = own.and_then(|own| own.get("volumeMounts"))
            && container.get("volumeMounts").is_none()
        {
            container["volumeMounts"] = mounts.clone();
        }
    }
}

/// Writes the fields of spread constraints in lower case. Go reads them in any case, and one
/// template of scheduler_perf relies on that.
pub(crate) fn correct_case(pod: &mut Value) {
    let constraints = pod.pointer_mut("/spec/topologySpreadConstraints");
    for constraint in constraints.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(fields) = constraint {
            let lower = std::mem::take(fields).into_iter();
            let lower = lower.map(|(field, value)| (lower_first(&field), value));
            *fields = lower.collect::<Map<_, _>>();
        }
    }
}

fn lower_first(field: &str) -> String {
    let mut letters = field.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_or_numbered() {
        let mut named = json!({ "metadata": { "name": "a", "generateName": "b-" } });
        assert_eq!(set_name(&mut named, 3), "a");
        let mut generated = json!({ "metadata": { "generateName": "b-" } });
        assert_eq!(set_name(&mut generated, 3), "b-00003");
        assert_eq!(generated["metadata"]["name"], "b-00003");
    }

    #[test]
    fn priority_becomes_a_class() {
        let mut pod = json!({ "spec": { "priority": 10 } });
        let class = take_priority(&mut pod).unwrap();
        assert_eq!(
            (&class["metadata"]["name"], &class["value"]),
            (&json!("scheduler-perf-10"), &json!(10))
        );
        assert_eq!(pod, json!({ "spec": { "priorityClassName": "scheduler-perf-10" } }));
        assert_eq!(take_priority(&mut pod), None);
    }

    #[test]
    fn updates_keep_what_admission_wrote() {
        let added = json!({ "key": "node.kubernetes.io/not-ready", "operator": "Exists" });
        let current = json!({ "spec": {
            "priority": 0, "tolerations": [added, { "key": "old" }], "schedulingGates": [{ "name": "g" }],
            "containers": [{ "name": "c", "volumeMounts": [{ "name": "token" }] }],
        } });
        let mut pod = json!({ "spec": {
            "tolerations": [{ "key": "new" }], "containers": [{ "name": "c", "image": "i" }],
        } });
        keep_admitted(&mut pod, &current);
        assert_eq!(
            pod,
            json!({ "spec": {
            "priority": 0, "tolerations": [{ "key": "new" }, added],
            "containers": [{ "name": "c", "image": "i", "volumeMounts": [{ "name": "token" }] }],
        } })
        );
    }

    #[test]
    fn spread_constraints_are_read_in_any_case() {
        let mut pod = json!({ "spec": { "topologySpreadConstraints": [
            { "maxSkew": 1, "NodeTaintsPolicy": "Honor" },
        ] } });
        correct_case(&mut pod);
        let constraint = &pod["spec"]["topologySpreadConstraints"][0];
        assert_eq!(constraint, &json!({ "maxSkew": 1, "nodeTaintsPolicy": "Honor" }));
    }

    #[test]
    fn resources_are_added_to_the_capacity() {
        let strategy: NodeAllocatableStrategy = serde_json::from_value(json!({
            "nodeAllocatable": { "attachable-volumes-csi-x": "39" },
            "csiNodeAllocatable": { "x": { "count": 39 } },
        }))
        .unwrap();
        let mut node = base_node(0);
        strategy.apply(&mut node);
        let allocatable = &node["status"]["allocatable"];
        assert_eq!(
            (&allocatable["cpu"], &allocatable["attachable-volumes-csi-x"]),
            (&json!("4"), &json!("39"))
        );
        let driver = &strategy.csi_node("a")["spec"]["drivers"][0];
        assert_eq!((&driver["nodeID"], &driver["allocatable"]["count"]), (&json!("a"), &json!(39)));
    }
}
