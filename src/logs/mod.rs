//! Logs on standard error, in the two formats of Kubernetes components.
//!
//! | `tracing` | `-v` from | text | JSON |
//! |---|---|---|---|
//! | error | 0 | `E` | `err`, no `v` |
//! | warn | 0 | `W` | `"v":0` |
//! | info | 0 | `I` | `"v":0` |
//! | debug | 2 | `I` | `"v":2` |
//! | trace | 4 | `I` | `"v":4` |
//!
//! Times are UTC. `--vmodule` raises the verbosity of single files. With split streams all lines
//! but errors go to standard output.

mod json;
mod levels;
mod record;
mod streams;
mod text;
mod vmodule;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::panic::PanicHookInfo;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use tracing::{Event, Subscriber, error};
use tracing_subscriber::Registry;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

pub use levels::{Levels, Verbosity};
pub use streams::Streams;
pub use vmodule::{Vmodule, VmoduleError};

use record::Record;

/// Target of events whose message is a whole line: the text format prints it without quotes, as
/// klog prints formatted messages.
pub const LINE: &str = "loadmaster::line";

/// Format of the log (`--logging-format`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Text in the format of klog.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl FromStr for Format {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, &'static str> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("Unsupported log format"),
        }
    }
}

/// The settings of the log.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Format of the lines.
    pub format: Format,
    /// Events that are logged.
    pub levels: Levels,
    /// Where the lines go.
    pub streams: Streams,
    /// Time after which lines that are kept back are written.
    pub flush_frequency: Duration,
}

/// Starts logging for all threads.
///
/// # Errors
/// Another subscriber is installed already.
pub fn init(options: &Options) -> Result<Verbosity, TryInitError> {
    let (layer, verbosity) = layer(options.format, options.levels.clone(), options.streams.clone());
    tracing_subscriber::registry().with(layer).try_init()?;
    Ok(verbosity)
}

/// Logs the panics of all threads from now on, with a backtrace if `RUST_BACKTRACE` asks for it.
pub fn log_panics() {
    std::panic::set_hook(Box::new(log_panic));
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let panic = info.payload_as_str().unwrap_or("no message");
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => {
            let stacktrace = backtrace.to_string();
            error!(panic, location, stacktrace, "Observed a panic");
        }
        _ => error!(panic, location, "Observed a panic"),
    }
}

/// A layer that writes sufficiently verbose events in this format.
pub(crate) fn layer<W>(
    format: Format,
    levels: impl Into<Levels>,
    writer: W,
) -> (impl Layer<Registry> + Send + Sync, Verbosity)
where
    W: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, verbosity) = levels.into().filter();
    let lines = tracing_subscriber::fmt::layer().event_format(Lines(format)).with_writer(writer);
    (lines.with_filter(filter), verbosity)
}

/// Writes events in a format, each with its time.
struct Lines(Format);

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (record, now) = (Record::of(event), Timestamp::now());
        let line = match self.0 {
            Format::Text => text::line(&record, now, std::process::id()),
            Format::Json => json::line(&record, now),
        };
        writeln!(writer, "{line}")
    }
}

#[cfg(test)]
pub(crate) mod tests;
