//! What the scheduler reports about groups: conditions, which are repeated until the watch shows
//! them, and events.

use engine::{Change, EffectId, EffectKind, EventSubject};
use framework::api::OwnerReference;
use framework::{Answer, COSCHEDULING_POD_GROUPS, EventResource, ObjectKey, POD_GROUP_LABEL};
use serde_json::{Value, json};
use testkit::{PodBuilder, node, pod};

use crate::harness::*;
use crate::pod_groups::{conditions, member, members, places, pod_group, single_pod_nodes};

const REJECTED: &str = "b False Unschedulable: pod group is unschedulable, 1 of 2 fit, pod b1 \
                        does not fit: 0/1 nodes are available: 1 Too many pods";

/// A gang of two for which one of its nodes is missing.
fn rejected_gang() -> World {
    let mut world = single_pod_nodes([], 1);
    pod_group(&mut world, "b", 2);
    members(&mut world, "b", 2);
    world.attempt();
    world
}

/// Takes the write of a condition that is not answered.
fn take_write(world: &mut World) -> EffectId {
    let is_condition = |kind: &EffectKind| matches!(kind, EffectKind::Write(_));
    world.take_open(is_condition).id
}

/// The watch shows a condition of the gang `b`.
fn show(world: &mut World, status: &str, reason: &str, message: &str) {
    let condition = json!({
        "type": "PodGroupInitiallyScheduled", "status": status, "reason": reason,
        "message": message,
    });
    let object = json!({
        "metadata": {"namespace": "default", "name": "b", "uid": "uid-b"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        "status": {"conditions": [condition]},
    });
    world.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, object))));
}

/// The events about PodGroups, as `reason: note`.
fn group_events(world: &World) -> Vec<String> {
    let events = world.history.iter().filter_map(|effect| match &effect.kind {
        EffectKind::Event(event) if event.subject != EventSubject::Pod => Some(event),
        _ => None,
    });
    events.map(|event| format!("{} {}: {}", event.regarding, event.reason, event.note)).collect()
}

#[test]
fn refused_condition_is_repeated_with_growing_pauses_until_it_is_shown() {
    let mut world = rejected_gang();
    let mut pauses = Vec::new();
    let mut last = world.now;
    for _ in 0..10 {
        let write = take_write(&mut world);
        world.answer(write, &Answer::Error("refused".to_owned()));
        let before = conditions(&world).len();
        while conditions(&world).len() == before {
            world.pass(1);
            world.try_attempt();
        }
        pauses.push(world.now.since(last).as_secs());
        last = world.now;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 120, 120, 120]);
    assert_eq!(conditions(&world), vec![REJECTED; 11]);
    let write = take_write(&mut world);
    let message = REJECTED.strip_prefix("b False Unschedulable: ").unwrap();
    show(&mut world, "False", "Unschedulable", message);
    world.answer(write, &Answer::Error("refused".to_owned()));
    world.pass(600);
    world.try_attempt();
    assert_eq!(conditions(&world).len(), 11, "the watch shows it");
    assert_eq!(group_events(&world).len(), 1, "the event is recorded once");
}

#[test]
fn condition_that_was_stored_and_is_not_shown_is_repeated() {
    let mut world = rejected_gang();
    for answer in [Answer::Unknown("timeout".to_owned()), Answer::ok()] {
        let write = take_write(&mut world);
        world.answer(write, &answer);
        world.pass(119);
        world.try_attempt();
    }
    assert_eq!(conditions(&world).len(), 2, "the lost one is repeated at once");
    world.pass(1);
    world.try_attempt();
    assert_eq!(conditions(&world), vec![REJECTED; 3]);
}

#[test]
fn report_ends_with_its_pod_group() {
    let mut world = rejected_gang();
    let write = take_write(&mut world);
    let key = ObjectKey::namespaced(EventResource::PodGroup, "default".into(), "b".into());
    world.apply(Change::ObjectDeleted(key));
    world.answer(write, &Answer::Conflict("another UID".to_owned()));
    world.pass(600);
    world.try_attempt();
    assert_eq!(conditions(&world).len(), 1);
}

#[test]
fn group_has_an_event_for_each_change_of_its_state() {
    let mut world = single_pod_nodes([], 1);
    pod_group(&mut world, "b", 2);
    members(&mut world, "b", 2);
    world.run();
    world.node(node("other").allocatable("pods", "1").label("x", "y"));
    world.run_for(30);
    assert_eq!(places(&world, "b", 2), ["placed"; 2]);
    let expected = [
        "default/b FailedScheduling: pod group is unschedulable, 1 of 2 fit, pod b1 does not fit: 0/1 \
         nodes are available: 1 Too many pods",
        "default/b Scheduled: Enough pods of the group have a node",
    ];
    assert_eq!(group_events(&world), expected);
}

