//! The kinds of the Kubernetes API that Loadmaster reads, writes or serves, in one table.
//!
//! Everything that names a kind takes group, version and plural from here: the watches, dumps and
//! manifests, the labels of cluster events, and the sandbox.

/// The version of Kubernetes whose kinds these are.
pub const KUBERNETES: &str = "1.36";

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Its name, for example `ReplicaSet`.
    pub name: &'static str,
    /// API group, empty for the core group.
    pub group: &'static str,
    /// The version of the group in which Loadmaster reads and writes its objects.
    pub version: &'static str,
    /// Name in paths, for example `replicasets`.
    pub plural: &'static str,
    /// Group and version: `v1`, `apps/v1`.
    pub api_version: &'static str,
    /// Plural and group, as in RBAC rules and kubectl: `pods`, `replicasets.apps`.
    pub resource: &'static str,
    /// `<plural>.<version>[.<group>]`, by which plugins name kinds.
    pub versioned_resource: &'static str,
    /// Name for kubectl, for example `replicaset`.
    pub singular: &'static str,
    /// Group and name, for example `apps/ReplicaSet`, as in the labels of cluster events.
    pub qualified: &'static str,
    /// Whether its objects belong to namespaces.
    pub namespaced: bool,
    /// Whether it belongs to Kubernetes itself.
    pub built_in: bool,
}

impl Kind {
    /// Returns the path of its list over all namespaces.
    pub fn path(&self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        format!("{root}/{}/{}", self.api_version, self.plural)
    }

    /// Returns the kind in the version in which later releases of Kubernetes serve it, if its
    /// objects have the same form there.
    pub fn newer(&self) -> Option<&'static Self> {
        match self.versioned_resource {
            own if own == DEVICE_TAINT_RULE.versioned_resource => Some(DEVICE_TAINT_RULE_V1),
            own if own == POD_GROUP.versioned_resource => Some(POD_GROUP_V1BETA1),
            _ => None,
        }
    }
}

/// `PodGroup`, version `v1beta1`, which Kubernetes serves since 1.37.
pub const POD_GROUP_V1BETA1: &Kind = &Kind {
    version: "v1beta1",
    api_version: "scheduling.k8s.io/v1beta1",
    versioned_resource: "podgroups.v1beta1.scheduling.k8s.io",
    ..*POD_GROUP
};

/// `DeviceTaintRule`, version `v1`, which Kubernetes serves since 1.37.
pub const DEVICE_TAINT_RULE_V1: &Kind = &Kind {
    version: "v1",
    api_version: "resource.k8s.io/v1",
    versioned_resource: "devicetaintrules.v1.resource.k8s.io",
    ..*DEVICE_TAINT_RULE
};

/// Returns the kind of objects with this `apiVersion` and `kind`. An object of a
/// [newer](Kind::newer) version is one of the kind.
pub fn find(api_version: &str, kind: &str) -> Option<&'static Kind> {
    ALL.iter().copied().find(|own| {
        let is_newer = || own.newer().is_some_and(|newer| newer.api_version == api_version);
        own.name == kind && (own.api_version == api_version || is_newer())
    })
}

const fn lowercase<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        bytes[at] = text.as_bytes()[at].to_ascii_lowercase();
        at += 1;
    }
    bytes
}

/// Defines the kinds as constants, and [`ALL`] in the same order. A row: constant, group, version,
/// name, plural and scope.
macro_rules! kinds {
    ($($const:ident = $group:literal $version:literal $name:literal $plural:literal
        $scope:ident $origin:ident;)*) => {
        $(
            #[doc = concat!("`", $name, "`, version `", $version, "`.")]
            pub const $const: &Kind = &Kind {
                name: $name,
                group: $group,
                version: $version,
                plural: $plural,
                api_version: match $group.is_empty() {
                    true => $version,
                    false => concat!($group, "/", $version),
                },
                resource: match $group.is_empty() {
                    true => $plural,
                    false => concat!($plural, ".", $group),
                },
                versioned_resource: match $group.is_empty() {
                    true => concat!($plural, ".", $version),
                    false => concat!($plural, ".", $version, ".", $group),
                },
                singular: {
                    const LOWER: [u8; $name.len()] = lowercase($name);
                    match str::from_utf8(&LOWER) {
                        Ok(singular) => singular,
                        Err(_) => $name,
                    }
                },
                qualified: match $group.is_empty() {
                    true => $name,
                    false => concat!($group, "/", $name),
                },
                namespaced: matches!(Scope::$scope, Scope::Namespaced),
                built_in: matches!(Origin::$origin, Origin::Kubernetes),
            };
        )*

        /// Every kind, by group.
        pub const ALL: &[&Kind] = &[$($const),*];
    };
}

