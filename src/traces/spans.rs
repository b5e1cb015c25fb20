//! Makes spans from measurements and decision records.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use control::{TraceId, TraceIds};
use engine::ports::{Count, Span};
use engine::record::{Choice, Finding, Record, Rejected, Rejection};
use framework::{Code, Pod, PodKey, QueueTimes, Uid};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use tokio::sync::mpsc::Sender;

use crate::metrics::Metrics;

/// Points and calls of plugins that took at least this long have a span.
pub(super) const SLOW: Duration = Duration::from_millis(1);
/// Maximum number of such spans in an attempt.
const MAX_CALLS: usize = 64;

/// Makes the spans of the pods that are traced. It belongs to the thread of the engine.
pub struct Tracer {
    ids: TraceIds,
    spans: Sender<SpanData>,
    metrics: Arc<Metrics>,
    scope: InstrumentationScope,
    rng: fastrand::Rng,
    /// The attempt at hand, if its pod is traced.
    attempt: Option<Attempt>,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("ids", &self.ids).finish_non_exhaustive()
    }
}

/// An attempt to schedule a pod that is traced.
struct Attempt {
    trace: TraceId,
    id: SpanId,
    began: SystemTime,
    since: Instant,
    /// The points and calls that it is in.
    open: Vec<(SpanId, Instant)>,
    /// The traces that have ended and were slow.
    calls: Vec<SpanData>,
    took: Option<Duration>,
}

impl Attempt {
    fn parent(&self) -> SpanId {
        self.open.last().map_or(self.id, |(id, _)| *id)
    }
}

/// The parts of a span that differ.
struct Draft {
    trace: TraceId,
    id: SpanId,
    /// The invalid id for the span of the pod.
    parent: SpanId,
    name: Cow<'static, str>,
    began: SystemTime,
    took: Duration,
}

impl Draft {
    fn span(
        self,
        attributes: Vec<KeyValue>,
        status: Status,
        scope: &InstrumentationScope,
    ) -> SpanData {
        let trace = opentelemetry::trace::TraceId::from_bytes(self.trace.to_bytes());
        SpanData {
            span_context: SpanContext::new(
                trace,
                self.id,
                TraceFlags::SAMPLED,
                false,
                TraceState::default(),
            ),
            parent_span_id: self.parent,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: self.name,
            start_time: self.began,
            end_time: self.began + self.took,
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status,
            instrumentation_scope: scope.clone(),
        }
    }
}

impl Tracer {
    pub(super) fn new(ids: TraceIds, spans: Sender<SpanData>, metrics: Arc<Metrics>) -> Self {
        let seed = now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let scope = InstrumentationScope::builder("loadmaster");
        Self {
            ids,
            spans,
            metrics,
            scope: scope.with_version(env!("CARGO_PKG_VERSION")).build(),
            rng: fastrand::Rng::with_seed(seed as u64),
            attempt: None,
        }
    }

    /// Notes that work starts.
    pub(crate) fn start(&mut self, span: Span<'_>) {
        match span {
            Span::Attempt(_, pod) => self.attempt = self.begin(pod),
            Span::Point(..) | Span::Plugin(..) => {
                let id = self.new_id();
                if let Some(attempt) = &mut self.attempt {
                    attempt.open.push((id, instant()));
                }
            }
            _ => {}
        }
    }

