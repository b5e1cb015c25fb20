//! Arguments of the in-tree plugins.
//!
//! A field is an `Option` if kube-scheduler distinguishes an absent value from a given one.
//! Defaulting fills it in.

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
        /// Arguments of one plugin.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant is the plugin of its name")]
        pub enum Arguments {
            $($variant($type),)*
            /// Arguments of a plugin without a known kind, as written.
            Other(Value),
        }

        /// The kinds of arguments.
        pub(super) const KINDS: &[&str] = &[$($kind),*];

        impl Arguments {
            /// The kind; none for a plugin without a known kind.
            pub const fn kind(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant(_) => Some($kind),)*
                    Self::Other(_) => None,
                }
            }

            /// Decodes arguments of this kind, if the kind exists.
            pub(super) fn decode(kind: &str, tree: &Tree) -> Option<(Self, Option<Faults>)> {
                match kind {
                    $($kind => {
                        let (args, faults) = Decoder::document::<$type>(tree);
                        Some((Self::$variant(args), faults))
                    })*
                    _ => None,
                }
            }

            /// The fields, without kind and version.
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
    /// The arguments as a document, with kind and version if the kind is known.
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
    /// The number of nodes that preemption tries.
    pub struct DefaultPreemptionArgs = "v1" "DefaultPreemptionArgs" {
        /// Minimum, in percent of all nodes.
        #[serde(skip_serializing_if = "Option::is_none")]
        "minCandidateNodesPercentage" => min_candidate_nodes_percentage: Option<i32>,
        /// Minimum, in nodes.
        #[serde(skip_serializing_if = "Option::is_none")]
        "minCandidateNodesAbsolute" => min_candidate_nodes_absolute: Option<i32>,
    }
}

record! {
    /// Time limits of dynamic resource allocation.
    pub struct DynamicResourcesArgs = "v1" "DynamicResourcesArgs" {
        /// Time limit of the filter on one node.
        #[serde(skip_serializing_if = "Option::is_none")]
        "filterTimeout" => filter_timeout: Option<Duration>,
        /// Time limit of the wait for binding conditions of devices.
        #[serde(skip_serializing_if = "Option::is_none")]
        "bindingTimeout" => binding_timeout: Option<Duration>,
    }
}

record! {
    /// Weights of inter-pod affinity.
    pub struct InterPodAffinityArgs = "v1" "InterPodAffinityArgs" {
        /// Weight of required affinity of placed pods.
        #[serde(skip_serializing_if = "Option::is_none")]
        "hardPodAffinityWeight" => hard_pod_affinity_weight: Option<i32>,
        /// Whether preferences of placed pods are ignored for a pod without preferences of its own.
        "ignorePreferredTermsOfExistingPods" => ignore_preferred_terms_of_existing_pods: bool,
    }
}

record! {
    /// Node affinity of every pod of the profile.
    pub struct NodeAffinityArgs = "v1" "NodeAffinityArgs" {
        /// Node affinity that is combined with the affinity of the pod.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "pruned")]
        "addedAffinity" => added_affinity: Option<api::NodeAffinity>,
    }
}

record! {
    /// Resources whose use is to be balanced.
    pub struct NodeResourcesBalancedAllocationArgs = "v1" "NodeResourcesBalancedAllocationArgs" {
        /// Resources; every weight is 1.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "resources" => resources: Vec<ResourceSpec>,
    }
}

record! {
    /// Resources that the filter checks, and the scoring strategy.
    pub struct NodeResourcesFitArgs = "v1" "NodeResourcesFitArgs" {
        /// Extended resources that the filter ignores.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "ignoredResources" => ignored_resources: Vec<String>,
        /// Domains of extended resources that the filter ignores.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "ignoredResourceGroups" => ignored_resource_groups: Vec<String>,
        /// How nodes are scored.
        #[serde(skip_serializing_if = "Option::is_none")]
        "scoringStrategy" => scoring_strategy: Option<ScoringStrategy>,
    }
}

record! {
    /// How nodes are scored by their free resources.
    pub struct ScoringStrategy = "v1" "ScoringStrategy" {
        /// `LeastAllocated`, `MostAllocated` or `RequestedToCapacityRatio`.
        #[serde(skip_serializing_if = "String::is_empty")]
        "type" => kind: String as "v1.ScoringStrategyType",
        /// The resources and their weights.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "resources" => resources: Vec<ResourceSpec>,
        /// Parameter of the strategy `RequestedToCapacityRatio`; given only with that strategy.
        #[serde(skip_serializing_if = "Option::is_none")]
        "requestedToCapacityRatio" => requested_to_capacity_ratio: Option<RequestedToCapacityRatio>,
    }
}

record! {
    /// The parameter of the strategy `RequestedToCapacityRatio`.
    pub struct RequestedToCapacityRatio = "v1" "RequestedToCapacityRatioParam" {
        /// A piecewise linear function from utilization to score.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        "shape" => shape: Vec<ShapePoint>,
    }
}

record! {
    /// A point of the function.
    pub struct ShapePoint = "v1" "UtilizationShapePoint" {
        /// Utilization in percent.
        "utilization" => utilization: i32,
        /// Score from 0 to 10.
        "score" => score: i32,
    }
}

record! {
    /// A resource and its weight.
    pub struct ResourceSpec = "v1" "ResourceSpec" {
        /// Name of the resource.
        "name" => name: String,
        /// Weight; 0 counts as 1.
        #[serde(skip_serializing_if = "is_zero")]
        "weight" => weight: i64,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_zero(weight: &i64) -> bool {
    *weight == 0
}

record! {
    /// Spread of pods without constraints of their own.
    pub struct PodTopologySpreadArgs = "v1" "PodTopologySpreadArgs" {
        /// Constraints of these pods.
        #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "pruned")]
        "defaultConstraints" => default_constraints: Vec<api::TopologySpreadConstraint>,
        /// `System` for the built-in constraints, `List` for `defaultConstraints`.
        #[serde(skip_serializing_if = "String::is_empty")]
        "defaultingType" => defaulting_type: String
            as "v1.PodTopologySpreadConstraintsDefaulting",
    }
}

record! {
    /// Time limit and scores of volume binding.
    pub struct VolumeBindingArgs = "v1" "VolumeBindingArgs" {
        /// Time limit of binding.
        #[serde(skip_serializing_if = "Option::is_none")]
        "bindTimeoutSeconds" => bind_timeout_seconds: Option<i64>,
        /// Scores by the utilization of storage; needs gate StorageCapacityScoring.
        #[serde(skip_serializing_if = "is_none_or_empty")]
        "shape" => shape: Option<Vec<ShapePoint>>,
    }
}

fn is_none_or_empty(shape: &Option<Vec<ShapePoint>>) -> bool {
    shape.as_ref().is_none_or(Vec::is_empty)
}
