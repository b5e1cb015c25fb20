//! Replicas with leader election: one of them binds.

use serde_json::{Value, json};

use super::cluster::{Cluster, holder, run};
use super::daemon::Daemon;

const LEADS: &str = "leader_election_master_status{name=\"kube-scheduler\"}";

/// Turns leader election on, with a Lease that expires after three seconds.
pub(super) fn elect(cluster: &Cluster, config: &mut Value) {
    config["leaderElection"] = json!({
        "leaderElect": true,
        "leaseDuration": "3s",
        "renewDeadline": "2s",
        "retryPeriod": "500ms",
        "resourceName": cluster.name,
        "resourceNamespace": cluster.name,
    });
}

/// Starts a replica, and waits until it is ready.
async fn start(cluster: &Cluster) -> Daemon {
    Daemon::start_with(cluster, |config| elect(cluster, config)).await
}

/// Starts a leader and a standby, both ready.
async fn start_two(cluster: &Cluster) -> (Daemon, Daemon) {
    let leader = start(cluster).await;
    leads(&leader).await;
    let standby = start(cluster).await;
    standby.log.line("New leader elected").await;
    (leader, standby)
}

/// Waits until a replica leads.
async fn leads(replica: &Daemon) {
    replica.log.line("Successfully acquired lease").await;
}

#[test]
fn standby_takes_over_when_the_leader_stops() {
    run(async |cluster| {
        cluster.add_node("a", 60).await;
        let (mut leader, standby) = start_two(cluster).await;
        cluster.create_pods("early", 20).await;
        cluster.bound_pods(20).await;
        leader.counts(LEADS, 1.0).await;
        standby.counts(LEADS, 0.0).await;
        let first = cluster.held_lease().await;
        standby.log.line(&format!("identity=\"{}\"", holder(&first))).await;

        leader.signal("TERM");
        cluster.create_pods("late", 20).await;
        assert_eq!(leader.ended().await.code(), Some(0));
        leader.log.line("Requested to terminate, exiting").await;
        leads(&standby).await;
        standby.counts(LEADS, 1.0).await;
        cluster.bound_pods(40).await;
        let second = cluster.held_lease().await;
        assert_ne!(holder(&first), holder(&second));
        assert_eq!(second.spec.unwrap().lease_transitions, Some(1));
        cluster.assert_bound_once().await;
    });
}

#[test]
fn standby_takes_over_when_the_leader_is_killed() {
    run(async |cluster| {
        cluster.add_node("a", 60).await;
        let (mut leader, standby) = start_two(cluster).await;
        cluster.create_pods("early", 30).await;
        cluster.bound_pods(1).await;
        leader.signal("KILL");
        leader.ended().await;
        leads(&standby).await;
        cluster.create_pods("late", 10).await;
        cluster.bound_pods(40).await;
        cluster.assert_bound_once().await;
    });
}

#[test]
fn paused_leader_binds_nothing_when_it_wakes_up() {
    run(async |cluster| {
        cluster.add_node("a", 80).await;
        let (mut leader, standby) = start_two(cluster).await;
        cluster.create_pods("early", 30).await;
        cluster.bound_pods(1).await;
        leader.signal("STOP");
        leads(&standby).await;
        cluster.create_pods("late", 30).await;
        cluster.bound_pods(60).await;
        leader.signal("CONT");
        assert_eq!(leader.ended().await.code(), Some(1));
        leader.log.line("Leaderelection lost").await;
        assert!(standby.endpoints.is_ready().await);
        cluster.assert_bound_once().await;
    });
}

#[test]
fn new_leader_is_announced() {
    run(async |cluster| {
        let _leader = start(cluster).await;
        let lease = cluster.held_lease().await;
        let event = cluster.event_about(lease.metadata.uid.as_deref().unwrap()).await;
        assert_eq!(event.reason.as_deref(), Some("LeaderElection"));
        assert_eq!(event.note, Some(format!("{} became leader", holder(&lease))));
        assert_eq!(event.reporting_controller.as_deref(), Some(&*cluster.name));
        assert_eq!(event.regarding.unwrap().kind.as_deref(), Some("Lease"));
    });
}

