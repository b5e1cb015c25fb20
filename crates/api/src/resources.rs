//! Amounts of resources: allocatable resources of nodes and requests of pods.

use std::fmt::Display;
use std::sync::Arc;

use smallvec::SmallVec;

use serde::{Deserialize, Serialize};

use super::labels::label_key_fault;
use super::problem::Problem;
use super::quantity::Quantity;
use crate::api;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
const PODS: &str = "pods";
const HUGE_PAGES_PREFIX: &str = "hugepages-";
const NATIVE_DOMAIN: &str = "kubernetes.io/";

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// The CPU request that scoring assumes for a container without one, in thousandths of a CPU.
pub const DEFAULT_MILLI_CPU_REQUEST: i64 = 100;
/// The memory request that scoring assumes for a container without one, in bytes.
pub const DEFAULT_MEMORY_REQUEST: i64 = 200 * 1024 * 1024;

/// Amounts of the resources that scheduling counts. Arithmetic saturates at the limits of `i64`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resources {
    /// CPU, in thousandths.
    pub milli_cpu: i64,
    /// Memory, in bytes.
    pub memory: i64,
    /// Ephemeral storage, in bytes.
    pub ephemeral_storage: i64,
    /// The other resources, in units, sorted by name. A resource may be present with 0.
    pub scalars: Box<[(Arc<str>, i64)]>,
}

impl Resources {
    /// Returns the amount of the scalar resource `name`, or 0.
    pub fn scalar(&self, name: &str) -> i64 {
        let found = self.scalars.binary_search_by(|(own, _)| (**own).cmp(name));
        found.map_or(0, |index| self.scalars[index].1)
    }

    /// Returns whether CPU, memory and ephemeral storage are 0 and there is no scalar resource.
    pub fn is_zero(&self) -> bool {
        self.milli_cpu == 0
            && self.memory == 0
            && self.ephemeral_storage == 0
            && self.scalars.is_empty()
    }

    /// Adds the amounts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu);
        self.memory = self.memory.saturating_add(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.saturating_add(other.ephemeral_storage);
        for (name, amount) in &other.scalars {
            self.add_scalar(name, *amount);
        }
    }

    fn add_scalar(&mut self, name: &Arc<str>, amount: i64) {
        match self.scalars.binary_search_by(|(own, _)| own.cmp(name)) {
            Ok(index) => {
                let own = &mut self.scalars[index].1;
                *own = own.saturating_add(amount);
            }
            Err(index) => {
                let mut scalars = std::mem::take(&mut self.scalars).into_vec();
                scalars.insert(index, (name.clone(), amount));
                self.scalars = scalars.into();
            }
        }
    }
}

/// Amounts of CPU and memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuMemory {
    /// CPU, in thousandths.
    pub milli_cpu: i64,
    /// Memory, in bytes.
    pub memory: i64,
}

/// Returns whether `name` is an extended resource: it has a domain outside Kubernetes.
pub fn is_extended_resource_name(name: &str) -> bool {
    name.contains('/')
        && !name.contains(NATIVE_DOMAIN)
        && !name.starts_with("requests.")
        && label_key_fault(&format!("requests.{name}")).is_none()
}

/// Returns whether `name` is counted as a scalar resource: extended resources, huge pages,
/// resources of Kubernetes domains and attachable volumes. CPU, memory, ephemeral storage and the
/// number of pods are counted elsewhere; other names are ignored.
pub fn is_scalar_resource_name(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
        || name.starts_with("attachable-volumes-")
        || name.contains(NATIVE_DOMAIN)
        || is_extended_resource_name(name)
}

/// The allocatable resources of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeAllocatable {
    /// The resources.
    pub resources: Resources,
    /// Maximum number of pods.
    pub pods: i64,
}

impl NodeAllocatable {
    /// Converts `status.allocatable`. Quantities that cannot be read are left out and reported.
    pub fn of(status: &api::NodeStatus, problems: &mut Vec<Problem>) -> Self {
        let amounts = Amounts::parse(&status.allocatable, "status.allocatable", problems);
        let pods = amounts.get(PODS).map_or(0, units);
        Self { resources: amounts.to_resources(), pods }
    }
}

