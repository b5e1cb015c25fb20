//! Two replicas: one Lease, an update and a drain that leave one of them running, different nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use loadmaster::config::{self, LeaderElection};

use super::scheduler::{configuration, gates};
use super::{DEFAULT, NEXT_VERSION, find, rendered, rendering};

fn spec(file: &str) -> DeploymentSpec {
    find::<Deployment>(file).unwrap().spec
}

fn pod(file: &str) -> PodSpec {
    spec(file).template.spec.unwrap()
}

fn leader_election(file: &str) -> LeaderElection {
    config::load(&configuration(file), &gates(file)).unwrap().config.leader_election
}

#[test]
fn two_replicas_with_leader_election_are_the_default() {
    let election = leader_election(DEFAULT);
    assert_eq!(spec(DEFAULT).replicas, Some(2));
    assert!(election.leader_elect);
    assert_eq!(election.resource_namespace, "kube-system");
    assert_eq!(election.resource_name, "loadmaster");
}

#[test]
fn replicas_without_leader_election_never_run_at_once() {
    for file in rendered() {
        if leader_election(&file).leader_elect {
            continue;
        }
        let spec = spec(&file);
        assert_eq!(spec.replicas, Some(1), "{file}");
        assert_eq!(spec.strategy.unwrap().type_.as_deref(), Some("Recreate"), "{file}");
    }
    assert!(!leader_election(&rendering("no-election")).leader_elect);
}

/// Returns how many pods an update adds, and how many may be missing.
fn update(file: &str) -> (IntOrString, IntOrString) {
    let strategy = spec(file).strategy.unwrap();
    assert_eq!(strategy.type_.as_deref(), Some("RollingUpdate"), "{file}");
    let limits = strategy.rolling_update.unwrap();
    (limits.max_surge.unwrap(), limits.max_unavailable.unwrap())
}

#[test]
fn update_starts_a_new_replica_before_it_stops_an_old_one() {
    assert_eq!(update(DEFAULT), (IntOrString::Int(1), IntOrString::Int(0)));
    assert_eq!(update(&rendering("one-replica")), (IntOrString::Int(1), IntOrString::Int(0)));
}

/// An additional pod may find no node of its own.
#[test]
fn update_frees_a_node_first_if_replicas_never_share_one() {
    let file = rendering("separate-nodes");
    assert_eq!(update(&file), (IntOrString::Int(0), IntOrString::Int(1)));
}

#[test]
fn budget_lets_drains_proceed() {
    let mut budgets = 0;
    for file in rendered() {
        let Some(budget) = find::<PodDisruptionBudget>(&file) else { continue };
        let spec = budget.spec.unwrap();
        assert_eq!(spec.min_available, None, "{file}");
        let blocking = [IntOrString::Int(0), IntOrString::String("0%".to_owned())];
        assert!(!blocking.contains(&spec.max_unavailable.unwrap()), "{file}");
        assert_eq!(spec.unhealthy_pod_eviction_policy.as_deref(), Some("AlwaysAllow"), "{file}");
        budgets += 1;
    }
    assert!(budgets > 5, "{budgets}");
}

/// Whether a selector matches the pods of a rendering.
fn matches_pods(selector: Option<&LabelSelector>, file: &str) -> bool {
    let labels = spec(file).template.metadata.unwrap().labels.unwrap();
    let wanted = selector.and_then(|selector| selector.match_labels.clone()).unwrap();
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[test]
fn replicas_prefer_different_nodes_and_zones() {
    let pod = pod(DEFAULT);
    let affinity = pod.affinity.unwrap().pod_anti_affinity.unwrap();
    assert_eq!(affinity.required_during_scheduling_ignored_during_execution, None);
    let terms = affinity.preferred_during_scheduling_ignored_during_execution.unwrap();
    let [term] = terms.try_into().unwrap();
    let term = term.pod_affinity_term;
    assert_eq!(term.topology_key, "kubernetes.io/hostname");
    assert!(matches_pods(term.label_selector.as_ref(), DEFAULT));

    let constraints = pod.topology_spread_constraints.unwrap();
    let keys: Vec<&str> = constraints.iter().map(|one| one.topology_key.as_str()).collect();
    assert_eq!(keys, ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]);
    for constraint in constraints {
        assert_eq!(constraint.when_unsatisfiable, "ScheduleAnyway");
        assert!(matches_pods(constraint.label_selector.as_ref(), DEFAULT));
    }
}

#[test]
fn values_decide_on_the_spread_of_replicas() {
    let required = pod(&rendering("separate-nodes")).affinity.unwrap().pod_anti_affinity.unwrap();
    let [term] =
        required.required_during_scheduling_ignored_during_execution.unwrap().try_into().unwrap();
    assert_eq!(term.topology_key, "kubernetes.io/hostname");

    let own = pod(&rendering("own-spread"));
    let anti_affinity = own.affinity.unwrap().pod_anti_affinity.unwrap();
    assert_eq!(anti_affinity.preferred_during_scheduling_ignored_during_execution, None);
    let [term] = anti_affinity
        .required_during_scheduling_ignored_during_execution
        .unwrap()
        .try_into()
        .unwrap();
    assert_eq!(term.topology_key, "topology.kubernetes.io/zone");
    let [constraint] = own.topology_spread_constraints.unwrap().try_into().unwrap();
    let selector = constraint.label_selector.unwrap().match_labels.unwrap();
    let given = ("app.kubernetes.io/component".to_owned(), "scheduler".to_owned());
    assert_eq!(selector, BTreeMap::from([given]));

    let none = pod(&rendering("no-spread"));
    assert_eq!((none.affinity, none.topology_spread_constraints), (None, None));

    let node_affinity = pod(&rendering("everything")).affinity.unwrap();
    assert!(node_affinity.node_affinity.is_some() && node_affinity.pod_anti_affinity.is_some());
}

#[test]
fn next_version_of_the_chart_keeps_the_pods() {
    let labels = |file: &str| find::<Deployment>(file).unwrap().metadata.labels.unwrap();
    let version = "app.kubernetes.io/version";
    assert_eq!(labels(NEXT_VERSION)[version], "99.0.0");
    assert_ne!(labels(DEFAULT)[version], "99.0.0");
    assert_eq!(spec(NEXT_VERSION), spec(DEFAULT));
}
