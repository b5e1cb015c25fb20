//! Defaults that the API server sets.

mod cluster;
mod decode;
mod fill;
mod flow_control;
mod label_keys;
mod pod;
mod pod_status;
mod storage;
mod workloads;

use framework::Time;
use serde_json::{Value, json};

use crate::custom;
use crate::resources::{self, Resource};

/// Completes a new object: [`set_defaults`], an initial status, and for pods the default
/// tolerations and the selectors of their label keys. Values of an unexpected type are left for
/// validation.
pub fn complete(resource: &Resource, object: &mut Value, now: Time) {
    let keeps_status = resource == resources::NODES || resource == resources::EVENTS;
    let has_status = resource.subresources.iter().any(|sub| sub.name == "status");
    if let (false, true, Some(fields)) = (keeps_status, has_status, object.as_object_mut()) {
        fields.remove("status");
    }
    set_defaults(resource, object);
    if resource == resources::RESOURCESLICES || resource == resources::DEVICETAINTRULES {
        cluster::device_taints(object, now);
    }
    if resource == resources::CUSTOMRESOURCEDEFINITIONS && object.is_object() {
        object["status"] = custom::initial_status(object);
    }
    if resource == resources::PODS
        && let Some(fields) = object.as_object_mut()
    {
        label_keys::merge(fields);
        let status = pod_status::new_status(fields.get("spec").unwrap_or(&json!({})), now);
        fields.insert("status".to_owned(), status);
    }
}

/// Sets the class of service in the status of a new pod, after admission.
pub(crate) fn set_qos_class(pod: &mut Value) {
    let class = pod_status::qos_class(&pod["spec"]);
    if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("qosClass".to_owned(), class.into());
    }
}

/// Sets the defaults of the kind and drops empty optional fields, as typed decoding does. It is
/// idempotent, and every write calls it.
pub fn set_defaults(resource: &Resource, object: &mut Value) {
    if resource.custom.is_some() || resource == resources::CUSTOMRESOURCEDEFINITIONS {
        custom_defaults(resource, object);
        return;
    }
    let Some(object) = object.as_object_mut() else { return };
    decode::canonicalize(object);
    if let Some(set) = defaulting(resource) {
        set(object);
    }
}

/// Sets the same in a pod whose spec has its defaults: it is that of the stored pod.
pub fn set_defaults_beside_spec(pod: &mut Value) {
    let Some(pod) = pod.as_object_mut() else { return };
    decode::canonicalize_all_but(Some("spec"), pod);
    complete_status(pod);
}

/// Sets the defaults of a definition, or of an object of a custom kind. Empty fields are data in
/// both.
fn custom_defaults(resource: &Resource, object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        decode::canonicalize(metadata);
    }
    match resource.custom {
        Some(definition) => definition.set_defaults(object),
        None => custom::add_defaults(object),
    }
}

fn defaulting(resource: &Resource) -> Option<fn(&mut fill::Object)> {
    let set: fn(&mut fill::Object) = match (resource.group, resource.plural) {
        ("", "pods") => pod,
        ("", "nodes") => cluster::node,
        ("", "namespaces") => cluster::namespace,
        ("", "services") => cluster::service,
        ("", "secrets") => cluster::secret,
        ("", "events") => workloads::event,
        ("", "persistentvolumes") => storage::volume,
        ("", "persistentvolumeclaims") => storage::claim,
        ("", "podtemplates") => workloads::template,
        ("", "replicationcontrollers") | ("apps", "replicasets") => workloads::replica_set,
        ("apps", "deployments") => workloads::deployment,
        ("apps", "statefulsets") => workloads::stateful_set,
        ("apps", "daemonsets") => workloads::daemon_set,
        ("batch", "jobs") => workloads::job,
        ("batch", "cronjobs") => workloads::cron_job,
        ("policy", "poddisruptionbudgets") => workloads::disruption_budget,
        ("storage.k8s.io", "storageclasses") => storage::class,
        ("storage.k8s.io", "csidrivers") => storage::csi_driver,
        ("scheduling.k8s.io", "priorityclasses") => priority_class,
        ("discovery.k8s.io", "endpointslices") => cluster::endpoint_slice,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => flow_control::schema,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            flow_control::priority_level
        }
        ("networking.k8s.io", "networkpolicies") => cluster::network_policy,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            cluster::role_binding
        }
        ("resource.k8s.io", "devicetaintrules") => cluster::device_taint_rule,
        ("resource.k8s.io", "resourceclaims") => cluster::resource_claim,
        ("resource.k8s.io", "resourceclaimtemplates") => cluster::resource_claim_template,
        _ => return None,
    };
    Some(set)
}

fn pod(object: &mut fill::Object) {
    pod::pod(object);
    complete_status(object);
}

