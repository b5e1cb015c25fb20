//! The checks before the search: whether each request can be handled, and how many devices it
//! needs.

use framework::device::{ALLOCATION_RESULTS_MAX, AllocationMode, DeviceSelector};

use crate::pools::PoolState;
use crate::search::Search;
use crate::{AllocateError, Gates};

/// How many devices a request needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Need {
    /// The number of devices.
    pub(crate) devices: usize,
    /// The devices of a request for all devices.
    pub(crate) all: Option<Box<[usize]>>,
}

impl Search<'_> {
    /// Checks all requests in the order of kube-scheduler, and counts the devices that they need.
    ///
    /// # Errors
    /// The first request that cannot be handled.
    pub(crate) fn validate(&mut self) -> Result<(), AllocateError> {
        for claim in 0..self.claims.claims.len() {
            let mut least = 0_usize;
            for request in 0..self.claims.claims[claim].requests.len() {
                least = least.saturating_add(self.validate_request(claim, request)?);
            }
            let key = &self.claims.claims[claim].key;
            if least > ALLOCATION_RESULTS_MAX {
                return Err(AllocateError::fatal(format!(
                    "claim {key}: number of requested devices {least} exceeds the claim limit of \
                     {ALLOCATION_RESULTS_MAX}"
                )));
            }
            self.set_constraints(claim)?;
        }
        Ok(())
    }

    /// Returns the least number of devices that the request needs.
    fn validate_request(&mut self, claim: usize, request: usize) -> Result<usize, AllocateError> {
        let claims = self.claims;
        let prepared = &claims.claims[claim];
        let (key, name) = (&prepared.key, &prepared.spec.requests[request].name);
        let bodies = prepared.requests[request].clone();
        let fatal = |text: String| Err(AllocateError::fatal(text));
        let Some(first) = claims.bodies.get(bodies.start).filter(|_| !bodies.is_empty()) else {
            return fatal(format!(
                "claim {key}, request {name}: missing device class name (unsupported request \
                 type?)"
            ));
        };
        if first.alternative.is_some() && !self.gates.prioritized_list {
            return fatal(format!(
                "claim {key}, request {name}: has subrequests, but the DRAPrioritizedList feature \
                 is disabled"
            ));
        }
        for body in &claims.bodies[bodies.clone()] {
            let raw = claims.body_of(body);
            if raw.capacity.is_some() && !self.gates.consumable_capacity {
                let what = if body.alternative.is_some() { "subrequest" } else { "request" };
                return fatal(format!(
                    "claim {key}, {what} {}: has capacity requests, but the \
                     DRAConsumableCapacity feature is disabled",
                    raw.name
                ));
            }
        }
        let mut least = usize::MAX;
        for body in bodies {
            let need = self.validate_body(body)?;
            least = least.min(need.devices);
            self.needs[body] = need;
        }
        Ok(least)
    }

    fn validate_body(&mut self, body: usize) -> Result<Need, AllocateError> {
        let claims = self.claims;
        let prepared = &claims.bodies[body];
        let raw = claims.body_of(prepared);
        let what = || format!("claim {}, request {}", claims.claims[prepared.claim].key, raw.name);
        let fatal = |text: String| Err(AllocateError::fatal(what() + &text));
        let unknown = raw.selectors.iter().position(|own| *own == DeviceSelector::Unknown);
        if let Some(place) = unknown {
            return fatal(format!(
                ", selector #{place}: CEL expression empty (unsupported selector type?)"
            ));
        }
        if raw.admin_access.is_some() && !self.gates.admin_access {
            return fatal(": admin access is requested, but the feature is disabled".to_owned());
        }
        if raw.class.is_empty() {
            return fatal(": missing device class name (unsupported request type?)".to_owned());
        }
        if prepared.class.is_none() {
            let class = &raw.class;
            return fatal(format!(
                ": could not retrieve device class {class}: deviceclass.resource.k8s.io \
                 \"{class}\" not found"
            ));
        }
        match &raw.mode {
            AllocationMode::ExactCount(count) => {
                // Kubernetes allows no negative count, which would be done at once.
                let devices = usize::try_from((*count).max(0)).unwrap_or(usize::MAX);
                Ok(Need { devices, all: None })
            }
            AllocationMode::All => self.all_devices(body, what),
            AllocationMode::Other(mode) => fatal(format!(": unsupported count mode {mode}")),
        }
    }

    /// Returns the devices of a request for all devices.
    fn all_devices(
        &mut self,
        body: usize,
        what: impl Fn() -> String,
    ) -> Result<Need, AllocateError> {
        let mut all = Vec::new();
        for pool in 0..self.pools.len() {
            let problem = match self.pools[pool].state {
                PoolState::Ready => None,
                PoolState::Incomplete => Some("being updated"),
                PoolState::Invalid => Some("invalid"),
            };
            if let Some(problem) = problem {
                let text = format!(
                    "{}: asks for all devices, but resource pool {} is currently {problem}",
                    what(),
                    self.pools[pool].key
                );
                return Err(match self.gates.behaviours.unsound_pool_fails_its_nodes {
                    true => AllocateError::Node(text.into()),
                    false => AllocateError::fatal(text),
                });
            }
            for device in self.devices_of_pool(pool) {
                if !self.is_selectable(body, device)? {
                    continue;
                }
                let has_capacity = match self.gates.behaviours.all_devices_need_capacity {
                    true => self.has_static_capacity(body, device),
                    false => self.has_capacity(body, device),
                };
                if has_capacity {
                    all.push(device);
                }
            }
        }
        Ok(Need { devices: all.len(), all: Some(all.into()) })
    }
}

impl Gates {
    /// Returns whether the pick of a device that allows it is a share, which leaves the device to
    /// other requests.
    pub(crate) const fn shares(&self, allows_multiple_allocations: bool) -> bool {
        self.consumable_capacity && allows_multiple_allocations
    }
}
