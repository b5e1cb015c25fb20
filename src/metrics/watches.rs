//! Metrics of the watches of the API server and of feeds.

use std::sync::Arc;
use std::time::Instant;

use prometheus::{Gauge, IntGauge};

use super::family::{GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec};
use super::table::{ALPHA, Declaration, Table};
use super::{buckets, gauge, unix_time};
use crate::wire::WatchedKind;

/// The name of the informers of kube-scheduler.
const INFORMERS: &str = "kube-scheduler";
/// Number of digits of a resource version that a metric has, as in client-go.
const DIGITS: u32 = 15;

/// Metrics of all watches and feeds.
#[derive(Debug)]
pub(super) struct Watches {
    last_event: GaugeVec,
    objects: IntGaugeVec,
    failures: IntCounterVec,
    store_version: IntGaugeVec,
    queued_items: IntGaugeVec,
    processing: HistogramVec,
    feed_reads: GaugeVec,
    feed_failures: IntCounterVec,
    unread: IntGaugeVec,
}

impl Watches {
    pub(super) fn register(table: &mut Table) -> Self {
        let labels = &["resource"];
        let informer = &["name", "group", "version", "resource"];
        Self {
            store_version: table.gauges(Declaration {
                name: "informer_store_resource_version",
                labels: informer,
                help: "The 15 least significant digits of the resource version that the watch has \
                       reached.",
                page: "absent before the first list has ended",
                ..ALPHA
            }),
            queued_items: table.gauges(Declaration {
                name: "informer_queued_items",
                labels: informer,
                help: "Changes of the watch that the scheduling loop has not handled.",
                page: "changes that the scheduling loop has not handled; for all watches together \
                       `loadmaster_waiting_updates`",
                ..ALPHA
            }),
            processing: table.histograms(Declaration {
                name: "informer_processing_latency_seconds",
                labels: informer,
                help: "Time in which the scheduling loop handles a batch of changes of the watch.",
                page: "the changes that arrive together are one batch",
                ..ALPHA
            }, buckets::INFORMER),
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
            feed_reads: table.timestamps(Declaration {
                name: "loadmaster_feed_last_read_timestamp_seconds",
                labels,
                help: "Time at which the objects of a feed were last read, in seconds since 1970.",
                page: "When the objects of a feed were last read, such as the load of nodes from \
                       `metrics.k8s.io`, a load-watcher or Prometheus. Absent before the first time",
                ..ALPHA
            }),
            feed_failures: table.counters(Declaration {
                name: "loadmaster_feed_failures_total",
                labels,
                help: "Rounds of a feed that failed.",
                page: "Rounds of a feed that failed",
                ..ALPHA
            }),
            unread: table.gauges(Declaration {
                name: "loadmaster_unread_sources",
                labels,
                help: "1 while a kind or a feed is not read although pods are scheduled, and 0 \
                       once it is read.",
                page: "1 while a kind or a feed is not read although pods are scheduled: a \
                       CustomResourceDefinition that is absent, a permission that is missing, a \
                       feed that fails. 0 once it is read. `/readyz?verbose` lists these kinds",
                ..ALPHA
            }),
        }
    }

    /// Records that the objects of a feed were read.
    pub(super) fn feed_read(&self, resource: &str) {
        self.feed_reads.with_label_values(&[resource]).set(unix_time());
        self.set_read(resource, true);
    }

    /// Counts a round of a feed that failed.
    pub(super) fn feed_failed(&self, resource: &str) {
        self.feed_failures.with_label_values(&[resource]).inc();
        self.set_read(resource, false);
    }

    /// Sets whether a kind or feed is read without which pods are scheduled.
    pub(super) fn set_read(&self, resource: &str, is_read: bool) {
        self.unread.with_label_values(&[resource]).set(i64::from(!is_read));
    }

    /// Returns the metrics of the watch of a kind, which starts now.
    pub(super) fn watch(&self, kind: &WatchedKind) -> WatchMetrics {
        let labels = &[&*kind.name];
        let informer = informer_labels(&kind.path);
        let queue = InformerQueue(Arc::new(InformerSeries {
            items: self.queued_items.with_label_values(&informer),
            processing: self.processing.clone(),
            labels: informer.map(str::to_owned),
        }));
        let watch = WatchMetrics {
            resource: kind.name.to_string(),
            store_version: self.store_version.clone(),
            queue,
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
    store_version: IntGaugeVec,
    queue: InformerQueue,
}

impl WatchMetrics {
    /// Returns the changes that were sent to the scheduling loop.
    pub const fn queue(&self) -> &InformerQueue {
        &self.queue
    }

    /// Sets the resource version that the watch has reached.
    pub fn set_store_version(&self, version: u64) {
        let digits = version % 10_u64.pow(DIGITS);
        let gauge = self.store_version.with_label_values(&self.queue.0.labels());
        gauge.set(i64::try_from(digits).unwrap_or(i64::MAX));
    }

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

/// Returns the labels of an informer in client-go: its name, and group, version and resource from
/// the path of the list.
fn informer_labels(path: &str) -> [&str; 4] {
    match *path.trim_start_matches('/').split('/').collect::<Vec<_>>() {
        ["api", version, resource] => [INFORMERS, "", version, resource],
        ["apis", group, version, resource] => [INFORMERS, group, version, resource],
        _ => [INFORMERS, "", "", path],
    }
}

/// The changes of one watch that the scheduling loop has not handled.
#[derive(Debug, Clone)]
pub struct InformerQueue(Arc<InformerSeries>);

#[derive(Debug)]
struct InformerSeries {
    items: IntGauge,
    /// The family: a reset of the metrics detaches resolved histograms.
    processing: HistogramVec,
    labels: [String; 4],
}

impl InformerSeries {
    fn labels(&self) -> [&str; 4] {
        self.labels.each_ref().map(String::as_str)
    }
}

impl InformerQueue {
    /// Adds a batch of this many changes.
    pub fn add(&self, items: usize) -> QueuedItems {
        let items = gauge(items);
        self.0.items.add(items);
        QueuedItems { queue: self.clone(), items, taken: None }
    }
}

/// A batch of changes in an [`InformerQueue`], until it is dropped.
#[derive(Debug)]
pub struct QueuedItems {
    queue: InformerQueue,
    items: i64,
    /// When the scheduling loop began to handle the batch.
    taken: Option<Instant>,
}

impl QueuedItems {
    /// Notes that the scheduling loop begins to handle the batch.
    #[expect(clippy::disallowed_methods, reason = "measures the loop from outside")]
    pub fn taken(&mut self) {
        self.taken = Some(Instant::now());
    }
}

impl Drop for QueuedItems {
    fn drop(&mut self) {
        let series = &self.queue.0;
        series.items.sub(self.items);
        if let Some(taken) = self.taken {
            let took = taken.elapsed().as_secs_f64();
            series.processing.with_label_values(&series.labels()).observe(took);
        }
    }
}