/// Converts the resource list at `path`.
///
/// Fractions are rounded up. A quantity that cannot be parsed or is negative is left out and
/// reported; its path ends in the name of the resource: `path[cpu]`.
pub fn parse_resource_list(
    list: &api::ResourceList,
    path: impl Display,
    problems: &mut Vec<Problem>,
) -> Resources {
    Amounts::parse(list, path, problems).to_resources()
}

/// The requests of a pod, in the four versions that the scheduler uses.
///
/// | field | pod-level resources | resize status | defaults for missing requests |
/// |---|---|---|---|
/// | `fit` | yes | no | no |
/// | `score` | no | no | yes |
/// | `placed` | yes | yes | no |
/// | `placed_non_zero` | yes | yes | yes |
///
/// A default replaces the CPU or memory request that a container does not name; an explicit 0 counts
/// as named. For a pod with pod-level requests, `placed_non_zero` uses defaults only for resources
/// that the pod level does not name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodRequests {
    /// The free resources that a node needs (Filter of NodeResourcesFit).
    pub fit: Resources,
    /// The requests that NodeResourcesFit scores with while the pod is pending.
    pub score: Resources,
    /// The resources that the pod takes from its node. NodeResourcesBalancedAllocation scores with
    /// them too.
    pub placed: Resources,
    /// The resources that the pod takes from its node, as scoring counts them.
    pub placed_non_zero: CpuMemory,
}

impl PodRequests {
    /// Returns the requests of a pod.
    ///
    /// Sums are exact and rounded up once at the end. A quantity that cannot be parsed or is
    /// negative is left out and reported.
    pub fn of(spec: &api::PodSpec, status: &api::PodStatus, problems: &mut Vec<Problem>) -> Self {
        PodAmounts::parse(spec, status, problems).requests()
    }
}

/// Returns the limits of a pod: of its containers, as for requests, replaced by pod-level limits. The
/// overhead raises a limit but sets none. 0 means no limit.
///
/// No decision depends on limits, so a quantity that cannot be read is left out without a report.
pub(super) fn pod_limits(spec: &api::PodSpec) -> Resources {
    let pod_level = spec.resources.as_ref().map(|resources| Amounts::readable(&resources.limits));
    let pod = PodAmounts {
        containers: container_limits(&spec.containers),
        init_containers: container_limits(&spec.init_containers),
        pod_level: pod_level.unwrap_or_default().retain_pod_level(),
        pod_level_resized: None,
        overhead: Amounts::default(),
    };
    let mut limits = pod.finish(pod.containers_spec(&Defaults::NONE), &pod.pod_level);
    let mut overhead = Amounts::readable(&spec.overhead);
    overhead.0.retain(|(name, _)| limits.names(name));
    limits.add(&overhead);
    limits.to_resources()
}

fn container_limits(containers: &[api::Container]) -> Vec<ContainerAmounts<'_>> {
    let limits = containers.iter().map(|container| ContainerAmounts {
        spec: Amounts::readable(&container.resources.limits),
        resized: None,
        sidecar: is_sidecar(container),
    });
    limits.collect()
}

/// Exact amounts by resource name, in billionths.
#[derive(Debug, Clone, Default)]
struct Amounts<'a>(SmallVec<[(&'a str, i128); 4]>);

impl<'a> Amounts<'a> {
    fn parse(list: &'a api::ResourceList, path: impl Display, problems: &mut Vec<Problem>) -> Self {
        let mut amounts = Self::default();
        for (name, text) in list {
            match parse_amount(&text.0) {
                Ok(nanos) => amounts.0.push((name, nanos)),
                Err(message) => problems.push(Problem::new(format!("{path}[{name}]"), message)),
            }
        }
        amounts
    }

    /// Parses a list without the quantities that cannot be read.
    fn readable(list: &'a api::ResourceList) -> Self {
        Self::parse(list, "", &mut Vec::new())
    }

    fn get(&self, name: &str) -> Option<i128> {
        self.0.iter().find(|(own, _)| *own == name).map(|&(_, nanos)| nanos)
    }

