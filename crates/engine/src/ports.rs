//! The ports of the engine: extenders, measurements and threads.
//!
//! To add a metric, add a variant of [`Count`] or [`Span`], report it where it happens, and
//! register the metric in the daemon (`src/metrics`).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use framework::{
    ClusterEvent, Code, ExtensionPoint, PluginName, Pod, PodKey, QueueTimes, Time, Uid,
};

use crate::counters::EngineCounter;
use crate::record::{Choice, Record};

/// A part of a pass over many nodes.
pub type Task<'t> = Box<dyn FnOnce() + Send + 't>;

/// Runs the parts of a pass over many nodes, on one thread or several (`Parallelizer` in
/// Kubernetes). The parts do not depend on each other, and what comes out is the same in any order.
pub trait Parallelizer: fmt::Debug + Send + Sync {
    /// Runs all tasks, and returns when they have ended.
    fn run(&self, tasks: Vec<Task<'_>>);
}

/// Runs the tasks on the calling thread.
impl Parallelizer for () {
    fn run(&self, tasks: Vec<Task<'_>>) {
        tasks.into_iter().for_each(|task| task());
    }
}

/// An extender that does not answer, and is therefore not called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// When the call began that got no answer.
    pub since: Time,
    /// When the extender is tried again at the earliest, with the next pod that needs it.
    pub next_try: Time,
    /// Why the last call got no answer.
    pub error: String,
}

/// A filter or prioritize call to an extender.
#[derive(Debug)]
pub struct ExtenderCall<'a> {
    /// Index of the extender in the order in which extenders are called.
    pub extender: usize,
    /// The pod to schedule.
    pub pod: &'a Pod,
    /// Names of the nodes in question.
    pub nodes: Vec<&'a str>,
}

/// Result of a filter call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Nodes that can take the pod.
    pub nodes: Vec<String>,
    /// Nodes that cannot, with the reason.
    pub failed: Vec<(String, String)>,
    /// Nodes that cannot, and evicting pods would not help.
    pub failed_and_unresolvable: Vec<(String, String)>,
}

/// Names of nodes with the scores an extender gives them, 0 to 10.
pub type HostPriorities = Vec<(String, i64)>;

/// A preempt call to an extender.
#[derive(Debug)]
pub struct PreemptionCall<'a> {
    /// Index of the extender in the order in which extenders are called.
    pub extender: usize,
    /// The preemptor.
    pub pod: &'a Pod,
    /// The candidates, by name of the node.
    pub victims: BTreeMap<&'a str, Victims<'a>>,
}

/// The victims on one node.
#[derive(Debug)]
pub struct Victims<'a> {
    /// The pods.
    pub pods: Vec<&'a Pod>,
    /// Number of victims whose eviction violates a PodDisruptionBudget.
    pub num_pdb_violations: i64,
}

/// The victims on one node, by UID, as an extender names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaVictims {
    /// UIDs of the pods.
    pub pods: Vec<Uid>,
    /// Number of victims whose eviction violates a PodDisruptionBudget.
    pub num_pdb_violations: i64,
}

/// Why a call of an extender has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// No answer came although the call waited for one. The extender is not called in a cycle until
    /// it has answered a [probe](ExtenderClient::probe).
    NoAnswer(String),
    /// The extender reported an error or sent something invalid, or the call failed without a wait.
    Failed(String),
}

impl CallError {
    /// Returns the text of the error.
    pub fn into_text(self) -> String {
        match self {
            Self::NoAnswer(text) | Self::Failed(text) => text,
        }
    }
}

impl From<String> for CallError {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

/// A call that finds out whether an extender answers again. Nothing waits for the answer.
#[derive(Debug, Clone, Copy)]
pub enum Probing<'a> {
    /// A filter call.
    Filter(&'a ExtenderCall<'a>),
    /// A prioritize call.
    Prioritize(&'a ExtenderCall<'a>),
    /// A preempt call.
    Preempt(&'a PreemptionCall<'a>),
}

/// Calls extenders: the one synchronous way out of a scheduling cycle. The daemon calls over HTTP
/// and blocks; a simulation answers from a model. Each method returns the result and the time at
/// which it arrived. By default no extender answers.
pub trait ExtenderClient {
    /// Returns which nodes pass the extender.
    fn filter(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<Filtered, CallError>, Time) {
        (Err(not_connected(call.extender)), now)
    }

