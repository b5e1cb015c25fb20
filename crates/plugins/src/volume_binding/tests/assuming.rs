use framework::storage::{BOUND_BY_CONTROLLER, PersistentVolume, SELECTED_NODE};
use framework::{AttemptMut, Registry};
use testkit::{SetJson, handle, node, pod, storage_class};

use super::super::assumed::AssumedObjects;
use super::world::World;
use super::*;

fn local() -> StorageObject {
    storage_class("local", "kubernetes.io/no-provisioner", WAIT)
}

fn volume_of(world: &World) -> PersistentVolume {
    PersistentVolume::clone(world.cluster.volume("pv").unwrap())
}

/// Returns the volume with class `assumed`.
fn changed(volume: PersistentVolume) -> Arc<PersistentVolume> {
    Arc::new(PersistentVolume { class: "assumed".into(), ..volume })
}

fn class_of(world: &World) -> String {
    world.caches.lock().volumes.latest(world.cluster.volume("pv").unwrap()).class.to_string()
}

fn assume(world: &World, volume: Arc<PersistentVolume>) -> Result<(), String> {
    world.caches.lock().volumes.assume(volume, &world.cluster)
}

#[test]
fn assumed_version_is_valid_until_the_object_changes() {
    let mut world = World::new(json!({}), [local_volume("pv", "1Gi", "a")]);
    assert_eq!(class_of(&world), "local");
    assume(&world, changed(volume_of(&world))).unwrap();
    assert_eq!(class_of(&world), "assumed");
    // A relist delivers the same version again.
    world.watch(VOLUMES, "pv");
    assert_eq!(class_of(&world), "assumed");
    world.show(VOLUMES, "pv", json!({ "spec": { "storageClassName": "newer" } }));
    assert_eq!(class_of(&world), "newer");
}

#[test]
fn assumed_version_does_not_apply_to_a_recreated_object() {
    let mut world = World::new(json!({}), [local_volume("pv", "1Gi", "a")]);
    let version = volume_of(&world).resource_version.to_string();
    assume(&world, changed(volume_of(&world))).unwrap();
    world.delete(VOLUMES, "pv");
    let metadata = json!({ "name": "pv", "uid": "another", "resourceVersion": version });
    let another = json!({ "metadata": metadata, "spec": { "storageClassName": "another" } });
    let kind = EventResource::PersistentVolume;
    world.cluster.set_json(&kind, "", "pv", Some(Arc::new(another)));
    assert_eq!(class_of(&world), "another");
}

#[test]
fn assume_rejects_other_versions_than_the_stored_one() {
    let mut world = World::new(json!({}), [local_volume("pv", "1Gi", "a")]);
    let old = changed(volume_of(&world));
    world.show(VOLUMES, "pv", json!({ "metadata": { "labels": { "x": "y" } } }));
    let expected = "\"pv\" is out of sync (stored: 2, assume: 1)";
    assert_eq!(assume(&world, old.clone()), Err(expected.to_owned()));
    assert_eq!(class_of(&world), "local");
    world.delete(VOLUMES, "pv");
    assert_eq!(assume(&world, old), Err("persistentvolumes \"pv\" not found".to_owned()));
}

#[test]
fn restore_keeps_newer_assumed_versions() {
    let mut world = World::new(json!({}), [local_volume("pv", "1Gi", "a")]);
    let old = changed(volume_of(&world));
    assume(&world, old.clone()).unwrap();
    world.show(VOLUMES, "pv", json!({ "metadata": { "labels": { "x": "y" } } }));
    let new = changed(volume_of(&world));
    assume(&world, new.clone()).unwrap();
    world.caches.lock().volumes.restore(&old);
    assert_eq!(class_of(&world), "assumed");
    world.caches.lock().volumes.restore(&new);
    assert_eq!(class_of(&world), "local");
}

#[test]
fn assumed_claims_are_keyed_by_namespace() {
    let claim = |namespace: &str| sized_claim("data", "local", "1Gi").namespace(namespace);
    let mut world = World::new(json!({}), []);
    ["x", "y"].into_iter().for_each(|namespace| claim(namespace).put(&mut world.cluster));
    let stored = |namespace: &str| world.cluster.claim(namespace, "data").unwrap();
    let mut assumed = framework::storage::PersistentVolumeClaim::clone(stored("x"));
    assumed.selected_node = Some("a".into());
    world.caches.lock().claims.assume(Arc::new(assumed), &world.cluster).unwrap();
    let node = |namespace: &str| {
        world.caches.lock().claims.latest(stored(namespace)).selected_node.clone()
    };
    assert_eq!((node("x").as_deref(), node("y")), (Some("a"), None));
}

#[test]
fn sweep_removes_invalid_entries() {
    let mut world = World::new(json!({}), [local_volume("pv", "1Gi", "a")]);
    assume(&world, changed(volume_of(&world))).unwrap();
    for number in 0..1000 {
        let name = format!("pv-{number}");
        world.put(local_volume(&name, "1Gi", "a"));
        let volume = world.cluster.volume(&name).unwrap().clone();
        assume(&world, volume).unwrap();
        world.delete(VOLUMES, &name);
    }
    assert!(world.caches.lock().volumes.len() <= 64);
    assert_eq!(class_of(&world), "assumed", "and what counts stays");
}