    fn names(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets each resource of `other` to `merge(own amount, other amount)`.
    fn merge(&mut self, other: &Self, merge: impl Fn(i128, i128) -> i128) {
        for &(name, nanos) in &other.0 {
            match self.0.iter_mut().find(|(own, _)| *own == name) {
                Some((_, own)) => *own = merge(*own, nanos),
                None => self.0.push((name, nanos)),
            }
        }
    }

    /// Keeps the resources that can be set for a whole pod: CPU, memory and huge pages.
    fn retain_pod_level(mut self) -> Self {
        let is_supported =
            |name: &str| matches!(name, CPU | MEMORY) || name.starts_with(HUGE_PAGES_PREFIX);
        self.0.retain(|(name, _)| is_supported(name));
        self
    }

    fn add(&mut self, other: &Self) {
        self.merge(other, i128::saturating_add);
    }

    fn max(&mut self, other: &Self) {
        self.merge(other, i128::max);
    }

    fn cpu_memory(&self) -> CpuMemory {
        CpuMemory {
            milli_cpu: self.get(CPU).map_or(0, millis),
            memory: self.get(MEMORY).map_or(0, units),
        }
    }

    fn to_resources(&self) -> Resources {
        let CpuMemory { milli_cpu, memory } = self.cpu_memory();
        let mut scalars: Vec<(Arc<str>, i64)> = self
            .0
            .iter()
            .filter(|(name, _)| is_scalar_resource_name(name))
            .map(|&(name, nanos)| (name.into(), units(nanos)))
            .collect();
        scalars.sort_unstable();
        Resources {
            milli_cpu,
            memory,
            ephemeral_storage: self.get(EPHEMERAL_STORAGE).map_or(0, units),
            scalars: scalars.into(),
        }
    }
}

fn parse_amount(text: &str) -> Result<i128, String> {
    let quantity: Quantity =
        text.parse().map_err(|error| format!("cannot read {text:?} as a quantity: {error}"))?;
    match quantity.nanos() {
        nanos @ 0.. => Ok(nanos),
        _ => Err(format!("{text:?} is negative")),
    }
}

fn units(nanos: i128) -> i64 {
    round_up(nanos, NANOS_PER_UNIT)
}

fn millis(nanos: i128) -> i64 {
    round_up(nanos, NANOS_PER_MILLI)
}

fn round_up(nanos: i128, unit: i128) -> i64 {
    let rounded = nanos / unit + i128::from(nanos % unit != 0);
    i64::try_from(rounded).unwrap_or(i64::MAX)
}

/// The requests of one container.
struct ContainerAmounts<'a> {
    /// The requests in the spec.
    spec: Amounts<'a>,
    /// The requests of a container with a resize in the status, if any.
    resized: Option<Amounts<'a>>,
    /// Whether it is an init container that keeps running.
    sidecar: bool,
}

impl<'a> ContainerAmounts<'a> {
    fn resized(&self) -> &Amounts<'a> {
        self.resized.as_ref().unwrap_or(&self.spec)
    }
}

/// All requests of a pod, parsed.
struct PodAmounts<'a> {
    containers: Vec<ContainerAmounts<'a>>,
    init_containers: Vec<ContainerAmounts<'a>>,
    /// Pod-level requests, which replace the sum over containers.
    pod_level: Amounts<'a>,
    /// The pod-level requests with a resize in the status, if any.
    pod_level_resized: Option<Amounts<'a>>,
    overhead: Amounts<'a>,
}

/// Defaults for requests that containers do not name.
struct Defaults {
    cpu: bool,
    memory: bool,
}

impl Defaults {
    const NONE: Self = Self { cpu: false, memory: false };
    const BOTH: Self = Self { cpu: true, memory: true };

    fn fill(&self, amounts: &mut Amounts<'_>) {
        if self.cpu && !amounts.names(CPU) {
            amounts.0.push((CPU, i128::from(DEFAULT_MILLI_CPU_REQUEST) * NANOS_PER_MILLI));
        }
        if self.memory && !amounts.names(MEMORY) {
            amounts.0.push((MEMORY, i128::from(DEFAULT_MEMORY_REQUEST) * NANOS_PER_UNIT));
        }
    }
}

