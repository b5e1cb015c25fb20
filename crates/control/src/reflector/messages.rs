//! The inputs and outputs of a reflector.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use framework::Uid;

/// Namespace and name of an object. Its string form is `namespace/name`, or `name` without a
/// namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// The metadata that identifies a version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Namespace and name.
    pub key: NamespacedName,
    /// UID, which differs between objects that have the same name one after the other.
    pub uid: Uid,
    /// Resource version.
    pub resource_version: Arc<str>,
}

/// A `Status` that the server sent instead of a list or watch, or as an ERROR event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusError {
    /// HTTP status of the response, or the code of the `Status` in an ERROR event.
    pub code: u16,
    /// Reason of the `Status`; empty if the body is not a `Status`.
    pub reason: String,
    /// Message of the `Status`, or the start of the body.
    pub message: String,
    /// The delay that the server asks for before a retry.
    pub retry_after: Option<Duration>,
}

impl StatusError {
    /// Returns whether the server no longer has the requested resource version or continue token.
    pub(super) fn is_expired(&self) -> bool {
        self.code == 410 || matches!(self.reason.as_str(), "Expired" | "Gone")
    }

    /// Returns whether the server has not yet reached the requested resource version. The server
    /// reports this as a timeout whose message says so.
    pub(super) fn is_too_large_resource_version(&self) -> bool {
        self.code == 504 && self.message.to_lowercase().contains("too large resource version")
    }

    /// Returns the pause after which the server wants the same request again, if it says so. Like
    /// client-go, this honours `Retry-After` with the status 429 and with every 5xx. A list that
    /// waits for a cache is not such a request: another list is answered sooner.
    pub(super) fn requested_pause(&self) -> Option<Duration> {
        let is_busy = self.code == 429 || self.code >= 500;
        self.retry_after.filter(|_| is_busy && !self.is_too_large_resource_version())
    }

    /// Returns whether the server does not understand the request, as opposed to rejecting it for
    /// lack of permission or of capacity. Servers without streaming lists respond to
    /// `sendInitialEvents` this way.
    pub(super) const fn is_unsupported(&self) -> bool {
        matches!(self.code, 400 | 405 | 406 | 415 | 422 | 501)
    }
}

/// A decoded event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent<T> {
    /// ADDED or MODIFIED.
    Updated(ObjectMeta, T),
    /// DELETED.
    Deleted(ObjectMeta),
    /// BOOKMARK: the server has sent all events up to this version.
    Bookmark {
        /// Resource version.
        resource_version: Arc<str>,
        /// Whether the bookmark has the annotation `k8s.io/initial-events-end`.
        initial_events_end: bool,
    },
    /// ERROR.
    Error(StatusError),
    /// ADDED or MODIFIED with an object that cannot be decoded, or an event that cannot be read.
    Undecodable(Undecodable<T>),
}

/// An object that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecodable<T> {
    /// Metadata of the object, if it can be read.
    pub meta: Option<ObjectMeta>,
    /// The reason.
    pub message: String,
    /// The object that is reported in its place as long as no version of it has been decoded.
    pub substitute: Option<T>,
}

/// A decoded page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The decoded objects.
    pub items: Vec<(ObjectMeta, T)>,
    /// The objects that cannot be decoded.
    pub undecodable: Vec<Undecodable<T>>,
    /// Resource version of the list.
    pub resource_version: Arc<str>,
    /// The `continue` token, if there are more pages.
    pub continue_token: Option<String>,
}

/// The id of a call, unique within a reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(super) u64);

/// A GET request for a list or a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The id that the inputs about this call have to name.
    pub id: CallId,
    /// Whether the response is a stream of watch events rather than a page of a list.
    pub is_watch: bool,
    /// Path and query.
    pub path: String,
    /// Time after which the reflector closes the call if the page has not arrived or the watch has
    /// not opened. The connection should not have a shorter timeout.
    pub timeout: Duration,
}

/// A report of the driver about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<T> {
    /// A list responded with this page. The call has ended.
    Page(CallId, Page<T>),
    /// A watch responded with status 200. Its events follow.
    Opened(CallId),
    /// A watch sent an event.
    Event(CallId, WatchEvent<T>),
    /// The server responded with a status other than 200. The call has ended.
    Error(CallId, StatusError),
    /// The server ended the watch. The call has ended.
    Closed(CallId),
    /// The connection failed or the response could not be read, for this reason. The call has
    /// ended.
    Failed(CallId, String),
}

impl<T> Input<T> {
    pub(super) const fn call(&self) -> CallId {
        match self {
            Self::Page(id, _)
            | Self::Opened(id)
            | Self::Event(id, _)
            | Self::Error(id, _)
            | Self::Closed(id)
            | Self::Failed(id, _) => *id,
        }
    }
}

/// An output of a reflector: a call to open or close, or a change of the watched objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output<T> {
    /// The driver has to open this call.
    Open(Call),
    /// The driver has to close this call. Further inputs about it are ignored.
    Close(CallId),
    /// An object was created or updated.
    Updated(ObjectMeta, T),
    /// An object was deleted. If a list revealed the deletion, the resource version is the last one
    /// that was reported.
    Deleted(ObjectMeta),
    /// All objects of the first list have been reported.
    Synced,
    /// All changes that a [requested](super::Reflector::relist) list revealed have been reported.
    Relisted,
    /// A version of an object cannot be decoded. The version reported before it stays valid.
    Undecodable {
        /// Metadata of the object, if it can be read.
        meta: Option<ObjectMeta>,
        /// The reason.
        message: String,
    },
}
