//! Compares both forms with the oracle, and what-if changes with a new count.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Attempt, AttemptMut, CycleState, EventResource, NodeBits, Overlay, Pod, api};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use testkit::{SetJson, handle};

use super::built;
use super::oracle::{Oracle, own_constraints};
use super::worlds::{Placed, Setup, labels, place, placed, setup, spread_pod};
use crate::arbitrary::{World, node_name};
use crate::forms;

const HARD: &str = "DoNotSchedule";
const SOFT: &str = "ScheduleAnyway";

/// Kinds of controllers. The plugin ignores the selector of a Deployment.
const OWNERS: [&str; 4] = ["ReplicationController", "ReplicaSet", "StatefulSet", "Deployment"];

/// Returns the candidates whose scores [`forms::check_score`] compares.
fn candidates(world: &World, choice: u64) -> Vec<&api::Node> {
    world.some_nodes(choice).iter().map(|node| world.node(node)).collect()
}

/// Generates a Service, ReplicationController, ReplicaSet or StatefulSet called `own`, the labels
/// it selects, and whether it is in the namespace of the pod.
fn selecting() -> impl Strategy<Value = (EventResource, Value, bool)> {
    let kind = select(vec![
        EventResource::Service,
        EventResource::Service,
        EventResource::ReplicationController,
        EventResource::ReplicaSet,
        EventResource::StatefulSet,
    ]);
    let pairs = prop_oneof![4 => labels().prop_map(|pairs| json!(pairs)), 1 => Just(Value::Null)];
    (kind, pairs, prop::bool::weighted(0.8))
}

/// Derives the selector of default constraints from API objects; `None` if there is none.
fn default_selector(
    pod: &api::Pod,
    objects: &[(EventResource, Value, bool)],
) -> Option<api::LabelSelector> {
    let beside = |kind: EventResource| {
        let known = objects.iter().rev().find(move |(own, ..)| *own == kind);
        known.filter(|(_, pairs, beside)| *beside && pairs.is_object()).map(|(_, pairs, _)| pairs)
    };
    let owner = pod.metadata.owner_references.first();
    let mut selector = api::LabelSelector::default();
    if let Some(service) = beside(EventResource::Service) {
        let pairs: BTreeMap<String, String> = super::from(service.clone());
        let selects = pairs.iter().all(|(key, value)| pod.metadata.labels.get(key) == Some(value));
        selector.match_labels.extend(pairs.into_iter().filter(|_| selects));
    }
    let controller = match owner.map(|owner| owner.kind.as_str()) {
        Some("ReplicationController") => beside(EventResource::ReplicationController),
        Some("ReplicaSet") => beside(EventResource::ReplicaSet),
        Some("StatefulSet") => beside(EventResource::StatefulSet),
        _ => None,
    };
    let pairs: BTreeMap<String, String> = controller.cloned().map(super::from).unwrap_or_default();
    for (key, value) in pairs {
        if owner.is_some_and(|owner| owner.kind == "ReplicationController") {
            selector.match_labels.insert(key, value);
        } else {
            let (operator, values) = ("In".to_owned(), vec![value]);
            let requirement = api::SelectorRequirement { key, operator, values };
            selector.match_expressions.push(requirement);
        }
    }
    (selector != api::LabelSelector::default()).then_some(selector)
}

fn add_objects(world: &mut World, objects: &[(EventResource, Value, bool)]) {
    for (kind, pairs, beside) in objects {
        let namespace = if *beside { "default" } else { "other" };
        let selector = match kind {
            EventResource::Service | EventResource::ReplicationController => pairs.clone(),
            _ if pairs.is_null() => Value::Null,
            _ => json!({"matchLabels": pairs}),
        };
        let object = json!({
            "metadata": {"namespace": namespace, "name": "own"}, "spec": {"selector": selector},
        });
        ["default", "other"].iter().for_each(|namespace| {
            world.cluster.set_json(kind, namespace, "own", None);
        });
        world.cluster.set_json(kind, namespace, "own", Some(Arc::new(object)));
    }
}

