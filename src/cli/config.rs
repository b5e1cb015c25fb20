//! `loadmaster config`: validates, completes and shows configuration files.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::supercluster::registry::PipelineRegistry;
use anyhow::{Context, anyhow};
use clap::{Subcommand, ValueEnum};
use dry_run::table::{Cell, Colour, Column, Table, Tone};
use engine::profile::Profiles;
use framework::{Feed, Registry};
use serde::Serialize;
use serde_json::Value;

use super::flags::{Flags, VersionFlags};
use super::{in_effect, print};
use crate::config::{self, Configuration, ExpandedProfile, Expansion, Gates};
use crate::supercluster;
use crate::wire::{self, WatchedKind};

/// Path that stands for standard input.
const STDIN: &str = "-";

/// Validates, completes and shows configurations (KubeSchedulerConfiguration)
///
/// `validate` also reads the files of `run --clusters` and `agent --agent-config`.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

/// Level and feature gates of a command without the flags of the daemon.
#[derive(Debug, clap::Args)]
struct GateArgs {
    #[command(flatten)]
    versions: VersionFlags,

    /// Feature gates, as `Name=true,Other=false`; may be repeated
    #[arg(long, value_name = "GATES")]
    feature_gates: Vec<String>,
}

impl GateArgs {
    fn gates(&self) -> anyhow::Result<Gates> {
        let gates = self.versions.gates(self.versions.level_or_default()?)?;
        checked(gates.with_flags(self.feature_gates.iter().map(String::as_str))?)
    }
}

/// Reports remarks about the gates and rejects those whose feature is not built.
fn checked(gates: Gates) -> anyhow::Result<Gates> {
    gates.notices().for_each(|notice| super::complain("warning", &notice.to_string()));
    gates.check_built()?;
    Ok(gates)
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Validates a configuration; errors have the texts of kube-scheduler
    Validate {
        /// File with the configuration, `-` for standard input
        file: PathBuf,
        /// Writes the configuration in effect, with defaults, to this file
        #[arg(long, value_name = "FILE")]
        write_config_to: Option<PathBuf>,
        #[command(flatten)]
        gates: GateArgs,
    },
    /// Prints the default configuration
    Defaults {
        /// Output
        #[arg(short, long, value_enum, default_value_t = Document::Yaml)]
        output: Document,
        #[command(flatten)]
        gates: GateArgs,
    },
    /// Shows what is in effect with a configuration and the flags of the daemon: the rate of
    /// requests, leader election, and the plugins of each extension point, with order, weights and
    /// arguments
    Show {
        /// File with the configuration, `-` for standard input; replaces `--config`
        file: Option<PathBuf>,
        /// Output; yaml and json have the whole configuration
        #[arg(short, long, value_enum, default_value_t = Output::Table)]
        output: Output,
        #[command(flatten)]
        flags: Box<Flags>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Document {
    /// YAML, as kube-scheduler writes it
    Yaml,
    /// JSON
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text in columns
    Table,
    /// YAML
    Yaml,
    /// JSON
    Json,
}

impl ConfigCommand {
    /// Runs the command with these plugins. Exits with 0, or with 1 and a line that begins with
    /// `error:`.
    pub(super) fn run(self, registry: &Registry, pipelines: &PipelineRegistry) -> ExitCode {
        match self.act(registry, pipelines) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                format!("{error:#}").lines().for_each(|line| super::complain("error", line));
                ExitCode::FAILURE
            }
        }
    }

    fn act(self, registry: &Registry, pipelines: &PipelineRegistry) -> anyhow::Result<()> {
        match self.action {
            Action::Validate { file, write_config_to, gates } => {
                let gates = gates.gates()?;
                validate(&file, write_config_to.as_deref(), &gates, registry, pipelines)
            }
            Action::Defaults { output, gates } => print_defaults(output, &gates.gates()?),
            Action::Show { file, output, mut flags } => {
                flags.config = file.or(flags.config.take());
                show(&flags, output, registry)
            }
        }
    }
}

