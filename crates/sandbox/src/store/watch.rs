//! Watches: from where they start, and what they have to say by now.

use std::time::Duration;

use bytes::Bytes;
use framework::Time;

use super::Store;
use super::collection::{Change, ChangeKind};
use super::encoding;
use super::list::{ListOptions, parse_version};
use super::representation::{Line, Representation};
use crate::api::{Frames, Request, WatchId};
use crate::metadata::{self, namespace};
use crate::resources::Resource;
use crate::selector::Selection;
use crate::status::{Cause, Status};

/// Time between bookmarks.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// A watch that sets no timeout lasts between one and two of these.
const SHORTEST_DEFAULT_TIMEOUT: u64 = 30 * 60;

/// An open watch.
#[derive(Debug)]
pub(super) struct Watch {
    resource: &'static Resource,
    namespace: String,
    selection: Selection,
    representation: Representation,
    start: Start,
    /// Everything up to this version has been said.
    seen: u64,
    bookmarks: bool,
    next_bookmark: Time,
    end: Time,
    /// Whether nothing has been said yet.
    fresh: bool,
}

/// How a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// With what changed after the version it named.
    Changes,
    /// With all objects there are, as if they had just come.
    Objects,
    /// The same, and then a bookmark that says that these were all.
    ObjectsAndMark,
}

impl Store {
    /// Opens a watch on a namespace, or on all if `namespace` is empty.
    pub(super) fn watch(
        &mut self,
        resource: &'static Resource,
        namespace: &str,
        request: &Request,
        now: Time,
    ) -> Result<WatchId, Status> {
        let text = |name| request.parameter(name).unwrap_or_default();
        let selection = Selection::parse(resource, text("labelSelector"), text("fieldSelector"))?;
        let version = parse_version(text("resourceVersion"))?;
        let bookmarks = request.flag("allowWatchBookmarks");
        let start = start(request, version, bookmarks)?;
        if let (Some(wanted), true) = (version, start != Start::Changes)
            && wanted > self.version
        {
            return Err(Status::version_too_large(wanted, self.version));
        }
        let timeout = match text("timeoutSeconds").parse() {
            Ok(seconds) if seconds > 0 => seconds,
            _ => self.identities.between(SHORTEST_DEFAULT_TIMEOUT, 2 * SHORTEST_DEFAULT_TIMEOUT),
        };
        let watch = Watch {
            resource,
            namespace: namespace.to_owned(),
            selection,
            representation: Representation::negotiate_stream(request)?,
            start,
            seen: version.unwrap_or(self.version),
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

    /// What a watch has to say by now. One that has ended, or does not exist, is closed.
    pub fn frames(&mut self, id: WatchId, now: Time) -> Frames {
        let Some(mut watch) = self.watches.remove(&id) else {
            return Frames { lines: Vec::new(), ended: true };
        };
        let frames = watch.advance(self, now);
        if !frames.ended {
            self.watches.insert(id, watch);
        }
        frames
    }

    /// Closes a watch that nobody reads any more.
    pub fn close(&mut self, id: WatchId) {
        self.watches.remove(&id);
    }
}

/// The rules for `sendInitialEvents`, `resourceVersionMatch` and `resourceVersion` of a watch.
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

impl Watch {
    fn advance(&mut self, store: &Store, now: Time) -> Frames {
        let mut lines = Vec::new();
        match self.start {
            Start::Changes if !self.is_remembered(store) => {
                return Frames { lines: vec![self.expired(store)], ended: true };
            }
            Start::Changes => self.say_changes(store, now, &mut lines),
            Start::Objects | Start::ObjectsAndMark => self.say_objects(store, now, &mut lines),
        }
        let ended = now >= self.end || !store.serves(self.resource);
        if self.bookmarks && (now >= self.next_bookmark || ended) {
            self.next_bookmark = now + BOOKMARK_PERIOD;
            let line = self.line(now);
            lines.push(self.representation.bookmark(self.resource, self.seen, false, line));
        }
        Frames { lines, ended }
    }

    fn is_remembered(&self, store: &Store) -> bool {
        let collection = store.collection(self.resource);
        collection.is_none_or(|collection| collection.remembers(self.seen))
    }

    fn expired(&self, store: &Store) -> Bytes {
        let message = format!("too old resource version: {} ({})", self.seen, store.version);
        encoding::frame("ERROR", Status::expired(message).to_value().to_string().as_bytes())
    }

    fn say_objects(&mut self, store: &Store, now: Time, lines: &mut Vec<Bytes>) {
        let options = ListOptions::everything(self.selection.clone());
        let page = store.list(self.resource, &self.namespace, &options);
        for stored in page.into_iter().flat_map(|page| page.items) {
            let line = self.line(now);
            let (object, body) = (&stored.object, Some(stored.body()));
            lines.push(self.representation.frame("ADDED", self.resource, object, body, line));
        }
        self.seen = store.version;
        if self.start == Start::ObjectsAndMark {
            let line = self.line(now);
            lines.push(self.representation.bookmark(self.resource, self.seen, true, line));
        }
        self.start = Start::Changes;
    }

    fn say_changes(&mut self, store: &Store, now: Time, lines: &mut Vec<Bytes>) {
        for change in store.changes_since(self.resource, self.seen) {
            if !self.namespace.is_empty() && namespace(&change.object) != self.namespace {
                continue;
            }
            if let Some(line) = self.say(change, Line { now, first: self.fresh }) {
                self.fresh = false;
                lines.push(line);
            }
        }
        self.seen = self.seen.max(store.version);
    }

    /// What a change is to those who see only the selected objects: one that leaves the selection
    /// is deleted to them, one that enters it is added.
    fn say(&self, change: &Change, line: Line) -> Option<Bytes> {
        let was = change.before.as_ref().is_some_and(|before| self.selection.matches(before));
        let is = self.selection.matches(&change.object);
        let event = match (change.kind, was, is) {
            (ChangeKind::Deleted, true, _) => ChangeKind::Deleted,
            (ChangeKind::Deleted, false, _) | (_, false, false) => return None,
            (_, false, true) => ChangeKind::Added,
            (_, true, true) => ChangeKind::Modified,
            (_, true, false) => return self.say_left(change, line),
        };
        let (object, body) = (&change.object, Some(change.body()));
        Some(self.representation.frame(event.event(), self.resource, object, body, line))
    }

    /// An object that left the selection is shown as it last was in it, with the new version.
    fn say_left(&self, change: &Change, line: Line) -> Option<Bytes> {
        let mut last = serde_json::Value::clone(change.before.as_ref()?);
        metadata::set(&mut last, "resourceVersion", change.version.to_string());
        let event = ChangeKind::Deleted.event();
        Some(self.representation.frame(event, self.resource, &last, None, line))
    }

    fn line(&mut self, now: Time) -> Line {
        Line { now, first: std::mem::replace(&mut self.fresh, false) }
    }
}
