//! Behaviour in single situations.

use super::super::{Page, Undecodable};
use super::*;

const STREAM: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
const CACHED: &str = "limit=500&resourceVersion=0";
const LATEST: &str = "limit=500";

fn added(name: &str, uid: &str, version: u64) -> WatchEvent<Object> {
    WatchEvent::Updated(meta(name, uid, version), ())
}

fn deleted(name: &str, uid: &str, version: u64) -> WatchEvent<Object> {
    WatchEvent::Deleted(meta(name, uid, version))
}

fn unreadable(meta: Option<ObjectMeta>) -> Undecodable<Object> {
    Undecodable { meta, message: "no".into(), substitute: None }
}

fn undecodable(name: &str, uid: &str, version: u64) -> WatchEvent<Object> {
    WatchEvent::Undecodable(unreadable(Some(meta(name, uid, version))))
}

fn page(objects: &[(&str, &str, u64)], version: u64, token: Option<&str>) -> Page<Object> {
    Page {
        items: objects.iter().map(|(name, uid, v)| (meta(name, uid, *v), ())).collect(),
        undecodable: Vec::new(),
        resource_version: version.to_string().into(),
        continue_token: token.map(str::to_owned),
    }
}

fn streaming() -> Driver {
    Driver::start(Options::default(), 1)
}

fn paged() -> Driver {
    Driver::start(Options { watch_list: false, ..Options::default() }, 1)
}

/// A reflector that has listed objects `a` (uid `u`, version 1) and `b` (uid `v`, version 2) and
/// watches from 5.
fn watching() -> Driver {
    let mut driver = streaming();
    driver.input(Input::Opened);
    driver.event(added("a", "u", 1));
    driver.event(added("b", "v", 2));
    driver.event(bookmark(5, true));
    assert_eq!(driver.reports(), ["+a u 1", "+b v 2", "synced"]);
    driver
}

/// Returns a reflector whose watch follows a silent one.
fn quiet() -> Driver {
    let mut driver = watching();
    driver.wait();
    driver.input(Input::Opened);
    driver
}

/// Returns the timeout of the open watch in seconds.
fn requested_timeout(driver: &Driver) -> u64 {
    let path = driver.call.as_ref().map(|call| call.path.clone()).unwrap_or_default();
    let requested = path.split("timeoutSeconds=").nth(1).and_then(|rest| rest.split('&').next());
    requested.and_then(|seconds| seconds.parse().ok()).expect("a timeout")
}

fn closed(driver: &mut Driver) {
    driver.input(Input::Closed);
}

fn failed(driver: &mut Driver) {
    driver.input(|id| Input::Failed(id, "connection reset".into()));
}

fn error_status(driver: &mut Driver, code: u16, message: &str) {
    driver.input(|id| Input::Error(id, status_error(code, message)));
}

#[test]
fn watch_list_reports_initial_objects_and_then_changes() {
    let mut driver = streaming();
    assert_eq!(driver.query(), STREAM);
    driver.input(Input::Opened);
    driver.event(added("a", "u", 4));
    driver.event(bookmark(4, false));
    assert!(!driver.reflector.has_synced());
    driver.event(bookmark(5, true));
    assert!(driver.reflector.has_synced());
    driver.event(added("a", "u", 6));
    assert_eq!(driver.reports(), ["+a u 4", "synced", "+a u 6"]);
    assert_eq!(driver.query(), STREAM, "the same call is open");
}

#[test]
fn unsupported_watch_list_falls_back_to_pages() {
    for code in [400, 405, 422] {
        let mut driver = streaming();
        error_status(&mut driver, code, "sendInitialEvents is forbidden for watch");
        assert_eq!(driver.query(), CACHED);
        driver.input(|id| Input::Page(id, page(&[("a", "u", 1)], 5, Some("t/1"))));
        assert_eq!(driver.query(), "limit=500&continue=t%2F1");
        assert!(!driver.reflector.has_synced());
        driver.input(|id| Input::Page(id, page(&[("b", "v", 2)], 5, None)));
        assert_eq!(driver.query(), "resourceVersion=5");
        assert_eq!(driver.reports(), ["+a u 1", "+b v 2", "synced"]);
        driver.input(Input::Opened);
        error_status(&mut driver, 410, "too old resource version");
        assert_eq!(driver.query(), LATEST, "WatchList is not tried again");
    }
}

