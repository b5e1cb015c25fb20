use framework::storage::{BIND_COMPLETED, BOUND_BY_CONTROLLER, MIGRATED_PLUGINS, SELECTED_NODE};
use framework::{Answer, EventResource, ObjectKey, PodKey, Write};
use testkit::{bound_claim, csi_node, handle, pod, storage_class};

use super::world::{Reservation, World};
use super::*;

/// Returns a world in which claim `data` gets volume `pv` on node `a`.
fn static_world(args: Value) -> World {
    World::new(
        args,
        [
            storage_class("local", "kubernetes.io/no-provisioner", WAIT),
            sized_claim("data", "local", "1Gi"),
            local_volume("pv", "1Gi", "a"),
        ],
    )
}

/// Returns a world in which a volume is provisioned for claim `data`.
fn dynamic_world() -> World {
    let made = storage_class("made", DRIVER, WAIT);
    World::new(json!({}), [made, sized_claim("data", "made", "1Gi")])
}

/// Returns a world in which claim `small` gets volume `pv` on node `a` and a volume is provisioned
/// for claim `large`.
fn both_world() -> World {
    World::new(
        json!({}),
        [
            storage_class("local", DRIVER, WAIT),
            sized_claim("large", "local", "9Gi"),
            sized_claim("small", "local", "1Gi"),
            local_volume("pv", "1Gi", "a"),
        ],
    )
}

fn start_both(world: &mut World) -> Reservation {
    world.reserve(pod("p").claim("large").claim("small"), "a").unwrap()
}

fn start(world: &mut World) -> Reservation {
    world.reserve(pod("p").claim("data"), "a").unwrap()
}

fn bound(volume: &str) -> Value {
    let annotations = json!({ BIND_COMPLETED: "yes" });
    json!({ "metadata": { "annotations": annotations }, "spec": { "volumeName": volume } })
}

fn expect_write(step: PreBindStep) -> Write {
    match step {
        PreBindStep::Write(write) => write,
        step => panic!("a write was expected, not {step:?}"),
    }
}

fn expect_wait(step: PreBindStep) -> Duration {
    match step {
        PreBindStep::Wait { timeout, .. } => timeout,
        step => panic!("a wait was expected, not {step:?}"),
    }
}

fn expect_done(step: PreBindStep) -> Status {
    match step {
        PreBindStep::Done(status) => status,
        step => panic!("the end was expected, not {step:?}"),
    }
}

fn failed(text: &str) -> Status {
    Status::error(text.to_owned())
}

#[test]
fn pod_with_bound_volumes_skips_pre_bind() {
    let mut world =
        World::new(json!({}), [bound_claim("data", "pv"), local_volume("pv", "1Gi", "a")]);
    for pod in [pod("p").claim("data"), pod("q")] {
        let mut attempt = world.reserve(pod, "a").unwrap();
        let skip = PreBindPreFlight::Skip { allow_parallel: true };
        assert_eq!(world.pre_flight(&attempt), skip);
        assert!(expect_done(world.step(&mut attempt, PreBindInput::Start)).is_success());
    }
    let mut world = static_world(json!({}));
    let attempt = start(&mut world);
    assert_eq!(world.pre_flight(&attempt), PreBindPreFlight::Run { allow_parallel: true });
}

#[test]
fn claim_that_is_bound_to_a_volume_elsewhere_fails_the_pod() {
    let mut world = static_world(json!({}));
    let mut attempt = start(&mut world);
    expect_wait(world.write_all(&mut attempt));
    // Another pod with the claim was given a volume on another node, and the controller has chosen
    // that one.
    world.show("persistentvolumeclaims", "data", bound("other"));
    let step = world.step(&mut attempt, PreBindInput::Changed);
    let PreBindStep::Wait { objects, .. } = step else { panic!("the volume is not shown yet") };
    let other = ObjectKey::cluster_scoped(EventResource::PersistentVolume, "other".into());
    assert!(objects.contains(&other), "{objects:?}");
    world.put(local_volume("other", "1Gi", "b"));
    let status = expect_done(world.step(&mut attempt, PreBindInput::Changed));
    let text = "binding volumes: pv \"other\" node affinity doesn't match node \"a\": no matching \
                NodeSelectorTerms";
    assert_eq!(status, failed(text));
}

