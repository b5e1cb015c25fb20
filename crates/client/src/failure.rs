//! What went wrong, for the log.

/// Most failures that are kept between two looks.
const KEPT: usize = 100;

/// Something that did not work out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What was tried, for example `patching the status of the pod`.
    pub what: &'static str,
    /// The object it was tried on.
    pub object: String,
    /// Why it failed.
    pub text: String,
}

/// The failures since the last look; where there are many, the first of them.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<Failure>);

impl Failures {
    pub(crate) fn note(&mut self, what: &'static str, object: String, text: String) {
        if self.0.len() < KEPT {
            self.0.push(Failure { what, object, text });
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.0)
    }
}
