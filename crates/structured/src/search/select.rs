//! Which devices meet the selectors of a request.

use std::sync::Arc;

use framework::Behaviours;
use framework::device::NodeScope;

use super::{Found, Search, Selectable};
use crate::capacity::{Arithmetic, Sums};
use crate::claims::PreparedSelector;
use crate::diagnosis::Obstacle;
use crate::{AllocateError, capacity, pools};

/// The beginning of the error of an expression that reads an attribute or capacity that the device
/// lacks.
const MISSING: &str = "no such key:";
/// What follows such an error.
const DOCUMENTATION: &str = "\n\nSee \
     https://pkg.go.dev/k8s.io/api/resource/v1#CELDeviceSelector for documentation on CEL device \
     selectors and how to handle optional fields.";

impl<'a> Search<'a> {
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
                None => {
                    let mut cost = 0;
                    let obstacle = self.select(body, device, &mut cost);
                    self.steps.take_cost(cost)?;
                    obstacle?.map_or(Selectable::Yes, Selectable::No)
                }
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

    /// Returns what is known of the device before, if both have one description. To compare what
    /// the selectors read of two descriptions would take as long as to evaluate them.
    fn known_alike(&self, body: usize, device: usize) -> Option<Selectable> {
        let before = device.checked_sub(1)?;
        let known = self.selectable[self.cell(body, before)];
        let descriptions = [before, device].map(|own| &self.devices[own].device.description);
        (known != Selectable::Unknown
            && Arc::ptr_eq(descriptions[0], descriptions[1])
            && self.are_usable_alike(before, device))
        .then_some(known)
    }

    /// Returns why the device does not meet the selectors of the body. Adds the cost of their
    /// evaluation.
    pub(crate) fn select(
        &self,
        body: usize,
        device: usize,
        cost: &mut u64,
    ) -> Result<Option<Obstacle>, AllocateError> {
        let found = &self.devices[device];
        let Found { device, slice, .. } = found;
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
        if let Some(number) = self.first_unmet(&body.class_selectors, found, cost, class)? {
            return Ok(Some(Obstacle::ClassSelector(number)));
        }
        if let Some(number) = self.first_unmet(&body.selectors, found, cost, claim)? {
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

    /// Returns whether [`select`](Self::select) has a result for the device, as far as that can be
    /// known without evaluating selectors.
    pub(super) fn cannot_fail(&self, body: usize, device: usize) -> bool {
        let Found { device, slice, .. } = &self.devices[device];
        slice.scope != NodeScope::PerDevice
            && self.claims.bodies[body].cannot_fail(&device.description)
    }

    /// Returns whether the device has the capacity that the body asks for.
    pub(crate) fn has_capacity(&mut self, body: usize, device: usize) -> bool {
        let found = &self.devices[device];
        let consumed = found.allocations.as_ref().map(|allocations| &allocations.consumed);
        let fits = self.capacity_fits(body, device, [consumed, Some(&found.picked_capacity)]);
        if !fits {
            self.reject(body, device, Obstacle::Capacity);
        }
        fits
    }

    /// Returns whether the device has the capacity that the body asks for while nothing of it is
    /// used.
    pub(crate) fn has_static_capacity(&mut self, body: usize, device: usize) -> bool {
        let fits = self.capacity_fits(body, device, [None, None]);
        if !fits {
            self.reject(body, device, Obstacle::Capacity);
        }
        fits
    }

    fn capacity_fits(&self, body: usize, device: usize, used: [Option<&Sums>; 2]) -> bool {
        let description = &self.devices[device].device.description;
        let capacity = self.raw(body).capacity.as_ref();
        !self.gates.consumable_capacity
            || capacity::fits(description, capacity, used, self.arithmetic(device))
    }

    /// Returns how the capacity of a device is computed.
    pub(crate) fn arithmetic(&self, device: usize) -> Arithmetic<'a> {
        let key = self.pools[self.devices[device].pool].key;
        Arithmetic::of(self.gates, &key.driver)
    }

    /// Returns the number of the first selector that the device does not meet.
    ///
    /// # Errors
    /// A selector cannot be compiled or fails; `owner` says whose it is.
    fn first_unmet(
        &self,
        selectors: &[PreparedSelector],
        found: &Found<'_>,
        cost: &mut u64,
        owner: impl Fn() -> String,
    ) -> Result<Option<u32>, AllocateError> {
        for (number, selector) in selectors.iter().enumerate() {
            let fatal =
                |text: &str| AllocateError::fatal(format!("{}: selector #{number}{text}", owner()));
            let expression = match selector {
                Some(Ok(expression)) => expression,
                Some(Err(error)) => return Err(fatal(&format!(": CEL compile error: {error}"))),
                None => {
                    return Err(fatal(": CEL expression empty (unsupported selector type?)"));
                }
            };
            let matches = expression.matches(&found.device.description, cost);
            let matches = matches.map_err(|error| match self.gates.behaviours {
                Behaviours { selector_errors_tell_more: true, .. } => {
                    let id = pools::id_of(self.pools[found.pool].key, found.device);
                    let hint = if error.starts_with(MISSING) { DOCUMENTATION } else { "" };
                    fatal(&format!(" on device {id}: CEL runtime error: {error}{hint}"))
                }
                _ => fatal(&format!(": CEL runtime error: {error}")),
            })?;
            if !matches {
                return Ok(Some(u32::try_from(number).unwrap_or(u32::MAX)));
            }
        }
        Ok(None)
    }
}
