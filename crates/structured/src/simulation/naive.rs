//! A slow allocator, written as the rules read: it tries everything, in order, and remembers
//! nothing. The allocator must agree with it, in devices and in texts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::NodeView;
use framework::device::{
    AllocationMode, Amount, Attribute, AttributeRule, Device, DeviceCapacity, DeviceClass,
    DeviceDescription, DeviceId, DeviceSelector, DeviceTaint, DeviceTaintRule, NodeScope,
    RequestBody, RequestKind, ResourceClaim, ResourceSlice,
};

use super::toy;
use crate::Gates;

/// Driver, pool and device.
pub(crate) type Id = (String, String, String);
/// Amounts of capacities by name, in billionths.
pub(crate) type Sums = BTreeMap<Arc<str>, i128>;

pub(crate) struct Naive<'a> {
    pub(crate) gates: Gates,
    pub(crate) taint_rules: Vec<Arc<DeviceTaintRule>>,
    pub(crate) slices: Vec<ResourceSlice>,
    pub(crate) classes: BTreeMap<String, DeviceClass>,
    pub(crate) claims: Vec<ResourceClaim>,
    pub(crate) node: NodeView<'a>,
    pub(crate) dedicated: BTreeSet<Id>,
    pub(crate) consumed: BTreeMap<Id, Sums>,
    /// Gives up without an answer after this many candidates.
    pub(crate) patience: usize,
}

/// Request, device, and what is consumed if it is a share.
pub(crate) type Picked = (String, Id, Option<Sums>);

#[derive(Debug)]
pub(crate) enum End {
    TooMany,
    Error(String),
    Node(String),
    OutOfPatience,
}

type Tried = Result<bool, End>;

struct Pool {
    driver: String,
    name: String,
    /// `updated` or `invalid`.
    problem: Option<&'static str>,
    slices: Vec<usize>,
    elsewhere: Vec<usize>,
    sets: BTreeMap<String, BTreeMap<String, i128>>,
    binds_later: bool,
}

/// Pool, slice and device.
type DevicePlace = (usize, usize, usize);

#[derive(Default)]
struct State {
    pools: Vec<Pool>,
    in_use: BTreeMap<Id, BTreeSet<usize>>,
    capacity: BTreeMap<Id, Sums>,
    counters: BTreeMap<(String, String), BTreeMap<(String, String), i128>>,
    matched: BTreeMap<(usize, usize), (usize, Option<Attribute>)>,
    distinct: BTreeMap<(usize, usize), Vec<(String, Attribute)>>,
    /// The number of picked shares of each device.
    shares: BTreeMap<Id, usize>,
    /// Whether the counters of the device were charged, for each pick.
    charged: Vec<bool>,
    results: Vec<Vec<Picked>>,
    all: BTreeMap<(usize, usize, usize), Vec<DevicePlace>>,
    tried: usize,
}

#[derive(Clone, Copy)]
struct At {
    claim: usize,
    request: usize,
    sub: usize,
    device: usize,
}

