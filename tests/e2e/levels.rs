//! The level of Kubernetes that the daemon follows: what chooses it, and where the daemon says so.

use framework::Level;
use serde_json::Value;

use super::cluster::run;
use super::daemon::Daemon;
use super::proxy::{Proxy, Way};

/// Returns what `/configz` says of the level.
async fn shown(daemon: &Daemon) -> Value {
    let (_, text) = daemon.endpoints.get("/configz").await.unwrap();
    let configz: Value = serde_json::from_str(&text).unwrap();
    configz["level"].clone()
}

#[test]
fn server_chooses_the_level() {
    run(async |cluster| {
        let daemon = Daemon::start(cluster).await;
        let level = cluster.level().await.to_string();
        let line = daemon.log.line("Following the version of the API server").await;
        assert!(line.contains(&format!("level=\"{level}\"")), "{line}");
        let shown = shown(&daemon).await;
        assert_eq!(shown["emulatedVersion"], level);
        let chosen_by = shown["chosenBy"].as_str().unwrap();
        assert!(chosen_by.starts_with("the API server, which runs v1."), "{chosen_by}");
    });
}

#[test]
fn server_that_was_silent_chooses_another_level_later() {
    run(async |cluster| {
        cluster.add_node("a", 1).await;
        let level = cluster.level().await;
        let proxy = Proxy::start(&cluster.scheduler_kubeconfig().await, Way::Mute).await;
        let mut daemon = Daemon::spawn(cluster, &proxy.kubeconfig).await;
        let line = daemon.log.line("Following the default version").await;
        let default = Level::default();
        assert!(line.contains(&format!("level=\"{default}\"")), "{line}");
        assert!(line.contains("the API server did not answer within 5 s"), "{line}");
        proxy.set(Way::Open);
        if level != default {
            daemon.log.line(&format!("starting again at level {level}")).await;
            daemon.log.line("Following the version of the API server").await;
        }
        daemon.ready().await;
        assert_eq!(shown(&daemon).await["emulatedVersion"], level.to_string());
        cluster.create_pod(&cluster.pod("web", 1)).await;
        cluster.bound("web").await;
        daemon.signal("TERM");
        assert_eq!(daemon.ended().await.code(), Some(0));
    });
}

#[test]
fn level_of_the_flag_is_followed_beside_an_older_server() {
    run(async |cluster| {
        let newest = Level::V1_37;
        let daemon = Daemon::spawn_with(cluster, |_| {}, &["--emulated-version=1.37"]).await;
        daemon.ready().await;
        let line = daemon.log.line("Following the version of --emulated-version").await;
        assert!(line.contains("level=\"1.37\""), "{line}");
        let shown = shown(&daemon).await;
        assert_eq!(
            (&shown["emulatedVersion"], &shown["chosenBy"]),
            (&Value::from("1.37"), &Value::from("--emulated-version"),)
        );
        let mut version = "v1";
        if !cluster.level().await.is_at_least(newest) {
            daemon.log.line("must not be newer, so use --emulated-version=1.36").await;
            daemon.log.line("does not serve DeviceTaintRules in version v1").await;
            version = "v1beta2";
        }
        // DeviceTaintRules are watched since 1.37.
        let series = format!(
            "informer_queued_items{{group=\"resource.k8s.io\",name=\"kube-scheduler\",\
             resource=\"devicetaintrules\",version=\"{version}\"}}"
        );
        daemon.counts(&series, 0.0).await;
    });
}
