//! Room for pods and groups that wait while others start around them.
//!
//! At intervals the keeper looks for the oldest waiting entity of the highest priority that fits
//! the cluster once pods have ended, and [plans](plan) where. The nodes are held for it in the
//! cluster, and the Filter of the plugin whose policy this is keeps other pods off them.

mod plan;
mod steps;

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use framework::{Cluster, Hold, HoldPolicy, Holder, Pod, Purpose, QueuedEntity, Time, Uid};

use crate::change::Change;
use crate::context::{Context, PodEvent};
use crate::decide::Decider;
use crate::profile::Profile;
use crate::queue::Place;
use crate::world::{LoggedChange, World};
use plan::{Outlook, Plan, Planner};
use steps::{holder_of, may_preempt};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Time until room is looked for again for an entity for which none was found.
const RETRY_AFTER: Duration = Duration::from_mins(5);
/// Maximum number of entities for which room is looked for in one look.
const MAX_TRIED: usize = 3;

/// Holds room, and releases it.
#[derive(Debug)]
pub(crate) struct RoomKeeper {
    /// Whether a profile has a policy.
    is_on: bool,
    next_look: Time,
    /// Until when no room is looked for, by entity.
    passed_over: HashMap<Uid, Time>,
    /// The state of the change log whose changes on held nodes are taken in.
    seen: u64,
}

impl RoomKeeper {
    pub(crate) fn new(world: &World) -> Self {
        let is_on = world.profiles().iter().any(|profile| profile.hold_policy().is_some());
        Self { is_on, next_look: Time::ZERO, passed_over: HashMap::default(), seen: 0 }
    }

    /// Returns when the next look is due, if a pod waits or room is held.
    pub(crate) fn next_deadline(&self, world: &World) -> Option<Time> {
        // Gated entities are the last ones.
        let first = || world.queue().entities().next();
        let waits = || first().is_some_and(|(place, _)| place != Place::Gated);
        let is_used = self.is_on && (!world.cluster().holds().is_empty() || waits());
        is_used.then_some(self.next_look)
    }

    /// Looks again at what is held, and holds room for entities that have waited long enough.
    pub(crate) fn tick(&mut self, decider: &mut Decider, world: &mut World, cx: &mut Context<'_>) {
        if !self.is_on || cx.now < self.next_look {
            return;
        }
        self.next_look = cx.now + LOOK_EVERY;
        self.passed_over.retain(|_, until| *until > cx.now);
        for hold in world.cluster().holds().iter().cloned().collect::<Vec<_>>() {
            self.look_again(&hold, decider, world, cx);
        }
        for entity in self.waiting(world, cx.now).into_iter().take(MAX_TRIED) {
            self.look_for_room(&entity, decider, world, cx);
        }
    }

    /// Releases room whose holder does not wait any more, and lets a holder try again when
    /// something has changed on its nodes.
    pub(crate) fn check(&mut self, world: &mut World, cx: &mut Context<'_>) {
        if world.cluster().holds().is_empty() {
            return;
        }
        let changed: Option<Vec<_>> = world.log().since(self.seen).map(|entries| {
            let frees = |change| matches!(change, LoggedChange::PodGone(_) | LoggedChange::Node(_));
            entries.filter(|entry| frees(entry.change)).map(|entry| entry.node).collect()
        });
        self.seen = world.log().state();
        for hold in world.cluster().holds().iter().cloned().collect::<Vec<_>>() {
            if has_started(&hold, world) {
                world.release_room(&hold.holder, "started", cx);
            } else if !waits(&hold, world) {
                world.release_room(&hold.holder, "released", cx);
            } else if changed
                .as_ref()
                .is_none_or(|changed| changed.iter().any(|node| hold.nodes.contains(*node)))
            {
                world.activate_holder(&hold.holder, cx);
            }
        }
    }

