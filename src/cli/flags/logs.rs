//! Flags of the log.

use framework::{Quantity, QuantityError};

use super::go;
use crate::config::{Duration, FieldErrors, Gates};
use crate::logs::{Format, Levels, Options, Streams, Vmodule};

/// The gate of split streams.
const SPLIT_GATE: &str = "LoggingAlphaOptions";

/// Format, verbosity and streams of the log.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logs")]
pub(crate) struct LogFlags {
    /// Format of the logs: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    logging_format: String,

    /// Verbosity: 2 logs decisions, 4 every change, 6 the libraries
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0",
        value_parser = go::verbosity, allow_negative_numbers = true)]
    verbosity: u8,

    /// Higher verbosities of single files, as `pattern=N,...`; the text format only
    #[arg(long, value_name = "PATTERNS", default_value = "", hide_default_value = true)]
    vmodule: Vmodule,

    /// Time after which buffered lines are written
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    log_flush_frequency: Duration,

    /// In text format: errors to standard error, other lines to standard output (alpha)
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    log_text_split_stream: bool,

    /// In text format with split streams: bytes of standard output to buffer (alpha)
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0")]
    log_text_info_buffer_size: usize,

    /// In JSON format: errors to standard error, other lines to standard output (alpha)
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    log_json_split_stream: bool,

    /// In JSON format with split streams: bytes of standard output to buffer (alpha)
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0")]
    log_json_info_buffer_size: usize,
}

/// Parses a size such as `512`, `2Ki` or `1M`. A negative size is 0.
fn size(text: &str) -> Result<usize, QuantityError> {
    Ok(text.parse::<Quantity>()?.value().try_into().unwrap_or(0))
}

impl LogFlags {
    /// Returns the settings of the log.
    ///
    /// # Errors
    /// The format is unknown, or a setting does not go with the format or with the gates.
    pub(crate) fn options(&self, gates: &Gates) -> Result<Options, FieldErrors> {
        let mut errors = FieldErrors::default();
        let format = self.logging_format.parse().unwrap_or_else(|error| {
            errors.invalid("format", &self.logging_format, error);
            Format::default()
        });
        if !self.vmodule.is_empty() && self.logging_format != "text" {
            errors.forbidden("vmodule", "Only supported for text log format");
        }
        let alpha = [
            ("text.splitStream", self.log_text_split_stream),
            ("text.infoBufferSize", self.log_text_info_buffer_size != 0),
            ("json.splitStream", self.log_json_split_stream),
            ("json.infoBufferSize", self.log_json_info_buffer_size != 0),
        ];
        for (option, set) in alpha {
            if set && !gates.is_on(SPLIT_GATE) {
                let reason = format!("Feature {SPLIT_GATE} is disabled");
                errors.forbidden(format!("options.{option}"), &reason);
            }
        }
        let options = Options {
            format,
            levels: Levels { verbosity: self.verbosity, vmodule: self.vmodule.clone() },
            streams: self.streams(format),
            flush_frequency: self.log_flush_frequency.to_std(),
        };
        if errors.is_empty() { Ok(options) } else { Err(errors) }
    }

    fn streams(&self, format: Format) -> Streams {
        let (split, size) = match format {
            Format::Text => (self.log_text_split_stream, self.log_text_info_buffer_size),
            Format::Json => (self.log_json_split_stream, self.log_json_info_buffer_size),
        };
        if split { Streams::split(size) } else { Streams::Single }
    }
}
