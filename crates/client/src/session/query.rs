//! The paths of lists and watches.

use std::fmt;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::version::Version;

/// What of a value must be escaped in a query: all but the unreserved characters of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What a session keeps in step with: the objects of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Path of the collection, such as `/api/v1/pods`.
    pub path: String,
    /// Selects among the objects, such as `spec.nodeName=`.
    pub field_selector: Option<String>,
}

/// Where a page of a list is taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cursor {
    /// From the start, in whatever state the server has in its cache: cheap, and possibly old.
    Cached,
    /// From the start, in the state of now.
    Latest,
    /// Where the page that carried this token ended.
    Next(String),
}

impl Target {
    /// A list, page by page.
    pub(super) fn list(&self, page_size: u32, cursor: &Cursor) -> String {
        let query = self.query().with("limit", page_size);
        match cursor {
            Cursor::Cached => query.with("resourceVersion", 0),
            Cursor::Latest => query,
            // The token says which version; naming one beside it is an error.
            Cursor::Next(token) => query.with("continue", token),
        }
        .0
    }

    /// A streaming list (WatchList): the state of now as a watch, which goes on with what changes.
    pub(super) fn streaming_list(&self, timeout: Duration) -> String {
        self.watch_query(timeout)
            .with("sendInitialEvents", true)
            .with("resourceVersionMatch", "NotOlderThan")
            .0
    }

    /// A watch of what happens after a version.
    pub(super) fn watch(&self, version: &Version, timeout: Duration) -> String {
        self.watch_query(timeout).with("resourceVersion", version).0
    }

    fn watch_query(&self, timeout: Duration) -> Query {
        self.query()
            .with("watch", true)
            .with("allowWatchBookmarks", true)
            .with("timeoutSeconds", timeout.as_secs())
    }

    fn query(&self) -> Query {
        let query = Query(self.path.clone());
        match &self.field_selector {
            Some(selector) => query.with("fieldSelector", selector),
            None => query,
        }
    }
}

/// A path and as much of its query as is written.
struct Query(String);

impl Query {
    fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        self.0.push_str(key);
        self.0.push('=');
        self.0.extend(utf8_percent_encode(&value.to_string(), ESCAPED));
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn requests_read_as_those_of_client_go() {
        let pods = Target { path: "/api/v1/pods".into(), field_selector: None };
        let pending = Target {
            path: "/api/v1/pods".into(),
            field_selector: Some("spec.schedulerName=loadmaster,spec.nodeName=".into()),
        };
        let five_minutes = Duration::from_secs(300);
        let version = Version::from(&Arc::from("217"));
        for (path, expected) in [
            (pods.list(500, &Cursor::Cached), "limit=500&resourceVersion=0"),
            (pods.list(500, &Cursor::Latest), "limit=500"),
            (pods.list(2, &Cursor::Next("a/b=".into())), "limit=2&continue=a%2Fb%3D"),
            (
                pods.watch(&version, five_minutes),
                "watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=217",
            ),
            (
                pods.streaming_list(five_minutes),
                "watch=true&allowWatchBookmarks=true&timeoutSeconds=300\
                 &sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            ),
            (
                pending.list(1, &Cursor::Latest),
                "fieldSelector=spec.schedulerName%3Dloadmaster%2Cspec.nodeName%3D&limit=1",
            ),
        ] {
            assert_eq!(path, format!("/api/v1/pods?{expected}"));
        }
    }
}
