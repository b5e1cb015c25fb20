use std::collections::BTreeSet;

use framework::storage::MIGRATED_PLUGINS;
use framework::{Attempt, AttemptMut, Cluster, EventObjects, NodeIx, Overlay, QueueingHint, api};
use proptest::prelude::*;
use serde_json::json;
use testkit::{
    Harness, PodBuilder, StorageObject, bound_claim, claim, csi_node, handle, node, pod,
    storage_class, volume, volume_attachment,
};

use super::*;
use crate::arbitrary::storage::{DRIVERS, StorageObjects};
use crate::arbitrary::{self, World, history_with_storage};
use crate::forms;

const DRIVER: &str = "disk.example.com";
const EBS: &str = "ebs.csi.aws.com";

fn built() -> Plugin {
    let gates = PluginGates { volume_limit_scaling: false, ..PluginGates::default() };
    plugin(&PluginArgs::default().with_gates(gates)).unwrap()
}

/// Node `n`, which can attach `limit` volumes of either driver, and the objects of claims `a`, `b`
/// and `c` on volumes of [`DRIVER`].
fn harness(limit: Option<i32>) -> Harness {
    let limits = csi_node("n", &[(DRIVER, limit), (EBS, limit)]);
    let harness = Harness::new(built()).node(node("n").build()).storage(limits);
    ["a", "b", "c"].into_iter().fold(harness, |harness, name| {
        let spec = json!({ "csi": { "driver": DRIVER, "volumeHandle": name } });
        let volume_name = format!("pv-{name}");
        harness.storage(volume(&volume_name, spec)).storage(bound_claim(name, &volume_name))
    })
}

fn user(name: &str, claims: &[&str]) -> Pod {
    claims.iter().fold(pod(name), |pod, claim| pod.claim(claim)).on("n").build()
}

#[track_caller]
fn assert_fits(harness: &Harness, pod: PodBuilder, fits: bool) {
    let expected = if fits { Status::success() } else { Status::unschedulable(REASON) };
    assert_eq!(harness.run(&pod.build()).verdicts["n"], expected);
}

#[test]
fn node_at_its_limit_rejects_pods_with_more_volumes() {
    for (limit, used, wanted, fits) in [
        (Some(1), &[][..], &["a"][..], true),
        (Some(1), &[], &["a", "b"], false),
        (Some(0), &[], &["a"], false),
        (Some(1), &["a"], &["b"], false),
        (Some(2), &["a"], &["b"], true),
        (Some(2), &["a", "b"], &["c"], false),
        (None, &["a", "b"], &["c"], true),
        (Some(1), &["a"], &["a"], true),
        (Some(1), &["a", "b"], &["a"], true),
        (Some(2), &["a"], &["a", "b"], true),
        (Some(3), &["a", "b"], &["a", "b", "c"], true),
        (Some(2), &["a", "b"], &["a", "c"], false),
        (Some(2), &["gone", "a"], &["b"], true),
    ] {
        let wanting = wanted.iter().fold(pod("p"), |pod, claim| pod.claim(claim));
        let harness = harness(limit).pod(user("q", used)).pod(user("r", used));
        let expected = if fits { Status::success() } else { Status::unschedulable(REASON) };
        let run = harness.run(&wanting.build());
        assert_eq!(run.verdicts["n"], expected, "{used:?} of {limit:?}, wanted {wanted:?}");
    }
}

#[test]
fn drivers_without_a_limit_do_not_count() {
    let other = json!({ "csi": { "driver": "other.example.com", "volumeHandle": "o" } });
    let harness = harness(Some(1))
        .storage(volume("pv-o", other))
        .storage(bound_claim("o", "pv-o"))
        .storage(volume("pv-nfs", json!({ "nfs": {} })))
        .storage(bound_claim("nfs", "pv-nfs"))
        .pod(user("q", &["a"]));
    assert_fits(&harness, pod("p").claim("o").claim("nfs"), true);
    assert_fits(&harness, pod("p").claim("o").claim("a"), true);
    assert_fits(&harness, pod("p").claim("o").claim("b"), false);
    let without_csi_node = Harness::new(built()).node(node("n").build());
    let harness = without_csi_node.storage(claim("a", json!({})));
    assert_fits(&harness, pod("p").claim("a"), true);
}

