//! Amounts of resources: allocatable resources of nodes and requests of pods.

use std::fmt::Display;
use std::sync::Arc;

use smallvec::SmallVec;

use serde::{Deserialize, Serialize};

use super::labels::label_key_fault;
use super::problem::Problem;
use super::quantity::Quantity;
use crate::Behaviours;
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

    /// Returns whether CPU, memory and ephemeral storage are 0, without scalar resources.
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
/// `placed` and `placed_non_zero` follow the rule of Kubernetes 1.37 for a pod under in-place
/// resize; `by_container` has them by the rule of 1.36, which differs for few pods.
///
/// A default replaces the CPU or memory request that a container does not name; an explicit 0
/// counts as named. For a pod with pod-level requests, `placed_non_zero` uses defaults only for
/// resources that the pod level does not name.
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
    /// The room of a pod under in-place resize by the rule of 1.36, if it differs.
    pub by_container: Option<Box<Footprint>>,
}

/// The room that a pod takes from its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Footprint {
    /// The resources.
    pub placed: Resources,
    /// The resources as scoring counts them.
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

    /// Keeps the room that the pod takes by the rule of a level.
    pub fn follow(&mut self, behaviours: Behaviours) {
        let Some(footprint) = self.by_container.take() else { return };
        if !behaviours.footprint_of_whole_pod {
            (self.placed, self.placed_non_zero) = (footprint.placed, footprint.placed_non_zero);
        }
    }
}

/// Returns the limits of a pod: of its containers, as for requests, replaced by pod-level limits.
/// The overhead raises a limit but sets none. 0 means no limit.
///
/// No decision depends on limits, so a quantity that cannot be read is left out without a report.
pub(super) fn pod_limits(spec: &api::PodSpec) -> Resources {
    let pod_level = spec.resources.as_ref().map(|resources| Amounts::readable(&resources.limits));
    let pod = PodAmounts {
        containers: container_limits(&spec.containers),
        init_containers: container_limits(&spec.init_containers),
        pod_level: pod_level.unwrap_or_default().retain_pod_level(),
        pod_level_resized: None,
        status: PodStatusAmounts::default(),
        resize: Resize::Feasible,
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
        status: None,
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
    /// The maximum of the requests in the spec and in the status, of a container whose status has
    /// resources. It counts at 1.36.
    resized: Option<Amounts<'a>>,
    /// The requests in the status, of a container that has one.
    status: Option<StatusAmounts<'a>>,
    /// Whether it is an init container that keeps running.
    sidecar: bool,
}

/// The requests in the status of a container. A list that the status does not have is `None`.
struct StatusAmounts<'a> {
    allocated: Option<Amounts<'a>>,
    actuated: Option<Amounts<'a>>,
}

/// The requests in the status of a pod. A list that the status does not have is `None`.
#[derive(Default)]
struct PodStatusAmounts<'a> {
    allocated: Option<Amounts<'a>>,
    actuated: Option<Amounts<'a>>,
}

