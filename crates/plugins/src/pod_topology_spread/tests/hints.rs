//! Tests of the hints: worked examples, and a check that every change that helps requeues the pod.

use std::collections::BTreeMap;

use framework::{
    ActionType, Attempt, AttemptMut, CycleState, EventObjects, Node, QueueingHint, api,
};
use proptest::prelude::*;
use proptest::sample::select;
use testkit::{handle, node, pod};

use super::worlds::{Placed, labels, place, placed, set_node, setup, spread_pod};
use super::*;
use crate::arbitrary::{self, World, node_name};
use crate::forms;

use QueueingHint::{Queue, Skip};

fn after_pod(waiting: &Pod, old: Option<&Pod>, new: Option<&Pod>) -> QueueingHint {
    let action = match (old, new) {
        (None, _) => ActionType::ADD,
        (_, None) => ActionType::DELETE,
        _ => ActionType::UPDATE,
    };
    let objects = EventObjects::Pod { old, new };
    forms::hint(&built(json!({})), waiting, EventResource::AssignedPod, action, objects)
}

fn after_node(waiting: &Pod, old: Option<&Node>, new: Option<&Node>) -> QueueingHint {
    let action = match (old, new) {
        (None, _) => ActionType::ADD,
        (_, None) => ActionType::DELETE,
        _ => ActionType::UPDATE_NODE_LABEL,
    };
    let objects = EventObjects::Node { old, new };
    forms::hint(&built(json!({})), waiting, EventResource::Node, action, objects)
}

fn deleted(pod: &mut api::Pod) {
    pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
}

#[test]
fn added_and_deleted_counting_pods_requeue() {
    let waiting = spread(&[hard("zone", 1)]).build();
    let rows = [
        (web(0, 0), Queue),
        (web(0, 0).with(deleted), Queue),
        (web(0, 0).label("app", "db"), Skip),
        (web(0, 0).namespace("other"), Skip),
        (pod("pending").label("app", "web"), Skip),
        (pod("nominated").label("app", "web").nominated("n0"), Queue),
    ];
    for (other, expected) in rows {
        let compact = other.clone().build();
        assert_eq!(after_pod(&waiting, None, Some(&compact)), expected, "{other:?} added");
        assert_eq!(after_pod(&waiting, Some(&compact), None), expected, "{other:?} deleted");
    }
}

#[test]
fn pod_that_starts_or_stops_to_count_requeues() {
    let waiting = spread(&[hard("zone", 1)]).build();
    let plain = || web(0, 0);
    let rows = [
        (plain(), plain().label("app", "db"), Queue),
        (plain().label("app", "db"), plain(), Queue),
        (plain(), plain().label("tier", "front"), Skip),
        (plain(), plain().cpu("1"), Skip),
        (plain().label("app", "db"), plain().label("app", "cache"), Skip),
        // kube-scheduler does not register these events.
        (plain(), plain().with(deleted), Queue),
        (plain().label("app", "db"), plain().label("app", "db").with(deleted), Skip),
    ];
    for (old, new, expected) in rows {
        let hint = after_pod(&waiting, Some(&old.clone().build()), Some(&new.clone().build()));
        assert_eq!(hint, expected, "{old:?} to {new:?}");
    }
}

#[test]
fn own_update_requeues_if_the_pod_counts_differently() {
    let old = || spread(&[hard("zone", 1)]);
    let honoring = || spread(&[hard_with("zone", 1, json!({"nodeTaintsPolicy": "Honor"}))]);
    let by_key = || {
        let fields = json!({"labelSelector": {}, "matchLabelKeys": ["revision"]});
        spread(&[hard_with("zone", 1, fields)])
    };
    let rows = [
        (old(), old(), Skip),
        (old(), old().label("tier", "front"), Skip),
        (old(), old().label("app", "db"), Queue),
        (old(), old().toleration("k", "Exists", "", ""), Skip),
        (honoring(), honoring().toleration("k", "Exists", "", ""), Queue),
        // kube-scheduler skips: the pod matches its selector before and after.
        (by_key().label("revision", "1"), by_key().label("revision", "2"), Queue),
    ];
    for (old, new, expected) in rows {
        let (before, after) = (old.clone().build(), new.clone().build());
        for waiting in [&before, &after] {
            let hint = after_pod(waiting, Some(&before), Some(&after));
            assert_eq!(hint, expected, "{old:?} to {new:?}");
        }
    }
}

#[test]
fn counting_nodes_requeue_when_added_deleted_or_moved() {
    let waiting = spread(&[hard("zone", 1), hard("rack", 1)]).node_selector("disk", "ssd").build();
    let complete = || node("n").label("zone", "a").label("rack", "r");
    let incomplete = || node("n").label("zone", "a");
    for (other, expected) in [(complete(), Queue), (incomplete(), Skip)] {
        let other = other.build();
        assert_eq!(after_node(&waiting, None, Some(&other)), expected);
        assert_eq!(after_node(&waiting, Some(&other), None), expected);
    }
    let rows = [
        (complete(), incomplete(), Queue),
        (incomplete(), complete(), Queue),
        (incomplete(), incomplete().label("zone", "b"), Skip),
        (complete(), complete().label("zone", "b"), Queue),
        (complete(), complete().label("other", "x"), Skip),
        (complete(), complete().taint("k", "", "NoSchedule"), Queue),
        (incomplete(), incomplete().taint("k", "", "NoSchedule"), Skip),
        // kube-scheduler does not notice that the node starts to count.
        (complete(), complete().label("disk", "ssd"), Queue),
    ];
    for (old, new, expected) in rows {
        let hint = after_node(&waiting, Some(&old.clone().build()), Some(&new.clone().build()));
        assert_eq!(hint, expected, "{old:?} to {new:?}");
    }
}