impl Naive<'_> {
    pub(crate) fn allocate(&self) -> Result<Option<Vec<Vec<Picked>>>, End> {
        let mut state = State { pools: self.pools(), ..State::default() };
        state.results = self.claims.iter().map(|_| Vec::new()).collect();
        self.validate(&mut state)?;
        let at = At { claim: 0, request: 0, sub: 0, device: 0 };
        let done = match self.one(&mut state, at, false, (0, 0, 0)) {
            Err(End::TooMany) => false,
            other => other?,
        };
        if !done {
            if state.pools.iter().any(|pool| pool.problem == Some("invalid")) {
                return Err(End::Node("invalid resource pools were encountered".to_owned()));
            }
            return Ok(None);
        }
        Ok(Some(state.results))
    }

    /// Returns the number of devices that the node may use, and whether a pool is being updated.
    pub(crate) fn overview(&self) -> (usize, bool) {
        let pools = self.pools();
        let slices = pools.iter().flat_map(|pool| &pool.slices);
        let devices = slices.map(|slice| self.slices[*slice].devices.len()).sum();
        (devices, pools.iter().any(|pool| pool.problem == Some("being updated")))
    }

    fn pools(&self) -> Vec<Pool> {
        let mut seen: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
        for (number, slice) in self.slices.iter().enumerate() {
            let here =
                |scope: &NodeScope| scope.includes(&self.node).expect("the selectors compile");
            let is_partitioned =
                !slice.shared_counters.is_empty() || slice.sets_per_device_node_selection;
            if is_partitioned && !self.gates.partitionable_devices {
                continue;
            }
            let relevant = !slice.shared_counters.is_empty()
                || here(&slice.scope)
                || slice.scope == NodeScope::PerDevice
                    && slice.devices.iter().any(|device| here(&device.scope));
            if !relevant {
                continue;
            }
            let key = &slice.pool.key;
            let entry = seen.entry((key.driver.to_string(), key.pool.to_string())).or_default();
            let known = entry.first().map(|first| self.slices[*first].pool.generation);
            match known {
                Some(known) if slice.pool.generation < known => {}
                Some(known) if slice.pool.generation == known => entry.push(number),
                _ => *entry = vec![number],
            }
        }
        let pools =
            seen.into_iter().filter_map(|(key, relevant)| self.pool(key.0, key.1, relevant));
        let mut pools: Vec<_> = pools.collect();
        let later: Vec<_> = pools.extract_if(.., |pool| pool.binds_later).collect();
        pools.extend(later);
        pools
    }

    fn pool(&self, driver: String, name: String, mut relevant: Vec<usize>) -> Option<Pool> {
        relevant.sort_by_key(|number| self.slices[*number].name.clone());
        let first = &self.slices[relevant[0]].pool;
        let of_pool = |number: &usize| {
            let key = &self.slices[*number].pool.key;
            *key.driver == *driver && *key.pool == *name
        };
        let everywhere: Vec<_> = (0..self.slices.len()).filter(of_pool).collect();
        let current = |number: &&usize| self.slices[**number].pool.generation == first.generation;
        let all: Vec<usize> = everywhere.iter().filter(current).copied().collect();
        let mut pool = Pool {
            driver,
            name,
            problem: None,
            slices: Vec::new(),
            elsewhere: Vec::new(),
            sets: BTreeMap::new(),
            binds_later: false,
        };
        let mut also = Vec::new();
        if relevant.len() as i64 != first.slice_count {
            let newer = |number: &usize| self.slices[*number].pool.generation > first.generation;
            if everywhere.iter().any(newer) {
                return None;
            }
            if all.len() as i64 != first.slice_count {
                pool.problem = Some("being updated");
                return Some(pool);
            }
            also = all.into_iter().filter(|number| !relevant.contains(number)).collect();
        }
        let mut names = BTreeSet::new();
        let mut bad = false;
        for number in &relevant {
            let slice = &self.slices[*number];
            for set in &slice.shared_counters {
                let counters = set.counters.iter().map(|(n, a)| (n.to_string(), a.nanos()));
                bad |= pool.sets.insert(set.name.to_string(), counters.collect()).is_some();
            }
            if slice.shared_counters.is_empty() {
                pool.slices.push(*number);
                for device in &slice.devices {
                    bad |= !names.insert(device.name.clone());
                    pool.binds_later |=
                        self.gates.binding_conditions && !device.binding_conditions.is_empty();
                }
            }
        }
        let counting = relevant.iter().chain(&also).filter(|_| self.gates.partitionable_devices);
        for number in counting {
            for consumption in
                self.slices[*number].devices.iter().flat_map(|d| &d.consumes_counters)
            {
                let set = pool.sets.get(&*consumption.set);
                bad |= set.is_none_or(|set| {
                    consumption.counters.iter().any(|(name, _)| !set.contains_key(&**name))
                });
            }
        }
        pool.elsewhere = also;
        if bad {
            pool.problem = Some("invalid");
            pool.slices.clear();
            pool.binds_later = false;
        }
        Some(pool)
    }

    fn body(&self, at: At) -> &RequestBody {
        &self.claims[at.claim].spec.requests[at.request].bodies()[at.sub]
    }

    fn has_subs(&self, at: At) -> bool {
        let request = &self.claims[at.claim].spec.requests[at.request];
        matches!(request.kind, RequestKind::FirstAvailable(_))
    }

    fn key(&self, at: At) -> String {
        let claim = &self.claims[at.claim];
        format!("{}/{}", claim.namespace, claim.name)
    }

    fn validate(&self, state: &mut State) -> Result<(), End> {
        for claim in 0..self.claims.len() {
            let mut total = 0;
            for request in 0..self.claims[claim].spec.requests.len() {
                let bodies = self.claims[claim].spec.requests[request].bodies().len();
                self.validate_gates(At { claim, request, sub: 0, device: 0 })?;
                let mut least = usize::MAX;
                for sub in 0..bodies {
                    let at = At { claim, request, sub, device: 0 };
                    least = least.min(self.validate_one(state, at)?);
                }
                total += least;
            }
            if total > 32 {
                let key = self.key(At { claim, request: 0, sub: 0, device: 0 });
                return Err(End::Error(format!(
                    "claim {key}: number of requested devices {total} exceeds the claim limit of 32"
                )));
            }
            let constraints = &self.claims[claim].spec.constraints;
            if let Some(number) = constraints.iter().position(|c| c.rule == AttributeRule::Unknown)
            {
                let key = self.key(At { claim, request: 0, sub: 0, device: 0 });
                return Err(End::Error(format!(
                    "claim {key}, constraint #{number}: empty constraint (unsupported constraint \
                     type?)"
                )));
            }
        }
        Ok(())
    }

    /// Checks that the gates of what a request needs are on.
    fn validate_gates(&self, at: At) -> Result<(), End> {
        let request = &self.claims[at.claim].spec.requests[at.request];
        let (key, name) = (self.key(at), &request.name);
        let fatal = |what: &str, why: &str| Err(End::Error(format!("claim {key}, {what}{why}")));
        if self.has_subs(at) && !self.gates.prioritized_list {
            let why = ": has subrequests, but the DRAPrioritizedList feature is disabled";
            return fatal(&format!("request {name}"), why);
        }
        let capacity = request.bodies().iter().find(|body| body.capacity.is_some());
        if let Some(body) = capacity.filter(|_| !self.gates.consumable_capacity) {
            let what = if self.has_subs(at) { "subrequest" } else { "request" };
            let why = ": has capacity requests, but the DRAConsumableCapacity feature is disabled";
            return fatal(&format!("{what} {}", body.name), why);
        }
        Ok(())
    }

    fn validate_one(&self, state: &mut State, at: At) -> Result<usize, End> {
        let body = self.body(at);
        let what = format!("claim {}, request {}", self.key(at), body.name);
        let fatal = |why: &str| Err(End::Error(format!("{what}{why}")));
        if let Some(number) = body.selectors.iter().position(|own| *own == DeviceSelector::Unknown)
        {
            let why = "CEL expression empty (unsupported selector type?)";
            return fatal(&format!(", selector #{number}: {why}"));
        }
        if body.admin_access.is_some() && !self.gates.admin_access {
            return fatal(": admin access is requested, but the feature is disabled");
        }
        if body.class.is_empty() {
            return fatal(": missing device class name (unsupported request type?)");
        }
        if !self.classes.contains_key(&*body.class) {
            let class = &body.class;
            return Err(End::Error(format!(
                "{what}: could not retrieve device class {class}: deviceclass.resource.k8s.io \
                 \"{class}\" not found"
            )));
        }
        match &body.mode {
            AllocationMode::ExactCount(count) => return Ok(number_of(*count)),
            AllocationMode::Other(mode) => {
                return fatal(&format!(": unsupported count mode {mode}"));
            }
            AllocationMode::All => {}
        }
        let mut all = Vec::new();
        for pool in 0..state.pools.len() {
            let own = &state.pools[pool];
            if let Some(problem) = own.problem {
                let text = format!(
                    "{what}: asks for all devices, but resource pool {}/{} is currently {problem}",
                    own.driver, own.name
                );
                return Err(match self.gates.behaviours.unsound_pool_fails_its_nodes {
                    true => End::Node(text),
                    false => End::Error(text),
                });
            }
            for slice in 0..own.slices.len() {
                for device in 0..self.slices[own.slices[slice]].devices.len() {
                    let place = (pool, slice, device);
                    let is_static = self.gates.behaviours.all_devices_need_capacity;
                    if self.selectable(state, at, place)?
                        && self.capacity_left(state, at, place, is_static)
                    {
                        all.push(place);
                    }
                }
            }
        }
        let devices = all.len();
        state.all.insert((at.claim, at.request, at.sub), all);
        Ok(devices)
    }

    fn device(&self, state: &State, place: DevicePlace) -> (&Device, Id) {
        let (pool, slice, device) = place;
        let pool = &state.pools[pool];
        let device = &self.slices[pool.slices[slice]].devices[device];
        (device, (pool.driver.clone(), pool.name.clone(), device.name.to_string()))
    }

    fn runtime_error(&self, id: &Id, error: &str) -> String {
        let (driver, pool, device) = id;
        let hint = match error.starts_with("no such key:") {
            true => {
                "\n\nSee https://pkg.go.dev/k8s.io/api/resource/v1#CELDeviceSelector for \
                 documentation on CEL device selectors and how to handle optional fields."
            }
            false => "",
        };
        match self.gates.behaviours.selector_errors_tell_more {
            true => {
                format!(" on device {driver}/{pool}/{device}: CEL runtime error: {error}{hint}")
            }
            false => format!(": CEL runtime error: {error}"),
        }
    }

    fn selectable(&self, state: &State, at: At, place: DevicePlace) -> Result<bool, End> {
        let (device, id) = self.device(state, place);
        let body = self.body(at);
        let class = &self.classes[&*body.class];
        let is_off = !self.gates.binding_conditions && !device.binding_conditions.is_empty();
        if is_off || device.problem.is_some() {
            return Ok(false);
        }
        let owners = [
            (format!("class {}", class.name), &class.selectors),
            (format!("claim {}", self.key(at)), &body.selectors),
        ];
        for (owner, selectors) in owners {
            for (number, selector) in selectors.iter().enumerate() {
                let result = match selector {
                    DeviceSelector::Unknown => {
                        Err(": CEL expression empty (unsupported selector type?)".to_owned())
                    }
                    DeviceSelector::Cel(text) => toy::evaluate(text, &device.description)
                        .map_err(|error| self.runtime_error(&id, &error)),
                };
                let result = result
                    .map_err(|error| End::Error(format!("{owner}: selector #{number}{error}")));
                if !result? {
                    return Ok(false);
                }
            }
        }
        let slice = &self.slices[state.pools[place.0].slices[place.1]];
        Ok(slice.scope != NodeScope::PerDevice
            || device.scope.includes(&self.node).expect("the selectors compile"))
    }

    /// Whether the device has the capacity, or would have it if nothing of it were used.
    fn capacity_left(&self, state: &State, at: At, place: DevicePlace, unused: bool) -> bool {
        if !self.gates.consumable_capacity {
            return true;
        }
        let (device, id) = self.device(state, place);
        let asked = self.body(at).capacity.as_ref();
        if asked.is_some_and(|asked| asked.amounts.is_err()) {
            return false;
        }
        let request = self.requested(at);
        let has = |name: &Arc<str>| device.description.capacity(name).is_some();
        request.keys().all(has)
            && device.description.capacity.iter().all(|(name, capacity)| {
                let consumed = consumption(capacity, request.get(name).copied());
                let used = [self.consumed.get(&id), state.capacity.get(&id)];
                let used = used.into_iter().flatten().filter(|_| !unused);
                let used = used.filter_map(|sums| sums.get(name)).sum::<i128>();
                is_allowed(capacity, consumed) && used + consumed <= capacity.value.nanos()
            })
    }

    /// Returns the capacities that are asked for.
    fn requested(&self, at: At) -> Sums {
        let request = self.body(at).capacity.as_ref();
        let amounts = request.and_then(|request| request.amounts.as_ref().ok());
        let amounts = amounts.into_iter().flatten();
        amounts.map(|(name, amount)| (name.clone(), amount.nanos())).collect()
    }

    /// Returns what a request consumes of the capacities of a device.
    fn consumed_of(&self, at: At, device: &DeviceDescription) -> Sums {
        let request = self.requested(at);
        let consumed = |(name, capacity): &(Arc<str>, DeviceCapacity)| {
            (name.clone(), consumption(capacity, request.get(name).copied()))
        };
        device.capacity.iter().map(consumed).collect()
    }

    fn busy(&self, state: &State, at: At, device: &Device, id: &Id) -> bool {
        let picked = state.in_use.get(id).filter(|claims| !claims.is_empty());
        match self.body(at).wants_admin_access() {
            true => picked.is_some_and(|claims| claims.contains(&at.claim)),
            false => {
                let has_shares = self.consumed.contains_key(id);
                let keeps_whole = self.gates.behaviours.shares_keep_the_whole_device
                    && !device.description.allows_multiple_allocations;
                self.dedicated.contains(id)
                    || (!self.gates.consumable_capacity || keeps_whole) && has_shares
                    || picked.is_some()
            }
        }
    }

    fn one(&self, state: &mut State, at: At, in_sub: bool, start: DevicePlace) -> Tried {
        state.tried += 1;
        if at.claim == self.claims.len() {
            return Ok(true);
        }
        if at.request == self.claims[at.claim].spec.requests.len() {
            let next = At { claim: at.claim + 1, request: 0, sub: 0, device: 0 };
            return match self.one(state, next, false, (0, 0, 0)) {
                Err(End::TooMany) => Ok(false),
                other => other,
            };
        }
        if self.has_subs(at) && !in_sub {
            let mut all_too_many = true;
            let bodies = self.claims[at.claim].spec.requests[at.request].bodies().len();
            for sub in 0..bodies {
                match self.one(state, At { sub, ..at }, true, (0, 0, 0)) {
                    Err(End::TooMany) => {}
                    Ok(false) => all_too_many = false,
                    other => return other,
                }
            }
            return if all_too_many { Err(End::TooMany) } else { Ok(false) };
        }
        let all = state.all.get(&(at.claim, at.request, at.sub)).cloned();
        let needed = match (&all, &self.body(at).mode) {
            (Some(all), _) => all.len(),
            (None, AllocationMode::ExactCount(count)) => number_of(*count),
            _ => panic!(),
        };
        if all.is_some() && needed == 0 {
            return Ok(false);
        }
        if at.device >= needed {
            let next = At { request: at.request + 1, sub: 0, device: 0, ..at };
            return self.one(state, next, false, (0, 0, 0));
        }
        if state.results[at.claim].len() + needed - at.device > 32 {
            return Err(End::TooMany);
        }
        let next = At { device: at.device + 1, ..at };
        if let Some(all) = all {
            let place = all[at.device];
            if !self.pick(state, at, place, true)? {
                return Ok(false);
            }
            let result = self.one(state, next, in_sub, (0, 0, 0));
            if !matches!(result, Ok(true)) {
                self.undo(state, at, place);
            }
            return result;
        }
        for pool in start.0..state.pools.len() {
            let first_slice = if pool == start.0 { start.1 } else { 0 };
            for slice in first_slice..state.pools[pool].slices.len() {
                let first = if (pool, slice) == (start.0, start.1) { start.2 } else { 0 };
                let devices = self.slices[state.pools[pool].slices[slice]].devices.len();
                for device in first..devices {
                    state.tried += 1;
                    if state.tried > self.patience {
                        return Err(End::OutOfPatience);
                    }
                    let place = (pool, slice, device);
                    let (candidate, id) = self.device(state, place);
                    if self.busy(state, at, candidate, &id)
                        || !self.selectable(state, at, place)?
                        || !self.capacity_left(state, at, place, false)
                        || !self.pick(state, at, place, false)?
                    {
                        continue;
                    }
                    match self.one(state, next, in_sub, (pool, slice, device + 1)) {
                        Ok(false) => self.undo(state, at, place),
                        Ok(true) => return Ok(true),
                        Err(error) => {
                            self.undo(state, at, place);
                            return Err(error);
                        }
                    }
                }
            }
        }
        Ok(false)
    }

    fn pick(&self, state: &mut State, at: At, place: DevicePlace, must: bool) -> Result<bool, End> {
        let (device, id) = self.device(state, place);
        let share =
            self.gates.consumable_capacity && device.description.allows_multiple_allocations;
        if !(share && self.body(at).wants_admin_access()) && self.busy(state, at, device, &id) {
            return Ok(false);
        }
        if !device.consumes_counters.is_empty() && !self.gates.partitionable_devices {
            return Ok(false);
        }
        let once = self.gates.behaviours.shares_charge_counters_once;
        let known = share
            && (self.consumed.get(&id).is_some_and(|sums| once || !sums.is_empty())
                || state.shares.get(&id).is_some_and(|shares| *shares > 0));
        let charges = !known && !device.consumes_counters.is_empty();
        if charges && !self.count(state, place) {
            return Ok(false);
        }
        let refuse = |state: &mut State, constraints: usize| {
            (0..constraints).for_each(|earlier| self.release(state, at, earlier));
            if charges {
                self.add_counters(state, place.0, device, -1);
            }
        };
        if self.taints(device, &id).iter().any(|taint| {
            let mut tolerations = self.body(at).tolerations.iter();
            taint.prevents_allocation() && !tolerations.any(|own| own.tolerates(taint))
        }) {
            refuse(state, 0);
            return Ok(false);
        }
        let constraints = self.claims[at.claim].spec.constraints.len();
        for number in 0..constraints {
            if !self.constrain(state, at, number, device) {
                if must {
                    return Err(End::Error(format!(
                        "claim {}, request {}: cannot add device {}/{}/{} because a claim \
                         constraint would not be satisfied",
                        self.key(at),
                        self.body(at).name,
                        id.0,
                        id.1,
                        id.2
                    )));
                }
                refuse(state, number);
                return Ok(false);
            }
        }
        let mut consumed = None;
        if share {
            if !self.capacity_left(state, at, place, false) {
                refuse(state, constraints);
                return Ok(false);
            }
            let own = self.consumed_of(at, &device.description);
            let sums = state.capacity.entry(id.clone()).or_default();
            for (name, amount) in &own {
                *sums.entry(name.clone()).or_default() += amount;
            }
            *state.shares.entry(id.clone()).or_default() += 1;
            consumed = Some(own);
        } else {
            state.in_use.entry(id.clone()).or_default().insert(at.claim);
        }
        state.charged.push(charges);
        let request = &self.claims[at.claim].spec.requests[at.request].name;
        let name = match self.has_subs(at) {
            true => format!("{request}/{}", self.body(at).name),
            false => request.to_string(),
        };
        state.results[at.claim].push((name, id, consumed));
        Ok(true)
    }

    /// Returns the taints of a device and those of rules.
    fn taints(&self, device: &Device, id: &Id) -> Vec<DeviceTaint> {
        if !self.gates.device_taints {
            return Vec::new();
        }
        let id = DeviceId {
            driver: id.0.as_str().into(),
            pool: id.1.as_str().into(),
            device: id.2.as_str().into(),
        };
        let needs_selector = self.gates.behaviours.taint_rule_needs_selector;
        let rules = self
            .taint_rules
            .iter()
            .filter(|rule| self.gates.device_taint_rules && (rule.has_selector || !needs_selector));
        let of_rules = rules.filter(|rule| rule.selects(&id)).map(|rule| rule.taint.clone());
        device.taints.iter().cloned().chain(of_rules).collect()
    }

    fn undo(&self, state: &mut State, at: At, place: DevicePlace) {
        let (device, id) = self.device(state, place);
        let constraints = self.claims[at.claim].spec.constraints.len();
        (0..constraints).for_each(|number| self.release(state, at, number));
        let (_, _, consumed) = state.results[at.claim].pop().expect("it was added");
        match consumed {
            Some(consumed) => {
                *state.shares.get_mut(&id).expect("it was added") -= 1;
                let sums = state.capacity.get_mut(&id).expect("it was added");
                for (name, amount) in &consumed {
                    *sums.get_mut(name).expect("it was added") -= amount;
                }
            }
            None => _ = state.in_use.get_mut(&id).expect("it was added").remove(&at.claim),
        }
        if state.charged.pop().expect("it was added") {
            self.add_counters(state, place.0, device, -1);
        }
    }

    /// Returns whether the constraint accepts the device.
    fn constrain(&self, state: &mut State, at: At, number: usize, device: &Device) -> bool {
        let constraint = &self.claims[at.claim].spec.constraints[number];
        if !self.applies(at, number) {
            return true;
        }
        let (AttributeRule::Match(name) | AttributeRule::Distinct(name)) = &constraint.rule else {
            panic!()
        };
        let Some(value) = device.description.attribute(name) else { return false };
        let key = (at.claim, number);
        if let AttributeRule::Match(_) = constraint.rule {
            let (devices, reference) = state.matched.entry(key).or_default();
            if *devices == 0 {
                *reference = Some(value.clone());
            } else if !value.is_comparable() || reference.as_ref() != Some(value) {
                return false;
            }
            *devices += 1;
            return true;
        }
        let values = state.distinct.entry(key).or_default();
        if values.iter().any(|(_, known)| !value.is_comparable() || known == value) {
            return false;
        }
        let request = self.claims[at.claim].spec.requests[at.request].name.to_string();
        if !self.gates.behaviours.distinct_compares_every_device {
            values.retain(|(known, _)| *known != request);
        }
        values.push((request, value.clone()));
        true
    }

    fn release(&self, state: &mut State, at: At, number: usize) {
        if !self.applies(at, number) {
            return;
        }
        let key = (at.claim, number);
        if let Some((devices, _)) = state.matched.get_mut(&key) {
            *devices -= 1;
        }
        if let Some(values) = state.distinct.get_mut(&key) {
            let request = &self.claims[at.claim].spec.requests[at.request].name;
            if let Some(last) = values.iter().rposition(|(known, _)| **known == **request) {
                values.remove(last);
            }
        }
    }

    fn applies(&self, at: At, number: usize) -> bool {
        let request = &self.claims[at.claim].spec.requests[at.request].name;
        let full = format!("{request}/{}", self.body(at).name);
        let named = &self.claims[at.claim].spec.constraints[number].requests;
        named.is_empty()
            || named.iter().any(|own| own == request || self.has_subs(at) && **own == *full)
    }

    fn count(&self, state: &mut State, place: DevicePlace) -> bool {
        let (device, _) = self.device(state, place);
        self.add_counters(state, place.0, device, 1);
        let pool = &state.pools[place.0];
        let mut available = pool.sets.clone();
        for number in pool.slices.iter().chain(&pool.elsewhere) {
            for other in &self.slices[*number].devices {
                let id = (pool.driver.clone(), pool.name.clone(), other.name.to_string());
                if self.dedicated.contains(&id) || self.consumed.contains_key(&id) {
                    for consumption in &other.consumes_counters {
                        let set = available.get_mut(&*consumption.set).expect("it was added");
                        for (name, amount) in &consumption.counters {
                            *set.get_mut(&**name).expect("it was added") -= amount.nanos();
                        }
                    }
                }
            }
        }
        let used = &state.counters[&(pool.driver.clone(), pool.name.clone())];
        let exceeded = available.iter().any(|(set, counters)| {
            counters.iter().any(|(name, left)| {
                *left < used.get(&(set.clone(), name.clone())).copied().unwrap_or_default()
            })
        });
        if exceeded {
            self.add_counters(state, place.0, device, -1);
        }
        !exceeded
    }

    fn add_counters(&self, state: &mut State, pool: usize, device: &Device, sign: i128) {
        let pool = &state.pools[pool];
        let used = state.counters.entry((pool.driver.clone(), pool.name.clone())).or_default();
        for consumption in &device.consumes_counters {
            for (name, amount) in &consumption.counters {
                let key = (consumption.set.to_string(), name.to_string());
                *used.entry(key).or_default() += sign * amount.nanos();
            }
        }
    }
}

