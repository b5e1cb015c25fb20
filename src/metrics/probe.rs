//! Metrics of the engine.
//!
//! The engine reports every call into a plugin, so finding the metric must be cheap: each metric is
//! resolved once and then found by comparing a few short keys.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::ports::{Count, Point, Probe, Span};
use framework::{ClusterEvent, Code, ExtensionPoint, PluginName};
use plugins::{default_preemption, volume_binding};
use prometheus::{Gauge, Histogram, IntCounter};
use tracing::error;

use super::scheduler::{Attempts, Plugins, Queues};
use super::{EVALUATED, Metrics, POD, POD_GROUP, unix_time};

/// Calls of single plugins are timed in every tenth attempt, as in kube-scheduler.
const SAMPLING: u64 = 10;

/// Number of namespaces whose binding errors are counted apart.
const MAX_NAMESPACES: usize = 100;
/// The label of binding errors in further namespaces, which is not a valid name of a namespace.
const OTHER_NAMESPACES: &str = "(other)";

/// The engine's [`Probe`], which feeds [`Metrics`]. It belongs to the thread of the engine.
#[derive(Debug)]
pub struct EngineProbe {
    metrics: Arc<Metrics>,
    /// Start times of the open spans, which nest; `None` for a span that is not timed.
    open: Vec<Option<Instant>>,
    /// Number of attempts.
    attempts: u64,
    /// Number of resets of the metrics that the probe has followed.
    resets: u64,
    profiles: Vec<Profile>,
    /// Index of the current profile; reports inside an attempt do not name it.
    current: usize,
    hints: Children<(PluginName, ClusterEvent, Code), Histogram>,
    events: Children<ClusterEvent, Histogram>,
    pod_events: Children<String, Histogram>,
    incoming: Children<(&'static str, String), [IntCounter; 2]>,
    binding_errors: Children<String, IntCounter>,
    api_calls: Children<(&'static str, Code), ApiCall>,
    last_attempt: Option<Gauge>,
}

/// The metrics of API calls of one kind with one result.
#[derive(Debug)]
struct ApiCall {
    executions: IntCounter,
    duration: Histogram,
}

impl EngineProbe {
    /// Creates a probe that feeds `metrics`.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            open: Vec::new(),
            attempts: 0,
            resets: 0,
            profiles: vec![Profile::default()],
            current: 0,
            hints: Children::default(),
            events: Children::default(),
            pod_events: Children::default(),
            incoming: Children::default(),
            binding_errors: Children::default(),
            api_calls: Children::default(),
            last_attempt: None,
        }
    }

    /// Returns a probe for a task of the current attempt, which measures the plugins that it calls.
    pub(crate) fn of_task(&self) -> Self {
        let profile =
            Profile { name: self.profiles[self.current].name.clone(), ..Profile::default() };
        let profiles = vec![profile];
        Self { profiles, attempts: self.attempts, ..Self::new(self.metrics.clone()) }
    }

    /// Drops the resolved series after a reset, which has detached them.
    fn follow_resets(&mut self) {
        let resets = self.metrics.resets();
        if resets != self.resets {
            let (open, attempts) = (std::mem::take(&mut self.open), self.attempts);
            *self = Self { open, attempts, resets, ..Self::new(self.metrics.clone()) };
        }
    }

    /// Attributes the following reports to a profile.
    fn enter(&mut self, profile: &str) {
        if self.profiles[self.current].name != profile {
            let known = self.profiles.iter().position(|known| known.name == profile);
            self.current = known.unwrap_or_else(|| {
                self.profiles.push(Profile { name: profile.to_owned(), ..Profile::default() });
                self.profiles.len() - 1
            });
        }
    }

    fn is_timed(&self, span: Span<'_>) -> bool {
        match span {
            Span::Call(..) => false,
            Span::Plugin(..) => self.attempts.is_multiple_of(SAMPLING),
            _ => true,
        }
    }

