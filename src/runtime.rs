//! Wiring: the only place that spawns. Everything here is told what to do by its caller, and ends when it
//! is told to stop.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use client::executor::{Executor, Limits};
use client::recorder::{self, Recorder};
use client::scheduler::Scheduler;
use client::{Recipient, Reply, Request};
use engine::profile::Profiles;
use engine::{Engine, EngineConfig};
use framework::Registry;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::Configuration;
use crate::drive::{
    Api, Clock, ConnectError, Credentials, Inbox, Message, Observer, Outgoing, SchedulingLoop,
    Version, Watcher,
};
use crate::extender::{Extenders, HttpExtender};
use crate::metrics::Metrics;
use crate::wire::{Decoder, WatchedKind, Whole, watched_kinds};

/// The oldest minor version of Kubernetes that is worked with.
const OLDEST_MINOR: u32 = 33;
/// How long to wait before the server is asked again for its version.
const NEXT_GREETING: Duration = Duration::from_secs(5);

/// What a scheduler is made from.
pub struct Setup {
    /// Profiles, backoffs and everything else in effect.
    pub config: Configuration,
    /// The plugins there are.
    pub registry: Registry,
    /// The API server, and who we are to it.
    pub credentials: Credentials,
    /// Requests a second, and at once; `None` leaves it to the server to slow us down.
    pub request_rate: Option<(f32, u32)>,
    /// Lets a percentage of 0 mean what it means to kube-scheduler.
    pub adaptive_sampling: bool,
    /// How long a pod that no event concerned stays parked.
    pub unschedulable_timeout: Duration,
    /// Where requests, and what plugins count, are shown.
    pub metrics: Arc<Metrics>,
}

impl Setup {
    fn connect(&self) -> Result<Api, ConnectError> {
        Api::new(&self.credentials, self.metrics.rest_client())
    }

    /// The scheduler, and what it watches; `whole` names the objects that extenders are sent.
    fn scheduler(
        &self,
        whole: Whole,
        clock: Clock,
    ) -> anyhow::Result<(Scheduler, Vec<(Decoder, WatchedKind)>)> {
        let config = self.config.clone().with_ignored_resources()?;
        let profiles = config.build_profiles(&self.registry)?;
        self.show_metrics_of(&profiles);
        let fields = profiles.extra_fields();
        let kinds = watched_kinds(&profiles);
        let decoder =
            |kind: &WatchedKind| Decoder::new(kind.resource.clone(), fields.clone()).keeping(whole);
        let kinds = kinds.into_iter().map(|kind| (decoder(&kind), kind)).collect();
        // Any seed will do, as long as two schedulers do not share it.
        let seed = clock.now().as_nanos().unsigned_abs();
        let mut queue = config.queue();
        queue.max_in_unschedulable = self.unschedulable_timeout;
        let engine = Engine::new(EngineConfig {
            seed,
            percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
            adaptive_sampling: self.adaptive_sampling,
            queue,
            extenders: config.engine_extenders(),
            ..EngineConfig::new(profiles)
        });
        let (qps, burst) = self.request_rate.unzip();
        let limits = Limits { qps, burst: burst.unwrap_or_default(), ..Limits::default() };
        let recorder = recorder::Options { hostname: hostname(), ..recorder::Options::default() };
        let executor = Executor::new(limits, seed);
        Ok((Scheduler::new(engine, executor, Recorder::new(recorder, seed)), kinds))
    }
}

impl Setup {
    fn show_metrics_of(&self, profiles: &Profiles) {
        let metrics = profiles.iter().flat_map(|profile| {
            let plugins = profile.plugins.values().flat_map(|plugin| &plugin.metrics);
            plugins.map(|metric| (profile.scheduler_name.to_string(), metric.clone()))
        });
        for refusal in self.metrics.set_plugin_metrics(metrics) {
            warn!("{refusal}");
        }
    }
}

