//! Lists and watches the objects of one kind, like a reflector of client-go, as a state machine
//! without I/O.
//!
//! A reflector lists all objects, then watches for changes:
//!
//! ```text
//!                not supported, cut off           last page
//!   WatchList ──────────────────▶ List ─▶ List ───────────────▶ Watch
//!     │                                                         │  ▲  watch ends: resumed at the
//!     │   bookmark k8s.io/initial-events-end                    │  │  last resource version
//!     └─────────────────────────────────────────────────────────┼──┘
//!   WatchList or List ◀─────────────────────────────────────────┘  410 Expired: relist
//! ```
//!
//! The reported changes always add up to the objects of the server:
//!
//! - A relist reports the objects that were deleted since the last list.
//! - An object that replaces another one of the same name is reported after the deletion of that
//!   one.
//! - The changes that a relist reveals are reported together at its end, so that no decision rests
//!   on half a list.
//! - Each resource version of an object is reported once, and a watch never reports an older
//!   version after a newer one. Lists do not compare versions: they return the latest state, except
//!   for a list from the cache of the server, which is only requested before anything has been
//!   reported. The reflector therefore also follows a server that was restored from a backup, where
//!   resource versions start over.

mod known_objects;
mod list_watch;
mod messages;
mod objects;
mod options;
mod resource_version;
#[cfg(test)]
mod tests;
mod watch_error;

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use framework::Time;

use crate::backoff::Backoff;
use known_objects::{Difference, KnownObjects};
pub use list_watch::ListWatch;
use list_watch::PageStart;
pub use messages::{
    Call, CallId, Input, NamespacedName, ObjectMeta, Output, Page, StatusError, Undecodable,
    WatchEvent,
};
pub use options::Options;
use resource_version::ResourceVersion;
pub use watch_error::WatchError;

/// Maximum number of calls that end normally without a new event and are followed by another call
/// without delay. A watch that ends and a resource version that expires are normal, but a server
/// that keeps doing so must not make the reflector loop.
const MAX_IMMEDIATE_CALLS: u32 = 2;

/// Time by which a server may end a watch early, as this process measures it.
const CLOCK_ERROR: Duration = Duration::from_secs(1);

/// Maximum number of times in a row that a call is repeated after the pause that the server asks
/// for. Only the next refusal is a failure with a backoff, as for users of client-go, which repeats
/// the request itself.
const MAX_REPETITIONS: u32 = 10;

/// Number of streaming lists in a row that end without their last bookmark, after which lists are
/// no longer streamed. A single one may have lost its connection.
const MAX_CUT_OFF_LISTS: u32 = 3;

/// A reflector of one kind, whose decoded objects are `T`. See the [module](self).
///
/// The driver carries out the outputs in order after each step. It calls [`Reflector::tick`] when
/// the deadline has passed and no input is waiting.
#[derive(Debug)]
pub struct Reflector<T> {
    list_watch: ListWatch,
    options: Options,
    rng: Rng,
    backoff: Backoff,
    calls: u64,
    state: State,
    /// Whether lists are streamed.
    uses_watch_list: bool,
    /// Number of streaming lists in a row that ended without their last bookmark.
    cut_off_lists: u32,
    /// Number of calls in a row that ended normally, before the time that was asked for, without a
    /// new event.
    calls_without_event: u32,
    /// Whether the last watch was silent, and no event has come since.
    is_quiet: bool,
    /// Whether two watches in a row were silent, although the server ends the second one early:
    /// what it sends may arrive later than after the usual wait, and would be lost with each watch.
    is_patient: bool,
    /// Number of calls in a row that were repeated after the pause that the server asked for.
    repetitions: u32,
    known: KnownObjects,
    has_reported: bool,
    has_synced: bool,
    watch_error: Option<WatchError>,
    /// Number of calls that failed.
    failures: u64,
    /// Whether the end of the next list is to be reported.
    reports_relist: bool,
    /// The changes that an unfinished relist has revealed.
    held_back: Vec<Output<T>>,
    outputs: Vec<Output<T>>,
}

/// The purpose of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// A streaming list, up to the bookmark that ends the initial events.
    WatchList,
    /// One page of a list.
    List(PageStart),
    /// A watch of the changes after this version, which advances with the events.
    Watch(ResourceVersion),
}

#[derive(Debug)]
enum State {
    NotStarted,
    /// Waiting after a failure.
    BackingOff {
        until: Time,
        next: Stage,
    },
    Calling(OpenCall),
}

