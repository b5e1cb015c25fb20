//! A history of slices, allocations and claims: the allocator agrees with the naive one.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use framework::device::{
    AllocatedDevice, AllocatedState, Allocation, DEVICE_TAINT_RULES, Device, DeviceClass,
    DeviceSelector, DeviceUse, NodeScope, ResourceClaim, ResourceSlice,
};
use framework::{EventResource, Level, NodeView, api};
use serde::Deserialize;
use serde_json::{Value, json};

use super::alike;
use super::details::Origin;
use super::naive::{End, Id, Naive, Picked, Sums};
use super::random::{claims, one_in, pick, slices};
use super::steps;
use super::toy::{self, Toys};
use super::world::{World, read_claim};
use crate::search::Buffers;
use crate::{
    AllocateError, Allocated, Allocator, Answer, Budget, Claims, CountedClass, DeviceCount,
    Diagnoses, Diagnosis, Gates, Limits, LongSearches, Memos, NodesByShape, Overlay,
};
use testkit::SetJson;

/// Candidates after which the naive search gives up, so that a case takes no longer than this.
const PATIENCE: usize = 300;
const NODES: [&str; 2] = ["n1", "n2"];
const CLASSES: [&str; 2] = ["any", "model0"];

/// What the naive search found.
type Expected = Result<Option<Vec<Vec<Picked>>>, End>;

/// A cluster that changes.
struct History {
    /// Whether devices differ in one thing only.
    is_alike: bool,
    world: World,
    slices: BTreeMap<String, Value>,
    /// The allocations of stored claims, by the names of the claims.
    stored: BTreeMap<String, Value>,
    /// The allocations that the watch does not show.
    unshown: Vec<Value>,
    /// The stored claims that the watch still shows as allocated, and that are not.
    ended: BTreeSet<String>,
    overlay: Overlay,
    memos: Memos,
    /// The same for all searches of the history.
    gates: Gates,
    /// The claims that were asked for.
    asked: Vec<Vec<Value>>,
}

/// Lives through one history. Returns how the searches ended.
///
/// # Errors
/// The allocator differs from the naive one. The trace has the objects.
pub fn history(rng: &mut Rng, trace: &mut Vec<String>) -> Result<Vec<&'static str>, String> {
    steps::history(rng)?;
    let mut history = History::new(rng, trace);
    let mut ends = Vec::new();
    let rounds = if history.is_alike { 2 + rng.usize(..8) } else { 1 + rng.usize(..3) };
    for round in 0..rounds {
        if round > 0 && (!history.is_alike || rng.bool()) {
            history.change(rng, trace);
        }
        let wanted = history.claims(rng);
        wanted.iter().for_each(|claim| trace.push(format!("claim {claim}")));
        ends.extend(history.compare(wanted, rng)?);
    }
    Ok(ends)
}

impl History {
    fn new(rng: &mut Rng, trace: &mut Vec<String>) -> Self {
        let mut world = World::new(&NODES);
        world.class("any", &[]);
        world.class("model0", &["a.com/model=0"]);
        let config = json!({"opaque": {"driver": "a.com", "parameters": {"of": "class"}}});
        let spec = json!({"selectors": [], "config": [config]});
        if rng.bool() {
            let object = json!({"metadata": {"name": "any"}, "spec": spec});
            world.set(&EventResource::DeviceClass, object);
        }
        let mut history = Self {
            is_alike: rng.bool(),
            world,
            slices: BTreeMap::new(),
            stored: BTreeMap::new(),
            unshown: Vec::new(),
            ended: BTreeSet::new(),
            overlay: Overlay::default(),
            memos: Memos::default(),
            gates: random_gates(rng),
            asked: Vec::new(),
        };
        if history.gates.device_taint_rules && rng.bool() {
            history.set_taint_rule(rng, trace);
        }
        for (name, spec) in history.random_slices(rng) {
            history.set_slice(name, spec, trace);
        }
        history.allocate_some(rng, "old-0", 5, trace);
        if rng.bool() {
            history.keep_from_watch(rng, trace);
        }
        history
    }