#[test]
fn claim_without_volume_counts_for_the_driver_of_its_class() {
    let class = |name: &str| json!({ "storageClassName": name });
    let harness = harness(Some(1))
        .storage(storage_class("wait", DRIVER, "WaitForFirstConsumer"))
        .storage(storage_class("old", "kubernetes.io/aws-ebs", "WaitForFirstConsumer"))
        .storage(storage_class("files", "kubernetes.io/azure-file", "WaitForFirstConsumer"))
        .storage(claim("new", class("wait")))
        .storage(claim("newer", class("wait")))
        .storage(claim("unfinished", json!({ "storageClassName": "wait", "volumeName": "pv-a" })))
        .storage(claim("of-gone-volume", json!({ "storageClassName": "wait", "volumeName": "x" })))
        .storage(claim("ebs", class("old")))
        .storage(claim("ebs2", class("old")))
        .storage(claim("file", class("files")))
        .storage(claim("classless", class("")))
        .storage(claim("of-no-class", class("gone")));
    for (wanted, fits) in [
        (&["new"][..], true),
        (&["new", "newer"], false),
        (&["new", "a"], false),
        (&["of-gone-volume", "a"], false),
        (&["unfinished", "a"], true),
        (&["ebs", "a"], true),
        (&["ebs", "ebs2"], false),
        (&["file", "classless", "of-no-class", "a"], true),
    ] {
        let wanting = wanted.iter().fold(pod("p"), |pod, claim| pod.claim(claim));
        let verdict = harness.run(&wanting.build()).verdicts["n"].is_success();
        assert_eq!(verdict, fits, "{wanted:?}");
    }
    let used = harness.pod(user("q", &["new"]));
    assert_fits(&used, pod("p").claim("new"), true);
    assert_fits(&used, pod("p").claim("newer"), false);
}

#[test]
fn in_tree_volumes_count_only_on_nodes_with_a_csi_node() {
    let ebs = |id: &str| json!({ "awsElasticBlockStore": { "volumeID": id } });
    let with = |harness: Harness| {
        harness
            .storage(volume("pv-ebs", ebs("aws://z/vol-1")))
            .storage(bound_claim("ebs", "pv-ebs"))
            .storage(volume("pv-ebs2", ebs("vol-2")))
            .storage(bound_claim("ebs2", "pv-ebs2"))
            .storage(volume("pv-bad", ebs("aws://z/1")))
            .storage(bound_claim("bad", "pv-bad"))
            .pod(pod("q").volume(ebs("vol-1")).on("n").build())
    };
    let limited = with(harness(Some(1)));
    assert_fits(&limited, pod("p").claim("ebs"), true);
    assert_fits(&limited, pod("p").claim("ebs2"), false);
    assert_fits(&limited, pod("p").claim("bad"), true);
    assert_fits(&limited, pod("p").volume(ebs("vol-2")), false);
    assert_fits(&limited, pod("p").volume(json!({ "gcePersistentDisk": {} })), true);
    assert_fits(&limited, pod("p").volume(json!({ "vsphereVolume": {} })), true);
    let announcing = csi_node("n", &[(EBS, Some(1))]).annotation(MIGRATED_PLUGINS, "");
    assert_fits(&limited.storage(announcing), pod("p").volume(ebs("vol-2")), false);
    let unlimited = with(Harness::new(built()).node(node("n").build()));
    assert_fits(&unlimited, pod("p").volume(ebs("aws://nonsense")), true);
}

