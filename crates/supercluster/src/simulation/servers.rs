//! The API servers of a simulation, as their clients see them: what is asked of them, and what
//! their watches show.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use engine::{Effect, EffectKind};
use framework::{Answer, Pod, PodKey, Time, Uid};
use serde_json::Value;

use super::AGENT_PROFILE;
use super::management::ManagementApi;
use super::member::MemberApi;
use crate::agent;
use crate::delegate::DelegateMark;
use crate::message::{DelegateEvent, PodObject};
use crate::mirror::ShownEvent;
use crate::scheduler::{Intent, OriginalPod, Placement, WriteAnswer};

/// The API servers of all clusters.
pub struct Servers {
    /// That of the management cluster.
    pub management: Box<dyn ManagementServer>,
    /// The servers of the members, in the order of the clusters.
    pub members: Vec<Box<dyn MemberServer>>,
    /// Whether the roles go on while servers work: what a server has done is taken in when the
    /// first answer or watch may show it, and not at once.
    pub are_beside: bool,
}

/// Work of a server, which may be done by another thread.
pub struct Work<T>(Box<dyn FnOnce() -> T>);

impl<T: 'static> Work<T> {
    /// Returns work that is done.
    pub fn done(result: T) -> Self {
        Self::new(|| result)
    }

    /// Returns work whose result `wait` waits for.
    pub fn new(wait: impl FnOnce() -> T + 'static) -> Self {
        Self(Box::new(wait))
    }

    /// Waits for the result.
    pub fn wait(self) -> T {
        (self.0)()
    }
}

impl<T> fmt::Debug for Work<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

impl Servers {
    /// Returns models, which keep compact pods and know the preconditions of writes. If there are
    /// mirrors, originals have finalizers and a status.
    pub fn models(members: usize, has_mirrors: bool) -> Self {
        let member = |cluster| Box::new(MemberApi::new(cluster, AGENT_PROFILE)) as Box<_>;
        Self {
            management: Box::new(ManagementApi::new(has_mirrors)),
            members: (0..members).map(member).collect(),
            are_beside: false,
        }
    }
}

/// The API server of the management cluster.
pub trait ManagementServer {
    /// Creates a pod, which may get another UID. Returns what a watch shows of it.
    fn create(&mut self, pod: Pod, now: Time) -> Vec<ManagementEvent>;

    /// Carries out a write. Returns the answer, and what a watch shows of it, oldest first.
    fn carry_out(&mut self, write: ManagementWrite, now: Time) -> Work<ManagementOutcome>;
}

/// The answer to a write, and what a watch shows of it.
pub type ManagementOutcome = (WriteAnswer, Vec<ManagementEvent>);

/// A write of an original pod, or of an event of it.
#[derive(Debug, Clone)]
pub struct ManagementWrite {
    /// Namespace and name of the pod.
    pub pod: PodKey,
    /// UID of the pod, a precondition.
    pub uid: Uid,
    /// What is written.
    pub operation: ManagementOperation,
}

/// What is written.
#[derive(Debug, Clone)]
pub enum ManagementOperation {
    /// The intent and the finalizer of mirrors. The placement is removed.
    Intent {
        /// A precondition.
        resource_version: u64,
        /// The intent.
        intent: Intent,
        /// The finalizers that the pod has.
        finalizers: Vec<String>,
    },
    /// The placement, and the condition that the pod is scheduled.
    Placement(Placement),
    /// An effect of the engine of a scheduler.
    Effect(Effect),
    /// The status of the delegate.
    Status {
        /// A merge patch.
        status: Value,
        /// Whether it says that the agent does not answer.
        is_unreachable: bool,
    },
    /// An event of the delegate.
    Event(Box<ShownEvent>),
    /// Deletes the pod. Its finalizers keep it.
    Delete,
    /// Removes the finalizer of mirrors.
    Release {
        /// A precondition.
        resource_version: u64,
        /// The finalizers that the pod has.
        finalizers: Vec<String>,
    },
    /// Deletes the pod and all that keeps it.
    Remove,
}

/// What a watch of the management cluster shows.
#[derive(Debug, Clone)]
pub enum ManagementEvent {
    /// A pod was created or changed.
    Changed(Box<OriginalPod>),
    /// A pod is gone.
    Deleted(PodKey, Uid),
}

/// The API server of a member cluster.
pub trait MemberServer {
    /// Carries out an operation other than [`MemberOperation::KeepLeases`]. Returns the answer, and
    /// what watches show of it, oldest first.
    fn carry_out(&mut self, operation: MemberOperation, now: Time) -> Work<MemberOutcome>;
}

/// The answer to an operation, and what watches show of it.
pub type MemberOutcome = (MemberAnswer, Vec<MemberEvent>);

/// A write or read.
#[derive(Debug, Clone)]
pub enum MemberOperation {
    /// Creates the delegate of a pod.
    Create {
        /// The original pod.
        pod: PodObject,
        /// The mark of the delegate.
        mark: DelegateMark,
    },
    /// Reads a pod.
    Read {
        /// Namespace and name.
        pod: PodKey,
    },
    /// Deletes a pod that is not bound.
    Delete {
        /// Namespace and name.
        pod: PodKey,
        /// A precondition.
        uid: Uid,
        /// A precondition.
        resource_version: u64,
    },
    /// Begins to end a pod; one that is not bound is gone at once.
    End {
        /// Namespace and name.
        pod: PodKey,
        /// A precondition.
        uid: Uid,
    },
    /// Stores when the leases were renewed.
    KeepLeases {
        /// The leases by UID.
        renewed: BTreeMap<Arc<str>, Time>,
    },
    /// An effect of the engine of the agent.
    Effect(Effect),
    /// The containers of a pod have ended, and it is gone.
    Remove {
        /// Namespace and name.
        pod: PodKey,
        /// A precondition.
        uid: Uid,
    },
    /// Creates a pod that another scheduler has bound.
    CreateBound(Box<Pod>),
}

/// The answer to an operation, for the agent or for its engine.
#[derive(Debug, Clone)]
pub enum MemberAnswer {
    /// For the agent.
    Agent(agent::WriteAnswer),
    /// For its engine.
    Engine(Answer),
}

impl MemberOperation {
    pub(super) const fn is_write(&self) -> bool {
        match self {
            Self::Read { .. } => false,
            Self::Effect(effect) => !matches!(effect.kind, EffectKind::ReadPod { .. }),
            _ => true,
        }
    }

    /// Returns the answer that the client gives if none comes.
    pub(super) fn lost(&self) -> MemberAnswer {
        let text = "no answer in time".to_owned();
        match self {
            Self::Effect(_) => MemberAnswer::Engine(Answer::Unknown(text)),
            _ => MemberAnswer::Agent(agent::WriteAnswer::Unknown(text)),
        }
    }
}

/// A pod of a member cluster.
#[derive(Debug, Clone)]
pub struct MemberPod {
    /// The compact form.
    pub pod: Arc<Pod>,
    /// Its mark, if it is a delegate.
    pub mark: Option<DelegateMark>,
    /// Its status; null from a model.
    pub status: Arc<Value>,
}

/// The state that the watches of a member show.
#[derive(Debug, Clone)]
pub enum MemberEvent {
    /// A pod was created or changed.
    Changed(MemberPod),
    /// A pod is gone.
    Deleted(PodKey, Uid),
    /// An event of the pod with this UID.
    Event(Uid, DelegateEvent),
}