#[test]
fn pre_bind_without_reserve_is_an_error() {
    let world = static_world(json!({}));
    let (mut state, pod) = (CycleState::new(), pod("p").claim("data").build());
    let point = world.plugin.pre_bind.as_ref().unwrap();
    let fail = |text: &str| PreBindPreFlight::Fail(failed(text));
    assert_eq!(
        point.pre_flight(&framework::Attempt::new(&state, &pod, &handle(&world.cluster)), "a"),
        fail("not found")
    );
    let pre_filter = world.plugin.pre_filter.as_ref().unwrap();
    pre_filter
        .pre_filter(framework::AttemptMut::new(&mut state, &pod, &handle(&world.cluster)))
        .unwrap();
    let text = "no pod volume found for node \"a\"";
    assert_eq!(
        point.pre_flight(&framework::Attempt::new(&state, &pod, &handle(&world.cluster)), "a"),
        fail(text)
    );
    let step = point.pre_bind(
        framework::AttemptMut::new(&mut state, &pod, &handle(&world.cluster)),
        "a",
        PreBindInput::Start,
    );
    assert_eq!(expect_done(step), failed(text));
}

#[test]
fn free_volume_is_reserved_and_then_bound_by_the_controller() {
    let mut world = static_world(json!({}));
    let mut attempt = start(&mut world);
    let write = expect_write(world.step(&mut attempt, PreBindInput::Start));
    assert_eq!((&*write.api_version, &*write.resource, &*write.name), ("v1", VOLUMES, "pv"));
    let metadata = json!({
        "uid": "uid-pv", "resourceVersion": "3", "annotations": { BOUND_BY_CONTROLLER: "yes" },
    });
    let claim_ref = json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "data",
        "uid": "uid-data", "resourceVersion": "2",
    });
    let expected = json!({ "metadata": metadata, "spec": { "claimRef": claim_ref } });
    assert_eq!(*write.body(), expected);
    let answer = world.write(&write);
    let timeout = expect_wait(world.step(&mut attempt, PreBindInput::Answer(&answer)));
    assert_eq!(timeout, Duration::from_mins(10));
    world.watch(VOLUMES, "pv");
    expect_wait(world.step(&mut attempt, PreBindInput::Changed));
    world.show(CLAIMS, "data", json!({ "spec": { "volumeName": "pv" } }));
    expect_wait(world.step(&mut attempt, PreBindInput::Changed));
    world.show(CLAIMS, "data", bound("pv"));
    assert!(expect_done(world.step(&mut attempt, PreBindInput::Changed)).is_success());
    assert_eq!(world.caches.lock().volumes.len(), 0);
}

#[test]
fn pod_waits_for_changes_of_its_node_claims_and_volumes() {
    let awaited = |step: PreBindStep| match step {
        PreBindStep::Wait { objects, .. } => objects,
        step => panic!("a wait was expected, not {step:?}"),
    };
    let node = [EventResource::Node, EventResource::CsiNode]
        .map(|kind| ObjectKey::cluster_scoped(kind, "a".into()));
    let claim = ObjectKey::namespaced(
        EventResource::PersistentVolumeClaim,
        "default".into(),
        "data".into(),
    );
    let volume = ObjectKey::cluster_scoped(EventResource::PersistentVolume, "pv".into());
    let pod = ObjectKey::pod(&PodKey::new("default", "p"));
    let usual = [&[pod, claim.clone()], &node[..]].concat();
    let is_awaited = |objects: &[ObjectKey]| usual.iter().all(|object| objects.contains(object));

    let mut world = static_world(json!({}));
    let mut attempt = start(&mut world);
    let objects = awaited(world.write_all(&mut attempt));
    assert!(is_awaited(&objects) && objects.contains(&volume), "{objects:?}");

    let mut world = dynamic_world();
    let mut attempt = start(&mut world);
    let objects = awaited(world.write_all(&mut attempt));
    assert!(is_awaited(&objects) && !objects.contains(&volume), "{objects:?}");
    world.watch(CLAIMS, "data");
    world.show(CLAIMS, "data", bound("pv"));
    let objects = awaited(world.step(&mut attempt, PreBindInput::Changed));
    assert!(is_awaited(&objects) && objects.contains(&volume), "{objects:?}");
}

