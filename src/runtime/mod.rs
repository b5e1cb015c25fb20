//! The wiring of the daemon, and the supervision of its tasks and of the scheduling loop.

mod arguments;
mod connect;
mod followed;
mod leader_election;
mod permissions;
mod planner;
mod role;
mod sender;
mod served_groups;
mod served_names;
mod served_versions;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use control::TraceIds;
use control::api_dispatcher::{ApiDispatcher, Limits};
use control::event_recorder::{self, EventRecorder};
use control::leader_election::Outcome;
use control::scheduler::{Fencing, Scheduler};
use engine::cycle::Form;
use engine::profile::Profiles;
use engine::{Engine, EngineConfig};
use framework::{Feed, Registry};
use tokio::runtime::Handle;
use tokio::signal::unix::Signal;
use tokio::sync::SetOnce;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::arguments::ArgumentsReader;
use self::connect::{report_outages, wait_for_api_server};
use self::leader_election::{LeaseWatch, new_election, warn_of_slow_extenders};
use self::permissions::PermissionCheck;
use self::planner::Planner;
use self::sender::Sender;
use self::served_names::ServedNames;
use self::served_versions::choose_versions;
use crate::api_client::{ApiClient, ConnectError, Credentials, ServerStatus};
use crate::clock::Clock;
use crate::config::Configuration;
use crate::debugger::CacheDebugger;
use crate::extender::{Extenders, LoopWait};
use crate::feed::FeedFactory;
use crate::informer::InformerFactory;
use crate::metrics::Metrics;
use crate::parallelizer::Threads;
use crate::recorder::{self, RecordedSetup, Recording, RecordingOptions};
use crate::scheduling_loop::{
    DRAIN_TIMEOUT, EventChannel, Heartbeat, LoopEvent, LoopParts, Observer, Relists, SchedulingLoop,
};
use crate::supervision::{TaskFailed, Tasks};
use crate::wire::{Decoder, WatchedKind, Whole, feeds, watched_kinds};

pub use self::arguments::ConfigurationFile;
pub use self::followed::{ChosenBy, Followed, OtherLevel};
pub(crate) use self::leader_election::identity;
pub use self::role::{Role, RoleParts, Watches, run_role};
pub(crate) use self::sender::within;
pub use self::served_groups::{GroupsServed, ServedGroups};

/// The configuration and the plugins of a scheduler, and its API server. `M` are further events of
/// its loop.
pub struct Setup<M = Infallible> {
    /// The level of the configuration, and what chose it.
    pub followed: Followed,
    /// Whether the API server serves PodGroups, if that decides about their pods.
    pub served_groups: ServedGroups,
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
    /// Which form of the plugins decides. All give the same decision.
    pub form: Form,
    /// Longest pause of preemption after preemptions that led to no binding; zero for no pauses.
    pub longest_preemption_pause: Duration,
    /// Which pods are fenced after a predecessor that may have crashed.
    pub fencing: Fencing,
    /// Time after which an unschedulable pod is retried even if no event concerns it.
    pub unschedulable_timeout: Duration,
    /// Metrics of requests and plugins.
    pub metrics: Arc<Metrics>,
    /// Receives the outcomes of requests to the API server.
    pub server_status: Arc<ServerStatus>,
    /// Receives the turns of the scheduling loop.
    pub heartbeat: Arc<Heartbeat>,
    /// The channel of events for the scheduling loop.
    pub channel: EventChannel<M>,
    /// The file of the configuration, if there is one.
    pub configuration_file: Option<ConfigurationFile>,
    /// The signal at which the cache debugger compares and dumps, if any.
    pub debug_signal: Option<Signal>,
    /// Where what enters and leaves the engine is recorded, if it is.
    pub recording: Option<RecordingOptions>,
    /// Which pods are traced, if any.
    pub trace_ids: Option<TraceIds>,
}

/// The sources of the objects that the scheduler reads.
struct Sources {
    /// Kinds to watch.
    kinds: Vec<(Decoder, WatchedKind)>,
    /// Feeds of plugins.
    feeds: Vec<(WatchedKind, Feed)>,
}

impl<M> Setup<M> {
    /// Returns the same setup for the loop of another role.
    pub fn with_channel<N>(self, channel: EventChannel<N>) -> Setup<N> {
        Setup {
            channel,
            followed: self.followed,
            served_groups: self.served_groups,
            config: self.config,
            registry: self.registry,
            credentials: self.credentials,
            request_rate: self.request_rate,
            adaptive_sampling: self.adaptive_sampling,
            form: self.form,
            longest_preemption_pause: self.longest_preemption_pause,
            fencing: self.fencing,
            unschedulable_timeout: self.unschedulable_timeout,
            metrics: self.metrics,
            server_status: self.server_status,
            heartbeat: self.heartbeat,
            configuration_file: self.configuration_file,
            debug_signal: self.debug_signal,
            recording: self.recording,
            trace_ids: self.trace_ids,
        }
    }

