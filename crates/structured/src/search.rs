//! The search for devices on one node.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use framework::NodeView;
use framework::device::{
    ALLOCATION_RESULTS_MAX, AttributeRule, Device, DeviceDescription, DeviceTaintRule, DeviceUse,
    NodeScope, ResourceSlice,
};
use smallvec::SmallVec;

use crate::capacity::{self, Sums};
use crate::claims::Claims;
use crate::constraint::ConstraintState;
use crate::counters::CounterBook;
use crate::diagnosis::{Farthest, Obstacle};
use crate::pools::{self, AllocatedInPool, Pool, PoolState};
use crate::request::Need;
use crate::{AllocateError, Allocator, Budget, Gates};

/// How the search for the devices of a request, and of everything after it, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything is allocated.
    Done,
    /// There is no solution.
    Failed,
    /// A claim would need more devices than an allocation can have, whatever devices are picked for
    /// the requests before. Only other alternatives can help.
    TooMany,
}

/// How far a search goes that cannot find a solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// It gives up once too few devices are left.
    Least,
    /// It tries everything, for a diagnosis.
    Full,
}

/// A device of the node, in the order of the search.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// The number of the pool.
    pub(crate) pool: usize,
    pub(crate) slice: &'a Arc<ResourceSlice>,
    pub(crate) device: &'a Device,
    /// Whether the whole device is allocated.
    allocated: bool,
    allocations: Option<Cow<'a, DeviceUse>>,
    /// The claims for which the whole device is picked.
    picked_for: SmallVec<[usize; 2]>,
    /// The capacity of picked shares; `None` if the device is not picked.
    picked_capacity: Option<Sums>,
    /// Whether a request for all devices needs it.
    is_of_all: bool,
}

/// A device that is picked for a request.
#[derive(Debug)]
pub(crate) struct Pick {
    pub(crate) body: usize,
    pub(crate) device: usize,
    pub(crate) is_share: bool,
}

/// A place in the search: the next device to find.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    claim: usize,
    request: usize,
    /// The alternative that is being tried; `None` before an alternative is chosen.
    alternative: Option<usize>,
    /// The number of the device within the request.
    number: usize,
    /// The first device to consider.
    start: usize,
}

/// What to do after the rest of the search has ended.
#[derive(Debug)]
enum Frame {
    /// Go back to the claim before.
    Claim,
    /// Try the next alternative.
    Alternatives { place: Place, tried: usize, all_too_many: bool },
    /// Give up a device of a request for all devices.
    All { place: Place },
    /// Try the next device.
    Exact { place: Place, device: usize, failed: SmallVec<[usize; 4]>, leaks: u64 },
}

enum Step {
    Enter(Place),
    Return(Outcome),
}

/// What is known about a device and a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selectable {
    Unknown,
    Yes,
    No(Obstacle),
}

/// The search for devices on one node.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    pub(crate) claims: &'a Claims,
    pub(crate) gates: Gates,
    pub(crate) pools: Vec<Pool<'a>>,
    pub(crate) devices: Vec<Found<'a>>,
    /// How many devices each body needs.
    pub(crate) needs: Vec<Need>,
    /// The picked devices of each claim.
    pub(crate) picks: Vec<Vec<Pick>>,
    /// The alternative of each request of each claim that is being tried.
    pub(crate) chosen: Vec<Vec<usize>>,
    pub(crate) farthest: Farthest,
    node: NodeView<'a>,
    allocated: Vec<AllocatedInPool<'a>>,
    device_ranges: Vec<Range<usize>>,
    taint_rules: Vec<&'a Arc<DeviceTaintRule>>,
    constraints: Vec<Vec<ConstraintState<'a>>>,
    counters: Vec<Option<CounterBook<'a>>>,
    selectable: Vec<Selectable>,
    /// The last obstacle of each device for each body.
    obstacles: Vec<Option<Obstacle>>,
    /// Whether devices that look alike can take each other's place in any solution.
    is_symmetric: bool,
    effort: Effort,
    /// How often state was left behind by a device that was given up. kube-scheduler does so in
    /// some cases, and the search then depends on how often it tried.
    leaks: u64,
    pub(crate) steps_left: u64,
}