#[test]
fn volume_assumed_for_a_claim_does_not_match_a_recreated_claim() {
    let reference = json!({ "namespace": "default", "name": "data" });
    let reserved = local_volume("pv", "1Gi", "a").set("/spec/claimRef", reference);
    let data = sized_claim("data", "local", "1Gi");
    let mut world = World::new(json!({}), [local(), reserved, data.clone()]);
    world.reserve(pod("p").claim("data"), "a").unwrap();
    world.delete("persistentvolumeclaims", "data");
    world.put(data.set("/metadata/uid", json!("another")));
    let text = "node(s) didn't find available persistent volumes to bind";
    let second = world.reserve(pod("q").claim("data"), "a");
    assert_eq!(second.err(), Some(Status::unresolvable(text)));
}

#[test]
fn second_pod_does_not_get_an_assumed_volume() {
    let claims = ["one", "two"].map(|name| sized_claim(name, "local", "1Gi"));
    let mut world = World::new(json!({}), [local(), local_volume("pv", "1Gi", "a")]);
    claims.into_iter().for_each(|claim| world.put(claim));
    let mut first = world.reserve(pod("p").claim("one"), "a").unwrap();
    assert_eq!(world.claim_of("pv").as_deref(), Some("one"));
    let text = "node(s) didn't find available persistent volumes to bind";
    let second = world.reserve(pod("q").claim("two"), "a");
    assert_eq!(second.err(), Some(Status::unresolvable(text)));
    world.unreserve(&mut first);
    assert_eq!(world.claim_of("pv"), None);
    world.reserve(pod("q").claim("two"), "a").unwrap();
    assert_eq!(world.claim_of("pv").as_deref(), Some("two"));
    // Unreserve runs a second time.
    world.unreserve(&mut first);
    assert_eq!(world.claim_of("pv").as_deref(), Some("two"));
}

#[test]
fn reserve_assumes_no_change_if_an_object_has_changed() {
    let mut world = World::new(json!({}), [storage_class("local", DRIVER, WAIT)]);
    for (claim, size) in [("one", "1Gi"), ("two", "2Gi"), ("three", "9Gi"), ("four", "9Gi")] {
        world.put(sized_claim(claim, "local", size));
    }
    world.put(local_volume("pv-1", "1Gi", "a"));
    world.put(local_volume("pv-2", "2Gi", "a"));
    world.put(local_volume("pv", "1Gi", "b"));
    let mut assumed = AssumedObjects::default();
    assumed.volumes.assume(changed(volume_of(&world)), &world.cluster).unwrap();

    let pod = pod("p").claim("one").claim("two").claim("three").claim("four").build();
    let claims = PodVolumeClaims::of(&pod, &world.cluster, &assumed).unwrap().unwrap();
    let node = world.cluster.node(world.cluster.node_named("a").unwrap());
    let volumes = find_pod_volumes(&claims, &node, &assumed).unwrap().unwrap();
    world.show(CLAIMS, "four", json!({ "metadata": { "labels": { "x": "y" } } }));
    let failed = VolumeBinder::assume(volumes, &"a".into(), &world.cluster, &mut assumed).err();
    let text = "\"default/four\" is out of sync (stored: 9, assume: 5)";
    assert_eq!(failed, Some(Status::error(text)));
    assert_eq!((assumed.volumes.len(), assumed.claims.len()), (1, 0), "that of another stays");
}

#[test]
fn changed_volume_is_no_longer_assumed_for_its_claim() {
    let other = json!({ "spec": { "claimRef": { "namespace": "default", "name": "other" } } });
    let taken: fn(&mut World, Value) = |world, other| world.show(VOLUMES, "pv", other);
    let gone: fn(&mut World, Value) = |world, _| world.delete(VOLUMES, "pv");
    for change in [taken, gone] {
        let claim = sized_claim("data", "local", "1Gi");
        let mut world = World::new(json!({}), [local(), claim, local_volume("pv", "1Gi", "a")]);
        world.reserve(pod("p").claim("data"), "a").unwrap();
        change(&mut world, other.clone());
        let text = "node(s) didn't find available persistent volumes to bind";
        let second = world.reserve(pod("q").claim("data"), "a");
        assert_eq!(second.err(), Some(Status::unresolvable(text)));
    }
}

