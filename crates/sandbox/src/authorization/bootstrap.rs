//! The roles and bindings of a new cluster, as far as a sandbox needs them.

use serde_json::{Value, json};

use crate::resources::{CLUSTERROLEBINDINGS, CLUSTERROLES, ROLEBINDINGS, ROLES, Resource};

const READ: &[&str] = &["get", "list", "watch"];
const ALL: &[&str] = &["*"];
const CREATE: &[&str] = &["create"];
const GROUP: &str = "rbac.authorization.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
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

/// Returns the default ClusterRoles of users, discovery, schedulers and delegated authorization,
/// the Roles of schedulers in `kube-system`, and their bindings.
pub fn bootstrap_policy() -> Vec<(&'static Resource, Value)> {
    let roles = [
        ("cluster-admin", vec![allow(ALL, &["*"], &["*"]), paths(ALL, &["*"])]),
        ("system:discovery", vec![paths(&["get"], DISCOVERY)]),
        ("system:public-info-viewer", vec![paths(&["get"], HEALTH)]),
        ("system:basic-user", basic_user()),
        ("system:kube-scheduler", kube_scheduler()),
        ("system:volume-scheduler", volume_scheduler()),
        ("system:monitoring", vec![paths(&["get"], MONITORING)]),
        ("system:auth-delegator", auth_delegator()),
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
        if !subjects.is_empty() {
            objects.push((CLUSTERROLEBINDINGS, cluster_role_binding(name, &subjects)));
        }
    }
    objects.extend(kube_system_roles());
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

/// The rules of servers that ask the API server about their callers.
fn auth_delegator() -> Vec<Value> {
    vec![
        allow(CREATE, &["authentication.k8s.io"], &["tokenreviews"]),
        allow(CREATE, &["authorization.k8s.io"], &["subjectaccessreviews"]),
    ]
}

fn kube_scheduler() -> Vec<Value> {
    let leases = "coordination.k8s.io";
    let services = ["namespaces", "nodes", "replicationcontrollers", "services"];
    let volumes = ["persistentvolumeclaims", "persistentvolumes"];
    let storage = ["csidrivers", "csinodes", "csistoragecapacities", "volumeattachments"];
    let change = ["get", "list", "patch", "update", "watch"];
    let claims = ["resourceclaims", "resourceclaims/status"];
    let mut rules = vec![
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
        allow(READ, &["resource.k8s.io"], &["deviceclasses", "devicetaintrules", "resourceslices"]),
        allow(&change, &["resource.k8s.io"], &claims),
        allow(&["create", "delete"], &["resource.k8s.io"], &["resourceclaims"]),
        allow(&["patch", "update"], &["resource.k8s.io"], &["resourceclaims/binding"]),
    ];
    rules.extend(auth_delegator());
    rules
}

fn volume_scheduler() -> Vec<Value> {
    let verbs = ["get", "list", "patch", "update", "watch"];
    vec![
        allow(&verbs, &[""], &["persistentvolumes"]),
        allow(READ, &["storage.k8s.io"], &["storageclasses"]),
        allow(&verbs, &[""], &["persistentvolumeclaims"]),
    ]
}

/// The first lets delegated authentication read its configuration, the second lets schedulers elect
/// a leader with a lease of any name.
fn kube_system_roles() -> [(&'static Resource, Value); 4] {
    let authentication = "extension-apiserver-authentication";
    let reader = format!("{authentication}-reader");
    let locking = "system::leader-locking-kube-scheduler";
    let verbs = ["create", "get", "list", "update", "watch"];
    let lease = allow(&verbs, &["coordination.k8s.io"], &["leases", "leasecandidates"]);
    let configuration = allow_names(READ, "", "configmaps", authentication);
    [
        (ROLES, role(&reader, &configuration)),
        (
            ROLEBINDINGS,
            role_binding(&format!("system::{reader}"), &reader, &[CONTROLLER_MANAGER, SCHEDULER]),
        ),
        (ROLES, role(locking, &lease)),
        (ROLEBINDINGS, role_binding(locking, locking, &[SCHEDULER, SCHEDULER_ACCOUNT])),
    ]
}

fn role(name: &str, rule: &Value) -> Value {
    json!({
        "apiVersion": RBAC,
        "kind": "Role",
        "metadata": metadata_in_kube_system(name),
        "rules": [rule],
    })
}

const SCHEDULER: (&str, &str) = ("User", "system:kube-scheduler");
const SCHEDULER_ACCOUNT: (&str, &str) = ("ServiceAccount", "kube-scheduler");
const CONTROLLER_MANAGER: (&str, &str) = ("User", "system:kube-controller-manager");

fn role_binding(name: &str, role: &str, subjects: &[(&str, &str)]) -> Value {
    json!({
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": metadata_in_kube_system(name),
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": role},
        "subjects": subjects.iter().map(|(kind, name)| subject(kind, name)).collect::<Vec<_>>(),
    })
}

/// Returns a subject of kind and name; ServiceAccounts are in `kube-system`.
fn subject(kind: &str, name: &str) -> Value {
    match kind {
        "ServiceAccount" => json!({"kind": kind, "name": name, "namespace": "kube-system"}),
        _ => json!({"apiGroup": GROUP, "kind": kind, "name": name}),
    }
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
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": metadata(name),
        "rules": rules,
    })
}

fn cluster_role_binding(role: &str, subjects: &[(&str, &str)]) -> Value {
    json!({
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": metadata(role),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": subjects.iter().map(|(kind, name)| subject(kind, name)).collect::<Vec<_>>(),
    })
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}})
}

fn metadata_in_kube_system(name: &str) -> Value {
    let mut metadata = metadata(name);
    metadata["namespace"] = json!("kube-system");
    metadata
}
