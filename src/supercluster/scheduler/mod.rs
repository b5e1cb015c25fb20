//! `loadmaster run --clusters`: the scheduler over many clusters.
//!
//! ```text
//!   management API server ──▶ informer of pods ──▶ loop: supercluster::scheduler::Scheduler
//!            ▲                                        │             │
//!            ├── intents, placements, conditions ◀────┘             ▼ samples, commits, seals
//!            └── status, finalizers ◀── mirror ◀── delegates ── agents of the members
//! ```

mod agents;
mod clusters;
mod copies;
mod explain;
mod members;
mod mirror;
mod originals;
mod outbox;
mod profiles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::anyhow;
use engine::ports::Ports;
use engine::{Change, Effect, EffectId, Engine};
use framework::{Answer, EventResource, PodKey, Time, Uid};
use supercluster::message::{
    CommitOutcome, CommitRequest, Committed, Request, Response, SampleRequest,
};
use supercluster::scheduler::{
    CallId, Cluster, ClusterIx, LeaseAnswer, LeaseOperation, Scheduler, SchedulerOutput,
    WriteAnswer, WriteId,
};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{debug, trace, warn};

pub use self::clusters::ClustersFile;
pub use self::explain::Explained;

use self::agents::Agents;
use self::copies::Copies;
use self::members::MemberList;
use self::mirror::Mirror;
use self::originals::Originals;
use self::outbox::{Outbox, Parcel};
use super::cluster_id::cluster_id;
use super::leases::MemberLeases;
use super::{requests, watched};
use crate::clock::Clock;
use crate::http::ExplainPod;
use crate::metrics::MemberMetrics;
use crate::observer::MetricsObserver;
use crate::runtime::{Role, RoleParts, Setup, Watches, identity, run_role};
use crate::scheduling_loop::{EventSender, LoopEvent};
use crate::supervision::catch_panic;
use crate::wire::{Update, WatchedKind, Whole};

/// The scheduler name of the pods, unless a configuration file has another one.
pub const PROFILE: &str = "supercluster";
/// Name of the Lease, unless a configuration file has another one.
pub const LEASE: &str = "loadmaster-supercluster";

/// An event for the loop of the scheduler.
#[derive(Debug)]
pub enum SchedulerEvent {
    /// The answer of an agent, or an error if there is none.
    Called(CallId, Result<Response, String>),
    /// The answer to a write of an original pod.
    Written(WriteId, WriteAnswer),
    /// The answer to a read or write of a Lease.
    Leased(WriteId, LeaseAnswer),
    /// The delegate of a pod that may be replaced is gone; UIDs of the pod and the delegate.
    DelegateGone(Uid, Arc<str>),
    /// A deleted pod waits for its delegate in this cluster, which is gone when the lease was not
    /// renewed for this time.
    AwaitEnd(Arc<str>, Uid, Duration),
    /// A question about a pod, and where the answer goes.
    Explain(PodKey, oneshot::Sender<Explained>),
    /// The state of a member; `None` if it is not a member any more.
    Member(ClusterIx, Option<Cluster>),
}

/// A scheduler that does not run yet.
#[derive(Default)]
pub struct SchedulerShell {
    agents: Arc<OnceLock<Agents>>,
}

impl SchedulerShell {
    /// Returns what answers questions about pods once it runs.
    pub fn explainer(&self, events: EventSender<SchedulerEvent>) -> ExplainPod {
        explain::explainer(events, self.agents.clone())
    }

    /// Runs the scheduler over the clusters of a file until `stop` is cancelled.
    ///
    /// # Errors
    /// As [`run_role`]; also if the credentials for an agent cannot be read.
    pub async fn run(
        self,
        setup: Setup<SchedulerEvent>,
        file: ClustersFile,
        observer: MetricsObserver,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        run(setup, file, self.agents, observer, stop).await
    }
}