#[test]
fn watch_list_without_closing_bookmark_falls_back_to_pages() {
    let mut silent = streaming();
    silent.input(Input::Opened);
    silent.now = silent.now + Duration::from_secs(40);
    silent.event(added("a", "u", 1));
    assert_eq!(silent.wait(), Duration::from_secs(45), "after the last event");
    assert_eq!(silent.query(), LATEST, "a cached list could be older than the event");

    let mut ended = streaming();
    ended.input(Input::Opened);
    closed(&mut ended);
    assert_eq!(ended.query(), CACHED);

    let mut endless = streaming();
    endless.input(Input::Opened);
    for version in 1.. {
        if !endless.query().contains("sendInitialEvents") {
            break;
        }
        endless.now = endless.now + Duration::from_secs(10);
        endless.reflector.tick(endless.now);
        endless.carry_out_outputs();
        if endless.query() == STREAM {
            endless.event(added("a", "u", version));
        }
    }
    assert!(endless.now < Time::from_secs(650), "{}", endless.now);
    assert_eq!(endless.query(), LATEST);
}

/// Lets the open streaming list end without its last bookmark, and lists in pages instead.
fn cut_off(driver: &mut Driver) {
    assert_eq!(driver.query(), STREAM);
    driver.input(Input::Opened);
    closed(driver);
    driver.input(|id| Input::Page(id, page(&[], 5, None)));
}

/// Lets the open watch expire, so that a list follows.
fn expire(driver: &mut Driver) {
    driver.input(Input::Opened);
    driver.event(added("a", "u", 6));
    driver.event(WatchEvent::Error(status_error(410, "too old resource version")));
}

#[test]
fn closed_connection_does_not_disable_streaming_for_good() {
    let mut driver = streaming();
    for _ in 0..2 {
        cut_off(&mut driver);
        expire(&mut driver);
    }
    assert_eq!(driver.query(), STREAM);
    driver.input(Input::Opened);
    driver.event(bookmark(7, true));
    expire(&mut driver);
    for _ in 0..3 {
        cut_off(&mut driver);
        expire(&mut driver);
    }
    assert_eq!(driver.query(), LATEST, "a server that never ends a streaming list");
}