    /// Returns the room to hold for the replacement of a pod that a change takes off its node: a
    /// pod of a group that goes on running. The room of a victim belongs to its preemptor.
    pub(crate) fn room_of_lost(&self, change: &Change, world: &World, now: Time) -> Option<Hold> {
        let uid = match change {
            _ if !self.is_on => return None,
            Change::PodDeleted { uid, .. } => uid,
            Change::Pod(pod) if pod.terminal && !pod.has_succeeded() && !pod.preempted => &pod.uid,
            _ => return None,
        };
        let placed = world.placed(uid)?;
        let pod = &placed.pod;
        let group = world.group_of(pod)?;
        let policy = world.profile_of(pod)?.hold_policy()?;
        let members = world.cluster().pod_group_state(&group)?.bound_count();
        let is_held = members > 1
            && !pod.preempted
            && !world.is_assumed(uid)
            && !policy.replaced_within.is_zero()
            && world.pod_group(&group).is_some();
        is_held.then(|| Hold {
            holder: Holder::Group(group),
            purpose: Purpose::Replacement(members),
            scheduler_name: pod.spec.scheduler_name.clone(),
            priority: pod.priority(),
            may_preempt: false,
            nodes: std::iter::once(placed.node).collect(),
            since: world.wall_offset().wall_time(now),
            start: None,
            expires: now + policy.replaced_within,
        })
    }

    /// Returns the entities for which room may be held, in the order in which it is held.
    fn waiting(&self, world: &World, now: Time) -> Vec<QueuedEntity> {
        let mut found: Vec<_> = world
            .queue()
            .entities()
            .filter(|(place, entity)| *place != Place::Gated && self.may_hold(entity, world, now))
            .map(|(_, entity)| entity)
            .collect();
        let order = |entity: &&QueuedEntity| {
            (Reverse(entity.priority()), entity.history().initial_attempt, entity.key())
        };
        found.sort_by_cached_key(order);
        found.into_iter().take(MAX_TRIED).cloned().collect()
    }

    fn may_hold(&self, entity: &QueuedEntity, world: &World, now: Time) -> bool {
        let Some(policy) = policy_of(entity, world) else { return false };
        let history = entity.history();
        let has_waited = history.initial_attempt.is_some_and(|first| first + policy.after <= now);
        let is_served = |pod: &Pod| {
            world.nominator().node_of(&pod.uid).is_some()
                || world.preemptions().is_running(&pod.uid)
                || world.cluster().holds().of(pod).is_some()
        };
        let is_running = |entity: &QueuedEntity| match entity {
            QueuedEntity::Pod(_) => false,
            QueuedEntity::Group(group) => {
                let needed = world.min_count(&group.key);
                needed.is_none_or(|needed| world.scheduled_members(&group.key) >= needed)
            }
        };
        history.attempts > 0
            && has_waited
            && !self.passed_over.contains_key(entity.uid())
            && !entity.pods().iter().any(|queued| is_served(&queued.pod))
            && !is_running(entity)
    }

    /// Holds the room where the entity can start first, if there is any.
    fn look_for_room(
        &mut self,
        entity: &QueuedEntity,
        decider: &mut Decider,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        let Some((policy, profile)) = policy_of(entity, world).zip(profile_of(entity, world))
        else {
            return;
        };
        let holds = world.cluster().holds().iter();
        if holds.filter(|hold| hold.purpose == Purpose::Start).count() >= policy.most {
            return;
        }
        let outlook = Planner { entity, profile: &profile, decider, world, cx }.plan();
        let plan = match outlook {
            Outlook::Startable => return world.activate_holder(&holder_of(entity), cx),
            Outlook::Hopeless => {
                self.passed_over.insert(entity.uid().clone(), cx.now + RETRY_AFTER);
                return;
            }
            Outlook::Later(plan) => plan,
        };
        let (held, allowed) = (held_with(&plan, world.cluster()), allowed(policy, world.cluster()));
        let first = &entity.pods()[0].pod;
        if held > allowed {
            self.passed_over.insert(entity.uid().clone(), cx.now + RETRY_AFTER);
            let note =
                format!("no room is reserved: {held} nodes would be, and at most {allowed} may be");
            let event = PodEvent::warning("RoomNotReserved", "Scheduling", &note);
            return cx.effects.record(first, &profile.scheduler_name, event);
        }
        let hold = Hold {
            holder: holder_of(entity),
            purpose: Purpose::Start,
            scheduler_name: profile.scheduler_name.clone(),
            priority: entity.priority(),
            may_preempt: may_preempt(entity, &profile),
            nodes: plan.nodes,
            since: world.wall_offset().wall_time(cx.now),
            start: plan.start,
            expires: cx.now + policy.expires_after,
        };
        let note = world.describe_hold(&hold);
        cx.effects.record(
            first,
            &profile.scheduler_name,
            PodEvent::normal("RoomReserved", "Scheduling", &note),
        );
        world.hold_room(hold, cx);
    }

