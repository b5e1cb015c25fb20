//! What is measured of the scheduling loop, and who is told.

use std::sync::Arc;

use client::scheduler::Scheduler;
use engine::ports::{Count, Probe, Span};
use framework::Code;
use tracing::warn;

use crate::drive::Observer;
use crate::http::Health;
use crate::metrics::{CacheSize, EngineProbe, Metrics, Pending};
use crate::watchdog::Watchdog;

/// The instruments of one scheduling loop.
pub struct Instruments {
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    probe: EngineProbe,
    watchdog: Watchdog,
    /// Offences of plugins that were told.
    told: u64,
    /// Events that were dropped when somebody last looked.
    dropped: u64,
}

impl Instruments {
    /// Instruments that feed these metrics and health checks.
    pub fn new(metrics: Arc<Metrics>, health: Arc<Health>) -> Self {
        let probe = EngineProbe::new(metrics.clone());
        Self { metrics, health, probe, watchdog: Watchdog::default(), told: 0, dropped: 0 }
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