impl<'a> PodAmounts<'a> {
    fn parse(
        spec: &'a api::PodSpec,
        status: &'a api::PodStatus,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let resize = Resize::of(status);
        let containers = Containers {
            raw: &spec.containers,
            path: "spec.containers",
            statuses: &status.container_statuses,
            status_path: "status.containerStatuses",
        };
        let init_containers = Containers {
            raw: &spec.init_containers,
            path: "spec.initContainers",
            statuses: &status.init_container_statuses,
            status_path: "status.initContainerStatuses",
        };
        let pod_level = pod_level_amounts(spec, problems);
        Self {
            containers: containers.parse(resize, |_| true, problems),
            init_containers: init_containers.parse(resize, is_sidecar, problems),
            pod_level_resized: pod_level_resized(&pod_level, status, resize, problems),
            pod_level,
            overhead: Amounts::parse(&spec.overhead, "spec.overhead", problems),
        }
    }

    fn requests(&self) -> PodRequests {
        let fit = self.finish(self.containers_spec(&Defaults::NONE), &self.pod_level);
        let mut score = self.containers_spec(&Defaults::BOTH);
        score.add(&self.overhead);
        let placed = if self.is_resized() { self.placed(&Defaults::NONE) } else { fit.clone() };
        let defaults = if self.pod_level.0.is_empty() {
            Defaults::BOTH
        } else {
            Defaults { cpu: !placed.names(CPU), memory: !placed.names(MEMORY) }
        };
        PodRequests {
            fit: fit.to_resources(),
            score: score.to_resources(),
            placed_non_zero: self.placed(&defaults).cpu_memory(),
            placed: placed.to_resources(),
        }
    }

    /// Returns whether the status reports a resize.
    fn is_resized(&self) -> bool {
        let mut all = self.containers.iter().chain(&self.init_containers);
        self.pod_level_resized.is_some() || all.any(|container| container.resized.is_some())
    }

    fn placed(&self, defaults: &Defaults) -> Amounts<'a> {
        let containers = self.all_containers(ContainerAmounts::resized, defaults);
        self.finish(containers, self.pod_level_resized.as_ref().unwrap_or(&self.pod_level))
    }

    fn containers_spec(&self, defaults: &Defaults) -> Amounts<'a> {
        self.all_containers(|container| &container.spec, defaults)
    }

    /// Returns the maximum that the containers take at any time: init containers run one by one
    /// before the regular containers, and sidecars run from their turn on.
    fn all_containers(
        &self,
        pick: impl for<'c> Fn(&'c ContainerAmounts<'a>) -> &'c Amounts<'a>,
        defaults: &Defaults,
    ) -> Amounts<'a> {
        let requests = |container: &ContainerAmounts<'a>| {
            let mut amounts = pick(container).clone();
            defaults.fill(&mut amounts);
            amounts
        };
        let (mut total, mut sidecars, mut peak) =
            (Amounts::default(), Amounts::default(), Amounts::default());
        for container in &self.containers {
            total.add(&requests(container));
        }
        for container in &self.init_containers {
            let mut phase = requests(container);
            if container.sidecar {
                total.add(&phase);
                sidecars.add(&phase);
                peak.max(&sidecars);
            } else {
                phase.add(&sidecars);
                peak.max(&phase);
            }
        }
        total.max(&peak);
        total
    }

    /// Replaces the sum over containers by pod-level requests and adds the overhead.
    fn finish(&self, mut total: Amounts<'a>, pod_level: &Amounts<'a>) -> Amounts<'a> {
        total.merge(pod_level, |_, own| own);
        total.add(&self.overhead);
        total
    }
}

/// The state of a resize in the status of a pod.
#[derive(Clone, Copy)]
enum Resize {
    /// The spec applies, now or after the resize.
    Feasible,
    /// The node cannot provide the spec; the admitted resources count.
    Infeasible,
}

impl Resize {
    fn of(status: &api::PodStatus) -> Self {
        let infeasible = |condition: &api::PodCondition| {
            condition.type_ == "PodResizePending" && condition.reason == "Infeasible"
        };
        if status.conditions.iter().any(infeasible) { Self::Infeasible } else { Self::Feasible }
    }

