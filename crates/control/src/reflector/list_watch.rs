//! The paths of list and watch requests.

use std::fmt;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::resource_version::ResourceVersion;

/// The characters of a query value that are escaped: all but the unreserved ones of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The objects that a reflector lists and watches: one kind, optionally filtered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListWatch {
    /// Path of the collection, such as `/api/v1/pods`.
    pub path: String,
    /// Field selector, such as `spec.nodeName=`.
    pub field_selector: Option<String>,
}

/// The start of a page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageStart {
    /// The first page, from the cache of the server (resource version 0): cheap, but possibly
    /// stale.
    Cached,
    /// The first page, in the latest state.
    Latest,
    /// The page after the one that returned this `continue` token.
    Continue(String),
}

impl ListWatch {
    /// Returns the path of a page of a list of the latest state: of the first page, or of the page
    /// after the one that returned this `continue` token.
    pub fn page(&self, page_size: u32, token: Option<String>) -> String {
        self.list(page_size, &token.map_or(PageStart::Latest, PageStart::Continue))
    }

    /// Returns the path of a page of a list.
    pub(super) fn list(&self, page_size: u32, start: &PageStart) -> String {
        let query = self.query().with("limit", page_size);
        match start {
            PageStart::Cached => query.with("resourceVersion", 0),
            PageStart::Latest => query,
            // The token implies the resource version; the server rejects requests with both.
            PageStart::Continue(token) => query.with("continue", token),
        }
        .0
    }

    /// Returns the path of a streaming list (WatchList): a watch that starts with the latest state.
    pub(super) fn watch_list(&self, timeout: Duration) -> String {
        self.watch_query(timeout)
            .with("sendInitialEvents", true)
            .with("resourceVersionMatch", "NotOlderThan")
            .0
    }

    /// Returns the path of a watch of the changes after a resource version.
    pub(super) fn watch(&self, version: &ResourceVersion, timeout: Duration) -> String {
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

/// A path with query parameters.
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
    fn paths_equal_those_of_client_go() {
        let pods = ListWatch { path: "/api/v1/pods".into(), field_selector: None };
        let pending = ListWatch {
            path: "/api/v1/pods".into(),
            field_selector: Some("spec.schedulerName=loadmaster,spec.nodeName=".into()),
        };
        let five_minutes = Duration::from_secs(300);
        let version = ResourceVersion::from(&Arc::from("217"));
        for (path, expected) in [
            (pods.list(500, &PageStart::Cached), "limit=500&resourceVersion=0"),
            (pods.list(500, &PageStart::Latest), "limit=500"),
            (pods.list(2, &PageStart::Continue("a/b=".into())), "limit=2&continue=a%2Fb%3D"),
            (pods.page(500, None), "limit=500"),
            (pods.page(2, Some("a/b=".into())), "limit=2&continue=a%2Fb%3D"),
            (
                pods.watch(&version, five_minutes),
                "watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=217",
            ),
            (
                pods.watch_list(five_minutes),
                "watch=true&allowWatchBookmarks=true&timeoutSeconds=300\
                 &sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            ),
            (
                pending.list(1, &PageStart::Latest),
                "fieldSelector=spec.schedulerName%3Dloadmaster%2Cspec.nodeName%3D&limit=1",
            ),
        ] {
            assert_eq!(path, format!("/api/v1/pods?{expected}"));
        }
    }
}