fn validate(
    file: &Path,
    write_config_to: Option<&Path>,
    gates: &Gates,
    registry: &Registry,
    pipelines: &PipelineRegistry,
) -> anyhow::Result<()> {
    let text = read(file)?;
    if write_config_to.is_none()
        && let Some(valid) = supercluster::validate(&text, pipelines, gates)
    {
        let kind = valid.map_err(anyhow::Error::msg)?;
        return print(&format!("{} is valid: {kind}\n", file.display()));
    }
    let loaded = config::load(&text, gates).map_err(|error| in_effect::with_hint(error, &text))?;
    loaded.written.zero_weights().iter().for_each(|own| super::complain("warning", own));
    let config = loaded.in_effect();
    let built = config.build_profiles(registry)?;
    let expansion = Expansion::of(&config.clone().with_ignored_resources()?, &built);
    if let Some(target) = write_config_to {
        let document = config::write_config(&config)?;
        std::fs::write(target, document)
            .with_context(|| format!("cannot write {}", target.display()))?;
    }
    let not_built: BTreeSet<&String> =
        expansion.profiles.iter().flat_map(|profile| &profile.not_built).collect();
    if !not_built.is_empty() {
        let plugins: Vec<&str> = not_built.into_iter().map(String::as_str).collect();
        let plugins = plugins.join(", ");
        super::complain("warning", &format!("plugins in use that are not built yet: {plugins}"));
    }
    for warning in config.unused_plugin_config(&built, registry) {
        super::complain("warning", &warning);
    }
    let profiles: Vec<&str> =
        expansion.profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
    print(&format!("{} is valid; profiles: {}\n", file.display(), profiles.join(", ")))?;
    needs(&built).iter().try_for_each(|need| print(&format!("needs {need}\n")))
}

/// Returns what the plugins of these profiles need beside the API and the permissions of a
/// scheduler without them.
fn needs(profiles: &Profiles) -> Vec<String> {
    let version = |kind: &WatchedKind| kind.path.rsplit('/').nth(1).unwrap_or_default().to_owned();
    let watched = wire::watched_kinds(profiles);
    let watched = watched.iter().filter(|kind| kind.is_custom()).map(|kind| {
        let WatchedKind { name, .. } = kind;
        let version = version(kind);
        let without = if kind.describes_nodes { "; pods are scheduled without them" } else { "" };
        format!(
            "the CustomResourceDefinition {name} with version {version}, and to list and watch {name}{without}"
        )
    });
    let fed = wire::feeds(profiles);
    let fed = fed.iter().filter_map(|(kind, feed)| match feed {
        Feed::Poll { .. } => {
            let (name, version) = (&kind.name, version(kind));
            Some(format!(
                "an API server that serves {name} with version {version}, and to list {name}"
            ))
        }
        Feed::Http(feed) => Some(format!("HTTP requests to {}", feed.server.address)),
        _ => None,
    });
    watched.chain(fed).collect()
}

fn print_defaults(output: Document, gates: &Gates) -> anyhow::Result<()> {
    let defaults = config::defaults(gates);
    match output {
        Document::Yaml => print(&config::write_config(&defaults)?),
        Document::Json => print_json(&defaults.to_value()),
    }
}

/// The configuration in effect; secrets are hidden before it is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    configuration: Value,
    /// The limit of requests; null for none.
    request_rate: Option<RequestRate>,
    #[serde(flatten)]
    expansion: Expansion,
}

#[derive(Serialize)]
struct RequestRate {
    qps: f32,
    burst: u32,
}

fn show(flags: &Flags, output: Output, registry: &Registry) -> anyhow::Result<()> {
    let gates = checked(flags.gates(flags.level()?.unwrap_or_default())?)?;
    flags.warnings().iter().for_each(|warning| super::complain("warning", warning));
    let config = in_effect::configuration(flags, &gates, |_| {})?;
    let expansion = expand(&config, registry)?;
    let shown = |expansion| {
        let rate = config.request_rate().map(|(qps, burst)| RequestRate { qps, burst });
        let shown = Shown { configuration: config.to_value(), request_rate: rate, expansion };
        serde_json::to_value(shown).map(config::redacted)
    };
    match output {
        Output::Table => {
            let profiles = render(&expansion, Colour::of_stdout());
            print(&format!("{}\n{profiles}", summary(&config)))
        }
        Output::Yaml => print(&config::to_yaml(&shown(expansion)?)),
        Output::Json => print_json(&shown(expansion)?),
    }
}

/// Formats what is in effect for all profiles.
fn summary(config: &Configuration) -> String {
    let requests = match config.request_rate() {
        None => "no limit".to_owned(),
        Some((qps, burst)) => format!("at most {qps} per second, bursts of {burst}"),
    };
    let election = &config.leader_election;
    let election = match election.leader_elect {
        false => "off".to_owned(),
        true => format!(
            "Lease {}/{}, held for {}, renewed within {}, tried every {}",
            election.resource_namespace,
            election.resource_name,
            election.lease_duration,
            election.renew_deadline,
            election.retry_period,
        ),
    };
    format!("Requests to the API server: {requests}\nLeader election: {election}\n")
}

