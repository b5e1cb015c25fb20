//! Flags that parse and have no effect.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::go;

/// The form of a flag, with its default.
#[derive(Clone, Copy)]
enum Form {
    /// May stand alone, for true.
    Switch(&'static str),
    Value(&'static str),
    /// Values between commas.
    List(&'static str),
}

use Form::{List, Switch, Value};

const AUTHENTICATION: &str = "authentication of callers is not built yet";
const AUTHORIZATION: &str = "authorization of callers is not built yet";
const METRICS: &str = "selecting metrics is not built yet";
const SERVING: &str = "this setting of the HTTPS endpoints is not built yet";

/// The flags, with the reason for having no effect.
const FLAGS: [(&str, Form, &str); 26] = [
    ("allow-metric-labels", List(""), METRICS),
    ("allow-metric-labels-manifest", Value(""), METRICS),
    ("authentication-kubeconfig", Value(""), AUTHENTICATION),
    ("authentication-skip-lookup", Switch("false"), AUTHENTICATION),
    ("authentication-token-webhook-cache-ttl", Value("10s"), AUTHENTICATION),
    ("authentication-tolerate-lookup-failure", Switch("true"), AUTHENTICATION),
    ("authorization-kubeconfig", Value(""), AUTHORIZATION),
    ("authorization-webhook-cache-authorized-ttl", Value("10s"), AUTHORIZATION),
    ("authorization-webhook-cache-unauthorized-ttl", Value("10s"), AUTHORIZATION),
    ("cert-dir", Value(""), SERVING),
    ("client-ca-file", Value(""), AUTHENTICATION),
    ("disable-http2-serving", Switch("false"), SERVING),
    ("disabled-metrics", List(""), METRICS),
    ("http2-max-streams-per-connection", Value("0"), SERVING),
    ("permit-address-sharing", Switch("false"), SERVING),
    ("permit-port-sharing", Switch("false"), SERVING),
    ("requestheader-allowed-names", List(""), AUTHENTICATION),
    ("requestheader-client-ca-file", Value(""), AUTHENTICATION),
    ("requestheader-extra-headers-prefix", List("x-remote-extra-"), AUTHENTICATION),
    ("requestheader-group-headers", List("x-remote-group"), AUTHENTICATION),
    ("requestheader-uid-headers", List(""), AUTHENTICATION),
    ("requestheader-username-headers", List("x-remote-user"), AUTHENTICATION),
    ("show-hidden-metrics-for-version", Value(""), METRICS),
    ("tls-cipher-suites", List(""), SERVING),
    ("tls-curve-preferences", List(""), SERVING),
    ("tls-sni-cert-key", List(""), SERVING),
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
                // It must not consume the next argument.
                Switch(default) => arg
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_value(default)
                    .default_missing_value("true")
                    .value_parser(go::boolean),
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
