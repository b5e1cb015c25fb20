//! An API server of one kind with a history of changes and configurable quirks, for the part
//! `reflector`.

use std::collections::{BTreeMap, VecDeque};

use control::reflector::{
    Call, NamespacedName, ObjectMeta, Page, StatusError, Undecodable, WatchEvent,
};
use framework::Uid;

/// The objects at one resource version, by name.
pub(super) type Objects = BTreeMap<&'static str, Version>;

/// One version of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    uid: u64,
    version: u64,
    decodable: bool,
}

/// Deviations from the ideal API server.
#[derive(Debug, Clone)]
pub(super) struct Quirks {
    /// Streaming lists are rejected with this status.
    pub(super) rejects_watch_list: Option<u16>,
    /// Streaming lists are treated as watches, without the bookmark at the end.
    pub(super) ignores_send_initial_events: bool,
    /// Number of versions by which the cache is behind.
    pub(super) lag: u64,
    /// Number of events before the requested version that a watch repeats.
    pub(super) repeats: u64,
    /// An expired version is reported by an ERROR event instead of status 410.
    pub(super) expires_in_stream: bool,
    /// UIDs are no UUIDs.
    pub(super) has_odd_uids: bool,
}

/// The server. Each event has its own version; the first version is 1.
#[derive(Debug)]
pub(super) struct ApiServer {
    quirks: Quirks,
    /// The events: name, metadata and, unless it is a deletion, the new version of the object.
    history: Vec<(&'static str, ObjectMeta, Option<Version>)>,
    /// Events up to this version have expired.
    compacted: u64,
    /// Whether versions have started over since the last list.
    is_restored: bool,
    uids: u64,
}

pub(super) enum Response {
    Page(Page<()>),
    Watch(Watch),
    Error(StatusError),
}

/// An open watch.
#[derive(Debug)]
pub(super) struct Watch {
    /// Events to send before those of the history.
    first: VecDeque<WatchEvent<()>>,
    /// The version of the last event sent.
    sent: u64,
}

impl ApiServer {
    pub(super) const fn new(quirks: Quirks) -> Self {
        Self { quirks, history: Vec::new(), compacted: 0, is_restored: false, uids: 0 }
    }

    pub(super) const fn version(&self) -> u64 {
        self.history.len() as u64
    }

    fn objects(&self, version: u64) -> Objects {
        let mut objects = Objects::new();
        for (name, _, state) in self.history.iter().take(version as usize) {
            match state {
                Some(state) => objects.insert(name, *state),
                None => objects.remove(name),
            };
        }
        objects
    }

    /// Returns the objects in their present state that can be decoded.
    pub(super) fn decodable(&self) -> impl Iterator<Item = ObjectMeta> {
        let objects = self.objects(self.version()).into_iter();
        let decodable = objects.filter(|(_, object)| object.decodable);
        decodable.map(|(name, object)| self.identity(name, &object))
    }

    /// Whether there is an object of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.objects(self.version()).contains_key(name)
    }

    /// Creates or updates an object.
    pub(super) fn put(&mut self, name: &'static str, decodable: bool) {
        let known = self.objects(self.version()).get(name).map(|object| object.uid);
        let uid = known.unwrap_or_else(|| {
            self.uids += 1;
            self.uids
        });
        let version = self.version() + 1;
        let state = Version { uid, version, decodable };
        self.history.push((name, self.identity(name, &state), Some(state)));
    }

    pub(super) fn delete(&mut self, name: &'static str) {
        if let Some(mut object) = self.objects(self.version()).remove(name) {
            object.version = self.version() + 1;
            self.history.push((name, self.identity(name, &object), None));
        }
    }

    pub(super) const fn compact(&mut self) {
        self.compacted = self.version();
    }

    /// Restores a backup: the last changes are lost. Until the next list it knows no version that
    /// was seen before.
    pub(super) fn restore(&mut self, lost: u64) {
        let version = self.version().saturating_sub(lost);
        self.history.truncate(version as usize);
        self.compacted = self.compacted.min(version);
        self.is_restored = true;
    }

    pub(super) fn respond(&mut self, call: &Call) -> Response {
        let query = call.path.split_once('?').map_or("", |(_, query)| query);
        let query: BTreeMap<&str, &str> =
            query.split('&').filter_map(|part| part.split_once('=')).collect();
        let number = |key: &str| query[key].parse::<u64>().expect("a number");
        let is_known = query.contains_key("resourceVersion") && query.contains_key("watch")
            || query.contains_key("continue");
        if !is_known {
            self.is_restored = false;
        } else if self.is_restored {
            return Response::Error(status(410, "too old resource version"));
        }
        if query.contains_key("sendInitialEvents") {
            return self.initial_events();
        }
        if query.contains_key("watch") {
            return self.watch(number("resourceVersion"));
        }
        let (version, after) = match query.get("continue") {
            Some(token) => {
                let (version, name) = token.split_once('-').expect("a token of this server");
                (version.parse().expect("a version"), name)
            }
            None if query.get("resourceVersion") == Some(&"0") => {
                (self.version().saturating_sub(self.quirks.lag), "")
            }
            None => (self.version(), ""),
        };
        if !after.is_empty() && (version < self.compacted || version > self.version()) {
            return Response::Error(status(410, "the provided continue parameter is too old"));
        }
        Response::Page(self.page(version, after, number("limit") as usize))
    }

