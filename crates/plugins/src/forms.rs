//! Compares the one-node and set forms of a plugin with each other and with an oracle on API
//! objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{
    ActionType, Attempt, AttemptMut, Cluster, ClusterEvent, CycleState, EventForPod, EventObjects,
    EventResource, NodeBits, NodeIx, PerNode, Plugin, Pod, QueueingHint, Status, Verdicts, api,
};
use proptest::test_runner::Config;
use testkit::handle;

use crate::arbitrary::World;

/// Limits the number of cases, because large clusters are slow to check.
pub(crate) fn config() -> Config {
    Config { cases: 96, ..Config::default() }
}

/// Returns the hint of the plugin for `pod` and this event.
pub(crate) fn hint(
    plugin: &Plugin,
    pod: &Pod,
    resource: EventResource,
    action: ActionType,
    objects: EventObjects<'_>,
) -> QueueingHint {
    let incoming = ClusterEvent::new(resource, action);
    let events = plugin.events.as_deref().expect("the plugin declares its events");
    let registered = events.iter().find(|registered| registered.event.matches(&incoming));
    let registered = registered.expect("the plugin registers the event");
    let cluster = Cluster::default();
    let handle = handle(&cluster);
    registered.evaluate_hint(EventForPod::new(pod, objects, &handle)).unwrap_or(QueueingHint::Queue)
}

/// Checks every form of Filter on the nodes of `choice`. `oracle` returns the verdict on a node.
///
/// If PreFilter returns Skip, the oracle must pass all nodes. If PreFilter rejects the pod or
/// narrows the nodes, the oracle must reject the excluded nodes.
pub(crate) fn check_filter(
    plugin: &Plugin,
    world: &World,
    pod: &api::Pod,
    choice: u64,
    oracle: impl Fn(&api::Node) -> Status,
) {
    let pod = Pod::from_api(pod);
    let mut state = CycleState::new();
    match pre_filter(plugin, world, &pod, &mut state) {
        Ok(None) => {}
        Ok(Some(names)) => {
            let others = world.nodes.iter().filter(|(name, _)| !names.contains(&***name));
            others.for_each(|(name, node)| assert!(!oracle(node).is_success(), "{name} left out"));
        }
        Err(status) => {
            let skipped = status.is_skip();
            assert!(skipped || status.is_rejection(), "{status:?}");
            world.nodes.values().for_each(|node| assert_eq!(oracle(node).is_success(), skipped));
            return;
        }
    }
    check_filter_forms(plugin, world, &pod, &state, &world.some_nodes(choice), oracle);
}

fn pre_filter(
    plugin: &Plugin,
    world: &World,
    pod: &Pod,
    state: &mut CycleState,
) -> Result<Option<BTreeSet<Arc<str>>>, Status> {
    match &plugin.pre_filter {
        Some(point) => {
            Ok(point.pre_filter(AttemptMut::new(state, pod, &handle(&world.cluster)))?.node_names)
        }
        None => Ok(None),
    }
}

fn check_filter_forms(
    plugin: &Plugin,
    world: &World,
    pod: &Pod,
    state: &CycleState,
    nodes: &NodeBits,
    oracle: impl Fn(&api::Node) -> Status,
) {
    let filter = plugin.filter.as_ref().expect("the plugin filters");
    let cluster = &world.cluster;
    let mut kept = nodes.clone();
    filter
        .filter_set(&Attempt::new(state, pod, &handle(cluster)), &mut kept)
        .expect("the set form has an answer");
    let mut rejected = nodes.clone();
    rejected.subtract(&kept);
    let mut verdicts = Verdicts::with_len(cluster.table_len());
    filter.explain_set(&Attempt::new(state, pod, &handle(cluster)), &rejected, &mut verdicts);
    for node in nodes.iter() {
        let status =
            filter.filter(&Attempt::new(state, pod, &handle(cluster)), &cluster.node(node));
        let name = cluster.node_name(node);
        assert_eq!(status, oracle(world.node(node)), "one-node form and oracle on {name}");
        assert_eq!(kept.contains(node), status.is_success(), "set form on {name}");
        let explained = verdicts.explicit(node).cloned().unwrap_or_default();
        assert_eq!(explained, status, "explanation of {name}");
    }
    kept.subtract(nodes);
    assert!(kept.is_empty(), "the set form added nodes");
    assert_eq!(verdicts.explicit_count(), rejected.count(), "explanations of other nodes");
}

/// Checks every form of Score on the nodes of `choice`. `oracle` returns the score of a node before
/// normalization. If PreScore returns Skip, the oracle must return 0.
pub(crate) fn check_score(
    plugin: &Plugin,
    world: &World,
    pod: &api::Pod,
    choice: u64,
    oracle: impl Fn(&api::Node) -> i64,
) {
    let pod = Pod::from_api(pod);
    let cluster = &world.cluster;
    let mut nodes: Vec<NodeIx> = world.some_nodes(choice).iter().collect();
    let third = nodes.len() / 3;
    nodes.rotate_left(third);
    let expected: Vec<i64> = nodes.iter().map(|node| oracle(world.node(*node))).collect();
    let mut state = CycleState::new();
    if let Some(point) = &plugin.pre_score {
        let status = point.pre_score(AttemptMut::new(&mut state, &pod, &handle(cluster)), &nodes);
        if status.is_skip() {
            assert!(expected.iter().all(|score| *score == 0), "skipped with {expected:?}");
            return;
        }
        assert_eq!(status, Status::success());
    }
    let score = plugin.score.as_ref().expect("the plugin scores");
    let one = |node: &NodeIx| {
        score.score(&Attempt::new(&state, &pod, &handle(cluster)), &cluster.node(*node)).unwrap()
    };
    assert_eq!(nodes.iter().map(one).collect::<Vec<_>>(), expected, "one-node form");
    let mut scores = vec![i64::MIN; nodes.len()];
    score
        .score_set(&Attempt::new(&state, &pod, &handle(cluster)), PerNode::new(&nodes, &mut scores))
        .unwrap();
    assert_eq!(scores, expected, "set form");
    if let Some(point) = &plugin.normalize_score {
        assert!(
            point
                .normalize_score(
                    &Attempt::new(&state, &pod, &handle(cluster)),
                    PerNode::new(&nodes, &mut scores)
                )
                .is_success()
        );
    }
    assert!(scores.iter().all(|score| (0..=100).contains(score)), "{scores:?}");
}
