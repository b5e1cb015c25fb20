//! Extenders that answer from a script, and a probe that keeps all reports.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::counters::EngineCounter;
use engine::ports::{
    CallError, Count, ExtenderCall, ExtenderClient, Filtered, HostPriorities, MetaVictims, Outage,
    PreemptionCall, Probe, Probing, Span,
};
use framework::{Code, Time};

type Script<T> = Box<dyn FnMut(&ExtenderCall<'_>) -> Result<T, String>>;

/// The candidates an extender accepts, by node.
pub(crate) type Accepted = Result<BTreeMap<String, MetaVictims>, String>;

/// Extenders, all answered by one script for each question.
pub(crate) struct Extenders {
    /// `verb extender nodes`, one for each call; with the victims, where there are any, and how
    /// many of them a budget protects.
    pub(crate) calls: Vec<String>,
    /// `extender: error` of the ignored errors.
    pub(crate) skipped: Vec<String>,
    /// How long each call takes.
    pub(crate) latency: Duration,
    /// How long calls wait in vain, if no extender answers.
    pub(crate) hanging: Option<Duration>,
    /// How long all calls together took.
    pub(crate) waited: Duration,
    /// The calls for which nothing waits, like `calls`.
    pub(crate) probes: Vec<String>,
    /// `extender: error` of outages that began, `extender: up` of those that ended.
    pub(crate) outages: Vec<String>,
    pub(crate) filter: Script<Filtered>,
    pub(crate) prioritize: Script<HostPriorities>,
    pub(crate) preempt: Box<dyn FnMut(&PreemptionCall<'_>) -> Accepted>,
}

impl Default for Extenders {
    fn default() -> Self {
        Self {
            calls: Vec::new(),
            skipped: Vec::new(),
            latency: Duration::ZERO,
            hanging: None,
            waited: Duration::ZERO,
            probes: Vec::new(),
            outages: Vec::new(),
            filter: Box::new(|_| Err("no answer is scripted".to_owned())),
            prioritize: Box::new(|_| Err("no answer is scripted".to_owned())),
            preempt: Box::new(|_| Err("no answer is scripted".to_owned())),
        }
    }
}

impl Extenders {
    fn note(&mut self, verb: &str, call: &ExtenderCall<'_>) {
        self.calls.push(describe(verb, call));
    }

    /// Returns the result of a call, unless no answer comes, and the time after it.
    fn answered<T>(
        &mut self,
        now: Time,
        answer: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> (Result<T, CallError>, Time) {
        let took = self.hanging.unwrap_or(self.latency);
        self.waited += took;
        let result = match self.hanging {
            None => answer(self).map_err(CallError::Failed),
            Some(_) => Err(CallError::NoAnswer("deadline exceeded".to_owned())),
        };
        (result, now + took)
    }
}

fn describe(verb: &str, call: &ExtenderCall<'_>) -> String {
    format!("{verb} {} {}", call.extender, call.nodes.join(","))
}

fn describe_preemption(call: &PreemptionCall<'_>) -> String {
    let candidates = call.victims.iter().map(|(node, victims)| {
        let names: Vec<&str> = victims.pods.iter().map(|pod| &*pod.key.name).collect();
        format!("{node}={}/{}", names.join("+"), victims.num_pdb_violations)
    });
    let candidates: Vec<String> = candidates.collect();
    format!("preempt {} {}", call.extender, candidates.join(" "))
}

impl ExtenderClient for Extenders {
    fn filter(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<Filtered, CallError>, Time) {
        self.note("filter", call);
        self.answered(now, |extenders| (extenders.filter)(call))
    }

    fn prioritize(
        &mut self,
        calls: &[ExtenderCall<'_>],
        now: Time,
    ) -> (Vec<Result<HostPriorities, CallError>>, Time) {
        calls.iter().for_each(|call| self.note("prioritize", call));
        let mut end = now;
        let mut ask = |call| {
            let result;
            (result, end) = self.answered(now, |extenders| (extenders.prioritize)(call));
            result
        };
        (calls.iter().map(&mut ask).collect(), end)
    }

    fn process_preemption(
        &mut self,
        call: &PreemptionCall<'_>,
        now: Time,
    ) -> (Result<BTreeMap<String, MetaVictims>, CallError>, Time) {
        self.calls.push(describe_preemption(call));
        self.answered(now, |extenders| (extenders.preempt)(call))
    }

    fn probe(&mut self, call: Probing<'_>) {
        self.probes.push(match call {
            Probing::Filter(call) => describe("filter", call),
            Probing::Prioritize(call) => describe("prioritize", call),
            Probing::Preempt(call) => describe_preemption(call),
        });
    }

    fn outage_changed(&mut self, extender: usize, outage: Option<&Outage>) {
        let state = outage.map_or("up", |outage| &outage.error);
        self.outages.push(format!("{extender}: {state}"));
    }

    fn skipped(&mut self, extender: usize, error: &str) {
        self.skipped.push(format!("{extender}: {error}"));
    }
}

/// A probe that keeps all reports.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// Names of plugins that panicked.
    pub(crate) panics: Vec<String>,
    /// `result profile` of every attempt.
    pub(crate) attempts: Vec<String>,
    /// `code time` of the evictions of each preemption.
    pub(crate) evicted: Vec<String>,
    /// `result time` of each binding cycle that failed.
    pub(crate) failed_bindings: Vec<String>,
    /// Namespaces of pods whose PreBind or Bind failed.
    pub(crate) binding_errors: Vec<String>,
    /// Names of the counters that were increased, with the values of their labels.
    counted: Vec<(&'static str, String)>,
    /// `span code` of all work that ended.
    pub(crate) ended: Vec<String>,
    open: Vec<String>,
}

impl Recorder {
    /// Work that started and has not ended.
    pub(crate) fn open(&self) -> &[String] {
        &self.open
    }

    /// The values of the labels of a counter, each time that it was increased.
    pub(crate) fn counted(&self, counter: &EngineCounter) -> Vec<&str> {
        let own = self.counted.iter().filter(|(name, _)| *name == counter.name);
        own.map(|(_, labels)| labels.as_str()).collect()
    }
}

impl Probe for Recorder {
    fn start(&mut self, span: Span<'_>) {
        self.open.push(format!("{span:?}"));
    }

    fn stop(&mut self, span: Span<'_>, code: Code) {
        let span = format!("{span:?}");
        assert_eq!(self.open.pop().as_deref(), Some(&*span), "what started last ends first");
        self.ended.push(format!("{span} {code}"));
    }

    fn count(&mut self, count: Count<'_>) {
        match count {
            Count::Panic { plugin } => self.panics.push(plugin.to_string()),
            Count::Attempt { result, profile } => self.attempts.push(format!("{result} {profile}")),
            Count::Scheduled { attempts, took, .. } => {
                self.attempts.push(format!("bound after {attempts}, {took:?}"));
            }
            Count::PermitWait { code, waited, .. } => {
                self.attempts.push(format!("waited {waited:?}: {code}"));
            }
            Count::Evicted { code, took } => self.evicted.push(format!("{code} {took:?}")),
            Count::BindingError { namespace } => self.binding_errors.push(namespace.to_owned()),
            Count::BindingFailed { result, took, .. } => {
                self.failed_bindings.push(format!("{result} {took:?}"));
            }
            Count::Counter { counter, labels } => {
                self.counted.push((counter.name, labels.join(" ")));
            }
            Count::Point { point, code, took, .. } => {
                self.ended.push(format!("{point} {code} {took:?}"));
            }
            Count::Event(_)
            | Count::PodEvent(_)
            | Count::Incoming { .. }
            | Count::IncomingGroup { .. }
            | Count::Victims(_)
            | Count::GroupVictims(_)
            | Count::Placements { .. }
            | Count::PendingDeleted { .. }
            | Count::ApiCall { .. }
            | Count::RankingCheck { .. }
            | Count::DecisionAge(_)
            | Count::GroupMemberGated { .. } => {}
        }
    }
}
