//! Rules: the reason of a rejection, and new rules while the daemon runs.

use serde_json::{Value, json};

use super::cluster::{Cluster, run};
use super::daemon::Daemon;
use super::leader_election::elect;
use super::wait::eventually;

/// Enables a filter on the label `tier` of nodes, which no node has.
fn filter(cluster: &Cluster, config: &mut Value, expression: &str) {
    elect(cluster, config);
    let profile = &mut config["profiles"][0];
    profile["plugins"] = json!({"multiPoint": {"enabled": [{"name": "Rules"}]}});
    let rule = json!({"name": "tier", "expression": expression, "message": "node has no tier"});
    profile["pluginConfig"] = json!([{"name": "Rules", "args": {"filters": [rule]}}]);
}

/// Waits until an event about the Lease has this reason and text.
async fn lease_event(cluster: &Cluster, reason: &str, text: &str) {
    eventually(&format!("an event {reason} about the Lease says {text:?}"), async || {
        let events = cluster.events_for(reason).await;
        let is_it = |event: &&k8s_openapi::api::events::v1::Event| {
            let of_lease = event.regarding.as_ref()?.kind.as_deref() == Some("Lease");
            Some(of_lease && event.note.as_deref()?.contains(text))
        };
        events.iter().find(|event| is_it(event) == Some(true)).map(|_| ())
    })
    .await;
}

#[test]
fn new_rules_wake_the_pods_that_they_let_onto_a_node() {
    const GOLD: &str = r#"node.metadata.labels[?"tier"].orValue("") == "gold""#;
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let daemon = Daemon::start_with(cluster, |config| filter(cluster, config, GOLD)).await;
        let reloads = |result: &str, count: f64| {
            let labels = format!("profile=\"{}\",result=\"{result}\"", cluster.name);
            let series = format!("loadmaster_rules_reloads_total{{{labels}}}");
            let daemon = &daemon;
            async move { daemon.counts(&series, count).await }
        };
        let pod = cluster.create_pod(&cluster.pod("web", 1)).await;
        cluster.has_condition("web", "1 node has no tier").await;
        let [event] = cluster.events(&pod, "FailedScheduling").await.try_into().unwrap();
        assert!(event.note.unwrap().contains("1 node has no tier"));

        // A wrong rule.
        daemon.configure(cluster, |config| filter(cluster, config, "node.metadata.label == 1"));
        daemon.signal("HUP");
        daemon.log.line("Keeping the old arguments of the plugin").await;
        reloads("error", 1.0).await;
        lease_event(cluster, "ArgumentsRejected", "'node.metadata.label' is not readable").await;
        cluster.create_pod(&cluster.pod("second", 1)).await;
        cluster.has_condition("second", "1 node has no tier").await;

        // A right one.
        let tin = GOLD.replace("gold", "");
        daemon.configure(cluster, |config| filter(cluster, config, &tin));
        daemon.signal("HUP");
        assert_eq!(cluster.bound("web").await, cluster.node_name("a"));
        cluster.bound("second").await;
        reloads("success", 1.0).await;
        lease_event(cluster, "ArgumentsReloaded", "The new arguments of Rules are in force").await;

        // The file is read without a signal, too.
        daemon.configure(cluster, |config| filter(cluster, config, GOLD));
        reloads("success", 2.0).await;
        cluster.create_pod(&cluster.pod("third", 1)).await;
        cluster.has_condition("third", "1 node has no tier").await;
    });
}