    fn timed(&mut self, span: Span<'_>, code: Code, took: Duration) {
        let seconds = took.as_secs_f64();
        let Metrics { attempts, plugins, .. } = &*self.metrics;
        match span {
            Span::Attempt(profile, _) => self.attempt_ended(profile, code, seconds),
            Span::GroupAttempt(profile) => {
                let labels = [group_result(code), profile];
                attempts.groups.total.with_label_values(&labels).inc();
                attempts.groups.duration.with_label_values(&labels).observe(seconds);
            }
            Span::GroupAlgorithm => {
                attempts.groups.algorithm.with_label_values::<&str>(&[]).observe(seconds);
            }
            Span::Algorithm => attempts.algorithm.observe(seconds),
            Span::Point(point, _) => {
                self.profiles[self.current].point(point, code, plugins).observe(seconds);
            }
            Span::Plugin(point, plugin) => {
                let labels = &[&**plugin, point.name(), code.name()];
                plugins.execution.with_label_values(labels).observe(seconds);
            }
            Span::Hint(plugin, event) => self.hint(plugin, event, code).observe(seconds),
            Span::Placement(profile) => self.placement_tried(profile, code, seconds),
            Span::Call(..) | Span::Change => {}
        }
    }

    /// Records an attempt to place a group in one of its placements, unless it failed.
    fn placement_tried(&self, profile: &str, code: Code, seconds: f64) {
        let result = match code {
            Code::Success => "feasible",
            code if code.is_rejection() => "infeasible",
            _ => return,
        };
        let placements = &self.metrics.placements;
        placements.evaluations.with_label_values(&[result, profile]).inc();
        placements.duration.with_label_values(&[result, profile]).observe(seconds);
    }

    /// Records the duration of an attempt that found no node, unless the attempt does not count. An
    /// attempt that found one is recorded by [`Count::Scheduled`].
    fn attempt_ended(&self, profile: &str, code: Code, seconds: f64) {
        let result = match code {
            Code::Success | Code::Skip => return,
            Code::Error => "error",
            _ => "unschedulable",
        };
        self.metrics.attempts.duration.with_label_values(&[result, profile]).observe(seconds);
    }

    fn hint(&mut self, plugin: &PluginName, event: &ClusterEvent, code: Code) -> &Histogram {
        let family = &self.metrics.plugins.hint;
        self.hints.get(
            |known| known.2 == code && known.1 == *event && known.0 == *plugin,
            || {
                let event_label = event.to_string();
                let labels = [plugin, event_label.as_str(), hint_result(code)];
                ((plugin.clone(), event.clone(), code), family.with_label_values(&labels))
            },
        )
    }

    /// Records an event of the change that is being applied. Its duration counts from the begin of
    /// the change.
    fn event_handled(&mut self, event: &ClusterEvent) {
        let Some(began) = self.open.last().copied().flatten() else { return };
        let family = &self.metrics.attempts.event_handling;
        let make = || (event.clone(), family.with_label_values(&[event.to_string()]));
        self.events.get(|known| known == event, make).observe(began.elapsed().as_secs_f64());
    }

    /// Measures an event of a pod without a node.
    fn pod_event_handled(&mut self, label: &str) {
        let Some(began) = self.open.last().copied().flatten() else { return };
        let family = &self.metrics.attempts.event_handling;
        let make = || (label.to_owned(), family.with_label_values(&[label]));
        let known = self.pod_events.get(|known| known == label, make);
        known.observe(began.elapsed().as_secs_f64());
    }

    /// Counts a search for victims.
    fn preemption_attempted(&self, point: Point, code: Code) {
        let family = &self.metrics.attempts;
        match point {
            Point::Extension(ExtensionPoint::PostFilter) => family.preemption_attempts.inc(),
            Point::Extension(ExtensionPoint::PodGroupPostFilter) => {
                family.groups.preemptions.with_label_values(&[code.name()]).inc();
            }
            _ => {}
        }
    }

    fn volume_error(&self, point: Point) {
        let operation = match point {
            Point::Extension(ExtensionPoint::Filter) => "predicate",
            Point::Extension(ExtensionPoint::Reserve) => "assume",
            Point::Extension(ExtensionPoint::PreBind) => "bind",
            _ => return,
        };
        self.metrics.plugins.volume_errors.with_label_values(&[operation]).inc();
    }