async fn run(
    setup: Setup<SchedulerEvent>,
    file: ClustersFile,
    known_agents: Arc<OnceLock<Agents>>,
    observer: MetricsObserver,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let names = setup.config.profiles.iter().map(|profile| profile.scheduler_name.as_str().into());
    let names: BTreeSet<Arc<str>> = names.collect();
    let metrics = setup.metrics.clone();
    // A field selector selects one name.
    let selected = names.first().filter(|_| names.len() == 1);
    let selector = selected.map(|name| format!("spec.schedulerName={name}"));
    let whole = Whole { pending_pods: true, as_sent: true, ..Whole::NONE };
    let kinds = Box::new(move |kind| watched(kind, selector.clone()));
    let watches = Watches { whole, kinds };
    let start = async |parts: RoleParts<SchedulerEvent>| {
        let name = names.first().cloned().unwrap_or_default();
        let seed = parts.seed;
        let RoleParts {
            engine,
            client,
            events,
            clock,
            runtime,
            tasks,
            lease_namespace,
            heartbeat,
            ..
        } = parts;
        let timeout = file.sample_timeout();
        let mut list = MemberList::new(file.clone(), timeout, metrics);
        let (members, profiles) = list.first(&client, &tasks).await?;
        let agents = list.agents();
        let _ = known_agents.set(agents.clone());
        let mut config = file.config(&name, &members, seed).map_err(|error| anyhow!(error))?;
        let origin = cluster_id(&client).await?;
        config.origin = Some(origin);
        let policy = file.copies.clone();
        let copies = policy.map(|policy| Arc::new(Copies::new(policy, client.clone())));
        let (namespace, holder) = (lease_namespace, identity()?.into());
        let leases = MemberLeases { client: client.clone(), namespace, holder };
        let originals =
            Originals { client, events: events.clone(), clock, runtime: runtime.clone() };
        let mirror = Mirror::new(&config, agents.clone(), originals.clone(), tasks.clone());
        let mirror = Arc::new(mirror);
        let turns = heartbeat.of_loop("the mirror of pods");
        tasks.spawn("the mirror of pods", mirror.clone().run(turns));
        for member in 0..agents.len() {
            mirror.add(member, 0);
        }
        if let Some(profiles) = profiles {
            tasks.spawn("the list of members", list.run(profiles, mirror.clone(), events.clone()));
        }
        let scheduler = Scheduler::new(config, engine);
        let (departed, outbox) = (BTreeMap::new(), Outbox::default());
        Ok(SchedulerRole {
            scheduler,
            names,
            agents,
            originals,
            leases,
            copies,
            mirror,
            events,
            clock,
            runtime,
            departed,
            outbox,
        })
    };
    run_role(setup, watches, start, observer, stop).await
}

/// Of the kinds of a scheduler only pods are watched, ended pods included: their delegates are
/// deleted with them.
fn watched(kind: WatchedKind, selector: Option<String>) -> Option<WatchedKind> {
    let is_pod = kind.resource == EventResource::Pod;
    is_pod.then_some(WatchedKind { field_selector: selector.map(Into::into), ..kind })
}

/// The scheduler with its connections.
struct SchedulerRole {
    scheduler: Scheduler,
    /// The scheduler names whose pods are placed.
    names: BTreeSet<Arc<str>>,
    agents: Agents,
    originals: Originals,
    leases: MemberLeases,
    /// The objects that are copied to members, if there are any.
    copies: Option<Arc<Copies>>,
    mirror: Arc<Mirror>,
    events: EventSender<SchedulerEvent>,
    clock: Clock,
    runtime: Handle,
    /// Pods that were deleted while they were placed.
    departed: BTreeMap<Uid, PodKey>,
    outbox: Outbox,
}

impl SchedulerRole {
    fn pod_deleted(&mut self, key: &PodKey, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        if self.scheduler.explain(uid).is_some() {
            self.departed.insert(uid.clone(), key.clone());
        }
        self.scheduler.pod_deleted(key, uid, now, ports);
    }

    /// Deletes a delegate that was created for a pod that was deleted meanwhile. The finalizer of
    /// the pod keeps it until the mirror has done so, unless somebody has removed the finalizer.
    fn abandon(&mut self, cluster: ClusterIx, committed: Committed) {
        let uid = Uid::from(&*committed.key.pod);
        let Some(pod) = self.departed.remove(&uid) else { return };
        self.runtime.spawn(self.mirror.clone().abandon(cluster.0, pod, committed.key));
    }

    /// Reads or writes the Lease of a member. Its precondition makes a late write harmless.
    fn carry_out_lease(&self, id: WriteId, cluster: Arc<str>, operation: LeaseOperation) {
        let (leases, events) = (self.leases.clone(), self.events.clone());
        let now = self.clock.wall_offset().wall_time(self.clock.now());
        if matches!(operation, LeaseOperation::Fence(_)) {
            warn!(
                cluster = &*cluster,
                "The cluster is lost: pods that may be replaced are placed anew"
            );
        }
        self.runtime.spawn(async move {
            let answer = catch_panic(leases.carry_out(&cluster, &operation, now)).await;
            let answer = answer.unwrap_or_else(|panic| LeaseAnswer::Failed(panic.to_string()));
            if let LeaseAnswer::Failed(err) = &answer {
                warn!(cluster = &*cluster, err, "Cannot read or write the Lease of the cluster");
            }
            events.send(LoopEvent::Own(SchedulerEvent::Leased(id, answer)));
        });
    }

