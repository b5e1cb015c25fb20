//! The settings of an election.

use std::time::Duration;

use thiserror::Error;

/// The settings of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElectionConfig {
    /// The unique name of this replica.
    pub identity: String,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Time without a renewal after which another replica may take over. The Lease holds whole
    /// seconds, so it is rounded up; client-go rounds down, and others may then take over too
    /// early.
    pub lease_duration: Duration,
    /// Time after the last renewal at which the leader stops to act.
    pub renew_deadline: Duration,
    /// Time between attempts of the leader, and minimum time between attempts of the others.
    pub retry_period: Duration,
    /// The version of Kubernetes that this replica follows, which its Lease names for people.
    pub level: Option<String>,
}

/// Settings with which an election is not safe; the texts of client-go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Another replica could take over while the leader still acts.
    #[error("leaseDuration must be greater than renewDeadline")]
    LeaseDurationTooShort,
    /// The leader would give up before its second attempt.
    #[error("renewDeadline must be greater than retryPeriod*JitterFactor")]
    RenewDeadlineTooShort,
    /// The duration is zero.
    #[error("leaseDuration must be greater than zero")]
    NoLeaseDuration,
    /// The duration is zero.
    #[error("renewDeadline must be greater than zero")]
    NoRenewDeadline,
    /// The duration is zero.
    #[error("retryPeriod must be greater than zero")]
    NoRetryPeriod,
    /// Replicas without a name cannot tell which of them holds the Lease.
    #[error("Lock identity is empty")]
    NoIdentity,
}

/// Share of the retry period by which attempts of waiting replicas are delayed at most.
const JITTER_FACTOR: f64 = 1.2;

/// Minimum time to wait for the reply to a request.
const MIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

impl LeaderElectionConfig {
    /// Checks the durations and the identity, in the order of client-go.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let rules = [
            (self.lease_duration > self.renew_deadline, ConfigError::LeaseDurationTooShort),
            (self.renew_deadline > self.longest_jitter(), ConfigError::RenewDeadlineTooShort),
            (!self.lease_duration.is_zero(), ConfigError::NoLeaseDuration),
            (!self.renew_deadline.is_zero(), ConfigError::NoRenewDeadline),
            (!self.retry_period.is_zero(), ConfigError::NoRetryPeriod),
            (!self.identity.is_empty(), ConfigError::NoIdentity),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Returns the time to wait for the reply to a request.
    pub(super) fn request_timeout(&self) -> Duration {
        MIN_REQUEST_TIMEOUT.max(self.renew_deadline / 2)
    }

    /// Returns the time until the next attempt of a waiting replica.
    pub(super) fn jittered_retry_period(&self, rng: &mut fastrand::Rng) -> Duration {
        self.retry_period.saturating_add(self.longest_jitter().mul_f64(rng.f64()))
    }

    /// Returns `leaseDurationSeconds`.
    pub(super) fn lease_duration_seconds(&self) -> i32 {
        let seconds = self.lease_duration.as_nanos().div_ceil(1_000_000_000);
        i32::try_from(seconds).unwrap_or(i32::MAX)
    }

    fn longest_jitter(&self) -> Duration {
        let seconds = self.retry_period.as_secs_f64() * JITTER_FACTOR;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}