/// Returns the number of devices of a request; Kubernetes allows no negative one.
fn number_of(count: i64) -> usize {
    usize::try_from(count).unwrap_or_default()
}

/// Returns the amount that a request consumes of a capacity. Without a request it is the default of
/// the policy, or all; otherwise the lowest allowed amount that is enough, or what is asked for if
/// there is none.
fn consumption(capacity: &DeviceCapacity, request: Option<i128>) -> i128 {
    let policy = capacity.policy.as_deref();
    let Some(request) = request else {
        let default = policy.and_then(|policy| policy.default.as_ref());
        return default.unwrap_or(&capacity.value).nanos();
    };
    let Some(policy) = policy else { return request };
    let nanos = |amount: &Option<Amount>| amount.as_ref().map(Amount::nanos);
    match &policy.valid_range {
        Some(range) if nanos(&range.min).is_some() => {
            let min = nanos(&range.min).unwrap_or_default();
            let mut allowed = (0..).map(|steps| min + steps * nanos(&range.step).unwrap_or(1));
            match nanos(&range.step) {
                None => request.max(min),
                Some(_) => allowed.find(|amount| *amount >= request).unwrap_or(request),
            }
        }
        _ => {
            let values = policy.valid_values.iter().map(Amount::nanos);
            values.filter(|value| *value >= request).min().unwrap_or(request)
        }
    }
}

/// Whether the policy of a capacity allows that a request consumes this amount.
fn is_allowed(capacity: &DeviceCapacity, consumed: i128) -> bool {
    let Some(policy) = &capacity.policy else { return true };
    let nanos = |amount: &Option<Amount>| amount.as_ref().map(Amount::nanos);
    let is_default = nanos(&policy.default) == Some(consumed);
    let is_valid = match &policy.valid_range {
        Some(range) => {
            let min = nanos(&range.min).unwrap_or_default();
            nanos(&range.max).is_none_or(|max| consumed <= max)
                && nanos(&range.step).is_none_or(|step| (consumed - min) % step == 0)
        }
        None => {
            let mut values = policy.valid_values.iter().map(Amount::nanos).peekable();
            values.peek().is_none() || values.any(|value| value == consumed)
        }
    };
    is_default || is_valid
}
