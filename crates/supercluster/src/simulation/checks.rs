//! The invariants, counted apart from schedulers and agents. Pods of other schedulers do not count:
//! nothing keeps them from taking the room of a commit.

use std::collections::HashMap;
use std::sync::Arc;

use framework::{CpuMemory, Node, Pod};

use crate::delegate::DelegateMark;

/// The room that bound pods use, and which pods were bound.
#[derive(Debug, Default)]
pub(super) struct Checks {
    free: HashMap<(usize, Arc<str>), (CpuMemory, i64)>,
    /// Number of binds of each original pod.
    binds: HashMap<Arc<str>, u32>,
    /// The delegates that run, by original pod.
    running: HashMap<Arc<str>, u32>,
    pub(super) overcommitted: u64,
    pub(super) bound_twice: u64,
    /// Number of binds for pods whose original is gone.
    pub(super) bound_in_vain: u64,
}

impl Checks {
    pub(super) fn add_node(&mut self, cluster: usize, node: &Node) {
        let (milli_cpu, memory) = (node.allocatable.milli_cpu, node.allocatable.memory);
        let free = CpuMemory { milli_cpu, memory };
        self.free.insert((cluster, node.name.clone()), (free, node.allowed_pods));
    }

    /// Handles a bind of a delegate. A pod that may be replaced is bound again when its delegate
    /// is gone.
    pub(super) fn bound(&mut self, cluster: usize, pod: &Pod, mark: &DelegateMark) {
        let origin = &mark.key.pod;
        let binds = self.binds.entry(origin.clone()).or_default();
        *binds += 1;
        let running = self.running.entry(origin.clone()).or_default();
        *running += 1;
        let is_twice = if mark.terms.is_some() { *running == 2 } else { *binds == 2 };
        self.bound_twice += u64::from(is_twice);
        self.count(cluster, pod, -1);
    }

    /// Notes that a bound delegate is gone.
    pub(super) fn gone(&mut self, cluster: usize, pod: &Pod, mark: Option<&DelegateMark>) {
        let running = mark.and_then(|mark| self.running.get_mut(&mark.key.pod));
        running.into_iter().for_each(|running| *running -= 1);
        self.count(cluster, pod, 1);
    }

    fn count(&mut self, cluster: usize, pod: &Pod, sign: i64) {
        let Some(node) = pod.node_name.clone() else { return };
        let placed = &pod.requests.placed;
        let Some((free, pods)) = self.free.get_mut(&(cluster, node)) else {
            self.overcommitted += u64::from(sign < 0);
            return;
        };
        free.milli_cpu += sign * placed.milli_cpu;
        free.memory += sign * placed.memory;
        *pods += sign;
        if sign < 0 && (free.milli_cpu < 0 || free.memory < 0 || *pods < 0) {
            self.overcommitted += 1;
        }
    }

    /// Number of original pods that were bound.
    pub(super) fn bound_pods(&self) -> usize {
        self.binds.len()
    }
}
