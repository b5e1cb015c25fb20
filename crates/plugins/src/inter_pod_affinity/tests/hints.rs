//! Tests of the hints: worked examples, and a brute-force check that every change that makes the
//! pod fit a node requeues it.

use std::collections::BTreeSet;

use framework::{Cluster, EventForPod, EventObjects, Node, Pod, QueueingHint};
use proptest::prelude::*;
use proptest::test_runner::Config;
use testkit::{NodeBuilder, PodBuilder, SetJson, cluster, handle, node, object, pod};

use super::oracle::{self, Objects};
use super::worlds::{Event, change, objects, some_pod};
use super::*;
use crate::forms;

fn ask(
    pod: &Pod,
    resource: EventResource,
    action: ActionType,
    objects: EventObjects<'_>,
    cluster: &Cluster,
) -> QueueingHint {
    let incoming = ClusterEvent::new(resource, action);
    let events = default_plugin().events.unwrap();
    let registered = events.iter().find(|registered| registered.event.matches(&incoming)).unwrap();
    let handle = handle(cluster);
    registered.evaluate_hint(EventForPod::new(pod, objects, &handle)).unwrap_or(QueueingHint::Queue)
}

fn action<T>(old: Option<&T>, new: Option<&T>, update: ActionType) -> ActionType {
    match (old, new) {
        (None, _) => ActionType::ADD,
        (_, None) => ActionType::DELETE,
        _ => update,
    }
}

fn after_pod(
    cluster: &Cluster,
    pod: PodBuilder,
    old: Option<PodBuilder>,
    new: Option<PodBuilder>,
) -> QueueingHint {
    let (old, new) = (old.map(PodBuilder::build), new.map(PodBuilder::build));
    let (old, new) = (old.as_ref(), new.as_ref());
    let action = action(old, new, ActionType::UPDATE_POD_LABEL);
    let objects = EventObjects::Pod { old, new };
    ask(&pod.build(), EventResource::AssignedPod, action, objects, cluster)
}

fn after_node(
    cluster: &Cluster,
    pod: PodBuilder,
    old: Option<NodeBuilder>,
    new: Option<NodeBuilder>,
) -> QueueingHint {
    let (old, new) = (old.map(NodeBuilder::build), new.map(NodeBuilder::build));
    let (old, new) = (old.as_ref(), new.as_ref());
    let action = action(old, new, ActionType::UPDATE_NODE_LABEL);
    ask(&pod.build(), EventResource::Node, action, EventObjects::Node { old, new }, cluster)
}

fn after_namespace(
    cluster: &Cluster,
    pod: PodBuilder,
    old: Option<Value>,
    new: Option<Value>,
) -> QueueingHint {
    let [old, new] = [old, new].map(|json| Some(object(EventResource::Namespace, json?)));
    let (old, new) = (old.as_ref(), new.as_ref());
    let action = action(old, new, ActionType::UPDATE);
    ask(&pod.build(), EventResource::Namespace, action, EventObjects::Other { old, new }, cluster)
}

fn app(name: &str) -> PodBuilder {
    pod(name).label("app", name)
}

/// Nodes n1 and n2 in zone a and n3 in zone b, with these pods.
fn with(pods: impl IntoIterator<Item = PodBuilder>) -> Cluster {
    let nodes = [node("n1").zone("a"), node("n2").zone("a"), node("n3").zone("b")];
    cluster(nodes.map(|node| node.build()), pods.into_iter().map(PodBuilder::build))
}

const QUEUE: QueueingHint = QueueingHint::Queue;
const SKIP: QueueingHint = QueueingHint::Skip;

