//! Extenders that answer from a script, and a probe that keeps all reports.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::ports::{
    Count, ExtenderCall, ExtenderClient, Filtered, HostPriorities, MetaVictims, PreemptionCall,
    Probe, Span,
};
use framework::{Code, Time};

type Script<T> = Box<dyn FnMut(&ExtenderCall<'_>) -> Result<T, String>>;

/// The candidates an extender accepts, by node.
pub(crate) type Accepted = Result<BTreeMap<String, MetaVictims>, String>;

/// Extenders, all answered by one script for each question.
pub(crate) struct Extenders {
    /// `verb extender nodes`, one for each call; with the victims, where there are any, and how many of
    /// them a budget protects.
    pub(crate) calls: Vec<String>,
    /// `extender: error` of the ignored errors.
    pub(crate) skipped: Vec<String>,
    /// How long each call takes.
    pub(crate) latency: Duration,
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
            filter: Box::new(|_| Err("no answer is scripted".to_owned())),
            prioritize: Box::new(|_| Err("no answer is scripted".to_owned())),
            preempt: Box::new(|_| Err("no answer is scripted".to_owned())),
        }
    }
}

impl Extenders {
    fn note(&mut self, verb: &str, call: &ExtenderCall<'_>) {
        self.calls.push(format!("{verb} {} {}", call.extender, call.nodes.join(",")));
    }
}

impl ExtenderClient for Extenders {
    fn filter(&mut self, call: &ExtenderCall<'_>, now: Time) -> (Result<Filtered, String>, Time) {
        self.note("filter", call);
        ((self.filter)(call), now + self.latency)
    }

    fn prioritize(
        &mut self,
        calls: &[ExtenderCall<'_>],
        now: Time,
    ) -> (Vec<Result<HostPriorities, String>>, Time) {
        calls.iter().for_each(|call| self.note("prioritize", call));
        (calls.iter().map(&mut self.prioritize).collect(), now + self.latency)
    }

    fn process_preemption(&mut self, call: &PreemptionCall<'_>, now: Time) -> (Accepted, Time) {
        let candidates = call.victims.iter().map(|(node, victims)| {
            let names: Vec<&str> = victims.pods.iter().map(|pod| &*pod.key.name).collect();
            format!("{node}={}/{}", names.join("+"), victims.num_pdb_violations)
        });
        let candidates: Vec<String> = candidates.collect();
        self.calls.push(format!("preempt {} {}", call.extender, candidates.join(" ")));
        ((self.preempt)(call), now + self.latency)
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
    /// What was paused, whenever a pod was kept from preempting: `pod` or `node`.
    pub(crate) pauses: Vec<&'static str>,
    /// `code time` of the evictions of each preemption.
    pub(crate) evicted: Vec<String>,
    /// `result time` of each binding cycle that failed.
    pub(crate) failed_bindings: Vec<String>,
    /// Namespaces of pods whose PreBind or Bind failed.
    pub(crate) binding_errors: Vec<String>,
    /// Number of requests to bind whose answer was lost.
    pub(crate) unknown_binds: usize,
    /// `span code` of all work that ended.
    pub(crate) ended: Vec<String>,
    open: Vec<String>,
}

impl Recorder {
    /// Work that started and has not ended.
    pub(crate) fn open(&self) -> &[String] {
        &self.open
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
            Count::PermitWait { code, waited } => {
                self.attempts.push(format!("waited {waited:?}: {code}"));
            }
            Count::PreemptionPaused(paused) => self.pauses.push(paused),
            Count::Evicted { code, took } => self.evicted.push(format!("{code} {took:?}")),
            Count::BindingError { namespace } => self.binding_errors.push(namespace.to_owned()),
            Count::BindingFailed { result, took, .. } => {
                self.failed_bindings.push(format!("{result} {took:?}"));
            }
            Count::BindUnknown => self.unknown_binds += 1,
            Count::Point { point, code, took, .. } => {
                self.ended.push(format!("{point} {code} {took:?}"));
            }
            Count::Event(_)
            | Count::Incoming { .. }
            | Count::Victims(_)
            | Count::ApiCall { .. }
            | Count::DecisionAge(_) => {}
        }
    }
}
