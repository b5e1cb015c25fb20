//! From the command line and a configuration to what the simulator takes.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use framework::Registry;
use simulator::cluster::Dump;
use simulator::workloads::{self, Made, OwnedPod};
use simulator::{DumpedObject, DumpedPod, PluginMonitor};

use super::Args;
use crate::cli::complain;
use crate::cli::config::read as read_config;
use crate::config::{self, BuildError, Configuration, Gates};
use crate::plugin_watchdog::PluginWatchdog;
use crate::wire::{self, Faults, Input, Owner, PodObject, Wanted, WatchedObject};

/// Options of the engine.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct EngineArgs {
    /// Seed of random choices: equal input and seed give equal output
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,

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
        let gates = Gates::parse(args.feature_gates.iter().map(String::as_str))?;
        gates.notices().for_each(|notice| complain("warning", &notice.to_string()));
        gates.check_built()?;
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
    ) -> Result<simulator::Settings, BuildError> {
        let config = self.config.clone().with_ignored_resources()?;
        let percentage = args.percentage_of_nodes_to_score;
        Ok(simulator::Settings {
            seed: args.seed,
            percentage_of_nodes_to_score: percentage.unwrap_or(config.percentage_of_nodes_to_score),
            adaptive_sampling: args.adaptive_sampling,
            queue: config.queue(),
            profiles: config.scheduler_profiles(),
            registry: Arc::new((*self.registry).clone().with_gates(config.plugin_gates)),
            monitor: || Box::new(PluginWatchdog::default()),
        })
    }
}

impl PluginMonitor for PluginWatchdog {
    fn warnings(&self) -> Vec<String> {
        self.faults().map(|(plugin, faults)| format!("plugin {plugin} {faults}")).collect()
    }
}

/// Reads the input with the pods that controllers make from its workloads.
///
/// # Errors
/// The input cannot be used.
pub(super) fn read(args: &Args, wanted: &Wanted) -> Result<Dump, Faults> {
    let mut made = Made::default();
    let input = wire::read(&args.filename, wanted, args.validate.into(), |input| {
        made = make(input);
        std::mem::take(&mut made.objects)
    })?;
    Ok(dump_of(input, made))
}

/// Returns what controllers make from the workloads of the input.
pub(in crate::cli) fn make(input: &Input) -> Made {
    let owned = input.pods.iter().filter_map(|PodObject { pod, owner, .. }| {
        let owner = owner.as_ref()?;
        Some(OwnedPod { pod, kind: &owner.kind, name: &owner.name })
    });
    let owned: Vec<_> = owned.collect();
    workloads::make(&input.workloads, &input.nodes, &owned)
}

/// Returns the dump with what controllers made, whose objects are among those of the input.
pub(in crate::cli) fn dump_of(input: Input, mut made: Made) -> Dump {
    let mut dump = Dump { workloads: made.workloads, ..input.into() };
    dump.warnings.append(&mut made.warnings);
    dump
}

impl From<Input> for Dump {
    fn from(input: Input) -> Self {
        Self {
            nodes: input.nodes,
            pods: input.pods.into_iter().map(DumpedPod::from).collect(),
            ended: input.ended,
            leaving: Vec::new(),
            objects: input.objects.into_iter().map(DumpedObject::from).collect(),
            claim_templates: input.claim_templates,
            workloads: Vec::new(),
            other_kinds: input.others,
            warnings: input.warnings,
        }
    }
}

impl From<PodObject> for DumpedPod {
    fn from(PodObject { pod, raw, created, owner }: PodObject) -> Self {
        let owner = owner.map(|Owner { kind, name }| simulator::Owner { kind, name });
        Self { pod, raw, created, owner }
    }
}

impl From<DumpedPod> for PodObject {
    fn from(DumpedPod { pod, raw, created, owner }: DumpedPod) -> Self {
        let owner = owner.map(|simulator::Owner { kind, name }| Owner { kind, name });
        Self { pod, raw, created, owner }
    }
}

impl From<WatchedObject> for DumpedObject {
    fn from(WatchedObject { kind, namespace, name, object: raw }: WatchedObject) -> Self {
        Self { kind, namespace, name, raw }
    }
}

impl From<DumpedObject> for WatchedObject {
    fn from(DumpedObject { kind, namespace, name, raw: object }: DumpedObject) -> Self {
        Self { kind, namespace, name, object }
    }
}
