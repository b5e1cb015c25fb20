use std::collections::BTreeMap;

use framework::{Attempt, AttemptMut, EventObjects, QueueingHint, api};
use proptest::prelude::*;
use serde_json::json;
use testkit::{
    Harness, PodBuilder, StorageObject, bound_claim, claim, handle, node, pod, storage_class,
    volume,
};

use super::*;
use crate::arbitrary::storage::{StorageObjects, storage_objects};
use crate::arbitrary::{self, history};
use crate::forms;

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

fn built() -> Plugin {
    plugin(&PluginArgs::default()).unwrap()
}

/// Nodes with GA labels, beta labels, both, a region only, or no labels.
fn harness() -> Harness {
    let node = |name: &str, labels: &[(&str, &str)]| {
        labels.iter().fold(node(name), |node, (key, value)| node.label(key, value)).build()
    };
    Harness::new(built())
        .node(node("a", &[(ZONE, "a"), (REGION, "r")]))
        .node(node("b", &[(ZONE, "b"), (REGION, "r")]))
        .node(node("beta-a", &[(BETA_ZONE, "a"), (BETA_REGION, "r")]))
        .node(node("odd", &[(ZONE, "a"), (BETA_ZONE, "b")]))
        .node(node("region", &[(REGION, "r")]))
        .node(node("nowhere", &[]))
}

fn labelled(name: &str, labels: &[(&str, &str)]) -> StorageObject {
    let volume = volume(name, json!({}));
    labels.iter().fold(volume, |volume, (key, value)| volume.label(key, value))
}

#[test]
fn node_must_match_the_topology_of_all_volumes() {
    for (labels, expected) in [
        (&[(ZONE, "a")][..], &["a", "nowhere", "odd"][..]),
        (&[(ZONE, " a __b")], &["a", "b", "nowhere", "odd"]),
        (&[(BETA_ZONE, "a")], &["a", "beta-a", "nowhere"]),
        (&[(BETA_ZONE, "b")], &["b", "nowhere", "odd"]),
        (&[(ZONE, "a"), (BETA_ZONE, "b")], &["nowhere", "odd"]),
        (&[(BETA_REGION, "r")], &["a", "b", "beta-a", "nowhere", "region"]),
        (&[(ZONE, "a"), (REGION, "r")], &["a", "nowhere"]),
        (&[(ZONE, "c")], &["nowhere"]),
        (&[(ZONE, "a__"), (REGION, "r")], &["a", "b", "nowhere", "region"]),
    ] {
        let harness = harness().storage(bound_claim("data", "pv")).storage(labelled("pv", labels));
        let run = harness.run(&pod("p").claim("data").build());
        assert_eq!(run.feasible(), expected, "{labels:?}");
        let rejected = run.verdicts.values().filter(|status| !status.is_success());
        rejected.for_each(|status| assert_eq!(*status, Status::unresolvable(REASON)));
    }
}

#[test]
fn every_claim_of_the_pod_is_checked() {
    let harness = harness()
        .storage(bound_claim("one", "pv1").namespace("team"))
        .storage(labelled("pv1", &[(ZONE, "a__b")]))
        // The binding need not be complete.
        .storage(claim("two", json!({ "volumeName": "pv2" })).namespace("team"))
        .storage(labelled("pv2", &[(ZONE, "b__c")]));
    let run = harness.run(&pod("p").namespace("team").claim("one").claim("two").build());
    assert_eq!(run.feasible(), ["b", "nowhere"]);
}

fn pre_filter(harness: &Harness, pod: PodBuilder) -> Status {
    let point = built().pre_filter.unwrap();
    let result = point.pre_filter(AttemptMut::new(
        &mut CycleState::new(),
        &pod.build(),
        &handle(harness.cluster()),
    ));
    result.err().unwrap_or_default()
}