#[derive(Debug)]
struct OpenCall {
    id: CallId,
    stage: Stage,
    is_opened: bool,
    /// Whether it follows a silent watch, and the server sends something before the time at which a
    /// watch counts as silent.
    is_quiet: bool,
    /// The time at which the server ends a watch.
    timeout: Time,
    /// The time at which the call is closed unless an input about it arrives.
    deadline: Time,
    /// The time at which a watch or streaming list is closed in any case.
    end: Time,
}

impl<T> Reflector<T> {
    /// Creates a reflector that has not started. The seed determines the jitter of delays and watch
    /// timeouts.
    pub fn new(list_watch: ListWatch, options: Options, seed: u64) -> Self {
        Self {
            uses_watch_list: options.watch_list,
            list_watch,
            options,
            rng: Rng::with_seed(seed),
            backoff: Backoff::new(
                Duration::from_millis(800),
                2.0,
                Duration::from_secs(30),
                1.0,
                Duration::from_secs(120),
            ),
            cut_off_lists: 0,
            calls: 0,
            state: State::NotStarted,
            calls_without_event: 0,
            is_quiet: false,
            is_patient: false,
            repetitions: 0,
            known: KnownObjects::default(),
            has_reported: false,
            has_synced: false,
            watch_error: None,
            failures: 0,
            reports_relist: false,
            held_back: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Opens the first call. Does nothing if the reflector has started.
    pub fn start(&mut self, now: Time) {
        if matches!(self.state, State::NotStarted) {
            let stage = self.list_stage(self.first_page());
            self.open(stage, now);
        }
    }

    /// Lists all objects again, in the latest state, and then reports [`Output::Relisted`]. Does
    /// nothing before the first list has ended.
    pub fn relist(&mut self, now: Time) {
        if !self.has_synced {
            return;
        }
        if let State::Calling(call) = &self.state {
            self.outputs.push(Output::Close(call.id));
        }
        self.reports_relist = true;
        let stage = self.list_stage(PageStart::Latest);
        self.open(stage, now);
    }

    /// Handles an input. Ignores inputs about calls other than the open one.
    pub fn step(&mut self, input: Input<T>, now: Time) {
        let State::Calling(call) = &self.state else { return };
        if call.id != input.call() {
            return;
        }
        let stage = call.stage.clone();
        let repetitions = std::mem::take(&mut self.repetitions);
        match (input, stage) {
            (Input::Page(_, page), Stage::List(_)) => self.handle_page(page, now),
            (Input::Opened(_), Stage::WatchList | Stage::Watch(_)) => self.handle_opened(now),
            (Input::Event(_, event), Stage::WatchList | Stage::Watch(_)) => {
                self.handle_event(event, now);
            }
            (Input::Error(_, error), stage) => match error.requested_pause() {
                Some(pause) if repetitions < MAX_REPETITIONS => {
                    self.repetitions = repetitions + 1;
                    self.repeat_after(pause, &error, stage, now);
                }
                _ => self.handle_error(&error, stage, now),
            },
            (Input::Failed(_, message), stage) => self.handle_failure(&message, stage, now),
            (Input::Closed(_), Stage::WatchList) => self.cut_off(now),
            (Input::Closed(_), Stage::Watch(version)) => {
                self.is_patient &= self.ends_late(now);
                self.proceed(Stage::Watch(version), now);
            }
            (Input::Closed(_), stage @ Stage::List(_)) => {
                self.handle_failure("no response", stage, now);
            }
            // The input does not fit the call.
            (Input::Page(..) | Input::Opened(_) | Input::Event(..), _) => {}
        }
    }

    /// Handles the deadline if it has passed.
    pub fn tick(&mut self, now: Time) {
        if self.next_deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match std::mem::replace(&mut self.state, State::NotStarted) {
            State::NotStarted => {}
            State::BackingOff { next, .. } => self.open(next, now),
            State::Calling(call) => {
                self.repetitions = 0;
                self.handle_timeout(call, now);
            }
        }
    }

    /// Returns the time at which [`Reflector::tick`] is due next.
    pub const fn next_deadline(&self) -> Option<Time> {
        match &self.state {
            State::NotStarted => None,
            State::BackingOff { until, .. } => Some(*until),
            State::Calling(call) => Some(call.deadline),
        }
    }

    /// Takes the outputs, in order.
    pub fn take_outputs(&mut self) -> std::vec::Drain<'_, Output<T>> {
        self.outputs.drain(..)
    }

    /// Returns whether all objects of the first list have been reported.
    pub const fn has_synced(&self) -> bool {
        self.has_synced
    }

    /// Returns the number of calls that have failed.
    pub const fn failures(&self) -> u64 {
        self.failures
    }

    /// Returns the number of objects that were reported and not reported as deleted.
    pub fn object_count(&self) -> usize {
        self.known.len()
    }

    /// Returns the resource version that the watch has reached, if it is a number.
    pub const fn resource_version(&self) -> Option<u64> {
        let stage = match &self.state {
            State::NotStarted => return None,
            State::BackingOff { next, .. } => next,
            State::Calling(call) => &call.stage,
        };
        match stage {
            Stage::Watch(ResourceVersion::Number(version)) => Some(*version),
            Stage::Watch(ResourceVersion::Opaque(_)) | Stage::WatchList | Stage::List(_) => None,
        }
    }

    /// Returns the last error, unless a call has succeeded since.
    pub const fn watch_error(&self) -> Option<&WatchError> {
        self.watch_error.as_ref()
    }
}

/// Opening calls, and handling their ends.
impl<T> Reflector<T> {
    /// Returns the stage that starts a list. A paged list begins at `start`.
    fn list_stage(&self, start: PageStart) -> Stage {
        if self.uses_watch_list { Stage::WatchList } else { Stage::List(start) }
    }

