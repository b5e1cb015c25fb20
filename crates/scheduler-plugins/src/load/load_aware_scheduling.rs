//! LoadAwareScheduling of Koordinator: keeps pods off nodes whose load is above a threshold, and
//! prefers nodes with a low load.

use std::collections::BTreeMap;

use framework::{
    ActionType, Attempt, AttemptMut, ClusterEvent, Command, ControllerKind, Dependence,
    EventForPod, EventResource, Filter, FilterScope, Handle, HintResult, NodeBits, NodeIx,
    NodeView, ObjectKey, ObjectUpdate, Plugin, PluginArgs, Pod, PreFilter, PreFilterResult,
    QueueingHint, Status, Time, Timer,
};
use serde::{Deserialize, Serialize};

use super::frame::{Incoming, LoadPlugin, Rating};
use super::measured::NodeMetrics;
use super::pods::{self, Amounts, OVERHEAD};
use super::{AGE_STEP, AgeStep, LoadArgs, Reader, allocatable, capacity, rounded};
use crate::args::Faults;

/// Name of the plugin.
pub const NAME: &str = "LoadAwareScheduling";

const CPU: &str = "cpu";
const MEMORY: &str = "memory";

const CPU_EXCEEDED: &str = "node(s) cpu usage exceed threshold";
const MEMORY_EXCEEDED: &str = "node(s) memory usage exceed threshold";

/// What a pod without a request is expected to use.
const DEFAULT_USAGE: Amounts = Amounts { milli_cpu: 250, memory: 200 << 20 };

/// The token of the only timer.
const EXPIRY: u64 = 0;

/// `LoadAwareSchedulingArgs` of Koordinator, as far as they have a meaning here, and where the load
/// is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadAwareSchedulingArgs {
    /// Where the load is measured.
    #[serde(flatten)]
    pub load: LoadArgs,
    /// The age in seconds at which a measurement counts as none; `maximumAgeSeconds` by another
    /// name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_metric_expiration_seconds: Option<u64>,
    /// The highest load of a node in percent of what it can give to pods, for `cpu` and `memory`; 0
    /// for no threshold.
    pub usage_thresholds: BTreeMap<String, i64>,
    /// The expected usage of a pod in percent of its request or its limit.
    pub estimated_scaling_factors: BTreeMap<String, i64>,
    /// Weights of the resources in the score.
    pub resource_weights: BTreeMap<String, i64>,
    /// Weight of the scarcer resource in the score.
    pub dominant_resource_weight: i64,
    /// Without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_expired_node_metrics: Option<bool>,
    /// Without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_schedule_when_node_metrics_expired: Option<bool>,
}

/// The fields that the arguments may have beside those of the load.
const FIELDS: [&str; 7] = [
    "nodeMetricExpirationSeconds",
    "usageThresholds",
    "estimatedScalingFactors",
    "resourceWeights",
    "dominantResourceWeight",
    "filterExpiredNodeMetrics",
    "enableScheduleWhenNodeMetricsExpired",
];

/// The plugin.
type LoadAwareScheduling = LoadPlugin<Settings>;

/// A number for each resource.
#[derive(Debug, Clone, Copy)]
struct PerResource {
    cpu: i64,
    memory: i64,
}

#[derive(Debug, Clone, Copy)]
struct Settings {
    thresholds: PerResource,
    factors: PerResource,
    weights: PerResource,
    dominant_weight: i64,
}

/// A node without the pod.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    /// When the load was measured.
    taken: Option<Time>,
    /// What was measured, and what pods are expected to use that are not measured.
    used: Amounts,
    /// What all pods are expected to use.
    estimated: Amounts,
    allocatable: Amounts,
}