#[test]
fn unbound_claims_report_the_missing_object() {
    let of_class = |class: &str| claim("data", json!({ "storageClassName": class }));
    let modeless = StorageObject::new(EventResource::StorageClass, "modeless", json!({}));
    let harness = || {
        harness()
            .storage(storage_class("wait", "d", "WaitForFirstConsumer"))
            .storage(storage_class("now", "d", "Immediate"))
            .storage(modeless.clone())
    };
    for (claim, expected) in [
        (of_class(""), "PersistentVolumeClaim had no pv name and storageClass name"),
        (of_class("gone"), "storageclass.storage.k8s.io \"gone\" not found"),
        (of_class("modeless"), "VolumeBindingMode not set for StorageClass \"modeless\""),
        (of_class("now"), "PersistentVolume had no name"),
        (bound_claim("data", "pv"), "persistentvolume \"pv\" not found"),
        (claim("other", json!({})), "persistentvolumeclaim \"data\" not found"),
    ] {
        let status = pre_filter(&harness().storage(claim.clone()), pod("p").claim("data"));
        assert_eq!(status, Status::unresolvable(expected), "{claim:?}");
    }
    let unnamed = pre_filter(&harness(), pod("p").claim(""));
    assert_eq!(unnamed, Status::unresolvable("PersistentVolumeClaim had no name"));
    assert!(pre_filter(&harness().storage(of_class("wait")), pod("p").claim("data")).is_skip());
}

#[test]
fn pods_with_volumes_without_topology_are_skipped() {
    let harness = harness()
        .storage(bound_claim("data", "pv"))
        .storage(labelled("pv", &[("zone", "a"), (ZONE, "")]));
    for pod in [pod("p"), pod("p").claim("data"), pod("p").volume(json!({ "ephemeral": {} }))] {
        assert!(pre_filter(&harness, pod.clone()).is_skip(), "{pod:?}");
    }
}

#[test]
fn filter_without_pre_filter_computes_the_same_verdict() {
    let harness =
        harness().storage(bound_claim("data", "pv")).storage(labelled("pv", &[(ZONE, "a")]));
    let (filter, cluster, state) = (built().filter.unwrap(), harness.cluster(), CycleState::new());
    let rejected_on_b = |claim: &str| {
        let pod = pod("p").claim(claim).build();
        let node = cluster.node_named("b").unwrap();
        let status =
            filter.filter(&Attempt::new(&state, &pod, &handle(cluster)), &cluster.node(node));
        let mut nodes: NodeBits = [node].into_iter().collect();
        filter.filter_set(&Attempt::new(&state, &pod, &handle(cluster)), &mut nodes).unwrap();
        assert!(nodes.is_empty());
        let mut verdicts = Verdicts::with_len(cluster.table_len());
        let rejected = [node].into_iter().collect();
        filter.explain_set(&Attempt::new(&state, &pod, &handle(cluster)), &rejected, &mut verdicts);
        assert_eq!(verdicts.explicit(node), Some(&status));
        status.message()
    };
    assert_eq!(rejected_on_b("data"), REASON);
    assert_eq!(rejected_on_b("gone"), "persistentvolumeclaim \"gone\" not found");
}

fn hint(
    resource: EventResource,
    waiting: PodBuilder,
    old: Option<&StorageObject>,
    new: &StorageObject,
) -> QueueingHint {
    let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
    let (old, new) = (old.map(StorageObject::decoded), new.decoded());
    let objects = EventObjects::Other { old: old.as_ref(), new: Some(&new) };
    forms::hint(&built(), &waiting.build(), resource, action, objects)
}

#[test]
fn new_class_with_delayed_binding_requeues() {
    for (mode, helps) in [("WaitForFirstConsumer", true), ("Immediate", false)] {
        let class = storage_class("c", "d", mode);
        let hint_given = hint(EventResource::StorageClass, pod("p").claim("data"), None, &class);
        assert_eq!(hint_given, QueueingHint::queue_if(helps), "{mode}");
    }
}

#[test]
fn claim_requeues_pods_that_name_it() {
    for (new, helps) in [
        (claim("data", json!({})), true),
        (claim("data", json!({})).namespace("elsewhere"), false),
        (claim("other", json!({})), false),
        (claim("p-v1", json!({})), false),
    ] {
        let waiting = pod("p").claim("data").volume(json!({ "ephemeral": {} }));
        for old in [None, Some(&new)] {
            let hint_given = hint(EventResource::PersistentVolumeClaim, waiting.clone(), old, &new);
            assert_eq!(hint_given, QueueingHint::queue_if(helps), "{new:?}");
        }
    }
}