    /// Returns the counter of binding errors in a namespace. It is shared by the namespaces beyond
    /// [`MAX_NAMESPACES`].
    fn binding_error(&mut self, namespace: &str) -> &IntCounter {
        let is_full = self.binding_errors.found.len() >= MAX_NAMESPACES;
        let is_known = self.binding_errors.found.iter().any(|(known, _)| known == namespace);
        let label = if is_full && !is_known { OTHER_NAMESPACES } else { namespace };
        let family = &self.metrics.bindings.errors;
        let make = || (label.to_owned(), family.with_label_values(&[label]));
        self.binding_errors.get(|known| known == label, make)
    }

    fn api_call(&mut self, call_type: &'static str, code: Code) -> &ApiCall {
        let (family, key) = (&self.metrics.api_calls, (call_type, code));
        let labels = &[call_type, result(code)];
        let make = || {
            let executions = family.executions.with_label_values(labels);
            (key, ApiCall { executions, duration: family.duration.with_label_values(labels) })
        };
        self.api_calls.get(|known| *known == key, make)
    }

    /// Counts a pod that entered a queue, which is an entity, too.
    fn incoming(&mut self, queue: &'static str, event: &str) {
        let Queues { incoming, incoming_entities, .. } = &self.metrics.queues;
        let make = || {
            let counters = [
                incoming.with_label_values(&[queue, event]),
                incoming_entities.with_label_values(&[queue, event, POD]),
            ];
            ((queue, event.to_owned()), counters)
        };
        let known = self.incoming.get(|known| known.1 == event && known.0 == queue, make);
        known.iter().for_each(IntCounter::inc);
    }
}

impl Probe for EngineProbe {
    #[expect(clippy::disallowed_methods, reason = "durations are what this is for")]
    fn start(&mut self, span: Span<'_>) {
        match span {
            Span::Attempt(profile, _) | Span::GroupAttempt(profile) => {
                self.follow_resets();
                self.attempts += 1;
                self.enter(profile);
                let family = &self.metrics.attempts.last_attempt;
                let gauge =
                    self.last_attempt.get_or_insert_with(|| family.with_label_values::<&str>(&[]));
                gauge.set(unix_time());
            }
            Span::Point(_, profile) => self.enter(profile),
            Span::Change => self.follow_resets(),
            _ => {}
        }
        let started = self.is_timed(span).then(Instant::now);
        self.open.push(started);
    }

    fn stop(&mut self, span: Span<'_>, code: Code) {
        if let Span::Plugin(point, plugin) = span {
            self.profiles[self.current].evaluated(point, plugin, code, &self.metrics.plugins);
            if **plugin == *default_preemption::NAME {
                self.preemption_attempted(point, code);
            }
            if code == Code::Error && **plugin == *volume_binding::NAME {
                self.volume_error(point);
            }
        }
        if let Some(started) = self.open.pop().flatten() {
            self.timed(span, code, started.elapsed());
        }
    }