#[test]
fn group_of_bound_members_is_reported_after_a_restart() {
    let mut world = single_pod_nodes([], 2);
    for number in 0..2 {
        world.pod(member("b", number).on(&format!("n{number}")));
    }
    show(&mut world, "False", "Unschedulable", "too few");
    world.run();
    assert_eq!(conditions(&world), ["b True Scheduled: "]);
    show(&mut world, "True", "Scheduled", "");
    world.run_for(300);
    assert_eq!(conditions(&world).len(), 1);
}

/// As after the crash of a scheduler in the middle of the binds of a gang.
#[test]
fn scheduled_group_of_which_too_few_pods_have_a_node_says_why() {
    let mut world = single_pod_nodes([], 2);
    show(&mut world, "True", "Scheduled", "");
    world.pod(member("b", 0).on("n0"));
    world.pod(pod("rival").on("n1"));
    world.pod(member("b", 1));
    world.run();
    let text = "1 of 2 pods have a node: pod group is unschedulable, 1 of 2 fit, pod b1 does not \
                fit: 0/2 nodes are available: 2 Too many pods";
    assert_eq!(conditions(&world), [format!("b True Scheduled: {text}")]);
    assert_eq!(group_events(&world), [format!("default/b FailedScheduling: {text}")]);
    show(&mut world, "True", "Scheduled", text);
    world.delete("rival");
    world.run_for(30);
    assert_eq!(places(&world, "b", 2), ["placed"; 2]);
    assert_eq!(conditions(&world)[1..], ["b True Scheduled: "]);
}

#[test]
fn rejected_gang_that_loses_a_member_waits_for_pods() {
    let mut world = rejected_gang();
    world.delete("b1");
    assert_eq!(world.place("b0"), "gated");
    world.run_for(30);
    assert_eq!(world.condition("b0").as_deref(), Some("SchedulingGated: no quorum"));
    let text = "b False Unschedulable: waiting for pods: minCount is 2, and 1 exist";
    assert_eq!(conditions(&world).last().map(String::as_str), Some(text));
}

#[test]
fn gang_that_waits_for_a_pod_with_scheduling_gates_names_the_pod() {
    let mut world = single_pod_nodes([gates()], 2);
    pod_group(&mut world, "b", 2);
    world.pod(member("b", 0));
    world.pod(member("b", 1).gate("example.com/quota"));
    world.run_for(30);
    let text = "waiting for pod default/b1, which has scheduling gates";
    assert_eq!(world.condition("b0"), Some(format!("SchedulingGated: {text}")));
    assert_eq!(conditions(&world), [format!("b False Unschedulable: {text}")]);
    world.pod(member("b", 1));
    world.run_for(30);
    assert_eq!(places(&world, "b", 2), ["placed"; 2]);
}

#[test]
fn members_that_wait_for_others_say_so_after_ten_seconds() {
    let mut world = single_pod_nodes([], 3);
    pod_group(&mut world, "b", 20_000);
    members(&mut world, "b", 2);
    world.pod(member("a", 0));
    world.run_for(9);
    assert_eq!(conditions(&world), Vec::<String>::new());
    assert_eq!(world.condition("b0"), None);
    world.run_for(60);
    for name in ["b0", "b1"] {
        assert_eq!(world.condition(name).as_deref(), Some("SchedulingGated: no quorum"));
    }
    assert_eq!(world.condition("a0").as_deref(), Some("SchedulingGated: no PodGroup"));
    let text = "waiting for pods: minCount is 20000, and 2 exist";
    assert_eq!(conditions(&world), [format!("b False Unschedulable: {text}")]);
    assert_eq!(group_events(&world), [format!("default/b FailedScheduling: {text}")]);
    let of_pods = world.events().into_iter().filter(|event| event.contains("Scheduling: no"));
    assert_eq!(of_pods.count(), 3, "one event for each member");
}

