//! Spans of pods, from measurements and decision records.

use std::time::Duration;

use engine::ports::Span;
use engine::record::{Choice, Finding, Record, Rejected, Rejection};
use framework::{Code, ExtensionPoint, PluginName, QueueTimes, Status, Time};
use opentelemetry::Value;
use opentelemetry::trace::{SpanId, Status as SpanStatus};
use opentelemetry_sdk::trace::SpanData;
use testkit::pod;

use super::*;

/// A tracer of every pod, and what it sends.
fn tracer(room: usize) -> (Tracer, mpsc::Receiver<SpanData>, Arc<Metrics>) {
    let (sender, receiver) = mpsc::channel(room);
    let metrics = Arc::new(Metrics::new());
    (Tracer::new(TraceIds::new(1_000_000), sender, metrics.clone()), receiver, metrics)
}

fn waited(change: impl FnOnce(&mut QueueTimes)) -> QueueTimes {
    let mut times = QueueTimes::default();
    change(&mut times);
    times
}

fn record(finding: Finding) -> Record {
    let pod = pod("web").build();
    Record {
        pod: pod.key.clone(),
        uid: pod.uid,
        state: 7,
        at: Time::ZERO,
        attempt: 2,
        since: None,
        times: waited(|times| times.backoff = Duration::from_secs(3)),
        finding,
    }
}

fn chosen() -> Choice {
    Choice { node: "n1".into(), ties: 2, total: Some(7), feasible: 3, evaluated: 5 }
}

fn attribute<'a>(span: &'a SpanData, name: &str) -> Option<&'a Value> {
    span.attributes.iter().find(|own| own.key.as_str() == name).map(|own| &own.value)
}

/// Runs an attempt in which a filter plugin takes this long.
#[expect(clippy::disallowed_methods, reason = "a call that is slow by the clock")]
fn attempt(tracer: &mut Tracer, took: Duration, record: &Record) {
    let plugin: PluginName = "NodeAffinity".into();
    let filter = ExtensionPoint::Filter;
    let spans = [
        Span::Attempt("loadmaster", &record.uid),
        Span::Algorithm,
        Span::Point(filter.into(), "loadmaster"),
        Span::Plugin(filter.into(), &plugin),
    ];
    spans.into_iter().for_each(|span| tracer.start(span));
    std::thread::sleep(took);
    spans.into_iter().rev().for_each(|span| tracer.stop(span, Code::Success));
    tracer.attempted(record);
}

#[test]
fn attempt_has_spans_of_slow_plugins_and_the_rejections_of_its_record() {
    let (mut tracer, mut sent, _) = tracer(16);
    let status = Status::unschedulable("Insufficient cpu").by(&"NodeResourcesFit".into());
    let rejections = vec![Rejection { status, count: 4, names: Vec::new() }];
    let rejected = Rejected { nodes: 4, rejections, ..Rejected::default() };
    let record = record(Finding::Rejected(Arc::new(rejected)));
    attempt(&mut tracer, 2 * spans::SLOW, &record);
    let spans: Vec<SpanData> = std::iter::from_fn(|| sent.try_recv().ok()).collect();
    let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["Filter/NodeAffinity", "Filter", "scheduling attempt"]);
    let [plugin, point, attempt] = &*spans else { panic!("{spans:?}") };
    assert_eq!(plugin.parent_span_id, point.span_context.span_id());
    assert_eq!(point.parent_span_id, attempt.span_context.span_id());
    assert!(plugin.start_time >= attempt.start_time && plugin.end_time <= attempt.end_time);
    let trace = TraceIds::new(1_000_000).of(&record.uid).unwrap().to_bytes();
    assert!(spans.iter().all(|span| span.span_context.trace_id().to_bytes() == trace));
    let rejections = attribute(attempt, "scheduler.rejections").unwrap().to_string();
    assert!(rejections.contains("4 NodeResourcesFit: Insufficient cpu"), "{rejections}");
    assert_eq!(attribute(attempt, "scheduler.attempt"), Some(&Value::I64(2)));
    assert_eq!(attribute(attempt, "scheduler.queue.backoff_seconds"), Some(&Value::F64(3.0)));
    assert_eq!(attempt.status, SpanStatus::error("unschedulable"));
}

#[test]
fn fast_plugins_have_no_spans() {
    let (mut tracer, mut sent, _) = tracer(16);
    let record = record(Finding::Chosen(chosen()));
    attempt(&mut tracer, Duration::ZERO, &record);
    let span = sent.try_recv().unwrap();
    assert_eq!((&*span.name, sent.try_recv().is_err()), ("scheduling attempt", true));
    assert_eq!(attribute(&span, "k8s.node.name"), Some(&Value::from("n1")));
    assert_eq!(attribute(&span, "scheduler.feasible_nodes"), Some(&Value::I64(3)));
}

#[test]
fn pod_has_one_root_to_which_all_attempts_belong() {
    use engine::ports::Count;

    let (mut tracer, mut sent, _) = tracer(16);
    let record = record(Finding::Chosen(chosen()));
    attempt(&mut tracer, Duration::ZERO, &record);
    let (pod, choice, second) = (pod("web").build(), chosen(), Duration::from_secs(1));
    tracer.count(Count::Scheduled {
        pod: &pod,
        choice: &choice,
        profile: "loadmaster",
        attempts: 2,
        took: second,
        since_first_active: 5 * second,
        after_flush: false,
        times: waited(|times| times.gated = 8 * second),
    });
    let (attempt, root) = (sent.try_recv().unwrap(), sent.try_recv().unwrap());
    assert_eq!(attempt.parent_span_id, root.span_context.span_id());
    assert_eq!((&*root.name, root.parent_span_id), ("schedule pod", SpanId::INVALID));
    let took = root.end_time.duration_since(root.start_time).unwrap();
    assert_eq!(took, 9 * second, "the time at the gate counts");
    let (mut other, mut sent, _) = self::tracer(16);
    self::attempt(&mut other, Duration::ZERO, &record);
    let again = sent.try_recv().unwrap();
    assert_eq!(again.parent_span_id, attempt.parent_span_id, "another process adds to the trace");
    assert_ne!(again.span_context.span_id(), attempt.span_context.span_id());
}

#[test]
fn full_queue_costs_spans_and_is_counted() {
    let (mut tracer, _sent, metrics) = tracer(1);
    let record = record(Finding::Chosen(chosen()));
    for _ in 0..4 {
        attempt(&mut tracer, Duration::ZERO, &record);
    }
    let (shown, name) = (metrics.render(), "loadmaster_trace_spans_total{result=\"queue_full\"} ");
    let lost = shown.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    // Calls that the machine has held up have spans, too.
    assert!(lost.parse::<u32>().unwrap() >= 3, "{lost} are lost");
}

#[test]
fn pod_that_is_not_sampled_has_no_span() {
    let (sender, mut sent) = mpsc::channel(16);
    let mut tracer = Tracer::new(TraceIds::new(0), sender, Arc::new(Metrics::new()));
    attempt(&mut tracer, 2 * spans::SLOW, &record(Finding::Chosen(chosen())));
    assert!(sent.try_recv().is_err());
}