    fn count(&mut self, count: Count<'_>) {
        let Metrics { attempts: family, plugins, bindings, engine, .. } = &*self.metrics;
        match count {
            Count::Event(event) => self.event_handled(event),
            Count::PodEvent(label) => self.pod_event_handled(label),
            Count::Incoming { queue, event } => self.incoming(queue, event),
            Count::IncomingGroup { queue, event, pods } => {
                let queues = &self.metrics.queues;
                queues.incoming.with_label_values(&[queue, event]).inc_by(pods as u64);
                queues.incoming_entities.with_label_values(&[queue, event, POD_GROUP]).inc();
            }
            Count::Attempt { result, profile } => {
                self.enter(profile);
                self.profiles[self.current].attempts(result, &self.metrics.attempts).inc();
            }
            Count::Scheduled {
                profile, attempts, took, since_first_active, after_flush, ..
            } => {
                self.enter(profile);
                let family = &self.metrics.attempts;
                self.profiles[self.current].scheduled(family).observe(took.as_secs_f64());
                family.pod_scheduled(attempts, since_first_active, after_flush);
            }
            Count::Point { point, profile, code, took, .. } => {
                self.enter(profile);
                let current = &mut self.profiles[self.current];
                let duration = current.point(point.into(), code, &self.metrics.plugins);
                duration.observe(took.as_secs_f64());
            }
            Count::BindingFailed { result, profile, took } => {
                let duration = family.duration.with_label_values(&[result, profile]);
                duration.observe(took.as_secs_f64());
            }
            Count::BindingError { namespace } => self.binding_error(namespace).inc(),
            Count::Counter { counter, labels } => engine.increase(counter, labels),
            Count::RankingCheck { pod, agrees } => {
                let result = if agrees { "agrees" } else { "differs" };
                family.ranking_checks.with_label_values(&[result]).inc();
                if !agrees {
                    error!(
                        "the ranking of the nodes for pod {pod} differs from a full pass, which decides; \
                         report this as a bug, and run with --no-rankings until it is fixed"
                    );
                }
            }
            Count::DecisionAge(age) => bindings.decision_age.observe(age.as_secs_f64()),
            Count::ApiCall { call_type, code, took } => {
                let metrics = self.api_call(call_type, code);
                metrics.executions.inc();
                metrics.duration.observe(took.as_secs_f64());
            }
            Count::Evicted { code, took } => {
                let labels = &[result(code)];
                family.evictions.with_label_values(labels).inc();
                family.eviction_duration.with_label_values(labels).observe(took.as_secs_f64());
            }
            Count::PermitWait { code, waited, .. } => {
                let wait = family.permit_wait.with_label_values(&[code.name()]);
                wait.observe(waited.as_secs_f64());
            }
            Count::PendingDeleted { .. } | Count::GroupMemberGated { .. } => {}
            Count::Placements { profile, count } => {
                let generated = self.metrics.placements.generated.with_label_values(&[profile]);
                generated.inc_by(count as u64);
            }
            Count::Victims(number) => family.preemption_victims.observe(number as f64),
            Count::GroupVictims(number) => {
                let victims = family.groups.preemption_victims.with_label_values::<&str>(&[]);
                victims.observe(number as f64);
            }
            Count::Panic { plugin } => plugins.panics.with_label_values(&[plugin]).inc(),
        }
    }
}

/// The metrics of one profile.
#[derive(Debug, Default)]
struct Profile {
    name: String,
    points: Children<(Point, Code), Histogram>,
    evaluations: Children<(Point, PluginName), IntCounter>,
    attempts: Children<&'static str, IntCounter>,
    scheduled: Option<Histogram>,
}

impl Profile {
    fn point(&mut self, point: Point, code: Code, plugins: &Plugins) -> &Histogram {
        let key = (point, code);
        let labels = [point.name(), code.name(), self.name.as_str()];
        self.points.get(|known| *known == key, || (key, plugins.point.with_label_values(&labels)))
    }

    /// Returns the number of attempts with this result.
    fn attempts(&mut self, result: &'static str, family: &Attempts) -> &IntCounter {
        let labels = [result, self.name.as_str()];
        self.attempts
            .get(|known| *known == result, || (result, family.total.with_label_values(&labels)))
    }

    /// Returns the durations of attempts that bound their pods.
    fn scheduled(&mut self, family: &Attempts) -> &Histogram {
        let labels = ["scheduled", self.name.as_str()];
        self.scheduled.get_or_insert_with(|| family.duration.with_label_values(&labels))
    }

    /// Counts a call at the four extension points that kube-scheduler counts. PreFilter and
    /// PreScore do not count if they return Skip.
    fn evaluated(&mut self, point: Point, plugin: &PluginName, code: Code, plugins: &Plugins) {
        let Point::Extension(extension) = point else { return };
        let skips = matches!(extension, ExtensionPoint::PreFilter | ExtensionPoint::PreScore)
            && code == Code::Skip;
        let counts = EVALUATED.contains(&extension) && !skips;
        if !counts {
            return;
        }
        let is = |known: &(Point, PluginName)| known.0 == point && known.1 == *plugin;
        let labels = [plugin, point.name(), self.name.as_str()];
        let make = || ((point, plugin.clone()), plugins.evaluations.with_label_values(&labels));
        self.evaluations.get(is, make).inc();
    }
}

/// Returns the result of an attempt of a group.
const fn group_result(code: Code) -> &'static str {
    match code {
        Code::Success => "scheduled",
        Code::Wait => "waiting_on_preemption",
        Code::Error => "error",
        _ => "unschedulable",
    }
}