    fn connect(&self, component: &str) -> Result<ApiClient, ConnectError> {
        let (metrics, status) = (self.metrics.rest_client(), self.server_status.clone());
        ApiClient::new(&self.credentials, component, metrics, status)
    }

    /// Creates the engine and the lists of kinds to watch and of feeds. `whole` selects the objects
    /// that are kept as JSON.
    fn engine(&self, whole: Whole, seed: u64) -> anyhow::Result<(Engine, Sources)> {
        let config = self.config.clone().with_ignored_resources()?;
        let profiles = config.build_profiles(&self.registry)?;
        let unused = self.config.unused_plugin_config(&profiles, &self.registry);
        unused.iter().for_each(|warning| warn!("{warning}"));
        warn_of_silent_plugins(&profiles);
        self.metrics.set_profiles(&profiles);
        self.register_plugin_metrics(&profiles);
        let fields = profiles.extra_fields();
        let kinds = watched_kinds(&profiles);
        let decoder =
            |kind: &WatchedKind| Decoder::new(kind.resource.clone(), fields.clone()).keeping(whole);
        let kinds = kinds.into_iter().map(|kind| (decoder(&kind), kind)).collect();
        let sources = Sources { kinds, feeds: feeds(&profiles) };
        let mut queue = config.queue();
        queue.max_in_unschedulable = self.unschedulable_timeout;
        let engine = Engine::new(EngineConfig {
            seed,
            percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
            adaptive_sampling: self.adaptive_sampling,
            form: self.form,
            longest_preemption_pause: self.longest_preemption_pause,
            queue,
            extenders: config.engine_extenders(),
            parallelizer: Box::new(Threads::new(config.parallelism)),
            ..EngineConfig::new(profiles)
        });
        Ok((engine, sources))
    }

