//! `loadmaster explain` against a running daemon.

use std::fs;
use std::process::Command;

use http::StatusCode;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::cluster::run;
use super::daemon::{Daemon, folder};

#[test]
fn first_suggestion_schedules_the_pending_pod() {
    run(async |cluster| {
        cluster.add_node_with("a", 4, json!({"unschedulable": true})).await;
        let daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod("web", 1)).await;
        cluster.rejected("web").await;
        let path = format!("/explain/pods/{}/web", cluster.name);
        let (status, text) = daemon.endpoints.get(&path).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["facts"]["state"], "unschedulable", "{text}");
        assert_eq!(answer["facts"]["history"][0]["outcome"], "rejected", "{text}");
        let first = &answer["help"][0];
        let node = cluster.node_name("a");
        assert_eq!(first["command"], format!("kubectl uncordon {node}"), "{text}");
        cluster.patch_node("a", json!({"unschedulable": null})).await;
        assert_eq!(cluster.bound("web").await, node);
        let (_, text) = daemon.endpoints.get(&path).await.unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["facts"]["node"], node, "{text}");
        let attempts = answer["facts"]["history"].as_array().unwrap();
        assert_eq!(attempts.last().unwrap()["outcome"], "chosen", "{text}");
    });
}

#[test]
fn command_asks_the_port_with_the_token_of_a_kubeconfig() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let daemon = Daemon::start(cluster).await;
        cluster.create_pod(&cluster.pod("large", 6)).await;
        cluster.rejected("large").await;
        let may_read_pods = PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["pods".to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        };
        cluster.add_caller_with("support", &["/explain/*"], vec![may_read_pods]).await;
        cluster.add_caller("stranger", &["/explain/*"]).await;
        let folder = folder(cluster);
        let ask = async |account: &str, pod: &str| {
            let token = cluster.token_of(account).await;
            let kubeconfig = cluster.kubeconfig_of(json!({"token": token}));
            let file = folder.join(account);
            fs::write(&file, serde_json::to_string(&kubeconfig).unwrap()).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_loadmaster"));
            command.args([
                "explain",
                "pod",
                pod,
                "-n",
                &cluster.name,
                "--insecure-skip-tls-verify",
            ]);
            command.arg(format!("--server=https://127.0.0.1:{}", daemon.port));
            command.arg(format!("--kubeconfig={}", file.display()));
            let output =
                tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (output.status.success(), text(output.stdout), text(output.stderr))
        };
        let (succeeds, out, err) = ask("support", "large").await;
        assert!(succeeds, "{err}");
        assert!(out.contains("is pending: no node can take it."), "{out}");
        assert!(out.contains("Insufficient cpu") && out.contains("What would help"), "{out}");
        let mut other = cluster.pod("other", 1);
        other.spec.as_mut().unwrap().scheduler_name = Some("another".to_owned());
        cluster.create_pod(&other).await;
        for (pod, reason) in
            [("never", "there is no pod"), ("other", "belongs to the scheduler another")]
        {
            let (succeeds, _, err) = ask("support", pod).await;
            assert!(!succeeds && err.contains(reason), "{err}");
        }
        let (succeeds, _, of_unknown) = ask("stranger", "never").await;
        assert!(!succeeds && of_unknown.contains("status 404"), "{of_unknown}");
        let (_, _, of_known) = ask("stranger", "large").await;
        assert_eq!(of_known.replace("large", "never"), of_unknown);
    });
}

