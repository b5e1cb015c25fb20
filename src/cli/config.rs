//! `loadmaster config`: validates, completes and shows configuration files.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::{Subcommand, ValueEnum};
use framework::Registry;
use serde::Serialize;
use table::{Cell, Colour, Column, Table, Tone};

use super::print;
use crate::config::{self, ExpandedProfile, Expansion, Gates};

/// Path that stands for standard input.
const STDIN: &str = "-";

/// Validates, completes and shows configurations (KubeSchedulerConfiguration)
#[derive(Debug, clap::Args)]
pub(super) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,

    /// Feature gates, as `Name=true,Other=false`; may be repeated
    // The flags of the daemon have a gate argument of another type, and global arguments are shared.
    #[arg(id = "config_gates", long = "feature-gates", value_name = "GATES", global = true)]
    feature_gates: Vec<String>,
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
    },
    /// Prints the default configuration
    Defaults {
        /// Output
        #[arg(short, long, value_enum, default_value_t = Document::Yaml)]
        output: Document,
    },
    /// Shows the plugins of each extension point, with order, weights and arguments
    Show {
        /// File with the configuration, `-` for standard input
        file: PathBuf,
        /// Output
        #[arg(short, long, value_enum, default_value_t = Output::Table)]
        output: Output,
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
    pub(super) fn run(self, registry: &Registry) -> ExitCode {
        match self.act(registry) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                super::complain("error", &format!("{error:#}"));
                ExitCode::FAILURE
            }
        }
    }

    fn act(&self, registry: &Registry) -> anyhow::Result<()> {
        let gates = Gates::parse(self.feature_gates.iter().map(String::as_str))?;
        gates.notices().for_each(|notice| super::complain("warning", &notice.to_string()));
        gates.check_built()?;
        match &self.action {
            Action::Validate { file, write_config_to } => {
                validate(file, write_config_to.as_deref(), &gates, registry)
            }
            Action::Defaults { output } => print_defaults(*output, &gates),
            Action::Show { file, output } => show(file, *output, &gates, registry),
        }
    }
}

fn validate(
    file: &Path,
    write_config_to: Option<&Path>,
    gates: &Gates,
    registry: &Registry,
) -> anyhow::Result<()> {
    let text = read(file)?;
    let expansion = expand(&text, gates, registry)?;
    if let Some(target) = write_config_to {
        let document = config::write_config(&config::load(&text, gates)?.config)?;
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
    let profiles: Vec<&str> =
        expansion.profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
    print(&format!("{} is valid; profiles: {}\n", file.display(), profiles.join(", ")))
}

fn print_defaults(output: Document, gates: &Gates) -> anyhow::Result<()> {
    let defaults = config::defaults(gates);
    match output {
        Document::Yaml => print(&config::write_config(&defaults)?),
        Document::Json => print_json(&defaults.to_value()),
    }
}

fn show(file: &Path, output: Output, gates: &Gates, registry: &Registry) -> anyhow::Result<()> {
    let expansion = expand(&read(file)?, gates, registry)?;
    match output {
        Output::Table => print(&render(&expansion, Colour::of_stdout())),
        Output::Yaml => print(&config::to_yaml(&serde_json::to_value(&expansion)?)),
        Output::Json => print_json(&expansion),
    }
}

fn expand(text: &str, gates: &Gates, registry: &Registry) -> anyhow::Result<Expansion> {
    let config = config::load(text, gates)?.config.with_ignored_resources()?;
    let built = config.build_profiles(registry)?;
    Ok(Expansion::of(&config, &built))
}

pub(super) fn read(file: &Path) -> anyhow::Result<String> {
    let read = if file == Path::new(STDIN) {
        io::read_to_string(io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::NotFound => "no such file or directory".to_owned(),
            ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        anyhow!("open {}: {reason}", file.display())
    })
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
        arguments.row([config.name.clone(), without_type(&config.args).to_string()]);
    }
    let percentage = match profile.percentage_of_nodes_to_score {
        0 => "all nodes".to_owned(),
        percentage => format!("{percentage} % of the nodes"),
    };
    let (points, arguments) = (points.render(colour), arguments.render(colour));
    format!("Profile {} looks at {percentage}\n\n{points}\n{arguments}", profile.scheduler_name)
}

/// Returns arguments without kind and version.
fn without_type(args: &serde_json::Value) -> serde_json::Value {
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
        let expansion = expand(text, &Gates::default(), &plugins::registry()).unwrap();
        let table = render(&expansion, Colour::Off);
        assert!(table.starts_with("Profile mine looks at 30 % of the nodes\n"), "{table}");
        let line = |start: &str| table.lines().find(|line| line.starts_with(start)).unwrap();
        assert_eq!(
            line("score").split_whitespace().collect::<Vec<_>>(),
            ["score", "ImageLocality", "4"]
        );
        assert!(table.contains("DynamicResources (not built)"), "{table}");
        assert!(line("NodeResourcesFit").contains("{\"scoringStrategy\":"), "{table}");
    }

    #[test]
    fn invalid_feature_gates_are_rejected() {
        let act = |args: &[&str]| {
            let args = [&["config", "defaults"], args].concat();
            Cli::try_parse_from(args).map(|cli| cli.command.act(&plugins::registry())).unwrap()
        };
        let rows = [
            ("Bogus=true", "unrecognized feature gate: Bogus"),
            (
                "VolumeLimitScaling=true",
                "feature gate VolumeLimitScaling is on, but volume limits where a driver is missing \
                 is not built yet",
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