    /// Notes that work ends.
    pub(crate) fn stop(&mut self, span: Span<'_>, code: Code) {
        let Some(attempt) = &mut self.attempt else { return };
        let name: Cow<'static, str> = match span {
            Span::Attempt(..) if code == Code::Skip => {
                // The attempt does not count, and has no record.
                self.attempt = None;
                return;
            }
            Span::Attempt(..) => {
                attempt.took = Some(attempt.since.elapsed());
                return;
            }
            Span::Point(point, _) => point.name().into(),
            Span::Plugin(point, plugin) => format!("{}/{plugin}", point.name()).into(),
            _ => return,
        };
        let Some((id, since)) = attempt.open.pop() else { return };
        let took = since.elapsed();
        if took < SLOW || attempt.calls.len() == MAX_CALLS {
            return;
        }
        let (trace, parent) = (attempt.trace, attempt.parent());
        let began = attempt.began + since.duration_since(attempt.since);
        let status = [KeyValue::new("scheduler.status", code.name())];
        let draft = Draft { trace, id, parent, name, began, took };
        let span = draft.span(status.into(), failed_if(code == Code::Error, ""), &self.scope);
        attempt.calls.push(span);
    }

    /// Adds the decision record of the attempt that has ended.
    pub(crate) fn attempted(&mut self, record: &Record) {
        let Some(attempt) = self.attempt.take() else { return };
        let Some(took) = attempt.took.filter(|_| self.ids.of(&record.uid) == Some(attempt.trace))
        else {
            return;
        };
        let (trace, id, began) = (attempt.trace, attempt.id, attempt.began);
        let (parent, name) = (root(trace), "scheduling attempt".into());
        let (attributes, status) = (attributes_of(record), status_of(&record.finding));
        let span = Draft { trace, id, parent, name, began, took };
        let span = span.span(attributes, status, &self.scope);
        attempt.calls.into_iter().chain([span]).for_each(|span| self.send(span));
    }

    /// Adds what happened beside attempts: waits, requests, and the end of a pod's trace.
    pub(crate) fn count(&mut self, count: Count<'_>) {
        match count {
            Count::PermitWait { pod, code, waited } => self.step(pod, "Permit", code, waited),
            Count::Point { pod, point, code, took, .. }
                if took >= SLOW || code != Code::Success =>
            {
                self.step(pod, point.name(), code, took);
            }
            Count::Scheduled { pod, choice, attempts, took, since_first_active, times, .. } => {
                let Some(trace) = self.ids.of(&pod.uid) else { return };
                let mut attributes = of_pod(&pod.key, &pod.uid);
                attributes.extend(of_choice(choice));
                attributes.push(number("scheduler.attempts", attempts));
                attributes.extend(of_queue(&times));
                let pending = since_first_active.max(times.total() + took);
                self.finish(trace, pending, attributes, Status::Ok);
            }
            Count::PendingDeleted { last, pending } => {
                let Some(trace) = self.ids.of(&last.uid) else { return };
                let mut attributes = of_pod(&last.pod, &last.uid);
                attributes.push(number("scheduler.attempts", last.attempt));
                self.finish(trace, pending, attributes, Status::error("the pod was deleted"));
            }
            _ => {}
        }
    }

    fn begin(&mut self, pod: &Uid) -> Option<Attempt> {
        let trace = self.ids.of(pod)?;
        let (id, began, since) = (self.new_id(), now(), instant());
        let (open, calls) = (Vec::new(), Vec::new());
        Some(Attempt { trace, id, began, since, open, calls, took: None })
    }

    /// Sends the span of a wait or a request that has just ended.
    fn step(&mut self, pod: &Pod, name: &'static str, code: Code, took: Duration) {
        let Some(trace) = self.ids.of(&pod.uid) else { return };
        let (id, parent, began) = (self.new_id(), root(trace), now() - took);
        let mut attributes = of_pod(&pod.key, &pod.uid);
        attributes.push(KeyValue::new("scheduler.status", code.name()));
        let draft = Draft { trace, id, parent, name: name.into(), began, took };
        let status = failed_if(code != Code::Success, code.name());
        let span = draft.span(attributes, status, &self.scope);
        self.send(span);
    }

    /// Sends the span of a pod whose trace ends.
    fn finish(
        &mut self,
        trace: TraceId,
        took: Duration,
        attributes: Vec<KeyValue>,
        status: Status,
    ) {
        let (id, parent, name) = (root(trace), SpanId::INVALID, "schedule pod".into());
        let draft = Draft { trace, id, parent, name, began: now() - took, took };
        let span = draft.span(attributes, status, &self.scope);
        self.send(span);
    }

    fn send(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.metrics.count_spans("queue_full", 1);
        }
    }

    fn new_id(&mut self) -> SpanId {
        SpanId::from_bytes(self.rng.u64(1..).to_be_bytes())
    }
}

#[expect(clippy::disallowed_methods, reason = "spans have times of the wall clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

#[expect(clippy::disallowed_methods, reason = "durations are what this is for")]
fn instant() -> Instant {
    Instant::now()
}

