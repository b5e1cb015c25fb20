//! The rules, one by one.

use super::super::Page;
use super::*;

const STREAM: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
const CACHED: &str = "limit=500&resourceVersion=0";
const LATEST: &str = "limit=500";

fn added(name: &str, uid: &str, version: u64) -> Frame<Object> {
    Frame::Changed(meta(name, uid, version), ())
}

fn deleted(name: &str, uid: &str, version: u64) -> Frame<Object> {
    Frame::Deleted(meta(name, uid, version))
}

fn undecodable(name: &str, uid: &str, version: u64) -> Frame<Object> {
    Frame::Undecodable { meta: Some(meta(name, uid, version)), message: "no".into() }
}

fn page(objects: &[(&str, &str, u64)], version: u64, next: Option<&str>) -> Page<Object> {
    Page {
        items: objects.iter().map(|(name, uid, v)| (meta(name, uid, *v), ())).collect(),
        undecodable: Vec::new(),
        resource_version: version.to_string().into(),
        next: next.map(str::to_owned),
    }
}

fn streaming() -> Driven {
    Driven::start(Options::default(), 1)
}

fn paged() -> Driven {
    Driven::start(Options { streaming_lists: false, ..Options::default() }, 1)
}

/// A session that has loaded objects `a` (uid `u`, version 1) and `b` (uid `v`, version 2) and
/// watches from 5.
fn watching() -> Driven {
    let mut driven = streaming();
    driven.tell(Input::Opened);
    driven.frame(added("a", "u", 1));
    driven.frame(added("b", "v", 2));
    driven.frame(bookmark(5, true));
    assert_eq!(driven.reports(), ["+a u 1", "+b v 2", "synced"]);
    driven
}

fn closed(driven: &mut Driven) {
    driven.tell(Input::Closed);
}

fn failed(driven: &mut Driven) {
    driven.tell(|id| Input::Failed(id, "connection reset".into()));
}

fn refused(driven: &mut Driven, code: u16, message: &str) {
    driven.tell(|id| Input::Refused(id, refusal(code, message)));
}

#[test]
fn a_stream_brings_the_initial_state_and_goes_on() {
    let mut driven = streaming();
    assert_eq!(driven.asks(), STREAM);
    driven.tell(Input::Opened);
    driven.frame(added("a", "u", 4));
    driven.frame(bookmark(4, false));
    assert!(!driven.session.is_synced());
    driven.frame(bookmark(5, true));
    assert!(driven.session.is_synced());
    driven.frame(added("a", "u", 6));
    assert_eq!(driven.reports(), ["+a u 4", "synced", "+a u 6"]);
    assert_eq!(driven.asks(), STREAM, "the same call");
}

#[test]
fn a_server_without_streaming_lists_is_asked_for_pages() {
    for code in [400, 405, 422] {
        let mut driven = streaming();
        refused(&mut driven, code, "sendInitialEvents is forbidden for watch");
        assert_eq!(driven.asks(), CACHED);
        driven.tell(|id| Input::Page(id, page(&[("a", "u", 1)], 5, Some("t/1"))));
        assert_eq!(driven.asks(), "limit=500&continue=t%2F1");
        assert!(!driven.session.is_synced());
        driven.tell(|id| Input::Page(id, page(&[("b", "v", 2)], 5, None)));
        assert_eq!(driven.asks(), "resourceVersion=5");
        assert_eq!(driven.reports(), ["+a u 1", "+b v 2", "synced"]);
        driven.tell(Input::Opened);
        refused(&mut driven, 410, "too old resource version");
        assert_eq!(driven.asks(), LATEST, "it is not tried again");
    }
}