#[test]
fn added_or_relabelled_volume_requeues() {
    let at = |zone: &str| labelled("pv", &[(ZONE, zone)]);
    let hint_given = |old: Option<&StorageObject>, new| {
        hint(EventResource::PersistentVolume, pod("p").claim("data"), old, &new)
    };
    for (old, new, helps) in [
        (None, at("a"), true),
        (Some(at("a")), at("b"), true),
        (Some(at("a")), at("a__b"), true),
        (Some(at("a__b")), at("b__a"), false),
        (Some(at("a")), at("a").label("other", "x"), false),
        (Some(at("a")), at("a").label(REGION, "r"), true),
        (Some(at("")), at("a__"), false),
    ] {
        let expected = QueueingHint::queue_if(helps);
        assert_eq!(hint_given(old.as_ref(), new.clone()), expected, "{old:?} {new:?}");
    }
}

/// The rule on API objects.
mod oracle {
    use super::*;

    /// Returns the name of the volume of a claim, unless its binding is delayed.
    fn volume_name<'a>(name: &str, objects: &'a StorageObjects) -> Result<Option<&'a str>, String> {
        if name.is_empty() {
            return Err("PersistentVolumeClaim had no name".to_owned());
        }
        let claim = objects.claims.get(name);
        let spec = &claim.ok_or(format!("persistentvolumeclaim \"{name}\" not found"))?.spec;
        let class = spec.storage_class_name.clone().unwrap_or_default();
        if !spec.volume_name.is_empty() {
            return Ok(Some(&spec.volume_name));
        }
        if class.is_empty() {
            return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
        }
        let found = objects.classes.get(&class);
        let found = found.ok_or(format!("storageclass.storage.k8s.io \"{class}\" not found"))?;
        match found.volume_binding_mode.as_deref() {
            None => Err(format!("VolumeBindingMode not set for StorageClass \"{class}\"")),
            Some("WaitForFirstConsumer") => Ok(None),
            Some(_) => Err("PersistentVolume had no name".to_owned()),
        }
    }

    fn labels<'a>(
        pod: &api::Pod,
        objects: &'a StorageObjects,
    ) -> Result<Vec<&'a BTreeMap<String, String>>, String> {
        let mut labels = Vec::new();
        let sources = pod.spec.volumes.iter().filter_map(|v| v.persistent_volume_claim.as_ref());
        for source in sources {
            if let Some(name) = volume_name(&source.claim_name, objects)? {
                let volume = objects.volumes.get(name);
                let volume = volume.ok_or(format!("persistentvolume \"{name}\" not found"))?;
                labels.push(&volume.metadata.labels);
            }
        }
        Ok(labels)
    }

    fn allows(key: &str, values: &str, node: &BTreeMap<String, String>) -> bool {
        let ga = match key {
            BETA_ZONE => ZONE,
            BETA_REGION => REGION,
            _ => key,
        };
        let values: Vec<_> = values.split("__").map(str::trim).collect();
        let own = node.get(key).or_else(|| node.get(ga));
        values.contains(&"") || own.is_some_and(|own| values.contains(&own.as_str()))
    }

    pub(super) fn verdict(objects: &StorageObjects, pod: &api::Pod, node: &api::Node) -> Status {
        let volumes = match labels(pod, objects) {
            Ok(volumes) => volumes,
            Err(text) => return Status::unresolvable(text),
        };
        let keys = [BETA_ZONE, BETA_REGION, ZONE, REGION];
        let own = &node.metadata.labels;
        let allowed = |volume: &&BTreeMap<String, String>| {
            keys.iter().all(|key| volume.get(*key).is_none_or(|values| allows(key, values, own)))
        };
        let somewhere = keys.iter().any(|key| own.contains_key(*key));
        match somewhere && !volumes.iter().all(allowed) {
            true => Status::unresolvable(REASON),
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
            oracle::verdict(&objects, &pod, node)
        });
    }
}