impl<'a> ContainerAmounts<'a> {
    fn resized(&self) -> &Amounts<'a> {
        self.resized.as_ref().unwrap_or(&self.spec)
    }

    /// The resources that the node has admitted for the container.
    fn allocated(&self) -> Option<&Amounts<'a>> {
        self.status.as_ref()?.allocated.as_ref()
    }

    /// The resources that the container has.
    fn actuated(&self) -> Option<&Amounts<'a>> {
        let status = self.status.as_ref()?;
        status.actuated.as_ref().or(status.allocated.as_ref())
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
    /// The requests in the status of the pod.
    status: PodStatusAmounts<'a>,
    resize: Resize,
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
            status: PodStatusAmounts::parse(status),
            resize,
            overhead: Amounts::parse(&spec.overhead, "spec.overhead", problems),
        }
    }

    fn requests(&self) -> PodRequests {
        let fit = self.finish(self.containers_spec(&Defaults::NONE), &self.pod_level);
        let mut score = self.containers_spec(&Defaults::BOTH);
        score.add(&self.overhead);
        let by_container = self.footprint(&fit, Self::placed);
        let whole = match self.has_status() {
            true => self.footprint(&fit, Self::placed_as_a_whole),
            false => by_container.clone(),
        };
        let by_container = (by_container != whole).then(|| Box::new(by_container));
        let Footprint { placed, placed_non_zero } = whole;
        PodRequests {
            fit: fit.to_resources(),
            score: score.to_resources(),
            placed,
            placed_non_zero,
            by_container,
        }
    }

    /// Returns the room that the pod takes by a rule.
    fn footprint(
        &self,
        fit: &Amounts<'a>,
        rule: impl Fn(&Self, &Defaults) -> Amounts<'a>,
    ) -> Footprint {
        let is_resized = self.has_status() || self.is_resized();
        let placed = if is_resized { rule(self, &Defaults::NONE) } else { fit.clone() };
        let defaults = if self.pod_level.0.is_empty() {
            Defaults::BOTH
        } else {
            Defaults { cpu: !placed.names(CPU), memory: !placed.names(MEMORY) }
        };
        Footprint {
            placed_non_zero: rule(self, &defaults).cpu_memory(),
            placed: placed.to_resources(),
        }
    }

    /// Returns whether the status says anything about resources.
    fn has_status(&self) -> bool {
        let mut all = self.containers.iter().chain(&self.init_containers);
        matches!(self.resize, Resize::Infeasible)
            || self.pod_level_resized.is_some()
            || self.status.allocated.is_some()
            || all.any(|own| own.allocated().is_some() || own.actuated().is_some())
    }

    /// Returns the maximum over the totals of the pod: of what the spec asks for, of what the node
    /// has admitted, and of what the containers have.
    fn placed_as_a_whole(&self, defaults: &Defaults) -> Amounts<'a> {
        let nothing = Amounts::default();
        let is_feasible = matches!(self.resize, Resize::Feasible);
        let total = |pick: for<'c> fn(&'c ContainerAmounts<'a>) -> Option<&'c Amounts<'a>>| {
            let pick = |own: &ContainerAmounts<'a>| match pick(own) {
                Some(amounts) => amounts.clone(),
                None if is_feasible => own.spec.clone(),
                None => nothing.clone(),
            };
            self.total(pick, defaults)
        };
        let (allocated, actuated) = match (&self.status.allocated, &self.status.actuated) {
            (Some(allocated), Some(actuated)) => (allocated.clone(), actuated.clone()),
            _ => (total(ContainerAmounts::allocated), total(ContainerAmounts::actuated)),
        };
        let mut containers = actuated;
        containers.max(&allocated);
        if is_feasible {
            containers.max(&self.containers_spec(defaults));
        }
        self.finish(containers, self.pod_level_resized.as_ref().unwrap_or(&self.pod_level))
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
        self.total(|container| pick(container).clone(), defaults)
    }

    /// Returns the total of the requests that `pick` returns for each container.
    fn total(
        &self,
        pick: impl Fn(&ContainerAmounts<'a>) -> Amounts<'a>,
        defaults: &Defaults,
    ) -> Amounts<'a> {
        let requests = |container: &ContainerAmounts<'a>| {
            let mut amounts = pick(container);
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
        let mut conditions = status.conditions.iter();
        let pending = conditions.find(|condition| condition.type_ == "PodResizePending");
        match pending {
            Some(condition) if condition.reason == "Infeasible" => Self::Infeasible,
            _ => Self::Feasible,
        }
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
            let status = self.status(&raw.name);
            ContainerAmounts { spec, resized, status, sidecar: is_sidecar(raw) }
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

impl<'a> Containers<'a> {
    /// Returns the requests in the status of a container. Faults in them are reported elsewhere.
    fn status(&self, name: &str) -> Option<StatusAmounts<'a>> {
        let status = self.statuses.iter().find(|status| status.name == name)?;
        let actuated = status.resources.as_ref().map(|resources| &resources.requests);
        Some(StatusAmounts {
            allocated: given(&status.allocated_resources),
            actuated: actuated.and_then(given),
        })
    }
}

impl<'a> PodStatusAmounts<'a> {
    fn parse(status: &'a api::PodStatus) -> Self {
        let actuated = status.resources.as_ref().map(|resources| &resources.requests);
        Self { allocated: given(&status.allocated_resources), actuated: actuated.and_then(given) }
    }
}

