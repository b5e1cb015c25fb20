//! `loadmaster run`: schedules the pods of a cluster, or over many clusters. `loadmaster agent`:
//! the agent of one.

use std::convert::Infallible;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use control::scheduler::Fencing;
use engine::EngineConfig;
use engine::cycle::Form;
use framework::{Level, Registry};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use jiff::Timestamp;
use supercluster::registry::PipelineRegistry;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::flags::Flags;
use super::in_effect;
use crate::api_client::{ApiClient, Credentials};
use crate::config::{self, Configuration, Gates};
use crate::http::{self, Access, AccessError, App, ExplainPod, Explainer, Health, Started};
use crate::logs::{self, Streams, Verbosity};
use crate::metrics::Metrics;
use crate::observer::MetricsObserver;
use crate::runtime::{
    self, ConfigurationFile, Followed, GroupsServed, OtherLevel, ServedGroups, Setup,
};
use crate::scheduling_loop::{EventSender, channel, role_channel};
use crate::supercluster::agent::{self, AgentPipelines, AgentShell};
use crate::supercluster::scheduler::{self, ClustersFile, SchedulerShell};
use crate::supervision::{TaskFailed, Tasks};
use crate::traces::{self, Exporter, Tracer, TracingConfiguration};
use crate::what_if::Trial;

/// Time for the last spans after the end of the scheduling loop.
const LAST_EXPORT: Duration = Duration::from_secs(2);
/// Number of threads for I/O and decoding.
const IO_THREADS: usize = 1;