#[test]
fn pod_waits_until_all_claims_are_bound() {
    let mut world = both_world();
    let mut attempt = start_both(&mut world);
    let PreBindStep::Wait { objects, .. } = world.write_all(&mut attempt) else {
        panic!("expected a wait");
    };
    for claim in ["large", "small"] {
        let kind = EventResource::PersistentVolumeClaim;
        let claim = ObjectKey::namespaced(kind, "default".into(), claim.into());
        assert!(objects.contains(&claim), "{objects:?}");
    }
    world.show(CLAIMS, "small", bound("pv"));
    expect_wait(world.step(&mut attempt, PreBindInput::Changed));
    world.put(local_volume("made", "9Gi", "a"));
    world.show(CLAIMS, "large", bound("made"));
    assert!(expect_done(world.step(&mut attempt, PreBindInput::Changed)).is_success());
    let caches = world.caches.lock();
    assert_eq!((caches.volumes.len(), caches.claims.len()), (0, 0));
}

#[test]
fn volume_reserved_by_name_gets_the_uid_but_no_annotation() {
    let mut world = static_world(json!({}));
    let by_name = json!({ "namespace": "default", "name": "data" });
    world.show(VOLUMES, "pv", json!({ "spec": { "claimRef": by_name } }));
    let mut attempt = start(&mut world);
    let write = expect_write(world.step(&mut attempt, PreBindInput::Start));
    assert_eq!(write.body()["spec"]["claimRef"]["uid"], "uid-data");
    assert!(write.body()["metadata"]["annotations"].is_null());
    world.write(&write);
    // A volume that is already reserved completely is written unchanged.
    world.watch(VOLUMES, "pv");
    let mut attempt = start(&mut world);
    assert_eq!(world.caches.lock().volumes.len(), 1);
    let write = expect_write(world.step(&mut attempt, PreBindInput::Start));
    let metadata = json!({ "uid": "uid-pv", "resourceVersion": "5" });
    assert_eq!(*write.body(), json!({ "metadata": metadata }));
}

#[test]
fn second_pod_of_a_claim_writes_the_assumed_change() {
    let mut world = static_world(json!({}));
    let mut first = start(&mut world);
    let mut second = world.reserve(pod("q").claim("data"), "a").unwrap();
    let expected = expect_write(world.step(&mut first, PreBindInput::Start));
    let write = expect_write(world.step(&mut second, PreBindInput::Start));
    assert_eq!(write, expected);
}

#[test]
fn volume_is_provisioned_for_the_node() {
    let mut world = dynamic_world();
    let mut attempt = start(&mut world);
    let write = expect_write(world.step(&mut attempt, PreBindInput::Start));
    assert_eq!((&*write.resource, &*write.namespace, &*write.name), (CLAIMS, "default", "data"));
    let metadata = json!({
        "uid": "uid-data", "resourceVersion": "2", "annotations": { SELECTED_NODE: "a" },
    });
    assert_eq!(*write.body(), json!({ "metadata": metadata }));
    let answer = world.write(&write);
    expect_wait(world.step(&mut attempt, PreBindInput::Answer(&answer)));
    world.watch(CLAIMS, "data");
    expect_wait(world.step(&mut attempt, PreBindInput::Changed));
    // The scheduler observes the bound claim before the volume.
    world.show(CLAIMS, "data", bound("made"));
    expect_wait(world.step(&mut attempt, PreBindInput::Changed));
    let unbound = json!({ "metadata": { "annotations": { BIND_COMPLETED: null } } });
    world.show(CLAIMS, "data", unbound);
    world.put(local_volume("made", "1Gi", "a"));
    expect_wait(world.step(&mut attempt, PreBindInput::Changed));
    world.show(CLAIMS, "data", bound("made"));
    assert!(expect_done(world.step(&mut attempt, PreBindInput::Changed)).is_success());
    assert_eq!(world.caches.lock().claims.len(), 0);
}

