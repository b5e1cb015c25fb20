//! Metrics of requests to the API server, under the names of client-go.

use std::time::Duration;

use super::buckets;
use super::family::{HistogramVec, IntCounterVec};
use super::status_code;
use super::table::{ALPHA, Declaration, Table};

const BY_VERB: &[&str] = &["verb", "host"];

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
        Self {
            duration: table.histograms(
                Declaration {
                    name: "rest_client_request_duration_seconds",
                    labels: BY_VERB,
                    help: "Time of requests, watches excluded.",
                    ..ALPHA
                },
                buckets::REQUEST,
            ),
            rate_limiter: table.histograms(
                Declaration {
                    name: "rest_client_rate_limiter_duration_seconds",
                    labels: BY_VERB,
                    help: "Time requests waited for the rate limit of the client.",
                    page: "the wait for every limit: rate, requests in flight, pauses after a 429",
                    ..ALPHA
                },
                buckets::REQUEST,
            ),
            request_size: table.histograms(
                Declaration {
                    name: "rest_client_request_size_bytes",
                    labels: BY_VERB,
                    help: "Size of request bodies.",
                    ..ALPHA
                },
                buckets::BODY,
            ),
            response_size: table.histograms(
                Declaration {
                    name: "rest_client_response_size_bytes",
                    labels: BY_VERB,
                    help: "Size of response bodies.",
                    ..ALPHA
                },
                buckets::BODY,
            ),
            requests: table.counters(Declaration {
                name: "rest_client_requests_total",
                labels: &["code", "method", "host"],
                help: "Requests, by status, method and host.",
                ..ALPHA
            }),
            retries: table.counters(Declaration {
                name: "rest_client_request_retries_total",
                labels: &["code", "verb", "host"],
                help: "Retried requests.",
                ..ALPHA
            }),
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