#[test]
fn deleted_lease_is_created_again() {
    run(async |cluster| {
        cluster.add_node("a", 2).await;
        let leader = start(cluster).await;
        let deleted = cluster.held_lease().await;
        cluster.delete_lease().await;
        let created = cluster.held_lease().await;
        assert_eq!(holder(&created), holder(&deleted));
        assert_ne!(created.metadata.uid, deleted.metadata.uid);
        cluster.create_pod(&cluster.pod("web", 1)).await;
        cluster.bound("web").await;
        leader.counts(LEADS, 1.0).await;
    });
}

#[test]
fn leader_ends_when_another_replica_holds_the_lease() {
    run(async |cluster| {
        let mut leader = start(cluster).await;
        cluster.held_lease().await;
        cluster.give_lease_to("thief").await;
        assert_eq!(leader.ended().await.code(), Some(1));
        let line = leader.log.line("Failed to renew lease").await;
        assert!(line.contains("the lease is held by thief"), "{line}");
        leader.log.line("err=\"Leaderelection lost\"").await;
    });
}

#[test]
fn waiting_replica_ends_on_sigterm() {
    run(async |cluster| {
        let (_leader, mut standby) = start_two(cluster).await;
        let before = cluster.held_lease().await;
        standby.signal("TERM");
        assert_eq!(standby.ended().await.code(), Some(0));
        standby.log.line("Requested to terminate, exiting").await;
        assert_eq!(holder(&cluster.held_lease().await), holder(&before));
    });
}

#[test]
fn missing_permission_for_the_lease_is_named_and_used_once_granted() {
    run(async |cluster| {
        cluster.add_node("a", 1).await;
        let role = cluster.forbid_lease().await;
        let daemon = Daemon::spawn_with(cluster, |config| elect(cluster, config), &[]).await;
        let line = daemon.log.line("Error retrieving lease lock").await;
        let lease = format!(
            "cannot get resource leases in API group coordination.k8s.io, lease {0}/{0}",
            cluster.name
        );
        assert!(line.contains(&lease), "{line}");
        assert!(line.contains("grant the verbs get, watch and update"), "{line}");
        daemon.log.line("Handlers synced").await;
        assert!(!daemon.endpoints.is_ready().await);
        let (_, reason) = daemon.endpoints.get("/readyz/leaderElection").await.unwrap();
        assert!(reason.contains("cannot get resource leases"), "{reason}");

        cluster.create(&role).await;
        daemon.ready().await;
        cluster.create_pod(&cluster.pod("web", 1)).await;
        cluster.bound("web").await;
        assert_eq!(daemon.log.lines("Error retrieving lease lock").len(), 1, "it is told once");
    });
}

#[test]
fn flag_turns_leader_election_off() {
    run(async |cluster| {
        cluster.add_node("a", 1).await;
        let elect = |config: &mut Value| elect(cluster, config);
        let daemon = Daemon::spawn_with(cluster, elect, &["--leader-elect=false"]).await;
        daemon.ready().await;
        cluster.create_pod(&cluster.pod("web", 1)).await;
        cluster.bound("web").await;
        assert!(cluster.lease().await.is_none());
        assert_eq!(daemon.endpoints.metric(LEADS).await, None);
    });
}

#[test]
fn delayed_cache_is_filled_by_the_leader() {
    run(async |cluster| {
        cluster.add_node("a", 2).await;
        let delay = |config: &mut Value| {
            elect(cluster, config);
            config["delayCacheUntilActive"] = true.into();
        };
        let mut leader = Daemon::spawn_with(cluster, delay, &[]).await;
        leader.ready().await;
        let standby = Daemon::spawn_with(cluster, delay, &[]).await;
        standby.log.line("New leader elected").await;
        assert!(!standby.endpoints.is_ready().await, "its cache is empty");
        assert!(standby.log.lines("Caches populated").is_empty());
        leader.signal("TERM");
        leader.ended().await;
        standby.ready().await;
        cluster.create_pod(&cluster.pod("web", 1)).await;
        cluster.bound("web").await;
    });
}

#[test]
fn unsafe_durations_are_refused_at_start() {
    run(async |cluster| {
        let args = ["--leader-elect-retry-period=2s"];
        let elect = |config: &mut Value| elect(cluster, config);
        let mut daemon = Daemon::spawn_with(cluster, elect, &args).await;
        assert_eq!(daemon.ended().await.code(), Some(1));
        let text = "couldn't create leader elector: renewDeadline must be greater than \
                    retryPeriod*JitterFactor";
        daemon.log.line(text).await;
    });
}