enum Scope {
    Namespaced,
    Cluster,
}

enum Origin {
    Kubernetes,
    Other,
}

kinds! {
    BINDING = "" "v1" "Binding" "bindings" Namespaced Kubernetes;
    CONFIG_MAP = "" "v1" "ConfigMap" "configmaps" Namespaced Kubernetes;
    ENDPOINTS = "" "v1" "Endpoints" "endpoints" Namespaced Kubernetes;
    EVENT = "" "v1" "Event" "events" Namespaced Kubernetes;
    LIMIT_RANGE = "" "v1" "LimitRange" "limitranges" Namespaced Kubernetes;
    NAMESPACE = "" "v1" "Namespace" "namespaces" Cluster Kubernetes;
    NODE = "" "v1" "Node" "nodes" Cluster Kubernetes;
    PERSISTENT_VOLUME = "" "v1" "PersistentVolume" "persistentvolumes" Cluster Kubernetes;
    PERSISTENT_VOLUME_CLAIM = "" "v1" "PersistentVolumeClaim"
        "persistentvolumeclaims" Namespaced Kubernetes;
    POD = "" "v1" "Pod" "pods" Namespaced Kubernetes;
    POD_TEMPLATE = "" "v1" "PodTemplate" "podtemplates" Namespaced Kubernetes;
    REPLICATION_CONTROLLER = "" "v1" "ReplicationController"
        "replicationcontrollers" Namespaced Kubernetes;
    RESOURCE_QUOTA = "" "v1" "ResourceQuota" "resourcequotas" Namespaced Kubernetes;
    SECRET = "" "v1" "Secret" "secrets" Namespaced Kubernetes;
    SERVICE = "" "v1" "Service" "services" Namespaced Kubernetes;
    SERVICE_ACCOUNT = "" "v1" "ServiceAccount" "serviceaccounts" Namespaced Kubernetes;

    CUSTOM_RESOURCE_DEFINITION = "apiextensions.k8s.io" "v1" "CustomResourceDefinition"
        "customresourcedefinitions" Cluster Kubernetes;

    CONTROLLER_REVISION = "apps" "v1" "ControllerRevision"
        "controllerrevisions" Namespaced Kubernetes;
    DAEMON_SET = "apps" "v1" "DaemonSet" "daemonsets" Namespaced Kubernetes;
    DEPLOYMENT = "apps" "v1" "Deployment" "deployments" Namespaced Kubernetes;
    REPLICA_SET = "apps" "v1" "ReplicaSet" "replicasets" Namespaced Kubernetes;
    STATEFUL_SET = "apps" "v1" "StatefulSet" "statefulsets" Namespaced Kubernetes;

    SELF_SUBJECT_REVIEW = "authentication.k8s.io" "v1" "SelfSubjectReview"
        "selfsubjectreviews" Cluster Kubernetes;
    TOKEN_REVIEW = "authentication.k8s.io" "v1" "TokenReview" "tokenreviews" Cluster Kubernetes;

    LOCAL_SUBJECT_ACCESS_REVIEW = "authorization.k8s.io" "v1" "LocalSubjectAccessReview"
        "localsubjectaccessreviews" Namespaced Kubernetes;
    SELF_SUBJECT_ACCESS_REVIEW = "authorization.k8s.io" "v1" "SelfSubjectAccessReview"
        "selfsubjectaccessreviews" Cluster Kubernetes;
    SELF_SUBJECT_RULES_REVIEW = "authorization.k8s.io" "v1" "SelfSubjectRulesReview"
        "selfsubjectrulesreviews" Cluster Kubernetes;
    SUBJECT_ACCESS_REVIEW = "authorization.k8s.io" "v1" "SubjectAccessReview"
        "subjectaccessreviews" Cluster Kubernetes;

    HORIZONTAL_POD_AUTOSCALER = "autoscaling" "v2" "HorizontalPodAutoscaler"
        "horizontalpodautoscalers" Namespaced Kubernetes;

    CRON_JOB = "batch" "v1" "CronJob" "cronjobs" Namespaced Kubernetes;
    JOB = "batch" "v1" "Job" "jobs" Namespaced Kubernetes;

    LEASE = "coordination.k8s.io" "v1" "Lease" "leases" Namespaced Kubernetes;

    ENDPOINT_SLICE = "discovery.k8s.io" "v1" "EndpointSlice" "endpointslices" Namespaced Kubernetes;

    EVENT_OF_EVENTS = "events.k8s.io" "v1" "Event" "events" Namespaced Kubernetes;

    FLOW_SCHEMA = "flowcontrol.apiserver.k8s.io" "v1" "FlowSchema" "flowschemas" Cluster Kubernetes;
    PRIORITY_LEVEL_CONFIGURATION = "flowcontrol.apiserver.k8s.io" "v1" "PriorityLevelConfiguration"
        "prioritylevelconfigurations" Cluster Kubernetes;

    INGRESS = "networking.k8s.io" "v1" "Ingress" "ingresses" Namespaced Kubernetes;
    INGRESS_CLASS = "networking.k8s.io" "v1" "IngressClass" "ingressclasses" Cluster Kubernetes;
    NETWORK_POLICY = "networking.k8s.io" "v1" "NetworkPolicy"
        "networkpolicies" Namespaced Kubernetes;

    RUNTIME_CLASS = "node.k8s.io" "v1" "RuntimeClass" "runtimeclasses" Cluster Kubernetes;

    POD_DISRUPTION_BUDGET = "policy" "v1" "PodDisruptionBudget"
        "poddisruptionbudgets" Namespaced Kubernetes;

    CLUSTER_ROLE = "rbac.authorization.k8s.io" "v1" "ClusterRole" "clusterroles" Cluster Kubernetes;
    CLUSTER_ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "ClusterRoleBinding"
        "clusterrolebindings" Cluster Kubernetes;
    ROLE = "rbac.authorization.k8s.io" "v1" "Role" "roles" Namespaced Kubernetes;
    ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "RoleBinding"
        "rolebindings" Namespaced Kubernetes;

    DEVICE_CLASS = "resource.k8s.io" "v1" "DeviceClass" "deviceclasses" Cluster Kubernetes;
    DEVICE_TAINT_RULE = "resource.k8s.io" "v1beta2" "DeviceTaintRule"
        "devicetaintrules" Cluster Kubernetes;
    RESOURCE_CLAIM = "resource.k8s.io" "v1" "ResourceClaim" "resourceclaims" Namespaced Kubernetes;
    RESOURCE_CLAIM_TEMPLATE = "resource.k8s.io" "v1" "ResourceClaimTemplate"
        "resourceclaimtemplates" Namespaced Kubernetes;
    RESOURCE_SLICE = "resource.k8s.io" "v1" "ResourceSlice" "resourceslices" Cluster Kubernetes;

    POD_GROUP = "scheduling.k8s.io" "v1alpha2" "PodGroup" "podgroups" Namespaced Kubernetes;
    PRIORITY_CLASS = "scheduling.k8s.io" "v1" "PriorityClass" "priorityclasses" Cluster Kubernetes;

    CSI_DRIVER = "storage.k8s.io" "v1" "CSIDriver" "csidrivers" Cluster Kubernetes;
    CSI_NODE = "storage.k8s.io" "v1" "CSINode" "csinodes" Cluster Kubernetes;
    CSI_STORAGE_CAPACITY = "storage.k8s.io" "v1" "CSIStorageCapacity"
        "csistoragecapacities" Namespaced Kubernetes;
    STORAGE_CLASS = "storage.k8s.io" "v1" "StorageClass" "storageclasses" Cluster Kubernetes;
    VOLUME_ATTACHMENT = "storage.k8s.io" "v1" "VolumeAttachment"
        "volumeattachments" Cluster Kubernetes;
    VOLUME_ATTRIBUTES_CLASS = "storage.k8s.io" "v1" "VolumeAttributesClass"
        "volumeattributesclasses" Cluster Kubernetes;

    ROLLOUT = "argoproj.io" "v1alpha1" "Rollout" "rollouts" Namespaced Other;

    VOLCANO_JOB = "batch.volcano.sh" "v1alpha1" "Job" "jobs" Namespaced Other;

    JOB_SET = "jobset.x-k8s.io" "v1alpha2" "JobSet" "jobsets" Namespaced Other;

    MPI_JOB = "kubeflow.org" "v2beta1" "MPIJob" "mpijobs" Namespaced Other;
    PYTORCH_JOB = "kubeflow.org" "v1" "PyTorchJob" "pytorchjobs" Namespaced Other;

    LEADER_WORKER_SET = "leaderworkerset.x-k8s.io" "v1" "LeaderWorkerSet"
        "leaderworkersets" Namespaced Other;

    RAY_CLUSTER = "ray.io" "v1" "RayCluster" "rayclusters" Namespaced Other;
    RAY_JOB = "ray.io" "v1" "RayJob" "rayjobs" Namespaced Other;

    COSCHEDULING_POD_GROUP = "scheduling.x-k8s.io" "v1alpha1" "PodGroup"
        "podgroups" Namespaced Other;
    ELASTIC_QUOTA = "scheduling.x-k8s.io" "v1alpha1" "ElasticQuota"
        "elasticquotas" Namespaced Other;

    CLUSTER_TRAINING_RUNTIME = "trainer.kubeflow.org" "v1alpha1" "ClusterTrainingRuntime"
        "clustertrainingruntimes" Cluster Other;
    TRAIN_JOB = "trainer.kubeflow.org" "v1alpha1" "TrainJob" "trainjobs" Namespaced Other;
    TRAINING_RUNTIME = "trainer.kubeflow.org" "v1alpha1" "TrainingRuntime"
        "trainingruntimes" Namespaced Other;
}

