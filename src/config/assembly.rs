//! Builds the engine's profiles and extenders from the configuration.

use std::sync::Arc;
use std::time::Duration;

use engine::cycle::Extender as EngineExtender;
use engine::profile::{self, ProfileError, Profiles, SchedulerProfile};
use engine::queue::QueueConfig;
use framework::Registry;

use super::args::Arguments;
use super::configuration::{Configuration, Profile};
use super::v1::Extender;

/// A valid configuration from which no scheduler can be built, with the texts of kube-scheduler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Extenders manage resources that NodeResourcesFit is to ignore, but a profile lacks that
    /// plugin.
    #[error("couldn't build extenders: can't find NodeResourcesFitArgs in plugin config")]
    NobodyIgnores,
    /// A profile cannot be built.
    #[error("initializing profiles: {0}")]
    Profiles(ProfileError),
}

/// Not a `source`: the text above contains it.
impl From<ProfileError> for BuildError {
    fn from(error: ProfileError) -> Self {
        Self::Profiles(error)
    }
}

impl Configuration {
    /// The extenders in calling order: ignorable ones last.
    pub fn extenders_in_order(&self) -> impl Iterator<Item = &Extender> {
        let by_ignorable = |ignorable| {
            self.extenders.iter().filter(move |extender| extender.ignorable == ignorable)
        };
        by_ignorable(false).chain(by_ignorable(true))
    }

    /// The engine's settings of the extenders, in calling order.
    pub fn engine_extenders(&self) -> Vec<EngineExtender> {
        let extender = |extender: &Extender| EngineExtender {
            name: Arc::from(extender.url_prefix.as_str()),
            filter: !extender.filter_verb.is_empty(),
            prioritize: !extender.prioritize_verb.is_empty(),
            preempt: !extender.preempt_verb.is_empty(),
            bind: !extender.bind_verb.is_empty(),
            weight: extender.weight,
            ignorable: extender.ignorable,
            managed_resources: extender
                .managed_resources
                .iter()
                .map(|resource| resource.name.clone())
                .collect(),
        };
        self.extenders_in_order().map(extender).collect()
    }

    /// Backoffs.
    pub fn queue(&self) -> QueueConfig {
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        QueueConfig {
            initial_backoff: seconds(self.pod_initial_backoff_seconds),
            max_backoff: seconds(self.pod_max_backoff_seconds),
            ..QueueConfig::default()
        }
    }

    /// Returns the configuration with the extenders' managed resources that the scheduler is to
    /// ignore as `ignoredResources` of NodeResourcesFit, in every profile.
    ///
    /// # Errors
    /// A profile has no NodeResourcesFit.
    pub fn with_ignored_resources(mut self) -> Result<Self, BuildError> {
        let managed = self.extenders.iter().flat_map(|extender| &extender.managed_resources);
        let ignored = managed.filter(|resource| resource.ignored_by_scheduler);
        let ignored: Vec<String> = ignored.map(|resource| resource.name.clone()).collect();
        if ignored.is_empty() {
            return Ok(self);
        }
        for profile in &mut self.profiles {
            let args = profile.plugin_config.iter_mut().find_map(|entry| match &mut entry.args {
                Some(Arguments::NodeResourcesFit(args)) => Some(args),
                _ => None,
            });
            let args = args.ok_or(BuildError::NobodyIgnores)?;
            args.ignored_resources.clone_from(&ignored);
        }
        Ok(self)
    }

    /// The profiles of the engine.
    pub fn scheduler_profiles(&self) -> Vec<SchedulerProfile> {
        self.profiles.iter().map(scheduler_profile).collect()
    }

    /// Creates every plugin of every profile.
    ///
    /// # Errors
    /// No scheduler can be built from the configuration.
    pub fn build_profiles(&self, registry: &Registry) -> Result<Profiles, BuildError> {
        let config = self.clone().with_ignored_resources()?;
        let extenders = !config.extenders.is_empty();
        // The defaults are already merged.
        let registry = registry.clone().with_gates(self.plugin_gates);
        Ok(Profiles::build(&config.scheduler_profiles(), &[], &registry, extenders)?)
    }
}

fn scheduler_profile(profile: &Profile) -> SchedulerProfile {
    let plugin_config = profile.plugin_config.iter().map(|entry| profile::PluginConfig {
        name: entry.name.clone(),
        args: entry.args.as_ref().map(Arguments::to_value),
    });
    SchedulerProfile {
        scheduler_name: profile.scheduler_name.clone(),
        percentage_of_nodes_to_score: profile.percentage_of_nodes_to_score,
        plugins: profile.plugins.clone(),
        plugin_config: plugin_config.collect(),
    }
}
