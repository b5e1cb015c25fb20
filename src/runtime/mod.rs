//! The wiring of the daemon. Tasks and threads are only spawned here.

mod connect;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use client::api_dispatcher::{ApiDispatcher, Limits};
use client::event_recorder::{self, EventRecorder};
use client::scheduler::Scheduler;
use client::{Destination, Reply, Request};
use engine::profile::Profiles;
use engine::{Engine, EngineConfig};
use framework::{Feed, Registry};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::connect::{report_outages, wait_for_api_server};
use crate::api_client::{ApiClient, ConnectError, Credentials, ServerStatus};
use crate::clock::Clock;
use crate::config::Configuration;
use crate::extender::{Extenders, HttpExtender};
use crate::feed::FeedFactory;
use crate::informer::InformerFactory;
use crate::metrics::Metrics;
use crate::scheduling_loop::{
    EventChannel, EventSender, LoopEvent, LoopParts, Observer, OutgoingRequest, SchedulingLoop,
};
use crate::wire::{Decoder, WatchedKind, Whole, feeds, watched_kinds};

/// The configuration and the plugins of a scheduler, and its API server.
pub struct Setup {
    /// Configuration with defaults applied.
    pub config: Configuration,
    /// Available plugins.
    pub registry: Registry,
    /// Address of the API server and credentials.
    pub credentials: Credentials,
    /// Maximum rate of requests per second and burst; `None` leaves the rate to the API server.
    pub request_rate: Option<(f32, u32)>,
    /// Whether `percentageOfNodesToScore: 0` selects the adaptive percentage of kube-scheduler.
    pub adaptive_sampling: bool,
    /// Time after which an unschedulable pod is retried even if no event concerns it.
    pub unschedulable_timeout: Duration,
    /// Metrics of requests and plugins.
    pub metrics: Arc<Metrics>,
    /// Receives the outcomes of requests to the API server.
    pub server_status: Arc<ServerStatus>,
    /// The channel of events for the scheduling loop.
    pub channel: EventChannel,
}

/// The sources of the objects that the scheduler reads.
struct Sources {
    /// Kinds to watch.
    kinds: Vec<(Decoder, WatchedKind)>,
    /// Feeds of plugins.
    feeds: Vec<(WatchedKind, Feed)>,
}

impl Setup {
    fn connect(&self) -> Result<ApiClient, ConnectError> {
        ApiClient::new(&self.credentials, self.metrics.rest_client(), self.server_status.clone())
    }

    /// Creates the scheduler and the lists of kinds to watch and of feeds. `whole` selects the objects
    /// that are kept as JSON for extenders.
    fn scheduler(&self, whole: Whole, clock: Clock) -> anyhow::Result<(Scheduler, Sources)> {
        let config = self.config.clone().with_ignored_resources()?;
        let profiles = config.build_profiles(&self.registry)?;
        self.register_plugin_metrics(&profiles);
        let fields = profiles.extra_fields();
        let kinds = watched_kinds(&profiles);
        let decoder =
            |kind: &WatchedKind| Decoder::new(kind.resource.clone(), fields.clone()).keeping(whole);
        let kinds = kinds.into_iter().map(|kind| (decoder(&kind), kind)).collect();
        let sources = Sources { kinds, feeds: feeds(&profiles) };
        // Two schedulers should not have the same seed.
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
        let api_dispatcher = ApiDispatcher::new(limits, seed);
        let options =
            event_recorder::Options { hostname: hostname(), ..event_recorder::Options::default() };
        let event_recorder = EventRecorder::new(options, seed);
        Ok((Scheduler::new(engine, api_dispatcher, event_recorder), sources))
    }

    fn register_plugin_metrics(&self, profiles: &Profiles) {
        let metrics = profiles.iter().flat_map(|profile| {
            let plugins = profile.plugins.values().flat_map(|plugin| &plugin.metrics);
            plugins.map(|metric| (profile.scheduler_name.to_string(), metric.clone()))
        });
        for error in self.metrics.set_plugin_metrics(metrics) {
            warn!("{error}");
        }
    }
}

/// Runs a scheduler until `stop` is cancelled, then waits for its requests in flight.
///
/// # Errors
/// The configuration is invalid, the server is too old or does not accept the credentials, or the
/// scheduling loop panicked.
pub async fn run_scheduler(
    setup: Setup,
    observer: impl Observer + Send + 'static,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let clock = Clock::start();
    let metrics = setup.metrics.clone();
    let extenders = Extenders::new(&setup.config, Handle::current(), clock, metrics.clone())
        .context("couldn't build extenders")?;
    let (scheduler, sources) = setup.scheduler(extenders.needs(), clock)?;
    // Two connections, so that lists and watches do not delay writes.
    let (read_client, write_client) = (setup.connect()?, setup.connect()?);
    let server = setup.credentials.server();
    let mut tasks = JoinSet::new();
    tasks.spawn(report_outages(write_client.clone(), setup.server_status.clone()));
    tokio::select! {
        connected = wait_for_api_server(&read_client, &server) => connected?,
        () = stop.cancelled() => return Ok(()),
    }
    let (sender, events) = setup.channel;
    let (request_sender, requests) = mpsc::unbounded_channel();
    let informers = sources.kinds.len();
    let feeds = FeedFactory {
        client: read_client.clone(),
        events: sender.clone(),
        metrics: metrics.clone(),
    };
    let factory = InformerFactory {
        client: read_client,
        events: sender.clone(),
        clock,
        metrics,
        status: setup.server_status,
    };
    for (seed, (decoder, kind)) in (clock.now().as_nanos().unsigned_abs()..).zip(sources.kinds) {
        tasks.spawn(factory.informer(kind, decoder, seed).run());
    }
    for (kind, feed) in sources.feeds {
        tasks.spawn(feeds.clone().run(kind, feed));
    }
    tasks.spawn(send_requests(write_client, extenders.all(), requests, sender.clone()));
    let requests = request_sender;
    let parts = LoopParts { scheduler, extenders, events, requests, clock, observer, informers };
    let mut scheduling = tokio::task::spawn_blocking(|| SchedulingLoop::new(parts).run());
    let ended = tokio::select! {
        ended = &mut scheduling => ended,
        () = stop.cancelled() => {
            sender.send(LoopEvent::Stop);
            scheduling.await
        }
    };
    ended.context("the scheduling loop panicked").map(drop)
}

/// Sends each request in a task of its own and passes the reply to the scheduling loop.
async fn send_requests(
    client: ApiClient,
    extenders: Arc<[HttpExtender]>,
    mut requests: UnboundedReceiver<OutgoingRequest>,
    events: EventSender,
) {
    while let Some(OutgoingRequest { source, request }) = requests.recv().await {
        let (client, extenders, events) = (client.clone(), extenders.clone(), events.clone());
        tokio::spawn(async move {
            let id = request.id;
            let reply = send(&client, &extenders, request).await;
            events.send(LoopEvent::Reply(source, id, reply));
        });
    }
}

async fn send(client: &ApiClient, extenders: &[HttpExtender], request: Request) -> Reply {
    match request.destination {
        Destination::ApiServer => client.send(request).await,
        Destination::Extender(index) => extenders[index].bind(request.body).await,
    }
}

/// Returns the hostname. In a pod it is the name of the pod.
fn hostname() -> String {
    let from_kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = std::env::var("HOSTNAME").ok().or_else(from_kernel).unwrap_or_default();
    name.trim().to_owned()
}
