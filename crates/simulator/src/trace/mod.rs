//! Cluster traces: the recorded nodes and pods of a real cluster.
//!
//! [`openb`] reads the files, and [`inflate`] draws a workload of a chosen size from them. This
//! module has the shared types: compact rows, their conversion to API objects, and the order of
//! arrivals. It does not depend on the engine.
//!
//! GPUs are counted as one pool of thousandths per node. This hides fragmentation inside a node:
//! two half-used devices look like one free device.

use std::collections::BTreeMap;

use framework::api;
use thiserror::Error;

pub mod inflate;
pub mod openb;

/// The extended resource that counts thousandths of a GPU.
pub const GPU_MILLI: &str = "alibabacloud.com/gpu-milli";

/// The node label that names the GPU model.
pub const GPU_MODEL: &str = "alibabacloud.com/gpu-card-model";

/// The pod label for the quality-of-service class of the trace (`LS`, `BE`, ...).
pub const QOS: &str = "alibabacloud.com/qos";

/// Namespace of every pod of a trace.
pub const NAMESPACE: &str = "openb";

/// Thousandths of a GPU in one device.
pub const MILLI_PER_GPU: u64 = 1000;

/// The allocatable `pods` of every node. The traces do not state it, so it must not limit a node.
/// The value exceeds the length of every published pod list, even drawn up to 130 % of the cluster.
const PODS_PER_NODE: &str = "100000";

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Amounts of the three resources of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// CPU in thousandths of a core.
    pub cpu_milli: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// GPU in thousandths of a device, summed over the devices.
    pub gpu_milli: u64,
}

impl Amounts {
    /// Returns the sum of both, resource by resource; saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            memory_mib: self.memory_mib.saturating_add(other.memory_mib),
            gpu_milli: self.gpu_milli.saturating_add(other.gpu_milli),
        }
    }

    /// Returns `self` less `other`, resource by resource; stops at zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_sub(other.cpu_milli),
            memory_mib: self.memory_mib.saturating_sub(other.memory_mib),
            gpu_milli: self.gpu_milli.saturating_sub(other.gpu_milli),
        }
    }
}

impl std::iter::Sum for Amounts {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Self::plus)
    }
}

/// A node of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceNode {
    /// Name, unique among the nodes.
    pub name: String,
    /// CPU in thousandths of a core.
    pub cpu_milli: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Number of GPU devices.
    pub gpus: u64,
    /// Model of the devices.
    pub model: Option<String>,
}

impl TraceNode {
    /// Returns the capacity of the node for pods.
    pub fn capacity(&self) -> Amounts {
        Amounts {
            cpu_milli: self.cpu_milli,
            memory_mib: self.memory_mib,
            gpu_milli: self.gpus.saturating_mul(MILLI_PER_GPU),
        }
    }

    /// Converts the node to an API object. Its UID is its name. A node without devices does not
    /// list the GPU resource.
    pub fn to_node(&self) -> api::Node {
        let capacity = self.capacity();
        let mut allocatable = resource_list(capacity);
        allocatable.insert("pods".to_owned(), quantity(PODS_PER_NODE));
        let mut labels = BTreeMap::from([(HOSTNAME.to_owned(), self.name.clone())]);
        labels.extend(self.model.iter().map(|model| (GPU_MODEL.to_owned(), model.clone())));
        api::Node {
            metadata: api::ObjectMeta {
                name: self.name.clone(),
                uid: self.name.clone(),
                labels,
                ..Default::default()
            },
            status: api::NodeStatus { allocatable, ..Default::default() },
            ..Default::default()
        }
    }
}

/// A pod of a trace. Times are seconds since the start of the trace; `None` if the list has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracePod {
    /// Name, unique among the pods.
    pub name: String,
    /// Requested CPU, in thousandths of a core.
    pub cpu_milli: u64,
    /// Requested memory, in MiB.
    pub memory_mib: u64,
    /// Number of requested GPU devices.
    pub gpus: u64,
    /// Requested share of each device, in thousandths.
    pub gpu_milli: u64,
    /// GPU models that the pod can use; empty for all.
    pub models: Vec<String>,
    /// Quality-of-service class.
    pub qos: Option<String>,
    /// The last phase of the pod in the trace.
    pub phase: Option<String>,
    /// The arrival of the pod.
    pub created: Option<u64>,
    /// The deletion of the pod; never before [`created`](Self::created) in a list read from a file.
    pub deleted: Option<u64>,
    /// When the recorded cluster assigned a node to the pod.
    pub scheduled: Option<u64>,
}