    /// Calls several extenders at once; returns one result for each call.
    fn prioritize(
        &mut self,
        calls: &[ExtenderCall<'_>],
        now: Time,
    ) -> (Vec<Result<HostPriorities, CallError>>, Time) {
        (calls.iter().map(|call| Err(not_connected(call.extender))).collect(), now)
    }

    /// Returns the candidates that the extender accepts, with their victims.
    fn process_preemption(
        &mut self,
        call: &PreemptionCall<'_>,
        now: Time,
    ) -> (Result<BTreeMap<String, MetaVictims>, CallError>, Time) {
        (Err(not_connected(call.extender)), now)
    }

    /// Begins a call to an extender that did not answer, without waiting. Its outcome is passed to
    /// [`Input::ExtenderProbed`](crate::Input::ExtenderProbed). By default nothing is called.
    fn probe(&mut self, call: Probing<'_>) {
        let _ = call;
    }

    /// Reports that an ignorable extender was skipped because of this error. By default the report
    /// is dropped.
    fn skipped(&mut self, extender: usize, error: &str) {
        let _ = (extender, error);
    }

    /// Reports that an extender does not answer, or that it answers again. By default the report is
    /// dropped.
    fn outage_changed(&mut self, extender: usize, outage: Option<&Outage>) {
        let _ = (extender, outage);
    }
}

fn not_connected(extender: usize) -> CallError {
    CallError::Failed(format!("no extender {extender} is connected"))
}

/// No extender answers.
impl ExtenderClient for () {}

/// A point at which plugins are measured: an extension point, or the calls to its extensions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// An extension point.
    Extension(ExtensionPoint),
    /// Normalising the scores of a Score plugin.
    ScoreExtensionNormalize,
    /// Notifying a PreFilter plugin of a pod that is added to a node.
    PreFilterExtensionAddPod,
    /// Notifying a PreFilter plugin of a pod that is removed from a node.
    PreFilterExtensionRemovePod,
    /// Undoing Reserve.
    Unreserve,
    /// Asking the PreBind plugins whether they have work to do.
    PreBindPreFlight,
}

impl Point {
    /// Returns the value of the `extension_point` label, for example `PreFilter`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Extension(point) => point.name(),
            Self::ScoreExtensionNormalize => "ScoreExtensionNormalize",
            Self::PreFilterExtensionAddPod => "PreFilterExtensionAddPod",
            Self::PreFilterExtensionRemovePod => "PreFilterExtensionRemovePod",
            Self::Unreserve => "Unreserve",
            Self::PreBindPreFlight => "PreBindPreFlight",
        }
    }
}