#[test]
fn a_stream_without_closing_bookmark_gives_way_to_lists() {
    let mut silent = streaming();
    silent.tell(Input::Opened);
    silent.now = silent.now + Duration::from_secs(50);
    silent.frame(added("a", "u", 1));
    assert_eq!(silent.wait(), Duration::from_secs(60), "since it last said anything");
    assert_eq!(silent.asks(), LATEST, "no cache may contradict what it said");

    let mut ended = streaming();
    ended.tell(Input::Opened);
    closed(&mut ended);
    assert_eq!(ended.asks(), CACHED);

    let mut endless = streaming();
    endless.tell(Input::Opened);
    for version in 1.. {
        if !endless.asks().contains("sendInitialEvents") {
            break;
        }
        endless.now = endless.now + Duration::from_secs(10);
        endless.session.tick(endless.now);
        endless.perform();
        if endless.asks() == STREAM {
            endless.frame(added("a", "u", version));
        }
    }
    assert!(endless.now < Time::from_secs(650), "{}", endless.now);
    assert_eq!(endless.asks(), LATEST);
}

#[test]
fn refusals_that_waiting_can_help_are_trouble() {
    for (code, told) in [
        (401, "does not accept the credentials: oh"),
        (403, "not allowed: oh; grant the verbs list and watch"),
        (404, "does not know this kind: oh"),
        (429, "asks to slow down: oh"),
        (500, "answered 500"),
    ] {
        for mut driven in [streaming(), paged(), watching()] {
            if driven.session.is_synced() {
                closed(&mut driven);
            }
            let asked = driven.asks();
            refused(&mut driven, code, "oh");
            let trouble = driven.session.trouble().expect("trouble");
            assert!(trouble.to_string().starts_with("/api/v1/pods: "), "{trouble}");
            assert!(trouble.to_string().contains(told), "{trouble}");
            assert_eq!((trouble.code, trouble.since), (Some(code), Time::ZERO));
            let pause = driven.wait();
            assert!((800..1600).contains(&pause.as_millis()), "{pause:?}");
            assert_eq!(driven.asks(), asked, "the same again");
        }
    }
}

#[test]
fn trouble_lasts_from_the_first_failure_to_the_next_success() {
    let mut driven = watching();
    driven.wait();
    let begun = driven.now;
    failed(&mut driven);
    driven.wait();
    refused(&mut driven, 403, "no");
    assert_eq!(driven.session.trouble().map(|trouble| trouble.since), Some(begun));
    driven.wait();
    driven.tell(Input::Opened);
    assert_eq!(driven.session.trouble(), None);

    let mut paged = paged();
    failed(&mut paged);
    paged.wait();
    paged.tell(|id| Input::Page(id, page(&[], 1, None)));
    assert_eq!(paged.session.trouble(), None);
}

#[test]
fn the_pause_that_the_server_asks_for_is_kept() {
    let mut driven = watching();
    closed(&mut driven);
    let retry_after = Some(Duration::from_secs(7));
    driven.tell(|id| Input::Refused(id, Refusal { retry_after, ..refusal(429, "slow down") }));
    assert_eq!(driven.wait(), Duration::from_secs(7));
    assert_eq!(driven.asks(), "resourceVersion=5");
}

#[test]
fn failures_are_retried_ever_more_slowly() {
    let mut driven = watching();
    let mut least = 800;
    for _ in 0..4 {
        failed(&mut driven);
        let pause = driven.wait();
        assert!((least..=2 * least).contains(&pause.as_millis()), "{pause:?}");
        assert_eq!(driven.asks(), "resourceVersion=5");
        least *= 2;
    }
}

#[test]
fn a_watch_that_ends_is_resumed_where_it_was() {
    let mut driven = watching();
    for (frame, version) in [
        (added("a", "u", 6), 6),
        (bookmark(9, false), 9),
        (deleted("a", "u", 11), 11),
        (undecodable("c", "w", 12), 12),
    ] {
        driven.frame(frame);
        closed(&mut driven);
        assert_eq!(driven.asks(), format!("resourceVersion={version}"));
        driven.tell(Input::Opened);
    }
}