    /// Sends the samples and commits that do not wait for others.
    fn send_due(&mut self) {
        for (cluster, Parcel { samples, commits }) in self.outbox.take_due(self.clock.now()) {
            if !samples.is_empty() {
                self.sample(cluster, samples);
            }
            if !commits.is_empty() {
                self.commit(cluster, commits);
            }
        }
    }

    /// Sends sample requests in one message.
    fn sample(&self, cluster: ClusterIx, calls: Vec<(CallId, Arc<SampleRequest>)>) {
        let ((agent, metrics), events) = (self.agents.get(cluster.0), self.events.clone());
        let copies = self.copies.clone();
        self.runtime.spawn(async move {
            let (ids, mut requests): (Vec<CallId>, Vec<Arc<SampleRequest>>) =
                calls.into_iter().unzip();
            if let Some(copies) = copies {
                requests = copies.fill_samples(requests).await;
            }
            // A call that panics has no answer, and its deadline ends.
            let _ = catch_panic(agent.samples(&requests, |place, answer| {
                count(&metrics, &Request::Sample(requests[place].clone()), &answer);
                pass_on(&agent.name, &events, ids[place], answer);
            }))
            .await;
        });
    }

    /// Sends commit requests in one message.
    fn commit(&self, cluster: ClusterIx, calls: Vec<(CallId, Arc<CommitRequest>)>) {
        let ((agent, metrics), events) = (self.agents.get(cluster.0), self.events.clone());
        let copies = self.copies.clone();
        self.runtime.spawn(async move {
            let (ids, mut requests): (Vec<CallId>, Vec<Arc<CommitRequest>>) =
                calls.into_iter().unzip();
            if let Some(copies) = copies {
                requests = copies.fill_commits(requests).await;
            }
            // A call that panics has no answer, and is asked for.
            let _ = catch_panic(agent.commits(&requests, |place, answer| {
                count(&metrics, &Request::Commit(requests[place].clone()), &answer);
                pass_on(&agent.name, &events, ids[place], answer);
            }))
            .await;
        });
    }

    fn call(&self, id: CallId, cluster: ClusterIx, request: Request) {
        let ((agent, metrics), events) = (self.agents.get(cluster.0), self.events.clone());
        self.runtime.spawn(async move {
            let answer = catch_panic(agent.call(&request)).await;
            let answer = answer.unwrap_or_else(|panic| Err(panic.to_string()));
            count(&metrics, &request, &answer);
            pass_on(&agent.name, &events, id, answer);
        });
    }
}

/// Passes the answer of an agent to the loop.
fn pass_on(
    agent: &str,
    events: &EventSender<SchedulerEvent>,
    id: CallId,
    answer: Result<Response, String>,
) {
    if let Err(err) = &answer {
        debug!(cluster = agent, err, "No answer");
    }
    events.send(LoopEvent::Own(SchedulerEvent::Called(id, answer)));
}

/// Counts the answer of an agent.
fn count(metrics: &MemberMetrics, request: &Request, answer: &Result<Response, String>) {
    match (request, answer) {
        (Request::Sample(_), Ok(Response::Sample(Ok(sample)))) => {
            metrics.sampled(if sample.nodes.is_empty() { "empty" } else { "nodes" });
        }
        (Request::Sample(_), Ok(_)) => metrics.sampled("refused"),
        (Request::Sample(_), Err(_)) => metrics.sampled("no_answer"),
        (Request::Commit(_), Ok(Response::Commit(outcome))) => match outcome {
            CommitOutcome::Committed(_) => metrics.committed("committed", ""),
            CommitOutcome::Conflict(conflict) => {
                metrics.committed("conflict", &format!("{:?}", conflict.code));
            }
            CommitOutcome::Rejected(refusal) => {
                metrics.committed("rejected", &format!("{:?}", refusal.code));
            }
        },
        (Request::Commit(_), _) => metrics.lost_answer(),
        (Request::Seal(_) | Request::Renew(_) | Request::Diagnose(_), _) => {}
    }
}