#[test]
fn in_tree_volumes_count_for_their_csi_driver() {
    let text = |field: &str| json!({ field: "x" });
    for (plugin, driver, field, source, counts) in [
        ("aws-ebs", EBS, "awsElasticBlockStore", text("volumeID"), true),
        ("azure-disk", "disk.csi.azure.com", "azureDisk", text("diskURI"), true),
        ("azure-file", "file.csi.azure.com", "azureFile", text("shareName"), false),
        ("cinder", "cinder.csi.openstack.org", "cinder", text("volumeID"), true),
        ("gce-pd", "pd.csi.storage.gke.io", "gcePersistentDisk", text("pdName"), true),
        ("portworx-volume", "pxd.portworx.com", "portworxVolume", text("volumeID"), true),
        ("vsphere-volume", "csi.vsphere.vmware.com", "vsphereVolume", text("volumePath"), false),
    ] {
        let inline = pod("p").volume(json!({ field: source }));
        for (form, pod) in
            [("inline", inline), ("bound", pod("p").claim("old")), ("new", pod("p").claim("new"))]
        {
            let provisioner = format!("kubernetes.io/{plugin}");
            let harness = Harness::new(built())
                .node(node("n").build())
                .storage(csi_node("n", &[(driver, Some(0))]))
                .storage(volume("pv", json!({ field: source })))
                .storage(bound_claim("old", "pv"))
                .storage(storage_class("made", &provisioner, "WaitForFirstConsumer"))
                .storage(claim("new", json!({ "storageClassName": "made" })));
            let fits = harness.run(&pod.build()).verdicts["n"].is_success();
            assert_eq!(fits, !counts, "{plugin}, {form}");
        }
    }
}

#[test]
fn attached_volumes_without_pods_count() {
    let attached = |limit| {
        harness(Some(limit))
            .storage(volume_attachment(DRIVER, "pv-a", "n"))
            .storage(volume_attachment(DRIVER, "pv-b", "elsewhere"))
            .storage(volume_attachment(DRIVER, "pv-gone", "n"))
            .storage(volume_attachment("other.example.com", "pv-c", "n"))
    };
    assert_fits(&attached(1), pod("p").claim("b"), false);
    assert_fits(&attached(2), pod("p").claim("b"), true);
    // Rule node-volume-limits-attached-volume of docs/differences.toml.
    assert_fits(&attached(1), pod("p").claim("a"), true);
    assert_fits(&attached(0), pod("p").claim("a"), true);
    assert_fits(&attached(1), pod("p").claim("a").claim("b"), false);
    assert_fits(&attached(2), pod("p").claim("a").claim("b"), true);
    let in_use = attached(1).pod(user("q", &["a"]));
    assert_fits(&in_use, pod("p").claim("a"), true);
    assert_fits(&attached(2).pod(user("q", &["a"])), pod("p").claim("b"), true);
}

#[test]
fn generic_ephemeral_volumes_count_with_their_claims() {
    let ephemeral = || pod("p").volume(json!({ "ephemeral": {} }));
    let owned = |uid: &str| {
        bound_claim("p-v0", "pv-a")
            .set("/metadata/ownerReferences", json!([{ "uid": uid, "controller": true }]))
    };
    let harness = || harness(Some(1));
    assert_fits(&harness().storage(owned("uid-p")), ephemeral(), true);
    let full = harness().storage(owned("uid-p")).pod(user("q", &["b"]));
    assert_fits(&full, ephemeral(), false);
    let run = harness().storage(owned("other")).run(&ephemeral().build());
    let text = "PVC default/p-v0 was not created for pod default/p (pod is not owner)";
    assert_eq!(run.verdicts["n"], Status::error(text));
    // The claim of the placed pod belongs to another owner, so its volume does not count.
    let neighbour = pod("p").volume(json!({ "ephemeral": {} })).on("n").build();
    let harness = harness().storage(owned("other")).pod(neighbour);
    assert_fits(&harness, pod("r").claim("b"), true);
}

#[test]
fn uncountable_volumes_reject_the_pod_with_a_reason() {
    let harness = harness(Some(5));
    for (pod, expected) in [
        (
            pod("p").claim("x"),
            Status::unresolvable("looking up PVC default/x: persistentvolumeclaim \"x\" not found"),
        ),
        (pod("p").claim(""), Status::error("PersistentVolumeClaim had no name")),
        (
            pod("p").volume(json!({ "awsElasticBlockStore": { "volumeID": "aws://v" } })),
            Status::error(
                "converting volume(v0) from inline to csi: failed to translate Kubernetes ID to \
                 EBS Volume ID Invalid format for AWS volume (aws://v)",
            ),
        ),
    ] {
        let pod = pod.build();
        let (filter, cluster) = (built().filter.unwrap(), harness.cluster());
        let (state, node) = (CycleState::new(), cluster.node_named("n").unwrap());
        assert_eq!(
            filter.filter(&Attempt::new(&state, &pod, &handle(cluster)), &cluster.node(node)),
            expected
        );
        let mut nodes = cluster.nodes().clone();
        let answer = filter.filter_set(&Attempt::new(&state, &pod, &handle(cluster)), &mut nodes);
        let rejected = expected.is_rejection();
        assert_eq!(answer.err(), (!rejected).then_some(expected));
        assert!(nodes.is_empty());
    }
}

