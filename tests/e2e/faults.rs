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

/// A lost answer cuts the connection, and with it every list and watch on it. With a larger share
/// the two dozen watches of the start take minutes, because each cut lengthens their backoffs.
#[test]
fn answers_get_lost() {
    schedule_despite(&["lost-answers=0.05"]);
}

#[test]
fn server_throttles() {
    schedule_despite(&["throttling=0.1"]);
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

#[test]
fn late_bind_of_a_killed_scheduler_does_not_overcommit() {
    run(async |cluster| {
        let Some(server) = cluster.sandbox() else {
            return eprintln!("skipped: only the sandbox injects faults");
        };
        cluster.add_node("small", 1).await;
        let kubeconfig = cluster.scheduler_kubeconfig().await;
        let mut killed = Daemon::start(cluster).await;
        cluster.create_pods("first", 1).await;
        cluster.bound_pods(1).await;
        // Rejected once, so that the next scheduler has the same condition to write and does not
        // write it.
        cluster.create_pods("late", 1).await;
        cluster.rejected("late-0").await;
        let delay = Duration::from_secs(8);
        misbehave(server, &["latency=8s", "only-path=/binding"]);
        cluster.delete_pod("first-0").await;
        killed.counts("scheduler_cache_size{type=\"assumed_pods\"}", 1.0).await;
        let sent = tokio::time::Instant::now();
        killed.signal("KILL");
        killed.ended().await;

        misbehave(server, &[]);
        let class = cluster.add_priority("high", 1000, "PreemptLowerPriority").await;
        let mut pod = cluster.pod("urgent", 1);
        pod.spec.as_mut().unwrap().priority_class_name = Some(class);
        cluster.create_pod(&pod).await;
        let _next = Daemon::spawn(cluster, &kubeconfig).await;
        cluster.bound("urgent").await;
        cluster.rejected("late-0").await;
        assert!(sent.elapsed() < delay, "the bind has arrived already");
        tokio::time::sleep_until(sent + delay + Duration::from_secs(1)).await;
        let bound = cluster.bound_pods(1).await;
        assert_eq!(bound.len(), 1, "the node has room for one pod");
    });
}
