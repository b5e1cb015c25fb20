//! Storage objects in the cluster.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::*;
use crate::testing::{SetJson, csi_node, node, pod};
use ::api::storage::{MIGRATED_PLUGINS, StorageSize};
use ::api::{EventResource, api};

fn set(cluster: &mut Cluster, kind: EventResource, name: &str, object: Option<Value>) {
    cluster.set_json(&kind, "", name, object.map(Arc::new));
}

fn volume(name: &str, size: &str, phase: &str, claim: Option<&str>) -> Option<Value> {
    let claim = claim.map(|name| json!({ "namespace": "default", "name": name }));
    let spec =
        json!({ "storageClassName": "fast", "capacity": { "storage": size }, "claimRef": claim });
    Some(json!({ "metadata": { "name": name }, "spec": spec, "status": { "phase": phase } }))
}

#[test]
fn free_volumes_are_sorted_by_size_and_exclude_claimed_ones() {
    let mut cluster = Cluster::default();
    let free = |cluster: &Cluster| -> Vec<String> {
        let Some(free) = cluster.free_volumes("fast") else { return Vec::new() };
        let sets = free.unlabelled().iter();
        let volumes = sets.flat_map(|set| free.get(*set).at_least(StorageSize::default()));
        volumes.map(|volume| volume.name.to_string()).collect()
    };
    let kind = EventResource::PersistentVolume;
    for (name, size, phase, claim) in [
        ("large", "9Gi", "Available", None),
        ("b", "1Gi", "Available", None),
        ("a", "1024Mi", "Available", None),
        ("pending", "1Gi", "Pending", None),
        ("reserved", "1Gi", "Available", Some("c")),
    ] {
        set(&mut cluster, kind.clone(), name, volume(name, size, phase, claim));
    }
    assert_eq!(free(&cluster), ["a", "b", "large"]);
    set(&mut cluster, kind.clone(), "a", volume("a", "1Gi", "Bound", Some("c")));
    assert_eq!(free(&cluster), ["b", "large"]);
    set(&mut cluster, kind.clone(), "b", volume("b", "10Gi", "Available", None));
    assert_eq!(free(&cluster), ["large", "b"]);
    let reserved = |cluster: &Cluster| -> Vec<String> {
        let volumes = cluster.volumes_reserved_for("default", "c");
        volumes.map(|volume| volume.name.to_string()).collect()
    };
    assert_eq!(reserved(&cluster), ["a", "reserved"]);
    set(&mut cluster, kind, "a", None);
    assert_eq!(reserved(&cluster), ["reserved"]);
}

#[test]
fn free_volumes_are_indexed_by_node_labels() {
    let mut cluster = Cluster::default();
    let volume = |expressions: Value| {
        let term = json!({ "matchExpressions": expressions });
        let affinity = json!({ "required": { "nodeSelectorTerms": [term] } });
        let spec = json!({ "storageClassName": "fast", "nodeAffinity": affinity });
        Some(json!({ "spec": spec, "status": { "phase": "Available" } }))
    };
    let zones = |zones: Value| json!({ "key": "zone", "operator": "In", "values": zones });
    let disk = json!({ "key": "disk", "operator": "Exists" });
    let kind = EventResource::PersistentVolume;
    for (name, expressions) in [
        ("a", json!([disk, zones(json!(["x"]))])),
        ("b", json!([zones(json!(["x", "y"]))])),
        ("c", json!([disk])),
    ] {
        set(&mut cluster, kind.clone(), name, volume(expressions));
    }
    let labelled = |cluster: &Cluster| -> Vec<(String, usize)> {
        let free = cluster.free_volumes("fast").into_iter().flat_map(|free| free.labelled());
        let values = free.flat_map(|(key, values)| {
            values.map(move |(value, sets)| {
                (cluster.topology_at(key).value(value).to_string(), sets.len())
            })
        });
        values.collect()
    };
    assert_eq!(labelled(&cluster), [("x".to_owned(), 2), ("y".to_owned(), 1)]);
    let nodes =
        ["x", "y", "z"].map(|zone| cluster.set_node(&node(zone).label("zone", zone).build()).0);
    let candidates = |node| {
        let free = cluster.free_volumes("fast").unwrap();
        free.candidates(|key| cluster.topology_at(key).domain_of(node)).count()
    };
    assert_eq!(nodes.map(candidates), [3, 2, 1]);
    set(&mut cluster, kind.clone(), "b", None);
    assert_eq!(labelled(&cluster), [("x".to_owned(), 1)]);
    set(&mut cluster, kind.clone(), "c", None);
    assert!(cluster.free_volumes("fast").unwrap().unlabelled().is_empty());
    set(&mut cluster, kind.clone(), "c", volume(json!([disk])));
    set(&mut cluster, kind.clone(), "a", None);
    let free = cluster.free_volumes("fast").unwrap();
    assert_eq!((free.labelled().count(), free.unlabelled().len()), (0, 1));
    set(&mut cluster, kind, "c", None);
    assert!(cluster.free_volumes("fast").is_none());
}

