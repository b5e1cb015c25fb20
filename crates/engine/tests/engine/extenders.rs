//! Scheduler extenders: filter, prioritize and bind.

use std::sync::Arc;
use std::time::Duration;

use engine::cycle::Extender;
use engine::ports::{Filtered, HostPriorities};
use engine::{EffectKind, Outcome};
use framework::{Answer, Binding, PermitVerdict};
use testkit::pod;

use crate::harness::*;

fn filters() -> Extender {
    Extender { name: Arc::from("filters"), filter: true, ..Extender::default() }
}

fn prioritizes(weight: i64) -> Extender {
    Extender { name: "prioritizes".into(), prioritize: true, weight, ..Extender::default() }
}

fn binds() -> Extender {
    Extender { name: "binds".into(), bind: true, ..Extender::default() }
}

fn ignorable(extender: Extender) -> Extender {
    Extender { ignorable: true, ..extender }
}

fn for_gpus(extender: Extender) -> Extender {
    Extender { managed_resources: ["example.com/gpu".to_owned()].into(), ..extender }
}

/// Nodes `a` to `d`, of which `d` is full.
fn extended(extenders: Vec<Extender>) -> World {
    let full = fake("Full")
        .no_events()
        .filter(|_, node| if **node.name() == *"d" { no("full") } else { yes() });
    let mut setup = Setup::new([full]);
    setup.extenders = extenders;
    setup.nodes(&["a", "b", "c", "d"])
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn filtered(
    nodes: &[&str],
    failed: &[(&str, &str)],
    unresolvable: &[(&str, &str)],
) -> Result<Filtered, String> {
    Ok(Filtered {
        nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
        failed: owned(failed),
        failed_and_unresolvable: owned(unresolvable),
    })
}

fn rated(scores: &[(&str, i64)]) -> Result<HostPriorities, String> {
    Ok(scores.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect())
}

#[test]
fn extender_filters_the_nodes_that_pass_the_plugins() {
    let mut world = extended(vec![filters()]);
    world.extenders.filter = Box::new(|_| filtered(&["b"], &[("a", "x"), ("c", "x")], &[]));
    assert_eq!(world.schedule(pod("p")), Outcome::Assumed("b".into()));
    assert_eq!(world.extenders.calls, ["filter 0 a,b,c"]);
}

#[test]
fn extenders_filter_in_order_while_nodes_remain() {
    let mut world = extended(vec![filters(), filters(), filters()]);
    world.extenders.filter = Box::new(|call| match call.extender {
        0 => filtered(&["a", "c"], &[("b", "first")], &[]),
        _ => filtered(&[], &[("a", "second")], &[("a", "worse"), ("c", "second")]),
    });
    let outcome = world.schedule(pod("p"));
    assert_eq!(world.extenders.calls, ["filter 0 a,b,c", "filter 1 a,c"]);
    let message = "0/4 nodes are available: 1 first, 1 full, 1 second, 1 worse.";
    assert_eq!(outcome, Outcome::Unschedulable(message.to_owned()));
    assert_eq!(world.rejectors("p"), ["Extender", "Full"]);
}

#[test]
fn any_event_requeues_a_pod_that_an_extender_rejected() {
    let mut world = extended(vec![filters()]);
    world.extenders.filter = Box::new(|_| filtered(&[], &[], &[]));
    world.schedule(pod("p"));
    assert_eq!(world.place("p"), "unschedulable");
    world.pod(pod("other").on("a").scheduler("foreign"));
    assert_ne!(world.place("p"), "unschedulable");
}

#[test]
fn post_filter_sees_unresolvable_over_failed_nodes() {
    let see = fake("See").post_filter(|_, verdicts, handle| {
        let node = |name| handle.cluster.node_named(name).unwrap();
        let codes = ["a", "b"].map(|name| verdicts.get(node(name)).code().name());
        framework::PostFilterResult {
            status: framework::Status::unschedulable(codes.join(" ")),
            ..framework::PostFilterResult::default()
        }
    });
    let mut setup = Setup::new([see]);
    setup.extenders = vec![filters()];
    let mut world = setup.nodes(&["a", "b"]);
    world.extenders.filter = Box::new(|_| filtered(&[], &[("b", "x"), ("a", "x")], &[("a", "y")]));
    let outcome = world.schedule(pod("p"));
    let message =
        "0/2 nodes are available: 1 x, 1 y. UnschedulableAndUnresolvable Unschedulable".to_owned();
    assert_eq!(outcome, Outcome::Unschedulable(message));
}

#[test]
fn extender_error_fails_the_attempt_unless_ignorable() {
    type Answers = fn() -> Result<Filtered, String>;
    let answers: [(Answers, &str); 2] = [
        (|| Err("failed filter with extender at URL u, code 500".to_owned()), "code 500"),
        (
            || filtered(&["a", "stranger"], &[("b", "x")], &[]),
            "extender \"filters\" claims a filtered node \"stranger\" which is not found in the \
             input node list",
        ),
    ];
    for (answer, text) in answers {
        let mut world = extended(vec![filters()]);
        world.extenders.filter = Box::new(move |_| answer());
        let outcome = world.schedule(pod("p"));
        let Outcome::Error(message) = outcome else { panic!("{outcome:?}") };
        assert!(message.contains(text), "{message}");
        assert_eq!((world.place("p"), world.rejectors("p").len()), ("error backoff", 0));

        let mut world = extended(vec![filters(), ignorable(filters())]);
        world.extenders.filter = Box::new(move |call| match call.extender {
            0 => filtered(&["b"], &[], &[]),
            _ => answer(),
        });
        assert_eq!(world.schedule(pod("p")), Outcome::Assumed("b".into()));
        assert_eq!(world.extenders.skipped.len(), 1, "{text}");
    }
}

#[test]
fn extender_is_called_only_for_pods_with_managed_resources() {
    let mut world = extended(vec![for_gpus(filters())]);
    world.extenders.filter = Box::new(|_| filtered(&["c"], &[], &[]));
    assert_eq!(world.schedule(pod("p").cpu("1")), Outcome::Assumed("a".into()));
    let wants = |name| pod(name).request("example.com/gpu", "0");
    assert_eq!(world.schedule(wants("q")), Outcome::Assumed("c".into()));
    let init = pod("r").with(|pod| {
        let container = wants("x").api().spec.containers.remove(0);
        pod.spec.init_containers.push(container);
    });
    assert_eq!(world.schedule(init), Outcome::Assumed("c".into()));
    assert_eq!(world.extenders.calls.len(), 2);
}

#[test]
fn scores_of_extenders_count_ten_times_their_weight() {
    // Weights, node: the plugin gives 50 to `a`.
    for (weights, node) in [([1, 0], "a"), ([2, 0], "b"), ([1, 1], "b")] {
        let liking = fake("Liking").score(|_, node| Ok(if **node.name() == *"a" { 50 } else { 0 }));
        let mut setup = Setup::new([liking]);
        setup.extenders = weights.map(prioritizes).to_vec();
        let mut world = setup.nodes(&["a", "b"]);
        let scores = [("b", 1), ("stranger", 10), ("b", 3)];
        world.extenders.prioritize = Box::new(move |_| rated(&scores));
        assert_eq!(world.schedule(pod("p")), Outcome::Assumed(node.into()), "{weights:?}");
        assert_eq!(world.extenders.calls, ["prioritize 0 a,b", "prioritize 1 a,b"]);
    }
}

#[test]
fn failed_prioritize_call_is_ignored() {
    let mut world = extended(vec![prioritizes(1), prioritizes(1)]);
    world.extenders.prioritize = Box::new(|call| match call.extender {
        0 => Err("timeout".to_owned()),
        _ => rated(&[("c", 1)]),
    });
    assert_eq!(world.schedule(pod("p")), Outcome::Assumed("c".into()));
}

#[test]
fn extenders_filter_the_nominated_node_alone_first() {
    let mut world = extended(vec![filters()]);
    world.extenders.filter = Box::new(|call| match call.nodes.as_slice() {
        ["b"] => filtered(&[], &[("b", "not alone")], &[]),
        _ => filtered(&["c"], &[], &[]),
    });
    assert_eq!(world.schedule(pod("p").nominated("b")), Outcome::Assumed("c".into()));
    assert_eq!(world.extenders.calls, ["filter 0 b", "filter 0 a,b,c"]);
    world.extenders.calls.clear();
    assert_eq!(world.schedule(pod("q").nominated("c")), Outcome::Assumed("c".into()));
    assert_eq!(world.extenders.calls, ["filter 0 c"]);
}

#[test]
fn extender_error_on_the_nominated_node_leads_to_a_full_search() {
    let mut world = extended(vec![filters()]);
    world.extenders.filter = Box::new(|call| match call.nodes.as_slice() {
        ["b"] => Err("timeout".to_owned()),
        _ => filtered(&["c"], &[], &[]),
    });
    assert_eq!(world.schedule(pod("p").nominated("b")), Outcome::Assumed("c".into()));
}

/// A world of nodes `a` and `b` in which pods wait in Permit, and extenders take five seconds.
fn slowly_extended(extenders: Vec<Extender>) -> World {
    let timeout = Duration::from_secs(30);
    let gate =
        fake("Gate").permit(move |_, _| PermitVerdict::Wait { timeout, reason: String::new() });
    let mut setup = Setup::new([gate]);
    setup.extenders = extenders;
    let mut world = setup.nodes(&["a", "b"]);
    world.extenders.latency = Duration::from_secs(5);
    world
}

/// Returns the time from the start of the attempt to the start of the wait.
fn waits_after(world: &World) -> Duration {
    let waiting = world.engine.waiting_pods().values().next().unwrap();
    waiting.since.since(world.now)
}

#[test]
fn time_of_extender_calls_passes_for_the_attempt() {
    let mut world = slowly_extended(vec![filters(), filters()]);
    world.extenders.filter = Box::new(|_| filtered(&["a"], &[], &[]));
    world.schedule(pod("p"));
    assert_eq!(waits_after(&world), Duration::from_secs(10));
}

#[test]
fn prioritize_calls_run_in_parallel() {
    let mut world = slowly_extended(vec![prioritizes(1), for_gpus(prioritizes(1)), prioritizes(1)]);
    world.extenders.prioritize = Box::new(|_| rated(&[]));
    world.schedule(pod("p"));
    assert_eq!(world.extenders.calls, ["prioritize 0 a,b", "prioritize 2 a,b"]);
    assert_eq!(waits_after(&world), Duration::from_secs(5));
}

/// Takes the open ExtenderBind: the extender and the binding.
#[track_caller]
fn take_extender_bind(world: &mut World) -> (engine::EffectId, usize, Binding) {
    let effect = world.take_open(|kind| matches!(kind, EffectKind::ExtenderBind { .. }));
    let EffectKind::ExtenderBind { extender, binding, .. } = effect.kind else { unreachable!() };
    (effect.id, extender, binding)
}

#[test]
fn first_interested_extender_binds() {
    let mut world = extended(vec![filters(), for_gpus(binds()), binds()]);
    world.extenders.filter = Box::new(|_| filtered(&["a"], &[], &[]));
    world.pod(pod("p"));
    world.attempt();
    let (bind, extender, binding) = take_extender_bind(&mut world);
    assert_eq!((extender, &*binding.node), (2, "a"));
    world.answer(bind, &Answer::ok());
    let text = "Normal Scheduled Binding: Successfully assigned default/p to a";
    assert_eq!(world.events(), [text]);
}

#[test]
fn failed_bind_of_an_extender_fails_the_pod() {
    let mut world = extended(vec![binds()]);
    world.schedule(pod("p"));
    let (bind, ..) = take_extender_bind(&mut world);
    world.answer(bind, &Answer::Error("failed bind with extender".to_owned()));
    let condition = "SchedulerError: failed bind with extender";
    assert_eq!(world.condition("p").as_deref(), Some(condition));
    assert_eq!((world.place("p"), world.node_of("p")), ("error backoff", None));
}

#[test]
fn failed_bind_of_an_ignorable_extender_passes_to_the_next_binder() {
    let mut world =
        extended(vec![ignorable(binds()), ignorable(for_gpus(binds())), ignorable(binds())]);
    world.schedule(pod("p"));
    for expected in [0, 2] {
        let (bind, extender, _) = take_extender_bind(&mut world);
        assert_eq!(extender, expected);
        world.answer(bind, &Answer::Error("not now".to_owned()));
    }
    let (bind, binding) = world.take_bind("p");
    world.bind_on_server(&binding);
    world.answer(bind, &Answer::ok());
    world.see("p");
    assert_eq!((world.place("p"), world.condition("p")), ("placed", None));
}

#[test]
fn lost_bind_answer_of_an_extender_leads_to_a_read() {
    let mut world = extended(vec![ignorable(binds())]);
    world.schedule(pod("p"));
    let (bind, _, binding) = take_extender_bind(&mut world);
    world.bind_on_server(&binding);
    world.answer(bind, &Answer::Unknown("timeout".to_owned()));
    let read = world.take_read();
    let answer = world.read_on_server(&key("p"));
    world.answer(read, &answer);
    assert_eq!(world.events().len(), 1, "it is bound");
}

/// Loses the answer to a bind, and lets the pod be read.
#[track_caller]
fn lose_extender_bind(world: &mut World, extender: usize) {
    let (bind, asked, _) = take_extender_bind(world);
    assert_eq!(asked, extender);
    world.answer(bind, &Answer::Unknown("timeout".to_owned()));
    let read = world.take_read();
    let answer = world.read_on_server(&key("p"));
    world.answer(read, &answer);
}

#[test]
fn hanging_ignorable_extender_passes_to_the_next_binder() {
    let mut world = extended(vec![ignorable(binds())]);
    world.schedule(pod("p"));
    lose_extender_bind(&mut world, 0);
    let (bind, binding) = world.take_bind("p");
    world.bind_on_server(&binding);
    world.answer(bind, &Answer::ok());
    world.see("p");
    assert_eq!((world.place("p"), world.condition("p")), ("placed", None));
}

#[test]
fn hanging_extender_is_asked_to_bind_to_the_same_node_again() {
    let mut world = extended(vec![binds()]);
    world.schedule(pod("p"));
    let node = world.node_of("p");
    lose_extender_bind(&mut world, 0);
    lose_extender_bind(&mut world, 0);
    let (bind, _, binding) = take_extender_bind(&mut world);
    assert_eq!(Some(binding.node.to_string()), node, "its room is kept");
    world.bind_on_server(&binding);
    world.answer(bind, &Answer::ok());
    assert_eq!(world.events().len(), 1, "it is bound");
}

#[test]
fn refusal_after_an_earlier_bind_that_arrived_counts_as_bound() {
    let mut world = extended(vec![binds()]);
    world.schedule(pod("p"));
    lose_extender_bind(&mut world, 0);
    let (bind, _, binding) = take_extender_bind(&mut world);
    world.bind_on_server(&binding);
    world.answer(bind, &Answer::Error("already bound".to_owned()));
    let read = world.take_read();
    let answer = world.read_on_server(&key("p"));
    world.answer(read, &answer);
    assert_eq!(world.events().len(), 1, "it is bound");
}
