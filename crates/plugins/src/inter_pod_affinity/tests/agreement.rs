//! Compares both forms with the oracle, and what-if changes with a new count.

use std::sync::Arc;

use framework::{
    Attempt, AttemptMut, Cluster, CycleState, NodeBits, NodeIx, NodeView, Overlay, Plugin, Pod,
    PodIx, Status, api,
};
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::json;
use testkit::handle;

use super::default_plugin;
use super::oracle::Objects;
use super::worlds::{identified, objects, placed_pod, some_pod};
use super::*;
use crate::forms;

/// Returns the verdict on every node from the one-node form, after checking that the set form
/// agrees. All nodes pass if PreFilter returns Skip.
fn verdicts(
    plugin: &Plugin,
    cluster: &Cluster,
    pod: &Pod,
    state: Option<&CycleState>,
) -> Vec<(NodeIx, Status)> {
    let filter = plugin.filter.as_ref().unwrap();
    let mut kept: NodeBits = cluster.nodes().clone();
    if let Some(state) = state {
        filter.filter_set(&Attempt::new(state, pod, &handle(cluster)), &mut kept).unwrap();
    }
    let verdict = |node| match state {
        Some(state) => {
            filter.filter(&Attempt::new(state, pod, &handle(cluster)), &cluster.node(node))
        }
        None => Status::success(),
    };
    let verdicts: Vec<_> = cluster.nodes().iter().map(|node| (node, verdict(node))).collect();
    for (node, status) in &verdicts {
        assert_eq!(kept.contains(*node), status.is_success(), "set form on {node:?}");
    }
    verdicts
}

/// Returns the state after PreFilter; `None` if PreFilter returns Skip.
fn prepared(plugin: &Plugin, cluster: &Cluster, pod: &Pod) -> Option<CycleState> {
    let mut state = CycleState::new();
    match plugin.pre_filter.as_ref().unwrap().pre_filter(AttemptMut::new(
        &mut state,
        pod,
        &handle(cluster),
    )) {
        Ok(_) => Some(state),
        Err(status) => {
            assert!(status.is_skip(), "{status:?}");
            None
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 192, ..forms::config() })]

    #[test]
    fn filter_forms_agree(objects in objects(), pod in some_pod(0.01), choice: u64) {
        let check = |objects: &Objects, pod: &api::Pod| {
            let verdict = |node: &api::Node| objects.verdict(pod, node);
            forms::check_filter(&default_plugin(), &objects.world(), pod, choice, verdict);
        };
        check(&objects, &pod);
        check(&objects, &without_terms(pod));
    }

    #[test]
    fn score_forms_agree(
        objects in objects(),
        pod in some_pod(0.0),
        choice: u64,
        weight in prop_oneof![Just(0), Just(1), 0_i64..=100],
        ignore: bool,
    ) {
        let args = json!({
            "hardPodAffinityWeight": weight,
            "ignorePreferredTermsOfExistingPods": ignore,
        });
        let check = |pod: &api::Pod| {
            let score = |node: &api::Node| objects.score(pod, node, weight, ignore);
            forms::check_score(&plugin_with(args.clone()), &objects.world(), pod, choice, score);
        };
        check(&pod);
        check(&without_terms(pod.clone()));
    }

    #[test]
    fn what_if_changes_equal_a_new_count(
        objects in objects(),
        pod in some_pod(0.0),
        comes in prop::collection::vec(placed_pod(5), 0..3),
        goes in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        has_standing_queries: bool,
    ) {
        let plugin = default_plugin();
        let mut world = objects.world();
        let pod = Pod::from_api(&pod);
        if has_standing_queries {
            add_standing_queries(&plugin, &mut world.cluster, &pod);
        }
        let Some(state) = prepared(&plugin, &world.cluster, &pod) else { return Ok(()) };
        let before = verdicts(&plugin, &world.cluster, &pod, Some(&state));
        let (mut what_if, mut after) = (state.clone(), world.cluster.clone());
        for other in goes.iter().filter(|_| !objects.pods.is_empty()) {
            let (ix, _) = world.pods[other.index(objects.pods.len())];
            if after.pods().any(|placed| placed.pod.uid == world.cluster.pod(ix).pod.uid) {
                take_away(&plugin, &mut what_if, &pod, &world.cluster, ix);
                after.remove_pod(ix);
            }
        }
        for (number, other) in comes.into_iter().enumerate() {
            let other = Arc::new(Pod::from_api(&identified(other, 100 + number)));
            let node = other.node_name.clone().unwrap();
            if let Some(ix) = world.cluster.node_named(&node) {
                bring(&plugin, &mut what_if, &pod, &other, world.cluster.node(ix));
                after.place_pod(other, &node);
            }
        }
        let counted_anew = prepared(&plugin, &after, &pod);
        prop_assert_eq!(
            verdicts(&plugin, &world.cluster, &pod, Some(&what_if)),
            verdicts(&plugin, &after, &pod, counted_anew.as_ref())
        );
        prop_assert_eq!(verdicts(&plugin, &world.cluster, &pod, Some(&state)), before);
    }
}

fn take_away(plugin: &Plugin, state: &mut CycleState, pod: &Pod, cluster: &Cluster, gone: PodIx) {
    let extensions = plugin.pre_filter_extensions.as_ref().unwrap();
    let mut overlay = Overlay::default();
    overlay.remove(cluster, gone);
    let placed = cluster.pod(gone);
    let node = cluster.node(placed.node);
    let status = extensions.remove_pod(
        AttemptMut::new(state, pod, &handle(cluster)),
        &placed.pod,
        &node.with(&overlay),
    );
    assert!(status.is_success());
}

fn bring(plugin: &Plugin, state: &mut CycleState, pod: &Pod, other: &Arc<Pod>, node: NodeView<'_>) {
    let extensions = plugin.pre_filter_extensions.as_ref().unwrap();
    let mut overlay = Overlay::default();
    overlay.add(other.clone());
    assert!(
        extensions
            .add_pod(
                AttemptMut::new(state, pod, &handle(node.cluster())),
                other,
                &node.with(&overlay)
            )
            .is_success()
    );
}

fn without_terms(mut pod: api::Pod) -> api::Pod {
    pod.spec.affinity = None;
    pod
}

fn add_standing_queries(plugin: &Plugin, cluster: &mut Cluster, pod: &Pod) {
    let queries = plugin.standing_queries.as_ref().unwrap().queries(pod, &handle(cluster));
    queries.iter().for_each(|query| cluster.register_query(query));
}
