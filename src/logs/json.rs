//! One JSON object per line:
//! `{"ts":1700000000000.123,"caller":"dir/file.rs:42","msg":"Message","v":0,"key":"value"}`.

use jiff::Timestamp;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};
use tracing::Level;

use super::record::Record;

/// The field that names a pod. A node is written by its name alone, as in the lines of
/// kube-scheduler that name one.
const POD: &str = "pod";

/// Writes a line without its line feed.
pub(super) fn line(record: &Record, time: Timestamp) -> String {
    let mut line = Vec::new();
    // Writing to a vector cannot fail, and all keys are strings.
    let _ = write(record, time, &mut line);
    String::from_utf8_lossy(&line).into_owned()
}

fn write(record: &Record, time: Timestamp, line: &mut Vec<u8>) -> serde_json::Result<()> {
    let mut serializer = serde_json::Serializer::new(line);
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("ts", &(time.as_microsecond() as f64 / 1_000.0))?;
    let (file, number) = record.caller;
    map.serialize_entry("caller", &format!("{file}:{number}"))?;
    map.serialize_entry("msg", &record.message)?;
    if let Some(verbosity) = verbosity(record.level) {
        map.serialize_entry("v", &verbosity)?;
    }
    if let Some(error) = &record.error {
        map.serialize_entry("err", error)?;
    }
    for (key, value) in &record.fields {
        map.serialize_entry(key, &object(key, value).unwrap_or_else(|| value.clone()))?;
    }
    map.end()
}

/// Returns the verbosity of an event; errors have none.
fn verbosity(level: Level) -> Option<u8> {
    match level {
        Level::ERROR => None,
        Level::WARN | Level::INFO => Some(0),
        Level::DEBUG => Some(2),
        Level::TRACE => Some(4),
    }
}

/// Returns the parts of the name of a pod, if the field is one.
fn object(key: &str, value: &Value) -> Option<Value> {
    let (namespace, name) = value.as_str().filter(|_| key == POD)?.split_once('/')?;
    Some(json!({"name": name, "namespace": namespace}))
}
