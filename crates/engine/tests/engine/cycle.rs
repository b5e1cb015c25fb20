//! PreFilter and Filter: merge rules, messages and recorded rejectors.

use engine::Outcome;
use framework::{Code, PreFilterResult, Status};
use testkit::{node, pod};

use crate::harness::*;

type PreFiltered = Result<PreFilterResult, Status>;

fn all() -> PreFiltered {
    Ok(PreFilterResult::default())
}

fn only(names: &[&str]) -> PreFiltered {
    Ok(PreFilterResult { node_names: Some(names.iter().map(|name| (*name).into()).collect()) })
}

/// Nodes `a`, `b` and `c`, a pod `p`, PreFilter plugins `A`, `B` and `C` with these answers.
fn after_pre_filter(answers: [fn() -> PreFiltered; 3]) -> (World, Outcome) {
    let plugins = ["A", "B", "C"].into_iter().zip(answers);
    let mut world = world(plugins.map(|(name, answer)| fake(name).pre_filter(move |_| answer())));
    let outcome = world.schedule(pod("p"));
    (world, outcome)
}

#[track_caller]
fn check_rejected(world: &World, outcome: &Outcome, message: &str, rejectors: &[&str]) {
    assert_eq!(*outcome, Outcome::Unschedulable(message.to_owned()));
    assert_eq!(world.condition("p"), Some(format!("Unschedulable: {message}")));
    assert_eq!(world.rejectors("p"), rejectors);
}

#[track_caller]
fn check_error(world: &World, outcome: &Outcome, message: &str) {
    assert_eq!(*outcome, Outcome::Error(message.to_owned()));
    assert_eq!(world.condition("p"), Some(format!("SchedulerError: {message}")));
    assert_eq!((world.place("p"), world.rejectors("p")), ("error backoff", vec![]));
}

