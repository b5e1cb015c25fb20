//! Lean Kubernetes API types: the fields that a scheduler reads.
//!
//! They decode the JSON of the API server or of `kubectl get -o json`, and are converted at once
//! into the compact [`Pod`](crate::Pod) and [`Node`](crate::Node). Unknown fields are skipped,
//! `null` reads as absent, and quantities stay text until the conversion. They do not carry every
//! field, so they are never used for writes.
//!
//! Pods and nodes also decode from [`protobuf`](super::protobuf): their types declare the number of
//! each field beside its type, so one declaration and one conversion serve both encodings.

use std::collections::BTreeMap;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use super::protobuf::{Content, FieldValue, Fields, Malformed, Message};
use crate::Time;

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

impl Message for QuantityText {
    fn merge(&mut self, number: u64, content: Content<'_>) -> Result<(), Malformed> {
        if number == 1 { FieldValue::merge(&mut self.0, content) } else { Ok(()) }
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

/// Declares lean API structs that also decode from protobuf: behind each type the number of the
/// field and, if the type does not say how to read it, the function that does.
macro_rules! messages {
    ($($(#[$meta:meta])* struct $name:ident {
        $($(#[$fmeta:meta])* $field:ident: $ty:ty = $number:literal $(as $read:ident)?,)*
    })*) => {
        api! { $($(#[$meta])* struct $name { $($(#[$fmeta])* $field: $ty,)* })* }

        $(impl $crate::protobuf::Message for $name {
            fn merge(
                &mut self,
                number: u64,
                content: $crate::protobuf::Content<'_>,
            ) -> Result<(), $crate::protobuf::Malformed> {
                match number {
                    $($number => messages!(@read self.$field, content $(, $read)?),)*
                    _ => Ok(()),
                }
            }
        })*
    };
    (@read $field:expr, $content:ident) => {
        $crate::protobuf::FieldValue::merge(&mut $field, $content)
    };
    (@read $field:expr, $content:ident, $read:ident) => {
        $read(&mut $field, $content)
    };
}

/// Reads a `meta/v1.Time`: seconds (1) since the epoch. Its nanoseconds (2) do not count, as JSON
/// has none. An empty message is the zero time, which is `null` in JSON.
fn timestamp(to: &mut Option<String>, content: Content<'_>) -> Result<(), Malformed> {
    let message = content.delimited()?;
    if message.is_empty() {
        return Ok(());
    }
    let mut seconds = 0;
    for field in Fields::of(message) {
        if let (1, content) = field? {
            FieldValue::merge(&mut seconds, content)?;
        }
    }
    *to = Some(Time::from_secs(seconds).to_string());
    Ok(())
}

mod device;
mod scheduling;
mod storage;
mod volume;
pub use device::*;
pub use scheduling::*;
pub use storage::*;
pub use volume::*;

messages! {
    /// `metadata` of any object.
    struct ObjectMeta {
        /// Object name.
        name: String = 1,
        /// Namespace, empty for cluster-scoped objects.
        namespace: String = 3,
        /// Unique id over the lifetime of the cluster.
        uid: String = 5,
        /// Labels.
        labels: BTreeMap<String, String> = 11,
        /// Annotations.
        annotations: BTreeMap<String, String> = 12,
        /// Opaque version of the object.
        resource_version: String = 6,
        /// Generation of the desired state.
        generation: i64 = 7,
        /// RFC 3339 time of creation.
        creation_timestamp: Option<String> = 8 as timestamp,
        /// RFC 3339 time from which the object is being deleted.
        deletion_timestamp: Option<String> = 9 as timestamp,
        /// Seconds from the start of the deletion to its end.
        deletion_grace_period_seconds: Option<i64> = 10,
        /// Owners of the object.
        owner_references: Vec<OwnerReference> = 13,
        /// Controllers that act before the object is removed.
        finalizers: Vec<String> = 14,
    }

    /// An owner of an object.
    struct OwnerReference {
        /// API version of the owner.
        api_version: String = 5,
        /// Kind of the owner.
        kind: String = 1,
        /// Name of the owner.
        name: String = 3,
        /// UID of the owner.
        uid: String = 4,
        /// Whether the owner is the controller.
        controller: bool = 6,
    }

    /// A `v1` Pod.
    struct Pod {
        /// Standard metadata.
        metadata: ObjectMeta = 1,
        /// Desired state.
        spec: PodSpec = 2,
        /// Observed state.
        status: PodStatus = 3,
    }

    /// `spec` of a Pod.
    struct PodSpec {
        /// Node the pod is assigned to; empty while unassigned.
        node_name: String = 10,
        /// Name of the responsible scheduler.
        scheduler_name: String = 19,
        /// Priority; absent counts as 0.
        priority: Option<i32> = 25,
        /// `PreemptLowerPriority` (default) or `Never`.
        preemption_policy: Option<String> = 31,
        /// Required labels of the node. An empty map differs from an absent one.
        node_selector: Option<BTreeMap<String, String>> = 7,
        /// Node and pod affinity.
        affinity: Option<Affinity> = 18,
        /// Tolerations.
        tolerations: Vec<Toleration> = 22,
        /// Regular containers.
        containers: Vec<Container> = 2,
        /// Init containers, sidecars (`restartPolicy: Always`) among them.
        init_containers: Vec<Container> = 20,
        /// Overhead of the runtime class.
        overhead: ResourceList = 32,
        /// Pod-level resources.
        resources: Option<ResourceRequirements> = 40,
        /// Gates that keep the pod from being scheduled.
        scheduling_gates: Vec<SchedulingGate> = 38,
        /// The group that the pod belongs to.
        scheduling_group: Option<PodSchedulingGroup> = 43,
        /// Topology spread constraints.
        topology_spread_constraints: Vec<TopologySpreadConstraint> = 33,
        /// Volumes.
        volumes: Vec<Volume> = 1,
        /// Claims for dynamic resources.
        resource_claims: Vec<PodResourceClaim> = 39,
        /// Whether the pod uses the network of the host.
        host_network: bool = 11,
        /// Whether the pod uses the user namespace of the host; absent counts as true.
        host_users: Option<bool> = 37,
    }

    /// `status` of a Pod.
    struct PodStatus {
        /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        phase: String = 1,
        /// The node that is nominated for the pod.
        nominated_node_name: String = 11,
        /// RFC 3339 time at which the kubelet acknowledged the pod.
        start_time: Option<String> = 7 as timestamp,
        /// Conditions.
        conditions: Vec<PodCondition> = 2,
        /// Statuses of the regular containers.
        container_statuses: Vec<ContainerStatus> = 8,
        /// Statuses of the init containers.
        init_container_statuses: Vec<ContainerStatus> = 10,
        /// Pod-level resources as actuated.
        resources: Option<ResourceRequirements> = 20,
        /// Pod-level resources as admitted.
        allocated_resources: ResourceList = 19,
        /// Generated resource claims.
        resource_claim_statuses: Vec<PodResourceClaimStatus> = 15,
        /// The claim generated for extended resources, used to detect changes.
        extended_resource_claim_status: Option<PodExtendedResourceClaimStatus> = 18,
    }

    /// The group of a pod.
    struct PodSchedulingGroup {
        /// Name of a PodGroup of the namespace, which need not exist.
        pod_group_name: Option<String> = 1,
    }

    /// A condition of a pod.
    struct PodCondition {
        /// Type, for example `PodScheduled`.
        #[serde(rename = "type")]
        type_: String = 1,
        /// `True`, `False` or `Unknown`.
        status: String = 2,
        /// Machine-readable reason.
        reason: String = 5,
        /// Text for people.
        message: String = 6,
    }

    /// Status of a container.
    struct ContainerStatus {
        /// Container name.
        name: String = 1,
        /// Resources as actuated.
        resources: Option<ResourceRequirements> = 11,
        /// Resources as admitted.
        allocated_resources: ResourceList = 10,
    }

    /// A container.
    struct Container {
        /// Container name.
        name: String = 1,
        /// Image reference.
        image: String = 2,
        /// Requests and limits.
        resources: ResourceRequirements = 8,
        /// Ports.
        ports: Vec<ContainerPort> = 6,
        /// Mounts of volumes.
        volume_mounts: Vec<VolumeMount> = 9,
        /// `Always` makes an init container a sidecar.
        restart_policy: Option<String> = 24,
        /// Rules for container exits.
        restart_policy_rules: Vec<ContainerRestartRule> = 25,
    }

    /// The mount of a volume.
    struct VolumeMount {
        /// Options of the bind mount.
        bind_mount_options: Vec<String> = 8,
    }

    /// A rule for the exit of a container.
    struct ContainerRestartRule {
        /// The action, for example `RestartAllContainers`.
        action: String = 1,
    }

    /// Requests and limits.
    struct ResourceRequirements {
        /// Limits.
        limits: ResourceList = 1,
        /// Requests.
        requests: ResourceList = 2,
    }

    /// A port of a container.
    struct ContainerPort {
        /// Port inside the container.
        container_port: i32 = 3,
        /// Port of the node; 0 for none.
        host_port: i32 = 2,
        /// Address of the node; empty for all.
        #[serde(rename = "hostIP")]
        host_ip: String = 5,
        /// Protocol; empty means `TCP`.
        protocol: String = 4,
    }

    /// A scheduling gate.
    struct SchedulingGate {
        /// Gate name.
        name: String = 1,
    }

    /// A toleration.
    struct Toleration {
        /// Taint key; empty matches every key.
        key: String = 1,
        /// `Equal` (also when empty), `Exists`, `Lt` or `Gt`.
        operator: String = 2,
        /// Taint value.
        value: String = 3,
        /// Taint effect; empty matches every effect.
        effect: String = 4,
    }

    /// A taint of a node.
    struct Taint {
        /// Taint key.
        key: String = 1,
        /// Taint value.
        value: String = 2,
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        effect: String = 3,
    }

    /// Affinity rules of a pod.
    struct Affinity {
        /// Rules on nodes.
        node_affinity: Option<NodeAffinity> = 1,
        /// Attraction to other pods.
        pod_affinity: Option<PodAffinity> = 2,
        /// Repulsion from other pods.
        pod_anti_affinity: Option<PodAffinity> = 3,
    }

    /// Node affinity.
    struct NodeAffinity {
        /// The required terms.
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Option<NodeSelector> = 1,
        /// The preferred terms. An absent list differs from an empty one.
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        preferred: Option<Vec<PreferredSchedulingTerm>> = 2,
    }

    /// A node selector: alternatives, one of which must match.
    struct NodeSelector {
        /// Terms, combined with OR.
        node_selector_terms: Vec<NodeSelectorTerm> = 1,
    }

    /// Requirements on one node, combined with AND.
    struct NodeSelectorTerm {
        /// Requirements on labels.
        match_expressions: Vec<SelectorRequirement> = 1,
        /// Requirements on fields.
        match_fields: Vec<SelectorRequirement> = 2,
    }

    /// One requirement of a selector.
    struct SelectorRequirement {
        /// Label key or field path.
        key: String = 1,
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
        operator: String = 2,
        /// Values.
        values: Vec<String> = 3,
    }

    /// A weighted preference for nodes.
    struct PreferredSchedulingTerm {
        /// Weight, 1 to 100.
        weight: i32 = 1,
        /// The preference.
        preference: NodeSelectorTerm = 2,
    }

    /// Pod affinity or anti-affinity.
    struct PodAffinity {
        /// The required terms.
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Vec<PodAffinityTerm> = 1,
        /// The preferred terms.
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        preferred: Vec<WeightedPodAffinityTerm> = 2,
    }

    /// A term on the pods of a topology domain.
    struct PodAffinityTerm {
        /// Selects the pods by label; absent selects none.
        label_selector: Option<LabelSelector> = 1,
        /// Selects the pods by namespace.
        namespaces: Vec<String> = 2,
        /// Selects further namespaces by their labels.
        namespace_selector: Option<LabelSelector> = 4,
        /// The node label whose value names the domain.
        topology_key: String = 3,
        /// Label keys of the pod whose values are added to the selector by the API server.
        match_label_keys: Vec<String> = 5,
        /// Label keys of the pod whose values are excluded from the selector by the API server.
        mismatch_label_keys: Vec<String> = 6,
    }

    /// A weighted term.
    struct WeightedPodAffinityTerm {
        /// Weight, 1 to 100.
        weight: i32 = 1,
        /// The term.
        pod_affinity_term: PodAffinityTerm = 2,
    }

    /// A label selector.
    struct LabelSelector {
        /// Exact pairs.
        match_labels: BTreeMap<String, String> = 1,
        /// Further requirements.
        match_expressions: Vec<SelectorRequirement> = 2,
    }

    /// A topology spread constraint.
    struct TopologySpreadConstraint {
        /// Maximum difference between domains.
        max_skew: i32 = 1,
        /// The node label whose value names the domain.
        topology_key: String = 2,
        /// `DoNotSchedule` or `ScheduleAnyway`.
        when_unsatisfiable: String = 3,
        /// Selects the counted pods.
        label_selector: Option<LabelSelector> = 4,
        /// Minimum number of domains.
        min_domains: Option<i32> = 5,
        /// `Honor` (default) or `Ignore`.
        node_affinity_policy: Option<String> = 6,
        /// `Honor` or `Ignore` (default).
        node_taints_policy: Option<String> = 7,
        /// Label keys of the pod whose values are added to the selector.
        match_label_keys: Vec<String> = 8,
    }

    /// Reference to a resource claim.
    struct PodResourceClaim {
        /// Name within the pod.
        name: String = 1,
        /// Name of the ResourceClaim.
        resource_claim_name: Option<String> = 3,
        /// Name of the template of which the ResourceClaim of the pod is made.
        resource_claim_template_name: Option<String> = 4,
    }

    /// The ResourceClaim generated for an entry of `spec.resourceClaims`.
    struct PodResourceClaimStatus {
        /// Name of the entry.
        name: String = 1,
        /// Name of the ResourceClaim; absent if none is needed.
        resource_claim_name: Option<String> = 2,
    }

    /// The ResourceClaim generated for extended resources.
    struct PodExtendedResourceClaimStatus {
        /// The requests of the claim, by container and extended resource.
        request_mappings: Vec<ContainerExtendedResourceRequest> = 1,
        /// Name of the ResourceClaim.
        resource_claim_name: String = 2,
    }

    /// The request for an extended resource of a container in the generated ResourceClaim.
    struct ContainerExtendedResourceRequest {
        /// Name of the container.
        container_name: String = 1,
        /// Name of the extended resource.
        resource_name: String = 2,
        /// Name of the request.
        request_name: String = 3,
    }

    /// A `v1` Node.
    struct Node {
        /// Standard metadata.
        metadata: ObjectMeta = 1,
        /// Desired state.
        spec: NodeSpec = 2,
        /// Observed state.
        status: NodeStatus = 3,
    }

    /// `spec` of a Node.
    struct NodeSpec {
        /// Cordoned.
        unschedulable: bool = 4,
        /// Taints.
        taints: Vec<Taint> = 5,
    }

    /// `status` of a Node.
    struct NodeStatus {
        /// Resources for pods.
        allocatable: ResourceList = 2,
        /// Conditions.
        conditions: Vec<NodeCondition> = 4,
        /// Images present.
        images: Vec<ContainerImage> = 8,
        /// Features the kubelet declares.
        declared_features: Vec<String> = 14,
    }

    /// A condition of a node.
    struct NodeCondition {
        /// Type, for example `Ready`.
        #[serde(rename = "type")]
        type_: String = 1,
        /// `True`, `False` or `Unknown`.
        status: String = 2,
    }

    /// An image on a node.
    struct ContainerImage {
        /// Names by which the image is known.
        names: Vec<String> = 1,
        /// Size in bytes.
        size_bytes: i64 = 2,
    }
}
