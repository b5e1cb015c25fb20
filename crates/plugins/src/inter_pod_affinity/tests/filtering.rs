//! Tests of Filter, rule by rule.

use std::sync::Arc;

use framework::{
    Attempt, AttemptMut, Cluster, Code, CycleState, EventResource, Node, Overlay, Pod, Status,
};
use testkit::{PodBuilder, SetJson, cluster, handle, node, pod};

use super::*;

const AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// Nodes n1 and n2 in zone a, n3 in zone b, and n4 without a zone.
fn nodes() -> [Node; 4] {
    [node("n1").zone("a"), node("n2").zone("a"), node("n3").zone("b"), node("n4")]
        .map(|node| node.build())
}

fn app(name: &str) -> PodBuilder {
    pod(name).label("app", name)
}

fn with(pods: impl IntoIterator<Item = PodBuilder>) -> Cluster {
    cluster(nodes(), pods.into_iter().map(PodBuilder::build))
}

fn add_namespace(cluster: &mut Cluster, name: &str, env: &str) {
    let namespace = json!({"metadata": {"name": name, "labels": {"env": env}}});
    cluster.set_json(&EventResource::Namespace, "", name, Some(Arc::new(namespace)));
}

/// Returns the rejection of each of n1 to n4 in order; empty for a node that fits.
fn reasons(cluster: &Cluster, pod: PodBuilder) -> Vec<String> {
    let (plugin, pod, mut state) = (default_plugin(), pod.build(), CycleState::new());
    let pre_filter =
        plugin.pre_filter.unwrap().pre_filter(AttemptMut::new(&mut state, &pod, &handle(cluster)));
    let skipped = pre_filter.is_err_and(|status| status.is_skip());
    let filter = plugin.filter.unwrap();
    let nodes = ["n1", "n2", "n3", "n4"].map(|name| cluster.node_named(name).unwrap());
    let verdict =
        |node| filter.filter(&Attempt::new(&state, &pod, &handle(cluster)), &cluster.node(node));
    nodes.map(|node| if skipped { String::new() } else { verdict(node).message() }).into()
}

#[test]
fn required_terms_select_the_nodes() {
    let web_on = |node: &str| app("web").on(node);
    let db_on = |node: &str| app("db").on(node);
    let rows: [(&str, Vec<PodBuilder>, PodBuilder, [&str; 4]); 12] = [
        ("no terms", vec![web_on("n1")], app("p"), [""; 4]),
        (
            "affinity to a pod in its zone",
            vec![db_on("n1")],
            app("p").near(on_app("db", ZONE)),
            ["", "", AFFINITY, AFFINITY],
        ),
        (
            "affinity to a pod on its node",
            vec![db_on("n1")],
            app("p").near(on_app("db", HOST)),
            ["", AFFINITY, AFFINITY, AFFINITY],
        ),
        (
            "affinity that no pod matches",
            vec![web_on("n1")],
            app("p").near(on_app("db", ZONE)),
            [AFFINITY; 4],
        ),
        (
            "first pod of a series needs the zone label",
            vec![web_on("n1")],
            app("p").near(on_app("p", ZONE)),
            ["", "", "", AFFINITY],
        ),
        (
            "pods on nodes without the label do not count",
            vec![app("p").on("n4")],
            app("p").near(on_app("p", ZONE)),
            ["", "", "", AFFINITY],
        ),
        (
            "second pod of a series joins the first",
            vec![app("p").on("n3")],
            app("p").near(on_app("p", ZONE)),
            [AFFINITY, AFFINITY, "", AFFINITY],
        ),
        (
            "one pod must match all terms",
            vec![web_on("n1"), db_on("n1"), web_on("n2").label("tier", "x")],
            app("p")
                .near(on_app("web", ZONE))
                .near(term(json!({"matchLabels": {"tier": "x"}}), HOST)),
            [AFFINITY, "", AFFINITY, AFFINITY],
        ),
        (
            "different pods may match in different domains",
            vec![web_on("n1").label("tier", "x"), web_on("n3").label("tier", "x")],
            app("p")
                .near(on_app("web", ZONE))
                .near(term(json!({"matchLabels": {"tier": "x"}}), HOST)),
            ["", AFFINITY, "", AFFINITY],
        ),
        (
            "anti-affinity to pods of a zone",
            vec![web_on("n1"), web_on("n4")],
            app("p").apart(on_app("web", ZONE)),
            [ANTI_AFFINITY, ANTI_AFFINITY, "", ""],
        ),
        (
            "one matching anti-affinity term rejects the node",
            vec![web_on("n1"), db_on("n3")],
            app("p").apart(on_app("web", HOST)).apart(on_app("db", ZONE)),
            [ANTI_AFFINITY, "", ANTI_AFFINITY, ""],
        ),
        (
            "anti-affinity of placed pods, by any topology key",
            vec![web_on("n1").apart(on_app("p", ZONE)), web_on("n4").apart(on_app("p", HOST))],
            app("p"),
            [EXISTING, EXISTING, "", EXISTING],
        ),
    ];
    for (rule, pods, pod, expected) in rows {
        assert_eq!(reasons(&with(pods), pod), expected, "{rule}");
    }
}