#[test]
fn volumes_are_written_before_claims_smallest_first() {
    let mut world = World::new(
        json!({}),
        [
            storage_class("local", DRIVER, WAIT),
            sized_claim("later", "local", "9Gi"),
            sized_claim("large", "local", "2Gi"),
            sized_claim("small", "local", "1Gi"),
            sized_claim("selected", "local", "1Gi").annotation(SELECTED_NODE, "a"),
            local_volume("pv-1", "1Gi", "a"),
            local_volume("pv-2", "2Gi", "a"),
        ],
    );
    let pod = ["later", "large", "small", "selected"].iter().fold(pod("p"), |pod, c| pod.claim(c));
    let mut attempt = world.reserve(pod, "a").unwrap();
    let mut names = Vec::new();
    let mut step = world.step(&mut attempt, PreBindInput::Start);
    while let PreBindStep::Write(write) = step {
        names.push(write.name.to_string());
        let answer = world.write(&write);
        step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    }
    assert_eq!(names, ["pv-1", "pv-2", "selected", "later"]);
}

#[test]
fn api_server_error_fails_the_pod_with_its_text() {
    for answer in [
        Answer::Conflict("changed".to_owned()),
        Answer::Gone("gone".to_owned()),
        Answer::Forbidden("forbidden".to_owned()),
        Answer::Error("broken".to_owned()),
    ] {
        let mut world = static_world(json!({}));
        let mut attempt = start(&mut world);
        expect_write(world.step(&mut attempt, PreBindInput::Start));
        let status = expect_done(world.step(&mut attempt, PreBindInput::Answer(&answer)));
        assert_eq!(status, failed(answer.failure().unwrap()));
        world.unreserve(&mut attempt);
        assert_eq!(world.claim_of("pv"), None);
    }
}

#[test]
fn written_change_stays_assumed_until_the_watch_delivers_it() {
    let mut world = both_world();
    let mut attempt = start_both(&mut world);
    let write = expect_write(world.step(&mut attempt, PreBindInput::Start));
    let answer = world.write(&write);
    expect_write(world.step(&mut attempt, PreBindInput::Answer(&answer)));
    let refused = Answer::Conflict("no".to_owned());
    expect_done(world.step(&mut attempt, PreBindInput::Answer(&refused)));
    assert_eq!(world.node_of("large").as_deref(), Some("a"));
    world.unreserve(&mut attempt);
    assert_eq!((world.claim_of("pv").as_deref(), world.node_of("large")), (Some("small"), None));
    world.watch(VOLUMES, "pv");
    assert_eq!(world.claim_of("pv").as_deref(), Some("small"));
    world.show(VOLUMES, "pv", json!({ "spec": { "claimRef": null } }));
    assert_eq!(world.claim_of("pv"), None);
}

#[test]
fn write_with_lost_answer_is_retried() {
    let lost = Answer::Unknown("the connection broke".to_owned());
    let mut world = static_world(json!({}));
    let mut attempt = start(&mut world);
    let first = expect_write(world.step(&mut attempt, PreBindInput::Start));
    let second = expect_write(world.step(&mut attempt, PreBindInput::Answer(&lost)));
    assert_eq!(first, second);
    let answer = world.write(&second);
    assert!(matches!(answer, Answer::Ok(_)));
    expect_wait(world.step(&mut attempt, PreBindInput::Answer(&answer)));

    let mut attempt = start(&mut static_world(json!({})));
    let world = static_world(json!({}));
    expect_write(world.step(&mut attempt, PreBindInput::Start));
    expect_write(world.step(&mut attempt, PreBindInput::Answer(&lost)));
    let status = expect_done(world.step(&mut attempt, PreBindInput::Answer(&lost)));
    assert_eq!(status, failed("the connection broke"));
}