#[test]
fn new_pod_group_of_the_same_name_says_what_its_members_say() {
    let mut world = single_pod_nodes([], 3);
    pod_group(&mut world, "b", 2);
    members(&mut world, "b", 1);
    world.run_for(30);
    let text = "b False Unschedulable: waiting for pods: minCount is 2, and 1 exist";
    assert_eq!(conditions(&world), [text]);
    world.apply(Change::ObjectDeleted(ObjectKey::namespaced(
        EventResource::PodGroup,
        "default".into(),
        "b".into(),
    )));
    let object = json!({
        "metadata": {"namespace": "default", "name": "b", "uid": "uid-new"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    });
    world.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, object))));
    world.run_for(30);
    assert_eq!(conditions(&world), [text, text]);
    let of_pods = world.events().into_iter().filter(|event| event.contains("Scheduling: no"));
    assert_eq!(of_pods.count(), 1, "the pod has said so");
}

/// Each attempt of a group that breaks a rule fails, at most every ten seconds.
#[test]
fn group_that_breaks_a_rule_is_reported_once() {
    let mut world = single_pod_nodes([], 3);
    pod_group(&mut world, "b", 2);
    world.pod(member("b", 0));
    world.pod(member("b", 1).priority(7));
    world.run_for(110);
    let text = "all pods in a single pod group should have the same priority as the pod group's \
                priority, got 7 and 0";
    assert_eq!(conditions(&world), [format!("b False SchedulerError: {text}")]);
    assert_eq!(group_events(&world), [format!("default/b FailedScheduling: {text}")]);
    let of_members = world.events().into_iter().filter(|event| event.contains(text)).count();
    assert!((20..=32).contains(&of_members), "{of_members} events of two members and their group");
    for name in ["b0", "b1"] {
        assert_eq!(world.condition(name), Some(format!("SchedulerError: {text}")));
        assert_eq!(world.patches(name).len(), 1, "the condition is written once");
    }
}

/// The watch shows a gang of Coscheduling with this status.
fn show_coscheduling(world: &mut World, name: &str, min_member: u32, status: &Value) {
    let object = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"minMember": min_member}, "status": status,
    });
    let kind = EventResource::Custom(COSCHEDULING_POD_GROUPS.into());
    world.apply(Change::Object(Box::new(testkit::object(kind, object))));
}

fn labelled(group: &str, number: usize) -> PodBuilder {
    pod(&format!("{group}{number}")).label(POD_GROUP_LABEL, group)
}

/// The statuses of PodGroups of Coscheduling that were written.
fn statuses(world: &World) -> Vec<Value> {
    let writes = world.history.iter().filter_map(|effect| match &effect.kind {
        EffectKind::Write(write) if *write.api_version == *"scheduling.x-k8s.io/v1alpha1" => {
            Some(write)
        }
        _ => None,
    });
    writes.map(|write| write.body()["status"].clone()).collect()
}

/// The last status that was written, once there are `count`.
#[track_caller]
fn status(world: &World, count: usize) -> Value {
    let mut statuses = statuses(world);
    assert_eq!(statuses.len(), count, "{statuses:?}");
    statuses.pop().unwrap()
}

#[test]
fn status_of_coscheduling_follows_the_members() {
    let mut world = single_pod_nodes([], 3);
    show_coscheduling(&mut world, "c", 2, &Value::Null);
    world.run_for(60);
    assert!(statuses(&world).is_empty(), "it may be a group of another scheduler");
    let owned = |number| {
        labelled("c", number).with(|pod| {
            pod.metadata.owner_references = vec![OwnerReference {
                api_version: "batch/v1".to_owned(),
                kind: "Job".to_owned(),
                name: "job".to_owned(),
                controller: true,
                ..OwnerReference::default()
            }];
        })
    };
    world.pod(owned(0));
    world.run_for(2);
    let pending = status(&world, 1);
    assert_eq!(pending, json!({"phase": "Pending", "running": 0}));
    show_coscheduling(&mut world, "c", 2, &pending);
    world.pod(owned(1));
    world.run_for(10);
    let scheduled = status(&world, 2);
    let expected = json!({"phase": "Scheduling", "running": 0, "occupiedBy": "default/job"});
    assert_eq!(scheduled, expected);
    show_coscheduling(&mut world, "c", 2, &scheduled);
    for name in ["c0", "c1"] {
        world.update(name, |pod| pod.status.phase = "Running".to_owned());
    }
    world.run_for(10);
    let running = status(&world, 3);
    assert_eq!(running, json!({"phase": "Running", "running": 2, "occupiedBy": "default/job"}));
    show_coscheduling(&mut world, "c", 2, &running);
    world.delete("c0");
    world.run_for(10);
    let left = status(&world, 4);
    assert_eq!(left, json!({"phase": "Unknown", "running": 1, "occupiedBy": "default/job"}));
    show_coscheduling(&mut world, "c", 2, &left);
    world.delete("c1");
    world.run_for(10);
    let gone = status(&world, 5);
    assert_eq!(gone, json!({"phase": "Unknown", "running": 0, "occupiedBy": "default/job"}));
    show_coscheduling(&mut world, "c", 2, &gone);
    world.pod(owned(2));
    world.run_for(10);
    assert_eq!(status(&world, 6)["phase"], "Pending");
}