#[test]
fn affinity_is_reported_before_anti_affinity_and_existing_pods_last() {
    let pods = [app("web").on("n1").apart(on_app("p", ZONE)), app("db").on("n2")];
    let p = app("p").near(on_app("db", HOST)).apart(on_app("web", HOST));
    assert_eq!(reasons(&with(pods), p), [AFFINITY, EXISTING, AFFINITY, AFFINITY]);
    let pods = [app("web").on("n1").apart(on_app("p", HOST))];
    assert_eq!(reasons(&with(pods), app("p").apart(on_app("web", HOST)))[0], ANTI_AFFINITY);
}

#[test]
fn only_unmet_affinity_is_unresolvable() {
    let cluster = with([app("web").on("n1").apart(on_app("p", HOST)), app("db").on("n2")]);
    let code = |pod: PodBuilder| {
        let (plugin, pod, mut state) = (default_plugin(), pod.build(), CycleState::new());
        plugin
            .pre_filter
            .unwrap()
            .pre_filter(AttemptMut::new(&mut state, &pod, &handle(&cluster)))
            .unwrap();
        plugin
            .filter
            .unwrap()
            .filter(
                &Attempt::new(&state, &pod, &handle(&cluster)),
                &cluster.node(cluster.node_named("n1").unwrap()),
            )
            .code()
    };
    assert_eq!(code(app("p").near(on_app("db", HOST))), Code::UnschedulableAndUnresolvable);
    assert_eq!(code(app("q").apart(on_app("web", HOST))), Code::Unschedulable);
    assert_eq!(code(app("p")), Code::Unschedulable);
}

#[test]
fn terms_select_their_namespaces() {
    let mut cluster = with([app("web").on("n1").namespace("shop"), app("web").on("n3")]);
    add_namespace(&mut cluster, "shop", "prod");
    add_namespace(&mut cluster, "default", "dev");
    let near = |term| reasons(&cluster, app("p").near(term));
    let web = || on_app("web", HOST);
    let env = |operator: &str, values: &[&str]| {
        let requirement = json!({"key": "env", "operator": operator, "values": values});
        json!({"matchExpressions": [requirement]})
    };
    let (own, shop, both) = (
        [AFFINITY, AFFINITY, "", AFFINITY],
        ["", AFFINITY, AFFINITY, AFFINITY],
        ["", AFFINITY, "", AFFINITY],
    );
    assert_eq!(near(web()), own);
    assert_eq!(near(within(web(), &["shop"])), shop);
    assert_eq!(near(within(web(), &["shop", "default"])), both);
    assert_eq!(near(selecting(web(), json!({}))), both);
    assert_eq!(near(selecting(web(), env("In", &["prod"]))), shop);
    assert_eq!(near(selecting(within(web(), &["default"]), env("In", &["prod"]))), both);
    assert_eq!(near(selecting(web(), env("In", &["test"]))), [AFFINITY; 4]);
    // Rule inter-pod-affinity-negative-namespace-selector of docs/differences.toml.
    assert_eq!(near(selecting(web(), env("NotIn", &["prod"]))), own);
    assert_eq!(near(selecting(within(web(), &["shop"]), env("NotIn", &["prod"]))), both);
    assert_eq!(near(selecting(web(), env("DoesNotExist", &[]))), [AFFINITY; 4]);
}

#[test]
fn terms_of_placed_pods_match_namespace_labels() {
    let not_prod =
        json!({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]});
    let guard = app("web").on("n1").apart(selecting(on_app("p", HOST), not_prod));
    let mut cluster = with([guard]);
    assert_eq!(reasons(&cluster, app("p")), [EXISTING, "", "", ""]);
    add_namespace(&mut cluster, "default", "prod");
    assert_eq!(reasons(&cluster, app("p")), [""; 4]);
}

#[test]
fn terminating_pods_count_and_pods_on_unknown_nodes_do_not() {
    let leaving = |pod: PodBuilder| {
        pod.with(|pod| pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned()))
    };
    let cluster = with([leaving(app("web").on("n1")), app("web").on("gone")]);
    assert_eq!(reasons(&cluster, app("p").near(on_app("web", ZONE))), ["", "", AFFINITY, AFFINITY]);
    let cluster = with([app("p").on("gone")]);
    assert_eq!(reasons(&cluster, app("p").near(on_app("p", ZONE))), ["", "", "", AFFINITY]);
}

fn pre_filter(cluster: &Cluster, pod: PodBuilder) -> Status {
    let plugin = default_plugin().pre_filter.unwrap();
    plugin
        .pre_filter(AttemptMut::new(&mut CycleState::new(), &pod.build(), &handle(cluster)))
        .err()
        .unwrap_or_default()
}

