//! Other names for sharing a dump.

use std::collections::HashMap;

use framework::{
    POD_SET_PREFERRED_TOPOLOGY, POD_SET_REQUIRED_TOPOLOGY, POD_SET_SLICE_TOPOLOGY,
    TOPOLOGY_ANNOTATION,
};
use serde_json::{Map, Value};

/// Parts of names that stay: what Kubernetes itself names, and words without which a value means
/// something else.
const KEPT_PARTS: [&str; 22] = [
    "",
    "default",
    "kube",
    "system",
    "public",
    "node",
    "lease",
    "cluster",
    "critical",
    "admin",
    "scheduler",
    "control",
    "plane",
    "master",
    "worker",
    "true",
    "false",
    "yes",
    "no",
    "gpu",
    "cpu",
    "spot",
];
/// Domains whose label keys stay.
const KEPT_DOMAINS: [&str; 9] = [
    "kubernetes.io",
    "k8s.io",
    "nvidia.com",
    "amd.com",
    "intel.com",
    "cloud.google.com",
    "eks.amazonaws.com",
    "kubernetes.azure.com",
    "karpenter.sh",
];
/// Label keys without a domain that stay, since tools read them.
const KEPT_KEYS: [&str; 7] = [
    "metadata.name",
    "metadata.namespace",
    "job-name",
    "controller-uid",
    "pod-template-hash",
    "controller-revision-hash",
    "app",
];
/// Annotations whose values are label keys.
const TOPOLOGIES: [&str; 3] =
    [POD_SET_REQUIRED_TOPOLOGY, POD_SET_PREFERRED_TOPOLOGY, POD_SET_SLICE_TOPOLOGY];
/// Labels whose values are not names.
const KEPT_VALUES: [&str; 6] = [
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
];
/// Fields that hold names, or lists of names.
const NAMES: [&str; 36] = [
    "name",
    "generateName",
    "namespace",
    "namespaces",
    "nodeName",
    "nominatedNodeName",
    "claimName",
    "volumeName",
    "serviceName",
    "serviceAccountName",
    "serviceAccount",
    "storageClassName",
    "priorityClassName",
    "runtimeClassName",
    "resourceClaimName",
    "resourceClaimTemplateName",
    "deviceClassName",
    "persistentVolumeName",
    "pool",
    "names",
    "image",
    "volumeHandle",
    "pdName",
    "volumeID",
    "diskName",
    "diskURI",
    "currentRevision",
    "updateRevision",
    "volumePath",
    "queue",
    "queueName",
    "subdomain",
    "workloadName",
    "podGroup",
    "setName",
    "handler",
];
/// Fields that are left out, since they name hosts, people or paths and no tool reads them.
const LEFT_OUT: [&str; 31] = [
    "addresses",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "podCIDR",
    "podCIDRs",
    "providerID",
    "nodeID",
    "machineID",
    "systemUUID",
    "bootID",
    "containerID",
    "imageID",
    "message",
    "clusterIP",
    "clusterIPs",
    "loadBalancer",
    "externalIPs",
    "externalName",
    "hostAliases",
    "dnsConfig",
    "imagePullSecrets",
    "volumesAttached",
    "volumesInUse",
    "nfs",
    "glusterfs",
    "cephfs",
    "secretRef",
    "hostname",
    "config",
];
/// Volumes that affect no placement.
const VOLUMES: [&str; 5] = ["secret", "configMap", "projected", "downwardAPI", "hostPath"];
/// The fields with names below `devices`. All other fields stay: devices are chosen by expressions
/// that name them, their attributes and their drivers.
const OF_DEVICES: [&str; 3] = ["deviceClassName", "pool", "nodeName"];

/// Gives each part of a name another one, the same everywhere in a dump: `web-7d4b9c-x2x8k` becomes
/// `n1-n2-n3`, and the label with `7d4b9c` becomes `n2`. So names that are made from others stay
/// so. Numbers stay.
#[derive(Debug, Default)]
pub struct Anonymizer {
    parts: HashMap<Box<str>, usize>,
}

impl Anonymizer {
    /// Renames an object.
    pub(super) fn rename(&mut self, object: &mut Value) {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let Value::Object(fields) = object else { return };
        // A CSIDriver is known by its name.
        let name = (kind == "CSIDriver").then(|| fields["metadata"]["name"].clone());
        self.fields(fields);
        if let Some(name) = name {
            fields["metadata"]["name"] = name;
        }
    }

    fn devices(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| name != "config");
                for (name, value) in fields {
                    match OF_DEVICES.contains(&name.as_str()) && value.is_string() {
                        true => self.names(value),
                        false => self.devices(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.devices(item)),
            _ => {}
        }
    }

