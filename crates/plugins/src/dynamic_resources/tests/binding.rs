//! Reserve, PreBind and Unreserve.

use framework::Answer;
use serde_json::json;

use super::world::*;
use crate::dynamic_resources::*;

#[track_caller]
fn written(step: PreBindStep) -> framework::Write {
    match step {
        PreBindStep::Write(write) => write,
        other => panic!("{other:?} is no write"),
    }
}

#[track_caller]
fn outcome(step: PreBindStep) -> String {
    match step {
        PreBindStep::Done(status) => status.message(),
        other => panic!("{other:?} is not the end"),
    }
}

/// Loses the answer to the open write, and returns the step after the pause.
#[track_caller]
fn lose(world: &mut World, attempt: &mut Reservation) -> PreBindStep {
    let lost = Answer::Unknown("lost".to_owned());
    let step = world.step(attempt, PreBindInput::Answer(&lost));
    after_wait(world, attempt, step)
}

/// Returns the step after the whole time of a wait.
#[track_caller]
fn after_wait(world: &mut World, attempt: &mut Reservation, step: PreBindStep) -> PreBindStep {
    let PreBindStep::Wait { timeout, .. } = step else { panic!("{step:?} is no wait") };
    world.parts.now = world.parts.now + timeout;
    world.step(attempt, PreBindInput::Deadline)
}

/// Returns the attempt of a pod whose claim is protected, before the answer to the write of its
/// allocation.
fn allocating() -> (World, Reservation, framework::Write) {
    let (mut world, mut attempt) = ready();
    let finalizer = written(world.step(&mut attempt, PreBindInput::Start));
    let answer = world.write(&finalizer);
    world.watch_claims();
    let status = written(world.step(&mut attempt, PreBindInput::Answer(&answer)));
    (world, attempt, status)
}

fn ready() -> (World, Reservation) {
    let world = World::new([("resourceclaims", claim("c", 1))]);
    let attempt = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    (world, attempt)
}

#[test]
fn claim_gets_finalizer_allocation_and_reservation() {
    let (mut world, mut attempt) = ready();
    assert_eq!(outcome(world.write_all(&mut attempt)), "");
    let claim = world.claim("c");
    assert_eq!(claim["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(
        claim["status"],
        json!({
            "allocation": {
                "allocationTimestamp": "1970-01-01T00:16:40Z",
                "devices": {"results": [
                    {"request": "r", "driver": "d", "pool": "a", "device": "0"},
                ]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["a"]},
                ]}]},
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "uid-p"}],
        })
    );
    assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 0), "the watch has shown the claim");
}

#[test]
fn allocated_claim_is_only_reserved_and_keeps_its_other_users() {
    let (mut world, mut attempt) = ready();
    world.write_all(&mut attempt);
    let mut second = world.reserve(&pod_using("q", &["c"]), "a").unwrap();
    let write = written(world.step(&mut second, PreBindInput::Start));
    assert_eq!(
        *write.body(),
        json!({
            "metadata": {"uid": "uid-c", "resourceVersion": world.claim("c")["metadata"]["resourceVersion"]},
            "status": {"reservedFor": [
                {"resource": "pods", "name": "p", "uid": "uid-p"},
                {"resource": "pods", "name": "q", "uid": "uid-q"},
            ]},
        })
    );
    // A third pod finds the claim reserved for itself, for example after a restart.
    world.write(&write);
    world.watch("resourceclaims", "c");
    let mut again = world.reserve(&pod_using("q", &["c"]), "a").unwrap();
    assert_eq!(outcome(world.step(&mut again, PreBindInput::Start)), "");
}