#[test]
fn a_bookmark_of_a_server_that_lags_behind_does_not_turn_back_time() {
    let mut driven = watching();
    driven.frame(bookmark(3, false));
    closed(&mut driven);
    assert_eq!(driven.asks(), "resourceVersion=5");
}

#[test]
fn watches_that_end_at_once_do_not_make_it_spin() {
    let mut driven = watching();
    closed(&mut driven);
    closed(&mut driven);
    let mut pauses = Vec::new();
    for _ in 0..3 {
        driven.tell(Input::Opened);
        driven.frame(bookmark(5, false));
        closed(&mut driven);
        assert_eq!(driven.asks(), "", "it waits");
        pauses.push(driven.wait());
        assert_eq!(driven.asks(), "resourceVersion=5");
    }
    assert!(pauses[2] > Duration::from_secs(3), "{pauses:?}");
    driven.frame(bookmark(6, false));
    closed(&mut driven);
    assert_eq!(driven.asks(), "resourceVersion=6", "there was news");
}

#[test]
fn an_expired_version_is_followed_by_a_new_load_at_once() {
    let reasons = [
        refusal(410, "too old resource version: 5 (9)"),
        Refusal { reason: "Expired".into(), ..refusal(0, "too old") },
        refusal(504, "Timeout: Too large resource version: 5, current: 3"),
    ];
    for refusal in reasons {
        let mut as_frame = watching();
        as_frame.frame(Frame::Error(refusal.clone()));
        assert_eq!(as_frame.asks(), STREAM);

        let mut as_answer = watching();
        closed(&mut as_answer);
        as_answer.tell(|id| Input::Refused(id, refusal));
        assert_eq!((as_answer.asks().as_str(), as_answer.session.trouble()), (STREAM, None));
    }
}

#[test]
fn loads_that_always_expire_do_not_make_it_spin() {
    let mut driven = watching();
    for _ in 0..2 {
        driven.frame(Frame::Error(refusal(410, "too old")));
        assert_eq!(driven.asks(), STREAM);
        driven.tell(Input::Opened);
        driven.frame(bookmark(7, true));
    }
    driven.frame(Frame::Error(refusal(410, "too old")));
    assert_eq!(driven.asks(), "", "it waits");
    driven.wait();
    assert_eq!(driven.asks(), STREAM);
}

#[test]
fn a_list_whose_token_has_expired_begins_anew_with_the_latest_state() {
    for code in [400, 410] {
        let mut driven = paged();
        driven.tell(|id| Input::Page(id, page(&[("a", "u", 1)], 5, Some("t"))));
        refused(&mut driven, code, "the provided continue parameter is too old");
        if code == 400 {
            driven.wait();
        }
        assert_eq!(driven.asks(), LATEST);
        driven.tell(|id| Input::Page(id, page(&[("b", "v", 2)], 7, None)));
        assert_eq!(driven.reports(), ["+a u 1", "+b v 2", "-a u 1", "synced"]);
    }
}

#[test]
fn a_page_that_fails_is_asked_for_again() {
    let mut driven = paged();
    driven.tell(|id| Input::Page(id, page(&[("a", "u", 1)], 5, Some("t"))));
    failed(&mut driven);
    driven.wait();
    assert_eq!(driven.asks(), "limit=500&continue=t");
    driven.tell(|id| Input::Page(id, page(&[], 5, None)));
    assert_eq!(driven.reports(), ["+a u 1", "synced"]);
}

#[test]
fn a_watch_whose_version_is_not_understood_begins_with_a_new_load() {
    let mut driven = watching();
    closed(&mut driven);
    refused(&mut driven, 400, "Invalid value: resourceVersion");
    driven.wait();
    assert_eq!(driven.asks(), STREAM);
}

