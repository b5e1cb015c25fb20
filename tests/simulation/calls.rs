//! Invariants of the calls of reflectors: where they continue, and how soon.

use std::time::Duration;

use control::reflector::{Call, CallId, Input, ObjectMeta, WatchEvent};
use framework::Time;

use super::rules::{Checked, rule};

/// The shortest pause after a failure.
const SHORTEST_PAUSE: Duration = Duration::from_millis(800);
/// The longest pause after a failure: the longest backoff with its jitter.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Maximum time for which a watch stays open in silence, if the server is known to send bookmarks.
/// A bookmark comes about every minute.
const LONGEST_SILENCE: Duration = Duration::from_secs(90);
/// Maximum time for which any call stays open in silence: a watch that requests at most ten
/// minutes.
const LONGEST_CALL: Duration = Duration::from_secs(630);
/// Number of times in a row for which the pause that the server asks for is kept, and not made
/// longer.
const MOST_REPETITIONS: u32 = 10;
/// Maximum time for which a process is stopped, in which it does nothing.
const STOPPED: Duration = Duration::from_secs(45);

/// The calls of one reflector.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The open call.
    open: Option<CallId>,
    /// Whether it shows the changes after a list.
    is_following: bool,
    /// The last version that a list or a watch has reached.
    reached: u64,
    /// Whether the server has sent a bookmark of a watch.
    has_bookmarks: bool,
    /// The time of the last input about the open call, or of its opening.
    last: Option<Time>,
    /// How the last call ended.
    end: End,
    /// The pause that the server asked for when it ended, and how often it has done so in a row.
    pause: (Duration, u32),
    /// Whether a server has answered that it has no streaming lists.
    lists_in_pages: bool,
}

/// The end of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum End {
    /// It has brought a page, or there was none.
    #[default]
    Page,
    /// The reflector has closed it.
    TimedOut,
    /// The server has ended it.
    Closed,
    /// It has failed.
    Failed,
    /// The server has refused it, or cannot continue it.
    Refused,
    /// All objects are to be listed again.
    Relist,
}

impl Calls {
    /// Records an input. Inputs about other calls than the open one are ignored, like by the
    /// reflector.
    pub(crate) fn heard<T>(&mut self, input: &Input<T>, now: Time) {
        let (id, end) = match input {
            Input::Opened(id) => (id, None),
            Input::Event(id, WatchEvent::Error(_)) => (id, Some(End::Refused)),
            Input::Page(id, _) | Input::Event(id, _) => (id, None),
            Input::Closed(id) => (id, Some(End::Closed)),
            Input::Failed(id, _) => (id, Some(End::Failed)),
            Input::Error(id, _) => (id, Some(End::Refused)),
        };
        if self.open != Some(*id) {
            return;
        }
        self.last = Some(now);
        let repeated = std::mem::take(&mut self.pause).1;
        match input {
            Input::Error(_, error) => {
                self.lists_in_pages |= error.code == 422;
                let pause = error.retry_after.filter(|_| error.code == 429);
                self.pause = pause.map_or_else(Default::default, |pause| (pause, repeated + 1));
            }
            Input::Page(_, page) => self.reached = version(&page.resource_version),
            Input::Event(_, WatchEvent::Bookmark { resource_version, initial_events_end }) => {
                self.has_bookmarks = true;
                if *initial_events_end {
                    (self.is_following, self.reached) = (true, 0);
                }
                self.reaches(resource_version);
            }
            Input::Event(_, WatchEvent::Updated(meta, _) | WatchEvent::Deleted(meta)) => {
                let ObjectMeta { resource_version, .. } = meta;
                self.reaches(resource_version);
            }
            _ => {}
        }
        if let Some(end) = end {
            self.end = end;
            self.open = None;
        }
    }

    /// The events of a list are not ordered.
    fn reaches(&mut self, reached: &str) {
        if self.is_following {
            self.reached = self.reached.max(version(reached));
        }
    }

    /// Checks a call that the reflector closes: it was not silent for too long.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn closes(&mut self, id: CallId, now: Time) -> Checked {
        if self.open.take_if(|open| *open == id).is_none() {
            return Ok(());
        }
        let silence = self.last.map_or(Duration::ZERO, |last| now.since(last));
        let is_watched = self.is_following && self.has_bookmarks;
        let longest = if is_watched { LONGEST_SILENCE } else { LONGEST_CALL };
        rule(silence <= longest + STOPPED, || format!("a call is closed after {silence:?}"))?;
        (self.end, self.pause) = (End::TimedOut, Default::default());
        self.last = Some(now);
        Ok(())
    }

    /// Records that all objects are to be listed again.
    pub(crate) fn relists(&mut self) {
        (self.end, self.pause) = (End::Relist, Default::default());
        self.open = None;
    }

    /// Checks a call that the reflector opens. A watch continues at the last version, and is not
    /// replaced by a list without need. A list that no server streams is requested in pages. After
    /// a failure there is a pause, but no long one; it is the one that the server asks for, if it
    /// does.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn opens(&mut self, call: &Call, now: Time) -> Checked {
        let path = &call.path;
        let since = self.last.map_or(Duration::ZERO, |last| now.since(last));
        let end = std::mem::take(&mut self.end);
        let is_streamed = path.contains("sendInitialEvents=true");
        rule(!is_streamed || !self.lists_in_pages, || format!("{path} is to be streamed again"))?;
        let is_list = !call.is_watch || is_streamed;
        if is_list {
            let may_list = !self.is_following || matches!(end, End::Refused | End::Relist);
            rule(may_list, || format!("{path} is listed after {end:?}"))?;
        } else {
            let from = path.rsplit_once("&resourceVersion=").map_or(0, |(_, from)| version(from));
            let reached = self.reached;
            rule(from == reached, || format!("{path} does not continue at {reached}"))?;
        }
        let (pause, repeated) = self.pause;
        rule(since >= pause, || {
            format!("{path} is opened {since:?} after {end:?}, not {pause:?}")
        })?;
        let longest = match repeated {
            1..=MOST_REPETITIONS => pause,
            _ => LONGEST_PAUSE,
        };
        let is_late = end != End::Relist && since > longest + STOPPED;
        rule(!is_late, || format!("{path} is opened {since:?} after {end:?}"))?;
        let is_soon = end == End::Failed && since < SHORTEST_PAUSE;
        rule(!is_soon, || format!("{path} is opened {since:?} after a failure"))?;
        self.open = Some(call.id);
        self.is_following = !is_list;
        self.last = Some(now);
        Ok(())
    }
}

fn version(text: &str) -> u64 {
    text.parse().expect("versions are numbers")
}
