//! The Kubernetes API objects as the scheduler reads them.
//!
//! [`api`] has the lean JSON types. [`Pod`] and [`Node`] are the compact forms built from them,
//! with quantities, selectors and taints parsed once. [`device`] and [`storage`] have the compact
//! forms of the kinds that devices and volumes need.

pub mod api;
mod containers;
pub mod device;
mod elastic_quota;
mod event_resource;
mod eviction_hints;
mod extra;
mod labels;
mod level;
mod merge_patch;
mod node;
mod node_selector;
mod object_key;
mod pod;
mod pod_claims;
mod pod_group;
mod pod_volume;
mod pool;
mod problem;
pub mod protobuf;
mod quantity;
mod resources;
mod selector;
pub mod storage;
mod taint;
mod template;
mod time;
mod topology_level;
mod topology_selector;

pub use self::containers::{ContainerKind, ContainerResources};
pub use self::elastic_quota::{
    ELASTIC_QUOTAS, ElasticQuota, QUOTA_IS_PARENT_LABEL, QUOTA_LENDS_LABEL,
    QUOTA_MINIMUM_RUN_ANNOTATION, QUOTA_NAME_LABEL, QUOTA_PARENT_LABEL, QUOTA_WEIGHT_ANNOTATION,
    QuotaAmounts, QuotaFault, QuotaKey, QuotaSpec, quantity_of,
};
pub use self::event_resource::EventResource;
pub use self::eviction_hints::EvictionHints;
pub use self::extra::{Extra, ExtraFields};
pub use self::labels::{Labels, label_key_faults};
pub use self::level::{Behaviours, Level};
pub use self::merge_patch::merge_patch;
pub use self::node::{Node, NodeImage, POOL_LABELS};
pub use self::node_selector::*;
pub use self::object_key::ObjectKey;
pub use self::pod::{
    Controller, ControllerKind, DISRUPTION_TARGET, HostPort, POD_GROUP_LABEL,
    PREEMPTION_BY_SCHEDULER, Pod, PodAffinity, PodAffinityTerm, PodKey, PodSpec, Protocol,
    ScheduledCondition, TopologySpreadConstraint, Uid, UncommonFields, Uuid,
    WeightedPodAffinityTerm, WhenUnsatisfiable,
};
pub use self::pod_claims::{
    ExtendedRequest, GeneratedClaims, IMPLICIT_RESOURCE_PREFIX, PodClaimSource, PodResourceClaim,
    may_be_device_resource,
};
pub use self::pod_group::{
    COSCHEDULING_POD_GROUPS, CoschedulingStatus, ELASTIC_ANNOTATION, PodGroup, PodGroupCondition,
    PodGroupKey, PodGroupSource, SchedulingPolicy,
};
pub use self::pod_volume::{PodVolume, PodVolumeSource};
pub use self::pool::PodPool;
pub use self::pool::Shared;
pub use self::problem::Problem;
pub use self::quantity::*;
pub use self::resources::*;
pub use self::selector::*;
pub use self::taint::*;
pub use self::template::Template;
pub use self::time::{OptionalTime, Time, WallOffset};
pub use self::topology_level::{
    LevelWish, POD_SET_PREFERRED_TOPOLOGY, POD_SET_REQUIRED_TOPOLOGY, POD_SET_SLICE_SIZE,
    POD_SET_SLICE_TOPOLOGY, TOPOLOGY_ANNOTATION, TopologyLevel,
};
pub use self::topology_selector::*;