    /// Returns the maximum of the desired (if feasible), actuated and admitted resources.
    fn merge<'a>(
        self,
        spec: &Amounts<'a>,
        actuated: Amounts<'a>,
        admitted: &Amounts<'a>,
    ) -> Amounts<'a> {
        let mut merged = actuated;
        merged.max(admitted);
        if matches!(self, Self::Feasible) {
            merged.max(spec);
        }
        merged
    }
}

/// Containers of one kind, their statuses, and their paths in the pod.
struct Containers<'a> {
    raw: &'a [api::Container],
    path: &'static str,
    statuses: &'a [api::ContainerStatus],
    status_path: &'static str,
}

impl<'a> Containers<'a> {
    /// Parses the requests. The status counts for containers that are `resizable`.
    fn parse(
        &self,
        resize: Resize,
        resizable: impl Fn(&api::Container) -> bool,
        problems: &mut Vec<Problem>,
    ) -> Vec<ContainerAmounts<'a>> {
        let parse = |(index, raw): (usize, &'a api::Container)| {
            let path = format_args!("{}[{index}].resources.requests", self.path);
            let spec = Amounts::parse(&raw.resources.requests, path, problems);
            let resized = if resizable(raw) {
                self.resized(&raw.name, &spec, resize, problems)
            } else {
                None
            };
            ContainerAmounts { spec, resized, sidecar: is_sidecar(raw) }
        };
        self.raw.iter().enumerate().map(parse).collect()
    }

    fn resized(
        &self,
        name: &str,
        spec: &Amounts<'a>,
        resize: Resize,
        problems: &mut Vec<Problem>,
    ) -> Option<Amounts<'a>> {
        // The last of several statuses with one name counts.
        let index = self.statuses.iter().rposition(|status| status.name == name)?;
        let status = &self.statuses[index];
        let actuated = &status.resources.as_ref()?.requests;
        let path = format_args!("{}[{index}].resources.requests", self.status_path);
        let actuated = Amounts::parse(actuated, path, problems);
        let path = format_args!("{}[{index}].allocatedResources", self.status_path);
        let admitted = Amounts::parse(&status.allocated_resources, path, problems);
        Some(resize.merge(spec, actuated, &admitted))
    }
}

pub(super) fn is_sidecar(container: &api::Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Returns the pod-level requests for resources that support them.
fn pod_level_amounts<'a>(spec: &'a api::PodSpec, problems: &mut Vec<Problem>) -> Amounts<'a> {
    let Some(resources) = &spec.resources else { return Amounts::default() };
    Amounts::parse(&resources.requests, "spec.resources.requests", problems).retain_pod_level()
}

