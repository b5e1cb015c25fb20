//! Extenders, which cannot register events: every event may help the pods they reject.

use engine::ports::{CallError, ExtenderCall, ExtenderClient, Filtered};
use framework::ActionType as A;
use framework::EventResource as R;
use framework::Time;
use serde_json::json;

use super::objects::{create, delete, label, node, object, pod, taint};
use super::scenario::{Expected, Scenario, event};
use Expected::{Bound, Retried};

const CONFIGURED: &str = "extenders: [{urlPrefix: \"http://choosy.example.com\", \
    filterVerb: filter, nodeCacheCapable: true}]";

/// An extender that accepts one node only.
#[derive(Debug)]
pub(crate) struct Choosy;

/// The accepted node.
const CHOSEN: &str = "chosen";

impl ExtenderClient for Choosy {
    fn filter(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<Filtered, CallError>, Time) {
        let (taken, left) = call.nodes.iter().partition::<Vec<&str>, _>(|node| **node == CHOSEN);
        let failed = left.into_iter().map(|node| (node.to_owned(), "not chosen".to_owned()));
        let answer = Filtered {
            nodes: taken.into_iter().map(str::to_owned).collect(),
            failed: failed.collect(),
            ..Filtered::default()
        };
        (Ok(answer), now)
    }
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let storage = |kind, name| object("storage.k8s.io/v1", kind, name);
    let class = storage("StorageClass", "fast").with("provisioner", json!("example.com/disk"));
    vec![
        Scenario::new("Extender", pod("p"), [node("n"), pod("q").on("n")])
            .configured(CONFIGURED)
            .on(event(R::Node, A::ADD), "its node comes", create(node(CHOSEN)), Bound)
            .on(event(R::Node, A::ADD), "another node comes", create(node("m")), Retried)
            .on(
                event(R::Node, A::UPDATE_NODE_LABEL),
                "a node is labelled",
                label("nodes/n", "k", "v"),
                Retried,
            )
            .on(
                event(R::Node, A::UPDATE_NODE_TAINT),
                "a node is tainted",
                taint("nodes/n", "k"),
                Retried,
            )
            .on(event(R::AssignedPod, A::ADD), "a pod comes", create(pod("r").on("n")), Retried)
            .on(
                event(R::AssignedPod, A::UPDATE_POD_LABEL),
                "a pod is labelled",
                label("pods/q", "k", "v"),
                Retried,
            )
            .on(event(R::AssignedPod, A::DELETE), "a pod goes", delete("pods/q"), Retried)
            .on(event(R::StorageClass, A::ADD), "a StorageClass comes", create(class), Retried),
    ]
}

#[test]
fn extender_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