#[test]
fn added_pod_requeues_pods_with_matching_affinity() {
    let empty = with([]);
    let near = || app("p").near(on_app("web", ZONE));
    let added = |pod: PodBuilder, new: PodBuilder| after_pod(&empty, pod, None, Some(new));
    let web = || app("web").on("n1");
    assert_eq!(added(near(), web()), QUEUE);
    assert_eq!(added(near(), app("db").on("n1")), SKIP);
    assert_eq!(added(near(), web().namespace("other")), SKIP);
    assert_eq!(added(near().near(on_app("db", ZONE)), web()), SKIP, "one of two terms");
    assert_eq!(added(app("p").apart(on_app("web", ZONE)), web()), SKIP);
    assert_eq!(added(app("p"), web()), SKIP);
    assert_eq!(added(near(), app("web")), SKIP, "it has no node");
    assert_eq!(added(near(), app("web").nominated("n1")), QUEUE);

    let relabelled = |old, new| after_pod(&empty, near(), Some(old), Some(new));
    assert_eq!(relabelled(app("web").label("app", "db").on("n1"), web()), QUEUE);
    assert_eq!(relabelled(web(), web().label("tier", "x")), SKIP);
}

#[test]
fn deleted_pod_requeues_pods_with_matching_anti_affinity() {
    let empty = with([]);
    let gone = |pod: PodBuilder, old: PodBuilder| after_pod(&empty, pod, Some(old), None);
    let web = || app("web").on("n1");
    let apart = || app("p").apart(on_app("web", ZONE));
    assert_eq!(gone(apart(), web()), QUEUE);
    assert_eq!(gone(apart(), app("db").on("n1")), SKIP);
    assert_eq!(gone(apart(), app("web")), SKIP, "it had no node");
    assert_eq!(gone(apart(), app("web").nominated("n1")), QUEUE);
    assert_eq!(gone(app("p"), web().apart(on_app("p", HOST))), QUEUE);
    assert_eq!(gone(app("p"), web().apart(on_app("q", HOST))), SKIP);
    // 1.36 requires that all terms match, although one term is enough to reject the pod.
    assert_eq!(gone(apart().apart(on_app("db", ZONE)), web()), QUEUE);
    let both = web().apart(on_app("p", HOST)).apart(on_app("q", HOST));
    assert_eq!(gone(app("p"), both), QUEUE);

    let relabelled = |old, new| after_pod(&empty, apart(), Some(old), Some(new));
    assert_eq!(relabelled(web(), web().label("app", "db")), QUEUE);
    assert_eq!(relabelled(web(), web().label("tier", "x")), SKIP);
    // The terms of a pod do not change.
    let rejecting = || app("db").apart(on_app("p", HOST)).on("n1");
    assert_eq!(relabelled(rejecting(), rejecting().label("tier", "x")), SKIP);
}

#[test]
fn update_of_the_pod_requeues_it() {
    let relabelled =
        |pod: PodBuilder| after_pod(&with([]), pod.clone(), Some(pod.clone()), Some(pod));
    assert_eq!(relabelled(app("p")), QUEUE);
}

#[test]
fn deletion_of_the_last_pod_of_a_series_requeues_a_first_pod() {
    let p = || app("p").near(on_app("p", ZONE));
    let first = || app("p").uid("first").on("n1");
    let after =
        |left: &[PodBuilder]| after_pod(&with(left.iter().cloned()), p(), Some(first()), None);
    assert_eq!(after(&[]), QUEUE);
    assert_eq!(after(&[app("p").uid("second").on("n3")]), SKIP, "a second pod remains");
    assert_eq!(after(&[app("p").uid("second").on("gone")]), QUEUE);
    let other = app("q").near(on_app("p", ZONE));
    assert_eq!(after_pod(&with([]), other, Some(first()), None), SKIP, "it is not of the series");
    let relabelled = first().label("app", "q");
    assert_eq!(after_pod(&with([relabelled.clone()]), p(), Some(first()), Some(relabelled)), QUEUE);

    let pods = || with([first()]);
    assert_eq!(after_node(&pods(), p(), Some(node("n1").zone("a")), None), QUEUE);
    assert_eq!(after_node(&pods(), p(), Some(node("n2").zone("a")), None), SKIP);
    let mut unlabelled = pods();
    unlabelled.set_node(&node("n1").build());
    assert_eq!(after_node(&unlabelled, p(), Some(node("n1").zone("a")), Some(node("n1"))), QUEUE);
}