    /// Changes a slice, the allocation of a stored claim, or what the watch does not show.
    fn change(&mut self, rng: &mut Rng, trace: &mut Vec<String>) {
        for _ in 0..1 + rng.usize(..3) {
            match rng.usize(..9) {
                8 => self.change_class(rng, trace),
                7 => {
                    let mut open = self.stored.keys().filter(|name| !self.ended.contains(*name));
                    let Some(name) = open.next().cloned() else { continue };
                    trace.push(format!("stored claim {name} is not allocated any more"));
                    self.overlay.remove(&read_allocation(&self.stored[&name]));
                    self.ended.insert(name);
                }
                6 if self.gates.device_taint_rules => self.set_taint_rule(rng, trace),
                6 => self.change_class(rng, trace),
                0 => {
                    let fresh = self.random_slices(rng);
                    let (name, spec) = pick(rng, &fresh).clone();
                    self.set_slice(name, spec, trace);
                }
                1 => {
                    let names: Vec<String> = self.slices.keys().cloned().collect();
                    let Some(name) = rng.choice(&names) else { continue };
                    trace.push(format!("slice {name} is gone"));
                    self.slices.remove(name);
                    self.world.cluster.set_json(&EventResource::ResourceSlice, "", name, None);
                }
                2 | 3 => {
                    let name = *pick(rng, &["old-0", "old-1"]);
                    self.allocate_some(rng, name, 3, trace);
                }
                4 if !self.unshown.is_empty() => {
                    let gone = self.unshown.swap_remove(rng.usize(..self.unshown.len()));
                    trace.push(format!("given up: {gone}"));
                    self.overlay.remove(&read_allocation(&gone));
                }
                _ => self.keep_from_watch(rng, trace),
            }
        }
    }

    /// Changes the selector of a class, or deletes the class.
    fn change_class(&mut self, rng: &mut Rng, trace: &mut Vec<String>) {
        let name = *pick(rng, &["model0", "model0", "any"]);
        if one_in(rng, 3) {
            trace.push(format!("class {name} is gone"));
            self.world.cluster.set_json(&EventResource::DeviceClass, "", name, None);
            return;
        }
        let count = usize::from(name != "any") + usize::from(one_in(rng, 4));
        let texts = ["a.com/model=0", "a.com/model!0", "a.com/numa=1", "#bandwidth=4", "*=1"];
        let selectors: Vec<&str> = (0..count).map(|_| *pick(rng, &texts)).collect();
        trace.push(format!("class {name}: {selectors:?}"));
        self.world.class(name, &selectors);
    }

    /// Returns random claims, or what was asked for before.
    fn claims(&mut self, rng: &mut Rng) -> Vec<Value> {
        if let Some(known) = rng.choice(&self.asked).cloned()
            && one_in(rng, 3)
        {
            return known;
        }
        let is_plain = if self.is_alike { !one_in(rng, 4) } else { one_in(rng, 8) };
        let fresh = if is_plain { alike::claims(rng) } else { claims(rng) };
        self.asked.push(fresh.clone());
        fresh
    }

    fn set_taint_rule(&mut self, rng: &mut Rng, trace: &mut Vec<String>) {
        let selector = match rng.usize(..5) {
            0 => json!({}),
            4 => Value::Null,
            1 => json!({"driver": "a.com"}),
            2 => json!({"pool": *pick(rng, &["p", "q"])}),
            _ => json!({"device": *pick(rng, &["0-0", "0-0-0", "0-1", "1-0-0"])}),
        };
        let effect = *pick(rng, &["NoSchedule", "NoExecute", "None"]);
        let taint = json!({"key": "t", "value": "v", "effect": effect});
        let spec = json!({"deviceSelector": selector, "taint": taint});
        trace.push(format!("taint rule: {spec}"));
        let kind = EventResource::Custom(DEVICE_TAINT_RULES.into());
        self.world.set(&kind, json!({"metadata": {"name": "rule"}, "spec": spec}));
    }

