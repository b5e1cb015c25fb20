//! Arguments of the in-tree plugins.
//!
//! A field is an `Option` where kube-scheduler tells an absent value from a given one. Defaulting
//! fills those in.

mod affinity;

use framework::api;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::decode::{Decoder, Faults, record};
use super::duration::Duration;
use super::scheme::API_VERSION;
use super::tree::Tree;
use affinity::pruned;

/// Declares [`Arguments`] from a table of plugins.
macro_rules! arguments {
    ($($variant:ident($type:ident) = $kind:literal,)*) => {
        /// Arguments of a plugin.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant is the plugin of its name")]
        pub enum Arguments {
            $($variant($type),)*
            /// Of a plugin whose arguments are not known here, as written.
            Other(Value),
        }

        /// The kinds of arguments there are.
        pub(super) const KINDS: &[&str] = &[$($kind),*];

        impl Arguments {
            /// Their kind, unless they are of a plugin that is not known here.
            pub const fn kind(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant(_) => Some($kind),)*
                    Self::Other(_) => None,
                }
            }

            /// Decodes arguments of this kind, if there is such a kind.
            pub(super) fn decode(kind: &str, tree: &Tree) -> Option<(Self, Option<Faults>)> {
                match kind {
                    $($kind => {
                        let (args, faults) = Decoder::document::<$type>(tree);
                        Some((Self::$variant(args), faults))
                    })*
                    _ => None,
                }
            }

            /// The fields that are written, without kind and version.
            fn fields(&self) -> Value {
                let value = match self {
                    $(Self::$variant(args) => serde_json::to_value(args),)*
                    Self::Other(value) => Ok(value.clone()),
                };
                value.unwrap_or_default()
            }
        }
    };
}

arguments! {
    DefaultPreemption(DefaultPreemptionArgs) = "DefaultPreemptionArgs",
    DynamicResources(DynamicResourcesArgs) = "DynamicResourcesArgs",
    InterPodAffinity(InterPodAffinityArgs) = "InterPodAffinityArgs",
    NodeAffinity(NodeAffinityArgs) = "NodeAffinityArgs",
    NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs)
        = "NodeResourcesBalancedAllocationArgs",
    NodeResourcesFit(NodeResourcesFitArgs) = "NodeResourcesFitArgs",
    PodTopologySpread(PodTopologySpreadArgs) = "PodTopologySpreadArgs",
    VolumeBinding(VolumeBindingArgs) = "VolumeBindingArgs",
}

impl Arguments {
    /// The arguments as they are written, with kind and version where the kind is known.
    pub fn to_value(&self) -> Value {
        let (Some(kind), Value::Object(fields)) = (self.kind(), self.fields()) else {
            return self.fields();
        };
        let mut written = Map::from_iter([
            ("apiVersion".to_owned(), json!(API_VERSION)),
            ("kind".to_owned(), json!(kind)),
        ]);
        written.extend(fields);
        written.into()
    }
}