    fn limits(&self) -> Limits {
        let (qps, burst) = self.request_rate.unzip();
        Limits { qps, burst: burst.unwrap_or_default(), ..Limits::default() }
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

/// Names the plugins that switch rankings off because they do not say what their answers depend on.
fn warn_of_silent_plugins(profiles: &Profiles) {
    for profile in profiles.iter() {
        for plugin in profile.silent_plugins() {
            warn!(
                plugin = &*plugin,
                profile = &*profile.scheduler_name,
                "The plugin does not say what its verdicts or scores depend on, so the scheduler looks at every node \
                 for each pod of the profile; let it implement `dependence` (docs/plugins.md)"
            );
        }
    }
}

impl Setup {
    /// Creates the scheduler and the lists of kinds to watch and of feeds. `whole` selects the
    /// objects that are kept as JSON for extenders.
    fn scheduler(
        &self,
        whole: Whole,
        clock: Clock,
    ) -> anyhow::Result<(Scheduler, Sources, Option<Recording>)> {
        let seed = seed_of(clock);
        let (engine, sources) = self.engine(whole, seed)?;
        let recording = self.recording.as_ref();
        let recording = recording.and_then(|options| {
            let begun = recorder::begin(options, &self.recorded_setup(clock), seed, &self.metrics);
            Some((options, begun?))
        });
        let api_dispatcher = ApiDispatcher::new(self.limits(), seed);
        let event_recorder = EventRecorder::new(
            event_recorder::Options { trace_ids: self.trace_ids, ..recorder_options() },
            seed,
        );
        let mut scheduler = Scheduler::new(engine, api_dispatcher, event_recorder);
        let recording = recording.map(|(options, begun)| {
            scheduler.record(options.encoder());
            begun
        });
        scheduler.set_fencing(self.fencing);
        if let Some(election) = new_election(&self.config, seed)? {
            scheduler = scheduler.with_leader_election(election);
        }
        Ok((scheduler, sources, recording))
    }

    /// Returns what the decisions depend on beside what is recorded of the engine.
    fn recorded_setup(&self, clock: Clock) -> RecordedSetup {
        RecordedSetup {
            started: clock.now().to_string(),
            host: hostname(),
            configuration: RecordedSetup::recorded_configuration(&self.config),
            minor: self.followed.level.minor(),
            min_compatibility: Some(self.config.min_compatibility),
            feature_gates: self
                .recording
                .iter()
                .flat_map(|own| own.feature_gates.clone())
                .collect(),
            group_members_alone: self.config.plugin_gates.group_members_alone,
            adaptive_sampling: self.adaptive_sampling,
            rankings: self.form == Form::Ranked,
            longest_preemption_pause: self.longest_preemption_pause,
            unschedulable_timeout: self.unschedulable_timeout,
        }
    }
}

/// Returns a seed. Two schedulers should not have the same one.
fn seed_of(clock: Clock) -> u64 {
    clock.now().as_nanos().unsigned_abs()
}

/// Time for which events wait to be written together. No person notices it.
const GATHER_TIME: Duration = Duration::from_millis(50);

fn recorder_options() -> event_recorder::Options {
    let (hostname, gather_time) = (hostname(), GATHER_TIME);
    event_recorder::Options { hostname, gather_time, ..event_recorder::Options::default() }
}

/// Runs a scheduler until `stop` is cancelled, then waits for its requests in flight and releases
/// its lease.
///
/// # Errors
/// The configuration is invalid, the server is too old or does not accept the credentials, the
/// lease was lost, a task or the scheduling loop panicked, or the loop did not end in time. The
/// loop may then still run.
pub async fn run_scheduler(
    setup: Setup,
    observer: impl Observer + Send + 'static,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let clock = Clock::start();
    let metrics = setup.metrics.clone();
    let (runtime, heartbeat) = (Handle::current(), setup.heartbeat.clone());
    let loop_events = setup.channel.0.clone();
    let wait = LoopWait { runtime, heartbeat, stop: stop.clone(), events: loop_events };
    let extenders = Extenders::new(&setup.config, wait, clock, metrics.clone())
        .context("couldn't build extenders")?;
    let (scheduler, mut sources, recording) = setup.scheduler(extenders.needs(), clock)?;
    let (recorder, writer) = recording.unzip();
    let writing = writer.map(|writer| tokio::task::spawn_blocking(|| writer.run()));
    // Several connections, so that lists, watches and events do not delay writes, nor these the
    // lease.
    let (read_client, write_client) = (setup.connect("scheduler")?, setup.connect("scheduler")?);
    let (lease_client, event_client) =
        (setup.connect("leader-election")?, setup.connect("scheduler")?);
    let server = setup.credentials.server();
    let mut tasks = Tasks::default();
    let outages = report_outages(write_client.clone(), setup.server_status.clone());
    tasks.spawn("the report of outages", outages);
    tokio::select! {
        connected = wait_for_api_server(&read_client, &server, &setup.followed) => connected?,
        failed = tasks.failure() => return Err(failed.into()),
        () = stop.cancelled() => return Ok(()),
    }
    setup.served_groups.ask_again(&read_client, &server, &setup.followed).await?;
    choose_versions(&read_client, &mut sources.kinds, setup.followed.level).await;
    let (status, profiles) = (setup.server_status.clone(), scheduler.engine().profiles());
    let permissions = PermissionCheck::new(write_client.clone(), status, profiles);
    tasks.spawn("the check of permissions", permissions.run());
    let (events, received) = setup.channel;
    let (requests, requested) = mpsc::unbounded_channel();
    let (plans, wanted) = mpsc::unbounded_channel();
    let planner = Planner::new(&setup.config, &setup.registry, events.clone());
    tasks.spawn("the planner of moves", planner.run(wanted));
    let leading = Arc::new(SetOnce::new());
    let informers = sources.kinds.len();
    let relists = Relists::new(informers);
    let (debug_client, debug_metrics) = (read_client.clone(), metrics.clone());
    let names = ServedNames::of(&setup.config);
    tasks.spawn("the announcement of the served names", names.announce(write_client.clone()));
    let names = setup.config.profiles.iter().map(|profile| profile.scheduler_name.clone());
    let debugger = CacheDebugger::new(debug_client, events.clone(), debug_metrics, names.collect());
    tasks.spawn("the cache debugger", debugger.run(setup.debug_signal));
    let arguments = ArgumentsReader::new(&setup.config, &sources.feeds, events.clone());
    tasks.spawn("the reader of arguments", arguments.run(setup.configuration_file));
    if let Some(elector) = scheduler.leader_elector() {
        warn_of_slow_extenders(&extenders, elector.config());
        let watch = LeaseWatch::new(lease_client.clone(), elector, events.clone());
        tasks.spawn("the watch of the lease", watch.run(leading.clone()));
    }
    let factory = InformerFactory {
        client: read_client,
        accept: setup.config.accept().into(),
        events: events.clone(),
        clock,
        metrics,
        status: setup.server_status,
        relists: relists.subscribe(),
    };
    let starts = if scheduler.delays_cache() { leading.clone() } else { already() };
    watch(factory, sources, &starts, &mut tasks);
    let (client, extenders_of_binds) = (write_client, extenders.all());
    let sender =
        Sender { client, lease_client, event_client, extenders: extenders_of_binds, clock };
    tasks.spawn("the sender of requests", sender.run(requested, events.clone()));
    let heartbeat = setup.heartbeat;
    let beating = heartbeat.clone();
    tasks.spawn("the watch of the scheduling loop", async move { beating.watch().await });
    let mut scheduling = spawn_scheduling(LoopParts {
        scheduler,
        extenders,
        events: received,
        requests,
        plans,
        clock,
        observer,
        informers,
        leading,
        heartbeat: heartbeat.clone(),
        relists,
        recorder,
    });
    let stop_loop = || events.send(LoopEvent::Stop);
    let outcome = until_ended(&mut scheduling, stop, stop_loop, &mut tasks, &heartbeat).await;
    if let Some(writing) = writing.filter(|_| scheduling.is_finished()) {
        // The loop has handed over the last operations. A disk that hangs does not keep the
        // process.
        let _ = tokio::time::timeout(LAST_WRITE, writing).await;
    }
    outcome
}

/// Time that the recording gets to be complete after the end of the scheduling loop.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// Waits until the loop ends, and stops it when `stop` is set.
///
/// # Errors
/// The loop or another task has ended although it was not stopped, or the loop does not end.
async fn until_ended(
    running: &mut JoinHandle<Outcome>,
    stop: &CancellationToken,
    stop_loop: impl FnOnce(),
    tasks: &mut Tasks,
    heartbeat: &Heartbeat,
) -> anyhow::Result<()> {
    let ending = async {
        tokio::select! {
            ended = &mut *running => return Ok(ended),
            () = stop.cancelled() => stop_loop(),
        }
        tokio::time::timeout(STOP_TIMEOUT, running).await
    };
    let ended = tokio::select! {
        ended = ending => ended.map_err(|_| does_not_end(heartbeat))?,
        failed = tasks.failure() => return Err(failed.into()),
    };
    match ended.map_err(|error| TaskFailed::joined("the scheduling loop", error))? {
        _ if stop.is_cancelled() => Ok(()),
        Outcome::Lost => bail!("Leaderelection lost"),
        Outcome::Stopped => bail!("the scheduling loop has ended although it was not stopped"),
    }
}

/// Time after SIGTERM within which the scheduling loop ends. The usual grace period of a pod is 30
/// seconds.
const STOP_TIMEOUT: Duration = DRAIN_TIMEOUT.saturating_add(Duration::from_secs(5));

/// Returns the error for a scheduling loop that is stuck when it has to stop.
fn does_not_end(heartbeat: &Heartbeat) -> anyhow::Error {
    let (seconds, culprit) = (STOP_TIMEOUT.as_secs(), heartbeat.culprit());
    anyhow!("the scheduling loop has not ended {seconds} s after it was stopped: {culprit}")
}

fn spawn_scheduling(parts: LoopParts<impl Observer + Send + 'static>) -> JoinHandle<Outcome> {
    tokio::task::spawn_blocking(|| SchedulingLoop::new(parts).run())
}

/// Spawns the watches of all kinds and the feeds of plugins. They begin when `starts` is set.
fn watch<M: Send + 'static>(
    factory: InformerFactory<M>,
    sources: Sources,
    starts: &Arc<SetOnce<()>>,
    tasks: &mut Tasks,
) {
    let InformerFactory { client, events, clock, metrics, status, .. } = factory.clone();
    let feeds = FeedFactory { client, events, metrics, status };
    let seeds = clock.now().as_nanos().unsigned_abs()..;
    for (seed, (decoder, kind)) in seeds.zip(sources.kinds) {
        let name = format!("the watch of {}", kind.name);
        let watching = factory.informer(kind, decoder, seed).run();
        tasks.spawn(name, after(starts.clone(), watching));
    }
    for (kind, feed) in sources.feeds {
        let name = format!("the feed of {}", kind.name);
        tasks.spawn(name, after(starts.clone(), feeds.clone().run(kind, feed)));
    }
}

async fn after<T>(starts: Arc<SetOnce<()>>, task: impl Future<Output = T>) -> T {
    starts.wait().await;
    task.await
}

fn already() -> Arc<SetOnce<()>> {
    Arc::new(SetOnce::new_with(Some(())))
}

/// Returns the hostname. In a pod it is the name of the pod.
fn hostname() -> String {
    let from_kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = std::env::var("HOSTNAME").ok().or_else(from_kernel).unwrap_or_default();
    name.trim().to_owned()
}
