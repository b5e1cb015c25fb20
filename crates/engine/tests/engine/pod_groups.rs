//! Pods that are decided together.

use engine::{Change, EffectKind, Outcome};
use framework::{
    ActionType, Answer, ClusterEvent, ELASTIC_ANNOTATION, EventForPod, EventResource, Handle,
    HintResult, ObjectKey, PlacementFeasible, Plugin, Pod, PodGroup, PodGroupKey, PodGroupProgress,
    PreBindStep, PreEnqueue, QueueingHint, Status, Write, WriteAction,
};
use serde_json::{Value, json};
use testkit::{PodBuilder, node, pod};

use crate::harness::*;

/// GangScheduling in a few lines.
struct Gang;

impl PreEnqueue for Gang {
    fn pre_enqueue(&self, pod: &Pod, handle: &Handle<'_>) -> Status {
        let Some(key) = pod.pod_group() else { return yes() };
        let Some(group) = handle.cluster.pod_group(&key) else { return never("no PodGroup") };
        let members = handle.cluster.pod_group_state(&key).map_or(0, |state| state.all_count());
        if members < group.min_count() { never("no quorum") } else { yes() }
    }
}

impl PlacementFeasible for Gang {
    fn placement_feasible(
        &self,
        group: &PodGroupKey,
        progress: PodGroupProgress,
        handle: &Handle<'_>,
    ) -> Status {
        let min = handle.cluster.pod_group(group).map_or(1, |group| group.min_count());
        let PodGroupProgress { scheduled, remaining } = progress;
        match (scheduled >= min, scheduled + remaining >= min) {
            (true, _) => yes(),
            (_, true) => Status::new(framework::Code::Wait, "not yet"),
            _ => no_text(format!("{scheduled} of {min} fit")),
        }
    }
}

fn no_text(text: String) -> Status {
    Status::unschedulable(text)
}

impl Gang {
    fn after_pod_group(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.typed::<PodGroup>()?;
        let count = |group: Option<&PodGroup>| group.map_or(u32::MAX, PodGroup::min_count);
        Ok(QueueingHint::queue_if(event.pod.pod_group().is_some() && count(new) < count(old)))
    }
}

pub(crate) fn gang_plugin() -> Plugin {
    let changes = ActionType::ADD | ActionType::UPDATE;
    Plugin::new("Gang", Gang)
        .pre_enqueue()
        .placement_feasible()
        .schedules_groups()
        .on_with_hint(ClusterEvent::new(EventResource::PodGroup, changes), Gang::after_pod_group)
        .build()
}

/// A world with nodes that take one pod each.
pub(crate) fn single_pod_nodes(plugins: impl IntoIterator<Item = Fake>, count: usize) -> World {
    let plugins = std::iter::once(fit()).chain(plugins);
    let mut world = Setup::new(plugins).plugin(gang_plugin()).pod_groups().build();
    (0..count).for_each(|number| world.node(node(&format!("n{number}")).allocatable("pods", "1")));
    world
}

pub(crate) fn pod_group(world: &mut World, name: &str, min_count: u32) {
    let object = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    });
    world.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, object))));
}

/// An elastic PodGroup.
fn elastic_group(world: &mut World, name: &str, min_count: u32) {
    let annotations = json!({ELASTIC_ANNOTATION: "true"});
    let uid = format!("uid-{name}");
    let object = json!({
        "metadata": {"namespace": "default", "name": name, "uid": uid, "annotations": annotations},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    });
    world.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, object))));
}

#[test]
fn pods_beyond_the_minimum_of_an_elastic_group_come_after_the_minima_of_others() {
    for is_elastic in [true, false] {
        let mut world = single_pod_nodes([], 5);
        match is_elastic {
            true => elastic_group(&mut world, "a", 2),
            false => pod_group(&mut world, "a", 2),
        }
        pod_group(&mut world, "b", 2);
        members(&mut world, "a", 4);
        members(&mut world, "b", 2);
        world.run();
        let placed = |group, count| {
            places(&world, group, count).into_iter().filter(|place| *place == "placed").count()
        };
        let expected = if is_elastic { [3, 2] } else { [4, 0] };
        assert_eq!([placed("a", 4), placed("b", 2)], expected);
    }
}