#[test]
fn running_scheduler_says_what_a_drain_does() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_node("b", 4).await;
        let daemon = Daemon::spawn_with(cluster, |_| {}, &["--whatif"]).await;
        daemon.ready().await;
        cluster.create_pod(&cluster.pod("web", 3)).await;
        let node = cluster.bound("web").await;
        let list = |resource: &str| PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec![resource.to_owned()]),
            verbs: vec!["list".to_owned()],
            ..PolicyRule::default()
        };
        let post = PolicyRule {
            non_resource_urls: Some(vec!["/whatif/v1".to_owned()]),
            verbs: vec!["post".to_owned()],
            ..PolicyRule::default()
        };
        let rules = vec![list("pods"), list("nodes"), post.clone()];
        cluster.add_caller_with("planner", &["/whatif/*"], rules).await;
        cluster.add_caller_with("outsider", &["/whatif/*"], vec![post]).await;
        let folder = folder(cluster);
        let change = folder.join("drain.yaml");
        let text = format!(
            "apiVersion: whatif.loadmaster.io/v1\nkind: Changes\ndrain: [{node}]\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {{name: large, namespace: {}}}\n\
             spec: {{schedulerName: {}, containers: [{{name: c, image: i, resources: {{requests: {{cpu: '4'}}}}}}]}}\n",
            cluster.name, cluster.name
        );
        fs::write(&change, text).unwrap();
        let ask = async |account: &str, more: &[&str]| {
            let token = cluster.token_of(account).await;
            let kubeconfig = cluster.kubeconfig_of(json!({"token": token}));
            let file = folder.join(account);
            fs::write(&file, serde_json::to_string(&kubeconfig).unwrap()).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_loadmaster"));
            command.args(["whatif", "-f"]).arg(&change).arg("--insecure-skip-tls-verify");
            command.arg(format!("--server=https://127.0.0.1:{}", daemon.port)).args(more);
            command.arg(format!("--kubeconfig={}", file.display()));
            let output =
                tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (output.status.code(), text(output.stdout), text(output.stderr))
        };
        let picture = folder.join("drain.svg");
        let plot = format!("--plot={}", picture.display());
        let (code, out, err) = ask("planner", &["-o", "json", &plot, "--fail-if-pending"]).await;
        assert_eq!(code, Some(1), "{err}");
        let answer: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(answer["lost"][0]["name"], "web", "a pod without a controller: {out}");
        assert_eq!(answer["placed"][0]["name"], "large", "{out}");
        assert!(fs::read_to_string(picture).unwrap().contains("With the change: 2 nodes"));
        let (code, out, _) = ask("planner", &[]).await;
        assert!(code == Some(0) && out.contains("LOST, no controller makes them again"), "{out}");
        let (code, _, err) = ask("outsider", &[]).await;
        assert!(code == Some(1) && err.contains("status 403"), "{err}");
        assert_eq!(cluster.bound("web").await, node, "nothing has changed");
    });
}

#[test]
fn running_scheduler_says_which_moves_make_room() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_node("b", 4).await;
        let daemon = Daemon::spawn_with(cluster, |_| {}, &["--whatif"]).await;
        daemon.ready().await;
        for name in ["web-1", "web-2"] {
            let mut pod = cluster.pod(name, 1);
            pod.metadata.owner_references = Some(vec![OwnerReference {
                // The garbage collector does not know the kind, and leaves the pod.
                api_version: "example.com/v1".to_owned(),
                kind: "Web".to_owned(),
                name: "web".to_owned(),
                uid: "5c0d2b9e-6d0b-4b0a-9d53-0f5ad5a0b1aa".to_owned(),
                controller: Some(true),
                ..OwnerReference::default()
            }]);
            cluster.create_pod(&pod).await;
        }
        let nodes = [cluster.bound("web-1").await, cluster.bound("web-2").await];
        assert_ne!(nodes[0], nodes[1], "the emptier node is better");
        cluster.create_pod(&cluster.pod("large", 4)).await;
        let list = |resource: &str| PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec![resource.to_owned()]),
            verbs: vec!["list".to_owned()],
            ..PolicyRule::default()
        };
        let rules = vec![list("pods"), list("nodes")];
        cluster.add_caller_with("planner", &["/whatif/*"], rules).await;
        let token = cluster.token_of("planner").await;
        let file = folder(cluster).join("planner");
        let kubeconfig = cluster.kubeconfig_of(json!({"token": token}));
        fs::write(&file, serde_json::to_string(&kubeconfig).unwrap()).unwrap();
        let ask = async |more: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_loadmaster"));
            command.args(["whatif", "-o", "json", "--insecure-skip-tls-verify"]).args(more);
            command.arg(format!("--server=https://127.0.0.1:{}", daemon.port));
            command.arg(format!("--kubeconfig={}", file.display()));
            let output =
                tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
            let err = String::from_utf8_lossy(&output.stderr).into_owned();
            let answer = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
            (output.status.code(), answer, err)
        };
        let large = format!("{}/large", cluster.name);
        let (code, room, err) = ask(&["--make-room-for", &large, "--fail-if-pending"]).await;
        assert_eq!((code, &room["outcome"]), (Some(0), &json!("plan")), "{room} {err}");
        assert_eq!(
            (room["moves"].as_array().map(Vec::len), &room["cost"]),
            (Some(1), &json!(3000))
        );
        let none = ["--make-room-for", &large, "--most-moves", "0", "--fail-if-pending"];
        assert_eq!(ask(&none).await.0, Some(1));
        let (code, found, err) = ask(&["--empty-nodes"]).await;
        assert_eq!((code, found["nodes"].as_array().map(Vec::len)), (Some(0), Some(1)), "{err}");
        let (code, _, err) = ask(&["--make-room-for", "none"]).await;
        assert!(code == Some(1) && err.contains("default/none"), "{err}");
        assert_eq!(cluster.bound("web-1").await, nodes[0], "nothing has changed");
    });
}