/// Further kinds of Kubernetes, to tell a misspelt kind from one that nothing reads.
#[derive(Debug)]
pub struct OtherKinds {
    /// Their API group.
    pub group: &'static str,
    /// Their names.
    pub names: &'static [&'static str],
}

/// The kinds of Kubernetes that are not in [`ALL`].
pub const OTHERS: &[OtherKinds] = &[
    OtherKinds { group: "", names: &["ComponentStatus"] },
    OtherKinds {
        group: "admissionregistration.k8s.io",
        names: &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    },
    OtherKinds { group: "apiregistration.k8s.io", names: &["APIService"] },
    OtherKinds { group: "autoscaling", names: &["Scale"] },
    OtherKinds {
        group: "certificates.k8s.io",
        names: &["CertificateSigningRequest", "ClusterTrustBundle", "PodCertificateRequest"],
    },
    OtherKinds { group: "coordination.k8s.io", names: &["LeaseCandidate"] },
    OtherKinds { group: "networking.k8s.io", names: &["IPAddress", "ServiceCIDR"] },
    OtherKinds { group: "policy", names: &["Eviction"] },
    OtherKinds { group: "resource.k8s.io", names: &["ResourcePoolStatusRequest"] },
    OtherKinds { group: "scheduling.k8s.io", names: &["Workload"] },
    OtherKinds { group: "storagemigration.k8s.io", names: &["StorageVersionMigration"] },
];