#[test]
fn added_node_requeues_if_it_has_the_topology_label() {
    let added = |pod: PodBuilder, new: NodeBuilder, pods: &[PodBuilder]| {
        let mut cluster = with(pods.iter().cloned());
        cluster.set_node(&new.clone().build());
        after_node(&cluster, pod, None, Some(new))
    };
    let near = || app("p").near(on_app("web", ZONE));
    assert_eq!(added(near(), node("n9").zone("a"), &[]), QUEUE);
    assert_eq!(added(near(), node("n9"), &[]), SKIP);
    assert_eq!(added(app("p").apart(on_app("web", ZONE)), node("n9"), &[]), QUEUE);
    // 1.36 never requeues pods without terms for a node.
    let guard = |key| [app("web").on("n1").apart(on_app("p", key))];
    assert_eq!(added(app("p"), node("n9").zone("b"), &guard(ZONE)), QUEUE);
    assert_eq!(added(app("p"), node("n9").zone("a"), &guard(ZONE)), SKIP);
    assert_eq!(added(app("p"), node("n9").zone("a"), &guard(HOST)), QUEUE);
}

#[test]
fn relabelled_node_requeues_if_it_enters_or_leaves_a_relevant_domain() {
    let guard = app("web").on("n1").apart(on_app("p", ZONE));
    let relabelled = |pod: PodBuilder, old: Option<&str>, new: Option<&str>| {
        let labelled = |zone: Option<&str>| match zone {
            Some(zone) => node("n1").zone(zone),
            None => node("n1"),
        };
        let mut cluster = with([guard.clone()]);
        cluster.set_node(&labelled(new).label("colour", "red").build());
        after_node(&cluster, pod, Some(labelled(old)), Some(labelled(new).label("colour", "red")))
    };
    let near = || app("q").near(on_app("web", ZONE));
    let apart = || app("q").apart(on_app("web", ZONE));
    for (pod, old, new, expected) in [
        (near(), None, Some("a"), QUEUE),
        (near(), Some("a"), Some("b"), QUEUE),
        (near(), Some("a"), Some("a"), SKIP),
        (near(), Some("a"), None, SKIP),
        (apart(), None, Some("a"), SKIP),
        (apart(), Some("a"), Some("b"), QUEUE),
        (apart(), Some("a"), None, QUEUE),
        // 1.36 never requeues pods without terms for a node.
        (app("p"), Some("a"), None, QUEUE),
        (app("p"), Some("a"), Some("b"), QUEUE),
        (app("p"), None, Some("b"), SKIP),
        (app("q"), Some("a"), None, SKIP),
    ] {
        assert_eq!(relabelled(pod.clone(), old, new), expected, "{pod:?} {old:?} {new:?}");
    }
}

#[test]
fn deleted_node_requeues_if_its_pods_blocked_the_domain() {
    let deleted = |pod: PodBuilder, old: &str, pods: &[PodBuilder]| {
        let old = node(old).zone(if old == "n3" { "b" } else { "a" });
        after_node(&with(pods.iter().cloned()), pod, Some(old), None)
    };
    let apart = |key| app("p").apart(on_app("web", key));
    let web = || [app("web").on("n1")];
    assert_eq!(deleted(apart(ZONE), "n1", &web()), QUEUE);
    assert_eq!(deleted(apart(ZONE), "n2", &web()), SKIP, "the pod is on the other node");
    assert_eq!(deleted(apart(HOST), "n1", &web()), SKIP, "no other node has its name");
    assert_eq!(deleted(apart(ZONE), "n3", &[app("web").on("n3")]), SKIP, "the zone is empty then");
    let guard = |key| [app("web").on("n1").apart(on_app("p", key))];
    assert_eq!(deleted(app("p"), "n1", &guard(ZONE)), QUEUE);
    assert_eq!(deleted(app("p"), "n1", &guard(HOST)), SKIP);
    assert_eq!(deleted(app("q"), "n1", &guard(ZONE)), SKIP);
}

