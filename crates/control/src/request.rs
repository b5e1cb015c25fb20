//! Requests to the API server and to extenders, and the replies to them.

use std::fmt::Write as _;
use std::time::Duration;

use framework::Time;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

/// The id by which a reply names its request; unique within the machine that made the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// A generator of request ids.
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
    /// Returns the method as an HTTP request spells it.
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

/// The server that a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The API server.
    ApiServer,
    /// The configured extender with this index. Its connection supplies address, verb and timeout,
    /// so only the body of the request counts.
    Extender(usize),
}

/// An earlier try of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried {
    /// The HTTP status of the response; `None` if there was no response.
    pub status: Option<u16>,
}

/// A request to be sent once. The sender does not retry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The id that the reply has to name.
    pub id: RequestId,
    /// The server to send it to.
    pub destination: Destination,
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Media type of the body; unused if the body is empty.
    pub content_type: &'static str,
    /// Body.
    pub body: Vec<u8>,
    /// Time to wait for the response before the reply is [`Reply::Lost`].
    pub timeout: Duration,
    /// The time from which the request must not be sent: the end of the leader's authority. If it
    /// has passed, the reply is [`Reply::NotSent`].
    pub not_after: Option<Time>,
    /// Time for which the limits of the client held the request back.
    pub waited: Duration,
    /// The try before, if this request is a retry.
    pub retry_of: Option<Tried>,
}

/// The result of sending a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The server responded. An extender responded with status 200.
    Answered(Response),
    /// An extender responded with a status other than 200; the text says so.
    Rejected(String),
    /// The server did not receive the request, because no connection could be made or its time had
    /// passed.
    NotSent(String),
    /// The response did not arrive. The server may have processed the request.
    Lost(String),
}

impl Reply {
    /// Returns what a retry says about this try.
    pub(crate) const fn as_tried(&self) -> Tried {
        let status = match self {
            Self::Answered(response) => Some(response.status),
            Self::Rejected(_) | Self::NotSent(_) | Self::Lost(_) => None,
        };
        Tried { status }
    }
}

/// A response of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// The `Retry-After` header.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

/// Pause after a response that asks for one without saying how long.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_MIN: Duration = Duration::from_millis(100);
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);

/// Maximum number of bytes of a body that error messages quote.
const MAX_QUOTED: usize = 200;

/// The fields of a `Status` that are read.
#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    reason: String,
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
    /// Returns whether the server carried out the request.
    pub const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// Returns the pause that the server asks for, limited to between 100 ms and one minute.
    pub(crate) fn retry_delay(&self) -> Duration {
        self.retry_after.unwrap_or(RETRY_AFTER).clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX)
    }

    fn as_status(&self) -> Status {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the message of the `Status` in the body, or, if there is none, the HTTP status and
    /// the start of the body.
    pub fn error_message(&self) -> String {
        let message = self.as_status().message;
        if !message.is_empty() {
            return message;
        }
        let start = String::from_utf8_lossy(&self.body[..self.body.len().min(MAX_QUOTED)]);
        match start.trim() {
            "" => format!("the server responded with status {}", self.status),
            start => format!("the server responded with status {}: {start}", self.status),
        }
    }

    /// Returns the reason of the `Status` in the body, empty if it has none. Returns `None` if the
    /// body is no `Status`.
    pub(crate) fn reason(&self) -> Option<String> {
        let Status { kind, reason, .. } = self.as_status();
        (kind == "Status").then_some(reason)
    }

    /// Returns whether the `Status` names this cause, for example `NamespaceTerminating`.
    pub(crate) fn has_cause(&self, reason: &str) -> bool {
        let details = self.as_status().details.unwrap_or_default();
        details.causes.iter().any(|cause| cause.reason == reason)
    }
}

/// The characters of a path segment that are escaped: all but the unreserved ones of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the path of the objects of a resource. An empty namespace stands for a cluster-scoped
/// resource.
pub fn collection_path(api_version: &str, namespace: &str, resource: &str) -> String {
    let root = if api_version.contains('/') { "/apis" } else { "/api" };
    let mut path = format!("{root}/{api_version}");
    if !namespace.is_empty() {
        path.push_str("/namespaces");
        push_segment(&mut path, namespace);
    }
    push_segment(&mut path, resource);
    path
}

/// Returns the path of the pods of a namespace, or of one of them.
pub fn pod_path(namespace: &str, name: Option<&str>) -> String {
    let mut path = collection_path("v1", namespace, "pods");
    name.iter().for_each(|name| push_segment(&mut path, name));
    path
}

/// Appends a segment, such as the name of an object, to a path.
pub(crate) fn push_segment(path: &mut String, segment: &str) {
    let segment = utf8_percent_encode(segment, ESCAPED);
    write!(path, "/{segment}").expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_the_kubernetes_api() {
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
    fn retry_delay_is_limited() {
        let retry_delay = |seconds: Option<u64>| {
            let retry_after = seconds.map(Duration::from_secs);
            Response { status: 429, retry_after, body: Vec::new() }.retry_delay().as_millis()
        };
        assert_eq!([None, Some(0), Some(7)].map(retry_delay), [1000, 100, 7000]);
        assert_eq!(retry_delay(Some(u64::MAX)), 60_000);
    }

    #[test]
    fn error_message_comes_from_the_status_or_the_body() {
        let long = "é".repeat(500);
        let cases = [
            (
                r#"{"kind":"Status","message":"pods \"a\" not found","code":404}"#,
                "pods \"a\" not found",
            ),
            ("", "the server responded with status 502"),
            (
                "<h1>Bad Gateway</h1>\n",
                "the server responded with status 502: <h1>Bad Gateway</h1>",
            ),
            (r#"{"message":7}"#, r#"the server responded with status 502: {"message":7}"#),
        ];
        let message = |body: &str| {
            Response { status: 502, retry_after: None, body: body.into() }.error_message()
        };
        for (body, expected) in cases {
            assert_eq!(message(body), expected);
        }
        assert!(message(&long).len() < 300);
    }
}
