//! Flags that parse and have no effect.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// The form of a flag, with its default.
#[derive(Clone, Copy)]
enum Form {
    Value(&'static str),
    /// Values between commas.
    List(&'static str),
}

use Form::{List, Value};

const METRICS: &str = "selecting metrics is not built yet";

/// The flags, with the reason for having no effect.
const FLAGS: [(&str, Form, &str); 4] = [
    ("allow-metric-labels", List(""), METRICS),
    ("allow-metric-labels-manifest", Value(""), METRICS),
    ("disabled-metrics", List(""), METRICS),
    ("show-hidden-metrics-for-version", Value(""), METRICS),
];

/// The given flags without effect.
#[derive(Debug, Clone)]
pub(super) struct NotBuilt {
    given: Vec<(&'static str, &'static str)>,
}

impl NotBuilt {
    /// Returns one line per flag.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.given.iter().map(|(flag, why)| format!("--{flag} has no effect: {why}"))
    }
}

impl Args for NotBuilt {
    fn augment_args(command: Command) -> Command {
        command.next_help_heading("Without effect").args(FLAGS.map(|(flag, form, why)| {
            let arg = Arg::new(flag).long(flag).value_name("VALUE").help(why);
            let arg = arg.action(ArgAction::Append).hide_short_help(true);
            match form {
                List("") => arg.value_delimiter(','),
                List(default) => arg.value_delimiter(',').default_value(default),
                Value("") => arg,
                Value(default) => arg.default_value(default),
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for NotBuilt {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = FLAGS
            .into_iter()
            .filter(|(flag, ..)| matches.value_source(flag) == Some(ValueSource::CommandLine));
        Ok(Self { given: given.map(|(flag, _, why)| (flag, why)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
