//! The flight recorder: what a daemon records is decided again by `loadmaster replay`.

use std::path::Path;
use std::process::{Command, Output};

use axum::Router;
use axum::routing::post;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::cluster::{Cluster, Kind, chart_rules_with_extenders, run, with_claims};
use super::daemon::{Daemon, folder};

/// Starts an extender that takes every node and prefers the last one. Returns its address.
async fn start_extender() -> String {
    async fn filter(args: String) -> String {
        let args: Value = serde_json::from_str(&args).unwrap();
        json!({"NodeNames": args["NodeNames"]}).to_string()
    }
    async fn prioritize(args: String) -> String {
        let args: Value = serde_json::from_str(&args).unwrap();
        let last = args["NodeNames"].as_array().and_then(|names| names.last());
        json!([{"Host": last, "Score": 10}]).to_string()
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router =
        Router::new().route("/filter", post(filter)).route("/prioritize", post(prioritize));
    tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    url
}

fn with_licence(mut pod: Pod) -> Pod {
    let resources = json!({
        "requests": {"cpu": "1", "example.com/licence": "1"},
        "limits": {"example.com/licence": "1"},
    });
    let spec = pod.spec.as_mut().unwrap();
    spec.containers[0].resources = serde_json::from_value(resources).unwrap();
    pod
}

async fn start(cluster: &Cluster, extender: &str, directory: &Path) -> Daemon {
    let settings = json!({
        "urlPrefix": extender, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5,
        "nodeCacheCapable": true,
        "managedResources": [{"name": "example.com/licence", "ignoredByScheduler": true}],
    });
    let record = format!("--record={}", directory.display());
    let change = |config: &mut Value| config["extenders"] = json!([settings]);
    let daemon = Daemon::spawn_with(cluster, change, &[&record]).await;
    daemon.ready().await;
    daemon
}

fn replay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadmaster")).arg("replay").args(args).output().unwrap()
}

/// Returns the output of a replay that succeeds.
#[track_caller]
fn replayed(args: &[&str]) -> String {
    let Output { status, stdout, stderr } = replay(args);
    let text = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{text}");
    text
}

#[test]
fn recording_of_a_killed_daemon_is_replayed() {
    run(async |cluster| {
        cluster.permit(&chart_rules_with_extenders()).await;
        for (node, cpus) in [("a", 1), ("b", 2)] {
            cluster.add_node(node, cpus).await;
        }
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("disk", "local", &["b"])).await;
        let extender = start_extender().await;
        let directory = folder(cluster).join("recordings");
        let mut daemon = start(cluster, &extender, &directory).await;
        let mut licensed = with_licence(cluster.pod("licensed", 1));
        let env = json!([{"name": "PASSWORD", "value": "hunter2"}]);
        licensed.spec.as_mut().unwrap().containers[0].env = serde_json::from_value(env).unwrap();
        let key = "kubectl.kubernetes.io/last-applied-configuration".to_owned();
        licensed.metadata.annotations = Some([(key, "hunter2".to_owned())].into());
        cluster.create_pod(&licensed).await;
        cluster.bound("licensed").await;
        cluster.add_claim("data", "local").await;
        cluster.create_pod(&with_claims(cluster.pod("data", 1), &["data"])).await;
        assert_eq!(cluster.bound("data").await, cluster.node_name("b"));
        cluster.create_pod(&cluster.pod("large", 3)).await;
        cluster.rejected("large").await;
        let class = cluster.add_priority("high", 1000, "PreemptLowerPriority").await;
        let mut important = cluster.pod("important", 2);
        important.spec.as_mut().unwrap().priority_class_name = Some(class);
        cluster.create_pod(&important).await;
        cluster.bound("important").await;
        // What happened more than a second ago is in the file.
        tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
        daemon.signal("KILL");
        daemon.ended().await;

        let mut daemon = start(cluster, &extender, &directory).await;
        cluster.add_node("c", 1).await;
        cluster.create_pod(&cluster.pod("late", 1)).await;
        cluster.bound("late").await;
        // The daemon has seen that bind when it decides about a pod that was created later.
        cluster.create_pod(&cluster.pod("larger", 4)).await;
        cluster.rejected("larger").await;
        daemon.signal("TERM");
        daemon.ended().await;
        assert!(daemon.log.lines("The recording ends").is_empty());

        let path = directory.to_str().unwrap();
        let text = replayed(&[path]);
        assert_eq!(text.matches("the replay makes the same decisions").count(), 2, "{text}");
        assert!(!text.contains("damaged") && !text.contains("DIFFERS"), "{text}");
        let found = |query: &str| {
            let text = replayed(&[path, "--run=20", "--find", query]);
            let pods = text.lines().filter(|line| line.contains(&cluster.name));
            pods.filter_map(|line| line.split(['/', ' ']).nth(1))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let preempted = found("pod * preempted");
        assert!(preempted.contains(&"data".to_owned()), "{preempted:?}");
        assert!(found("pod * failed").contains(&"large".to_owned()));
        assert!(
            found(&format!("pod {}/l* pending > 1s", cluster.name)).contains(&"large".to_owned())
        );
        assert_eq!(found("pod late bound < 1h"), ["late"]);
        let pod = format!("{}/large", cluster.name);
        let text = replayed(&[path, "--explain", &pod]);
        assert!(text.contains("Insufficient cpu"), "{text}");
        let test = directory.join("test.rec");
        replayed(&[path, "--to-test", test.to_str().unwrap()]);
        let text = replayed(&[test.to_str().unwrap()]);
        assert!(text.contains("the replay makes the same decisions"), "{text}");
        let bytes = std::fs::read(&test).unwrap();
        let (mut reader, _) = recording::FileReader::open(&*bytes).unwrap();
        while let Some(frame) = reader.next_frame().unwrap() {
            let text = String::from_utf8_lossy(&frame);
            assert!(!text.contains("hunter2"), "a value of an environment variable is recorded");
        }
    });
}

#[test]
fn directory_that_cannot_be_used_stops_no_scheduling() {
    run(async |cluster| {
        cluster.add_node("a", 2).await;
        let daemon = Daemon::spawn_with(cluster, |_| {}, &["--record=/dev/null/recordings"]).await;
        daemon.ready().await;
        daemon.log.line("Nothing is recorded: the directory of --record cannot be used").await;
        cluster.create_pod(&cluster.pod("web", 1)).await;
        cluster.bound("web").await;
        daemon.counts("loadmaster_recordings_ended_total{cause=\"disk\"}", 1.0).await;
    });
}