fn pod_level_resized<'a>(
    spec: &Amounts<'a>,
    status: &'a api::PodStatus,
    resize: Resize,
    problems: &mut Vec<Problem>,
) -> Option<Amounts<'a>> {
    let actuated = &status.resources.as_ref()?.requests;
    if spec.0.is_empty() {
        return None;
    }
    let actuated = Amounts::parse(actuated, "status.resources.requests", problems);
    let admitted =
        Amounts::parse(&status.allocated_resources, "status.allocatedResources", problems);
    let merged = resize.merge(spec, actuated, &admitted);
    // The spec lists the resources. A resource that the status does not name counts as 0.
    let amount = |name| (name, merged.get(name).unwrap_or(0));
    Some(Amounts(spec.0.iter().map(|&(name, _)| amount(name)).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MI: i64 = 1 << 20;

    /// Returns the requests of a pod with this spec and status, which must have no problems.
    fn requests(spec: serde_json::Value, status: serde_json::Value) -> PodRequests {
        let (requests, problems) = requests_and_problems(spec, status);
        assert_eq!(problems, [] as [String; 0]);
        requests
    }

    fn requests_and_problems(
        spec: serde_json::Value,
        status: serde_json::Value,
    ) -> (PodRequests, Vec<String>) {
        let spec = serde_json::from_value(spec).unwrap();
        let status = serde_json::from_value(status).unwrap();
        let mut problems = Vec::new();
        let requests = PodRequests::of(&spec, &status, &mut problems);
        (requests, problems.iter().map(Problem::to_string).collect())
    }

    fn container(requests: serde_json::Value) -> serde_json::Value {
        json!({ "name": "c", "resources": { "requests": requests } })
    }

    #[test]
    fn scalar_resource_names_are_recognised() {
        for (name, extended, scalar) in [
            ("nvidia.com/gpu", true, true),
            ("hugepages-2Mi", false, true),
            ("kubernetes.io/batch", false, true),
            ("attachable-volumes-aws-ebs", false, true),
            ("requests.example.com/a", false, false),
            ("example.com/-", false, false),
            ("gpu", false, false),
            ("cpu", false, false),
        ] {
            assert_eq!(is_extended_resource_name(name), extended, "{name}");
            assert_eq!(is_scalar_resource_name(name), scalar, "{name}");
        }
    }

    #[test]
    fn addition_saturates() {
        let scalars = |pairs: &[(&str, i64)]| {
            pairs.iter().map(|&(name, amount)| (name.into(), amount)).collect()
        };
        let mut total = Resources { scalars: scalars(&[("b/b", 1)]), ..Default::default() };
        assert!(!total.is_zero());
        let other = Resources {
            memory: i64::MAX,
            scalars: scalars(&[("a/a", 2), ("b/b", i64::MAX)]),
            ..Default::default()
        };
        total.add(&other);
        total.add(&other);
        assert_eq!(total.memory, i64::MAX);
        assert_eq!(total.scalars, scalars(&[("a/a", 4), ("b/b", i64::MAX)]));
        assert_eq!((total.scalar("a/a"), total.scalar("c/c")), (4, 0));
    }

    #[test]
    fn sums_are_rounded_up_once() {
        let half = container(json!({ "cpu": "500u", "example.com/x": "500m" }));
        let both = requests(json!({ "containers": [half, half] }), json!({}));
        assert_eq!((both.fit.milli_cpu, both.fit.scalar("example.com/x")), (1, 1));
        let more = container(json!({ "cpu": "1100u", "memory": "1.1", "example.com/x": "2001m" }));
        let more = requests(json!({ "containers": [more] }), json!({})).fit;
        assert_eq!((more.milli_cpu, more.memory, more.scalar("example.com/x")), (2, 2, 3));
        let huge = container(json!({ "memory": "1e40", "cpu": "9e18" }));
        let both = requests(json!({ "containers": [huge, huge] }), json!({}));
        assert_eq!((both.fit.memory, both.fit.milli_cpu), (i64::MAX, i64::MAX));
    }

    #[test]
    fn init_containers_count_if_they_need_more() {
        let mut sidecar = container(json!({ "cpu": "1" }));
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({
            "containers": [container(json!({ "cpu": "2", "memory": "10Mi" }))],
            "initContainers": [
                container(json!({ "cpu": "4" })),
                sidecar,
                container(json!({ "memory": "50Mi" })),
            ],
            "overhead": { "cpu": "100m" },
        });
        let pod = requests(spec, json!({}));
        assert_eq!((pod.fit.milli_cpu, pod.fit.memory), (4100, 50 * MI));
        assert_eq!(pod.placed, pod.fit);
        assert_eq!(pod.score.milli_cpu, 4100);
        assert_eq!(pod.score.memory, 250 * MI);
    }

    #[test]
    fn pod_level_requests_replace_the_sum_but_not_in_scores() {
        let spec = json!({
            "containers": [container(json!({})), container(json!({}))],
            "resources": { "requests": { "cpu": "4", "example.com/x": "1" } },
        });
        let pod = requests(spec, json!({}));
        assert_eq!((pod.fit.milli_cpu, pod.fit.memory), (4000, 0));
        assert_eq!((pod.score.milli_cpu, pod.score.memory), (200, 400 * MI));
        assert_eq!(pod.placed_non_zero, CpuMemory { milli_cpu: 4000, memory: 400 * MI });
        assert!(pod.fit.scalars.is_empty());
    }

    #[test]
    fn limits_are_those_of_the_containers_or_of_the_pod() {
        let container = |limits| json!({ "name": "c", "resources": { "limits": limits } });
        let mut sidecar = container(json!({ "cpu": "1" }));
        sidecar["restartPolicy"] = json!("Always");
        let rows = [
            (json!({}), (0, 0, 0)),
            (
                json!({ "containers": [container(json!({ "cpu": "2" })), container(json!({}))] }),
                (2000, 0, 0),
            ),
            (
                json!({
                    "containers": [container(json!({ "cpu": "2", "example.com/gpu": "1" }))],
                    "initContainers": [sidecar, container(json!({ "cpu": "500m", "memory": "5Mi" }))],
                    "overhead": { "cpu": "100m" },
                }),
                (3100, 5 * MI, 1),
            ),
            (
                json!({
                    "containers": [container(json!({ "cpu": "2", "memory": "much" }))],
                    "resources": { "limits": { "cpu": "4", "example.com/gpu": "7" } },
                    "overhead": { "memory": "1Mi" },
                }),
                (4000, 0, 0),
            ),
        ];
        for (spec, expected) in rows {
            let limits = pod_limits(&serde_json::from_value(spec).unwrap());
            let gpus = limits.scalar("example.com/gpu");
            assert_eq!((limits.milli_cpu, limits.memory, gpus), expected);
        }
    }

    #[test]
    fn explicit_zero_is_not_missing() {
        let spec = json!({ "containers": [container(json!({ "cpu": "0" }))] });
        let pod = requests(spec, json!({}));
        assert_eq!(pod.placed_non_zero, CpuMemory { milli_cpu: 0, memory: 200 * MI });
    }

    #[test]
    fn status_counts_for_placed_pods() {
        let spec = json!({
            "containers": [container(json!({ "cpu": "3" }))],
        });
        let status = |reason| {
            json!({
                "conditions": [{ "type": "PodResizePending", "reason": reason }],
                "containerStatuses": [{
                    "name": "c",
                    "resources": { "requests": { "cpu": "1" } },
                    "allocatedResources": { "cpu": "2" },
                }],
            })
        };
        let deferred = requests(spec.clone(), status("Deferred"));
        let infeasible = requests(spec, status("Infeasible"));
        assert_eq!((deferred.fit.milli_cpu, deferred.placed.milli_cpu), (3000, 3000));
        assert_eq!((infeasible.fit.milli_cpu, infeasible.placed.milli_cpu), (3000, 2000));
    }

    #[test]
    fn spec_determines_which_pod_level_resources_count() {
        let spec = json!({ "resources": { "requests": { "cpu": "1", "hugepages-2Mi": "2Mi" } } });
        let status = json!({
            "conditions": [{ "type": "PodResizePending", "reason": "Infeasible" }],
            "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } },
        });
        let pod = requests(spec, status);
        assert_eq!((pod.placed.milli_cpu, pod.placed.memory), (500, 0));
        assert_eq!(*pod.placed.scalars, [("hugepages-2Mi".into(), 0)]);
    }

    #[test]
    fn invalid_quantity_is_reported_once_and_left_out() {
        let spec = json!({
            "containers": [container(json!({ "cpu": "-1", "memory": "64Mi" }))],
            "overhead": { "memory": "1GB" },
        });
        let (pod, problems) = requests_and_problems(spec, json!({}));
        assert_eq!((pod.fit.milli_cpu, pod.fit.memory), (0, 64 * MI));
        assert_eq!(problems[0], "spec.containers[0].resources.requests[cpu]: \"-1\" is negative");
        assert!(problems[1].starts_with("spec.overhead[memory]: cannot read \"1GB\""));
        assert_eq!(problems.len(), 2);
    }

    #[test]
    fn node_allocatable_has_resources_and_pods() {
        let status =
            json!({ "allocatable": { "cpu": "3.9", "pods": "110", "example.com/x": "2" } });
        let mut problems = Vec::new();
        let node = NodeAllocatable::of(&serde_json::from_value(status).unwrap(), &mut problems);
        assert_eq!((node.resources.milli_cpu, node.pods), (3900, 110));
        assert_eq!(node.resources.scalar("example.com/x"), 2);
        assert!(problems.is_empty());
    }
}
