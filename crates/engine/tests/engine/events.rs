//! Event handlers: the effects of object changes on cache and queue.

use engine::Change;
use framework::{ActionType, ClusterEvent, EventResource, Uid};
use testkit::{NodeBuilder, node, pod};

use crate::harness::*;

/// Rejects every pod under the name it carries as label `waits-for`, one plugin for each event.
fn listeners() -> Vec<Fake> {
    use ActionType as A;
    let listens = |name: &'static str, event| {
        fake(name).on(event).filter(move |pod, _| match pod.labels.get("waits-for") {
            Some(label) if label == name => no("waiting"),
            _ => yes(),
        })
    };
    vec![
        listens("PodAdd", pod_event(A::ADD)),
        listens("PodDelete", pod_event(A::DELETE)),
        listens("PodLabel", pod_event(A::UPDATE_POD_LABEL)),
        listens("PodUpdate", pod_event(A::UPDATE)),
        listens("NodeAdd", node_event(A::ADD)),
        listens("NodeDelete", node_event(A::DELETE)),
        listens("NodeLabel", node_event(A::UPDATE_NODE_LABEL)),
        listens("NodeTaint", node_event(A::UPDATE_NODE_TAINT)),
        listens("NodeAllocatable", node_event(A::UPDATE_NODE_ALLOCATABLE)),
        listens("NodeCondition", node_event(A::UPDATE_NODE_CONDITION)),
    ]
}

/// A world with one unschedulable pod for each listener, named after it, and a pod that runs on
/// `a`.
fn parked() -> World {
    let mut world = world(listeners());
    for name in NAMES {
        world.pod(pod(&name.to_lowercase()).label("waits-for", name));
    }
    world.pod(pod("runner").on("a").scheduler("foreign"));
    world.run();
    world.pass(10);
    world.run();
    world
}

const NAMES: [&str; 10] = [
    "PodAdd",
    "PodDelete",
    "PodLabel",
    "PodUpdate",
    "NodeAdd",
    "NodeDelete",
    "NodeLabel",
    "NodeTaint",
    "NodeAllocatable",
    "NodeCondition",
];

/// Returns the unschedulable pods that a change has moved, except the changed pod itself.
fn moved(world: &World) -> Vec<&'static str> {
    let place = |name: &str| world.place(&name.to_lowercase());
    NAMES.into_iter().filter(|name| place(name) != "unschedulable").collect()
}

#[track_caller]
fn check_moves(change: impl FnOnce(&mut World), expected: &[&str]) {
    let mut world = parked();
    assert_eq!(moved(&world), [""; 0]);
    change(&mut world);
    assert_eq!(moved(&world), expected);
}

#[test]
fn assigned_pods_of_any_scheduler_are_placed_and_cause_events() {
    check_moves(|world| world.pod(pod("x").on("b").scheduler("foreign")), &["PodAdd"]);
    check_moves(|world| world.delete("runner"), &["PodDelete"]);
    check_moves(
        |world| {
            world.update("runner", |pod| drop(pod.metadata.labels.insert("a".into(), "b".into())));
        },
        &["PodLabel", "PodUpdate"],
    );
    check_moves(|world| world.update("runner", |_| ()), &["PodUpdate"]);
    let mut world = parked();
    assert_eq!(world.node_of("runner").as_deref(), Some("a"));
    world.delete("runner");
    assert_eq!(world.node_of("runner"), None);
}

#[test]
fn unassigned_pods_of_other_schedulers_are_ignored() {
    check_moves(|world| world.pod(pod("x").scheduler("foreign").nominated("a")), &[]);
    let mut world = parked();
    world.pod(pod("x").scheduler("foreign").nominated("a"));
    assert_eq!((world.place("x"), world.engine.nominator().len()), ("nowhere", 0));
    world.delete("x");
    assert_eq!(moved(&world), [""; 0]);
}

#[test]
fn terminal_pod_counts_as_deleted() {
    for phase in ["Succeeded", "Failed"] {
        let mut world = parked();
        world.update("runner", |pod| pod.status.phase = phase.to_owned());
        assert_eq!((world.node_of("runner"), moved(&world)), (None, vec!["PodDelete"]));
        world.pod(pod("done").on("a").with(|pod| pod.status.phase = phase.to_owned()));
        assert_eq!(world.node_of("done"), None);
        world.pod(pod("new"));
        world.update("new", |pod| pod.status.phase = phase.to_owned());
        assert_eq!(world.place("new"), "nowhere");
    }
}