impl From<ExtensionPoint> for Point {
    fn from(point: ExtensionPoint) -> Self {
        Self::Extension(point)
    }
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Work that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span<'a> {
    /// A whole scheduling attempt for a pod of this profile, with the UID of the pod.
    Attempt(&'a str, &'a Uid),
    /// Filtering and scoring within an attempt, and PostFilter if no node fits.
    Algorithm,
    /// The scheduling cycle of a group of this profile. Its code is Success if enough members fit,
    /// and Wait if they wait for the end of victims.
    GroupAttempt(&'a str),
    /// The decision about a group within its cycle.
    GroupAlgorithm,
    /// All plugins of one point, for a pod of this profile.
    Point(Point, &'a str),
    /// One plugin at one point.
    Plugin(Point, &'a PluginName),
    /// An attempt to place a pod group in one of its placements, for a profile. It ends with
    /// success if enough members fit.
    Placement(&'a str),
    /// Another call of a plugin, which metrics leave out; the text says what for, like a point.
    Call(&'static str, &'a PluginName),
    /// A queueing hint of a plugin.
    Hint(&'a PluginName, &'a ClusterEvent),
    /// Taking in a change of an object: the update of the cache, and the moves of pods.
    Change,
}

/// An occurrence that is counted.
#[derive(Debug, Clone, Copy)]
pub enum Count<'a> {
    /// Something happened that only a metric counts.
    Counter {
        /// The counter.
        counter: &'static EngineCounter,
        /// Values of its labels, in their order.
        labels: &'a [&'a str],
    },
    /// An event of the [change](Span::Change) at hand was handled
    /// (`event_handling_duration_seconds`).
    Event(&'a ClusterEvent),
    /// An event of a pod without a node was handled; its label depends on the level.
    PodEvent(&'a str),
    /// A pod enters a queue (`queue_incoming_pods_total`).
    Incoming {
        /// `active`, `backoff` or `unschedulable`.
        queue: &'static str,
        /// The event that moved it.
        event: &'a str,
    },
    /// A group enters a queue.
    IncomingGroup {
        /// `active`, `backoff` or `unschedulable`.
        queue: &'static str,
        /// The event that moved it.
        event: &'a str,
        /// Number of pods that enter with it.
        pods: usize,
    },
    /// An attempt ended (`schedule_attempts_total`).
    Attempt {
        /// `scheduled`, `unschedulable` or `error`.
        result: &'static str,
        /// Scheduler name of the profile.
        profile: &'a str,
    },
    /// A pod was bound.
    Scheduled {
        /// The pod, as it was assumed.
        pod: &'a Pod,
        /// The choice of its node.
        choice: &'a Choice,
        /// Scheduler name of the profile.
        profile: &'a str,
        /// Number of attempts.
        attempts: u32,
        /// Time since the last of them began, waits in Permit and PreBind included.
        took: Duration,
        /// Time since the pod first entered the active queue.
        since_first_active: Duration,
        /// The attempt followed the flush of pods that wait for too long, not an event.
        after_flush: bool,
        /// The time that the pod had spent in each part of the queue.
        times: QueueTimes,
    },
    /// A pod was deleted that had been tried and was pending.
    PendingDeleted {
        /// The record of its last attempt.
        last: &'a Record,
        /// The time since the scheduler saw the pod first.
        pending: Duration,
    },
    /// PreBind, or a request to bind, ended. Both take several calls into the engine.
    Point {
        /// The pod.
        pod: &'a Pod,
        /// PreBind or Bind.
        point: ExtensionPoint,
        /// Scheduler name of the profile.
        profile: &'a str,
        /// The outcome.
        code: Code,
        /// How long it took.
        took: Duration,
    },
    /// The binding cycle of a pod failed, after a request to bind or before it.
    BindingFailed {
        /// `unschedulable` or `error`.
        result: &'static str,
        /// Scheduler name of the profile.
        profile: &'a str,
        /// Time since the attempt began.
        took: Duration,
    },
    /// PreBind or Bind failed with an error. Rejections and cancelled binding cycles do not count.
    BindingError {
        /// Namespace of the pod.
        namespace: &'a str,
    },
    /// A decision by a ranking was made again by a full pass.
    RankingCheck {
        /// The pod.
        pod: &'a PodKey,
        /// Whether the full pass found the same nodes.
        agrees: bool,
    },
    /// A pod waited in Permit.
    PermitWait {
        /// The pod.
        pod: &'a Pod,
        /// The outcome.
        code: Code,
        /// The time it waited.
        waited: Duration,
    },
    /// A number of placements were proposed for a pod group (`generated_placements_total`).
    Placements {
        /// Scheduler name of the profile.
        profile: &'a str,
        /// How many.
        count: usize,
    },
    /// Number of victims of one preemption for a pod (`preemption_victims`), terminating victims
    /// included.
    Victims(usize),
    /// Number of victims of one preemption for a group (`workload_preemption_victims`), terminating
    /// victims included.
    GroupVictims(usize),
    /// The evictions of one preemption ended (`preemption_goroutines_duration_seconds`).
    Evicted {
        /// Whether all evictions succeeded: Success or Error.
        code: Code,
        /// Time since the preemption began.
        took: Duration,
    },
    /// An API call of the scheduler ended (`async_api_call_execution_total`).
    ApiCall {
        /// The kind of call, for example `pod_binding`.
        call_type: &'static str,
        /// Whether it succeeded: Success or Error.
        code: Code,
        /// Time since its first request was sent.
        took: Duration,
    },
    /// The first request to bind a pod was sent this long after the attempt began. The decision is
    /// based on the state at the beginning of the attempt.
    DecisionAge(Duration),
    /// A pod is notified that it is not scheduled, because it belongs to a PodGroup.
    GroupMemberGated {
        /// The pod.
        pod: &'a PodKey,
        /// The group.
        group: &'a str,
    },
    /// A plugin panicked, which failed the attempt.
    Panic {
        /// The plugin.
        plugin: &'a PluginName,
    },
}

impl<'a> Count<'a> {
    /// Returns the increase of a counter by one.
    pub const fn of(counter: &'static EngineCounter, labels: &'a [&'a str]) -> Self {
        Self::Counter { counter, labels }
    }
}

/// Receives measurements. It is write-only: decisions cannot read it. By default every method does
/// nothing.
pub trait Probe {
    /// Work starts.
    fn start(&mut self, span: Span<'_>) {
        let _ = span;
    }

    /// The work that started last under this span ends.
    fn stop(&mut self, span: Span<'_>, code: Code) {
        let _ = (span, code);
    }

    /// Something happened.
    fn count(&mut self, count: Count<'_>) {
        let _ = count;
    }

    /// Returns the probe of one task of a [`Parallelizer`]. This probe counts the panics of the
    /// task when it has ended.
    fn of_task(&self) -> Box<dyn Probe + Send> {
        Box::new(())
    }
}

/// Measures nothing.
impl Probe for () {}

/// The ports for the duration of one call into the engine.
pub struct Ports<'a> {
    /// Extenders.
    pub extenders: &'a mut dyn ExtenderClient,
    /// Measurements.
    pub probe: &'a mut dyn Probe,
}