#[test]
fn devices_stay_taken_between_the_answer_and_the_watch() {
    let mut world =
        World::new([("resourceclaims", claim("c", 2)), ("resourceclaims", claim("d", 1))]);
    let mut attempt = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    let mut step = world.step(&mut attempt, PreBindInput::Start);
    while let PreBindStep::Write(write) = step {
        let answer = world.write(&write);
        step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    }
    assert_eq!(outcome(step), "");
    let other = pod_using("q", &["d"]);
    assert_eq!(world.messages(&other), ["cannot allocate all claims", ""]);
    // The claim itself counts as allocated already.
    assert_eq!(world.messages(&pod_using("r", &["c"])), ["", UNAVAILABLE]);
    world.watch_claims();
    assert_eq!(world.messages(&other), ["cannot allocate all claims", ""]);
    world.show("resourceclaims", "c", &json!({"status": null}));
    assert_eq!(world.messages(&other), ["", ""], "deallocated by somebody else");
}

#[test]
fn lost_answers_are_resolved_by_the_watch() {
    let (mut world, mut attempt) = ready();
    let finalizer = written(world.step(&mut attempt, PreBindInput::Start));
    world.write(&finalizer);
    let again = written(lose(&mut world, &mut attempt));
    assert_eq!(again, finalizer);
    let answer = world.write(&again);
    let status = written(world.step(&mut attempt, PreBindInput::Answer(&answer)));
    world.write(&status);
    let again = written(lose(&mut world, &mut attempt));
    assert_eq!(again, status);
    let answer = world.write(&again);
    assert!(matches!(answer, Answer::Conflict(_)), "{answer:?}");
    let step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    assert!(matches!(step, PreBindStep::Wait { .. }), "{step:?}");
    world.watch_claims();
    assert_eq!(outcome(world.step(&mut attempt, PreBindInput::Changed)), "");
    assert_eq!(devices_of(&world.claim("c")), ["a/0"]);
    let users = world.claim("c")["status"]["reservedFor"].as_array().unwrap().len();
    assert_eq!(users, 1);
}

#[test]
fn conflicts_are_repeated_with_the_newer_version() {
    let (mut world, mut attempt) = ready();
    let finalizer = written(world.step(&mut attempt, PreBindInput::Start));
    let answer = world.write(&finalizer);
    let status = written(world.step(&mut attempt, PreBindInput::Answer(&answer)));
    world.change("resourceclaims", "c", &json!({"metadata": {"labels": {"k": "v"}}}));
    let answer = world.write(&status);
    let step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    assert!(matches!(step, PreBindStep::Wait { .. }), "{step:?}");
    world.watch_claims();
    let again = written(world.step(&mut attempt, PreBindInput::Changed));
    let answer = world.write(&again);
    assert_eq!(outcome(world.step(&mut attempt, PreBindInput::Answer(&answer))), "");
    assert_eq!(devices_of(&world.claim("c")), ["a/0"]);
}

#[test]
fn conflict_that_the_watch_does_not_explain_fails() {
    let (world, mut attempt) = ready();
    let finalizer = written(world.step(&mut attempt, PreBindInput::Start));
    let mut object = world.claim("c");
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    let answer = Answer::Ok(Some(object));
    written(world.step(&mut attempt, PreBindInput::Answer(&answer)));
    let refused = Answer::Conflict("another version".to_owned());
    world.step(&mut attempt, PreBindInput::Answer(&refused));
    let text = outcome(world.step(&mut attempt, PreBindInput::Deadline));
    assert_eq!(text, "add allocation and reservation to claim default/c: another version");
    assert_eq!(&*finalizer.name, "c");
}

