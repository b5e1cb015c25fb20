//! The leader election of the daemon.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use control::leader_election::{LeaderElectionConfig, LeaderElector};
use control::scheduler::LeaderElection;
use tokio::sync::SetOnce;
use tracing::{info, warn};

use super::hostname;
use crate::api_client::ApiClient;
use crate::config::Configuration;
use crate::extender::Extenders;
use crate::scheduling_loop::{EventSender, LoopEvent};
use crate::supervision::catch_panic;

/// Length of a watch of the Lease.
const WATCH_LENGTH: Duration = Duration::from_secs(45);

/// Creates the election of a configuration, if it asks for one.
///
/// # Errors
/// The durations do not fit together.
pub(crate) fn new_election(
    config: &Configuration,
    seed: u64,
) -> anyhow::Result<Option<LeaderElection>> {
    let election = &config.leader_election;
    if !election.leader_elect {
        return Ok(None);
    }
    let settings = LeaderElectionConfig {
        identity: identity()?,
        namespace: election.resource_namespace.clone(),
        name: election.resource_name.clone(),
        lease_duration: election.lease_duration.to_std(),
        renew_deadline: election.renew_deadline.to_std(),
        retry_period: election.retry_period.to_std(),
        level: Some(config.plugin_gates.level.to_string()),
    };
    let elector = LeaderElector::new(settings, seed).context("couldn't create leader elector")?;
    let first = config.profiles.first();
    Ok(Some(LeaderElection {
        elector,
        reporting_controller: first.map_or("", |profile| &profile.scheduler_name).into(),
        delay_cache_until_active: config.delay_cache_until_active,
    }))
}

/// Returns the unique name of this process: `<hostname>_<random UUID>`.
pub(crate) fn identity() -> anyhow::Result<String> {
    let path = "/proc/sys/kernel/random/uuid";
    let uuid = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(format!("{}_{}", hostname(), uuid.trim()))
}

/// Warns if extenders that hang can block the scheduling loop, which renews the Lease, for too
/// long.
pub(super) fn warn_of_slow_extenders(extenders: &Extenders, settings: &LeaderElectionConfig) {
    let longest = extenders.longest_attempt();
    if may_lose_lease(longest, settings) {
        let (longest, deadline) =
            (format!("{longest:?}"), format!("{:?}", settings.renew_deadline));
        warn!(
            longest,
            deadline,
            "Extenders that hang may block scheduling until the lease is lost: shorten their httpTimeout, \
             or lengthen leaderElection.renewDeadline and leaderElection.leaseDuration"
        );
    }
}

/// Whether the Lease may expire while calls of extenders block the loop for this long.
fn may_lose_lease(longest: Duration, settings: &LeaderElectionConfig) -> bool {
    longest + settings.retry_period > settings.renew_deadline
}

/// A watch of the Lease, by which a standby notices at once that the Lease is free.
///
/// The election does not depend on it: a standby also reads the Lease regularly.
pub(crate) struct LeaseWatch<M = Infallible> {
    client: ApiClient,
    path: String,
    retry_period: Duration,
    events: EventSender<M>,
    logged_error: Option<String>,
}

impl<M> LeaseWatch<M> {
    pub(crate) fn new(client: ApiClient, elector: &LeaderElector, events: EventSender<M>) -> Self {
        Self {
            client,
            path: elector.watch_path(),
            retry_period: elector.config().retry_period,
            events,
            logged_error: None,
        }
    }

    /// Watches the Lease until this replica leads.
    pub(crate) async fn run(mut self, leading: Arc<SetOnce<()>>) {
        let watching = async {
            loop {
                let watched = catch_panic(self.watch()).await;
                let watched = watched.unwrap_or_else(|panic| Err(panic.to_string()));
                self.log(watched.err());
                tokio::time::sleep(self.retry_period).await;
            }
        };
        tokio::select! {
            () = watching => {}
            _ = leading.wait() => {}
        }
    }

    /// Watches once, until the watch ends.
    async fn watch(&self) -> Result<(), String> {
        let send = |event: &[u8]| self.events.send(LoopEvent::LeaseEvent(event.to_vec()));
        self.client.watch(&self.path, WATCH_LENGTH, send).await.map_err(|error| error.to_string())
    }

    /// Logs a new error once.
    fn log(&mut self, error: Option<String>) {
        if let Some(err) = error.as_ref().filter(|_| self.logged_error != error) {
            info!(err, "Cannot watch the lease; a standby notices its release a moment later");
        }
        self.logged_error = error;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_has_to_fit_between_the_longest_attempt_and_the_deadline() {
        let settings = LeaderElectionConfig {
            identity: "a".to_owned(),
            namespace: "kube-system".to_owned(),
            name: "loadmaster".to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            level: None,
        };
        for (longest, expected) in [(0, false), (8, false), (9, true), (11, true)] {
            assert_eq!(may_lose_lease(Duration::from_secs(longest), &settings), expected);
        }
    }
}
