//! The roles that a sandbox runs in its own process: daemons without endpoints; only agents have
//! them.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use control::scheduler::Fencing;
use engine::cycle::Form;
use framework::preemption::LONGEST_PAUSE;
use framework::{Level, Registry};
use tokio_util::sync::CancellationToken;

use super::config::read;
use crate::api_client::Credentials;
use crate::config::{self, Configuration, Gates, Profile};
use crate::http::{
    self, Access, App, AuthenticationOptions, AuthorizationOptions, Explainer, Health, Listener,
    RequestHeaderNames,
};
use crate::metrics::Metrics;
use crate::observer::MetricsObserver;
use crate::runtime::{self, Followed, ServedGroups, Setup};
use crate::scheduling_loop::{EventChannel, channel, role_channel};
use crate::supercluster::agent::{self, AgentPipelines, AgentShell};
use crate::supercluster::scheduler::{self, ClustersFile, SchedulerShell};

/// The level of the roles in this process: the version of the sandbox.
pub(super) const LEVEL: Level = Level::V1_36;

/// The scheduler names of its profiles: the default one, and that of Loadmaster.
const NAMES: [&str; 2] = ["default-scheduler", "loadmaster"];

/// Time for which the answers of reviews are kept.
const REVIEW_TTL: std::time::Duration = std::time::Duration::from_secs(10);

/// Reads the configuration of a scheduler in this process.
///
/// # Errors
/// The file cannot be read, or is not valid.
pub(super) fn read_config(file: &Path) -> anyhow::Result<Configuration> {
    let loaded = config::load(&read(file)?, &gates_of_scheduler());
    let mut config = loaded.with_context(|| file.display().to_string())?.config;
    config.leader_election.leader_elect = false;
    Ok(config)
}

/// Returns the gates of a scheduler in this process. The sandbox serves PodGroups.
fn gates_of_scheduler() -> Gates {
    Gates::at(LEVEL).with_groups()
}

/// Schedules until `stop`, with the default plugins unless there is a configuration.
///
/// # Errors
/// The API of the kubeconfig cannot be used, or no scheduler can be built from the configuration.
pub(super) async fn schedule(
    registry: Registry,
    config: Option<Configuration>,
    kubeconfig: String,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let credentials = Credentials::parse(&kubeconfig).await?;
    let mut parts = Parts::new(registry, credentials, &NAMES);
    parts.config = config.unwrap_or_else(|| default_config(&NAMES, &gates_of_scheduler()));
    let observer = parts.observer();
    runtime::run_scheduler(parts.setup(channel()), observer, &stop).await
}

/// Runs the agent of the cluster of this kubeconfig until `stop`. It authenticates and authorizes
/// callers at that cluster.
///
/// # Errors
/// The API of the kubeconfig cannot be used, or the listener failed.
pub(super) async fn agent(
    registry: Registry,
    kubeconfig: String,
    listener: Listener,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let credentials = Credentials::parse(&kubeconfig).await?;
    let parts = Parts::new(registry, credentials.clone(), &[agent::PROFILE]);
    let (shell, channel) = (AgentShell::new(AgentPipelines::default()), role_channel());
    let explainer = no_explainer("an agent explains nothing");
    let app = parts.app(explainer, shell.routes(channel.0.clone()));
    let access = access(&credentials, &parts.metrics).await?;
    let serving = http::serve(listener, access, app, stop.clone().cancelled_owned());
    let observer = parts.observer();
    let (served, ran) = tokio::join!(serving, shell.run(parts.setup(channel), observer, &stop));
    ran?;
    Ok(served?)
}

