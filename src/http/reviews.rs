//! Reviews: questions about callers that the API server answers.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control::backoff::Backoff;
use control::{Reply, TokenBucket};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::api_client::{ApiClient, no_response};
use crate::clock::Clock;
use crate::metrics::DelegatedAuth;
use crate::wire::status_error;

/// Time for one review with all its tries. A caller that waits for it does not wait longer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of tries, as in kube-scheduler.
const TRIES: u32 = 5;
/// Maximum rate of requests per second, and burst, as in kube-scheduler.
const RATE: (f32, u32) = (200.0, 400);

/// The reason for which there is no review.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ReviewError(Arc<str>);

impl ReviewError {
    pub(super) fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string().into())
    }
}

/// Records a request for a review: the status of the response, if there was one, and the time that
/// it took.
pub(super) type Record = fn(&DelegatedAuth, Option<u16>, Duration);

/// A client that creates reviews of one kind.
pub(super) struct Reviews {
    client: ApiClient,
    metrics: DelegatedAuth,
    record: Record,
    clock: Clock,
    rate: Mutex<TokenBucket>,
    jitter: Mutex<fastrand::Rng>,
}

/// A failed try.
struct Failure {
    error: ReviewError,
    /// Whether another try may succeed.
    is_temporary: bool,
}

impl Reviews {
    pub(super) fn new(client: ApiClient, metrics: DelegatedAuth, record: Record) -> Self {
        let clock = Clock::start();
        let (qps, burst) = RATE;
        Self {
            client,
            metrics,
            record,
            clock,
            rate: Mutex::new(TokenBucket::new(qps, burst).expect("the rate is positive")),
            jitter: Mutex::new(fastrand::Rng::with_seed(clock.now().as_nanos().unsigned_abs())),
        }
    }

    /// Creates a review and returns it with its status. Temporary failures are retried.
    ///
    /// # Errors
    /// The API server gave no answer in time, or refused.
    pub(super) async fn create<R: Serialize + DeserializeOwned>(
        &self,
        path: &str,
        review: &R,
    ) -> Result<R, ReviewError> {
        let body = serde_json::to_vec(review).map_err(ReviewError::new)?;
        let deadline = Instant::now() + TIMEOUT;
        let mut backoff =
            Backoff::new(Duration::from_millis(500), 1.5, Duration::MAX, 0.2, Duration::MAX);
        let mut last = ReviewError::new(no_response(TIMEOUT));
        for _ in 0..TRIES {
            let failure = match timeout_at(deadline, self.try_once(path, &body)).await {
                Ok(Ok(review)) => return Ok(review),
                Ok(Err(failure)) => failure,
                Err(_) => break,
            };
            last = failure.error;
            if !failure.is_temporary {
                break;
            }
            let pause = backoff.next(self.clock.now(), &mut lock(&self.jitter));
            if Instant::now() + pause >= deadline {
                break;
            }
            tokio::time::sleep(pause).await;
        }
        Err(last)
    }

    async fn try_once<R: DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<R, Failure> {
        self.wait_for_rate().await;
        let started = Instant::now();
        let reply = self.client.create(path, body.to_vec(), TIMEOUT).await;
        let status = match &reply {
            Reply::Answered(response) => Some(response.status),
            Reply::Rejected(_) | Reply::NotSent(_) | Reply::Lost(_) => None,
        };
        (self.record)(&self.metrics, status, started.elapsed());
        let response = match reply {
            Reply::Answered(response) => response,
            Reply::Rejected(reason) | Reply::NotSent(reason) => {
                return Err(Failure { error: ReviewError::new(reason), is_temporary: false });
            }
            Reply::Lost(reason) => {
                return Err(Failure { error: ReviewError::new(reason), is_temporary: true });
            }
        };
        if response.status != 201 {
            let error = status_error(response.status, response.retry_after, &response.body);
            let is_temporary = matches!(error.code, 429 | 500 | 504) || error.retry_after.is_some();
            let reason = format!("{} (status {})", error.message, error.code);
            return Err(Failure { error: ReviewError::new(reason), is_temporary });
        }
        serde_json::from_slice(&response.body)
            .map_err(|error| Failure { error: ReviewError::new(error), is_temporary: false })
    }

    async fn wait_for_rate(&self) {
        loop {
            let next = {
                let mut rate = lock(&self.rate);
                if rate.try_take(self.clock.now()) {
                    return;
                }
                rate.next_token()
            };
            tokio::time::sleep(self.clock.until(next)).await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
