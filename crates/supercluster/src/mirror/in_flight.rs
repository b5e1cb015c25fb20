//! The pods that are looked at. A member or a namespace whose requests hang leaves room for the
//! others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::Uid;

use super::Plan;

/// Maximum number of pods that are looked at at the same time.
pub(super) const MAX_IN_FLIGHT: usize = 64;

/// Where the requests of a plan may hang.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Path {
    /// The agent of a member.
    Member(usize),
    /// The pods of a namespace in the management cluster.
    Namespace(Arc<str>),
    /// No request is sent.
    None,
}

impl Plan {
    pub(super) fn path(&self) -> Path {
        let namespace = |pod: &framework::PodKey| Path::Namespace(pod.namespace.clone());
        match self {
            Self::Show { pod, .. } => namespace(pod),
            Self::Missing { member, .. }
            | Self::LeftOver { member, .. }
            | Self::Evict { member, .. } => Path::Member(*member),
            Self::Release { pod, members, .. } => {
                members.first().map_or_else(|| namespace(pod), |member| Path::Member(*member))
            }
            Self::Stuck(_) => Path::None,
        }
    }
}

/// The pods that are looked at, which are not looked at twice at the same time, and the pods that
/// wait for room.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    busy: BTreeMap<Uid, Path>,
    waiting: BTreeMap<Path, BTreeSet<Uid>>,
}

impl InFlight {
    pub(super) fn contains(&self, uid: &Uid) -> bool {
        self.busy.contains_key(uid)
    }

    pub(super) fn is_full(&self) -> bool {
        self.busy.len() >= MAX_IN_FLIGHT
    }

    /// Begins a look at a pod, or lets the pod wait. Returns whether it has begun.
    pub(super) fn begin(&mut self, uid: &Uid, path: Path) -> bool {
        let has_room = self.has_room(&path);
        if has_room {
            self.busy.insert(uid.clone(), path);
        } else {
            self.waiting.entry(path).or_default().insert(uid.clone());
        }
        has_room
    }

    /// Ends a look.
    pub(super) fn end(&mut self, uid: &Uid) {
        self.busy.remove(uid);
    }

    /// Takes out a pod that waits for each path that has room.
    pub(super) fn take_waiting(&mut self) -> Vec<Uid> {
        let free: Vec<Path> =
            self.waiting.keys().filter(|path| self.has_room(path)).cloned().collect();
        let take = |path: Path| {
            let waiting = self.waiting.get_mut(&path)?;
            let next = waiting.pop_first();
            if waiting.is_empty() {
                self.waiting.remove(&path);
            }
            next
        };
        free.into_iter().filter_map(take).collect()
    }

    /// A path gets at most half of what the others leave: one that hangs takes half of the room,
    /// two take two thirds.
    fn has_room(&self, path: &Path) -> bool {
        let own = self.busy.values().filter(|other| *other == path).count();
        let others = self.busy.len() - own;
        own < (MAX_IN_FLIGHT - others).div_ceil(2)
    }
}
