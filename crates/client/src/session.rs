//! Keeps one kind of objects in step with an API server by list and watch, as a state machine
//! without I/O.
//!
//! A session loads a complete state, then watches what happens after it:
//!
//! ```text
//!             not supported                    last page
//!   Stream ──────────────────▶ List ─▶ List ───────────────▶ Watch
//!     │                                                      │  ▲  ends: from where it was
//!     │   bookmark k8s.io/initial-events-end                 │  │
//!     └──────────────────────────────────────────────────────┼──┘
//!   Stream or List ◀─────────────────────────────────────────┘  410 Expired
//! ```
//!
//! What it reports adds up to the state of the server: every object that vanishes is reported as
//! deleted, also where that happened between two loads; an object that replaces another of its name
//! comes after the deletion of that one; a version is reported once, and never one that is older
//! than what was reported of its name. Nothing is compared to make the latter true of loads: they
//! are reads of the latest state, but for a list that the server may take from a stale cache, which
//! is only asked for before anything has been reported. So a server that was restored from a
//! backup, where versions start over, is followed as well.

mod known;
mod message;
mod options;
mod query;
#[cfg(test)]
mod tests;
mod trouble;
mod version;

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use framework::Time;

use crate::backoff::Backoff;
use known::{Known, News};
pub use message::{Call, CallId, Frame, Input, Meta, ObjectId, Output, Page, Refusal};
pub use options::Options;
use query::Cursor;
pub use query::Target;
pub use trouble::Trouble;
use version::Version;

/// How many ends in a row may be followed by another call at once although nothing new was heard: a
/// watch ends, the next one is told that its version has expired, the complete state is loaded. A
/// server that goes on like that would make this spin.
const FRUITLESS_CALLS: u32 = 2;

/// The session of one kind, whose decoded objects are `T`. See the [module](self).
///
/// Whoever drives it carries out its outputs in order after each step, and calls [`Session::tick`]
/// when the deadline has come and no input waits.
#[derive(Debug)]
pub struct Session<T> {
    target: Target,
    options: Options,
    rng: Rng,
    backoff: Backoff,
    calls: u64,
    state: State,
    /// Whether complete states are loaded as streams.
    streams: bool,
    /// How many calls in a row have ended as they may without having told anything new.
    fruitless: u32,
    known: Known,
    reported: bool,
    synced: bool,
    trouble: Option<Trouble>,
    outputs: Vec<Output<T>>,
}

/// What a call is for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// The complete state as a stream, up to its closing bookmark.
    Stream,
    /// One page of the complete state.
    List(Cursor),
    /// What happened after this version, which moves on with what is heard.
    Watch(Version),
}

#[derive(Debug)]
enum State {
    NotStarted,
    /// Pausing after a failure.
    Waiting {
        until: Time,
        next: Stage,
    },
    Calling(Calling),
}

#[derive(Debug)]
struct Calling {
    id: CallId,
    stage: Stage,
    opened: bool,
    /// When the call is given up unless something comes from it.
    deadline: Time,
    /// When it is given up whatever comes; for watches and streams.
    end: Time,
}

impl<T> Session<T> {
    /// A session that has not started; equal seeds give equal pauses.
    pub fn new(target: Target, options: Options, seed: u64) -> Self {
        Self {
            streams: options.streaming_lists,
            target,
            options,
            rng: Rng::with_seed(seed),
            backoff: Backoff::new(
                Duration::from_millis(800),
                2.0,
                Duration::from_secs(30),
                1.0,
                Duration::from_secs(120),
            ),
            calls: 0,
            state: State::NotStarted,
            fruitless: 0,
            known: Known::default(),
            reported: false,
            synced: false,
            trouble: None,
            outputs: Vec::new(),
        }
    }

    /// Opens the first call. Does nothing if the session has started.
    pub fn start(&mut self, now: Time) {
        if matches!(self.state, State::NotStarted) {
            let load = self.load(Cursor::Cached);
            self.open(load, now);
        }
    }

    /// Takes in what became of a call; ignored if the call is not the current one.
    pub fn step(&mut self, input: Input<T>, now: Time) {
        let State::Calling(calling) = &self.state else { return };
        if calling.id != input.call() {
            return;
        }
        let stage = calling.stage.clone();
        match (input, stage) {
            (Input::Page(_, page), Stage::List(_)) => self.page(page, now),
            (Input::Opened(_), Stage::Stream | Stage::Watch(_)) => self.opened(now),
            (Input::Frame(_, frame), Stage::Stream | Stage::Watch(_)) => self.frame(frame, now),
            (Input::Refused(_, refusal), stage) => self.refused(&refusal, stage, now),
            (Input::Failed(_, message), stage) => self.failed(&message, stage, now),
            // It ended without the closing bookmark, as where the server does not know of those.
            (Input::Closed(_), Stage::Stream) => self.fall_back(now),
            (Input::Closed(_), Stage::Watch(version)) => self.again(Stage::Watch(version), now),
            (Input::Closed(_), stage @ Stage::List(_)) => self.failed("no answer", stage, now),
            // No call of this sort is answered like that.
            (Input::Page(..) | Input::Opened(_) | Input::Frame(..), _) => {}
        }
    }

