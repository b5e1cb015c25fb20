//! What one call into the queue carries along.

use framework::Handle;

use crate::ports::Probe;
use crate::profile::Profiles;

/// The data that the queue reads during a call, and the probe that it reports to.
pub struct Context<'a> {
    /// The profiles; each queued pod names one of them.
    pub profiles: &'a Profiles,
    /// The handle for PreEnqueue and QueueSort plugins and hints; it has the time of the call.
    pub handle: Handle<'a>,
    /// Measurements.
    pub probe: &'a mut dyn Probe,
}