    const fn first_page(&self) -> PageStart {
        if self.options.starts_with_latest { PageStart::Latest } else { PageStart::Cached }
    }

    fn open(&mut self, stage: Stage, now: Time) {
        if matches!(stage, Stage::WatchList | Stage::List(PageStart::Cached | PageStart::Latest)) {
            self.known.begin_list();
        }
        self.calls += 1;
        let id = CallId(self.calls);
        let is_quiet = self.is_quiet && matches!(stage, Stage::Watch(_));
        let watch_timeout = self.random_watch_timeout(is_quiet);
        let path = match &stage {
            Stage::WatchList => self.list_watch.watch_list(watch_timeout),
            Stage::List(start) => self.list_watch.list(self.options.page_size, start),
            Stage::Watch(version) => self.list_watch.watch(version, watch_timeout),
        };
        let is_watch = !matches!(stage, Stage::List(_));
        let timeout = self.time_to_open(is_watch);
        self.outputs.push(Output::Open(Call { id, is_watch, path, timeout }));
        let deadline = now + timeout;
        let ended = now + watch_timeout;
        let end = deadline.max(ended + self.patience(self.options.watch_grace_period));
        self.state = State::Calling(OpenCall {
            id,
            stage,
            is_opened: false,
            is_quiet,
            timeout: ended,
            deadline,
            end,
        });
    }

    /// Returns the time to wait for the first answer to a call.
    const fn time_to_open(&self, is_watch: bool) -> Duration {
        if is_watch { self.options.watch_idle_timeout } else { self.options.request_timeout }
    }

    fn random_watch_timeout(&mut self, is_quiet: bool) -> Duration {
        let seconds = if is_quiet {
            let longest = self.options.quiet_watch_timeout.as_secs();
            longest - longest / 4..=longest
        } else {
            let min = self.options.min_watch_timeout.as_secs();
            min..=min.saturating_mul(2)
        };
        Duration::from_secs(self.rng.u64(seconds))
    }

    /// Returns this time, or twice as long while what the server sends is late.
    const fn patience(&self, usual: Duration) -> Duration {
        if self.is_patient { usual.saturating_mul(2) } else { usual }
    }

    /// Whether the end of the open watch arrives later than after the usual grace period.
    fn ends_late(&self, now: Time) -> bool {
        let grace = self.options.watch_grace_period;
        matches!(&self.state, State::Calling(call) if now > call.timeout + grace)
    }

    /// Opens the next call after a normal end. Backs off if too many calls in a row brought no
    /// event.
    fn proceed(&mut self, next: Stage, now: Time) {
        let lasted =
            matches!(&self.state, State::Calling(call) if now + CLOCK_ERROR >= call.timeout);
        if lasted {
            return self.open(next, now);
        }
        self.calls_without_event = self.calls_without_event.saturating_add(1);
        if self.calls_without_event > MAX_IMMEDIATE_CALLS {
            self.back_off(next, None, now);
        } else {
            self.open(next, now);
        }
    }

    fn back_off(&mut self, next: Stage, retry_after: Option<Duration>, now: Time) {
        let delay = self.backoff.next(now, &mut self.rng).max(retry_after.unwrap_or_default());
        self.state = State::BackingOff { until: now + delay, next };
    }

    /// Uses paged lists instead of streaming lists from now on.
    fn fall_back_to_pages(&mut self, now: Time) {
        self.uses_watch_list = false;
        self.list_in_pages(now);
    }

