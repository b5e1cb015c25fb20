//! The scheduler that a sandbox runs in its own process: a daemon without endpoints.

use std::sync::Arc;

use engine::cycle::Form;
use framework::Registry;
use framework::preemption::LONGEST_PAUSE;
use tokio_util::sync::CancellationToken;

use crate::api_client::Credentials;
use crate::config::{self, Configuration, Gates, Profile};
use crate::http::Health;
use crate::metrics::Metrics;
use crate::observer::MetricsObserver;
use crate::runtime::{self, Setup};
use crate::scheduling_loop::channel;

/// The scheduler names of its profiles: the default one, and that of Loadmaster.
const NAMES: [&str; 2] = ["default-scheduler", "loadmaster"];

/// Schedules with the default plugins until `stop`.
///
/// # Errors
/// The API of the kubeconfig cannot be used.
pub(super) async fn schedule(
    registry: Registry,
    kubeconfig: String,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (metrics, health) = (Arc::new(Metrics::new()), Arc::new(Health::default()));
    let config = config();
    let setup = Setup {
        unschedulable_timeout: config.queue().max_in_unschedulable,
        config,
        registry,
        credentials: Credentials::parse(&kubeconfig).await?,
        request_rate: None,
        adaptive_sampling: false,
        form: Form::Ranked,
        longest_preemption_pause: LONGEST_PAUSE,
        metrics: metrics.clone(),
        server_status: health.server_status(),
        heartbeat: health.heartbeat(),
        channel: channel(),
        debug_signal: None,
    };
    let observer = MetricsObserver::new(metrics, health);
    runtime::run_scheduler(setup, observer, &stop).await
}

fn config() -> Configuration {
    let mut config = config::defaults(&Gates::default());
    // No other replica knows the sandbox of this process.
    config.leader_election.leader_elect = false;
    let named = |name: &str| {
        let named = |profile: &Profile| Profile { scheduler_name: name.into(), ..profile.clone() };
        config.profiles.first().map(named)
    };
    config.profiles = NAMES.into_iter().filter_map(named).collect();
    config
}
