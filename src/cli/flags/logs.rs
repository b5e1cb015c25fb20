//! Flags of the log.

use crate::logs::Format;

use super::go;

/// Format and verbosity of the log.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logs")]
pub(crate) struct LogFlags {
    /// Format of the logs: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub logging_format: Format,

    /// Verbosity: 2 logs decisions, 4 every change, 6 the libraries
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0",
        value_parser = go::verbosity, allow_negative_numbers = true)]
    pub verbosity: u8,
}
