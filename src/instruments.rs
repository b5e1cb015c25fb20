//! What is measured of the scheduling loop, and who is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::scheduler::Scheduler;
use engine::ports::{Count, Probe, Span};
use engine::queue::Queue;
use framework::Code;
use tracing::warn;

use crate::drive::Observer;
use crate::http::Health;
use crate::metrics::{CacheSize, EngineProbe, Metrics, Pending};
use crate::watchdog::Watchdog;

/// How often queued pods and events are looked at one by one, at most.
const LOOKED_AT_EACH_EVERY: Duration = Duration::from_secs(5);

/// The instruments of one scheduling loop.
pub struct Instruments {
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    probe: EngineProbe,
    watchdog: Watchdog,
    /// When queued pods and events were looked at one by one.
    looked_at_each: Option<Instant>,
    /// Offences of plugins that were told.
    told: u64,
    /// Events that were dropped when somebody last looked.
    dropped: u64,
}

impl Instruments {
    /// Instruments that feed these metrics and health checks.
    pub fn new(metrics: Arc<Metrics>, health: Arc<Health>) -> Self {
        let probe = EngineProbe::new(metrics.clone());
        let watchdog = Watchdog::default();
        Self { metrics, health, probe, watchdog, looked_at_each: None, told: 0, dropped: 0 }
    }

    /// Looks at each queued pod and event, now and then.
    #[expect(clippy::disallowed_methods, reason = "the pace of a measurement, not of decisions")]
    fn look_at_each(&mut self, queue: &Queue) {
        let now = Instant::now();
        if self.looked_at_each.is_none_or(|last| now - last >= LOOKED_AT_EACH_EVERY) {
            self.looked_at_each = Some(now);
            self.count_rejected(queue);
            self.count_in_flight_events(queue);
        }
    }

    /// Counts the pods that each plugin rejects or gates.
    fn count_rejected(&self, queue: &Queue) {
        let mut rejected: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (_, queued) in queue.iter() {
            let profile = &*queued.pod.spec.scheduler_name;
            let plugins = queued.unschedulable_plugins.union(&queued.pending_plugins);
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

    /// Names the plugins that panicked or were slow, once more when one did it again.
    fn tell_offences(&mut self) {
        let total = self.watchdog.total();
        if total == self.told {
            return;
        }
        self.told = total;
        for (plugin, offences) in self.watchdog.offences() {
            warn!(plugin = &**plugin, "Plugin {offences}");
        }
    }
}

impl Probe for Instruments {
    fn start(&mut self, span: Span<'_>) {
        self.probe.start(span);
        self.watchdog.start(span);
    }

    fn stop(&mut self, span: Span<'_>, code: Code) {
        self.watchdog.stop(span, code);
        self.probe.stop(span, code);
    }

    fn count(&mut self, count: Count<'_>) {
        self.watchdog.count(count);
        self.probe.count(count);
    }
}

impl Observer for Instruments {
    fn observe(&mut self, scheduler: &Scheduler) {
        let engine = scheduler.engine();
        let counts = engine.queue().counts();
        self.metrics.set_pending(Pending {
            active: counts.active,
            backoff: counts.backoff,
            unschedulable: counts.unschedulable,
            gated: counts.gated,
        });
        let cache = engine.cache();
        self.metrics.set_cache_size(CacheSize {
            nodes: cache.cluster().node_count(),
            pods: cache.cluster().pod_count(),
            assumed_pods: cache.assumed_count(),
        });
        self.metrics.set_bindings(engine.binding_count());
        self.look_at_each(engine.queue());
        for _ in self.dropped..scheduler.events_dropped() {
            self.metrics.event_dropped();
        }
        self.dropped = scheduler.events_dropped();
        self.tell_offences();
    }

    fn synced(&mut self) {
        self.health.handlers_are_synced();
    }
}
