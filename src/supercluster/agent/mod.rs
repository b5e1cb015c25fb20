//! `loadmaster agent`: samples, commits and delegates of a member cluster.
//!
//! ```text
//!   API server ──▶ informers ──▶ loop: supercluster::agent::Agent ──▶ writes of delegates, binds
//!   schedulers ──▶ HTTPS API (`api`) ──▶│        └──▶ answers
//!                        └──▶ table of delegates (`delegates`) ◀── informers, watch of events (`events`)
//! ```

mod api;
mod copies;
mod delegates;
mod events;
mod pipelines;
mod references;
mod writes;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use anyhow::bail;
use axum::Router;
use engine::ports::Ports;
use engine::{Change, Effect, EffectId, Engine};
use framework::{Answer, Time};
use supercluster::agent::{Agent, AgentConfig, AgentOutput, CallId, WriteAnswer, WriteId};
use supercluster::delegate::{DELEGATE, DelegateMark};
use supercluster::message::{Request, Response};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{info, trace, warn};

pub use self::pipelines::AgentPipelines;

use self::api::Api;
use self::delegates::Delegates;
use self::references::References;
use self::writes::Writes;
use super::cluster_id::cluster_id;
use super::leases::KeptLeases;
use super::watched;
use crate::observer::MetricsObserver;
use crate::runtime::{Role, RoleParts, Setup, Watches, identity, run_role};
use crate::scheduling_loop::EventSender;
use crate::wire::{Update, WatchedKind, Whole};

/// The scheduler name of delegates, unless a configuration file has another one.
pub const PROFILE: &str = "loadmaster-agent";
/// Name of the Lease of the agent, unless a configuration file has another one.
pub const LEASE: &str = "loadmaster-agent";

/// An event for the loop of the agent.
#[derive(Debug)]
pub enum AgentEvent {
    /// A request of a scheduler, and where the answer goes.
    Call(Request, oneshot::Sender<Response>),
    /// The answer to a write or read of a delegate.
    Written(WriteId, WriteAnswer),
}

/// The parts of the API of an agent that exist once the agent has started.
struct Started {
    cluster: Arc<str>,
    incarnation: Arc<str>,
    strategies: Vec<Arc<str>>,
    writes: Writes,
    references: References,
}

/// The data that the API shares with the loop.
#[derive(Default)]
struct Shared {
    started: OnceLock<Started>,
    /// Set when the agent answers.
    synced: OnceLock<()>,
    delegates: Delegates,
}

/// An agent that does not run yet.
pub struct AgentShell {
    shared: Arc<Shared>,
    pipelines: AgentPipelines,
}

impl AgentShell {
    /// Makes an agent with these pipelines.
    pub fn new(pipelines: AgentPipelines) -> Self {
        Self { shared: Arc::default(), pipelines }
    }

    /// Returns the routes of its API. They answer with status 503 until it has started.
    pub fn routes(&self, events: EventSender<AgentEvent>) -> Router {
        api::routes(Api::new(events, self.shared.clone()))
    }

    /// Runs the agent until `stop` is cancelled.
    ///
    /// # Errors
    /// As [`run_role`]; also if the ID of the cluster cannot be read.
    pub async fn run(
        self,
        setup: Setup<AgentEvent>,
        observer: MetricsObserver,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let Some(profile) = setup.config.profiles.first() else { bail!("there is no profile") };
        let profile: Arc<str> = profile.scheduler_name.as_str().into();
        let whole = Whole { labelled: Some(DELEGATE), as_sent: true, ..Whole::NONE };
        let watches = Watches { whole, kinds: Box::new(watched) };
        let start = |parts| AgentRole::start(self.shared, profile, self.pipelines, parts);
        run_role(setup, watches, start, observer, stop).await
    }
}

/// Pods that have ended are watched, too: schedulers mirror how they ended.
fn watched(kind: WatchedKind) -> Option<WatchedKind> {
    Some(WatchedKind { field_selector: None, ..kind })
}

/// The agent with its connections.
struct AgentRole {
    agent: Agent,
    shared: Arc<Shared>,
    writes: Writes,
    /// Where the answers to requests go.
    replies: BTreeMap<CallId, oneshot::Sender<Response>>,
    next_call: u64,
}