/// Returns the kinds of Kubernetes, each with its group.
pub fn of_kubernetes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = ALL.iter().filter(|kind| kind.built_in).map(|kind| (kind.group, kind.name));
    let others = OTHERS.iter().flat_map(|own| own.names.iter().map(|name| (own.group, *name)));
    own.chain(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_group_version_and_plural() {
        let rows = [
            (POD, "v1", "pods", "pods.v1", "/api/v1/pods", "Pod"),
            (
                CSI_NODE,
                "storage.k8s.io/v1",
                "csinodes.storage.k8s.io",
                "csinodes.v1.storage.k8s.io",
                "/apis/storage.k8s.io/v1/csinodes",
                "storage.k8s.io/CSINode",
            ),
        ];
        for (kind, api_version, resource, versioned, path, qualified) in rows {
            assert_eq!(kind.api_version, api_version);
            assert_eq!(kind.resource, resource);
            assert_eq!(kind.versioned_resource, versioned);
            assert_eq!(kind.path(), path);
            assert_eq!(kind.qualified, qualified);
            assert_eq!(find(api_version, kind.name), Some(kind));
        }
        assert_eq!(find("resource.k8s.io/v1", "DeviceTaintRule"), Some(DEVICE_TAINT_RULE));
        assert_eq!(DEVICE_TAINT_RULE_V1.path(), "/apis/resource.k8s.io/v1/devicetaintrules");
        assert_eq!(CSI_NODE.singular, "csinode");
        assert_eq!(find("apps/v1", "Pod"), None);
    }

    #[test]
    fn no_kind_is_in_the_table_twice() {
        let all: Vec<_> = of_kubernetes().collect();
        for (index, kind) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(kind), "{kind:?}");
        }
        for kind in ALL {
            assert_eq!(find(kind.api_version, kind.name), Some(*kind));
        }
    }
}
