//! The pools of devices that a node can use.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashSet;
use framework::device::{
    AllocatedState, CounterSet, Device, DeviceId, DevicePool, DeviceUse, NodeScope, PoolKey,
    PoolUse, ResourceSlice,
};
use framework::{Cluster, DevicePools, NodeView, api};
use smallvec::SmallVec;

use crate::{AllocateError, Gates, Overlay};

/// The devices that are allocated, as the watch shows them and as the scheduler knows better.
#[derive(Debug, Clone, Copy)]
pub struct Allocated<'a> {
    /// Allocations according to the watch.
    pub base: &'a AllocatedState,
    /// Allocations that the watch does not show yet, less those that it still shows.
    pub overlay: Option<&'a Overlay>,
}

impl<'a> Allocated<'a> {
    /// Returns the allocations of the devices of a pool.
    pub(crate) fn pool(&self, key: &PoolKey) -> AllocatedInPool<'a> {
        AllocatedInPool {
            base: self.base.pool(key),
            overlay: self.overlay.and_then(|overlay| overlay.allocated().pool(key)),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct AllocatedInPool<'a> {
    base: Option<&'a PoolUse>,
    overlay: Option<&'a PoolUse>,
}

impl<'a> AllocatedInPool<'a> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.base.is_none() && self.overlay.is_none()
    }

    pub(crate) fn device(&self, name: &str) -> Option<Cow<'a, DeviceUse>> {
        let base = self.base.and_then(|pool| pool.get(name));
        let overlay = self.overlay.and_then(|pool| pool.get(name));
        match (base, overlay) {
            (Some(base), Some(overlay)) => {
                let mut sum = base.clone();
                sum.add(overlay);
                Some(Cow::Owned(sum))
            }
            (one, other) => one.or(other).map(Cow::Borrowed),
        }
    }
}

/// Whether devices of a pool can be allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PoolState {
    Ready,
    /// Slices are missing: the driver is replacing them.
    Incomplete,
    /// The slices contradict each other.
    Invalid,
}

/// Slices of a pool; most have one or two.
pub(crate) type Slices<'a> = SmallVec<[&'a Arc<ResourceSlice>; 2]>;

/// A pool as one node sees it.
#[derive(Debug)]
pub(crate) struct Pool<'a> {
    pub(crate) key: &'a PoolKey,
    pub(crate) state: PoolState,
    /// The slices with devices for the node, by name.
    pub(crate) slices: Slices<'a>,
    /// The other slices of a pool with counters, whose devices may consume them.
    pub(crate) elsewhere: Vec<&'a Arc<ResourceSlice>>,
    pub(crate) counter_sets: Vec<&'a CounterSet>,
    /// Whether a device has binding conditions. Pools with such a device are searched last.
    pub(crate) binds_later: bool,
}

impl<'a> Pool<'a> {
    fn unusable(key: &'a PoolKey, state: PoolState) -> Self {
        Self {
            key,
            state,
            slices: Slices::new(),
            elsewhere: Vec::new(),
            counter_sets: Vec::new(),
            binds_later: false,
        }
    }
}

/// Adds the pools that concern the node, in the order in which they are searched.
///
/// # Errors
/// A node selector cannot be parsed.
pub(crate) fn gather<'a>(
    cluster: &'a Cluster,
    gates: Gates,
    node: &NodeView<'_>,
    pools: &mut Vec<Pool<'a>>,
) -> Result<(), AllocateError> {
    let all = cluster.device_pools();
    let mut keys: SmallVec<[&PoolKey; 4]> = all.pools_naming(node.name()).collect();
    keys.extend(all.pools_for_any_node());
    if gates.partitionable_devices {
        // kube-scheduler considers slices with counters on every node. Of pools with nothing else
        // for the node it notices only that they are incomplete or invalid.
        keys.extend(all.unsound_pools_with_counters());
    }
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        if let Some(pool) = view(all, key, gates, node)? {
            pools.push(pool);
        }
    }
    // The sort is stable: the pools stay ordered by driver and name.
    pools.sort_by_key(|pool| pool.binds_later);
    Ok(())
}

/// Returns the pool as the node sees it; `None` if it has nothing for the node, or if a driver is
/// replacing it by slices for other nodes.
fn view<'a>(
    all: &'a DevicePools,
    key: &'a PoolKey,
    gates: Gates,
    node: &NodeView<'_>,
) -> Result<Option<Pool<'a>>, AllocateError> {
    let mut relevant = Slices::new();
    for slice in all.slices(key) {
        if !is_relevant(slice, gates, node)? {
            continue;
        }
        let generation = relevant.first().map_or(i64::MIN, |first| first.pool.generation);
        if slice.pool.generation > generation {
            relevant.clear();
        }
        if slice.pool.generation >= generation {
            relevant.push(slice);
        }
    }
    let Some(first) = relevant.first() else { return Ok(None) };
    let DevicePool { generation, slice_count, .. } = first.pool;
    if is_count(relevant.len(), slice_count) {
        return Ok(Some(build(all, key, relevant, Vec::new(), gates)));
    }
    if all.slices(key).any(|slice| slice.pool.generation > generation) {
        return Ok(None);
    }
    let current = all.slices(key).filter(|slice| slice.pool.generation == generation);
    if !is_count(current.clone().count(), slice_count) {
        return Ok(Some(Pool::unusable(key, PoolState::Incomplete)));
    }
    let is_new =
        |slice: &&Arc<ResourceSlice>| relevant.iter().all(|known| !Arc::ptr_eq(known, slice));
    let elsewhere = current.filter(is_new).collect();
    Ok(Some(build(all, key, relevant, elsewhere, gates)))
}