#[test]
fn pods_that_share_a_claim_write_it_one_after_the_other() {
    let (mut world, mut attempt) = ready();
    world.write_all(&mut attempt);
    let mut attempts: Vec<_> = (0..20)
        .map(|n| world.reserve(&pod_using(&format!("q{n}"), &["c"]), "a").unwrap())
        .collect();
    let mut open: Vec<_> =
        attempts.iter_mut().map(|attempt| world.step(attempt, PreBindInput::Start)).collect();
    let (mut writes, mut refused) = (0, 0);
    while open.iter().any(|step| !matches!(step, PreBindStep::Done(_))) {
        for (attempt, step) in attempts.iter_mut().zip(&mut open) {
            if let PreBindStep::Write(write) = step {
                let answer = world.write(write);
                writes += 1;
                refused += usize::from(!matches!(answer, Answer::Ok(_)));
                *step = world.step(attempt, PreBindInput::Answer(&answer));
            }
        }
        world.watch_claims();
        for (attempt, step) in attempts.iter_mut().zip(&mut open) {
            if matches!(step, PreBindStep::Wait { .. }) {
                *step = world.step(attempt, PreBindInput::Changed);
            }
        }
    }
    assert_eq!((writes, refused), (20, 0));
    assert!(open.into_iter().all(|step| outcome(step).is_empty()));
    assert_eq!(world.claim("c")["status"]["reservedFor"].as_array().unwrap().len(), 21);
    assert!(world.shared.tracker.lock().turns.is_empty());
}

#[test]
fn turn_of_a_pod_ends_with_its_attempt_or_after_a_second() {
    let (mut world, mut attempt) = ready();
    world.write_all(&mut attempt);
    let reserve = |world: &World, name: &str| world.reserve(&pod_using(name, &["c"]), "a").unwrap();
    let mut attempts = ["q", "r", "s"].map(|name| reserve(&world, name));
    let [first, second, third] = &mut attempts;
    written(world.step(first, PreBindInput::Start));
    assert!(matches!(world.step(second, PreBindInput::Start), PreBindStep::Wait { .. }));
    world.unreserve(first);
    written(world.step(second, PreBindInput::Deadline));

    let start = world.parts.now;
    let mut step = world.step(third, PreBindInput::Start);
    while matches!(step, PreBindStep::Wait { .. }) {
        step = after_wait(&mut world, third, step);
    }
    written(step);
    assert_eq!(world.parts.now.since(start), Duration::from_secs(1));
}

#[test]
fn changes_by_others_end_the_binding() {
    let allocated = json!({"status": {"allocation": {"devices": {"results": [
        {"request": "r", "driver": "d", "pool": "b", "device": "1"},
    ]}}}});
    // Another scheduler may have allocated and reserved it for the same pod.
    let mut reserved = allocated.clone();
    reserved["status"]["reservedFor"] = json!([{"resource": "pods", "name": "p", "uid": "uid-p"}]);
    let elsewhere = "claim default/c got allocated elsewhere in the meantime";
    let rows = [
        (allocated, elsewhere),
        (reserved, elsewhere),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            "claim default/c got deleted in the meantime",
        ),
    ];
    for (patch, expected) in rows {
        let (mut world, mut attempt) = ready();
        world.show("resourceclaims", "c", &patch);
        assert_eq!(outcome(world.step(&mut attempt, PreBindInput::Start)), expected);
    }
    let (mut world, mut attempt) = ready();
    world.write_all(&mut attempt);
    let mut second = world.reserve(&pod_using("q", &["c"]), "a").unwrap();
    world.show("resourceclaims", "c", &json!({"status": null}));
    let text = outcome(world.step(&mut second, PreBindInput::Start));
    assert_eq!(text, "claim default/c got deallocated elsewhere in the meantime");
}

#[test]
fn claim_that_was_allocated_for_another_node_in_the_meantime_ends_the_binding() {
    let (mut world, mut attempt) = ready();
    world.write_all(&mut attempt);
    let mut second = world.reserve(&pod_using("q", &["c"]), "a").unwrap();
    let allocated_for = |node: &str| {
        json!({"status": {"reservedFor": null, "allocation": {
            "devices": {"results": [{"request": "r", "driver": "d", "pool": node, "device": "1"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [node]},
            ]}]},
        }}})
    };
    world.show("resourceclaims", "c", &allocated_for("b"));
    let text = outcome(world.step(&mut second, PreBindInput::Start));
    assert_eq!(text, "claim default/c got allocated elsewhere in the meantime");
    let mut third = world.reserve(&pod_using("r", &["c"]), "b").unwrap();
    world.show("resourceclaims", "c", &json!({"metadata": {"labels": {"k": "v"}}}));
    written(world.step(&mut third, PreBindInput::Start));
}

