//! What goes into a session and what comes out of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use framework::Uid;

/// Namespace and name of an object; prints as `namespace/name`, or `name` where there is no
/// namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Namespace, empty for objects outside namespaces.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Which object this is, and in which version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Namespace and name.
    pub id: ObjectId,
    /// Tells it from others that have or had the same name.
    pub uid: Uid,
    /// Its version.
    pub resource_version: Arc<str>,
}

/// An answer other than 200, or an ERROR frame: both carry a `Status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status, or the code of the `Status`.
    pub code: u16,
    /// Reason of the `Status`, empty where there is none.
    pub reason: String,
    /// Message of the `Status`, or the beginning of the body.
    pub message: String,
    /// The `Retry-After` header.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// The version asked for is not kept any more; a page may say so of its `continue` token.
    pub(super) fn is_expired(&self) -> bool {
        self.code == 410 || matches!(self.reason.as_str(), "Expired" | "Gone")
    }

    /// The server has not come as far as the version asked for. It says so in the causes and the
    /// text of a timeout.
    pub(super) fn is_too_large_version(&self) -> bool {
        self.code == 504 && self.message.to_lowercase().contains("too large resource version")
    }

    /// The request itself is not understood, as opposed to not allowed or not possible now. Servers
    /// without streaming lists answer so to `sendInitialEvents`.
    pub(super) const fn is_unsupported(&self) -> bool {
        matches!(self.code, 400 | 405 | 406 | 415 | 422 | 501)
    }
}

/// One event of a watch, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<T> {
    /// ADDED or MODIFIED.
    Changed(Meta, T),
    /// DELETED.
    Deleted(Meta),
    /// BOOKMARK: all that happened up to this version has been sent.
    Bookmark {
        /// That version.
        resource_version: Arc<str>,
        /// Whether it is annotated `k8s.io/initial-events-end`.
        initial_events_end: bool,
    },
    /// ERROR.
    Error(Refusal),
    /// ADDED or MODIFIED, with an object that cannot be decoded.
    Undecodable {
        /// Which object, if at least that could be read.
        meta: Option<Meta>,
        /// What is wrong with it.
        message: String,
    },
}

/// One page of a list, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Its objects.
    pub items: Vec<(Meta, T)>,
    /// Those that cannot be decoded, and why.
    pub undecodable: Vec<(Option<Meta>, String)>,
    /// The version of the list.
    pub resource_version: Arc<str>,
    /// The `continue` token, where there are more pages.
    pub next: Option<String>,
}

/// Names a call in its inputs; unique within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(super) u64);

/// A GET request to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub id: CallId,
    /// Whether the reply is a stream of frames (a watch) or one page (a list).
    pub stream: bool,
    /// Path and query.
    pub path: String,
    /// How long the session waits for the page, or for the watch to open, before it closes the
    /// call. It keeps this time itself; a limit of the connection should not be shorter.
    pub timeout: Duration,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<T> {
    /// A list was answered.
    Page(CallId, Page<T>),
    /// A watch was answered with 200; frames follow.
    Opened(CallId),
    /// A frame of a watch.
    Frame(CallId, Frame<T>),
    /// Any answer but 200; the call is over.
    Refused(CallId, Refusal),
    /// The stream ended as it should; the call is over.
    Closed(CallId),
    /// The connection failed, or its data made no sense: in words, for people. The call is over.
    Failed(CallId, String),
}

impl<T> Input<T> {
    pub(super) const fn call(&self) -> CallId {
        match self {
            Self::Page(id, _)
            | Self::Opened(id)
            | Self::Frame(id, _)
            | Self::Refused(id, _)
            | Self::Closed(id)
            | Self::Failed(id, _) => *id,
        }
    }
}

/// What a session wants done, and what it has to report; in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output<T> {
    /// Make this call.
    Open(Call),
    /// Give this call up: whatever else comes from it is ignored.
    Close(CallId),
    /// The object is new or has changed.
    Changed(Meta, T),
    /// The object is gone. Where it is known by its absence from a list, the version is its last
    /// one.
    Deleted(Meta),
    /// The state is complete for the first time.
    Synced,
    /// A version of an object cannot be decoded. What was reported of the object before stays.
    Skipped {
        /// Which object, if at least that could be read.
        meta: Option<Meta>,
        /// What is wrong with it.
        message: String,
    },
}
