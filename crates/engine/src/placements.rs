//! Placements: binding cycles of pods for which a caller named the node.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::Uid;

/// The end of a binding cycle that [`Engine::place`](crate::Engine::place) began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// UID of the pod.
    pub uid: Uid,
    /// The node that the pod is bound to; otherwise why it is not bound, and will not be by this
    /// engine.
    pub outcome: Result<Arc<str>, String>,
}

/// The placements whose binding cycle goes on, and the ends that no caller has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Placements {
    placed: BTreeSet<Uid>,
    settled: Vec<Settled>,
}

impl Placements {
    /// Notes that a placement begins the binding cycle of a pod.
    pub(crate) fn begin(&mut self, pod: &Uid) {
        self.placed.insert(pod.clone());
    }

    /// Notes that the binding cycle of a pod does not begin after all.
    pub(crate) fn call_off(&mut self, pod: &Uid) {
        self.placed.remove(pod);
    }

    /// Reports the end of a binding cycle, if a placement began it.
    pub(crate) fn settle(&mut self, pod: &Uid, outcome: Result<Arc<str>, String>) {
        if self.placed.remove(pod) {
            self.settled.push(Settled { uid: pod.clone(), outcome });
        }
    }

    /// Returns the ends since the last call.
    pub(crate) fn drain(&mut self) -> Vec<Settled> {
        self.settled.drain(..).collect()
    }
}
