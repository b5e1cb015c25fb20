//! Faults of the API server; only the sandbox injects them.

use std::time::Duration;

use sandbox::faults::Settings;
use sandbox::http::Server;

use super::cluster::{Cluster, run};
use super::daemon::Daemon;
use super::wait::eventually;

const PODS: usize = 40;

/// Runs a test with a cluster in the sandbox, and a node with room for all pods.
fn run_in_sandbox(test: impl AsyncFnOnce(&Cluster, &Server)) {
    run(async |cluster| match cluster.sandbox() {
        None => eprintln!("skipped: only the sandbox injects faults"),
        Some(server) => {
            cluster.add_node("a", 100).await;
            test(cluster, server).await;
        }
    });
}

/// Sets faults, in the notation of `loadmaster sandbox --fault`.
fn misbehave(server: &Server, faults: &[&str]) {
    let settings = faults.iter().fold(Settings::default(), |all, one| all.with(one).unwrap());
    server.set_faults(settings);
}

/// Schedules existing pods against a server with these faults.
fn schedule_despite(faults: &[&str]) {
    run_in_sandbox(async |cluster, server| {
        let kubeconfig = cluster.scheduler_kubeconfig().await;
        cluster.create_pods("web", PODS).await;
        misbehave(server, faults);
        let daemon = Daemon::spawn(cluster, &kubeconfig).await;
        cluster.bound_pods(PODS).await;
        misbehave(server, &[]);
        daemon.ready().await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
        cluster.assert_bound_once().await;
    });
}

#[test]
fn answers_get_lost() {
    schedule_despite(&["lost-answers=0.2"]);
}

#[test]
fn server_throttles() {
    schedule_despite(&["throttling=0.2"]);
}

#[test]
fn the_server_fails() {
    schedule_despite(&["errors=0.2"]);
}

#[test]
fn bindings_are_slow_and_conflict() {
    schedule_despite(&["conflicts=0.1", "latency=1ms..50ms", "only-path=/binding"]);
}

#[test]
fn watches_break_and_what_they_missed_is_compacted() {
    run_in_sandbox(async |cluster, server| {
        let daemon = Daemon::start(cluster).await;
        misbehave(server, &["dropped-watches=1", "compaction=1s"]);
        for round in 1..=3 {
            eventually("another watch of pods breaks", async || {
                let broken = daemon.log.lines("\"Failed to watch\" err=\"/api/v1/pods");
                (broken.len() >= round).then_some(())
            })
            .await;
            cluster.create_pods(&format!("web-{round}"), 10).await;
            cluster.bound_pods(10 * round).await;
        }
    });
}

#[test]
fn node_that_a_stalled_watch_misses_is_a_cache_mismatch() {
    run_in_sandbox(async |cluster, server| {
        let daemon = Daemon::start(cluster).await;
        misbehave(server, &["stalled-watches=1", "only-path=/nodes"]);
        let missed = eventually("the watch misses a node", async || {
            let name = format!("missed-{}", jiff::Timestamp::now().as_millisecond());
            cluster.add_node(&name, 1).await;
            daemon.signal("USR2");
            let line = daemon.log.lines("Cache mismatch").pop();
            tokio::time::sleep(Duration::from_secs(1)).await;
            line.map(|line| (line, cluster.node_name("missed-")))
        });
        let (line, node) = missed.await;
        assert!(line.contains("missedNodes=") && line.contains(&node), "{line}");
        assert!(line.contains("redundantNodes=\"\""), "{line}");
        let nodes = "loadmaster_cache_mismatches{kind=\"nodes\"}";
        assert!(daemon.endpoints.metric(nodes).await >= Some(1.0));
    });
}
