//! The common part of the commands of dry runs, `simulate` and `whatif`: options, settings and
//! output.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueEnum;
use dry_run::ExtenderSettings;
use framework::{Level, Registry};
use serde::Serialize;

use super::config::read as read_config;
use super::flags::VersionFlags;
use super::{complain, print};
use crate::config::{self, BuildError, Configuration, Gates};
use crate::extender::of_dry_runs;
use crate::what_if::settings;
use crate::wire::{Validation, Wanted, Whole};

/// Number of warnings printed; `-o json` has all of them.
const WARNINGS_SHOWN: usize = 20;

/// Options of the engine.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct EngineArgs {
    /// Seed of random choices: equal input and seed give equal output
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,

    #[command(flatten)]
    versions: VersionFlags,

    /// The level of the API server that the objects come from, if it is known.
    #[arg(skip)]
    server: Option<Level>,

    /// Feature gates, as `Name=true,Other=false`; can be repeated
    #[arg(long, value_name = "GATES")]
    feature_gates: Vec<String>,

    /// Considers this percentage of the nodes; overrides the configuration; 0 means all
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(i32).range(0..=100))]
    percentage_of_nodes_to_score: Option<i32>,

    /// Samples nodes like kube-scheduler does by default
    #[arg(long)]
    adaptive_sampling: bool,

    /// Schedules each pod that belongs to a PodGroup by itself, instead of gating it
    #[arg(long)]
    schedule_group_members_alone: bool,

    /// Calls the extenders of the configuration: their filter, prioritize and preempt verbs
    #[arg(long)]
    pub(super) call_extenders: bool,
}

impl EngineArgs {
    /// Whether only the seed may differ from the defaults.
    pub(super) fn are_default(&self) -> bool {
        self.feature_gates.is_empty()
            && self.versions.are_default()
            && self.percentage_of_nodes_to_score.is_none()
            && !self.adaptive_sampling
            && !self.schedule_group_members_alone
            && !self.call_extenders
    }

    /// Returns the arguments for objects from an API server of this level.
    pub(super) fn for_server(&self, level: Option<Level>) -> Self {
        Self { server: level, ..self.clone() }
    }

    /// Returns the feature gates. The PodGroups of the input are enforced unless a flag says
    /// otherwise, as those that an API server serves.
    ///
    /// # Errors
    /// A gate is unknown or not built.
    pub(super) fn gates(&self) -> anyhow::Result<Gates> {
        let level = self.versions.level()?.or(self.server).unwrap_or_default();
        let gates = self.versions.gates(level)?;
        let gates = gates.with_flags(self.feature_gates.iter().map(String::as_str))?;
        gates.notices().for_each(|notice| complain("warning", &notice.to_string()));
        gates.check_built()?;
        let gates = gates.with_group_members_alone(self.schedule_group_members_alone);
        Ok(if gates.leave_groups_open() { gates.with_groups() } else { gates })
    }
}

/// A configuration in effect and the plugins that it can enable.
pub(super) struct Setup {
    config: Configuration,
    registry: Arc<Registry>,
    /// The extenders that are called, and the objects that are sent to them.
    extenders: Option<(ExtenderSettings, Whole)>,
}

impl Setup {
    /// Reads a configuration; without a file it is the default one.
    ///
    /// # Errors
    /// The file cannot be read, or no scheduler can be built from it.
    pub(super) fn read(
        args: &EngineArgs,
        file: Option<&Path>,
        registry: Arc<Registry>,
    ) -> anyhow::Result<Self> {
        let gates = args.gates()?;
        let config = match file {
            None => config::defaults(&gates),
            Some(file) => {
                let loaded = config::load(&read_config(file)?, &gates);
                loaded.with_context(|| file.display().to_string())?.config
            }
        };
        let name = file.map_or_else(|| "the defaults".into(), Path::to_string_lossy);
        Self::of(args, config, registry).with_context(|| name.into_owned())
    }

    fn of(
        args: &EngineArgs,
        config: Configuration,
        registry: Arc<Registry>,
    ) -> anyhow::Result<Self> {
        let is_calling = args.call_extenders && !config.extenders.is_empty();
        let extenders = is_calling.then(|| of_dry_runs(&config)).transpose()?;
        let setup = Self { config, registry, extenders };
        setup.wanted()?;
        Ok(setup)
    }

    /// Returns the same plugins under another configuration.
    ///
    /// # Errors
    /// No scheduler can be built from it.
    pub(super) fn with(&self, args: &EngineArgs, config: Configuration) -> anyhow::Result<Self> {
        Self::of(args, config, self.registry.clone())
    }

    /// Returns a note on the extenders that are not called, or whose binds are not.
    pub(super) fn note(&self) -> Option<String> {
        if self.extenders.is_none() {
            let not_asked = self.config.extenders_not_asked()?;
            return Some(format!("{not_asked} (--call-extenders asks them)"));
        }
        let binders = self.config.extenders_that_bind();
        (!binders.is_empty()).then(|| {
            format!("binds were not sent to extenders, and count as done: {}", binders.join(", "))
        })
    }

    /// Returns the kinds and fields that the configured plugins read beside nodes and pods.
    ///
    /// # Errors
    /// A profile cannot be built.
    pub(super) fn wanted(&self) -> Result<Wanted, BuildError> {
        let wanted = Wanted::of(&self.config.build_profiles(&self.registry)?);
        let whole = self.extenders.as_ref().map_or(Whole::NONE, |(_, whole)| *whole);
        Ok(wanted.with_whole(whole))
    }

    /// Returns the settings of a simulation under this configuration, with the extenders that are
    /// called.
    ///
    /// # Errors
    /// A profile lacks NodeResourcesFit, which an extender needs.
    pub(super) fn settings(&self, args: &EngineArgs) -> Result<dry_run::Settings, BuildError> {
        let mut config = self.config.clone();
        if let Some(percentage) = args.percentage_of_nodes_to_score {
            config.percentage_of_nodes_to_score = percentage;
        }
        let settings = settings(config, &self.registry, args.seed, args.adaptive_sampling)?;
        let extenders = self.extenders.as_ref().map(|(extenders, _)| extenders.clone());
        Ok(dry_run::Settings { extenders, ..settings })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// Text in columns
    Table,
    /// The table with further columns, all names, and an explanation of each pod left pending
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Validate {
    /// They are errors
    #[value(alias = "true")]
    Strict,
    /// They cause warnings
    Warn,
    /// Nothing is said
    #[value(alias = "false")]
    Ignore,
}

impl From<Validate> for Validation {
    fn from(validate: Validate) -> Self {
        match validate {
            Validate::Strict => Self::Strict,
            Validate::Warn => Self::Warn,
            Validate::Ignore => Self::Ignore,
        }
    }
}

pub(super) fn warn(warnings: &[String]) {
    for warning in warnings.iter().take(WARNINGS_SHOWN) {
        complain("warning", warning);
    }
    if let Some(more) = warnings.len().checked_sub(WARNINGS_SHOWN).filter(|more| *more > 0) {
        complain("warning", &format!("and {more} more; -o json has all of them"));
    }
}

/// Writes JSON to standard output, not by way of a text of the same size. A closed pipe is not an
/// error.
pub(super) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from);
    match written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.context("cannot write JSON to standard output"),
    }
}

pub(super) fn print_yaml(value: &impl Serialize) -> anyhow::Result<()> {
    match yaml::to_string(value) {
        Ok(text) => print(&text),
        Err(error) => bail!("cannot write YAML: {error}"),
    }
}

#[cfg(feature = "simulator")]
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
