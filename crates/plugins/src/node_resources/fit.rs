//! NodeResourcesFit: rejects nodes without enough free resources for the pod, and scores nodes by
//! their utilization.
//!
//! The filter compares the requests of the pod with the requests of placed pods. For scores,
//! containers without cpu or memory requests count with a default, so that their pods are spread
//! too.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use framework::device::DeviceClass;
use framework::{
    ActionType, Attempt, AttemptMut, Cluster, ClusterEvent, Code, CycleState, Dependence,
    EventForPod, EventResource, Filter, FilterScope, Handle, HintResult, IMPLICIT_RESOURCE_PREFIX,
    Node, NodeBits, NodeIx, NodeView, PerNode, PlacedGroup, PlacementScore, Plugin, PluginArgs,
    PluginGates, Pod, PodRequests, PodRoom, PreFilter, PreFilterResult, PreScore, ProspectiveGroup,
    QueueingHint, Resources, Score, ScoreScope, Status, VerdictId, Verdicts,
    is_extended_resource_name,
};

use super::args::FitArgs;
use super::kernels::{self, Block};
use super::scoring::Strategy;
use super::{Basis, Column, Lane, RatedResources, Resource, Share, Usage, shares_on};
use crate::hint::queue_if;

/// Name of the plugin.
pub const NAME: &str = "NodeResourcesFit";

/// Makes the plugin.
///
/// # Errors
/// The arguments do not decode or are not valid.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let gates = args.gates();
    let args = FitArgs::decode(args)?;
    let pod = ActionType::DELETE | ActionType::UPDATE_POD_SCALE_DOWN;
    let node = ActionType::ADD | ActionType::UPDATE_NODE_ALLOCATABLE;
    let device_class = ActionType::ADD | ActionType::UPDATE;
    let event = ClusterEvent::new;
    let plugin = Plugin::new(NAME, Fit::new(args, gates))
        .pre_filter()
        .filter()
        .pre_score()
        .score()
        .placement_score()
        .pod_room()
        .on_with_hint(event(EventResource::Pod, pod), Fit::after_pod_change)
        .on_with_hint(event(EventResource::Node, node), Fit::after_node_change);
    let plugin = match gates.extended_resources {
        true => plugin.on_with_hint(
            event(EventResource::DeviceClass, device_class),
            Fit::after_device_class_change,
        ),
        false => plugin,
    };
    Ok(plugin.build())
}

struct Fit {
    ignored_resources: Vec<String>,
    ignored_resource_groups: Vec<String>,
    strategy: Strategy,
    rated: RatedResources,
    /// Whether devices provide extended resources.
    has_devices: bool,
}

/// A resource amount that must be free on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) resource: Resource,
    /// The amount, greater than 0.
    amount: i64,
    /// Whether a DeviceClass provides the resource. A node that does not offer the resource itself
    /// may offer it through devices; DynamicResources decides about such a node.
    has_class: bool,
}

/// The needs of the pod of this cycle: a pod slot first, then resources.
#[derive(Debug, Clone)]
struct Needs(Arc<[Need]>);

/// The needs that a node cannot meet.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Shortages {
    /// Indexes into the list of needs.
    short: Vec<usize>,
    /// Whether some need exceeds the allocatable amount of the node.
    unresolvable: bool,
}

impl Fit {
    fn new(args: FitArgs, gates: PluginGates) -> Self {
        let rated = &args.scoring_strategy.resources;
        Self {
            strategy: Strategy::new(&args.scoring_strategy),
            rated: RatedResources::new(rated, Basis::NonZeroRequested, gates),
            has_devices: gates.extended_resources,
            ignored_resources: args.ignored_resources,
            ignored_resource_groups: args.ignored_resource_groups,
        }
    }

    /// Returns the needs of `pod`, without ignored resources.
    fn needs(&self, pod: &Pod, cluster: &Cluster) -> impl Iterator<Item = Need> {
        needs_of(&pod.requests).filter_map(|need| {
            let Resource::Scalar(name) = &need.resource else { return Some(need) };
            let has_class = self.has_devices && cluster.device_class_of_resource(name).is_some();
            (!self.is_ignored(name)).then_some(Need { has_class, ..need })
        })
    }

    fn is_ignored(&self, name: &str) -> bool {
        let group = name.split('/').next().unwrap_or_default();
        (self.ignored_resources.iter().any(|ignored| ignored == name)
            || self.ignored_resource_groups.iter().any(|ignored| ignored == group))
            && is_extended_resource_name(name)
    }
}