/// Watches, decides and binds until `stop`, then ends what is under way.
///
/// # Errors
/// It cannot begin, or cannot go on: the server is too old, does not accept the credentials, or the
/// scheduling loop broke.
pub async fn schedule(
    setup: Setup,
    observer: impl Observer + Send + 'static,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let clock = Clock::start();
    let metrics = setup.metrics.clone();
    let extenders = Extenders::new(&setup.config, Handle::current(), clock, metrics)
        .context("couldn't build extenders")?;
    let (scheduler, kinds) = setup.scheduler(extenders.needs(), clock)?;
    // Lists and watches must not take the room of writes on a connection.
    let (reads, writes) = (setup.connect()?, setup.connect()?);
    tokio::select! {
        greeted = greet(&reads, &setup.credentials) => greeted?,
        () = stop.cancelled() => return Ok(()),
    }
    let (inbox, messages) = Inbox::new();
    let (outgoing, requests) = mpsc::unbounded_channel();
    let watches = kinds.len();
    let mut tasks = JoinSet::new();
    for (seed, (decoder, kind)) in (clock.now().as_nanos().unsigned_abs()..).zip(kinds) {
        let watcher = Watcher::new(
            reads.clone(),
            kind,
            decoder,
            inbox.clone(),
            clock,
            setup.metrics.clone(),
            seed,
        );
        tasks.spawn(watcher.run());
    }
    tasks.spawn(dispatch(writes, extenders.all(), requests, inbox.clone()));
    let scheduling =
        SchedulingLoop::new(scheduler, extenders, messages, outgoing, clock, observer, watches);
    let mut scheduling = tokio::task::spawn_blocking(move || scheduling.run());
    tokio::select! {
        ended = &mut scheduling => return ended.context("the scheduling loop broke"),
        () = stop.cancelled() => inbox.send(Message::Stop),
    }
    scheduling.await.context("the scheduling loop broke")
}

/// Sends each request on a task of its own, and brings back what became of it.
async fn dispatch(
    api: Api,
    extenders: Arc<[HttpExtender]>,
    mut requests: UnboundedReceiver<Outgoing>,
    inbox: Inbox,
) {
    while let Some(Outgoing { sender, request }) = requests.recv().await {
        let (api, extenders, inbox) = (api.clone(), extenders.clone(), inbox.clone());
        tokio::spawn(async move {
            let id = request.id;
            let reply = send(&api, &extenders, request).await;
            inbox.send(Message::Reply(sender, id, reply));
        });
    }
}

async fn send(api: &Api, extenders: &[HttpExtender], request: Request) -> Reply {
    match request.to {
        Recipient::ApiServer => api.send(request).await,
        Recipient::Extender(place) => extenders[place].bind(request.body).await,
    }
}

/// Asks the server for its version, for as long as it takes.
async fn greet(api: &Api, credentials: &Credentials) -> anyhow::Result<()> {
    let server = credentials.server();
    let mut told = None;
    loop {
        match api.version().await {
            Ok(version) => {
                info!(server, version = version.git_version, "Connected to the API server");
                return check(&server, &version);
            }
            Err(error) if error.is_final() => bail!("{server}: {error}"),
            Err(error) => {
                let err = error.to_string();
                if told.as_ref() != Some(&err) {
                    warn!(server, err, "Cannot reach the API server; trying again");
                    told = Some(err);
                }
                tokio::time::sleep(NEXT_GREETING).await;
            }
        }
    }
}

fn check(server: &str, version: &Version) -> anyhow::Result<()> {
    match version.minor() {
        Some(minor) if minor < OLDEST_MINOR => bail!(
            "{server} is Kubernetes {}: 1.{OLDEST_MINOR} is the oldest version that is worked with",
            version.git_version
        ),
        _ => Ok(()),
    }
}

/// The name of this machine, or of the pod.
fn hostname() -> String {
    let from_kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = std::env::var("HOSTNAME").ok().or_else(from_kernel).unwrap_or_default();
    name.trim().to_owned()
}