#[test]
fn terminating_pods_keep_their_room_until_they_are_gone() {
    let mut world = parked();
    world.terminate("runner");
    assert_eq!(world.node_of("runner").as_deref(), Some("a"));
}

#[test]
fn pod_bound_by_another_scheduler_leaves_the_queue() {
    let mut world = parked();
    world.update("podadd", |pod| pod.spec.node_name = "c".to_owned());
    assert_eq!((world.place("podadd"), world.node_of("podadd").as_deref()), ("placed", Some("c")));
    assert_eq!(world.engine.pending().count(), NAMES.len() - 1);
}

#[test]
fn deletion_of_an_unknown_pod_is_ignored() {
    let mut world = parked();
    let gone = |name: &str, uid: &str| Change::PodDeleted { key: key(name), uid: Uid::from(uid) };
    world.apply(gone("stranger", "uid-stranger"));
    world.apply(gone("podadd", "uid-of-an-earlier-one"));
    assert_eq!((moved(&world), world.place("podadd")), (vec![], "unschedulable"));
    // A tombstone of a pod that was bound without our seeing it.
    world.apply(gone("podadd", "uid-podadd"));
    assert_eq!(world.place("podadd"), "nowhere");
}

#[test]
fn same_resource_version_is_no_change() {
    let mut world = parked();
    world.see("podupdate");
    assert_eq!(world.place("podupdate"), "unschedulable");
    world.update("podupdate", |_| ());
    assert_ne!(world.place("podupdate"), "unschedulable");
}

#[test]
fn own_update_moves_only_the_pod_itself() {
    check_moves(
        |world| {
            world
                .update("podlabel", |pod| drop(pod.metadata.labels.insert("x".into(), "y".into())));
        },
        &["PodLabel"],
    );
}

#[test]
fn older_version_without_node_does_not_unbind_a_pod() {
    let mut world = world(listeners());
    world.pod(pod("p"));
    let old = world.server[&key("p")].clone();
    world.run();
    assert_eq!(world.place("p"), "placed");
    world.apply(Change::Pod(Box::new(framework::Pod::from_api(&old))));
    world.run_for(15);
    assert_eq!(world.place("p"), "placed");
    assert_eq!(world.events().len(), 1, "it was scheduled, once");
    assert_eq!(world.engine.pending().count(), 0);
}

#[test]
fn new_pod_of_the_same_name_replaces_the_old_pod() {
    let mut world = parked();
    world.pod(pod("podadd").uid("new"));
    assert_eq!((world.place("podadd"), world.engine.pending().count()), ("active", NAMES.len()));
    world.run();
    assert_eq!(world.place("podadd"), "placed");

    let mut world = parked();
    let done = pod("podadd").uid("new").on("a").with(|pod| pod.status.phase = "Failed".to_owned());
    world.pod(done);
    assert_eq!(world.place("podadd"), "nowhere", "also one that has ended already");
    assert_eq!(world.engine.pending().count(), NAMES.len() - 1);
}

#[test]
fn cleared_nomination_moves_pods_of_at_most_its_priority() {
    let end: [fn(&mut World); 5] = [
        |world| world.delete("guest"),
        |world| world.update("guest", |pod| pod.status.nominated_node_name.clear()),
        |world| world.update("guest", |pod| pod.status.nominated_node_name = "b".to_owned()),
        |world| world.update("guest", |pod| pod.spec.node_name = "b".to_owned()),
        |world| world.update("guest", |pod| pod.spec.node_name = "a".to_owned()),
    ];
    for (row, end) in end.into_iter().enumerate() {
        // Its room is taken if it is bound where it is nominated.
        let is_free = row < 4;
        let [_, keep] = held();
        let mut world = world(listeners().into_iter().chain([keep]));
        let waits = |name: &str| pod(name).label("waits-for", "PodDelete");
        world.pod(waits("guest").priority(5).nominated("a"));
        for (name, priority) in [("low", 0), ("equal", 5), ("high", 6)] {
            world.pod(waits(name).priority(priority));
        }
        world.run();
        world.pass(10);
        end(&mut world);
        let places = ["low", "equal", "high"].map(|name| world.place(name) != "unschedulable");
        assert_eq!(places, [is_free, is_free, false], "row {row}");
    }
}

#[test]
fn update_of_an_assumed_pod_is_no_event() {
    let mut world = parked();
    world.pod(pod("p"));
    world.attempt();
    world.update("p", |pod| drop(pod.metadata.labels.insert("x".into(), "y".into())));
    assert_eq!((world.place("p"), moved(&world)), ("assumed", vec![]));
}