#[test]
fn pods_without_csi_volumes_are_skipped() {
    let pre_filter = built().pre_filter.unwrap();
    for (source, counts) in [
        (json!({ "emptyDir": {} }), false),
        (json!({ "csi": { "driver": DRIVER } }), false),
        (json!({ "iscsi": {} }), false),
        (json!({ "persistentVolumeClaim": { "claimName": "a" } }), true),
        (json!({ "ephemeral": {} }), true),
        (json!({ "vsphereVolume": {} }), true),
        (json!({ "azureFile": {} }), true),
    ] {
        let pod = pod("p").volume(source.clone()).build();
        let result = pre_filter.pre_filter(AttemptMut::new(
            &mut CycleState::new(),
            &pod,
            &handle(&Cluster::default()),
        ));
        assert_eq!(result.is_ok(), counts, "{source}");
    }
}

fn hint(
    resource: EventResource,
    action: ActionType,
    waiting: PodBuilder,
    old: Option<&StorageObject>,
    new: Option<&StorageObject>,
) -> QueueingHint {
    let [old, new] = [old, new].map(|object| object.map(StorageObject::decoded));
    let objects = EventObjects::Other { old: old.as_ref(), new: new.as_ref() };
    forms::hint(&built(), &waiting.build(), resource, action, objects)
}

#[test]
fn raised_limit_requeues() {
    for (old, new, helps) in [
        (&[(DRIVER, Some(1))][..], &[(DRIVER, Some(2))][..], true),
        (&[(DRIVER, Some(2))], &[(DRIVER, Some(2))], false),
        (&[(DRIVER, Some(2))], &[(DRIVER, Some(1))], false),
        (&[(DRIVER, None)], &[(DRIVER, Some(1))], true),
        (&[], &[(DRIVER, Some(1))], true),
        (&[], &[(DRIVER, Some(0))], false),
        (&[], &[(DRIVER, None)], false),
        (&[(DRIVER, None)], &[], false),
        (&[(DRIVER, Some(1))], &[(DRIVER, None)], true),
        (&[(DRIVER, Some(1))], &[], true),
        (&[(DRIVER, Some(2)), (EBS, Some(1))], &[(DRIVER, Some(1)), (EBS, Some(2))], true),
    ] {
        let (from, to) = (csi_node("n", old), csi_node("n", new));
        let (resource, action) = (EventResource::CsiNode, ActionType::UPDATE);
        let hint_given = hint(resource, action, pod("p").claim("a"), Some(&from), Some(&to));
        assert_eq!(hint_given, QueueingHint::queue_if(helps), "{old:?} {new:?}");
    }
}

#[test]
fn added_or_deleted_csi_node_requeues() {
    let csi_node = csi_node("n", &[(DRIVER, Some(1))]);
    for (action, old, new) in
        [(ActionType::ADD, None, Some(&csi_node)), (ActionType::DELETE, Some(&csi_node), None)]
    {
        let hint_given = hint(EventResource::CsiNode, action, pod("p").claim("a"), old, new);
        assert_eq!(hint_given, QueueingHint::Queue, "{action:?}");
    }
}

