//! Notices of an elector, for the log and for events.

/// A step of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The elector begins to compete for the Lease.
    Attempting,
    /// Another replica, the one of this identity, holds the Lease.
    ObservedLeader(String),
    /// The Lease is held by this identity and has not expired, so an attempt ended.
    Held(String),
    /// The renewal without reading the Lease failed, so the Lease is read.
    FellBack(String),
    /// Reading the Lease failed.
    CannotRead(String),
    /// Writing the Lease failed.
    CannotUpdate(String),
    /// This replica leads from now on.
    StartedLeading,
    /// This replica led, and may not act any more, for this reason.
    StoppedLeading(String),
    /// This replica released the Lease, so that another one can take over at once.
    Released,
    /// The Lease could not be released, for this reason. It expires.
    CannotRelease(String),
}