#[test]
fn pre_filter_skips_pods_without_required_terms() {
    let none = with([app("web").on("n1")]);
    let opposed = with([app("web").on("n1").apart(on_app("p", ZONE))]);
    let without_key = with([app("web").on("n4").apart(on_app("p", ZONE))]);
    assert!(pre_filter(&none, app("p")).is_skip());
    assert!(pre_filter(&none, app("p").rather_near(1, on_app("web", ZONE))).is_skip());
    assert!(pre_filter(&without_key, app("p")).is_skip());
    assert!(pre_filter(&opposed, app("p")).is_success());
    assert!(pre_filter(&none, app("p").near(on_app("web", ZONE))).is_success());
    assert!(pre_filter(&none, app("p").apart(on_app("web", ZONE))).is_success());
}

#[test]
fn malformed_terms_reject_the_pod_with_their_category() {
    let fault =
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty";
    let (far, empty) = (on_app("web", ZONE), Cluster::default());
    for (pod, expected) in [
        (app("p").near(malformed()), format!("parsing pod: requiredAffinityTerms: {fault}")),
        (
            app("p").near(far.clone()).apart(malformed()),
            format!("parsing pod: requiredAntiAffinityTerms: {fault}"),
        ),
        (
            app("p").rather_near(1, malformed()).rather_apart(1, malformed()),
            format!(
                "parsing pod: [preferredAffinityTerms: {fault}, \
                 preferredAntiAffinityTerms: {fault}]"
            ),
        ),
    ] {
        assert_eq!(pre_filter(&empty, pod), Status::unresolvable(expected));
    }
}

#[test]
fn malformed_term_of_a_placed_pod_disables_its_category() {
    let guard = || app("web").on("n1").apart(on_app("p", HOST));
    assert_eq!(reasons(&with([guard()]), app("p"))[0], EXISTING);
    assert_eq!(reasons(&with([guard().apart(malformed())]), app("p")), [""; 4]);
    assert_eq!(reasons(&with([guard().near(malformed())]), app("p"))[0], EXISTING);
}

#[test]
fn removal_of_the_last_matching_pod_allows_a_first_pod_again() {
    let cluster = with([app("p").on("n3")]);
    let plugin = default_plugin();
    let (pod, mut state) = (app("p").near(on_app("p", ZONE)).build(), CycleState::new());
    plugin
        .pre_filter
        .unwrap()
        .pre_filter(AttemptMut::new(&mut state, &pod, &handle(&cluster)))
        .unwrap();
    let filter = plugin.filter.unwrap();
    let extensions = plugin.pre_filter_extensions.unwrap();
    let n1 = cluster.node(cluster.node_named("n1").unwrap());
    let n3 = cluster.node(cluster.node_named("n3").unwrap());
    let there: &Pod = &cluster.pods().next().unwrap().pod;
    assert_eq!(
        filter.filter(&Attempt::new(&state, &pod, &handle(n1.cluster())), &n1).message(),
        AFFINITY
    );

    let copy = state.clone();
    let mut overlay = Overlay::default();
    let placed = Arc::new(there.clone());
    assert!(
        extensions
            .remove_pod(AttemptMut::new(&mut state, &pod, &handle(n1.cluster())), there, &n3)
            .is_success()
    );
    assert!(filter.filter(&Attempt::new(&state, &pod, &handle(n1.cluster())), &n1).is_success());
    assert_eq!(
        filter.filter(&Attempt::new(&copy, &pod, &handle(n1.cluster())), &n1).message(),
        AFFINITY
    );

    overlay.add(placed.clone());
    assert!(
        extensions
            .add_pod(
                AttemptMut::new(&mut state, &pod, &handle(n1.cluster())),
                &placed,
                &n1.with(&overlay)
            )
            .is_success()
    );
    assert!(
        filter
            .filter(&Attempt::new(&state, &pod, &handle(n1.cluster())), &n1.with(&overlay))
            .is_success()
    );
    assert_eq!(
        filter.filter(&Attempt::new(&state, &pod, &handle(n3.cluster())), &n3).message(),
        AFFINITY
    );
}

#[test]
fn filter_without_pre_filter_is_an_error() {
    let (plugin, cluster, pod) = (default_plugin(), with([]), app("p").build());
    let n1 = cluster.node(cluster.node_named("n1").unwrap());
    let state = &mut CycleState::new();
    assert_eq!(
        plugin
            .filter
            .unwrap()
            .filter(&Attempt::new(state, &pod, &handle(n1.cluster())), &n1)
            .code(),
        Code::Error
    );
    let extensions = plugin.pre_filter_extensions.unwrap();
    assert_eq!(
        extensions.add_pod(AttemptMut::new(state, &pod, &handle(n1.cluster())), &pod, &n1).code(),
        Code::Error
    );
    assert_eq!(
        plugin
            .score
            .unwrap()
            .score(&Attempt::new(state, &pod, &handle(n1.cluster())), &n1)
            .unwrap_err()
            .code(),
        Code::Error
    );
}
