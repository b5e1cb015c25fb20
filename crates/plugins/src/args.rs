//! Strict decoding of plugin arguments.

use framework::PluginArgs;
use serde::Serialize;
use serde::de::DeserializeOwned;
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
