//! The pod or the group for which pods are evicted.

use std::fmt;
use std::sync::Arc;

use framework::preemption::{PodGroupPreemption, Preemption};
use framework::{PluginName, Pod, PodKey, Uid};

use crate::ports::Count;
use crate::world::World;

/// The evictions that a plugin asks for.
pub(super) struct Request {
    pub(super) beneficiary: Beneficiary,
    /// The plugin that asks for the evictions.
    pub(super) plugin: PluginName,
    /// The pods to evict, in the order of eviction.
    pub(super) victims: Vec<Arc<Pod>>,
}

/// The pod, or the members of a group, that get the room of the victims.
#[derive(Debug)]
pub(super) struct Beneficiary {
    /// At least one.
    pub(super) preemptors: Vec<Preemptor>,
    /// The UID of the PodGroup.
    group: Option<Uid>,
}

/// A pod at the start of a preemption, and the node that it is nominated to.
#[derive(Debug)]
pub(super) struct Preemptor {
    pub(super) pod: Arc<Pod>,
    pub(super) node: Arc<str>,
}

impl Request {
    /// Returns the request of a pod; `None` if it is not pending any more.
    pub(super) fn of_pod(request: Preemption, world: &World) -> Option<Self> {
        let Preemption { preemptor, uid, plugin, node, victims } = request;
        let preemptors = vec![Preemptor { pod: pending(&preemptor, &uid, world)?, node }];
        Some(Self { beneficiary: Beneficiary { preemptors, group: None }, plugin, victims })
    }

    /// Returns the request of a group; `None` if none of its members is pending any more.
    pub(super) fn of_group(request: PodGroupPreemption, world: &World) -> Option<Self> {
        let PodGroupPreemption { uid, plugin, members, victims, .. } = request;
        let preemptors = members.into_iter().filter_map(|member| {
            let pod = pending(&member.pod, &member.uid, world)?;
            Some(Preemptor { pod, node: member.node })
        });
        let preemptors: Vec<_> = preemptors.collect();
        let beneficiary = Beneficiary { preemptors, group: Some(uid) };
        (!beneficiary.preemptors.is_empty()).then_some(Self { beneficiary, plugin, victims })
    }

    /// Returns the number of victims, terminating ones included.
    pub(super) fn count_of_victims(&self) -> Count<'static> {
        match self.beneficiary.group {
            Some(_) => Count::GroupVictims(self.victims.len()),
            None => Count::Victims(self.victims.len()),
        }
    }

    /// Moves the least important victim that shares a node with a preemptor to the end. The
    /// preemptors are woken by the end of the last victim, and by that of a pod on such a node.
    pub(super) fn move_a_neighbour_to_the_end(&mut self) {
        let preemptors = &self.beneficiary.preemptors;
        let is_near = |victim: &Arc<Pod>| {
            preemptors.iter().any(|preemptor| Some(&preemptor.node) == victim.node_name.as_ref())
        };
        if let Some(place) = self.victims.iter().rposition(is_near) {
            self.victims[place..].rotate_left(1);
        }
    }
}

impl Beneficiary {
    /// Returns the first pod, which stands for the group in events and requests.
    pub(super) fn first(&self) -> &Arc<Pod> {
        &self.preemptors[0].pod
    }

    /// Returns the pods.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.preemptors.iter().map(|preemptor| &preemptor.pod)
    }

    /// Returns the first pod that is still pending.
    pub(super) fn first_pending(&self, world: &World) -> Option<&Arc<Pod>> {
        self.pods().find(|pod| world.is_pending(pod))
    }

    /// Whether a pod is still pending.
    pub(super) fn is_pending(&self, world: &World) -> bool {
        self.first_pending(world).is_some()
    }

    /// Whether a pod other than this one is still pending.
    pub(super) fn is_pending_without(&self, left: &Uid, world: &World) -> bool {
        self.pods().any(|pod| pod.uid != *left && world.is_pending(pod))
    }

    /// Returns the word for the preemptor in the conditions of its victims.
    pub(super) const fn kind(&self) -> &'static str {
        if self.group.is_some() { "podgroup" } else { "pod" }
    }
}

/// The text of kube-scheduler, in which the node of the victims of a group is called `cluster`.
impl fmt::Display for Beneficiary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Preemptor { pod, node } = &self.preemptors[0];
        match &self.group {
            Some(group) => write!(f, "podgroup {group} on node cluster"),
            None => write!(f, "pod {} on node {node}", pod.uid),
        }
    }
}

/// Returns the pending pod of this name and UID.
fn pending(pod: &PodKey, uid: &Uid, world: &World) -> Option<Arc<Pod>> {
    world.pending().get(pod).filter(|known| known.uid == *uid).cloned()
}
