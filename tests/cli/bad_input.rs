//! Invalid input: errors and exit codes.

use super::{loadmaster, loadmaster_with, written};

fn pod(name: &str, spec: &str) -> String {
    format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

/// Returns the reason of the only pod that is left pending.
fn reason(pod: &str) -> String {
    let args = ["simulate", "-f", "nodes.yaml", "-", "-o", "json"];
    let answer = loadmaster_with(&args, pod).json();
    let left = answer["simulation"]["left"].as_array().unwrap().clone();
    assert_eq!(left.len(), 1, "{answer:#}");
    left[0]["reason"].as_str().unwrap().to_owned()
}

#[test]
fn invalid_quantity_of_a_pod_names_the_field() {
    let requests = "{containers: [{name: c, resources: {requests: {cpu: 1x}}}]}";
    let reason = reason(&pod("p", requests));
    assert!(
        reason.contains(
            "invalid pod: spec.containers[0].resources.requests[cpu]: cannot read \"1x\""
        ),
        "{reason}"
    );
}

#[test]
fn invalid_pods_are_left_pending_with_a_reason() {
    let rows = [
        (pod("p", "{}"), "spec.containers: is missing"),
        (
            pod("p", "{containers: [{name: c, resources: {requests: {gpu: 1}}}]}"),
            "spec.containers[0].resources.requests[gpu]: is no name of a resource",
        ),
        (
            pod(
                "p",
                "{containers: [{name: c}], affinity: {nodeAffinity: {\
                 requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [\
                 {matchExpressions: [{key: a, operator: Near}]}]}}}}",
            ),
            "nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: \"Near\"",
        ),
        (
            pod("p", "{containers: [{name: c}]}").replace("name: p", "generateName: web-"),
            "names after generateName \"web-\" are made by the API server",
        ),
        (
            pod("p", "{containers: [{name: c, resources: {requests: {memory: 1e300}}}]}"),
            "2 Insufficient memory",
        ),
    ];
    for (pod, expected) in rows {
        let reason = reason(&pod);
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn invalid_quantity_of_a_node_causes_a_warning() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n\
                status: {allocatable: {cpu: many, memory: 99999999999Ei, pods: 3}}\n";
    let answer = loadmaster_with(&["simulate", "-f", "-"], node);
    assert_eq!(answer.code, Some(0));
    assert!(answer.err.contains("Node n: status.allocatable[cpu]: cannot read \"many\""));
    assert!(answer.err.contains("Node n: status.allocatable[memory]: is absurdly large"));
}

#[test]
fn last_object_of_a_name_counts() {
    let twice = pod("p", "{containers: [{name: c}], nodeName: small}")
        + &pod("p", "{containers: [{name: c}], nodeName: large}");
    let answer = loadmaster_with(&["simulate", "-f", "nodes.yaml", "-"], &twice);
    assert!(answer.err.contains("Pod default/p is given twice"), "{}", answer.err);
    assert!(answer.err.contains("document 2 (line 6)"), "{}", answer.err);
    assert!(answer.text().contains("1 pod running before"));
}

#[test]
fn yaml_syntax_error_names_file_and_line() {
    let path = written("broken.yaml", b"apiVersion: v1\nkind: Pod\n---\nkind: [\n  a: b: c\n");
    let error = loadmaster(&["simulate", "-f", &path]).refused(1);
    assert!(error.starts_with(&format!("error: {path}: ")), "{error}");
    assert!(error.contains("line 5"), "{error}");
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = "a: 1\n---\n- b\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n\
                spec: {priority: high}\n---\napiVersion: v1\nkind: List\nitems: 3\n";
    let error = loadmaster_with(&["simulate", "-f", "-", "missing.yaml"], text).refused(1);
    let expected = [
        "error: -: document 1 (line 1): is no Kubernetes object: apiVersion is missing",
        "error: -: document 2 (line 2): is no Kubernetes object: found a list",
        "error: -: document 3 (line 4): Pod p: spec.priority: invalid type: string \"high\", expected i32",
        "error: -: document 4 (line 9): List: items: expected a list, found 3",
        "error: missing.yaml: No such file or directory (os error 2)",
    ];
    assert_eq!(error.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn binary_files_and_empty_folders_are_errors() {
    let path = written("utf16.yaml", b"\xff\xfea\0:\0");
    let error = loadmaster(&["simulate", "-f", &path]).refused(1);
    assert!(error.contains("is UTF-16"), "{error}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli");
    let error = loadmaster(&["simulate", "-f", folder]).refused(1);
    assert!(error.contains("the folder holds no .yaml, .yml or .json file"), "{error}");
}

#[test]
fn explained_pod_must_exist() {
    let args = ["simulate", "-f", "nodes.yaml", "pods.json", "--explain", "a/nobody"];
    let error = loadmaster(&args).refused(1);
    assert!(error.contains("cannot explain a/nobody"), "{error}");
}

#[test]
fn usage_errors_exit_with_2() {
    let rows: [&[&str]; 5] = [
        &["simulate"],
        &["simulate", "-f", "nodes.yaml", "--trace", "openb"],
        &["simulate", "--trace", "openb", "--nodes", "n.csv", "--pods", "p.csv"],
        &["simulate", "-f", "nodes.yaml", "--percentage-of-nodes-to-score", "101"],
        &["simulate", "-f", "nodes.yaml", "--explain", "/x"],
    ];
    for args in rows {
        loadmaster(args).refused(2);
    }
}
