//! Errors of the command line of the daemon, in the words of kube-scheduler.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// An invalid command line of the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UsageError {
    /// The error, in the words of kube-scheduler.
    pub(super) text: String,
    /// Whether the error is about a flag; kube-scheduler then prints the usage first.
    pub(super) is_flag: bool,
    /// A similar flag or command.
    pub(super) similar: Option<String>,
}

impl UsageError {
    /// Translates an error of the parser. `command` is the path of the command.
    pub(super) fn of(error: &Error, command: &str) -> Self {
        let argument = context(error, ContextKind::InvalidArg)
            .or_else(|| context(error, ContextKind::InvalidSubcommand))
            .unwrap_or_default();
        let value = context(error, ContextKind::InvalidValue).unwrap_or_default();
        let similar = context(error, ContextKind::SuggestedArg)
            .or_else(|| context(error, ContextKind::SuggestedSubcommand));
        let (text, is_flag) = match error.kind() {
            ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => {
                unknown(&argument, command)
            }
            ErrorKind::InvalidValue if value.is_empty() => {
                (format!("flag needs an argument: {}", flag(&argument)), true)
            }
            ErrorKind::ValueValidation => {
                let reason = error.source().map(ToString::to_string).unwrap_or_default();
                let flag = match flag(&argument) {
                    "-v" | "--v" => "-v, --v",
                    flag => flag,
                };
                (format!("invalid argument {value:?} for {flag:?} flag: {reason}"), true)
            }
            _ => {
                let text = error.render().to_string();
                let line = text.lines().next().unwrap_or_default();
                (line.strip_prefix("error: ").unwrap_or(line).to_owned(), true)
            }
        };
        Self { text, is_flag, similar }
    }

    /// Formats the error with the usage of the command.
    pub(super) fn with_usage(&self, command: &mut Command) -> String {
        let mut text = String::new();
        if self.is_flag {
            text.push_str(&format!("{}\n", command.render_usage()));
            text.push_str("For more information, try '--help'.\n");
        }
        if let Some(similar) = &self.similar {
            text.push_str(&format!("Did you mean {similar}?\n"));
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("Error: {}\n", self.text));
        text
    }
}

/// Returns the error of an argument that is not a flag of the daemon, and whether it looks like
/// one.
fn unknown(argument: &str, command: &str) -> (String, bool) {
    if argument.starts_with("--") {
        return (format!("unknown flag: {}", flag(argument)), true);
    }
    match argument.strip_prefix('-').and_then(|letters| letters.chars().next()) {
        Some(letter) => (format!("unknown shorthand flag: {letter:?} in {argument}"), true),
        None => (format!("{command:?} does not take any arguments, got [{argument:?}]"), false),
    }
}

/// Returns the flag without the description of its value.
fn flag(argument: &str) -> &str {
    argument.split([' ', '=', '[']).next().unwrap_or(argument)
}

fn context(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        // Similar commands are sorted by likeness, the likest last.
        ContextValue::Strings(texts) => texts.last().cloned(),
        _ => None,
    }
}