fn expand(config: &Configuration, registry: &Registry) -> anyhow::Result<Expansion> {
    let config = config.clone().with_ignored_resources()?;
    let built = config.build_profiles(registry)?;
    Ok(Expansion::of(&config, &built))
}

pub(super) fn read(file: &Path) -> anyhow::Result<String> {
    let read = if file == Path::new(STDIN) { read_stdin() } else { std::fs::read(file) };
    let bytes = read.map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::NotFound => "no such file or directory".to_owned(),
            ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        anyhow!("open {}: {reason}", file.display())
    })?;
    yaml::text_of(bytes).map_err(|error| anyhow!("open {}: {error}", file.display()))
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Formats a section per profile: plugins by extension point, and arguments.
fn render(expansion: &Expansion, colour: Colour) -> String {
    let sections: Vec<String> =
        expansion.profiles.iter().map(|profile| section(profile, colour)).collect();
    sections.join("\n")
}

fn section(profile: &ExpandedProfile, colour: Colour) -> String {
    let mut points =
        Table::new([Column::words("POINT"), Column::words("PLUGIN"), Column::numbers("WEIGHT")]);
    for point in &profile.extension_points {
        for (place, plugin) in point.plugins.iter().enumerate() {
            let name = if place == 0 { point.extension_point } else { "" };
            let weight = plugin.weight.map(|weight| weight.to_string()).unwrap_or_default();
            let plugin = match plugin.built {
                true => Cell::from(&plugin.name),
                false => Cell::toned(format!("{} (not built)", plugin.name), Tone::Odd),
            };
            points.row([Cell::from(name), plugin, Cell::from(weight)]);
        }
    }
    let mut arguments = Table::new([Column::words("PLUGIN"), Column::words("ARGUMENTS")]);
    for config in &profile.arguments {
        arguments
            .row([config.name.clone(), config::redacted(without_type(&config.args)).to_string()]);
    }
    let percentage = match profile.percentage_of_nodes_to_score {
        0 => "all nodes".to_owned(),
        percentage => format!("{percentage} % of the nodes"),
    };
    let (points, arguments) = (points.render(colour), arguments.render(colour));
    format!("Profile {} looks at {percentage}\n\n{points}\n{arguments}", profile.scheduler_name)
}

/// Returns arguments without kind and version.
fn without_type(args: &Value) -> Value {
    let mut args = args.clone();
    if let Some(fields) = args.as_object_mut() {
        fields.retain(|name, _| name != "apiVersion" && name != "kind");
    }
    args
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        command: ConfigCommand,
    }

    #[test]
    fn table_shows_points_weights_and_missing_plugins() {
        let text = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
  percentageOfNodesToScore: 30
  plugins:
    score:
      disabled: [{name: '*'}]
      enabled: [{name: ImageLocality, weight: 4}]
";
        let config = config::load(text, &Gates::default()).unwrap().in_effect();
        let expansion = expand(&config, &plugins::registry()).unwrap();
        let table = render(&expansion, Colour::Off);
        assert!(table.starts_with("Profile mine looks at 30 % of the nodes\n"), "{table}");
        let line = |start: &str| table.lines().find(|line| line.starts_with(start)).unwrap();
        assert_eq!(
            line("score").split_whitespace().collect::<Vec<_>>(),
            ["score", "ImageLocality", "4"]
        );
        let missing: Vec<_> = table.lines().filter(|line| line.contains("not built")).collect();
        assert_eq!(missing, [""; 0], "{table}");
        assert!(line("NodeResourcesFit").contains("{\"scoringStrategy\":"), "{table}");
    }

    #[test]
    fn invalid_feature_gates_are_rejected() {
        let act = |args: &[&str]| {
            let args = [&["config", "defaults"], args].concat();
            Cli::try_parse_from(args)
                .map(|cli| cli.command.act(&plugins::registry(), &PipelineRegistry::new()))
                .unwrap()
        };
        let rows = [
            ("Bogus=true", "unrecognized feature gate: Bogus"),
            (
                "DRAListTypeAttributes=true",
                "feature gate DRAListTypeAttributes is on, but support for lists as attributes of devices \
                 is not built yet",
            ),
            (
                "DRANodeAllocatableResources=true",
                "feature gate DRANodeAllocatableResources is on, but support for devices that take node \
                 resources is not built yet",
            ),
        ];
        for (gates, expected) in rows {
            let error = act(&["--feature-gates", gates]).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn missing_file_has_the_error_text_of_go() {
        let error = read(Path::new("/no/such/file")).unwrap_err();
        assert_eq!(error.to_string(), "open /no/such/file: no such file or directory");
    }
}
