//! `loadmaster run`: schedules the pods of a cluster.

use std::convert::Infallible;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use engine::EngineConfig;
use engine::cycle::Form;
use framework::Registry;
use jiff::Timestamp;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::flags::Flags;
use super::in_effect;
use crate::api_client::Credentials;
use crate::config::{self, Configuration, Gates};
use crate::http::{self, Access, AccessError, App, Explainer, Health};
use crate::logs::{self, Streams, Verbosity};
use crate::metrics::Metrics;
use crate::observer::MetricsObserver;
use crate::runtime::{self, Setup};
use crate::scheduling_loop::channel;
use crate::supervision::{TaskFailed, Tasks};

/// Number of threads for I/O and decoding.
const IO_THREADS: usize = 1;

/// Runs the daemon with these flags. Errors are logged, except those of the log itself.
pub(super) fn run(flags: &Flags, registry: Registry) -> anyhow::Result<ExitCode> {
    let gates = flags.check_versions().map_err(anyhow::Error::from);
    let gates = gates.and_then(|()| Ok(flags.gates()?));
    // Without gates the log has its defaults, so that the error is logged.
    let options = match &gates {
        Ok(gates) => flags.logs.options(gates),
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
    let outcome = gates.and_then(|gates| serve(flags, &gates, registry, &log));
    if let Err(failure) = &outcome {
        error!(err = format!("{failure:#}"), "command failed");
    }
    log.streams.flush();
    Ok(if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The log of the daemon.
struct Log {
    verbosity: Verbosity,
    streams: Streams,
    flush_frequency: Duration,
}

fn serve(flags: &Flags, gates: &Gates, registry: Registry, log: &Log) -> anyhow::Result<()> {
    info!(version = env!("CARGO_PKG_VERSION"), "Starting Loadmaster");
    if log.verbosity.get() >= 1 {
        for (flag, value) in flags.values() {
            let value = config::without_user(value.to_owned());
            info!(target: logs::LINE, "FLAG: --{flag}={value:?}");
        }
    }
    flags.warnings().iter().for_each(|warning| warn!("{warning}"));
    for notice in gates.notices() {
        info!(featureGate = notice.gate, value = notice.value, "{}", notice.text);
    }
    gates.check_built()?;
    let selection = flags.metrics.selection()?;
    let config = in_effect::configuration(flags, gates)?;
    debug!(
        config = config::to_yaml(&config::redacted(config.to_value())),
        "Using component config"
    );
    if let Some(path) = &flags.write_config_to {
        return write(&config, path, &registry);
    }
    let listener = flags.serving.serving().map(http::bind).transpose()?;
    // In addition to the thread of the scheduling loop. More I/O threads would mostly wake each
    // other (docs/benchmarks.md).
    let runtime = Builder::new_multi_thread().worker_threads(IO_THREADS).enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let kubeconfig = &config.client_connection.kubeconfig;
        let kubeconfig = (!kubeconfig.is_empty()).then(|| Path::new(kubeconfig));
        let credentials = Credentials::load(kubeconfig, flags.master.as_deref()).await?;
        let leader_elect = config.leader_election.leader_elect;
        let health = if leader_elect { Health::with_leader_election() } else { Health::default() };
        let metrics = Arc::new(Metrics::with_selection(selection));
        let health = Arc::new(health);
        metrics.set_features(gates);
        let endpoints = match listener {
            Some(listener) => Some((listener, access(flags, &credentials, &metrics).await?)),
            None => None,
        };
        let channel = channel();
        let explainer = explainer(&config, &registry, flags.adaptive_sampling);
        let app = App {
            metrics: metrics.clone(),
            health: health.clone(),
            configz: config.to_value(),
            flagz: gates.is_on("ComponentFlagz").then(|| flags.values().collect()),
            statusz: gates.is_on("ComponentStatusz").then(Timestamp::now),
            events: channel.0.clone(),
            explainer,
            verbosity: config.enable_profiling.then(|| log.verbosity.clone()),
        };
        let setup = Setup {
            request_rate: config.request_rate(),
            config,
            registry,
            credentials,
            adaptive_sampling: flags.adaptive_sampling,
            form: if flags.no_rankings { Form::Set } else { Form::Ranked },
            longest_preemption_pause: flags.longest_preemption_pause.to_std(),
            unschedulable_timeout: flags.max_in_unschedulable().to_std(),
            metrics: metrics.clone(),
            server_status: health.server_status(),
            heartbeat: health.heartbeat(),
            channel,
            debug_signal: Some(listen(SignalKind::user_defined2())?),
        };
        let stop = CancellationToken::new();
        let mut tasks = Tasks::default();
        let signals = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let stopping = stop_on_signals(signals, stop.clone(), health.clone());
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
            let observer = MetricsObserver::new(metrics, health);
            let outcome = runtime::run_scheduler(setup, observer, &stop).await;
            ended.cancel();
            outcome
        };
        let (answered, scheduled) = tokio::select! {
            outcomes = async { tokio::join!(answering, scheduling) } => outcomes,
            failed = tasks.failure() => return Err(failed.into()),
        };
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

/// Returns what answers questions about decisions. Its engines have plugins of their own and ask no extender.
fn explainer(config: &Configuration, registry: &Registry, adaptive_sampling: bool) -> Explainer {
    let extended = !config.extenders.is_empty();
    let note = extended.then(|| "extenders were not asked".to_owned());
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
    (mut interrupt, mut terminate): (Signal, Signal),
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
