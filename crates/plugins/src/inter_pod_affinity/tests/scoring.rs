//! Tests of Score, rule by rule.

use std::collections::BTreeMap;

use framework::{Attempt, AttemptMut, Cluster, Code, CycleState, PerNode};
use testkit::{Harness, PodBuilder, Run, handle, node, pod};

use super::*;

fn app(name: &str) -> PodBuilder {
    pod(name).label("app", name)
}

/// Runs the plugin with n1 and n2 in zone a and n3 in zone b.
fn run(args: Value, pods: &[PodBuilder], pod: PodBuilder) -> Run {
    let nodes = [node("n1").zone("a"), node("n2").zone("a"), node("n3").zone("b")];
    let harness = Harness::new(plugin_with(args));
    let harness = nodes.into_iter().fold(harness, |harness, node| harness.node(node.build()));
    let pods = pods.iter().cloned();
    pods.fold(harness, |harness, pod| harness.pod(pod.build())).run(&pod.build())
}

fn scores(scores: &BTreeMap<String, i64>) -> Vec<i64> {
    scores.values().copied().collect()
}

#[test]
fn weights_of_preferences_add_up_by_domain() {
    let web_on = |node: &str| app("web").on(node);
    type Row = (&'static str, Vec<PodBuilder>, PodBuilder, [i64; 3], [i64; 3]);
    let rows: [Row; 8] = [
        (
            "each pod that matches preferred affinity adds its weight",
            vec![web_on("n1"), web_on("n2"), web_on("n3")],
            app("p").rather_near(10, on_app("web", ZONE)),
            [20, 20, 10],
            [100, 100, 0],
        ),
        (
            "each pod that matches preferred anti-affinity subtracts its weight",
            vec![web_on("n1"), web_on("n1"), web_on("n3")],
            app("p").rather_apart(10, on_app("web", HOST)),
            [-20, 0, -10],
            [0, 100, 50],
        ),
        (
            "each term matches separately",
            vec![web_on("n1")],
            app("p").rather_near(10, on_app("web", ZONE)).rather_apart(7, on_app("web", HOST)),
            [3, 10, 0],
            [30, 100, 0],
        ),
        (
            "equal scores become 0",
            vec![web_on("n1"), web_on("n3")],
            app("p").rather_near(10, on_app("web", ZONE)),
            [10, 10, 10],
            [0, 0, 0],
        ),
        (
            "required affinity of placed pods adds the weight of the arguments",
            vec![web_on("n3").near(on_app("p", ZONE)).near(on_app("p", HOST))],
            app("p"),
            [0, 0, 2],
            [0, 0, 100],
        ),
        (
            "preferred affinity of placed pods adds",
            vec![web_on("n1").rather_near(5, on_app("p", ZONE))],
            app("p"),
            [5, 5, 0],
            [100, 100, 0],
        ),
        (
            "preferred anti-affinity of placed pods subtracts",
            vec![web_on("n1").rather_apart(5, on_app("p", HOST))],
            app("p"),
            [-5, 0, 0],
            [0, 100, 100],
        ),
        (
            "weights that cancel out do not cause a skip",
            vec![web_on("n1").rather_near(5, on_app("p", HOST)).rather_apart(5, on_app("p", HOST))],
            app("p"),
            [0, 0, 0],
            [0, 0, 0],
        ),
    ];
    for (rule, pods, pod, raw, normalized) in rows {
        let run = run(json!({}), &pods, pod);
        assert_eq!(scores(&run.raw_scores), raw, "{rule}");
        assert_eq!(scores(&run.scores), normalized, "{rule}");
    }
}

#[test]
fn pre_score_skips_pods_without_matching_terms() {
    let ignoring = json!({"ignorePreferredTermsOfExistingPods": true});
    let no_weight = json!({"hardPodAffinityWeight": 0});
    let attracting = || app("web").on("n1").rather_near(5, on_app("p", ZONE));
    let requiring = || app("web").on("n1").near(on_app("p", ZONE));
    let skips =
        |args: &Value, pods: &[PodBuilder], pod| run(args.clone(), pods, pod).pre_score.is_skip();
    let (default, own) = (json!({}), || app("p").rather_near(1, on_app("db", ZONE)));
    for (rule, skipped, expected) in [
        ("no preferred terms", skips(&default, &[app("web").on("n1")], app("p")), true),
        ("no pod matches", skips(&default, &[app("web").on("n1")], own()), true),
        ("preferred term of a placed pod", skips(&default, &[attracting()], app("p")), false),
        (
            "ignored preferred term of a placed pod",
            skips(&ignoring, &[attracting()], app("p")),
            true,
        ),
        (
            "required term of a placed pod with ignored ones",
            skips(&ignoring, &[requiring()], app("p")),
            true,
        ),
        (
            "not ignored for a pod with preferred terms",
            skips(&ignoring, &[attracting()], own()),
            false,
        ),
        ("required term of a placed pod", skips(&default, &[requiring()], app("p")), false),
        ("required term with weight 0", skips(&no_weight, &[requiring()], app("p")), true),
        (
            "required anti-affinity has no weight",
            skips(&default, &[app("web").on("n1").apart(on_app("q", ZONE))], app("q")),
            true,
        ),
    ] {
        assert_eq!(skipped, expected, "{rule}");
    }
}

#[test]
fn normalization_divides_before_it_multiplies() {
    for (raw, expected) in [
        (vec![0, 29, 57, 58, 100], vec![0, 28, 56, 57, 100]),
        (vec![-50, 0, 50], vec![0, 50, 100]),
        (vec![1, 2, 4], vec![0, 33, 100]),
        (vec![-7, -7], vec![0, 0]),
        (vec![i64::MIN, i64::MAX], vec![0, 100]),
        (vec![], vec![]),
    ] {
        let (pod, state, mut scores) = (app("p").build(), CycleState::new(), raw.clone());
        let point = default_plugin().normalize_score.unwrap();
        let cluster = Cluster::default();
        let status = point.normalize_score(
            &Attempt::new(&state, &pod, &handle(&cluster)),
            PerNode::new(&[], &mut scores),
        );
        assert!(status.is_success());
        assert_eq!(scores, expected, "{raw:?}");
    }
}

#[test]
fn malformed_preferred_terms_are_an_error() {
    let pod = app("p").rather_near(1, malformed()).build();
    let mut state = CycleState::new();
    let point = default_plugin().pre_score.unwrap();
    let status =
        point.pre_score(AttemptMut::new(&mut state, &pod, &handle(&Cluster::default())), &[]);
    assert_eq!(status.code(), Code::Error);
    assert!(status.message().starts_with("parsing pod: preferredAffinityTerms: "), "{status:?}");
}
