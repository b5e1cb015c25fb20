//! What selectors read of a device.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Amount, Version, find};
use crate::api;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// A number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// Text.
    String(Arc<str>),
    /// A semantic version, as written.
    Version(Arc<str>),
    /// Numbers.
    Ints(Box<[i64]>),
    /// Truth values.
    Bools(Box<[bool]>),
    /// Texts.
    Strings(Box<[Arc<str>]>),
    /// Semantic versions, as written.
    Versions(Box<[Arc<str>]>),
    /// A value of an unknown type.
    Unsupported,
}

impl Attribute {
    fn of(raw: &api::DeviceAttribute) -> Self {
        let texts = |texts: &[String]| texts.iter().map(|text| text.as_str().into()).collect();
        match raw {
            api::DeviceAttribute { ints: Some(numbers), .. } => Self::Ints(numbers[..].into()),
            api::DeviceAttribute { bools: Some(values), .. } => Self::Bools(values[..].into()),
            api::DeviceAttribute { strings: Some(own), .. } => Self::Strings(texts(own)),
            api::DeviceAttribute { versions: Some(own), .. } => Self::Versions(texts(own)),
            api::DeviceAttribute { string: Some(text), .. } => Self::String(text.as_str().into()),
            api::DeviceAttribute { int: Some(number), .. } => Self::Int(*number),
            api::DeviceAttribute { bool: Some(value), .. } => Self::Bool(*value),
            api::DeviceAttribute { version: Some(text), .. } => Self::Version(text.as_str().into()),
            _ => Self::Unsupported,
        }
    }

    fn is_readable(&self) -> bool {
        match self {
            Self::Int(_) | Self::Bool(_) | Self::String(_) => true,
            Self::Ints(_) | Self::Bools(_) | Self::Strings(_) => true,
            Self::Version(text) => Version::parse(text).is_ok(),
            Self::Versions(own) => own.iter().all(|text| Version::parse(text).is_ok()),
            Self::Unsupported => false,
        }
    }

    /// Whether it is a list of values.
    pub const fn is_list(&self) -> bool {
        matches!(self, Self::Ints(_) | Self::Bools(_) | Self::Strings(_) | Self::Versions(_))
    }

    /// Whether constraints can compare it: they know no lists without the gate
    /// DRAListTypeAttributes.
    pub const fn is_comparable(&self) -> bool {
        !self.is_list() && !matches!(self, Self::Unsupported)
    }
}

/// A capacity of a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceCapacity {
    /// The amount.
    pub value: Amount,
    /// How requests consume it.
    pub policy: Option<Box<CapacityPolicy>>,
}

/// How requests consume a capacity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CapacityPolicy {
    /// The amount for requests that do not name the capacity.
    pub default: Option<Amount>,
    /// The allowed amounts, ascending; any amount if empty.
    pub valid_values: Box<[Amount]>,
    /// The allowed range.
    pub valid_range: Option<CapacityRange>,
}

/// The range of amounts that a request can consume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CapacityRange {
    /// Lowest amount.
    pub min: Option<Amount>,
    /// Highest amount.
    pub max: Option<Amount>,
    /// Step between amounts, counted from the lowest.
    pub step: Option<Amount>,
}

impl DeviceCapacity {
    fn read(raw: &api::DeviceCapacity) -> Result<Self, Arc<str>> {
        let policy = raw.request_policy.as_ref().map(CapacityPolicy::read).transpose()?;
        Ok(Self { value: Amount::read(&raw.value)?, policy: policy.map(Box::new) })
    }
}

impl CapacityPolicy {
    fn read(raw: &api::CapacityRequestPolicy) -> Result<Self, Arc<str>> {
        let amount = |text: &Option<api::QuantityText>| text.as_ref().map(Amount::read).transpose();
        let range = raw.valid_range.as_ref().map(|range| {
            let (min, max) = (amount(&range.min)?, amount(&range.max)?);
            Ok::<_, Arc<str>>(CapacityRange { min, max, step: amount(&range.step)? })
        });
        Ok(Self {
            default: amount(&raw.default)?,
            valid_values: raw.valid_values.iter().map(Amount::read).collect::<Result<_, _>>()?,
            valid_range: range.transpose()?,
        })
    }
}

