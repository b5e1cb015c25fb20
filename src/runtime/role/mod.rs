//! The wiring of a role other than the scheduler of one cluster.

mod effects;
mod role_loop;

use std::sync::Arc;

use anyhow::bail;
use engine::Engine;
use tokio::runtime::Handle;
use tokio::sync::SetOnce;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::role_loop::Role;

use self::effects::Effects;
use self::role_loop::RoleLoop;
use super::connect::{report_outages, wait_for_api_server};
use super::leader_election::{LeaseWatch, new_election};
use super::sender::Sender;
use super::served_versions::choose_versions;
use super::{Setup, already, recorder_options, seed_of, until_ended, watch};
use crate::api_client::ApiClient;
use crate::clock::Clock;
use crate::informer::InformerFactory;
use crate::observer::MetricsObserver;
use crate::scheduling_loop::{ElectionLog, EventSender, FailureLog, Heartbeat, LoopEvent, Relists};
use crate::supervision::{Spawner, Tasks};
use crate::wire::{WatchedKind, Whole};

/// The parts with which a role begins.
pub struct RoleParts<M> {
    /// The engine, which knows no object.
    pub engine: Engine,
    /// A connection to the API server, for the writes of the role.
    pub client: ApiClient,
    /// The channel to the loop of the role.
    pub events: EventSender<M>,
    /// The clock of the process.
    pub clock: Clock,
    /// A seed, another one in each process.
    pub seed: u64,
    /// The runtime for requests.
    pub runtime: Handle,
    /// Spawns the tasks without which the role does not work.
    pub tasks: Spawner,
    /// The namespace of the Lease of leader election, and of other Leases.
    pub lease_namespace: Arc<str>,
    /// Notices when a loop of the role makes no turn.
    pub heartbeat: Arc<Heartbeat>,
}

/// The kinds that a role watches.
pub struct Watches {
    /// The objects that it needs as JSON.
    pub whole: Whole,
    /// Returns the kind as this role watches it; `None` if it does not.
    pub kinds: Box<dyn Fn(WatchedKind) -> Option<WatchedKind> + Send>,
}

/// Runs a role until `stop` is cancelled, then waits for its requests in flight and releases its
/// Lease. `start` creates it when the API server has answered.
///
/// # Errors
/// The configuration is invalid or has extenders, the server is too old or does not accept the
/// credentials, the Lease was lost, a task or the loop panicked, or the loop did not end in time.
pub async fn run_role<R, F>(
    setup: Setup<R::Event>,
    watches: Watches,
    start: impl FnOnce(RoleParts<R::Event>) -> F,
    observer: MetricsObserver,
    stop: &CancellationToken,
) -> anyhow::Result<()>
where
    R: Role,
    F: Future<Output = anyhow::Result<R>>,
{
    if setup.config.extenders_in_order().next().is_some() {
        bail!("extenders are not supported in this role");
    }
    let clock = Clock::start();
    let seed = seed_of(clock);
    let (engine, mut sources) = setup.engine(watches.whole, seed)?;
    let watched = sources.kinds.into_iter();
    sources.kinds =
        watched.filter_map(|(decoder, kind)| Some((decoder, (watches.kinds)(kind)?))).collect();
    let (read_client, write_client) = (setup.connect("scheduler")?, setup.connect("scheduler")?);
    let (lease_client, event_client) =
        (setup.connect("leader-election")?, setup.connect("scheduler")?);
    let (server, limits) = (setup.credentials.server(), setup.limits());
    let mut tasks = Tasks::default();
    let outages = report_outages(write_client.clone(), setup.server_status.clone());
    tasks.spawn("the report of outages", outages);
    tokio::select! {
        connected = wait_for_api_server(&read_client, &server, &setup.followed) => connected?,
        failed = tasks.failure() => return Err(failed.into()),
        () = stop.cancelled() => return Ok(()),
    }
    choose_versions(&read_client, &mut sources.kinds, setup.followed.level).await;
    let (events, received) = setup.channel;
    let parts = RoleParts {
        engine,
        client: write_client.clone(),
        events: events.clone(),
        clock,
        seed,
        runtime: Handle::current(),
        tasks: tasks.spawner(),
        lease_namespace: setup.config.leader_election.resource_namespace.as_str().into(),
        heartbeat: setup.heartbeat.clone(),
    };
    let role = tokio::select! {
        role = start(parts) => role?,
        () = stop.cancelled() => return Ok(()),
    };
    let elector = new_election(&setup.config, seed)?.map(|election| election.elector);
    let leading = Arc::new(SetOnce::new());
    if let Some(elector) = &elector {
        let watch = LeaseWatch::new(lease_client.clone(), elector, events.clone());
        tasks.spawn("the watch of the lease", watch.run(leading.clone()));
    }
    let informers = sources.kinds.len();
    let relists = Relists::new(informers);
    let factory = InformerFactory {
        client: read_client,
        accept: setup.config.accept().into(),
        events: events.clone(),
        clock,
        metrics: setup.metrics.clone(),
        status: setup.server_status.clone(),
        relists: relists.subscribe(),
    };
    // Lists that begin after the end of the predecessor in the election contain its writes.
    let starts = if elector.is_some() { leading.clone() } else { already() };
    watch(factory, sources, &starts, &mut tasks);
    let (requests, requested) = mpsc::unbounded_channel();
    let extenders = Arc::from([]);
    let sender = Sender { client: write_client, lease_client, event_client, extenders, clock };
    tasks.spawn("the sender of requests", sender.run(requested, events.clone()));
    let heartbeat = setup.heartbeat;
    let beating = heartbeat.clone();
    tasks.spawn("the watch of the loop", async move { beating.watch().await });
    let role_loop = RoleLoop {
        role,
        effects: Effects::new(limits, recorder_options(), seed),
        election_log: ElectionLog::new(elector.as_ref()),
        failure_log: FailureLog::default(),
        elector,
        observer,
        last_observed: clock.now(),
        events: received,
        requests,
        clock,
        unsynced_informers: informers,
        leading,
        heartbeat: heartbeat.clone(),
        drain_deadline: None,
    };
    let mut running = tokio::task::spawn_blocking(|| role_loop.run());
    let stop_loop = || events.send(LoopEvent::Stop);
    until_ended(&mut running, stop, stop_loop, &mut tasks, &heartbeat).await
}
