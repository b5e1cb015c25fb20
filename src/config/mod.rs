//! `KubeSchedulerConfiguration`: decoded, defaulted, validated, and expanded for the engine.
//!
//! ```text
//! text ─▶ tree ─▶ v1 (as written) ─▶ configuration (defaults filled in) ─▶ profiles of the engine
//!    yaml    scheme,            defaults            validation         assembly
//!    json    decode
//! ```
//!
//! Every step fails with the texts of kube-scheduler 1.36. [`v1`] distinguishes given values from
//! absent ones; [`Configuration`] is the configuration in effect. [`gates`] change some defaults.

mod args;
mod assembly;
mod configuration;
mod decode;
mod defaults;
mod document;
mod duration;
mod emit;
pub mod gates;
mod json;
mod raw;
mod redact;
mod scheme;
mod tree;
mod unused;
pub mod v1;
mod validation;
mod yaml;

pub use args::{
    Arguments, DefaultPreemptionArgs, DynamicResourcesArgs, InterPodAffinityArgs, NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs, PodTopologySpreadArgs,
    RequestedToCapacityRatio, ResourceSpec, ScoringStrategy, ShapePoint, VolumeBindingArgs,
};
pub use assembly::BuildError;
pub use configuration::{Configuration, LeaderElection, PluginConfig, Profile};
pub use decode::Float;
pub use document::{
    ExpandedPlugin, ExpandedPoint, ExpandedProfile, Expansion, InEffect, write_config,
};
pub use duration::{Duration, DurationError};
pub use emit::yaml as to_yaml;
pub use gates::Gates;
pub use raw::Base64;
pub use redact::{redacted, without_user};
pub use scheme::DecodeError;
pub(crate) use scheme::{API_VERSION, KIND};
pub use validation::{Fault, FieldError, FieldErrors};

use v1::KubeSchedulerConfiguration;

/// A configuration that cannot be used. The texts are kube-scheduler's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Some values are invalid.
    #[error(transparent)]
    Invalid(#[from] FieldErrors),
    /// No scheduler can be built from the configuration.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// A configuration that was loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration as written.
    pub written: KubeSchedulerConfiguration,
    /// The configuration with the defaults of kube-scheduler.
    pub config: Configuration,
}

impl Loaded {
    fn of(written: KubeSchedulerConfiguration, gates: &Gates) -> Self {
        let config = defaults::complete(&written, gates);
        Self { written, config }
    }

    /// Returns the configuration in effect in Loadmaster. kube-scheduler limits its requests also
    /// where the configuration has no `clientConnection.qps`; Loadmaster does not, which a negative
    /// number stands for in both.
    pub fn in_effect(self) -> Configuration {
        let Self { written, mut config } = self;
        if written.client_connection.qps == Float(0.0) {
            config.client_connection.qps = Float(-1.0);
        }
        config
    }
}

/// Loads a configuration in YAML or JSON, fills in defaults and validates it.
///
/// # Errors
/// The text cannot be decoded, or values are invalid.
pub fn load(text: &str, gates: &Gates) -> Result<Loaded, ConfigError> {
    let loaded = Loaded::of(scheme::decode(text)?, gates);
    validation::validate(&loaded.config, gates)?;
    Ok(loaded)
}

/// Validates a configuration in effect, for example after flags changed it.
///
/// # Errors
/// Values are invalid.
pub fn validate(config: &Configuration, gates: &Gates) -> Result<(), FieldErrors> {
    validation::validate(config, gates)
}

/// The configuration in effect without a file.
pub fn defaults(gates: &Gates) -> Configuration {
    Loaded::of(KubeSchedulerConfiguration::default(), gates).in_effect()
}

#[cfg(test)]
mod tests;
