use framework::{Attempt, AttemptMut, Code, EventObjects, QueueingHint, api};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{Harness, PodBuilder, claim, handle, node, pod};

use super::*;
use crate::arbitrary::storage::{StorageObjects, storage_objects};
use crate::arbitrary::{self, World, history};
use crate::forms;

fn built() -> Plugin {
    plugin(&PluginArgs::default()).unwrap()
}

fn harness() -> Harness {
    Harness::new(built()).node(node("n").build()).node(node("m").build())
}

fn exclusive_claim(name: &str) -> testkit::StorageObject {
    claim(name, json!({ "accessModes": ["ReadWriteOncePod"] }))
}

#[test]
fn disks_conflict_by_the_rules_of_their_plugins() {
    let gce =
        |name: &str, ro: bool| json!({ "gcePersistentDisk": { "pdName": name, "readOnly": ro } });
    let aws =
        |name: &str| json!({ "awsElasticBlockStore": { "volumeID": name, "readOnly": true } });
    let iscsi = |iqn: &str, portal: &str, ro: bool| {
        let source = json!({ "iqn": iqn, "targetPortal": portal, "lun": 0, "readOnly": ro });
        json!({ "iscsi": source })
    };
    let rbd = |monitors: &[&str], pool: &str, image: &str, ro: bool| {
        let source = json!({ "monitors": monitors, "pool": pool, "image": image, "readOnly": ro });
        json!({ "rbd": source })
    };
    for (wanted, used, conflict) in [
        (gce("a", false), gce("a", false), true),
        (gce("a", true), gce("a", false), true),
        (gce("a", true), gce("a", true), false),
        (gce("a", false), gce("b", false), false),
        (aws("a"), aws("a"), true),
        (aws("a"), aws("b"), false),
        (aws("a"), gce("a", false), false),
        (iscsi("i", "x", false), iscsi("i", "y", true), true),
        (iscsi("i", "x", true), iscsi("i", "x", true), false),
        (iscsi("i", "x", false), iscsi("j", "x", false), false),
        (rbd(&["m", "n"], "p", "i", false), rbd(&["o", "n"], "p", "i", true), true),
        (rbd(&["m"], "p", "i", true), rbd(&["m"], "p", "i", true), false),
        (rbd(&["m"], "p", "i", false), rbd(&["n"], "p", "i", false), false),
        (rbd(&["m"], "p", "i", false), rbd(&["m"], "q", "i", false), false),
        (rbd(&["m"], "p", "i", false), rbd(&["m"], "p", "j", false), false),
        (rbd(&[], "p", "i", false), rbd(&[], "p", "i", false), false),
        (json!({ "cinder": { "volumeID": "a" } }), json!({ "cinder": { "volumeID": "a" } }), false),
    ] {
        let using = pod("q").volume(json!({ "emptyDir": {} })).volume(used.clone()).on("n").build();
        // A disk of its own prevents Skip.
        let wanting = pod("p").volume(gce("own", false)).volume(wanted.clone()).build();
        let run = harness().pod(using).run(&wanting);
        let expected =
            if conflict { Status::unschedulable(REASON_DISK) } else { Status::success() };
        assert_eq!(run.verdicts["n"], expected, "{wanted} beside {used}");
        assert!(run.verdicts["m"].is_success());
    }
}

#[test]
fn read_write_once_pod_claim_conflicts_on_every_node() {
    let wanting = pod("p").namespace("team").claim("data").build();
    let user = |claim: &str| pod("q").namespace("team").claim(claim).on("n");
    let harness = || {
        let objects = [exclusive_claim("data"), claim("other", json!({}))];
        objects.into_iter().fold(harness(), |harness, own| harness.storage(own.namespace("team")))
    };
    for (used, taken) in [
        (user("data"), true),
        (user("other"), false),
        (user("data").namespace("elsewhere"), false),
        (user("data").namespace("default"), false),
        (user("data").on("unknown"), true),
    ] {
        let run = harness().pod(used.build()).run(&wanting);
        let expected = if taken {
            Status::unschedulable(REASON_READ_WRITE_ONCE_POD)
        } else {
            Status::success()
        };
        assert!(run.verdicts.values().all(|status| *status == expected), "{run}");
    }
    let sharing = pod("p").namespace("team").claim("other").build();
    let shared = harness().pod(user("other").build()).run(&sharing);
    assert_eq!(shared.feasible(), ["m", "n"]);
}

#[test]
fn disk_conflict_is_reported_before_claim_conflict() {
    let disk = || json!({ "gcePersistentDisk": { "pdName": "d" } });
    let using = pod("q").claim("data").volume(disk()).on("n").build();
    let harness = harness().storage(exclusive_claim("data")).pod(using);
    let run = harness.run(&pod("p").claim("data").volume(disk()).build());
    assert_eq!(run.verdicts["n"], Status::unschedulable(REASON_DISK));
    assert_eq!(run.verdicts["m"], Status::unschedulable(REASON_READ_WRITE_ONCE_POD));
}