/// Returns what a pod with these requests needs of a node, as if no device provided it.
pub(super) fn needs_of(requests: &PodRequests) -> impl Iterator<Item = Need> {
    let scalars = requests.fit.scalars.iter().map(|(name, _)| Resource::Scalar(name.clone()));
    let own = [Resource::PodSlot, Resource::Cpu, Resource::Memory, Resource::EphemeralStorage];
    let need = |resource: Resource| {
        let amount = resource.of(&requests.fit);
        Need { amount, resource, has_class: false }
    };
    own.into_iter().chain(scalars).map(need).filter(|need| need.amount > 0)
}

impl Need {
    const fn lacks_room(&self, usage: Usage) -> bool {
        self.amount > usage.free() && !self.is_left_to_devices(usage.allocatable)
    }

    /// Whether a node with this allocatable amount may offer the resource through devices.
    const fn is_left_to_devices(&self, allocatable: i64) -> bool {
        self.has_class && allocatable == 0
    }

    /// Whether the need exceeds the node's allocatable amount. A missing pod slot is never
    /// unresolvable, even if the node takes no pods at all.
    fn is_unresolvable(&self, usage: Usage) -> bool {
        self.amount > usage.allocatable && self.resource != Resource::PodSlot
    }

    /// Returns a bound of how many pods with this need fit if each then takes the amount `taken`.
    pub(super) const fn most_in(&self, usage: Usage, taken: i64) -> i64 {
        if self.is_left_to_devices(usage.allocatable) {
            return i64::MAX;
        }
        match usage.free().saturating_sub(self.amount) {
            left if left < 0 => 0,
            _ if taken <= 0 => i64::MAX,
            left => (left / taken).saturating_add(1),
        }
    }

    fn reason(&self) -> Cow<'static, str> {
        match &self.resource {
            Resource::PodSlot => "Too many pods".into(),
            Resource::Cpu => "Insufficient cpu".into(),
            Resource::Memory => "Insufficient memory".into(),
            Resource::EphemeralStorage => "Insufficient ephemeral-storage".into(),
            Resource::Scalar(name) => format!("Insufficient {name}").into(),
        }
    }
}

impl Needs {
    fn of_cycle(state: &CycleState) -> Result<&Self, Status> {
        state.read().ok_or_else(|| Status::error("NodeResourcesFit has no data from PreFilter"))
    }

    /// Fills `shortages` for a node with this usage of the needed resources.
    fn check(&self, usage: impl Fn(usize, &Need) -> Usage, shortages: &mut Shortages) {
        shortages.short.clear();
        shortages.unresolvable = false;
        for (place, need) in self.0.iter().enumerate() {
            let usage = usage(place, need);
            if need.lacks_room(usage) {
                shortages.short.push(place);
                shortages.unresolvable |= need.is_unresolvable(usage);
            }
        }
    }

    fn status(&self, shortages: &Shortages) -> Status {
        if shortages.short.is_empty() {
            return Status::success();
        }
        let code = if shortages.unresolvable {
            Code::UnschedulableAndUnresolvable
        } else {
            Code::Unschedulable
        };
        let reasons = shortages.short.iter().map(|place| self.0[*place].reason());
        Status::with_reasons(code, reasons.collect())
    }

    fn columns<'a>(&self, cluster: &'a Cluster) -> Vec<Option<Column<'a>>> {
        self.0.iter().map(|need| need.resource.column(cluster, Basis::Requested)).collect()
    }
}

impl PreFilter for Fit {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        attempt.state.write(Needs(self.needs(attempt.pod, attempt.handle.cluster).collect()));
        Ok(PreFilterResult::default())
    }
}

