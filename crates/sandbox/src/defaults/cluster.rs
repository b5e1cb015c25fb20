//! Defaults of nodes, namespaces, services, network policies and devices.

use base64::Engine as _;
use framework::Time;
use serde_json::{Value, json};

use super::fill::{Object, default, defaults, ensure, get, items, text};

const NODE_INFO: [&str; 10] = [
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
];

/// Sets the defaults of Nodes.
pub(super) fn node(object: &mut Object) {
    ensure(object, "spec");
    let Some(status) = ensure(object, "status") else { return };
    if let Some(capacity) = status.get("capacity").cloned() {
        default(status, "allocatable", capacity);
    }
    for condition in items(status, "conditions") {
        defaults(
            condition,
            [("lastHeartbeatTime", Value::Null), ("lastTransitionTime", Value::Null)],
        );
    }
    default(status, "daemonEndpoints", json!({"kubeletEndpoint": {"Port": 0}}));
    if let Some(info) = ensure(status, "nodeInfo") {
        for field in NODE_INFO {
            default(info, field, "");
        }
    }
}

/// Sets the defaults of Namespaces, and the label with the name.
pub(super) fn namespace(object: &mut Object) {
    if let Some(metadata) = ensure(object, "metadata") {
        let name = text(metadata, "name").to_owned();
        if let (false, Some(labels)) = (name.is_empty(), ensure(metadata, "labels")) {
            default(labels, "kubernetes.io/metadata.name", name);
        }
    }
    ensure(object, "spec");
    if let Some(status) = ensure(object, "status") {
        default(status, "phase", "Active");
    }
}

/// Sets the defaults of Services. They get no addresses.
pub(super) fn service(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else { return };
    defaults(
        spec,
        [
            ("type", "ClusterIP".into()),
            ("sessionAffinity", "None".into()),
            ("internalTrafficPolicy", "Cluster".into()),
        ],
    );
    for port in items(spec, "ports") {
        default(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            default(port, "targetPort", number);
        }
    }
    if matches!(text(spec, "type"), "NodePort" | "LoadBalancer") {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if let Some(status) = ensure(object, "status") {
        default(status, "loadBalancer", json!({}));
    }
}

/// Sets the defaults of NetworkPolicies.
pub(super) fn network_policy(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else { return };
    let egress =
        spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    defaults(spec, [("podSelector", json!({})), ("policyTypes", types)]);
    for direction in ["ingress", "egress"] {
        for rule in items(spec, direction) {
            items(rule, "ports").for_each(|port| default(port, "protocol", "TCP"));
        }
    }
}

/// Sets the defaults of EndpointSlices.
pub(super) fn endpoint_slice(object: &mut Object) {
    for port in items(object, "ports") {
        defaults(port, [("name", "".into()), ("protocol", "TCP".into())]);
    }
}

/// Sets the defaults of Secrets and encodes `stringData` into `data`.
pub(super) fn secret(object: &mut Object) {
    default(object, "type", "Opaque");
    let Some(Value::Object(texts)) = object.remove("stringData") else { return };
    let Some(data) = ensure(object, "data") else { return };
    for (key, text) in texts {
        let encoded =
            base64::engine::general_purpose::STANDARD.encode(text.as_str().unwrap_or_default());
        data.insert(key, encoded.into());
    }
}

/// Sets the defaults of RoleBindings and ClusterRoleBindings.
pub(super) fn role_binding(object: &mut Object) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if let Some(role) = get(object, "roleRef") {
        default(role, "apiGroup", GROUP);
    }
    for subject in items(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            default(subject, "apiGroup", GROUP);
        }
    }
}

/// Sets the defaults of ResourceClaims.
pub(super) fn resource_claim(object: &mut Object) {
    ensure(object, "spec").into_iter().for_each(claim_spec);
    ensure(object, "status");
}

/// Sets the defaults of DeviceTaintRules.
pub(super) fn device_taint_rule(object: &mut Object) {
    ensure(object, "spec");
    ensure(object, "status");
}

/// Sets the time of the taints of a new ResourceSlice or DeviceTaintRule.
pub(super) fn device_taints(object: &mut Value, now: Time) {
    let now = now.floor_to_second().to_string();
    let stamp = |taint: &mut Value| {
        if let Some(taint) = taint.as_object_mut() {
            default(taint, "timeAdded", now.as_str());
        }
    };
    if let Some(rule) = object.pointer_mut("/spec/taint") {
        stamp(rule);
    }
    let devices = object.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten() {
        let taints = device.get_mut("taints").and_then(Value::as_array_mut);
        taints.into_iter().flatten().for_each(&stamp);
    }
}

/// Sets the defaults of ResourceClaimTemplates.
pub(super) fn resource_claim_template(object: &mut Object) {
    let Some(template) = ensure(object, "spec") else { return };
    ensure(template, "metadata");
    ensure(template, "spec").into_iter().for_each(claim_spec);
}

fn claim_spec(spec: &mut Object) {
    let Some(devices) = ensure(spec, "devices") else { return };
    for request in items(devices, "requests") {
        get(request, "exactly").into_iter().for_each(device_request);
        items(request, "firstAvailable").for_each(device_request);
    }
}

fn device_request(request: &mut Object) {
    default(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        default(request, "count", 1);
    }
    for toleration in items(request, "tolerations") {
        default(toleration, "operator", "Equal");
    }
}
