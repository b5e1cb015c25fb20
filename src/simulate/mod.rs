//! Scheduling without a cluster: the engine in a world of its own, under virtual time.
//!
//! - [`World`]: an engine, the clock, and an API server reduced to what the engine sees of it.
//! - [`cluster`]: what would become of the pending pods of a dump.
//! - [`explain`]: why a pod can or cannot run where.
//! - [`replay`] and [`inflation`]: a trace, as it was or drawn to a chosen size.
//! - [`gpu`]: a trace placed on single GPU devices.

pub mod cluster;
mod ephemeral;
pub mod explain;
pub mod gpu;
pub mod inflation;
pub mod replay;
mod usage;
mod volumes;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::EngineConfig;
use framework::Registry;
use serde::Serialize;

use crate::config::{self, BuildError, Configuration, Gates};
use crate::report::allocation::Sample;
use crate::wire::Wanted;

pub use usage::{NodeUsage, Usage};
pub use world::{Fate, State, World};

/// What a simulation can be told beside its input.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Seed of every random choice: equal input and seed give equal output.
    pub seed: u64,
    /// How many percent of the nodes are looked at, whatever the configuration says; 0 means all.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Lets 0 mean what it means to kube-scheduler: a share that shrinks with the cluster.
    pub adaptive_sampling: bool,
    /// Profiles, backoffs and everything else in effect. Extenders are not asked.
    pub config: Arc<Configuration>,
    /// The plugins there are.
    pub registry: Arc<Registry>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            percentage_of_nodes_to_score: None,
            adaptive_sampling: false,
            config: Arc::new(config::defaults(&Gates::default())),
            registry: Arc::new(plugins::registry()),
        }
    }
}

impl Settings {
    /// What of the input the configured plugins read beside nodes and pods.
    ///
    /// # Errors
    /// The profiles cannot be built.
    pub fn wanted(&self) -> Result<Wanted, BuildError> {
        Ok(Wanted::of(&self.config.build_profiles(&self.registry)?))
    }

    /// An engine with these settings. Pods of a name that no profile has are scheduled by the first
    /// profile.
    fn engine(&self, scheduler_names: &BTreeSet<&str>) -> Result<EngineConfig, BuildError> {
        let mut config = self.config.as_ref().clone().with_ignored_resources()?;
        config.extenders.clear();
        for name in scheduler_names {
            let known = config.profiles.iter().any(|profile| profile.scheduler_name == **name);
            if let Some(first) = config.profiles.first().filter(|_| !known) {
                let named = config::Profile { scheduler_name: (*name).to_owned(), ..first.clone() };
                config.profiles.push(named);
            }
        }
        let percentage = self.percentage_of_nodes_to_score;
        Ok(EngineConfig {
            seed: self.seed,
            percentage_of_nodes_to_score: percentage.unwrap_or(config.percentage_of_nodes_to_score),
            adaptive_sampling: self.adaptive_sampling,
            queue: config.queue(),
            ..EngineConfig::new(config.build_profiles(&self.registry)?)
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
    /// Plugins that panicked or were slow.
    pub warnings: Vec<String>,
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
