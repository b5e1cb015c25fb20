//! Bounds of what has to leave a node, from the requests of pods.

use std::sync::Arc;

use framework::{Cluster, NodeIx, Pod, Resources, Verdicts};

use super::Movables;
use crate::Cost;

/// The plugin whose rejections are about requests.
const FIT: &str = "NodeResourcesFit";

/// An amount that the pod needs on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Need {
    /// A place among the pods of the node.
    Slot,
    MilliCpu(i64),
    Memory(i64),
    EphemeralStorage(i64),
    Scalar(Arc<str>, i64),
}

/// Bounds the cost of what has to leave a node before the pod fits there.
///
/// Moves to a node leave it less room, so what has to leave it costs no less after other moves.
#[derive(Debug)]
pub(super) struct Bounds {
    /// The needs that some node cannot meet.
    needs: Vec<Need>,
    /// Maximum number of moves.
    moves: usize,
}

/// The nodes with the most room for each need, by which some pods fit on no other node now.
#[derive(Debug)]
pub(super) struct Rooms(Vec<Room>);

/// The nodes with the most and the second most of a need.
#[derive(Debug)]
struct Room {
    need: Need,
    most: Option<(i64, NodeIx)>,
    second: i64,
}

impl Rooms {
    /// Whether a pod lacks room on every node but its own.
    pub(super) fn lack(&self, pod: &Pod, node: Option<NodeIx>) -> bool {
        self.0.iter().any(|room| {
            let free = match room.most {
                Some((free, own)) if Some(own) != node => free,
                Some(_) => room.second,
                None => return true,
            };
            room.need.amount_of(&pod.requests.fit) > free
        })
    }
}

/// Pods that may leave a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving<'p> {
    pub(super) node: NodeIx,
    pub(super) pods: &'p [usize],
    /// A pod that leaves, and whose cost does not count.
    pub(super) gone: Option<usize>,
}

impl Bounds {
    /// Reads from the verdicts of a decision which needs count. A resource that the profile
    /// ignores is in none of them.
    pub(super) fn new(pod: &Pod, verdicts: &Verdicts, moves: usize) -> Self {
        let own = |status: &&framework::Status| status.plugin().is_some_and(|name| **name == *FIT);
        let counts = verdicts.counts();
        let statuses = counts.iter().map(|(status, _)| *status).filter(own);
        let mut needs: Vec<Need> = Vec::new();
        for reason in statuses.flat_map(|status| status.reasons()) {
            let need = Need::of(&pod.requests.fit, reason);
            needs.extend(need.filter(|need| !needs.contains(need)));
        }
        Self { needs, moves }
    }

    /// Returns the least cost of what has to leave a node; `None` if the pod does not fit even when
    /// all of these pods leave, or if more have to leave than may move. Each pod that leaves counts
    /// with its part, so the bound is no larger than the cost.
    pub(super) fn cost(
        &self,
        leaving: Leaving<'_>,
        pods: &Movables<'_>,
        cluster: &Cluster,
    ) -> Option<Cost> {
        let mut costs = self.needs.iter().map(|need| {
            let freed = leaving.gone.map_or(0, |pod| need.freed_by(pods.pod(pod)));
            let missing = need.missing(leaving.node, cluster).saturating_sub(freed);
            self.cost_of(need, missing, leaving.pods, pods)
        });
        costs.try_fold(Cost::default(), |most, cost| Some(most.max(cost?)))
    }

    /// Returns the room for the needs that count.
    pub(super) fn rooms(&self, cluster: &Cluster) -> Rooms {
        let room = |need: &Need| {
            let mut room = Room { need: need.clone(), most: None, second: i64::MIN };
            for node in cluster.nodes().iter() {
                let free = need.free(node, cluster);
                match room.most {
                    Some((most, _)) if free <= most => room.second = room.second.max(free),
                    most => {
                        room.second = most.map_or(i64::MIN, |(most, _)| most);
                        room.most = Some((free, node));
                    }
                }
            }
            room
        };
        Rooms(self.needs.iter().map(room).collect())
    }

