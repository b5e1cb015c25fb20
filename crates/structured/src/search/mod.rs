//! The search for devices on one node.

mod alike;
mod buffers;
mod found;
mod pick;
mod select;

use std::ops::Range;
use std::sync::Arc;

use framework::NodeView;
use framework::device::{
    ALLOCATION_RESULTS_MAX, AllocationMode, AttributeRule, DeviceDescription, DeviceTaintRule,
    RequestBody,
};
use smallvec::SmallVec;

pub(crate) use self::buffers::Buffers;
use self::buffers::{emptied, filled, filled_with_empty};
pub(crate) use self::found::Found;
use crate::claims::Claims;
use crate::constraint::{ClaimConstraints, ConstraintState};
use crate::counters::CounterBook;
use crate::diagnosis::{Farthest, Obstacle};
use crate::pools::{self, AllocatedInPool, Pool, PoolState};
use crate::request::Need;
use crate::steps::StepsLeft;
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

/// A device that is picked for a request.
#[derive(Debug)]
pub(crate) struct Pick {
    pub(crate) body: usize,
    pub(crate) device: usize,
    pub(crate) is_share: bool,
    /// Whether the counters of the device were charged for this pick.
    is_charged: bool,
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
    Exact { place: Place, device: usize, failed: SmallVec<[usize; 4]> },
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
    constraints: Vec<ClaimConstraints<'a>>,
    counters: Vec<Option<CounterBook<'a>>>,
    selectable: Vec<Selectable>,
    /// The last obstacle of each device for each body.
    obstacles: Vec<Option<Obstacle>>,
    /// Whether devices that look alike can take each other's place in any solution.
    is_symmetric: bool,
    effort: Effort,
    pub(crate) steps: StepsLeft,
    /// What to do next, from the last frame to the first.
    frames: Vec<Frame>,
}

impl<'a> Search<'a> {
    /// Gathers the pools of the node.
    ///
    /// # Errors
    /// A pool with which kube-scheduler ends the attempt.
    pub(crate) fn new(
        allocator: &Allocator<'a>,
        claims: &'a Claims,
        node: &NodeView<'a>,
        budget: Budget,
        buffers: Buffers,
    ) -> Result<Self, AllocateError> {
        let Allocator { cluster, gates, allocated } = *allocator;
        let mut pools = emptied(buffers.pools);
        pools::gather(cluster, gates, node, &mut pools)?;
        let mut in_pools: Vec<AllocatedInPool<'a>> = emptied(buffers.allocated);
        in_pools.extend(pools.iter().map(|pool| allocated.pool(pool.key)));
        let mut devices = emptied(buffers.devices);
        let mut device_ranges = buffers.device_ranges;
        device_ranges.clear();
        for (number, (pool, in_pool)) in pools.iter().zip(&in_pools).enumerate() {
            let start = devices.len();
            for slice in &pool.slices {
                let found = |device| Found::new(number, slice, device, *in_pool, gates);
                devices.extend(slice.devices.iter().map(found));
            }
            device_ranges.push(start..devices.len());
        }
        let rules = gates.device_taints && gates.device_taint_rules;
        let needs_selector = gates.behaviours.taint_rule_needs_selector;
        let taint_rules = cluster
            .device_taint_rules()
            .filter(|rule| rules && (rule.has_selector || !needs_selector));
        let taint_rules = taint_rules.collect();
        let cells = devices.len() * claims.bodies.len();
        let mut chosen = filled_with_empty(buffers.chosen, claims.claims.len());
        for (chosen, claim) in chosen.iter_mut().zip(&claims.claims) {
            chosen.resize(claim.requests.len(), 0);
        }
        let mut constraints = emptied(buffers.constraints);
        constraints.resize_with(claims.claims.len(), ClaimConstraints::new);
        let mut counters = emptied(buffers.counters);
        counters.resize_with(pools.len(), || None);
        Ok(Self {
            claims,
            gates,
            needs: filled(buffers.needs, claims.bodies.len(), Need::default()),
            picks: filled_with_empty(buffers.picks, claims.claims.len()),
            chosen,
            farthest: Farthest::default(),
            node: *node,
            allocated: in_pools,
            device_ranges,
            taint_rules,
            constraints,
            counters,
            selectable: filled(buffers.selectable, cells, Selectable::Unknown),
            obstacles: filled(buffers.obstacles, cells, None),
            is_symmetric: true,
            effort: Effort::Full,
            steps: StepsLeft::of(budget),
            frames: buffers.frames,
            pools,
            devices,
        })
    }

