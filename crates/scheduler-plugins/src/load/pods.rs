//! What pods ask for and are expected to use.

use std::time::Duration;

use framework::{ContainerKind, NodeView, Pod, Time, api, parse_resource_list};
use serde::Deserialize;

/// The overhead of a pod.
pub(super) const OVERHEAD: &str = "/spec/overhead";

/// A pod that started less than this before a measurement is not in it.
const REPORTING_LAG: Duration = Duration::from_mins(1);

/// CPU in thousandths, and bytes of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    pub(super) milli_cpu: i64,
    pub(super) memory: i64,
}

impl Amounts {
    pub(super) fn of_list(list: &api::ResourceList) -> Self {
        let own = parse_resource_list(list, "", &mut Vec::new());
        Self { milli_cpu: own.milli_cpu, memory: own.memory }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            milli_cpu: self.milli_cpu.saturating_add(other.milli_cpu),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    /// Returns the higher amount of each.
    pub(super) fn or_more(self, other: Self) -> Self {
        Self {
            milli_cpu: self.milli_cpu.max(other.milli_cpu),
            memory: self.memory.max(other.memory),
        }
    }

    /// Returns the lower amount of each.
    pub(super) fn at_most(self, other: Self) -> Self {
        Self {
            milli_cpu: self.milli_cpu.min(other.milli_cpu),
            memory: self.memory.min(other.memory),
        }
    }
}

/// Returns what the pod requests.
pub(super) fn requests(pod: &Pod) -> Amounts {
    let placed = &pod.requests.placed;
    Amounts { milli_cpu: placed.milli_cpu, memory: placed.memory }
}

/// Returns the limits of the pod: those of the containers that run at the same time, and its
/// overhead. A container without a limit has 0.
pub(super) fn limits(pod: &Pod) -> Amounts {
    let (mut running, mut starting) = (Amounts::default(), Amounts::default());
    for container in pod.containers() {
        let own =
            Amounts { milli_cpu: container.limits.milli_cpu, memory: container.limits.memory };
        match container.kind {
            ContainerKind::App | ContainerKind::Sidecar => running = running.plus(own),
            ContainerKind::Init => starting = starting.or_more(running.plus(own)),
        }
    }
    running.or_more(starting).plus(overhead(pod))
}

/// Returns the overhead of the pod.
pub(super) fn overhead(pod: &Pod) -> Amounts {
    let list = pod.extra.get(OVERHEAD).and_then(|list| api::ResourceList::deserialize(list).ok());
    list.map(|list| Amounts::of_list(&list)).unwrap_or_default()
}

/// Returns the pods on the node that a measurement of this time does not contain: those that have
/// not started, or only a short time before.
pub(super) fn unmeasured<'a>(node: &NodeView<'a>, taken: Time) -> impl Iterator<Item = &'a Pod> {
    let later = move |pod: &&Pod| {
        pod.start_time.get().is_none_or(|started| taken.since(started) < REPORTING_LAG)
    };
    node.pods().map(|pod| &**pod).filter(later)
}
