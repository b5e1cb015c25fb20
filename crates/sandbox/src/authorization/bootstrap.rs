//! The roles and bindings every cluster starts with, as far as a sandbox needs them.

use serde_json::{Value, json};

use crate::resources::{CLUSTERROLEBINDINGS, CLUSTERROLES, ROLES, Resource};

const READ: &[&str] = &["get", "list", "watch"];
const ALL: &[&str] = &["*"];
const CREATE: &[&str] = &["create"];
const HEALTH: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
const DISCOVERY: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];

/// The default ClusterRoles of users, of discovery and of the schedulers, their bindings, and the
/// Role with which delegated authentication reads its configuration.
pub fn bootstrap_policy() -> Vec<(&'static Resource, Value)> {
    let roles = [
        ("cluster-admin", vec![allow(ALL, &["*"], &["*"]), paths(ALL, &["*"])]),
        ("system:discovery", vec![paths(&["get"], DISCOVERY)]),
        ("system:public-info-viewer", vec![paths(&["get"], HEALTH)]),
        ("system:basic-user", basic_user()),
        ("system:kube-scheduler", kube_scheduler()),
        ("system:volume-scheduler", volume_scheduler()),
        ("system:monitoring", vec![paths(&["get"], MONITORING)]),
    ];
    let bindings = [
        ("cluster-admin", "Group", "system:masters"),
        ("system:discovery", "Group", "system:authenticated"),
        ("system:public-info-viewer", "Group", "system:authenticated"),
        ("system:public-info-viewer", "Group", "system:unauthenticated"),
        ("system:basic-user", "Group", "system:authenticated"),
        ("system:kube-scheduler", "User", "system:kube-scheduler"),
        ("system:volume-scheduler", "User", "system:kube-scheduler"),
        ("system:monitoring", "Group", "system:monitoring"),
    ];
    let mut objects: Vec<(&'static Resource, Value)> = Vec::new();
    for (name, rules) in roles {
        objects.push((CLUSTERROLES, cluster_role(name, &rules)));
        let of_role = bindings.iter().filter(|(role, ..)| *role == name);
        let subjects: Vec<(&str, &str)> = of_role.map(|&(_, kind, who)| (kind, who)).collect();
        objects.push((CLUSTERROLEBINDINGS, cluster_role_binding(name, &subjects)));
    }
    objects.push((ROLES, extension_apiserver_authentication_reader()));
    objects
}

const MONITORING: &[&str] = &[
    "/flagz",
    "/healthz",
    "/healthz/*",
    "/livez",
    "/livez/*",
    "/metrics",
    "/metrics/slis",
    "/readyz",
    "/readyz/*",
    "/statusz",
];

fn basic_user() -> Vec<Value> {
    vec![
        allow(
            CREATE,
            &["authorization.k8s.io"],
            &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        ),
        allow(CREATE, &["authentication.k8s.io"], &["selfsubjectreviews"]),
    ]
}

fn kube_scheduler() -> Vec<Value> {
    let leases = "coordination.k8s.io";
    let services = ["namespaces", "nodes", "replicationcontrollers", "services"];
    let volumes = ["persistentvolumeclaims", "persistentvolumes"];
    let storage = ["csidrivers", "csinodes", "csistoragecapacities", "volumeattachments"];
    let change = ["get", "list", "patch", "update", "watch"];
    let claims = ["resourceclaims", "resourceclaims/status"];
    vec![
        allow(&["create", "patch", "update"], &["", "events.k8s.io"], &["events"]),
        allow(CREATE, &[leases], &["leases"]),
        allow_names(&["get", "list", "update", "watch"], leases, "leases", "kube-scheduler"),
        allow(ALL, &[leases], &["leasecandidates"]),
        allow(READ, &[""], &services),
        allow(READ, &[""], &volumes),
        allow(&["delete", "get", "list", "watch"], &[""], &["pods"]),
        allow(CREATE, &[""], &["bindings", "pods/binding"]),
        allow(&["patch", "update"], &[""], &["pods/status"]),
        allow(&["update"], &[""], &["pods/finalizers"]),
        allow(READ, &["apps", "extensions"], &["replicasets"]),
        allow(READ, &["apps"], &["statefulsets"]),
        allow(READ, &["policy"], &["poddisruptionbudgets"]),
        allow(READ, &["storage.k8s.io"], &storage),
        allow(READ, &["resource.k8s.io"], &["deviceclasses", "resourceslices"]),
        allow(&change, &["resource.k8s.io"], &claims),
        allow(&["create", "delete"], &["resource.k8s.io"], &["resourceclaims"]),
        allow(&["patch", "update"], &["resource.k8s.io"], &["resourceclaims/binding"]),
        allow(CREATE, &["authentication.k8s.io"], &["tokenreviews"]),
        allow(CREATE, &["authorization.k8s.io"], &["subjectaccessreviews"]),
    ]
}

fn volume_scheduler() -> Vec<Value> {
    let verbs = ["get", "list", "patch", "update", "watch"];
    vec![
        allow(&verbs, &[""], &["persistentvolumes"]),
        allow(READ, &["storage.k8s.io"], &["storageclasses"]),
        allow(&verbs, &[""], &["persistentvolumeclaims"]),
    ]
}

fn extension_apiserver_authentication_reader() -> Value {
    let name = "extension-apiserver-authentication";
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": format!("{name}-reader"), "namespace": "kube-system"},
        "rules": [allow_names(READ, "", "configmaps", name)],
    })
}

fn allow(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn allow_names(verbs: &[&str], group: &str, resource: &str, name: &str) -> Value {
    let mut rule = allow(verbs, &[group], &[resource]);
    rule["resourceNames"] = json!([name]);
    rule
}

fn paths(verbs: &[&str], urls: &[&str]) -> Value {
    json!({"nonResourceURLs": urls, "verbs": verbs})
}

fn cluster_role(name: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata(name),
        "rules": rules,
    })
}

fn cluster_role_binding(role: &str, subjects: &[(&str, &str)]) -> Value {
    let subject = |(kind, name): &(&str, &str)| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata(role),
        "roleRef":
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": subjects.iter().map(subject).collect::<Vec<_>>(),
    })
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}})
}