/// Runs the daemon with these flags. Errors are logged, except errors of the log itself.
pub(super) fn run(
    flags: &Flags,
    role: fn(&Flags, &PipelineRegistry) -> anyhow::Result<Role>,
    registry: Registry,
    pipelines: &PipelineRegistry,
) -> anyhow::Result<ExitCode> {
    let asked = flags.level();
    // Without gates the log has its defaults, so that the error is logged.
    let options = match possible_gates(flags, asked.as_ref().ok().copied().flatten()) {
        Ok(gates) => flags.logs.options(&gates),
        Err(_) => Ok(logs::Options::default()),
    };
    let options = match options {
        Ok(options) => options,
        Err(errors) => {
            // kube-scheduler prints these errors without a header.
            eprintln!("{errors}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let verbosity = logs::init(&options)?;
    logs::log_panics();
    let log = Log { verbosity, streams: options.streams, flush_frequency: options.flush_frequency };
    let outcome = asked.and_then(|asked| {
        let mut chosen = asked.map(Followed::by_flag);
        loop {
            let ended = serve(flags, chosen, role(flags, pipelines)?, registry.clone(), &log);
            match ended.as_ref().err().and_then(starts_again_with) {
                Some(followed) => chosen = Some(followed),
                None => return ended,
            }
        }
    });
    if let Err(failure) = &outcome {
        error!(err = format!("{failure:#}"), "command failed");
    }
    log.streams.flush();
    Ok(if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the level with which the daemon starts again because the API server did not answer at
/// first and now tells what the daemon needs to know. `None` for another error.
fn starts_again_with(error: &anyhow::Error) -> Option<Followed> {
    let by_level = error.downcast_ref::<OtherLevel>().map(|other| &other.followed);
    let by_groups = || error.downcast_ref::<GroupsServed>().map(|served| &served.followed);
    let followed = by_level.or_else(by_groups)?;
    warn!("{error}");
    Some(followed.clone())
}

/// Returns the gates of the level that is asked for, or else of the newest released level at which
/// they are valid.
///
/// # Errors
/// The gates are valid at none of these levels; the error has that of each level, if they differ.
fn possible_gates(flags: &Flags, asked: Option<Level>) -> anyhow::Result<Gates> {
    if let Some(level) = asked {
        return flags.gates(level);
    }
    let released = Level::ALL.into_iter().rev().filter(|level| !level.is_preview());
    let mut errors: Vec<(Level, String)> = Vec::new();
    for level in released {
        match flags.gates(level) {
            Ok(gates) => return Ok(gates),
            Err(error) => errors.push((level, error.to_string())),
        }
    }
    let is_one = errors.array_windows().all(|[one, other]| one.1 == other.1);
    let (Some((_, newest)), true) = (errors.first(), is_one) else {
        let each = errors.iter().map(|(level, error)| format!("at level {level}: {error}"));
        let each: Vec<String> = each.collect();
        bail!("the feature gates are valid at no level: {}", each.join("; "));
    };
    bail!("{newest}")
}

/// Returns the level that is chosen already, or the one that the API server chooses.
///
/// # Errors
/// The credentials cannot be used.
async fn follow(credentials: &Credentials, chosen: Option<Followed>) -> anyhow::Result<Followed> {
    let followed = match chosen {
        Some(followed) => followed,
        None => {
            // The level decides the metrics, so they do not have this request.
            let (metrics, status) = (Metrics::default().rest_client(), Arc::default());
            let client = ApiClient::new(credentials, "scheduler", metrics, status)?;
            Followed::ask(&client).await
        }
    };
    followed.log();
    Ok(followed)
}

/// The log of the daemon.
struct Log {
    verbosity: Verbosity,
    streams: Streams,
    flush_frequency: Duration,
}

/// The role of the daemon.
pub(super) enum Role {
    Scheduler,
    Agent(Box<AgentPipelines>),
    Supercluster(Box<ClustersFile>),
}

impl Role {
    /// Returns the role of `run`.
    pub(super) fn of_run(flags: &Flags, registry: &PipelineRegistry) -> anyhow::Result<Self> {
        if flags.agent_config.is_some() {
            bail!("--agent-config is a flag of `loadmaster agent`");
        }
        let Some(path) = &flags.clusters else { return Ok(Self::Scheduler) };
        let file = ClustersFile::read(path, registry).context("--clusters")?;
        Ok(Self::Supercluster(Box::new(file)))
    }

    /// Returns the role of `agent`.
    pub(super) fn of_agent(flags: &Flags, registry: &PipelineRegistry) -> anyhow::Result<Self> {
        if flags.clusters.is_some() {
            bail!("--clusters is a flag of `loadmaster run`");
        }
        let pipelines = match &flags.agent_config {
            Some(path) => AgentPipelines::read(path, registry).context("--agent-config")?,
            None => AgentPipelines::default(),
        };
        Ok(Self::Agent(Box::new(pipelines)))
    }

    /// Returns why this role is not recorded, if it is asked for.
    const fn not_recorded(&self) -> Option<&'static str> {
        match self {
            Self::Scheduler => None,
            Self::Agent(_) => Some("--record has no effect: an agent is not recorded"),
            Self::Supercluster(_) => {
                Some("--record has no effect: a scheduler over many clusters is not recorded")
            }
        }
    }

    /// Returns why pods of this role are not traced, if it is asked for.
    const fn not_traced(&self) -> Option<&'static str> {
        match self {
            Self::Scheduler => None,
            Self::Agent(_) => Some("--tracing-config-file has no effect: an agent traces no pods"),
            Self::Supercluster(_) => Some(
                "--tracing-config-file has no effect: a scheduler over many clusters traces no pods",
            ),
        }
    }

    /// Sets the names of this role in a configuration that comes from no file.
    fn set_defaults(&self, config: &mut Configuration) {
        let (profile, lease) = match self {
            Self::Scheduler => return,
            Self::Agent(_) => (agent::PROFILE, agent::LEASE),
            Self::Supercluster(_) => (scheduler::PROFILE, scheduler::LEASE),
        };
        config.profiles.iter_mut().for_each(|own| own.scheduler_name = profile.into());
        config.leader_election.resource_name = lease.into();
    }

    /// Puts the plugins that the file of this role has into the configuration.
    fn apply(&self, config: &mut Configuration, gates: &Gates) -> anyhow::Result<()> {
        match self {
            Self::Agent(pipelines) => {
                let applied = pipelines.apply(config, gates).map_err(anyhow::Error::msg);
                applied.context("--agent-config")
            }
            Self::Scheduler | Self::Supercluster(_) => Ok(()),
        }
    }
}

/// The running role: its end, and what the endpoints show of it.
struct Running<'a> {
    outcome: LocalBoxFuture<'a, anyhow::Result<()>>,
    /// The scheduling loop, whose cache an endpoint shows.
    events: Option<EventSender>,
    /// Endpoints of its own.
    routes: Router,
    /// Answers questions about pods in place of the scheduling loop.
    explains: Option<ExplainPod>,
}

impl<'a> Running<'a> {
    /// Prepares a role. It runs when its outcome is awaited. `setup` and `observer` are what all
    /// roles share.
    fn new(
        role: Role,
        setup: Setup<Infallible>,
        observer: MetricsObserver,
        stop: &'a CancellationToken,
    ) -> Self {
        match role {
            Role::Scheduler => Self {
                events: Some(setup.channel.0.clone()),
                outcome: runtime::run_scheduler(setup, observer, stop).boxed_local(),
                routes: Router::new(),
                explains: None,
            },
            Role::Agent(pipelines) => {
                let (shell, channel) = (AgentShell::new(*pipelines), role_channel());
                let routes = shell.routes(channel.0.clone());
                let outcome = shell.run(setup.with_channel(channel), observer, stop);
                Self { outcome: outcome.boxed_local(), events: None, routes, explains: None }
            }
            Role::Supercluster(file) => {
                let (shell, channel) = (SchedulerShell::default(), role_channel());
                let explains = Some(shell.explainer(channel.0.clone()));
                let outcome = shell.run(setup.with_channel(channel), *file, observer, stop);
                let outcome = outcome.boxed_local();
                Self { outcome, events: None, routes: Router::new(), explains }
            }
        }
    }
}

fn log_component_config(config: &Configuration) {
    let config = config::to_yaml(&config::redacted(config.to_value()));
    debug!(config, "Using component config");
}

fn serve(
    flags: &Flags,
    chosen: Option<Followed>,
    role: Role,
    registry: Registry,
    log: &Log,
) -> anyhow::Result<()> {
    info!(version = env!("CARGO_PKG_VERSION"), "Starting Loadmaster");
    if log.verbosity.get() >= 1 {
        for (flag, value) in flags.values() {
            let value = config::without_user(value.to_owned());
            info!(target: logs::LINE, "FLAG: --{flag}={value:?}");
        }
    }
    flags.warnings().iter().for_each(|warning| warn!("{warning}"));
    if let Some(warning) = role.not_recorded().filter(|_| flags.recording().is_some()) {
        warn!("{warning}");
    }
    let mut tracing = flags.tracing().context("--tracing-config-file")?;
    if let Some(warning) = role.not_traced().filter(|_| tracing.take().is_some()) {
        warn!("{warning}");
    }
    let possible = possible_gates(flags, chosen.as_ref().map(|chosen| chosen.level))?;
    for notice in possible.notices() {
        info!(featureGate = notice.gate, value = notice.value, "{}", notice.text);
    }
    possible.check_built()?;
    let selection = flags.metrics.selection(flags.level()?)?;
    let config = configuration(flags, &role, &possible)?;
    if let Some(path) = &flags.write_config_to {
        return write(&config, path, &registry);
    }
    log_component_config(&config);
    let listener = flags.serving.serving().map(http::bind).transpose()?;
    // In addition to the thread of the scheduling loop. More I/O threads would mostly wake each
    // other (docs/benchmarks.md).
    let runtime = Builder::new_multi_thread().worker_threads(IO_THREADS).enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let kubeconfig = &config.client_connection.kubeconfig;
        let kubeconfig = (!kubeconfig.is_empty()).then(|| Path::new(kubeconfig));
        let credentials = Credentials::load(kubeconfig, flags.master.as_deref()).await?;
        let followed = follow(&credentials, chosen).await?;
        let metrics = Arc::new(Metrics::at(followed.level, selection));
        let (gates, config) = if followed.level == possible.level() {
            (possible, config)
        } else {
            let gates = flags.gates(followed.level)?;
            gates.check_built()?;
            let config = configuration(flags, &role, &gates)?;
            log_component_config(&config);
            (gates, config)
        };
        let served_groups = match role {
            Role::Scheduler if gates.leave_groups_open() => {
                ServedGroups::ask(&credentials, followed.level).await?
            }
            _ => ServedGroups::NotAsked,
        };
        let mut recording = flags.recording();
        let (gates, config) = if served_groups == ServedGroups::Served {
            let gates = gates.with_groups();
            let recorded = recording.iter_mut();
            recorded.for_each(|recording| recording.feature_gates.extend(gates.group_flags()));
            let config = configuration(flags, &role, &gates)?;
            log_component_config(&config);
            (gates, config)
        } else {
            (gates, config)
        };
        let gates = &gates;
        let leader_elect = config.leader_election.leader_elect;
        let health = if leader_elect { Health::with_leader_election() } else { Health::default() };
        let health = Arc::new(health);
        metrics.set_features(gates);
        let endpoints = match listener {
            Some(listener) => Some((listener, access(flags, &credentials, &metrics).await?)),
            None => None,
        };
        let (configz, profiling) = (config.to_value(), config.enable_profiling);
        let mut explainer = explainer(&config, &registry, flags.adaptive_sampling);
        if flags.what_if {
            explainer = explainer.with_trial(Trial {
                config: config.clone(),
                registry: Arc::new(registry.clone()),
                gates: gates.clone(),
                adaptive_sampling: flags.adaptive_sampling,
                every_scheduler: false,
            });
        }
        let (tracer, exporter) = match &tracing {
            Some(tracing) => {
                let traces = start_traces(tracing, &metrics).context("--tracing-config-file")?;
                (Some(traces.0), Some(tokio::spawn(traces.1.run())))
            }
            None => (None, None),
        };
        let level = followed.to_value(gates);
        let started = Started { at: Timestamp::now(), level: followed.level };
        let setup = Setup {
            followed,
            served_groups,
            trace_ids: tracing.as_ref().map(TracingConfiguration::trace_ids),
            request_rate: config.request_rate(),
            config,
            registry,
            credentials,
            adaptive_sampling: flags.adaptive_sampling,
            form: if flags.no_rankings { Form::Set } else { Form::Ranked },
            longest_preemption_pause: flags.longest_preemption_pause.to_std(),
            fencing: if flags.strict_takeover { Fencing::Strict } else { Fencing::default() },
            unschedulable_timeout: flags.max_in_unschedulable().to_std(),
            metrics: metrics.clone(),
            server_status: health.server_status(),
            heartbeat: health.heartbeat(),
            channel: channel(),
            configuration_file: match &flags.config {
                Some(path) => Some(ConfigurationFile {
                    path: path.clone(),
                    gates: gates.clone(),
                    hangup: listen(SignalKind::hangup())?,
                }),
                None => None,
            },
            debug_signal: Some(listen(SignalKind::user_defined2())?),
            recording,
        };
        let stop = CancellationToken::new();
        let observer = MetricsObserver::new(metrics.clone(), health.clone()).with_tracer(tracer);
        let mut running = Running::new(role, setup, observer, &stop);
        explainer = running.explains.take().into_iter().fold(explainer, Explainer::with_role);
        let app = App {
            metrics: metrics.clone(),
            health: health.clone(),
            configz,
            level,
            flagz: gates.is_on("ComponentFlagz").then(|| flags.values().collect()),
            statusz: gates.is_on("ComponentStatusz").then_some(started),
            events: running.events.take(),
            explainer,
            verbosity: profiling.then(|| log.verbosity.clone()),
            routes: std::mem::take(&mut running.routes),
        };
        let mut tasks = Tasks::default();
        let interrupt = listen(SignalKind::interrupt())?;
        let terminate = listen(SignalKind::terminate())?;
        let stopping = stop_on_signals(interrupt, terminate, stop.clone(), health.clone());
        tasks.spawn("the handler of signals", stopping);
        let flushing = log.streams.clone().flush_every(log.flush_frequency);
        tasks.spawn("the writer of the log", flushing);
        // The endpoints report the shutdown until it is complete.
        let ended = CancellationToken::new();
        let answering = async {
            let ended = ended.clone().cancelled_owned();
            let answered = tokio::spawn(async move {
                match endpoints {
                    Some((listener, access)) => http::serve(listener, access, app, ended).await,
                    None => {
                        ended.await;
                        Ok(())
                    }
                }
            });
            let answered = answered.await;
            stop.cancel();
            answered.map_err(|error| TaskFailed::joined("the server of the endpoints", error))
        };
        let scheduling = async {
            let outcome = running.outcome.await;
            ended.cancel();
            outcome
        };
        let (answered, scheduled) = tokio::select! {
            outcomes = async { tokio::join!(answering, scheduling) } => outcomes,
            failed = tasks.failure() => return Err(failed.into()),
        };
        if let Some(exporter) = exporter {
            // The scheduling loop has put its last spans into the queue.
            let _ = tokio::time::timeout(LAST_EXPORT, exporter).await;
        }
        scheduled?;
        answered?.context("the endpoints broke")?;
        if leader_elect {
            info!("Requested to terminate, exiting");
        }
        Ok(())
    });
    // Dropping the runtime would wait for the scheduling loop, which a plugin may hold up for ever.
    runtime.shutdown_background();
    outcome
}

