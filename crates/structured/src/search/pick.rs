//! Picks devices for requests, and gives them up.

use framework::device::{DeviceId, DeviceTaint};

use super::{Pick, Place, Search};
use crate::capacity::{self, Sums};
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

    pub(super) fn id_of(&self, device: usize) -> DeviceId {
        let found = &self.devices[device];
        pools::id_of(self.pools[found.pool].key, found.device)
    }

    pub(super) fn is_shared(&self, device: usize) -> bool {
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
    pub(super) fn give_up(&mut self, place: Place) {
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
}
