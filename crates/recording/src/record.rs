//! The format of operations in bytes.
//!
//! An operation is one record, after the records that define the parts and pods which it names by
//! number. A [`Record::Reset`] forgets all numbers, so that what follows can be read without what
//! comes before. Numbers that grow, such as times and resource versions, are written as the
//! difference to the last one.

use std::borrow::Cow;
use std::sync::Arc;

use framework::{GeneratedClaims, Problem, Resources, ScheduledCondition, Taint, Uid};
use serde::{Deserialize, Serialize};

/// Number of a part, counted since the last reset.
pub(crate) type PartNumber = u32;
/// Number of a pod, counted since the last reset.
pub(crate) type PodNumber = u32;

/// Maximum size of all parts between two resets, in bytes.
pub(crate) const PARTS_MAX: usize = 64 << 20;
/// Maximum number of pods that are named between two resets.
pub(crate) const PODS_MAX: usize = 4 << 20;
/// Maximum number of parts between two resets.
pub(crate) const PART_COUNT_MAX: usize = 4 << 20;

/// One record. `at` is the time since the last record with a time, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Record<'a> {
    /// Forgets all numbers and differences.
    Reset,
    /// Defines the next part: a text, or a part of a pod or node.
    Part(#[serde(borrow)] Cow<'a, [u8]>),
    /// Defines the next pod.
    PodName {
        namespace: PartNumber,
        name: Cow<'a, str>,
        uid: Uid,
    },
    WallOffset(i64),
    Node(NodeRecord),
    NodeDeleted {
        at: i64,
        name: PartNumber,
    },
    Pod {
        at: i64,
        pod: PodRecord,
    },
    /// The number of the pod is not used any more.
    PodDeleted {
        at: i64,
        pod: PodNumber,
    },
    Object(ObjectRecord<'a>),
    Answer {
        at: i64,
        effect: i64,
        answer: AnswerRecord<'a>,
    },
    ExtenderProbed {
        at: i64,
        extender: usize,
        error: Option<Cow<'a, str>>,
    },
    Tick {
        at: i64,
    },
    Touch {
        pod: PodNumber,
    },
    Schedule {
        at: i64,
    },
    Evaluate {
        at: i64,
        pod: PodRecord,
        form: u8,
        start: Option<usize>,
    },
    Called {
        until: i64,
        result: CalledRecord,
    },
    Attempt {
        pod: PodNumber,
        outcome: DecidedRecord,
    },
    Effects {
        effects: Vec<EffectRecord>,
        digest: [u8; 3],
    },
    /// The next change belongs to a checkpoint: it is not a step. Since format 2.
    Known,
    /// The checkpoint is complete. Since format 2.
    Checkpoint,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    pub(crate) at: i64,
    pub(crate) name: PartNumber,
    pub(crate) labels: PartNumber,
    /// A [`NodePart`].
    pub(crate) rest: PartNumber,
    /// Images.
    pub(crate) images: PartNumber,
    /// The digests of conditions and annotations.
    pub(crate) digests: PartNumber,
    pub(crate) extra: Option<PartNumber>,
}

/// The part of a node that seldom changes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NodePart<'a> {
    pub(crate) taints: Cow<'a, [Taint]>,
    pub(crate) unschedulable: bool,
    pub(crate) allocatable: Cow<'a, Resources>,
    pub(crate) allowed_pods: i64,
    pub(crate) declared_features: Cow<'a, [Arc<str>]>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PodRecord {
    pub(crate) pod: PodNumber,
    /// The resource version, as the difference to the one written last.
    pub(crate) version: i64,
    pub(crate) generation: u32,
    /// A [`TemplatePart`].
    pub(crate) template: PartNumber,
    /// A [`StatusPart`].
    pub(crate) status: PartNumber,
    pub(crate) node: Option<PartNumber>,
    pub(crate) nominated: Option<PartNumber>,
    /// Seconds, as the difference to the start written last, and nanoseconds.
    pub(crate) start: Option<(i64, u32)>,
}

/// The part of a pod that the pods of a workload have in common.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TemplatePart {
    pub(crate) labels: PartNumber,
    pub(crate) spec: PartNumber,
    pub(crate) requests: PartNumber,
    pub(crate) controller: Option<PartNumber>,
    pub(crate) extra: Option<PartNumber>,
}

/// How far the deletion of a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Deletion {
    None,
    Terminating,
    RemovalFollows,
}

/// How far the life of a pod is. The first two are written as `false` and `true` were, which were
/// here before `Runs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Life {
    Other,
    Ended,
    /// A member of a PodGroup of Coscheduling that runs.
    Runs,
    /// It has ended without a failure.
    Succeeded,
}

/// The part of a pod that many pods have in common for a while.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StatusPart<'a> {
    pub(crate) deletion: Deletion,
    pub(crate) preempted: bool,
    pub(crate) life: Life,
    pub(crate) condition: Option<Cow<'a, ScheduledCondition>>,
    pub(crate) claims: Option<Cow<'a, GeneratedClaims>>,
    pub(crate) problems: Option<Cow<'a, [Problem]>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ObjectRecord<'a> {
    pub(crate) at: i64,
    pub(crate) kind: PartNumber,
    pub(crate) namespace: PartNumber,
    pub(crate) name: Cow<'a, str>,
    /// The tokens of the object, or `None` if it is gone.
    pub(crate) object: Option<Cow<'a, [u8]>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum AnswerRecord<'a> {
    /// With the tokens of the object, if there is one.
    Ok(Option<Cow<'a, [u8]>>),
    Conflict(Cow<'a, str>),
    Outdated(Cow<'a, str>),
    Gone(Cow<'a, str>),
    Forbidden(Cow<'a, str>),
    Throttled(Cow<'a, str>),
    Error(Cow<'a, str>),
    Unknown(Cow<'a, str>),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ErrorRecord {
    NoAnswer(String),
    Failed(String),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum CalledRecord {
    Filter(Result<FilteredRecord, ErrorRecord>),
    /// Nodes with their scores, for each call.
    Prioritize(Vec<Result<Vec<(PartNumber, i64)>, ErrorRecord>>),
    /// Nodes with the UIDs of their victims, and the number of violated budgets.
    Preempt(Result<Vec<(PartNumber, Vec<Uid>, i64)>, ErrorRecord>),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FilteredRecord {
    pub(crate) nodes: Vec<PartNumber>,
    /// Nodes with the reason.
    pub(crate) failed: Vec<(PartNumber, PartNumber)>,
    pub(crate) unresolvable: Vec<(PartNumber, PartNumber)>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum DecidedRecord {
    Assumed(PartNumber),
    Unschedulable,
    Error,
    Skipped,
    /// Since format 4.
    Repeated,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum EffectRecord {
    Bind(PodNumber, PartNumber),
    ExtenderBind(PodNumber, PartNumber),
    /// The victim, then namespace and name of the preemptor.
    Evict(PodNumber, PartNumber, PartNumber),
    Event(PodNumber, PartNumber),
    Patch(PodNumber),
    Write(PartNumber, PartNumber, PartNumber),
    Read(PodNumber),
    Fence(PodNumber),
    Touch(PodNumber),
    PlanMoves(PodNumber),
    RequestEviction(PodNumber),
}