#[test]
fn deleted_claim_fails_with_the_answer_of_the_server() {
    let (mut world, mut attempt) = ready();
    let finalizer = written(world.step(&mut attempt, PreBindInput::Start));
    world.delete("resourceclaims", "c");
    let answer = world.write(&finalizer);
    let text = outcome(world.step(&mut attempt, PreBindInput::Answer(&answer)));
    assert_eq!(text, "add finalizer to claim default/c: resourceclaims \"c\" not found");
    world.unreserve(&mut attempt);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 0));
}

#[test]
fn unreserve_ends_the_reservation_and_keeps_the_allocation() {
    let (mut world, mut attempt) = ready();
    world.write_all(&mut attempt);
    let version = world.claim("c")["metadata"]["resourceVersion"].clone();
    world.unreserve(&mut attempt);
    let [write] = &world.write_commands()[..] else { panic!("one write") };
    assert_eq!(
        *write.body(),
        json!({
            "metadata": {"uid": "uid-c", "resourceVersion": version},
            "status": {"reservedFor": [{"$patch": "delete", "uid": "uid-p"}]},
        })
    );
    assert_eq!(world.claim("c")["status"]["reservedFor"], json!([]));
    assert_eq!(devices_of(&world.claim("c")), ["a/0"]);
    world.unreserve(&mut attempt);
    assert_eq!(world.write_commands(), [], "the second call has nothing to do");
}

#[test]
fn reservation_that_is_being_removed_is_written_again() {
    let (mut world, mut attempt) = ready();
    world.write_all(&mut attempt);
    world.unreserve(&mut attempt);
    let mut second = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    let waits = |step| matches!(step, PreBindStep::Wait { .. });
    assert!(
        waits(world.step(&mut second, PreBindInput::Start)),
        "the release may come at any time"
    );

    world.write_commands();
    assert!(
        waits(world.step(&mut second, PreBindInput::Changed)),
        "the watch shows the old version"
    );
    world.watch("resourceclaims", "c");
    let write = written(world.step(&mut second, PreBindInput::Changed));
    let user = json!({"resource": "pods", "name": "p", "uid": "uid-p"});
    assert_eq!(write.body()["status"]["reservedFor"], json!([user]));
}

#[test]
fn release_that_is_never_carried_out_is_waited_for_minutes() {
    let (mut world, mut attempt) = ready();
    world.write_all(&mut attempt);
    world.unreserve(&mut attempt);
    let mut second = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    world.step(&mut second, PreBindInput::Start);
    let text = outcome(world.step(&mut second, PreBindInput::Deadline));
    assert_eq!(text, "the reservation of claim default/c is being removed");
    world.parts.now = world.parts.now + Duration::from_mins(5);
    let mut third = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    assert_eq!(outcome(world.step(&mut third, PreBindInput::Start)), "");
}

#[test]
fn unreserve_without_writes_frees_the_devices_and_wakes_pods() {
    let (world, mut attempt) = ready();
    world.unreserve(&mut attempt);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 0));
    let commands = world.parts.commands.take();
    let [Command::ObjectChanged(update)] = &commands[..] else { panic!("{commands:?}") };
    let [old, new] = [&update.old, &update.new].map(|object| object.as_ref().unwrap());
    assert_eq!(devices_of(&old.json()), ["a/0"]);
    assert!(new.get::<ResourceClaim>().unwrap().allocation.is_none());
}