impl Filter for Fit {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let needs = match Needs::of_cycle(attempt.state) {
            Ok(needs) => needs,
            Err(status) => return status,
        };
        let mut shortages = Shortages::default();
        needs.check(|_, need| need.resource.usage(node, Basis::Requested), &mut shortages);
        needs.status(&shortages)
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let needs = Needs::of_cycle(attempt.state)?;
        let mut dense = Vec::with_capacity(needs.0.len());
        for (need, column) in needs.0.iter().zip(needs.columns(attempt.handle.cluster)) {
            match column {
                Some(Column::Dense(column)) => dense.push((column, need.amount)),
                Some(Column::Scalar(column)) if need.has_class => {
                    kernels::retain_with_scalar_or_none(nodes, column, need.amount);
                }
                Some(Column::Scalar(column)) => {
                    kernels::retain_with_scalar(nodes, column, need.amount);
                }
                None if need.has_class => {}
                None => nodes.clear(),
            }
        }
        kernels::retain_with_room(nodes, &dense);
        Ok(())
    }

    /// Whether a node without a resource may offer it through devices depends on the classes.
    fn dependence(&self, attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let scope = match Needs::of_cycle(attempt.state) {
            Ok(needs) if !needs.0.iter().any(|need| need.has_class) => FilterScope::Node,
            _ => FilterScope::Cluster,
        };
        Some(Dependence::on(scope).of_requests())
    }

    fn explain_set(&self, attempt: &Attempt<'_>, rejected: &NodeBits, verdicts: &mut Verdicts) {
        let needs = match Needs::of_cycle(attempt.state) {
            Ok(needs) => needs,
            Err(status) => return verdicts.record_all(rejected, status),
        };
        let columns = needs.columns(attempt.handle.cluster);
        let mut known: BTreeMap<Shortages, VerdictId> = BTreeMap::new();
        let mut shortages = Shortages::default();
        for node in rejected.iter() {
            let usage = |place: usize, _: &Need| {
                columns[place].map_or_else(Usage::default, |column| column.usage(node))
            };
            needs.check(usage, &mut shortages);
            let verdict = match known.get(&shortages) {
                Some(verdict) => *verdict,
                None => {
                    let verdict = verdicts.intern(needs.status(&shortages));
                    known.insert(shortages.clone(), verdict);
                    verdict
                }
            };
            verdicts.set(node, verdict);
        }
    }
}

impl PreScore for Fit {
    /// Does nothing: the requests of the pod were summed when it arrived.
    fn pre_score(&self, _attempt: AttemptMut<'_>, _nodes: &[NodeIx]) -> Status {
        Status::success()
    }
}

impl Score for Fit {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        Ok(self.strategy.score(self.rated.shares(attempt.state, node, &attempt.pod.requests.score)))
    }

    fn dependence(&self, attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        let scope = self.rated.scope(&attempt.pod.requests.score, attempt.handle.cluster);
        Some(Dependence::on(scope).of_requests())
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: scores, .. } = scores;
        let (cluster, requests) = (attempt.handle.cluster, &attempt.pod.requests.score);
        let devices = self.rated.device_columns(attempt.state, cluster, requests, nodes);
        let lanes = self.rated.lanes(cluster, requests, &devices);
        let mut block = Block::new();
        kernels::for_each_block(
            nodes,
            scores,
            |nodes, scores| self.strategy.score_block(&lanes, &mut block, nodes, scores),
            |node| self.strategy.score(shares_on(&lanes, node)),
        );
        Ok(())
    }
}

impl PodRoom for Fit {
    fn pod_room(&self, pod: &Pod, handle: &Handle<'_>, room: PerNode<'_>) {
        let PerNode { nodes, values, .. } = room;
        for need in self.needs(pod, handle.cluster) {
            let taken = need.resource.of(&pod.requests.placed);
            match need.resource.column(handle.cluster, Basis::Requested) {
                Some(column) => {
                    for (node, room) in nodes.iter().zip(&mut *values) {
                        *room = (*room).min(need.most_in(column.usage(*node), taken));
                    }
                }
                None if need.has_class => {}
                None => values.fill(0),
            }
        }
    }

    /// The requested resources that DeviceClasses provide.
    fn pod_room_as_of(&self, pod: &Pod, handle: &Handle<'_>) -> u64 {
        let needs = self.needs(pod, handle.cluster);
        needs.fold(0, |seen, need| seen.rotate_left(1) ^ u64::from(need.has_class))
    }
}

/// Prefers the placements that are allocated most, whatever the strategy for nodes.
impl PlacementScore for Fit {
    fn placement_score(&self, placed: PlacedGroup<'_>, handle: &Handle<'_>) -> Result<i64, Status> {
        let lanes = self.rated.lanes_of_placement(handle.cluster, placed.members);
        let lanes: Vec<Lane<'_>> = lanes.map(|lane| Lane { request: 0, ..lane }).collect();
        Ok(allocation_of(&placed.placement.nodes, &lanes))
    }