#[test]
fn a_new_load_reports_what_is_different() {
    for streams in [true, false] {
        let mut driven = watching();
        driven.frame(added("c", "w", 6));
        driven.frame(added("d", "x", 7));
        driven.session.streams = streams;
        driven.frame(Frame::Error(refusal(410, "too old")));
        driven.reports();
        // `a` is the same, `b` another object, `c` is gone, `d` has changed, `e` is new.
        let now = [("a", "u", 1), ("b", "v2", 8), ("d", "x", 9), ("e", "y", 3)];
        if streams {
            driven.tell(Input::Opened);
            now.iter().for_each(|(name, uid, v)| driven.frame(added(name, uid, *v)));
            driven.frame(bookmark(10, true));
        } else {
            driven.tell(|id| Input::Page(id, page(&now, 10, None)));
        }
        assert_eq!(driven.reports(), ["-b v 2", "+b v2 8", "+d x 9", "+e y 3", "-c w 6"]);
    }
}

#[test]
fn what_vanished_is_only_reported_when_the_state_is_complete() {
    let mut driven = watching();
    driven.frame(Frame::Error(refusal(410, "too old")));
    driven.tell(Input::Opened);
    driven.frame(added("a", "u", 8));
    failed(&mut driven);
    driven.wait();
    assert_eq!(driven.reports(), ["+a u 8"]);
    assert_eq!(driven.asks(), STREAM);
    driven.tell(Input::Opened);
    driven.frame(bookmark(9, true));
    assert_eq!(driven.reports(), ["-a u 8", "-b v 2"]);
}

#[test]
fn a_server_that_was_restored_from_a_backup_is_followed() {
    let mut driven = watching();
    driven.frame(added("a", "u", 100));
    driven.frame(Frame::Error(refusal(410, "too old")));
    driven.tell(Input::Opened);
    driven.frame(added("a", "u", 3));
    driven.frame(bookmark(4, true));
    driven.frame(added("b", "v", 6));
    assert_eq!(driven.reports(), ["+a u 100", "+a u 3", "-b v 2", "+b v 6"]);
}

#[test]
fn a_watch_reports_each_change_once() {
    let mut driven = watching();
    for (frame, reports) in [
        (added("a", "u", 6), vec!["+a u 6"]),
        (added("a", "u", 6), vec![]),
        (added("a", "u", 3), vec![]),
        (added("a", "new", 7), vec!["-a u 6", "+a new 7"]),
        (deleted("a", "u", 8), vec![]),
        (deleted("nobody", "u", 9), vec![]),
        (deleted("a", "new", 10), vec!["-a new 10"]),
        (added("a", "new", 7), vec![]),
        (deleted("b", "v", 4), vec![]),
    ] {
        let what = format!("{frame:?}");
        driven.frame(frame);
        assert_eq!(driven.reports(), reports, "{what}");
    }
}

#[test]
fn versions_that_are_no_numbers_are_taken_in_the_order_of_the_stream() {
    let mut driven = watching();
    for version in ["f00", "a11", "b22"] {
        let resource_version = version.into();
        driven.frame(Frame::Changed(Meta { resource_version, ..meta("a", "u", 0) }, ()));
    }
    assert_eq!(driven.reports(), ["+a u f00", "+a u a11", "+a u b22"]);
    closed(&mut driven);
    assert_eq!(driven.asks(), "resourceVersion=b22");
}

#[test]
fn an_object_that_cannot_be_decoded_is_named_once_and_stays_as_it_was() {
    let mut driven = watching();
    driven.frame(undecodable("a", "u", 6));
    driven.frame(undecodable("a", "u", 6));
    driven.frame(undecodable("c", "w", 7));
    assert_eq!(driven.reports(), ["?a u 6", "?c w 7"]);
    driven.frame(Frame::Error(refusal(410, "too old")));
    driven.tell(Input::Opened);
    driven.frame(undecodable("a", "u", 6));
    driven.frame(bookmark(9, true));
    assert_eq!(driven.reports(), ["-b v 2"], "it counts as present");
    driven.frame(undecodable("a", "new", 10));
    assert_eq!(driven.reports(), ["-a u 1", "?a new 10"], "the old one is gone for certain");
    driven.frame(deleted("a", "new", 11));
    assert_eq!(driven.reports(), [""; 0]);
    driven.frame(Frame::Undecodable { meta: None, message: "not JSON".into() });
    assert_eq!(driven.reports(), ["?"]);
}

