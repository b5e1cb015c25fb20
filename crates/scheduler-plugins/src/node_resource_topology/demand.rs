//! What a pod asks of the NUMA nodes of a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{ContainerKind, ContainerResources, Pod, Resources, is_extended_resource_name};

use super::topology::{Scope, Topology};
use crate::qos::QosClass;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
const HUGE_PAGES: &str = "hugepages-";

/// A requested resource: CPU in thousandths, others in units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) name: Arc<str>,
    pub(super) amount: i64,
    /// Whether Kubernetes itself counts the resource. Other resources may be without NUMA nodes.
    pub(super) is_native: bool,
    /// Whether a NUMA node that lists the resource suffices, whatever is available there: CPU,
    /// memory and huge pages of pods that are not Guaranteed.
    pub(super) is_soft: bool,
}

impl Request {
    /// Whether the resource may be one without NUMA nodes.
    pub(super) fn may_be_elsewhere(&self) -> bool {
        !self.is_native || *self.name == *EPHEMERAL_STORAGE
    }

    /// The amount as scores count it: CPU in whole CPUs, rounded up.
    pub(super) fn whole(&self) -> i64 {
        whole(&self.name, self.amount)
    }
}

/// Returns an amount as scores count it.
pub(super) fn whole(name: &str, amount: i64) -> i64 {
    if name == CPU { amount.div_euclid(1000) + i64::from(amount % 1000 != 0) } else { amount }
}

/// The requests of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) kind: ContainerKind,
    pub(super) requests: Vec<Request>,
}

/// The requests of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) class: QosClass,
    pub(super) containers: Vec<Container>,
    /// The requests of the whole pod: of the containers that run at the same time.
    pub(super) whole: Vec<Request>,
}

impl Demand {
    pub(super) fn of(pod: &Pod) -> Self {
        let class = QosClass::of(pod);
        let containers = pod.containers();
        let own = |container: &ContainerResources| Container {
            kind: container.kind,
            requests: requests(&container.requests, class),
        };
        let whole = requests(&whole_pod(containers), class);
        let containers: Vec<Container> = containers.iter().map(own).collect();
        Self { class, whole, containers }
    }

    /// Returns the requests of the pod and of each container.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[Request]> {
        let containers = self.containers.iter().map(|container| &container.requests[..]);
        containers.chain([&self.whole[..]])
    }

    /// Whether no NUMA node matters to the pod.
    pub(super) fn is_indifferent(&self) -> bool {
        let mut requests = self.containers.iter().flat_map(|container| &container.requests);
        self.class == QosClass::BestEffort && requests.all(|request| request.is_native)
    }

    /// Whether a container holds resources for itself alone: a resource of a device plugin that the
    /// NUMA nodes list, or whole CPUs, memory or huge pages of a Guaranteed pod.
    pub(super) fn is_exclusive(&self, topology: &Topology) -> bool {
        let lasting = self.containers.iter().filter(|own| own.kind != ContainerKind::Init);
        lasting.flat_map(|container| &container.requests).any(|request| {
            self.holds(request) && (request.is_native || topology.lists(&request.name))
        })
    }
}

impl Demand {
    /// Returns what the pod holds for itself alone, in parts of which each lies in one NUMA node
    /// under the policy single-numa-node: the containers that keep running, or the pod.
    pub(super) fn exclusive_parts(&self, scope: Scope) -> Vec<Vec<Request>> {
        let lasting = self.containers.iter().filter(|own| own.kind != ContainerKind::Init);
        let parts = lasting.map(|container| {
            let exclusive = container.requests.iter().filter(|own| self.holds(own));
            exclusive.cloned().collect::<Vec<_>>()
        });
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        match scope {
            Scope::Container => parts,
            Scope::Pod => {
                let mut whole: Vec<Request> = Vec::new();
                for request in parts.into_iter().flatten() {
                    match whole.iter_mut().find(|own| own.name == request.name) {
                        Some(own) => own.amount = own.amount.saturating_add(request.amount),
                        None => whole.push(request),
                    }
                }
                if whole.is_empty() { Vec::new() } else { vec![whole] }
            }
        }
    }

    /// Whether a container of the pod has the resource for itself alone, if NUMA nodes list it.
    fn holds(&self, request: &Request) -> bool {
        let is_guaranteed = self.class == QosClass::Guaranteed;
        match &*request.name {
            CPU => is_guaranteed && request.amount % 1000 == 0,
            MEMORY => is_guaranteed,
            name if name.starts_with(HUGE_PAGES) => is_guaranteed,
            _ => !request.is_native,
        }
    }
}

/// Adds up the containers that run at the same time.
fn whole_pod(containers: &[ContainerResources]) -> Resources {
    let mut running = Resources::default();
    let mut starting = Resources::default();
    for container in containers {
        match container.kind {
            ContainerKind::Sidecar | ContainerKind::App => running.add(&container.requests),
            ContainerKind::Init => {
                let mut with_sidecars = running.clone();
                with_sidecars.add(&container.requests);
                starting = highest(&starting, &with_sidecars);
            }
        }
    }
    highest(&starting, &running)
}

fn highest(a: &Resources, b: &Resources) -> Resources {
    let mut scalars: BTreeMap<Arc<str>, i64> = a.scalars.iter().cloned().collect();
    for (name, amount) in &b.scalars {
        let own = scalars.entry(name.clone()).or_default();
        *own = (*own).max(*amount);
    }
    Resources {
        milli_cpu: a.milli_cpu.max(b.milli_cpu),
        memory: a.memory.max(b.memory),
        ephemeral_storage: a.ephemeral_storage.max(b.ephemeral_storage),
        scalars: scalars.into_iter().collect(),
    }
}

/// Lists the resources that are asked for.
fn requests(resources: &Resources, class: QosClass) -> Vec<Request> {
    let fixed = [
        (CPU, resources.milli_cpu),
        (MEMORY, resources.memory),
        (EPHEMERAL_STORAGE, resources.ephemeral_storage),
    ];
    let fixed = fixed.map(|(name, amount)| (Arc::from(name), amount)).into_iter();
    let all = fixed.chain(resources.scalars.iter().cloned());
    let asked = all.filter(|(_, amount)| *amount != 0).map(|(name, amount)| {
        let is_native = !is_extended_resource_name(&name);
        let is_counted = matches!(&*name, CPU | MEMORY) || name.starts_with(HUGE_PAGES);
        let is_soft = class != QosClass::Guaranteed && is_counted;
        Request { name, amount, is_native, is_soft }
    });
    asked.collect()
}