/// Makes the plugin from [`LoadAwareSchedulingArgs`].
///
/// # Errors
/// The arguments do not decode, the source is invalid, or a number is out of range.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    super::refuse_unknown(args, &FIELDS)?;
    let mut args = args.decode::<LoadAwareSchedulingArgs>()?;
    if let Some(seconds) = args.node_metric_expiration_seconds {
        args.load.maximum_age_seconds = seconds;
    }
    let reader = Reader::new(&mut args.load)?;
    let settings = args.settings()?;
    let plugin = LoadAwareScheduling::new(settings, &reader);
    let measured = ClusterEvent::new(EventResource::Custom(reader.kind.clone()), ActionType::ALL);
    let deleted = ClusterEvent::new(EventResource::Pod, ActionType::DELETE);
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_ALLOCATABLE;
    let nodes = ClusterEvent::new(EventResource::Node, nodes);
    let plugin = Plugin::new(NAME, plugin).pre_filter().filter().score().timer();
    let plugin = reader.register(plugin).keep_containers().keep_pod_field(OVERHEAD);
    let plugin = plugin
        .on_with_hint(measured, LoadAwareScheduling::after_measurement)
        .on_with_hint(deleted, LoadAwareScheduling::after_pod)
        .on_with_hint(nodes, LoadAwareScheduling::after_node)
        .decides_by_template()
        .args(&args);
    Ok(args.notes().into_iter().fold(plugin, |plugin, note| plugin.note(note)).build())
}

impl LoadAwareSchedulingArgs {
    /// Fills in the defaults and checks the numbers.
    fn settings(&mut self) -> Result<Settings, String> {
        let mut faults = Faults::default();
        if self.resource_weights.is_empty() && self.dominant_resource_weight == 0 {
            self.resource_weights = [CPU, MEMORY].map(|name| (name.to_owned(), 1)).into();
        }
        if self.usage_thresholds.is_empty() {
            self.usage_thresholds = [(CPU.to_owned(), 65), (MEMORY.to_owned(), 95)].into();
        }
        for (name, factor) in [(CPU, 85), (MEMORY, 70)] {
            self.estimated_scaling_factors.entry(name.to_owned()).or_insert(factor);
        }
        if self.dominant_resource_weight < 0 {
            let got = self.dominant_resource_weight;
            faults.invalid("dominantResourceWeight", got, "must be 0 or more");
        }
        let mut of = |path: &str, map: &BTreeMap<String, i64>, from: i64, to: i64| {
            for (name, value) in map {
                let at = format!("{path}[{name}]");
                if name != CPU && name != MEMORY {
                    faults.invalid(at, value, "only cpu and memory are measured");
                } else if !(from..=to).contains(value) {
                    faults.invalid(at, value, &format!("must be from {from} to {to}"));
                }
            }
            let number = |name: &str| map.get(name).copied().unwrap_or_default();
            PerResource { cpu: number(CPU), memory: number(MEMORY) }
        };
        let settings = Settings {
            thresholds: of("usageThresholds", &self.usage_thresholds, 0, 100),
            factors: of("estimatedScalingFactors", &self.estimated_scaling_factors, 1, 100),
            weights: of("resourceWeights", &self.resource_weights, 0, 100),
            dominant_weight: self.dominant_resource_weight,
        };
        faults.none_or(settings)
    }

    /// Says which arguments have no effect.
    fn notes(&self) -> Vec<String> {
        let expired = [
            ("filterExpiredNodeMetrics", self.filter_expired_node_metrics),
            (
                "enableScheduleWhenNodeMetricsExpired",
                self.enable_schedule_when_node_metrics_expired,
            ),
        ];
        let given = expired.into_iter().filter(|(_, value)| value.is_some());
        let note = |field| {
            format!(
                "{field} has no effect: a node whose measurement has expired is judged by the \
                 requests of its pods"
            )
        };
        given.map(|(field, _)| note(field)).collect()
    }
}

/// Returns what a pod is expected to use of a resource: a share of its request, or of its limit if
/// that is higher, but not more than the limit.
fn expected(request: i64, limit: i64, factor: i64, default: i64) -> i64 {
    let most = request.max(limit);
    if most == 0 {
        return default;
    }
    let share = (most as f64 * factor as f64 / 100.0).round() as i64;
    if limit > 0 { share.min(limit) } else { share }
}

