//! Invariants after a wave has come to rest.

use std::sync::Arc;

use framework::NodeIx;
use sandbox::resources::PODS;
use serde_json::Value;

use super::preemptions::Preemption;
use super::world::World;

impl World {
    /// Checks that each preemptor was bound after its evictions, and that each victim has its
    /// event.
    pub(crate) fn assert_every_preemption_served(&self) {
        for Preemption { preemptor, victims, .. } in &self.preemptions {
            assert!(self.bound.contains(&preemptor.uid), "{} evicted in vain", preemptor.key);
            let untold = victims.iter().find(|victim| !self.told.contains(&victim.uid));
            assert!(untold.is_none(), "{untold:?} has no event");
        }
    }

    /// Checks that every pod of a wave has a node, also if it was evicted meanwhile, and that every
    /// other pod has a reason.
    pub(crate) fn assert_waves_bound(&self) {
        let waits = |pod: &&Arc<Value>| pod["spec"]["nodeName"].is_null();
        for pod in self.store.objects(PODS).filter(waits) {
            assert_eq!(pod["spec"]["priority"], 0, "{pod} waits");
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let is_told = conditions.any(|condition| condition["reason"] == "Unschedulable");
            assert!(is_told, "{pod} waits without being told why");
        }
    }

    /// Checks that no node is overcommitted, for the scheduler and for its kubelet.
    pub(crate) fn assert_nothing_overcommitted(&self) {
        let cluster = self.replica.scheduler.engine().cluster();
        let is_overcommitted = |node: &NodeIx| {
            let node = cluster.node(*node);
            let (used, room) = (node.requested(), node.allocatable());
            used.milli_cpu > room.milli_cpu || used.memory > room.memory
        };
        let overcommitted = cluster.nodes().iter().find(is_overcommitted);
        assert_eq!(overcommitted.map(|node| cluster.node_name(node)), None);
        let turned_away = self.store.objects(PODS).find(|pod| pod["status"]["phase"] == "Failed");
        assert!(turned_away.is_none(), "{turned_away:?}");
        let running = self.store.objects(PODS).filter(|pod| pod["status"]["phase"] == "Running");
        assert_eq!(running.count(), cluster.pods().count(), "all pods that are placed run");
    }
}