/// Returns a pod whose first write succeeded with a lost answer, and whose second write was
/// rejected.
fn rejected_after_lost_answer(world: &mut World) -> (Reservation, PreBindStep) {
    let lost = Answer::Unknown("the connection broke".to_owned());
    let mut attempt = start(world);
    let first = expect_write(world.step(&mut attempt, PreBindInput::Start));
    world.write(&first);
    let second = expect_write(world.step(&mut attempt, PreBindInput::Answer(&lost)));
    let refused = world.write(&second);
    assert_eq!(refused, Answer::Conflict("another resourceVersion".to_owned()));
    let step = world.step(&mut attempt, PreBindInput::Answer(&refused));
    (attempt, step)
}

#[test]
fn successful_write_with_lost_answer_is_found_in_the_watch() {
    for (mut world, resource, name) in
        [(static_world(json!({})), VOLUMES, "pv"), (dynamic_world(), CLAIMS, "data")]
    {
        let (mut attempt, step) = rejected_after_lost_answer(&mut world);
        expect_wait(step);
        expect_wait(world.step(&mut attempt, PreBindInput::Changed));
        world.watch(resource, name);
        expect_wait(world.step(&mut attempt, PreBindInput::Changed));
        world.put(local_volume("made", "1Gi", "a"));
        world.show(CLAIMS, "data", bound("made"));
        assert!(expect_done(world.step(&mut attempt, PreBindInput::Changed)).is_success());
    }
}

#[test]
fn lost_answer_affects_only_its_own_write() {
    let mut world = both_world();
    let mut attempt = start_both(&mut world);
    let write = expect_write(world.step(&mut attempt, PreBindInput::Start));
    world.write(&write);
    world.watch(VOLUMES, "pv");
    let lost = Answer::Unknown("the connection broke".to_owned());
    let again = expect_write(world.step(&mut attempt, PreBindInput::Answer(&lost)));
    let refused = world.write(&again);
    let next = expect_write(world.step(&mut attempt, PreBindInput::Answer(&refused)));
    assert_eq!(&*next.name, "large");
    let refused = Answer::Conflict("changed".to_owned());
    let status = expect_done(world.step(&mut attempt, PreBindInput::Answer(&refused)));
    assert_eq!(status, failed("changed"));
}

#[test]
fn conflicting_write_of_another_client_fails_the_pod() {
    let refusal = failed("another resourceVersion");
    let mut world = static_world(json!({}));
    let (mut attempt, step) = rejected_after_lost_answer(&mut world);
    expect_wait(step);
    let other = json!({ "namespace": "default", "name": "other", "uid": "uid-other" });
    world.show(VOLUMES, "pv", json!({ "spec": { "claimRef": other } }));
    assert_eq!(expect_done(world.step(&mut attempt, PreBindInput::Changed)), refusal);

    // Another object of the same name is not the written one.
    for (mut world, resource, name) in
        [(static_world(json!({})), VOLUMES, "pv"), (dynamic_world(), CLAIMS, "data")]
    {
        let (mut attempt, step) = rejected_after_lost_answer(&mut world);
        expect_wait(step);
        world.show(resource, name, json!({ "metadata": { "uid": "another" } }));
        assert_eq!(expect_done(world.step(&mut attempt, PreBindInput::Changed)), refusal);
    }

    let mut world = static_world(json!({}));
    let (mut attempt, step) = rejected_after_lost_answer(&mut world);
    expect_wait(step);
    assert_eq!(expect_done(world.step(&mut attempt, PreBindInput::Deadline)), refusal);
}

#[test]
fn binding_ends_at_its_timeout() {
    let late = failed("binding volumes: context deadline exceeded");
    let mut world = static_world(json!({ "bindTimeoutSeconds": 3 }));
    let mut attempt = start(&mut world);
    assert_eq!(expect_wait(world.write_all(&mut attempt)), Duration::from_secs(3));
    assert_eq!(expect_done(world.step(&mut attempt, PreBindInput::Deadline)), late);

    let mut world = static_world(json!({ "bindTimeoutSeconds": 0 }));
    let mut attempt = start(&mut world);
    assert_eq!(expect_done(world.write_all(&mut attempt)), late);
}

