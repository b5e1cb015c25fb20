//! Why no devices can be allocated.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::search::Search;

/// The reason a device cannot be allocated for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Obstacle {
    /// The device is allocated or picked for another request.
    InUse,
    /// The selector of the class with this number does not match.
    ClassSelector(u32),
    /// The selector of the request with this number does not match.
    Selector(u32),
    /// The device is for other nodes.
    OtherNode,
    /// A field of the device cannot be read, or its feature is turned off.
    Unusable,
    /// The requested capacity is undefined, not allowed or not left.
    Capacity,
    /// A counter of the pool is exhausted.
    Counters,
    /// A taint is not tolerated.
    Taint,
    /// The constraint of the claim with this number is violated.
    Constraint(u32),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str("in use"),
            Self::ClassSelector(number) => {
                write!(f, "rejected by selector #{number} of the class")
            }
            Self::Selector(number) => write!(f, "rejected by selector #{number} of the request"),
            Self::OtherNode => f.write_str("for other nodes"),
            Self::Unusable => f.write_str("unusable"),
            Self::Capacity => f.write_str("without the capacity"),
            Self::Counters => f.write_str("without the counters"),
            Self::Taint => f.write_str("with an untolerated taint"),
            Self::Constraint(number) => write!(f, "rejected by constraint #{number}"),
        }
    }
}

/// Why the devices of a node do not suffice: the request at which the search came farthest, and
/// what was wrong with the devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// Namespace and name of the claim with a slash.
    pub claim: Box<str>,
    /// The request, or request and alternative with a slash; `None` if the claims need more
    /// devices than an allocation can have.
    pub request: Option<Arc<str>>,
    /// The most devices that were found for the request together with all before it.
    pub found: usize,
    /// The number of devices that the request needs; 0 for all devices, of which there are none.
    pub needed: usize,
    /// The number of devices of the node.
    pub devices: usize,
    /// The devices that were rejected for the request, by what was wrong with them last. A device
    /// in use counts as such only if the request selects it.
    pub obstacles: BTreeMap<Obstacle, usize>,
    /// Whether a pool of the node is being updated.
    pub incomplete_pools: bool,
    /// Whether the search for this diagnosis ended before it had tried all combinations of devices.
    pub is_cut_off: bool,
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "claim {}", self.claim)?;
        let Some(request) = &self.request else {
            return f.write_str(": more devices than an allocation can have");
        };
        match self.needed {
            0 => write!(f, ", request {request}: all devices")?,
            needed => write!(f, ", request {request}: {} of {needed} devices", self.found)?,
        }
        match self.devices {
            0 => f.write_str("; the node has none")?,
            devices => write!(f, "; the node has {devices}")?,
        }
        let obstacles = self.obstacles.iter();
        let parts: Vec<_> =
            obstacles.map(|(obstacle, devices)| format!("{devices} {obstacle}")).collect();
        if !parts.is_empty() {
            write!(f, ": {}", parts.join(", "))?;
        }
        if self.incomplete_pools {
            f.write_str("; a pool is being updated")?;
        }
        if self.is_cut_off {
            f.write_str("; not all combinations of devices were tried for this explanation")?;
        }
        Ok(())
    }
}

/// The cost of selectors, in the units of CEL, up to which a diagnosis evaluates more of them.
const COST_MAX: u64 = 100_000;

/// What the search remembers for a diagnosis.
#[derive(Debug, Default)]
pub(crate) struct Farthest {
    /// The number of picks of all claims, when the search came to the body.
    pub(crate) depth: usize,
    /// The body, and the number of its devices that were found.
    pub(crate) body: Option<(usize, usize)>,
}

impl Search<'_> {
    /// Returns why the search found no solution; `is_cut_off` if it ended early.
    pub(crate) fn diagnosis(&self, is_cut_off: bool) -> Diagnosis {
        let incomplete_pools = self.has_incomplete_pools();
        let Some((body, found)) = self.farthest.body else {
            return Diagnosis {
                claim: self
                    .claims
                    .claims
                    .first()
                    .map(|claim| claim.key.clone())
                    .unwrap_or_default(),
                request: None,
                found: 0,
                needed: 0,
                devices: self.devices.len(),
                obstacles: BTreeMap::new(),
                incomplete_pools,
                is_cut_off,
            };
        };
        let mut obstacles = BTreeMap::new();
        let mut cost = 0;
        for device in 0..self.devices.len() {
            let obstacle = match self.obstacle(body, device) {
                // The search does not look further, but the device may not help once it is free.
                Some(Obstacle::InUse) if cost < COST_MAX => {
                    self.select(body, device, &mut cost).ok().flatten()
                }
                known => known,
            };
            if let Some(obstacle) = obstacle.or_else(|| self.obstacle(body, device)) {
                *obstacles.entry(obstacle).or_default() += 1;
            }
        }
        let prepared = &self.claims.bodies[body];
        Diagnosis {
            claim: self.claims.claims[prepared.claim].key.clone(),
            request: Some(self.claims.result_name(prepared)),
            found,
            needed: self.needs[body].devices,
            devices: self.devices.len(),
            obstacles,
            incomplete_pools,
            is_cut_off,
        }
    }
}