/// Schedules over the clusters of a file until `stop`, and answers questions about pods. It
/// authenticates and authorizes callers at the cluster of this kubeconfig.
///
/// # Errors
/// The API of the kubeconfig or an agent cannot be used, or the listener failed.
pub(super) async fn supercluster(
    registry: Registry,
    kubeconfig: String,
    file: ClustersFile,
    listener: Listener,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let credentials = Credentials::parse(&kubeconfig).await?;
    let parts = Parts::new(registry, credentials.clone(), &[scheduler::PROFILE]);
    let (shell, channel) = (SchedulerShell::default(), role_channel());
    let explains = shell.explainer(channel.0.clone());
    let explainer = no_explainer("the scheduler explains pods only").with_role(explains);
    let app = parts.app(explainer, Router::new());
    let access = access(&credentials, &parts.metrics).await?;
    let serving = http::serve(listener, access, app, stop.clone().cancelled_owned());
    let observer = parts.observer();
    let running = shell.run(parts.setup(channel), file, observer, &stop);
    let (served, ran) = tokio::join!(serving, running);
    ran?;
    Ok(served?)
}

/// Returns what answers no question of the scheduling loop, for this reason.
fn no_explainer(reason: &'static str) -> Explainer {
    Explainer::new(move || Err(reason.to_owned()), Vec::new())
}

/// The common part of the setups of all roles.
struct Parts {
    registry: Registry,
    credentials: Credentials,
    config: Configuration,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

impl Parts {
    fn new(registry: Registry, credentials: Credentials, names: &[&str]) -> Self {
        let (metrics, health) = (Arc::new(Metrics::new()), Arc::new(Health::default()));
        Self {
            registry,
            credentials,
            config: default_config(names, &Gates::at(LEVEL)),
            metrics,
            health,
        }
    }

    fn app(&self, explainer: Explainer, routes: Router) -> App {
        App {
            metrics: self.metrics.clone(),
            health: self.health.clone(),
            configz: self.config.to_value(),
            level: Followed::by_flag(LEVEL).to_value(&Gates::at(LEVEL)),
            flagz: None,
            statusz: None,
            events: None,
            explainer,
            verbosity: None,
            routes,
        }
    }

    fn observer(&self) -> MetricsObserver {
        MetricsObserver::new(self.metrics.clone(), self.health.clone())
    }

    fn setup<M>(self, channel: EventChannel<M>) -> Setup<M> {
        Setup {
            unschedulable_timeout: self.config.queue().max_in_unschedulable,
            followed: Followed::by_flag(LEVEL),
            served_groups: ServedGroups::NotAsked,
            config: self.config,
            registry: self.registry,
            credentials: self.credentials,
            request_rate: None,
            adaptive_sampling: false,
            form: Form::Ranked,
            longest_preemption_pause: LONGEST_PAUSE,
            fencing: Fencing::default(),
            metrics: self.metrics,
            server_status: self.health.server_status(),
            heartbeat: self.health.heartbeat(),
            channel,
            configuration_file: None,
            debug_signal: None,
            recording: None,
            trace_ids: None,
        }
    }
}

fn default_config(names: &[&str], gates: &Gates) -> Configuration {
    let mut config = config::defaults(gates);
    // No other replica knows the sandbox of this process.
    config.leader_election.leader_elect = false;
    let named = |name: &&str| {
        let named =
            |profile: &Profile| Profile { scheduler_name: (*name).into(), ..profile.clone() };
        config.profiles.first().map(named)
    };
    config.profiles = names.iter().filter_map(named).collect();
    config
}

async fn access(credentials: &Credentials, metrics: &Metrics) -> anyhow::Result<Access> {
    let authentication = AuthenticationOptions {
        kubeconfig: None,
        skip_lookup: true,
        tolerate_lookup_failure: true,
        token_ttl: REVIEW_TTL,
        client_ca_file: None,
        request_header_ca_file: None,
        request_header_names: RequestHeaderNames {
            allowed: Vec::new(),
            username: Vec::new(),
            uid: Vec::new(),
            group: Vec::new(),
            extra_prefix: Vec::new(),
        },
    };
    let authorization = AuthorizationOptions {
        kubeconfig: None,
        always_allow_paths: vec!["/healthz".to_owned(), "/livez".to_owned(), "/readyz".to_owned()],
        authorized_ttl: REVIEW_TTL,
        unauthorized_ttl: REVIEW_TTL,
    };
    Ok(Access::load(&authentication, &authorization, credentials, metrics).await?)
}
