//! The configuration and the flags of a recorded engine, in the header of each file.

use std::time::Duration;

use engine::cycle::Form;
use engine::{Engine, EngineConfig};
use framework::{Level, Registry};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::gates::GateError;
use crate::config::{self, BuildError, ConfigError, Configuration, Gates};

/// The setup of an engine: all on which its decisions depend, beside its inputs. It has no secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedSetup {
    /// When the process started, in RFC 3339.
    pub started: String,
    /// Name of its host.
    pub host: String,
    /// The configuration in effect, without the connections to the API server and to extenders.
    pub configuration: Value,
    /// The minor version of Kubernetes that is followed. A recording without it is one of 1.36.
    #[serde(default = "first_level")]
    pub minor: u32,
    /// The minor version of the oldest Kubernetes to be compatible with; by default the one before.
    #[serde(default)]
    pub min_compatibility: Option<u32>,
    /// The feature gates of the command line.
    pub feature_gates: Vec<String>,
    /// `--schedule-group-members-alone`.
    pub group_members_alone: bool,
    /// `--adaptive-sampling`.
    pub adaptive_sampling: bool,
    /// Whether rankings are kept.
    pub rankings: bool,
    /// `--longest-preemption-pause`.
    pub longest_preemption_pause: Duration,
    /// Time after which an unschedulable pod is retried even if no event concerns it.
    pub unschedulable_timeout: Duration,
}

fn first_level() -> u32 {
    Level::V1_36.minor()
}

/// Why no engine can be built from a recorded setup.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The setup is of a form that is not known.
    #[error("the header of the recording has no setup that can be read: {0}")]
    Form(#[from] serde_json::Error),
    /// A feature gate is not known.
    #[error("the feature gates of the recording: {0}")]
    Gates(#[from] GateError),
    /// The level is not known to this version.
    #[error(
        "the recording follows Kubernetes 1.{0}, which this version of Loadmaster does not know"
    )]
    Level(u32),
    /// The configuration is not valid.
    #[error("the configuration of the recording: {0}")]
    Config(#[from] ConfigError),
    /// A profile cannot be built.
    #[error("the configuration of the recording: {0}")]
    Build(#[from] BuildError),
}

impl RecordedSetup {
    /// Returns the configuration without the parts that no decision depends on, which may have
    /// secrets.
    pub fn recorded_configuration(config: &Configuration) -> Value {
        let mut value = config.to_value();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("clientConnection");
        }
        for extender in value["extenders"].as_array_mut().into_iter().flatten() {
            if let Some(fields) = extender.as_object_mut() {
                fields.remove("tlsConfig");
            }
        }
        config::redacted(value)
    }

    /// Returns the setup in the header of a file.
    ///
    /// # Errors
    /// The setup is not one that this version writes.
    pub fn of_header(setup: &Value) -> Result<Self, SetupError> {
        Ok(Self::deserialize(setup)?)
    }

    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_else(|_| json!({}))
    }

    /// Returns the name of the folder, which sorts by the start.
    pub(super) fn folder_name(&self) -> String {
        let safe = |letter: &char| letter.is_ascii_alphanumeric() || "-.".contains(*letter);
        let started = self.started.chars().filter(|letter| !"-:".contains(*letter));
        let host = self.host.chars().filter(safe);
        started.chain(['-']).chain(host).collect()
    }

    /// Returns the feature gates.
    ///
    /// # Errors
    /// The level or a gate is not known to this version.
    pub fn gates(&self) -> Result<Gates, SetupError> {
        let level = Level::of_minor(self.minor).ok_or(SetupError::Level(self.minor))?;
        let gates = Gates::at(level);
        let oldest = self.min_compatibility.unwrap_or(gates.min_compatibility());
        let gates = gates.with_min_compatibility(oldest);
        let gates = gates.with_flags(self.feature_gates.iter().map(String::as_str))?;
        Ok(gates.with_group_members_alone(self.group_members_alone))
    }

    /// Returns the configuration.
    ///
    /// # Errors
    /// The configuration is not valid for this version.
    pub fn configuration(&self) -> Result<Configuration, SetupError> {
        Ok(config::load(&self.configuration.to_string(), &self.gates()?)?.config)
    }

    /// Returns what an engine with this setup is made of.
    ///
    /// # Errors
    /// The configuration is not valid for this version, or needs a plugin that the registry does
    /// not have.
    pub fn engine_config(
        &self,
        config: &Configuration,
        registry: &Registry,
        seed: u64,
    ) -> Result<EngineConfig, SetupError> {
        let config = config.clone().with_ignored_resources()?;
        let profiles = config.build_profiles(registry)?;
        let mut queue = config.queue();
        queue.max_in_unschedulable = self.unschedulable_timeout;
        Ok(EngineConfig {
            seed,
            percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
            adaptive_sampling: self.adaptive_sampling,
            form: if self.rankings { Form::Ranked } else { Form::Set },
            longest_preemption_pause: self.longest_preemption_pause,
            queue,
            extenders: config.engine_extenders(),
            ..EngineConfig::new(profiles)
        })
    }

    /// Builds the engine.
    ///
    /// # Errors
    /// As for [`engine_config`](Self::engine_config).
    pub fn engine(&self, registry: &Registry, seed: u64) -> Result<Engine, SetupError> {
        let config = self.configuration()?;
        Ok(Engine::new(self.engine_config(&config, registry, seed)?))
    }
}
