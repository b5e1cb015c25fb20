//! Profiles that cannot be built.

use framework::ExtensionPoint;

/// A profile that cannot be built. The texts are kube-scheduler's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what is wrong")]
pub enum ProfileError {
    #[error("{point}Plugin {plugin:?} does not exist")]
    Unknown { point: ExtensionPoint, plugin: String },
    #[error("plugin {plugin:?} does not extend {point}Plugin plugin")]
    DoesNotExtend { point: ExtensionPoint, plugin: String },
    #[error("plugin {plugin:?} already registered as \"{point}Plugin\"")]
    Twice { point: ExtensionPoint, plugin: String },
    #[error("initializing plugin {plugin:?}: {message}")]
    Factory { plugin: String, message: String },
    #[error(
        "only one queue sort plugin required for profile with scheduler name {profile:?}, but got {count}"
    )]
    QueueSortCount { profile: String, count: usize },
    #[error("at least one bind plugin is needed for profile with scheduler name {profile:?}")]
    NoBind { profile: String },
    #[error(
        "at most one placement generate plugin is allowed for profile with scheduler name {0:?}"
    )]
    TwoPlacementGenerators(String),
    #[error("{0} plugins: total score of Score plugins could overflow")]
    WeightOverflow(&'static str),
    #[error("repeated config for plugin {0}")]
    RepeatedConfig(String),
    #[error("duplicate profile with scheduler name {0:?}")]
    DuplicateProfile(String),
    #[error("different queue sort plugins for profile {profile:?}: {plugin:?}, first: {first:?}")]
    DifferentQueueSort { profile: String, plugin: String, first: String },
    #[error("different queue sort plugin args for profile {0:?}")]
    DifferentQueueSortArgs(String),
    #[error("at least one profile is required")]
    NoProfile,
    #[error("creating profile for scheduler name {profile}: {error}")]
    In { profile: String, error: Box<Self> },
}
