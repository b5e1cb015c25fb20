//! The pods that are placed in clusters, or are about to be, counted by workload.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use framework::{Pod, Uid};

/// Namespace and name of a workload.
type Workload = (Arc<str>, Arc<str>);

/// The placed pods by workload and cluster.
#[derive(Debug, Default)]
pub struct PlacedPods {
    counts: BTreeMap<Workload, BTreeMap<Arc<str>, u64>>,
    pods: HashMap<Uid, (Option<Workload>, Arc<str>)>,
}

impl PlacedPods {
    /// Returns the number of pods in each cluster that belong to the same workload: the pods of the
    /// same namespace with the same label `app.kubernetes.io/name`, or `app`.
    pub fn of_workload(&self, pod: &Pod) -> Option<&BTreeMap<Arc<str>, u64>> {
        self.counts.get(&workload(pod)?)
    }

    /// Counts a pod in a cluster, and no longer in another one.
    pub(super) fn insert(&mut self, pod: &Pod, cluster: &Arc<str>) {
        self.remove(&pod.uid);
        let workload = workload(pod);
        if let Some(workload) = &workload {
            let clusters = self.counts.entry(workload.clone()).or_default();
            *clusters.entry(cluster.clone()).or_default() += 1;
        }
        self.pods.insert(pod.uid.clone(), (workload, cluster.clone()));
    }

    /// Stops counting a pod.
    pub(super) fn remove(&mut self, pod: &Uid) {
        let Some((Some(workload), cluster)) = self.pods.remove(pod) else { return };
        let Some(clusters) = self.counts.get_mut(&workload) else { return };
        if let Some(count) = clusters.get_mut(&cluster) {
            *count -= 1;
            if *count == 0 {
                clusters.remove(&cluster);
            }
        }
        if clusters.is_empty() {
            self.counts.remove(&workload);
        }
    }
}

fn workload(pod: &Pod) -> Option<Workload> {
    let name = pod.labels.get("app.kubernetes.io/name").or_else(|| pod.labels.get("app"))?;
    Some((pod.key.namespace.clone(), name.into()))
}