impl TracePod {
    /// Returns the requests of the pod. Its GPU demand is the number of devices times the share of
    /// each.
    pub fn demand(&self) -> Amounts {
        Amounts {
            cpu_milli: self.cpu_milli,
            memory_mib: self.memory_mib,
            gpu_milli: self.gpus.saturating_mul(self.gpu_milli),
        }
    }

    /// Converts the pod to a pending API object for the scheduler with this name.
    pub fn to_pod(&self, scheduler_name: &str) -> api::Pod {
        let container = api::Container {
            name: "main".to_owned(),
            resources: api::ResourceRequirements {
                requests: resource_list(self.demand()),
                ..Default::default()
            },
            ..Default::default()
        };
        let labels = self.qos.iter().map(|qos| (QOS.to_owned(), qos.clone())).collect();
        api::Pod {
            metadata: api::ObjectMeta {
                name: self.name.clone(),
                namespace: NAMESPACE.to_owned(),
                uid: format!("{NAMESPACE}/{}", self.name),
                labels,
                ..Default::default()
            },
            spec: api::PodSpec {
                scheduler_name: scheduler_name.to_owned(),
                containers: vec![container],
                affinity: self.affinity(),
                ..Default::default()
            },
            status: api::PodStatus { phase: "Pending".to_owned(), ..Default::default() },
        }
    }

    /// Returns the requested GPU models as required node affinity.
    fn affinity(&self) -> Option<api::Affinity> {
        if self.models.is_empty() {
            return None;
        }
        let requirement = api::SelectorRequirement {
            key: GPU_MODEL.to_owned(),
            operator: "In".to_owned(),
            values: self.models.clone(),
        };
        let term =
            api::NodeSelectorTerm { match_expressions: vec![requirement], ..Default::default() };
        let required = api::NodeSelector { node_selector_terms: vec![term] };
        Some(api::Affinity {
            node_affinity: Some(api::NodeAffinity { required: Some(required), preferred: None }),
            ..Default::default()
        })
    }
}

/// Returns a resource list. CPU and memory are always listed, even with 0; the GPU resource only if
/// it is not 0.
fn resource_list(amounts: Amounts) -> api::ResourceList {
    let mut list = api::ResourceList::from([
        ("cpu".to_owned(), quantity(format!("{}m", amounts.cpu_milli))),
        ("memory".to_owned(), quantity(format!("{}Mi", amounts.memory_mib))),
    ]);
    if amounts.gpu_milli > 0 {
        list.insert(GPU_MILLI.to_owned(), quantity(amounts.gpu_milli.to_string()));
    }
    list
}

fn quantity(text: impl Into<String>) -> api::QuantityText {
    api::QuantityText(text.into())
}

/// The nodes and pods of a recorded cluster, in the order of their files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Nodes.
    pub nodes: Vec<TraceNode>,
    /// Pods.
    pub pods: Vec<TracePod>,
}

impl Trace {
    /// Returns the sum of the capacities of all nodes.
    pub fn capacity(&self) -> Amounts {
        self.nodes.iter().map(TraceNode::capacity).sum()
    }

    /// Returns the sum of the requests of all pods.
    pub fn demand(&self) -> Amounts {
        self.pods.iter().map(TracePod::demand).sum()
    }

    /// Returns the arrival of each pod, in seconds since the start of the trace, and its index in
    /// [`pods`](Self::pods). The result is sorted by time, and within one second by the order of
    /// the list.
    ///
    /// # Errors
    /// A pod has no creation time, as in the lists that have only resources.
    pub fn arrivals(&self) -> Result<Vec<(u64, usize)>, TimelineError> {
        let arrival = |(index, pod): (usize, &TracePod)| match pod.created {
            Some(created) => Ok((created, index)),
            None => Err(TimelineError::NoCreationTime { pod: pod.name.clone() }),
        };
        let mut arrivals: Vec<_> =
            self.pods.iter().enumerate().map(arrival).collect::<Result<_, _>>()?;
        arrivals.sort_unstable();
        Ok(arrivals)
    }
}