#[test]
fn undone_reserve_frees_the_devices_and_reports_nothing() {
    let (world, mut attempt) = ready();
    for _ in 0..2 {
        world.undo_reserve(&mut attempt);
        assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 0));
        assert!(world.parts.commands.is_empty());
        world.check_overlay();
    }
}

#[test]
fn undone_reserve_leaves_the_reservation_of_an_earlier_attempt() {
    let (mut world, mut attempt) = ready();
    world.write_all(&mut attempt);
    world.parts.commands.take();
    let mut tried = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    world.undo_reserve(&mut tried);
    assert!(world.parts.commands.is_empty());
    let mut again = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    assert_eq!(outcome(world.step(&mut again, PreBindInput::Start)), "");
}

#[test]
fn allocation_with_an_unknown_outcome_keeps_its_devices() {
    let (mut world, mut attempt, status) = allocating();
    // The pod is preempted while the request is under way.
    world.unreserve(&mut attempt);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 1));
    world.put("resourceclaims", claim("d", 2));
    let other = pod_using("q", &["d"]);
    assert_eq!(world.messages(&other), ["cannot allocate all claims", ""]);
    let is_timer = |command: &Command| matches!(command, Command::SetTimer { .. });
    let commands = world.parts.commands.take();
    assert!(commands.iter().any(is_timer), "{commands:?}");

    // Either the watch shows the allocation ...
    let shown = |world: &mut World| {
        world.write(&status);
        world.watch_claims();
    };
    shown(&mut world);
    assert_eq!(world.messages(&other), ["cannot allocate all claims", ""]);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 0));
}

#[test]
fn doubt_ends_when_no_request_can_be_under_way() {
    let (mut world, mut attempt, _) = allocating();
    world.unreserve(&mut attempt);
    world.put("resourceclaims", claim("d", 2));
    world.parts.commands.take();
    world.parts.now = world.parts.now + Duration::from_secs(119);
    world.plugin.timer.as_ref().unwrap().fire(0, &world.handle());
    assert_eq!(world.messages(&pod_using("q", &["d"])), ["cannot allocate all claims", ""]);
    world.parts.commands.take();
    world.parts.now = world.parts.now + Duration::from_secs(1);
    world.plugin.timer.as_ref().unwrap().fire(0, &world.handle());
    let commands = world.parts.commands.take();
    assert!(matches!(commands[..], [Command::ObjectChanged(_)]), "{commands:?}");
    assert_eq!(world.messages(&pod_using("q", &["d"])), ["", ""]);
}

#[test]
fn several_claims_are_written_in_the_order_of_the_pod() {
    let mut world =
        World::new([("resourceclaims", claim("c", 1)), ("resourceclaims", claim("d", 1))]);
    let mut attempt = world.reserve(&pod_using("p", &["d", "c"]), "a").unwrap();
    assert_eq!(outcome(world.write_all(&mut attempt)), "");
    assert_eq!(devices_of(&world.claim("d")), ["a/0"]);
    assert_eq!(devices_of(&world.claim("c")), ["a/1"]);
}

/// Its devices belong to the pod that allocated the claim last.
#[test]
fn failed_pod_does_not_release_a_claim_that_another_pod_allocates() {
    let (mut world, mut attempt) = ready();
    world.write_all(&mut attempt);
    let mut second = world.reserve(&pod_using("q", &["c"]), "a").unwrap();
    world.show("resourceclaims", "c", &json!({"status": null}));
    let _third = world.reserve(&pod_using("r", &["c"]), "b").unwrap();
    world.unreserve(&mut second);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 1, 0));
    world.put("resourceclaims", claim("d", 2));
    assert_eq!(world.messages(&pod_using("s", &["d"])), ["", "cannot allocate all claims"]);
}

