//! Picks devices for requests, and gives them up.

use framework::device::{DeviceId, DeviceTaint};

use super::{Pick, Place, Search};
use crate::capacity;
use crate::counters::CounterBook;
use crate::diagnosis::Obstacle;
use crate::{AllocateError, pools};

impl Search<'_> {
    /// Picks a device that meets the selectors. Returns false, and picks nothing, if it cannot be
    /// allocated. `must` is set for the devices of a request for all devices.
    ///
    /// # Errors
    /// A constraint is violated by a device of a request for all devices.
    pub(super) fn pick(
        &mut self,
        place: Place,
        body: usize,
        device: usize,
        must: bool,
    ) -> Result<bool, AllocateError> {
        let is_charged = match self.first_obstacle(place, body, device) {
            Ok(is_charged) => is_charged,
            Err(obstacle) => {
                self.reject(body, device, obstacle);
                return Ok(false);
            }
        };
        if let Some(number) = self.add_to_constraints(place, body, device) {
            self.give_counters_back(device, is_charged);
            if must {
                let id = self.id_of(device);
                let (claim, name) = (&self.claims.claims[place.claim].key, &self.raw(body).name);
                return Err(AllocateError::fatal(format!(
                    "claim {claim}, request {name}: cannot add device {id} because a claim \
                     constraint would not be satisfied"
                )));
            }
            self.reject(body, device, Obstacle::Constraint(number));
            return Ok(false);
        }
        let is_share = self.is_shared(device);
        if !is_share {
            self.devices[device].picked_for.push(place.claim);
        } else if !self.has_capacity(body, device) {
            self.take_off_constraints(place, body);
            self.give_counters_back(device, is_charged);
            return Ok(false);
        } else {
            self.devices[device].picked_shares += 1;
            self.consume_capacity(body, device, 1);
        }
        self.picks[place.claim].push(Pick { body, device, is_share, is_charged });
        Ok(true)
    }

    pub(super) fn id_of(&self, device: usize) -> DeviceId {
        let found = &self.devices[device];
        pools::id_of(self.pools[found.pool].key, found.device)
    }

    pub(super) fn is_shared(&self, device: usize) -> bool {
        let description = &self.devices[device].device.description;
        self.gates.shares(description.allows_multiple_allocations)
    }

    /// Returns why the device cannot be allocated, apart from constraints. Otherwise charges its
    /// counters, unless they are charged already for a share, and returns whether it did.
    fn first_obstacle(
        &mut self,
        place: Place,
        body: usize,
        device: usize,
    ) -> Result<bool, Obstacle> {
        let is_share = self.is_shared(device);
        let raw = self.raw(body);
        let found = &self.devices[device];
        let is_busy = match raw.wants_admin_access() {
            true => !is_share && found.picked_for.contains(&place.claim),
            false => found.is_in_use(),
        };
        if is_busy {
            return Err(Obstacle::InUse);
        }
        let consumes = !found.device.consumes_counters.is_empty();
        if consumes && !self.gates.partitionable_devices {
            return Err(Obstacle::Unusable);
        }
        let is_counted = is_share && found.is_charged(self.gates.behaviours);
        let consumes = consumes && !is_counted;
        if consumes && !self.consume_counters(device) {
            return Err(Obstacle::Counters);
        }
        if self.is_tainted(body, device) {
            self.give_counters_back(device, consumes);
            return Err(Obstacle::Taint);
        }
        Ok(consumes)
    }

    /// Gives the counters of a device back, if they were charged for it.
    fn give_counters_back(&mut self, device: usize, is_charged: bool) {
        let found = &self.devices[device];
        if is_charged && let Some(book) = &mut self.counters[found.pool] {
            book.give_back(found.device);
        }
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

    pub(super) fn is_tainted(&self, body: usize, device: usize) -> bool {
        if !self.gates.device_taints {
            return false;
        }
        let tolerations = &self.raw(body).tolerations;
        let prevents = |taint: &DeviceTaint| {
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

    /// Takes the device that was added last for a request off the constraints of its claim.
    fn take_off_constraints(&mut self, place: Place, body: usize) {
        let constrained = &self.claims.bodies[body].constrained;
        let states = self.constraints[place.claim].iter_mut().zip(constrained);
        states.filter(|(_, applies)| **applies).for_each(|(state, _)| state.remove(place.request));
    }

    fn consume_capacity(&mut self, body: usize, device: usize, sign: i128) {
        let arithmetic = self.arithmetic(device);
        let capacity = self.raw(body).capacity.as_ref();
        let found = &mut self.devices[device];
        let consumed = capacity::consumptions(&found.device.description, capacity, arithmetic);
        for (name, amount) in &consumed {
            let sum = found.picked_capacity.entry(name.clone()).or_default();
            *sum = sum.saturating_add(amount.nanos().saturating_mul(sign));
        }
        found.picked_capacity.retain(|_, sum| *sum != 0);
    }

    /// Gives up the device that was picked last for the claim, with everything that was reserved
    /// for it.
    pub(super) fn give_up(&mut self, place: Place) {
        let Some(pick) = self.picks[place.claim].pop() else { return };
        let Pick { body, device, is_share, is_charged } = pick;
        self.take_off_constraints(place, body);
        if is_share {
            self.devices[device].picked_shares -= 1;
            self.consume_capacity(body, device, -1);
        } else {
            self.devices[device].picked_for.retain(|claim| *claim != place.claim);
        }
        self.give_counters_back(device, is_charged);
    }
}