    fn random_slices(&self, rng: &mut Rng) -> Vec<(String, Value)> {
        if self.is_alike { alike::slices(rng) } else { slices(rng) }
    }

    fn set_slice(&mut self, name: String, spec: Value, trace: &mut Vec<String>) {
        trace.push(format!("slice {name}: {spec}"));
        self.world.slice(&name, spec.clone());
        self.slices.insert(name, spec);
    }

    /// Allocates one in `chance` devices to a stored claim.
    fn allocate_some(&mut self, rng: &mut Rng, name: &str, chance: usize, trace: &mut Vec<String>) {
        let allocation = self.random_allocation(rng, chance);
        trace.push(format!("stored claim {name}: {allocation}"));
        if self.ended.remove(name) {
            self.overlay.add(&read_allocation(&self.stored[name]));
        }
        let status = json!({"allocation": allocation});
        let object = json!({"metadata": {"name": name, "uid": name}, "status": status});
        self.world.set(&EventResource::ResourceClaim, object);
        self.stored.insert(name.to_owned(), allocation);
    }

    fn keep_from_watch(&mut self, rng: &mut Rng, trace: &mut Vec<String>) {
        let allocation = self.random_allocation(rng, 4);
        trace.push(format!("not shown: {allocation}"));
        self.overlay.add(&read_allocation(&allocation));
        self.unshown.push(allocation);
    }

    fn random_allocation(&self, rng: &mut Rng, chance: usize) -> Value {
        let mut results = Vec::new();
        for slice in self.read_slices() {
            for device in &slice.devices {
                if !one_in(rng, chance) {
                    continue;
                }
                let key = &slice.pool.key;
                let mut result = json!({"request": "r", "driver": &*key.driver, "pool": &*key.pool,
                    "device": &*device.name});
                if device.description.allows_multiple_allocations && !one_in(rng, 4) {
                    if device.description.capacity.is_empty() {
                        continue;
                    }
                    result["shareID"] = json!("x");
                    result["consumedCapacity"] = json!({"bandwidth": *pick(rng, &["1", "2"])});
                } else if one_in(rng, 8) {
                    result["adminAccess"] = json!(true);
                }
                results.push(result);
            }
        }
        json!({"devices": {"results": results}})
    }

    fn read_slices(&self) -> Vec<ResourceSlice> {
        let slices = self.slices.iter().map(|(name, spec)| {
            let object = json!({"metadata": {"name": name}, "spec": spec});
            let raw = api::ResourceSlice::deserialize(&object).expect("it is a slice");
            ResourceSlice::from_api(&raw)
        });
        slices.collect()
    }

    /// Returns the devices that are allocated, and what is consumed of shared ones.
    fn allocated(&self) -> (BTreeSet<Id>, BTreeMap<Id, Sums>) {
        let (mut dedicated, mut consumed) = (BTreeSet::new(), BTreeMap::<Id, Sums>::new());
        let stored = self.stored.iter().filter(|(name, _)| !self.ended.contains(*name));
        let stored = stored.map(|(_, allocation)| allocation);
        let allocations = stored.chain(&self.unshown).map(read_allocation);
        let results = allocations.flat_map(|allocation| allocation.results);
        for result in results.filter(|result| !result.is_for_administration()) {
            let (id, _) = named(&result);
            if result.share_id.is_none() {
                dedicated.insert(id);
                continue;
            }
            let sums = consumed.entry(id).or_default();
            for (name, amount) in result.consumed_capacity {
                *sums.entry(name).or_default() += amount.nanos();
            }
        }
        (dedicated, consumed)
    }

    /// Checks that the allocations are counted as if all had been counted just now, and the nodes
    /// of those that the watch does not show.
    fn check_counts(&self) -> Result<(), String> {
        let cluster = &self.world.cluster;
        let ended = self.ended.iter().map(|name| &self.stored[name]);
        counts_are_right(cluster.allocated_devices(), self.stored.values(), [])?;
        counts_are_right(self.overlay.allocated(), &self.unshown, ended.clone())?;
        let mut fresh = Overlay::default();
        ended.for_each(|own| fresh.remove(&read_allocation(own)));
        self.unshown.iter().for_each(|own| fresh.add(&read_allocation(own)));
        fresh.update(cluster);
        match self.overlay == fresh {
            true => Ok(()),
            false => Err(format!("the overlay is {:?} instead of {fresh:?}", self.overlay)),
        }
    }