/// Returns a list, unless it is empty: the API leaves out empty lists.
fn given(list: &api::ResourceList) -> Option<Amounts<'_>> {
    let amounts = Amounts::readable(list);
    (!amounts.0.is_empty()).then_some(amounts)
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
    use crate::Level;

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

    /// The example of the reference: a resize moves CPU from one container to another. Each row has
    /// the CPU of the containers `a` and `b` in the spec, admitted and actuated, and what the pod
    /// takes at 1.36 and 1.37.
    #[test]
    fn resized_pod_takes_the_maximum_of_its_totals_from_1_37_on() {
        const NONE: [i64; 2] = [0, 0];
        for (reason, spec, admitted, actuated, at_1_36, at_1_37) in [
            ("Deferred", [2, 1], [1, 2], [1, 2], 4, 3),
            ("Deferred", [4, 1], [1, 2], [1, 1], 6, 5),
            ("Deferred", [1, 1], [2, 2], [3, 2], 5, 5),
            ("Infeasible", [9, 9], [1, 2], [2, 1], 4, 3),
            // Without actuated resources, the admitted ones count; 1.36 looks at the spec alone.
            ("Deferred", [1, 1], [2, 2], NONE, 2, 4),
            // Without anything in the status, the spec counts, or nothing if the resize is
            // infeasible.
            ("Deferred", [2, 1], NONE, NONE, 3, 3),
            ("Infeasible", [2, 1], NONE, NONE, 3, 0),
        ] {
            let cpu = |amount: i64| match amount {
                0 => json!({}),
                amount => json!({ "cpu": amount.to_string() }),
            };
            let containers = ["a", "b"].iter().zip(spec).map(
                |(name, amount)| json!({ "name": name, "resources": { "requests": cpu(amount) } }),
            );
            let statuses = ["a", "b"].iter().zip(admitted).zip(actuated);
            let statuses = statuses.map(|((name, admitted), actuated)| match actuated {
                0 => json!({ "name": name, "allocatedResources": cpu(admitted) }),
                amount => json!({
                    "name": name,
                    "allocatedResources": cpu(admitted),
                    "resources": { "requests": cpu(amount) },
                }),
            });
            let status = json!({
                "conditions": [{ "type": "PodResizePending", "reason": reason }],
                "containerStatuses": statuses.collect::<Vec<_>>(),
            });
            let spec_text = format!("{reason} {spec:?} {admitted:?} {actuated:?}");
            let requests =
                requests(json!({ "containers": containers.collect::<Vec<_>>() }), status);
            for (level, expected) in [(Level::V1_36, at_1_36), (Level::V1_37, at_1_37)] {
                let mut followed = requests.clone();
                followed.follow(Behaviours::of(level));
                assert_eq!(followed.placed.milli_cpu, expected * 1000, "{spec_text} at {level}");
                assert_eq!(followed.fit, requests.fit);
                assert_eq!(followed.by_container, None);
            }
        }
    }

    /// The init containers of a pod, sidecars or not, have a status, too.
    #[test]
    fn init_containers_are_resized_from_1_37_on() {
        let container = json!({ "name": "i", "resources": { "requests": { "cpu": "1" } } });
        let status = json!({ "initContainerStatuses": [{
            "name": "i",
            "allocatedResources": { "cpu": "2" },
            "resources": { "requests": { "cpu": "3" } },
        }]});
        let requests = requests(json!({ "initContainers": [container] }), status);
        let placed = |level| {
            let mut followed = requests.clone();
            followed.follow(Behaviours::of(level));
            followed.placed.milli_cpu
        };
        assert_eq!([Level::V1_36, Level::V1_37].map(placed), [1000, 3000]);
    }

    #[test]
    fn status_of_the_pod_replaces_the_totals_of_its_containers_from_1_37_on() {
        let container = json!({ "name": "a", "resources": { "requests": { "cpu": "1" } } });
        let status = json!({
            "allocatedResources": { "cpu": "2" },
            "resources": { "requests": { "cpu": "3" } },
            "containerStatuses": [{ "name": "a", "allocatedResources": { "cpu": "7" } }],
        });
        let requests = requests(json!({ "containers": [container] }), status);
        assert_eq!(requests.placed.milli_cpu, 3000);
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
