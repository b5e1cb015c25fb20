//! Watches: their start, and the events since the last call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use framework::Time;

use super::Store;
use super::collection::{Change, ChangeKind, Stored};
use super::list::{ListOptions, parse_version};
use super::representation::{Line, Representation};
use crate::api::{Frames, Request, WatchId};
use crate::metadata::{self, namespace};
use crate::resources::Resource;
use crate::selector::Selection;
use crate::status::{Cause, Status};

/// Time between bookmarks.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// A watch without a timeout lasts between one and two times this long.
const SHORTEST_DEFAULT_TIMEOUT: u64 = 30 * 60;

/// An open watch.
#[derive(Debug)]
pub(super) struct Watch {
    resource: &'static Resource,
    namespace: String,
    selection: Selection,
    representation: Representation,
    start: Start,
    /// The version up to which the watch has sent all events.
    sent: u64,
    bookmarks: bool,
    next_bookmark: Time,
    end: Time,
    /// Whether the watch has sent nothing yet.
    fresh: bool,
}

/// The start of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The changes after the given version.
    Changes,
    /// All objects as added, then changes.
    Objects,
    /// All objects as added, a bookmark that ends them, then changes.
    ObjectsAndMark,
}

impl Store {
    /// Opens a watch on a namespace, or on all if `namespace` is empty.
    pub(super) fn watch(
        &mut self,
        resource: &'static Resource,
        namespace: &str,
        request: &Request,
        cached: u64,
        now: Time,
    ) -> Result<WatchId, Status> {
        let text = |name| request.parameter(name).unwrap_or_default();
        let selection = Selection::parse(resource, text("labelSelector"), text("fieldSelector"))?;
        let version = parse_version(text("resourceVersion"))?;
        let bookmarks = request.flag("allowWatchBookmarks");
        let start = start(request, version, bookmarks)?;
        // A streaming list without a version is as current as a list. Only the changes after a
        // version may be watched before the cache has reached it.
        let wanted = match start {
            Start::Changes => 0,
            Start::Objects => version.unwrap_or(0),
            Start::ObjectsAndMark => version.unwrap_or(self.version),
        };
        if wanted > cached {
            return Err(Status::version_too_large(wanted, cached));
        }
        let timeout = match text("timeoutSeconds").parse() {
            Ok(seconds) if seconds > 0 => seconds,
            _ => self.identities.between(SHORTEST_DEFAULT_TIMEOUT, 2 * SHORTEST_DEFAULT_TIMEOUT),
        };
        let watch = Watch {
            resource,
            namespace: namespace.to_owned(),
            selection,
            representation: Representation::negotiate_stream(resource, request)?,
            start,
            sent: version.unwrap_or(cached),
            bookmarks,
            next_bookmark: now + BOOKMARK_PERIOD,
            end: now + Duration::from_secs(timeout),
            fresh: true,
        };
        let id = WatchId(self.next_watch);
        self.next_watch += 1;
        self.watches.insert(id, watch);
        Ok(id)
    }

    /// Returns the new frames of a watch. A watch that has ended or does not exist returns the end.
    pub fn frames(&mut self, id: WatchId, now: Time) -> Frames {
        self.frames_of_cache(id, self.version, now)
    }

    /// Returns the new frames of a watch of an API server whose watch cache shows the version
    /// `cached`.
    pub fn frames_of_cache(&mut self, id: WatchId, cached: u64, now: Time) -> Frames {
        let Some(mut watch) = self.watches.remove(&id) else {
            return Frames { lines: Vec::new(), ended: true };
        };
        let frames = watch.advance(self, cached, now);
        if !frames.ended {
            self.watches.insert(id, watch);
        }
        frames
    }

    /// Returns the `Content-Type` of a watch.
    pub fn watch_content_type(&self, id: WatchId) -> Option<&'static str> {
        self.watches.get(&id).map(|watch| watch.representation.stream_content_type())
    }

    /// Closes a watch.
    pub fn close(&mut self, id: WatchId) {
        self.watches.remove(&id);
    }
}