#[test]
fn error_status_is_reported_and_retried() {
    for (code, expected) in [
        (401, "does not accept the credentials: oh"),
        (403, "not allowed: oh; grant the verbs list and watch"),
        (404, "does not know this kind: oh"),
        (429, "asks to slow down: oh"),
        (500, "responded with status 500"),
    ] {
        for mut driver in [streaming(), paged(), watching()] {
            if driver.reflector.has_synced() {
                closed(&mut driver);
            }
            let query = driver.query();
            error_status(&mut driver, code, "oh");
            let error = driver.reflector.watch_error().expect("a watch error");
            assert!(error.to_string().starts_with("/api/v1/pods: "), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!((error.status, error.since), (Some(code), Time::ZERO));
            let pause = driver.wait();
            assert!((800..1600).contains(&pause.as_millis()), "{pause:?}");
            assert_eq!(driver.query(), query, "the same call is retried");
        }
    }
}

#[test]
fn watch_error_lasts_from_first_failure_to_next_success() {
    let mut driver = watching();
    driver.now = driver.now + Duration::from_secs(7);
    let begun = driver.now;
    failed(&mut driver);
    driver.wait();
    error_status(&mut driver, 403, "no");
    assert_eq!(driver.reflector.watch_error().map(|error| error.since), Some(begun));
    driver.wait();
    driver.input(Input::Opened);
    assert_eq!(driver.reflector.watch_error(), None);

    let mut paged = paged();
    failed(&mut paged);
    paged.wait();
    paged.input(|id| Input::Page(id, page(&[], 1, None)));
    assert_eq!(paged.reflector.watch_error(), None);
}

/// Lets the server refuse the open call with this status, and ask for a pause. Returns the pause of
/// the reflector.
fn refused(driver: &mut Driver, code: u16, pause: Duration) -> Duration {
    let retry_after = Some(pause);
    let error = StatusError { retry_after, ..status_error(code, "slow down") };
    driver.input(|id| Input::Error(id, error));
    driver.wait()
}

#[test]
fn call_is_repeated_ten_times_after_the_pause_that_the_server_asks_for() {
    let pause = Duration::from_secs(1);
    for (code, mut driver) in
        [(429, watching()), (503, watching()), (429, paged()), (429, streaming())]
    {
        if driver.reflector.has_synced() {
            closed(&mut driver);
        }
        let query = driver.query();
        for round in 0..2_u32 {
            for _ in 0..10 {
                assert_eq!(refused(&mut driver, code, pause), pause);
                assert_eq!(driver.query(), query, "the same call is repeated");
            }
            let least = Duration::from_millis(800) * 2_u32.pow(round);
            let backoff = refused(&mut driver, code, pause);
            assert!((least..=2 * least).contains(&backoff) && backoff >= pause, "{backoff:?}");
        }
        assert_eq!(driver.reflector.failures(), 22);
        let error = driver.reflector.watch_error().expect("a watch error");
        assert_eq!((error.status, error.since), (Some(code), Time::ZERO));
    }
}

#[test]
fn answer_between_refusals_ends_the_repetitions() {
    let (mut driver, pause) = (watching(), Duration::from_secs(7));
    closed(&mut driver);
    for version in 6..9 {
        for _ in 0..9 {
            assert_eq!(refused(&mut driver, 429, pause), pause);
        }
        driver.input(Input::Opened);
        driver.event(bookmark(version, false));
        closed(&mut driver);
    }
    assert_eq!(driver.query(), "resourceVersion=8");
}

#[test]
fn permanent_refusal_with_a_pause_backs_off() {
    let mut driver = watching();
    closed(&mut driver);
    for least in [1, 1, 3, 6] {
        let pause = refused(&mut driver, 403, Duration::from_secs(1));
        assert!(pause >= Duration::from_secs(least), "{pause:?}");
    }
}

#[test]
fn repeated_failures_back_off_exponentially() {
    let mut driver = watching();
    let mut least = 800;
    for _ in 0..4 {
        failed(&mut driver);
        let pause = driver.wait();
        assert!((least..=2 * least).contains(&pause.as_millis()), "{pause:?}");
        assert_eq!(driver.query(), "resourceVersion=5");
        least *= 2;
    }
}

#[test]
fn closed_watch_resumes_at_last_resource_version() {
    let mut driver = watching();
    for (event, version) in [
        (added("a", "u", 6), 6),
        (bookmark(9, false), 9),
        (deleted("a", "u", 11), 11),
        (undecodable("c", "w", 12), 12),
    ] {
        driver.event(event);
        closed(&mut driver);
        assert_eq!(driver.query(), format!("resourceVersion={version}"));
        driver.input(Input::Opened);
    }
}

#[test]
fn older_bookmark_does_not_lower_the_resource_version() {
    let mut driver = watching();
    driver.event(bookmark(3, false));
    closed(&mut driver);
    assert_eq!(driver.query(), "resourceVersion=5");
}

#[test]
fn watches_that_end_at_once_back_off() {
    let mut driver = watching();
    closed(&mut driver);
    closed(&mut driver);
    let mut pauses = Vec::new();
    for _ in 0..3 {
        driver.input(Input::Opened);
        driver.event(bookmark(5, false));
        closed(&mut driver);
        assert_eq!(driver.query(), "", "it backs off");
        pauses.push(driver.wait());
        assert_eq!(driver.query(), "resourceVersion=5");
    }
    assert!(pauses[2] > Duration::from_secs(3), "{pauses:?}");
    driver.event(bookmark(6, false));
    closed(&mut driver);
    assert_eq!(driver.query(), "resourceVersion=6", "an event resets the counter");
}

#[test]
fn expired_resource_version_relists_at_once() {
    let reasons = [
        status_error(410, "too old resource version: 5 (9)"),
        StatusError { reason: "Expired".into(), ..status_error(0, "too old") },
        status_error(504, "Timeout: Too large resource version: 5, current: 3"),
    ];
    for status_error in reasons {
        let mut as_event = watching();
        as_event.event(WatchEvent::Error(status_error.clone()));
        assert_eq!(as_event.query(), STREAM);

        let mut as_response = watching();
        closed(&mut as_response);
        as_response.input(|id| Input::Error(id, status_error));
        assert_eq!(
            (as_response.query().as_str(), as_response.reflector.watch_error()),
            (STREAM, None)
        );
    }
}

#[test]
fn lists_that_always_expire_back_off() {
    let mut driver = watching();
    for _ in 0..2 {
        driver.event(WatchEvent::Error(status_error(410, "too old")));
        assert_eq!(driver.query(), STREAM);
        driver.input(Input::Opened);
        driver.event(bookmark(7, true));
    }
    driver.event(WatchEvent::Error(status_error(410, "too old")));
    assert_eq!(driver.query(), "", "it backs off");
    driver.wait();
    assert_eq!(driver.query(), STREAM);
}

#[test]
fn expired_continue_token_restarts_the_list() {
    for code in [400, 410] {
        let mut driver = paged();
        driver.input(|id| Input::Page(id, page(&[("a", "u", 1)], 5, Some("t"))));
        error_status(&mut driver, code, "the provided continue parameter is too old");
        if code == 400 {
            driver.wait();
        }
        assert_eq!(driver.query(), LATEST);
        driver.input(|id| Input::Page(id, page(&[("b", "v", 2)], 7, None)));
        assert_eq!(driver.reports(), ["+a u 1", "+b v 2", "-a u 1", "synced"]);
    }
}

#[test]
fn failed_page_is_requested_again() {
    let mut driver = paged();
    driver.input(|id| Input::Page(id, page(&[("a", "u", 1)], 5, Some("t"))));
    failed(&mut driver);
    driver.wait();
    assert_eq!(driver.query(), "limit=500&continue=t");
    driver.input(|id| Input::Page(id, page(&[], 5, None)));
    assert_eq!(driver.reports(), ["+a u 1", "synced"]);
}

#[test]
fn invalid_resource_version_relists() {
    let mut driver = watching();
    closed(&mut driver);
    error_status(&mut driver, 400, "Invalid value: resourceVersion");
    driver.wait();
    assert_eq!(driver.query(), STREAM);
}

#[test]
fn relist_reports_the_difference() {
    for streams in [true, false] {
        let mut driver = watching();
        driver.event(added("c", "w", 6));
        driver.event(added("d", "x", 7));
        driver.reflector.uses_watch_list = streams;
        driver.event(WatchEvent::Error(status_error(410, "too old")));
        driver.reports();
        // `a` is unchanged, `b` replaced, `c` deleted, `d` updated, `e` new.
        let now = [("a", "u", 1), ("b", "v2", 8), ("d", "x", 9), ("e", "y", 3)];
        if streams {
            driver.input(Input::Opened);
            now.iter().for_each(|(name, uid, v)| driver.event(added(name, uid, *v)));
            driver.event(bookmark(10, true));
        } else {
            driver.input(|id| Input::Page(id, page(&now, 10, None)));
        }
        assert_eq!(driver.reports(), ["-b v 2", "+b v2 8", "+d x 9", "+e y 3", "-c w 6"]);
    }
}

#[test]
fn changes_are_reported_at_the_end_of_a_relist() {
    let mut driver = watching();
    driver.event(WatchEvent::Error(status_error(410, "too old")));
    driver.input(Input::Opened);
    driver.event(added("a", "u", 8));
    failed(&mut driver);
    driver.wait();
    assert_eq!(driver.reports(), [""; 0], "half a list is not reported");
    assert_eq!(driver.query(), STREAM);
    driver.input(Input::Opened);
    driver.event(bookmark(9, true));
    assert_eq!(driver.reports(), ["+a u 8", "-a u 8", "-b v 2"]);
}

#[test]
fn requested_relist_lists_the_latest_state_and_reports_its_end() {
    let mut driver = watching();
    driver.reflector.uses_watch_list = false;
    let now = driver.now;
    driver.reflector.relist(now);
    driver.carry_out_outputs();
    assert_eq!(driver.query(), "limit=500");
    driver.input(|id| Input::Page(id, page(&[("a", "u", 1), ("c", "w", 7)], 7, None)));
    assert_eq!(driver.reports(), ["+c w 7", "-b v 2", "relisted"]);
    driver.event(added("d", "x", 8));
    assert_eq!(driver.reports(), ["+d x 8"], "the watch goes on");
}

#[test]
fn relist_of_a_kind_without_objects_shows_the_latest_state() {
    let mut driver = streaming();
    driver.input(Input::Opened);
    driver.event(bookmark(5, true));
    let now = driver.now;
    driver.reflector.relist(now);
    driver.carry_out_outputs();
    driver.input(Input::Opened);
    closed(&mut driver);
    assert_eq!(driver.query(), "limit=500", "not from the cache of the server");
}

#[test]
fn relist_accepts_older_versions_of_a_restored_server() {
    let mut driver = watching();
    driver.event(added("a", "u", 100));
    driver.event(WatchEvent::Error(status_error(410, "too old")));
    driver.input(Input::Opened);
    driver.event(added("a", "u", 3));
    driver.event(bookmark(4, true));
    driver.event(added("b", "v", 6));
    assert_eq!(driver.reports(), ["+a u 100", "+a u 3", "-b v 2", "+b v 6"]);
}

#[test]
fn watch_reports_each_change_once() {
    let mut driver = watching();
    for (event, reports) in [
        (added("a", "u", 6), vec!["+a u 6"]),
        (added("a", "u", 6), vec![]),
        (added("a", "u", 3), vec![]),
        (added("a", "new", 7), vec!["-a u 6", "+a new 7"]),
        (deleted("a", "u", 8), vec![]),
        (deleted("unknown", "u", 9), vec![]),
        (deleted("a", "new", 10), vec!["-a new 10"]),
        (added("a", "new", 7), vec![]),
        (deleted("b", "v", 4), vec![]),
    ] {
        let description = format!("{event:?}");
        driver.event(event);
        assert_eq!(driver.reports(), reports, "{description}");
    }
}

#[test]
fn non_numeric_versions_are_taken_in_watch_order() {
    let mut driver = watching();
    for version in ["f00", "a11", "b22"] {
        let resource_version = version.into();
        driver.event(WatchEvent::Updated(ObjectMeta { resource_version, ..meta("a", "u", 0) }, ()));
    }
    assert_eq!(driver.reports(), ["+a u f00", "+a u a11", "+a u b22"]);
    closed(&mut driver);
    assert_eq!(driver.query(), "resourceVersion=b22");
}

#[test]
fn undecodable_version_is_reported_once_and_keeps_the_object() {
    let mut driver = watching();
    driver.event(undecodable("a", "u", 6));
    driver.event(undecodable("a", "u", 6));
    driver.event(undecodable("c", "w", 7));
    assert_eq!(driver.reports(), ["?a u 6", "?c w 7"]);
    driver.event(WatchEvent::Error(status_error(410, "too old")));
    driver.input(Input::Opened);
    driver.event(undecodable("a", "u", 6));
    driver.event(bookmark(9, true));
    assert_eq!(driver.reports(), ["-b v 2"], "an undecodable object is still present");
    driver.event(undecodable("a", "new", 10));
    assert_eq!(driver.reports(), ["-a u 1", "?a new 10"], "the replaced object is deleted");
    driver.event(deleted("a", "new", 11));
    assert_eq!(driver.reports(), [""; 0]);
    driver.event(WatchEvent::Undecodable(unreadable(None)));
    assert_eq!(driver.reports(), ["?"]);
}

#[test]
fn substitute_is_reported_as_long_as_no_version_is_decoded() {
    let mut driver = paged();
    let substituted = |name, uid, version| Undecodable {
        substitute: Some(()),
        ..unreadable(Some(meta(name, uid, version)))
    };
    let undecodable = vec![substituted("b", "v", 2)];
    driver.input(|id| Input::Page(id, Page { undecodable, ..page(&[("a", "u", 1)], 5, None) }));
    assert_eq!(driver.reports(), ["+a u 1", "+b v 2", "?b v 2", "synced"]);
    driver.input(Input::Opened);
    driver.event(WatchEvent::Undecodable(substituted("a", "u", 6)));
    driver.event(WatchEvent::Undecodable(substituted("b", "v", 7)));
    assert_eq!(driver.reports(), ["?a u 6", "+b v 7", "?b v 7"]);
    driver.event(added("b", "v", 8));
    driver.event(WatchEvent::Undecodable(substituted("b", "v", 9)));
    driver.event(deleted("b", "v", 10));
    assert_eq!(driver.reports(), ["+b v 8", "?b v 9", "-b v 10"]);
}

#[test]
fn page_with_undecodable_objects_is_accepted() {
    let mut driver = paged();
    let undecodable = vec![unreadable(Some(meta("b", "v", 2))), unreadable(None)];
    driver.input(|id| Input::Page(id, Page { undecodable, ..page(&[("a", "u", 1)], 5, None) }));
    assert_eq!(driver.reports(), ["+a u 1", "?b v 2", "?", "synced"]);
}

#[test]
fn call_without_response_times_out_and_is_retried() {
    let mut resumed = watching();
    closed(&mut resumed);
    for (mut driver, seconds) in [(streaming(), 45), (paged(), 75), (resumed, 45)] {
        let query = driver.query();
        assert_eq!(driver.wait(), Duration::from_secs(seconds));
        assert_eq!(driver.query(), "", "it backs off");
        let error = driver.reflector.watch_error().expect("a watch error");
        assert_eq!(error.message, format!("/api/v1/pods: no response within {seconds} s"));
        driver.wait();
        assert_eq!(driver.query(), query);
    }
}

#[test]
fn watch_past_its_timeout_is_closed_and_resumed() {
    let mut driver = watching();
    let watch_timeout = requested_timeout(&driver);
    assert!((300..=600).contains(&watch_timeout), "{watch_timeout}");
    let start = driver.now;
    while driver.query() == STREAM {
        driver.now = driver.now + Duration::from_secs(1);
        driver.event(bookmark(5, false));
        driver.reflector.tick(driver.now);
        driver.carry_out_outputs();
    }
    assert_eq!(driver.now.since(start), Duration::from_secs(watch_timeout + 30));
    assert_eq!(driver.query(), "resourceVersion=5");
    assert_eq!(driver.reflector.watch_error(), None);
}

#[test]
fn watches_past_their_timeout_are_followed_by_others_at_once() {
    let mut driver = watching();
    for _ in 0..4 {
        let call = driver.call.clone();
        while driver.call == call {
            driver.now = driver.now + Duration::from_secs(1);
            driver.event(bookmark(5, false));
            driver.reflector.tick(driver.now);
            driver.carry_out_outputs();
        }
        assert_eq!(driver.query(), "resourceVersion=5", "at once");
        driver.input(Input::Opened);
    }
    assert_eq!(driver.reflector.failures(), 0);
}

#[test]
fn silent_watch_is_resumed_within_a_minute_without_an_error() {
    let mut driver = watching();
    driver.now = driver.now + Duration::from_secs(60);
    driver.event(bookmark(6, false));
    assert_eq!(driver.wait(), Duration::from_secs(45), "after the last bookmark");
    assert_eq!(driver.query(), "resourceVersion=6", "at once");
    assert_eq!(driver.reflector.watch_error(), None, "it may be that nothing changes");
    assert_eq!((driver.reflector.failures(), driver.reports()), (0, Vec::new()));
}

#[test]
fn watch_of_a_kind_without_changes_gets_the_bookmark_before_its_end() {
    let mut driver = quiet();
    for version in 6..12 {
        let timeout = requested_timeout(&driver);
        assert!((30..=40).contains(&timeout), "{timeout}");
        driver.now = driver.now + Duration::from_secs(timeout - 2);
        driver.event(bookmark(version, false));
        driver.now = driver.now + Duration::from_secs(2);
        closed(&mut driver);
        assert_eq!(driver.query(), format!("resourceVersion={version}"), "at once");
        driver.input(Input::Opened);
    }
    assert_eq!(driver.reflector.failures(), 0);
    driver.event(added("c", "w", 20));
    closed(&mut driver);
    assert!(requested_timeout(&driver) >= 300, "it changes again");
}

#[test]
fn watches_that_last_are_followed_by_others_at_once_even_without_bookmarks() {
    let mut driver = quiet();
    for _ in 0..5 {
        driver.now = driver.now + Duration::from_secs(requested_timeout(&driver));
        closed(&mut driver);
        assert_eq!(driver.query(), "resourceVersion=5", "at once");
        driver.input(Input::Opened);
    }
    assert_eq!(driver.reflector.watch_error(), None);
}

#[test]
fn watch_that_does_not_end_in_time_has_failed() {
    let mut driver = quiet();
    assert_eq!(driver.wait(), Duration::from_secs(45));
    let error = driver.reflector.watch_error().expect("a watch error");
    assert_eq!(error.message, "/api/v1/pods: no event, no bookmark and no end within 45 s");
    driver.wait();
    assert_eq!(driver.query(), "resourceVersion=5");
}

#[test]
fn watch_whose_events_arrive_after_a_minute_is_kept_open_for_them() {
    let mut driver = quiet();
    driver.wait();
    driver.wait();
    driver.input(Input::Opened);
    let longest = driver.now + Duration::from_secs(90);
    assert_eq!(driver.reflector.next_deadline(), Some(longest), "not 45 s, like those before");
    driver.now = driver.now + Duration::from_secs(60);
    driver.event(added("c", "w", 20));
    assert_eq!(driver.reports(), ["+c w 20"]);
    driver.now = driver.now + Duration::from_secs(31);
    closed(&mut driver);
    driver.input(Input::Opened);
    assert_eq!(driver.wait(), Duration::from_secs(90), "the end was late, too");
    driver.input(Input::Opened);
    driver.now = driver.now + Duration::from_secs(requested_timeout(&driver));
    closed(&mut driver);
    driver.input(Input::Opened);
    assert_eq!(driver.wait(), Duration::from_secs(45), "it ended in time");
}

#[test]
fn inputs_about_earlier_calls_are_ignored() {
    let mut driver = watching();
    let old = driver.call.as_ref().map(|call| call.id).expect("a call");
    failed(&mut driver);
    let reopened = driver.reflector.next_deadline();
    for input in [
        Input::Opened(old),
        Input::Event(old, added("z", "z", 99)),
        Input::Page(old, page(&[], 99, None)),
        Input::Error(old, status_error(410, "too old")),
        Input::Closed(old),
        Input::Failed(old, "again".into()),
    ] {
        driver.reflector.step(input, driver.now);
        driver.carry_out_outputs();
        assert_eq!(driver.reports(), [""; 0]);
        assert_eq!(driver.reflector.next_deadline(), reopened);
    }
}

#[test]
fn inputs_that_do_not_fit_the_call_are_ignored() {
    let mut driver = paged();
    driver.reflector.step(Input::Opened(CallId(1)), driver.now);
    driver.reflector.step(Input::Event(CallId(1), added("a", "u", 1)), driver.now);
    driver.input(|id| Input::Page(id, page(&[], 5, None)));
    driver.reflector.step(Input::Page(CallId(2), page(&[("a", "u", 1)], 9, None)), driver.now);
    assert_eq!(driver.reports(), ["synced"]);
    assert_eq!(driver.query(), "resourceVersion=5");
}

#[test]
fn reflector_starts_once() {
    let mut reflector: Reflector<Object> = Reflector::new(pods(), Options::default(), 1);
    reflector.tick(Time::from_secs(1000));
    assert_eq!((reflector.next_deadline(), reflector.take_outputs().count()), (None, 0));
    reflector.start(Time::ZERO);
    reflector.start(Time::ZERO);
    assert_eq!(reflector.take_outputs().count(), 1);
}