    fn page(&self, version: u64, after: &str, limit: usize) -> Page<()> {
        let mut page = Page {
            items: Vec::new(),
            undecodable: Vec::new(),
            resource_version: version.to_string().into(),
            continue_token: None,
        };
        let objects = self.objects(version);
        let rest: Vec<_> = objects.iter().filter(|(name, _)| **name > after).collect();
        for (name, object) in rest.iter().take(limit) {
            match object.decodable {
                true => page.items.push((self.identity(name, object), ())),
                false => page.undecodable.push(undecodable(self.identity(name, object))),
            }
        }
        if rest.len() > limit {
            page.continue_token = Some(format!("{version}-{}", rest[limit - 1].0));
        }
        page
    }

    fn initial_events(&self) -> Response {
        if let Some(code) = self.quirks.rejects_watch_list {
            return Response::Error(status(code, "sendInitialEvents: Forbidden"));
        }
        let objects = self.objects(self.version());
        let mut first: VecDeque<_> =
            objects.iter().map(|(name, object)| self.changed(name, object)).collect();
        if !self.quirks.ignores_send_initial_events {
            first.push_back(bookmark(self.version(), true));
        }
        Response::Watch(Watch { first, sent: self.version() })
    }

    fn watch(&self, version: u64) -> Response {
        if version > self.version() {
            return Response::Error(status(504, "Too large resource version"));
        }
        let expired = status(410, "too old resource version");
        match version < self.compacted {
            true if self.quirks.expires_in_stream => {
                let first = VecDeque::from([WatchEvent::Error(expired)]);
                Response::Watch(Watch { first, sent: version })
            }
            true => Response::Error(expired),
            false => {
                let sent = version.saturating_sub(self.quirks.repeats);
                Response::Watch(Watch { first: VecDeque::new(), sent })
            }
        }
    }

    /// Returns the next event of a watch, if there is one.
    pub(super) fn next_event(&self, watch: &mut Watch) -> Option<WatchEvent<()>> {
        if let Some(event) = watch.first.pop_front() {
            return Some(event);
        }
        let (name, meta, state) = self.history.get(watch.sent as usize)?;
        watch.sent += 1;
        Some(match state {
            Some(object) => self.changed(name, object),
            None => WatchEvent::Deleted(meta.clone()),
        })
    }

    fn identity(&self, name: &str, object: &Version) -> ObjectMeta {
        let uid = match self.quirks.has_odd_uids {
            true => format!("u{}", object.uid),
            false => format!("00000000-0000-4000-8000-{:012}", object.uid),
        };
        // Names before "c" are in a namespace of their own.
        let namespace = if name < "c" { "first" } else { "second" };
        ObjectMeta {
            key: NamespacedName { namespace: namespace.into(), name: name.into() },
            uid: Uid::from(&*uid),
            resource_version: object.version.to_string().into(),
        }
    }

    fn changed(&self, name: &str, object: &Version) -> WatchEvent<()> {
        let meta = self.identity(name, object);
        match object.decodable {
            true => WatchEvent::Updated(meta, ()),
            false => WatchEvent::Undecodable(undecodable(meta)),
        }
    }
}

fn undecodable(meta: ObjectMeta) -> Undecodable<()> {
    Undecodable { meta: Some(meta), message: "no".into(), substitute: None }
}

impl Watch {
    /// Returns whether all events have been sent.
    pub(super) fn is_idle(&self, server: &ApiServer) -> bool {
        self.first.is_empty() && self.sent == server.version()
    }

    /// Sends this many events again, unless initial events are still being sent.
    pub(super) fn repeat(&mut self, events: u64) {
        if self.first.is_empty() {
            self.sent = self.sent.saturating_sub(events);
        }
    }
}

pub(super) fn status(code: u16, message: &str) -> StatusError {
    StatusError { code, reason: String::new(), message: message.into(), retry_after: None }
}

pub(super) fn bookmark(version: u64, initial_events_end: bool) -> WatchEvent<()> {
    WatchEvent::Bookmark { resource_version: version.to_string().into(), initial_events_end }
}