/// Applies the rules for `sendInitialEvents`, `resourceVersionMatch` and `resourceVersion` of a
/// watch.
fn start(request: &Request, version: Option<u64>, bookmarks: bool) -> Result<Start, Status> {
    let refuse = |field: &str, why: &str| {
        Err(Status::invalid_options("ListOptions", Cause::forbidden(field, why)))
    };
    let matching = request.parameter("resourceVersionMatch").unwrap_or_default();
    match (request.parameter("sendInitialEvents"), matching) {
        (None, "") if version.is_none_or(|version| version == 0) => Ok(Start::Objects),
        (None, "") => Ok(Start::Changes),
        (None, _) => refuse(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (Some(_), "NotOlderThan") => match request.flag("sendInitialEvents") {
            true if bookmarks => Ok(Start::ObjectsAndMark),
            true => Ok(Start::Objects),
            false => Ok(Start::Changes),
        },
        (Some(_), _) => refuse(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
    }
}

impl Store {
    /// Returns the time at which a watch sends a bookmark or ends, if nothing happens before.
    pub fn watch_deadline(&self, id: WatchId) -> Option<Time> {
        self.watches.get(&id).map(Watch::next_deadline)
    }
}

impl Watch {
    fn next_deadline(&self) -> Time {
        if self.bookmarks { self.next_bookmark.min(self.end) } else { self.end }
    }

    fn advance(&mut self, store: &Store, cached: u64, now: Time) -> Frames {
        let mut lines = Vec::new();
        match self.start {
            Start::Changes if !self.is_remembered(store) => {
                return Frames { lines: vec![self.expired(store)], ended: true };
            }
            Start::Changes => self.send_changes(store, cached, now, &mut lines),
            Start::Objects | Start::ObjectsAndMark => {
                self.send_objects(store, cached, now, &mut lines);
            }
        }
        let ended = now >= self.end || !store.serves(self.resource);
        if self.bookmarks && (now >= self.next_bookmark || ended) {
            self.next_bookmark = now + BOOKMARK_PERIOD;
            // The version of a bookmark is never lower than the version that the client asked for.
            if self.sent <= cached {
                let line = self.line(now);
                lines.push(self.representation.bookmark(self.resource, self.sent, false, line));
            }
        }
        Frames { lines, ended }
    }

    fn is_remembered(&self, store: &Store) -> bool {
        let collection = store.collection(self.resource);
        collection.is_none_or(|collection| collection.remembers(self.sent))
    }

    fn expired(&self, store: &Store) -> Bytes {
        let message = format!("too old resource version: {} ({})", self.sent, store.version);
        self.representation.error(&Status::expired(message))
    }

    fn send_objects(&mut self, store: &Store, cached: u64, now: Time, lines: &mut Vec<Bytes>) {
        let options = ListOptions::everything(self.selection.clone());
        let page = store.list(self.resource, &self.namespace, &options, cached);
        for stored in page.into_iter().flat_map(|page| page.items) {
            let line = self.line(now);
            lines.push(self.representation.frame("ADDED", self.resource, &stored, line));
        }
        self.sent = cached;
        if self.start == Start::ObjectsAndMark {
            let line = self.line(now);
            lines.push(self.representation.bookmark(self.resource, self.sent, true, line));
        }
        self.start = Start::Changes;
    }

    fn send_changes(&mut self, store: &Store, cached: u64, now: Time, lines: &mut Vec<Bytes>) {
        let changes = store.changes_since(self.resource, self.sent);
        for change in changes.take_while(|change| change.version <= cached) {
            if !self.namespace.is_empty() && namespace(&change.object) != self.namespace {
                continue;
            }
            if let Some(line) = self.event_of(change, Line { now, first: self.fresh }) {
                self.fresh = false;
                lines.push(line);
            }
        }
        self.sent = self.sent.max(cached);
    }

    /// Returns the event of a change for a watch with selectors: an object that leaves the
    /// selection counts as deleted, one that enters it as added.
    fn event_of(&self, change: &Change, line: Line) -> Option<Bytes> {
        let was = change.before.as_ref().is_some_and(|before| self.selection.matches(before));
        let is = self.selection.matches(&change.object);
        let event = match (change.kind, was, is) {
            (ChangeKind::Deleted, true, _) => ChangeKind::Deleted,
            (ChangeKind::Deleted, false, _) | (_, false, false) => return None,
            (_, false, true) => ChangeKind::Added,
            (_, true, true) => ChangeKind::Modified,
            (_, true, false) => return self.deletion_of_unselected(change, line),
        };
        Some(self.representation.frame(event.event(), self.resource, &change.stored(), line))
    }

    /// Returns the deletion of an object that left the selection: its last selected state, with the
    /// new version.
    fn deletion_of_unselected(&self, change: &Change, line: Line) -> Option<Bytes> {
        let mut last = serde_json::Value::clone(change.before.as_ref()?);
        metadata::set(&mut last, "resourceVersion", change.version.to_string());
        let event = ChangeKind::Deleted.event();
        let last = Stored::new(Arc::new(last));
        Some(self.representation.frame(event, self.resource, &last, line))
    }

    fn line(&mut self, now: Time) -> Line {
        Line { now, first: std::mem::replace(&mut self.fresh, false) }
    }
}
