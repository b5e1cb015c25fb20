//! The device that an expression is evaluated for.

use std::fmt;
use std::sync::Arc;

use framework::Quantity;
use framework::device::Version;

use crate::error::EvalError;
use crate::reads::Reads;
use crate::value::{Amount, Held, Value};

/// The value of an attribute, as a slice has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// The field `bool`.
    Bool(bool),
    /// The field `int`.
    Int(i64),
    /// The field `string`.
    String(&'a str),
    /// The field `version`: a semantic version.
    Version(&'a str),
    /// The field `bools`.
    Bools(&'a [bool]),
    /// The field `ints`.
    Ints(&'a [i64]),
    /// The field `strings`.
    Strings(&'a [Arc<str>]),
    /// The field `versions`: semantic versions.
    Versions(&'a [Arc<str>]),
    /// No field that the followed version of Kubernetes knows.
    Unsupported,
}

/// The two maps of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Attributes,
    Capacity,
}

/// The variable `device` of an expression: what a selector can read of a device.
///
/// A name without a domain belongs to the domain of the driver.
#[derive(Clone)]
pub struct DeviceView<'a> {
    driver: &'a str,
    /// The attributes and capacities to keep, of those that are added.
    kept: &'a Reads,
    allow_multiple_allocations: bool,
    /// Sorted by domain and identifier.
    attributes: Vec<Entry<'a, Stored<'a>>>,
    /// Sorted by domain and identifier.
    capacity: Vec<Entry<'a, Amount>>,
}

#[derive(Debug, Clone)]
struct Entry<'a, T> {
    domain: &'a str,
    id: &'a str,
    value: T,
}

#[derive(Debug, Clone)]
enum Stored<'a> {
    Bool(bool),
    Int(i64),
    String(&'a str),
    Version(Version),
    List(Arc<Vec<Value<'a>>>),
}

impl<'a> DeviceView<'a> {
    /// Returns a device without attributes and capacities.
    pub fn new(driver: &'a str) -> Self {
        Self::read_by(&Reads::Everything, driver)
    }

    /// Returns a device without attributes and capacities, which keeps only those that a selector
    /// reads. Another selector may get a wrong result for it.
    pub fn read_by(reads: &'a Reads, driver: &'a str) -> Self {
        let (attributes, capacity) = (Vec::new(), Vec::new());
        Self { driver, kept: reads, allow_multiple_allocations: false, attributes, capacity }
    }

    /// Sets `device.allowMultipleAllocations`, which is false for a device without the field.
    pub fn set_allow_multiple_allocations(&mut self, allow: bool) {
        self.allow_multiple_allocations = allow;
    }

    /// Adds an attribute; the last one of a name counts.
    ///
    /// # Errors
    ///
    /// The value is not supported or not a version. kube-scheduler then refuses to evaluate any
    /// expression for the device, even one that does not read the attribute.
    pub fn add_attribute(
        &mut self,
        name: &'a str,
        value: AttributeValue<'a>,
    ) -> Result<(), EvalError> {
        let version = |text: &str| {
            Version::parse(text).map_err(|error| {
                EvalError::new(format!("attribute {name}: parse semantic version: {error}"))
            })
        };
        let value = match value {
            AttributeValue::Bool(value) => Stored::Bool(value),
            AttributeValue::Int(value) => Stored::Int(value),
            AttributeValue::String(value) => Stored::String(value),
            AttributeValue::Version(value) => Stored::Version(version(value)?),
            AttributeValue::Bools(own) => Stored::list(own.iter().map(|own| Value::Bool(*own))),
            AttributeValue::Ints(own) => Stored::list(own.iter().map(|own| Value::Int(*own))),
            AttributeValue::Strings(own) => {
                Stored::list(own.iter().map(|own| Value::String(Held::Borrowed(own))))
            }
            AttributeValue::Versions(own) => {
                let parsed = own.iter().map(|text| version(text).map(Arc::new));
                let parsed: Vec<_> = parsed.collect::<Result<_, _>>()?;
                Stored::list(parsed.into_iter().map(|own| Value::Version(Held::Shared(own))))
            }
            AttributeValue::Unsupported => {
                return Err(EvalError::new(format!(
                    "attribute {name}: unsupported attribute value"
                )));
            }
        };
        if self.kept.includes(Scope::Attributes, name, self.driver) {
            insert(&mut self.attributes, self.driver, name, value);
        }
        Ok(())
    }

    /// Adds a capacity; the last one of a name counts.
    pub fn add_capacity(&mut self, name: &'a str, value: &Quantity) {
        if self.kept.includes(Scope::Capacity, name, self.driver) {
            let amount = Amount { nanos: value.nanos(), whole: value.as_int64().is_some() };
            insert(&mut self.capacity, self.driver, name, amount);
        }
    }

    /// Returns a field of the variable `device`.
    pub(crate) fn field(&'a self, name: &str) -> Option<Value<'a>> {
        Some(match name {
            "driver" => Value::String(Held::Borrowed(self.driver)),
            "allowMultipleAllocations" => Value::Bool(self.allow_multiple_allocations),
            "attributes" => Value::Domains(self, Scope::Attributes),
            "capacity" => Value::Domains(self, Scope::Capacity),
            _ => return None,
        })
    }

    /// Returns the domains in ascending order.
    pub(crate) fn domains(&'a self, scope: Scope) -> impl Iterator<Item = &'a str> {
        let (attributes, capacity) = match scope {
            Scope::Attributes => (self.attributes.as_slice(), [].as_slice()),
            Scope::Capacity => ([].as_slice(), self.capacity.as_slice()),
        };
        let first = attributes.chunk_by(|left, right| left.domain == right.domain);
        let second = capacity.chunk_by(|left, right| left.domain == right.domain);
        first.map(|chunk| chunk[0].domain).chain(second.map(|chunk| chunk[0].domain))
    }

    /// Returns the identifiers of a domain in ascending order, with their values.
    pub(crate) fn ids(
        &'a self,
        scope: Scope,
        domain: &str,
    ) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let (attributes, capacity) = match scope {
            Scope::Attributes => (of_domain(&self.attributes, domain), [].as_slice()),
            Scope::Capacity => ([].as_slice(), of_domain(&self.capacity, domain)),
        };
        let attributes = attributes.iter().map(|entry| (entry.id, entry.value.get()));
        attributes.chain(capacity.iter().map(|entry| (entry.id, Value::Quantity(entry.value))))
    }

    /// Returns one attribute or capacity.
    pub(crate) fn value(&'a self, scope: Scope, domain: &str, id: &str) -> Option<Value<'a>> {
        match scope {
            Scope::Attributes => find(&self.attributes, domain, id).map(Stored::get),
            Scope::Capacity => find(&self.capacity, domain, id).map(|it| Value::Quantity(*it)),
        }
    }
}

impl<'a> Stored<'a> {
    fn list(values: impl Iterator<Item = Value<'a>>) -> Self {
        Self::List(Arc::new(values.collect()))
    }

    fn get(&'a self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::String(value) => Value::String(Held::Borrowed(value)),
            Self::Version(value) => Value::Version(Held::Borrowed(value)),
            Self::List(values) => Value::List(Arc::clone(values)),
        }
    }
}

fn insert<'a, T>(entries: &mut Vec<Entry<'a, T>>, driver: &'a str, name: &'a str, value: T) {
    let (domain, id) = name.split_once('/').unwrap_or((driver, name));
    match entries.binary_search_by(|entry| (entry.domain, entry.id).cmp(&(domain, id))) {
        Ok(index) => entries[index].value = value,
        Err(index) => entries.insert(index, Entry { domain, id, value }),
    }
}

fn find<'s, T>(entries: &'s [Entry<'_, T>], domain: &str, id: &str) -> Option<&'s T> {
    let index =
        entries.binary_search_by(|entry| (entry.domain, entry.id).cmp(&(domain, id))).ok()?;
    Some(&entries[index].value)
}

fn of_domain<'s, 'a, T>(entries: &'s [Entry<'a, T>], domain: &str) -> &'s [Entry<'a, T>] {
    let start = entries.partition_point(|entry| entry.domain < domain);
    let length = entries[start..].partition_point(|entry| entry.domain == domain);
    &entries[start..start + length]
}

impl fmt::Debug for DeviceView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceView")
            .field("driver", &self.driver)
            .field("attributes", &self.attributes)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}
