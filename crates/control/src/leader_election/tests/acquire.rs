//! A replica waits for the Lease and takes it over.

use super::*;

/// A replica that has read the Lease of `b` and waits.
fn waiting() -> Harness {
    let mut harness = harness();
    harness.expect(Method::Get);
    harness.reply(ok(&lease("b", 1)));
    assert_eq!(
        harness.elector.take_notices(),
        [Notice::Attempting, Notice::ObservedLeader("b".to_owned()), Notice::Held("b".to_owned())]
    );
    harness
}

fn event(event_type: &str, lease: &Value) -> Vec<u8> {
    json!({ "type": event_type, "object": lease }).to_string().into()
}

#[test]
fn missing_lease_is_created() {
    let mut harness = harness();
    let read = harness.expect(Method::Get);
    assert_eq!(read.path, format!("{COLLECTION}/loadmaster?timeout=5000ms"));
    assert_eq!(read.timeout, Duration::from_secs(5));
    harness.reply(status(404));
    let created = harness.expect(Method::Post);
    assert_eq!(created.path, format!("{COLLECTION}?timeout=5000ms"));
    assert_eq!(
        body(&created),
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": "loadmaster", "namespace": "kube-system" },
            "spec": {
                "holderIdentity": "a",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-01-01T00:00:00.000000Z",
                "renewTime": "2026-01-01T00:00:00.000000Z",
                "leaseTransitions": 0,
            },
        })
    );
    assert!(!harness.is_leader());
    harness.reply(ok(&stored(&created, 1)));
    assert!(harness.is_leader());
    assert_eq!(harness.elector.take_notices(), [Notice::Attempting, Notice::StartedLeading]);
    assert_eq!(harness.elector.lease_uid(), Some("u1"));
}

#[test]
fn lease_duration_is_rounded_up_to_seconds() {
    let durations = LeaderElectionConfig {
        lease_duration: Duration::from_millis(2100),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(500),
        ..config("a")
    };
    let mut harness = harness();
    harness.elector = LeaderElector::new(durations, 7).unwrap();
    harness.wait(0.0);
    assert_eq!(harness.expect(Method::Get).timeout, Duration::from_secs(1));
    harness.reply(status(404));
    assert_eq!(body(&harness.expect(Method::Post))["spec"]["leaseDurationSeconds"], 3);
}

#[test]
fn creation_by_another_replica_comes_first() {
    let mut harness = harness();
    harness.expect(Method::Get);
    harness.reply(status(404));
    harness.expect(Method::Post);
    harness.reply(failure(409, "leases.coordination.k8s.io \"loadmaster\" already exists"));
    assert!(!harness.is_leader());
    assert_eq!(harness.elector.problem(), None);
    harness.wait_for_deadline();
    harness.expect(Method::Get);
}

#[test]
fn waiting_replica_tries_again_after_a_random_delay() {
    let mut harness = waiting();
    let delays: Vec<f64> = (2..30)
        .map(|version| {
            let delay = harness.wait_for_deadline();
            harness.expect(Method::Get);
            harness.reply(ok(&lease("b", version)));
            delay
        })
        .collect();
    assert!(delays.iter().all(|delay| (2.0..4.4).contains(delay)), "{delays:?}");
    let (least, most) =
        (delays.iter().cloned().fold(9.0, f64::min), delays.iter().cloned().fold(0.0, f64::max));
    assert!(least < 2.5 && most > 3.9, "{delays:?}");
}

#[test]
fn age_counts_from_the_last_change_that_was_seen() {
    // The times in the Lease are an hour old, and do not matter.
    let mut harness = waiting();
    harness.wait(14.0);
    harness.expect(Method::Get);
    harness.reply(ok(&lease("b", 2)));
    for _ in 0..2 {
        harness.wait(7.0);
        harness.expect(Method::Get);
        harness.reply(ok(&lease("b", 2)));
        assert_eq!(harness.last_notice(), Notice::Held("b".to_owned()));
    }
    assert_eq!(harness.wait_for_deadline(), 1.0, "the attempt at the end of the Lease");
    harness.expect(Method::Get);
    harness.reply(ok(&lease("b", 2)));
    harness.expect(Method::Put);
}

#[test]
fn change_of_metadata_does_not_renew_a_lease() {
    let mut harness = waiting();
    harness.wait(14.0);
    harness.expect(Method::Get);
    let mut annotated = lease("b", 1);
    annotated["metadata"]["resourceVersion"] = "9".into();
    harness.reply(ok(&annotated));
    assert_eq!(harness.wait_for_deadline(), 1.0);
    harness.expect(Method::Get);
    harness.reply(ok(&annotated));
    assert_eq!(body(&harness.expect(Method::Put))["metadata"]["resourceVersion"], "9");
}