#[test]
fn assumed_versions_are_dropped_once_the_watch_shows_them() {
    let mut world =
        World::new([("resourceclaims", claim("c", 1)), ("resourceclaims", claim("d", 1))]);
    for (pod, claim) in [("p", "c"), ("q", "d")] {
        let mut attempt = world.reserve(&pod_using(pod, &[claim]), "a").unwrap();
        let mut step = world.step(&mut attempt, PreBindInput::Start);
        while let PreBindStep::Write(write) = step {
            let answer = world.write(&write);
            step = world.step(&mut attempt, PreBindInput::Answer(&answer));
        }
        assert_eq!(outcome(step), "");
        assert_eq!(world.shared.tracker.lock().counts(), (1, 0, 0), "{claim}");
        world.watch_claims();
    }
}

/// The API server refuses the release of another version.
#[test]
fn release_does_not_concern_a_newer_version() {
    let (mut world, mut attempt) = ready();
    world.write_all(&mut attempt);
    world.unreserve(&mut attempt);
    world.show("resourceclaims", "c", &json!({"metadata": {"labels": {"k": "v"}}}));
    let mut second = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    assert_eq!(outcome(world.step(&mut second, PreBindInput::Start)), "");
}

#[test]
fn write_that_met_a_newer_version_leaves_no_doubt() {
    let (mut world, mut attempt, status) = allocating();
    written(lose(&mut world, &mut attempt));
    world.show("resourceclaims", "c", &json!({"metadata": {"labels": {"k": "v"}}}));
    let answer = world.write(&status);
    let again = written(world.step(&mut attempt, PreBindInput::Answer(&answer)));
    assert_ne!(again, status);
    let refused = Answer::Forbidden("no".to_owned());
    outcome(world.step(&mut attempt, PreBindInput::Answer(&refused)));
    world.unreserve(&mut attempt);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 0));
}

#[test]
fn refused_allocation_frees_its_devices_at_once() {
    let (world, mut attempt, _) = allocating();
    let refused = Answer::Forbidden("no".to_owned());
    let text = outcome(world.step(&mut attempt, PreBindInput::Answer(&refused)));
    assert_eq!(text, "add allocation and reservation to claim default/c: no");
    world.unreserve(&mut attempt);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 0));
    assert_eq!(world.messages(&pod_using("p", &["c"])), ["", ""]);
}

/// How the outcome of a lost write becomes known during the pause before its repeat.
#[test]
fn pause_ends_when_the_watch_shows_the_outcome() {
    let allocated = json!({"status": {"allocation": {"devices": {"results": [
        {"request": "r", "driver": "d", "pool": "b", "device": "1"},
    ]}}}});
    let label = json!({"metadata": {"labels": {"k": "v"}}});
    // Whether the lost write was carried out, a later change by others, and how the attempt goes
    // on.
    let rows = [
        (true, None, Ok("the claim is written")),
        (false, Some(label.clone()), Ok("written again")),
        (true, Some(label), Ok("the claim is written")),
        (false, Some(allocated), Err("claim default/c got allocated elsewhere in the meantime")),
    ];
    for (is_carried_out, change, expected) in rows {
        let (mut world, mut attempt, status) = allocating();
        if is_carried_out {
            world.write(&status);
        }
        let lost = Answer::Unknown("lost".to_owned());
        let step = world.step(&mut attempt, PreBindInput::Answer(&lost));
        assert!(matches!(step, PreBindStep::Wait { .. }), "{step:?}");
        let step = world.step(&mut attempt, PreBindInput::Changed);
        assert!(matches!(step, PreBindStep::Wait { .. }), "another version: {step:?}");
        change.iter().for_each(|patch| world.change("resourceclaims", "c", patch));
        world.watch_claims();
        let step = world.step(&mut attempt, PreBindInput::Changed);
        match (step, expected) {
            (PreBindStep::Write(again), Ok("written again")) => {
                assert_ne!(again, status, "it names the newer version");
                assert!(matches!(world.write(&again), Answer::Ok(_)));
            }
            (step, Ok(_)) => assert_eq!(outcome(step), ""),
            (step, Err(text)) => {
                assert_eq!(outcome(step), text);
                world.unreserve(&mut attempt);
                assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 0), "no doubt is left");
                continue;
            }
        }
        assert_eq!(devices_of(&world.claim("c")), ["a/0"]);
    }
}

