//! The fields that rules can read, and where their values come from.

use std::sync::LazyLock;

use cel::{Environment, Fact, FactFunction, FactType, ObjectType};

/// Where the value of a field comes from. Fields that the scheduler keeps for all pods and nodes
/// have a source of their own; other fields are kept if a rule reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    PodName,
    PodNamespace,
    PodLabels,
    PodPriority,
    PodSchedulerName,
    PodTolerations,
    Requests,
    /// A field of the pod that is kept, by its pointer.
    PodField(&'static str),
    /// The same for a map.
    PodMap(&'static str),
    NodeName,
    NodeLabels,
    NodeTaints,
    NodeUnschedulable,
    NodeFeatures,
    /// A field of the node that is kept, by its pointer.
    NodeField(&'static str),
    /// The same for a map.
    NodeMap(&'static str),
    Allocatable,
    Requested,
    Free,
    NamespaceName,
    NamespaceLabels,
}

static TAINT: ObjectType = ObjectType {
    name: "Taint",
    fields: &[("key", FactType::String), ("value", FactType::String), ("effect", FactType::String)],
};

static TOLERATION: ObjectType = ObjectType {
    name: "Toleration",
    fields: &[
        ("key", FactType::String),
        ("operator", FactType::String),
        ("value", FactType::String),
        ("effect", FactType::String),
    ],
};

static CONDITION: ObjectType = ObjectType {
    name: "NodeCondition",
    fields: &[("type", FactType::String), ("status", FactType::String)],
};

static OWNER: ObjectType = ObjectType {
    name: "OwnerReference",
    fields: &[
        ("apiVersion", FactType::String),
        ("kind", FactType::String),
        ("name", FactType::String),
        ("controller", FactType::Bool),
    ],
};

static CONTAINER: ObjectType = ObjectType {
    name: "Container",
    fields: &[("name", FactType::String), ("image", FactType::String)],
};

macro_rules! facts {
    ($($path:literal: $fact_type:expr, $varies:literal, $source:expr;)*) => {
        /// The fields that rules can read.
        pub static FACTS: &[Fact] =
            &[$(Fact { path: $path, fact_type: $fact_type, varies: $varies },)*];
        /// Where the values of [`FACTS`] come from.
        pub(crate) static SOURCES: &[Source] = &[$($source,)*];
    };
}

facts! {
    "pod.metadata.name": FactType::String, false, Source::PodName;
    "pod.metadata.namespace": FactType::String, false, Source::PodNamespace;
    "pod.metadata.labels": FactType::Texts, false, Source::PodLabels;
    "pod.metadata.annotations": FactType::Texts, false, Source::PodMap("/metadata/annotations");
    "pod.metadata.creationTimestamp": FactType::Timestamp, false,
        Source::PodField("/metadata/creationTimestamp@seconds");
    "pod.metadata.ownerReferences": FactType::Objects(&OWNER), false,
        Source::PodField("/metadata/ownerReferences/*/apiVersion,kind,name,controller");
    "pod.spec.containers": FactType::Objects(&CONTAINER), false,
        Source::PodField("/spec/containers/*/name,image");
    "pod.spec.hostNetwork": FactType::Bool, false, Source::PodField("/spec/hostNetwork");
    "pod.spec.initContainers": FactType::Objects(&CONTAINER), false,
        Source::PodField("/spec/initContainers/*/name,image");
    "pod.spec.nodeSelector": FactType::Texts, false, Source::PodMap("/spec/nodeSelector");
    "pod.spec.priority": FactType::Int, false, Source::PodPriority;
    "pod.spec.priorityClassName": FactType::String, false,
        Source::PodField("/spec/priorityClassName");
    "pod.spec.restartPolicy": FactType::String, false, Source::PodField("/spec/restartPolicy");
    "pod.spec.runtimeClassName": FactType::String, false,
        Source::PodField("/spec/runtimeClassName");
    "pod.spec.schedulerName": FactType::String, false, Source::PodSchedulerName;
    "pod.spec.serviceAccountName": FactType::String, false,
        Source::PodField("/spec/serviceAccountName");
    "pod.spec.tolerations": FactType::Objects(&TOLERATION), false, Source::PodTolerations;
    "requests": FactType::Quantities, false, Source::Requests;
    "namespaceObject.metadata.name": FactType::String, false, Source::NamespaceName;
    "namespaceObject.metadata.labels": FactType::Texts, false, Source::NamespaceLabels;
    "node.metadata.name": FactType::String, true, Source::NodeName;
    "node.metadata.labels": FactType::Texts, true, Source::NodeLabels;
    "node.metadata.annotations": FactType::Texts, true, Source::NodeMap("/metadata/annotations");
    "node.metadata.creationTimestamp": FactType::Timestamp, true,
        Source::NodeField("/metadata/creationTimestamp@seconds");
    "node.spec.podCIDR": FactType::String, true, Source::NodeField("/spec/podCIDR");
    "node.spec.providerID": FactType::String, true, Source::NodeField("/spec/providerID");
    "node.spec.taints": FactType::Objects(&TAINT), true, Source::NodeTaints;
    "node.spec.unschedulable": FactType::Bool, true, Source::NodeUnschedulable;
    "node.status.allocatable": FactType::Quantities, true, Source::Allocatable;
    "node.status.capacity": FactType::Quantities, true, Source::NodeMap("/status/capacity");
    "node.status.conditions": FactType::Objects(&CONDITION), true,
        Source::NodeField("/status/conditions/*/type,status");
    "node.status.declaredFeatures": FactType::Strings, true, Source::NodeFeatures;
    "node.status.nodeInfo.architecture": FactType::String, true,
        Source::NodeField("/status/nodeInfo/architecture");
    "node.status.nodeInfo.containerRuntimeVersion": FactType::String, true,
        Source::NodeField("/status/nodeInfo/containerRuntimeVersion");
    "node.status.nodeInfo.kernelVersion": FactType::String, true,
        Source::NodeField("/status/nodeInfo/kernelVersion");
    "node.status.nodeInfo.kubeletVersion": FactType::String, true,
        Source::NodeField("/status/nodeInfo/kubeletVersion");
    "node.status.nodeInfo.operatingSystem": FactType::String, true,
        Source::NodeField("/status/nodeInfo/operatingSystem");
    "node.status.nodeInfo.osImage": FactType::String, true,
        Source::NodeField("/status/nodeInfo/osImage");
    "usage.allocatable": FactType::Quantities, true, Source::Allocatable;
    "usage.free": FactType::Quantities, true, Source::Free;
    "usage.requested": FactType::Quantities, true, Source::Requested;
}

/// The functions beside those of CEL and Kubernetes.
pub(crate) static FUNCTIONS: &[FactFunction] = &[
    FactFunction { name: "now", signatures: &["now () -> timestamp"], varies: false },
    FactFunction {
        name: "podsOnNode",
        signatures: &[
            "pods_on_node (string) -> int",
            "pods_on_node_in_namespace (string, string) -> int",
        ],
        varies: true,
    },
    FactFunction {
        name: "podsInDomain",
        signatures: &[
            "pods_in_domain (string, string) -> int",
            "pods_in_domain_in_namespace (string, string, string) -> int",
        ],
        varies: true,
    },
];

/// The places of the functions.
pub(crate) const NOW: usize = 0;
pub(crate) const PODS_ON_NODE: usize = 1;
pub(crate) const PODS_IN_DOMAIN: usize = 2;

/// The environment of `expression`.
pub(crate) static RULE: LazyLock<Environment> =
    LazyLock::new(|| Environment::new(FACTS, FUNCTIONS));

/// The environment of `match`, in which there is no node. Its facts and functions are the first
/// ones of those of `expression`.
pub(crate) static MATCH: LazyLock<Environment> = LazyLock::new(|| {
    let of_pods = FACTS.iter().position(|fact| fact.varies).unwrap_or(FACTS.len());
    Environment::new(&FACTS[..of_pods], &FUNCTIONS[..=NOW])
});

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of `docs/rules.md` has the readable fields, in their order, with their types.
    #[test]
    fn page_lists_the_readable_fields() {
        fn name(fact_type: FactType) -> String {
            match fact_type {
                FactType::Bool => "bool".to_owned(),
                FactType::Int => "int".to_owned(),
                FactType::String => "string".to_owned(),
                FactType::Timestamp => "timestamp".to_owned(),
                FactType::Quantity => "quantity".to_owned(),
                FactType::Strings => "list of strings".to_owned(),
                FactType::Texts => "map of strings".to_owned(),
                FactType::Quantities => "map of quantities".to_owned(),
                FactType::Objects(object) => {
                    let fields = object.fields.iter().map(|(name, _)| format!("`{name}`"));
                    let fields: Vec<_> = fields.collect();
                    format!("list of {}: {}", object.name, fields.join(", "))
                }
            }
        }
        let page = include_str!("../../../docs/rules.md");
        let (_, table) = page.split_once("| Name | Type |\n|---|---|\n").unwrap();
        let (table, _) = table.split_once("\n\n").unwrap();
        let expected: Vec<_> = FACTS
            .iter()
            .map(|fact| format!("| `{}` | {} |", fact.path, name(fact.fact_type)))
            .collect();
        assert_eq!(table.lines().collect::<Vec<_>>(), expected);
        for function in FUNCTIONS {
            assert!(page.contains(&format!("| `{}(", function.name)), "{}", function.name);
        }
    }

    #[test]
    fn facts_of_pods_come_first() {
        let first = FACTS.iter().position(|fact| fact.varies).unwrap();
        assert!(FACTS[first..].iter().all(|fact| fact.varies));
        assert_eq!(FACTS.len(), SOURCES.len());
        assert_eq!(FUNCTIONS[NOW].name, "now");
        assert_eq!(FUNCTIONS[PODS_ON_NODE].name, "podsOnNode");
        assert_eq!(FUNCTIONS[PODS_IN_DOMAIN].name, "podsInDomain");
    }
}
