//! Writes of volumes and claims that are refused, delayed, or not answered.

use super::*;

const PODS: usize = 12;

/// Binds existing and provisioned volumes while the server answers writes of volumes and claims
/// with these faults.
fn bind_despite(fault: &str) {
    run_in_sandbox(async |cluster, server| {
        cluster.add_node("a", 100).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_class("fast", Kind::Provisioned, json!({})).await;
        let daemon = Daemon::start(cluster).await;
        misbehave(server, &[fault, "only-methods=PATCH", "only-path=/persistentvolume"]);
        for number in 0..PODS {
            let name = format!("data-{number}");
            cluster.add_volume(cluster.volume(&name, "local", &[])).await;
            let class = if number % 2 == 0 { "local" } else { "fast" };
            create_pod_and_claim(cluster, &name, class).await;
        }
        cluster.bound_pods(PODS).await;
        misbehave(server, &[]);
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
        let reserved = reserved_volumes(cluster).await;
        assert_eq!(reserved.len(), PODS / 2, "no volume is held in vain");
        cluster.assert_bound_once().await;
    });
}

#[test]
fn answers_get_lost() {
    bind_despite("lost-answers=0.2");
}

#[test]
fn server_throttles() {
    bind_despite("throttling=0.2");
}

#[test]
fn the_server_fails() {
    bind_despite("errors=0.2");
}

#[test]
fn writes_conflict() {
    bind_despite("conflicts=0.2");
}

#[test]
fn writes_are_slow() {
    bind_despite("latency=1ms..300ms");
}

#[test]
fn watches_break_while_volumes_are_bound() {
    run_in_sandbox(async |cluster, server| {
        cluster.add_node("a", 100).await;
        let parameters = json!({"sandbox/provisioning-seconds": "1"});
        cluster.add_class("slow", Kind::Provisioned, parameters).await;
        let daemon = Daemon::start(cluster).await;
        misbehave(server, &["dropped-watches=1", "compaction=1s"]);
        for number in 0..PODS {
            create_pod_and_claim(cluster, &format!("data-{number}"), "slow").await;
        }
        cluster.bound_pods(PODS).await;
        misbehave(server, &[]);
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
    });
}

#[test]
fn volume_changed_before_its_reservation_is_still_reserved() {
    run_in_sandbox(async |cluster, server| {
        cluster.add_node("a", 1).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("disk", "local", &[])).await;
        let daemon = Daemon::start(cluster).await;
        misbehave(server, &["conflicts=1", "only-methods=PATCH", "only-path=/persistentvolumes"]);
        create_pod_and_claim(cluster, "data", "local").await;
        cluster.has_condition("data", "the object has been modified").await;
        misbehave(server, &[]);
        cluster.bound("data").await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 0.0).await;
    });
}
