//! Plugins of scheduler-plugins in `config validate` and `simulate`.

use serde_json::{Value, json};

use super::{loadmaster, loadmaster_with, placements, written};

const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/config/examples/scheduler-plugins.yaml");

#[test]
fn configuration_of_the_guide_is_valid_and_its_output_is_shown() {
    let guide = include_str!("../../docs/guides/scheduler-plugins.md");
    let (_, after) = guide.split_once("```text\n").unwrap();
    let (shown, _) = after.split_once("```").unwrap();
    let answer = loadmaster(&["config", "validate", EXAMPLE]);
    let printed = format!("{}{}", answer.err, answer.out)
        .replace(concat!(env!("CARGO_MANIFEST_DIR"), "/"), "");
    assert_eq!((answer.code, &*printed), (Some(0), shown));
}

#[test]
fn profile_with_a_plugin_that_is_not_built_names_what_serves_instead() {
    let text = include_str!("../../config/examples/scheduler-plugins.yaml");
    for (name, instead) in [
        ("NetworkOverhead", "podAffinity"),
        ("TopologicalSort", "PrioritySort"),
        ("SySched", "podAntiAffinity"),
        ("Peaks", "MostAllocated"),
        ("CrossNodePreemption", "DefaultPreemption"),
        ("PreemptionToleration", "DefaultPreemption"),
    ] {
        let profile = text.replace("enabled:\n", &format!("enabled:\n      - name: {name}\n"));
        let error = loadmaster_with(&["config", "validate", "-"], &profile).refused(1);
        assert!(
            error.contains(&format!("initializing plugin {name:?}: it is not built: ")),
            "{error}"
        );
        assert!(error.contains(instead), "{error}");
    }
}

#[test]
fn kinds_permissions_and_servers_of_plugins_are_named() {
    let needs = |plugin: &str, args: &str| {
        let config = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: {plugin}}}]}}}}
  pluginConfig: [{{name: {plugin}, args: {args}}}]
"
        );
        let answer = loadmaster_with(&["config", "validate", "-"], &config);
        assert_eq!(answer.code, Some(0), "{}", answer.err);
        let (_, needs) = answer.out.split_once('\n').unwrap();
        needs.to_owned()
    };
    assert_eq!(
        needs(
            "NodeMetadata",
            "{metadataKey: k, metadataSource: Label, metadataType: Number, scoringStrategy: Highest}"
        ),
        ""
    );
    assert_eq!(
        needs("NodeResourceTopologyMatch", "{}"),
        "needs the CustomResourceDefinition noderesourcetopologies.topology.node.k8s.io with version v1alpha2, \
         and to list and watch noderesourcetopologies.topology.node.k8s.io; pods are scheduled without them\n"
    );
    let metrics = "needs an API server that serves nodes.metrics.k8s.io with version v1beta1, and to list \
                   nodes.metrics.k8s.io\n";
    for name in [
        "TargetLoadPacking",
        "LoadVariationRiskBalancing",
        "LowRiskOverCommitment",
        "LoadAwareScheduling",
    ] {
        assert_eq!(needs(name, "{}"), metrics, "{name}");
        let watcher = "{watcherAddress: 'http://load-watcher:2020'}";
        assert_eq!(needs(name, watcher), "needs HTTP requests to http://load-watcher:2020\n");
        let prometheus = "{metricProvider: {type: Prometheus, token: secret}}";
        assert_eq!(needs(name, prometheus), "needs HTTP requests to http://prometheus-k8s:9090\n");
    }
}

fn node(name: &str, cpu: &str) -> Value {
    let allocatable = json!({"cpu": cpu, "memory": "64Gi", "pods": "10"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": allocatable}})
}

/// The report of a node with two NUMA nodes of so many free CPUs.
fn report(name: &str, cpu: &str) -> Value {
    let zones = ["node-0", "node-1"].map(|zone| {
        let resource = |name: &str, amount: &str| {
            json!({"name": name, "capacity": amount, "allocatable": amount, "available": amount})
        };
        json!({"name": zone, "type": "Node", "resources": [resource("cpu", cpu), resource("memory", "32Gi")]})
    });
    json!({"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
        "metadata": {"name": name}, "topologyPolicies": ["SingleNUMANodePodLevel"], "zones": zones})
}

fn pod(name: &str, cpu: &str) -> Value {
    let amounts = json!({"cpu": cpu, "memory": "1Gi"});
    let resources = json!({"requests": amounts, "limits": amounts});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "x"},
        "spec": {"schedulerName": "topo-aware-scheduler", "containers": [{"name": "c", "resources": resources}]}})
}

/// A pod goes where one NUMA node has room for it, and the room that it may take is taken from
/// both.
#[test]
fn pods_are_kept_off_nodes_whose_kubelet_would_refuse_them() {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "noderesourcetopologies.topology.node.k8s.io"},
        "spec": {"group": "topology.node.k8s.io", "scope": "Cluster",
            "names": {"kind": "NodeResourceTopology", "plural": "noderesourcetopologies"},
            "versions": [{"name": "v1alpha2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let items = [
        definition,
        node("wide", "20"),
        report("wide", "4"),
        node("deep", "16"),
        report("deep", "8"),
        pod("first", "6"),
        pod("second", "6"),
    ];
    let input = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let config = written(
        "node-resource-topology.yaml",
        b"apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: topo-aware-scheduler
  plugins:
    multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args: {cacheResyncPeriodSeconds: 5}
",
    );
    let answer =
        loadmaster_with(&["simulate", "--config", &config, "-f", "-", "-o", "json"], &input).json();
    assert_eq!(placements(&answer), [("first".to_owned(), "deep".to_owned())], "{answer}");
    let left = answer["simulation"]["left"].to_string();
    assert!(left.contains("cannot align pod"), "{left}");
}