#[test]
fn finalizer_that_the_watch_shows_is_not_written_again() {
    let (mut world, mut attempt) = ready();
    let finalizer = written(world.step(&mut attempt, PreBindInput::Start));
    world.write(&finalizer);
    let lost = Answer::Unknown("lost".to_owned());
    world.step(&mut attempt, PreBindInput::Answer(&lost));
    world.watch_claims();
    let write = written(world.step(&mut attempt, PreBindInput::Changed));
    assert_eq!(write.subresource.as_deref(), Some("status"));
}

/// A server that restarts loses the first request and takes none of the next ones for a while.
#[test]
fn request_that_was_not_sent_is_repeated_while_an_earlier_one_is_in_doubt() {
    let not_sent = Answer::Error("connection refused".to_owned());
    let prefix = "add allocation and reservation to claim default/c";
    let (world, mut attempt, _) = allocating();
    let text = outcome(world.step(&mut attempt, PreBindInput::Answer(&not_sent)));
    assert_eq!(text, format!("{prefix}: connection refused"), "no doubt, so it is decided again");

    let (mut world, mut attempt, status) = allocating();
    written(lose(&mut world, &mut attempt));
    for answer in [&not_sent, &Answer::Throttled("later".to_owned())] {
        let step = world.step(&mut attempt, PreBindInput::Answer(answer));
        let again = written(after_wait(&mut world, &mut attempt, step));
        assert_eq!(again, status);
    }
    let answer = world.write(&status);
    assert_eq!(outcome(world.step(&mut attempt, PreBindInput::Answer(&answer))), "");

    let (mut world, mut attempt, _) = allocating();
    written(lose(&mut world, &mut attempt));
    let refused = Answer::Forbidden("no".to_owned());
    let text = outcome(world.step(&mut attempt, PreBindInput::Answer(&refused)));
    assert_eq!(text, format!("{prefix}: no"), "no repeat helps");
    world.unreserve(&mut attempt);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 1), "the first one is in doubt");
}

#[test]
fn claim_that_changes_during_each_pause_fails_the_attempt_in_the_end() {
    let (mut world, mut attempt, _) = allocating();
    let lost = Answer::Unknown("lost".to_owned());
    let mut change = |attempt: &mut Reservation, label: &str| {
        world.step(attempt, PreBindInput::Answer(&lost));
        world.show("resourceclaims", "c", &json!({"metadata": {"labels": {"k": label}}}));
        world.step(attempt, PreBindInput::Changed)
    };
    // The claim has got its finalizer with the first of five tries.
    ["1", "2", "3"].iter().for_each(|label| drop(written(change(&mut attempt, label))));
    let text = outcome(change(&mut attempt, "4"));
    assert_eq!(text, "add allocation and reservation to claim default/c: lost");
    world.unreserve(&mut attempt);
    assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 0), "no request names this version");
}

