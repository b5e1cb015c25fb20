//! From decoded objects and a configuration to what a dry run takes.

use std::sync::Arc;

use dry_run::cluster::Dump;
use dry_run::what_if::Inventory;
use dry_run::workloads::{self, Made, OwnedPod, Unread, Workloads};
use dry_run::{DumpedObject, DumpedPod, Limit, PluginMonitor, Settings};
use framework::Registry;

use crate::config::{BuildError, Configuration};
use crate::plugin_watchdog::PluginWatchdog;
use crate::wire::{
    self, Faults, Input, Origin, Owner, PodObject, Validation, Wanted, WatchedObject,
};

/// Returns the settings of a dry run under a configuration, without its extenders.
///
/// # Errors
/// A profile lacks NodeResourcesFit, which an extender needs.
pub(crate) fn settings(
    config: Configuration,
    registry: &Registry,
    seed: u64,
    adaptive_sampling: bool,
) -> Result<Settings, BuildError> {
    let config = config.with_ignored_resources()?;
    Ok(Settings {
        seed,
        percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
        adaptive_sampling,
        queue: config.queue(),
        profiles: config.scheduler_profiles(),
        registry: Arc::new(registry.clone().with_gates(config.plugin_gates)),
        monitor: || Box::new(PluginWatchdog::default()),
        extenders: None,
        limit: Limit::default(),
    })
}

impl PluginMonitor for PluginWatchdog {
    fn warnings(&self) -> Vec<String> {
        self.faults().map(|(plugin, faults)| format!("plugin {plugin} {faults}")).collect()
    }
}

/// Returns what controllers make from the workloads of the input, up to a number of objects.
/// Workloads from the index `first_changed` on belong to a change.
pub(crate) fn make(input: &Input, first_changed: usize, most: usize) -> Made {
    let owned = input.pods.iter().filter_map(|PodObject { pod, owner, .. }| {
        let owner = owner.as_ref()?;
        Some(OwnedPod { pod, kind: &owner.kind, name: &owner.name })
    });
    let owned: Vec<_> = owned.collect();
    let workloads = Workloads { objects: &input.workloads, first_changed };
    workloads::make(workloads, &input.nodes, &owned, most)
}

/// Returns the dump with the objects that controllers made, which are among the objects of the
/// input.
pub(crate) fn dump_of(input: Input, mut made: Made) -> Dump {
    let mut dump: Dump = input.into();
    dump.workloads = made.workloads;
    dump.unread.append(&mut made.unread);
    dump.warnings.append(&mut made.warnings);
    dump
}

/// Reads a dump with the pods that controllers make from its workloads.
///
/// # Errors
/// The input cannot be used.
pub(crate) fn read_dump(
    origins: &[Origin],
    wanted: &Wanted,
    validation: Validation,
) -> Result<Dump, Faults> {
    let mut made = Made::default();
    let input = wire::read(origins, wanted, validation, |input| {
        made = make(input, input.workloads.len(), workloads::MOST_PODS);
        std::mem::take(&mut made.objects)
    })?;
    Ok(dump_of(input, made))
}

impl From<Input> for Dump {
    fn from(input: Input) -> Self {
        let unread = unread(&input);
        Self {
            nodes: input.nodes,
            read_nodes: input.read_nodes,
            pods: input.pods.into_iter().map(DumpedPod::from).collect(),
            ended: input.ended,
            leaving: Vec::new(),
            upgrade: Vec::new(),
            objects: input.objects.into_iter().map(DumpedObject::from).collect(),
            claim_templates: input.claim_templates,
            workloads: Vec::new(),
            unread,
            other_kinds: input.others,
            warnings: input.warnings,
        }
    }
}

/// Returns the files and pods that are left out.
fn unread(input: &Input) -> Vec<Unread> {
    let files = input.unreadable.iter().map(|own| Unread::file(own.source(), own.message()));
    let pods = input.refused.iter().map(|(key, reason)| Unread::pod(key, reason));
    files.chain(pods).collect()
}

impl From<PodObject> for DumpedPod {
    fn from(PodObject { pod, raw, created, owner }: PodObject) -> Self {
        let owner = owner.map(|Owner { kind, name }| dry_run::Owner { kind, name });
        Self { pod, raw, created, owner }
    }
}

impl From<DumpedPod> for PodObject {
    fn from(DumpedPod { pod, raw, created, owner }: DumpedPod) -> Self {
        let owner = owner.map(|dry_run::Owner { kind, name }| Owner { kind, name });
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

/// Takes what a change concerns from the input.
pub(super) fn inventory_of(input: &mut Input, first_changed: usize) -> Inventory {
    Inventory {
        nodes: std::mem::take(&mut input.nodes),
        read_nodes: std::mem::take(&mut input.read_nodes),
        pods: std::mem::take(&mut input.pods).into_iter().map(Into::into).collect(),
        objects: std::mem::take(&mut input.objects).into_iter().map(Into::into).collect(),
        workloads: std::mem::take(&mut input.workloads),
        first_changed,
    }
}

/// Puts what a change concerned into the input.
pub(super) fn give_back(inventory: Inventory, input: &mut Input) {
    input.nodes = inventory.nodes;
    input.read_nodes = inventory.read_nodes;
    input.pods = inventory.pods.into_iter().map(Into::into).collect();
    input.objects = inventory.objects.into_iter().map(Into::into).collect();
    input.workloads = inventory.workloads;
}
