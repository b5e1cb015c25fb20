use framework::storage::{BIND_COMPLETED, SELECTED_NODE};
use framework::{AttemptMut, Code};
use testkit::{Harness, PodBuilder, bound_claim, handle, node, pod, storage_class};

use super::*;

fn harness(objects: impl IntoIterator<Item = StorageObject>) -> Harness {
    let harness = Harness::new(plugin_of(json!({})))
        .storage(storage_class("wait", DRIVER, WAIT))
        .storage(storage_class("now", DRIVER, "Immediate"))
        .storage(storage_class("odd", DRIVER, "Odd"));
    objects.into_iter().fold(harness, Harness::storage)
}

fn ephemeral() -> PodBuilder {
    pod("p").volume(json!({ "ephemeral": {} }))
}

#[test]
fn invalid_claims_reject_every_node_with_a_reason() {
    let data = || pod("p").claim("data");
    let deleted = |claim: StorageObject| {
        claim.set("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))
    };
    let wait = |spec: Value| {
        let mut spec = spec;
        spec["storageClassName"] = json!("wait");
        claim("data", spec)
    };
    let immediate = "pod has unbound immediate PersistentVolumeClaims";
    for (pod, objects, expected) in [
        (data(), vec![], "persistentvolumeclaim \"data\" not found"),
        (
            data(),
            vec![wait(json!({})).namespace("other")],
            "persistentvolumeclaim \"data\" not found",
        ),
        (
            ephemeral(),
            vec![],
            "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-v0\"",
        ),
        (
            data(),
            vec![bound_claim("data", "pv").set("/status", json!({ "phase": "Lost" }))],
            "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"pv\"",
        ),
        (
            data(),
            vec![claim("data", json!({})).set("/status", json!({ "phase": "Lost" }))],
            "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"\"",
        ),
        (data(), vec![deleted(wait(json!({})))], "persistentvolumeclaim \"data\" is being deleted"),
        (
            ephemeral(),
            vec![bound_claim("p-v0", "pv")],
            "PVC default/p-v0 was not created for pod default/p (pod is not owner)",
        ),
        (
            data(),
            vec![deleted(bound_claim("data", "pv").set("/status", json!({ "phase": "Lost" })))],
            "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"pv\"",
        ),
        (
            ephemeral(),
            vec![deleted(bound_claim("p-v0", "pv"))],
            "persistentvolumeclaim \"p-v0\" is being deleted",
        ),
        (data(), vec![claim("data", json!({}))], immediate),
        (
            data().namespace("team"),
            vec![claim("data", json!({})).namespace("team"), wait(json!({}))],
            immediate,
        ),
        (
            data().claim("other"),
            vec![wait(json!({})), claim("other", json!({ "storageClassName": "now" }))],
            immediate,
        ),
        (
            data().claim("other"),
            vec![bound_claim("data", "pv"), claim("other", json!({ "storageClassName": "now" }))],
            immediate,
        ),
        (data(), vec![claim("data", json!({ "storageClassName": "gone" }))], immediate),
        (data(), vec![claim("data", json!({ "storageClassName": "now" }))], immediate),
        (data(), vec![claim("data", json!({ "storageClassName": "odd" }))], immediate),
        (data(), vec![wait(json!({ "volumeName": "pv" }))], immediate),
        (
            data(),
            vec![wait(json!({ "volumeName": "pv" })).annotation(SELECTED_NODE, "a")],
            immediate,
        ),
        (
            data(),
            vec![wait(json!({ "resources": { "requests": { "storage": "ten" } } }))],
            "persistentvolumeclaim \"data\" cannot be read: spec.resources.requests.storage: \
             \"ten\": quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        let run = harness(objects).run(&pod.build());
        assert_eq!(run.pre_filter, Status::unresolvable(expected));
    }
}

#[test]
fn first_claim_in_volume_order_gives_the_reason() {
    let pod = pod("p").claim("one").claim("two").build();
    let run = harness([claim("one", json!({}))]).run(&pod);
    assert_eq!(run.pre_filter.message(), "persistentvolumeclaim \"two\" not found");
    let run = harness([claim("two", json!({}))]).run(&pod);
    assert_eq!(run.pre_filter.message(), "persistentvolumeclaim \"one\" not found");
}

#[test]
fn ephemeral_claim_must_be_owned_by_its_pod() {
    let owned_by = |uid: &str, controller: bool| {
        let owners = json!([{ "uid": uid, "controller": controller }]);
        bound_claim("p-v0", "pv").set("/metadata/ownerReferences", owners)
    };
    let pod = ephemeral().with(|pod| pod.metadata.uid = "uid-p".into()).build();
    for (claim, its_own) in [
        (owned_by("uid-p", true), true),
        (owned_by("uid-q", true), false),
        (owned_by("uid-p", false), false),
    ] {
        let run = harness([claim.clone()]).node(node("n").build()).run(&pod);
        assert_eq!(run.pre_filter.is_success(), its_own, "{claim:?}");
    }
}

#[test]
fn class_without_a_binding_mode_is_an_error() {
    let class = storage_class("vague", DRIVER, WAIT).set("/volumeBindingMode", json!(null));
    let claim = claim("data", json!({ "storageClassName": "vague" }));
    let run = harness([class, claim]).run(&pod("p").claim("data").build());
    let expected = "VolumeBindingMode not set for StorageClass \"vague\"";
    assert_eq!(run.pre_filter, Status::error(expected));
}

#[test]
fn pods_without_claims_are_skipped() {
    let inline = pod("p").volume(json!({ "csi": { "driver": DRIVER } }));
    for pod in [pod("p"), inline] {
        let (mut state, pod) = (CycleState::new(), pod.build());
        let plugin = plugin_of(json!({}));
        let point = plugin.pre_filter.unwrap();
        let status = point
            .pre_filter(AttemptMut::new(&mut state, &pod, &handle(&Cluster::default())))
            .unwrap_err();
        assert_eq!(status.code(), Code::Skip);
    }
}

#[test]
fn claims_are_classified_as_bound_or_delayed() {
    let owner = json!([{ "uid": "uid-p", "controller": true }]);
    let objects = [
        bound_claim("p-v0", "pv-0").set("/metadata/ownerReferences", owner),
        claim("one", json!({ "storageClassName": "wait" })),
        claim("two", json!({ "storageClassName": "wait" })).annotation(BIND_COMPLETED, "yes"),
    ];
    let pod = ephemeral().claim("two").claim("one").with(|pod| pod.metadata.uid = "uid-p".into());
    let harness = harness(objects);
    let claims = PodVolumeClaims::of(&pod.build(), harness.cluster(), &Default::default());
    let claims = claims.unwrap().unwrap();
    let bound: Vec<_> = claims.bound.iter().map(|claim| &*claim.name).collect();
    let delayed: Vec<_> = claims.delayed.iter().map(|own| &*own.claim.name).collect();
    assert_eq!((&bound[..], &delayed[..]), (&["p-v0"][..], &["two", "one"][..]));
}