#[test]
fn object_older_than_the_write_is_ignored() {
    let mut world = static_world(json!({}));
    for number in 0..10 {
        let labels = json!({ "number": number.to_string() });
        world.show(VOLUMES, "pv", json!({ "metadata": { "labels": labels } }));
    }
    let mut attempt = start(&mut world);
    let write = expect_write(world.step(&mut attempt, PreBindInput::Start));
    let answer = world.write(&write);
    world.show(CLAIMS, "data", bound("pv"));
    expect_wait(world.step(&mut attempt, PreBindInput::Answer(&answer)));
    // A list from a lagging API server shows the old version.
    local_volume("pv", "1Gi", "a")
        .set("/metadata/resourceVersion", json!("9"))
        .put(&mut world.cluster);
    expect_wait(world.step(&mut attempt, PreBindInput::Changed));
    world.watch(VOLUMES, "pv");
    assert!(expect_done(world.step(&mut attempt, PreBindInput::Changed)).is_success());
}

#[test]
fn answer_without_the_object_is_accepted() {
    let mut world = static_world(json!({}));
    let mut attempt = start(&mut world);
    let write = expect_write(world.step(&mut attempt, PreBindInput::Start));
    world.write(&write);
    world.show(CLAIMS, "data", bound("pv"));
    expect_wait(world.step(&mut attempt, PreBindInput::Answer(&Answer::ok())));
    world.watch(VOLUMES, "pv");
    assert!(expect_done(world.step(&mut attempt, PreBindInput::Changed)).is_success());

    // The write may be undone before the scheduler observes it.
    let mut world = static_world(json!({}));
    let mut attempt = start(&mut world);
    let write = expect_write(world.step(&mut attempt, PreBindInput::Start));
    world.write(&write);
    expect_wait(world.step(&mut attempt, PreBindInput::Answer(&Answer::ok())));
    world.show(VOLUMES, "pv", json!({ "spec": { "claimRef": null } }));
    let text = "binding volumes: ClaimRef got reset for pv \"pv\"";
    assert_eq!(expect_done(world.step(&mut attempt, PreBindInput::Changed)), failed(text));
}

#[test]
fn write_without_changes_needs_no_watch_event() {
    let mut world = static_world(json!({}));
    let reference = json!({ "namespace": "default", "name": "data", "uid": "uid-data" });
    world.show(VOLUMES, "pv", json!({ "spec": { "claimRef": reference } }));
    let mut attempt = start(&mut world);
    expect_write(world.step(&mut attempt, PreBindInput::Start));
    expect_wait(world.step(&mut attempt, PreBindInput::Answer(&Answer::ok())));
    world.show(CLAIMS, "data", bound("pv"));
    assert!(expect_done(world.step(&mut attempt, PreBindInput::Changed)).is_success());
}

/// Returns the status that ends the wait of a pod after a change to the world.
fn after(mut world: World, change: impl FnOnce(&mut World, &Reservation)) -> Status {
    let mut attempt = start(&mut world);
    expect_wait(world.write_all(&mut attempt));
    change(&mut world, &attempt);
    expect_done(world.step(&mut attempt, PreBindInput::Changed))
}

#[test]
fn wait_ends_when_pod_or_node_is_deleted() {
    for make in [|| static_world(json!({})), dynamic_world] {
        let status = after(make(), |world, _| {
            world.cluster.remove_node("a");
        });
        let text = "binding volumes: failed to get node \"a\": node \"a\" not found";
        assert_eq!(status, failed(text));
        let status = after(make(), |world, attempt| {
            world.cluster.place_pod(Arc::new(pod("another").build()), "a");
            let placed = world.cluster.node(world.cluster.node_named("a").unwrap()).placed();
            let (ix, _) = { placed }.find(|(_, placed)| placed.uid == attempt.pod.uid).unwrap();
            world.cluster.remove_pod(ix);
        });
        let text = "binding volumes: pod does not exist any more: pod \"p\" not found";
        assert_eq!(status, failed(text));
    }
}