    fn cost_of(
        &self,
        need: &Need,
        mut missing: i64,
        leaving: &[usize],
        pods: &Movables<'_>,
    ) -> Option<Cost> {
        if missing <= 0 {
            return Some(Cost::default());
        }
        let amount = |pod: &usize| need.freed_by(pods.pod(*pod));
        let mut freeing: Vec<(i64, Cost)> =
            leaving.iter().map(|pod| (amount(pod), pods.cost(*pod))).collect();
        freeing.retain(|(amount, _)| *amount > 0);
        freeing.sort_unstable_by_key(|own| std::cmp::Reverse(own.0));
        let most =
            freeing.iter().take(self.moves).fold(0_i64, |sum, own| sum.saturating_add(own.0));
        if most < missing {
            return None;
        }
        // The cheapest for their amount first.
        freeing.sort_unstable_by(|a, b| {
            let [one, other] = [(a, b), (b, a)]
                .map(|(cost, amount)| u128::from(cost.1.0) * u128::from(amount.0.unsigned_abs()));
            one.cmp(&other)
        });
        let mut sum = Cost::default();
        for (amount, cost) in freeing {
            if amount >= missing {
                let part = u128::from(cost.0) * u128::from(missing.unsigned_abs());
                let part = part.div_ceil(u128::from(amount.unsigned_abs()));
                return Some(sum + Cost(u64::try_from(part).unwrap_or(cost.0)));
            }
            missing -= amount;
            sum = sum + cost;
        }
        None
    }
}

impl Need {
    /// Returns the need for which a node was rejected with this reason.
    fn of(requests: &Resources, reason: &str) -> Option<Self> {
        if reason == "Too many pods" {
            return Some(Self::Slot);
        }
        let resource = reason.strip_prefix("Insufficient ")?;
        Some(match resource {
            "cpu" => Self::MilliCpu(requests.milli_cpu),
            "memory" => Self::Memory(requests.memory),
            "ephemeral-storage" => Self::EphemeralStorage(requests.ephemeral_storage),
            name => Self::Scalar(name.into(), requests.scalar(name)),
        })
    }

    /// Returns the amount that is missing on a node.
    fn missing(&self, node: NodeIx, cluster: &Cluster) -> i64 {
        let amount = match self {
            Self::Slot => 1,
            Self::MilliCpu(amount)
            | Self::Memory(amount)
            | Self::EphemeralStorage(amount)
            | Self::Scalar(_, amount) => *amount,
        };
        amount.saturating_sub(self.free(node, cluster))
    }

    /// Returns the amount that is free on a node. Devices may provide a resource that a node does
    /// not offer itself.
    fn free(&self, node: NodeIx, cluster: &Cluster) -> i64 {
        let place = node.index();
        let (all, used) = (cluster.allocatable(), cluster.requested());
        let (all, used) = match self {
            Self::Slot => (cluster.allowed_pods()[place], cluster.pod_counts()[place]),
            Self::MilliCpu(_) => (all.milli_cpu[place], used.milli_cpu[place]),
            Self::Memory(_) => (all.memory[place], used.memory[place]),
            Self::EphemeralStorage(_) => {
                (all.ephemeral_storage[place], used.ephemeral_storage[place])
            }
            Self::Scalar(name, _) => {
                let own = cluster.scalar(name).map(|column| column.get(node)).unwrap_or_default();
                if own.allocatable == 0 && cluster.device_class_of_resource(name).is_some() {
                    return i64::MAX;
                }
                (own.allocatable, own.requested)
            }
        };
        all.saturating_sub(used)
    }

    fn freed_by(&self, pod: &Pod) -> i64 {
        self.amount_of(&pod.requests.placed)
    }

    fn amount_of(&self, requests: &Resources) -> i64 {
        match self {
            Self::Slot => 1,
            Self::MilliCpu(_) => requests.milli_cpu,
            Self::Memory(_) => requests.memory,
            Self::EphemeralStorage(_) => requests.ephemeral_storage,
            Self::Scalar(name, _) => requests.scalar(name),
        }
    }
}