impl Role for SchedulerRole {
    type Event = SchedulerEvent;

    fn engine(&self) -> &Engine {
        self.scheduler.engine()
    }

    fn update(&mut self, update: Update, now: Time, ports: &mut Ports<'_>) {
        let pod = match update.change {
            Change::PodDeleted { key, uid } => {
                self.mirror.forget(&uid);
                return self.pod_deleted(&key, &uid, now, ports);
            }
            Change::Pod(pod) if self.names.contains(&pod.spec.scheduler_name) => *pod,
            _ => return,
        };
        // A pod that somebody has bound in the management cluster has no object here.
        let original = update.object.and_then(|object| watched::original(pod, &object));
        let Some(original) = original else { return };
        let pod = original.object.pod.clone();
        self.mirror.see(original.clone());
        match pod.terminating {
            // The mirror seals commits that are under way.
            true => self.pod_deleted(&pod.key, &pod.uid, now, ports),
            false => self.scheduler.original(original, now, ports),
        }
    }

    fn synced(&mut self, _: Time, _: &mut Ports<'_>) {
        self.mirror.set_synced();
    }

    fn event(&mut self, event: SchedulerEvent, now: Time, ports: &mut Ports<'_>) {
        match event {
            SchedulerEvent::Called(id, answer) => self.scheduler.called(id, answer, now, ports),
            SchedulerEvent::Written(id, answer) => self.scheduler.written(id, answer, now, ports),
            SchedulerEvent::Leased(id, answer) => {
                self.scheduler.lease_answered(id, answer, now, ports);
            }
            SchedulerEvent::DelegateGone(pod, delegate) => self.scheduler.replace(&pod, &delegate),
            SchedulerEvent::Member(ix, Some(cluster)) => {
                self.scheduler.set_cluster(ix, cluster, now);
            }
            SchedulerEvent::Member(ix, None) => self.scheduler.remove_cluster(ix),
            SchedulerEvent::Explain(pod, reply) => {
                let explanation = self.scheduler.explanation(&pod, now);
                let known = explanation.zip(self.scheduler.known_pod(&pod));
                // The caller may have gone away.
                let _ = reply.send(known.map(|(own, (object, placed))| (own, object, placed)));
            }
            SchedulerEvent::AwaitEnd(cluster, pod, after) => {
                self.scheduler.await_end(&cluster, &pod, after, now);
            }
        }
    }

    fn effect_answered(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        self.scheduler.effect_answered(effect, answer, now, ports);
    }

    fn tick(&mut self, now: Time, ports: &mut Ports<'_>) {
        self.scheduler.tick(now, ports);
    }

    fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.scheduler.next_deadline(), self.outbox.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn carry_out(&mut self, not_after: Option<Time>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for output in self.scheduler.take_outputs() {
            match output {
                SchedulerOutput::Call { id, cluster, request: Request::Sample(request) } => {
                    self.outbox.of(cluster).samples.push((id, request));
                }
                SchedulerOutput::Call { id, cluster, request: Request::Commit(request) } => {
                    self.outbox.of(cluster).commits.push((id, request));
                }
                SchedulerOutput::Call { id, cluster, request } => self.call(id, cluster, request),
                SchedulerOutput::WriteIntent { id, pod, uid, resource_version, intent } => {
                    let finalizers = self.mirror.finalizers(&uid);
                    if intent.clusters.is_empty()
                        && let Some(member) = self.mirror.member_of(&uid)
                    {
                        self.agents.get(member).1.replaced();
                    }
                    let request =
                        requests::intent(&pod, &uid, resource_version, &intent, &finalizers);
                    self.originals.send(id, not_after, request);
                }
                SchedulerOutput::WritePlacement { id, pod, uid, placement } => {
                    self.originals.write_placement(id, not_after, &pod, &uid, &placement);
                }
                SchedulerOutput::Lease { id, cluster, operation } => {
                    self.carry_out_lease(id, cluster, operation);
                }
                SchedulerOutput::Released { cluster, pod } => self.mirror.released(&cluster, &pod),
                SchedulerOutput::Effect(effect) => effects.push(effect),
                SchedulerOutput::Decided(decision) => trace!(?decision, "Decided"),
                SchedulerOutput::Abandoned { cluster, committed } => {
                    self.abandon(cluster, committed);
                }
            }
        }
        self.send_due();
        let scheduler = &self.scheduler;
        self.departed.retain(|uid, _| scheduler.explain(uid).is_some());
        effects
    }
}