#[test]
fn deleted_pod_with_volumes_requeues() {
    let on_deletion = |old: PodBuilder| {
        let old = old.build();
        let objects = EventObjects::Pod { old: Some(&old), new: None };
        let (resource, action) = (EventResource::AssignedPod, ActionType::DELETE);
        forms::hint(&built(), &pod("p").claim("a").build(), resource, action, objects)
    };
    for (old, helps) in [
        (pod("q").claim("b").on("n"), true),
        (pod("q").claim("b").nominated("n"), true),
        (pod("q").claim("b"), false),
        (pod("q").on("n"), false),
        (pod("q").volume(json!({ "ephemeral": {} })).on("n"), true),
        (pod("q").volume(json!({ "azureFile": {} })).on("n"), true),
        (pod("q").volume(json!({ "csi": { "driver": DRIVER } })).on("n"), false),
    ] {
        assert_eq!(on_deletion(old.clone()), QueueingHint::queue_if(helps), "{old:?}");
    }
}

#[test]
fn placed_pod_that_shares_a_claim_requeues() {
    for (new, helps) in [
        (pod("q").claim("b").claim("a"), true),
        (pod("q").claim("b"), false),
        (pod("q").namespace("elsewhere").claim("a"), false),
        (pod("q").volume(json!({ "ephemeral": {} })), false),
    ] {
        let new = new.on("n").build();
        let objects = EventObjects::Pod { old: None, new: Some(&new) };
        let (resource, action) = (EventResource::AssignedPod, ActionType::ADD);
        let waiting = pod("p").claim("a").volume(json!({ "ephemeral": {} })).build();
        let hint_given = forms::hint(&built(), &waiting, resource, action, objects);
        assert_eq!(hint_given, QueueingHint::queue_if(helps), "{:?}", new.spec.volumes);
    }
}

#[test]
fn new_claim_requeues_its_pod() {
    let waiting = || pod("p").claim("a").volume(json!({ "ephemeral": {} }));
    for (new, helps) in [
        (claim("a", json!({})), true),
        (claim("p-v1", json!({})), true),
        (claim("p-v0", json!({})), false),
        (claim("a", json!({})).namespace("elsewhere"), false),
    ] {
        let (resource, action) = (EventResource::PersistentVolumeClaim, ActionType::ADD);
        let hint_given = hint(resource, action, waiting(), None, Some(&new));
        assert_eq!(hint_given, QueueingHint::queue_if(helps), "{new:?}");
    }
}

#[test]
fn deleted_claims_and_volumes_and_added_nodes_requeue() {
    let waiting = || pod("p").claim("a");
    let gone = volume("pv", json!({}));
    let resource = EventResource::PersistentVolume;
    let hint_given = hint(resource, ActionType::DELETE, waiting(), Some(&gone), None);
    assert_eq!(hint_given, QueueingHint::Queue);

    let user = pod("user").namespace("team").claim("used").volume(json!({ "ephemeral": {} }));
    let harness = harness(Some(1)).pod(user.on("n").build());
    let event = ClusterEvent::new(EventResource::PersistentVolumeClaim, ActionType::DELETE);
    for (namespace, name, helps) in [
        ("team", "used", true),
        ("team", "user-v1", true),
        ("default", "used", false),
        ("team", "a", false),
    ] {
        let gone = claim(name, json!({})).namespace(namespace).decoded();
        let objects = EventObjects::Other { old: Some(&gone), new: None };
        let hint_given = harness.hint(&waiting().build(), &event, objects);
        assert_eq!(hint_given, Some(QueueingHint::queue_if(helps)), "{namespace} {name}");
    }
    let new = node("m").build();
    let objects = EventObjects::Node { old: None, new: Some(&new) };
    let (resource, action) = (EventResource::Node, ActionType::ADD);
    let hint_given = forms::hint(&built(), &waiting().build(), resource, action, objects);
    assert_eq!(hint_given, QueueingHint::Queue);
}

#[test]
fn detached_volume_requeues_pods_limited_by_its_driver() {
    let inline = |source: &str| pod("p").volume(json!({ source: {} }));
    for (driver, waiting, helps) in [
        (EBS, pod("p").claim("a"), true),
        (EBS, inline("ephemeral"), true),
        (EBS, inline("awsElasticBlockStore"), true),
        (EBS, inline("gcePersistentDisk"), false),
        ("file.csi.azure.com", inline("azureFile"), true),
        ("csi.vsphere.vmware.com", inline("vsphereVolume"), true),
        (EBS, pod("p").volume(json!({ "csi": { "driver": EBS } })), false),
        (EBS, pod("p"), false),
    ] {
        let detached = volume_attachment(driver, "pv", "n");
        let (resource, action) = (EventResource::VolumeAttachment, ActionType::DELETE);
        let hint_given = hint(resource, action, waiting.clone(), Some(&detached), None);
        assert_eq!(hint_given, QueueingHint::queue_if(helps), "{driver} {waiting:?}");
    }
}

