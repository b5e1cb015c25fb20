//! Selectors of the simulation: `attribute=value`; `attribute!value`, which fails for devices
//! without the attribute; `attribute?value`, which also fails for devices with a greater value; and
//! `*=value`, which matches devices with any attribute of this value, and names none. `#capacity`
//! stands for the amount of a capacity.

use std::sync::Arc;

use framework::device::{Attribute, DeviceDescription};

use crate::{Compiled, Compiler, Expression};

#[derive(Debug)]
struct Toy(String);

pub(crate) struct Toys;

impl Compiler for Toys {
    fn compile(&mut self, expression: &str) -> Compiled {
        Ok(Arc::new(Toy(expression.to_owned())))
    }
}

/// What selectors compare of a device.
#[derive(Debug, PartialEq)]
enum Known {
    Text(Arc<str>),
    /// A value of another kind.
    Other(Attribute),
    /// The amount of a capacity, in billionths.
    Amount(i128),
}

fn known(device: &DeviceDescription, name: &str) -> Option<Known> {
    if let Some(capacity) = name.strip_prefix('#') {
        return device.capacity(capacity).map(|own| Known::Amount(own.value.nanos()));
    }
    device.attribute(name).map(|own| match own {
        Attribute::String(text) => Known::Text(text.clone()),
        other => Known::Other(other.clone()),
    })
}

/// Returns the name of what a selector reads, and the value that it compares it with.
fn parts(text: &str) -> (&str, &str) {
    text.split_once(['=', '!', '?']).unwrap_or((text, ""))
}

/// Returns whether the device matches; an error if it lacks an attribute that it must have.
pub(crate) fn evaluate(text: &str, device: &DeviceDescription) -> Result<bool, String> {
    let (name, value) = parts(text);
    if name == "*" {
        let mut attributes = device.attributes.iter();
        let is_value = |own: &Attribute| matches!(own, Attribute::String(own) if **own == *value);
        return Ok(attributes.any(|(_, own)| is_value(own)));
    }
    let amount = || value.parse::<i128>().map_or(0, |value| value * 1_000_000_000);
    match known(device, name) {
        Some(Known::Text(own)) if text.contains('?') && *own > *value => {
            Err(format!("too large: {own}"))
        }
        Some(Known::Amount(own)) if text.contains('?') && own > amount() => {
            Err(format!("too large: {own}"))
        }
        Some(Known::Text(own)) => Ok(*own == *value),
        Some(Known::Amount(own)) => Ok(own == amount()),
        Some(Known::Other(_)) => Ok(false),
        None if text.contains(['!', '?']) => Err(format!("no such key: {name}")),
        None => Ok(false),
    }
}

impl Expression for Toy {
    fn matches(&self, device: &DeviceDescription, _: &mut u64) -> Result<bool, Box<str>> {
        evaluate(&self.0, device).map_err(Into::into)
    }

    fn cannot_fail(&self, device: &DeviceDescription) -> bool {
        !self.0.contains('?') && evaluate(&self.0, device).is_ok()
    }

    fn reads_alike(&self, one: &DeviceDescription, other: &DeviceDescription) -> bool {
        match parts(&self.0).0 {
            "*" => one == other,
            name => known(one, name) == known(other, name),
        }
    }

    fn names_attributes(&self) -> bool {
        !self.0.starts_with('*')
    }
}