fn hard_defaults() -> Plugin {
    let constraint =
        json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
    built(json!({"defaultingType": "List", "defaultConstraints": [constraint]}))
}

#[test]
fn changed_selector_of_hard_default_constraints_requeues() {
    use EventResource::{ReplicaSet, Service, StatefulSet};
    let waiting = pod("p").label("app", "web").with(|api| {
        api.metadata.owner_references.push(api::OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "web".to_owned(),
            uid: String::new(),
            controller: true,
        });
    });
    let hint = |waiting: &PodBuilder, kind: EventResource, old: Option<&Value>, new| {
        let decoded = |json: &Value| testkit::object(kind.clone(), json.clone());
        let [old, new] = [old, new].map(|json| json.map(decoded));
        let objects = EventObjects::Other { old: old.as_ref(), new: new.as_ref() };
        let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
        forms::hint(&hard_defaults(), &waiting.clone().build(), kind, action, objects)
    };
    let object = |namespace: &str, name: &str, selector: Value| {
        let metadata = json!({"namespace": namespace, "name": name});
        json!({"metadata": metadata, "spec": {"selector": selector}})
    };
    let web = json!({"app": "web"});
    let service = object("default", "any", web.clone());
    let other = object("default", "any", json!({"app": "db"}));
    let (own, foreign) =
        (object("default", "web", web.clone()), object("default", "db", web.clone()));
    for (kind, old, new, expected) in [
        (Service, None, &service, Queue),
        (Service, Some(&service), &other, Queue),
        (Service, Some(&service), &service, Skip),
        (Service, None, &other, Skip),
        (Service, None, &object("other", "any", web), Skip),
        (ReplicaSet, None, &own, Queue),
        (ReplicaSet, Some(&own), &own, Skip),
        (ReplicaSet, None, &foreign, Skip),
        (StatefulSet, None, &own, Skip),
    ] {
        assert_eq!(hint(&waiting, kind.clone(), old, Some(new)), expected, "{kind:?} {new}");
        let with_own = waiting.clone().with(|api| {
            api.spec.topology_spread_constraints = vec![from(hard("zone", 1))];
        });
        assert_eq!(hint(&with_own, kind, old, Some(new)), Skip);
    }
}

/// Generates a pod with any constraints, or a pod that fits few nodes: it requires an SSD and tight
/// constraints.
fn waiting() -> impl Strategy<Value = api::Pod> {
    prop_oneof![spread_pod(), spread_pod().prop_map(tightened)]
}

fn tightened(mut pod: api::Pod) -> api::Pod {
    pod.metadata.labels.insert("app".to_owned(), "web".to_owned());
    pod.spec.node_selector = Some([("disk".to_owned(), "ssd".to_owned())].into());
    pod.spec.affinity = None;
    pod.spec.topology_spread_constraints.truncate(2);
    for (constraint, key) in pod.spec.topology_spread_constraints.iter_mut().zip(["zone", HOSTNAME])
    {
        let tight = from(hard(key, 1));
        let loose = std::mem::replace(constraint, tight);
        constraint.min_domains = loose.min_domains;
        constraint.node_affinity_policy = loose.node_affinity_policy;
        constraint.node_taints_policy = loose.node_taints_policy;
        constraint.match_label_keys = loose.match_label_keys;
    }
    pod
}

