//! The observer of the scheduling loop: it updates metrics and health and reports faulty plugins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::event_recorder::DroppedEvents;
use control::leader_election::LeaderElector;
use control::scheduler::Scheduler;
use engine::Engine;
use engine::ports::{Count, Probe, Span};
use engine::queue::{Place, Queue};
use framework::{Code, QueuedEntity, Time};
use tracing::warn;

use crate::http::Health;
use crate::metrics::{CacheSize, EngineProbe, Metrics, Pending};
use crate::plugin_watchdog::PluginWatchdog;
use crate::scheduling_loop::{Heartbeat, Observer, log_bound, log_gated};
use crate::traces::Tracer;

/// Minimum interval between two scans of all binding cycles and API calls. It is shorter than the
/// longest wait of the loop, so each wait is followed by a scan.
const COUNT_INTERVAL: Duration = Duration::from_millis(900);
/// Minimum interval between two scans of all queued pods and events.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// An observer that feeds metrics and health checks and logs plugins that panic or are slow.
pub struct MetricsObserver {
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    heartbeat: Arc<Heartbeat>,
    probe: EngineProbe,
    watchdog: PluginWatchdog,
    last_count: Option<Time>,
    last_scan: Option<Time>,
    /// Number of plugin faults that were logged.
    logged_faults: u64,
    /// Dropped events that were counted.
    counted_drops: DroppedEvents,
    /// Makes spans, if pods are traced.
    tracer: Option<Tracer>,
}

impl MetricsObserver {
    /// Creates an observer that updates these metrics and health checks.
    pub fn new(metrics: Arc<Metrics>, health: Arc<Health>) -> Self {
        Self {
            probe: EngineProbe::new(metrics.clone()),
            watchdog: PluginWatchdog::default(),
            metrics,
            heartbeat: health.heartbeat(),
            health,
            last_count: None,
            last_scan: None,
            logged_faults: 0,
            counted_drops: DroppedEvents::new(),
            tracer: None,
        }
    }

    /// Traces pods.
    #[must_use]
    pub fn with_tracer(self, tracer: Option<Tracer>) -> Self {
        Self { tracer, ..self }
    }

    /// Observes an engine, and the election of its process. A loop calls this before each wait, and
    /// at least about once a second.
    pub fn observe_engine(&mut self, engine: &Engine, elector: Option<&LeaderElector>, now: Time) {
        let counts = engine.queue().counts();
        self.metrics.set_pending(Pending {
            active: counts.active,
            backoff: counts.backoff,
            unschedulable: counts.unschedulable,
            gated: counts.gated,
            groups: counts.groups,
        });
        let world = engine.world();
        self.metrics.set_cache_size(CacheSize {
            nodes: world.cluster().node_count(),
            pods: world.cluster().pod_count(),
            assumed_pods: world.assumed_count(),
        });
        if let Some(elector) = elector {
            self.copy_election(elector);
        }
        self.scan_queue(engine, now);
        self.log_plugin_faults();
    }

    /// Scans binding cycles and API calls, at most once in [`COUNT_INTERVAL`].
    fn count_calls(&mut self, scheduler: &Scheduler, now: Time) {
        if self.last_count.is_none_or(|last| now.since(last) >= COUNT_INTERVAL) {
            self.last_count = Some(now);
            self.metrics.set_binding_phases(scheduler.engine().binding_phases());
            self.metrics.set_api_calls(&scheduler.call_counts());
        }
    }

    /// Scans queued pods and in-flight events, at most once in [`SCAN_INTERVAL`].
    fn scan_queue(&mut self, engine: &Engine, now: Time) {
        let queue = engine.queue();
        if self.last_scan.is_none_or(|last| now.since(last) >= SCAN_INTERVAL) {
            self.last_scan = Some(now);
            self.count_unschedulable_pods(queue);
            self.find_oldest_pods(queue, now);
            self.count_in_flight_events(queue);
            self.count_missing_nodes(queue);
            self.metrics.set_quotas(engine.world().cluster().quotas());
        }
    }