#[test]
fn expired_lease_is_taken_over() {
    let mut harness = waiting();
    harness.wait(15.0);
    harness.expect(Method::Get);
    let mut found = lease("b", 1);
    found["spec"]["preferredHolder"] = "c".into();
    found["spec"]["strategy"] = "OldestEmulationVersion".into();
    found["spec"]["fieldOfTheFuture"] = 7.into();
    harness.reply(ok(&found));
    let update = harness.expect(Method::Put);
    assert_eq!(update.path, format!("{COLLECTION}/loadmaster?timeout=5000ms"));
    let mut expected = lease("b", 1);
    expected["spec"] = json!({
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:15.000000Z",
        "renewTime": "2026-01-01T00:00:15.000000Z",
        "leaseTransitions": 4,
        "fieldOfTheFuture": 7,
    });
    assert_eq!(body(&update), expected);
    harness.reply(ok(&stored(&update, 2)));
    assert!(harness.is_leader());
    assert_eq!(harness.elector.slowpath_total(), 0);
}

#[test]
fn released_lease_is_taken_over_at_once() {
    for holder in [Value::Null, "".into()] {
        let mut harness = harness();
        harness.expect(Method::Get);
        let mut released = lease("", 1);
        released["spec"]["holderIdentity"] = holder;
        harness.reply(ok(&released));
        assert_eq!(body(&harness.expect(Method::Put))["spec"]["leaseTransitions"], 4);
    }
}

#[test]
fn lost_race_for_an_expired_lease_is_not_a_problem() {
    let mut harness = waiting();
    harness.wait(15.0);
    harness.expect(Method::Get);
    harness.reply(ok(&lease("b", 1)));
    harness.expect(Method::Put);
    harness.reply(failure(409, "the object has been modified"));
    assert!(!harness.is_leader());
    assert_eq!(harness.elector.problem(), None);
    harness.wait_for_deadline();
    harness.expect(Method::Get);
    harness.reply(ok(&lease("c", 2)));
    assert!(harness.elector.take_notices().contains(&Notice::ObservedLeader("c".to_owned())));
}

#[test]
fn lost_reply_to_the_takeover_is_found_by_reading() {
    let mut harness = waiting();
    harness.wait(15.0);
    harness.expect(Method::Get);
    harness.reply(ok(&lease("b", 1)));
    let takeover = stored(&harness.expect(Method::Put), 2);
    harness.reply(lost());
    assert!(!harness.is_leader(), "the write may not have happened");
    harness.wait_for_deadline();
    harness.expect(Method::Get);
    harness.reply(ok(&takeover));
    let renewal = harness.expect(Method::Put);
    assert_eq!(body(&renewal)["spec"]["leaseTransitions"], 4, "it is the same term");
    harness.reply(ok(&stored(&renewal, 3)));
    assert!(harness.is_leader());
}

/// Creates the Lease in a process that is paused for a minute, longer than the Lease lasts.
fn create_while_paused(harness: &mut Harness) {
    harness.expect(Method::Get);
    harness.reply(status(404));
    let created = harness.expect(Method::Post);
    harness.wait(60.0);
    harness.reply(ok(&stored(&created, 1)));
}

#[test]
fn reply_that_comes_too_late_gives_no_authority() {
    let mut harness = harness();
    create_while_paused(&mut harness);
    assert!(!harness.is_leader());
    assert_eq!(harness.elector.authority_ends_at(), None);
    harness.wait(0.0);
    harness.expect(Method::Put);
    harness.reply(failure(409, "the object has been modified"));
    harness.expect(Method::Get);
    harness.reply(ok(&lease("b", 5)));
    assert_eq!(harness.last_notice(), Notice::Held("b".to_owned()));
}

#[test]
fn own_lease_that_has_expired_is_read_before_it_is_renewed() {
    let mut harness = harness();
    create_while_paused(&mut harness);
    // It is paused again.
    harness.wait(60.0);
    harness.expect(Method::Get);
}

