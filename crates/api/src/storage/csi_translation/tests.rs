use serde_json::{Value, json};

use super::*;
use crate::{NodeFields, Pod, PodVolumeSource, api};

const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const GKE_ZONE: &str = "topology.gke.io/zone";

/// Returns a volume with these labels and this spec.
fn volume(labels: Value, spec: Value) -> PersistentVolume {
    let object = json!({ "metadata": { "name": "pv", "labels": labels }, "spec": spec });
    PersistentVolume::from_api(&serde_json::from_value(object).unwrap())
}

fn handle(labels: Value, spec: Value) -> Result<String, String> {
    let volume = volume(labels, spec);
    let volume = MigratableVolume::of(&volume).unwrap();
    let handle = volume.handle().map_err(|error| error.to_string());
    assert_eq!(volume.node_selector().is_err(), handle.is_err());
    Ok(format!("{}/{}", volume.migration.driver, handle?))
}

#[test]
fn in_tree_volumes_get_csi_handles() {
    for (labels, spec, expected) in [
        (
            json!({}),
            json!({ "awsElasticBlockStore": { "volumeID": "vol-1" } }),
            "ebs.csi.aws.com/vol-1",
        ),
        (
            json!({}),
            json!({ "awsElasticBlockStore": { "volumeID": "aws://us-east-1a/vol-1" } }),
            "ebs.csi.aws.com/vol-1",
        ),
        (
            json!({}),
            json!({ "awsElasticBlockStore": { "volumeID": "aws:///vol-1/?a=b" } }),
            "ebs.csi.aws.com/vol-1",
        ),
        (
            json!({}),
            json!({ "gcePersistentDisk": { "pdName": "d" } }),
            "pd.csi.storage.gke.io/projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        ),
        (
            json!({ ZONE: "europe-west1-b" }),
            json!({ "gcePersistentDisk": { "pdName": "d" } }),
            "pd.csi.storage.gke.io/projects/UNSPECIFIED/zones/europe-west1-b/disks/d",
        ),
        (
            json!({ ZONE: "europe-west1-b", BETA_ZONE: "" }),
            json!({ "gcePersistentDisk": { "pdName": "d" } }),
            "pd.csi.storage.gke.io/projects/UNSPECIFIED/zones/europe-west1-b/disks/d",
        ),
        (
            json!({ ZONE: "a", BETA_ZONE: "europe-west1-b__europe-west1-c" }),
            json!({ "gcePersistentDisk": { "pdName": "d" } }),
            "pd.csi.storage.gke.io/projects/UNSPECIFIED/regions/europe-west1/disks/d",
        ),
        (
            json!({ ZONE: "any" }),
            json!({ "azureDisk": { "diskName": "n", "diskURI": "/sub/d" } }),
            "disk.csi.azure.com//sub/d",
        ),
        (json!({}), json!({ "cinder": { "volumeID": "c1" } }), "cinder.csi.openstack.org/c1"),
        (json!({}), json!({ "portworxVolume": { "volumeID": "p1" } }), "pxd.portworx.com/p1"),
    ] {
        assert_eq!(handle(labels, spec.clone()).as_deref(), Ok(expected), "{spec}");
    }
}

#[test]
fn volumes_without_csi_handle_are_errors() {
    let disk = || json!({ "gcePersistentDisk": { "pdName": "d" } });
    let ebs = |id: &str| json!({ "awsElasticBlockStore": { "volumeID": id } });
    for (labels, spec, expected) in [
        (json!({}), ebs("aws://zone/disk-1"), "Invalid format for AWS volume (aws://zone/disk-1)"),
        (json!({}), ebs("aws://vol-1"), "Invalid format for AWS volume (aws://vol-1)"),
        (json!({}), ebs("aws:///a/vol-1"), "Invalid format for AWS volume (aws:///a/vol-1)"),
        (json!({}), ebs("aws:///vol-1/b"), "Invalid format for AWS volume (aws:///vol-1/b)"),
        (
            json!({ ZONE: "a__b" }),
            disk(),
            "zone in unexpected format, expected: {locale}-{region}-{zone}, got: a",
        ),
        (
            json!({ ZONE: "b-2-x__a-1-x" }),
            disk(),
            "multiple or no regions gotten from zones, got: map[a-1:{} b-2:{}]",
        ),
    ] {
        let error = handle(labels, spec.clone()).unwrap_err();
        assert!(error.starts_with("failed to ") && error.ends_with(expected), "{spec}: {error}");
    }
}

#[test]
fn inline_disks_have_no_zone() {
    let migration = Migration::of_plugin(InTreePlugin::GcePersistentDisk).unwrap();
    let disk = json!({ "name": "v", "gcePersistentDisk": { "pdName": "d" } });
    let pod: api::Pod = serde_json::from_value(json!({ "spec": { "volumes": [disk] } })).unwrap();
    let pod = Pod::from_api(&pod);
    let PodVolumeSource::InTree(disk) = &pod.spec.volumes[0].source else {
        panic!("an in-tree volume is expected: {pod:?}")
    };
    let handle = migration.inline_handle(disk);
    let expected = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d";
    assert_eq!(handle.as_deref(), Ok(expected));
}

#[test]
fn only_replaced_plugins_are_translated() {
    let spec = json!({ "csi": { "driver": "d", "volumeHandle": "h" } });
    assert!(MigratableVolume::of(&volume(json!({}), spec)).is_none());
    assert!(MigratableVolume::of(&volume(json!({}), json!({ "nfs": {} }))).is_none());
    assert!(Migration::of_plugin(InTreePlugin::Rbd).is_none());
    assert!(Migration::of_provisioner("ebs.csi.aws.com").is_none());
    let ebs = Migration::of_provisioner("kubernetes.io/aws-ebs").unwrap();
    assert_eq!(Some(ebs), Migration::of_plugin(InTreePlugin::AwsElasticBlockStore));
}

/// A node with labels and no name.
struct Labelled(Labels);

impl NodeFields for Labelled {
    fn name(&self) -> &str {
        ""
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.0.get(key)
    }
}

fn matches(selector: Option<&NodeSelector>, labels: &[(&str, &str)]) -> bool {
    let node = Labelled(labels.iter().copied().collect());
    selector.is_none_or(|selector| selector.matches(&node).unwrap())
}

/// Returns which of a few fixed nodes can use a GCE disk with these labels and affinity terms.
fn usable_on(labels: Value, terms: Value) -> Vec<&'static str> {
    let affinity = match terms {
        Value::Null => json!({}),
        terms => json!({ "required": { "nodeSelectorTerms": terms } }),
    };
    let spec = json!({ "gcePersistentDisk": { "pdName": "d" }, "nodeAffinity": affinity });
    let disk = volume(labels, spec);
    let selector = MigratableVolume::of(&disk).unwrap().node_selector().unwrap();
    [
        ("driver-a", &[(GKE_ZONE, "r-1-a"), (REGION, "r-1"), (ZONE, "r-1-x")][..]),
        ("driver-b", &[(GKE_ZONE, "r-1-b"), (REGION, "r-2")]),
        ("ga-a", &[(ZONE, "r-1-a"), (REGION, "r-1")]),
        ("beta-a", &[(BETA_ZONE, "r-1-a"), (BETA_REGION, "r-1")]),
        ("bare", &[]),
    ]
    .into_iter()
    .filter_map(|(name, labels)| matches(selector.as_deref(), labels).then_some(name))
    .collect()
}

