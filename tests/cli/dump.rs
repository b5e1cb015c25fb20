//! `dump`, and commands that read a cluster themselves.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{api, loadmaster, placements, written};

/// A sandbox without a scheduler, until the end of the test.
struct Sandbox {
    process: Child,
    kubeconfig: String,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn sandbox(name: &str, objects: &[Value]) -> Sandbox {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let file = written(&format!("{name}.json"), list.to_string().as_bytes());
    let kubeconfig = written(&format!("{name}.kubeconfig"), b"");
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadmaster"));
    command.args(["sandbox", "--no-scheduler", "--no-kubelets", "-f", &file]);
    command.args(["--write-kubeconfig", &kubeconfig]).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.starts_with("loaded")));
    Sandbox { process, kubeconfig }
}

fn cluster() -> Vec<Value> {
    let pod = |name: String, node: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop",
            "labels": {"app": "acme"}, "annotations": {"acme.com/token": "s3cret"}},
            "spec": {"nodeName": node, "nodeSelector": {"acme.com/rack": "r1"}, "containers": [{
                "name": "c", "image": "acme/c", "env": [{"name": "PASSWORD", "value": "s3cret"}],
                "resources": {"requests": {"cpu": "10m"}}}]}})
    };
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "acme-node",
        "labels": {"acme.com/rack": "r1"}}, "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "2000"}}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"},
        "stringData": {"password": "s3cret"}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let pending = (0..600).map(|number| pod(format!("acme-{number}"), Value::Null));
    let mut objects = vec![node, secret, claim, pod("runs".to_owned(), json!("acme-node"))];
    objects.extend(pending);
    objects
}

#[test]
fn dump_of_a_cluster_is_simulated_like_the_cluster_itself() {
    let sandbox = sandbox("dump", &cluster());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.json");
    let (file, kubeconfig) = (file.to_str().unwrap(), &*sandbox.kubeconfig);
    let answer = loadmaster(&["dump", "--kubeconfig", kubeconfig, "-o", file]);
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    assert!(
        answer.err.contains("left out, because the cluster does not have them: "),
        "{}",
        answer.err
    );
    assert!(answer.err.contains("jobsets.jobset.x-k8s.io"), "{}", answer.err);
    let dump = fs::read_to_string(file).unwrap();
    assert!(!dump.contains("s3cret"), "no credentials");
    assert!(dump.contains("\"kind\":\"PersistentVolumeClaim\""));
    let of_dump = loadmaster(&["simulate", "-f", file, "-o", "json"]).json();
    assert_eq!(placements(&of_dump).len(), 600, "two pages of pods");
    let of_cluster = loadmaster(&["simulate", "--kubeconfig", kubeconfig, "-o", "json"]).json();
    assert_eq!(placements(&of_dump), placements(&of_cluster));
    let named = folder.path().join("renamed.json.gz");
    let renamed = named.to_str().unwrap();
    let args = ["dump", "--kubeconfig", kubeconfig, "--anonymize", "-o", renamed];
    assert_eq!(loadmaster(&args).code, Some(0));
    let of_renamed = loadmaster(&["simulate", "-f", renamed, "-o", "json"]).json();
    assert_eq!(placements(&of_renamed).len(), 600, "selectors still match");
    assert!(!of_renamed.to_string().contains("acme"), "{of_renamed}");
}

#[test]
fn commands_answer_about_the_cluster_if_there_is_no_scheduler() {
    let sandbox = sandbox("no-scheduler", &cluster()[..8]);
    let kubeconfig = &*sandbox.kubeconfig;
    let of = ["explain", "pod", "acme-1", "-n", "shop", "--kubeconfig", kubeconfig];
    let answer = loadmaster(&of);
    assert!(
        answer.err.contains("no scheduler holds the Lease kube-system/loadmaster"),
        "{}",
        answer.err
    );
    assert!(answer.text().contains("Now, 1 of 1 nodes can take the pod"));
    let answer = loadmaster(&[&of[..], &["--read-cluster"]].concat());
    assert!(!answer.err.contains("no scheduler holds"), "{}", answer.err);
    let drain = "{apiVersion: whatif.loadmaster.io/v1, kind: Changes, drain: [acme-node]}";
    let change = written("drain.yaml", drain.as_bytes());
    let args =
        ["whatif", "-f", &change, "--kubeconfig", kubeconfig, "--read-cluster", "-o", "json"];
    let answer = loadmaster(&args).json();
    assert_eq!(answer["lost"][0]["name"], "runs", "{answer}");
}

#[test]
fn kinds_that_may_not_be_listed_are_named() {
    let empty = json!({"items": [], "metadata": {}});
    let refused = json!({"kind": "Status", "message": "services is forbidden"});
    let routes = [
        ("/api/v1/nodes", 200, empty.clone()),
        ("/api/v1/pods", 200, empty),
        ("/api/v1/services", 403, refused.clone()),
    ];
    let kubeconfig = api::serve("forbidden", &routes);
    let answer = loadmaster(&["dump", "--kubeconfig", &kubeconfig]);
    assert!(
        answer.err.contains("left out, because the caller may not list them: services\n"),
        "{}",
        answer.err
    );
    assert_eq!(answer.json()["items"], json!([]));
    let kubeconfig = api::serve("no-nodes", &[("/api/v1/nodes", 403, refused)]);
    let err = loadmaster(&["dump", "--kubeconfig", &kubeconfig]).refused(1);
    assert!(err.contains("cannot list nodes, which every tool reads"), "{err}");
}

#[test]
fn compressed_input_is_known_by_its_content() {
    let text = fs::read(super::fixtures().join("nodes.yaml")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, &text).unwrap();
    let zstd =
        ruzstd::encoding::compress_to_vec(&*text, ruzstd::encoding::CompressionLevel::Fastest);
    let plain = loadmaster(&["simulate", "-f", "nodes.yaml", "-o", "json"]).json();
    for (name, content) in [("nodes", gzip.finish().unwrap()), ("nodes.yaml.zst", zstd)] {
        let file = written(name, &content);
        assert_eq!(loadmaster(&["simulate", "-f", &file, "-o", "json"]).json(), plain, "{name}");
    }
    let damaged = written("damaged.gz", &[0x1f, 0x8b, 8, 0, 0]);
    let err = loadmaster(&["simulate", "-f", &damaged]).refused(1);
    assert!(err.contains("damaged.gz: "), "{err}");
}
