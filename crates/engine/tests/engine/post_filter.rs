//! PostFilter: merge rules, texts, and the nomination that comes of it.

use engine::Outcome;
use framework::{Code, NominatingInfo, PostFilterResult, Status};
use testkit::pod;

use crate::harness::*;

type Answer = fn() -> PostFilterResult;

fn said(status: Status) -> PostFilterResult {
    PostFilterResult { status, ..PostFilterResult::default() }
}

fn nominated(status: Status, node: &str) -> PostFilterResult {
    let nominating = NominatingInfo::Override(node.into());
    PostFilterResult { status, nominating, ..PostFilterResult::default() }
}

fn after(answers: &'static [Answer]) -> World {
    let names = ["A", "B", "C"];
    let plugins = names.into_iter().zip(answers);
    let plugins = plugins.map(|(name, answer)| fake(name).post_filter(move |_, _, _| answer()));
    let full = fake("Full").no_events().filter(|_, _| no("full"));
    let mut world = world([full].into_iter().chain(plugins));
    world.schedule(pod("p").nominated("b"));
    world
}

#[test]
fn the_answers_are_merged() {
    type Row = (&'static [Answer], usize, &'static str, Option<&'static str>);
    // Answers, plugins asked, what follows the reasons, nomination to write.
    let rows: [Row; 9] = [
        (&[|| said(no("x")), || said(no("y").and("z"))], 2, " x, y, z", None),
        (&[|| said(yes()), || said(no("y"))], 1, "", None),
        (&[|| said(no("x")), || nominated(yes(), "a")], 2, "", Some("a")),
        (&[|| nominated(no("x"), "a"), || said(no("y"))], 2, " x, y", Some("a")),
        (&[|| nominated(no("x"), "a"), || nominated(no("y"), "c")], 2, " x, y", Some("c")),
        (&[|| nominated(never("x"), ""), || nominated(yes(), "a")], 1, " x", Some("")),
        (&[|| said(status(Code::Pending, "x")), || said(no("y"))], 2, " x, y", None),
        (&[|| nominated(Status::error("boom"), "a"), || said(no("y"))], 1, " boom", None),
        (&[|| nominated(no("x"), "b")], 1, " x", None),
    ];
    for (place, (answers, asked, text, nomination)) in rows.into_iter().enumerate() {
        let world = after(answers);
        let message = format!("Unschedulable: 0/3 nodes are available: 3 full.{text}");
        assert_eq!(world.condition("p"), Some(message), "row {place}");
        assert_eq!(world.log.take_of(&["PostFilter"]).len(), asked, "row {place}");
        let patches = world.patches("p");
        assert_eq!(patches[0].nominated_node_name.as_deref(), nomination, "row {place}");
        assert_eq!(world.place("p"), "unschedulable", "also if room will be made");
    }
}

#[test]
fn without_post_filter_the_nomination_is_cleared() {
    let world = after(&[]);
    assert_eq!(world.patches("p")[0].nominated_node_name.as_deref(), Some(""));
}

#[test]
fn post_filter_sees_why_each_node_was_turned_down() {
    let seen = fake("See").post_filter(|_, verdicts, handle| {
        let cluster = handle.cluster;
        let text: Vec<String> = cluster
            .nodes()
            .iter()
            .map(|node| {
                let status = verdicts.get(node);
                format!("{} {} {}", cluster.node_name(node), status.code(), status.message())
            })
            .collect();
        said(Status::unschedulable(text.join("; ")))
    });
    let narrow = fake("Narrow").pre_filter(|_| {
        let names = ["a", "b"].into_iter().map(Into::into).collect();
        Ok(framework::PreFilterResult { node_names: Some(names) })
    });
    let full = fake("Full").filter(|_, node| match &**node.name() {
        "a" => never("tiny"),
        _ => no("full"),
    });
    let mut world = world([narrow, full, seen]);
    let Outcome::Unschedulable(text) = world.schedule(pod("p")) else { panic!("it fits nowhere") };
    let unresolvable = "UnschedulableAndUnresolvable";
    let expected = format!(
        " a {unresolvable} tiny; b Unschedulable full; c {unresolvable} node(s) didn't satisfy \
         plugin(s) [Narrow]"
    );
    assert!(text.ends_with(&expected), "{text}");
}

#[test]
fn post_filter_runs_also_when_pre_filter_rejected_the_pod() {
    let mut world = world([
        fake("Strict").pre_filter(|_| Err(never("impossible"))),
        fake("Helper").post_filter(|_, _, _| said(no("no help"))),
    ]);
    let outcome = world.schedule(pod("p"));
    let message = "0/3 nodes are available: impossible. no help";
    assert_eq!(outcome, Outcome::Unschedulable(message.to_owned()));
}

#[test]
fn nomination_reserves_room_at_once() {
    let nominate = fake("Nominate").post_filter(|_, _, _| nominated(yes(), "a"));
    let [held, _] = held();
    let mut world = Setup::new([held, fit(), nominate]).nodes(&["a"]);
    world.schedule(pod("p").label("held", "yes").cpu("8"));
    assert!(world.open.iter().any(|effect| format!("{effect:?}").contains("PatchPodStatus")));
    let outcome = world.schedule(pod("other").cpu("1"));
    assert!(matches!(outcome, Outcome::Unschedulable(_)), "although nothing is written yet");
}
