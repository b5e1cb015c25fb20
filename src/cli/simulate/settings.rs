//! From the command line and a configuration to what the simulator takes.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use dry_run::cluster::Dump;
use dry_run::workloads::{self, Made};
use framework::Registry;

use super::Args;
use crate::cli::complain;
use crate::cli::config::read as read_config;
use crate::config::{self, BuildError, Configuration, Gates};
use crate::what_if::{dump_of, make, settings};
use crate::wire::{self, Faults, Wanted};

/// Options of the engine.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct EngineArgs {
    /// Seed of random choices: equal input and seed give equal output
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(in crate::cli) seed: u64,

    /// Feature gates, as `Name=true,Other=false`; can be repeated
    #[arg(long, value_name = "GATES")]
    feature_gates: Vec<String>,

    /// Considers this percentage of the nodes; overrides the configuration; 0 means all
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(i32).range(0..=100))]
    percentage_of_nodes_to_score: Option<i32>,

    /// Samples nodes like kube-scheduler does by default
    #[arg(long)]
    adaptive_sampling: bool,
}

impl EngineArgs {
    /// Whether only the seed may differ from the defaults.
    pub(in crate::cli) fn are_default(&self) -> bool {
        self.feature_gates.is_empty()
            && self.percentage_of_nodes_to_score.is_none()
            && !self.adaptive_sampling
    }

    /// Returns the feature gates.
    ///
    /// # Errors
    /// A gate is unknown or not built.
    pub(in crate::cli) fn gates(&self) -> anyhow::Result<Gates> {
        let gates = Gates::parse(self.feature_gates.iter().map(String::as_str))?;
        gates.notices().for_each(|notice| complain("warning", &notice.to_string()));
        gates.check_built()?;
        Ok(gates)
    }
}

/// A configuration in effect and the plugins that it can enable.
pub(in crate::cli) struct Setup {
    config: Configuration,
    registry: Arc<Registry>,
}

impl Setup {
    /// Reads a configuration; without a file it is the default one.
    ///
    /// # Errors
    /// The file cannot be read, or no scheduler can be built from it.
    pub(in crate::cli) fn read(
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
        if !config.extenders.is_empty() {
            complain("warning", "a simulation does not call extenders");
        }
        let setup = Self { config, registry };
        if let Some(file) = file {
            setup.wanted().with_context(|| file.display().to_string())?;
        }
        Ok(setup)
    }

    /// Returns the same plugins under another configuration.
    pub(in crate::cli) fn with(&self, config: Configuration) -> Self {
        Self { config, registry: self.registry.clone() }
    }

    /// Returns the kinds and fields that the configured plugins read beside nodes and pods.
    ///
    /// # Errors
    /// A profile cannot be built.
    pub(in crate::cli) fn wanted(&self) -> Result<Wanted, BuildError> {
        Ok(Wanted::of(&self.config.build_profiles(&self.registry)?))
    }

    /// Returns the settings of a simulation under this configuration, without its extenders.
    ///
    /// # Errors
    /// A profile lacks NodeResourcesFit, which an extender needs.
    pub(in crate::cli) fn settings(
        &self,
        args: &EngineArgs,
    ) -> Result<dry_run::Settings, BuildError> {
        let mut config = self.config.clone();
        if let Some(percentage) = args.percentage_of_nodes_to_score {
            config.percentage_of_nodes_to_score = percentage;
        }
        settings(config, &self.registry, args.seed, args.adaptive_sampling)
    }
}

/// Reads the input with the pods that controllers make from its workloads.
///
/// # Errors
/// The input cannot be used.
pub(super) fn read(args: &Args, wanted: &Wanted) -> Result<Dump, Faults> {
    let mut made = Made::default();
    let input = wire::read(&args.filename, wanted, args.validate.into(), |input| {
        made = make(input, workloads::MOST_PODS);
        std::mem::take(&mut made.objects)
    })?;
    Ok(dump_of(input, made))
}
