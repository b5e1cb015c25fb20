//! Scheduling without a cluster: the engine in a world of its own, under virtual time.
//!
//! - [`World`]: an engine, the clock, and an API server reduced to what the engine sees of it.
//! - [`cluster`]: what would become of the pending pods of a dump.
//! - [`explain`]: why a pod can or cannot run where.
//! - [`replay`] and [`inflation`]: a trace, as it was or drawn to a chosen size.

pub mod cluster;
pub mod explain;
pub mod inflation;
pub mod replay;
mod usage;
mod world;

use std::collections::BTreeSet;

use engine::EngineConfig;
use engine::profile::{PluginRef, ProfileError, Profiles, SchedulerProfile};
use plugins::catalogue::{self, Entry};
use serde::Serialize;

use crate::report::allocation::Sample;

pub use usage::{NodeUsage, Usage};
pub use world::{Fate, State, World};

/// What a simulation can be told beside its input.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// Seed of every random choice: equal input and seed give equal output.
    pub seed: u64,
    /// How many percent of the nodes are looked at; 0 means all.
    pub percentage_of_nodes_to_score: i32,
    /// Lets 0 mean what it means to kube-scheduler: a share that shrinks with the cluster.
    pub adaptive_sampling: bool,
}

impl Settings {
    /// The default profile under each of the names, in an engine with these settings.
    fn engine(self, scheduler_names: &BTreeSet<&str>) -> Result<EngineConfig, ProfileError> {
        let profile = |name: &&str| SchedulerProfile {
            scheduler_name: (*name).to_owned(),
            ..SchedulerProfile::default()
        };
        let profiles: Vec<SchedulerProfile> = scheduler_names.iter().map(profile).collect();
        let default = |entry: &Entry| PluginRef::new(entry.name, entry.default_weight);
        let defaults: Vec<PluginRef> = catalogue::defaults().map(default).collect();
        let profiles = Profiles::build(&profiles, &defaults, &plugins::registry(), false)?;
        Ok(EngineConfig {
            seed: self.seed,
            percentage_of_nodes_to_score: self.percentage_of_nodes_to_score,
            adaptive_sampling: self.adaptive_sampling,
            ..EngineConfig::new(profiles)
        })
    }
}

/// How the pods of a trace fared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Pods that arrived.
    pub arrived: usize,
    /// Placed at the first attempt.
    pub at_once: usize,
    /// Placed later.
    pub after_waiting: usize,
    /// Not placed until the end.
    pub never: usize,
}

impl Tally {
    /// Counts a pod that was placed.
    fn place(&mut self, fate: &Fate) {
        match fate.attempts {
            0 | 1 => self.at_once += 1,
            _ => self.after_waiting += 1,
        }
        self.never = self.arrived - self.at_once - self.after_waiting;
    }

    /// Counts a pod that arrived.
    fn arrive(&mut self) {
        self.arrived += 1;
        self.never += 1;
    }
}

/// One run of a trace.
#[derive(Debug, Clone)]
pub struct Course {
    /// Its seed.
    pub seed: u64,
    /// How the pods fared.
    pub tally: Tally,
    /// The state of the cluster after each arrival.
    pub samples: Vec<Sample>,
}

/// Hears how far a run has come.
pub trait Progress: Sync {
    /// So many arrivals are to come.
    fn expect(&self, arrivals: usize);
    /// One of them is dealt with.
    fn arrived(&self);
}

/// Nobody listens.
impl Progress for () {
    fn expect(&self, _arrivals: usize) {}
    fn arrived(&self) {}
}
