//! The pods that run, and which of them may be moved.

use std::sync::Arc;
use std::time::Duration;

use framework::{Cluster, PodKey, Unmovable};

use crate::{Cost, Movable};

/// The pods that run.
#[derive(Debug, Clone, Default)]
pub struct RunningPods {
    /// The pods that may be moved.
    pub movable: Vec<Movable>,
    /// The others.
    pub kept: Vec<KeptPod>,
}

/// A running pod that is not moved.
#[derive(Debug, Clone)]
pub struct KeptPod {
    /// Its name.
    pub key: PodKey,
    /// Its node.
    pub node: Arc<str>,
    /// Why it is not moved.
    pub why: Unmovable,
}

impl RunningPods {
    /// Sorts the pods of a cluster; those of a priority above `highest_priority` are kept. The age
    /// of a pod counts up to the start of the newest one.
    pub fn of(cluster: &Cluster, highest_priority: i32) -> Self {
        let starts = cluster.pods().filter_map(|placed| placed.pod.start_time.get());
        let newest = starts.max();
        let mut running = Self::default();
        for node in cluster.nodes().iter() {
            for pod in cluster.node(node).pods() {
                match Unmovable::of(pod, highest_priority) {
                    Some(why) => running.kept.push(KeptPod {
                        key: pod.key.clone(),
                        node: cluster.node_name(node).clone(),
                        why,
                    }),
                    None => {
                        let age = pod.start_time.get().zip(newest);
                        let age = age.map_or(Duration::ZERO, |(start, newest)| newest.since(start));
                        let cost = Cost::of_move(pod, age);
                        running.movable.push(Movable { pod: pod.clone(), cost });
                    }
                }
            }
        }
        running
    }
}
