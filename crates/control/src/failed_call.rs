//! Failed API calls, kept for the log.

/// Maximum number of failed calls kept until they are taken.
const MAX_KEPT: usize = 100;

/// An API call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCall {
    /// The action that failed, for example `patching the status`.
    pub action: &'static str,
    /// The object of the call.
    pub object: String,
    /// The reason of the failure.
    pub error: String,
}

/// The calls that failed since they were last taken, at most [`MAX_KEPT`].
#[derive(Debug, Default)]
pub(crate) struct FailedCalls(Vec<FailedCall>);

impl FailedCalls {
    pub(crate) fn add(&mut self, action: &'static str, object: String, error: String) {
        if self.0.len() < MAX_KEPT {
            self.0.push(FailedCall { action, object, error });
        }
    }

    pub(crate) fn take(&mut self) -> Vec<FailedCall> {
        std::mem::take(&mut self.0)
    }
}