fn default_constraints(list: Option<&Value>) -> Vec<api::TopologySpreadConstraint> {
    let system = json!([
        {"maxSkew": 3, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": SOFT},
        {"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": SOFT},
    ]);
    super::from(list.unwrap_or(&system).clone())
}

/// Applies what-if changes to a state and to a cluster. A pod that exists is removed, other pods
/// are added.
fn what_if(world: &mut World, state: &mut CycleState, pod: &Pod, changes: &[(Placed, bool)]) {
    let extensions = built(json!({})).pre_filter_extensions.unwrap();
    for (number, (other, is_added)) in changes.iter().enumerate() {
        let Some(node) = world.cluster.node_named(&node_name(other.node)) else { continue };
        let view = world.cluster.node(node);
        let status = if *is_added {
            let other = other.api(&format!("what-if-{number}"));
            let compact = Arc::new(Pod::from_api(&other));
            let mut overlay = Overlay::default();
            overlay.add(compact.clone());
            let status = extensions.add_pod(
                AttemptMut::new(state, pod, &handle(view.cluster())),
                &compact,
                &view.with(&overlay),
            );
            place(world, other);
            status
        } else {
            let there = world.pods.iter().position(|(_, pod)| pod.spec.node_name == **view.name());
            let Some(there) = there else { continue };
            let (ix, _) = world.pods.swap_remove(there);
            let removed = world.cluster.pod(ix).pod.clone();
            let status = extensions.remove_pod(
                AttemptMut::new(state, pod, &handle(view.cluster())),
                &removed,
                &view,
            );
            world.cluster.remove_pod(ix);
            status
        };
        assert!(status.is_success());
    }
}

/// Keeps hard constraints and marks no pod as terminating, because what-if changes count
/// terminating pods and PreFilter does not.
fn without_quirks(setup: &mut Setup, pod: &mut api::Pod, changes: &mut [(Placed, bool)]) {
    pod.spec.topology_spread_constraints.retain(|own| own.when_unsatisfiable == HARD);
    let pods = setup.pods.iter_mut().chain(changes.iter_mut().map(|(pod, _)| pod));
    pods.for_each(|pod| pod.terminating = false);
}

proptest! {
    #![proptest_config(forms::config())]

    #[test]
    fn filter_forms_agree(setup in setup(), pod in spread_pod(), choice: u64) {
        let world = setup.world();
        let oracle = Oracle::new(&world, &pod, own_constraints(&pod, HARD));
        forms::check_filter(&built(json!({})), &world, &pod, choice, oracle.verdict());
    }

    #[test]
    fn score_forms_agree(setup in setup(), pod in spread_pod(), choice: u64) {
        let world = setup.world();
        let oracle = Oracle::new(&world, &pod, own_constraints(&pod, SOFT));
        let candidates = candidates(&world, choice);
        let score = oracle.score(&candidates, true);
        forms::check_score(&built(json!({})), &world, &pod, choice, score);
    }

    #[test]
    fn default_selector_comes_from_services_and_controllers(
        setup in setup(),
        mut pod in crate::arbitrary::pod(),
        objects in prop::collection::vec(selecting(), 0..4),
        owner in prop::option::of(select(OWNERS.to_vec())),
        list in prop::option::of(select(vec![HARD, SOFT])),
        choice: u64,
    ) {
        let mut world = setup.world();
        add_objects(&mut world, &objects);
        pod.metadata.owner_references.extend(owner.map(|kind| api::OwnerReference {
            api_version: if kind == OWNERS[0] { "v1" } else { "apps/v1" }.to_owned(),
            kind: kind.to_owned(),
            name: "own".to_owned(),
            uid: String::new(),
            controller: true,
        }));
        let list = list.map(|action| {
            json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": action}])
        });
        let plugin = built(match &list {
            Some(list) => json!({"defaultingType": "List", "defaultConstraints": list}),
            None => json!({}),
        });
        let selector = default_selector(&pod, &objects);
        let of = |action: &str| {
            let mut constraints = default_constraints(list.as_ref());
            constraints.retain(|own| selector.is_some() && own.when_unsatisfiable == action);
            constraints.iter_mut().for_each(|own| own.label_selector.clone_from(&selector));
            Oracle::new(&world, &pod, constraints)
        };
        let (hard, soft) = (of(HARD), of(SOFT));
        forms::check_filter(&plugin, &world, &pod, choice, hard.verdict());
        let candidates = candidates(&world, choice);
        let score = soft.score(&candidates, list.is_some());
        forms::check_score(&plugin, &world, &pod, choice, score);
    }

    #[test]
    fn what_if_changes_equal_a_new_count(
        mut setup in setup(),
        mut pod in spread_pod(),
        mut changes in prop::collection::vec((placed(), any::<bool>()), 1..8),
    ) {
        without_quirks(&mut setup, &mut pod, &mut changes);
        let (plugin, mut world, pod) = (built(json!({})), setup.world(), Pod::from_api(&pod));
        let (pre_filter, filter) = (plugin.pre_filter.unwrap(), plugin.filter.unwrap());
        let mut state = CycleState::new();
        if pre_filter.pre_filter(AttemptMut::new(&mut state, &pod, &handle(&world.cluster))).is_ok() {
            let mut changed = state.clone();
            what_if(&mut world, &mut changed, &pod, &changes);
            pre_filter.pre_filter(AttemptMut::new(&mut state, &pod, &handle(&world.cluster))).unwrap();
            let passing = |state: &CycleState| {
                let mut nodes: NodeBits = world.cluster.nodes().clone();
                filter.filter_set(&Attempt::new(state, &pod, &handle(&world.cluster)), &mut nodes).unwrap();
                nodes
            };
            prop_assert_eq!(passing(&changed), passing(&state));
            for node in world.cluster.nodes().iter() {
                let view = world.cluster.node(node);
                let status = filter.filter(&Attempt::new(&changed, &pod, &handle(view.cluster())), &view);
                prop_assert_eq!(status, filter.filter(&Attempt::new(&state, &pod, &handle(view.cluster())), &view));
            }
        }
    }
}