impl<'a> Search<'a> {
    /// Gathers the pools of the node and validates the claims.
    ///
    /// # Errors
    /// A pool or request with which kube-scheduler ends the attempt.
    pub(crate) fn new(
        allocator: &Allocator<'a>,
        claims: &'a Claims,
        node: &NodeView<'a>,
        budget: Budget,
    ) -> Result<Self, AllocateError> {
        let Allocator { cluster, gates, allocated } = *allocator;
        let pools = pools::gather(cluster, gates, node)?;
        let in_pools: Vec<_> = pools.iter().map(|pool| allocated.pool(pool.key)).collect();
        let mut devices = Vec::new();
        let mut device_ranges = Vec::with_capacity(pools.len());
        for (number, (pool, in_pool)) in pools.iter().zip(&in_pools).enumerate() {
            let start = devices.len();
            for slice in &pool.slices {
                let found = |device| Found::new(number, slice, device, (*in_pool, gates));
                devices.extend(slice.devices.iter().map(found));
            }
            device_ranges.push(start..devices.len());
        }
        let rules = gates.device_taints && gates.device_taint_rules;
        let cells = devices.len() * claims.bodies.len();
        let mut search = Self {
            claims,
            gates,
            needs: vec![Need::default(); claims.bodies.len()],
            picks: claims.claims.iter().map(|_| Vec::new()).collect(),
            chosen: claims.claims.iter().map(|claim| vec![0; claim.requests.len()]).collect(),
            farthest: Farthest::default(),
            node: *node,
            allocated: in_pools,
            device_ranges,
            taint_rules: if rules { cluster.device_taint_rules().collect() } else { Vec::new() },
            constraints: claims.claims.iter().map(|_| Vec::new()).collect(),
            counters: pools.iter().map(|_| None).collect(),
            selectable: vec![Selectable::Unknown; cells],
            obstacles: vec![None; cells],
            is_symmetric: true,
            effort: Effort::Full,
            leaks: 0,
            steps_left: budget.0,
            pools,
            devices,
        };
        search.validate()?;
        search.is_symmetric = search.can_swap_devices();
        for device in search.needs.iter().filter_map(|need| need.all.as_ref()).flatten() {
            search.devices[*device].is_of_all = true;
        }
        Ok(search)
    }

    /// Sets up the constraints of a claim.
    ///
    /// # Errors
    /// A constraint of an unknown kind.
    pub(crate) fn set_constraints(&mut self, claim: usize) -> Result<(), AllocateError> {
        let claims = self.claims;
        let prepared = &claims.claims[claim];
        for (number, constraint) in prepared.spec.constraints.iter().enumerate() {
            let state = ConstraintState::new(&constraint.rule).ok_or_else(|| {
                AllocateError::fatal(format!(
                    "claim {}, constraint #{number}: empty constraint (unsupported constraint \
                     type?)",
                    prepared.key
                ))
            })?;
            self.constraints[claim].push(state);
        }
        Ok(())
    }

    /// Returns whether swapping two devices that look alike turns a solution into a solution. A
    /// constraint for different values depends on the order of the devices of a request, because
    /// it remembers only the latest one.
    fn can_swap_devices(&self) -> bool {
        self.claims.bodies.iter().enumerate().all(|(number, body)| {
            let constraints = &self.claims.claims[body.claim].spec.constraints;
            self.needs[number].devices <= 1
                || constraints.iter().zip(&body.constrained).all(|(own, applies)| {
                    !applies || !matches!(own.rule, AttributeRule::Distinct(_))
                })
        })
    }

