//! Whether pods fit into their quotas.

use crate::amounts::{Amounts, ResourceIx};
use crate::books::Books;
use crate::node::{Node, QuotaIx};

/// How the amounts of quotas are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reading {
    /// A resource that a quota does not mention is not governed by it.
    #[default]
    Mentioned,
    /// As CapacityScheduling does: CPU, memory and ephemeral storage that a `max` does not mention
    /// are 0, and so are all resources that a `min` does not mention.
    Strict,
}

/// Why a pod does not fit into its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The quota, or one above it, would exceed its `max`.
    Max {
        /// This quota.
        quota: QuotaIx,
        /// The resource.
        resource: ResourceIx,
    },
    /// All quotas together would exceed the sum of their `min`.
    Total {
        /// The resource.
        resource: ResourceIx,
    },
}

/// The amounts that a pod asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Amounts of the pod, and of pods of its quota that go before it.
    pub own: Amounts,
    /// Amounts of pods of other quotas that go before it, [added](Books::sum_up) by quota.
    pub beside: Sums,
}

const COMPUTE: [ResourceIx; 3] =
    [ResourceIx::CPU, ResourceIx::MEMORY, ResourceIx::EPHEMERAL_STORAGE];

impl Books {
    /// Decides whether a request fits into a quota, beside what is used without `less`.
    ///
    /// # Errors
    /// The first limit that would be exceeded: those of the quota and of the quotas above it, then
    /// the sum of all `min`.
    pub fn admit(
        &self,
        quota: QuotaIx,
        request: &Request,
        less: &Sums,
        reading: Reading,
    ) -> Result<(), Refusal> {
        let mut below: Option<QuotaIx> = None;
        for ix in self.path_of(quota) {
            let node = self.node(ix);
            if let Some(resource) = self.exceeds_max(ix, below, request, less, reading) {
                return Err(Refusal::Max { quota: ix, resource });
            }
            if node.parent.is_none() {
                return match self.exceeds_total(node, request, less, reading) {
                    Some(resource) => Err(Refusal::Total { resource }),
                    None => Ok(()),
                };
            }
            below = Some(ix);
        }
        Ok(())
    }

    fn exceeds_max(
        &self,
        ix: QuotaIx,
        below: Option<QuotaIx>,
        request: &Request,
        less: &Sums,
        reading: Reading,
    ) -> Option<ResourceIx> {
        let node = self.node(ix);
        let after = |resource| {
            let asked = request.own.get(resource) + request.beside.of(ix, resource);
            node.used.get(resource) - less.of(ix, resource) + asked
        };
        if reading == Reading::Strict {
            let has_max = node.object.spec.max.is_some();
            let limit = |resource: ResourceIx| {
                let absent = COMPUTE.contains(&resource).then_some(0);
                node.max.get(resource).or(absent)
            };
            let exceeds = |resource: &ResourceIx| {
                limit(*resource).is_some_and(|max| after(*resource) > i128::from(max))
            };
            return self.all_resources().filter(|_| has_max).find(exceeds);
        }
        request.own.iter().map(|(resource, _)| resource).find(|resource| {
            // Children that do not lend keep room for themselves.
            let kept = below.map_or(0, |below| {
                node.withheld.get(*resource) - self.node(below).kept_back(*resource)
            });
            node.max.get(*resource).is_some_and(|max| after(*resource) + kept > i128::from(max))
        })
    }

    fn exceeds_total(
        &self,
        top: &Node,
        request: &Request,
        less: &Sums,
        reading: Reading,
    ) -> Option<ResourceIx> {
        let root = self.root();
        if reading == Reading::Strict {
            let is_exempt = |resource: ResourceIx| {
                let is_device = self.resource_name(resource).ends_with(DEVICES);
                (resource == ResourceIx::PODS || is_device) && root.min.get(resource).is_none()
            };
            return self.all_resources().find(|resource| {
                let used = root.used.get(*resource) - less.total.get(*resource);
                let limit = root.min.get(*resource).unwrap_or_default();
                let asked = request.own.get(*resource) + request.beside.total.get(*resource);
                !is_exempt(*resource) && used + asked > limit
            });
        }
        request.own.iter().map(|(resource, _)| resource).find(|resource| {
            let Some(limit) = root.min.get(*resource).filter(|_| top.governs(*resource)) else {
                return false;
            };
            let used = root.governed.get(*resource) - less.governed.get(*resource);
            let kept = root.withheld.get(*resource) - top.kept_back(*resource);
            let asked = request.own.get(*resource) + request.beside.governed.get(*resource);
            used + asked + kept > limit
        })
    }

    /// Whether a quota uses more than its `min` of a resource, without `less` and with `more`.
    pub fn is_over_min(
        &self,
        quota: QuotaIx,
        less: &Sums,
        more: &Amounts,
        reading: Reading,
    ) -> bool {
        let node = self.node(quota);
        let over = |resource: ResourceIx| {
            let used = node.used.get(resource) - less.of(quota, resource) + more.get(resource);
            match (node.min.get(resource), reading) {
                (Some(min), _) => used > i128::from(min),
                (None, Reading::Strict) => resource != ResourceIx::PODS && used > 0,
                (None, Reading::Mentioned) => false,
            }
        };
        self.all_resources().any(over)
    }
}

/// The ending of the resource of the devices of a DeviceClass.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";

/// Sums of the amounts of pods, for example of pods that are taken to be gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// By quota, those above included.
    by_quota: Vec<(QuotaIx, Amounts)>,
    total: Amounts,
    governed: Amounts,
}

impl Sums {
    /// Returns the amount of one quota and the quotas below it.
    pub fn of(&self, quota: QuotaIx, resource: ResourceIx) -> i128 {
        let found = self.by_quota.iter().find(|(own, _)| *own == quota);
        found.map_or(0, |(_, amounts)| amounts.get(resource))
    }

    fn amounts_mut(&mut self, quota: QuotaIx) -> &mut Amounts {
        let place = self.by_quota.iter().position(|(own, _)| *own == quota);
        let place = place.unwrap_or_else(|| {
            self.by_quota.push((quota, Amounts::default()));
            self.by_quota.len() - 1
        });
        &mut self.by_quota[place].1
    }
}

impl Books {
    /// Adds the amounts of a pod of a quota to sums, or with the sign -1 takes them out again.
    pub fn sum_up(&self, sums: &mut Sums, quota: QuotaIx, amounts: &Amounts, sign: i128) {
        for ix in self.path_of(quota) {
            let own = sums.amounts_mut(ix);
            amounts.iter().for_each(|(resource, amount)| own.add(resource, amount * sign));
            let node = self.node(ix);
            if node.parent.is_none() {
                for (resource, amount) in amounts.iter() {
                    sums.total.add(resource, amount * sign);
                    if node.governs(resource) {
                        sums.governed.add(resource, amount * sign);
                    }
                }
            }
        }
    }
}
