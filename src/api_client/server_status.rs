//! Whether the API server can be reached and accepts our requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framework::Time;

use crate::clock::Clock;

/// Time for which requests may fail until the scheduler reports that it is not ready.
pub const TOLERANCE: Duration = Duration::from_secs(30);

/// The purpose of the requests that are not watches.
const REQUESTS: &str = "requests";

/// The failing requests, by purpose, and the permissions without which no pod can be bound.
///
/// A purpose is one watch, or all requests that are not watches. It fails from its first failure
/// until its next success. A quiet watch does not fail.
#[derive(Debug)]
pub struct ServerStatus {
    clock: Clock,
    tolerance: Duration,
    failures: Mutex<BTreeMap<Arc<str>, Failure>>,
    missing_permissions: Mutex<Option<String>>,
    /// The kinds and feeds that are not read although pods are scheduled, with the reason.
    unread: Mutex<BTreeMap<Arc<str>, String>>,
}

#[derive(Debug)]
struct Failure {
    since: Time,
    reason: String,
}

impl Default for ServerStatus {
    fn default() -> Self {
        Self::with_tolerance(TOLERANCE)
    }
}

impl ServerStatus {
    /// Creates the status of a server whose requests may fail for this long, by default
    /// [`TOLERANCE`].
    pub fn with_tolerance(tolerance: Duration) -> Self {
        Self {
            clock: Clock::start(),
            tolerance,
            failures: Mutex::default(),
            missing_permissions: Mutex::default(),
            unread: Mutex::default(),
        }
    }

    /// Returns the time for which requests may fail.
    pub const fn tolerance(&self) -> Duration {
        self.tolerance
    }

    /// Records the state of the watch of a kind: the reason for which it fails, if it fails.
    pub fn watched(&self, kind: &Arc<str>, failure: Option<&str>) {
        self.record(kind, failure);
    }

    /// Records the state of a kind or a feed without which pods are scheduled: the reason for which
    /// it is not read, if it is not.
    pub fn reads(&self, kind: &Arc<str>, failure: Option<&str>) {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            Some(reason) => drop(unread.insert(kind.clone(), reason.to_owned())),
            None => drop(unread.remove(kind)),
        }
    }

    /// Returns the kinds and feeds that are not read although pods are scheduled, with the reason.
    pub fn unread(&self) -> BTreeMap<Arc<str>, String> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the permissions without which no pod can be bound: an explanation, if some are
    /// missing.
    pub fn permitted(&self, missing: Option<String>) {
        *self.missing_permissions() = missing;
    }

    /// Records the outcome of a request that is not a watch: the reason for which it failed, if it
    /// failed.
    pub(crate) fn requested(&self, failure: Option<&str>) {
        self.record(REQUESTS, failure);
    }

    fn record(&self, purpose: &str, failure: Option<&str>) {
        let mut failures = self.failures();
        let Some(reason) = failure else {
            failures.remove(purpose);
            return;
        };
        match failures.get_mut(purpose) {
            Some(known) => reason.clone_into(&mut known.reason),
            None => {
                let failure = Failure { since: self.clock.now(), reason: reason.to_owned() };
                failures.insert(purpose.into(), failure);
            }
        }
    }

    /// Returns whether the last request that is not a watch failed.
    pub fn requests_fail(&self) -> bool {
        self.failures().contains_key(REQUESTS)
    }

    /// Checks that pods may be bound and that no purpose has failed for as long as the
    /// [tolerance](Self::tolerance).
    ///
    /// # Errors
    /// The missing permissions; otherwise the purpose that has failed for the longest time, with
    /// the reason, and the number of others.
    pub fn check(&self) -> Result<(), String> {
        self.check_at(self.clock.now())
    }

    fn check_at(&self, now: Time) -> Result<(), String> {
        if let Some(missing) = &*self.missing_permissions() {
            return Err(missing.clone());
        }
        let failures = self.failures();
        let long = failures.values().filter(|failure| now.since(failure.since) >= self.tolerance);
        let Some(first) = long.min_by_key(|failure| failure.since) else { return Ok(()) };
        let seconds = now.since(first.since).as_secs();
        let others = match failures.len() - 1 {
            0 => String::new(),
            others => format!(" (and {others} other kinds of requests)"),
        };
        Err(format!("requests to the API server fail for {seconds} s: {}{others}", first.reason))
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Failure>> {
        // No code that holds the lock panics.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn missing_permissions(&self) -> MutexGuard<'_, Option<String>> {
        // As above.
        self.missing_permissions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_counts_once_it_has_lasted() {
        let status = ServerStatus::default();
        let (pods, nodes) = (Arc::from("pods"), Arc::from("nodes"));
        let later = |seconds| status.clock.now() + Duration::from_secs(seconds);
        status.watched(&pods, Some("pods: connection refused"));
        assert_eq!(status.check_at(later(29)), Ok(()));
        status.watched(&pods, Some("pods: forbidden"));
        let error = status.check_at(later(31)).unwrap_err();
        assert_eq!(error, "requests to the API server fail for 31 s: pods: forbidden");
        status.watched(&nodes, Some("nodes: forbidden"));
        status.requested(Some("no response"));
        let error = status.check_at(later(31)).unwrap_err();
        assert!(error.ends_with("pods: forbidden (and 2 other kinds of requests)"), "{error}");
    }

    #[test]
    fn kind_that_pods_do_not_need_fails_no_check() {
        let status = ServerStatus::default();
        let kind = Arc::from("nodes.metrics.k8s.io");
        status.reads(&kind, Some("no response"));
        assert_eq!(status.check_at(status.clock.now() + TOLERANCE * 2), Ok(()));
        assert_eq!(status.unread(), [(kind.clone(), "no response".to_owned())].into());
        status.reads(&kind, None);
        assert!(status.unread().is_empty());
    }

    #[test]
    fn missing_permission_counts_at_once() {
        let status = ServerStatus::default();
        status.permitted(Some("cannot create pods/binding".to_owned()));
        assert_eq!(status.check(), Err("cannot create pods/binding".to_owned()));
        status.permitted(None);
        assert_eq!(status.check(), Ok(()));
    }

    #[test]
    fn success_ends_only_the_failure_of_its_own_purpose() {
        let status = ServerStatus::default();
        let pods = Arc::from("pods");
        let later = || status.check_at(status.clock.now() + TOLERANCE * 2);
        status.watched(&pods, Some("pods: forbidden"));
        status.requested(Some("no response"));
        assert!(status.requests_fail());
        status.requested(None);
        assert!(!status.requests_fail());
        assert!(later().unwrap_err().contains("pods: forbidden"));
        status.watched(&pods, None);
        assert_eq!(later(), Ok(()));
    }
}