#[test]
fn missing_permission_is_explained() {
    let message = "leases.coordination.k8s.io \"loadmaster\" is forbidden: User \
                   \"system:serviceaccount:kube-system:prom\" cannot get resource \"leases\" in API group \
                   \"coordination.k8s.io\" in the namespace \"kube-system\"";
    let mut harness = harness();
    harness.expect(Method::Get);
    harness.reply(failure(403, message));
    let problem = harness.elector.problem().unwrap().to_owned();
    assert!(problem.starts_with("cannot get resource leases in API group coordination.k8s.io"));
    assert!(problem.contains("kube-system/loadmaster") && problem.contains(message));
    assert!(
        problem.contains("grant the verbs get, watch and update on leases named \"loadmaster\"")
    );
    assert_eq!(harness.last_notice(), Notice::CannotRead(problem));

    // Reading alone is not enough.
    harness.wait_for_deadline();
    harness.expect(Method::Get);
    harness.reply(ok(&lease("", 1)));
    assert!(harness.elector.problem().is_some());
    harness.expect(Method::Put);
    harness.reply(failure(403, "no"));
    assert!(harness.elector.problem().unwrap().starts_with("cannot update resource leases"));

    harness.wait_for_deadline();
    harness.expect(Method::Get);
    harness.reply(ok(&lease("b", 2)));
    assert_eq!(harness.elector.problem(), None, "there is a leader");
}

#[test]
fn answer_that_is_not_a_lease_is_a_problem() {
    let no_leases = [
        Reply::Answered(Response { status: 200, retry_after: None, body: b"<html>".to_vec() }),
        ok(&json!({ "kind": "Pod" })),
        ok(&json!({ "kind": "Lease", "spec": { "holderIdentity": 7 } })),
    ];
    for reply in no_leases {
        let mut harness = harness();
        harness.expect(Method::Get);
        harness.reply(reply);
        let problem = harness.elector.problem().unwrap();
        assert!(
            problem.starts_with("cannot get lease kube-system/loadmaster: no Lease"),
            "{problem}"
        );
        harness.wait_for_deadline();
        harness.expect(Method::Get);
    }
}

#[test]
fn lease_with_an_empty_spec_is_free() {
    let mut harness = harness();
    harness.expect(Method::Get);
    harness.reply(ok(&json!({ "kind": "Lease", "metadata": { "resourceVersion": "1" } })));
    let update = body(&harness.expect(Method::Put));
    assert_eq!(
        (&update["spec"]["leaseTransitions"], &update["metadata"]["resourceVersion"]),
        (&json!(1), &json!("1"))
    );
}

#[test]
fn holder_stored_by_the_server_counts() {
    // An admission webhook may change the Lease.
    let mut harness = harness();
    harness.expect(Method::Get);
    harness.reply(status(404));
    harness.expect(Method::Post);
    harness.reply(ok(&lease("webhook", 1)));
    assert!(!harness.is_leader());
    assert!(harness.elector.problem().unwrap().contains("another holder: \"webhook\""));
}

#[test]
fn watch_reports_a_free_lease_at_once() {
    let free: [fn(&mut Harness); 2] = [
        |harness| {
            let event = event("MODIFIED", &lease("", 2));
            harness.elector.handle_watch_event(&event, harness.now);
        },
        |harness| {
            let event = event("DELETED", &lease("b", 2));
            harness.elector.handle_watch_event(&event, harness.now);
        },
    ];
    for make_free in free {
        let mut harness = waiting();
        make_free(&mut harness);
        assert_eq!(harness.wait_for_deadline(), 0.0);
        harness.expect(Method::Get);
    }
}

#[test]
fn watch_reports_renewals() {
    let mut harness = waiting();
    harness.wait(1.0);
    harness.elector.handle_watch_event(&event("MODIFIED", &lease("b", 2)), harness.now);
    harness.wait(14.5);
    harness.expect(Method::Get);
    harness.reply(ok(&lease("b", 2)));
    assert_eq!(harness.last_notice(), Notice::Held("b".to_owned()));
    assert_eq!(harness.wait_for_deadline(), 0.5);
}

#[test]
fn text_that_is_not_an_event_is_ignored() {
    let mut harness = waiting();
    let before = harness.elector.next_deadline();
    let expired = json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410 } });
    for text in ["", "{", "7", "{}", r#"{"type":"DELETED"}"#, &expired.to_string()] {
        harness.elector.handle_watch_event(text.as_bytes(), harness.now);
    }
    assert_eq!(harness.elector.next_deadline(), before);
    assert_eq!(harness.elector.take_notices(), []);
}

#[test]
fn watch_selects_the_lease_by_name() {
    let config = LeaderElectionConfig { name: "a&b".to_owned(), ..config("a") };
    let path = LeaderElector::new(config, 0).unwrap().watch_path();
    assert_eq!(path, format!("{COLLECTION}?fieldSelector=metadata.name%3Da%26b"));
}
