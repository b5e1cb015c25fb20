//! Resources by dense id, and amounts of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{PodRequests, QuotaAmounts};
use smallvec::SmallVec;

/// The dense id of a resource. Ids are never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceIx(u16);

impl ResourceIx {
    pub(crate) const CPU: Self = Self(0);
    pub(crate) const MEMORY: Self = Self(1);
    pub(crate) const EPHEMERAL_STORAGE: Self = Self(2);
    pub(crate) const PODS: Self = Self(3);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn new(index: usize) -> Self {
        Self(u16::try_from(index).expect("fewer than 2^16 resources"))
    }
}

/// The resources that a quota or a pod has named.
#[derive(Debug, Clone)]
pub(crate) struct Resources {
    by_name: BTreeMap<Arc<str>, ResourceIx>,
    names: Vec<Arc<str>>,
}

impl Default for Resources {
    fn default() -> Self {
        let mut resources = Self { by_name: BTreeMap::new(), names: Vec::new() };
        for name in ["cpu", "memory", "ephemeral-storage", "pods"] {
            resources.intern(&name.into());
        }
        resources
    }
}

impl Resources {
    pub(crate) fn intern(&mut self, name: &Arc<str>) -> ResourceIx {
        if let Some(known) = self.get(name) {
            return known;
        }
        let new = ResourceIx::new(self.names.len());
        self.names.push(name.clone());
        self.by_name.insert(name.clone(), new);
        new
    }

    pub(crate) fn get(&self, name: &str) -> Option<ResourceIx> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn name(&self, resource: ResourceIx) -> &Arc<str> {
        &self.names[resource.index()]
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

/// Returns the amounts that a pod takes from its quota, without devices: its requests, and one pod.
pub(crate) fn of_requests(
    requests: &PodRequests,
    mut resource: impl FnMut(&Arc<str>) -> Option<ResourceIx>,
) -> SmallVec<[(ResourceIx, i64); 6]> {
    let placed = &requests.placed;
    let mut amounts = SmallVec::new();
    amounts.extend([
        (ResourceIx::CPU, placed.milli_cpu),
        (ResourceIx::MEMORY, placed.memory),
        (ResourceIx::EPHEMERAL_STORAGE, placed.ephemeral_storage),
        (ResourceIx::PODS, 1),
    ]);
    for (name, amount) in &placed.scalars {
        amounts.extend(resource(name).map(|own| (own, *amount)));
    }
    amounts.retain(|(_, amount)| *amount != 0);
    amounts
}

/// Amounts by resource. They are wide enough to be exact for any number of pods.
#[derive(Debug, Clone, Default)]
pub struct Amounts(SmallVec<[i128; 6]>);

impl Amounts {
    /// Returns the amount of one resource.
    pub fn get(&self, resource: ResourceIx) -> i128 {
        self.0.get(resource.index()).copied().unwrap_or_default()
    }

    /// Adds to the amount of one resource.
    pub fn add(&mut self, resource: ResourceIx, amount: i128) {
        if self.0.len() <= resource.index() {
            self.0.resize(resource.index() + 1, 0);
        }
        self.0[resource.index()] += amount;
    }

    /// Adds other amounts.
    pub fn add_all(&mut self, other: &Self) {
        other.iter().for_each(|(resource, amount)| self.add(resource, amount));
    }

    /// Returns the amounts other than 0.
    pub fn iter(&self) -> impl Iterator<Item = (ResourceIx, i128)> + '_ {
        let amounts = self.0.iter().enumerate().filter(|(_, amount)| **amount != 0);
        amounts.map(|(index, amount)| (ResourceIx::new(index), *amount))
    }
}

impl PartialEq for Amounts {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Amounts {}

impl FromIterator<(ResourceIx, i128)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (ResourceIx, i128)>>(amounts: I) -> Self {
        let mut sum = Self::default();
        amounts.into_iter().for_each(|(resource, amount)| sum.add(resource, amount));
        sum
    }
}

/// Limits by resource; a resource that is not mentioned has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Limits(Vec<Option<i64>>);

impl Limits {
    pub(crate) fn of(amounts: &QuotaAmounts, resources: &mut Resources) -> Self {
        let mut limits = Vec::new();
        for (name, amount) in amounts {
            let index = resources.intern(name).index();
            if limits.len() <= index {
                limits.resize(index + 1, None);
            }
            limits[index] = Some(*amount);
        }
        Self(limits)
    }

    pub(crate) fn get(&self, resource: ResourceIx) -> Option<i64> {
        self.0.get(resource.index()).copied().flatten()
    }

    /// Returns the limits.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ResourceIx, i64)> + '_ {
        let limits = self.0.iter().enumerate();
        limits.filter_map(|(index, limit)| limit.map(|limit| (ResourceIx::new(index), limit)))
    }

    pub(crate) fn mentions(&self, resource: ResourceIx) -> bool {
        self.get(resource).is_some()
    }
}