    /// Lists in pages after a streaming list that ended without its last bookmark. A server that
    /// does so again and again does not support streaming lists.
    fn cut_off(&mut self, now: Time) {
        self.cut_off_lists += 1;
        if self.cut_off_lists >= MAX_CUT_OFF_LISTS {
            self.uses_watch_list = false;
        }
        self.list_in_pages(now);
    }

    fn list_in_pages(&mut self, now: Time) {
        // The cache of the server may be older than the events that the streaming list has sent,
        // and than the list that a relist replaces.
        let is_first = !self.has_reported && !self.has_synced;
        let start = if is_first { self.first_page() } else { PageStart::Latest };
        self.open(Stage::List(start), now);
    }

    /// Repeats a call after the pause that the server asks for. The backoff does not grow.
    fn repeat_after(&mut self, pause: Duration, error: &StatusError, stage: Stage, now: Time) {
        self.set_watch_error(error, now);
        self.state = State::BackingOff { until: now + pause, next: stage };
    }

    fn handle_error(&mut self, error: &StatusError, stage: Stage, now: Time) {
        if error.is_expired() || error.is_too_large_resource_version() {
            return self.proceed(self.list_stage(PageStart::Latest), now);
        }
        let next = match stage {
            Stage::WatchList if error.is_unsupported() => return self.fall_back_to_pages(now),
            // The server does not understand the resource version or the token.
            Stage::Watch(_) | Stage::List(PageStart::Continue(_)) if error.is_unsupported() => {
                self.list_stage(PageStart::Latest)
            }
            same => same,
        };
        self.set_watch_error(error, now);
        self.back_off(next, error.retry_after, now);
    }

    fn handle_failure(&mut self, message: &str, stage: Stage, now: Time) {
        self.failed(format!("{}: {message}", self.list_watch.path), None, now);
        self.back_off(stage, None, now);
    }

    fn set_watch_error(&mut self, error: &StatusError, now: Time) {
        let message = watch_error::message(&self.list_watch.path, error);
        self.failed(message, Some(error.code), now);
    }

    fn failed(&mut self, message: String, status: Option<u16>, now: Time) {
        self.failures += 1;
        let since = self.watch_error.as_ref().map_or(now, |error| error.since);
        self.watch_error = Some(WatchError { message, since, status });
    }

    /// Closes a call whose deadline has passed.
    fn handle_timeout(&mut self, call: OpenCall, now: Time) {
        self.outputs.push(Output::Close(call.id));
        match call.stage {
            Stage::WatchList if call.is_opened => self.cut_off(now),
            Stage::Watch(_) if call.is_opened && now >= call.end => self.open(call.stage, now),
            // The connection may be dead, or nothing changes. A watch that is opened again costs
            // little.
            Stage::Watch(_) if call.is_opened && !call.is_quiet => {
                self.is_quiet = true;
                self.open(call.stage, now);
            }
            Stage::Watch(_) if call.is_opened => {
                let seconds = self.patience(self.options.watch_idle_timeout).as_secs();
                self.is_patient = true;
                let message = format!("no event, no bookmark and no end within {seconds} s");
                self.handle_failure(&message, call.stage, now);
            }
            stage => {
                let seconds = self.time_to_open(!matches!(stage, Stage::List(_))).as_secs();
                self.handle_failure(&format!("no response within {seconds} s"), stage, now);
            }
        }
    }
}

/// Handling pages and watch events.
impl<T> Reflector<T> {
    fn handle_opened(&mut self, now: Time) {
        self.watch_error = None;
        if let State::Calling(call) = &mut self.state {
            call.is_opened = true;
        }
        self.expect_progress(now);
    }

    /// Sets the time at which the open call counts as silent: a watch of a server that sends
    /// bookmarks, or a streaming list. A proxy may keep a connection open whose other half is dead.
    fn expect_progress(&mut self, now: Time) {
        let watch_list_idle_timeout = self.options.watch_list_idle_timeout;
        let watch_idle_timeout = self.patience(self.options.watch_idle_timeout);
        if let State::Calling(call) = &mut self.state {
            call.deadline = match call.stage {
                Stage::WatchList => call.end.min(now + watch_list_idle_timeout),
                Stage::Watch(_) => call.end.min(now + watch_idle_timeout),
                Stage::List(_) => call.deadline,
            };
        }
    }

    fn handle_page(&mut self, page: Page<T>, now: Time) {
        self.watch_error = None;
        for (meta, object) in page.items {
            self.report_update(meta, object);
        }
        for undecodable in page.undecodable {
            self.report_undecodable(undecodable);
        }
        let next = match page.continue_token {
            Some(token) => Stage::List(PageStart::Continue(token)),
            None => {
                self.end_list();
                Stage::Watch(ResourceVersion::from(&page.resource_version))
            }
        };
        self.open(next, now);
    }

