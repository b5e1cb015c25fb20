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
use crate::wire::{self, Faults, Input, PodObject, Wanted, WatchedObject};

/// A configuration in effect and the plugins that it can enable.
pub(super) struct Setup {
    config: Configuration,
    registry: Arc<Registry>,
}

impl Setup {
    /// Reads a configuration; without a file it is the default one.
    ///
    /// # Errors
    /// The file cannot be read, or no scheduler can be built from it.
    pub(super) fn read(
        args: &Args,
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
    pub(super) fn wanted(&self) -> Result<Wanted, BuildError> {
        Ok(Wanted::of(&self.config.build_profiles(&self.registry)?))
    }

    /// Returns the settings of a simulation under this configuration, without its extenders.
    ///
    /// # Errors
    /// A profile lacks NodeResourcesFit, which an extender needs.
    pub(super) fn settings(&self, args: &Args) -> Result<simulator::Settings, BuildError> {
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
        let owned = input.pods.iter().filter_map(|PodObject { pod, owner, .. }| {
            let owner = owner.as_ref()?;
            Some(OwnedPod { pod, kind: &owner.kind, name: &owner.name })
        });
        let owned: Vec<_> = owned.collect();
        made = workloads::make(&input.workloads, &input.nodes, &owned);
        std::mem::take(&mut made.objects)
    })?;
    let mut dump = Dump { workloads: made.workloads, ..input.into() };
    dump.warnings.append(&mut made.warnings);
    Ok(dump)
}

impl From<Input> for Dump {
    fn from(input: Input) -> Self {
        Self {
            nodes: input.nodes,
            pods: input.pods.into_iter().map(DumpedPod::from).collect(),
            ended: input.ended,
            objects: input.objects.into_iter().map(DumpedObject::from).collect(),
            claim_templates: input.claim_templates,
            workloads: Vec::new(),
            other_kinds: input.others,
            warnings: input.warnings,
        }
    }
}

impl From<PodObject> for DumpedPod {
    fn from(PodObject { pod, raw, created, .. }: PodObject) -> Self {
        Self { pod, raw, created }
    }
}

impl From<WatchedObject> for DumpedObject {
    fn from(WatchedObject { kind, namespace, name, object: raw }: WatchedObject) -> Self {
        Self { kind, namespace, name, raw }
    }
}