    /// Does what has become due.
    pub fn tick(&mut self, now: Time) {
        if self.next_deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match std::mem::replace(&mut self.state, State::NotStarted) {
            State::NotStarted => {}
            State::Waiting { next, .. } => self.open(next, now),
            State::Calling(calling) => self.give_up(calling, now),
        }
    }

    /// When to call [`Session::tick`] next.
    pub const fn next_deadline(&self) -> Option<Time> {
        match &self.state {
            State::NotStarted => None,
            State::Waiting { until, .. } => Some(*until),
            State::Calling(calling) => Some(calling.deadline),
        }
    }

    /// Takes out what is to be done and what has been learned, in order.
    pub fn outputs(&mut self) -> std::vec::Drain<'_, Output<T>> {
        self.outputs.drain(..)
    }

    /// Whether a complete state has been reported.
    pub const fn is_synced(&self) -> bool {
        self.synced
    }

    /// What is wrong, if anything has failed since the server last answered as asked.
    pub const fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }
}

/// Calls and their ends.
impl<T> Session<T> {
    /// The call that begins to load a complete state; lists begin at `cursor`.
    fn load(&self, cursor: Cursor) -> Stage {
        if self.streams { Stage::Stream } else { Stage::List(cursor) }
    }

    fn open(&mut self, stage: Stage, now: Time) {
        if matches!(stage, Stage::Stream | Stage::List(Cursor::Cached | Cursor::Latest)) {
            self.known.begin_load();
        }
        self.calls += 1;
        let id = CallId(self.calls);
        let life = self.watch_life();
        let path = match &stage {
            Stage::Stream => self.target.streaming_list(life),
            Stage::List(cursor) => self.target.list(self.options.page_size, cursor),
            Stage::Watch(version) => self.target.watch(version, life),
        };
        let stream = !matches!(stage, Stage::List(_));
        let timeout = self.options.answer_timeout;
        self.outputs.push(Output::Open(Call { id, stream, path, timeout }));
        let deadline = now + timeout;
        let end = deadline.max(now + life + self.options.watch_grace);
        self.state = State::Calling(Calling { id, stage, opened: false, deadline, end });
    }

    fn watch_life(&mut self) -> Duration {
        let shortest = self.options.watch_timeout.as_secs();
        Duration::from_secs(self.rng.u64(shortest..=shortest.saturating_mul(2)))
    }

    /// Goes on after an end that belongs to the protocol: at once, unless that was fruitless
    /// before.
    fn again(&mut self, next: Stage, now: Time) {
        self.fruitless = self.fruitless.saturating_add(1);
        if self.fruitless > FRUITLESS_CALLS {
            self.wait(next, None, now);
        } else {
            self.open(next, now);
        }
    }

    fn wait(&mut self, next: Stage, at_least: Option<Duration>, now: Time) {
        let pause = self.backoff.next(now, &mut self.rng).max(at_least.unwrap_or_default());
        self.state = State::Waiting { until: now + pause, next };
    }

    /// Loads complete states as paged lists from now on.
    fn fall_back(&mut self, now: Time) {
        self.streams = false;
        // What a cache holds may be older than what the stream has said.
        let cursor = if self.reported { Cursor::Latest } else { Cursor::Cached };
        self.open(Stage::List(cursor), now);
    }

    fn refused(&mut self, refusal: &Refusal, stage: Stage, now: Time) {
        if refusal.is_expired() || refusal.is_too_large_version() {
            return self.again(self.load(Cursor::Latest), now);
        }
        let next = match stage {
            Stage::Stream if refusal.is_unsupported() => return self.fall_back(now),
            // The version or the token is not understood.
            Stage::Watch(_) | Stage::List(Cursor::Next(_)) if refusal.is_unsupported() => {
                self.load(Cursor::Latest)
            }
            same => same,
        };
        self.note(trouble::explain(&self.target.path, refusal), Some(refusal.code), now);
        self.wait(next, refusal.retry_after, now);
    }

    fn failed(&mut self, message: &str, stage: Stage, now: Time) {
        self.note(format!("{}: {message}", self.target.path), None, now);
        self.wait(stage, None, now);
    }

    fn note(&mut self, message: String, code: Option<u16>, now: Time) {
        let since = self.trouble.as_ref().map_or(now, |trouble| trouble.since);
        self.trouble = Some(Trouble { message, since, code });
    }