    /// Sets up the constraints of a claim.
    ///
    /// # Errors
    /// A constraint of an unknown kind.
    pub(crate) fn set_constraints(&mut self, claim: usize) -> Result<(), AllocateError> {
        let claims = self.claims;
        let prepared = &claims.claims[claim];
        for (number, constraint) in prepared.spec.constraints.iter().enumerate() {
            let state = ConstraintState::new(&constraint.rule, self.gates.behaviours);
            let state = state.ok_or_else(|| {
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

    /// Validates the claims and searches to the end.
    ///
    /// # Errors
    /// The search ended early, or a request is one with which kube-scheduler ends the attempt.
    pub(crate) fn run(&mut self, effort: Effort) -> Result<Outcome, AllocateError> {
        self.validate()?;
        self.is_symmetric = self.can_swap_devices();
        for device in self.needs.iter().filter_map(|need| need.all.as_ref()).flatten() {
            self.devices[*device].is_of_all = true;
        }
        self.effort = effort;
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let outcome = self.run_with(&mut frames);
        self.frames = frames;
        outcome
    }

    fn run_with(&mut self, frames: &mut Vec<Frame>) -> Result<Outcome, AllocateError> {
        let mut step = Step::Enter(Place::default());
        loop {
            step = match step {
                Step::Enter(place) => self.enter(place, frames)?,
                Step::Return(Outcome::Done) => return Ok(Outcome::Done),
                Step::Return(outcome) => match frames.pop() {
                    Some(frame) => self.resume(frame, outcome, frames)?,
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

    fn body_at(&self, place: Place) -> usize {
        let requests = &self.claims.claims[place.claim].requests;
        requests[place.request].start + place.alternative.unwrap_or(0)
    }

    /// Goes on at a place.
    fn enter(&mut self, place: Place, frames: &mut Vec<Frame>) -> Result<Step, AllocateError> {
        self.steps.take(1)?;
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
                self.steps.take(1)?;
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
            Frame::Exact { place, device, mut failed } => {
                self.give_up(place);
                if outcome == Outcome::TooMany {
                    return Ok(Step::Return(outcome));
                }
                failed.push(device);
                self.scan(Place { start: device + 1, ..place }, failed, frames)
            }
        }
    }

    /// Picks the next device for a request for a number of devices. `failed` are devices for which
    /// the rest of the search found no solution.
    fn scan(
        &mut self,
        place: Place,
        failed: SmallVec<[usize; 4]>,
        frames: &mut Vec<Frame>,
    ) -> Result<Step, AllocateError> {
        let body = self.body_at(place);
        let is_least = self.effort == Effort::Least;
        if is_least && (self.is_hopeless(place, body) || self.lacks_distinct_values(place)) {
            return Ok(Step::Return(Outcome::Failed));
        }
        for device in place.start..self.devices.len() {
            self.steps.take(1)?;
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
            if self.pick(place, body, device, false)? {
                frames.push(Frame::Exact { place, device, failed });
                let next = Place { number: place.number + 1, start: device + 1, ..place };
                return Ok(Step::Enter(next));
            }
        }
        Ok(Step::Return(Outcome::Failed))
    }

    /// Returns whether too few devices are left to complete the request. False if kube-scheduler
    /// would evaluate a selector to find out, which may fail. At level 1.36, a constraint for
    /// different values forgets all devices of the request in any case, once the one before is
    /// given up.
    fn is_hopeless(&self, place: Place, body: usize) -> bool {
        let mut left = SmallVec::<[&DeviceDescription; 16]>::new();
        let mut unknown = SmallVec::<[usize; 16]>::new();
        for device in place.start..self.devices.len() {
            if self.is_busy(place, body, device) {
                continue;
            }
            match self.selectable[self.cell(body, device)] {
                Selectable::No(_) => continue,
                Selectable::Yes => {}
                Selectable::Unknown => unknown.push(device),
            }
            left.push(&self.devices[device].device.description);
        }
        let missing = self.needs[body].devices - place.number;
        let constrained = &self.claims.bodies[body].constrained;
        let mut constraints = self.constraints[place.claim].iter().zip(constrained);
        let are_too_few = left.len() < missing
            || constraints.any(|(constraint, applies)| {
                *applies && constraint.accepts_at_most(&left) < missing
            });
        are_too_few && unknown.iter().all(|device| self.cannot_fail(body, *device))
    }

    /// Returns whether fewer values are left than the requests from here on need different ones.
    /// False in the cases of [`is_hopeless`](Self::is_hopeless), if one of these requests is not
    /// plain, and if the claim asks for too many devices.
    fn lacks_distinct_values(&self, place: Place) -> bool {
        let requests = &self.claims.claims[place.claim].requests[place.request..];
        // A request for several devices needs one value, because the constraint remembers only the
        // latest.
        let without_value = &requests[usize::from(place.number > 0)..];
        let lacks_values = |(number, constraint): (usize, &ConstraintState<'_>)| {
            let is_constrained =
                |own: &&Range<usize>| self.claims.bodies[own.start].constrained[number];
            let missing = without_value.iter().filter(is_constrained).count();
            constraint.has_fewer_values_than(missing, || {
                let free = self.devices.iter().filter(|found| !found.is_in_use());
                free.map(|found| &*found.device.description)
            })
        };
        let needed: usize = requests.iter().map(|own| self.needs[own.start].devices).sum();
        let results = self.picks[place.claim].len() + needed - place.number;
        let mut constraints = self.constraints[place.claim].iter().enumerate();
        constraints.any(lacks_values)
            && results <= ALLOCATION_RESULTS_MAX
            && requests.iter().all(|own| self.is_plain(own))
    }

    /// Returns whether the request is for a number of devices, none of which fails a selector.
    fn is_plain(&self, bodies: &Range<usize>) -> bool {
        let body = bodies.start;
        let own = self.raw(body);
        let is_harmless = |device: usize| {
            self.devices[device].is_in_use()
                || self.selectable[self.cell(body, device)] != Selectable::Unknown
                || self.cannot_fail(body, device)
        };
        self.claims.bodies[body].alternative.is_none()
            && matches!(own.mode, AllocationMode::ExactCount(1..))
            && !own.wants_admin_access()
            && (0..self.devices.len()).all(is_harmless)
    }

    /// Returns whether the device is allocated or picked, so that the request cannot have it.
    fn is_busy(&self, place: Place, body: usize, device: usize) -> bool {
        let found = &self.devices[device];
        match self.raw(body).wants_admin_access() {
            true => found.picked_for.contains(&place.claim),
            false => found.is_in_use(),
        }
    }

    fn raw(&self, body: usize) -> &'a RequestBody {
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
}
