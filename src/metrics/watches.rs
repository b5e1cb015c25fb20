//! Metrics of the watches of the API server.

use prometheus::{Gauge, IntGauge};

use super::family::{GaugeVec, IntCounterVec, IntGaugeVec};
use super::table::{ALPHA, Declaration, Table};
use super::{gauge, unix_time};

/// Metrics of all watches.
#[derive(Debug)]
pub(super) struct Watches {
    last_event: GaugeVec,
    objects: IntGaugeVec,
    failures: IntCounterVec,
}

impl Watches {
    pub(super) fn register(table: &mut Table) -> Self {
        let labels = &["resource"];
        Self {
            last_event: table.timestamps(Declaration {
                name: "loadmaster_watch_last_event_timestamp_seconds",
                labels,
                help: "Time at which the API server last sent something for the watch, in seconds \
                       since 1970: an event, a bookmark, or the start of a response. Initially the \
                       start of the watch.",
                page: "When the API server last sent something for this watch: an event, a \
                       bookmark, or the start of a response. Initially the start of the watch. A \
                       watch without changes is opened again after 45 seconds (90 seconds while \
                       the server is late), so a kind that never changes does not look stuck; more \
                       than five minutes are a fault",
                ..ALPHA
            }),
            objects: table.gauges(Declaration {
                name: "loadmaster_watched_objects",
                labels,
                help: "Objects that exist according to the watch.",
                page: "Objects that exist according to the watch",
                ..ALPHA
            }),
            failures: table.counters(Declaration {
                name: "loadmaster_watch_failures_total",
                labels,
                help: "Lists and watches that failed. A watch that the server ends normally does \
                       not count.",
                page: "Lists and watches that failed. A watch that the server ends normally, or \
                       whose version has expired, does not count",
                ..ALPHA
            }),
        }
    }

    /// Returns the metrics of the watch of `resource`, which starts now.
    pub(super) fn watch(&self, resource: &str) -> WatchMetrics {
        let labels = &[resource];
        let watch = WatchMetrics {
            resource: resource.to_owned(),
            last_event: self.last_event.with_label_values(labels),
            objects: self.objects.with_label_values(labels),
            failures: self.failures.clone(),
        };
        watch.received();
        watch
    }
}

/// The metrics of one watch.
#[derive(Debug, Clone)]
pub struct WatchMetrics {
    resource: String,
    last_event: Gauge,
    objects: IntGauge,
    /// The family: a reset of the metrics detaches resolved counters.
    failures: IntCounterVec,
}

impl WatchMetrics {
    /// Records that the API server has just sent something.
    pub fn received(&self) {
        self.last_event.set(unix_time());
    }

    /// Sets the number of objects that exist according to the watch.
    pub fn set_objects(&self, objects: usize) {
        self.objects.set(gauge(objects));
    }

    /// Counts a list or watch that failed.
    pub fn failed(&self) {
        self.failures.with_label_values(&[&self.resource]).inc();
    }
}
