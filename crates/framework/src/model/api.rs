//! Lean Kubernetes API types: the JSON fields that a scheduler reads.
//!
//! They decode the JSON of the API server or of `kubectl get -o json`, and are converted at once
//! into the compact [`Pod`](crate::Pod) and [`Node`](crate::Node). Unknown fields are skipped,
//! `null` reads as absent, and quantities stay text until the conversion. They do not carry every
//! field, so they are never used for writes.

use std::collections::BTreeMap;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

/// A quantity as written. The conversion of the object parses it, and reports errors with its path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct QuantityText(pub String);

impl<'de> Deserialize<'de> for QuantityText {
    /// Accepts text and bare numbers, as the API server does.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Ok(Self(text)),
            serde_json::Value::Number(number) => Ok(Self(number.to_string())),
            other => Err(D::Error::custom(format!("a quantity is text or a number, not {other}"))),
        }
    }
}

/// Resource name to quantity.
pub type ResourceList = BTreeMap<String, QuantityText>;

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Declares a lean API struct: every field optional in JSON, `null` read as absent.
macro_rules! api {
    ($($(#[$meta:meta])* struct $name:ident { $($(#[$fmeta:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $($(#[$fmeta])* #[serde(deserialize_with = "or_default")] pub $field: $ty,)*
        }
    )*};
}

mod device;
pub use device::*;