impl Settings {
    fn expected(&self, pod: &Pod) -> Amounts {
        let (requests, limits) = (pods::requests(pod), pods::limits(pod));
        let Self { factors, .. } = self;
        let default = DEFAULT_USAGE;
        Amounts {
            milli_cpu: expected(
                requests.milli_cpu,
                limits.milli_cpu,
                factors.cpu,
                default.milli_cpu,
            ),
            memory: expected(requests.memory, limits.memory, factors.memory, default.memory),
        }
    }

    /// Returns why the node does not take the pod.
    #[inline]
    fn excess(&self, row: &Row, incoming: &Incoming<Amounts>) -> Option<&'static str> {
        let is_fresh = row.taken.is_some_and(|taken| taken >= incoming.fresh_since);
        let used = if is_fresh { row.used } else { row.estimated };
        let used = used.plus(incoming.asked);
        let exceeds = |used: i64, capacity: i64, threshold: i64| {
            threshold > 0
                && capacity > 0
                && rounded(used as f64 / capacity as f64 * 100.0) > threshold
        };
        let (thresholds, capacity) = (&self.thresholds, &row.allocatable);
        if exceeds(used.milli_cpu, capacity.milli_cpu, thresholds.cpu) {
            return Some(CPU_EXCEEDED);
        }
        exceeds(used.memory, capacity.memory, thresholds.memory).then_some(MEMORY_EXCEEDED)
    }
}

impl Rating for Settings {
    type Row = Row;
    /// What the pod is expected to use.
    type Asked = Amounts;
    const COUNTS_PODS: bool = true;

    fn row(&self, node: &NodeView<'_>, reader: &Reader) -> Row {
        let expected = |sum: Amounts, pod: &Pod| sum.plus(self.expected(pod));
        let estimated = node.pods().fold(Amounts::default(), |sum, pod| expected(sum, pod));
        let row = Row { estimated, allocatable: allocatable(node), ..Row::default() };
        let measured = || {
            let metrics = reader.last(node)?;
            Some((metrics.taken, metrics.cpu?, metrics.memory?))
        };
        let Some((taken, cpu, memory)) = measured() else { return row };
        let capacity = capacity(node);
        let measured = Amounts {
            milli_cpu: cpu.average.amount_of(capacity.milli_cpu).round() as i64,
            memory: memory.average.amount_of(capacity.memory).round() as i64,
        };
        let used = pods::unmeasured(node, taken).fold(measured, expected);
        Row { taken: Some(taken), used, ..row }
    }

    fn asked(&self, pod: &Pod) -> Amounts {
        self.expected(pod)
    }

    /// Returns the weighted mean of the free shares, in percent.
    #[inline]
    fn score(&self, row: &Row, asked: &Amounts, fresh_since: Time) -> i64 {
        if row.taken.is_none_or(|taken| taken < fresh_since) {
            return 0;
        }
        let free = |used: i64, capacity: i64| match capacity {
            some if some > 0 && used <= some => {
                i64::try_from(i128::from(some - used) * 100 / i128::from(some)).unwrap_or(0)
            }
            _ => 0,
        };
        let used = row.used.plus(*asked);
        let cpu = free(used.milli_cpu, row.allocatable.milli_cpu);
        let memory = free(used.memory, row.allocatable.memory);
        let weights = &self.weights;
        let mut scarcest = 100;
        if weights.cpu > 0 {
            scarcest = scarcest.min(cpu);
        }
        if weights.memory > 0 {
            scarcest = scarcest.min(memory);
        }
        let sum = cpu * weights.cpu + memory * weights.memory + scarcest * self.dominant_weight;
        sum / (weights.cpu + weights.memory + self.dominant_weight).max(1)
    }
}

