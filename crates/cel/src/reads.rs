//! The parts of a device that a selector reads.

use crate::device::Scope;
use crate::plan::{Attribute, Plan, Root};
use crate::value::Value;

/// The parts of a device on which the result of a selector depends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reads {
    /// Possibly everything.
    Everything,
    /// These parts, sorted and each once. Devices that agree in all of them get equal results,
    /// errors included.
    Only(Vec<Read>),
}

/// A part of a device. A name without a domain belongs to the domain of the driver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// The name of the driver.
    Driver,
    /// Whether the device allows multiple allocations.
    AllowMultipleAllocations,
    /// An attribute, or that it is absent.
    Attribute {
        /// The part before the slash.
        domain: Box<str>,
        /// The part behind the slash.
        id: Box<str>,
    },
    /// All attributes of a domain.
    AttributeDomain(Box<str>),
    /// A capacity, or that it is absent.
    Capacity {
        /// The part before the slash.
        domain: Box<str>,
        /// The part behind the slash.
        id: Box<str>,
    },
    /// All capacities of a domain.
    CapacityDomain(Box<str>),
}

impl Reads {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut found = Vec::new();
        if !collect(plan, &mut found) {
            return Self::Everything;
        }
        found.sort();
        found.dedup();
        // A whole domain includes its parts.
        let domains: Vec<_> = found.iter().filter(|it| it.is_domain()).cloned().collect();
        found.retain(|read| read.is_domain() || !domains.iter().any(|it| it.includes(read)));
        Self::Only(found)
    }

    /// Returns whether the result may depend on an attribute or capacity of a device of the driver.
    pub(crate) fn includes(&self, scope: Scope, name: &str, driver: &str) -> bool {
        let Self::Only(reads) = self else { return true };
        reads.iter().any(|read| match (read, scope) {
            (Read::Attribute { domain, id }, Scope::Attributes)
            | (Read::Capacity { domain, id }, Scope::Capacity) => match name.strip_suffix(&**id) {
                Some("") => **domain == *driver,
                Some(rest) => rest.strip_suffix('/') == Some(domain),
                None => false,
            },
            (Read::AttributeDomain(domain), Scope::Attributes)
            | (Read::CapacityDomain(domain), Scope::Capacity) => {
                **domain == *name.split_once('/').map_or(driver, |(own, _)| own)
            }
            _ => false,
        })
    }
}

impl Read {
    fn is_domain(&self) -> bool {
        matches!(self, Self::AttributeDomain(_) | Self::CapacityDomain(_))
    }

    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::AttributeDomain(all), Self::Attribute { domain, .. })
            | (Self::CapacityDomain(all), Self::Capacity { domain, .. }) => all == domain,
            _ => false,
        }
    }
}

/// Adds what the plan reads. Returns false if that is not known.
fn collect(plan: &Plan, found: &mut Vec<Read>) -> bool {
    let mut all = |plans: &[&Plan]| plans.iter().all(|plan| collect(plan, found));
    match plan {
        Plan::Const(_) | Plan::Known { .. } => true,
        Plan::Attribute(attribute) => collect_attribute(attribute, None, found),
        Plan::External { .. } | Plan::Bound(_) | Plan::Prepared(_) => false,
        Plan::And(left, right) | Plan::Or(left, right) => all(&[left, right]),
        Plan::OptionalOr { target, other, .. } => all(&[target, other]),
        Plan::Conditional(parts) => parts.iter().all(|part| collect(part, found)),
        Plan::NotStrictlyFalse(arg) => all(&[arg]),
        Plan::InConstants { value, .. } => all(&[value]),
        Plan::Append { element, .. } => all(&[element]),
        Plan::OptMap { target, body, .. } => all(&[target, body]),
        Plan::List(elements) => elements.iter().all(|(element, _)| collect(element, found)),
        Plan::Map(entries) => {
            entries.iter().all(|(key, value, _)| collect(key, found) && collect(value, found))
        }
        Plan::Fold(fold) => {
            all(&[&fold.range, &fold.initial, &fold.condition, &fold.step, &fold.result])
        }
        Plan::Call(call) => match (call.function.name, &call.args[..]) {
            // Whether a map has a key depends on no other key.
            ("@in", [Plan::Const(Value::String(key)), Plan::Attribute(attribute)]) => {
                collect_attribute(attribute, Some(key), found)
            }
            (_, args) => args.iter().all(|arg| collect(arg, found)),
        },
    }
}

/// Adds what an attribute reads, with one more constant key behind it.
fn collect_attribute(attribute: &Attribute, last: Option<&str>, found: &mut Vec<Read>) -> bool {
    let keys = attribute.qualifiers.iter().map(|qualifier| &qualifier.key);
    match &attribute.root {
        Root::Device => {}
        Root::Fact { .. } => return false,
        Root::Variable(_) => return keys.clone().all(|key| collect(key, found)),
        Root::Value(plan) | Root::Conditional(plan) => {
            return collect(plan, found) && keys.clone().all(|key| collect(key, found));
        }
    }
    let constants = keys.clone().map(|key| match key {
        Plan::Const(Value::String(name)) => Some(&**name),
        _ => None,
    });
    let names: Vec<_> = constants.chain(last.map(Some)).collect();
    let scope = match names.first() {
        Some(Some("driver")) => {
            found.push(Read::Driver);
            return keys.skip(1).all(|key| collect(key, found));
        }
        Some(Some("allowMultipleAllocations")) => {
            found.push(Read::AllowMultipleAllocations);
            return keys.skip(1).all(|key| collect(key, found));
        }
        Some(Some("attributes")) => Scope::Attributes,
        Some(Some("capacity")) => Scope::Capacity,
        _ => return false,
    };
    let Some(Some(domain)) = names.get(1) else { return false };
    let domain = Box::from(*domain);
    // Whether a domain is known depends on all of it.
    let is_presence = names.len() == 2 && last.is_some();
    found.push(match (scope, names.get(2)) {
        (Scope::Attributes, Some(Some(id))) if !is_presence => {
            Read::Attribute { domain, id: (*id).into() }
        }
        (Scope::Capacity, Some(Some(id))) if !is_presence => {
            Read::Capacity { domain, id: (*id).into() }
        }
        (Scope::Attributes, _) => Read::AttributeDomain(domain),
        (Scope::Capacity, _) => Read::CapacityDomain(domain),
    });
    keys.skip(2).all(|key| collect(key, found))
}
