use std::sync::Arc;

use framework::{Attempt, AttemptMut, Cluster, Code, CycleState, NodeIx, Overlay, PerNode, Status};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{Harness, NodeBuilder, PodBuilder, SetJson, handle, node, pod};

use super::*;

mod hints;
mod oracle;
mod properties;
mod worlds;

const REASON: &str = "node(s) didn't match pod topology spread constraints";
const REASON_LABEL: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";

fn from<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

fn built(args: Value) -> Plugin {
    plugin(&PluginArgs::new(args)).unwrap()
}

/// Returns a constraint that selects pods of application `web`, with additional or replaced fields.
fn constraint(key: &str, max_skew: i32, action: &str, fields: Value) -> Value {
    let mut constraint = json!({
        "topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"app": "web"}},
    });
    constraint.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    constraint
}

fn hard(key: &str, max_skew: i32) -> Value {
    constraint(key, max_skew, "DoNotSchedule", json!({}))
}

fn hard_with(key: &str, max_skew: i32, fields: Value) -> Value {
    constraint(key, max_skew, "DoNotSchedule", fields)
}

fn soft(key: &str, max_skew: i32) -> Value {
    constraint(key, max_skew, "ScheduleAnyway", json!({}))
}

/// Returns a pod called `p` of application `web` with these constraints.
fn spread(constraints: &[Value]) -> PodBuilder {
    pod("p").label("app", "web").with(|api| {
        api.spec.topology_spread_constraints = constraints.iter().cloned().map(from).collect();
    })
}

