//! Constraints over the devices of a claim.

use std::sync::Arc;

use framework::Behaviours;
use framework::device::{Attribute, AttributeRule, DeviceDescription};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The number of different values that are counted without a map.
const FEW: usize = 4;

/// The constraints of a claim, of which most have at most one.
pub(crate) type ClaimConstraints<'a> = SmallVec<[ConstraintState<'a>; 1]>;

/// A constraint, and what it remembers of the devices that are picked.
#[derive(Debug)]
pub(crate) enum ConstraintState<'a> {
    /// All devices have the same value: that of the first one.
    Match { attribute: &'a Arc<str>, value: Option<&'a Attribute>, devices: usize },
    /// The devices have different values.
    ///
    /// Without `every`, only the latest value of each request is remembered, so a request for three
    /// devices accepts the values a, b, a. Kubernetes 1.36 does so.
    Distinct { attribute: &'a Arc<str>, values: Vec<(usize, &'a Attribute)>, every: bool },
}

impl<'a> ConstraintState<'a> {
    /// Returns the constraint without devices; `None` if its kind is unknown.
    pub(crate) const fn new(rule: &'a AttributeRule, behaviours: Behaviours) -> Option<Self> {
        match rule {
            AttributeRule::Match(attribute) => {
                Some(Self::Match { attribute, value: None, devices: 0 })
            }
            AttributeRule::Distinct(attribute) => {
                let every = behaviours.distinct_compares_every_device;
                Some(Self::Distinct { attribute, values: Vec::new(), every })
            }
            AttributeRule::Unknown => None,
        }
    }

    /// Adds a device that is picked for a request; returns false, and does nothing, if the device
    /// violates the constraint.
    pub(crate) fn add(&mut self, request: usize, device: &'a DeviceDescription) -> bool {
        match self {
            Self::Match { attribute, value, devices } => {
                let Some(own) = device.attribute(attribute) else { return false };
                if *devices == 0 {
                    *value = Some(own);
                } else if !own.is_comparable() || *value != Some(own) {
                    return false;
                }
                *devices += 1;
                true
            }
            Self::Distinct { attribute, values, every } => {
                let Some(own) = device.attribute(attribute) else { return false };
                let clashes = |known: &Attribute| !own.is_comparable() || known == own;
                if values.iter().any(|(_, known)| clashes(known)) {
                    return false;
                }
                let latest = values.iter_mut().find(|(known, _)| !*every && *known == request);
                match latest {
                    Some((_, value)) => *value = own,
                    None => values.push((request, own)),
                }
                true
            }
        }
    }

    /// Returns how many of the devices can be added at most.
    pub(crate) fn accepts_at_most(&self, devices: &[&DeviceDescription]) -> usize {
        match self {
            Self::Match { attribute, value: Some(value), devices: 1.. } => {
                devices.iter().filter(|device| device.attribute(attribute) == Some(value)).count()
            }
            Self::Match { attribute, .. } => {
                most_common(devices.iter().filter_map(|device| device.attribute(attribute)))
            }
            Self::Distinct { .. } => devices.len(),
        }
    }

    /// Returns whether it needs different values and accepts fewer than this many of those of the
    /// devices.
    pub(crate) fn has_fewer_values_than<'d, D: Iterator<Item = &'d DeviceDescription>>(
        &self,
        missing: usize,
        devices: impl FnOnce() -> D,
    ) -> bool {
        let Self::Distinct { attribute, values, .. } = self else { return false };
        let mut left = SmallVec::<[&Attribute; 16]>::new();
        for value in devices().filter_map(|device| device.attribute(attribute)) {
            if !left.contains(&value) && values.iter().all(|(_, known)| *known != value) {
                left.push(value);
            }
            if left.len() >= missing {
                return false;
            }
        }
        left.len() < missing
    }

    /// Takes off a device that was added for a request.
    pub(crate) fn remove(&mut self, request: usize) {
        match self {
            Self::Match { devices, .. } => *devices -= 1,
            Self::Distinct { values, .. } => {
                // The device that was added last is taken off first.
                if let Some(last) = values.iter().rposition(|(known, _)| *known == request) {
                    values.remove(last);
                }
            }
        }
    }
}

/// Returns how many of the values are equal at most.
fn most_common<'a>(values: impl Iterator<Item = &'a Attribute>) -> usize {
    // The devices of a node have few different values, mostly one or two.
    let mut first = SmallVec::<[(&Attribute, usize); FEW]>::new();
    let mut others: FxHashMap<&Attribute, usize> = FxHashMap::default();
    for value in values {
        let has_room = first.len() < FEW;
        match first.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None if has_room => first.push((value, 1)),
            None => *others.entry(value).or_default() += 1,
        }
    }
    first.into_iter().map(|(_, count)| count).chain(others.into_values()).max().unwrap_or(0)
}
