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
//! Times are UTC.

mod json;
mod record;
mod text;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use jiff::Timestamp;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Registry, reload};

use record::Record;

/// Format of the log (`--logging-format`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Text in the format of klog.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// An unknown format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("format: Invalid value: {0:?}: Unsupported log format")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(UnknownFormat(name.to_owned())),
        }
    }
}

/// Verbose libraries: below [`LIBRARIES_FROM`] only their warnings are logged.
const LIBRARIES: [&str; 9] =
    ["axum", "axum_server", "h2", "hyper", "hyper_util", "kube", "kube_client", "rustls", "tower"];

/// The verbosity from which on these libraries log.
const LIBRARIES_FROM: u8 = 6;

/// The verbosity of the log (`-v`), which can be changed at run time.
#[derive(Debug, Clone)]
pub struct Verbosity {
    verbosity: Arc<AtomicU8>,
    filter: reload::Handle<Targets, Registry>,
}

impl Verbosity {
    /// Returns the verbosity in effect.
    pub fn get(&self) -> u8 {
        self.verbosity.load(Ordering::Relaxed)
    }

    /// Changes the verbosity. Has no effect once the log is gone.
    pub fn set(&self, verbosity: u8) {
        if self.filter.reload(filter(verbosity)).is_ok() {
            self.verbosity.store(verbosity, Ordering::Relaxed);
        }
    }
}

/// Starts logging for all threads.
///
/// # Errors
/// Another subscriber is installed already.
pub fn init(format: Format, verbosity: u8) -> Result<Verbosity, TryInitError> {
    let (layer, verbosity) = layer(format, verbosity, std::io::stderr);
    tracing_subscriber::registry().with(layer).try_init()?;
    Ok(verbosity)
}

/// A layer that writes sufficiently verbose events in this format.
pub(crate) fn layer<W>(
    format: Format,
    verbosity: u8,
    writer: W,
) -> (impl Layer<Registry> + Send + Sync, Verbosity)
where
    W: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter(verbosity));
    let lines = tracing_subscriber::fmt::layer().event_format(Lines(format)).with_writer(writer);
    let verbosity = Verbosity { verbosity: Arc::new(verbosity.into()), filter: handle };
    (lines.with_filter(filter), verbosity)
}

fn filter(verbosity: u8) -> Targets {
    let level = match verbosity {
        0 | 1 => LevelFilter::INFO,
        2 | 3 => LevelFilter::DEBUG,
        4.. => LevelFilter::TRACE,
    };
    let libraries = if verbosity < LIBRARIES_FROM { LevelFilter::WARN } else { level };
    Targets::new().with_default(level).with_targets(LIBRARIES.map(|name| (name, libraries)))
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
mod tests;