/// A change of the cluster or of the waiting pod.
#[derive(Debug, Clone)]
enum Step {
    AddPod(Placed),
    RemovePod(usize),
    Relabel(usize, BTreeMap<String, String>),
    Terminate(usize),
    SetNode(usize, Box<api::Node>, bool),
    /// Sets or removes a label of a node.
    RelabelNode(usize, &'static str, Option<&'static str>),
    RemoveNode(usize),
    /// Replaces the labels of the waiting pod.
    RelabelOwn(BTreeMap<String, String>),
    /// Adds a toleration to the waiting pod.
    Tolerate(&'static str),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0..20_usize;
    let set_node = (0..8_usize, arbitrary::node(), prop::bool::weighted(0.9));
    let label = select(vec![("zone", "a"), ("zone", "b"), ("disk", "ssd"), ("disk", "ssd")]);
    prop_oneof![
        2 => placed().prop_map(Step::AddPod),
        2 => number().prop_map(Step::RemovePod),
        2 => (number(), labels()).prop_map(|(pod, labels)| Step::Relabel(pod, labels)),
        2 => number().prop_map(Step::Terminate),
        3 => set_node.prop_map(|(n, node, named)| Step::SetNode(n, Box::new(node), named)),
        6 => (0..8_usize, label, any::<bool>()).prop_map(|(n, (key, value), is_set)| {
            Step::RelabelNode(n, key, is_set.then_some(value))
        }),
        2 => (0..7_usize).prop_map(Step::RemoveNode),
        1 => labels().prop_map(Step::RelabelOwn),
        1 => select(vec!["k1", "k2"]).prop_map(Step::Tolerate),
    ]
}

/// Applies a change and returns its hint.
fn apply(step: Step, world: &mut World, waiting: &mut api::Pod) -> QueueingHint {
    let known = |number: usize, world: &World| number % world.pods.len();
    let update = |world: &mut World, number, change: &dyn Fn(&mut api::Pod)| {
        let (ix, old) = world.pods.swap_remove(known(number, world));
        world.cluster.remove_pod(ix);
        let mut new = old.clone();
        change(&mut new);
        place(world, new.clone());
        let compact = Pod::from_api(waiting);
        after_pod(&compact, Some(&Pod::from_api(&old)), Some(&Pod::from_api(&new)))
    };
    match step {
        Step::AddPod(other) => {
            place(world, other.api("new"));
            after_pod(&Pod::from_api(waiting), None, Some(&Pod::from_api(&other.api("new"))))
        }
        Step::RemovePod(_) | Step::Relabel(..) | Step::Terminate(_) if world.pods.is_empty() => {
            Skip
        }
        Step::RemovePod(number) => {
            let (ix, old) = world.pods.swap_remove(known(number, world));
            world.cluster.remove_pod(ix);
            after_pod(&Pod::from_api(waiting), Some(&Pod::from_api(&old)), None)
        }
        Step::Relabel(number, labels) => {
            update(world, number, &|pod| pod.metadata.labels.clone_from(&labels))
        }
        Step::Terminate(number) => update(world, number, &deleted),
        Step::SetNode(number, mut node, named) => {
            node.metadata.name = node_name(number);
            if named {
                node.metadata.labels.insert(HOSTNAME.to_owned(), node_name(number));
            }
            replace_node(*node, world, waiting)
        }
        Step::RelabelNode(number, key, value) => {
            let Some(mut node) = world.nodes.get(&node_name(number)).cloned() else { return Skip };
            node.metadata.labels.remove(key);
            node.metadata.labels.extend(value.map(|value| (key.to_owned(), value.to_owned())));
            replace_node(node, world, waiting)
        }
        Step::RemoveNode(number) => {
            let Some(old) = world.nodes.remove(&node_name(number)) else { return Skip };
            world.cluster.remove_node(&old.metadata.name);
            after_node(&Pod::from_api(waiting), Some(&Node::from_api(&old).0), None)
        }
        Step::RelabelOwn(labels) => {
            let old = Pod::from_api(waiting);
            waiting.metadata.labels = labels;
            let new = Pod::from_api(waiting);
            after_pod(&new, Some(&old), Some(&new))
        }
        Step::Tolerate(key) => {
            let old = Pod::from_api(waiting);
            let (key, operator) = (key.to_owned(), "Exists".to_owned());
            let toleration = api::Toleration { key, operator, ..api::Toleration::default() };
            waiting.spec.tolerations.push(toleration);
            let new = Pod::from_api(waiting);
            after_pod(&new, Some(&old), Some(&new))
        }
    }
}

fn replace_node(node: api::Node, world: &mut World, waiting: &api::Pod) -> QueueingHint {
    let old = world.nodes.get(&node.metadata.name).map(|old| Node::from_api(old).0);
    let new = Node::from_api(&node).0;
    set_node(world, node);
    after_node(&Pod::from_api(waiting), old.as_ref(), Some(&new))
}

/// Returns the nodes that hard constraints allow.
fn passing(world: &World, pod: &api::Pod) -> Vec<String> {
    let (plugin, pod) = (built(json!({})), Pod::from_api(pod));
    let mut state = CycleState::new();
    let pre_filter = plugin.pre_filter.unwrap();
    let mut nodes = world.cluster.nodes().clone();
    if pre_filter.pre_filter(AttemptMut::new(&mut state, &pod, &handle(&world.cluster))).is_ok() {
        let filter = plugin.filter.unwrap();
        filter
            .filter_set(&Attempt::new(&state, &pod, &handle(&world.cluster)), &mut nodes)
            .unwrap();
    }
    nodes.iter().map(|node| world.cluster.node_name(node).to_string()).collect()
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 300, ..forms::config() })]

    #[test]
    fn change_that_helps_requeues_the_pod(
        setup in setup(),
        mut waiting in waiting(),
        steps in prop::collection::vec(step(), 1..8),
    ) {
        let mut world = setup.world();
        let mut before = passing(&world, &waiting);
        for step in steps {
            let described = format!("{step:?}");
            let hint = apply(step, &mut world, &mut waiting);
            let after = passing(&world, &waiting);
            let helped: Vec<_> = after.iter().filter(|node| !before.contains(node)).collect();
            prop_assert!(hint == Queue || helped.is_empty(), "{described} helps on {helped:?}");
            before = after;
        }
    }
}
