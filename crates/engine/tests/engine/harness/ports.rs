//! Extenders that answer from a script, and a probe that remembers.

use engine::ports::{Count, ExtenderAnswer, ExtenderCall, Outside, Probe, Span};
use framework::{Code, Time};

type Script = dyn FnMut(&ExtenderCall<'_>) -> Result<ExtenderAnswer, String>;

/// Extenders, all answered by one script.
pub(crate) struct Extenders {
    /// `verb extender nodes`, one for each call.
    pub(crate) calls: Vec<String>,
    /// How long each call takes.
    pub(crate) latency: std::time::Duration,
    pub(crate) script: Box<Script>,
}

impl Default for Extenders {
    fn default() -> Self {
        let script = Box::new(|_: &ExtenderCall<'_>| Err("no answer is scripted".to_owned()));
        Self { calls: Vec::new(), latency: std::time::Duration::ZERO, script }
    }
}

impl Outside for Extenders {
    fn extend(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<ExtenderAnswer, String>, Time) {
        self.calls.push(format!("{:?} {} {}", call.verb, call.extender, call.nodes.join(",")));
        ((self.script)(call), now + self.latency)
    }
}

/// Remembers what it is told.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// Names of plugins that panicked.
    pub(crate) panics: Vec<String>,
    /// `result profile` of every attempt.
    pub(crate) attempts: Vec<String>,
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
            Count::Bind { .. } => {}
            Count::PermitWait { code, waited } => {
                self.attempts.push(format!("waited {waited:?}: {code}"));
            }
            Count::Incoming { .. } => {}
        }
    }
}
