//! The plugins that the queue asks.

use framework::{Handle, Time};

use crate::ports::Probe;
use crate::profile::Profiles;

/// The plugins that the queue asks in one call: QueueSort, PreEnqueue and queueing hints.
pub struct Plugins<'a> {
    /// The profiles; each queued pod names one of them.
    pub profiles: &'a Profiles,
    /// The handle that the plugins get.
    pub handle: Handle<'a>,
    /// The probe that measures the plugins, and counts what enters the queue.
    pub probe: &'a mut dyn Probe,
}

impl Plugins<'_> {
    /// Returns the time of the call.
    pub(super) const fn now(&self) -> Time {
        self.handle.now
    }
}