/// The rule on API objects.
mod oracle {
    use super::*;

    /// Driver and unique name of a volume; `Ok(None)` if it does not count.
    type Counted = Result<Option<(String, String)>, Status>;

    fn counted(driver: &str, handle: &str) -> Option<(String, String)> {
        let complete = !driver.is_empty() && !handle.is_empty();
        complete.then(|| (driver.to_owned(), format!("{driver}/{handle}")))
    }

    fn inline(volume: &api::Volume) -> Counted {
        let (driver, handle) = if let Some(source) = &volume.aws_elastic_block_store {
            (EBS, source.volume_id.clone())
        } else if let Some(source) = &volume.gce_persistent_disk {
            let disk = &source.pd_name;
            let handle = format!("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{disk}");
            ("pd.csi.storage.gke.io", handle)
        } else if let Some(source) = &volume.cinder {
            ("cinder.csi.openstack.org", source.volume_id.clone())
        } else {
            return Ok(None);
        };
        if handle == "aws://nowhere" {
            return Err(Status::error("bad volume"));
        }
        Ok(counted(driver, &handle))
    }

    fn of_claim(
        claim: &api::PersistentVolumeClaim,
        name: &str,
        objects: &StorageObjects,
    ) -> Option<(String, String)> {
        if let Some(volume) = objects.volumes.get(&claim.spec.volume_name) {
            if let Some(csi) = &volume.spec.csi {
                return counted(&csi.driver, &csi.volume_handle);
            }
            let disk = volume.spec.aws_elastic_block_store.as_ref()?;
            return counted(EBS, &disk.volume_id);
        }
        let class = objects.classes.get(claim.spec.storage_class_name.as_ref()?)?;
        let provisioner = match class.provisioner.as_str() {
            "kubernetes.io/aws-ebs" => EBS,
            other => other,
        };
        counted(provisioner, &format!("unbound {name}"))
    }

    fn volume(pod: &api::Pod, volume: &api::Volume, objects: &StorageObjects) -> Counted {
        let name = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => source.claim_name.clone(),
            (None, Some(_)) => format!("{}-{}", pod.metadata.name, volume.name),
            (None, None) => return inline(volume),
        };
        if name.is_empty() {
            return Err(Status::error("no name"));
        }
        let claim = objects.claims.get(&name).ok_or_else(|| {
            Status::unresolvable(format!(
                "looking up PVC default/{name}: persistentvolumeclaim \"{name}\" not found"
            ))
        })?;
        let mut owners = claim.metadata.owner_references.iter();
        if volume.ephemeral.is_some() && !owners.any(|owner| owner.uid == pod.metadata.uid) {
            return Err(Status::error("not the owner"));
        }
        Ok(of_claim(claim, &name, objects))
    }

    fn attachments(objects: &StorageObjects, node: &str) -> BTreeSet<(String, String)> {
        let own = objects.attachments.values().filter(|found| found.spec.node_name == node);
        own.filter_map(|found| {
            let volume = objects.volumes.get(found.spec.source.persistent_volume_name.as_ref()?)?;
            let driver = &found.spec.attacher;
            let name = format!("{driver}/{}", volume.spec.csi.as_ref()?.volume_handle);
            (!driver.is_empty()).then(|| (driver.clone(), name))
        })
        .collect()
    }

    pub(super) fn verdict(
        world: &World,
        objects: &StorageObjects,
        pod: &api::Pod,
        node: &str,
    ) -> Status {
        let csi_node = objects.csi_nodes.get(node);
        let is_inline =
            |v: &&api::Volume| v.persistent_volume_claim.is_none() && v.ephemeral.is_none();
        let counts = |volume: &&api::Volume| csi_node.is_some() || !is_inline(volume);
        let volumes = pod.spec.volumes.iter().filter(counts);
        let wanted: Result<Vec<_>, _> = volumes.map(|own| volume(pod, own, objects)).collect();
        let wanted: BTreeSet<_> = match wanted {
            Ok(wanted) => wanted.into_iter().flatten().collect(),
            Err(status) => return status,
        };
        let Some(csi_node) = csi_node else { return Status::success() };
        let used: BTreeSet<_> = world
            .pods_on(node)
            .flat_map(|other| other.spec.volumes.iter().map(move |own| volume(other, own, objects)))
            .filter_map(|counted| counted.ok().flatten())
            .collect();
        let attached = used.union(&attachments(objects, node)).cloned().collect::<BTreeSet<_>>();
        let fits = |driver: &api::CsiNodeDriver| {
            let of_driver = |volume: &&(String, String)| volume.0 == driver.name;
            let new = wanted.difference(&attached).filter(of_driver).count();
            let limit = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
            let total = new + attached.iter().filter(of_driver).count();
            new == 0 || limit.is_none_or(|limit| total <= usize::try_from(limit).unwrap())
        };
        match csi_node.spec.drivers.iter().all(fits) {
            true => Status::success(),
            false => Status::unschedulable(REASON),
        }
    }
}