#[test]
fn pages_with_objects_that_cannot_be_decoded_are_taken() {
    let mut driven = paged();
    let undecodable = vec![(Some(meta("b", "v", 2)), "no".into()), (None, "no".into())];
    driven.tell(|id| Input::Page(id, Page { undecodable, ..page(&[("a", "u", 1)], 5, None) }));
    assert_eq!(driven.reports(), ["+a u 1", "?b v 2", "?", "synced"]);
}

#[test]
fn a_call_without_an_answer_is_given_up_and_made_again() {
    let mut resumed = watching();
    closed(&mut resumed);
    for mut driven in [streaming(), paged(), resumed] {
        let asked = driven.asks();
        assert_eq!(driven.wait(), Duration::from_secs(75));
        assert_eq!(driven.asks(), "", "it waits");
        let trouble = driven.session.trouble().expect("trouble");
        assert_eq!(trouble.message, "/api/v1/pods: no answer within 75 s");
        driven.wait();
        assert_eq!(driven.asks(), asked);
    }
}

#[test]
fn a_watch_that_outlives_its_time_is_dead_and_resumed() {
    let mut driven = watching();
    let path = driven.call.as_ref().map(|call| call.path.clone()).unwrap_or_default();
    let asked = path.split("timeoutSeconds=").nth(1).and_then(|rest| rest.split('&').next());
    let life: u64 = asked.and_then(|seconds| seconds.parse().ok()).expect("a timeout");
    assert!((300..=600).contains(&life), "{life}");
    assert_eq!(driven.wait(), Duration::from_secs(life + 30));
    assert_eq!(driven.asks(), "resourceVersion=5");
    assert_eq!(driven.session.trouble(), None);
}

#[test]
fn calls_that_are_not_current_are_not_listened_to() {
    let mut driven = watching();
    let old = driven.call.as_ref().map(|call| call.id).expect("a call");
    failed(&mut driven);
    let reopened = driven.session.next_deadline();
    for input in [
        Input::Opened(old),
        Input::Frame(old, added("z", "z", 99)),
        Input::Page(old, page(&[], 99, None)),
        Input::Refused(old, refusal(410, "too old")),
        Input::Closed(old),
        Input::Failed(old, "again".into()),
    ] {
        driven.session.step(input, driven.now);
        driven.perform();
        assert_eq!(driven.reports(), [""; 0]);
        assert_eq!(driven.session.next_deadline(), reopened);
    }
}

#[test]
fn answers_of_another_sort_are_not_listened_to() {
    let mut driven = paged();
    driven.session.step(Input::Opened(CallId(1)), driven.now);
    driven.session.step(Input::Frame(CallId(1), added("a", "u", 1)), driven.now);
    driven.tell(|id| Input::Page(id, page(&[], 5, None)));
    driven.session.step(Input::Page(CallId(2), page(&[("a", "u", 1)], 9, None)), driven.now);
    assert_eq!(driven.reports(), ["synced"]);
    assert_eq!(driven.asks(), "resourceVersion=5");
}

#[test]
fn nothing_happens_before_the_start_and_only_once_at_it() {
    let mut session: Session<Object> = Session::new(pods(), Options::default(), 1);
    session.tick(Time::from_secs(1000));
    assert_eq!((session.next_deadline(), session.outputs().count()), (None, 0));
    session.start(Time::ZERO);
    session.start(Time::ZERO);
    assert_eq!(session.outputs().count(), 1);
}
