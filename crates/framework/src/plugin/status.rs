//! The answer of a plugin.

use std::borrow::Cow;
use std::fmt;

use crate::PluginName;

/// Status codes of the scheduling framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// All is well; also the meaning of an absent status.
    Success,
    /// Something failed that says nothing about the pod; it is retried after an error backoff.
    Error,
    /// The pod does not fit now; evicting pods might help.
    Unschedulable,
    /// The pod does not fit, and evicting pods would not help.
    UnschedulableAndUnresolvable,
    /// Permit only: the pod has to wait.
    Wait,
    /// The plugin has nothing to say about this pod.
    Skip,
    /// The plugin waits for something outside; its own hint requeues the pod at once.
    Pending,
}

impl Code {
    /// The name Kubernetes uses in statuses and metric labels.
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

    /// Whether the code turns the pod down: Unschedulable, UnschedulableAndUnresolvable or Pending.
    pub const fn is_rejection(self) -> bool {
        matches!(self, Self::Unschedulable | Self::UnschedulableAndUnresolvable | Self::Pending)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A status: success, or a code with reasons and the plugin that gave it. Success costs one word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Status(Option<Box<Failure>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Failure {
    code: Code,
    reasons: Vec<Cow<'static, str>>,
    plugin: Option<PluginName>,
}

impl Status {
    /// The plugin agrees.
    pub const fn success() -> Self {
        Self(None)
    }

    /// A status with one reason.
    pub fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::with_reasons(code, vec![reason.into()])
    }

    /// A status with any number of reasons; [`Code::Success`] drops them.
    pub fn with_reasons(code: Code, reasons: Vec<Cow<'static, str>>) -> Self {
        match code {
            Code::Success => Self(None),
            _ => Self(Some(Box::new(Failure { code, reasons, plugin: None }))),
        }
    }

    /// The pod does not fit now; evicting pods might help.
    pub fn unschedulable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Unschedulable, reason)
    }

    /// The pod does not fit, and evicting pods would not help.
    pub fn unresolvable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::UnschedulableAndUnresolvable, reason)
    }

    /// Something failed that says nothing about the pod.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Error, text)
    }

    /// The plugin has nothing to say about this pod.
    pub fn skip() -> Self {
        Self::with_reasons(Code::Skip, Vec::new())
    }

    /// Names the plugin that gave this status; no effect on success.
    #[must_use]
    pub fn by(mut self, plugin: &PluginName) -> Self {
        if let Some(failure) = &mut self.0 {
            failure.plugin = Some(plugin.clone());
        }
        self
    }

    /// This status with a further reason behind the others; no effect on success.
    #[must_use]
    pub fn and(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        if let Some(failure) = &mut self.0 {
            failure.reasons.push(reason.into());
        }
        self
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.0.as_ref().map_or(Code::Success, |failure| failure.code)
    }

    /// The reasons, an error text first.
    pub fn reasons(&self) -> &[Cow<'static, str>] {
        self.0.as_ref().map_or(&[], |failure| &failure.reasons)
    }

    /// The plugin that gave this status, absent where the framework itself did.
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

    /// Whether the pod is turned down: Unschedulable, UnschedulableAndUnresolvable or Pending.
    pub fn is_rejection(&self) -> bool {
        self.code().is_rejection()
    }

    /// The reasons in one line.
    pub fn message(&self) -> String {
        self.reasons().join(", ")
    }

    /// `Ok` for success, this status otherwise: lets plugins use `?`.
    ///
    /// # Errors
    /// The status itself, unless it is a success.
    pub fn ok(self) -> Result<(), Self> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_one_word_and_carries_nothing() {
        assert_eq!(size_of::<Status>(), size_of::<usize>());
        let status = Status::with_reasons(Code::Success, vec!["lost".into()]);
        assert_eq!((status.code(), status.reasons().len()), (Code::Success, 0));
        assert_eq!(Status::default(), Status::success());
    }

    #[test]
    fn a_message_joins_the_reasons() {
        let status = Status::unschedulable("Too many pods").and("Insufficient cpu");
        assert_eq!(status.message(), "Too many pods, Insufficient cpu");
        assert!(status.is_rejection());
        assert!(!Status::error("boom").is_rejection());
    }
}
