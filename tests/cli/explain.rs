//! `explain`: answers from a dump, and refusals.

use serde_json::json;

use super::{loadmaster, loadmaster_with};

const FILES: [&str; 3] = ["--dump", "nodes.yaml", "pods.json"];

#[test]
fn pending_pod_of_a_dump_is_explained_with_what_would_help() {
    let args = [&["explain", "pod", "huge", "-n", "b"][..], &FILES].concat();
    let text = loadmaster(&args).text();
    assert!(text.starts_with("Pod b/huge is pending."), "{text}");
    assert!(text.contains("Now, 0 of 2 nodes can take the pod."), "{text}");
    assert!(text.contains("Insufficient memory"), "{text}");
    assert!(text.contains("What would help"), "{text}");
    assert!(text.contains("a dump has no history"), "{text}");
    let json = loadmaster(&[&args[..], &["-o", "json"]].concat()).json();
    assert_eq!((&json["now"]["asOf"], &json["now"]["feasible"]), (&json!("now"), &json!(0)));
    assert!(json["help"].as_array().is_some_and(|help| !help.is_empty()), "{json}");
    let yaml = loadmaster(&[&args[..], &["-o", "yaml"]].concat()).text();
    assert!(yaml.contains("asOf: now"), "{yaml}");
}

#[test]
fn one_node_a_node_and_the_cluster_are_explained() {
    let args = [&["explain", "pod", "huge", "-n", "b", "--node", "small"][..], &FILES].concat();
    let text = loadmaster(&args).text();
    assert!(text.contains("Node small cannot take the pod: "), "{text}");
    let text = loadmaster(&[&["explain", "node", "small"][..], &FILES].concat()).text();
    assert!(text.starts_with("Node small runs "), "{text}");
    let text = loadmaster(&[&["explain", "cluster", "-o", "wide"][..], &FILES].concat()).text();
    assert!(text.starts_with("2 nodes, "), "{text}");
    let input = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "1", "pods": "9"}}}"#;
    let text = loadmaster_with(&["explain", "cluster", "--dump", "-"], input).text();
    assert!(text.starts_with("1 node, 0 pods with a node, 0 pending."), "{text}");
}

#[test]
fn unknown_objects_and_bad_names_are_refused() {
    let refused = |args: &[&str]| loadmaster(&[args, &FILES].concat()).refused(1);
    let err = refused(&["explain", "pod", "never"]);
    assert!(err.contains("the dump has no pod default/never"), "{err}");
    let err = refused(&["explain", "node", "never"]);
    assert!(err.contains("the dump has no node never"), "{err}");
    let err = refused(&["explain", "group", "never"]);
    assert!(err.contains("no pods of a controller default/never"), "{err}");
    let err = refused(&["explain", "pod", "b/huge"]);
    assert!(err.contains("give the name alone"), "{err}");
    let err = loadmaster(&["explain", "pod", "p", "--kubeconfig", "no-such-file"]).refused(1);
    assert!(err.contains("no-such-file"), "{err}");
    loadmaster(&["explain"]).refused(2);
}

#[test]
fn plugin_of_kubectl_explains_and_runs_no_scheduler() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-loadmaster");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_loadmaster"), &plugin).unwrap();
    let call = |args: &[&str]| {
        let mut command = std::process::Command::new(&plugin);
        command.args(args).current_dir(super::fixtures());
        super::Answer::from(command.output().unwrap())
    };
    let text = call(&[&["explain", "cluster"][..], &FILES].concat()).text();
    assert!(text.starts_with("2 nodes, "), "{text}");
    let err = call(&[]).refused(2);
    assert!(err.contains("runs no scheduler"), "{err}");
}