/// The zone of each node, empty for no zone, and its number of pods.
type Zones<'a> = &'a [(&'a str, usize)];

/// Builds nodes `n0`, `n1` and so on in these zones, with these numbers of pods of application
/// `web`.
fn zones(zones: Zones<'_>) -> Harness {
    let harness = Harness::new(built(json!({})));
    zones.iter().enumerate().fold(harness, |harness, (number, (zone, pods))| {
        let name = format!("n{number}");
        let node = if zone.is_empty() { node(&name) } else { node(&name).label("zone", zone) };
        let harness = harness.node(node.build());
        (0..*pods).fold(harness, |harness, pod| harness.pod(web(number, pod).build()))
    })
}

fn web(node: usize, number: usize) -> PodBuilder {
    pod(&format!("web-{node}-{number}")).label("app", "web").on(&format!("n{node}"))
}

#[test]
fn skew_must_not_exceed_the_maximum() {
    let one_each: &[_] = &[("a", 2), ("b", 1), ("c", 0), ("d", 3)];
    let rows: [(Zones<'_>, Value, &[&str]); 9] = [
        (one_each, hard("zone", 1), &["n2"]),
        (one_each, hard("zone", 2), &["n1", "n2"]),
        (one_each, hard("zone", 4), &["n0", "n1", "n2", "n3"]),
        (&[("a", 1), ("a", 0), ("b", 1), ("b", 1)], hard("zone", 1), &["n0", "n1"]),
        (&[("a", 0), ("", 0)], hard("zone", 1), &["n0"]),
        // Three domains with minDomains 4: the global minimum is 0.
        (&[("a", 2), ("b", 2), ("c", 1)], hard_with("zone", 2, json!({"minDomains": 4})), &["n2"]),
        (
            &[("a", 2), ("b", 2), ("c", 1)],
            hard_with("zone", 2, json!({"minDomains": 3})),
            &["n0", "n1", "n2"],
        ),
        // An empty selector matches every pod; an absent one matches no pod.
        (one_each, hard_with("zone", 1, json!({"labelSelector": {}})), &["n2"]),
        (one_each, hard_with("zone", 1, json!({"labelSelector": null})), &["n0", "n1", "n2", "n3"]),
    ];
    for (cluster, constraint, expected) in rows {
        let run = zones(cluster).run(&spread(std::slice::from_ref(&constraint)).build());
        assert_eq!(run.feasible(), expected, "{constraint} on {cluster:?}\n{run}");
    }
}

#[test]
fn empty_selector_counts_all_pods_of_the_namespace() {
    let other_app = |name: &str| pod(name).label("app", "db").on("n0");
    let of_all = || spread(&[hard_with("zone", 1, json!({"labelSelector": {}}))]).build();
    let harness = zones(&[("a", 0), ("b", 0)]);
    let elsewhere = harness.pod(other_app("x").namespace("other").build());
    assert_eq!(elsewhere.run(&of_all()).feasible(), ["n0", "n1"]);
    for counted in [other_app("x"), pod("x").on("n0")] {
        let harness = zones(&[("a", 0), ("b", 0)]).pod(counted.build());
        assert_eq!(harness.run(&of_all()).feasible(), ["n1"]);
    }
}

#[test]
fn unselected_pod_does_not_add_to_the_skew() {
    let harness = zones(&[("a", 1), ("b", 0)]);
    let pod = spread(&[hard("zone", 1)]);
    assert_eq!(harness.run(&pod.clone().build()).feasible(), ["n1"]);
    assert_eq!(harness.run(&pod.label("app", "db").build()).feasible(), ["n0", "n1"]);
}

#[test]
fn first_failing_constraint_gives_the_reason() {
    let harness = zones(&[("a", 2), ("b", 0), ("", 0)]);
    let run = harness.run(&spread(&[hard("zone", 1), hard("rack", 1)]).build());
    assert_eq!(run.verdicts["n2"], Status::unresolvable(REASON_LABEL));
    assert_eq!(run.verdicts["n1"], Status::unresolvable(REASON_LABEL));
    // No node has both labels, so no pod counts and the smallest domain is empty.
    assert_eq!(run.verdicts["n0"], Status::unresolvable(REASON_LABEL));
    let run = harness.run(&spread(&[hard("zone", 1)]).build());
    assert_eq!(run.verdicts["n0"], Status::unschedulable(REASON));
}

#[test]
fn inclusion_policies_select_the_nodes_that_count() {
    let ignored = json!({"nodeAffinityPolicy": "Ignore"});
    let honoring = json!({"nodeTaintsPolicy": "Honor"});
    let on_ssd = |constraint: Value| spread(&[constraint]).node_selector("disk", "ssd");
    let harness = |extra: fn(NodeBuilder) -> NodeBuilder| {
        zones(&[])
            .node(extra(node("n0").label("zone", "a")).build())
            .node(node("n1").label("zone", "b").label("disk", "ssd").build())
            .pod(web(1, 0).build())
    };
    let plain = || harness(|node| node);
    assert_eq!(plain().run(&on_ssd(hard("zone", 1)).build()).feasible(), ["n0", "n1"]);
    let run = plain().run(&on_ssd(hard_with("zone", 1, ignored)).build());
    assert_eq!(run.feasible(), ["n0"]);
    let tainted = || harness(|node| node.taint("k", "", "NoSchedule"));
    assert_eq!(tainted().run(&spread(&[hard("zone", 1)]).build()).feasible(), ["n0"]);
    let honoring = spread(&[hard_with("zone", 1, honoring)]);
    assert_eq!(tainted().run(&honoring.clone().build()).feasible(), ["n0", "n1"]);
    let tolerant = honoring.toleration("k", "Exists", "", "");
    assert_eq!(tainted().run(&tolerant.build()).feasible(), ["n0"]);
}

#[test]
fn terminating_pods_and_pods_of_other_revisions_or_namespaces_do_not_count() {
    let by_revision = hard_with("zone", 1, json!({"matchLabelKeys": ["revision", "absent"]}));
    let pod = spread(&[by_revision]).label("revision", "2").build();
    let feasible = |other: PodBuilder| {
        let harness = zones(&[("a", 0), ("b", 0)]).pod(other.build());
        harness.run(&pod).feasible().len()
    };
    assert_eq!(feasible(web(0, 0).label("revision", "2")), 1);
    assert_eq!(feasible(web(0, 0).label("revision", "1")), 2);
    assert_eq!(feasible(web(0, 0).label("revision", "2").namespace("other")), 2);
    let gone = |api: &mut framework::api::Pod| api.metadata.deletion_timestamp = Some("now".into());
    assert_eq!(feasible(web(0, 0).label("revision", "2").with(gone)), 2);
}

#[test]
fn invalid_selector_is_an_error() {
    let bad = json!({"labelSelector": {"matchLabels": {"app": "not a value"}}});
    let harness = zones(&[("a", 0)]);
    let run = harness.run(&spread(&[hard_with("zone", 1, bad.clone())]).build());
    assert_eq!(run.pre_filter.code(), Code::Error);
    let text = run.pre_filter.message();
    assert!(text.starts_with("get constraints from pod: obtaining pod's hard "), "{text}");
    let soft = constraint("zone", 1, "ScheduleAnyway", bad);
    let run = harness.run(&spread(&[soft]).build());
    assert_eq!(run.feasible(), ["n0"]);
    assert_eq!(run.pre_score.code(), Code::Error);
}

#[test]
fn filter_and_score_without_counts_are_errors() {
    let harness = zones(&[("a", 0)]);
    let (plugin, pod) = (built(json!({})), spread(&[hard("zone", 1)]).build());
    let view = harness.cluster().node(NodeIx::new(0));
    let status = plugin
        .filter
        .unwrap()
        .filter(&Attempt::new(&CycleState::new(), &pod, &handle(view.cluster())), &view);
    assert_eq!(status.code(), Code::Error);
    assert!(
        plugin
            .score
            .unwrap()
            .score(&Attempt::new(&CycleState::new(), &pod, &handle(view.cluster())), &view)
            .is_err()
    );
}

/// The change of the number of pods on each of these nodes.
type Changes<'a> = &'a [(&'a str, i64)];

/// Whether each node passes after pods like `other` are added to or removed from nodes.
fn after_changes(harness: &Harness, pod: &Pod, other: &Pod, changes: Changes<'_>) -> Vec<bool> {
    let plugin = built(json!({}));
    let extensions = plugin.pre_filter_extensions.unwrap();
    let cluster = harness.cluster();
    let mut state = CycleState::new();
    plugin
        .pre_filter
        .unwrap()
        .pre_filter(AttemptMut::new(&mut state, pod, &handle(cluster)))
        .unwrap();
    for (node, pods) in changes {
        let mut overlay = Overlay::default();
        overlay.add(Arc::new(other.clone()));
        let view = cluster.node(cluster.node_named(node).unwrap());
        let status = match pods {
            1 => extensions.add_pod(
                AttemptMut::new(&mut state, pod, &handle(cluster)),
                other,
                &view.with(&overlay),
            ),
            _ => extensions.remove_pod(
                AttemptMut::new(&mut state, pod, &handle(cluster)),
                other,
                &view,
            ),
        };
        assert!(status.is_success());
    }
    let filter = plugin.filter.unwrap();
    let passes = |node| {
        filter
            .filter(&Attempt::new(&state, pod, &handle(cluster)), &cluster.node(node))
            .is_success()
    };
    cluster.nodes().iter().map(passes).collect()
}

#[test]
fn what_if_changes_counts_and_the_smallest_domain() {
    let harness = zones(&[("a", 1), ("b", 1), ("c", 1), ("", 0)]);
    let (pod, other) = (spread(&[hard("zone", 1)]).build(), web(0, 7).build());
    let rows: [(Changes<'_>, [bool; 4]); 6] = [
        (&[], [true, true, true, false]),
        (&[("n0", 1)], [false, true, true, false]),
        (&[("n0", -1)], [true, false, false, false]),
        (&[("n0", 1), ("n1", 1)], [false, false, true, false]),
        (&[("n0", 1), ("n1", 1), ("n2", 1)], [true, true, true, false]),
        (&[("n3", 1)], [true, true, true, false]),
    ];
    for (changes, expected) in rows {
        assert_eq!(after_changes(&harness, &pod, &other, changes), expected, "{changes:?}");
    }
    let elsewhere = web(0, 7).namespace("other").build();
    let unmoved = after_changes(&harness, &pod, &elsewhere, &[("n0", 1)]);
    assert_eq!(unmoved, [true, true, true, false]);
}

/// Quirk of kube-scheduler: AddPod and RemovePod count terminating pods; PreFilter does not.
#[test]
fn what_if_counts_terminating_pods() {
    let harness = zones(&[("a", 0), ("b", 0)]);
    let gone = |api: &mut framework::api::Pod| api.metadata.deletion_timestamp = Some("now".into());
    let terminating = web(0, 7).with(gone).build();
    let pod = spread(&[hard("zone", 1)]).build();
    assert_eq!(after_changes(&harness, &pod, &terminating, &[("n0", 1)]), [false, true]);
    assert_eq!(after_changes(&harness, &pod, &terminating, &[("n0", -1)]), [true, false]);
}

#[test]
fn fewer_pods_score_higher() {
    /// The score of each node, before and after normalization.
    type Scores<'a> = &'a [(i64, i64)];
    let of_all = constraint("zone", 5, "ScheduleAnyway", json!({"labelSelector": {}}));
    let rows: [(Zones<'_>, &[Value], Scores<'_>); 5] = [
        // Four nodes: ln 6 per pod, and maxSkew - 1.
        (
            &[("", 4), ("", 3), ("", 2), ("", 1)],
            &[soft(HOSTNAME, 3)],
            &[(9, 44), (7, 66), (6, 77), (4, 100)],
        ),
        // Two zones and two nodes: ln 4 per pod.
        (&[("a", 2), ("b", 3)], &[soft("zone", 1), soft(HOSTNAME, 1)], &[(6, 100), (8, 75)]),
        // A node without the label is ignored.
        (&[("a", 1), ("", 0)], &[soft("zone", 1)], &[(1, 100), (0, 0)]),
        // No pod counts.
        (&[("a", 0), ("b", 0)], &[soft("zone", 1)], &[(0, 100), (0, 100)]),
        // Two zones: ln 4 per pod, and maxSkew - 1.
        (&[("a", 3), ("b", 1)], &[of_all], &[(8, 62), (5, 100)]),
    ];
    for (cluster, constraints, expected) in rows {
        let run = zones(cluster).run(&spread(constraints).build());
        let scores = run.raw_scores.into_values().zip(run.scores.into_values());
        assert_eq!(scores.collect::<Vec<_>>(), expected, "{cluster:?}");
    }
}

/// Returns a cluster with zones in which a Service selects pods of application `web`.
fn with_service(args: Value, selector: Value) -> (Plugin, Cluster) {
    let (plugin, mut cluster) = (built(args), Cluster::default());
    for (number, zone) in ["a", "b"].iter().enumerate() {
        cluster.set_node(&node(&format!("n{number}")).zone(zone).build());
    }
    cluster.set_node(&node("n2").build());
    cluster.place_pod(Arc::new(web(0, 0).build()), "n0");
    let service = json!({"metadata": {"namespace": "default"}, "spec": {"selector": selector}});
    cluster.set_json(&EventResource::Service, "default", "web", Some(Arc::new(service)));
    (plugin, cluster)
}

#[test]
fn system_constraints_spread_service_pods_and_accept_nodes_without_a_zone() {
    let (plugin, cluster) = with_service(json!({}), json!({"app": "web"}));
    let scores = |pod: &Pod| {
        let nodes: Vec<_> = cluster.nodes().iter().collect();
        let (mut state, mut scores) = (CycleState::new(), vec![0; nodes.len()]);
        let pre_score = plugin.pre_score.as_ref().unwrap();
        if !pre_score
            .pre_score(AttemptMut::new(&mut state, pod, &handle(&cluster)), &nodes)
            .is_success()
        {
            return None;
        }
        let score = plugin.score.as_ref().unwrap();
        score
            .score_set(
                &Attempt::new(&state, pod, &handle(&cluster)),
                PerNode::new(&nodes, &mut scores),
            )
            .unwrap();
        Some(scores)
    };
    // Three zones including the missing one, three nodes: ln 5 per pod; 2 and 4 for the skews.
    assert_eq!(scores(&pod("p").label("app", "web").build()), Some(vec![9, 6, 2]));
    assert_eq!(scores(&pod("p").label("app", "db").build()), None);
    assert_eq!(scores(&spread(&[hard("zone", 1)]).build()), None);
}

#[test]
fn constraints_register_standing_queries() {
    let (plugin, cluster) = with_service(json!({}), json!({"app": "web"}));
    let standing = plugin.standing_queries.unwrap();
    let selectors = |pod: PodBuilder| {
        let queries = standing.queries(&pod.build(), &handle(&cluster));
        queries.iter().map(|query| query.selector.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(selectors(pod("p").label("app", "web")), ["app=web", "app=web"]);
    assert!(selectors(pod("p").label("app", "db")).is_empty());
    assert_eq!(selectors(spread(&[soft("zone", 1), hard(HOSTNAME, 1)])).len(), 2);
    let with_selector = |selector| hard_with("zone", 1, json!({"labelSelector": selector}));
    assert_eq!(selectors(spread(&[with_selector(json!({}))])), [""]);
    assert!(selectors(spread(&[with_selector(Value::Null)])).is_empty());
}

#[test]
fn services_and_controllers_are_watched_only_for_default_constraints() {
    let list =
        |constraints: Value| json!({"defaultingType": "List", "defaultConstraints": constraints});
    let default =
        |action: &str| json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": action}]);
    for (args, reads, registers) in [
        (json!({}), true, false),
        (list(json!([])), false, false),
        (list(default("ScheduleAnyway")), true, false),
        (list(default("DoNotSchedule")), true, true),
    ] {
        let plugin = built(args);
        assert_eq!(plugin.read_kinds.len(), if reads { 4 } else { 0 });
        let events = plugin.events.unwrap();
        let registered =
            events.iter().filter(|own| plugin.read_kinds.contains(&own.event.resource));
        assert_eq!(registered.count(), if registers { 4 } else { 0 });
    }
}
