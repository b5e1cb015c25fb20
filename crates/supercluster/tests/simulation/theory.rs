//! Conflicts and regrets of the simulation beside what theory says.
//!
//! With m other commits between a sample and its commit, and room for one pod on each node, the
//! first candidate meets a conflict with `p1 = 1 - exp(-m / H)`. H depends on samples and scores,
//! not on the load. Of K candidates all meet one with about `p1^K`.

use std::time::Duration;

use loadmaster_supercluster::simulation::{Latencies, Load, Report, Shape};

fn load() -> Load {
    Load {
        clusters: 4,
        nodes: 500,
        pods: 3_000,
        rate: Some(200.0),
        shape: Shape::Exclusive,
        live: Some(600),
        schedulers: 2,
        candidates: 1,
        strategy: "random".into(),
        share_bp: 200,
        clusters_bp: 5_000,
        in_flight: 400,
        tolerance_milli: 0,
        latencies: Latencies { network: Duration::from_millis(10), ..Latencies::default() },
        measure_every: Some(8),
        mirrors: false,
        seed: 3,
    }
}

fn run(load: &Load) -> Report {
    let mut world = load.world();
    world.run(Duration::from_secs(3_600));
    let report = world.report(Duration::ZERO);
    println!("{report:?}");
    assert_eq!((report.bound, report.overcommitted, report.bound_twice), (load.pods, 0, 0));
    report
}

#[test]
fn conflicts_follow_the_formula() {
    let runs = [100.0, 200.0, 400.0, 800.0].map(|rate| run(&Load { rate: Some(rate), ..load() }));
    let h = -runs[1].others_in_window / (1.0 - runs[1].conflict_share).ln();
    for report in &runs {
        let formula = 1.0 - (-report.others_in_window / h).exp();
        let off = formula / report.conflict_share - 1.0;
        assert!(off.abs() < 0.25, "H = {h}: {formula} is {off} off {}", report.conflict_share);
    }
    let three = run(&Load { rate: Some(800.0), candidates: 3, ..load() });
    let p1 = runs[3].conflict_share;
    assert!(p1 > 0.1, "there is something to see: {p1}");
    let p3 = three.conflict_share;
    assert!(p3 < 2.0 * p1.powi(3) + 0.002, "three candidates: {p3}, one: {p1}");
}

#[test]
fn best_at_one_node_a_cluster_has_no_regret_and_no_more_conflicts_than_random() {
    let all_clusters = Load { rate: Some(400.0), candidates: 3, clusters_bp: 10_000, ..load() };
    let random = run(&all_clusters);
    let best = run(&Load { strategy: "best".into(), share_bp: 20, ..all_clusters });
    assert_eq!(best.regret_mean, 0.0);
    assert!(random.regret_mean > 0.0);
    assert!(best.conflict_share <= random.conflict_share, "{best:?} {random:?}");
    assert!(best.commit_regret_mean < random.commit_regret_mean);
}
