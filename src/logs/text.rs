//! The text format of klog:
//! `I1120 20:53:55.810991   19029 file.rs:42] "Message" err="why" key="value"`.

use jiff::Timestamp;
use serde_json::Value;
use tracing::Level;

use super::record::Record;

/// Writes a line without its line feed; values of several lines continue on further lines.
pub(super) fn line(record: &Record, time: Timestamp, process: u32) -> String {
    let severity = match record.level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    let time = time.strftime("%m%d %H:%M:%S%.6f");
    let (path, line) = record.caller;
    let file = path.rsplit('/').next().unwrap_or(path);
    let message = &record.message;
    let mut text = format!("{severity}{time} {process:7} {file}:{line}] ");
    text.push_str(&if record.is_line { message.clone() } else { format!("{message:?}") });
    if let Some(error) = &record.error {
        push(&mut text, "err", error);
    }
    for (key, value) in &record.fields {
        match value {
            Value::String(value) => push(&mut text, key, value),
            value => text.push_str(&format!(" {key}={value}")),
        }
    }
    text
}

fn push(text: &mut String, key: &str, value: &str) {
    if value.contains('\n') {
        let lines = value.trim_end_matches('\n').replace('\n', "\n\t");
        text.push_str(&format!(" {key}=<\n\t{lines}\n >"));
    } else {
        text.push_str(&format!(" {key}={value:?}"));
    }
}
