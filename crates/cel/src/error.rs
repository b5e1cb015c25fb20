//! Errors of selectors, in the words of kube-scheduler.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// The reason an expression is refused. kube-scheduler prints it after `CEL compile error: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError(Box<str>);

impl CompileError {
    pub(crate) fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for CompileError {}

/// The reason an expression has no result for a device. kube-scheduler prints it after
/// `CEL runtime error: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalError(Cow<'static, str>);

impl EvalError {
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for EvalError {}
