//! Which devices can take each other's place.

use std::sync::Arc;

use framework::device::NodeScope;

use super::{Found, Search, Selectable};

impl Search<'_> {
    /// Returns whether swapping the devices in a solution gives a solution, as far as that can be
    /// known without evaluating selectors that kube-scheduler does not evaluate.
    pub(super) fn look_alike(&self, one: usize, other: usize) -> bool {
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
    pub(super) fn are_usable_alike(&self, one: usize, other: usize) -> bool {
        let (a, b) = (&self.devices[one], &self.devices[other]);
        let is_per_device = |found: &Found<'_>| found.slice.scope == NodeScope::PerDevice;
        a.device.problem.is_some() == b.device.problem.is_some()
            && a.device.binding_conditions.is_empty() == b.device.binding_conditions.is_empty()
            && is_per_device(a) == is_per_device(b)
            && a.device.scope == b.device.scope
    }
}
