//! The two ways out of a cycle: asking extenders, and telling how long things took.

use std::collections::BTreeMap;
use std::time::Duration;

use framework::{ClusterEvent, Code, ExtensionPoint, PluginName, Pod, Time, Uid};

/// A question to an extender about a pod and nodes.
#[derive(Debug)]
pub struct ExtenderCall<'a> {
    /// Which of the configured extenders is asked, by its place in the order in which they are.
    pub extender: usize,
    /// The pod to schedule.
    pub pod: &'a Pod,
    /// Names of the nodes in question.
    pub nodes: Vec<&'a str>,
}

/// What an extender that filters makes of the nodes in question.
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

/// A question to an extender about the pods that would be evicted for another.
#[derive(Debug)]
pub struct PreemptionCall<'a> {
    /// Which of the configured extenders is asked.
    pub extender: usize,
    /// The pod that preempts.
    pub pod: &'a Pod,
    /// The candidates, by name of the node.
    pub victims: BTreeMap<&'a str, Victims<'a>>,
}

/// Pods that would be evicted from one node.
#[derive(Debug)]
pub struct Victims<'a> {
    /// The pods.
    pub pods: Vec<&'a Pod>,
    /// How many of them a PodDisruptionBudget protects.
    pub num_pdb_violations: i64,
}

/// Victims as an extender names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaVictims {
    /// UIDs of the pods.
    pub pods: Vec<Uid>,
    /// How many of them a PodDisruptionBudget protects.
    pub num_pdb_violations: i64,
}

/// The one synchronous way out of a cycle. The daemon asks over HTTP and blocks, a simulation answers
/// from a model. Every question returns, beside the answer or what went wrong, the time at which it
/// came. By default no extender answers.
pub trait Outside {
    /// Asks an extender which nodes can take the pod.
    fn filter(&mut self, call: &ExtenderCall<'_>, now: Time) -> (Result<Filtered, String>, Time) {
        (Err(not_connected(call.extender)), now)
    }

    /// Asks several extenders at once how good the nodes are; gives an answer for each call.
    fn prioritize(
        &mut self,
        calls: &[ExtenderCall<'_>],
        now: Time,
    ) -> (Vec<Result<HostPriorities, String>>, Time) {
        (calls.iter().map(|call| Err(not_connected(call.extender))).collect(), now)
    }

    /// Asks an extender which of the candidates it accepts, and with which victims.
    fn process_preemption(
        &mut self,
        call: &PreemptionCall<'_>,
        now: Time,
    ) -> (Result<BTreeMap<String, MetaVictims>, String>, Time) {
        (Err(not_connected(call.extender)), now)
    }

    /// Hears that an ignorable extender was passed over because of this error. By default nobody is
    /// told.
    fn skipped(&mut self, extender: usize, error: &str) {
        let _ = (extender, error);
    }
}

fn not_connected(extender: usize) -> String {
    format!("no extender {extender} is connected")
}

/// No extender answers.
impl Outside for () {}

/// A stretch of work whose duration is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span<'a> {
    /// A whole scheduling attempt for a pod of this profile.
    Attempt(&'a str),
    /// Filtering and scoring within an attempt.
    Algorithm,
    /// All plugins of one extension point, for a pod of this profile.
    Point(ExtensionPoint, &'a str),
    /// One plugin at one extension point.
    Plugin(ExtensionPoint, &'a PluginName),
    /// A queueing hint of a plugin, asked about an event.
    Hint(&'a PluginName, &'a ClusterEvent),
    /// Putting an event to the pods that it may help.
    Event(&'a ClusterEvent),
}

/// Something that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count<'a> {
    /// A pod enters a queue (`queue_incoming_pods_total`).
    Incoming {
        /// `active`, `backoff` or `unschedulable`.
        queue: &'static str,
        /// What brought it there.
        event: &'a str,
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
        /// Scheduler name of the profile.
        profile: &'a str,
        /// Attempts it took.
        attempts: u32,
        /// Time since the last of them began, waits in Permit and PreBind included.
        took: Duration,
        /// Time since the pod first entered the active queue.
        since_first_active: Duration,
        /// No event had helped it before that attempt; it was tried because it had waited for too long.
        after_flush: bool,
    },
    /// A request to bind was answered.
    Bind {
        /// Scheduler name of the profile.
        profile: &'a str,
        /// How it ended.
        code: Code,
        /// How long it took.
        took: Duration,
    },
    /// A pod waited in Permit.
    PermitWait {
        /// What came of it.
        code: Code,
        /// For how long.
        waited: Duration,
    },
    /// So many pods have to make room for another (`preemption_victims`), those that are ending already
    /// among them.
    Victims(usize),
    /// A pod may not preempt for a while, because too many preemptions led to no binding: `pod` for its
    /// own, `node` for those on a node that it would preempt on.
    PreemptionPaused(&'static str),
    /// A plugin panicked; the attempt failed, the engine lives.
    Panic {
        /// The plugin.
        plugin: &'a PluginName,
    },
}

/// A write-only port for metrics: decisions cannot read it. Every method does nothing by default.
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
}

/// Measures nothing.
impl Probe for () {}

/// Both ports, for the duration of one call into the engine.
pub struct Ports<'a> {
    /// Extenders.
    pub outside: &'a mut dyn Outside,
    /// Measurements.
    pub probe: &'a mut dyn Probe,
}
