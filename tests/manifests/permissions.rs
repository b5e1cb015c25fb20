//! The ClusterRole grants what Loadmaster needs, and no more.

use std::collections::BTreeSet;

use framework::{EventResource, Level};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use loadmaster::config::{self, Gates};
use loadmaster::wire::watched_kinds;

use super::{DEFAULT, EVERYTHING, find, find_all, read, rendered, rendering};

/// Group, resource and verb of the permissions that the default plugins need, beside those to
/// watch kinds.
const REQUESTS: [(&str, &str, &str); 22] = [
    ("", "pods", "delete"),
    ("", "pods", "get"),
    ("", "pods/binding", "create"),
    ("", "pods/status", "patch"),
    // Watched as a custom kind.
    ("resource.k8s.io", "devicetaintrules", "list"),
    ("resource.k8s.io", "devicetaintrules", "watch"),
    ("resource.k8s.io", "resourceclaims", "create"),
    ("resource.k8s.io", "resourceclaims", "delete"),
    ("resource.k8s.io", "resourceclaims", "patch"),
    ("resource.k8s.io", "resourceclaims/binding", "patch"),
    ("resource.k8s.io", "resourceclaims/driver", "arbitrary-node:patch"),
    ("resource.k8s.io", "resourceclaims/status", "patch"),
    ("scheduling.k8s.io", "podgroups/status", "patch"),
    // The PodGroups of Coscheduling are a custom kind, too.
    ("scheduling.x-k8s.io", "podgroups", "list"),
    ("scheduling.x-k8s.io", "podgroups", "watch"),
    ("scheduling.x-k8s.io", "podgroups/status", "patch"),
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
    ("", "persistentvolumeclaims", "patch"),
    ("", "persistentvolumes", "patch"),
];

/// Returns every permission that the default plugins need: to watch each kind that they read, and
/// for their requests.
pub(super) fn needed() -> BTreeSet<(String, String, String)> {
    let watched = EventResource::BUILT_IN.into_iter().filter_map(|resource| resource.kind());
    let watched = watched.flat_map(|kind| ["list", "watch"].map(|verb| (kind, verb)));
    let watched = watched.map(|(kind, verb)| (kind.group.into(), kind.plural.into(), verb.into()));
    watched.chain(owned(&REQUESTS)).collect()
}

