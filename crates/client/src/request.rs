//! Requests to the API server and to extenders, and what became of them.

use std::fmt::Write as _;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

/// Names a request in its reply; unique within the machine that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// Hands out request ids.
#[derive(Debug, Default)]
pub(crate) struct RequestIds(u64);

impl RequestIds {
    pub(crate) const fn next(&mut self) -> RequestId {
        self.0 += 1;
        RequestId(self.0)
    }
}

/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates.
    Post,
    /// Replaces.
    Put,
    /// Changes in part.
    Patch,
    /// Deletes.
    Delete,
}

impl Method {
    /// The method as it stands in a request.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// Who a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    /// The API server.
    ApiServer,
    /// The configured extender at this place; its connection knows address, verb and timeout, so the
    /// request is no more than a body.
    Extender(usize),
}

/// A request that is ready to be sent, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// Who it is for.
    pub to: Recipient,
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Media type of the body; without meaning where the body is empty.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
    /// How long to wait for the reply before it counts as [`Reply::Lost`].
    pub timeout: Duration,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The server answered; an extender, with 200.
    Answered(Response),
    /// An extender answered anything but 200; in words.
    Refused(String),
    /// The server never saw it, for certain: no connection could be made.
    NotSent(String),
    /// The server may have seen it and may have acted on it; its answer did not come.
    Lost(String),
}

/// The answer of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// The `Retry-After` header.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

/// Pause where a server that wants one does not say how long.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_MIN: Duration = Duration::from_millis(100);
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);

/// Most bytes of a body that is no `Status` that are worth showing.
const SHOWN: usize = 200;

/// What is read of a `Status`.
#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    message: String,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Vec<Cause>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
}

impl Response {
    /// Whether the request was carried out.
    pub(crate) const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// How long a server that wants a pause is left alone: what it asks for, within reason.
    pub(crate) fn pause(&self) -> Duration {
        self.retry_after.unwrap_or(RETRY_AFTER).clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX)
    }

    fn as_status(&self) -> Status {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// What a refusal says to people: the message of the `Status`, or the code and the start of
    /// what came instead of one.
    pub(crate) fn text(&self) -> String {
        let message = self.as_status().message;
        if !message.is_empty() {
            return message;
        }
        let start = String::from_utf8_lossy(&self.body[..self.body.len().min(SHOWN)]);
        match start.trim() {
            "" => format!("the server answered {}", self.status),
            start => format!("the server answered {}: {start}", self.status),
        }
    }

    /// Whether the `Status` names this cause, for example `NamespaceTerminating`.
    pub(crate) fn has_cause(&self, reason: &str) -> bool {
        let details = self.as_status().details.unwrap_or_default();
        details.causes.iter().any(|cause| cause.reason == reason)
    }
}

/// What stands in a segment of a path as it is (RFC 3986, unreserved).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Path of the objects of a resource; an empty namespace means cluster-scoped.
pub(crate) fn collection_path(api_version: &str, namespace: &str, resource: &str) -> String {
    let root = if api_version.contains('/') { "/apis" } else { "/api" };
    let mut path = format!("{root}/{api_version}");
    if !namespace.is_empty() {
        path.push_str("/namespaces");
        push_segment(&mut path, namespace);
    }
    push_segment(&mut path, resource);
    path
}

/// Adds a segment, such as the name of an object, to a path.
pub(crate) fn push_segment(path: &mut String, segment: &str) {
    let segment = utf8_percent_encode(segment, UNRESERVED);
    write!(path, "/{segment}").expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        assert_eq!(collection_path("v1", "a", "pods"), "/api/v1/namespaces/a/pods");
        assert_eq!(
            collection_path("storage.k8s.io/v1", "", "csinodes"),
            "/apis/storage.k8s.io/v1/csinodes"
        );
        let mut path = collection_path("v1", "", "persistentvolumes");
        push_segment(&mut path, "a/../b?c%");
        assert_eq!(path, "/api/v1/persistentvolumes/a%2F..%2Fb%3Fc%25");
    }

    #[test]
    fn a_server_is_left_alone_as_long_as_it_asks_within_reason() {
        let pause = |seconds: Option<u64>| {
            let retry_after = seconds.map(Duration::from_secs);
            Response { status: 429, retry_after, body: Vec::new() }.pause().as_millis()
        };
        assert_eq!([None, Some(0), Some(7)].map(pause), [1000, 100, 7000]);
        assert_eq!(pause(Some(u64::MAX)), 60_000);
    }

    #[test]
    fn a_refusal_speaks_through_its_status_or_its_body() {
        let long = "é".repeat(500);
        let cases = [
            (
                r#"{"kind":"Status","message":"pods \"a\" not found","code":404}"#,
                "pods \"a\" not found",
            ),
            ("", "the server answered 502"),
            ("<h1>Bad Gateway</h1>\n", "the server answered 502: <h1>Bad Gateway</h1>"),
            (r#"{"message":7}"#, r#"the server answered 502: {"message":7}"#),
        ];
        let text =
            |body: &str| Response { status: 502, retry_after: None, body: body.into() }.text();
        for (body, expected) in cases {
            assert_eq!(text(body), expected);
        }
        assert!(text(&long).len() < 300);
    }
}