/// The reason a trace cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TimelineError {
    /// A pod has no creation time.
    #[error("pod {pod} has no creation_time: this list cannot be replayed, only drawn from")]
    NoCreationTime {
        /// Name of the pod.
        pod: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(pod: &api::Pod) -> Vec<(&str, &str)> {
        pairs(&pod.spec.containers[0].resources.requests)
    }

    fn pairs(list: &api::ResourceList) -> Vec<(&str, &str)> {
        list.iter().map(|(name, quantity)| (name.as_str(), quantity.0.as_str())).collect()
    }

    #[test]
    fn node_has_resources_and_model_label() {
        let node = TraceNode {
            name: "n1".to_owned(),
            cpu_milli: 32_000,
            memory_mib: 262_144,
            gpus: 8,
            model: Some("T4".to_owned()),
        }
        .to_node();
        assert_eq!(
            pairs(&node.status.allocatable),
            [(GPU_MILLI, "8000"), ("cpu", "32000m"), ("memory", "262144Mi"), ("pods", "100000")]
        );
        assert_eq!(node.metadata.labels[HOSTNAME], "n1");
        assert_eq!(node.metadata.labels[GPU_MODEL], "T4");
        assert_eq!((node.metadata.name.as_str(), node.metadata.uid.as_str()), ("n1", "n1"));
    }

    #[test]
    fn node_without_devices_has_no_gpu_resource_or_label() {
        let node = TraceNode { name: "n1".to_owned(), ..Default::default() }.to_node();
        assert!(!node.status.allocatable.contains_key(GPU_MILLI));
        assert!(!node.metadata.labels.contains_key(GPU_MODEL));
    }

    #[test]
    fn pod_requests_devices_times_share_on_one_of_its_models() {
        let pod = TracePod {
            name: "p1".to_owned(),
            cpu_milli: 500,
            memory_mib: 0,
            gpus: 2,
            gpu_milli: 250,
            models: vec!["P100".to_owned(), "T4".to_owned()],
            qos: Some("LS".to_owned()),
            ..Default::default()
        }
        .to_pod("loadmaster");
        assert_eq!(requests(&pod), [(GPU_MILLI, "500"), ("cpu", "500m"), ("memory", "0Mi")]);
        assert_eq!(pod.spec.scheduler_name, "loadmaster");
        assert_eq!(pod.metadata.labels[QOS], "LS");
        assert_eq!(pod.metadata.uid, "openb/p1");
        let required = pod
            .spec
            .affinity
            .and_then(|affinity| affinity.node_affinity?.required)
            .expect("a pod that names models has required node affinity");
        let [term] = required.node_selector_terms.as_slice() else { panic!("{required:?}") };
        assert_eq!(term.match_expressions[0].key, GPU_MODEL);
        assert_eq!(term.match_expressions[0].operator, "In");
        assert_eq!(term.match_expressions[0].values, ["P100", "T4"]);
    }

    #[test]
    fn pod_without_gpu_has_no_gpu_request_or_affinity() {
        let pod = TracePod { name: "p1".to_owned(), ..Default::default() }.to_pod("loadmaster");
        assert_eq!(requests(&pod), [("cpu", "0m"), ("memory", "0Mi")]);
        assert_eq!(pod.spec.affinity, None);
    }

    #[test]
    fn pods_arrive_by_time_and_then_by_order_of_the_list() {
        let created = |at| TracePod { created: Some(at), ..Default::default() };
        let pods = vec![created(5), created(0), created(5)];
        let trace = Trace { pods, ..Default::default() };
        assert_eq!(trace.arrivals(), Ok(vec![(0, 1), (5, 0), (5, 2)]));
    }

    #[test]
    fn list_without_times_has_no_timeline() {
        let pods = vec![TracePod { name: "p7".to_owned(), ..Default::default() }];
        let trace = Trace { pods, ..Default::default() };
        let error = trace.arrivals().expect_err("there is no creation time");
        assert_eq!(error, TimelineError::NoCreationTime { pod: "p7".to_owned() });
    }
}
