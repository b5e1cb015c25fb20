//! NodeResourcesFit.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::{Value, json};

use super::objects::{Object, Step, create, delete, label, node, object, patch, pod, taint};
use super::scenario::{Expected, Scenario, event};
use Expected::{Bound, Left, Retried};

const GPU: &str = "example.com/gpu";
const IGNORING_GPUS: &str = "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: \
    {ignoredResources: [example.com/gpu], scoringStrategy: {type: LeastAllocated, resources: \
    [{name: cpu, weight: 1}]}}}]}]";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![among_pods(), among_nodes(), among_device_classes(), with_ignored_resources()]
}

/// A node with other amounts of CPU and memory.
fn sized(name: &str, cpu: &str, memory: &str) -> Object {
    node(name).status(json!({"allocatable": {"cpu": cpu, "memory": memory}}))
}

fn resize(cpu: &str, memory: &str) -> Step {
    patch("nodes/n/status", json!({"status": {"allocatable": {"cpu": cpu, "memory": memory}}}))
}

/// The allocated resources of containers during a resize.
fn actual(resource: &str, amount: &str) -> Value {
    let resources = json!({"requests": {resource: amount}});
    json!({"containerStatuses": [{"name": "c", "image": "example.com/app:1", "imageID": "", "ready":
        true, "restartCount": 0, "resources": resources}]})
}

fn among_pods() -> Scenario {
    let given = [
        node("n"),
        pod("large").requests("cpu", "2").on("n"),
        pod("small").requests("cpu", "100m").on("n"),
        pod("shrinking").status(actual("cpu", "1500m")).on("n"),
        pod("forgetful").status(actual("memory", "2Gi")).on("n"),
    ];
    let resized = |resource, amount| json!({"status": actual(resource, amount)});
    Scenario::new(
        "NodeResourcesFit",
        pod("p").requests("cpu", "1").status(actual("cpu", "2")),
        given,
    )
    .on(event(R::AssignedPod, A::DELETE), "room comes free", delete("pods/large"), Bound)
    .on(event(R::AssignedPod, A::DELETE), "too little comes free", delete("pods/small"), Retried)
    .on(
        event(R::AssignedPod, A::UPDATE_POD_SCALE_DOWN),
        "a pod takes less CPU",
        patch("pods/shrinking/status", resized("cpu", "200m")),
        Bound,
    )
    .on(
        event(R::AssignedPod, A::UPDATE_POD_SCALE_DOWN),
        "a pod takes less memory",
        patch("pods/forgetful/status", resized("memory", "1Gi")),
        Left,
    )
    .on(
        event(R::UnschedulablePod, A::UPDATE_POD_SCALE_DOWN),
        "the pod itself takes less",
        patch("pods/p/status", resized("cpu", "1")),
        Retried,
    )
    .passes_over("a pod is labelled", label("pods/large", "k", "v"))
}

fn among_nodes() -> Scenario {
    let given = [node("n"), pod("large").requests("cpu", "2").on("n")];
    Scenario::new("NodeResourcesFit", pod("p").requests("cpu", "3"), given)
        .on(event(R::Node, A::ADD), "a node comes", create(node("m")), Bound)
        .on(event(R::Node, A::ADD), "a small node comes", create(sized("m", "2", "8Gi")), Left)
        .on(event(R::Node, A::UPDATE_NODE_ALLOCATABLE), "the node grows", resize("5", "8Gi"), Bound)
        .on(
            event(R::Node, A::UPDATE_NODE_ALLOCATABLE),
            "not enough",
            resize("4500m", "8Gi"),
            Retried,
        )
        .on(
            event(R::Node, A::UPDATE_NODE_ALLOCATABLE),
            "in memory alone",
            resize("4", "16Gi"),
            Left,
        )
        .on(
            event(R::Node, A::UPDATE_NODE_ALLOCATABLE),
            "the node shrinks",
            resize("3", "8Gi"),
            Left,
        )
        .on(
            event(R::Node, A::UPDATE_NODE_TAINT),
            "a node is tainted",
            taint("nodes/n", "k"),
            Retried,
        )
        .passes_over("the node is labelled", label("nodes/n", "k", "v"))
}

/// There are no devices, so DynamicResources rejects the pod when NodeResourcesFit leaves it to
/// devices.
fn among_device_classes() -> Scenario {
    let class = |name| object("resource.k8s.io/v1", "DeviceClass", name).spec(json!({}));
    let of_resource = |name, resource| class(name).spec(json!({"extendedResourceName": resource}));
    let rename =
        |resource| patch("deviceclasses/old", json!({"spec": {"extendedResourceName": resource}}));
    Scenario::new("NodeResourcesFit", pod("p").requests(GPU, "1"), [node("n"), class("old")])
        .on(
            event(R::DeviceClass, A::ADD),
            "a class of the resource comes",
            create(of_resource("new", GPU)),
            Retried,
        )
        .on(
            event(R::DeviceClass, A::ADD),
            "a class of another resource comes",
            create(of_resource("new", "example.com/nic")),
            Left,
        )
        .on(event(R::DeviceClass, A::UPDATE), "a class gets the resource", rename(GPU), Retried)
        .on(
            event(R::DeviceClass, A::UPDATE),
            "a class gets another",
            rename("example.com/nic"),
            Left,
        )
        .on(
            event(R::DeviceClass, A::UPDATE),
            "it is labelled",
            label("deviceclasses/old", "k", "v"),
            Left,
        )
        .passes_over("the class goes", delete("deviceclasses/old"))
}

fn with_ignored_resources() -> Scenario {
    let waiting = pod("p").requests("cpu", "3").requests(GPU, "1");
    Scenario::new("NodeResourcesFit", waiting, [sized("n", "2", "8Gi")])
        .configured(IGNORING_GPUS)
        .on(event(R::Node, A::ADD), "a node without GPUs comes", create(node("m")), Bound)
        .on(event(R::Node, A::UPDATE_NODE_ALLOCATABLE), "the node grows", resize("3", "8Gi"), Bound)
}

#[test]
fn node_resources_fit_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