    /// Renames the topology keys of the drivers of a CSINode.
    fn drivers(&mut self, drivers: &mut Value) {
        for driver in drivers.as_array_mut().into_iter().flatten() {
            let Value::Object(fields) = driver else { continue };
            fields.remove("nodeID");
            if let Some(keys) = fields.get_mut("topologyKeys") {
                self.keys(keys);
            }
        }
    }

    fn fields(&mut self, fields: &mut Map<String, Value>) {
        fields.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
        for volume in VOLUMES {
            if fields.get(volume).is_some_and(Value::is_object) {
                fields.remove(volume);
                fields.insert("emptyDir".to_owned(), Value::Object(Map::new()));
            }
        }
        if let Some(Value::String(key)) = fields.get("key").cloned() {
            return self.expression(fields, &key);
        }
        for (name, value) in fields {
            self.field(name, value);
        }
    }

    fn field(&mut self, name: &str, value: &mut Value) {
        match (name, &mut *value) {
            ("devices", value) => self.devices(value),
            ("drivers", value) => self.drivers(value),
            ("labels" | "matchLabels" | "nodeSelector" | "selector", Value::Object(map))
                if map.values().all(Value::is_string) =>
            {
                self.labels(map);
            }
            ("annotations", Value::Object(annotations)) => {
                for (name, value) in annotations {
                    match (name.as_str(), &mut *value) {
                        (TOPOLOGY_ANNOTATION, Value::String(levels)) => self.levels(levels),
                        (name, value) if TOPOLOGIES.contains(&name) => self.keys(value),
                        (_, value) => self.names(value),
                    }
                }
            }
            ("topologyKey" | "topologyKeys" | "matchLabelKeys" | "mismatchLabelKeys", value) => {
                self.keys(value);
            }
            (name, value) if NAMES.contains(&name) => self.names(value),
            (_, Value::Object(fields)) => self.fields(fields),
            (_, Value::Array(items)) => items.iter_mut().for_each(|item| self.field("", item)),
            _ => {}
        }
    }

    /// Renames a requirement, a toleration or a taint.
    fn expression(&mut self, fields: &mut Map<String, Value>, key: &str) {
        fields.insert("key".to_owned(), self.key(key).into());
        if KEPT_VALUES.contains(&key) {
            return;
        }
        for name in ["value", "values"] {
            if let Some(value) = fields.get_mut(name) {
                self.names(value);
            }
        }
    }

    fn labels(&mut self, labels: &mut Map<String, Value>) {
        let renamed = std::mem::take(labels).into_iter().map(|(key, mut value)| {
            if !KEPT_VALUES.contains(&key.as_str()) {
                self.names(&mut value);
            }
            (self.key(&key), value)
        });
        *labels = renamed.collect();
    }

    fn keys(&mut self, value: &mut Value) {
        match value {
            Value::String(key) => *key = self.key(key),
            Value::Array(items) => items.iter_mut().for_each(|item| self.keys(item)),
            _ => {}
        }
    }

    /// Renames the keys of the levels of a topology.
    fn levels(&mut self, levels: &mut String) {
        let renamed = levels.split(',').map(|level| match level.trim().split_once(' ') {
            Some((key, wish)) => format!("{} {wish}", self.key(key)),
            None => self.key(level.trim()),
        });
        *levels = renamed.collect::<Vec<_>>().join(", ");
    }

    /// Renames the names in a text or a list of texts. Other values are objects, whose fields are
    /// renamed one by one.
    fn names(&mut self, value: &mut Value) {
        match value {
            Value::String(name) => *name = self.name(name),
            Value::Array(items) => items.iter_mut().for_each(|item| self.names(item)),
            Value::Object(fields) => self.fields(fields),
            _ => {}
        }
    }

    fn key(&mut self, key: &str) -> String {
        let is_of = |domain: &str, own: &str| {
            domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let is_kept = match key.split_once('/') {
            Some((domain, _)) => KEPT_DOMAINS.iter().any(|own| is_of(domain, own)),
            None => KEPT_KEYS.contains(&key),
        };
        if is_kept { key.to_owned() } else { self.name(key) }
    }

    fn name(&mut self, name: &str) -> String {
        let mut renamed = String::new();
        for part in name.split_inclusive(|c: char| !c.is_alphanumeric()) {
            let separator = part.chars().next_back().filter(|c| !c.is_alphanumeric());
            let word = &part[..part.len() - separator.map_or(0, char::len_utf8)];
            renamed += &self.part(word);
            renamed.extend(separator);
        }
        renamed
    }

    fn part(&mut self, part: &str) -> String {
        if KEPT_PARTS.contains(&part) || part.bytes().all(|byte| byte.is_ascii_digit()) {
            return part.to_owned();
        }
        let next = self.parts.len() + 1;
        let number = *self.parts.entry(part.into()).or_insert(next);
        format!("n{number}")
    }
}
