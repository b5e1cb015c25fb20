//! The pods that a predecessor was most likely binding when it crashed.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use engine::Engine;
use framework::{Pod, PodKey, Uid};

use crate::api_dispatcher::STARTED;

/// A pod that a predecessor may have been binding.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) pod: PodKey,
    uid: Uid,
    /// Its resourceVersion.
    version: u64,
}

/// How likely it is that a pod was being bound, the likeliest first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likelihood {
    /// A node is nominated for the pod: victims have left it, or its volumes or devices are being
    /// prepared.
    Nominated,
    /// No attempt has failed, so that its first one was due, or under way.
    Untried,
    /// An attempt has failed.
    Rejected,
}

/// Returns the pods that a predecessor was most likely binding, the likeliest first. Versions above
/// `own_write` are newer than the takeover, and named by no earlier bind; 0 stands for none.
///
/// Pods leave the queue by priority and then by the time at which the scheduler first saw them. A
/// predecessor that started with a backlog saw it in the order of a list, by name. It saw pods that
/// were created later in the order of their creation, which is the order of the versions of pods
/// that were not written since. The pods come from both orders in turn.
pub(super) fn suspects(engine: &Engine, own_write: u64) -> impl Iterator<Item = Suspect> + use<'_> {
    let mut listed: Vec<&Arc<Pod>> =
        engine.pending().filter(|pod| may_be_bound(pod, own_write, engine)).collect();
    let mut watched = listed.clone();
    listed.sort_by_key(|pod| (likelihood(pod), Reverse(pod.priority())));
    watched.sort_by_key(|pod| (likelihood(pod), Reverse(pod.priority()), pod.resource_version));
    let mut known = BTreeSet::new();
    let both = listed.into_iter().zip(watched).flat_map(|(listed, watched)| [listed, watched]);
    both.filter(move |pod| known.insert(&pod.uid)).map(|pod| Suspect::new(pod))
}

/// No scheduler can bind a pod that is gated or terminating, and one with the same flags has not
/// bound a member of a group that the gate of groups keeps back.
fn may_be_bound(pod: &Pod, own_write: u64, engine: &Engine) -> bool {
    let is_new = own_write != 0 && own_write <= pod.resource_version;
    let is_gated = !pod.spec.scheduling_gates.is_empty() || engine.is_gated_by_group(pod);
    !is_new && !is_gated && !pod.terminating
}

fn likelihood(pod: &Pod) -> Likelihood {
    let rejected = pod.scheduled_condition.as_ref();
    match pod.nominated_node_name() {
        Some(_) => Likelihood::Nominated,
        None if rejected.is_some_and(|condition| &*condition.reason != STARTED) => {
            Likelihood::Rejected
        }
        None => Likelihood::Untried,
    }
}

impl Suspect {
    fn new(pod: &Pod) -> Self {
        Self { pod: pod.key.clone(), uid: pod.uid.clone(), version: pod.resource_version }
    }

    /// Returns whether an earlier bind of the pod may still be carried out: the pod has not
    /// changed, as far as is known, and this scheduler does not bind it, which would fence the
    /// earlier bind, too.
    pub(super) fn is_open(&self, engine: &Engine) -> bool {
        let pod = engine.pending_pod(&self.pod);
        let is_same =
            pod.is_some_and(|pod| pod.uid == self.uid && pod.resource_version == self.version);
        is_same && engine.world().placed(&self.uid).is_none()
    }
}
