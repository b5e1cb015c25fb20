//! The read-only view of the world for scheduling cycles and plugins.

use std::sync::Arc;

use framework::preemption::PreemptionProgress;
use framework::{Cluster, Commands, Handle, PendingPods, Pod, Time, Uid, WaitingPods, WallOffset};

use super::waiting_pods::WaitingPodsMap;
use crate::cache::Cache;
use crate::nominator::Nominator;
use crate::profile::{Profile, Profiles};

/// What plugins read of the view, for any thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shared<'a> {
    cluster: &'a Cluster,
    waiting: &'a WaitingPods,
    pending: &'a PendingPods,
    nominator: &'a Nominator,
    preemptions: &'a PreemptionProgress,
    now: Time,
    wall_offset: WallOffset,
}

impl<'a> Shared<'a> {
    /// Returns the handle of plugins whose commands go to `commands`.
    pub(crate) fn handle(self, commands: &'a Commands) -> Handle<'a> {
        let Self { cluster, waiting, pending, nominator, preemptions, now, wall_offset } = self;
        Handle {
            cluster,
            waiting,
            pending,
            nominated: nominator,
            preemptions,
            now,
            wall_offset,
            commands,
        }
    }
}

/// Nodes, placed, pending, waiting and nominated pods, and the profiles that decide about them.
///
/// Only [`World`](super::World) changes it.
#[derive(Debug)]
pub(crate) struct View {
    pub(super) profiles: Profiles,
    pub(super) cache: Cache,
    pub(super) nominator: Nominator,
    /// Pods without a node that a profile is responsible for, as last seen.
    pub(super) pending: PendingPods,
    pub(super) waiting: WaitingPodsMap,
    pub(super) preemptions: PreemptionProgress,
    pub(super) commands: Commands,
    pub(super) wall_offset: WallOffset,
}

impl View {
    pub(super) fn new(profiles: Profiles) -> Self {
        let cache = Cache::new(profiles.decoders());
        Self {
            profiles,
            cache,
            nominator: Nominator::default(),
            pending: PendingPods::new(),
            waiting: WaitingPodsMap::default(),
            preemptions: PreemptionProgress::default(),
            commands: Commands::default(),
            wall_offset: WallOffset::default(),
        }
    }

    /// Returns the handle that plugins get at `now`.
    pub(crate) fn handle(&self, now: Time) -> Handle<'_> {
        self.shared(now).handle(&self.commands)
    }

    /// Returns what plugins read at `now`.
    pub(crate) const fn shared(&self, now: Time) -> Shared<'_> {
        Shared {
            cluster: self.cache.cluster(),
            waiting: self.waiting.pods(),
            pending: &self.pending,
            nominator: &self.nominator,
            preemptions: &self.preemptions,
            now,
            wall_offset: self.wall_offset,
        }
    }

    pub(crate) const fn wall_offset(&self) -> WallOffset {
        self.wall_offset
    }

    pub(crate) const fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// Returns the profile that is responsible for `pod`.
    pub(crate) fn profile_of(&self, pod: &Pod) -> Option<&Arc<Profile>> {
        self.profiles.get(&pod.spec.scheduler_name)
    }

    pub(crate) const fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) const fn cluster(&self) -> &Cluster {
        self.cache.cluster()
    }

    pub(crate) const fn nominator(&self) -> &Nominator {
        &self.nominator
    }

    pub(crate) const fn pending(&self) -> &PendingPods {
        &self.pending
    }

    pub(crate) const fn waiting_pods(&self) -> &WaitingPods {
        self.waiting.pods()
    }

    pub(crate) const fn preemptions(&self) -> &PreemptionProgress {
        &self.preemptions
    }

    pub(crate) const fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Whether the pod is pending, and not replaced by another pod of the same name.
    pub(crate) fn is_pending(&self, pod: &Pod) -> bool {
        self.pending.get(&pod.key).is_some_and(|known| known.uid == pod.uid)
    }

    /// Whether the pod is placed and not terminating.
    pub(crate) fn is_running(&self, uid: &Uid) -> bool {
        self.cache.placed(uid).is_some_and(|placed| !placed.pod.terminating)
    }

    /// Returns the node on which the watch shows the pod.
    pub(crate) fn confirmed_node(&self, uid: &Uid) -> Option<&Arc<str>> {
        let placed = self.cache.placed(uid).filter(|_| !self.cache.is_assumed(uid))?;
        Some(self.cluster().node_name(placed.node))
    }
}
