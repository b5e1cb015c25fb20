//! NodeResourceTopologies that come late, lie and go, and a load that is not measured. The pods of
//! the simulation are not Guaranteed: whatever the sources say, NodeResourceTopologyMatch takes
//! every node for them, and none may be lost or wait because of a source.

use std::sync::Arc;

use fastrand::Rng;
use framework::{EventResource, Time};
use serde_json::{Value, json};

use super::churn::nodes::NODE_NAMES;
use super::server::Server;

const PATH: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";

const GROUP_AND_VERSION: &str = "topology.node.k8s.io/v1alpha2";

/// One in this many actions is one of a source.
const SHARE: u32 = 8;

/// Returns the kind of the reports.
pub(crate) fn kind() -> EventResource {
    EventResource::Custom("noderesourcetopologies.v1alpha2.topology.node.k8s.io".into())
}

/// Returns the stored reports.
pub(crate) fn stored(server: &Server) -> impl Iterator<Item = &Arc<Value>> {
    let resource = server.store.resource_of_kind(GROUP_AND_VERSION, "NodeResourceTopology");
    resource.into_iter().flat_map(|resource| server.store.objects(resource))
}

/// Returns what counts of a report.
pub(crate) fn what_counts(report: &Value) -> Value {
    let metadata = json!({"name": report["metadata"]["name"], "uid": report["metadata"]["uid"]});
    json!({"metadata": metadata, "zones": report["zones"], "attributes": report["attributes"]})
}

/// Adds the plugins that read sources to a profile.
pub(crate) fn add_readers(profile: &mut Value) {
    let topology = json!({"cacheResyncPeriodSeconds": 5, "preemptionMode": "Enabled",
        "filterPolicies": ["single-numa-node", "restricted", "best-effort"],
        "cache": {"foreignPodsDetect": "None"}});
    let load = json!({"watcherAddress": "http://localhost:2020"});
    let readers = [
        ("NodeResourceTopologyMatch", topology),
        ("TargetLoadPacking", load.clone()),
        ("LoadVariationRiskBalancing", load.clone()),
        ("LowRiskOverCommitment", load),
    ];
    for (name, args) in readers {
        let plugins = profile["plugins"]["multiPoint"]["enabled"].as_array_mut();
        plugins.expect("a list").push(json!({"name": name}));
        let configs = profile["pluginConfig"].as_array_mut();
        configs.expect("a list").push(json!({"name": name, "args": args}));
    }
}

/// The agents of nodes.
pub(crate) struct Sources {
    rng: Rng,
}

impl Sources {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed) }
    }

    /// Lets the API server serve the kind, and reports some nodes.
    pub(crate) fn begin(&mut self, server: &mut Server, now: Time) {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": "v1alpha2", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "noderesourcetopologies.topology.node.k8s.io",
                "annotations": {"api-approved.kubernetes.io": "unapproved"}},
            "spec": {"group": "topology.node.k8s.io", "scope": "Cluster", "versions": [version],
                "names": {"kind": "NodeResourceTopology", "plural": "noderesourcetopologies"}}});
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let status = server.request("POST", path, &definition, now);
        assert_eq!(status, 201, "the definition of NodeResourceTopologies is refused");
        for _ in 0..self.rng.u32(..6) {
            self.change(server, now);
        }
    }

    /// Whether the next action is one of a source.
    pub(crate) fn is_next(&mut self) -> bool {
        self.rng.u32(..SHARE) == 0
    }

    /// Writes or deletes a report, and describes the action.
    pub(crate) fn change(&mut self, server: &mut Server, now: Time) -> String {
        let name = format!("n{}", self.rng.usize(..NODE_NAMES));
        let own = format!("{PATH}/{name}");
        if self.rng.u32(..5) == 0 {
            let status = server.request("DELETE", &own, &Value::Null, now);
            return format!("delete the report of {name}: {status}");
        }
        let report = self.report(&name);
        let mut status = server.request("POST", PATH, &report, now);
        if status == 409 {
            status = server.request("PATCH", &own, &report, now);
        }
        format!("report of {name} {report}: {status}")
    }

    /// Returns a report that has little to do with the node. A NUMA node of it lists what pods ask
    /// for; otherwise it would say that the node takes no pod.
    fn report(&mut self, name: &str) -> Value {
        let mut any = |values: &[&str]| values[self.rng.usize(..values.len())].to_owned();
        let policy = any(&["single-numa-node", "restricted", "best-effort", "none", "?"]);
        let scope = any(&["pod", "container", ""]);
        let fingerprint = any(&["pfp0v001607b76a0e9d3aeb4", "", "pfp"]);
        let zones = (0..self.rng.u32(1..4)).map(|id| {
            let amount = self.rng.u32(..4).to_string();
            let resource = |name: &str| {
                json!({"name": name, "capacity": "4", "allocatable": "4", "available": amount})
            };
            let resources = ["cpu", "memory"].map(resource);
            json!({"name": format!("node-{}", id * 3), "type": "Node", "resources": resources})
        });
        let zones: Vec<Value> = zones.collect();
        json!({"apiVersion": GROUP_AND_VERSION, "kind": "NodeResourceTopology",
            "metadata": {"name": name}, "zones": zones, "attributes": [
                {"name": "topologyManagerPolicy", "value": policy},
                {"name": "topologyManagerScope", "value": scope},
                {"name": "nodeTopologyPodsFingerprint", "value": fingerprint}]})
    }
}
