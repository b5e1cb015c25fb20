//! Workloads of scheduler_perf, the benchmark of kube-scheduler, as manifests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use framework::storage::MIGRATED_PLUGINS;
use serde_json::{Value, json};

/// Namespace of the pods and their claims.
pub(crate) const NAMESPACE: &str = "default";

/// A test case of pods with one volume each, with the numbers of one workload.
pub(crate) struct VolumeCase {
    templates: Templates,
    strategy: Value,
    nodes: usize,
    /// Number of placed pods before the measurement.
    pub(crate) first: usize,
    /// Number of measured pods.
    pub(crate) measured: usize,
}

/// The templates of nodes, pods, volumes and claims.
struct Templates {
    node: Value,
    pod: Value,
    volume: Value,
    claim: Value,
}

/// Returns the folder of scheduler_perf's files, if it exists.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/scheduler_perf");
    folder.is_dir().then_some(folder)
}

impl VolumeCase {
    /// Reads the case and workload with these names.
    pub(crate) fn read(folder: &Path, case: &str, workload: &str) -> anyhow::Result<Self> {
        let folder = folder.join("volumes");
        let cases = yaml(&folder.join("performance-config.yaml"))?;
        let case = named(&cases, case)?;
        let params = &named(&case["workloads"], workload)?["params"];
        let [nodes, first, measured] = ["initNodes", "initPods", "measurePods"]
            .map(|name| params[name].as_u64().with_context(|| format!("no number {name}")));
        let (node, pods) = (&case["workloadTemplate"][0], &case["workloadTemplate"][2]);
        let template = |operation: &Value, field: &str, default: &str| {
            let path = operation[field].as_str().unwrap_or(default);
            yaml(&folder.join(path))
        };
        let templates = Templates {
            node: template(node, "nodeTemplatePath", "../templates/node-default.yaml")?,
            pod: template(pods, "podTemplatePath", "../templates/pod-default.yaml")?,
            volume: template(pods, "persistentVolumeTemplatePath", "")?,
            claim: template(pods, "persistentVolumeClaimTemplatePath", "")?,
        };
        Ok(Self {
            templates,
            strategy: node["nodeAllocatableStrategy"].clone(),
            nodes: usize::try_from(nodes?)?,
            first: usize::try_from(first?)?,
            measured: usize::try_from(measured?)?,
        })
    }

    /// Returns the nodes, each with its CSINode.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Value> {
        (0..self.nodes).flat_map(|number| [self.node(number), self.csi_node(number)])
    }

    fn node(&self, number: usize) -> Value {
        let mut node = renamed(&self.templates.node, node_name(number));
        let capacity = node["status"]["capacity"].clone();
        node["status"]["allocatable"] = capacity;
        for (resource, amount) in self.strategy["nodeAllocatable"].as_object().into_iter().flatten()
        {
            for field in ["capacity", "allocatable"] {
                node["status"][field][resource] = amount.clone();
            }
        }
        node
    }

    fn csi_node(&self, number: usize) -> Value {
        let drivers = self.strategy["csiNodeAllocatable"].as_object().into_iter().flatten();
        let drivers: Vec<Value> = drivers
            .map(|(name, allocatable)| {
                json!({ "name": name, "nodeID": node_name(number), "allocatable": allocatable })
            })
            .collect();
        let migrated = self.strategy["migratedPlugins"].as_array().into_iter().flatten();
        let migrated: Vec<&str> = migrated.filter_map(Value::as_str).collect();
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {
                "name": node_name(number),
                "annotations": { MIGRATED_PLUGINS: migrated.join(",") },
            },
            "spec": { "drivers": drivers },
        })
    }

    /// Returns the volume of the pod with this number, bound to its claim.
    pub(crate) fn volume(&self, number: usize) -> Value {
        let name = volume_name(number);
        let mut volume = renamed(&self.templates.volume, name.clone());
        let spec = &mut volume["spec"];
        for (source, id) in [("csi", "volumeHandle"), ("awsElasticBlockStore", "volumeID")] {
            if spec.get(source).is_some() {
                spec[source][id] = json!(name);
            }
        }
        spec["claimRef"] = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": NAMESPACE,
            "name": claim_name(number),
        });
        volume["status"] = json!({ "phase": "Bound" });
        volume
    }

    /// Returns the claim of the pod with this number.
    pub(crate) fn claim(&self, number: usize) -> Value {
        let mut claim = renamed(&self.templates.claim, claim_name(number));
        claim["metadata"]["namespace"] = json!(NAMESPACE);
        claim["spec"]["volumeName"] = json!(volume_name(number));
        claim["status"] = json!({ "phase": "Bound" });
        claim
    }

    /// Returns the pod with this number.
    pub(crate) fn pod(&self, number: usize) -> Value {
        let mut pod = renamed(&self.templates.pod, format!("pod-{number:06}"));
        pod["metadata"]["namespace"] = json!(NAMESPACE);
        let source = json!({ "claimName": claim_name(number) });
        pod["spec"]["volumes"] = json!([{ "name": "vol", "persistentVolumeClaim": source }]);
        pod
    }
}

fn node_name(number: usize) -> String {
    format!("scheduler-perf-{number:05}")
}

fn volume_name(number: usize) -> String {
    format!("vol-{number}")
}

fn claim_name(number: usize) -> String {
    format!("pvc-{number}")
}

/// Returns the object of a template with another name.
fn renamed(template: &Value, name: String) -> Value {
    let mut object = template.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("generateName");
    }
    object["metadata"]["name"] = name.into();
    object
}

fn yaml(path: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_yaml::from_str(&text).with_context(|| path.display().to_string())
}

/// Returns the entry with this name.
fn named<'a>(list: &'a Value, name: &str) -> anyhow::Result<&'a Value> {
    let found = list.as_array().into_iter().flatten().find(|entry| entry["name"] == name);
    found.with_context(|| format!("nothing is called {name:?}"))
}
