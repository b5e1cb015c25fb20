//! Selectors of the simulation: `attribute=value`; `attribute!value`, which fails for devices without the attribute;
//! `attribute?value`, which also fails for devices with a greater value; and `*=value`, which matches devices with any
//! attribute of this value, and names none.

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

/// Returns whether the device matches; an error if it lacks an attribute that it must have.
pub(crate) fn evaluate(text: &str, device: &DeviceDescription) -> Result<bool, String> {
    let (name, value) = text.split_once(['=', '!', '?']).unwrap_or((text, ""));
    if name == "*" {
        let mut attributes = device.attributes.iter();
        let is_value = |own: &Attribute| matches!(own, Attribute::String(own) if **own == *value);
        return Ok(attributes.any(|(_, own)| is_value(own)));
    }
    match device.attribute(name) {
        Some(Attribute::String(own)) if text.contains('?') && **own > *value => {
            Err(format!("too large: {own}"))
        }
        Some(Attribute::String(own)) => Ok(**own == *value),
        Some(_) => Ok(false),
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
        let (name, _) = self.0.split_once(['=', '!', '?']).unwrap_or((&self.0, ""));
        if name == "*" {
            return one == other;
        }
        one.attribute(name) == other.attribute(name)
    }

    fn names_attributes(&self) -> bool {
        !self.0.starts_with('*')
    }
}