fn result(code: Code) -> &'static str {
    if code == Code::Success { "success" } else { "error" }
}

fn hint_result(code: Code) -> &'static str {
    match code {
        Code::Success => "Queue",
        Code::Skip => "QueueSkip",
        _ => "Error",
    }
}

/// Metrics by key, few enough for a linear search. The last one found is tried first.
#[derive(Debug)]
struct Children<K, V> {
    found: Vec<(K, V)>,
    last: usize,
}

impl<K, V> Default for Children<K, V> {
    fn default() -> Self {
        Self { found: Vec::new(), last: 0 }
    }
}

impl<K, V> Children<K, V> {
    fn get(&mut self, is: impl Fn(&K) -> bool, make: impl FnOnce() -> (K, V)) -> &V {
        if !self.found.get(self.last).is_some_and(|(key, _)| is(key)) {
            let place = self.found.iter().position(|(key, _)| is(key));
            self.last = place.unwrap_or_else(|| {
                self.found.push(make());
                self.found.len() - 1
            });
        }
        &self.found[self.last].1
    }
}

#[cfg(test)]
mod tests {
    use engine::counters::PREEMPTION_PAUSES;
    use engine::record::Choice;
    use framework::{ActionType, EventResource, QueueTimes};
    use testkit::pod;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn choice() -> Choice {
        Choice { node: "n".into(), ties: 1, total: None, feasible: 1, evaluated: 1 }
    }