    /// Searches to the end.
    ///
    /// # Errors
    /// The search ended early.
    pub(crate) fn run(&mut self, effort: Effort) -> Result<Outcome, AllocateError> {
        self.effort = effort;
        let mut frames = Vec::with_capacity(ALLOCATION_RESULTS_MAX);
        let mut step = Step::Enter(Place::default());
        loop {
            step = match step {
                Step::Enter(place) => self.enter(place, &mut frames)?,
                Step::Return(Outcome::Done) => return Ok(Outcome::Done),
                Step::Return(outcome) => match frames.pop() {
                    Some(frame) => self.resume(frame, outcome, &mut frames)?,
                    None => return self.failed(outcome),
                },
            };
        }
    }

    fn failed(&self, outcome: Outcome) -> Result<Outcome, AllocateError> {
        if self.pools.iter().any(|pool| pool.state == PoolState::Invalid) {
            return Err(AllocateError::Node("invalid resource pools were encountered".into()));
        }
        Ok(outcome)
    }

    fn count_step(&mut self) -> Result<(), AllocateError> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(AllocateError::OutOfSteps)?;
        Ok(())
    }

    fn body_at(&self, place: Place) -> usize {
        let requests = &self.claims.claims[place.claim].requests;
        requests[place.request].start + place.alternative.unwrap_or(0)
    }

    /// Goes on at a place.
    fn enter(&mut self, place: Place, frames: &mut Vec<Frame>) -> Result<Step, AllocateError> {
        self.count_step()?;
        let Some(claim) = self.claims.claims.get(place.claim) else {
            return Ok(Step::Return(Outcome::Done));
        };
        let Some(bodies) = claim.requests.get(place.request) else {
            frames.push(Frame::Claim);
            return Ok(Step::Enter(Place { claim: place.claim + 1, ..Place::default() }));
        };
        let has_alternatives = self.claims.bodies[bodies.start].alternative.is_some();
        if has_alternatives && place.alternative.is_none() {
            return Ok(self.try_alternative(place, 0, true, frames));
        }
        let body = self.body_at(place);
        let need = &self.needs[body];
        let needed = need.devices;
        let next_of_all = need.all.as_ref().map(|all| all.get(place.number).copied());
        let picked = self.picks[place.claim].len();
        self.note_progress(body, place.number);
        if next_of_all.is_some() && needed == 0 {
            return Ok(Step::Return(Outcome::Failed));
        }
        if place.number >= needed {
            let request = place.request + 1;
            return Ok(Step::Enter(Place { claim: place.claim, request, ..Place::default() }));
        }
        if (picked + needed).saturating_sub(place.number) > ALLOCATION_RESULTS_MAX {
            return Ok(Step::Return(Outcome::TooMany));
        }
        match next_of_all.flatten() {
            Some(device) => {
                self.count_step()?;
                if !self.pick(place, body, device, true)? {
                    return Ok(Step::Return(Outcome::Failed));
                }
                frames.push(Frame::All { place });
                Ok(Step::Enter(Place { number: place.number + 1, start: 0, ..place }))
            }
            None => self.scan(place, SmallVec::new(), frames),
        }
    }

    fn try_alternative(
        &mut self,
        place: Place,
        number: usize,
        all_too_many: bool,
        frames: &mut Vec<Frame>,
    ) -> Step {
        if number == self.claims.claims[place.claim].requests[place.request].len() {
            return Step::Return(match all_too_many {
                true => Outcome::TooMany,
                false => Outcome::Failed,
            });
        }
        self.chosen[place.claim][place.request] = number;
        frames.push(Frame::Alternatives { place, tried: number, all_too_many });
        Step::Enter(Place { alternative: Some(number), number: 0, start: 0, ..place })
    }

    /// Goes on after the rest of the search has ended without a solution.
    fn resume(
        &mut self,
        frame: Frame,
        outcome: Outcome,
        frames: &mut Vec<Frame>,
    ) -> Result<Step, AllocateError> {
        match frame {
            // Fewer devices of a claim before may still help.
            Frame::Claim => Ok(Step::Return(Outcome::Failed)),
            Frame::Alternatives { place, tried, all_too_many } => {
                let all_too_many = all_too_many && outcome == Outcome::TooMany;
                Ok(self.try_alternative(place, tried + 1, all_too_many, frames))
            }
            Frame::All { place } => {
                self.give_up(place);
                Ok(Step::Return(outcome))
            }
            Frame::Exact { place, device, mut failed, leaks } => {
                self.give_up(place);
                if outcome == Outcome::TooMany {
                    return Ok(Step::Return(outcome));
                }
                if self.leaks == leaks {
                    failed.push(device);
                } else {
                    failed.clear();
                }
                self.scan(Place { start: device + 1, ..place }, failed, frames)
            }
        }
    }

    /// Picks the next device for a request for a number of devices. `failed` are devices for which
    /// the rest of the search found no solution.
    fn scan(
        &mut self,
        place: Place,
        mut failed: SmallVec<[usize; 4]>,
        frames: &mut Vec<Frame>,
    ) -> Result<Step, AllocateError> {
        let body = self.body_at(place);
        if self.effort == Effort::Least && self.is_hopeless(place, body) {
            return Ok(Step::Return(Outcome::Failed));
        }
        for device in place.start..self.devices.len() {
            self.count_step()?;
            if self.is_busy(place, body, device) {
                self.reject(body, device, Obstacle::InUse);
                continue;
            }
            if !self.is_selectable(body, device)? || !self.has_capacity(body, device) {
                continue;
            }
            if failed.iter().any(|other| self.look_alike(*other, device)) {
                continue;
            }
            let leaks = self.leaks;
            if self.pick(place, body, device, false)? {
                if self.leaks != leaks {
                    failed.clear();
                }
                frames.push(Frame::Exact { place, device, failed, leaks: self.leaks });
                let next = Place { number: place.number + 1, start: device + 1, ..place };
                return Ok(Step::Enter(next));
            }
            if self.leaks != leaks {
                failed.clear();
            }
        }
        Ok(Step::Return(Outcome::Failed))
    }

    /// Returns whether too few devices are left to complete the request. False if kube-scheduler would
    /// evaluate a selector to find out, which may fail, or if a device may leave state behind when it is
    /// given up. A constraint for different values forgets all devices of the request in any case, once
    /// the one before is given up.
    fn is_hopeless(&self, place: Place, body: usize) -> bool {
        let mut left = SmallVec::<[&DeviceDescription; 16]>::new();
        for device in place.start..self.devices.len() {
            if self.is_busy(place, body, device) {
                continue;
            }
            match self.selectable[self.cell(body, device)] {
                Selectable::Unknown => return false,
                Selectable::Yes if self.may_leak(device) => return false,
                Selectable::Yes => left.push(&self.devices[device].device.description),
                Selectable::No(_) => {}
            }
        }
        let missing = self.needs[body].devices - place.number;
        let constrained = &self.claims.bodies[body].constrained;
        let constraints = self.constraints[place.claim].iter().zip(constrained);
        left.len() < missing
            || constraints
                .filter(|(_, applies)| **applies)
                .any(|(constraint, _)| constraint.accepts_at_most(&left) < missing)
    }

    /// Returns whether the device may leave state behind when it is given up.
    fn may_leak(&self, device: usize) -> bool {
        self.is_shared(device) || !self.devices[device].device.consumes_counters.is_empty()
    }

    /// Returns whether the device is allocated or picked, so that the request cannot have it.
    fn is_busy(&self, place: Place, body: usize, device: usize) -> bool {
        let found = &self.devices[device];
        match self.raw(body).wants_admin_access() {
            true => found.picked_for.contains(&place.claim),
            false => found.is_in_use(),
        }
    }

    fn raw(&self, body: usize) -> &'a framework::device::RequestBody {
        self.claims.body_of(&self.claims.bodies[body])
    }

    pub(crate) fn devices_of_pool(&self, pool: usize) -> Range<usize> {
        self.device_ranges[pool].clone()
    }

    fn cell(&self, body: usize, device: usize) -> usize {
        body * self.devices.len() + device
    }

    fn reject(&mut self, body: usize, device: usize, obstacle: Obstacle) {
        let cell = self.cell(body, device);
        self.obstacles[cell] = Some(obstacle);
    }

    /// Returns what was wrong with a device for a body.
    pub(crate) fn obstacle(&self, body: usize, device: usize) -> Option<Obstacle> {
        self.obstacles[self.cell(body, device)]
    }

    pub(crate) fn has_incomplete_pools(&self) -> bool {
        self.pools.iter().any(|pool| pool.state == PoolState::Incomplete)
    }

    fn note_progress(&mut self, body: usize, found: usize) {
        let depth = self.picks.iter().map(Vec::len).sum();
        if self.farthest.body.is_none() || depth >= self.farthest.depth {
            self.farthest = Farthest { depth, body: Some((body, found)) };
        }
    }

    /// Returns whether the device meets the selectors of the body and is for the node.
    ///
    /// # Errors
    /// A selector fails.
    pub(crate) fn is_selectable(
        &mut self,
        body: usize,
        device: usize,
    ) -> Result<bool, AllocateError> {
        let cell = self.cell(body, device);
        if self.selectable[cell] == Selectable::Unknown {
            self.selectable[cell] = match self.known_alike(body, device) {
                Some(known) => known,
                None => match self.select(body, device)? {
                    None => Selectable::Yes,
                    Some(obstacle) => Selectable::No(obstacle),
                },
            };
        }
        Ok(match self.selectable[cell] {
            Selectable::No(obstacle) => {
                self.obstacles[cell] = Some(obstacle);
                false
            }
            _ => true,
        })
    }

    /// Returns what is known of the device before, if both have one description. To compare what the
    /// selectors read of two descriptions would take as long as to evaluate them.
    fn known_alike(&self, body: usize, device: usize) -> Option<Selectable> {
        let before = device.checked_sub(1)?;
        let known = self.selectable[self.cell(body, before)];
        let descriptions = [before, device].map(|own| &self.devices[own].device.description);
        (known != Selectable::Unknown
            && Arc::ptr_eq(descriptions[0], descriptions[1])
            && self.are_usable_alike(before, device))
        .then_some(known)
    }

    /// Returns why the device does not meet the selectors of the body.
    pub(crate) fn select(
        &self,
        body: usize,
        device: usize,
    ) -> Result<Option<Obstacle>, AllocateError> {
        let Found { device, slice, .. } = &self.devices[device];
        let body = &self.claims.bodies[body];
        let is_off = !self.gates.binding_conditions && !device.binding_conditions.is_empty();
        if is_off || device.problem.is_some() {
            return Ok(Some(Obstacle::Unusable));
        }
        let claim = || format!("claim {}", self.claims.claims[body.claim].key);
        let class = || {
            let name = body.class.as_ref().map(|class| class.name.as_ref());
            format!("class {}", name.unwrap_or_default())
        };
        if let Some(number) = first_unmet(&body.class_selectors, device, class)? {
            return Ok(Some(Obstacle::ClassSelector(number)));
        }
        if let Some(number) = first_unmet(&body.selectors, device, claim)? {
            return Ok(Some(Obstacle::Selector(number)));
        }
        if slice.scope == NodeScope::PerDevice {
            let is_here = device.scope.includes(&self.node);
            let is_here = is_here.map_err(|_| {
                AllocateError::fatal(pools::parse_error(&device.scope).unwrap_or_default())
            })?;
            return Ok((!is_here).then_some(Obstacle::OtherNode));
        }
        Ok(None)
    }

    /// Returns whether the device has the capacity that the body asks for.
    pub(crate) fn has_capacity(&mut self, body: usize, device: usize) -> bool {
        if !self.gates.consumable_capacity {
            return true;
        }
        let found = &self.devices[device];
        let consumed = found.allocations.as_ref().map(|allocations| &allocations.consumed);
        let used = [consumed, found.picked_capacity.as_ref()];
        let capacity = self.raw(body).capacity.as_ref();
        let fits = capacity::fits(&found.device.description, capacity, used);
        if !fits {
            self.reject(body, device, Obstacle::Capacity);
        }
        fits
    }

    /// Picks a device that meets the selectors. Returns false, and picks nothing, if it cannot be
    /// allocated. `must` is set for the devices of a request for all devices.
    ///
    /// # Errors
    /// A constraint is violated by a device of a request for all devices.
    fn pick(
        &mut self,
        place: Place,
        body: usize,
        device: usize,
        must: bool,
    ) -> Result<bool, AllocateError> {
        if let Some(obstacle) = self.first_obstacle(place, body, device) {
            self.reject(body, device, obstacle);
            return Ok(false);
        }
        if let Some(number) = self.add_to_constraints(place, body, device) {
            if must {
                let id = self.id_of(device);
                let (claim, name) = (&self.claims.claims[place.claim].key, &self.raw(body).name);
                return Err(AllocateError::fatal(format!(
                    "claim {claim}, request {name}: cannot add device {id} because a claim \
                     constraint would not be satisfied"
                )));
            }
            let consumes = !self.devices[device].device.consumes_counters.is_empty();
            self.leaks += u64::from(consumes);
            self.reject(body, device, Obstacle::Constraint(number));
            return Ok(false);
        }
        let is_share = self.is_shared(device);
        if !is_share {
            self.devices[device].picked_for.push(place.claim);
        } else if !self.has_capacity(body, device) {
            // As in kube-scheduler, the constraints keep the device.
            self.leaks += 1;
            return Ok(false);
        } else {
            self.consume_capacity(body, device, 1);
        }
        self.picks[place.claim].push(Pick { body, device, is_share });
        Ok(true)
    }

    fn id_of(&self, device: usize) -> framework::device::DeviceId {
        let found = &self.devices[device];
        pools::id_of(self.pools[found.pool].key, found.device)
    }

    fn is_shared(&self, device: usize) -> bool {
        let description = &self.devices[device].device.description;
        self.gates.shares(description.allows_multiple_allocations)
    }

    /// Returns why the device cannot be allocated, apart from constraints. Consumes its counters if
    /// they suffice.
    ///
    /// As in kube-scheduler, a device that is rejected for its taints, or later for a constraint,
    /// keeps the counters.
    fn first_obstacle(&mut self, place: Place, body: usize, device: usize) -> Option<Obstacle> {
        let is_share = self.is_shared(device);
        let raw = self.raw(body);
        let found = &self.devices[device];
        let is_busy = match raw.wants_admin_access() {
            true => !is_share && found.picked_for.contains(&place.claim),
            false => found.is_in_use(),
        };
        if is_busy {
            return Some(Obstacle::InUse);
        }
        let consumes = !found.device.consumes_counters.is_empty();
        if consumes && !self.gates.partitionable_devices {
            return Some(Obstacle::Unusable);
        }
        let is_counted = is_share && found.has_capacity_in_use();
        let consumes = consumes && !is_counted;
        if consumes && !self.consume_counters(device) {
            return Some(Obstacle::Counters);
        }
        if self.is_tainted(body, device) {
            self.leaks += u64::from(consumes);
            return Some(Obstacle::Taint);
        }
        None
    }

    fn consume_counters(&mut self, device: usize) -> bool {
        let found = &self.devices[device];
        let (pool, allocated) = (&self.pools[found.pool], self.allocated[found.pool]);
        let book = self.counters[found.pool].get_or_insert_with(|| {
            CounterBook::new(pool, allocated, |name, allocated| {
                let allocations = allocated.device(name);
                allocations
                    .is_some_and(|own| own.dedicated > 0 || own.shares > 0 || own.consuming > 0)
            })
        });
        book.consume(found.device)
    }

    fn is_tainted(&self, body: usize, device: usize) -> bool {
        if !self.gates.device_taints {
            return false;
        }
        let tolerations = &self.raw(body).tolerations;
        let prevents = |taint: &framework::device::DeviceTaint| {
            taint.prevents_allocation() && !tolerations.iter().any(|own| own.tolerates(taint))
        };
        self.devices[device].device.taints.iter().any(prevents)
            || !self.taint_rules.is_empty() && {
                let id = self.id_of(device);
                self.taint_rules.iter().any(|rule| rule.selects(&id) && prevents(&rule.taint))
            }
    }

    /// Adds the device to the constraints of the claim. Returns the number of the constraint that
    /// it violates; it is then in none.
    fn add_to_constraints(&mut self, place: Place, body: usize, device: usize) -> Option<u32> {
        let description = &self.devices[device].device.description;
        let states = &mut self.constraints[place.claim];
        let constrained = &self.claims.bodies[body].constrained;
        for number in 0..states.len() {
            if constrained[number] && !states[number].add(place.request, description) {
                let earlier = states[..number].iter_mut().zip(constrained);
                earlier
                    .filter(|(_, applies)| **applies)
                    .for_each(|(state, _)| state.remove(place.request));
                return Some(u32::try_from(number).unwrap_or(u32::MAX));
            }
        }
        None
    }

    fn consume_capacity(&mut self, body: usize, device: usize, sign: i128) {
        let capacity = self.raw(body).capacity.as_ref();
        let found = &mut self.devices[device];
        let consumed = capacity::consumptions(&found.device.description, capacity);
        let sums = found.picked_capacity.get_or_insert_default();
        for (name, amount) in &consumed {
            let sum = sums.entry(name.clone()).or_default();
            *sum = sum.saturating_add(amount.nanos().saturating_mul(sign));
        }
    }

    /// Gives up the device that was picked last for the claim.
    fn give_up(&mut self, place: Place) {
        let Some(Pick { body, device, is_share }) = self.picks[place.claim].pop() else { return };
        let constrained = &self.claims.bodies[body].constrained;
        let states = self.constraints[place.claim].iter_mut().zip(constrained);
        states.filter(|(_, applies)| **applies).for_each(|(state, _)| state.remove(place.request));
        let found = &mut self.devices[device];
        found.picked_for.retain(|claim| *claim != place.claim);
        let consumes = !found.device.consumes_counters.is_empty();
        if is_share {
            // As in kube-scheduler, the counters stay consumed, and so does a device without
            // capacities.
            let has_capacity = !found.device.description.capacity.is_empty();
            self.leaks += u64::from(consumes || !has_capacity);
            if has_capacity {
                self.consume_capacity(body, device, -1);
                let found = &mut self.devices[device];
                let is_unused = |sums: &mut Sums| sums.values().all(|sum| *sum == 0);
                found.picked_capacity.take_if(is_unused);
            }
        } else if consumes
            && self.gates.partitionable_devices
            && let Some(book) = &mut self.counters[found.pool]
        {
            book.give_back(found.device);
        }
    }

    /// Returns whether swapping the devices in a solution gives a solution, as far as that can be
    /// known without evaluating selectors that kube-scheduler does not evaluate.
    fn look_alike(&self, one: usize, other: usize) -> bool {
        let (a, b) = (&self.devices[one], &self.devices[other]);
        // A request for all devices stops at the first one that is in use, so which one it is
        // decides whether a later one violates a constraint, which is an error.
        if !self.is_symmetric || a.is_of_all || b.is_of_all {
            return false;
        }
        let (one_device, other_device) = (a.device, b.device);
        let same_counters = one_device.consumes_counters == other_device.consumes_counters
            && (one_device.consumes_counters.is_empty() || a.pool == b.pool);
        same_counters
            && a.is_used_like(b)
            && self.describe_alike(one, other)
            && (0..self.claims.bodies.len()).all(|body| {
                self.are_selected_alike(body, one, other)
                    && self.is_tainted(body, one) == self.is_tainted(body, other)
            })
    }

    /// Returns whether the devices are equal to constraints and in their capacity.
    fn describe_alike(&self, one: usize, other: usize) -> bool {
        let [one, other] = [one, other].map(|device| &self.devices[device].device.description);
        Arc::ptr_eq(one, other)
            || one.allows_multiple_allocations == other.allows_multiple_allocations
                && (!self.gates.consumable_capacity || one.capacity == other.capacity)
                && self
                    .claims
                    .constraint_attributes()
                    .all(|name| one.attribute(name) == other.attribute(name))
    }

    /// Returns whether both devices meet the selectors of the body, or neither.
    fn are_selected_alike(&self, body: usize, one: usize, other: usize) -> bool {
        let known = [one, other].map(|device| self.selectable[self.cell(body, device)]);
        if let [Selectable::Yes, Selectable::Yes] | [Selectable::No(_), Selectable::No(_)] = known {
            return true;
        }
        if known.iter().all(|own| *own != Selectable::Unknown) {
            return false;
        }
        let (a, b) = (&self.devices[one], &self.devices[other]);
        let prepared = &self.claims.bodies[body];
        let selectors = prepared.class_selectors.iter().chain(&prepared.selectors);
        let reads_alike = |selector: &Option<crate::Compiled>| match selector {
            Some(Ok(expression)) => {
                expression.reads_alike(&a.device.description, &b.device.description)
            }
            // It fails on any device.
            _ => true,
        };
        self.are_usable_alike(one, other)
            && (Arc::ptr_eq(&a.device.description, &b.device.description)
                || selectors.into_iter().all(reads_alike))
    }

    /// Returns whether what decides on a device besides selectors is the same.
    fn are_usable_alike(&self, one: usize, other: usize) -> bool {
        let (a, b) = (&self.devices[one], &self.devices[other]);
        let is_per_device = |found: &Found<'_>| found.slice.scope == NodeScope::PerDevice;
        a.device.problem.is_some() == b.device.problem.is_some()
            && a.device.binding_conditions.is_empty() == b.device.binding_conditions.is_empty()
            && is_per_device(a) == is_per_device(b)
            && a.device.scope == b.device.scope
    }
}