#[test]
fn gang_of_coscheduling_that_does_not_fit_is_pending() {
    let mut world = single_pod_nodes([], 1);
    show_coscheduling(&mut world, "c", 2, &Value::Null);
    (0..2).for_each(|number| world.pod(labelled("c", number)));
    world.run_for(10);
    let pending = status(&world, 1);
    assert_eq!(pending, json!({"phase": "Pending", "running": 0}));
    show_coscheduling(&mut world, "c", 2, &pending);
    world.run_for(600);
    assert_eq!(statuses(&world).len(), 1);
}

#[test]
fn status_of_coscheduling_that_is_refused_is_repeated_with_growing_pauses() {
    let mut world = single_pod_nodes([], 3);
    show_coscheduling(&mut world, "c", 2, &Value::Null);
    world.pod(labelled("c", 0));
    world.pass(1);
    world.try_attempt();
    let (mut pauses, mut last) = (Vec::new(), world.now);
    for count in 1..10 {
        let write = take_write(&mut world);
        let forbidden = "podgroups/status is forbidden".to_owned();
        world.answer(write, &Answer::Forbidden(forbidden));
        // A change of the group does not hasten the next write.
        world.update("c0", |pod| pod.status.start_time = None);
        while statuses(&world).len() == count {
            world.pass(1);
            world.try_attempt();
        }
        pauses.push(world.now.since(last).as_secs());
        last = world.now;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
    let write = take_write(&mut world);
    world.pod(labelled("c", 1));
    world.run_for(119);
    assert_eq!(places(&world, "c", 2), ["placed"; 2], "its members are bound all the same");
    assert_eq!(statuses(&world).len(), 10, "one write is under way");
    world.answer(write, &Answer::ok());
    world.run_for(2);
    assert_eq!(status(&world, 11)["phase"], "Scheduling");
    world.run_for(117);
    assert_eq!(statuses(&world).len(), 11);
    world.run_for(5);
    assert_eq!(statuses(&world).len(), 12, "the watch does not show it");
}

#[test]
fn status_of_coscheduling_that_another_has_written_is_not_contradicted() {
    let mut world = single_pod_nodes([], 2);
    show_coscheduling(&mut world, "c", 2, &Value::Null);
    (0..2).for_each(|number| world.pod(labelled("c", number)));
    world.run_for(5);
    let own = status(&world, 1);
    show_coscheduling(&mut world, "c", 2, &own);
    world.run_for(5);
    show_coscheduling(&mut world, "c", 2, &json!({"phase": "Pending"}));
    world.run_for(300);
    assert_eq!(statuses(&world).len(), 1);
    world.update("c0", |pod| pod.status.phase = "Running".to_owned());
    world.run_for(5);
    assert_eq!(status(&world, 2), json!({"phase": "Scheduling", "running": 1}));
    show_coscheduling(&mut world, "c", 2, &json!({"phase": "Failed", "failed": 1}));
    world.delete("c0");
    world.run_for(300);
    assert_eq!(statuses(&world).len(), 2, "the phase is final");
}

#[test]
fn status_of_coscheduling_is_left_to_the_scheduler_of_the_pods() {
    let mut world = single_pod_nodes([], 2);
    show_coscheduling(&mut world, "c", 2, &Value::Null);
    (0..2).for_each(|number| {
        world.pod(labelled("c", number).scheduler("other").on(&format!("n{number}")));
    });
    world.run_for(300);
    assert!(statuses(&world).is_empty());
}

#[test]
fn statuses_of_many_groups_are_written_at_a_bounded_rate() {
    let mut world = single_pod_nodes([], 1);
    for group in 0..250 {
        let name = format!("g{group}-");
        show_coscheduling(&mut world, &name, 2, &Value::Null);
        world.pod(labelled(&name, 0));
    }
    let mut counts = Vec::new();
    for _ in 0..5 {
        world.run_for(1);
        counts.push(statuses(&world).len());
    }
    assert_eq!(counts, [100, 200, 250, 250, 250]);
}
