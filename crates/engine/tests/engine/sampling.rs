//! `percentageOfNodesToScore`: the walk over the node order, and where the next one starts.

use engine::Outcome;
use engine::cycle::Extender;
use engine::ports::Filtered;
use testkit::{node, pod};

use crate::harness::*;

/// Turns nodes down that the label `not` of the pod names, one letter each.
fn picky() -> Fake {
    fake("Picky").no_events().filter(|pod, node| match pod.labels.get("not") {
        Some(names) if names.contains(&**node.name()) => no("no"),
        _ => yes(),
    })
}

fn sampled(plugins: impl IntoIterator<Item = Fake>, percentage: i32) -> Setup {
    let mut setup = Setup::new(plugins);
    setup.percentage = percentage;
    setup
}

#[track_caller]
fn check_next(world: &mut World, name: &str, not: &str, node: &str) {
    let outcome = world.schedule(pod(name).label("not", not));
    assert_eq!(outcome, Outcome::Assumed(node.into()), "{name}");
}

#[test]
fn where_nothing_is_scored_the_first_node_that_passes_is_taken() {
    let mut world = sampled([picky()], 50).nodes(&["a", "b", "c", "d", "e"]);
    check_next(&mut world, "1", "", "a");
    check_next(&mut world, "2", "", "b");
    check_next(&mut world, "3", "c", "d");
    check_next(&mut world, "4", "", "e");
    check_next(&mut world, "5", "", "a");
}

#[test]
fn nodes_turned_down_behind_the_last_that_passed_are_counted() {
    let mut world = sampled([picky()], 50).nodes(&["a", "b", "c", "d", "e"]);
    check_next(&mut world, "1", "bc", "a");
    check_next(&mut world, "2", "", "d");
    check_next(&mut world, "3", "a", "e");
    check_next(&mut world, "4", "", "b");
}

#[test]
fn a_search_without_success_looks_at_all_nodes_and_ends_where_it_began() {
    let mut world = sampled([picky()], 50).nodes(&["a", "b", "c"]);
    check_next(&mut world, "1", "", "a");
    let outcome = world.schedule(pod("2").label("not", "abc"));
    let message = "0/3 nodes are available: 3 no.".to_owned();
    assert_eq!(outcome, Outcome::Unschedulable(message));
    check_next(&mut world, "3", "", "b");
}

#[test]
fn zones_take_turns() {
    let mut world = sampled([picky()], 50).build();
    for (name, zone) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"), ("e", "")] {
        let node = node(name);
        world.node(if zone.is_empty() { node } else { node.zone(zone) });
    }
    for (name, node) in [("1", "a"), ("2", "c"), ("3", "e"), ("4", "b"), ("5", "d"), ("6", "a")] {
        check_next(&mut world, name, "", node);
    }
}

#[test]
fn only_the_sample_is_scored() {
    let liking = fake("Liking").score(|_, _| Ok(1)).pre_score(|_| yes());
    let mut world = sampled([picky(), liking], 10).build();
    let names: Vec<String> = (0..200).map(|i| format!("n{i:03}")).collect();
    for name in &names {
        world.node(node(name));
    }
    for (pod, range) in [("1", 0..100), ("2", 100..200), ("3", 0..100)] {
        world.schedule(testkit::pod(pod));
        let scored = world.log.take_of(&["PreScore"]);
        assert_eq!(scored, [format!("PreScore Liking {}", names[range].join(","))]);
    }
}

#[test]
fn restricted_search_starts_at_its_share_of_the_order() {
    let narrow = fake("Narrow").pre_filter(|pod| {
        let names = pod
            .labels
            .get("only")
            .map(|names| names.chars().map(|name| name.to_string().as_str().into()).collect());
        Ok(framework::PreFilterResult { node_names: names })
    });
    let mut world = sampled([narrow, picky()], 50).nodes(&["a", "b", "c", "d", "e"]);
    check_next(&mut world, "1", "", "a");
    check_next(&mut world, "2", "", "b");
    // Of b, d and e the one at 2 modulo 3.
    assert_eq!(world.schedule(pod("3").label("only", "bde")), Outcome::Assumed("e".into()));
    check_next(&mut world, "4", "", "d");
}

#[test]
fn feasible_nominated_node_does_not_move_the_search_start() {
    let mut world = sampled([picky()], 50).nodes(&["a", "b", "c"]);
    assert_eq!(world.schedule(pod("1").nominated("c")), Outcome::Assumed("c".into()));
    check_next(&mut world, "2", "", "a");
}

#[test]
fn rejected_nominated_node_counts_as_visited() {
    let mut world = sampled([picky()], 50).nodes(&["a", "b", "c", "d", "e"]);
    let outcome = world.schedule(pod("1").nominated("e").label("not", "e"));
    assert_eq!(outcome, Outcome::Assumed("a".into()));
    check_next(&mut world, "2", "", "c");
}

#[test]
fn unvisited_nodes_have_no_verdict() {
    let mut setup = sampled(held().into_iter().chain([fit()]), 10);
    setup.extenders = vec![Extender { filter: true, ..Extender::default() }];
    let mut world = setup.build();
    for i in 0..200 {
        world.node(node(&format!("n{i:03}")).allocatable("cpu", "1"));
    }
    // Room on the last node is taken by a nomination; the search does not come that far.
    world.pod(pod("guest").label("held", "yes").cpu("1").nominated("n199"));
    world.run();
    world.extenders.filter = Box::new(|call| {
        let failed = call.nodes.iter().map(|name| ((*name).to_owned(), "not here".to_owned()));
        Ok(Filtered { failed: failed.collect(), ..Filtered::default() })
    });
    let outcome = world.schedule(pod("p").cpu("1"));
    let message = "0/200 nodes are available: 100 not here.".to_owned();
    assert_eq!(outcome, Outcome::Unschedulable(message));
}
