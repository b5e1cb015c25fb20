//! The settings of a simulation: profiles, plugins, and settings of the engine.

use std::fmt;
use std::sync::Arc;

use engine::EngineConfig;
use engine::ports::Probe;
use engine::profile::{ProfileError, Profiles, SchedulerProfile};
use engine::queue::QueueConfig;
use framework::Registry;

use crate::ExtenderSettings;

/// A probe that records misbehaving plugins.
pub trait PluginMonitor: Probe {
    /// Returns a warning for each plugin that panicked or was slow.
    fn warnings(&self) -> Vec<String>;
}

/// Records no warnings.
impl PluginMonitor for () {
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A limit that ends a run early, such as a deadline; by default none.
#[derive(Clone, Default)]
pub struct Limit(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Limit {
    /// Creates a limit. `is_over` is asked before each attempt.
    pub fn new(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_over)))
    }

    /// Whether the run has to end.
    pub fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|is_over| is_over())
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Limit").field(&self.0.is_some()).finish()
    }
}

/// The settings of a simulation.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Seed of random choices: equal input and seed give equal output.
    pub seed: u64,
    /// Percentage of the nodes that a decision considers; 0 means all.
    pub percentage_of_nodes_to_score: i32,
    /// Whether 0 means an adaptive percentage as in kube-scheduler, which shrinks with the cluster.
    pub adaptive_sampling: bool,
    /// Backoffs of the queue.
    pub queue: QueueConfig,
    /// The profiles, with the default plugins merged in.
    pub profiles: Vec<SchedulerProfile>,
    /// The plugins that profiles can enable.
    pub registry: Arc<Registry>,
    /// Creates the probe of each run.
    pub monitor: fn() -> Box<dyn PluginMonitor>,
    /// The extenders to call; `None` calls none.
    pub extenders: Option<ExtenderSettings>,
    /// The limit that ends a run early.
    pub limit: Limit,
}

/// A profile that cannot be built, in the words of kube-scheduler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("initializing profiles: {0}")]
pub struct BuildError(ProfileError);

impl Settings {
    /// Builds the configuration of an engine. Pods of a scheduler name without a profile use a copy
    /// of the first profile.
    pub(crate) fn engine<'a>(
        &self,
        scheduler_names: impl IntoIterator<Item = &'a str>,
    ) -> Result<EngineConfig, BuildError> {
        let mut profiles = self.profiles.clone();
        for name in scheduler_names {
            let known = profiles.iter().any(|profile| profile.scheduler_name == name);
            if let Some(first) = profiles.first().filter(|_| !known) {
                let scheduler_name = name.to_owned();
                profiles.push(SchedulerProfile { scheduler_name, ..first.clone() });
            }
        }
        let extenders = self.extenders.as_ref().map_or_else(Vec::new, |own| own.extenders.clone());
        let profiles = Profiles::build(&profiles, &[], &self.registry, !extenders.is_empty());
        Ok(EngineConfig {
            extenders,
            seed: self.seed,
            percentage_of_nodes_to_score: self.percentage_of_nodes_to_score,
            adaptive_sampling: self.adaptive_sampling,
            queue: self.queue,
            ..EngineConfig::new(profiles.map_err(BuildError)?)
        })
    }
}
