//! Strict decoding of plugin arguments. Errors have the texts of kube-scheduler.

use framework::{PluginArgs, label_key_faults};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Decodes arguments and rejects fields that `T`, or a type inside it, does not know.
///
/// # Errors
/// Returns the text of the decoding error or the path of the unknown field.
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

/// Returns the path of the first field of `given` that is missing in `known`.
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

/// Decodes an absent value and `null` as the default.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// The errors of the arguments, without duplicates.
#[derive(Default)]
pub(crate) struct Faults(Vec<String>);

impl Faults {
    /// Adds an error with its full text.
    pub(crate) fn add(&mut self, fault: String) {
        if !self.0.contains(&fault) {
            self.0.push(fault);
        }
    }

    /// Adds the error that a field has an invalid value. `value` is printed as it is.
    pub(crate) fn invalid(&mut self, path: &str, value: impl std::fmt::Display, detail: &str) {
        self.add(format!("{path}: Invalid value: {value}: {detail}"));
    }

    /// Adds an error if the field is not a valid label key.
    pub(crate) fn check_label_name(&mut self, path: &str, name: &str) {
        for fault in label_key_faults(name) {
            self.invalid(path, quoted(name), &fault);
        }
    }

    /// Returns `checked` if there are no errors.
    ///
    /// # Errors
    /// Returns all errors in one text.
    pub(crate) fn none_or<T>(self, checked: T) -> Result<T, String> {
        match &self.0[..] {
            [] => Ok(checked),
            [fault] => Err(fault.clone()),
            faults => Err(format!("[{}]", faults.join(", "))),
        }
    }
}

/// Quotes text as Kubernetes does in validation errors.
pub(crate) fn quoted(text: &str) -> String {
    format!("{text:?}")
}