api! {
    /// `metadata` of any object.
    struct ObjectMeta {
        /// Object name.
        name: String,
        /// Namespace, empty for cluster-scoped objects.
        namespace: String,
        /// Unique id over the lifetime of the cluster.
        uid: String,
        /// Labels.
        labels: BTreeMap<String, String>,
        /// Annotations.
        annotations: BTreeMap<String, String>,
        /// Opaque version of the object.
        resource_version: String,
        /// Generation of the desired state.
        generation: i64,
        /// RFC 3339 time of creation.
        creation_timestamp: Option<String>,
        /// RFC 3339 time from which the object is being deleted.
        deletion_timestamp: Option<String>,
        /// Owners of the object.
        owner_references: Vec<OwnerReference>,
        /// Controllers that act before the object is removed.
        finalizers: Vec<String>,
    }

    /// An owner of an object.
    struct OwnerReference {
        /// API version of the owner.
        api_version: String,
        /// Kind of the owner.
        kind: String,
        /// Name of the owner.
        name: String,
        /// UID of the owner.
        uid: String,
        /// Whether the owner is the controller.
        controller: bool,
    }

    /// A `v1` Pod.
    struct Pod {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: PodSpec,
        /// Observed state.
        status: PodStatus,
    }

    /// `spec` of a Pod.
    struct PodSpec {
        /// Node the pod is assigned to; empty while unassigned.
        node_name: String,
        /// Name of the responsible scheduler.
        scheduler_name: String,
        /// Priority; absent counts as 0.
        priority: Option<i32>,
        /// `PreemptLowerPriority` (default) or `Never`.
        preemption_policy: Option<String>,
        /// Required labels of the node. An empty map differs from an absent one.
        node_selector: Option<BTreeMap<String, String>>,
        /// Node and pod affinity.
        affinity: Option<Affinity>,
        /// Tolerations.
        tolerations: Vec<Toleration>,
        /// Regular containers.
        containers: Vec<Container>,
        /// Init containers, sidecars (`restartPolicy: Always`) among them.
        init_containers: Vec<Container>,
        /// Overhead of the runtime class.
        overhead: ResourceList,
        /// Pod-level resources.
        resources: Option<ResourceRequirements>,
        /// Gates that keep the pod from being scheduled.
        scheduling_gates: Vec<SchedulingGate>,
        /// Topology spread constraints.
        topology_spread_constraints: Vec<TopologySpreadConstraint>,
        /// Volumes.
        volumes: Vec<Volume>,
        /// Claims for dynamic resources.
        resource_claims: Vec<PodResourceClaim>,
        /// Whether the pod uses the network of the host.
        host_network: bool,
        /// Whether the pod uses the user namespace of the host; absent counts as true.
        host_users: Option<bool>,
    }

    /// `status` of a Pod.
    struct PodStatus {
        /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        phase: String,
        /// The node that is nominated for the pod.
        nominated_node_name: String,
        /// RFC 3339 time at which the kubelet acknowledged the pod.
        start_time: Option<String>,
        /// Conditions.
        conditions: Vec<PodCondition>,
        /// Statuses of the regular containers.
        container_statuses: Vec<ContainerStatus>,
        /// Statuses of the init containers.
        init_container_statuses: Vec<ContainerStatus>,
        /// Pod-level resources as actuated.
        resources: Option<ResourceRequirements>,
        /// Pod-level resources as admitted.
        allocated_resources: ResourceList,
        /// Generated resource claims.
        resource_claim_statuses: Vec<PodResourceClaimStatus>,
        /// The claim generated for extended resources, used to detect changes.
        extended_resource_claim_status: Option<serde_json::Value>,
    }

    /// A condition of a pod.
    struct PodCondition {
        /// Type, for example `PodScheduled`.
        #[serde(rename = "type")]
        type_: String,
        /// `True`, `False` or `Unknown`.
        status: String,
        /// Machine-readable reason.
        reason: String,
        /// Text for people.
        message: String,
    }

    /// Status of a container.
    struct ContainerStatus {
        /// Container name.
        name: String,
        /// Resources as actuated.
        resources: Option<ResourceRequirements>,
        /// Resources as admitted.
        allocated_resources: ResourceList,
    }

    /// A container.
    struct Container {
        /// Container name.
        name: String,
        /// Image reference.
        image: String,
        /// Requests and limits.
        resources: ResourceRequirements,
        /// Ports.
        ports: Vec<ContainerPort>,
        /// `Always` makes an init container a sidecar.
        restart_policy: Option<String>,
        /// Rules for container exits.
        restart_policy_rules: Vec<ContainerRestartRule>,
    }

    /// A rule for the exit of a container.
    struct ContainerRestartRule {
        /// The action, for example `RestartAllContainers`.
        action: String,
    }

    /// Requests and limits.
    struct ResourceRequirements {
        /// Limits.
        limits: ResourceList,
        /// Requests.
        requests: ResourceList,
    }

    /// A port of a container.
    struct ContainerPort {
        /// Port inside the container.
        container_port: i32,
        /// Port of the node; 0 for none.
        host_port: i32,
        /// Address of the node; empty for all.
        #[serde(rename = "hostIP")]
        host_ip: String,
        /// Protocol; empty means `TCP`.
        protocol: String,
    }

    /// A scheduling gate.
    struct SchedulingGate {
        /// Gate name.
        name: String,
    }

    /// A toleration.
    struct Toleration {
        /// Taint key; empty matches every key.
        key: String,
        /// `Equal` (also when empty), `Exists`, `Lt` or `Gt`.
        operator: String,
        /// Taint value.
        value: String,
        /// Taint effect; empty matches every effect.
        effect: String,
    }

    /// A taint of a node.
    struct Taint {
        /// Taint key.
        key: String,
        /// Taint value.
        value: String,
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        effect: String,
    }

    /// Affinity rules of a pod.
    struct Affinity {
        /// Rules on nodes.
        node_affinity: Option<NodeAffinity>,
        /// Attraction to other pods.
        pod_affinity: Option<PodAffinity>,
        /// Repulsion from other pods.
        pod_anti_affinity: Option<PodAffinity>,
    }

    /// Node affinity.
    struct NodeAffinity {
        /// The required terms.
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Option<NodeSelector>,
        /// The preferred terms. An absent list differs from an empty one.
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        preferred: Option<Vec<PreferredSchedulingTerm>>,
    }

    /// A node selector: alternatives, one of which must match.
    struct NodeSelector {
        /// Terms, combined with OR.
        node_selector_terms: Vec<NodeSelectorTerm>,
    }

    /// Requirements on one node, combined with AND.
    struct NodeSelectorTerm {
        /// Requirements on labels.
        match_expressions: Vec<SelectorRequirement>,
        /// Requirements on fields.
        match_fields: Vec<SelectorRequirement>,
    }

    /// One requirement of a selector.
    struct SelectorRequirement {
        /// Label key or field path.
        key: String,
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
        operator: String,
        /// Values.
        values: Vec<String>,
    }

    /// A weighted preference for nodes.
    struct PreferredSchedulingTerm {
        /// Weight, 1 to 100.
        weight: i32,
        /// The preference.
        preference: NodeSelectorTerm,
    }

    /// Pod affinity or anti-affinity.
    struct PodAffinity {
        /// The required terms.
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Vec<PodAffinityTerm>,
        /// The preferred terms.
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        preferred: Vec<WeightedPodAffinityTerm>,
    }

    /// A term on the pods of a topology domain.
    struct PodAffinityTerm {
        /// Selects the pods by label; absent selects none.
        label_selector: Option<LabelSelector>,
        /// Selects the pods by namespace.
        namespaces: Vec<String>,
        /// Selects further namespaces by their labels.
        namespace_selector: Option<LabelSelector>,
        /// The node label whose value names the domain.
        topology_key: String,
        /// Label keys of the pod whose values are added to the selector by the API server.
        match_label_keys: Vec<String>,
        /// Label keys of the pod whose values are excluded from the selector by the API server.
        mismatch_label_keys: Vec<String>,
    }

    /// A weighted term.
    struct WeightedPodAffinityTerm {
        /// Weight, 1 to 100.
        weight: i32,
        /// The term.
        pod_affinity_term: PodAffinityTerm,
    }

    /// A label selector.
    struct LabelSelector {
        /// Exact pairs.
        match_labels: BTreeMap<String, String>,
        /// Further requirements.
        match_expressions: Vec<SelectorRequirement>,
    }

    /// A topology spread constraint.
    struct TopologySpreadConstraint {
        /// Maximum difference between domains.
        max_skew: i32,
        /// The node label whose value names the domain.
        topology_key: String,
        /// `DoNotSchedule` or `ScheduleAnyway`.
        when_unsatisfiable: String,
        /// Selects the counted pods.
        label_selector: Option<LabelSelector>,
        /// Minimum number of domains.
        min_domains: Option<i32>,
        /// `Honor` (default) or `Ignore`.
        node_affinity_policy: Option<String>,
        /// `Honor` or `Ignore` (default).
        node_taints_policy: Option<String>,
        /// Label keys of the pod whose values are added to the selector.
        match_label_keys: Vec<String>,
    }

    /// A volume; only the fields that affect placement.
    struct Volume {
        /// Volume name.
        name: String,
        /// Reference to a claim.
        persistent_volume_claim: Option<ClaimVolumeSource>,
        /// The template of a claim that the ephemeral volume controller creates.
        ephemeral: Option<serde_json::Value>,
        /// An image mounted as a volume.
        image: Option<ImageVolumeSource>,
        /// An inline CSI volume.
        csi: Option<CsiVolumeSource>,
        /// In-tree disk.
        aws_elastic_block_store: Option<serde_json::Value>,
        /// In-tree disk.
        azure_disk: Option<serde_json::Value>,
        /// In-tree file share.
        azure_file: Option<serde_json::Value>,
        /// In-tree disk.
        cinder: Option<serde_json::Value>,
        /// In-tree disk.
        gce_persistent_disk: Option<serde_json::Value>,
        /// In-tree disk.
        iscsi: Option<serde_json::Value>,
        /// In-tree volume.
        portworx_volume: Option<serde_json::Value>,
        /// In-tree disk.
        rbd: Option<serde_json::Value>,
        /// In-tree disk.
        vsphere_volume: Option<serde_json::Value>,
    }

    /// Reference to a claim in the namespace of the pod.
    struct ClaimVolumeSource {
        /// Claim name.
        claim_name: String,
    }

    /// Reference to an image.
    struct ImageVolumeSource {
        /// Image reference.
        reference: String,
    }

    /// Reference to a resource claim.
    struct PodResourceClaim {
        /// Name within the pod.
        name: String,
        /// Name of the ResourceClaim.
        resource_claim_name: Option<String>,
        /// Name of the template of which the ResourceClaim of the pod is made.
        resource_claim_template_name: Option<String>,
    }

    /// The ResourceClaim generated for an entry of `spec.resourceClaims`.
    struct PodResourceClaimStatus {
        /// Name of the entry.
        name: String,
        /// Name of the ResourceClaim; absent if none is needed.
        resource_claim_name: Option<String>,
    }

    /// A `v1` Node.
    struct Node {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: NodeSpec,
        /// Observed state.
        status: NodeStatus,
    }

    /// `spec` of a Node.
    struct NodeSpec {
        /// Cordoned.
        unschedulable: bool,
        /// Taints.
        taints: Vec<Taint>,
    }

    /// `status` of a Node.
    struct NodeStatus {
        /// Resources for pods.
        allocatable: ResourceList,
        /// Conditions.
        conditions: Vec<NodeCondition>,
        /// Images present.
        images: Vec<ContainerImage>,
        /// Features the kubelet declares.
        declared_features: Vec<String>,
    }

    /// A condition of a node.
    struct NodeCondition {
        /// Type, for example `Ready`.
        #[serde(rename = "type")]
        type_: String,
        /// `True`, `False` or `Unknown`.
        status: String,
    }

    /// An image on a node.
    struct ContainerImage {
        /// Names by which the image is known.
        names: Vec<String>,
        /// Size in bytes.
        size_bytes: i64,
    }

    /// A `v1` PersistentVolumeClaim.
    struct PersistentVolumeClaim {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: PersistentVolumeClaimSpec,
        /// Observed state.
        status: PhaseStatus,
    }

    /// `spec` of a PersistentVolumeClaim.
    struct PersistentVolumeClaimSpec {
        /// Required access modes.
        access_modes: Vec<String>,
        /// Required labels of the volume.
        selector: Option<LabelSelector>,
        /// The requested size.
        resources: ResourceRequirements,
        /// The volume that the claim is bound to, or should be bound to.
        volume_name: String,
        /// StorageClass.
        storage_class_name: Option<String>,
        /// `Filesystem` (default) or `Block`.
        volume_mode: Option<String>,
        /// VolumeAttributesClass.
        volume_attributes_class_name: Option<String>,
    }

    /// The `status` of an object; only the phase is read.
    struct PhaseStatus {
        /// Phase.
        phase: String,
    }

    /// A `v1` PersistentVolume.
    struct PersistentVolume {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: PersistentVolumeSpec,
        /// Observed state.
        status: PhaseStatus,
    }

    /// `spec` of a PersistentVolume.
    struct PersistentVolumeSpec {
        /// The capacity.
        capacity: ResourceList,
        /// Supported access modes.
        access_modes: Vec<String>,
        /// The claim that the volume is bound to, or should be bound to.
        claim_ref: Option<ClaimReference>,
        /// StorageClass.
        storage_class_name: String,
        /// `Filesystem` (default) or `Block`.
        volume_mode: Option<String>,
        /// VolumeAttributesClass.
        volume_attributes_class_name: Option<String>,
        /// The nodes that can use the volume.
        node_affinity: Option<VolumeNodeAffinity>,
        /// The CSI source.
        csi: Option<CsiVolumeSource>,
        /// Source of an in-tree plugin that a CSI driver replaces.
        aws_elastic_block_store: Option<serde_json::Value>,
        /// Source of an in-tree plugin that a CSI driver replaces.
        azure_disk: Option<serde_json::Value>,
        /// Source of an in-tree plugin that a CSI driver replaces.
        cinder: Option<serde_json::Value>,
        /// Source of an in-tree plugin that a CSI driver replaces.
        gce_persistent_disk: Option<serde_json::Value>,
        /// Source of an in-tree plugin that a CSI driver replaces.
        portworx_volume: Option<serde_json::Value>,
    }

    /// A reference from a volume to its claim.
    struct ClaimReference {
        /// Namespace of the claim.
        namespace: String,
        /// Name of the claim.
        name: String,
        /// UID of the claim; empty for a reservation by name only.
        uid: String,
    }

    /// The nodes that can use a volume.
    struct VolumeNodeAffinity {
        /// The selector of the nodes.
        required: Option<NodeSelector>,
    }

    /// A volume of a CSI driver.
    struct CsiVolumeSource {
        /// Name of the driver.
        driver: String,
        /// The volume handle of the driver.
        volume_handle: String,
    }

    /// A `storage.k8s.io/v1` StorageClass.
    struct StorageClass {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// The provisioner of volumes.
        provisioner: String,
        /// `Immediate` or `WaitForFirstConsumer`.
        volume_binding_mode: Option<String>,
        /// The topologies in which volumes may be provisioned.
        allowed_topologies: Vec<crate::TopologySelectorTerm>,
    }

    /// A `storage.k8s.io/v1` CSINode.
    struct CsiNode {
        /// Standard metadata; the name is the name of the node.
        metadata: ObjectMeta,
        /// Desired state.
        spec: CsiNodeSpec,
    }

    /// `spec` of a CSINode.
    struct CsiNodeSpec {
        /// Drivers on the node.
        drivers: Vec<CsiNodeDriver>,
    }

    /// A driver on a node.
    struct CsiNodeDriver {
        /// Name of the driver.
        name: String,
        /// The limits of the driver on the node.
        allocatable: Option<VolumeNodeResources>,
    }

    /// The limits of a driver on a node.
    struct VolumeNodeResources {
        /// Maximum number of attached volumes.
        count: Option<i32>,
    }

    /// A `storage.k8s.io/v1` CSIDriver.
    struct CsiDriver {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: CsiDriverSpec,
    }

    /// `spec` of a CSIDriver.
    struct CsiDriverSpec {
        /// Whether the driver reports its capacity in CSIStorageCapacity objects.
        storage_capacity: Option<bool>,
        /// Whether a node without the driver takes no pod with its volumes.
        #[serde(rename = "preventPodSchedulingIfMissing")]
        prevent_pod_scheduling_if_missing: Option<bool>,
    }

    /// A `storage.k8s.io/v1` CSIStorageCapacity.
    struct CsiStorageCapacity {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// The nodes that can use the capacity.
        node_topology: Option<LabelSelector>,
        /// The StorageClass.
        storage_class_name: String,
        /// Remaining capacity.
        capacity: Option<QuantityText>,
        /// Maximum size of a volume.
        maximum_volume_size: Option<QuantityText>,
    }

    /// A `storage.k8s.io/v1` VolumeAttachment.
    struct VolumeAttachment {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: VolumeAttachmentSpec,
    }

    /// `spec` of a VolumeAttachment.
    struct VolumeAttachmentSpec {
        /// The CSI driver.
        attacher: String,
        /// The node.
        node_name: String,
        /// The volume.
        source: VolumeAttachmentSource,
    }

    /// The volume that is attached.
    struct VolumeAttachmentSource {
        /// Name of the PersistentVolume; absent for an inline volume.
        persistent_volume_name: Option<String>,
    }
}
