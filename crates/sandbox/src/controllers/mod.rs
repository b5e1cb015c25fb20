//! Small controllers, as far as scheduling needs them.
//!
//! ReplicaSets, Deployments, StatefulSets and Jobs get their pods, PodDisruptionBudgets their
//! status, claims their volumes, pods their claims from templates, namespaces their default
//! ServiceAccount. Claims and volumes in use are protected, and devices of ended pods are freed.
//! Dependents of deleted objects and pods of deleted nodes are removed. The work is proportional to
//! the changes. Left out on purpose: DaemonSets and CronJobs, eviction by taints, and rolling
//! updates.

mod deployment;
mod device_driver;
mod disruption;
mod ephemeral_volume;
mod event;
mod garbage_collector;
mod job;
mod owned_pods;
mod persistent_volume;
mod pod_gc;
mod provisioner;
mod replica_set;
mod resource_claim;
#[cfg(test)]
mod resource_claim_tests;
mod service_account;
mod stateful_set;
mod storage_protection;
#[cfg(test)]
mod storage_tests;
#[cfg(test)]
mod tests;
mod work_queue;

use std::time::Duration;

use framework::Time;

pub(crate) use disruption::budget_selector;

use crate::devices::Devices;
use crate::store::Store;

/// Maximum number of pods that a controller creates for one object in one step.
const BURST: i64 = 500;
/// Pause after the API refused a pod.
const RETRY: Duration = Duration::from_secs(5);

/// All controllers.
#[derive(Debug)]
pub struct Controllers {
    service_accounts: service_account::ServiceAccountController,
    deployments: deployment::DeploymentController,
    replica_sets: replica_set::ReplicaSetController,
    stateful_sets: stateful_set::StatefulSetController,
    jobs: job::JobController,
    ephemeral_volumes: ephemeral_volume::EphemeralVolumeController,
    persistent_volumes: persistent_volume::PersistentVolumeController,
    provisioner: provisioner::Provisioner,
    storage_protection: storage_protection::StorageProtectionController,
    resource_claims: resource_claim::ResourceClaimController,
    disruption: disruption::DisruptionController,
    garbage_collector: garbage_collector::GarbageCollector,
    pod_gc: pod_gc::PodGarbageCollector,
    device_driver: device_driver::DeviceDriver,
}

impl Default for Controllers {
    fn default() -> Self {
        Self::new()
    }
}

impl Controllers {
    /// Returns controllers that have seen no object yet.
    pub fn new() -> Self {
        Self {
            service_accounts: service_account::ServiceAccountController::new(),
            deployments: deployment::DeploymentController::new(),
            replica_sets: replica_set::ReplicaSetController::new(),
            stateful_sets: stateful_set::StatefulSetController::new(),
            jobs: job::JobController::new(),
            ephemeral_volumes: ephemeral_volume::EphemeralVolumeController::new(),
            persistent_volumes: persistent_volume::PersistentVolumeController::new(),
            provisioner: provisioner::Provisioner::new(),
            storage_protection: storage_protection::StorageProtectionController::new(),
            resource_claims: resource_claim::ResourceClaimController::new(),
            disruption: disruption::DisruptionController::new(),
            garbage_collector: garbage_collector::GarbageCollector::new(),
            pod_gc: pod_gc::PodGarbageCollector::new(),
            device_driver: device_driver::DeviceDriver::new(Devices::default()),
        }
    }

    /// Returns the controllers with these devices on every node without the annotation
    /// `sandbox.loadmaster.dev/devices`.
    pub fn with_devices(self, devices: Devices) -> Self {
        Self { device_driver: device_driver::DeviceDriver::new(devices), ..self }
    }

    /// Lets every controller act on the changes in the store and on what is due. One controller may
    /// react to the writes of another in the next step: call it until the version of the store
    /// stays, every few milliseconds while clients write, and at
    /// [`next_deadline`](Self::next_deadline).
    pub fn step(&mut self, store: &mut Store, now: Time) {
        self.device_driver.step(store, now);
        self.service_accounts.step(store, now);
        self.deployments.step(store, now);
        self.replica_sets.step(store, now);
        self.stateful_sets.step(store, now);
        self.jobs.step(store, now);
        self.ephemeral_volumes.step(store, now);
        self.persistent_volumes.step(store, now);
        self.provisioner.step(store, now);
        self.resource_claims.step(store, now);
        self.disruption.step(store, now);
        self.garbage_collector.step(store, now);
        self.pod_gc.step(store, now);
        self.storage_protection.step(store, now);
    }

    /// Returns the time of the next due work, if nothing changes until then.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.deployments.next_deadline(),
            self.replica_sets.next_deadline(),
            self.stateful_sets.next_deadline(),
            self.jobs.next_deadline(),
            self.provisioner.next_deadline(),
            self.resource_claims.next_deadline(),
            self.disruption.next_deadline(),
            self.pod_gc.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }
}