    /// The score as if all members were placed: fewer members allocate less.
    fn placement_score_limits(
        &self,
        group: ProspectiveGroup<'_>,
        handle: &Handle<'_>,
    ) -> Option<Vec<i64>> {
        let lanes: Vec<_> = self.rated.lanes_of_placement(handle.cluster, group.members).collect();
        let placements = group.prospects.iter().map(|own| &own.placement);
        Some(placements.map(|placement| allocation_of(&placement.nodes, &lanes)).collect())
    }

    fn limits_are_local(&self) -> bool {
        true
    }
}

/// Returns the allocated share of these nodes together, from 0 to 100.
fn allocation_of(nodes: &[NodeIx], lanes: &[Lane<'_>]) -> i64 {
    let share = |lane: &Lane<'_>| {
        let usages = nodes.iter().map(|node| lane.column.usage(*node));
        let usage = usages.fold(Usage::default(), Usage::and);
        let Lane { request, weight, .. } = *lane;
        (usage.allocatable > 0).then_some(Share { usage, request, weight })
    };
    Strategy::MostAllocated.score(lanes.iter().filter_map(share))
}

/// Queueing hints.
impl Fit {
    /// Requeues if a pod leaves a node, loses a nomination or shrinks on a node, or if the waiting
    /// pod itself changes.
    fn after_pod_change(&self, event: EventForPod<'_>) -> HintResult {
        let helps = match event.objects.pods()? {
            (Some(gone), None) => gone.node_name.is_some() || gone.nominated_node_name().is_some(),
            (Some(before), Some(after)) => {
                let [wanted, before, requests] =
                    [event.pod, before, after].map(|p| &p.requests.placed);
                after.uid == event.pod.uid
                    || (after.node_name.is_some() && is_less_of_wanted(wanted, requests, before))
            }
            (None, _) => true,
        };
        Ok(queue_if(helps))
    }

    /// Requeues if the pod would fit on the empty node, and the node is new, has more of some
    /// resource, or may offer a resource through devices.
    ///
    /// kube-scheduler also checks ignored resources here and does not requeue some pods that fit.
    /// This hint skips ignored resources.
    fn after_node_change(&self, event: EventForPod<'_>) -> HintResult {
        let (old, Some(new)) = event.objects.nodes()? else {
            return Err("expected an added or updated node".to_owned());
        };
        let mut through_devices = false;
        let fits = self.needs(event.pod, event.handle.cluster).all(|need| {
            let allocatable = need.resource.allocatable(new);
            let is_left = need.is_left_to_devices(allocatable);
            through_devices |= is_left;
            is_left || need.amount <= allocatable
        });
        let grew = |old: &Node| {
            old.allowed_pods < new.allowed_pods
                || is_less_of_wanted(&event.pod.requests.fit, &old.allocatable, &new.allocatable)
        };
        Ok(queue_if(fits && (through_devices || old.is_none_or(grew))))
    }

    /// Requeues if the DeviceClass may provide an extended resource that the pod requests.
    fn after_device_class_change(&self, event: EventForPod<'_>) -> HintResult {
        let (old, Some(new)) = event.objects.typed::<DeviceClass>()? else {
            return Err("expected an added or updated DeviceClass".to_owned());
        };
        let requests =
            |name: &str| event.pod.requests.fit.scalars.iter().any(|(own, _)| **own == *name);
        if old.is_some_and(|old| old.extended_resource_name == new.extended_resource_name) {
            return Ok(QueueingHint::Skip);
        }
        let explicit = new.extended_resource_name.as_deref();
        let name = old.is_none().then_some(&new.name);
        let implicit = name.map(|name| format!("{IMPLICIT_RESOURCE_PREFIX}{name}"));
        Ok(queue_if(implicit.as_deref().into_iter().chain(explicit).any(requests)))
    }
}

/// Whether `less` has a smaller amount than `more` of some wanted resource.
fn is_less_of_wanted(wanted: &Resources, less: &Resources, more: &Resources) -> bool {
    (wanted.milli_cpu > 0 && less.milli_cpu < more.milli_cpu)
        || (wanted.memory > 0 && less.memory < more.memory)
        || (wanted.ephemeral_storage > 0 && less.ephemeral_storage < more.ephemeral_storage)
        || (wanted.scalars.iter())
            .any(|(name, amount)| *amount > 0 && less.scalar(name) < more.scalar(name))
}
