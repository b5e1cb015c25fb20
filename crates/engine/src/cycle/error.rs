//! Decisions without a node.

use framework::{Code, Status};

use super::diagnosis::FitError;
use crate::plugin_call::HasCode;

/// Message for a pod in a cluster without nodes.
pub const NO_NODES: &str = "no nodes available to schedule pods";

/// Why a decision found no node.
#[derive(Debug, Clone)]
pub enum ScheduleError {
    /// The cluster has no node.
    NoNodes,
    /// No node can take the pod.
    Fit(Box<FitError>),
    /// A plugin or an extender failed.
    Error(Status),
}

impl ScheduleError {
    /// Returns the error as a status.
    pub(crate) fn into_status(self) -> Status {
        match self {
            Self::NoNodes => Status::unresolvable(NO_NODES),
            Self::Fit(fit) if fit.diagnosis.pre_filter.is_success() => {
                Status::unschedulable(fit.message())
            }
            Self::Fit(fit) => fit.diagnosis.pre_filter,
            Self::Error(status) => status,
        }
    }
}

impl HasCode for ScheduleError {
    fn code(&self) -> Code {
        match self {
            Self::NoNodes => Code::UnschedulableAndUnresolvable,
            Self::Fit(fit) if !fit.diagnosis.pre_filter.is_success() => {
                fit.diagnosis.pre_filter.code()
            }
            Self::Fit(_) => Code::Unschedulable,
            Self::Error(status) => status.code(),
        }
    }
}