fn complete_status(pod: &mut fill::Object) {
    if let Some(status) = fill::ensure(pod, "status") {
        pod_status::complete(status);
    }
}

fn priority_class(object: &mut fill::Object) {
    fill::defaults(
        object,
        [("value", 0.into()), ("preemptionPolicy", "PreemptLowerPriority".into())],
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    fn now() -> Time {
        Time::parse_rfc3339("2026-11-20T22:12:00Z").unwrap()
    }

    /// Removes the fields that the store and admission set.
    fn without_other_parts(mut object: Value) -> Value {
        for field in
            ["uid", "resourceVersion", "generation", "creationTimestamp", "name", "namespace"]
        {
            object["metadata"].as_object_mut().unwrap().remove(field);
        }
        for field in ["priority", "preemptionPolicy", "tolerations"] {
            object.get_mut("spec").and_then(Value::as_object_mut).map(|spec| spec.remove(field));
        }
        object
    }

    #[test]
    fn new_objects_are_completed_as_recorded() {
        for dialogue in recorded::dialogues().iter().filter(|it| it.creates()) {
            let mut object = dialogue.request_body().clone();
            object.as_object_mut().unwrap().remove("bogus");
            let resource = dialogue.resource();
            if resource == resources::EVENTS_V1 {
                continue;
            }
            complete(resource, &mut object, now());
            let expected = without_other_parts(dialogue.response_body().clone());
            assert_eq!(without_other_parts(object), expected, "{}", dialogue.name());
        }
    }

    #[test]
    fn defaults_are_idempotent() {
        for dialogue in recorded::dialogues().iter().filter(|it| it.creates()) {
            let mut object = dialogue.response_body().clone();
            if dialogue.resource() != resources::EVENTS_V1 {
                set_defaults(dialogue.resource(), &mut object);
                assert_eq!(&object, dialogue.response_body(), "{}", dialogue.name());
            }
        }
    }

    #[test]
    fn pod_with_its_stored_spec_gets_the_same_defaults() {
        let mut stored = json!({"metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        complete(resources::PODS, &mut stored, now());
        for status in [json!({}), json!({"phase": "", "conditions": [{"type": "A"}]}), Value::Null]
        {
            let mut pod = stored.clone();
            pod["status"] = status;
            pod["metadata"]["labels"] = json!({});
            let mut expected = pod.clone();
            set_defaults(resources::PODS, &mut expected);
            set_defaults_beside_spec(&mut pod);
            assert_eq!(pod, expected);
        }
    }

    #[test]
    fn workloads_and_storage_get_their_defaults() {
        let cases = [
            (
                resources::REPLICASETS,
                json!({"spec": {}, "status": {"replicas": 9}}),
                json!({"spec": {"replicas": 1}, "status": {"replicas": 0}}),
            ),
            (
                resources::DEPLOYMENTS,
                json!({"spec": {"strategy": {"type": "Recreate"}}}),
                json!({
                    "spec": {
                        "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                        "strategy": {"type": "Recreate"},
                    },
                    "status": {},
                }),
            ),
            (
                resources::PERSISTENTVOLUMECLAIMS,
                json!({"spec": {"storageClassName": ""}}),
                json!({
                    "spec": {"storageClassName": "", "resources": {}, "volumeMode": "Filesystem"},
                    "status": {"phase": "Pending"},
                }),
            ),
            (
                resources::STORAGECLASSES,
                json!({"provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"}),
                json!({
                    "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer",
                    "reclaimPolicy": "Delete",
                }),
            ),
            (
                resources::SECRETS,
                json!({"stringData": {"a": "b"}}),
                json!({"data": {"a": "Yg=="}, "type": "Opaque"}),
            ),
        ];
        for (resource, mut object, expected) in cases {
            complete(resource, &mut object, now());
            assert_eq!(object, expected, "{}", resource.plural);
        }
    }

    #[test]
    fn new_taints_of_devices_have_a_time() {
        let now = Time::from_secs(1_000_000);
        let added = "1970-01-12T13:46:40Z";
        let mut rule = json!({"spec": {"taint": {"key": "a", "effect": "NoSchedule"}}});
        complete(resources::DEVICETAINTRULES, &mut rule, now);
        assert_eq!(rule["spec"]["taint"]["timeAdded"], added);
        let older = json!({"key": "b", "effect": "None", "timeAdded": "1970-01-01T00:00:00Z"});
        let taints = json!([{"key": "a", "effect": "NoSchedule"}, older]);
        let mut slice = json!({"spec": {"devices": [{"name": "d", "taints": taints}]}});
        complete(resources::RESOURCESLICES, &mut slice, now);
        let taints = &slice["spec"]["devices"][0]["taints"];
        assert_eq!([&taints[0]["timeAdded"], &taints[1]], [&json!(added), &older]);
    }
}
