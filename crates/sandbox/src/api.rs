//! A request to the API and its answer, free of HTTP libraries.

use bytes::Bytes;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User name, for example `system:serviceaccount:kube-system:loadmaster`.
    pub name: String,
    /// Groups; `system:masters` may do everything.
    pub groups: Vec<String>,
}

impl User {
    /// The administrator: everything is allowed.
    pub fn admin() -> Self {
        Self { name: "kubernetes-admin".to_owned(), groups: vec!["system:masters".to_owned()] }
    }
}

/// A request to the API.
#[derive(Debug, Clone)]
pub struct Request {
    /// HTTP method in capitals.
    pub method: String,
    /// Path without query, percent-decoded by whoever needs a segment.
    pub path: String,
    /// Query parameters in order, decoded.
    pub query: Vec<(String, String)>,
    /// The `Accept` header, empty if absent.
    pub accept: String,
    /// The `Content-Type` header, empty if absent.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
    /// Who asks.
    pub user: User,
}

impl Request {
    /// A request of the administrator with a JSON body. `target` is path and query.
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

    /// The value of a query parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether a query parameter is given and true (`true` or `1`).
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.parameter(name), Some("true" | "1"))
    }
}

/// The parameters of a query string, decoded.
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

/// A whole answer.
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

/// An open watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub(crate) u64);

/// What the store says to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Everything at once.
    Whole(Response),
    /// A stream of frames, to be fetched with `Store::frames`.
    Watch(WatchId),
}

/// What an open watch has to say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frames {
    /// Frames, each a JSON line with its line feed.
    pub lines: Vec<Bytes>,
    /// Whether the stream ends after them.
    pub ended: bool,
}