    /// Counts the nodes that groups lack.
    fn count_missing_nodes(&self, queue: &Queue) {
        let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, entity) in queue.entities() {
            let QueuedEntity::Group(group) = entity else { continue };
            if let Some(nodes) = &group.missing_nodes {
                *missing.entry(&nodes.shape).or_default() += nodes.count;
            }
        }
        self.metrics.set_missing_nodes(missing);
    }

    fn find_oldest_pods(&self, queue: &Queue, now: Time) {
        let mut oldest: BTreeMap<&str, Time> = BTreeMap::new();
        for (place, queued) in queue.iter() {
            let oldest = oldest.entry(queue_name(place)).or_insert(queued.history.timestamp);
            *oldest = queued.history.timestamp.min(*oldest);
        }
        let waits = oldest.into_iter().map(|(queue, since)| (queue, now.since(since)));
        self.metrics.set_oldest_pods(waits);
    }

    /// Counts the pods that each plugin rejects or gates.
    fn count_unschedulable_pods(&self, queue: &Queue) {
        let mut rejected: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (_, queued) in queue.iter() {
            let profile = &*queued.pod.spec.scheduler_name;
            let plugins =
                queued.history.unschedulable_plugins.union(&queued.history.pending_plugins);
            plugins.for_each(|plugin| *rejected.entry((&**plugin, profile)).or_default() += 1);
        }
        let rejected =
            rejected.into_iter().map(|((plugin, profile), pods)| (plugin, profile, pods));
        self.metrics.set_unschedulable(rejected);
    }

    fn count_in_flight_events(&self, queue: &Queue) {
        let mut events: BTreeMap<String, usize> = BTreeMap::new();
        for event in queue.in_flight_events() {
            *events.entry(event.to_string()).or_default() += 1;
        }
        let events = events.iter().map(|(event, count)| (event.as_str(), *count));
        self.metrics.set_inflight_events(events);
    }

    fn copy_election(&self, elector: &LeaderElector) {
        let is_leader = elector.authority_ends_at().is_some();
        self.metrics.set_leader_election(is_leader, elector.slowpath_total());
        self.health.set_leader_election(elector.problem().map_or(Ok(()), |it| Err(it.to_owned())));
    }

    /// Counts the events that were dropped since the last call. Its argument has all of the
    /// process.
    pub(crate) fn count_dropped_events(&mut self, dropped: &DroppedEvents) {
        for ((reason, cause), &total) in dropped {
            let counted = self.counted_drops.entry((reason.clone(), *cause)).or_default();
            self.metrics.events_dropped(reason, *cause, total - *counted);
            *counted = total;
        }
    }

    /// Logs all plugins with faults whenever there is a new fault.
    fn log_plugin_faults(&mut self) {
        let total = self.watchdog.total();
        if total == self.logged_faults {
            return;
        }
        self.logged_faults = total;
        for (plugin, faults) in self.watchdog.faults() {
            warn!(plugin = &**plugin, "Plugin {faults}");
        }
    }
}

impl Probe for MetricsObserver {
    fn start(&mut self, span: Span<'_>) {
        self.heartbeat.enter(span);
        self.probe.start(span);
        self.watchdog.start(span);
        if let Some(tracer) = &mut self.tracer {
            tracer.start(span);
        }
    }

    fn stop(&mut self, span: Span<'_>, code: Code) {
        if let Some(tracer) = &mut self.tracer {
            tracer.stop(span, code);
        }
        self.watchdog.stop(span, code);
        self.probe.stop(span, code);
        self.heartbeat.leave(span);
    }

    fn count(&mut self, count: Count<'_>) {
        match count {
            Count::Scheduled { pod, choice, .. } => log_bound(pod, choice),
            Count::GroupMemberGated { pod, group } => log_gated(pod, group),
            _ => {}
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.count(count);
        }
        self.watchdog.count(count);
        self.probe.count(count);
    }

    fn of_task(&self) -> Box<dyn Probe + Send> {
        Box::new(TaskObserver { heartbeat: self.heartbeat.clone(), probe: self.probe.of_task() })
    }
}

/// Measures the plugins that a task of the loop calls, and notes them, so that a stuck loop names
/// the plugin.
struct TaskObserver {
    heartbeat: Arc<Heartbeat>,
    probe: EngineProbe,
}

impl Probe for TaskObserver {
    fn start(&mut self, span: Span<'_>) {
        self.heartbeat.enter(span);
        self.probe.start(span);
    }

    fn stop(&mut self, span: Span<'_>, code: Code) {
        self.probe.stop(span, code);
        self.heartbeat.leave(span);
    }
}

impl Observer for MetricsObserver {
    fn observe(&mut self, scheduler: &Scheduler, now: Time, waiting_updates: usize) {
        self.observe_engine(scheduler.engine(), scheduler.leader_elector(), now);
        self.metrics.set_waiting_updates(waiting_updates);
        self.metrics.set_hold(scheduler.hold(now));
        let outages = scheduler.engine().extender_outages();
        self.metrics.set_extenders(outages.map(|(name, outage)| (name, outage.is_none())));
        self.count_calls(scheduler, now);
        self.count_dropped_events(scheduler.event_recorder().dropped());
    }

    fn attempted(&mut self, engine: &Engine) {
        let record = engine.records().recent().next_back();
        if let (Some(tracer), Some(record)) = (&mut self.tracer, record) {
            tracer.attempted(record);
        }
    }

    fn synced(&mut self) {
        self.health.set_handlers_synced();
    }
}

/// Returns the `queue` label of a place.
const fn queue_name(place: Place) -> &'static str {
    match place {
        Place::Active => "active",
        Place::Backoff | Place::ErrorBackoff => "backoff",
        Place::Unschedulable => "unschedulable",
        Place::Gated => "gated",
    }
}

#[cfg(test)]
mod tests {
    use control::event_recorder::DropCause;

    use super::*;

    #[test]
    fn dropped_events_are_counted_once() {
        let metrics = Arc::new(Metrics::new());
        let mut observer = MetricsObserver::new(metrics.clone(), Arc::default());
        let dropped =
            |number| DroppedEvents::from([(("Scheduled".into(), DropCause::Backlog), number)]);
        for number in [2, 2, 5] {
            observer.count_dropped_events(&dropped(number));
        }
        let line = "loadmaster_events_dropped_total{cause=\"backlog\",reason=\"Scheduled\"} 5\n";
        assert!(metrics.render().contains(line), "{}", metrics.render());
    }
}
