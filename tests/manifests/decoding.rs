//! Every object decodes as its API type.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceAccount};
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{DEFAULT, objects, rendered, rendering, strictly, title};

/// Decodes the object as its kind.
fn decode(object: &Value) -> Result<(), String> {
    match object["kind"].as_str().unwrap() {
        "ClusterRole" => strictly::<ClusterRole>(object).map(drop),
        "ClusterRoleBinding" => strictly::<ClusterRoleBinding>(object).map(drop),
        "ConfigMap" => strictly::<ConfigMap>(object).map(drop),
        "CustomResourceDefinition" => strictly::<CustomResourceDefinition>(object).map(drop),
        "Deployment" => strictly::<Deployment>(object).map(drop),
        "FlowSchema" => strictly::<FlowSchema>(object).map(drop),
        "NetworkPolicy" => strictly::<NetworkPolicy>(object).map(drop),
        "Pod" => strictly::<Pod>(object).map(drop),
        "PodDisruptionBudget" => strictly::<PodDisruptionBudget>(object).map(drop),
        "PriorityLevelConfiguration" => strictly::<PriorityLevelConfiguration>(object).map(drop),
        "Role" => strictly::<Role>(object).map(drop),
        "RoleBinding" => strictly::<RoleBinding>(object).map(drop),
        "Service" => strictly::<Service>(object).map(drop),
        "ServiceAccount" => strictly::<ServiceAccount>(object).map(drop),
        kind => Err(format!("the chart is not known to have a {kind}")),
    }
}

/// Whether a CustomResourceDefinition defines the object; `applying` checks its fields.
fn is_custom(object: &Value) -> bool {
    let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or_default();
    ["cert-manager.io", "monitoring.coreos.com"].contains(&group)
}

#[test]
fn every_object_decodes_without_unknown_fields() {
    for file in rendered() {
        for object in objects(&file).iter().filter(|object| !is_custom(object)) {
            let name = &object["metadata"]["name"];
            decode(object).unwrap_or_else(|error| panic!("{file}, {name}: {error}"));
        }
    }
}

#[test]
fn unknown_field_is_detected() {
    let mut deployment =
        objects(DEFAULT).into_iter().find(|one| one["kind"] == "Deployment").unwrap();
    deployment["spec"]["template"]["spec"]["readinessProbe"] = json!({});
    let error = decode(&deployment).unwrap_err();
    assert!(error.contains("spec.?.template.?.spec.?.readinessProbe"), "{error}");
}

/// Returns the objects of a file, by kind and name.
fn titles(file: &str) -> Vec<String> {
    objects(file).iter().map(title).collect()
}

#[test]
fn default_rendering_has_the_objects_in_the_order_of_installation() {
    let expected = [
        "PodDisruptionBudget loadmaster",
        "ServiceAccount loadmaster",
        "ConfigMap loadmaster-config",
        "ClusterRole loadmaster",
        "ClusterRoleBinding loadmaster",
        "Role loadmaster-leader-election",
        "RoleBinding loadmaster-leader-election",
        "RoleBinding loadmaster-authentication-reader",
        "Service loadmaster",
        "Deployment loadmaster",
    ];
    assert_eq!(titles(DEFAULT), expected);
}

/// The objects that values add and remove, beside the pods of `helm test`.
const CHANGES: [(&str, &[&str], &[&str]); 13] = [
    (
        "capacity-scheduling",
        &[
            "CustomResourceDefinition elasticquotas.scheduling.x-k8s.io",
            "CustomResourceDefinition podgroups.scheduling.x-k8s.io",
        ],
        &[],
    ),
    ("cert-manager", &["Certificate loadmaster", "ServiceMonitor loadmaster"], &[]),
    ("closed-network", &["NetworkPolicy loadmaster"], &[]),
    ("dashboard", &["ConfigMap loadmaster-dashboard"], &[]),
    ("extenders", &[], &[]),
    ("flow-schemas", &["FlowSchema loadmaster", "FlowSchema loadmaster-leader-election"], &[]),
    ("network-policy", &["NetworkPolicy loadmaster"], &[]),
    (
        "no-election",
        &[],
        &[
            "PodDisruptionBudget loadmaster",
            "Role loadmaster-leader-election",
            "RoleBinding loadmaster-leader-election",
        ],
    ),
    (
        "nothing-created",
        &[],
        &[
            "ServiceAccount loadmaster",
            "ClusterRole loadmaster",
            "ClusterRoleBinding loadmaster",
            "Role loadmaster-leader-election",
            "RoleBinding loadmaster-leader-election",
            "RoleBinding loadmaster-authentication-reader",
        ],
    ),
    (
        "own-priority-level",
        &[
            "FlowSchema loadmaster",
            "FlowSchema loadmaster-leader-election",
            "PriorityLevelConfiguration loadmaster",
        ],
        &[],
    ),
    ("pod-monitor", &["PodMonitor loadmaster"], &["Service loadmaster"]),
    (
        "service-monitor",
        &[
            "ClusterRole loadmaster-metrics-reader",
            "ClusterRoleBinding loadmaster-metrics-reader",
            "ServiceMonitor loadmaster",
        ],
        &[],
    ),
    (
        "second-profile",
        &["Role loadmaster-kube-scheduler-lease", "RoleBinding loadmaster-kube-scheduler-lease"],
        &[],
    ),
];

#[test]
fn values_decide_on_optional_objects() {
    for (name, added, removed) in CHANGES {
        let mut expected = titles(DEFAULT);
        expected.retain(|title| !removed.contains(&title.as_str()));
        expected.extend(added.iter().map(|title| (*title).to_owned()));
        expected.sort();
        let mut found = titles(&rendering(name));
        found.retain(|title| !title.starts_with("Pod loadmaster-test"));
        found.sort();
        assert_eq!(found, expected, "{name}");
    }
}
