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
        reason.starts_with(
            "the pod is invalid, and an API server refuses it: spec.containers[0].resources.requests[cpu]: cannot read \"1x\""
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
    let path = written("binary.yaml", b"a: \xff");
    let error = loadmaster(&["simulate", "-f", &path]).refused(1);
    assert!(error.contains("is neither UTF-8 nor UTF-16 text"), "{error}");
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

/// A pod with an unknown field and a field given twice, a misspelt kind, an old version, and a kind
/// that is not read.
const DOUBTFUL: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeSelecter: {a: b}, containers: [{name: c, resources: {requests: {cpu: 1, cpu: 2}}}]}
---
apiVersion: apps/v1
kind: Deploymnt
metadata: {name: d}
---
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
";

#[test]
fn whatever_is_not_read_is_said() {
    let said = [
        "-: document 1 (line 1): Pod p: unknown field \"spec.nodeSelecter\"",
        "-: document 1 (line 1): Pod p: duplicate field \"spec.containers[0].resources.requests.cpu\"",
        "-: document 2 (line 5): Deploymnt of apps/v1 is ignored: there is no such kind; did you mean \
         Deployment?",
        "-: document 3 (line 9): PodDisruptionBudget of policy/v1beta1 is ignored: it is read as policy/v1",
    ];
    let args = ["simulate", "-f", "nodes.yaml", "-"];
    let answer = loadmaster_with(&args, DOUBTFUL);
    let warnings: Vec<&str> = answer.err.lines().collect();
    assert_eq!(warnings, said.map(|text| format!("warning: {text}")));
    let text = answer.text();
    assert!(
        text.contains("No plugin reads: ConfigMap (1), Deploymnt (1), PodDisruptionBudget (1)."),
        "{text}"
    );

    for strict in ["--validate", "--validate=strict", "--validate=true"] {
        let error = loadmaster_with(&[&args[..], &[strict]].concat(), DOUBTFUL).refused(1);
        assert_eq!(error.lines().collect::<Vec<_>>(), said.map(|text| format!("error: {text}")));
    }
    let answer = loadmaster_with(&[&args[..], &["--validate=ignore"]].concat(), DOUBTFUL);
    assert_eq!((answer.code, &*answer.err), (Some(0), ""));
}

#[test]
fn workloads_that_cannot_be_decoded_are_errors() {
    let workload = |spec: &str| {
        format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\nspec: {spec}\n")
    };
    let rows = [
        ("{replicas: many}", "Deployment d: spec.replicas: invalid type: string \"many\""),
        (
            "{template: {spec: {priority: high}}}",
            "Deployment d: spec.template.spec.priority: invalid type: string \"high\"",
        ),
    ];
    for (spec, expected) in rows {
        let error = loadmaster_with(&["simulate", "-f", "-"], &workload(spec)).refused(1);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn input_without_anything_to_schedule_is_an_error() {
    let configs = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n";
    let ended = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nstatus: {phase: Failed}\n";
    let rows = [
        ("", "no object"),
        ("# nothing\n---\n", "no object"),
        ("{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": []}", "no object"),
        (configs, "no node, pod or workload among 1 object"),
        (ended, "no node, and no pod but 1 that ended"),
    ];
    for (input, expected) in rows {
        let error = loadmaster_with(&["simulate", "-f", "-"], input).refused(1);
        let start = format!("error: the input: {expected}; a complete dump: loadmaster dump");
        assert!(error.starts_with(&start), "{error}");
    }
}

#[test]
fn kinds_that_pods_need_and_the_dump_lacks_are_named() {
    let claim =
        "{containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]}";
    let devices = "{containers: [{name: c}], resourceClaims: [{name: r, resourceClaimName: x}]}";
    let priority = "{containers: [{name: c}], priorityClassName: high}";
    let owned = pod("owned", "{containers: [{name: c}]}").replace(
        "name: owned",
        "name: owned, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, controller: true}]",
    );
    let rows = [
        (pod("p", claim), "1 pending pod (default/p) name PersistentVolumeClaims"),
        (pod("p", devices), "1 pending pod (default/p) name ResourceClaims"),
        (pod("p", devices), "1 pending pod (default/p) need devices of ResourceSlices"),
        (owned, "1 pending pod (default/owned) belong to ReplicaSets"),
        (
            pod("p", priority),
            "1 pod (default/p) with spec.priorityClassName high: there is no such PriorityClass",
        ),
    ];
    for (pod, expected) in rows {
        let answer = loadmaster_with(&["simulate", "-f", "nodes.yaml", "-"], &pod);
        assert!(answer.err.contains(expected), "{}", answer.err);
    }
}

/// Every document shows the command that the messages show.
#[test]
fn there_is_one_dump_command() {
    let error = loadmaster_with(&["simulate", "-f", "-"], "").refused(1);
    let (_, command) = error.trim_end().split_once("a complete dump: ").unwrap();
    let help = loadmaster(&["simulate", "--help"]).text();
    assert!(help.contains(command), "{help}");
    for document in ["docs/simulate.md", "docs/tour.md", "docs/guides/troubleshooting.md"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(command), "{document}: {command}");
    }
}