#[test]
fn elastic_group_starts_with_other_pods_if_its_first_ones_do_not_fit() {
    let mut world = single_pod_nodes([], 3);
    elastic_group(&mut world, "g", 2);
    world.pod(member("g", 0).cpu("1000"));
    (1..4).for_each(|number| world.pod(member("g", number)));
    world.run();
    let expected = ["unschedulable", "placed", "placed", "placed"];
    assert_eq!(places(&world, "g", 4), expected);
}

pub(crate) fn members(world: &mut World, group: &str, count: usize) {
    (0..count).for_each(|number| world.pod(member(group, number)));
}

pub(crate) fn member(group: &str, number: usize) -> PodBuilder {
    pod(&format!("{group}{number}")).scheduling_group(group)
}

pub(crate) fn places(world: &World, group: &str, count: usize) -> Vec<&'static str> {
    (0..count).map(|number| world.place(&format!("{group}{number}"))).collect()
}

pub(crate) fn binds(world: &World) -> usize {
    world.history.iter().filter(|own| matches!(own.kind, EffectKind::Bind { .. })).count()
}

/// The conditions of PodGroups that were written, as `name status reason: message`.
pub(crate) fn conditions(world: &World) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let writes = world.history.iter().filter_map(|effect| match &effect.kind {
        EffectKind::Write(write) if *write.resource == *"podgroups" => Some(write),
        _ => None,
    });
    let line = |write: &Write| {
        let condition = &write.body()["status"]["conditions"][0];
        let [status, reason, message] =
            ["status", "reason", "message"].map(|name| text(&condition[name]));
        format!("{} {status} {reason}: {message}", write.name)
    };
    writes.map(line).collect()
}

#[test]
fn second_gang_waits_whole_until_there_is_room_for_all_of_it() {
    let mut world = single_pod_nodes([], 3);
    for group in ["a", "b"] {
        pod_group(&mut world, group, 2);
        members(&mut world, group, 2);
    }
    world.run();
    assert_eq!(places(&world, "a", 2), ["placed"; 2]);
    assert_eq!(places(&world, "b", 2), ["unschedulable"; 2]);
    let missing = "pod b1 does not fit: 0/3 nodes are available: 3 Too many pods";
    let rejected =
        format!("b False Unschedulable: pod group is unschedulable, 1 of 2 fit, {missing}");
    assert_eq!(conditions(&world), ["a True Scheduled: ".to_owned(), rejected]);
    let of_group = "Unschedulable: pod group is unschedulable, 1 of 2 fit";
    assert_eq!(world.condition("b0").as_deref(), Some(of_group));
    let of_nodes = "Unschedulable: 0/3 nodes are available: 3 Too many pods.";
    assert_eq!(world.condition("b1").as_deref(), Some(of_nodes));

    world.run_for(60);
    assert_eq!(places(&world, "b", 2), ["unschedulable"; 2], "no event, no attempt");
    assert!(matches!(world.schedule(pod("alone")), Outcome::Assumed(_)), "no room is held");
    world.run();

    world.node(node("m0").allocatable("pods", "1"));
    world.run();
    assert_eq!(places(&world, "b", 2), ["unschedulable"; 2], "one is too few");
    world.node(node("m1").allocatable("pods", "1"));
    world.run_for(3);
    assert_eq!(places(&world, "b", 2), ["placed"; 2]);
}

#[test]
fn group_is_gated_until_its_pod_group_and_enough_members_exist() {
    let mut world = single_pod_nodes([], 3);
    members(&mut world, "a", 2);
    world.run();
    assert_eq!(places(&world, "a", 2), ["gated"; 2]);
    pod_group(&mut world, "a", 3);
    world.run();
    assert_eq!(places(&world, "a", 2), ["gated"; 2]);
    assert_eq!(world.engine.queue().counts().gated, 2, "pods are counted");
    world.pod(member("a", 2));
    world.run();
    assert_eq!(places(&world, "a", 3), ["placed"; 3]);
}

#[test]
fn groups_are_placed_as_far_as_they_fit_without_the_gate_of_gangs() {
    let mut world = Setup::new([fit()]).basic_pod_groups().build();
    (0..2).for_each(|number| world.node(node(&format!("n{number}")).allocatable("pods", "1")));
    pod_group(&mut world, "a", 9);
    members(&mut world, "a", 3);
    world.run();
    assert_eq!(places(&world, "a", 3), ["placed", "placed", "unschedulable"]);
    assert_eq!(conditions(&world), ["a True Scheduled: "]);
}

