//! The status that a plugin returns.

use std::borrow::Cow;
use std::fmt;

use crate::PluginName;

/// Status codes of the scheduling framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The plugin agrees.
    Success,
    /// An internal failure, unrelated to whether the pod fits. The pod is retried after its
    /// backoff.
    Error,
    /// The pod does not fit now; preemption might help.
    Unschedulable,
    /// The pod does not fit, and preemption would not help.
    UnschedulableAndUnresolvable,
    /// The pod has to wait (Permit only).
    Wait,
    /// The plugin leaves out its next extension point for this pod, or leaves the pod to the next
    /// plugin.
    Skip,
    /// The plugin waits for something outside the scheduler. A hint of the plugin requeues the pod
    /// without backoff.
    Pending,
}

impl Code {
    /// Returns the name that Kubernetes uses in statuses and metric labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Error => "Error",
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Self::Wait => "Wait",
            Self::Skip => "Skip",
            Self::Pending => "Pending",
        }
    }

    /// Whether the code rejects the pod: Unschedulable, UnschedulableAndUnresolvable or Pending.
    pub const fn is_rejection(self) -> bool {
        matches!(self, Self::Unschedulable | Self::UnschedulableAndUnresolvable | Self::Pending)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A status: success, or a code with reasons and the plugin that returned it. The size of a status
/// is one word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Status(Option<Box<Failure>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Failure {
    code: Code,
    reasons: Vec<Cow<'static, str>>,
    plugin: Option<PluginName>,
}

impl Status {
    /// Returns success.
    pub const fn success() -> Self {
        Self(None)
    }

    /// Creates a status with one reason.
    pub fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::with_reasons(code, vec![reason.into()])
    }

    /// Creates a status with any number of reasons. [`Code::Success`] drops them.
    pub fn with_reasons(code: Code, reasons: Vec<Cow<'static, str>>) -> Self {
        match code {
            Code::Success => Self(None),
            _ => Self(Some(Box::new(Failure { code, reasons, plugin: None }))),
        }
    }

    /// Creates an [`Unschedulable`](Code::Unschedulable) status.
    pub fn unschedulable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Unschedulable, reason)
    }

    /// Creates an [`UnschedulableAndUnresolvable`](Code::UnschedulableAndUnresolvable) status.
    pub fn unresolvable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::UnschedulableAndUnresolvable, reason)
    }

    /// Creates an [`Error`](Code::Error) status.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Error, text)
    }

    /// Creates a [`Skip`](Code::Skip) status.
    pub fn skip() -> Self {
        Self::with_reasons(Code::Skip, Vec::new())
    }

    /// Sets the plugin that returned this status. It has no effect on success.
    #[must_use]
    pub fn by(mut self, plugin: &PluginName) -> Self {
        if let Some(failure) = &mut self.0 {
            failure.plugin = Some(plugin.clone());
        }
        self
    }

    /// Adds a reason behind the others. It has no effect on success.
    #[must_use]
    pub fn and(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        if let Some(failure) = &mut self.0 {
            failure.reasons.push(reason.into());
        }
        self
    }

    /// Returns the code.
    pub fn code(&self) -> Code {
        self.0.as_ref().map_or(Code::Success, |failure| failure.code)
    }

    /// Returns the reasons, an error text first.
    pub fn reasons(&self) -> &[Cow<'static, str>] {
        self.0.as_ref().map_or(&[], |failure| &failure.reasons)
    }

    /// Returns the plugin that returned this status, `None` if the framework did.
    pub fn plugin(&self) -> Option<&PluginName> {
        self.0.as_ref()?.plugin.as_ref()
    }

    /// Whether the code is Success.
    pub fn is_success(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the code is Skip.
    pub fn is_skip(&self) -> bool {
        self.code() == Code::Skip
    }

    /// Whether the pod is rejected: Unschedulable, UnschedulableAndUnresolvable or Pending.
    pub fn is_rejection(&self) -> bool {
        self.code().is_rejection()
    }

    /// Returns the reasons in one line, separated by commas.
    pub fn message(&self) -> String {
        self.reasons().join(", ")
    }

    /// Converts to a `Result`, so that plugins can use `?`.
    ///
    /// # Errors
    /// The status itself, unless it is success.
    pub fn ok(self) -> Result<(), Self> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_drops_reasons_and_takes_one_word() {
        assert_eq!(size_of::<Status>(), size_of::<usize>());
        let status = Status::with_reasons(Code::Success, vec!["lost".into()]);
        assert_eq!((status.code(), status.reasons().len()), (Code::Success, 0));
        assert_eq!(Status::default(), Status::success());
    }

    #[test]
    fn message_joins_reasons_with_commas() {
        let status = Status::unschedulable("Too many pods").and("Insufficient cpu");
        assert_eq!(status.message(), "Too many pods, Insufficient cpu");
        assert!(status.is_rejection());
        assert!(!Status::error("boom").is_rejection());
    }
}