    fn classes(&self) -> Vec<DeviceClass> {
        let class = |name| self.world.cluster.device_class(name).map(|own| (**own).clone());
        CLASSES.into_iter().filter_map(class).collect()
    }

    /// Checks how many devices of each class each node has, and how many of them are allocated.
    fn check_devices_of_classes(
        &self,
        allocator: &Allocator<'_>,
        by_shape: &NodesByShape<'_>,
    ) -> Result<(), String> {
        let cluster = &self.world.cluster;
        for class in self.classes() {
            let mut counted = CountedClass::new(&class, cluster, &mut Toys);
            for name in NODES {
                let ix = cluster.node_named(name).expect("the node exists");
                let expected = self.devices_of_class(&class, &cluster.node(ix));
                let found = allocator.count_once(&mut counted, by_shape, ix);
                if found != expected.unwrap_or_default() {
                    let class = &class.name;
                    return Err(format!("{name} has {found:?} of {class}, not {expected:?}"));
                }
            }
        }
        Ok(())
    }

    /// Counts the devices of a class on a node; `None` if a selector fails.
    fn devices_of_class(&self, class: &DeviceClass, node: &NodeView<'_>) -> Option<DeviceCount> {
        let (dedicated, consumed) = self.allocated();
        let here = |scope: &NodeScope| scope.includes(node) == Ok(true);
        let mut count = DeviceCount::default();
        for slice in self.read_slices() {
            let is_per_device = slice.scope == NodeScope::PerDevice;
            let on_node =
                |own: &&Device| if is_per_device { here(&own.scope) } else { here(&slice.scope) };
            for device in slice.devices.iter().filter(on_node) {
                let mut matches = true;
                for selector in &class.selectors {
                    let DeviceSelector::Cel(text) = selector else { continue };
                    matches &= matches && toy::evaluate(text, &device.description).ok()?;
                }
                let key = &slice.pool.key;
                let id = (key.driver.to_string(), key.pool.to_string(), device.name.to_string());
                let is_used = dedicated.contains(&id) || consumed.contains_key(&id);
                count.devices += i64::from(matches);
                count.allocated += i64::from(matches && is_used);
            }
        }
        Some(count)
    }