#[test]
fn namespace_requeues_if_it_starts_or_stops_to_match_a_term() {
    let empty = with([]);
    let namespace =
        |name: &str, env: &str| Some(json!({"metadata": {"name": name, "labels": {"env": env}}}));
    let prod = || json!({"matchLabels": {"env": "prod"}});
    let near = || app("p").near(selecting(on_app("web", ZONE), prod()));
    let apart = || app("p").apart(selecting(on_app("web", ZONE), prod()));
    let everywhere = || app("p").apart(selecting(on_app("web", ZONE), json!({})));
    let (to_prod, from_prod) = (
        || (namespace("shop", "dev"), namespace("shop", "prod")),
        || (namespace("shop", "prod"), namespace("shop", "dev")),
    );
    let bare = |name: &str| Some(json!({"metadata": {"name": name}}));
    for (rule, pod, (old, new), expected) in [
        ("into affinity", near(), to_prod(), QUEUE),
        ("out of affinity", near(), from_prod(), SKIP),
        ("into anti-affinity", apart(), to_prod(), SKIP),
        ("out of anti-affinity", apart(), from_prod(), QUEUE),
        ("created into affinity", near(), (None, namespace("shop", "prod")), QUEUE),
        ("deleted out of anti-affinity", apart(), (namespace("shop", "prod"), None), QUEUE),
        ("created without labels", near(), (None, bare("shop")), SKIP),
        ("in scope all the time", everywhere(), to_prod(), SKIP),
        (
            "terms of placed pods may no longer match",
            app("p"),
            (bare("default"), namespace("default", "x")),
            QUEUE,
        ),
        ("its own namespace, unchanged", app("p"), (None, bare("default")), SKIP),
        ("no terms", app("p"), to_prod(), SKIP),
    ] {
        assert_eq!(after_namespace(&empty, pod, old, new), expected, "{rule}");
    }
    let selected = selecting(within(on_app("p", ZONE), &["default"]), prod());
    let first = app("p").near(selected);
    let (old, new) = from_prod();
    assert_eq!(after_namespace(&empty, first, old, new), QUEUE, "it may be the first now");
}

#[test]
fn hints_honor_namespace_selectors() {
    let mut cluster = with([]);
    let shop = json!({"metadata": {"name": "shop", "labels": {"env": "prod"}}});
    cluster.set_json(&EventResource::Namespace, "", "shop", Some(shop.into()));
    let prod = selecting(on_app("web", ZONE), json!({"matchLabels": {"env": "prod"}}));
    let web = |namespace: &str| Some(app("web").on("n1").namespace(namespace));
    let near = || app("p").near(prod.clone());
    let apart = || app("p").apart(prod.clone());
    assert_eq!(after_pod(&cluster, near(), None, web("shop")), QUEUE);
    assert_eq!(after_pod(&cluster, near(), None, web("default")), SKIP);
    assert_eq!(after_pod(&cluster, apart(), web("shop"), None), QUEUE);
    assert_eq!(after_pod(&cluster, apart(), web("default"), None), SKIP);
    let guard = app("web")
        .on("n1")
        .apart(selecting(on_app("p", ZONE), json!({"matchLabels": {"env": "prod"}})));
    let p = |namespace: &str| app("p").namespace(namespace);
    assert_eq!(after_pod(&cluster, p("shop"), Some(guard.clone()), None), QUEUE);
    assert_eq!(after_pod(&cluster, p("default"), Some(guard), None), SKIP);
}

#[test]
fn hints_fail_on_malformed_terms() {
    let pod = app("p").near(malformed());
    assert_eq!(after_pod(&with([]), pod, None, Some(app("web").on("n1"))), QUEUE);
}

