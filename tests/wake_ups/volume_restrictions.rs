//! VolumeRestrictions.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::json;

use super::objects::{Object, create, delete, label, node, pod, taint};
use super::scenario::{Expected, Scenario, event};
use super::storage::{bound_claim, claim, claiming, volume, with_volume};
use Expected::{Bound, Left, Retried};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![with_a_disk(), with_a_claim_for_one_pod(), without_its_claim()]
}

fn with_disk(name: &str, disk: &str) -> Object {
    with_volume(name, json!({"gcePersistentDisk": {"pdName": disk}}))
}

fn with_a_disk() -> Scenario {
    let given = [node("n"), with_disk("same", "d").on("n"), with_disk("other", "e").on("n")];
    Scenario::new("VolumeRestrictions", with_disk("p", "d"), given)
        .on(event(R::AssignedPod, A::DELETE), "the disk is free", delete("pods/same"), Bound)
        .on(event(R::AssignedPod, A::DELETE), "another disk is free", delete("pods/other"), Left)
        .on(event(R::Node, A::ADD), "a node comes", create(node("m")), Bound)
        .on(
            event(R::Node, A::UPDATE_NODE_TAINT),
            "a node is tainted",
            taint("nodes/n", "k"),
            Retried,
        )
        .passes_over("the node is labelled", label("nodes/n", "k", "v"))
        .passes_over("the pod with the disk is labelled", label("pods/same", "k", "v"))
}

fn with_a_claim_for_one_pod() -> Scenario {
    let for_one_pod = json!({"accessModes": ["ReadWriteOncePod"]});
    let given = [
        node("n"),
        volume("pv", ""),
        bound_claim("data", "pv").spec(for_one_pod),
        claiming("user", "data").on("n"),
        pod("other").on("n"),
    ];
    Scenario::new("VolumeRestrictions", claiming("p", "data"), given)
        .on(event(R::AssignedPod, A::DELETE), "its user goes", delete("pods/user"), Bound)
        .on(event(R::AssignedPod, A::DELETE), "another pod goes", delete("pods/other"), Left)
        .on(event(R::Node, A::ADD), "a node comes", create(node("m")), Retried)
        .passes_over("the claim is labelled", label("persistentvolumeclaims/data", "k", "v"))
}

fn without_its_claim() -> Scenario {
    Scenario::new("VolumeRestrictions", claiming("p", "data"), [node("n"), volume("pv", "")])
        .on(
            event(R::PersistentVolumeClaim, A::ADD),
            "the claim comes",
            create(bound_claim("data", "pv")),
            Bound,
        )
        .on(
            event(R::PersistentVolumeClaim, A::ADD),
            "another claim comes",
            create(claim("other", "")),
            Left,
        )
}

#[test]
fn volume_restrictions_reject_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
