//! The leader renews the Lease, or stops to act.

use super::*;

#[test]
fn leader_renews_without_reading() {
    let (mut harness, created) = leader();
    let authority = harness.elector.authority_ends_at().unwrap();
    assert_eq!(harness.wait_for_deadline(), 2.0);
    let renewal = harness.expect(Method::Put);
    let mut expected = created;
    expected["spec"]["renewTime"] = "2026-01-01T00:00:02.000000Z".into();
    assert_eq!(body(&renewal), expected, "the resource version is that of the last write");
    harness.reply(ok(&stored(&renewal, 2)));
    let renewed = harness.elector.authority_ends_at().unwrap();
    assert_eq!(renewed.since(authority), Duration::from_secs(2));
    assert_eq!(harness.elector.slowpath_total(), 0);
    assert_eq!(harness.elector.take_notices(), []);
}

#[test]
fn corrected_wall_clock_changes_the_times_in_the_lease_and_not_the_authority() {
    for corrected in ["2026-01-01T08:00:00Z", "2025-01-01T00:00:00Z"] {
        let (mut harness, _) = leader();
        let authority = harness.elector.authority_ends_at();
        let wall = Time::parse_rfc3339(corrected).unwrap();
        harness.elector.set_wall_offset(WallOffset::between(harness.now, wall));
        assert_eq!(harness.elector.authority_ends_at(), authority);
        assert_eq!(harness.wait_for_deadline(), 2.0);
        let renewed = wall + Duration::from_secs(2);
        let renewal = body(&harness.expect(Method::Put));
        assert_eq!(renewal["spec"]["renewTime"], format!("{renewed:.6}"));
        assert_eq!(harness.elector.authority_ends_at(), authority, "no answer has come");
        harness.wait(7.9);
        assert!(harness.elector.is_leader(harness.now));
        harness.wait(0.1);
        assert!(!harness.elector.is_leader(harness.now));
    }
}

#[test]
fn authority_counts_from_when_the_renewal_was_sent() {
    let (mut harness, _) = leader();
    harness.wait_for_deadline();
    let renewal = harness.expect(Method::Put);
    let sent_at = harness.now;
    harness.wait(4.0);
    harness.reply(ok(&stored(&renewal, 2)));
    assert_eq!(harness.elector.authority_ends_at(), Some(sent_at + Duration::from_secs(10)));
    assert_eq!(harness.wait_for_deadline(), 0.0, "the next renewal is overdue");
}

#[test]
fn loop_that_is_blocked_for_four_seconds_at_a_time_keeps_the_lease() {
    let (mut harness, _) = leader();
    harness.wait_for_deadline();
    for version in 2..12 {
        let renewal = harness.expect(Method::Put);
        harness.now = harness.now + Duration::from_secs(4);
        harness.reply(ok(&stored(&renewal, version)));
        harness.elector.tick(harness.now);
        assert!(harness.is_leader());
    }
}

#[test]
fn lost_reply_to_a_renewal_is_found_by_reading() {
    let (mut harness, _) = leader();
    harness.wait_for_deadline();
    let carried_out = stored(&harness.expect(Method::Put), 2);
    harness.reply(lost());
    assert!(matches!(harness.last_notice(), Notice::FellBack(_)));
    harness.expect(Method::Get);
    harness.reply(ok(&carried_out));
    let renewal = harness.expect(Method::Put);
    assert_eq!(body(&renewal)["metadata"]["resourceVersion"], "2");
    assert_eq!(body(&renewal)["spec"]["leaseTransitions"], 0);
    harness.reply(ok(&stored(&renewal, 3)));
    assert!(harness.is_leader());
    assert_eq!(harness.elector.slowpath_total(), 1);
}

/// Two writes with equal records look like one renewal to other replicas, and the later one would
/// not make them wait.
#[test]
fn each_write_has_its_own_renew_time() {
    let (mut harness, _) = leader();
    harness.wait_for_deadline();
    let first = harness.expect(Method::Put);
    harness.wait(5.0);
    harness.reply(lost());
    harness.expect(Method::Get);
    harness.reply(ok(&stored(&first, 2)));
    let second = harness.expect(Method::Put);
    assert_eq!(body(&first)["spec"]["renewTime"], "2026-01-01T00:00:02.000000Z");
    assert_eq!(body(&second)["spec"]["renewTime"], "2026-01-01T00:00:07.000000Z");
}

#[test]
fn changed_labels_cost_the_leader_one_read() {
    let (mut harness, mut labelled) = leader();
    labelled["metadata"]["labels"] = json!({ "team": "y" });
    labelled["metadata"]["resourceVersion"] = "2".into();
    harness.wait_for_deadline();
    harness.expect(Method::Put);
    harness.reply(failure(409, "the object has been modified"));
    harness.expect(Method::Get);
    harness.reply(ok(&labelled));
    let renewal = harness.expect(Method::Put);
    assert_eq!(body(&renewal)["metadata"]["labels"], json!({ "team": "y" }));
    harness.reply(ok(&stored(&renewal, 3)));
    assert!(harness.is_leader());
}