#[test]
fn classes_drivers_and_csi_nodes_exist_until_removed() {
    let mut cluster = Cluster::default();
    let known = |cluster: &Cluster| {
        let class = cluster.storage_class("x").is_some();
        [class, cluster.csi_driver("x").is_some(), cluster.csi_node("x").is_some()]
    };
    let kinds = [EventResource::StorageClass, EventResource::CsiDriver, EventResource::CsiNode];
    for (place, kind) in kinds.into_iter().enumerate() {
        let mut expected = [false; 3];
        expected[place] = true;
        set(&mut cluster, kind.clone(), "x", Some(json!({})));
        assert_eq!(known(&cluster), expected);
        set(&mut cluster, kind, "x", None);
        assert_eq!(known(&cluster), [false; 3]);
    }
}

#[test]
fn capacities_are_found_by_class_and_attachments_by_node() {
    let mut cluster = Cluster::default();
    let capacity = |class: &str, size: &str| {
        Some(json!({ "storageClassName": class, "capacity": size, "nodeTopology": {} }))
    };
    let limits = |cluster: &Cluster, class: &str| -> Vec<i64> {
        let limits = cluster.storage_capacities(class).filter_map(|capacity| capacity.limit);
        limits.map(StorageSize::to_bytes).collect()
    };
    set(&mut cluster, EventResource::CsiStorageCapacity, "c", capacity("fast", "5"));
    assert_eq!(limits(&cluster, "fast"), [5]);
    set(&mut cluster, EventResource::CsiStorageCapacity, "c", capacity("slow", "7"));
    assert_eq!((limits(&cluster, "fast"), limits(&cluster, "slow")), (vec![], vec![7]));
    let other = capacity("slow", "8").map(Arc::new);
    cluster.set_json(&EventResource::CsiStorageCapacity, "other", "c", other);
    assert_eq!(limits(&cluster, "slow"), [7, 8]);

    let attachment = |node: &str| {
        let source = json!({ "persistentVolumeName": "pv" });
        Some(json!({ "spec": { "attacher": "d", "nodeName": node, "source": source } }))
    };
    let attached = |cluster: &Cluster, node: &str| cluster.volume_attachments(node).count();
    set(&mut cluster, EventResource::VolumeAttachment, "a", attachment("m"));
    set(&mut cluster, EventResource::VolumeAttachment, "a", attachment("n"));
    assert_eq!((attached(&cluster, "m"), attached(&cluster, "n")), (0, 1));
    set(&mut cluster, EventResource::VolumeAttachment, "a", None);
    assert_eq!(attached(&cluster, "n"), 0);
}

#[test]
fn claim_is_in_use_while_a_placed_pod_names_it() {
    let mut cluster = Cluster::default();
    let user = |name: &str| {
        let volume = json!({ "name": "v", "persistentVolumeClaim": { "claimName": "data" } });
        let volume: api::Volume = serde_json::from_value(volume).unwrap();
        Arc::new(pod(name).with(|pod| pod.spec.volumes = vec![volume]).build())
    };
    let placed = ["p", "q"].map(|name| cluster.place_pod(user(name), "n"));
    for pod in placed {
        assert!(cluster.is_claim_in_use("default", "data"));
        assert!(!cluster.is_claim_in_use("other", "data"));
        cluster.remove_pod(pod);
    }
    assert!(!cluster.is_claim_in_use("default", "data"));
}

#[test]
fn ephemeral_claim_is_in_use_only_if_another_pod_names_it() {
    let mut cluster = Cluster::default();
    let owner = pod("p").volume(json!({ "ephemeral": {} })).build();
    cluster.place_pod(Arc::new(owner), "n");
    assert!(!cluster.is_claim_in_use("default", "p-v0"));
    cluster.place_pod(Arc::new(pod("q").claim("p-v0").build()), "n");
    assert!(cluster.is_claim_in_use("default", "p-v0"));
}

#[test]
fn csi_node_annotation_lists_migrated_plugins() {
    for (list, expected) in [
        ("kubernetes.io/gce-pd,kubernetes.io/aws-ebs", true),
        ("kubernetes.io/gce-pd, kubernetes.io/aws-ebs", false),
        ("", false),
    ] {
        let mut cluster = Cluster::default();
        cluster.set_node(&node("n").build());
        csi_node("n", &[]).annotation(MIGRATED_PLUGINS, list).put(&mut cluster);
        let n = cluster.node_named("n").unwrap();
        let announced =
            cluster.migrated_nodes("kubernetes.io/aws-ebs").is_some_and(|nodes| nodes.get(n));
        assert_eq!(announced, expected, "{list:?}");
    }
}