/// The id of the span of a pod, which every process knows.
fn root(trace: TraceId) -> SpanId {
    let bytes = u128::from_be_bytes(trace.to_bytes());
    let id = (bytes >> 64) as u64 ^ bytes as u64;
    SpanId::from_bytes(id.max(1).to_be_bytes())
}

fn failed_if(failed: bool, why: &'static str) -> Status {
    if failed { Status::error(why) } else { Status::Unset }
}

fn status_of(finding: &Finding) -> Status {
    match finding {
        Finding::Chosen(_) => Status::Ok,
        Finding::Rejected(_) => Status::error("unschedulable"),
        Finding::Failed(message) => Status::error(message.to_string()),
    }
}

fn attributes_of(record: &Record) -> Vec<KeyValue> {
    let mut attributes = of_pod(&record.pod, &record.uid);
    attributes.push(number("scheduler.attempt", record.attempt));
    attributes.extend(of_queue(&record.times));
    let result = match &record.finding {
        Finding::Chosen(choice) => {
            attributes.extend(of_choice(choice));
            "scheduled"
        }
        Finding::Rejected(rejected) => {
            attributes.extend(of_rejected(rejected));
            "unschedulable"
        }
        Finding::Failed(_) => "error",
    };
    attributes.push(KeyValue::new("scheduler.result", result));
    attributes
}

fn of_pod(pod: &PodKey, uid: &Uid) -> Vec<KeyValue> {
    vec![
        KeyValue::new("k8s.namespace.name", pod.namespace.clone()),
        KeyValue::new("k8s.pod.name", pod.name.clone()),
        KeyValue::new("k8s.pod.uid", uid.to_string()),
    ]
}

fn of_choice(choice: &Choice) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("k8s.node.name", choice.node.clone()),
        number("scheduler.evaluated_nodes", choice.evaluated),
        number("scheduler.feasible_nodes", choice.feasible),
        KeyValue::new(
            "scheduler.equally_good_nodes",
            i64::try_from(choice.ties).unwrap_or(i64::MAX),
        ),
    ];
    attributes.extend(choice.total.map(|total| KeyValue::new("scheduler.score", total)));
    attributes
}

fn of_rejected(rejected: &Rejected) -> Vec<KeyValue> {
    let mut attributes = vec![
        number("scheduler.nodes", rejected.nodes),
        list("scheduler.rejections", rejected.rejections.iter().map(text_of)),
        list("scheduler.rejecting_plugins", rejected.plugins.iter().map(ToString::to_string)),
    ];
    if !rejected.post_filter.is_empty() {
        attributes.push(KeyValue::new("scheduler.post_filter", rejected.post_filter.to_string()));
    }
    let node = rejected.nominated.clone();
    attributes.extend(node.map(|node| KeyValue::new("scheduler.nominated_node", node)));
    if !rejected.victims.is_empty() {
        let victims = rejected.victims.iter().map(ToString::to_string);
        attributes.push(list("scheduler.victims", victims));
    }
    attributes
}

/// Returns a rejection as one text: `3 NodeResourcesFit: Insufficient cpu`.
fn text_of(rejection: &Rejection) -> String {
    let Rejection { status, count, .. } = rejection;
    let plugin = status.plugin().map_or("", |plugin| plugin);
    format!("{count} {plugin}: {}", status.message())
}

/// Returns the time in each part of the queue, in seconds.
fn of_queue(times: &QueueTimes) -> Vec<KeyValue> {
    let parts = [
        ("scheduler.queue.active_seconds", times.active),
        ("scheduler.queue.backoff_seconds", times.backoff),
        ("scheduler.queue.unschedulable_seconds", times.unschedulable),
        ("scheduler.queue.gated_seconds", times.gated),
    ];
    let parts = parts.into_iter().filter(|(_, time)| !time.is_zero());
    parts.map(|(name, time)| KeyValue::new(name, time.as_secs_f64())).collect()
}

fn number(name: &'static str, value: u32) -> KeyValue {
    KeyValue::new(name, i64::from(value))
}

fn list(name: &'static str, texts: impl Iterator<Item = String>) -> KeyValue {
    KeyValue::new(name, Value::Array(Array::String(texts.map(StringValue::from).collect())))
}