impl AgentRole {
    async fn start(
        shared: Arc<Shared>,
        profile: Arc<str>,
        pipelines: AgentPipelines,
        parts: RoleParts<AgentEvent>,
    ) -> anyhow::Result<Self> {
        let RoleParts {
            engine, client, events, clock, seed, runtime, tasks, lease_namespace, ..
        } = parts;
        let cluster = cluster_id(&client).await?;
        let leases = KeptLeases { client: client.clone(), namespace: lease_namespace };
        // Without the permission for it, the agent agrees to no lease.
        let renewed = match leases.read(clock.now(), clock.wall_offset()).await {
            Ok(renewed) => renewed,
            Err(err) => {
                warn!(
                    err,
                    "Cannot read when leases were renewed; no pod that may be replaced is accepted"
                );
                BTreeMap::new()
            }
        };
        let incarnation: Arc<str> = identity()?.into();
        info!(cluster = &*cluster, incarnation = &*incarnation, "Starting the agent");
        let AgentPipelines { strategies, checks, copies, .. } = pipelines;
        let copied = Arc::new(copies);
        let config = AgentConfig {
            seed,
            renewed,
            strategies,
            checks,
            ..AgentConfig::new(&cluster, &incarnation, &profile)
        };
        let agent = Agent::new(config, engine);
        let writes =
            Writes { client, events, clock, runtime, profile, leases, copied: copied.clone() };
        let strategies = agent.strategies().cloned().collect();
        let references = References::new(writes.client.clone(), copied);
        let started =
            Started { cluster, incarnation, strategies, writes: writes.clone(), references };
        if shared.started.set(started).is_err() {
            bail!("the agent has started already");
        }
        let following = events::follow(writes.client.clone(), shared.clone());
        tasks.spawn("the watch of events", following);
        let replies = BTreeMap::new();
        Ok(Self { agent, shared, writes, replies, next_call: 0 })
    }

    /// Applies a pod with its mark, if it is a delegate.
    fn delegate_of(&self, update: &Update) -> Option<DelegateMark> {
        let pod = match &update.change {
            Change::Pod(pod) => pod,
            Change::PodDeleted { uid, .. } => {
                self.shared.delegates.remove(uid);
                return None;
            }
            _ => return None,
        };
        let (mark, status) = watched::delegate(update.object.as_ref()?)?;
        self.shared.delegates.set(&pod.uid, watched::listed(pod, &mark, status));
        Some(mark)
    }
}

impl Role for AgentRole {
    type Event = AgentEvent;

    fn engine(&self) -> &Engine {
        self.agent.engine()
    }

    fn update(&mut self, update: Update, now: Time, ports: &mut Ports<'_>) {
        let mark = self.delegate_of(&update);
        self.agent.apply(update.change, mark.as_ref(), now, ports);
    }

    fn synced(&mut self, _: Time, _: &mut Ports<'_>) {
        self.agent.set_synced();
        let _ = self.shared.synced.set(());
    }

    fn event(&mut self, event: AgentEvent, now: Time, ports: &mut Ports<'_>) {
        match event {
            // The caller has given up. A commit is not begun then either: it will be asked for, and
            // sealed.
            AgentEvent::Call(_, reply) if reply.is_closed() => {}
            AgentEvent::Call(request, reply) => {
                self.next_call += 1;
                let call = CallId(self.next_call);
                self.replies.insert(call, reply);
                self.agent.call(call, &request, now, ports);
            }
            AgentEvent::Written(id, answer) => self.agent.write_answered(id, answer, now, ports),
        }
    }

    fn effect_answered(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        self.agent.effect_answered(effect, answer, now, ports);
    }

    fn tick(&mut self, now: Time, ports: &mut Ports<'_>) {
        self.agent.tick(now, ports);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.agent.next_deadline()
    }

    fn carry_out(&mut self, not_after: Option<Time>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for output in self.agent.take_outputs() {
            match output {
                AgentOutput::Reply(call, response) => {
                    if let Some(reply) = self.replies.remove(&call) {
                        trace!(call = call.0, ?response, "Answered");
                        // The caller may have given up.
                        let _ = reply.send(response);
                    }
                }
                AgentOutput::Effect(effect) => effects.push(effect),
                AgentOutput::Create { id, pod, mark } => {
                    self.writes.create(id, &pod, &mark, not_after);
                }
                AgentOutput::Read { id, pod } => self.writes.read(id, &pod, not_after),
                AgentOutput::Copy { delegate, request } => self.writes.copy(&delegate, request),
                AgentOutput::Delete { id, pod, uid, resource_version } => {
                    self.writes.delete(id, &pod, &uid, resource_version, not_after);
                }
                AgentOutput::Fence { id, pod, uid } => {
                    warn!(%pod, "Deleting a delegate whose lease was not renewed");
                    self.writes.fence(id, &pod, &uid, not_after);
                }
                AgentOutput::KeepLeases { id, renewed } => self.writes.keep_leases(id, renewed),
            }
        }
        effects
    }
}
