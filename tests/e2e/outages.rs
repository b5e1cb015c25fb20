//! Outages of the scheduler, the API server, or the connection between them, under load.

use std::time::Duration;

use super::cluster::{chart_rules, run};
use super::daemon::Daemon;
use super::proxy::{Proxy, Way};

#[test]
fn killed_scheduler_continues_after_a_restart() {
    run(async |cluster| {
        cluster.add_node("a", 60).await;
        let mut daemon = Daemon::start(cluster).await;
        cluster.create_pods("early", 30).await;
        cluster.bound_pods(1).await;
        daemon.signal("KILL");
        daemon.ended().await;
        cluster.create_pods("late", 30).await;
        let _restarted = Daemon::start(cluster).await;
        cluster.bound_pods(60).await;
        cluster.assert_bound_once().await;
    });
}

#[test]
fn pods_are_bound_over_a_slow_connection() {
    run(async |cluster| {
        cluster.add_node("a", 30).await;
        let slow = Way::Slow(Duration::from_millis(150));
        let proxy = Proxy::start(&cluster.scheduler_kubeconfig().await, slow).await;
        let daemon = Daemon::spawn(cluster, &proxy.kubeconfig).await;
        daemon.ready().await;
        cluster.create_pods("web", 30).await;
        cluster.bound_pods(30).await;
        cluster.assert_bound_once().await;
    });
}

#[test]
fn requests_in_progress_finish_before_shutdown() {
    run(async |cluster| {
        cluster.add_node("a", 1).await;
        let proxy = Proxy::start(&cluster.scheduler_kubeconfig().await, Way::Open).await;
        let mut daemon = Daemon::spawn(cluster, &proxy.kubeconfig).await;
        daemon.ready().await;
        let assumed = "scheduler_cache_size{type=\"assumed_pods\"}";
        // The review of the caller is cached for 10 seconds, in which the API server is not needed.
        daemon.counts(assumed, 0.0).await;
        proxy.set(Way::Mute);
        cluster.create_pod(&cluster.pod("web", 1)).await;
        daemon.counts(assumed, 1.0).await;
        daemon.signal("TERM");
        daemon.log.line("Shutting down").await;
        assert!(!daemon.probes.is_ready().await);
        proxy.set(Way::Open);
        assert_eq!(daemon.ended().await.code(), Some(0));
        cluster.bound("web").await;
    });
}

#[test]
fn second_signal_ends_the_daemon_at_once() {
    run(async |cluster| {
        cluster.add_node("a", 1).await;
        let proxy = Proxy::start(&cluster.scheduler_kubeconfig().await, Way::Open).await;
        let mut daemon = Daemon::spawn(cluster, &proxy.kubeconfig).await;
        daemon.ready().await;
        proxy.set(Way::Mute);
        cluster.create_pod(&cluster.pod("web", 1)).await;
        daemon.counts("scheduler_cache_size{type=\"assumed_pods\"}", 1.0).await;
        daemon.signal("TERM");
        daemon.log.line("Shutting down").await;
        daemon.signal("INT");
        assert_eq!(daemon.ended().await.code(), Some(1), "the bind is not answered");
    });
}

#[test]
fn idle_daemon_ends_on_sigterm() {
    run(async |cluster| {
        for signal in ["TERM", "INT"] {
            let mut daemon = Daemon::start(cluster).await;
            daemon.signal(signal);
            assert_eq!(daemon.ended().await.code(), Some(0), "{signal}");
        }
    });
}

#[test]
fn daemon_without_a_server_ends_on_sigterm() {
    run(async |cluster| {
        let proxy = Proxy::start(&cluster.scheduler_kubeconfig().await, Way::Cut).await;
        let mut daemon = Daemon::spawn(cluster, &proxy.kubeconfig).await;
        daemon.log.line("Cannot reach the API server").await;
        daemon.signal("TERM");
        assert_eq!(daemon.ended().await.code(), Some(0));
    });
}

#[test]
fn pods_created_during_an_outage_are_bound_afterwards() {
    run(async |cluster| {
        cluster.add_node("a", 40).await;
        let proxy = Proxy::start(&cluster.scheduler_kubeconfig().await, Way::Open).await;
        let daemon = Daemon::spawn(cluster, &proxy.kubeconfig).await;
        daemon.ready().await;
        for round in 0..4 {
            cluster.create_pods(&format!("seen-{round}"), 5).await;
            proxy.set(Way::Cut);
            cluster.create_pods(&format!("missed-{round}"), 5).await;
            proxy.set(Way::Open);
        }
        cluster.bound_pods(40).await;
        cluster.assert_bound_once().await;
    });
}

#[test]
fn missing_permission_is_named_and_used_once_granted() {
    run(async |cluster| {
        cluster.add_node("a", 1).await;
        let all = chart_rules();
        let lists_pods = |resources: &Vec<String>| resources.contains(&"pods".to_owned());
        let mut without_pods = all.clone();
        without_pods.retain(|rule| !rule.resources.as_ref().is_some_and(lists_pods));
        assert_eq!(without_pods.len(), all.len() - 1);
        cluster.permit(&without_pods).await;

        let daemon = Daemon::spawn(cluster, &cluster.scheduler_kubeconfig().await).await;
        let line = daemon.log.line("pods is forbidden").await;
        let account = format!("system:serviceaccount:{0}:{0}", cluster.name);
        assert!(line.contains(&account), "{line}");
        assert!(line.contains("cannot watch resource \\\"pods\\\""), "{line}");
        assert!(!daemon.probes.is_ready().await);

        cluster.permit(&all).await;
        daemon.ready().await;
        cluster.create_pod(&cluster.pod("web", 1)).await;
        cluster.bound("web").await;
        assert_eq!(daemon.log.lines("pods is forbidden").len(), 1, "it is told once");
    });
}