/// Returns the hint of the plugin for `pod` and the event.
fn answer(pod: &Pod, event: &Event, cluster: &Cluster) -> QueueingHint {
    match event {
        Event::Pod(old, new) => {
            let [old, new] = [old, new].map(|pod| pod.as_deref().map(Pod::from_api));
            let (old, new) = (old.as_ref(), new.as_ref());
            let action = action(old, new, ActionType::UPDATE_POD_LABEL);
            let objects = EventObjects::Pod { old, new };
            ask(pod, EventResource::AssignedPod, action, objects, cluster)
        }
        Event::Node(old, new) => {
            let [old, new] = [old, new].map(|node| Some(Node::from_api(node.as_deref()?).0));
            let (old, new) = (old.as_ref(), new.as_ref());
            let action = action(old, new, ActionType::UPDATE_NODE_LABEL);
            ask(pod, EventResource::Node, action, EventObjects::Node { old, new }, cluster)
        }
        Event::Namespace(old, new) => {
            let decoded = |json: &Value| object(EventResource::Namespace, json.clone());
            let [old, new] = [old, new].map(|json| json.as_ref().map(decoded));
            let (old, new) = (old.as_ref(), new.as_ref());
            let action = action(old, new, ActionType::UPDATE);
            let objects = EventObjects::Other { old, new };
            ask(pod, EventResource::Namespace, action, objects, cluster)
        }
    }
}

/// Returns the names of the nodes that fit the pod.
fn feasible(objects: &Objects, pod: &api::Pod) -> BTreeSet<String> {
    let nodes = objects.nodes.iter();
    let fits = nodes.filter(|(_, node)| objects.verdict(pod, node).is_success());
    fits.map(|(name, _)| name.clone()).collect()
}

fn wakes_in_1_36(pod: &api::Pod, event: &Event) -> bool {
    match event {
        Event::Pod(old, new) => oracle::hint::of_pod(pod, old.as_deref(), new.as_deref()),
        Event::Node(old, Some(new)) => oracle::hint::of_node(pod, old.as_deref(), new),
        Event::Node(_, None) | Event::Namespace(..) => false,
    }
}

proptest! {
    #![proptest_config(Config { cases: 400, ..forms::config() })]

    #[test]
    fn change_that_makes_a_node_fit_requeues_the_pod(
        mut objects in objects(),
        pod in some_pod(0.0),
        bare: bool,
        change in change(),
    ) {
        let pod = if bare { without_terms(pod) } else { pod };
        let (before, seen) = (feasible(&objects, &pod), objects.world().cluster);
        let Some(event) = objects.apply(change) else { return Ok(()) };
        // Plugins are notified of a deleted node while the cluster still has it.
        let notified_before = matches!(&event, Event::Node(_, None));
        let seen = if notified_before { seen } else { objects.world().cluster };
        let answer = answer(&Pod::from_api(&pod), &event, &seen);
        if !feasible(&objects, &pod).is_subset(&before) {
            prop_assert_eq!(answer, QUEUE, "it fits: {:?}", event);
        }
        if wakes_in_1_36(&pod, &event) {
            prop_assert_eq!(answer, QUEUE, "1.36 requeues it: {:?}", event);
        }
    }

    #[test]
    fn late_hints_requeue_the_pod_too(
        mut objects in objects(),
        pod in some_pod(0.0),
        bare: bool,
        changes in prop::collection::vec(change(), 2..5),
    ) {
        let pod = if bare { without_terms(pod) } else { pod };
        let before = feasible(&objects, &pod);
        let events: Vec<Event> =
            changes.into_iter().filter_map(|change| objects.apply(change)).collect();
        if !feasible(&objects, &pod).is_subset(&before) {
            let (pod, cluster) = (Pod::from_api(&pod), objects.world().cluster);
            let woken = events.iter().any(|event| answer(&pod, event, &cluster) == QUEUE);
            prop_assert!(woken, "{:?}", events);
        }
    }
}

fn without_terms(mut pod: api::Pod) -> api::Pod {
    pod.spec.affinity = None;
    pod
}
