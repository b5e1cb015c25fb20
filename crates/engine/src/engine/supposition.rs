//! Questions about the cluster with other pods on it.

use std::sync::Arc;

use framework::{
    Cluster, NodeBits, Pod, PodGroupKey, PodKey, Prospect, QueuedPod, Status, Time, Uid,
};

use super::Engine;
use crate::context::Context;
use crate::cycle::Question;
use crate::decide::{Decider, Found, Trial, gate};
use crate::pod_group::{
    self, BoundedGroup, LevelProspects, MemberDecision, Orders, PodGroupQuestion, check_members,
};
use crate::ports::Ports;
use crate::profile::Profile;
use crate::world::World;
use crate::world::tentative::{Ending, Tentative};

/// The cluster with other pods on it. Each pod is on its node in every count and index, so that a
/// question about any node takes account of it.
pub struct Supposition<'e, 'w, 'c> {
    world: &'e mut Tentative<'w>,
    decider: &'e mut Decider,
    cx: &'e mut Context<'c>,
}

/// The decision about a group on a supposed cluster.
#[derive(Debug, Clone)]
pub struct PlacedGroup {
    /// Success if enough members fit.
    pub status: Status,
    /// The members that fit, with their nodes, in their order.
    pub members: Vec<(PodKey, Arc<str>)>,
}

/// Where a pod is tried.
struct Place<'n> {
    /// The nodes among which to place it; `None` for all.
    within: Option<&'n NodeBits>,
    /// Whether it is decided as a member of its group.
    as_member: bool,
}

