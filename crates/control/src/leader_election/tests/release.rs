//! A replica that stops gives up the Lease.

use super::*;

#[test]
fn leader_releases_the_lease() {
    let (mut harness, created) = leader();
    harness.wait(1.0);
    harness.elector.release(harness.now);
    assert!(!harness.is_leader());
    harness.expect(Method::Get);
    harness.reply(ok(&created));
    let release = harness.expect(Method::Put);
    let mut expected = created;
    expected["spec"] = json!({
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": "2026-01-01T00:00:01.000000Z",
        "renewTime": "2026-01-01T00:00:01.000000Z",
        "leaseTransitions": 0,
    });
    assert_eq!(body(&release), expected);
    assert_eq!(harness.elector.outcome(), None);
    harness.reply(ok(&stored(&release, 2)));
    assert_eq!(harness.elector.outcome(), Some(Outcome::Stopped));
    assert_eq!(harness.last_notice(), Notice::Released);
}

#[test]
fn waiting_replica_stops_at_once() {
    let mut harness = harness();
    harness.expect(Method::Get);
    harness.reply(ok(&lease("b", 1)));
    harness.elector.release(harness.now);
    assert_eq!(harness.elector.outcome(), Some(Outcome::Stopped));
    assert_eq!(harness.elector.take_requests(), []);
}

#[test]
fn replica_that_has_not_begun_stops_at_once() {
    let mut elector = LeaderElector::new(config("a"), 0).unwrap();
    elector.release(Time::ZERO);
    elector.tick(Time::ZERO);
    assert_eq!(elector.outcome(), Some(Outcome::Stopped));
    assert_eq!((elector.take_requests(), elector.next_deadline()), (Vec::new(), None));
}

#[test]
fn release_waits_for_the_renewal_in_flight() {
    let (mut harness, _) = leader();
    harness.wait_for_deadline();
    let renewal = harness.expect(Method::Put);
    harness.elector.release(harness.now);
    assert!(!harness.is_leader());
    assert_eq!(harness.elector.take_requests(), []);
    harness.reply(ok(&stored(&renewal, 2)));
    assert!(!harness.is_leader());
    harness.expect(Method::Get);
}

#[test]
fn takeover_in_flight_is_given_up() {
    let mut harness = harness();
    harness.expect(Method::Get);
    harness.reply(status(404));
    let created = harness.expect(Method::Post);
    harness.elector.take_notices();
    harness.elector.release(harness.now);
    harness.reply(ok(&stored(&created, 1)));
    assert!(!harness.is_leader());
    assert_eq!(harness.elector.take_notices(), [], "this replica never led");
    harness.expect(Method::Get);
    harness.reply(ok(&stored(&created, 1)));
    assert_eq!(body(&harness.expect(Method::Put))["spec"]["holderIdentity"], "");
}

#[test]
fn attempt_ends_where_it_is() {
    let mut harness = harness();
    harness.expect(Method::Get);
    harness.elector.release(harness.now);
    harness.reply(status(404));
    assert_eq!(harness.elector.take_requests(), []);
    assert_eq!(harness.elector.outcome(), Some(Outcome::Stopped));
}

#[test]
fn conflict_of_a_release_is_read_again() {
    let (mut harness, created) = leader();
    harness.elector.release(harness.now);
    harness.expect(Method::Get);
    harness.reply(ok(&created));
    harness.expect(Method::Put);
    harness.reply(status(409));
    harness.expect(Method::Get);
    harness.reply(ok(&lease("b", 3)));
    assert_eq!(harness.elector.outcome(), Some(Outcome::Stopped));
    assert_eq!(harness.elector.take_requests(), [], "the Lease of another replica is left alone");
}

#[test]
fn release_is_given_up_when_it_fails_or_hangs() {
    let failing: [fn(&mut Harness); 2] = [
        |harness| harness.reply(status(403)),
        |harness| {
            let waited = harness.wait_for_deadline();
            assert!(waited <= 10.0);
        },
    ];
    for fail in failing {
        let (mut harness, _) = leader();
        harness.elector.release(harness.now);
        harness.expect(Method::Get);
        fail(&mut harness);
        assert_eq!(harness.elector.outcome(), Some(Outcome::Stopped));
        assert!(matches!(harness.last_notice(), Notice::CannotRelease(_)));
    }
}