/// Returns the configuration of a role.
///
/// # Errors
/// The file cannot be read, or a value is invalid.
fn configuration(flags: &Flags, role: &Role, gates: &Gates) -> anyhow::Result<Configuration> {
    let mut config = in_effect::configuration(flags, gates, |config| role.set_defaults(config))?;
    role.apply(&mut config, gates)?;
    Ok(config)
}

/// Starts to trace pods.
fn start_traces(
    tracing: &TracingConfiguration,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<(Tracer, Exporter)> {
    let TracingConfiguration { endpoint, sampling_rate_per_million } = tracing;
    info!(endpoint, samplingRatePerMillion = sampling_rate_per_million, "Tracing pods");
    if *sampling_rate_per_million == 0 {
        warn!("--tracing-config-file: samplingRatePerMillion is 0 or absent, so no pod is traced");
    }
    Ok(traces::start(tracing, &runtime::identity()?, metrics.clone())?)
}

/// Returns what answers questions about decisions. Its engines have plugins of their own and ask no
/// extender.
fn explainer(config: &Configuration, registry: &Registry, adaptive_sampling: bool) -> Explainer {
    let note = config.extenders_not_asked();
    let (config, registry) = (config.clone(), registry.clone());
    let new_config = move || {
        let profiles = config.build_profiles(&registry).map_err(|error| error.to_string())?;
        Ok(EngineConfig {
            percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
            adaptive_sampling,
            ..EngineConfig::new(profiles)
        })
    };
    Explainer::new(new_config, note.into_iter().collect())
}

/// Returns the access of callers to the endpoints.
async fn access(
    flags: &Flags,
    credentials: &Credentials,
    metrics: &Metrics,
) -> Result<Access, AccessError> {
    let (authentication, authorization) =
        (flags.authentication.options(), flags.authorization.options());
    Access::load(&authentication, &authorization, credentials, metrics).await
}

/// Writes the configuration in effect. The profiles are built first, so the written configuration
/// is valid.
fn write(config: &Configuration, path: &Path, registry: &Registry) -> anyhow::Result<()> {
    config.build_profiles(registry)?;
    std::fs::write(path, config::write_config(config)?)
        .with_context(|| format!("--write-config-to: cannot write {}", path.display()))?;
    info!(file = %path.display(), "Wrote configuration");
    Ok(())
}

/// Waits for signals: the first one starts an orderly shutdown, the second one ends at once.
async fn stop_on_signals(
    mut interrupt: Signal,
    mut terminate: Signal,
    stop: CancellationToken,
    health: Arc<Health>,
) -> Infallible {
    next_of(&mut interrupt, &mut terminate).await;
    debug!("Shutting down: no more pods are scheduled");
    health.set_shutting_down();
    stop.cancel();
    next_of(&mut interrupt, &mut terminate).await;
    std::process::exit(1)
}

fn listen(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("cannot listen for signals")
}

async fn next_of(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