#[test]
fn pods_without_exclusive_volumes_are_skipped() {
    let harness = harness().storage(exclusive_claim("data"));
    let pre_filter = built().pre_filter.unwrap();
    for (pod, skipped) in [
        (pod("p"), true),
        (pod("p").claim("data"), true),
        (pod("p").volume(json!({ "ephemeral": {} })), true),
        (pod("p").volume(json!({ "cinder": { "volumeID": "a" } })), true),
        (pod("p").volume(json!({ "rbd": {} })), false),
    ] {
        let pod = pod.build();
        let result = pre_filter.pre_filter(AttemptMut::new(
            &mut CycleState::new(),
            &pod,
            &handle(harness.cluster()),
        ));
        assert_eq!(result.is_err_and(|status| status.is_skip()), skipped, "{:?}", pod.spec.volumes);
    }
}

#[test]
fn missing_claim_rejects_every_node() {
    let run = harness().run(&pod("p").claim("data").build());
    let expected = Status::unresolvable("persistentvolumeclaim \"data\" not found");
    assert_eq!(run.pre_filter, expected);
}

#[test]
fn what_if_changes_count_users_of_the_claims() {
    let harness = harness()
        .storage(exclusive_claim("data"))
        .storage(exclusive_claim("more"))
        .pod(pod("q").claim("data").on("n").build());
    let (plugin, cluster) = (built(), harness.cluster());
    let wanting = pod("p").claim("data").claim("more").build();
    let mut state = CycleState::new();
    plugin
        .pre_filter
        .unwrap()
        .pre_filter(AttemptMut::new(&mut state, &wanting, &handle(cluster)))
        .unwrap();
    let (extensions, filter) = (plugin.pre_filter_extensions.unwrap(), plugin.filter.unwrap());
    let view = cluster.node(cluster.node_named("m").unwrap());
    let mut fits_with = |added: &[&Pod], removed: &[&Pod]| {
        for other in added {
            assert!(
                extensions
                    .add_pod(
                        AttemptMut::new(&mut state, &wanting, &handle(view.cluster())),
                        other,
                        &view
                    )
                    .is_success()
            );
        }
        for other in removed {
            assert!(
                extensions
                    .remove_pod(
                        AttemptMut::new(&mut state, &wanting, &handle(view.cluster())),
                        other,
                        &view
                    )
                    .is_success()
            );
        }
        filter.filter(&Attempt::new(&state, &wanting, &handle(view.cluster())), &view).is_success()
    };
    let user = pod("q").claim("data").on("n").build();
    let other = pod("r").claim("more").claim("unrelated").on("n").build();
    assert!(!fits_with(&[], &[]));
    assert!(fits_with(&[], &[&user]));
    assert!(!fits_with(&[&other], &[]));
    assert!(fits_with(&[&user], &[&other, &user]));
    let of_both = pod("s").claim("data").claim("more").on("n").build();
    assert!(fits_with(&[&of_both], &[&of_both]));
    assert!(!fits_with(&[&of_both], &[&user]));
}

#[test]
fn filter_without_pre_filter_is_an_error() {
    let harness = harness();
    let (filter, cluster) = (built().filter.unwrap(), harness.cluster());
    let (state, pod) = (CycleState::new(), pod("p").build());
    let view = cluster.node(cluster.node_named("n").unwrap());
    let expected = Status::error("cannot read \"PreFilterVolumeRestrictions\" from cycleState");
    assert_eq!(
        filter.filter(&Attempt::new(&state, &pod, &handle(view.cluster())), &view),
        expected
    );
    let mut nodes = cluster.nodes().clone();
    assert_eq!(
        filter.filter_set(&Attempt::new(&state, &pod, &handle(cluster)), &mut nodes),
        Err(expected.clone())
    );
    let extensions = built().pre_filter_extensions.unwrap();
    assert_eq!(
        extensions.add_pod(
            AttemptMut::new(&mut CycleState::new(), &pod, &handle(view.cluster())),
            &pod,
            &view
        ),
        expected
    );
    assert_eq!(expected.code(), Code::Error);
}

#[test]
fn deleted_pod_frees_its_disks_and_claims() {
    let disk = || json!({ "gcePersistentDisk": { "pdName": "d" } });
    let on_deletion = |waiting: PodBuilder, old: PodBuilder| {
        let (waiting, old) = (waiting.build(), old.on("n").build());
        let objects = EventObjects::Pod { old: Some(&old), new: None };
        let (resource, action) = (EventResource::AssignedPod, ActionType::DELETE);
        forms::hint(&built(), &waiting, resource, action, objects)
    };
    let (wanting_disk, wanting_claim) = (pod("p").volume(disk()), pod("p").claim("data"));
    for (waiting, old, helps) in [
        (&wanting_disk, pod("q").volume(disk()), true),
        (&wanting_disk, pod("q").volume(disk()).namespace("elsewhere"), true),
        (&wanting_disk, pod("q").claim("data"), false),
        (&wanting_claim, pod("q").claim("data"), true),
        (&wanting_claim, pod("q").claim("data").namespace("elsewhere"), false),
        (&wanting_claim, pod("q"), false),
        (&wanting_claim.clone().claim("more"), pod("q").claim("other").claim("more"), true),
    ] {
        let expected = QueueingHint::queue_if(helps);
        assert_eq!(on_deletion(waiting.clone(), old.clone()), expected, "{old:?}");
    }
}