/// Returns the number of the first selector that the device does not meet.
///
/// # Errors
/// A selector cannot be compiled or fails; `owner` says whose it is.
fn first_unmet(
    selectors: &[crate::claims::PreparedSelector],
    device: &Device,
    owner: impl Fn() -> String,
) -> Result<Option<u32>, AllocateError> {
    for (number, selector) in selectors.iter().enumerate() {
        let fatal =
            |text: &str| AllocateError::fatal(format!("{}: selector #{number}: {text}", owner()));
        let expression = match selector {
            Some(Ok(expression)) => expression,
            Some(Err(error)) => return Err(fatal(&format!("CEL compile error: {error}"))),
            None => {
                return Err(fatal("CEL expression empty (unsupported selector type?)"));
            }
        };
        let matches = expression.matches(&device.description);
        if !matches.map_err(|error| fatal(&format!("CEL runtime error: {error}")))? {
            return Ok(Some(u32::try_from(number).unwrap_or(u32::MAX)));
        }
    }
    Ok(None)
}

impl<'a> Found<'a> {
    fn new(
        pool: usize,
        slice: &'a Arc<ResourceSlice>,
        device: &'a Device,
        (in_pool, gates): (AllocatedInPool<'a>, Gates),
    ) -> Self {
        let allocations = in_pool.device(&device.name);
        let allocated = allocations
            .as_ref()
            .is_some_and(|own| own.dedicated > 0 || !gates.consumable_capacity && own.shares > 0);
        Self {
            pool,
            slice,
            device,
            allocated,
            allocations,
            picked_for: SmallVec::new(),
            picked_capacity: None,
            is_of_all: false,
        }
    }

    /// Returns whether the whole device is allocated or picked.
    fn is_in_use(&self) -> bool {
        self.allocated || !self.picked_for.is_empty()
    }

    /// Returns whether a share of the device is allocated or picked.
    fn has_capacity_in_use(&self) -> bool {
        self.picked_capacity.is_some()
            || self.allocations.as_ref().is_some_and(|allocations| allocations.consuming > 0)
    }

    fn is_used_like(&self, other: &Self) -> bool {
        self.allocated == other.allocated
            && self.allocations == other.allocations
            && self.picked_for == other.picked_for
            && self.picked_capacity == other.picked_capacity
    }
}
