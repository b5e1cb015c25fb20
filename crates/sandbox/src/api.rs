//! Requests to the API and their answers, independent of HTTP libraries.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The group of every caller with credentials.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";

/// A caller, as `authentication.k8s.io/v1` writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    /// User name, for example `system:serviceaccount:kube-system:loadmaster`.
    #[serde(rename = "username")]
    pub name: String,
    /// UID of its ServiceAccount, empty for other users.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Groups; members of `system:masters` may do everything.
    pub groups: Vec<String>,
    /// Further attributes, for example the identifier of the credential.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns a user without UID and further attributes.
    pub fn new<G: Into<String>>(
        name: impl Into<String>,
        groups: impl IntoIterator<Item = G>,
    ) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// Returns the administrator.
    pub fn admin() -> Self {
        Self::new("kubernetes-admin", ["system:masters", AUTHENTICATED])
    }

    /// Returns the caller of a request without credentials.
    pub fn anonymous() -> Self {
        Self::new("system:anonymous", ["system:unauthenticated"])
    }
}

/// A request to the API.
#[derive(Debug, Clone)]
pub struct Request {
    /// HTTP method in upper case.
    pub method: String,
    /// Path without query, percent-encoded.
    pub path: String,
    /// Query parameters in order, decoded.
    pub query: Vec<(String, String)>,
    /// The `Accept` header, empty if absent.
    pub accept: String,
    /// The `Content-Type` header, empty if absent.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
    /// The caller.
    pub user: User,
}

impl Request {
    /// Returns a request of the administrator with a JSON body. `target` is path and query.
    pub fn new(method: &str, target: &str, body: impl Into<Bytes>) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: parse_query(query),
            accept: "application/json".to_owned(),
            content_type: "application/json".to_owned(),
            body: body.into(),
            user: User::admin(),
        }
    }

    /// Returns the value of a query parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether a query parameter is true (`true` or `1`).
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.parameter(name), Some("true" | "1"))
    }
}

/// Returns the parameters of a query string, decoded.
pub fn parse_query(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decode(key), decode(value)))
        .collect()
}

/// An answer that is not a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Media type of the body.
    pub content_type: &'static str,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// Texts for `Warning: 299` headers.
    pub warnings: Vec<String>,
    /// The body.
    pub body: Bytes,
}

/// The identifier of an open watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub(crate) u64);

/// The answer of the store to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A complete response.
    Whole(Response),
    /// A stream of frames; `Store::frames` returns them.
    Watch(WatchId),
}

/// The new frames of an open watch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frames {
    /// Frames: JSON lines with their line feeds.
    pub lines: Vec<Bytes>,
    /// Whether the stream ends after them.
    pub ended: bool,
}
