//! `Engine::evaluate`: the full decision without its effects.

use std::sync::Arc;

use engine::cycle::Form;
use engine::{Evaluation, Input, Outcome};
use framework::{Detail, NodeBits};
use testkit::{PodBuilder, pod};

use crate::harness::*;

fn plugins() -> [Fake; 3] {
    [
        fake("Narrow").pre_filter(|pod| {
            let names = pod.labels.get("only").map(|name| [name.into()].into());
            Ok(framework::PreFilterResult { node_names: names })
        }),
        fake("Picky").no_events().filter(|pod, node| match pod.labels.get("not") {
            Some(names) if names.contains(&**node.name()) => no("no"),
            _ => yes(),
        }),
        fake("Liking")
            .weight(2)
            .score(|_, node| Ok(i64::from(node.name().as_bytes()[0])))
            .normalize(|scores| {
                scores.iter_mut().for_each(|score| *score -= i64::from(b'a'));
                yes()
            }),
    ]
}

fn evaluate(world: &mut World, pod: PodBuilder) -> Evaluation {
    let pod = Arc::new(pod.build());
    world
        .on(|engine, now, ports| {
            engine
                .step(
                    Input::Evaluate { pod: pod.clone(), form: Form::Set, start: None },
                    now,
                    ports,
                )
                .evaluation()
        })
        .unwrap()
}

fn names(world: &World, nodes: impl IntoIterator<Item = framework::NodeIx>) -> Vec<String> {
    let cluster = world.engine.cluster();
    nodes.into_iter().map(|node| cluster.node_name(node).to_string()).collect()
}

#[test]
fn evaluation_covers_every_node_and_changes_no_state() {
    let mut world = world(plugins());
    let evaluation = evaluate(&mut world, pod("p").label("not", "a"));
    let feasible = evaluation.feasible.iter().map(|(node, _)| *node);
    assert_eq!(names(&world, feasible), ["b", "c"]);
    assert_eq!(names(&world, evaluation.best()), ["c"]);
    assert_eq!(evaluation.rejectors, ["Picky".into()].into());
    let a = world.engine.cluster().node_named("a").unwrap();
    assert_eq!(evaluation.verdicts.get(a).message(), "no");
    let [scores] = evaluation.scores.as_slice() else { panic!("one plugin scores") };
    let [raw, weighted] = [scores.raw.as_ref().unwrap(), &scores.weighted]
        .map(|scores| scores.iter().map(|(_, score)| *score).collect::<Vec<_>>());
    assert_eq!((raw, weighted), (vec![98, 99], vec![2, 4]));
    assert_eq!(
        evaluation.feasible.iter().map(|(_, total)| *total).collect::<Vec<_>>(),
        [Some(2), Some(4)]
    );
    assert!(world.history.is_empty() && world.place("p") == "nowhere");
}

#[test]
fn details_are_about_the_nodes_that_the_plugin_rejected() {
    let rejecting = |name: &'static str, node: &'static str| {
        fake(name).filter(move |_, other| if **other.name() == *node { no("no") } else { yes() })
    };
    for last in ["c", "d"] {
        let why = |rejected: &NodeBits| {
            let (text, nodes) = ("why".to_owned(), rejected.clone());
            vec![Detail { text, nodes, remedies: Vec::new() }]
        };
        let mut world = world([
            rejecting("First", "a").details(why),
            rejecting("Broken", "b").details(|_| panic!("no details")),
            rejecting("Last", last).details(why),
        ]);
        let evaluation = evaluate(&mut world, pod("p"));
        assert_eq!(evaluation.fit_error.is_some(), last == "c");
        let details = evaluation.details.iter().map(|(plugin, detail)| {
            (plugin.to_string(), names(&world, detail.nodes.iter()).concat())
        });
        let expected = [("First", "a"), ("Last", last)].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let asked = if last == "c" { 2 } else { 1 };
        assert_eq!(details.collect::<Vec<_>>(), expected[..asked]);
    }
}

#[test]
fn evaluation_agrees_with_the_decision() {
    // The pod, the best nodes.
    type Row = (fn(PodBuilder) -> PodBuilder, &'static [&'static str]);
    let rows: [Row; 7] = [
        (|pod| pod, &["c"]),
        (|pod| pod.label("not", "c"), &["b"]),
        (|pod| pod.label("not", "abc"), &[]),
        (|pod| pod.label("only", "a"), &["a"]),
        (|pod| pod.nominated("a"), &["a"]),
        (|pod| pod.nominated("a").label("only", "b").label("not", "b"), &["a"]),
        (|pod| pod.nominated("a").label("not", "a"), &["c"]),
    ];
    for (place, (change, best)) in rows.into_iter().enumerate() {
        for percentage in [0, 50] {
            let mut setup = Setup::new(plugins());
            setup.percentage = percentage;
            let mut world = setup.nodes(&["a", "b", "c"]);
            let evaluation = evaluate(&mut world, change(pod("p")));
            let explained = names(&world, evaluation.best());
            assert_eq!(explained, best, "row {place}");
            assert!(evaluation.error.is_none());
            assert_eq!(evaluation.fit_error.is_some(), best.is_empty(), "row {place}");
            match (world.schedule(change(pod("p"))), evaluation.fit_error) {
                (Outcome::Assumed(node), None) => assert_eq!(*node, *explained[0]),
                (Outcome::Unschedulable(text), Some(fit)) => assert_eq!(text, fit.message()),
                other => panic!("row {place}: {other:?}"),
            }
            let after = evaluate(&mut world, pod("q")).next_start;
            let mut setup = Setup::new(plugins());
            setup.percentage = percentage;
            let mut fresh = setup.nodes(&["a", "b", "c"]);
            let q = Arc::new(pod("q").build());
            let start = Some(evaluation.next_start);
            let fresh = fresh.on(|engine, now, ports| {
                engine
                    .step(Input::Evaluate { pod: q.clone(), form: Form::Set, start }, now, ports)
                    .evaluation()
            });
            assert_eq!(fresh.unwrap().next_start, after, "row {place}: the walk goes on alike");
        }
    }
}

#[test]
fn feasible_nominated_node_is_the_only_choice() {
    let mut world = world(plugins());
    let evaluation = evaluate(&mut world, pod("p").nominated("a").label("not", "b"));
    let feasible = evaluation.feasible.iter().map(|(node, _)| *node);
    assert_eq!(names(&world, feasible), ["a"]);
    assert_eq!(names(&world, evaluation.passed.iter()), ["a", "c"]);
    assert!(evaluation.rejectors.is_empty(), "what keeps it off other nodes does not matter");
}

#[test]
fn evaluation_reports_errors_and_an_empty_cluster() {
    let mut world = Setup::new(plugins()).build();
    let evaluation = evaluate(&mut world, pod("p"));
    let error = evaluation.error.unwrap();
    assert_eq!(error.message(), "no nodes available to schedule pods");
    let stranger = Arc::new(pod("p").scheduler("foreign").build());
    let none = world.on(|engine, now, ports| {
        engine
            .step(
                Input::Evaluate { pod: stranger.clone(), form: Form::Set, start: None },
                now,
                ports,
            )
            .evaluation()
    });
    assert!(none.is_none(), "it is not ours to judge");
}
