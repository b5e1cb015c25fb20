//! `DynamicResourcesArgs`: decoding and defaults.

use std::time::Duration;

use framework::PluginArgs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::decode_strictly;

/// `DynamicResourcesArgs`. The configuration fills in the defaults. A field is absent if its gates
/// are off.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Args {
    /// Longest time to allocate devices on one node, in the notation of Go; 0 for no limit.
    filter_timeout: Option<String>,
    /// Longest wait for the binding conditions of devices, in the notation of Go.
    binding_timeout: Option<String>,
}

/// No fields.
impl Default for Args {
    fn default() -> Self {
        Self { filter_timeout: None, binding_timeout: None }
    }
}

impl Args {
    /// Decodes arguments. Without any arguments the gates have their defaults.
    ///
    /// # Errors
    /// Returns the unknown field or the invalid duration.
    pub(super) fn decode(args: &PluginArgs) -> Result<Self, String> {
        if args.decode::<Option<Value>>()?.is_none() {
            let [filter_timeout, binding_timeout] =
                ["10s", "10m"].map(|text| Some(text.to_owned()));
            return Ok(Self { filter_timeout, binding_timeout });
        }
        let args: Self = decode_strictly(args)?;
        args.limits().map(|_| args)
    }

    /// Returns the limits of the filter and of the wait for binding conditions.
    ///
    /// # Errors
    /// Returns the invalid duration.
    pub(super) fn limits(&self) -> Result<[Option<Duration>; 2], String> {
        let read = |field: &str, text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => match parse_duration(text) {
                Some(duration) => Ok(Some(duration)),
                None => Err(format!("{field}: Invalid value: {text:?}: not a duration")),
            },
        };
        let filter = read("filterTimeout", &self.filter_timeout)?.filter(|limit| !limit.is_zero());
        Ok([filter, read("bindingTimeout", &self.binding_timeout)?])
    }
}

/// Parses a duration that is not negative, in the notation of Go: numbers with units.
fn parse_duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut total, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let end = rest.find(|c| !is_number(c))?;
        let (number, behind) = rest.split_at(end);
        let end = behind.find(is_number).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total += number.parse::<f64>().ok()? * seconds;
        rest = behind;
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(total).ok() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn limits(args: Value) -> Result<[Option<Duration>; 2], String> {
        Args::decode(&PluginArgs::new(args))?.limits()
    }

    #[test]
    fn limits_are_those_of_the_arguments() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let defaults = Args::decode(&PluginArgs::default()).unwrap().limits().unwrap();
        assert_eq!(defaults, [seconds(10), seconds(600)]);
        for (args, expected) in [
            (json!({}), [None, None]),
            (json!({"filterTimeout": "0s", "bindingTimeout": "1h0m1s"}), [None, seconds(3601)]),
            (json!({"filterTimeout": "1.5s"}), [Some(Duration::from_millis(1500)), None]),
            (json!({"filterTimeout": "250ms"}), [Some(Duration::from_millis(250)), None]),
        ] {
            assert_eq!(limits(args.clone()).unwrap(), expected, "{args}");
        }
    }

    #[test]
    fn invalid_arguments_name_the_field() {
        for (args, expected) in [
            (json!({"timeout": "1s"}), "unknown field \"timeout\""),
            (
                json!({"bindingTimeout": "soon"}),
                "bindingTimeout: Invalid value: \"soon\": not a duration",
            ),
            (json!({"filterTimeout": "1"}), "filterTimeout: Invalid value: \"1\": not a duration"),
        ] {
            assert_eq!(limits(args.clone()).unwrap_err(), expected, "{args}");
        }
    }
}