    fn naive(&self, node: &str, claims: &[ResourceClaim]) -> Naive<'_> {
        let cluster = &self.world.cluster;
        let (dedicated, consumed) = self.allocated();
        let classes = self.classes().into_iter().map(|class| (class.name.to_string(), class));
        Naive {
            gates: self.gates,
            taint_rules: cluster.device_taint_rules().cloned().collect(),
            slices: self.read_slices(),
            classes: classes.collect(),
            claims: claims.to_vec(),
            node: cluster.node(cluster.node_named(node).expect("the node exists")),
            dedicated,
            consumed,
            patience: PATIENCE,
        }
    }

    /// Allocates the claims on each node, and asks whether they fit there.
    fn compare(&mut self, objects: Vec<Value>, rng: &mut Rng) -> Result<Vec<&'static str>, String> {
        let wanted: Vec<_> = objects.iter().map(read_claim).collect();
        // The pod reads its claims from the watch.
        objects.into_iter().for_each(|own| self.world.set(&EventResource::ResourceClaim, own));
        self.overlay.update(&self.world.cluster);
        self.check_counts()?;
        let cluster = &self.world.cluster;
        let claims = Claims::new(&wanted, cluster, &mut Toys);
        let mut memos = std::mem::take(&mut self.memos);
        let mut trial = memos.start(claims.clone(), cluster);
        let base = cluster.allocated_devices();
        let allocated = Allocated { base, overlay: Some(&self.overlay) };
        let allocator = Allocator::new(cluster, self.gates, allocated);
        let by_shape = allocator.nodes_by_shape();
        self.check_devices_of_classes(&allocator, &by_shape)?;
        let (mut diagnoses, mut hasty) = (Diagnoses::default(), Memos::default());
        let mut hasty = hasty.start(claims.clone(), cluster);
        let few = Budget(rng.u64(..60));
        let (mut ends, mut shares) = (Vec::new(), BTreeSet::new());
        for (name, seed) in NODES.into_iter().zip(0..) {
            let ix = cluster.node_named(name).expect("the node exists");
            let long = &mut LongSearches::default();
            let budget = Budget::UNLIMITED;
            let found =
                allocator.allocate(&claims, &cluster.node(ix), Limits { budget, long }, seed);
            let naive = self.naive(name, &wanted);
            let expected = naive.allocate();
            ends.push(agree(&expected, &found).map_err(|text| format!("on {name}: {text}"))?);
            let slices = self.read_slices();
            for (claim, own) in wanted.iter().zip(found.iter().flatten().flatten()) {
                let classes = self.classes();
                let node = cluster.node(ix);
                let origin =
                    Origin { gates: self.gates, node, claim, slices: &slices, classes: &classes };
                origin.check(own, &mut shares).map_err(|text| format!("on {name}: {text}"))?;
            }
            check_steps(&allocator, &claims, &cluster.node(ix), seed, &found)?;
            let (alone, _) = allocator.diagnosis(&claims, &cluster.node(ix), budget);
            let known = allocator.diagnose(&trial, &mut diagnoses, &by_shape, ix, budget);
            let is_right = |own: &Diagnosis| {
                (own.devices, own.incomplete_pools) == naive.overview() && own.request.is_some()
            };
            if alone.is_some() != (found == Ok(None))
                || alone.as_ref() != known.as_deref()
                || !alone.as_ref().is_none_or(is_right)
            {
                return Err(format!("{name}: {found:?}, because of {alone:?} or {known:?}"));
            }
            let ranks = Cell::new(0);
            let answer =
                allocator.fits(&mut trial, &by_shape, ix, Limits { budget, long }, |found| {
                    ranks.set(ranks.get() + 1);
                    rank(found)
                });
            let expected = found.map(|found| match found {
                Some(found) => Answer::Fits { rank: rank(&found) },
                None => Answer::DoesNotFit,
            });
            if answer != expected {
                return Err(format!("{name} is asked, and answers {answer:?}, not {expected:?}"));
            }
            let own = Limits { budget: few, long: &mut LongSearches::default() };
            let answer = allocator.fits(&mut hasty, &by_shape, ix, own, rank);
            if answer != expected && answer != Ok(Answer::OutOfSteps) {
                return Err(format!("{name} answers {answer:?} after {few:?}, not {expected:?}"));
            }
        }
        memos.keep(trial);
        self.memos = memos;
        Ok(ends)
    }
}

/// Checks that a search ends alike if it may take just as many steps as it does, and with one less
/// runs out of them.
fn check_steps(
    allocator: &Allocator<'_>,
    claims: &Claims,
    node: &NodeView<'_>,
    seed: u64,
    found: &Result<Option<Vec<Allocation>>, AllocateError>,
) -> Result<(), String> {
    let mut buffers = Buffers::default();
    let mut search = |budget| allocator.allocate_in(&mut buffers, claims, node, budget, seed);
    let (_, steps) = search(Budget::UNLIMITED);
    if search(Budget(steps)) != (found.clone(), steps) {
        return Err(format!("{steps} steps do not suffice for {found:?}"));
    }
    let hasty = steps.checked_sub(1).map(|fewer| search(Budget(fewer)).0);
    match hasty.is_none_or(|ended| ended == Err(AllocateError::OutOfSteps)) {
        true => Ok(()),
        false => Err(format!("fewer than {steps} steps suffice for {found:?}")),
    }
}

