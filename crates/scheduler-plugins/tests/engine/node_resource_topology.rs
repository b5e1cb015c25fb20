//! NodeResourceTopologyMatch: reports come and go, and decisions that look only at changed nodes
//! are those of full passes.

use engine::Change;
use engine::cycle::Form;
use framework::{EventResource, ObjectKey, PodKey};
use loadmaster_scheduler_plugins::node_resource_topology::NAME;
use plugin_trial::World;
use proptest::prelude::*;
use serde_json::json;

use crate::world::{NODES, Setting, forms_agree, node_name, steps, world};

const KIND: &str = "noderesourcetopologies.v1alpha2.topology.node.k8s.io";

/// The report of a node whose NUMA nodes have so many free CPUs.
fn report(world: &mut World, node: &str, policy: &str, cpus: &[i64]) {
    let zones = cpus.iter().enumerate().map(|(id, cpus)| {
        let resource = |name: &str, amount: String| {
            json!({"name": name, "capacity": amount, "available": amount})
        };
        let resources = [resource("cpu", cpus.to_string()), resource("memory", "64Gi".to_owned())];
        json!({"name": format!("node-{id}"), "type": "Node", "resources": resources})
    });
    let object = json!({
        "metadata": {"name": node},
        "attributes": [{"name": "topologyManagerPolicy", "value": policy}],
        "zones": zones.collect::<Vec<_>>(),
    });
    world.object(KIND, object);
}

fn withdraw(world: &mut World, node: &str) {
    let key = ObjectKey::cluster_scoped(EventResource::Custom(KIND.into()), node.into());
    world.apply(Change::ObjectDeleted(key));
}

const SINGLE: &str = "single-numa-node";

#[test]
fn report_that_changes_or_appears_releases_a_waiting_pod() {
    for args in [json!({}), json!({"cacheResyncPeriodSeconds": 5})] {
        let mut world = world(Form::Ranked, NAME, args);
        world.node("a");
        report(&mut world, "a", SINGLE, &[2, 2]);
        world.pod("p", 4);
        world.settle();
        assert_eq!(world.node_of("p"), None);
        let message = &world.messages[&PodKey::new("default", "p")];
        let expected = "0/1 nodes are available: 1 cannot align container.";
        assert!(message.starts_with(expected), "{message}");
        report(&mut world, "a", SINGLE, &[2, 3]);
        world.pass(15);
        assert_eq!(world.node_of("p"), None, "the report does not help");
        report(&mut world, "a", SINGLE, &[4, 0]);
        world.pass(15);
        assert_eq!(world.node_of("p"), Some("a"));
    }
    let mut world = world(Form::Ranked, NAME, json!({"nodesWithoutTopology": "Reject"}));
    world.node("late");
    world.pod("p", 4);
    world.settle();
    assert_eq!(world.node_of("p"), None);
    report(&mut world, "late", SINGLE, &[4]);
    world.pass(15);
    assert_eq!(world.node_of("p"), Some("late"));
}

#[test]
fn end_of_a_bind_releases_a_pod_that_waits_for_the_node() {
    let mut world = world(Form::Ranked, NAME, json!({"discardReservedNodes": true}));
    world.node("a");
    report(&mut world, "a", SINGLE, &[4, 4]);
    world.pod("p", 2);
    world.pod("q", 2);
    world.attempt();
    world.attempt();
    world.settle();
    let message = &world.messages[&PodKey::new("default", "q")];
    assert!(message.contains("1 invalid node topology data"), "{message}");
    world.pass(15);
    assert_eq!((world.node_of("p"), world.node_of("q")), (Some("a"), Some("a")));
}

/// With over-reservation, the report of a node that is gone says nothing about the node that gets
/// its id.
#[test]
fn report_of_a_removed_node_is_forgotten() {
    let mut world = world(Form::Ranked, NAME, json!({"cacheResyncPeriodSeconds": 5}));
    world.node("small");
    report(&mut world, "small", SINGLE, &[2]);
    world.pod("p", 4);
    world.settle();
    assert_eq!(world.node_of("p"), None);
    world.apply(Change::NodeDeleted("small".into()));
    let fingerprint = json!({"topology.node.k8s.io/fingerprint": "pfp0v001ffffffffffffffff"});
    let zones = json!([{"name": "node-0", "type": "Node", "resources": [
        {"name": "cpu", "available": "8"}, {"name": "memory", "available": "64Gi"}]}]);
    let policies = json!(["SingleNUMANodeContainerLevel"]);
    world.object(
        KIND,
        json!({"metadata": {"name": "large", "annotations": fingerprint},
            "topologyPolicies": policies, "zones": zones}),
    );
    world.node("large");
    world.pass(15);
    assert_eq!(world.node_of("p"), Some("large"));
}

/// With over-reservation, no two pods get the room of one.
#[test]
fn room_of_a_report_is_given_away_once() {
    let mut world = world(Form::Ranked, NAME, json!({"cacheResyncPeriodSeconds": 5}));
    world.node("a");
    report(&mut world, "a", SINGLE, &[8, 8]);
    for name in ["p", "q", "r"] {
        world.pod(name, 4);
    }
    world.settle();
    // Each pod is subtracted from both NUMA nodes.
    let placed = ["p", "q", "r"].iter().filter(|name| world.node_of(name).is_some()).count();
    assert_eq!(placed, 2);
}

#[derive(Debug, Clone)]
enum Report {
    Written { node: usize, is_single: bool, cpus: Vec<i64> },
    Withdrawn(usize),
}

fn reports() -> impl Strategy<Value = Report> {
    prop_oneof![
        4 => (0..NODES, any::<bool>(), prop::collection::vec(0i64..9, 1..3))
            .prop_map(|(node, is_single, cpus)| Report::Written { node, is_single, cpus }),
        1 => (0..NODES).prop_map(Report::Withdrawn),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decisions_on_changed_nodes_are_those_of_full_passes(
        steps in steps(reports()),
        args in prop::sample::select(vec![
            json!({}),
            json!({"cacheResyncPeriodSeconds": 5}),
            json!({"cacheResyncPeriodSeconds": 5, "preemptionMode": "Enabled"}),
            json!({"scoringStrategy": {"type": "LeastNUMANodes"}, "nodesWithoutTopology": "Reject"}),
            json!({"scoringStrategy": {"type": "MostAllocated"}, "cacheResyncPeriodSeconds": 5}),
            json!({"discardReservedNodes": true}),
        ]),
    ) {
        forms_agree(NAME, &args, &steps, |world, step| match step {
            Report::Written { node, is_single, cpus } => {
                let policy = if *is_single { SINGLE } else { "none" };
                report(world, &node_name(*node), policy, cpus);
            }
            Report::Withdrawn(node) => withdraw(world, &node_name(*node)),
        })?;
    }
}
