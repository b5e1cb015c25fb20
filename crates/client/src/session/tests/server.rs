//! A naive API server of one kind: it has a history, and moods.

use std::collections::{BTreeMap, VecDeque};

use super::super::Page;
use super::*;

/// Objects by name; what the server holds at some version.
pub(super) type Objects = BTreeMap<&'static str, Version>;

/// One version of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) uid: u64,
    pub(super) version: u64,
    pub(super) decodable: bool,
}

/// What makes a server hard to work with.
#[derive(Debug, Clone)]
pub(super) struct Moods {
    /// It does not know streaming lists, and says so.
    pub(super) refuses_streams: bool,
    /// It does not know streaming lists, and takes them for watches.
    pub(super) forgets_the_closing_bookmark: bool,
    /// How many versions its cache is behind.
    pub(super) lag: u64,
    /// How many events before the version asked for a watch begins with.
    pub(super) repeats: u64,
    /// Whether it tells of an expired version in the stream instead of refusing it.
    pub(super) expires_in_stream: bool,
}

/// The server. Every version is one event, the first version is 1.
#[derive(Debug)]
pub(super) struct Server {
    moods: Moods,
    /// What happened: the name, and the version that it has since, if it is still there.
    history: Vec<(&'static str, Meta, Option<Version>)>,
    /// Events up to this version are forgotten.
    compacted: u64,
    uids: u64,
}

pub(super) enum Answer {
    Page(Page<Object>),
    Stream(Stream),
    Refused(Refusal),
}

/// A watch that is open.
#[derive(Debug)]
pub(super) struct Stream {
    /// To be sent before what happens.
    first: VecDeque<Frame<Object>>,
    /// The version of the last event sent.
    sent: u64,
}

impl Server {
    pub(super) const fn new(moods: Moods) -> Self {
        Self { moods, history: Vec::new(), compacted: 0, uids: 0 }
    }

    pub(super) const fn version(&self) -> u64 {
        self.history.len() as u64
    }

    pub(super) fn objects(&self, version: u64) -> Objects {
        let mut objects = Objects::new();
        for (name, _, state) in self.history.iter().take(version as usize) {
            match state {
                Some(state) => objects.insert(name, *state),
                None => objects.remove(name),
            };
        }
        objects
    }

    /// Creates or updates.
    pub(super) fn put(&mut self, name: &'static str, decodable: bool) {
        let known = self.objects(self.version()).get(name).map(|object| object.uid);
        let uid = known.unwrap_or_else(|| {
            self.uids += 1;
            self.uids
        });
        let version = self.version() + 1;
        let state = Version { uid, version, decodable };
        self.history.push((name, identity(name, &state), Some(state)));
    }

    pub(super) fn delete(&mut self, name: &'static str) {
        if let Some(mut object) = self.objects(self.version()).remove(name) {
            object.version = self.version() + 1;
            self.history.push((name, identity(name, &object), None));
        }
    }

    pub(super) const fn compact(&mut self) {
        self.compacted = self.version();
    }

    pub(super) fn answer(&self, call: &Call) -> Answer {
        let query = call.path.split_once('?').expect("a query").1;
        let query: BTreeMap<&str, &str> =
            query.split('&').map(|part| part.split_once('=').expect("a value")).collect();
        let number = |key: &str| query[key].parse::<u64>().expect("a number");
        if query.contains_key("sendInitialEvents") {
            return self.initial_events();
        }
        if query.contains_key("watch") {
            return self.watch(number("resourceVersion"));
        }
        let (version, after) = match query.get("continue") {
            Some(token) => {
                let (version, name) = token.split_once("-").expect("a token of ours");
                (version.parse().expect("a version"), name)
            }
            None if query.get("resourceVersion") == Some(&"0") => {
                (self.version().saturating_sub(self.moods.lag), "")
            }
            None => (self.version(), ""),
        };
        if !after.is_empty() && version < self.compacted {
            return Answer::Refused(refusal(410, "the provided continue parameter is too old"));
        }
        Answer::Page(self.page(version, after, number("limit") as usize))
    }

    fn page(&self, version: u64, after: &str, limit: usize) -> Page<Object> {
        let mut page = Page {
            items: Vec::new(),
            undecodable: Vec::new(),
            resource_version: version.to_string().into(),
            next: None,
        };
        let objects = self.objects(version);
        let rest: Vec<_> = objects.iter().filter(|(name, _)| **name > after).collect();
        for (name, object) in rest.iter().take(limit) {
            match object.decodable {
                true => page.items.push((identity(name, object), ())),
                false => page.undecodable.push((Some(identity(name, object)), "no".into())),
            }
        }
        if rest.len() > limit {
            page.next = Some(format!("{version}-{}", rest[limit - 1].0));
        }
        page
    }

    fn initial_events(&self) -> Answer {
        if self.moods.refuses_streams {
            return Answer::Refused(refusal(422, "sendInitialEvents: Forbidden"));
        }
        let objects = self.objects(self.version());
        let mut first: VecDeque<_> = objects.iter().map(|(name, it)| changed(name, it)).collect();
        if !self.moods.forgets_the_closing_bookmark {
            first.push_back(bookmark(self.version(), true));
        }
        Answer::Stream(Stream { first, sent: self.version() })
    }

    fn watch(&self, version: u64) -> Answer {
        let expired = refusal(410, "too old resource version");
        match version < self.compacted {
            true if self.moods.expires_in_stream => {
                let first = VecDeque::from([Frame::Error(expired)]);
                Answer::Stream(Stream { first, sent: version })
            }
            true => Answer::Refused(expired),
            false => {
                let sent = version.saturating_sub(self.moods.repeats);
                Answer::Stream(Stream { first: VecDeque::new(), sent })
            }
        }
    }

    /// What a watch has to say next, if anything has happened.
    pub(super) fn next_frame(&self, stream: &mut Stream) -> Option<Frame<Object>> {
        if let Some(frame) = stream.first.pop_front() {
            return Some(frame);
        }
        let (name, meta, state) = self.history.get(stream.sent as usize)?;
        stream.sent += 1;
        Some(match state {
            Some(object) => changed(name, object),
            None => Frame::Deleted(meta.clone()),
        })
    }
}

impl Stream {
    /// Whether everything that happened has been sent.
    pub(super) fn is_idle(&self, server: &Server) -> bool {
        self.first.is_empty() && self.sent == server.version()
    }

    /// Sends some of what happened once more, unless the initial state is still being sent.
    pub(super) fn repeat(&mut self, events: u64) {
        if self.first.is_empty() {
            self.sent = self.sent.saturating_sub(events);
        }
    }
}

fn identity(name: &str, object: &Version) -> Meta {
    meta(name, &format!("u{}", object.uid), object.version)
}

fn changed(name: &str, object: &Version) -> Frame<Object> {
    let meta = identity(name, object);
    match object.decodable {
        true => Frame::Changed(meta, ()),
        false => Frame::Undecodable { meta: Some(meta), message: "no".into() },
    }
}