fn beat(world: &mut World, change: impl FnOnce(NodeBuilder) -> NodeBuilder) {
    world.node(change(node("a")));
}

#[test]
fn node_update_moves_pods_by_its_changed_parts() {
    check_moves(|world| world.node(node("new")), &["NodeAdd"]);
    check_moves(|world| beat(world, |node| node), &[]);
    check_moves(|world| beat(world, |node| node.image("busybox", 1)), &[]);
    check_moves(|world| beat(world, |node| node.label("x", "y")), &["NodeLabel"]);
    check_moves(|world| beat(world, |node| node.allocatable("cpu", "9")), &["NodeAllocatable"]);
    // A plugin that registers new nodes also gets taint updates, as in 1.36.
    let taints = ["NodeAdd", "NodeTaint"];
    check_moves(|world| beat(world, |node| node.taint("k", "", "NoSchedule")), &taints);
    check_moves(|world| beat(world, NodeBuilder::unschedulable), &[]);
    check_moves(
        |world| {
            beat(world, NodeBuilder::unschedulable);
            beat(world, |node| node);
        },
        &taints,
    );
}

#[test]
fn heartbeat_of_a_node_with_a_zero_resource_moves_no_pod() {
    let mut world = parked();
    let lost = || node("a").allocatable("example.com/gpu", "0");
    world.node(lost());
    world.run_for(15);
    world.node(lost());
    assert_eq!(moved(&world), [""; 0]);
    world.node(lost().allocatable("example.com/gpu", "1"));
    assert_eq!(moved(&world), ["NodeAllocatable"]);
}

#[test]
fn node_deletion_moves_pods_before_the_node_leaves_the_cache() {
    let watcher = fake("Watcher").filter(|_, _| no("waiting")).on_with_hint(
        node_event(ActionType::DELETE),
        |_, event| {
            let framework::EventObjects::Node { old: Some(old), new: None } = event.objects else {
                return Err("a deletion carries the old node".to_owned());
            };
            assert!(event.handle.cluster.node_named(&old.name).is_some());
            Ok(framework::QueueingHint::Queue)
        },
    );
    let mut world = world([watcher]);
    world.schedule(pod("p"));
    world.delete_node("stranger");
    assert_eq!(world.place("p"), "unschedulable");
    world.delete_node("b");
    assert_ne!(world.place("p"), "unschedulable");
    assert_eq!((world.probe.panics.len(), world.engine.cluster().node_count()), (0, 2));
}

#[test]
fn pods_of_a_deleted_node_count_when_it_returns() {
    let mut world = Setup::new([fit()]).build();
    world.pod(pod("early").on("a").cpu("5"));
    world.node(node("a"));
    world.schedule(pod("p").cpu("5"));
    assert_eq!(world.place("p"), "unschedulable");
    world.delete_node("a");
    world.delete("early");
    world.node(node("a"));
    world.run_for(3);
    assert_eq!(world.place("p"), "placed");
}

#[test]
fn changes_of_other_kinds_move_pods() {
    let claim = |action| ClusterEvent::new(EventResource::ResourceClaim, action);
    let waits = |name: &'static str, action| {
        fake(name).on(claim(action)).filter(move |pod, _| match &*pod.key.name == name {
            true => no("no claim"),
            false => yes(),
        })
    };
    let actions =
        [("add", ActionType::ADD), ("update", ActionType::UPDATE), ("delete", ActionType::DELETE)];
    let mut world = world(actions.map(|(name, action)| waits(name, action)));
    for (name, _) in actions {
        world.schedule(pod(name));
    }
    let object = |version: Option<u64>| {
        let kind = EventResource::ResourceClaim;
        let key = framework::ObjectKey::namespaced(kind, "default".into(), "claim".into());
        let object = version.map(|version| serde_json::json!({ "v": version }));
        Change::decode(key, object).unwrap()
    };
    // Versions the watch shows, one after the other, and the pod each of them moves.
    let rows = [(None, ""), (Some(1), "add"), (Some(1), ""), (Some(2), "update"), (None, "delete")];
    for (version, expected) in rows {
        world.apply(object(version));
        let moved = actions.into_iter().filter(|(name, _)| world.place(name) != "unschedulable");
        let moved: Vec<&str> = moved.map(|(name, _)| name).collect();
        assert!(moved.last().is_none_or(|_| moved.contains(&expected) || expected.is_empty()));
        assert!(expected.is_empty() || moved.contains(&expected), "{version:?} moves {expected}");
    }
}