proptest! {
    #![proptest_config(forms::config())]

    #[test]
    fn forms_agree(
        history in history_with_storage(9),
        pod in arbitrary::pod(),
        choice: u64,
    ) {
        let world = history.replay();
        let verdict = |node: &api::Node| {
            oracle::verdict(&world, &world.storage, &pod, &node.metadata.name)
        };
        let broken = |node: &api::Node| {
            let verdict = verdict(node);
            !verdict.is_success() && !verdict.is_rejection()
        };
        prop_assume!(!world.nodes.values().any(broken));
        forms::check_filter(&built(), &world, &pod, choice, verdict);
    }

    #[test]
    fn attached_counts_agree_with_the_oracle(history in history_with_storage(9)) {
        let cluster = history.replay().cluster;
        for node in cluster.nodes().iter().map(|ix| cluster.node(ix)) {
            let attachments = cluster.volume_attachments(node.name());
            let attached = attachments.filter_map(|own| cluster.attached_volume(own));
            let of_pods = node.pods().flat_map(|pod| cluster.counted_volumes(pod));
            let volumes: BTreeSet<_> = attached.chain(of_pods).collect();
            let is_counted = cluster.csi_node(node.name()).is_some();
            for driver in DRIVERS {
                let own = volumes.iter().filter(|own| cluster.driver_of(own) == Some(driver));
                let expected = if is_counted { own.count() } else { 0 };
                let counted = cluster.attached_counts(driver).get(node.ix());
                prop_assert_eq!(usize::try_from(counted), Ok(expected));
            }
        }
    }

    #[test]
    fn what_if_changes_equal_a_new_count(
        history in history_with_storage(9),
        pod in arbitrary::pod(),
        added in prop::collection::vec(arbitrary::pod(), 0..3),
        restored: u64,
    ) {
        let cluster = history.replay().cluster;
        let pod = Pod::from_api(&pod);
        let added: Vec<_> = added.iter().map(|pod| Arc::new(Pod::from_api(pod))).collect();
        for node in cluster.nodes().iter() {
            let what_if = WhatIf::of(&cluster, node, &pod, &added, restored);
            let filter = built().filter.unwrap();
            let view = cluster.node(node).with(&what_if.overlay);
            let expected = filter.filter(&Attempt::new(&CycleState::new(), &pod, &handle(&what_if.cluster)), &what_if.cluster.node(node));
            prop_assert_eq!(filter.filter(&Attempt::new(&what_if.state, &pod, &handle(view.cluster())), &view), expected.clone());
            prop_assert_eq!(filter.filter(&Attempt::new(&CycleState::new(), &pod, &handle(view.cluster())), &view), expected);
        }
    }
}

/// The what-if state of a node with pods removed and added, as a plugin state and as a cluster.
struct WhatIf {
    state: CycleState,
    overlay: Overlay,
    cluster: Cluster,
}