/// What selectors read of a device. The cluster keeps one copy for all devices that look alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct DeviceDescription {
    /// The driver.
    pub driver: Arc<str>,
    /// Attributes by name as written, sorted. A name without a domain belongs to the domain of the
    /// driver.
    pub attributes: Box<[(Arc<str>, Attribute)]>,
    /// Capacities by name as written, sorted.
    pub capacity: Box<[(Arc<str>, DeviceCapacity)]>,
    /// Whether several requests can share the device.
    pub allows_multiple_allocations: bool,
    /// Whether an attribute has an unknown type, or is a version that does not parse. Every
    /// selector fails for such a device, even one that does not read the attribute.
    pub has_unreadable_attribute: bool,
    /// Whether an attribute is a list. Selectors of level 1.36 fail for such a device, too.
    pub has_list_attribute: bool,
}

impl DeviceDescription {
    /// Reads the device. An error describes the first field that cannot be read; the description
    /// then has the other fields.
    pub(super) fn read(driver: &Arc<str>, device: &api::Device) -> (Self, Result<(), Arc<str>>) {
        let attributes = device.attributes.iter();
        let attributes: Box<[(Arc<str>, Attribute)]> =
            attributes.map(|(name, raw)| (name.as_str().into(), Attribute::of(raw))).collect();
        let (mut problem, mut capacity) = (Ok(()), Vec::with_capacity(device.capacity.len()));
        for (name, raw) in &device.capacity {
            match DeviceCapacity::read(raw) {
                Ok(read) => capacity.push((name.as_str().into(), read)),
                Err(error) => {
                    problem = problem.and(Err(format!("capacity {name}: {error}").into()));
                }
            }
        }
        let description = Self {
            driver: driver.clone(),
            has_unreadable_attribute: attributes.iter().any(|(_, value)| !value.is_readable()),
            has_list_attribute: attributes.iter().any(|(_, value)| value.is_list()),
            attributes,
            capacity: capacity.into(),
            allows_multiple_allocations: device.allow_multiple_allocations.unwrap_or_default(),
        };
        (description, problem)
    }

    /// Returns the texts that many devices have in common: driver, names, and versions.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut Arc<str>> {
        let attributes = self.attributes.iter_mut().flat_map(|(name, value)| {
            let version = match value {
                Attribute::Version(text) => Some(text),
                _ => None,
            };
            std::iter::once(name).chain(version)
        });
        let capacity = self.capacity.iter_mut().map(|(name, _)| name);
        std::iter::once(&mut self.driver).chain(attributes).chain(capacity)
    }

    /// Returns the attribute with this fully qualified name. An attribute that is written without a
    /// domain has the domain of the driver.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        find(&self.attributes, name).or_else(|| {
            let (domain, id) = name.split_once('/')?;
            (*domain == *self.driver).then(|| find(&self.attributes, id))?
        })
    }

    /// Returns the capacity with this name as written.
    pub fn capacity(&self, name: &str) -> Option<&DeviceCapacity> {
        find(&self.capacity, name)
    }
}

/// Reads amounts by name.
pub(super) fn amounts<'a>(
    raw: impl Iterator<Item = (&'a String, &'a api::QuantityText)>,
) -> Result<super::Amounts, Arc<str>> {
    raw.map(|(name, text)| {
        let amount = Amount::read(text).map_err(|error| format!("{name}: {error}"))?;
        Ok((name.as_str().into(), amount))
    })
    .collect()
}

/// Reads the amounts of counters by name.
pub(super) fn counters(raw: &BTreeMap<String, api::Counter>) -> Result<super::Amounts, Arc<str>> {
    amounts(raw.iter().map(|(name, counter)| (name, &counter.value)))
}
