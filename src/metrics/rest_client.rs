//! Metrics of requests to the API server, under the names of client-go.

use std::time::Duration;

use super::buckets;
use super::family::{HistogramVec, IntCounterVec};
use super::status_code;
use super::table::Stability::Alpha;
use super::table::Table;

/// The metrics of requests to the API server.
#[derive(Debug, Clone)]
pub struct RestClient {
    requests: IntCounterVec,
    duration: HistogramVec,
    rate_limiter: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
    retries: IntCounterVec,
}

impl RestClient {
    pub(super) fn register(table: &mut Table) -> Self {
        let by_verb = ["verb", "host"];
        let mut seconds = |name: &str, help: &str| {
            table.histograms(Alpha, name, help, &by_verb, buckets::REQUEST)
        };
        let duration =
            seconds("rest_client_request_duration_seconds", "Time of requests, watches excluded.");
        let rate_limiter = seconds(
            "rest_client_rate_limiter_duration_seconds",
            "Time requests waited for the rate limit of the client.",
        );
        let mut bytes =
            |name: &str, help: &str| table.histograms(Alpha, name, help, &by_verb, buckets::BODY);
        let request_size = bytes("rest_client_request_size_bytes", "Size of request bodies.");
        let response_size = bytes("rest_client_response_size_bytes", "Size of response bodies.");
        Self {
            duration,
            rate_limiter,
            request_size,
            response_size,
            requests: table.counters(
                Alpha,
                "rest_client_requests_total",
                "Requests, by status, method and host.",
                &["code", "method", "host"],
            ),
            retries: table.counters(
                Alpha,
                "rest_client_request_retries_total",
                "Retried requests.",
                &["code", "verb", "host"],
            ),
        }
    }

    /// Counts a request or watch: its method (`GET`), the host with port, and the status of the
    /// response, if any.
    pub fn requested(&self, method: &str, host: &str, status: Option<u16>) {
        self.requests.with_label_values(&[status_code(status).as_str(), method, host]).inc();
    }

    /// Records the duration of a request other than a watch, and the sizes of its bodies in bytes.
    pub fn took(&self, method: &str, host: &str, took: Duration, sent: usize, received: usize) {
        let labels = &[method, host];
        self.duration.with_label_values(labels).observe(took.as_secs_f64());
        self.request_size.with_label_values(labels).observe(sent as f64);
        self.response_size.with_label_values(labels).observe(received as f64);
    }

    /// Records the time for which a request waited for the client's rate limit.
    pub fn waited(&self, method: &str, host: &str, waited: Duration) {
        self.rate_limiter.with_label_values(&[method, host]).observe(waited.as_secs_f64());
    }

    /// Counts a retry after this status, or after no response.
    pub fn retried(&self, method: &str, host: &str, status: Option<u16>) {
        self.retries.with_label_values(&[status_code(status).as_str(), method, host]).inc();
    }
}