#[test]
fn lower_min_count_opens_the_gate() {
    let mut world = single_pod_nodes([], 3);
    pod_group(&mut world, "a", 3);
    members(&mut world, "a", 2);
    world.run();
    assert_eq!(places(&world, "a", 2), ["gated"; 2]);
    pod_group(&mut world, "a", 2);
    world.run();
    assert_eq!(places(&world, "a", 2), ["placed"; 2]);
}

#[test]
fn pods_wait_when_their_pod_group_is_deleted() {
    let mut world = single_pod_nodes([], 1);
    pod_group(&mut world, "a", 2);
    members(&mut world, "a", 2);
    world.run();
    assert_eq!(places(&world, "a", 2), ["unschedulable"; 2]);
    let key = ObjectKey::namespaced(EventResource::PodGroup, "default".into(), "a".into());
    world.apply(Change::ObjectDeleted(key));
    world.node(node("m").allocatable("pods", "1"));
    world.run_for(20);
    assert_eq!(places(&world, "a", 2), ["gated"; 2]);
    pod_group(&mut world, "a", 2);
    world.run_for(20);
    assert_eq!(places(&world, "a", 2), ["placed"; 2]);
}

#[test]
fn members_beyond_the_count_are_placed_as_far_as_they_fit() {
    let mut world = single_pod_nodes([], 3);
    pod_group(&mut world, "a", 2);
    members(&mut world, "a", 5);
    world.run();
    let expected = ["placed", "placed", "placed", "unschedulable", "unschedulable"];
    assert_eq!(places(&world, "a", 5), expected);
    assert_eq!(conditions(&world).first().map(String::as_str), Some("a True Scheduled: "));
    world.node(node("m").allocatable("pods", "1"));
    world.run_for(3);
    assert_eq!(world.place("a3"), "placed", "a single member of a gang that runs");
}

#[test]
fn member_that_comes_late_joins_a_gang_that_runs() {
    let mut world = single_pod_nodes([], 3);
    pod_group(&mut world, "a", 2);
    members(&mut world, "a", 2);
    world.run();
    world.pod(member("a", 2));
    world.run();
    assert_eq!(places(&world, "a", 3), ["placed"; 3]);
}

#[test]
fn members_see_those_that_were_placed_before_them() {
    let apart = fake("Apart").no_events().filter(|pod, node| {
        let same = |other: &Pod| other.pod_group() == pod.pod_group();
        if node.pods().any(|other| same(other)) { no("a member is there") } else { yes() }
    });
    let mut world =
        Setup::new([fit(), apart]).plugin(gang_plugin()).pod_groups().nodes(&["a", "b"]);
    pod_group(&mut world, "g", 2);
    members(&mut world, "g", 3);
    world.run();
    assert_eq!(places(&world, "g", 3), ["placed", "placed", "unschedulable"]);
    assert_ne!(world.node_of("g0"), world.node_of("g1"));
}

/// PreBind writes an object for the pods labelled `writes`.
fn writer() -> Fake {
    fake("Writer").no_events().pre_flight(writes).pre_bind(|_, input| match input {
        framework::PreBindInput::Answer(answer) if answer.failure().is_none() => {
            PreBindStep::Done(yes())
        }
        framework::PreBindInput::Answer(_) => PreBindStep::Done(Status::error("refused")),
        _ => PreBindStep::Write(Write {
            api_version: "v1".into(),
            resource: "things".into(),
            namespace: "default".into(),
            name: "x".into(),
            subresource: None,
            flow: "".into(),
            action: WriteAction::MergePatch(Value::Null),
        }),
    })
}

fn writes(pod: &Pod) -> framework::PreBindPreFlight {
    match pod.labels.get("writes") {
        Some(_) => framework::PreBindPreFlight::Run { allow_parallel: false },
        None => framework::PreBindPreFlight::Skip { allow_parallel: false },
    }
}

/// A gang of three on four nodes, of which one member waits for the answer to a write in PreBind.
fn gang_in_pre_bind() -> (World, engine::EffectId) {
    let mut world = single_pod_nodes([writer()], 4);
    pod_group(&mut world, "a", 3);
    members(&mut world, "a", 2);
    world.pod(member("a", 2).label("writes", "yes"));
    world.attempt();
    let is_thing = |kind: &EffectKind| matches!(kind, EffectKind::Write(write) if *write.resource == *"things");
    let write = world.take_open(is_thing).id;
    (world, write)
}

