//! Carries out what the [mirror](supercluster::mirror) of original pods and delegates asks for.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framework::{PodKey, Uid};
use supercluster::message::{CommitKey, SealOutcome, SealRequest, TryNumber};
use supercluster::mirror::{self, Plan, Roster, UNREACHABLE_AFTER};
use supercluster::scheduler::{OriginalPod, SchedulerConfig};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::super::messages::{DeletionOutcome, DeletionRequest, EvictionRefusal};
use super::SchedulerEvent;
use super::agents::Agents;
use super::originals::Originals;
use crate::scheduling_loop::{LoopEvent, LoopTurns};
use crate::supervision::{Spawner, catch_panic};

/// First pause before a list of delegates, or a deletion, is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause before a deletion is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Roster for Agents {
    fn named(&self, name: &str) -> Option<usize> {
        Agents::named(self, name)
    }

    fn is_draining(&self, member: usize) -> bool {
        Agents::is_draining(self, member)
    }
}

/// The mirror with its connections.
pub(super) struct Mirror {
    state: Mutex<mirror::Mirror>,
    wake: Notify,
    agents: Agents,
    originals: Originals,
    tasks: Spawner,
}

impl Mirror {
    pub(super) fn new(
        config: &SchedulerConfig,
        agents: Agents,
        originals: Originals,
        tasks: Spawner,
    ) -> Self {
        let state = Mutex::new(mirror::Mirror::new(config));
        Self { state, wake: Notify::new(), agents, originals, tasks }
    }

    /// Follows a member over this connection.
    pub(super) fn add(self: &Arc<Self>, member: usize, connection: u64) {
        let now = self.originals.clock.now();
        self.change(|state| state.follow(member, now));
        let name = &self.agents.get(member).0.name;
        self.tasks.spawn(
            format!("the list of delegates in {name}"),
            self.clone().follow(member, connection),
        );
    }

    /// Looks at all pods again.
    pub(super) fn look_again(&self) {
        self.change(mirror::Mirror::look_at_all);
    }

    /// Applies an original pod as the watch shows it.
    pub(super) fn see(&self, pod: OriginalPod) {
        self.change(|state| state.see(pod));
    }

    /// Notes that an original pod is gone.
    pub(super) fn forget(&self, uid: &Uid) {
        self.change(|state| state.forget(uid));
    }

    /// Notes that all originals are known.
    pub(super) fn set_synced(&self) {
        self.change(mirror::Mirror::set_synced);
    }

    /// Notes that the delegate of a deleted pod in a lost cluster is gone.
    pub(super) fn released(&self, cluster: &Arc<str>, pod: &Uid) {
        self.change(|state| state.release(cluster, pod));
    }

    /// Returns the member in which a pod is placed.
    pub(super) fn member_of(&self, uid: &Uid) -> Option<usize> {
        self.agents.named(self.lock().cluster_of(uid)?)
    }

    /// Returns the finalizers of an original pod.
    pub(super) fn finalizers(&self, uid: &Uid) -> Vec<String> {
        self.lock().finalizers(uid)
    }

