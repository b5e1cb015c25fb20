//! The cost of decoding nodes and pods in JSON and in protobuf: `cargo bench --bench decoding`.
//!
//! Pages of 500 objects as the sandbox serves them, with the fields that an API server adds. Each
//! figure is the median time of an object, from the bytes to its compact form.

use std::time::Instant;

use framework::protobuf::MEDIA_TYPE;
use framework::{EventResource, ExtraFields, Time};
use loadmaster::wire::Decoder;
use sandbox::api::{Answer, Request};
use sandbox::store::Store;
use serde_json::{Value, json};

const OBJECTS: usize = 500;
const ROUNDS: usize = 201;

fn main() {
    let mut store = Store::new(1, Time::ZERO);
    for number in 0..OBJECTS {
        create(&mut store, "/api/v1/nodes", &node(number));
        create(&mut store, "/api/v1/namespaces/default/pods", &pod(number));
    }
    for (kind, resource) in [("nodes", EventResource::Node), ("pods", EventResource::Pod)] {
        let decoder = Decoder::new(resource, ExtraFields::default());
        for accept in ["application/json", MEDIA_TYPE] {
            let body = list(&mut store, &format!("/api/v1/{kind}?limit={OBJECTS}"), accept);
            println!(
                "{kind} {accept}: {} bytes, {:.2} µs an object",
                body.len() / OBJECTS,
                microseconds(&decoder, &body)
            );
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn microseconds(decoder: &Decoder, body: &[u8]) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let page = decoder.page(body).expect("a page");
            let took = start.elapsed();
            assert_eq!(page.items.len(), OBJECTS);
            took.as_secs_f64() * 1e6 / OBJECTS as f64
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn create(store: &mut Store, path: &str, object: &Value) {
    let request = Request::new("POST", path, object.to_string());
    match store.serve(&request, Time::from_secs(1_700_000_000)) {
        Answer::Whole(answer) if answer.status == 201 => {}
        other => panic!("{path}: {other:?}"),
    }
}

fn list(store: &mut Store, target: &str, accept: &str) -> Vec<u8> {
    let mut request = Request::new("GET", target, "");
    request.accept = accept.to_owned();
    match store.serve(&request, Time::from_secs(1_700_000_000)) {
        Answer::Whole(answer) if answer.content_type == accept => answer.body.to_vec(),
        other => panic!("{target}: {other:?}"),
    }
}

fn node(number: usize) -> Value {
    let name = format!("node-{number:06}");
    let resources =
        json!({"cpu": "32", "memory": "128Gi", "ephemeral-storage": "200Gi", "pods": "110"});
    let image = |image: usize| {
        json!({
            "names": [
                format!("registry.example.com/app-{image}@sha256:{:064x}", image * 7919),
                format!("registry.example.com/app-{image}:v1"),
            ],
            "sizeBytes": 20_000_000 + image * 3_000_000,
        })
    };
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "False", "reason": "KubeletHasSufficient",
            "message": "kubelet has sufficient resources available",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(condition);
    json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "std-32",
            "topology.kubernetes.io/region": "eu-1",
            "topology.kubernetes.io/zone": "eu-1a",
        }},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": conditions,
            "images": (0..20).map(|place| image(number + place)).collect::<Vec<_>>(),
            "nodeInfo": {
                "architecture": "amd64", "bootID": "d4f1", "containerRuntimeVersion": "containerd://2.1",
                "kernelVersion": "6.12", "kubeProxyVersion": "", "kubeletVersion": "v1.36.2",
                "machineID": "1f", "operatingSystem": "linux", "osImage": "Debian 13", "systemUUID": "2f",
            },
        },
    })
}

fn pod(number: usize) -> Value {
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    json!({
        "metadata": {
            "name": format!("web-7d4b9c6f5d-{number:05}"),
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5d"},
            "annotations": {"example.com/config": "3f2a"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5d",
                "uid": "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {"containers": [{
            "name": "main",
            "image": "registry.example.com/app-7:v1",
            "args": ["--port=8080", "--log=info"],
            "env": [{"name": "REGION", "value": "eu-1"}, {"name": "MODE", "value": "serve"}],
            "ports": [{"containerPort": 8080, "name": "http"}],
            "resources": {
                "requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "256Mi"},
            },
            "livenessProbe": probe,
            "readinessProbe": probe,
        }]},
    })
}
