//! The kinds of a dump: all that the tools read.

use serde_json::Value;

/// Selects pods that have not ended. The others take no room, and the tools leave them out.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// A kind of objects in a dump.
#[derive(Debug)]
pub(super) struct DumpedKind {
    /// Its `apiVersion`.
    version: &'static str,
    /// Its plural with its group, as kubectl names it.
    pub(super) name: &'static str,
    /// Its kind.
    kind: &'static str,
}

const fn of(version: &'static str, name: &'static str, kind: &'static str) -> DumpedKind {
    DumpedKind { version, name, kind }
}

/// Nodes and namespaces come before what is in them, and the pods last.
pub(super) static KINDS: &[DumpedKind] = &[
    of("v1", "nodes", "Node"),
    of("v1", "namespaces", "Namespace"),
    of("v1", "limitranges", "LimitRange"),
    of("v1", "resourcequotas", "ResourceQuota"),
    of("scheduling.k8s.io/v1", "priorityclasses.scheduling.k8s.io", "PriorityClass"),
    of("node.k8s.io/v1", "runtimeclasses.node.k8s.io", "RuntimeClass"),
    of("v1", "services", "Service"),
    of("policy/v1", "poddisruptionbudgets.policy", "PodDisruptionBudget"),
    of("storage.k8s.io/v1", "storageclasses.storage.k8s.io", "StorageClass"),
    of("storage.k8s.io/v1", "csidrivers.storage.k8s.io", "CSIDriver"),
    of("storage.k8s.io/v1", "csinodes.storage.k8s.io", "CSINode"),
    of("storage.k8s.io/v1", "csistoragecapacities.storage.k8s.io", "CSIStorageCapacity"),
    of("storage.k8s.io/v1", "volumeattachments.storage.k8s.io", "VolumeAttachment"),
    of("v1", "persistentvolumes", "PersistentVolume"),
    of("v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    of("resource.k8s.io/v1", "deviceclasses.resource.k8s.io", "DeviceClass"),
    of("resource.k8s.io/v1", "resourceslices.resource.k8s.io", "ResourceSlice"),
    of("resource.k8s.io/v1", "resourceclaimtemplates.resource.k8s.io", "ResourceClaimTemplate"),
    of("resource.k8s.io/v1", "resourceclaims.resource.k8s.io", "ResourceClaim"),
    of("v1", "replicationcontrollers", "ReplicationController"),
    of("apps/v1", "deployments.apps", "Deployment"),
    of("apps/v1", "replicasets.apps", "ReplicaSet"),
    of("apps/v1", "statefulsets.apps", "StatefulSet"),
    of("apps/v1", "daemonsets.apps", "DaemonSet"),
    of("batch/v1", "cronjobs.batch", "CronJob"),
    of("batch/v1", "jobs.batch", "Job"),
    of("jobset.x-k8s.io/v1alpha2", "jobsets.jobset.x-k8s.io", "JobSet"),
    of(
        "leaderworkerset.x-k8s.io/v1",
        "leaderworkersets.leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
    ),
    of("ray.io/v1", "rayclusters.ray.io", "RayCluster"),
    of("ray.io/v1", "rayjobs.ray.io", "RayJob"),
    of("kubeflow.org/v1", "pytorchjobs.kubeflow.org", "PyTorchJob"),
    of("kubeflow.org/v2beta1", "mpijobs.kubeflow.org", "MPIJob"),
    of(
        "trainer.kubeflow.org/v1alpha1",
        "clustertrainingruntimes.trainer.kubeflow.org",
        "ClusterTrainingRuntime",
    ),
    of("trainer.kubeflow.org/v1alpha1", "trainingruntimes.trainer.kubeflow.org", "TrainingRuntime"),
    of("trainer.kubeflow.org/v1alpha1", "trainjobs.trainer.kubeflow.org", "TrainJob"),
    of("batch.volcano.sh/v1alpha1", "jobs.batch.volcano.sh", "Job"),
    of("argoproj.io/v1alpha1", "rollouts.argoproj.io", "Rollout"),
    of("scheduling.k8s.io/v1alpha2", "podgroups.scheduling.k8s.io", "PodGroup"),
    of("v1", "pods", "Pod"),
];

impl DumpedKind {
    /// Returns the path of its list over all namespaces.
    pub(super) fn path(&self) -> String {
        let plural = self.name.split('.').next().unwrap_or_default();
        let root = if self.version.contains('/') { "/apis" } else { "/api" };
        format!("{root}/{}/{plural}", self.version)
    }

    pub(super) fn field_selector(&self) -> Option<&'static str> {
        (self.kind == "Pod").then_some(NOT_ENDED)
    }

    /// Whether a dump without the kind is of no use.
    pub(super) fn is_needed(&self) -> bool {
        matches!(self.kind, "Node" | "Pod")
    }

    /// Sets version and kind of an object, which the items of a list do not have.
    pub(super) fn complete(&self, object: &mut Value) {
        if let Value::Object(fields) = object {
            fields.insert("apiVersion".to_owned(), self.version.into());
            fields.insert("kind".to_owned(), self.kind.into());
        }
    }
}