    /// Seals a commit for a pod that is gone, and deletes its delegate.
    pub(super) async fn abandon(self: Arc<Self>, member: usize, pod: PodKey, key: CommitKey) {
        let mut pause = FIRST_PAUSE;
        while let Err(err) = self.release(member, &pod, &key).await {
            info!(%pod, err, "Deleting the delegate of a pod that is gone; retrying");
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Looks at changed pods without end.
    pub(super) async fn run(self: Arc<Self>, turns: Arc<LoopTurns>) -> Infallible {
        loop {
            turns.beat();
            let clock = self.originals.clock;
            let now = clock.now();
            let wall = clock.wall_offset().wall_time(now);
            let next = self.lock().next(&self.agents, now, wall);
            let Some((uid, plan)) = next else {
                self.wait().await;
                continue;
            };
            let own = self.clone();
            tokio::spawn(async move {
                let result = catch_panic(own.carry_out(&uid, plan)).await;
                own.carried_out(&uid, result.unwrap_or_else(|panic| Err(panic.to_string())));
            });
        }
    }

    /// Waits until a pod may have to be looked at.
    async fn wait(&self) {
        let deadline = self.lock().next_deadline();
        let pause = deadline.map(|time| self.originals.clock.until(time));
        let pause =
            pause.map_or(LoopTurns::LONGEST_WAIT, |pause| pause.min(LoopTurns::LONGEST_WAIT));
        // Woken or not, it looks.
        let _ = tokio::time::timeout(pause, self.wake.notified()).await;
    }

    fn carried_out(&self, uid: &Uid, result: Result<(), String>) {
        let mut state = self.lock();
        let is_stuck = state.done(uid, result.is_ok(), self.originals.clock.now());
        if let Err(err) = result
            && is_stuck
        {
            let pod = state.name_of(uid).map(ToString::to_string);
            let pod = pod.unwrap_or_else(|| format!("(deleted) {uid}"));
            warn!(pod, err, "A pod and its delegate differ");
        }
        drop(state);
        self.wake.notify_one();
    }

    async fn carry_out(&self, uid: &Uid, plan: Plan) -> Result<(), String> {
        match plan {
            Plan::Stuck(reason) => Err(reason),
            Plan::Show { pod, status, is_unreachable, events } => {
                if let Some(status) = status {
                    self.originals.write_status(&pod, uid, &status).await?;
                    self.lock().status_written(uid, status, is_unreachable);
                }
                for shown in events {
                    self.originals.write_event(&pod, uid, &shown).await?;
                    self.lock().event_shown(uid, &shown.cluster, &shown.event);
                }
                Ok(())
            }
            Plan::LeftOver { member, delegate, is_orphan } => {
                let pod = PodKey::new(&delegate.namespace, &delegate.name);
                if is_orphan && !self.originals.is_gone(&pod, &delegate.pod).await? {
                    return Ok(());
                }
                let (agent, _) = self.agents.get(member);
                info!(%pod, cluster = &*agent.name, "Deleting a delegate that its original does not have");
                let deletion = DeletionRequest {
                    pod: delegate.pod.clone(),
                    namespace: delegate.namespace.clone(),
                    name: delegate.name.clone(),
                    delegate: Some(delegate.uid.clone()),
                    grace_period_seconds: None,
                    evict: false,
                };
                match agent.delete(&deletion).await? {
                    DeletionOutcome::Gone => Ok(()),
                    _ => Err("it ends".to_owned()),
                }
            }
            Plan::Missing { pod, member, key, delegate, is_replaceable } => {
                let (agent, _) = self.agents.get(member);
                match agent.seal(&SealRequest { key }).await? {
                    SealOutcome::Sealed if is_replaceable => {
                        let cluster = &*agent.name;
                        info!(%pod, cluster, "The delegate is gone: placing the pod anew");
                        self.tell(SchedulerEvent::DelegateGone(uid.clone(), delegate));
                        // Until the pod shows that it has been taken out.
                        Err("the pod is about to be placed anew".to_owned())
                    }
                    SealOutcome::Sealed => {
                        let cluster = &*agent.name;
                        info!(%pod, cluster, "The delegate is gone: deleting the pod");
                        self.originals.delete(&pod, uid).await
                    }
                    SealOutcome::Committed(_) => Err("the list does not show it yet".to_owned()),
                    SealOutcome::Rejected(refusal) => Err(refusal.message),
                }
            }
            Plan::Evict { pod, member, delegate } => {
                let (agent, _) = self.agents.get(member);
                let cluster = &*agent.name;
                let deletion = DeletionRequest {
                    pod: uid.to_string().into(),
                    namespace: pod.namespace.clone(),
                    name: pod.name.clone(),
                    delegate: Some(delegate),
                    grace_period_seconds: None,
                    evict: true,
                };
                match agent.delete(&deletion).await? {
                    DeletionOutcome::Refused(EvictionRefusal { message: reason }) => {
                        info!(%pod, cluster, reason, "The cluster is drained: the pod may not leave yet");
                        Err(format!("its eviction is refused: {reason}"))
                    }
                    // The list of delegates shows when it is gone.
                    _ => {
                        info!(%pod, cluster, "The cluster is drained: the pod leaves");
                        Ok(())
                    }
                }
            }
            Plan::Release { pod, attempt, members, may_be_lost, resource_version, finalizers } => {
                let is_waiting = !may_be_lost.is_empty();
                for (cluster, after) in may_be_lost {
                    self.tell(SchedulerEvent::AwaitEnd(cluster, uid.clone(), after));
                }
                let number = TryNumber::last_of(attempt);
                let key = CommitKey { pod: uid.to_string().into(), number };
                for member in members {
                    self.release(member, &pod, &key).await?;
                }
                if is_waiting {
                    return Err("its delegate may run in a cluster that does not answer".to_owned());
                }
                let originals = &self.originals;
                originals.remove_finalizer(&pod, uid, resource_version, &finalizers).await
            }
        }
    }

    fn tell(&self, event: SchedulerEvent) {
        self.originals.events.send(LoopEvent::Own(event));
    }

    /// Seals the commits for a pod up to this one in a cluster, and deletes its delegate there. An
    /// error if it still exists.
    async fn release(&self, member: usize, pod: &PodKey, key: &CommitKey) -> Result<(), String> {
        let (agent, _) = self.agents.get(member);
        let sealed = agent.seal(&SealRequest { key: key.clone() }).await?;
        if let SealOutcome::Rejected(refusal) = sealed {
            return Err(refusal.message);
        }
        let deletion = DeletionRequest {
            pod: key.pod.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            delegate: None,
            grace_period_seconds: None,
            evict: false,
        };
        match (agent.delete(&deletion).await?, sealed) {
            (DeletionOutcome::Gone, SealOutcome::Sealed) => Ok(()),
            _ => Err(format!("its delegate in {} ends", agent.name)),
        }
    }

    /// Follows the delegates of a member while it is reached over this connection.
    async fn follow(self: Arc<Self>, member: usize, connection: u64) {
        let (agent, metrics) = self.agents.get(member);
        let clock = self.originals.clock;
        let mut pause = FIRST_PAUSE;
        let mut logged: Option<String> = None;
        while self.agents.is_current(member, connection) {
            let (incarnation, revision) = self.lock().known(member);
            let listed = agent.delegates(&incarnation, revision).await;
            if !self.agents.is_current(member, connection) {
                return;
            }
            match listed {
                Ok(list) => {
                    if logged.take().is_some() {
                        info!(cluster = &*agent.name, "The agent answers again");
                    }
                    pause = FIRST_PAUSE;
                    metrics.answered();
                    self.change(|state| state.take(member, list, clock.now()));
                }
                Err(err) => {
                    let cluster = &*agent.name;
                    if logged.as_ref() != Some(&err) {
                        warn!(cluster, err, "Cannot list the delegates; retrying");
                        logged = Some(err);
                    }
                    if self.change(|state| state.no_answer(member, clock.now())) {
                        let seconds = UNREACHABLE_AFTER.as_secs();
                        warn!(
                            cluster,
                            seconds,
                            "The agent does not answer: its pods are not Ready. They stay there"
                        );
                    }
                    if !self.lock().is_reachable(member) {
                        metrics.unreachable();
                    }
                    tokio::time::sleep(pause).await;
                    pause = Duration::from_secs(5).min(pause * 2);
                }
            }
        }
    }

    /// Changes what the mirror knows. It looks at pods then.
    fn change<T>(&self, change: impl FnOnce(&mut mirror::Mirror) -> T) -> T {
        let changed = change(&mut self.lock());
        self.wake.notify_one();
        changed
    }

    fn lock(&self) -> MutexGuard<'_, mirror::Mirror> {
        // No code that holds the lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
