//! Flags that parse and have no effect.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// Whether a flag may stand alone or needs a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Switch,
    Value,
}

use Kind::{Switch, Value};

const AUTHENTICATION: &str = "authentication of callers is not built yet";
const AUTHORIZATION: &str = "authorization of callers is not built yet";
const METRICS: &str = "selecting metrics is not built yet";
const SERVING: &str = "this setting of the HTTPS endpoints is not built yet";
const STREAMS: &str = "logs go line by line to standard error";
const VERSION: &str = "only the behaviour of Kubernetes 1.36 is built";

/// The flags, with the reason for having no effect.
const FLAGS: [(&str, Kind, &str); 34] = [
    ("allow-metric-labels", Value, METRICS),
    ("allow-metric-labels-manifest", Value, METRICS),
    ("authentication-kubeconfig", Value, AUTHENTICATION),
    ("authentication-skip-lookup", Switch, AUTHENTICATION),
    ("authentication-token-webhook-cache-ttl", Value, AUTHENTICATION),
    ("authentication-tolerate-lookup-failure", Switch, AUTHENTICATION),
    ("authorization-kubeconfig", Value, AUTHORIZATION),
    ("authorization-webhook-cache-authorized-ttl", Value, AUTHORIZATION),
    ("authorization-webhook-cache-unauthorized-ttl", Value, AUTHORIZATION),
    ("cert-dir", Value, SERVING),
    ("client-ca-file", Value, AUTHENTICATION),
    ("disable-http2-serving", Switch, SERVING),
    ("disabled-metrics", Value, METRICS),
    ("emulated-version", Value, VERSION),
    ("http2-max-streams-per-connection", Value, SERVING),
    ("log-flush-frequency", Value, STREAMS),
    ("log-json-info-buffer-size", Value, STREAMS),
    ("log-json-split-stream", Switch, STREAMS),
    ("log-text-info-buffer-size", Value, STREAMS),
    ("log-text-split-stream", Switch, STREAMS),
    ("min-compatibility-version", Value, VERSION),
    ("permit-address-sharing", Switch, SERVING),
    ("permit-port-sharing", Switch, SERVING),
    ("requestheader-allowed-names", Value, AUTHENTICATION),
    ("requestheader-client-ca-file", Value, AUTHENTICATION),
    ("requestheader-extra-headers-prefix", Value, AUTHENTICATION),
    ("requestheader-group-headers", Value, AUTHENTICATION),
    ("requestheader-uid-headers", Value, AUTHENTICATION),
    ("requestheader-username-headers", Value, AUTHENTICATION),
    ("show-hidden-metrics-for-version", Value, METRICS),
    ("tls-cipher-suites", Value, SERVING),
    ("tls-curve-preferences", Value, SERVING),
    ("tls-sni-cert-key", Value, SERVING),
    ("vmodule", Value, "a verbosity for single files is not built yet"),
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
        command.next_help_heading("Without effect").args(FLAGS.map(|(flag, kind, why)| {
            // Only a switch may lack a value, and it must not consume the next argument.
            let arg = Arg::new(flag).long(flag).value_name("VALUE").help(why);
            let arg = arg.action(ArgAction::Append).hide_short_help(true);
            if kind == Switch { arg.num_args(0..=1).require_equals(true) } else { arg }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for NotBuilt {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = FLAGS.into_iter().filter(|(flag, ..)| matches.contains_id(flag));
        Ok(Self { given: given.map(|(flag, _, why)| (flag, why)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