    fn handle_event(&mut self, event: WatchEvent<T>, now: Time) {
        let version = match &event {
            WatchEvent::Updated(meta, _) | WatchEvent::Deleted(meta) => {
                Some(&meta.resource_version)
            }
            WatchEvent::Undecodable(Undecodable { meta, .. }) => {
                meta.as_ref().map(|meta| &meta.resource_version)
            }
            WatchEvent::Bookmark { resource_version, .. } => Some(resource_version),
            WatchEvent::Error(_) => None,
        };
        if !matches!(event, WatchEvent::Bookmark { .. }) {
            self.is_quiet = false;
        }
        self.expect_progress(now);
        if version.is_some_and(|version| !self.advance(version)) {
            return;
        }
        match event {
            WatchEvent::Updated(meta, object) => self.report_update(meta, object),
            WatchEvent::Deleted(meta) => self.report_deletion(meta),
            WatchEvent::Undecodable(undecodable) => self.report_undecodable(undecodable),
            WatchEvent::Bookmark { resource_version, initial_events_end: true } => {
                self.end_initial_events(&resource_version, now);
            }
            WatchEvent::Bookmark { .. } => {}
            WatchEvent::Error(error) => self.handle_error_event(&error, now),
        }
    }

    /// Advances the resource version of the open watch. Returns false for an event to ignore, whose
    /// version is older than the one that the watch has reached.
    fn advance(&mut self, version: &Arc<str>) -> bool {
        let State::Calling(call) = &mut self.state else { return false };
        match &mut call.stage {
            Stage::Watch(reached) => {
                let version = ResourceVersion::from(version);
                if version.is_older_than(reached) {
                    return false;
                }
                if version != *reached {
                    self.calls_without_event = 0;
                }
                *reached = version;
            }
            // Initial events are not ordered by version.
            Stage::WatchList | Stage::List(_) => {}
        }
        true
    }

    fn end_initial_events(&mut self, version: &Arc<str>, now: Time) {
        if let State::Calling(call) = &mut self.state
            && call.stage == Stage::WatchList
        {
            call.stage = Stage::Watch(ResourceVersion::from(version));
            self.cut_off_lists = 0;
            self.end_list();
            self.expect_progress(now);
        }
    }

    fn handle_error_event(&mut self, error: &StatusError, now: Time) {
        if let State::Calling(call) = std::mem::replace(&mut self.state, State::NotStarted) {
            self.outputs.push(Output::Close(call.id));
            self.handle_error(error, call.stage, now);
        }
    }
}

/// Reporting changes.
impl<T> Reflector<T> {
    fn report_update(&mut self, meta: ObjectMeta, object: T) {
        self.has_reported = true;
        match self.known.update(&meta) {
            Difference::None => return,
            Difference::Updated => {}
            Difference::Replaced(old) => self.report(Output::Deleted(old)),
        }
        self.report(Output::Updated(meta, object));
    }

    fn report_deletion(&mut self, meta: ObjectMeta) {
        if self.known.delete(&meta) {
            self.report(Output::Deleted(meta));
        }
    }

    fn report_undecodable(&mut self, undecodable: Undecodable<T>) {
        let Undecodable { meta, message, substitute } = undecodable;
        self.has_reported = true;
        if let Some(meta) = &meta {
            let found = self.known.update_undecodable(meta, substitute.is_some());
            if let Some(replaced) = found.replaced {
                self.report(Output::Deleted(replaced));
            }
            if !found.is_new {
                return;
            }
            if let Some(substitute) = substitute.filter(|_| found.is_substituted) {
                self.report(Output::Updated(meta.clone(), substitute));
            }
        }
        self.report(Output::Undecodable { meta, message });
    }

    /// Reports a change, at the end of the list if it was revealed by a relist.
    fn report(&mut self, change: Output<T>) {
        let is_watching =
            matches!(&self.state, State::Calling(OpenCall { stage: Stage::Watch(_), .. }));
        let outputs =
            if self.has_synced && !is_watching { &mut self.held_back } else { &mut self.outputs };
        outputs.push(change);
    }

    /// Reports what a relist has revealed, and the objects that the list did not contain as
    /// deleted.
    fn end_list(&mut self) {
        self.outputs.append(&mut self.held_back);
        self.outputs.extend(self.known.end_list().into_iter().map(Output::Deleted));
        if !std::mem::replace(&mut self.has_synced, true) {
            self.outputs.push(Output::Synced);
        }
        if std::mem::take(&mut self.reports_relist) {
            self.outputs.push(Output::Relisted);
        }
    }
}