#[test]
fn wait_for_a_reserved_volume_ends_when_binding_becomes_impossible() {
    let nowhere = json!({ "spec": { "nodeAffinity": zone_affinity(&["elsewhere"]) } });
    let reset = json!({ "spec": { "claimRef": { "uid": null } } });
    type Change = fn(&mut World, Value);
    let cases: [(Change, Value, &str); 5] = [
        (
            |world, _| world.delete(VOLUMES, "pv"),
            json!(null),
            "failed to check binding: persistentvolumes \"pv\" not found",
        ),
        (
            |world, _| world.delete(CLAIMS, "data"),
            json!(null),
            "failed to check binding: persistentvolumeclaims \"default/data\" not found",
        ),
        (
            |world, patch| world.show(VOLUMES, "pv", patch),
            nowhere,
            "pv \"pv\" node affinity doesn't match node \"a\": no matching NodeSelectorTerms",
        ),
        (
            |world, patch| world.show(VOLUMES, "pv", patch),
            reset,
            "ClaimRef got reset for pv \"pv\"",
        ),
        (
            |world, patch| world.show(VOLUMES, "pv", patch),
            json!({ "spec": { "claimRef": null } }),
            "ClaimRef got reset for pv \"pv\"",
        ),
    ];
    for (change, patch, text) in cases {
        let status = after(static_world(json!({})), |world, _| change(world, patch));
        assert_eq!(status, failed(&format!("binding volumes: {text}")));
    }
}

#[test]
fn wait_ends_when_a_volume_cannot_be_translated() {
    let why = "could not translate pv: failed to translate Kubernetes ID to EBS Volume ID Invalid \
               format for AWS volume (aws://disk)";
    let disk = json!({ "volumeID": "aws://disk" });
    let migrate = |world: &mut World| {
        let plugins = "kubernetes.io/aws-ebs";
        csi_node("a", &[]).annotation(MIGRATED_PLUGINS, plugins).put(&mut world.cluster);
    };
    let status = after(static_world(json!({})), |world, _| {
        migrate(world);
        world.show(VOLUMES, "pv", json!({ "spec": { "awsElasticBlockStore": disk } }));
    });
    let text = format!("binding volumes: failed to translate pv to csi: {why}");
    assert_eq!(status, failed(&text));
    let status = after(dynamic_world(), |world, _| {
        migrate(world);
        world.put(local_volume("made", "1Gi", "a").set("/spec/awsElasticBlockStore", disk.clone()));
        world.show(CLAIMS, "data", bound("made"));
    });
    assert_eq!(status, failed(&format!("binding volumes: {why}")));
}

#[test]
fn wait_for_provisioning_ends_when_it_becomes_impossible() {
    let selected = |node: Value| json!({ "metadata": { "annotations": { SELECTED_NODE: node } } });
    let mut kept = selected(json!(null));
    kept["metadata"]["annotations"]["other"] = json!("");
    let failure = "provisioning failed for PVC \"data\"";
    for (patch, text) in [
        (selected(json!(null)), "selectedNode annotation reset for PVC \"data\""),
        (kept, failure),
        (selected(json!("b")), failure),
        (
            bound("elsewhere"),
            "pv \"elsewhere\" node affinity doesn't match node \"a\": no matching \
             NodeSelectorTerms",
        ),
    ] {
        let status = after(dynamic_world(), |world, _| {
            world.put(local_volume("elsewhere", "1Gi", "b"));
            world.show(CLAIMS, "data", patch);
        });
        assert_eq!(status, failed(&format!("binding volumes: {text}")));
    }
    let status = after(dynamic_world(), |world, _| world.delete(CLAIMS, "data"));
    let text =
        "failed to check provisioning pvc: persistentvolumeclaims \"default/data\" not found";
    assert_eq!(status, failed(&format!("binding volumes: {text}")));
}

#[test]
fn reserve_on_a_deleted_node_is_an_error() {
    let mut world = static_world(json!({}));
    let pod = pod("p").claim("data").build();
    let mut state = CycleState::new();
    let pre_filter = world.plugin.pre_filter.as_ref().unwrap();
    pre_filter
        .pre_filter(framework::AttemptMut::new(&mut state, &pod, &handle(&world.cluster)))
        .unwrap();
    world.cluster.remove_node("a");
    let reserve = world.plugin.reserve.as_ref().unwrap();
    let status =
        reserve.reserve(framework::AttemptMut::new(&mut state, &pod, &handle(&world.cluster)), "a");
    assert_eq!(status, failed("node \"a\" not found"));
}