#[test]
fn objects_without_versions_and_uids_can_be_assumed() {
    let mut cluster = testkit::cluster([node("a").label("zone", "a").build()], []);
    let objects = [local(), sized_claim("data", "local", "1Gi"), local_volume("pv", "1Gi", "a")];
    for object in objects {
        let bare =
            object.set("/metadata/uid", json!("")).set("/metadata/resourceVersion", json!(""));
        bare.put(&mut cluster);
    }
    let caches = Arc::<AssumeCaches>::default();
    let plugin = plugin_with(&PluginArgs::default(), &caches).unwrap();
    let (mut state, pod) = (CycleState::new(), pod("p").claim("data").build());
    plugin
        .pre_filter
        .unwrap()
        .pre_filter(AttemptMut::new(&mut state, &pod, &handle(&cluster)))
        .unwrap();
    let reserved =
        plugin.reserve.unwrap().reserve(AttemptMut::new(&mut state, &pod, &handle(&cluster)), "a");
    assert_eq!(reserved, Status::success());
    let volume = caches.lock().volumes.latest(cluster.volume("pv").unwrap());
    assert!(volume.is_for(cluster.claim("default", "data").unwrap()));
    let (pre_bind, start) = (plugin.pre_bind.unwrap(), PreBindInput::Start);
    let PreBindStep::Write(write) =
        pre_bind.pre_bind(AttemptMut::new(&mut state, &pod, &handle(&cluster)), "a", start)
    else {
        panic!("expected a write");
    };
    let bound_by_controller = json!({ "annotations": { BOUND_BY_CONTROLLER: "yes" } });
    assert_eq!(write.body()["metadata"], bound_by_controller, "without preconditions");
}

#[test]
fn pods_with_the_same_claim_get_the_same_volume() {
    let mut world = World::new(
        json!({}),
        [
            local(),
            sized_claim("data", "local", "1Gi"),
            local_volume("small", "1Gi", "b"),
            local_volume("pv", "2Gi", "a"),
        ],
    );
    world.reserve(pod("p").claim("data"), "a").unwrap();
    assert!(world.reserve(pod("q").claim("data"), "b").is_err());
    world.reserve(pod("q").claim("data"), "a").unwrap();
    assert_eq!(world.claim_of("pv").as_deref(), Some("data"));
    assert_eq!(world.claim_of("small"), None);
}

#[test]
fn shared_claim_stays_assumed_until_its_last_pod_reverts() {
    let by_name = json!({ "namespace": "default", "name": "data" });
    let free = || local_volume("pv", "1Gi", "a");
    let reserved = free().set("/spec/claimRef", by_name);
    for (objects, order) in [
        (vec![local(), free()], [0, 1]),
        (vec![local(), free()], [1, 0]),
        (vec![local(), reserved], [0, 1]),
        (vec![storage_class("local", DRIVER, WAIT)], [0, 1]),
        (vec![storage_class("local", DRIVER, WAIT)], [1, 0]),
    ] {
        let mut world = World::new(json!({}), [sized_claim("data", "local", "1Gi")]);
        objects.into_iter().for_each(|object| world.put(object));
        let mut pods = ["p", "q"].map(|name| world.reserve(pod(name).claim("data"), "a").unwrap());
        let assumed = |world: &World| {
            let caches = world.caches.lock();
            caches.volumes.len() + caches.claims.len()
        };
        world.unreserve(&mut pods[order[0]]);
        assert_eq!(assumed(&world), 1);
        world.unreserve(&mut pods[order[1]]);
        assert_eq!(assumed(&world), 0);
    }
}

#[test]
fn assumed_claim_keeps_its_selected_node() {
    let made = storage_class("made", DRIVER, WAIT);
    let mut world = World::new(json!({}), [made, sized_claim("data", "made", "1Gi")]);
    let mut first = world.reserve(pod("p").claim("data"), "a").unwrap();
    assert_eq!(world.node_of("data").as_deref(), Some("a"));
    assert!(world.reserve(pod("q").claim("data"), "b").is_err());
    // The second pod assumed no change, so it reverts none.
    let mut second = world.reserve(pod("q").claim("data"), "a").unwrap();
    world.unreserve(&mut second);
    assert_eq!(world.node_of("data").as_deref(), Some("a"));
    world.unreserve(&mut first);
    assert_eq!(world.node_of("data"), None);
    world.reserve(pod("q").claim("data"), "b").unwrap();
    world.show(CLAIMS, "data", json!({ "metadata": { "annotations": { SELECTED_NODE: "a" } } }));
    assert_eq!(world.node_of("data").as_deref(), Some("a"));
}

#[test]
fn profiles_share_assumed_volumes() {
    let registry = crate::registry();
    let (own, other) = (registry.for_scheduler(), registry.for_scheduler());
    let make = |registry: &Registry| registry.get(NAME).unwrap()(&PluginArgs::default()).unwrap();
    let mut world = World::new(json!({}), [local(), local_volume("pv", "1Gi", "a")]);
    ["one", "two"].into_iter().for_each(|name| world.put(sized_claim(name, "local", "1Gi")));
    world.plugin = make(&own);
    world.reserve(pod("p").claim("one"), "a").unwrap();
    world.plugin = make(&own);
    assert!(world.reserve(pod("q").claim("two"), "a").is_err());
    world.plugin = make(&other);
    assert!(world.reserve(pod("r").claim("two"), "a").is_ok());
}
