//! Extenders with a preempt verb.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Extender, Question};
use crate::e2e::cluster::{Cluster, run, uid};

/// A cluster full of pods of low priority.
struct Full {
    /// The pods, one per node.
    pods: [Pod; 2],
    /// The nodes of the pods.
    nodes: [String; 2],
}

impl Full {
    /// Creates two nodes with a pod each.
    async fn fill(cluster: &Cluster) -> Self {
        cluster.add_node("a", 1).await;
        cluster.add_node("b", 1).await;
        let first = cluster.create_pod(&cluster.pod("first", 1)).await;
        let second = cluster.create_pod(&cluster.pod("second", 1)).await;
        let nodes = [cluster.bound("first").await, cluster.bound("second").await];
        Self { pods: [first, second], nodes }
    }

    /// Returns the answer that accepts this pod on this node as victim.
    fn accept(&self, pod: usize, node: usize) -> Value {
        let victims = json!({"Pods": [{"UID": uid(&self.pods[pod])}], "NumPDBViolations": 0});
        json!({"NodeNameToMetaVictims": {&self.nodes[node]: victims}})
    }
}

/// Creates a pod that needs the room of another.
async fn create_preemptor(cluster: &Cluster, name: &str) {
    let mut pod = cluster.pod(name, 1);
    pod.spec.as_mut().unwrap().priority_class_name = Some("system-cluster-critical".to_owned());
    cluster.create_pod(&pod).await;
}

/// Returns the next call, which must be about this preemptor.
async fn asked(extender: &mut Extender, name: &str) -> Question {
    let question = extender.asked("preempt").await;
    assert_eq!(question.args["Pod"]["metadata"]["name"], name);
    question
}

#[test]
fn extender_chooses_the_victim() {
    run(async |cluster| {
        let mut extender = Extender::start().await;
        let settings = json!({"preemptVerb": "preempt"});
        let _daemon = extender.scheduler(cluster, settings).await;
        let full = Full::fill(cluster).await;
        create_preemptor(cluster, "web").await;

        let question = asked(&mut extender, "web").await;
        assert_eq!(question.args["NodeNameToMetaVictims"], Value::Null);
        for (node, pod) in full.nodes.iter().zip(&full.pods) {
            let victims = &question.args["NodeNameToVictims"][node];
            assert_eq!(victims["NumPDBViolations"], 0);
            assert_eq!(victims["Pods"].as_array().map(Vec::len), Some(1));
            let victim = &victims["Pods"][0];
            assert_eq!(victim["metadata"]["uid"], uid(pod));
            assert_eq!(victim["spec"]["containers"][0]["image"], "registry.k8s.io/pause:3.10");
        }
        question.answer(full.accept(1, 1));
        assert_eq!(cluster.bound("web").await, full.nodes[1]);
        let told = cluster.events(&full.pods[1], "Preempted").await;
        assert_eq!(told.len(), 1);
        assert_eq!(cluster.bound("first").await, full.nodes[0], "it stays");
    });
}

#[test]
fn invalid_answer_of_an_extender_evicts_no_pod() {
    run(async |cluster| {
        let mut extender = Extender::start().await;
        let settings = json!({
            "preemptVerb": "preempt", "nodeCacheCapable": true, "httpTimeout": "500ms",
        });
        let daemon = extender.scheduler(cluster, settings).await;
        let full = Full::fill(cluster).await;

        let stranger = json!({"stranger": {"Pods": [{"UID": uid(&full.pods[0])}]}});
        let empty = json!({&full.nodes[0]: {"Pods": []}});
        let wrong = [
            ("lying", json!({"NodeNameToMetaVictims": stranger}), "nodeinfo not found for node"),
            ("mistaken", full.accept(0, 1), "but the pod is not found on that node"),
            ("sparing", json!({"NodeNameToMetaVictims": empty}), "expected at least one victim"),
            ("babbling", json!("what?"), "cannot decode ExtenderPreemptionResult"),
            ("refusing", json!({}), "preemption: no candidate node for preemption"),
        ];
        for (name, answer, text) in wrong {
            create_preemptor(cluster, name).await;
            asked(&mut extender, name).await.answer(answer);
            cluster.has_condition(name, text).await;
        }
        create_preemptor(cluster, "broken").await;
        drop(asked(&mut extender, "broken").await);
        cluster.has_condition("broken", "failed preempt with extender at URL").await;

        create_preemptor(cluster, "hanging").await;
        let hanging = asked(&mut extender, "hanging").await;
        for (node, pod) in full.nodes.iter().zip(&full.pods) {
            let expected = json!({"Pods": [{"UID": uid(pod)}], "NumPDBViolations": 0});
            assert_eq!(hanging.args["NodeNameToMetaVictims"][node], expected);
        }
        assert_eq!(hanging.args["NodeNameToVictims"], Value::Null);
        cluster.has_condition("hanging", "/preempt\": context deadline exceeded").await;
        // A late answer changes nothing.
        hanging.answer(full.accept(0, 0));
        assert_eq!(cluster.bound_pods(2).await.len(), 2, "the first and the second");
        assert!(daemon.log.lines("panick").is_empty());
    });
}

#[test]
fn ignorable_extender_does_not_block_preemption() {
    run(async |cluster| {
        let mut extender = Extender::start().await;
        let settings = json!({
            "preemptVerb": "preempt", "ignorable": true, "httpTimeout": "200ms",
        });
        let daemon = extender.scheduler(cluster, settings).await;
        let full = Full::fill(cluster).await;
        create_preemptor(cluster, "lying").await;
        asked(&mut extender, "lying").await.answer(full.accept(0, 1));
        let taken = cluster.bound("lying").await;
        daemon.log.line("but the pod is not found on that node").await;

        create_preemptor(cluster, "hanging").await;
        let _held = asked(&mut extender, "hanging").await;
        assert_ne!(cluster.bound("hanging").await, taken);
        daemon.log.line("Extender does not answer and is not called until it does").await;
        cluster.assert_bound_once().await;
    });
}
