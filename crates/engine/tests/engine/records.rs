//! Decision records of attempts.

use std::sync::Arc;
use std::time::Duration;

use engine::cycle::Form;
use engine::record::{Choice, Finding, Record};
use engine::{EffectKind, TieBreak};
use framework::{
    Attempt, AttemptMut, Dependence, Filter, FilterScope, NodeView, Plugin, Score, ScoreScope,
    Status,
};
use testkit::pod;

use crate::harness::*;

fn picky() -> [Fake; 2] {
    [
        fake("Picky").filter(|pod, node| match pod.labels.get("not") {
            Some(names) if names.contains(&**node.name()) => no("not here"),
            _ => yes(),
        }),
        fake("Liking").score(|_, node| Ok(i64::from(**node.name() != *"a"))),
    ]
}

fn records(world: &World, name: &str) -> Vec<Arc<Record>> {
    world.engine.records().of_pod(&pod(name).build().uid)
}

#[test]
fn record_says_what_the_attempt_found() {
    let mut world = world(picky());
    let state = world.engine.changes().state();
    world.schedule(pod("waits").label("not", "a b c"));
    let [record] = &*records(&world, "waits") else { panic!("one attempt") };
    assert_eq!((record.attempt, record.state, record.at), (1, state, world.now));
    let Finding::Rejected(rejected) = &record.finding else { panic!("{record:?}") };
    let [rejection] = &*rejected.rejections else { panic!("one reason") };
    assert_eq!(rejection.status.plugin(), Some(&"Picky".into()));
    assert_eq!(rejection.status.message(), "not here");
    let names: Vec<&str> = rejection.names.iter().map(AsRef::as_ref).collect();
    assert_eq!((rejection.count, names), (3, vec!["a", "b", "c"]));

    world.schedule(pod("fits"));
    let Finding::Chosen(choice) = &records(&world, "fits")[0].finding else { panic!("it fits") };
    let expected = Choice { node: "b".into(), ties: 2, total: Some(1), feasible: 3, evaluated: 3 };
    assert_eq!(*choice, expected);
}

#[test]
fn times_in_the_queue_add_up_over_attempts() {
    let mut world = world(picky());
    world.pod(pod("waits").label("not", "a b c"));
    world.pass(3);
    world.attempt();
    world.pass(20);
    world.node(testkit::node("c2").label("kind", "new"));
    world.pass(5);
    world.attempt();
    let [_, second] = &*records(&world, "waits") else { panic!("two attempts") };
    let seconds = |times: Duration| times.as_secs();
    assert_eq!(seconds(second.times.active), 3 + 5);
    assert_eq!(seconds(second.times.unschedulable), 20);
    assert_eq!(second.since, Some(framework::Time::from_secs(1000)));
}

#[test]
fn failed_bind_has_a_record() {
    let mut world = world(picky());
    world.schedule(pod("waits").label("not", "c"));
    let bind = world.open.iter().find(|effect| matches!(effect.kind, EffectKind::Bind { .. }));
    let bind = bind.expect("a bind").id;
    world.answer(bind, &framework::Answer::Error("quota".to_owned()));
    let [_, failed] = &*records(&world, "waits") else { panic!("an attempt and its end") };
    let Finding::Failed(text) = &failed.finding else { panic!("{failed:?}") };
    assert!(text.starts_with("on node b: ") && text.contains("quota"), "{text}");
}

#[test]
fn bind_that_fails_after_its_pod_is_gone_leaves_no_record_beside_the_pod() {
    let mut world = world(picky());
    world.schedule(pod("gone"));
    let (bind, _) = world.take_bind("gone");
    world.delete("gone");
    world.answer(bind, &framework::Answer::Error("not found".to_owned()));
    let [_, failed] = &*records(&world, "gone") else { panic!("an attempt and its end") };
    assert!(matches!(failed.finding, Finding::Failed(_)), "{failed:?}");
    assert_eq!(world.engine.records().last_of_pending().count(), 0);
}

#[test]
fn victims_and_the_nominated_node_are_recorded() {
    let mut world = Setup::new([fit()]).plugin(preempting()).build();
    world.node(testkit::node("a").allocatable("cpu", "1"));
    world.pod(pod("low").cpu("1").priority(1).on("a"));
    world.schedule(pod("high").cpu("1").priority(9));
    let [record] = &*records(&world, "high") else { panic!("one attempt") };
    let Finding::Rejected(rejected) = &record.finding else { panic!("{record:?}") };
    assert_eq!(rejected.nominated.as_deref(), Some("a"));
    assert_eq!(rejected.victims, [key("low")]);
}

/// Takes pods with the label `fits`, anywhere but best not on node a. Looks at each node by itself,
/// so that its answers can be kept for a lane of pods.
struct ByNode;

impl Filter for ByNode {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        match attempt.pod.labels.get("fits") {
            Some(_) => yes(),
            None if **node.name() == *"b" => never("closed"),
            None => no("not here"),
        }
    }

    fn dependence(&self, _attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        Some(Dependence::on(FilterScope::Node))
    }
}

impl Score for ByNode {
    fn score(&self, _: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        Ok(i64::from(**node.name() != *"a"))
    }

    fn dependence(&self, _attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(Dependence::on(ScoreScope::Node))
    }
}

/// Schedules pods of two lanes, before and after nodes change.
fn schedule_lanes(form: Form) -> World {
    let by_node = Plugin::new("ByNode", ByNode).filter().score().build();
    let mut setup = Setup::new([]).plugin(by_node);
    (setup.form, setup.tie_break) = (form, TieBreak::Random);
    let mut world = setup.nodes(&["a", "b", "c"]);
    for number in 0..4 {
        world.schedule(pod(&format!("fits{number}")).label("fits", ""));
        world.schedule(pod(&format!("waits{number}")));
    }
    world.delete_node("a");
    world.node(testkit::node("d"));
    world.schedule(pod("fits4").label("fits", ""));
    world.schedule(pod("waits4"));
    world
}

#[test]
fn records_of_kept_answers_agree_with_those_of_full_passes() {
    let (ranked, full) = (schedule_lanes(Form::Ranked), schedule_lanes(Form::Set));
    assert!(ranked.engine.repeated_rejections() > 0, "no rejection was repeated");
    assert_eq!(full.engine.repeated_rejections(), 0);
    let (ranked, full) = (ranked.engine.records().recent(), full.engine.records().recent());
    assert_eq!(ranked.len(), full.len());
    for (ranked, full) in ranked.zip(full) {
        assert_eq!((&ranked.pod, ranked.state), (&full.pod, full.state));
        match (&ranked.finding, &full.finding) {
            (Finding::Chosen(ranked), Finding::Chosen(full)) => {
                assert_eq!(ranked, full);
            }
            (Finding::Rejected(ranked), Finding::Rejected(full)) => assert_eq!(ranked, full),
            other => panic!("{other:?}"),
        }
    }
}
