//! Room that is held for a pod or a group that waits for it.

use std::fmt;
use std::sync::Arc;

use super::{Cluster, NodeBits};
use api::{Controller, ControllerKind, Pod, PodGroupKey, PodKey, Time, Uid};

/// The pod or the group for which room is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A pod that is scheduled alone.
    Pod(PodKey, Uid),
    /// The pods of a group.
    Group(PodGroupKey),
    /// The pod that this controller makes in place of a pod that is moved.
    Successor(PodKey, Arc<Controller>),
}

impl Holder {
    /// Whether the room is held for this pod.
    pub fn includes(&self, pod: &Pod) -> bool {
        match self {
            Self::Pod(_, uid) => *uid == pod.uid,
            Self::Group(group) => pod.pod_group().as_ref() == Some(group),
            Self::Successor(moved, controller) => {
                pod.node_name.is_none()
                    && pod.key.namespace == moved.namespace
                    && pod.controller.as_ref() == Some(controller)
            }
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key, _) => write!(f, "pod {key}"),
            Self::Group(group) => write!(f, "PodGroup {group}"),
            Self::Successor(moved, _) => write!(f, "the successor of pod {moved}"),
        }
    }
}

/// Why room is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The holder has waited for long.
    Start,
    /// The group has lost a pod. Before that, this number of its pods had a node.
    Replacement(u32),
    /// Pods are moved so that the holder fits, or the holder is the successor of one of them.
    Move,
}

/// Nodes whose room is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The pod or group that is to start there.
    pub holder: Holder,
    /// Why they are held.
    pub purpose: Purpose,
    /// Its scheduler name, which names its profile.
    pub scheduler_name: Arc<str>,
    /// Its priority.
    pub priority: i32,
    /// Whether it may evict pods of lower priority.
    pub may_preempt: bool,
    /// The nodes.
    pub nodes: NodeBits,
    /// The wall time since when they are held.
    pub since: Time,
    /// The wall time at which the holder can start at the latest, if all pods that have to end
    /// first declare run times.
    pub start: Option<Time>,
    /// When the hold ends, by the time of the engine.
    pub expires: Time,
}

impl Hold {
    /// Whether a pod may be placed on the nodes. `ends` is the wall time at which it ends if it
    /// starts now, if it declares a run time.
    pub fn admits(&self, pod: &Pod, ends: Option<Time>) -> bool {
        let priority = pod.priority();
        self.holder.includes(pod)
            || priority > self.priority
            || (self.may_preempt && priority < self.priority)
            || stays_with_its_node(pod)
            || ends.zip(self.start).is_some_and(|(ends, start)| ends <= start)
    }
}

/// Whether a pod belongs to its node, and does not make room for others: a pod of a DaemonSet or a
/// static pod.
pub fn stays_with_its_node(pod: &Pod) -> bool {
    let controller = pod.controller.as_ref();
    controller
        .is_some_and(|own| matches!(own.kind, ControllerKind::DaemonSet | ControllerKind::Node))
}

/// The room that is held.
#[derive(Debug, Clone, Default)]
pub struct Holds {
    list: Vec<Hold>,
    /// Number of changes of holders and nodes.
    revision: u64,
}

impl Holds {
    /// Returns the holds, the oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Hold> {
        self.list.iter()
    }

    /// Whether no room is held.
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns a number that differs when the holders or their nodes have changed.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the hold for this pod.
    pub fn of(&self, pod: &Pod) -> Option<&Hold> {
        self.list.iter().find(|hold| hold.holder.includes(pod))
    }

    /// Returns the hold for this group.
    pub fn of_group(&self, group: &PodGroupKey) -> Option<&Hold> {
        let is_its = |hold: &&Hold| matches!(&hold.holder, Holder::Group(own) if own == group);
        self.list.iter().find(is_its)
    }
}

/// Changes.
impl Cluster {
    /// Returns the room that is held for pods that wait.
    pub const fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Holds room, beside that which is held for the same holder.
    pub fn hold(&mut self, hold: Hold) {
        self.holds.revision += 1;
        let known = self.holds.list.iter_mut().find(|known| known.holder == hold.holder);
        match known {
            Some(known) => {
                known.nodes.union(&hold.nodes);
                known.expires = known.expires.max(hold.expires);
            }
            None => self.holds.list.push(hold),
        }
    }

    /// Sets when the holder can start.
    pub fn set_expected_start(&mut self, holder: &Holder, start: Option<Time>) {
        let held = self.holds.list.iter_mut().find(|hold| hold.holder == *holder);
        held.into_iter().for_each(|hold| hold.start = start);
    }

    /// Releases the room that is held for a holder.
    pub fn release(&mut self, holder: &Holder) -> Option<Hold> {
        let place = self.holds.list.iter().position(|hold| hold.holder == *holder)?;
        self.holds.revision += 1;
        Some(self.holds.list.remove(place))
    }
}