#[test]
fn new_claim_requeues_pods_that_name_it() {
    let on_addition = |waiting: PodBuilder, new: testkit::StorageObject| {
        let new = new.decoded();
        let objects = EventObjects::Other { old: None, new: Some(&new) };
        let (resource, action) = (EventResource::PersistentVolumeClaim, ActionType::ADD);
        forms::hint(&built(), &waiting.build(), resource, action, objects)
    };
    let ephemeral = pod("p").volume(json!({ "ephemeral": {} }));
    for (waiting, new, helps) in [
        (pod("p").claim("data"), claim("data", json!({})), true),
        (pod("p").claim("data"), claim("data", json!({})).namespace("elsewhere"), false),
        (pod("p").claim("data"), claim("other", json!({})), false),
        (ephemeral, claim("p-v0", json!({})), false),
    ] {
        let expected = QueueingHint::queue_if(helps);
        assert_eq!(on_addition(waiting, new.clone()), expected, "{new:?}");
    }
}

/// The rule on API objects.
mod oracle {
    use serde::Serialize;

    use super::*;

    fn both_read(a: &Value, b: &Value) -> bool {
        a["readOnly"] == true && b["readOnly"] == true
    }

    fn share<T>(a: &Option<T>, b: &Option<T>, rule: impl Fn(&Value, &Value) -> bool) -> bool
    where
        T: Serialize,
    {
        let json = |source: &T| serde_json::to_value(source).unwrap();
        a.as_ref().zip(b.as_ref()).is_some_and(|(a, b)| rule(&json(a), &json(b)))
    }

    fn conflict(a: &api::Volume, b: &api::Volume) -> bool {
        let same = |field: &'static str| move |a: &Value, b: &Value| a[field] == b[field];
        let one_image = |a: &Value, b: &Value| {
            let monitors = |of: &Value| of["monitors"].as_array().cloned().unwrap_or_default();
            monitors(a).iter().any(|monitor| monitors(b).contains(monitor))
                && (&a["pool"], &a["image"]) == (&b["pool"], &b["image"])
        };
        share(&a.aws_elastic_block_store, &b.aws_elastic_block_store, same("volumeID"))
            || share(&a.gce_persistent_disk, &b.gce_persistent_disk, |a, b| {
                same("pdName")(a, b) && !both_read(a, b)
            })
            || share(&a.iscsi, &b.iscsi, |a, b| same("iqn")(a, b) && !both_read(a, b))
            || share(&a.rbd, &b.rbd, |a, b| one_image(a, b) && !both_read(a, b))
    }

    fn claims(pod: &api::Pod) -> impl Iterator<Item = &str> {
        let sources = pod.spec.volumes.iter().filter_map(|v| v.persistent_volume_claim.as_ref());
        sources.map(|source| source.claim_name.as_str())
    }

    pub(super) fn verdict(
        world: &World,
        objects: &StorageObjects,
        pod: &api::Pod,
        node: &str,
    ) -> Status {
        if let Some(missing) = claims(pod).find(|name| !objects.claims.contains_key(*name)) {
            let text = format!("persistentvolumeclaim \"{missing}\" not found");
            return Status::unresolvable(text);
        }
        let conflicts = |other: &api::Pod| {
            let against = |volume| other.spec.volumes.iter().any(|used| conflict(volume, used));
            pod.spec.volumes.iter().any(against)
        };
        if world.pods_on(node).any(conflicts) {
            return Status::unschedulable(REASON_DISK);
        }
        let exclusive = |name: &&str| {
            objects.claims[*name].spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod")
        };
        let used =
            |name: &str| world.pods.iter().any(|(_, other)| claims(other).any(|c| c == name));
        match claims(pod).filter(exclusive).any(used) {
            true => Status::unschedulable(REASON_READ_WRITE_ONCE_POD),
            false => Status::success(),
        }
    }
}

proptest! {
    #![proptest_config(forms::config())]

    #[test]
    fn forms_agree(
        history in history(),
        objects in storage_objects(9),
        pod in arbitrary::pod(),
        choice: u64,
    ) {
        let world = history.replay_after(&objects);
        forms::check_filter(&built(), &world, &pod, choice, |node| {
            oracle::verdict(&world, &objects, &pod, &node.metadata.name)
        });
    }
}