    /// Releases the room if the holder cannot start there any more or its time is up. Otherwise
    /// computes again when it can start.
    fn look_again(
        &mut self,
        hold: &Hold,
        decider: &mut Decider,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        if hold.purpose != Purpose::Start {
            if hold.expires <= cx.now {
                world.release_room(&hold.holder, "expired", cx);
            }
            return;
        }
        let entity = entity_of(&hold.holder, world);
        let Some((entity, policy)) =
            entity.and_then(|entity| policy_of(&entity, world).map(|policy| (entity, policy)))
        else {
            return;
        };
        let Some(profile) = profile_of(&entity, world) else { return };
        if hold.expires <= cx.now {
            self.passed_over.insert(entity.uid().clone(), cx.now + policy.expires_after);
            return world.release_room(&hold.holder, "expired", cx);
        }
        let planner = Planner { entity: &entity, profile: &profile, decider, world, cx };
        match planner.plan_on(&hold.nodes) {
            Outlook::Startable => world.activate_holder(&hold.holder, cx),
            Outlook::Hopeless => world.release_room(&hold.holder, "released", cx),
            Outlook::Later(plan) => world.expect_start(hold, plan.start, cx),
        }
    }
}

fn policy_of(entity: &QueuedEntity, world: &World) -> Option<HoldPolicy> {
    world.profiles().get(entity.scheduler_name())?.hold_policy()
}

fn profile_of(entity: &QueuedEntity, world: &World) -> Option<Arc<Profile>> {
    world.profiles().get(entity.scheduler_name()).cloned()
}

/// Returns the queued entity for which room is held.
fn entity_of(holder: &Holder, world: &World) -> Option<QueuedEntity> {
    let is_its = |entity: &QueuedEntity| entity.pods().iter().any(|own| holder.includes(&own.pod));
    world.queue().entities().map(|(_, entity)| entity).find(|entity| is_its(entity)).cloned()
}

/// Whether the watch shows the pod, or enough of the group, on nodes.
fn has_started(hold: &Hold, world: &World) -> bool {
    match &hold.holder {
        Holder::Pod(_, uid) => world.confirmed_node(uid).is_some(),
        Holder::Group(group) => {
            let bound = world.cluster().pod_group_state(group).map_or(0, |own| own.bound_count());
            let needed = match hold.purpose {
                Purpose::Replacement(members) => Some(members),
                Purpose::Start | Purpose::Move => world.min_count(group),
            };
            needed.is_some_and(|needed| bound >= needed)
        }
        Holder::Successor(..) => false,
    }
}

/// Whether the pod, or enough of the group, waits for a node or for its bind to be seen.
fn waits(hold: &Hold, world: &World) -> bool {
    match &hold.holder {
        Holder::Pod(key, uid) => {
            let known = world.pending().get(key).is_some_and(|pod| pod.uid == *uid);
            known && world.queue().gate_of(key).is_none()
        }
        Holder::Group(group) => match hold.purpose {
            Purpose::Start | Purpose::Move => {
                !world.is_incomplete(group) && world.queue().gate_of_group(group).is_none()
            }
            Purpose::Replacement(_) => {
                world.pod_group(group).is_some() && world.scheduled_members(group) > 0
            }
        },
        // The machine that moves pods releases it.
        Holder::Successor(..) => true,
    }
}

/// Number of nodes that are held with those of the plan.
fn held_with(plan: &Plan, cluster: &Cluster) -> usize {
    let mut all = plan.nodes.clone();
    cluster.holds().iter().for_each(|hold| all.union(&hold.nodes));
    all.count()
}

fn allowed(policy: HoldPolicy, cluster: &Cluster) -> usize {
    (cluster.node_count() * policy.percent_of_nodes / 100).max(1)
}