/// Returns every single permission of these rules.
fn granted(rules: &[PolicyRule]) -> BTreeSet<(String, String, String)> {
    let mut all = BTreeSet::new();
    for rule in rules {
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
fn kinds_of_every_level_may_be_watched() {
    let granted = granted(&cluster_role(DEFAULT).unwrap().rules.unwrap());
    for level in Level::ALL {
        let config = config::defaults(&Gates::at(level).with_groups());
        let profiles = config.build_profiles(&plugins::registry()).unwrap();
        for kind in watched_kinds(&profiles) {
            let (plural, group) = kind.name.split_once('.').unwrap_or((&kind.name, ""));
            for verb in ["list", "watch"] {
                let permission = (group.to_owned(), plural.to_owned(), verb.to_owned());
                assert!(granted.contains(&permission), "{level}: {permission:?}");
            }
        }
    }
}

#[test]
fn role_grants_exactly_the_needed_permissions() {
    let role = cluster_role(DEFAULT).unwrap();
    assert!(role.aggregation_rule.is_none());
    let rules = role.rules.unwrap();
    assert_eq!(granted(&rules), needed());
    let no_names =
        |rule: &PolicyRule| (&rule.non_resource_urls, &rule.resource_names) == (&None, &None);
    assert!(rules.iter().all(no_names));
}

/// Returns the ClusterRole of the scheduler, which has the name of the Deployment.
fn cluster_role(file: &str) -> Option<ClusterRole> {
    let name = find::<Deployment>(file).unwrap().metadata.name;
    find_all::<ClusterRole>(file).into_iter().find(|role| role.metadata.name == name)
}

#[test]
fn extra_rules_add_permissions() {
    let role = cluster_role(EVERYTHING).unwrap();
    let mut expected = needed();
    expected.extend(owned(&[
        ("example.com", "maintenancewindows", "list"),
        ("example.com", "maintenancewindows", "watch"),
    ]));
    assert_eq!(granted(&role.rules.unwrap()), expected);
}

#[test]
fn plugin_of_a_profile_adds_its_permissions() {
    let quotas = [
        ("scheduling.x-k8s.io", "elasticquotas", "list"),
        ("scheduling.x-k8s.io", "elasticquotas", "watch"),
        ("scheduling.x-k8s.io", "elasticquotas/status", "patch"),
        ("scheduling.k8s.io", "priorityclasses", "list"),
        ("scheduling.k8s.io", "priorityclasses", "watch"),
    ];
    let topologies = [
        ("topology.node.k8s.io", "noderesourcetopologies", "list"),
        ("topology.node.k8s.io", "noderesourcetopologies", "watch"),
    ];
    let metrics = [("metrics.k8s.io", "nodes", "list")];
    let evictions = [("", "pods/eviction", "create")];
    for (values, permissions) in [
        ("node-resource-topology", &topologies[..]),
        ("node-load", &metrics),
        ("capacity-scheduling", &quotas),
        ("make-room", &evictions),
    ] {
        let role = cluster_role(&rendering(values)).unwrap();
        let mut expected = needed();
        expected.extend(owned(permissions));
        assert_eq!(granted(&role.rules.unwrap()), expected, "{values}");
    }
}

#[test]
fn gate_that_is_off_takes_the_permissions_on_pod_groups() {
    let role = cluster_role(&rendering("no-pod-groups")).unwrap();
    let mut expected = needed();
    expected.retain(|(_, resource, _)| !resource.starts_with("podgroups"));
    assert_eq!(granted(&role.rules.unwrap()), expected);
}

/// The permissions on Leases, in the namespace of each Role, with the name if they are limited to
/// one.
fn lease_permissions(file: &str) -> Vec<(String, String, Option<String>)> {
    let mut permissions = Vec::new();
    for role in find_all::<Role>(file) {
        let namespace = role.metadata.namespace.unwrap();
        for rule in role.rules.unwrap() {
            let name = rule.resource_names.clone().map(|names| names.join(","));
            for (group, resource, verb) in granted(&[rule]) {
                assert_eq!((group.as_str(), resource.as_str()), ("coordination.k8s.io", "leases"));
                permissions.push((namespace.clone(), verb, name.clone()));
            }
        }
    }
    permissions
}

#[test]
fn roles_grant_the_lease_of_the_election_and_no_other() {
    let election = |namespace: &str, name: &str| {
        let named = |verb: &str| (namespace.to_owned(), verb.to_owned(), Some(name.to_owned()));
        let create = (namespace.to_owned(), "create".to_owned(), None);
        vec![create, named("get"), named("update"), named("watch")]
    };
    assert_eq!(lease_permissions(DEFAULT), election("kube-system", "loadmaster"));
    let elsewhere = lease_permissions(&rendering("other-namespace"));
    assert_eq!(elsewhere, election("leases", "batch-scheduler"));
    assert_eq!(lease_permissions(&rendering("no-election")), []);
    // Its own Lease is that of kube-scheduler.
    let replacement = lease_permissions(&rendering("replaces-kube-scheduler"));
    assert_eq!(replacement, election("kube-system", "kube-scheduler"));
    // The daemon reads the Lease of kube-scheduler if it serves the same name.
    let mut second = election("kube-system", "loadmaster");
    let name = Some("kube-scheduler".to_owned());
    second.push(("kube-system".to_owned(), "get".to_owned(), name));
    assert_eq!(lease_permissions(&rendering("second-profile")), second);
}

/// The Role with the certificates that delegated authentication reads; every cluster has it.
const AUTHENTICATION_READER: &str = "extension-apiserver-authentication-reader";

#[test]
fn authentication_reader_is_bound_in_kube_system() {
    for file in rendered() {
        let bindings = find_all::<RoleBinding>(&file);
        let readers: Vec<_> =
            bindings.iter().filter(|one| one.role_ref.name == AUTHENTICATION_READER).collect();
        assert_eq!(readers.len(), usize::from(cluster_role(&file).is_some()), "{file}");
        for reader in readers {
            assert_eq!(reader.metadata.namespace.as_deref(), Some("kube-system"), "{file}");
        }
    }
}

/// Checks that the only subject is this account.
fn assert_bound_to(account: &ObjectMeta, subjects: Option<Vec<Subject>>) {
    let [subject] = subjects.unwrap().try_into().unwrap();
    assert_eq!(subject.kind, "ServiceAccount");
    assert_eq!(
        (Some(subject.name), subject.namespace),
        (account.name.clone(), account.namespace.clone())
    );
}

#[test]
fn roles_are_bound_to_the_service_account_of_the_pod() {
    for file in rendered() {
        let Some(account) = find::<ServiceAccount>(&file) else { continue };
        // Otherwise every pod that uses the account has its token.
        assert_eq!(account.automount_service_account_token, Some(false), "{file}");
        let account = account.metadata;
        let role = cluster_role(&file).unwrap().metadata.name;
        let mut bindings = find_all::<ClusterRoleBinding>(&file).into_iter();
        let binding = bindings.find(|one| Some(&one.role_ref.name) == role.as_ref()).unwrap();
        assert_eq!(binding.role_ref.kind, "ClusterRole");
        assert_bound_to(&account, binding.subjects);

        let roles = find_all::<Role>(&file);
        let mut bound = 0;
        for binding in find_all::<RoleBinding>(&file) {
            assert_eq!(binding.role_ref.kind, "Role");
            assert_bound_to(&account, binding.subjects);
            if binding.role_ref.name == AUTHENTICATION_READER {
                continue;
            }
            let role = roles
                .iter()
                .find(|role| role.metadata.name.as_ref() == Some(&binding.role_ref.name));
            assert_eq!(role.unwrap().metadata.namespace, binding.metadata.namespace, "{file}");
            bound += 1;
        }
        assert_eq!(bound, roles.len(), "{file}");

        let deployment: Deployment = find(&file).unwrap();
        let pod = deployment.spec.template.spec.unwrap();
        assert_eq!(pod.service_account_name, account.name, "{file}");
        assert_eq!(pod.automount_service_account_token, Some(true), "{file}");
    }
}

#[test]
fn metrics_readers_may_read_the_scraped_paths_and_nothing_else() {
    let file = &rendering("service-monitor");
    let mut roles = find_all::<ClusterRole>(file).into_iter();
    let role =
        roles.find(|role| role.metadata.name.as_deref() == Some("loadmaster-metrics-reader"));
    let [rule] = role.unwrap().rules.unwrap().try_into().unwrap();
    assert_eq!((&rule.resources, &rule.api_groups), (&None, &None));
    assert_eq!(rule.verbs, ["get"]);
    assert_eq!(
        rule.non_resource_urls.unwrap(),
        ["/metrics", "/metrics/resources", "/metrics/slis"]
    );

    let mut bindings = find_all::<ClusterRoleBinding>(file).into_iter();
    let binding = bindings.find(|one| one.role_ref.name == "loadmaster-metrics-reader").unwrap();
    let [subject] = binding.subjects.unwrap().try_into().unwrap();
    assert_eq!(
        (subject.name.as_str(), subject.namespace.as_deref()),
        ("prometheus-k8s", Some("monitoring"))
    );
}

#[test]
fn groups_of_what_if_may_post_changes_to_be_tried_and_nothing_else() {
    let file = &rendering("everything");
    let is_caller = |name: Option<&str>| name == Some("shop-scheduler-whatif-caller");
    let mut roles = find_all::<ClusterRole>(file).into_iter();
    let role = roles.find(|role| is_caller(role.metadata.name.as_deref()));
    let [ask, view] = role.unwrap().rules.unwrap().try_into().unwrap();
    let of = |rule: PolicyRule| {
        assert_eq!((rule.resources, rule.api_groups), (None, None));
        (rule.verbs, rule.non_resource_urls.unwrap())
    };
    assert_eq!(of(ask), (vec!["post".to_owned()], vec!["/whatif/v1".to_owned()]));
    assert_eq!(of(view), (vec!["get".to_owned()], vec!["/whatif/*".to_owned()]));
    let mut bindings = find_all::<ClusterRoleBinding>(file).into_iter();
    let binding = bindings.find(|one| is_caller(Some(&one.role_ref.name))).unwrap();
    let [subject] = binding.subjects.unwrap().try_into().unwrap();
    assert_eq!((subject.kind.as_str(), subject.name.as_str()), ("Group", "shop-platform"));
    assert!(!read(DEFAULT).contains("whatif"), "off by default");
}

#[test]
fn explain_groups_may_ask_questions_and_nothing_else() {
    let file = &rendering("everything");
    let mut roles = find_all::<ClusterRole>(file).into_iter();
    let is_reader = |name: Option<&str>| name == Some("shop-scheduler-explain-reader");
    let role = roles.find(|role| is_reader(role.metadata.name.as_deref()));
    let [rule] = role.unwrap().rules.unwrap().try_into().unwrap();
    assert_eq!((&rule.resources, &rule.api_groups), (&None, &None));
    assert_eq!(
        (rule.verbs, rule.non_resource_urls.unwrap()),
        (vec!["get".to_owned()], vec!["/explain/*".to_owned()])
    );

    let mut bindings = find_all::<ClusterRoleBinding>(file).into_iter();
    let binding = bindings.find(|one| is_reader(Some(&one.role_ref.name))).unwrap();
    let [subject] = binding.subjects.unwrap().try_into().unwrap();
    assert_eq!((subject.kind.as_str(), subject.name.as_str()), ("Group", "shop-support"));
}