impl Engine {
    /// Asks about the cluster with other pods on it. Afterwards everything is as before: no
    /// question changes the decision records or the seeded generator.
    pub fn suppose<T>(
        &mut self,
        now: Time,
        ports: &mut Ports<'_>,
        ask: impl FnOnce(&mut Supposition<'_, '_, '_>) -> T,
    ) -> T {
        self.run(now, ports, |engine, cx| {
            let profiles: Vec<_> = engine.profiles().iter().cloned().collect();
            profiles.iter().for_each(|profile| engine.refresh_order(profile));
            suppose(&mut engine.world, &mut engine.decider, cx, ask)
        })
    }
}

/// Returns a pod as its controller makes it again: without a node, and without what was said of it.
pub fn successor_of(pod: &Pod) -> Pod {
    Pod { node_name: None, scheduled_condition: None, uncommon: None, ..pod.clone() }
}

/// Asks about the world with other pods on it, and undoes all changes.
pub(crate) fn suppose<T>(
    world: &mut World,
    decider: &mut Decider,
    cx: &mut Context<'_>,
    ask: impl FnOnce(&mut Supposition<'_, '_, '_>) -> T,
) -> T {
    let ended = world
        .tentatively(cx, |world, cx| Ending::Undo(ask(&mut Supposition { world, decider, cx })));
    debug_assert!(ended.reservations.is_empty(), "no change is kept");
    ended.value
}

impl Supposition<'_, '_, '_> {
    /// Returns the nodes, and the pods supposed on them.
    pub fn cluster(&self) -> &Cluster {
        self.world.cluster()
    }

    /// Supposes that a pod is gone. Returns whether it had a node.
    pub fn remove(&mut self, pod: &Uid) -> bool {
        self.world.remove(pod).is_some()
    }

    /// Supposes that a pod runs on its node, in place of its present version. Returns false for a
    /// pod without a node.
    pub fn put(&mut self, pod: &Pod) -> bool {
        let Some(node) = &pod.node_name else { return false };
        self.world.remove(&pod.uid);
        self.world.assume(pod, node).is_ok()
    }

    /// Asks about the same pods with more changes, which are then undone.
    pub fn suppose<T>(&mut self, ask: impl FnOnce(&mut Supposition<'_, '_, '_>) -> T) -> T {
        let Self { world, decider, cx } = self;
        world
            .tentatively(cx, |world, cx| Ending::Undo(ask(&mut Supposition { world, decider, cx })))
    }

    /// Tries a pod, also with evictions. Returns `None` if no profile is responsible for it.
    pub fn try_pod(&mut self, pod: &Arc<Pod>) -> Option<Trial> {
        let profile = self.profile_of(pod)?;
        let question =
            Question { world: self.world, profile: &profile, pod, within: None, as_member: false };
        Some(self.decider.try_pod(question, self.cx))
    }

    /// Tries a pod, and if it fits, supposes that it is on the node that was chosen, with all that
    /// its plugins reserve there. Uses the rankings, as an attempt does. Returns `None` if no
    /// profile is responsible for it.
    pub fn place(&mut self, pod: &Arc<Pod>) -> Option<Trial> {
        let profile = self.profile_of(pod)?;
        if let Some(status) = gate(self.world, &profile, pod, self.cx) {
            return Some(Trial::Gated(status));
        }
        Some(self.place_by(&profile, pod, Place { within: None, as_member: false }))
    }

    /// Tries a pod on these nodes, and if it fits, supposes that it is on the node that was chosen,
    /// with all that its plugins reserve there. No PostFilter plugin looks for evictions. Returns
    /// `None` if no profile is responsible for it.
    pub fn place_within(&mut self, pod: &Arc<Pod>, within: &NodeBits) -> Option<Trial> {
        self.place_member(pod, Some(within))
    }

    /// Tries a member of a group on these nodes, or on all of them, and if it fits, supposes that
    /// it is on the node that was chosen, as the decision about its group does. Returns `None` if
    /// no profile is responsible for it.
    pub fn place_member(&mut self, pod: &Arc<Pod>, within: Option<&NodeBits>) -> Option<Trial> {
        let profile = self.profile_of(pod)?;
        Some(self.place_by(&profile, pod, Place { within, as_member: true }))
    }

    /// Returns the placements of a group, each with a bound of how many of these members fit there.
    /// `None` if the members may be on any nodes.
    ///
    /// # Errors
    /// A plugin rejects the group in every placement, or it fails.
    pub fn prospects(
        &mut self,
        group: &PodGroupKey,
        members: &[Arc<Pod>],
    ) -> Result<Option<Vec<Prospect>>, Status> {
        let Some(profile) = members.first().and_then(|pod| self.profile_of(pod)) else {
            return Ok(None);
        };
        let Self { world, decider, cx } = self;
        pod_group::bounded_placements(group, &profile, members, decider, world, cx)
    }

    /// Decides about members of a group together, as an attempt does, and if enough fit, supposes
    /// that they are on their nodes. Returns `None` if no profile is responsible for them.
    pub fn place_group(
        &mut self,
        group: &PodGroupKey,
        members: &[QueuedPod],
    ) -> Option<PlacedGroup> {
        let profile = &self.profile_of(&members.first()?.pod)?;
        let Self { world, decider, cx } = self;
        let valid = match world.pod_group(group) {
            Some(known) => check_members(members, known, world.profiles().in_common()),
            None => Err(Status::error(format!("the PodGroup {group} does not exist"))),
        };
        if let Err(status) = valid {
            return Some(PlacedGroup { status, members: Vec::new() });
        }
        let question = PodGroupQuestion { group, profile, members, orders: Orders::All };
        let course = decider.course();
        let found = world.tentatively(cx, |world, cx| {
            let found = pod_group::find(question, decider, world, cx);
            if found.status.is_success() { Ending::Keep(found) } else { Ending::Undo(found) }
        });
        decider.resume(course);
        let placed = members.iter().zip(found.members).filter_map(|(member, found)| match found {
            MemberDecision::Fits(choice) => Some((member.pod.key.clone(), choice.node)),
            _ => None,
        });
        Some(PlacedGroup { status: found.status, members: placed.collect() })
    }

    fn place_by(&mut self, profile: &Arc<Profile>, pod: &Arc<Pod>, place: Place<'_>) -> Trial {
        let Self { world, decider, cx } = self;
        world.register_queries(pod, profile, cx);
        let Place { within, as_member } = place;
        let question = Question { world, profile, pod, within, as_member };
        let mut decision = decider.decide(question, world.log(), cx);
        let Found::Node(chosen) = &decision.found else { return decision.into() };
        let trial = Trial::Fits { node: chosen.node, feasible: chosen.feasible };
        decision.state.end_search();
        let node = world.cluster().node_name(chosen.node).clone();
        let placed = world.tentatively(cx, |world, cx| {
            let assumed = match world.assume(pod, &node) {
                Ok(assumed) => assumed,
                Err(error) => return Ending::Undo(Err(Status::error(error.to_string()))),
            };
            match world.reserve(profile, assumed, &node, decision.state, cx) {
                Ok(()) => Ending::Keep(Ok(())),
                Err(status) => Ending::Undo(Err(status)),
            }
        });
        placed.map_or_else(Trial::Failed, |()| trial)
    }

    /// Returns the levels of a group that prefers some of them, or is divided among the domains of
    /// the narrowest; none of other groups.
    ///
    /// # Errors
    /// A plugin rejects the group in every placement, or it fails.
    pub fn levels(
        &mut self,
        group: &PodGroupKey,
        members: &[Arc<Pod>],
    ) -> Result<Vec<LevelProspects>, Status> {
        let Some(profile) = members.first().and_then(|pod| self.profile_of(pod)) else {
            return Ok(Vec::new());
        };
        let Self { world, decider, cx } = self;
        let bounded = BoundedGroup { group, profile: &profile, members };
        pod_group::bounded_levels(bounded, decider, world, cx)
    }

    /// Decides about members of a group in the order in which they are given, as an attempt does.
    /// Returns the node of each, or why it gets none.
    pub fn try_members(
        &mut self,
        group: &PodGroupKey,
        members: &[Arc<Pod>],
    ) -> Vec<Result<Arc<str>, String>> {
        let Some(profile) = &members.first().and_then(|pod| self.profile_of(pod)) else {
            let text = "no profile is responsible for the pod";
            return members.iter().map(|_| Err(text.to_owned())).collect();
        };
        let Self { world, decider, cx } = self;
        let now = cx.now;
        let queued: Vec<_> = members.iter().map(|pod| QueuedPod::new(pod.clone(), now)).collect();
        let orders = Orders::OfQueue;
        let question = PodGroupQuestion { group, profile, members: &queued, orders };
        let course = decider.course();
        let found = world.tentatively(cx, |world, cx| {
            Ending::Undo(pod_group::find(question, decider, world, cx))
        });
        decider.resume(course);
        let reason = |member: &MemberDecision| match member {
            MemberDecision::Unfit(fit) => Some(fit.message()),
            MemberDecision::Failed(status) => Some(status.message()),
            MemberDecision::Fits(_) | MemberDecision::NotTried => None,
        };
        let first = found.members.iter().find_map(reason);
        let first = first.unwrap_or_else(|| found.status.message());
        let node_or_reason = |place: usize| match found.members.get(place) {
            Some(MemberDecision::Fits(choice)) => Ok(choice.node.clone()),
            Some(other) => Err(reason(other).unwrap_or_else(|| first.clone())),
            None => Err(first.clone()),
        };
        (0..members.len()).map(node_or_reason).collect()
    }

    fn profile_of(&self, pod: &Pod) -> Option<Arc<Profile>> {
        self.world.profile_of(pod).cloned()
    }
}
