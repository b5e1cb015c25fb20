//! The ClusterRole grants what Loadmaster needs, and no more.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};

use super::{DEFAULT, EVERYTHING, RENDERED, find};

/// Group, resource and verb of every permission that the default plugins need.
const NEEDED: [(&str, &str, &str); 40] = [
    ("", "namespaces", "list"),
    ("", "namespaces", "watch"),
    ("", "nodes", "list"),
    ("", "nodes", "watch"),
    ("", "pods", "delete"),
    ("", "pods", "get"),
    ("", "pods", "list"),
    ("", "pods", "watch"),
    ("", "pods/binding", "create"),
    ("", "pods/status", "patch"),
    ("", "replicationcontrollers", "list"),
    ("", "replicationcontrollers", "watch"),
    ("", "services", "list"),
    ("", "services", "watch"),
    ("apps", "replicasets", "list"),
    ("apps", "replicasets", "watch"),
    ("apps", "statefulsets", "list"),
    ("apps", "statefulsets", "watch"),
    ("policy", "poddisruptionbudgets", "list"),
    ("policy", "poddisruptionbudgets", "watch"),
    ("resource.k8s.io", "deviceclasses", "list"),
    ("resource.k8s.io", "deviceclasses", "watch"),
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
    ("", "persistentvolumeclaims", "list"),
    ("", "persistentvolumeclaims", "watch"),
    ("", "persistentvolumeclaims", "patch"),
    ("", "persistentvolumes", "list"),
    ("", "persistentvolumes", "watch"),
    ("", "persistentvolumes", "patch"),
    ("storage.k8s.io", "csidrivers", "list"),
    ("storage.k8s.io", "csidrivers", "watch"),
    ("storage.k8s.io", "csinodes", "list"),
    ("storage.k8s.io", "csinodes", "watch"),
    ("storage.k8s.io", "csistoragecapacities", "list"),
    ("storage.k8s.io", "csistoragecapacities", "watch"),
    ("storage.k8s.io", "storageclasses", "list"),
    ("storage.k8s.io", "storageclasses", "watch"),
    ("storage.k8s.io", "volumeattachments", "list"),
    ("storage.k8s.io", "volumeattachments", "watch"),
];

/// Returns every single permission of the role.
fn granted(role: &ClusterRole) -> BTreeSet<(String, String, String)> {
    let mut all = BTreeSet::new();
    for rule in role.rules.iter().flatten() {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let one = |verb: &String| (group.clone(), resource.clone(), verb.clone());
                all.extend(rule.verbs.iter().map(one));
            }
        }
    }
    all
}

fn owned(table: &[(&str, &str, &str)]) -> BTreeSet<(String, String, String)> {
    let words = table.iter();
    words.map(|&(group, resource, verb)| (group.into(), resource.into(), verb.into())).collect()
}

#[test]
fn role_grants_exactly_the_needed_permissions() {
    let role: ClusterRole = find(DEFAULT).unwrap();
    assert_eq!(granted(&role), owned(&NEEDED));
    assert!(role.aggregation_rule.is_none());
    assert!(role.rules.unwrap().iter().all(|rule| rule.non_resource_urls.is_none()));
}

/// Additional permissions for extenders, which cannot register events.
const NEEDED_BY_EXTENDERS: [(&str, &str, &str); 2] =
    [("resource.k8s.io", "resourceclaims", "list"), ("resource.k8s.io", "resourceclaims", "watch")];

#[test]
fn extenders_and_extra_rules_add_permissions() {
    let role: ClusterRole = find(EVERYTHING).unwrap();
    let mut expected = owned(&NEEDED);
    expected.extend(owned(&NEEDED_BY_EXTENDERS));
    expected.extend(owned(&[
        ("example.com", "maintenancewindows", "list"),
        ("example.com", "maintenancewindows", "watch"),
    ]));
    assert_eq!(granted(&role), expected);
}

#[test]
fn role_is_bound_to_the_service_account_of_the_pod() {
    for file in RENDERED {
        let Some(binding) = find::<ClusterRoleBinding>(file) else { continue };
        let (role, account) = (find::<ClusterRole>(file), find::<ServiceAccount>(file));
        let (role, account) = (role.unwrap().metadata, account.unwrap().metadata);
        assert_eq!(binding.role_ref.kind, "ClusterRole");
        assert_eq!(Some(binding.role_ref.name), role.name);

        let [subject] = binding.subjects.unwrap().try_into().unwrap();
        assert_eq!(subject.kind, "ServiceAccount");
        assert_eq!(
            (Some(&subject.name), &subject.namespace),
            (account.name.as_ref(), &account.namespace)
        );

        let deployment: Deployment = find(file).unwrap();
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.service_account_name, account.name, "{file}");
        assert_eq!(pod.automount_service_account_token, Some(true), "{file}");
    }
}
