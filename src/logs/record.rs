//! An event as data.

use std::fmt;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// Field with the text of the event.
const MESSAGE: &str = "message";

/// Field with the error that an event is about.
const ERROR: &str = "err";

/// The data of an event.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) level: Level,
    /// Folder, file and line of the source.
    pub(super) caller: (&'static str, u32),
    pub(super) message: String,
    /// Whether the message is a whole line.
    pub(super) is_line: bool,
    /// The error of a warning or an error, which is written before all fields.
    pub(super) error: Option<String>,
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl Record {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let mut record = Self {
            level: *metadata.level(),
            caller: (short(metadata.file().unwrap_or("unknown")), metadata.line().unwrap_or(0)),
            message: String::new(),
            is_line: metadata.target() == super::LINE,
            error: None,
            fields: Vec::new(),
        };
        event.record(&mut record);
        record
    }

    fn text(&mut self, field: &Field, text: String) {
        match field.name() {
            MESSAGE => self.message = text,
            ERROR if self.level <= Level::WARN => self.error = Some(text),
            name => self.fields.push((name, text.into())),
        }
    }
}

/// Returns the last folder and the file of a path.
fn short(path: &'static str) -> &'static str {
    let start = path.rmatch_indices('/').nth(1).map_or(0, |(slash, _)| slash + 1);
    &path[start..]
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.push((field.name(), value.into()));
    }
}
