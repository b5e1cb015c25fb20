//! The values of the flags as kube-scheduler prints them.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt::Display;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

use super::Flags;
use super::gates::GateSetting;
use super::label_limits::LabelLimits;
use crate::config::Duration;
use crate::http::NamedCertificate;

/// The value of every flag, in the notation of Go.
///
/// It parses no argument of its own. Clap hands out each value once, so it must be the first field
/// of [`Flags`].
#[derive(Debug, Clone, Default)]
pub(super) struct Values(BTreeMap<String, Value>);

#[derive(Debug, Clone)]
struct Value {
    text: String,
    /// Whether the flag is on the command line.
    given: bool,
}

impl Values {
    /// Whether the flag is on the command line.
    pub(super) fn is_given(&self, flag: &str) -> bool {
        self.0.get(flag).is_some_and(|value| value.given)
    }

    /// Replaces a setting by the value of a flag that is on the command line.
    pub(super) fn set<T>(&self, flag: &str, setting: &mut T, value: T) {
        if self.is_given(flag) {
            *setting = value;
        }
    }

    /// Returns the flags and their values, sorted by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(flag, value)| (flag.as_str(), value.text.as_str()))
    }
}

impl Args for Values {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Values {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let command = Flags::augment_args(Command::new("loadmaster"));
        let flags = command.get_arguments().filter_map(|arg| {
            let source = matches.value_source(arg.get_id().as_str());
            let given = source == Some(ValueSource::CommandLine);
            Some((arg.get_long()?.to_owned(), Value { text: text(arg, matches), given }))
        });
        Ok(Self(flags.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the value of a flag in the notation of Go: `5m0s` for `300s`, `[a,b]` for a list.
fn text(arg: &Arg, matches: &ArgMatches) -> String {
    let id = arg.get_id().as_str();
    let is_of = |kind| arg.get_value_parser().type_id() == kind;
    if is_of(TypeId::of::<LabelLimits>()) {
        return format!("[{}]", typed::<LabelLimits>(id, matches).unwrap_or_default());
    }
    let typed = typed::<bool>(id, matches)
        .or_else(|| typed::<Duration>(id, matches))
        .or_else(|| typed::<f32>(id, matches))
        .or_else(|| typed::<GateSetting>(id, matches));
    if let Some(text) = typed {
        return text;
    }
    let raw = matches.get_raw(id).into_iter().flatten();
    let raw: Vec<_> = raw.map(|value| value.to_string_lossy()).collect();
    match arg.get_value_delimiter() {
        // Gates are a map in Go, not a list.
        Some(_) if !is_of(TypeId::of::<GateSetting>()) => format!("[{}]", raw.join(",")),
        None if is_of(TypeId::of::<NamedCertificate>()) => format!("[{}]", raw.join(";")),
        _ => raw.join(","),
    }
}

/// Returns the values of a flag if they are of type `T`.
fn typed<T: Any + Clone + Display + Send + Sync>(id: &str, matches: &ArgMatches) -> Option<String> {
    let values = matches.try_get_many::<T>(id).ok()??;
    Some(values.map(T::to_string).collect::<Vec<_>>().join(","))
}
