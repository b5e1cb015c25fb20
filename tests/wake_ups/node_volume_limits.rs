//! NodeVolumeLimits.

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::{Value, json};

use super::objects::{Object, Step, create, delete, label, node, patch, pod, taint};
use super::scenario::{Expected, Scenario, event};
use super::storage::{
    DRIVER, attachment, bound_claim, claim, claiming, csi_node, volume, with_volume,
};
use Expected::{Bound, Left, Retried};

const CLAIM: R = R::PersistentVolumeClaim;
const CLAIMS: &str = "persistentvolumeclaims";
const EBS: &str = "ebs.csi.aws.com";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![behind_a_pod(), whose_claim_comes_back(), behind_an_attachment(), with_an_inline_disk()]
}

/// The only node can attach one volume, and has it.
fn full() -> Scenario {
    let given = [
        node("n"),
        csi_node("n", DRIVER, 1),
        volume("pv-user", ""),
        bound_claim("of-user", "pv-user"),
        claiming("user", "of-user").on("n"),
        pod("other").on("n"),
        volume("pv", ""),
        bound_claim("data", "pv"),
    ];
    Scenario::new("NodeVolumeLimits", claiming("p", "data"), given)
}

fn behind_a_pod() -> Scenario {
    let drivers = |drivers: Value| patch("csinodes/n", json!({"spec": {"drivers": drivers}}));
    let limited = |count| json!([{"name": DRIVER, "nodeID": "n", "allocatable": {"count": count}}]);
    full()
        .on(
            event(R::AssignedPod, A::DELETE),
            "a pod with a volume goes",
            delete("pods/user"),
            Bound,
        )
        .on(
            event(R::AssignedPod, A::DELETE),
            "a pod without volumes goes",
            delete("pods/other"),
            Left,
        )
        .on(
            event(R::AssignedPod, A::ADD),
            "a pod brings the volume to the node",
            create(claiming("sharer", "data").on("n")),
            Bound,
        )
        .on(event(R::AssignedPod, A::ADD), "another pod comes", create(pod("more").on("n")), Left)
        .on(
            event(R::VolumeAttachment, A::ADD),
            "its volume is attached to the node",
            create(attachment("own", DRIVER, "n", "pv")),
            Bound,
        )
        .on(
            event(R::VolumeAttachment, A::ADD),
            "the volume of the other pod is attached",
            create(attachment("others", DRIVER, "n", "pv-user")),
            Left,
        )
        .on(event(R::CsiNode, A::UPDATE), "the limit rises", drivers(limited(2)), Bound)
        .on(event(R::CsiNode, A::UPDATE), "the limit falls", drivers(limited(0)), Left)
        .on(event(R::CsiNode, A::UPDATE), "the limit goes", drivers(json!([])), Bound)
        .on(event(R::CsiNode, A::DELETE), "the limits go", delete("csinodes/n"), Bound)
        .on(event(R::Node, A::ADD), "a node comes", create(node("m")), Bound)
        .on(
            event(R::Node, A::UPDATE_NODE_TAINT),
            "a node is tainted",
            taint("nodes/n", "k"),
            Retried,
        )
        .on(
            event(CLAIM, A::DELETE),
            "the claim of the pod goes",
            delete(&format!("{CLAIMS}/of-user")),
            Bound,
        )
        .on(
            event(CLAIM, A::DELETE),
            "a claim of no pod goes",
            delete(&format!("{CLAIMS}/data")),
            Left,
        )
        .on(
            event(R::PersistentVolume, A::DELETE),
            "its volume goes",
            delete("persistentvolumes/pv-user"),
            Bound,
        )
        .on(
            event(R::CsiNode, A::ADD),
            "another is heard of",
            create(csi_node("m", DRIVER, 5)),
            Retried,
        )
        .passes_over("the node is labelled", label("nodes/n", "k", "v"))
}

fn whose_claim_comes_back() -> Scenario {
    full()
        .after(delete(&format!("{CLAIMS}/data")))
        .on(
            event(CLAIM, A::ADD),
            "its claim comes back",
            create(bound_claim("data", "pv")),
            Retried,
        )
        .on(event(CLAIM, A::ADD), "another claim comes", create(claim("more", "")), Left)
}

fn behind_an_attachment() -> Scenario {
    let given = [
        node("n"),
        csi_node("n", DRIVER, 1),
        volume("pv-left", ""),
        attachment("left", DRIVER, "n", "pv-left"),
        volume("pv", ""),
        bound_claim("data", "pv"),
    ];
    Scenario::new("NodeVolumeLimits", claiming("p", "data"), given).on(
        event(R::VolumeAttachment, A::DELETE),
        "a volume is detached",
        delete("volumeattachments/left"),
        Bound,
    )
}

fn with_an_inline_disk() -> Scenario {
    let with_disk =
        |name: &str, id: &str| with_volume(name, json!({"awsElasticBlockStore": {"volumeID": id}}));
    let given: [Object; 6] = [
        node("n"),
        csi_node("n", EBS, 1),
        with_disk("user", "vol-1").on("n"),
        volume("pv", ""),
        attachment("ebs", EBS, "m", "pv"),
        attachment("others", DRIVER, "n", "pv"),
    ];
    let detach = |name: &str| -> Step { delete(&format!("volumeattachments/{name}")) };
    Scenario::new("NodeVolumeLimits", with_disk("p", "vol-2"), given)
        .on(event(R::VolumeAttachment, A::DELETE), "the driver detaches", detach("ebs"), Retried)
        .on(
            event(R::VolumeAttachment, A::DELETE),
            "another driver detaches",
            detach("others"),
            Left,
        )
}

#[test]
fn node_volume_limits_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}