impl WhatIf {
    /// Removes all pods from the node, restores those whose index has its bit set in `restored`,
    /// and adds others.
    fn of(cluster: &Cluster, node: NodeIx, pod: &Pod, added: &[Arc<Pod>], restored: u64) -> Self {
        let (mut state, mut overlay) = (CycleState::new(), Overlay::default());
        // The plugin gets no what-if calls if PreFilter returned Skip.
        let _ = built().pre_filter.unwrap().pre_filter(AttemptMut::new(
            &mut state,
            pod,
            &handle(cluster),
        ));
        let extensions = built().pre_filter_extensions.unwrap();
        let mut after = cluster.clone();
        let view = cluster.node(node);
        for (place, (ix, other)) in view.placed().enumerate() {
            overlay.remove(cluster, ix);
            extensions
                .remove_pod(
                    AttemptMut::new(&mut state, pod, &handle(cluster)),
                    other,
                    &view.with(&overlay),
                )
                .ok()
                .unwrap();
            if restored >> (place % 64) & 1 == 1 {
                overlay.restore(cluster, ix);
                extensions
                    .add_pod(
                        AttemptMut::new(&mut state, pod, &handle(cluster)),
                        other,
                        &view.with(&overlay),
                    )
                    .ok()
                    .unwrap();
            } else {
                after.remove_pod(ix);
            }
        }
        for other in added {
            overlay.add(other.clone());
            extensions
                .add_pod(
                    AttemptMut::new(&mut state, pod, &handle(cluster)),
                    other,
                    &view.with(&overlay),
                )
                .ok()
                .unwrap();
            after.place_pod(other.clone(), view.name());
        }
        Self { state, overlay, cluster: after }
    }
}

/// Returns the verdict on node `n`, by whether the gate VolumeLimitScaling is on.
fn with_gate(is_on: bool, drivers: &[(&str, Option<i32>)], prevents: bool) -> Status {
    let gates = PluginGates { volume_limit_scaling: is_on, ..PluginGates::default() };
    let plugin = plugin(&PluginArgs::default().with_gates(gates)).unwrap();
    let spec = json!({ "csi": { "driver": DRIVER, "volumeHandle": "h" } });
    let driver = json!({ "spec": { "preventPodSchedulingIfMissing": prevents } });
    let driver = StorageObject::new(EventResource::CsiDriver, DRIVER, driver);
    let mut harness = Harness::new(plugin)
        .node(node("n").build())
        .storage(driver)
        .storage(volume("pv", spec))
        .storage(bound_claim("a", "pv"));
    if !drivers.is_empty() {
        harness = harness.storage(csi_node("n", drivers));
    }
    harness.run(&pod("p").claim("a").build()).verdicts["n"].clone()
}

#[test]
fn node_without_a_needed_driver_has_no_room_if_the_gate_is_on() {
    let missing =
        Status::unschedulable(format!("{DRIVER} CSI driver is not installed on the node"));
    for drivers in [&[][..], &[(EBS, Some(1))]] {
        assert_eq!(with_gate(true, drivers, true), missing, "{drivers:?}");
        assert_eq!(with_gate(true, drivers, false), Status::success(), "no limit");
        assert_eq!(with_gate(false, drivers, true), Status::success());
    }
    assert_eq!(with_gate(true, &[(DRIVER, None)], true), Status::success());
    assert_eq!(with_gate(true, &[(DRIVER, Some(0))], true), Status::unschedulable(REASON));
}

#[test]
fn driver_that_is_installed_requeues_if_the_gate_is_on() {
    for gate in [false, true] {
        let gates = PluginGates { volume_limit_scaling: gate, ..PluginGates::default() };
        let plugin = plugin(&PluginArgs::default().with_gates(gates)).unwrap();
        let [old, new] = [&[][..], &[(DRIVER, None)]].map(|own| csi_node("n", own).decoded());
        let objects = EventObjects::Other { old: Some(&old), new: Some(&new) };
        let action = ActionType::UPDATE;
        let waiting = pod("p").claim("a").build();
        let hint = forms::hint(&plugin, &waiting, EventResource::CsiNode, action, objects);
        assert_eq!(hint == QueueingHint::Queue, gate);
    }
}
