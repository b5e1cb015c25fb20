//! Schedulers and agents over stores of the sandbox, with and without faults.

use std::time::Duration;

use framework::{Node, Pod};
use supercluster::scheduler::{Cluster, SchedulerConfig};
use supercluster::simulation::{Faults, Latencies, Report, Settings, World};
use testkit::{node, pod};

use super::{Threads, servers};

const CLUSTERS: usize = 3;

fn nodes() -> Vec<Node> {
    let nodes = (0..8).map(|number| {
        node(&format!("n{number}"))
            .allocatable("cpu", &(2 + number % 3 * 2).to_string())
            .allocatable("memory", "16Gi")
            .allocatable("pods", "6")
            .build()
    });
    nodes.collect()
}

fn job(number: u64) -> Pod {
    let cpu = ["500m", "1", "2", "1"][(number % 4) as usize];
    pod(&format!("p-{number}")).cpu(cpu).memory("64Mi").label("app", "a").build()
}

fn world(seed: u64, schedulers: usize, faults: Faults, threads: &Threads) -> World {
    let cluster = |n| Cluster { name: format!("c{n}").into(), ..Cluster::default() };
    let scheduler = SchedulerConfig {
        nodes_to_sample_bp: 2_500,
        clusters_to_sample_bp: 6_000,
        commit_timeout: Duration::from_secs(1),
        takeover_wait: Duration::from_secs(4),
        ..SchedulerConfig::new("s", (0..CLUSTERS).map(cluster).collect())
    };
    let settings = Settings {
        seed,
        scheduler,
        schedulers,
        shared_pods: true,
        mirrors: true,
        kubelets: false,
        list_page: 7,
        latencies: Latencies::default(),
        faults,
        live: None,
        measure_every: None,
    };
    World::with_servers(settings, vec![nodes(); CLUSTERS], servers(CLUSTERS, seed, threads))
}

#[test]
fn pod_takes_seven_writes() {
    const PODS: u64 = 40;
    let mut world = world(1, 1, Faults::default(), &Threads::default());
    (0..PODS).for_each(|number| world.arrive(job(number), Duration::from_millis(50 * number)));
    world.calm(Duration::from_secs(60));
    let report = world.report(Duration::ZERO);
    assert_eq!((report.bound, world.placed()), (40, 40), "{report:?}");
    assert_eq!(world.differences(), [""; 0]);
    // The pod, intent, placement and event in the management cluster; delegate, bind and event in
    // the member.
    assert_eq!((report.writes, report.conflicts), (7 * PODS, 0), "{report:?}");
    assert_eq!(world.status_writes(), 0, "the placement says that the pod is scheduled");
}

/// Runs one seed with lost, repeated and late messages and writes, restarts, pods of others and
/// deletions.
fn check(seed: u64, threads: &Threads) -> Report {
    let faults = Faults {
        lost: 0.05,
        repeated: 0.05,
        late: 0.05,
        longest_delay: Duration::from_secs(8),
        lost_writes: 0.05,
        agent_restarts: Some(Duration::from_secs(6)),
        scheduler_restarts: Some(Duration::from_secs(9)),
        longest_restart: Duration::from_secs(2),
        foreign_pods: Some(Duration::from_secs(3)),
        deletions: seed.is_multiple_of(2).then_some(Duration::from_millis(500)),
        ..Faults::default()
    };
    let mut world = world(seed, 3, faults, threads);
    (0..60).for_each(|number| world.arrive(job(number), Duration::from_millis(150 * number)));
    world.run_on(Duration::from_secs(20));
    world.calm(Duration::from_secs(400));
    let report = world.report(Duration::ZERO);
    let context = format!("seed {seed}: {report:?}");
    assert_eq!((report.bound_twice, report.overcommitted), (0, 0), "{context}");
    assert_eq!(report.bound_in_vain, 0, "{context}");
    assert_eq!(world.differences(), [""; 0], "{context}");
    assert_eq!((world.terminating(), world.pending()), (0, vec![]), "{context}");
    assert!(report.bound >= 50, "{context}");
    report
}

#[test]
fn no_pod_runs_twice_and_no_delegate_is_left_over() {
    for seed in 0..4 {
        check(seed, &Threads::default());
    }
}

#[test]
fn threads_of_servers_change_nothing() {
    let alone = check(5, &Threads::default());
    for number in [1, 3] {
        let beside = check(5, &Threads::start(number));
        assert_eq!(format!("{alone:?}"), format!("{beside:?}"), "{number} threads");
    }
}
