//! Room that is held, in the world.

use std::sync::Arc;

use framework::{Hold, Holder, NominatingInfo, Pod, PodKey, Purpose, QueuedEntity, Time};

use super::World;
use crate::context::Context;
use crate::counters::ROOM_RESERVATIONS;
use crate::ports::Count;
use crate::queue::Place;

/// Looking in.
impl World {
    /// Returns the room that is held for a pod, and when it can start, for people.
    pub fn room_of(&self, pod: &Pod) -> Option<String> {
        self.cluster.holds().of(pod).map(|hold| self.describe_hold(hold))
    }

    /// Returns the room that is held, and when its holder can start, for people.
    pub(crate) fn describe_hold(&self, hold: &Hold) -> String {
        let cluster = &self.cluster;
        let mut nodes = hold.nodes.iter();
        let place = match (nodes.next(), nodes.count()) {
            (Some(only), 0) => format!("node {}", cluster.node_name(only)),
            (_, others) => format!("{} nodes", others + 1),
        };
        let since = hold.since.floor_to_second();
        match hold.start {
            Some(start) => {
                let start = start.floor_to_second();
                format!("room is reserved on {place} since {since}, start expected by {start}")
            }
            None => format!("room is reserved on {place} since {since}"),
        }
    }
}

/// Changes.
impl World {
    /// Holds room, and lets its holder try again, so that its condition names the room.
    pub(crate) fn hold_room(&mut self, hold: Hold, cx: &mut Context<'_>) {
        let (holder, purpose) = (hold.holder.clone(), hold.purpose);
        self.cluster.hold(hold);
        count(purpose, "made", cx);
        self.activate_holder(&holder, cx);
    }

    /// Releases room for a reason, and lets the pods try again that were kept off it.
    pub(crate) fn release_room(
        &mut self,
        holder: &Holder,
        reason: &'static str,
        cx: &mut Context<'_>,
    ) {
        if let Some(released) = self.cluster.release(holder) {
            count(released.purpose, reason, cx);
            self.activate_kept_off(cx);
            self.activate_holder(holder, cx);
        }
    }

    /// Releases room that is [put back](Self::put_room_back), or held with changes, before anything
    /// else happens.
    pub(crate) fn lift_room(&mut self, holder: &Holder) -> Option<Hold> {
        self.cluster.release(holder)
    }

    /// Holds room that was lifted.
    pub(crate) fn put_room_back(&mut self, hold: Hold) {
        self.cluster.hold(hold);
    }

    /// Nominates a pending pod to a node, in memory only, and lets it try.
    pub(crate) fn nominate(&mut self, pod: &Pod, node: &Arc<str>, cx: &mut Context<'_>) {
        let known = self.pending.get(&pod.key).filter(|known| known.uid == pod.uid).cloned();
        if let Some(known) = known.filter(|known| self.queue.get(&known.key).is_some()) {
            self.nominator.add(known, &NominatingInfo::Override(node.clone()));
            self.activate(std::slice::from_ref(&pod.key), cx);
        }
    }

    /// Sets when a holder can start. Pods may end in time now that did not.
    pub(crate) fn expect_start(&mut self, hold: &Hold, start: Option<Time>, cx: &mut Context<'_>) {
        if hold.start == start {
            return;
        }
        self.cluster.set_expected_start(&hold.holder, start);
        if start > hold.start {
            self.activate_kept_off(cx);
        }
        self.activate_holder(&hold.holder, cx);
    }

    /// Activates the pods that were kept off room.
    fn activate_kept_off(&mut self, cx: &mut Context<'_>) {
        let is_kept_off = |entity: &QueuedEntity| {
            let profile = self.profiles().get(entity.scheduler_name());
            let mut plugins = profile.into_iter().flat_map(|profile| profile.hold_plugins());
            plugins.any(|plugin| entity.history().unschedulable_plugins.contains(&plugin.name))
        };
        let entities = self.queue().entities();
        let kept_off = entities.filter(|(place, own)| *place != Place::Gated && is_kept_off(own));
        let pods: Vec<PodKey> =
            kept_off.map(|(_, entity)| entity.pods()[0].pod.key.clone()).collect();
        self.activate(&pods, cx);
    }

    /// Lets a holder try again.
    pub(crate) fn activate_holder(&mut self, holder: &Holder, cx: &mut Context<'_>) {
        let pod = match holder {
            Holder::Pod(key, _) => Some(key.clone()),
            Holder::Group(group) => {
                self.queue().members_of(group).first().map(|own| own.pod.key.clone())
            }
            Holder::Successor(..) => None,
        };
        pod.into_iter().for_each(|pod| self.activate(&[pod], cx));
    }
}

/// Counts reservations. Moves have counters of their own.
fn count(purpose: Purpose, state: &str, cx: &mut Context<'_>) {
    if purpose != Purpose::Move {
        cx.probe.count(Count::of(&ROOM_RESERVATIONS, &[state]));
    }
}
