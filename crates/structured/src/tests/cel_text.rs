//! The few expressions of the recorded decisions.

use std::sync::Arc;

use framework::Quantity;
use framework::device::{Attribute, DeviceDescription};

use crate::{Compiled, Compiler, Expression};

const DRIVER: &str = "gpu.example.com";

#[derive(Debug)]
struct Text(String);

pub(super) struct Texts;

impl Compiler for Texts {
    fn compile(&mut self, expression: &str) -> Compiled {
        match expression.ends_with('[') {
            true => Err("compilation failed".into()),
            false => Ok(Arc::new(Text(expression.to_owned()))),
        }
    }
}

impl Expression for Text {
    fn matches(&self, device: &DeviceDescription, _: &mut u64) -> Result<bool, Box<str>> {
        for part in self.0.split(" && ") {
            if !part_matches(part, device)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn reads_alike(&self, one: &DeviceDescription, other: &DeviceDescription) -> bool {
        one == other
    }
}

fn part_matches(part: &str, device: &DeviceDescription) -> Result<bool, Box<str>> {
    if part == "device.driver == 'gpu.example.com'" {
        return Ok(*device.driver == *DRIVER);
    }
    if let Some(rest) = part.strip_prefix("!('") {
        let (name, _) = rest.split_once('\'').unwrap();
        return Ok(device.attribute(&format!("{DRIVER}/{name}")).is_none());
    }
    if let Some(rest) = part.strip_prefix("device.capacity['gpu.example.com'].memory.compareTo(") {
        let least = rest.split('\'').nth(1).unwrap().parse::<Quantity>().unwrap();
        let Some(own) = device.capacity("memory") else { return Err("no such key: memory".into()) };
        return Ok(own.value.nanos() >= least.nanos());
    }
    let rest = part.strip_prefix("device.attributes['gpu.example.com'].");
    let rest = rest.unwrap_or_else(|| panic!("{part}"));
    let (name, rest) = rest.split_once([' ', '.']).unwrap();
    let value = device.attribute(&format!("{DRIVER}/{name}"));
    let Some(value) = value else { return Err(format!("no such key: {name}").into()) };
    Ok(match (value, rest.split_once(' ').unwrap()) {
        (Attribute::String(own), ("==", text)) => format!("'{own}'") == text,
        (Attribute::Int(own), ("==", text)) => own.to_string() == text,
        (Attribute::Int(own), ("<", text)) => *own < text.parse().unwrap(),
        (Attribute::Version(own), (_, "> 0")) => !own.starts_with("0.") && **own != *"1.0.0",
        other => panic!("{part}: {other:?}"),
    })
}
