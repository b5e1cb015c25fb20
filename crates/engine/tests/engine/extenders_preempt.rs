//! Scheduler extenders with the preempt verb.

use std::time::Duration;

use engine::Outcome;
use engine::cycle::Extender;
use engine::ports::{Filtered, MetaVictims, PreemptionCall};
use framework::{Answer, Uid};
use testkit::{PodBuilder, node, pod};

use crate::harness::*;

type Script = fn(&PreemptionCall<'_>) -> Accepted;

fn preempts() -> Extender {
    Extender { name: "http://x".into(), preempt: true, ..Extender::default() }
}

fn ignorable() -> Extender {
    Extender { ignorable: true, ..preempts() }
}

/// Nodes of 4 CPUs: `a` and `b` with a pod of priority 1 and one of priority 2, which a budget
/// protects; `c` with one of priority 50, and `d` with one of the preemptor's.
fn full(extenders: Vec<Extender>) -> World {
    let mut setup = Setup::new([fit()]).plugin(preempting());
    setup.extenders = extenders;
    let mut world = setup.build();
    for name in ["a", "b"] {
        world.node(node(name).allocatable("cpu", "4"));
        world.pod(pod(&format!("{name}1")).cpu("2").priority(1).on(name));
        world.pod(pod(&format!("{name}2")).cpu("2").priority(2).label("app", "web").on(name));
    }
    for (name, victim, priority) in [("c", "c1", 50), ("d", "d1", 100)] {
        world.node(node(name).allocatable("cpu", "4"));
        world.pod(pod(victim).cpu("4").priority(priority).on(name));
    }
    world.budget(0);
    world
}

/// A pod that needs the room of one of the pods on `a` or `b`.
fn preemptor() -> PodBuilder {
    pod("p").cpu("2").priority(100)
}

/// Candidates of an answer: node, victims, how many of them are protected.
fn accept(candidates: &[(&str, &[&str], i64)]) -> Accepted {
    let candidate = |(node, names, num_pdb_violations): &(&str, &[&str], i64)| {
        let pods = names.iter().map(|name| Uid::from(format!("uid-{name}").as_str())).collect();
        ((*node).to_owned(), MetaVictims { pods, num_pdb_violations: *num_pdb_violations })
    };
    Ok(candidates.iter().map(candidate).collect())
}

/// Accepts all candidates of the call.
fn agree(call: &PreemptionCall<'_>) -> Accepted {
    let candidate = |(node, victims): (&&str, &engine::ports::Victims<'_>)| {
        let pods = victims.pods.iter().map(|pod| pod.uid.clone()).collect();
        let num_pdb_violations = victims.num_pdb_violations;
        ((*node).to_owned(), MetaVictims { pods, num_pdb_violations })
    };
    Ok(call.victims.iter().map(candidate).collect())
}

/// Returns the node that the preemptor is nominated to, and the evicted pods in order.
fn preempted(world: &mut World) -> (Option<String>, Vec<String>) {
    let mut victims = Vec::new();
    while let Some(name) = world.open_evictions().first().map(|name| (*name).to_owned()) {
        let (effect, _) = world.take_eviction(&name);
        world.answer(effect, &Answer::ok());
        victims.push(name);
    }
    let nominator = world.engine.nominator();
    (nominator.node_of(&"uid-p".into()).map(ToString::to_string), victims)
}

#[track_caller]
fn check_preempted(world: &mut World, node: &str, victims: &[&str], case: &str) {
    let victims = victims.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(preempted(world), (Some(node.to_owned()), victims), "{case}");
}

/// Checks that no pod was evicted, and the message.
#[track_caller]
fn check_failed(world: &mut World, outcome: &Outcome, text: &str) {
    let Outcome::Unschedulable(message) = outcome else { panic!("{outcome:?}") };
    assert!(message.ends_with(&format!("4 Insufficient cpu. {text}")), "{message}");
    assert_eq!(preempted(world), (Some("a".to_owned()), vec![]), "the nomination stays");
}

#[test]
fn answer_of_an_extender_replaces_the_candidates() {
    let rows: [(&str, Script, &str, &[&str]); 10] = [
        ("all, the first by name wins", agree, "a", &["a1"]),
        ("fewer nodes", |_| accept(&[("b", &["b1"], 0), ("c", &["c1"], 0)]), "b", &["b1"]),
        ("other victims", |_| accept(&[("b", &["b2"], 1)]), "b", &["b2"]),
        ("more victims", |_| accept(&[("b", &["b2", "b1"], 1)]), "b", &["b2", "b1"]),
        ("other counts", |_| accept(&[("a", &["a1"], 2), ("b", &["b1"], 1)]), "b", &["b1"]),
        (
            "a count below 0 is none",
            |_| accept(&[("a", &["a1"], 1), ("b", &["b1"], -1)]),
            "b",
            &["b1"],
        ),
        ("and no better", |_| accept(&[("a", &["a1"], 0), ("b", &["b1"], -1)]), "a", &["a1"]),
        ("counts without end", |_| accept(&[("a", &["a1"], i64::MAX)]), "a", &["a1"]),
        ("a pod named twice", |_| accept(&[("b", &["b2", "b2"], 1)]), "b", &["b2"]),
        ("a node that was no candidate", |_| accept(&[("d", &["d1"], 0)]), "d", &["d1"]),
    ];
    for (case, script, node, victims) in rows {
        let mut world = full(vec![preempts()]);
        world.extenders.preempt = Box::new(script);
        world.schedule(preemptor());
        assert_eq!(world.extenders.calls, ["preempt 0 a=a1/0 b=b1/0 c=c1/0"], "{case}");
        check_preempted(&mut world, node, victims, case);
    }
}

#[test]
fn extender_receives_the_number_of_budget_violations() {
    let mut world = full(vec![preempts()]);
    world.extenders.preempt = Box::new(agree);
    world.schedule(pod("p").cpu("4").priority(40));
    assert_eq!(world.extenders.calls, ["preempt 0 a=a2+a1/1 b=b2+b1/1"]);
    check_preempted(&mut world, "a", &["a2", "a1"], "all of them");
}

#[test]
fn each_extender_receives_the_candidates_of_the_last() {
    let mut world = full(vec![preempts(), preempts(), ignorable()]);
    world.extenders.preempt = Box::new(|call| match call.extender {
        0 => accept(&[("a", &["a2"], 1), ("b", &["b1"], 0)]),
        1 => accept(&[("a", &["a2"], 0)]),
        _ => agree(call),
    });
    world.schedule(preemptor());
    let calls = ["preempt 0 a=a1/0 b=b1/0 c=c1/0", "preempt 1 a=a2/1 b=b1/0", "preempt 2 a=a2/0"];
    assert_eq!(world.extenders.calls, calls);
    check_preempted(&mut world, "a", &["a2"], "what the last one left");
}

#[test]
fn extender_without_verb_or_interest_is_not_called() {
    let filters = Extender { preempt: false, ..preempts() };
    let managed_resources = ["example.com/gpu".to_owned()].into();
    let for_gpus = Extender { managed_resources, ..preempts() };
    let mut world = full(vec![filters, for_gpus, ignorable()]);
    world.extenders.preempt = Box::new(agree);
    world.schedule(preemptor());
    assert_eq!(world.extenders.calls, ["preempt 2 a=a1/0 b=b1/0 c=c1/0"]);
}

#[test]
fn extender_is_not_called_without_candidates() {
    let mut world = full(vec![preempts()]);
    world.schedule(preemptor().priority(0));
    let never = pod("q").cpu("2").priority(100);
    world.schedule(never.with(|pod| pod.spec.preemption_policy = Some("Never".to_owned())));
    assert!(world.extenders.calls.is_empty());
}

#[test]
fn answer_without_candidates_ends_the_preemption() {
    let answers: [(Vec<Extender>, Script); 2] = [
        (vec![preempts(), preempts()], |_| accept(&[])),
        (vec![ignorable(), ignorable()], |_| accept(&[("a", &[], 0)])),
    ];
    for (extenders, answer) in answers {
        let mut world = full(extenders);
        world.extenders.preempt = Box::new(answer);
        let outcome = world.schedule(preemptor().nominated("a"));
        assert_eq!(world.extenders.calls.len(), 1, "the others are not asked");
        check_failed(&mut world, &outcome, "no candidate node for preemption");
    }
}

/// Invalid answers of extenders, with their error messages.
const WRONG: [(Script, &str); 4] = [
    (
        |_| Err("failed preempt with extender at URL http://x, code 500".to_owned()),
        "failed preempt with extender at URL http://x, code 500",
    ),
    (
        |_| accept(&[("a", &["a1"], 0), ("stranger", &["a1"], 0)]),
        "nodeinfo not found for node name \"stranger\"",
    ),
    (
        |_| accept(&[("b", &["b1", "stranger"], 0)]),
        "extender: http://x claims to preempt pod (UID: &{uid-stranger}) on node: b, but the pod \
         is not found on that node",
    ),
    (
        |_| accept(&[("b", &["a1"], 0)]),
        "extender: http://x claims to preempt pod (UID: &{uid-a1}) on node: b, but the pod is not \
         found on that node",
    ),
];

#[test]
fn extender_error_ends_the_preemption() {
    for (wrong, text) in WRONG {
        let mut world = full(vec![preempts(), preempts()]);
        world.extenders.preempt = Box::new(wrong);
        let outcome = world.schedule(preemptor().nominated("a"));
        assert_eq!(world.extenders.calls.len(), 1, "the others are not asked");
        check_failed(&mut world, &outcome, text);
    }
}

#[test]
fn error_of_an_ignorable_extender_is_ignored() {
    for (wrong, text) in WRONG {
        let mut world = full(vec![ignorable(), ignorable()]);
        world.extenders.preempt = Box::new(move |call| match call.extender {
            0 => wrong(call),
            _ => agree(call),
        });
        world.schedule(preemptor());
        assert_eq!(world.extenders.calls.len(), 2, "{text}");
        assert_eq!(world.extenders.skipped, [format!("0: {text}")]);
        check_preempted(&mut world, "a", &["a1"], text);
    }
}

#[test]
fn a_node_without_victims_is_an_error_or_left_out_if_the_extender_is_ignorable() {
    let script: Script = |_| accept(&[("a", &[], 0), ("b", &["b1"], 0)]);
    let mut world = full(vec![preempts()]);
    world.extenders.preempt = Box::new(script);
    let outcome = world.schedule(preemptor().nominated("a"));
    check_failed(&mut world, &outcome, "expected at least one victim pod on node \"a\"");

    let mut world = full(vec![ignorable()]);
    world.extenders.preempt = Box::new(script);
    world.schedule(preemptor());
    check_preempted(&mut world, "b", &["b1"], "the other node");
}

/// The nodes of [`full`] with extenders of which the first rejects every node, for a resource that
/// the scheduler does not count.
fn rejected_by_extender(mut extenders: Vec<Extender>) -> World {
    extenders.insert(0, Extender { filter: true, ..extenders[0].clone() });
    let mut world = full(extenders);
    world.extenders.filter = Box::new(|call| {
        let failed = call.nodes.iter().map(|node| ((*node).to_string(), "no license".to_owned()));
        Ok(Filtered { failed: failed.collect(), ..Filtered::default() })
    });
    world
}

#[test]
fn extenders_choose_victims_on_nodes_where_the_pod_fits_without_evictions() {
    let mut world = rejected_by_extender(vec![preempts()]);
    world.extenders.preempt = Box::new(|call| match call.extender {
        0 => accept(&[("a", &[], 0), ("b", &[], 0)]),
        _ => accept(&[("a", &[], 0), ("b", &["b1"], 0)]),
    });
    world.schedule(preemptor().cpu("0"));
    let calls = ["filter 0 a,b,c,d", "preempt 0 a=/0 b=/0 c=/0", "preempt 1 a=/0 b=/0"];
    assert_eq!(world.extenders.calls, calls);
    check_preempted(&mut world, "b", &["b1"], "no extender names a victim on a");
}

#[test]
fn preemption_ends_if_no_extender_names_a_victim() {
    for extender in [preempts(), ignorable()] {
        let mut world = rejected_by_extender(vec![extender]);
        world.extenders.preempt = Box::new(agree);
        let outcome = world.schedule(preemptor().cpu("0").nominated("a"));
        let Outcome::Unschedulable(message) = &outcome else { panic!("{outcome:?}") };
        assert!(message.ends_with("no candidate node for preemption"), "{message}");
    }
}

#[test]
fn a_node_where_no_pod_must_be_evicted_is_no_candidate_without_a_preempting_extender() {
    let filters = Extender { preempt: false, ..preempts() };
    let mut world = rejected_by_extender(vec![filters]);
    let outcome = world.schedule(preemptor().cpu("0"));
    let Outcome::Unschedulable(message) = &outcome else { panic!("{outcome:?}") };
    let reason = "4 No preemption victims found for incoming pod.";
    assert!(message.ends_with(reason), "{message}");
}

#[test]
fn time_of_extender_calls_passes_for_the_attempt() {
    let mut world = full(vec![preempts()]);
    world.extenders.preempt = Box::new(agree);
    world.extenders.latency = Duration::from_secs(5);
    world.schedule(preemptor());
    let (_, queued) = world.engine.queue().get(&key("p")).unwrap();
    assert_eq!(queued.history.timestamp, world.now + Duration::from_secs(5));
}

#[test]
fn preemptor_binds_to_the_node_that_the_extender_chose() {
    let mut world = full(vec![preempts()]);
    world.extenders.preempt = Box::new(|_| accept(&[("b", &["b2"], 1)]));
    world.schedule(preemptor());
    world.run_for(2);
    assert_eq!(world.node_of("p").as_deref(), Some("b"));
    assert_eq!((world.place("b1"), world.place("b2")), ("placed", "nowhere"));
}

#[test]
fn extender_that_names_too_few_victims_is_called_again() {
    let mut world = full(vec![preempts()]);
    world.extenders.preempt = Box::new(|_| accept(&[("a", &["a1"], 0)]));
    world.schedule(preemptor().cpu("4"));
    world.extenders.preempt = Box::new(agree);
    world.run_for(3);
    let calls = ["preempt 0 a=a2+a1/1 b=b2+b1/1 c=c1/0", "preempt 0 a=a2/1 b=b2+b1/1 c=c1/0"];
    assert_eq!(world.extenders.calls, calls);
    assert_eq!(world.node_of("p").as_deref(), Some("c"), "no budget is violated there");
}