/// What the API server carries out of a lost allocation and its fence, and what the claim has in
/// the end.
#[test]
fn fence_ends_the_doubt_whichever_write_comes_first() {
    let rows = [("fence", false), ("write, fence", true), ("fence, write", false), ("write", true)];
    for (order, is_allocated) in rows {
        let (mut world, mut attempt, status) = allocating();
        world.put("resourceclaims", claim("d", 2));
        world.unreserve(&mut attempt);
        assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 1), "{order}");
        let fence = fences(&world);
        let [fence] = &fence[..] else { panic!("one fence: {fence:?}") };
        for name in order.split(", ") {
            let write = if name == "fence" { fence } else { &status };
            world.write(write);
        }
        let other = pod_using("q", &["d"]);
        assert_eq!(world.messages(&other), ["cannot allocate all claims", ""], "{order}");
        world.watch_claims();
        let stored = world.claim("c");
        assert_eq!(devices_of(&stored).len(), usize::from(is_allocated), "{order}");
        let finalizers = stored["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
        assert_eq!(finalizers, usize::from(is_allocated), "{order}");
        let of_other = if is_allocated { "cannot allocate all claims" } else { "" };
        assert_eq!(world.messages(&other), [of_other, ""], "{order}");
        assert_eq!(world.shared.tracker.lock().counts(), (0, 0, 0), "{order}");
        // The pod is bound with its devices.
        let mut again = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
        assert_eq!(outcome(world.write_all(&mut again)), "", "{order}");
        assert_eq!(devices_of(&world.claim("c")), ["a/0"], "{order}");
    }
}

/// Takes the commands, and returns the writes among them.
fn fences(world: &World) -> Vec<framework::Write> {
    let commands = world.parts.commands.take().into_iter();
    let writes = commands.filter_map(|command| match command {
        Command::Write { write, .. } => Some(write),
        _ => None,
    });
    writes.collect()
}

#[test]
fn fence_that_changes_nothing_is_repeated_as_often_as_a_pod() {
    let (mut world, mut attempt, _) = allocating();
    let start = world.parts.now;
    world.unreserve(&mut attempt);
    let mut sent = Vec::new();
    loop {
        let mut next = None;
        for command in world.parts.commands.take() {
            match command {
                Command::SetTimer { at, .. } => next = Some(at),
                Command::Write { write, .. } => {
                    let metadata = &write.body()["metadata"];
                    let version = &world.claim("c")["metadata"]["resourceVersion"];
                    assert_eq!(
                        (&metadata["uid"], &metadata["resourceVersion"]),
                        (&json!("uid-c"), version)
                    );
                    sent.push(world.parts.now.since(start).as_secs());
                }
                _ => {}
            }
        }
        let Some(at) = next else { break };
        world.parts.now = at;
        world.plugin.timer.as_ref().unwrap().fire(0, &world.handle());
    }
    assert_eq!(sent, [0, 1, 3, 7, 15, 25, 35, 45, 55, 65, 75, 85, 95, 105, 115]);
    assert_eq!(world.parts.now.since(start), Duration::from_mins(2), "the doubt has ended");
}

#[test]
fn claim_in_doubt_rejects_its_pods_and_is_not_deallocated() {
    let (world, mut attempt, _) = allocating();
    world.unreserve(&mut attempt);
    world.parts.commands.take();
    let text = "resource claim default/c is in the process of being allocated";
    for pod in ["p", "q"] {
        assert_eq!(world.messages(&pod_using(pod, &["c"])), [text, text]);
        world.post_filter(&pod_using(pod, &["c"]));
        assert_eq!(fences(&world), []);
    }
}

/// Each doubt has its own fence, and a claim that the pod has got is released.
#[test]
fn only_the_claim_in_doubt_is_fenced() {
    let mut world =
        World::new([("resourceclaims", claim("c", 1)), ("resourceclaims", claim("d", 1))]);
    let mut attempt = world.reserve(&pod_using("p", &["c", "d"]), "a").unwrap();
    let mut step = world.step(&mut attempt, PreBindInput::Start);
    loop {
        let write = written(step);
        if *write.name == *"d" && write.subresource.is_some() {
            break;
        }
        let answer = world.write(&write);
        step = world.step(&mut attempt, PreBindInput::Answer(&answer));
    }
    world.unreserve(&mut attempt);
    let writes = fences(&world);
    let found: Vec<_> = writes.iter().map(|own| (&*own.name, own.subresource.as_deref())).collect();
    assert_eq!(found, [("c", Some("status")), ("d", None)]);
    assert_eq!(writes[0].body()["status"]["reservedFor"][0]["$patch"], "delete");
}