    /// The deadline of a call has passed.
    fn give_up(&mut self, calling: Calling, now: Time) {
        self.outputs.push(Output::Close(calling.id));
        match calling.stage {
            Stage::Stream if calling.opened => self.fall_back(now),
            Stage::Watch(_) if calling.opened => self.again(calling.stage, now),
            stage => {
                let seconds = self.options.answer_timeout.as_secs();
                self.failed(&format!("no answer within {seconds} s"), stage, now);
            }
        }
    }
}

/// What calls bring.
impl<T> Session<T> {
    fn opened(&mut self, now: Time) {
        self.trouble = None;
        let silence_limit = self.options.silence_limit;
        if let State::Calling(calling) = &mut self.state {
            calling.opened = true;
            calling.deadline = match calling.stage {
                Stage::Stream => calling.end.min(now + silence_limit),
                _ => calling.end,
            };
        }
    }

    fn page(&mut self, page: Page<T>, now: Time) {
        self.trouble = None;
        for (meta, object) in page.items {
            self.changed(meta, object);
        }
        for (meta, message) in page.undecodable {
            self.undecodable(meta, message);
        }
        let next = match page.next {
            Some(token) => Stage::List(Cursor::Next(token)),
            None => {
                self.complete();
                Stage::Watch(Version::from(&page.resource_version))
            }
        };
        self.open(next, now);
    }

    fn frame(&mut self, frame: Frame<T>, now: Time) {
        let version = match &frame {
            Frame::Changed(meta, _) | Frame::Deleted(meta) => Some(&meta.resource_version),
            Frame::Undecodable { meta, .. } => meta.as_ref().map(|meta| &meta.resource_version),
            Frame::Bookmark { resource_version, .. } => Some(resource_version),
            Frame::Error(_) => None,
        };
        if version.is_some_and(|version| !self.advance(version, now)) {
            return;
        }
        match frame {
            Frame::Changed(meta, object) => self.changed(meta, object),
            Frame::Deleted(meta) => self.deleted(meta),
            Frame::Undecodable { meta, message } => self.undecodable(meta, message),
            Frame::Bookmark { resource_version, initial_events_end: true } => {
                self.initial_events_end(&resource_version);
            }
            Frame::Bookmark { .. } => {}
            Frame::Error(refusal) => self.error(&refusal, now),
        }
    }

    /// Notes how far a stream has come, and whether what it says there is to be heard: a watch that
    /// repeats what lies before the version it has reached is not.
    fn advance(&mut self, version: &Arc<str>, now: Time) -> bool {
        let State::Calling(calling) = &mut self.state else { return false };
        match &mut calling.stage {
            Stage::Watch(reached) => {
                let version = Version::from(version);
                if version.is_older_than(reached) {
                    return false;
                }
                if version != *reached {
                    self.fruitless = 0;
                }
                *reached = version;
            }
            // The initial state comes in no order of versions.
            Stage::Stream => {
                calling.deadline = calling.end.min(now + self.options.silence_limit);
            }
            Stage::List(_) => {}
        }
        true
    }

    fn initial_events_end(&mut self, version: &Arc<str>) {
        if let State::Calling(calling) = &mut self.state
            && calling.stage == Stage::Stream
        {
            calling.stage = Stage::Watch(Version::from(version));
            calling.deadline = calling.end;
            self.complete();
        }
    }

    fn error(&mut self, refusal: &Refusal, now: Time) {
        if let State::Calling(calling) = std::mem::replace(&mut self.state, State::NotStarted) {
            self.outputs.push(Output::Close(calling.id));
            self.refused(refusal, calling.stage, now);
        }
    }
}

/// Reports.
impl<T> Session<T> {
    fn changed(&mut self, meta: Meta, object: T) {
        self.reported = true;
        match self.known.changed(&meta) {
            News::None => return,
            News::Changed => {}
            News::Replaced(old) => self.outputs.push(Output::Deleted(old)),
        }
        self.outputs.push(Output::Changed(meta, object));
    }

    fn deleted(&mut self, meta: Meta) {
        if self.known.deleted(&meta) {
            self.outputs.push(Output::Deleted(meta));
        }
    }

    fn undecodable(&mut self, meta: Option<Meta>, message: String) {
        self.reported = true;
        if let Some(meta) = &meta {
            let (replaced, is_news) = self.known.undecodable(meta);
            self.outputs.extend(replaced.map(Output::Deleted));
            if !is_news {
                return;
            }
        }
        self.outputs.push(Output::Skipped { meta, message });
    }

    /// The state is complete: what it did not name is gone.
    fn complete(&mut self) {
        self.outputs.extend(self.known.end_load().into_iter().map(Output::Deleted));
        if !std::mem::replace(&mut self.synced, true) {
            self.outputs.push(Output::Synced);
        }
    }
}