/// Returns a term of requirements `(key, values)`.
fn term(requirements: &[(&str, &[&str])]) -> Value {
    let requirement = |&(key, values): &(&str, &[&str])| {
        let operator = if values.is_empty() { "Exists" } else { "In" };
        json!({ "key": key, "operator": operator, "values": values })
    };
    json!({ "matchExpressions": requirements.iter().map(requirement).collect::<Vec<_>>() })
}

#[test]
fn zone_labels_are_translated_to_the_label_of_the_driver() {
    let all = vec!["driver-a", "driver-b", "ga-a", "beta-a", "bare"];
    for (labels, terms, expected) in [
        (json!({}), Value::Null, all.clone()),
        (json!({}), json!([]), vec![]),
        (json!({ ZONE: "r-1-a" }), json!([]), vec!["driver-a"]),
        (json!({ ZONE: "r-1-a" }), Value::Null, vec!["driver-a"]),
        (json!({ BETA_ZONE: "r-1-a__r-1-b" }), Value::Null, vec!["driver-a", "driver-b"]),
        (json!({}), json!([term(&[(ZONE, &["r-1-a"])])]), vec!["driver-a"]),
        (json!({ ZONE: "r-1-b" }), json!([term(&[(BETA_ZONE, &["r-1-a"])])]), vec!["driver-a"]),
        (json!({}), json!([term(&[(BETA_REGION, &["r-1"])])]), vec!["beta-a"]),
        (
            json!({}),
            json!([term(&[(BETA_REGION, &["r-1"])]), term(&[(BETA_ZONE, &["r-1-b"])])]),
            vec!["driver-a", "driver-b", "ga-a"],
        ),
        (json!({}), json!([term(&[(ZONE, &[])])]), vec!["driver-a", "ga-a"]),
        (json!({ ZONE: "r-1-b" }), json!([term(&[(REGION, &["r-2"])])]), vec!["driver-b"]),
        (json!({ ZONE: "r-1-a" }), json!([{}]), vec!["driver-a"]),
        // The volume has labels of both generations: GA takes precedence.
        (json!({ ZONE: "r-1-a", BETA_ZONE: "r-1-b" }), Value::Null, vec!["driver-a"]),
        (
            json!({}),
            json!([term(&[(ZONE, &["r-1-a"])]), term(&[(BETA_ZONE, &["r-1-a"])])]),
            vec!["driver-a", "beta-a"],
        ),
        (json!({ ZONE: " r-1-a " }), Value::Null, vec!["driver-a"]),
        (json!({ ZONE: " " }), Value::Null, all.clone()),
        (
            json!({ ZONE: "r-1-a" }),
            json!([term(&[(REGION, &["r-1"])]), term(&[(REGION, &["r-2"])])]),
            vec!["driver-a"],
        ),
    ] {
        let found = usable_on(labels.clone(), terms.clone());
        assert_eq!(found, expected, "labels {labels}, terms {terms}");
    }
}

