//! What metrics show of API calls.

use std::collections::BTreeMap;
use std::time::Duration;

/// A kind of API call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallType {
    /// Binding a pod.
    PodBinding,
    /// Binding a pod through an extender.
    ExtenderBinding,
    /// Reading a pod whose bind has an unknown outcome.
    PodRead,
    /// Patching the status of a pod.
    PodStatusPatch,
    /// Evicting a pod.
    PodEviction,
    /// A write that a plugin asked for.
    ObjectWrite,
    /// Writing an event.
    Event,
}

impl CallType {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::PodBinding,
        Self::ExtenderBinding,
        Self::PodRead,
        Self::PodStatusPatch,
        Self::PodEviction,
        Self::ObjectWrite,
        Self::Event,
    ];

    /// Returns the value of the `call_type` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PodBinding => "pod_binding",
            Self::ExtenderBinding => "extender_binding",
            Self::PodRead => "pod_read",
            Self::PodStatusPatch => "pod_status_patch",
            Self::PodEviction => "pod_eviction",
            Self::ObjectWrite => "object_write",
            Self::Event => "event",
        }
    }
}

/// The state of a call that has not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallState {
    /// The limits, or another call on the same object, hold the call back.
    Waiting,
    /// The call waits for the time of its next try.
    BackingOff,
    /// A request of the call has no reply.
    InFlight,
}

impl CallState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Waiting, Self::BackingOff, Self::InFlight];

    /// Returns the value of the `state` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::BackingOff => "backing_off",
            Self::InFlight => "in_flight",
        }
    }
}

/// Numbers of unfinished calls. Absent entries are 0.
pub type CallCounts = BTreeMap<(CallType, CallState), usize>;

/// A call that has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedCall {
    /// The kind of call.
    pub call_type: CallType,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// Time since its first request was sent.
    pub took: Duration,
    /// For a bind: time from the state that it was decided on until its first request was sent.
    pub decision_age: Option<Duration>,
}
