//! Flags about logs.

use crate::logs::Format;

use super::go;

/// How logs look, and how much they tell.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logs")]
pub(crate) struct LogFlags {
    /// Format of the logs: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub logging_format: Format,

    /// How much is told: 2 adds decisions, 4 every change, 6 the libraries
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0",
        value_parser = go::verbosity, allow_negative_numbers = true)]
    pub verbosity: u8,
}
