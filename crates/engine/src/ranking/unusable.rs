//! Rankings that cannot be kept or used.

use framework::{Code, Status};

use crate::plugin_call::HasCode;

/// A score, or a number of tiers and scores, that a ranking has no room for.
#[derive(Debug)]
pub(crate) struct Overflow;

/// A ranking cannot be repaired or used: a plugin failed, or there is no room. The full pass
/// decides, and reports a failure.
#[derive(Debug)]
pub(crate) struct Unusable;

impl From<Status> for Unusable {
    fn from(_: Status) -> Self {
        Self
    }
}

impl From<Overflow> for Unusable {
    fn from(_: Overflow) -> Self {
        Self
    }
}

impl HasCode for Unusable {
    fn code(&self) -> Code {
        Code::Error
    }
}