#[test]
fn pre_filter_rejections_are_merged() {
    type Row = ([fn() -> PreFiltered; 3], usize, &'static str, &'static [&'static str]);
    // Answers, plugins asked, what the message says of the nodes, rejectors.
    let rows: [Row; 8] = [
        ([|| Err(never("x")), all, all], 1, " x.", &["A"]),
        ([|| Err(no("first")), all, || Err(no("last"))], 3, " last.", &["C"]),
        ([|| Err(no("first")), || Err(never("worse")), all], 2, " worse.", &["B"]),
        ([|| only(&["a"]), || Err(no("x")), all], 3, " x.", &["A", "B"]),
        ([|| only(&["a"]), || Err(never("x")), all], 2, " x.", &["B"]),
        ([|| only(&[]), all, all], 1, " node(s) didn't satisfy plugin A.", &["A"]),
        (
            [|| only(&["a", "b"]), all, || only(&["c"])],
            3,
            " node(s) didn't satisfy plugin(s) [A C] simultaneously.",
            &["A", "C"],
        ),
        ([|| Err(Status::with_reasons(Code::Unschedulable, vec![])), all, all], 3, "", &["A"]),
    ];
    for (answers, asked, text, rejectors) in rows {
        let (world, outcome) = after_pre_filter(answers);
        let message = format!("0/3 nodes are available:{text}");
        check_rejected(&world, &outcome, &message, rejectors);
        assert_eq!(world.log.take().len(), asked, "{text}");
        assert_eq!(world.place("p"), "unschedulable");
    }
}

#[test]
fn contradicting_plugins_are_named_in_alphabetical_order() {
    let mut world = world([
        fake("Zonal").pre_filter(|_| only(&["a"])),
        fake("Affine").pre_filter(|_| only(&["b"])),
    ]);
    let outcome = world.schedule(pod("p"));
    let text = "node(s) didn't satisfy plugin(s) [Affine Zonal] simultaneously";
    let message = format!("0/3 nodes are available: {text}.");
    check_rejected(&world, &outcome, &message, &["Affine", "Zonal"]);
}

#[test]
fn other_pre_filter_status_is_an_error() {
    for code in [Code::Error, Code::Pending, Code::Wait] {
        let mut world = world([
            fake("A").pre_filter(move |_| Err(status(code, "x"))),
            fake("B").pre_filter(|_| all()),
        ]);
        let outcome = world.schedule(pod("p"));
        check_error(&world, &outcome, "running PreFilter plugin \"A\": x");
        assert_eq!(world.log.take(), ["PreFilter A p"]);
    }
}

#[test]
fn restrictions_intersect_and_ignore_unknown_nodes() {
    // Answers, node.
    type Row = ([fn() -> PreFiltered; 3], &'static str);
    let rows: [Row; 3] = [
        ([|| only(&["b", "c"]), all, || only(&["a", "c"])], "c"),
        ([|| only(&["b", "stranger"]), all, all], "b"),
        ([all, || Err(Status::skip()), all], "a"),
    ];
    for (answers, node) in rows {
        let (_, outcome) = after_pre_filter(answers);
        assert_eq!(outcome, Outcome::Assumed(node.into()));
    }
}

#[test]
fn nodes_excluded_by_pre_filter_have_their_own_message() {
    // Names the search is narrowed to, message.
    let rows: [(&'static [&'static str], &str); 3] = [
        (&["a"], "1 full, 2 node(s) didn't satisfy plugin(s) [A Narrow]"),
        (&["a", "b", "c"], "3 full"),
        (&["stranger"], "3 node(s) didn't satisfy plugin(s) [A Narrow]"),
    ];
    for (names, text) in rows {
        let mut world = world([
            fake("Narrow").pre_filter(move |_| only(names)),
            fake("A").pre_filter(move |_| only(names)),
            fake("Full").filter(|_, _| no("full")),
        ]);
        let outcome = world.schedule(pod("p"));
        let message = format!("0/3 nodes are available: {text}.");
        let full =
            if names == ["stranger"] { vec!["A", "Narrow"] } else { vec!["A", "Full", "Narrow"] };
        check_rejected(&world, &outcome, &message, &full);
    }
}

#[test]
fn skipped_plugin_does_not_filter() {
    let mut world = world([
        fake("Idle").pre_filter(|_| Err(Status::skip())).filter(|_, _| no("never asked")),
        fake("Picky").filter(|_, node| if &**node.name() == "b" { yes() } else { no("not b") }),
    ]);
    assert_eq!(world.schedule(pod("p")), Outcome::Assumed("b".into()));
    let asked = world.log.take_of(&["Filter"]);
    assert_eq!(asked, ["Filter Picky p on a", "Filter Picky p on b", "Filter Picky p on c"]);
}

#[test]
fn first_failing_filter_decides_about_a_node() {
    let mut world = world([
        fake("First").filter(|_, node| match &**node.name() {
            "a" => no("taken"),
            _ => yes(),
        }),
        fake("Second").filter(|_, node| match &**node.name() {
            "c" => yes(),
            _ => no("late").and("and small"),
        }),
        fake("Third").filter(|_, _| status(Code::Pending, "not yet")),
    ]);
    let outcome = world.schedule(pod("p"));
    let message = "0/3 nodes are available: 1 and small, 1 late, 1 not yet, 1 taken.";
    check_rejected(&world, &outcome, message, &["First", "Second", "Third"]);
    let (_, queued) = world.engine.queue().get(&key("p")).unwrap();
    assert_eq!(queued.history.pending_plugins.len(), 1, "one of them waits for something");
}

#[test]
fn filter_error_aborts_the_attempt_even_if_nodes_passed() {
    for code in [Code::Error, Code::Wait, Code::Skip] {
        let mut world = world([fake("A").filter(move |_, node| match &**node.name() {
            "b" => status(code, "out of order"),
            _ => yes(),
        })]);
        let outcome = world.schedule(pod("p"));
        check_error(&world, &outcome, "running \"A\" filter plugin: out of order");
    }
}

#[test]
fn both_forms_fail_alike() {
    use engine::cycle::Form;
    let texts = [Form::Set, Form::OneNode].map(|form| {
        let mut setup = Setup::new([fake("A").filter(|_, node| match &**node.name() {
            "b" => panic!("dropped"),
            _ => no("full"),
        })]);
        setup.form = form;
        let mut world = setup.nodes(&["a", "b"]);
        let outcome = world.schedule(pod("p"));
        check_error(
            &world,
            &outcome,
            "running \"A\" filter plugin: plugin \"A\" panicked: dropped",
        );
        world.events()
    });
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn pod_in_an_empty_cluster_is_retried_after_backoff() {
    let mut world = Setup::new([
        fake("A").pre_filter(|_| all()).filter(|_, _| yes()),
        fake("Helper").post_filter(|_, _, _| framework::PostFilterResult::default()),
    ])
    .build();
    let outcome = world.schedule(pod("p").nominated("gone"));
    let message = "no nodes available to schedule pods";
    check_rejected(&world, &outcome, message, &[]);
    assert_eq!(world.log.take(), [""; 0]);
    assert_eq!(world.place("p"), "error backoff");
    assert_eq!(world.patches("p")[0].nominated_node_name.as_deref(), Some(""), "and is cleared");
    world.node(node("late"));
    assert_eq!(world.place("p"), "error backoff", "an error waits out its backoff");
    world.run_for(3);
    assert_eq!(world.place("p"), "placed");
}

#[test]
fn invalid_pod_is_rejected_with_the_decoding_errors() {
    let mut world = world([fit()]);
    let outcome = world.schedule(pod("p").cpu("two"));
    let Outcome::Unschedulable(message) = outcome else { panic!("{outcome:?}") };
    let start = "the pod is invalid, and an API server refuses it: spec.containers[0]";
    assert!(message.starts_with(start), "no word about nodes: {message}");
    assert!(!message.contains("not found"), "and none about preemption: {message}");
    world.update("p", |pod| {
        let requests = &mut pod.spec.containers[0].resources.requests;
        requests.insert("cpu".to_owned(), framework::api::QuantityText("2".to_owned()));
    });
    world.run_for(12);
    assert_eq!(world.place("p"), "placed");
}