impl LoadAwareScheduling {
    fn excess(&self, incoming: &Incoming<Amounts>, node: &NodeView<'_>) -> Option<&'static str> {
        self.rating.excess(&self.row(node), incoming)
    }

    /// Queues the pod if the node with this name takes it now.
    fn after_change_of(&self, name: Option<&str>, event: EventForPod<'_>) -> HintResult {
        let cluster = event.handle.cluster;
        let Some(node) = name.and_then(|name| cluster.node_named(name)) else {
            return Ok(QueueingHint::Skip);
        };
        let incoming = self.incoming(event.pod, event.handle);
        let excess = self.excess(&incoming, &cluster.node(node));
        Ok(QueueingHint::queue_if(excess.is_none()))
    }

    fn after_measurement(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.others()?;
        self.after_change_of(new.or(old).map(|object| &**object.name()), event)
    }

    fn after_pod(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.pods()?;
        let gone = old.or(new);
        self.after_change_of(gone.and_then(|pod: &Pod| pod.node_name.as_deref()), event)
    }

    fn after_node(&self, event: EventForPod<'_>) -> HintResult {
        let (_, new) = event.objects.nodes()?;
        self.after_change_of(new.map(|node| &*node.name), event)
    }

    /// Sets the timer to a step of the age.
    fn wake_at(step: AgeStep, handle: &Handle<'_>) {
        let wait = step.start().since(handle.wall_time());
        let at = handle.now + wait;
        handle.command(Command::SetTimer { plugin: NAME.into(), at, token: EXPIRY });
    }
}

/// A measurement that expires changes the verdict without a change of the node. While pods are
/// pending, the timer reports each such node.
impl Timer for LoadAwareScheduling {
    fn fire(&self, _token: u64, handle: &Handle<'_>) {
        if handle.pending.is_empty() {
            return;
        }
        let kind = EventResource::Custom(self.reader.kind.clone());
        let fresh_since = self.reader.fresh_since(handle);
        let mut oldest: Option<Time> = None;
        for metrics in handle.cluster.all_decoded::<NodeMetrics>(&self.reader.kind) {
            let (object, NodeMetrics { taken, .. }) = metrics;
            if *taken >= fresh_since {
                oldest = Some(oldest.map_or(*taken, |other| other.min(*taken)));
            } else if fresh_since.since(*taken).as_nanos() <= AGE_STEP.unsigned_abs().into() {
                let key = ObjectKey::cluster_scoped(kind.clone(), object.name.clone());
                if let Some(object) = handle.cluster.stored_object(&key) {
                    let update = ObjectUpdate { old: None, new: Some(object) };
                    handle.command(Command::ObjectChanged(Box::new(update)));
                }
            }
        }
        if let Some(oldest) = oldest {
            let age = oldest.since(fresh_since).as_nanos();
            let steps = i64::try_from(age).unwrap_or(i64::MAX) / AGE_STEP + 1;
            let AgeStep(now) = AgeStep::of(handle);
            Self::wake_at(AgeStep(now.saturating_add(steps)), handle);
        }
    }
}

impl PreFilter for LoadAwareScheduling {
    /// Pods of a DaemonSet go to their nodes, whatever the load is.
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let AttemptMut { pod, handle, .. } = attempt;
        if pod.controller.as_ref().is_some_and(|own| own.kind == ControllerKind::DaemonSet) {
            return Err(Status::skip());
        }
        let AgeStep(now) = AgeStep::of(handle);
        Self::wake_at(AgeStep(now + 1), handle);
        Ok(PreFilterResult::default())
    }
}

impl Filter for LoadAwareScheduling {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let incoming = self.incoming(attempt.pod, attempt.handle);
        let excess = self.excess(&incoming, node);
        excess.map_or_else(Status::success, Status::unschedulable)
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let incoming = self.incoming(attempt.pod, attempt.handle);
        let cluster = attempt.handle.cluster;
        let all: Vec<NodeIx> = nodes.iter().collect();
        self.rows(all.iter().map(|node| cluster.node(*node)), |place, row| {
            if self.rating.excess(row, &incoming).is_some() {
                nodes.remove(all[place]);
            }
        });
        Ok(())
    }

    /// Measurements expire without a change of their nodes.
    fn dependence(&self, attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let AgeStep(step) = AgeStep::of(attempt.handle);
        Some(Dependence::on(FilterScope::NodeAsOf(step.unsigned_abs())))
    }
}