#[test]
fn members_are_bound_only_after_all_have_passed_pre_bind() {
    let (mut world, write) = gang_in_pre_bind();
    world.run();
    assert_eq!((binds(&world), places(&world, "a", 3)), (0, vec!["assumed"; 3]));
    assert_eq!(world.engine.binding_phases().permit, 2);
    assert_eq!(conditions(&world), Vec::<String>::new());
    world.answer(write, &Answer::ok());
    world.run();
    assert_eq!((binds(&world), places(&world, "a", 3)), (3, vec!["placed"; 3]));
    assert_eq!(conditions(&world), ["a True Scheduled: "]);
}

#[test]
fn all_members_go_back_when_one_fails_in_pre_bind() {
    let (mut world, write) = gang_in_pre_bind();
    world.answer(write, &Answer::Error("refused".to_owned()));
    assert_eq!(binds(&world), 0);
    let own = "SchedulerError: running PreBind plugin \"Writer\": refused";
    assert_eq!(world.condition("a2").as_deref(), Some(own));
    let other = "Unschedulable: pod group is unschedulable, another member failed before enough \
                 members could be bound";
    assert_eq!(world.condition("a0").as_deref(), Some(other));
    let of_group = "a False Unschedulable: pod group is unschedulable, pod default/a2 failed: \
                    running PreBind plugin \"Writer\": refused";
    assert_eq!(conditions(&world), [of_group]);
    world.run_for(3);
    assert_eq!(places(&world, "a", 3), ["placed"; 3], "the second attempt succeeds");
}

#[test]
fn deleted_member_ends_the_wait_of_the_others() {
    let (mut world, _) = gang_in_pre_bind();
    world.delete("a0");
    world.run_for(20);
    assert_eq!(binds(&world), 0);
    assert_eq!((world.place("a1"), world.place("a2")), ("gated", "gated"));
    assert!(matches!(world.schedule(pod("alone")), Outcome::Assumed(_)));
}

#[test]
fn lower_min_count_ends_the_wait_for_a_member() {
    let (mut world, _) = gang_in_pre_bind();
    pod_group(&mut world, "a", 2);
    world.run();
    assert_eq!(places(&world, "a", 3), ["placed", "placed", "assumed"]);
}

#[test]
fn refused_bind_is_tried_again_at_once() {
    let mut world = single_pod_nodes([], 3);
    pod_group(&mut world, "a", 3);
    members(&mut world, "a", 3);
    world.attempt();
    let (bind, _) = world.take_bind("a1");
    world.answer(bind, &Answer::Error("webhook".to_owned()));
    world.run();
    assert_eq!(places(&world, "a", 3), ["placed"; 3]);
}

#[test]
fn members_that_differ_are_refused_with_a_condition() {
    let mut world = single_pod_nodes([], 3);
    pod_group(&mut world, "a", 2);
    world.pod(member("a", 0));
    world.pod(member("a", 1).priority(7));
    world.attempt();
    let text = "all pods in a single pod group should have the same priority as the pod group's \
                priority, got 7 and 0";
    assert_eq!(conditions(&world), [format!("a False SchedulerError: {text}")]);
    assert_eq!(world.condition("a0"), Some(format!("SchedulerError: {text}")));
    assert_eq!(places(&world, "a", 2), ["error backoff"; 2]);
}

#[test]
fn deleted_members_leave_the_queue() {
    let mut world = single_pod_nodes([], 1);
    pod_group(&mut world, "a", 2);
    members(&mut world, "a", 2);
    world.run();
    world.delete("a0");
    world.node(node("m").allocatable("pods", "1"));
    world.run_for(20);
    assert_eq!(world.place("a1"), "gated", "one member is no quorum");
    world.delete("a1");
    assert_eq!(world.engine.queue().counts(), engine::queue::PendingPodCounts::default());
}

#[test]
fn member_that_is_scheduled_alone_has_one_event() {
    let mut world = Setup::new([fit()]).members_alone().build();
    world.pod(member("a", 0));
    world.pod(pod("single"));
    world.run();
    world.node(node("n"));
    world.run_for(3);
    assert_eq!(places(&world, "a", 1), ["placed"]);
    let events = world.history.iter().filter_map(|effect| match &effect.kind {
        EffectKind::Event(event) if event.reason == "PodGroupIgnored" => Some(event),
        _ => None,
    });
    let events: Vec<_> = events.collect();
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!(event.regarding.to_string(), "default/a0");
}
