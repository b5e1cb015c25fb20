//! Every object decodes as its API type.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::{Value, json};

use super::{DEFAULT, RENDERED, objects, strictly};

/// Decodes the object as its kind.
fn decode(object: &Value) -> Result<(), String> {
    match object["kind"].as_str().unwrap() {
        "ClusterRole" => strictly::<ClusterRole>(object).map(drop),
        "ClusterRoleBinding" => strictly::<ClusterRoleBinding>(object).map(drop),
        "ConfigMap" => strictly::<ConfigMap>(object).map(drop),
        "Deployment" => strictly::<Deployment>(object).map(drop),
        "Pod" => strictly::<Pod>(object).map(drop),
        "PodDisruptionBudget" => strictly::<PodDisruptionBudget>(object).map(drop),
        "Service" => strictly::<Service>(object).map(drop),
        "ServiceAccount" => strictly::<ServiceAccount>(object).map(drop),
        kind => Err(format!("the chart is not known to have a {kind}")),
    }
}

#[test]
fn every_object_decodes_without_unknown_fields() {
    for file in RENDERED {
        for object in objects(file) {
            let name = &object["metadata"]["name"];
            decode(&object).unwrap_or_else(|error| panic!("{file}, {name}: {error}"));
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

#[test]
fn values_decide_on_optional_objects() {
    let rows: [&[&str]; 3] = [
        &[
            "ServiceAccount",
            "ConfigMap",
            "ClusterRole",
            "ClusterRoleBinding",
            "Service",
            "Deployment",
        ],
        &[
            "PodDisruptionBudget",
            "ServiceAccount",
            "ConfigMap",
            "ClusterRole",
            "ClusterRoleBinding",
            "Service",
            "Pod",
            "Deployment",
        ],
        &["ConfigMap", "Service", "Pod", "Deployment"],
    ];
    for (file, expected) in RENDERED.into_iter().zip(rows) {
        let objects = objects(file);
        let kinds: Vec<_> = objects.iter().map(|one| one["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, expected, "{file}");
    }
}