#[test]
fn zone_requirements_use_the_label_of_the_driver() {
    for (source, label) in [
        ("awsElasticBlockStore", "topology.ebs.csi.aws.com/zone"),
        ("cinder", "topology.cinder.csi.openstack.org/zone"),
        ("gcePersistentDisk", GKE_ZONE),
    ] {
        let volume = volume(json!({ ZONE: "r-1-a" }), json!({ source: {} }));
        let selector = MigratableVolume::of(&volume).unwrap().node_selector().unwrap();
        assert!(matches(selector.as_deref(), &[(label, "r-1-a")]), "{source}");
        assert!(!matches(selector.as_deref(), &[(ZONE, "r-1-a")]), "{source}");
    }
}

#[test]
fn affinity_is_unchanged_for_drivers_without_zones() {
    let required = json!({ "required": { "nodeSelectorTerms": [term(&[(ZONE, &["r-1-a"])])] } });
    for source in [json!({ "azureDisk": {} }), json!({ "portworxVolume": {} })] {
        let mut spec = source.clone();
        spec["nodeAffinity"] = required.clone();
        let volume = volume(json!({ ZONE: "r-1-b" }), spec);
        let translated = MigratableVolume::of(&volume).unwrap().node_selector().unwrap();
        assert_eq!(translated, volume.node_selector, "{source}");
        assert!(matches(translated.as_deref(), &[(ZONE, "r-1-a")]));
    }
}
