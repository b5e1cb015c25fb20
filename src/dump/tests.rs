use serde_json::{Value, json};

use super::*;
use crate::api_client::{Credentials, ServerStatus};
use crate::metrics::Metrics;

/// Returns the objects of a kind that a server dumps which serves these lists with one object each.
async fn dumped(paths: &[&'static str], kind: &str) -> Vec<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let list = async || r#"{"metadata": {}, "items": [{"metadata": {"name": "x"}}]}"#;
    let router = paths
        .iter()
        .fold(axum::Router::new(), |all, path| all.route(path, axum::routing::get(list)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let kubeconfig = format!(
        "{{clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [], contexts: \
         [{{name: c, context: {{cluster: c}}}}], current-context: c}}"
    );
    let credentials = Credentials::parse(&kubeconfig).await.unwrap();
    let status = std::sync::Arc::new(ServerStatus::default());
    let client = ApiClient::new(&credentials, "t", Metrics::new().rest_client(), status).unwrap();
    let dump = read(&client, None).await.unwrap();
    let objects = dump.objects.iter().map(|text| serde_json::from_str::<Value>(text).unwrap());
    let of_kind = objects.filter(|object| object["kind"] == kind);
    of_kind.map(|object| object["apiVersion"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn taint_rules_are_dumped_once_in_the_version_that_is_served() {
    let (nodes, pods) = ("/api/v1/nodes", "/api/v1/pods");
    let stable = "/apis/resource.k8s.io/v1/devicetaintrules";
    let beta = "/apis/resource.k8s.io/v1beta2/devicetaintrules";
    let rows: [(&[&'static str], &[&str]); 3] = [
        (&[nodes, pods, stable, beta], &["resource.k8s.io/v1"]),
        (&[nodes, pods, beta], &["resource.k8s.io/v1beta2"]),
        (&[nodes, pods], &[]),
    ];
    for (served, expected) in rows {
        assert_eq!(dumped(served, "DeviceTaintRule").await, expected, "{served:?}");
    }
}

fn redacted(mut object: Value) -> Value {
    redaction::redact(&mut object);
    object
}

#[test]
fn credentials_are_left_out_of_pods_and_templates() {
    let container = json!({"name": "c", "image": "i", "env": [{"name": "PASSWORD", "value": "s3cret"}],
        "args": ["--token=s3cret"], "command": ["s3cret"], "resources": {"requests": {"cpu": "1"}},
        "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "s3cret"}]}}});
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": "s3cret",
        "acme.com/token": "s3cret", "plain": "s3cret", "notkubernetes.io/token": "s3cret",
        "pv.kubernetes.io/bind-completed": "yes",
        "kueue.x-k8s.io/podset-required-topology": "acme.com/rack"});
    let template = json!({"metadata": {"annotations": annotations, "managedFields": [{}]},
        "spec": {"containers": [container], "initContainers": [container]}});
    let class = json!({"parameters": {"restuserkey": "s3cret"}, "provisioner": "p"});
    let volume =
        json!({"csi": {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"key": "s3cret"}}});
    let kept = redacted(json!({"spec": {"template": template}, "class": class, "volume": volume}));
    assert!(!kept.to_string().contains("s3cret"), "{kept}");
    let template = &kept["spec"]["template"];
    assert_eq!(
        template["metadata"],
        json!({"annotations": {"pv.kubernetes.io/bind-completed": "yes",
            "kueue.x-k8s.io/podset-required-topology": "acme.com/rack"}})
    );
    let expected = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    assert_eq!(template["spec"]["containers"], json!([expected]));
    assert_eq!(kept["volume"], json!({"csi": {"driver": "d", "volumeHandle": "h"}}));
}

#[test]
fn renamed_objects_refer_to_each_other_as_before() {
    let mut names = Anonymizer::default();
    let mut renamed = |mut object: Value| {
        names.rename(&mut object);
        object
    };
    let node = renamed(json!({"kind": "Node", "metadata": {"name": "rack7-a.acme.com", "labels": {
        "kubernetes.io/hostname": "rack7-a.acme.com", "kubernetes.io/os": "linux", "acme.com/team": "red"}},
        "spec": {"taints": [{"key": "acme.com/team", "value": "red", "effect": "NoSchedule"}]},
        "status": {"addresses": [{"address": "10.0.0.1"}], "allocatable": {"nvidia.com/gpu": "8"}}}));
    let set = renamed(
        json!({"kind": "ReplicaSet", "metadata": {"name": "shop-7d4b9c", "namespace": "acme"}}),
    );
    let pod = renamed(
        json!({"kind": "Pod", "metadata": {"name": "shop-7d4b9c-x2x8k", "namespace": "acme",
        "labels": {"pod-template-hash": "7d4b9c", "app": "shop"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "shop-7d4b9c", "controller": true}]},
        "spec": {"nodeName": "rack7-a.acme.com", "nodeSelector": {"acme.com/team": "red"},
            "tolerations": [{"key": "acme.com/team", "operator": "Equal", "value": "red"}],
            "schedulerName": "default-scheduler",
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-shop-0"}},
                {"name": "token", "secret": {"secretName": "acme"}}]}}),
    );
    let claim =
        renamed(json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data-shop-0"}}));
    for (own, original) in
        [(&node, "acme"), (&node, "rack7"), (&pod, "shop"), (&pod, "acme"), (&node, "10.0")]
    {
        assert!(!own.to_string().contains(original), "{original}: {own}");
    }
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], name(&node));
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
    assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "8");
    let (key, value) = pod["spec"]["nodeSelector"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(&node["metadata"]["labels"][key], value);
    assert_eq!(
        (&node["spec"]["taints"][0]["key"], &node["spec"]["taints"][0]["value"]),
        (&json!(key), value)
    );
    assert_eq!(pod["spec"]["tolerations"][0]["key"], json!(key));
    assert_eq!(pod["spec"]["nodeName"], name(&node));
    assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], name(&set));
    let hash = pod["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert!(name(&set).ends_with(&format!("-{hash}")) && name(&pod).starts_with(&name(&set)));
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], name(&claim));
    assert!(name(&claim).ends_with("-0"), "numbers stay");
    assert_eq!(pod["spec"]["volumes"][1]["emptyDir"], json!({}));
    assert_eq!(pod["spec"]["schedulerName"], "default-scheduler");
}

#[test]
fn levels_of_a_topology_name_the_renamed_labels() {
    let mut names = Anonymizer::default();
    let mut renamed = |mut object: Value| {
        names.rename(&mut object);
        object
    };
    let labels = json!({"acme.com/rack": "r7", "topology.kubernetes.io/zone": "a"});
    let node = renamed(json!({"kind": "Node", "metadata": {"name": "n", "labels": labels}}));
    let labels = node["metadata"]["labels"].as_object().unwrap();
    let rack = labels.keys().find(|key| *key != "topology.kubernetes.io/zone").unwrap();
    let group = renamed(json!({"kind": "PodGroup", "metadata": {"name": "g", "annotations": {
        "loadmaster.io/topology": "topology.kubernetes.io/zone required, acme.com/rack blocks of 8"}}}));
    assert_eq!(
        group["metadata"]["annotations"]["loadmaster.io/topology"],
        format!("topology.kubernetes.io/zone required, {rack} blocks of 8")
    );
    let pod = renamed(json!({"kind": "Pod", "metadata": {"name": "p", "annotations": {
        "kueue.x-k8s.io/podset-preferred-topology": "acme.com/rack"}}}));
    let annotation = &pod["metadata"]["annotations"]["kueue.x-k8s.io/podset-preferred-topology"];
    assert_eq!(annotation, rack);
}

#[test]
fn devices_and_drivers_keep_the_names_that_expressions_use() {
    let mut names = Anonymizer::default();
    let mut renamed = |mut object: Value| {
        names.rename(&mut object);
        object
    };
    let slice =
        renamed(json!({"kind": "ResourceSlice", "metadata": {"name": "rack-gpus"}, "spec": {
        "driver": "gpu.acme.com", "nodeName": "rack", "pool": {"name": "rack", "generation": 1},
        "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "H100"}}}]}}));
    let claim = renamed(
        json!({"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {"devices": {"requests": [
        {"name": "one", "exactly": {"deviceClassName": "fast", "selectors": [{"cel": {"expression": "true"}}]}}]}},
        "status": {"allocation": {"devices": {"results": [
            {"request": "one", "driver": "gpu.acme.com", "pool": "rack", "device": "gpu-0"}]}}}}),
    );
    let node = renamed(
        json!({"kind": "CSINode", "metadata": {"name": "rack"}, "spec": {"drivers": [
        {"name": "csi.acme.com", "nodeID": "i-123", "topologyKeys": ["acme.com/rack", "kubernetes.io/hostname"]}]}}),
    );
    let result = &claim["status"]["allocation"]["devices"]["results"][0];
    assert_eq!(result["pool"], slice["spec"]["pool"]["name"]);
    assert_eq!((&result["driver"], &result["device"]), (&json!("gpu.acme.com"), &json!("gpu-0")));
    assert_eq!(slice["spec"]["devices"][0]["attributes"]["model"]["string"], "H100");
    assert_eq!(slice["spec"]["nodeName"], node["metadata"]["name"]);
    let request = &claim["spec"]["devices"]["requests"][0];
    assert!(
        request["name"] == "one" && request["exactly"]["deviceClassName"] != "fast",
        "{request}"
    );
    let driver = &node["spec"]["drivers"][0];
    assert!(driver["name"] == "csi.acme.com" && driver["nodeID"].is_null(), "{driver}");
    assert_eq!(driver["topologyKeys"][1], "kubernetes.io/hostname");
    assert_ne!(driver["topologyKeys"][0], "acme.com/rack");
}