/// Returns the gates of a random level, often others than the defaults.
fn random_gates(rng: &mut Rng) -> Gates {
    let defaults = Gates::at(*pick(rng, &Level::ALL));
    if !one_in(rng, 3) {
        return defaults;
    }
    let mut is_on = || !one_in(rng, 4);
    Gates {
        admin_access: is_on(),
        prioritized_list: is_on(),
        partitionable_devices: is_on(),
        device_taints: is_on(),
        device_taint_rules: is_on(),
        binding_conditions: is_on(),
        consumable_capacity: is_on(),
        fractional_capacity_range: is_on(),
        ..defaults
    }
}

/// Checks that a state counts these allocations, less others.
fn counts_are_right<'a>(
    state: &AllocatedState,
    allocations: impl IntoIterator<Item = &'a Value>,
    others: impl IntoIterator<Item = &'a Value>,
) -> Result<(), String> {
    let mut expected = BTreeMap::<Id, DeviceUse>::new();
    let added = allocations.into_iter().map(|own| (own, 1));
    let all = added.chain(others.into_iter().map(|own| (own, -1)));
    let results = all.flat_map(|(own, sign)| {
        read_allocation(own).results.into_vec().into_iter().map(move |result| (result, sign))
    });
    for (result, sign) in results.filter(|(result, _)| !result.is_for_administration()) {
        let own = expected.entry(named(&result).0).or_default();
        match result.share_id {
            None => own.dedicated += sign,
            Some(_) => {
                own.shares += sign;
                own.consuming += sign * i64::from(!result.consumed_capacity.is_empty());
            }
        }
        for (name, amount) in result.consumed_capacity {
            *own.consumed.entry(name).or_default() += i128::from(sign) * amount.nanos();
        }
    }
    for own in expected.values_mut() {
        own.consumed.retain(|_, amount| *amount != 0);
    }
    expected.retain(|_, own| *own != DeviceUse::default());
    let mut found = BTreeMap::new();
    for key in state.pools() {
        for (device, own) in state.pool(key).into_iter().flatten() {
            let id = (key.driver.to_string(), key.pool.to_string(), device.to_string());
            found.insert(id, own.clone());
        }
    }
    match found == expected {
        true => Ok(()),
        false => Err(format!("{found:?} is allocated instead of {expected:?}")),
    }
}

/// Returns a number that depends on the chosen alternatives.
fn rank(allocations: &[Allocation]) -> i64 {
    let results = allocations.iter().flat_map(|own| &own.results);
    results.map(|result| i64::try_from(result.request.len()).unwrap_or_default()).sum()
}

/// Returns how both searches ended.
fn agree(
    expected: &Expected,
    found: &Result<Option<Vec<Allocation>>, AllocateError>,
) -> Result<&'static str, String> {
    let end = match (expected, found) {
        (Err(End::OutOfPatience), _) => Some("patience"),
        (Ok(None), Ok(None)) => Some("nothing"),
        (Ok(Some(expected)), Ok(Some(found))) => {
            let found = found.iter().map(|own| own.results.iter().map(picked).collect::<Vec<_>>());
            (found.collect::<Vec<_>>() == *expected).then_some("found")
        }
        (Err(End::Error(expected)), Err(AllocateError::Fatal(found))) => {
            (**found == **expected).then_some("error")
        }
        (Err(End::Node(expected)), Err(AllocateError::Node(found))) => {
            (**found == **expected).then_some("node")
        }
        _ => None,
    };
    end.ok_or_else(|| format!("expected {expected:?}, found {found:?}"))
}

fn named(result: &AllocatedDevice) -> (Id, &str) {
    let id = &result.id;
    ((id.driver.to_string(), id.pool.to_string(), id.device.to_string()), &result.request)
}

fn picked(result: &AllocatedDevice) -> Picked {
    let (id, request) = named(result);
    let consumed = result.consumed_capacity.iter();
    let consumed = consumed.map(|(name, amount)| (name.clone(), amount.nanos())).collect();
    (request.to_owned(), id, result.share_id.as_ref().map(|_| consumed))
}

fn read_allocation(raw: &Value) -> Allocation {
    let raw = api::AllocationResult::deserialize(raw).expect("it is an allocation");
    Allocation::from_api(&raw)
}