#[test]
fn deleted_lease_is_created_again() {
    let (mut harness, _) = leader();
    harness.wait_for_deadline();
    harness.expect(Method::Put);
    harness.reply(failure(409, "StorageError: invalid object, Code: 4"));
    harness.expect(Method::Get);
    harness.reply(status(404));
    let created = harness.expect(Method::Post);
    assert_eq!(body(&created)["spec"]["leaseTransitions"], 0);
    harness.reply(ok(&stored(&created, 9)));
    assert!(harness.is_leader());
    harness.wait_for_deadline();
    assert_eq!(body(&harness.expect(Method::Put))["metadata"]["resourceVersion"], "9");
}

#[test]
fn leader_that_sees_another_holder_stops_at_once() {
    for (holder, reason) in
        [("b", "the lease is held by b"), ("", "the lease has no holder any more")]
    {
        let (mut harness, _) = leader();
        harness.wait_for_deadline();
        harness.expect(Method::Put);
        harness.reply(failure(409, "the object has been modified"));
        harness.expect(Method::Get);
        harness.reply(ok(&lease(holder, 2)));
        assert!(!harness.is_leader());
        assert_eq!(harness.elector.outcome(), Some(Outcome::Lost));
        assert_eq!(harness.last_notice(), Notice::StoppedLeading(reason.to_owned()));
        assert_eq!(harness.elector.next_deadline(), None);
    }
}

#[test]
fn leader_that_cannot_renew_stops_before_others_take_over() {
    let (mut harness, _) = leader();
    let mut reads = 0;
    while harness.elector.outcome().is_none() {
        harness.wait_for_deadline();
        while let Some(request) = harness.elector.take_requests().pop() {
            reads += u32::from(request.method == Method::Get);
            harness.elector.handle_reply(
                request.id,
                failure(503, "no leader in etcd"),
                harness.now,
            );
        }
    }
    assert_eq!(reads, 4, "an attempt every two seconds");
    assert_eq!(
        harness.now.since(Time::parse_rfc3339("2026-01-01T00:00:00Z").unwrap()).as_secs(),
        10
    );
    assert_eq!(harness.elector.outcome(), Some(Outcome::Lost));
    let Notice::StoppedLeading(reason) = harness.last_notice() else { panic!("it led") };
    assert!(
        reason.starts_with("the lease was not renewed within 10s: cannot get lease"),
        "{reason}"
    );
}

#[test]
fn authority_ends_while_a_renewal_hangs() {
    let (mut harness, _) = leader();
    harness.wait_for_deadline();
    let renewal = harness.expect(Method::Put);
    assert_eq!(harness.wait_for_deadline(), 8.0);
    assert!(!harness.is_leader());
    assert_eq!(harness.elector.outcome(), Some(Outcome::Lost));
    harness.reply(ok(&stored(&renewal, 2)));
    assert!(!harness.is_leader(), "a late reply changes nothing");
    assert_eq!(harness.elector.take_requests(), []);
}

#[test]
fn paused_leader_has_no_authority_when_it_wakes_up() {
    let (mut harness, _) = leader();
    harness.wait_for_deadline();
    let renewal = harness.expect(Method::Put);
    harness.now = harness.now + Duration::from_secs(60);
    assert!(!harness.is_leader(), "even before the elector runs");
    harness.reply(ok(&stored(&renewal, 2)));
    assert!(!harness.is_leader());
    assert_eq!(harness.elector.outcome(), Some(Outcome::Lost));
}

#[test]
fn watch_events_do_not_concern_the_leader() {
    let (mut harness, _) = leader();
    let event = json!({ "type": "MODIFIED", "object": lease("b", 1) }).to_string();
    harness.elector.handle_watch_event(event.as_bytes(), harness.now);
    harness.wait_for_deadline();
    assert_eq!(body(&harness.expect(Method::Put))["spec"]["holderIdentity"], "a");
}

#[test]
fn reply_to_another_request_is_ignored() {
    let (mut harness, _) = leader();
    harness.wait_for_deadline();
    let first = harness.expect(Method::Put);
    harness.reply(ok(&stored(&first, 2)));
    harness.wait_for_deadline();
    harness.expect(Method::Put);
    harness.elector.handle_reply(first.id, status(403), harness.now);
    assert_eq!(harness.elector.take_requests(), []);
    assert_eq!(harness.elector.next_deadline(), harness.elector.authority_ends_at());
}
