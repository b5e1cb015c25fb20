//! Strict decoding of plugin arguments, and how their faults are told: in the words of
//! kube-scheduler.

use framework::{PluginArgs, label_key_faults};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Decodes arguments and refuses fields that `T`, or anything inside it, does not know.
///
/// # Errors
/// What does not fit, in words.
pub(crate) fn decode_strictly<T>(args: &PluginArgs) -> Result<T, String>
where
    T: DeserializeOwned + Serialize + Default,
{
    let decoded: T = args.decode()?;
    let known = serde_json::to_value(&decoded).map_err(|error| error.to_string())?;
    match unknown_field(&args.decode()?, &known, "") {
        Some(path) => Err(format!("unknown field \"{path}\"")),
        None => Ok(decoded),
    }
}

/// The path of the first field in `given` that decoding did not take over.
fn unknown_field(given: &Value, known: &Value, path: &str) -> Option<String> {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => given.iter().find_map(|(name, value)| {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{name}");
            match known.get(name) {
                Some(known) => unknown_field(value, known, &path),
                None => Some(path),
            }
        }),
        (Value::Array(given), Value::Array(known)) => {
            let pairs = given.iter().zip(known).enumerate();
            pairs.into_iter().find_map(|(index, (given, known))| {
                unknown_field(given, known, &format!("{path}[{index}]"))
            })
        }
        _ => None,
    }
}

/// Decodes an absent value and `null` alike.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// What is wrong with fields of the arguments, each fault once.
#[derive(Default)]
pub(crate) struct Faults(Vec<String>);

impl Faults {
    /// A fault, in full.
    pub(crate) fn add(&mut self, fault: String) {
        if !self.0.contains(&fault) {
            self.0.push(fault);
        }
    }

    /// A field cannot have this value, which is as it is printed.
    pub(crate) fn invalid(&mut self, path: &str, value: impl std::fmt::Display, detail: &str) {
        self.add(format!("{path}: Invalid value: {value}: {detail}"));
    }

    /// A field must be a label key.
    pub(crate) fn check_label_name(&mut self, path: &str, name: &str) {
        for fault in label_key_faults(name) {
            self.invalid(path, quoted(name), &fault);
        }
    }

    /// `checked` if there are no faults.
    ///
    /// # Errors
    /// All of them in one text.
    pub(crate) fn none_or<T>(self, checked: T) -> Result<T, String> {
        match &self.0[..] {
            [] => Ok(checked),
            [fault] => Err(fault.clone()),
            faults => Err(format!("[{}]", faults.join(", "))),
        }
    }
}

/// Text as Kubernetes prints it in a fault.
pub(crate) fn quoted(text: &str) -> String {
    format!("{text:?}")
}