fn is_count(slices: usize, wanted: i64) -> bool {
    i64::try_from(slices).is_ok_and(|slices| slices == wanted)
}

fn is_relevant(
    slice: &ResourceSlice,
    gates: Gates,
    node: &NodeView<'_>,
) -> Result<bool, AllocateError> {
    let has_counters = !slice.shared_counters.is_empty();
    if !gates.partitionable_devices && (slice.sets_per_device_node_selection || has_counters) {
        return Ok(false);
    }
    if has_counters {
        return Ok(true);
    }
    match &slice.scope {
        NodeScope::PerDevice => {
            for device in &slice.devices {
                let what = || format!("device {} in slice {}", slice.id_of(device), slice.name);
                if includes(&device.scope, node, what)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        scope => includes(scope, node, || format!("slice {}", slice.name)),
    }
}

fn includes(
    scope: &NodeScope,
    node: &NodeView<'_>,
    what: impl Fn() -> String,
) -> Result<bool, AllocateError> {
    scope.includes(node).map_err(|_| {
        AllocateError::fatal(format!(
            "gather pool information: failed to perform node selection for {}: {}",
            what(),
            parse_error(scope).unwrap_or_default()
        ))
    })
}

/// Returns the error of a node selector that cannot be parsed.
pub(crate) fn parse_error(scope: &NodeScope) -> Option<String> {
    let NodeScope::Selector(selector) = scope else { return None };
    let error = selector.compiled.as_ref().err()?;
    Some(format!("failed to parse node selector {}: {error}", go_text(&selector.raw)))
}

/// Prints a node selector as Kubernetes does in errors.
fn go_text(selector: &api::NodeSelector) -> String {
    let requirements = |list: &[api::SelectorRequirement]| {
        let one = |raw: &api::SelectorRequirement| {
            let values = raw.values.join(" ");
            let (key, operator) = (&raw.key, &raw.operator);
            format!("NodeSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        };
        list.iter().map(one).collect::<String>()
    };
    let terms = selector.node_selector_terms.iter().map(|term| {
        format!(
            "NodeSelectorTerm{{MatchExpressions:[]NodeSelectorRequirement{{{}}},\
             MatchFields:[]NodeSelectorRequirement{{{}}},}},",
            requirements(&term.match_expressions),
            requirements(&term.match_fields),
        )
    });
    let terms: String = terms.collect();
    format!("&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}")
}

/// Returns a complete pool, checked for contradictions.
fn build<'a>(
    all: &DevicePools,
    key: &'a PoolKey,
    relevant: Slices<'a>,
    elsewhere: Vec<&'a Arc<ResourceSlice>>,
    gates: Gates,
) -> Pool<'a> {
    if !all.is_sound(key) && !are_consistent(&relevant, &elsewhere, gates) {
        return Pool::unusable(key, PoolState::Invalid);
    }
    let counter_sets = relevant.iter().flat_map(|slice| &slice.shared_counters).collect();
    let mut slices = relevant;
    slices.retain(|slice| slice.shared_counters.is_empty());
    let mut devices = slices.iter().flat_map(|slice| &slice.devices);
    let binds_later =
        gates.binding_conditions && devices.any(|device| !device.binding_conditions.is_empty());
    Pool { key, state: PoolState::Ready, slices, elsewhere, counter_sets, binds_later }
}

/// Returns whether the names of devices and counter sets are unique, and all counters defined.
fn are_consistent(
    relevant: &[&Arc<ResourceSlice>],
    elsewhere: &[&Arc<ResourceSlice>],
    gates: Gates,
) -> bool {
    let mut sets: BTreeMap<&str, &CounterSet> = BTreeMap::new();
    let mut counter_sets = relevant.iter().flat_map(|slice| &slice.shared_counters);
    if !counter_sets.all(|set| sets.insert(&set.name, set).is_none()) {
        return false;
    }
    let mut names = HashSet::default();
    let slices = relevant.iter().filter(|slice| slice.shared_counters.is_empty());
    let mut devices = slices.flat_map(|slice| &slice.devices);
    let mut consumers = relevant.iter().chain(elsewhere).flat_map(|slice| &slice.devices);
    devices.all(|device| names.insert(&device.name))
        && (!gates.partitionable_devices
            || consumers.all(|device| consumes_known_counters(device, &sets)))
}

fn consumes_known_counters(device: &Device, sets: &BTreeMap<&str, &CounterSet>) -> bool {
    device.consumes_counters.iter().all(|consumption| {
        sets.get(&*consumption.set)
            .is_some_and(|set| consumption.counters.iter().all(|(counter, _)| set.has(counter)))
    })
}

/// Returns the identity of a device.
pub(crate) fn id_of(pool: &PoolKey, device: &Device) -> DeviceId {
    DeviceId { driver: pool.driver.clone(), pool: pool.pool.clone(), device: device.name.clone() }
}
