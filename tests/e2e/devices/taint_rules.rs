//! DeviceTaintRules, behind their gate.

use serde_json::{Value, json};

use super::super::cluster::{Cluster, chart_rules_with_device_taint_rules};
use super::super::daemon::Daemon;
use super::{explanation, run};

/// Starts a daemon that follows DeviceTaintRules, or not.
async fn start(cluster: &Cluster, follows_rules: bool) -> Daemon {
    let gate = format!("--feature-gates=DRADeviceTaintRules={follows_rules}");
    let daemon = Daemon::spawn_with(cluster, |_| {}, &[&gate]).await;
    daemon.ready().await;
    daemon
}

/// Runs a test in a cluster with two devices on node `a`, and a rule that taints those that
/// `selector` returns for the name of their pool.
fn run_tainted(selector: impl Fn(&str) -> Value, test: impl AsyncFnOnce(&Cluster)) {
    run(async |cluster| {
        cluster.permit(&chart_rules_with_device_taint_rules()).await;
        cluster.add_node("a", 4).await;
        cluster.add_devices("a", 2).await;
        if !cluster.taint_devices("rule", selector(&cluster.node_name("a"))).await {
            eprintln!("skipped: the API server does not serve DeviceTaintRules");
            return;
        }
        test(cluster).await;
    });
}

#[test]
fn pod_waits_until_the_rule_that_taints_its_devices_is_gone() {
    run_tainted(
        |pool| json!({"pool": pool}),
        async |cluster| {
            let daemon = start(cluster, true).await;
            cluster.create_pod(&cluster.pod_with_device("train")).await;
            let text = "0/1 nodes are available: 1 cannot allocate all claims. still not \
                        schedulable, preemption: ";
            cluster.has_condition("train", text).await;
            let reason = "0 of 1 devices; the node has 2: 2 with an untolerated taint";
            explanation(&daemon, cluster, "train", reason).await;
            cluster.remove_device_taint("rule").await;
            cluster.bound("train").await;
        },
    );
}

#[test]
fn rule_leaves_the_other_devices() {
    run_tainted(
        |pool| json!({"pool": pool, "device": "gpu-0"}),
        async |cluster| {
            let daemon = start(cluster, true).await;
            cluster.create_pod(&cluster.pod_with_device("train")).await;
            cluster.bound("train").await;
            let claims = cluster.all_device_claims().await;
            let device = format!("{}/gpu-1", cluster.node_name("a"));
            assert_eq!(super::devices_of(&claims[0]), [device]);
            cluster.create_pod(&cluster.pod_with_device("late")).await;
            cluster.has_condition("late", "1 cannot allocate all claims").await;
            let reason = "the node has 2: 1 in use, 1 with an untolerated taint";
            explanation(&daemon, cluster, "late", reason).await;
        },
    );
}

#[test]
fn rule_has_no_effect_without_its_gate() {
    run_tainted(
        |pool| json!({"pool": pool}),
        async |cluster| {
            let _daemon = start(cluster, false).await;
            cluster.create_pod(&cluster.pod_with_device("train")).await;
            cluster.bound("train").await;
        },
    );
}

/// kube-controller-manager evicts pods from devices with the effect `NoExecute`; a scheduler does
/// not.
#[test]
fn pod_keeps_a_device_that_is_tainted_later() {
    run(async |cluster| {
        cluster.permit(&chart_rules_with_device_taint_rules()).await;
        cluster.add_node("a", 4).await;
        cluster.add_devices("a", 2).await;
        let daemon = start(cluster, true).await;
        cluster.create_pod(&cluster.pod_with_device("train")).await;
        cluster.bound("train").await;
        drop(daemon);
        if !cluster.taint_devices("rule", json!({})).await {
            eprintln!("skipped: the API server does not serve DeviceTaintRules");
            return;
        }
        // A new process lists the rule before its first decision.
        let _daemon = start(cluster, true).await;
        cluster.create_pod(&cluster.pod_with_device("late")).await;
        cluster.has_condition("late", "1 cannot allocate all claims").await;
        cluster.bound("train").await;
        super::assert_reserved_rightly(cluster, 1).await;
        cluster.remove_device_taint("rule").await;
        cluster.bound("late").await;
        super::assert_reserved_rightly(cluster, 1).await;
    });
}