impl Serialize for Arguments {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

record! {
    /// How many nodes preemption looks at.
    pub struct DefaultPreemptionArgs = "v1" "DefaultPreemptionArgs" {
        /// At least so many percent of all.
        #[serde(skip_serializing_if = "Option::is_none")]
        "minCandidateNodesPercentage" => min_candidate_nodes_percentage: Option<i32>,
        /// At least so many.
        #[serde(skip_serializing_if = "Option::is_none")]
        "minCandidateNodesAbsolute" => min_candidate_nodes_absolute: Option<i32>,
    }
}

record! {
    /// Time limits of dynamic resource allocation.
    pub struct DynamicResourcesArgs = "v1" "DynamicResourcesArgs" {
        /// Of the filter on one node.
        #[serde(skip_serializing_if = "Option::is_none")]
        "filterTimeout" => filter_timeout: Option<Duration>,
        /// Of the wait for binding conditions of devices.
        #[serde(skip_serializing_if = "Option::is_none")]
        "bindingTimeout" => binding_timeout: Option<Duration>,
    }
}

record! {
    /// How inter-pod affinity counts.
    pub struct InterPodAffinityArgs = "v1" "InterPodAffinityArgs" {
        /// Weight of required affinity of other pods.
        #[serde(skip_serializing_if = "Option::is_none")]
        "hardPodAffinityWeight" => hard_pod_affinity_weight: Option<i32>,
        /// Whether preferences of other pods count for nothing unless the pod has some itself.
        "ignorePreferredTermsOfExistingPods" => ignore_preferred_terms_of_existing_pods: bool,
    }
}

record! {
    /// Node affinity of every pod of the profile.
    pub struct NodeAffinityArgs = "v1" "NodeAffinityArgs" {
        /// Added to that of the pod.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "pruned")]
        "addedAffinity" => added_affinity: Option<api::NodeAffinity>,
    }
}

record! {
    /// What is to be used evenly.
    pub struct NodeResourcesBalancedAllocationArgs = "v1" "NodeResourcesBalancedAllocationArgs" {
        /// Resources; every weight is 1.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "resources" => resources: Vec<ResourceSpec>,
    }
}

record! {
    /// What a pod's requests are held to, and how what is left is rated.
    pub struct NodeResourcesFitArgs = "v1" "NodeResourcesFitArgs" {
        /// Extended resources the filter does not look at.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "ignoredResources" => ignored_resources: Vec<String>,
        /// Domains of extended resources the filter does not look at.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "ignoredResourceGroups" => ignored_resource_groups: Vec<String>,
        /// How nodes are rated.
        #[serde(skip_serializing_if = "Option::is_none")]
        "scoringStrategy" => scoring_strategy: Option<ScoringStrategy>,
    }
}

record! {
    /// How nodes are rated by what is left of their resources.
    pub struct ScoringStrategy = "v1" "ScoringStrategy" {
        /// `LeastAllocated`, `MostAllocated` or `RequestedToCapacityRatio`.
        #[serde(skip_serializing_if = "String::is_empty")]
        "type" => kind: String as "v1.ScoringStrategyType",
        /// What counts, and how much.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "resources" => resources: Vec<ResourceSpec>,
        /// Given exactly with the strategy of this name.
        #[serde(skip_serializing_if = "Option::is_none")]
        "requestedToCapacityRatio" => requested_to_capacity_ratio: Option<RequestedToCapacityRatio>,
    }
}

record! {
    /// The parameter of the strategy of this name.
    pub struct RequestedToCapacityRatio = "v1" "RequestedToCapacityRatioParam" {
        /// A broken line from utilization to score.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "shape" => shape: Vec<ShapePoint>,
    }
}

record! {
    /// A point of a broken line from utilization to score.
    pub struct ShapePoint = "v1" "UtilizationShapePoint" {
        /// In percent.
        "utilization" => utilization: i32,
        /// 0 to 10.
        "score" => score: i32,
    }
}

record! {
    /// A resource and its weight.
    pub struct ResourceSpec = "v1" "ResourceSpec" {
        /// Its name.
        "name" => name: String,
        /// Its weight; 0 counts as 1.
        #[serde(skip_serializing_if = "is_zero")]
        "weight" => weight: i64,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_zero(weight: &i64) -> bool {
    *weight == 0
}

record! {
    /// Spread of pods that have no constraints of their own.
    pub struct PodTopologySpreadArgs = "v1" "PodTopologySpreadArgs" {
        /// Their constraints.
        #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "pruned")]
        "defaultConstraints" => default_constraints: Vec<api::TopologySpreadConstraint>,
        /// `System` for built-in constraints, `List` for those above.
        #[serde(skip_serializing_if = "String::is_empty")]
        "defaultingType" => defaulting_type: String
            as "v1.PodTopologySpreadConstraintsDefaulting",
    }
}

record! {
    /// How volumes are bound and rated.
    pub struct VolumeBindingArgs = "v1" "VolumeBindingArgs" {
        /// How long binding may take.
        #[serde(skip_serializing_if = "Option::is_none")]
        "bindTimeoutSeconds" => bind_timeout_seconds: Option<i64>,
        /// Rating of storage by how full it is; needs gate StorageCapacityScoring.
        #[serde(skip_serializing_if = "is_none_or_empty")]
        "shape" => shape: Option<Vec<ShapePoint>>,
    }
}

fn is_none_or_empty(shape: &Option<Vec<ShapePoint>>) -> bool {
    shape.as_ref().is_none_or(Vec::is_empty)
}
