//! Sends spans to a collector.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::config::{TracingConfiguration, TracingError};
use crate::metrics::Metrics;

/// Maximum number of spans in a request.
const BATCH: usize = 512;
/// Time in which spans are collected for a request.
const COLLECT: Duration = Duration::from_millis(500);
/// Time after which a request counts as failed. Its spans are lost.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two log lines about a collector that does not answer.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Sends the spans of a queue until all senders are gone.
pub struct Exporter {
    spans: Receiver<SpanData>,
    otlp: OtlpExporter,
    endpoint: String,
    metrics: Arc<Metrics>,
    /// When a failure was logged last, if the collector has not answered since.
    failed: Option<Instant>,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Exporter {
    /// Connects with the first spans. Needs a runtime.
    pub(super) fn new(
        config: &TracingConfiguration,
        identity: &str,
        spans: Receiver<SpanData>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, TracingError> {
        let endpoint = config.endpoint.clone();
        let builder = OtlpExporter::builder().with_tonic();
        let builder = builder.with_endpoint(format!("http://{endpoint}")).with_timeout(TIMEOUT);
        let mut otlp = builder.build().map_err(|error| TracingError::Invalid(error.to_string()))?;
        otlp.set_resource(&resource(identity));
        Ok(Self { spans, otlp, endpoint, metrics, failed: None })
    }

    /// Sends spans until all senders are gone.
    pub async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.spans.recv_many(&mut batch, BATCH).await > 0 {
            if batch.len() < BATCH && !self.spans.is_closed() {
                sleep(COLLECT).await;
                self.fill(&mut batch);
            }
            self.export(std::mem::take(&mut batch)).await;
        }
    }

    fn fill(&mut self, batch: &mut Vec<SpanData>) {
        while batch.len() < BATCH
            && let Ok(span) = self.spans.try_recv()
        {
            batch.push(span);
        }
    }

    async fn export(&mut self, batch: Vec<SpanData>) {
        let number = batch.len();
        let sent = timeout(TIMEOUT, self.otlp.export(batch)).await;
        let sent = sent.map_err(|_| format!("no answer within {} s", TIMEOUT.as_secs()));
        match sent.and_then(|sent| sent.map_err(|error| error.to_string())) {
            Ok(()) => {
                self.metrics.count_spans("exported", number);
                if self.failed.take().is_some() {
                    info!(endpoint = self.endpoint, "The collector takes spans again");
                }
            }
            Err(err) => {
                self.metrics.count_spans("failed", number);
                self.log(number, &err);
            }
        }
    }

    fn log(&mut self, spans: usize, err: &str) {
        if self.failed.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
            let endpoint = &*self.endpoint;
            warn!(endpoint, spans, err, "The collector did not take spans, which are lost");
            self.failed = Some(Instant::now());
        }
    }
}

/// Describes this process.
fn resource(identity: &str) -> Resource {
    let attributes = [
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", identity.to_owned()),
    ];
    Resource::builder_empty().with_service_name("loadmaster").with_attributes(attributes).build()
}
