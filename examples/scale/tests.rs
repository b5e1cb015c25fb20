use super::*;

fn args(shape: Shape) -> Args {
    Args {
        nodes: 300,
        pods: 2_000,
        templates: 40,
        shape,
        seed: 7,
        churn: 0.1,
        preempt: true,
        parallelism: 2,
        no_rankings: false,
        recording: None,
        placements: None,
    }
}

/// Returns bound pods, decisions, evictions and broken rules, which do not depend on the machine.
fn outcome(args: Args) -> (usize, usize, usize, u64) {
    let report = Run::new(args).unwrap().complete().unwrap();
    (report.bound, report.decisions, report.evictions, report.rules_broken)
}

#[test]
fn every_pod_is_bound_and_no_rule_is_broken() {
    for shape in [Shape::Basic, Shape::Spread, Shape::Affinity, Shape::Mixed] {
        let (bound, _, evictions, broken) = outcome(args(shape));
        assert_eq!((bound, broken), (2_000, 0), "{shape:?}");
        assert!(evictions > 0, "{shape:?}");
    }
}

#[test]
fn rankings_change_no_placement() {
    let folder = tempfile::tempdir().unwrap();
    let placements = |no_rankings: bool| {
        let file = folder.path().join(no_rankings.to_string());
        outcome(Args { no_rankings, placements: Some(file.clone()), ..args(Shape::Mixed) });
        std::fs::read_to_string(file).unwrap()
    };
    let ranked = placements(false);
    assert!(ranked.lines().filter(|line| line.contains("bound")).count() > 2_000);
    assert!(ranked == placements(true), "the placements differ");
}