    fn probe() -> (EngineProbe, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::new());
        (EngineProbe::new(metrics.clone()), metrics)
    }

    /// Runs an attempt that calls one filter plugin.
    fn attempt(probe: &mut EngineProbe, profile: &str, plugin: &PluginName, code: Code) {
        let uid = "u".into();
        let spans = [
            Span::Attempt(profile, &uid),
            Span::Algorithm,
            Span::Point(ExtensionPoint::Filter.into(), profile),
            Span::Plugin(ExtensionPoint::Filter.into(), plugin),
        ];
        spans.into_iter().for_each(|span| probe.start(span));
        spans.into_iter().rev().for_each(|span| probe.stop(span, code));
    }

    /// Checks samples: each a name without `scheduler_`, labels as `name=value`, and the value.
    fn expect<const N: usize>(metrics: &Metrics, samples: [(&str, &str, u32); N]) {
        let text = metrics.render();
        for (name, labels, value) in samples {
            let pairs = labels.split_whitespace().filter_map(|pair| pair.split_once('='));
            let pairs: Vec<_> = pairs.map(|(name, value)| format!("{name}=\"{value}\"")).collect();
            let pairs = pairs.join(",");
            let labels = if pairs.is_empty() { pairs } else { format!("{{{pairs}}}") };
            let line = format!("scheduler_{name}{labels} {value}");
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }

    #[test]
    fn plugins_that_tasks_call_are_measured_in_the_attempt_under_its_profile() {
        let (mut probe, metrics) = probe();
        let (plugin, uid): (PluginName, _) = ("NodeName".into(), "u".into());
        for _ in 0..SAMPLING {
            probe.start(Span::Attempt("web", &uid));
            let mut task = probe.of_task();
            let span = Span::Plugin(ExtensionPoint::Filter.into(), &plugin);
            task.start(span);
            task.stop(span, Code::Success);
            probe.stop(Span::Attempt("web", &uid), Code::Success);
        }
        let labels = "extension_point=Filter plugin=NodeName";
        expect(
            &metrics,
            [
                ("plugin_evaluation_total", &format!("{labels} profile=web"), 10),
                ("plugin_execution_duration_seconds_count", &format!("{labels} status=Success"), 1),
            ],
        );
    }

    #[test]
    fn attempt_is_measured_at_every_level_under_its_profile() {
        let (mut probe, metrics) = probe();
        let plugin: PluginName = "NodeName".into();
        attempt(&mut probe, "a", &plugin, Code::Success);
        attempt(&mut probe, "b", &plugin, Code::Unschedulable);
        attempt(&mut probe, "a", &plugin, Code::Error);
        let attempts = "scheduling_attempt_duration_seconds_count";
        let points = "framework_extension_point_duration_seconds_count";
        let evaluations = "plugin_evaluation_total";
        expect(
            &metrics,
            [
                (attempts, "profile=a result=error", 1),
                (attempts, "profile=b result=unschedulable", 1),
                ("scheduling_algorithm_duration_seconds_count", "", 3),
                (points, "extension_point=Filter profile=a status=Success", 1),
                (points, "extension_point=Filter profile=b status=Unschedulable", 1),
                (evaluations, "extension_point=Filter plugin=NodeName profile=a", 2),
                (evaluations, "extension_point=Filter plugin=NodeName profile=b", 1),
            ],
        );
    }

    #[test]
    fn attempt_that_found_a_node_ends_with_the_bind() {
        let (mut probe, metrics) = probe();
        attempt(&mut probe, "a", &"NodeName".into(), Code::Success);
        let duration = "scheduling_attempt_duration_seconds_sum";
        assert!(!metrics.render().contains(duration));
        for attempts in [1, 14, 15, 400] {
            probe.count(Count::Scheduled {
                pod: &pod("p").build(),
                choice: &choice(),
                profile: "a",
                attempts,
                took: SECOND,
                since_first_active: 2 * SECOND,
                after_flush: attempts == 400,
                times: QueueTimes::default(),
            });
        }
        let sli = "pod_scheduling_sli_duration_seconds_sum";
        expect(
            &metrics,
            [
                (duration, "profile=a result=scheduled", 4),
                (sli, "attempts=1", 2),
                (sli, "attempts=14", 2),
                (sli, "attempts=15+", 4),
                ("pod_scheduling_attempts_sum", "", 430),
                ("pod_scheduled_after_flush_total", "", 1),
            ],
        );
    }

    #[test]
    fn series_start_anew_after_a_reset() {
        let (mut probe, metrics) = probe();
        let plugin: PluginName = "NodeName".into();
        (0..3).for_each(|_| attempt(&mut probe, "a", &plugin, Code::Success));
        metrics.reset();
        attempt(&mut probe, "a", &plugin, Code::Success);
        let labels = "extension_point=Filter plugin=NodeName profile=a";
        expect(&metrics, [("plugin_evaluation_total", labels, 1)]);
    }

    #[test]
    fn single_plugins_are_timed_in_every_tenth_attempt() {
        let (mut probe, metrics) = probe();
        let plugin: PluginName = "NodeName".into();
        (0..30).for_each(|_| attempt(&mut probe, "a", &plugin, Code::Success));
        let name = "plugin_execution_duration_seconds_count";
        let labels = "extension_point=Filter plugin=NodeName status=Success";
        expect(&metrics, [(name, labels, 3)]);
    }

    #[test]
    fn only_calls_that_evaluate_a_pod_are_evaluations() {
        use ExtensionPoint::{Bind, PreFilter, PreScore, Score};
        let cases = [
            (PreFilter, Code::Skip, 0),
            (PreFilter, Code::Unschedulable, 1),
            (PreScore, Code::Skip, 0),
            (PreScore, Code::Success, 1),
            (Score, Code::Success, 1),
            (Bind, Code::Success, 0),
        ];
        for (point, code, expected) in cases {
            let (mut probe, metrics) = probe();
            let plugin: PluginName = "P".into();
            probe.start(Span::Plugin(point.into(), &plugin));
            probe.stop(Span::Plugin(point.into(), &plugin), code);
            let counted = metrics.render().matches("scheduler_plugin_evaluation_total{").count();
            assert_eq!(counted, expected, "{point:?} {code:?}");
        }
    }

    #[test]
    fn events_and_hints_have_labels() {
        let (mut probe, metrics) = probe();
        let plugin: PluginName = "P".into();
        let event = ClusterEvent::new(EventResource::Node, ActionType::ADD);
        probe.start(Span::Change);
        for code in [Code::Success, Code::Skip, Code::Skip, Code::Error] {
            probe.start(Span::Hint(&plugin, &event));
            probe.stop(Span::Hint(&plugin, &event), code);
        }
        probe.count(Count::Event(&event));
        probe.stop(Span::Change, Code::Success);
        let hints = "queueing_hint_execution_duration_seconds_count";
        expect(
            &metrics,
            [
                ("event_handling_duration_seconds_count", "event=NodeAdd", 1),
                (hints, "event=NodeAdd hint=Queue plugin=P", 1),
                (hints, "event=NodeAdd hint=QueueSkip plugin=P", 2),
                (hints, "event=NodeAdd hint=Error plugin=P", 1),
            ],
        );
    }

    #[test]
    fn namespaces_beyond_the_hundredth_share_a_counter() {
        let (mut probe, metrics) = probe();
        for _ in 0..2 {
            for number in 0..MAX_NAMESPACES + 50 {
                probe.count(Count::BindingError { namespace: &format!("n{number}") });
            }
        }
        let text = metrics.render();
        let errors = "loadmaster_binding_errors_total{";
        assert_eq!(text.matches(errors).count(), MAX_NAMESPACES + 1);
        assert!(text.contains(&format!("{errors}pod_namespace=\"n99\"}} 2\n")), "{text}");
        assert!(text.contains(&format!("{errors}pod_namespace=\"(other)\"}} 100\n")), "{text}");
    }

    #[test]
    fn counts_have_their_labels() {
        let (mut probe, metrics) = probe();
        let plugin: PluginName = "P".into();
        let (queue, event) = ("active", "BackoffComplete");
        probe.count(Count::Incoming { queue, event });
        probe.count(Count::Incoming { queue, event });
        probe.count(Count::Incoming { queue: "backoff", event });
        probe.count(Count::IncomingGroup { queue, event, pods: 3 });
        probe.count(Count::Attempt { result: "error", profile: "a" });
        probe.count(Count::PermitWait {
            pod: &pod("p").build(),
            code: Code::Unschedulable,
            waited: SECOND,
        });
        probe.count(Count::Panic { plugin: &plugin });
        probe.count(Count::Victims(3));
        probe.count(Count::GroupVictims(16));
        probe.count(Count::of(&PREEMPTION_PAUSES, &["node"]));
        probe.enter("a");
        for name in ["DefaultPreemption", "Other"] {
            let name: PluginName = name.into();
            let span = Span::Plugin(ExtensionPoint::PostFilter.into(), &name);
            probe.start(span);
            probe.stop(span, Code::Unschedulable);
        }
        let preemption: PluginName = "DefaultPreemption".into();
        let for_group = Span::Plugin(ExtensionPoint::PodGroupPostFilter.into(), &preemption);
        probe.start(for_group);
        probe.stop(for_group, Code::Success);
        let volumes: PluginName = "VolumeBinding".into();
        let bind = Span::Plugin(ExtensionPoint::PreBind.into(), &volumes);
        for (span, code) in [
            (bind, Code::Error),
            (bind, Code::Success),
            (Span::Plugin(ExtensionPoint::Filter.into(), &volumes), Code::Unschedulable),
            (Span::Plugin(ExtensionPoint::PreBind.into(), &plugin), Code::Error),
        ] {
            probe.start(span);
            probe.stop(span, code);
        }
        let incoming = "queue_incoming_pods_total";
        expect(
            &metrics,
            [
                (incoming, "event=BackoffComplete queue=active", 5),
                (
                    "queue_incoming_entities_total",
                    "event=BackoffComplete queue=active type=podgroup",
                    1,
                ),
                (incoming, "event=BackoffComplete queue=backoff", 1),
                ("schedule_attempts_total", "profile=a result=error", 1),
                ("preemption_attempts_total", "", 1),
                ("preemption_victims_sum", "", 3),
                ("workload_preemption_attempts_total", "result=Success", 1),
                ("workload_preemption_victims_sum", "", 16),
                ("volume_scheduling_stage_error_total", "operation=bind", 1),
                ("permit_wait_duration_seconds_sum", "result=Unschedulable", 1),
            ],
        );
        let text = metrics.render();
        assert!(text.contains("loadmaster_plugin_panics_total{plugin=\"P\"} 1\n"));
        assert!(text.contains("loadmaster_preemption_pauses_total{paused=\"node\"} 1\n"));
    }
}
