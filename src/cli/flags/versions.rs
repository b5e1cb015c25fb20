//! Flags about versions: the version that is printed, and the versions of Kubernetes that are
//! emulated.

use std::fmt;
use std::str::FromStr;

use framework::Level;

use super::go;
use crate::config::Gates;

/// The component that a version may name.
const COMPONENT: &str = "kube";

/// The oldest minor version of Kubernetes that a scheduler can be compatible with.
const OLDEST_COMPATIBLE: u32 = 33;

/// The forms of `--version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionRequest {
    /// Nothing.
    No,
    /// The version.
    Version,
    /// The version, the version of Kubernetes, and the platform.
    Raw,
}

impl FromStr for VersionRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "raw" {
            return Ok(Self::Raw);
        }
        if text.starts_with('v') {
            return Err(format!(
                "the reported version cannot be replaced: Loadmaster reports {}",
                env!("CARGO_PKG_VERSION")
            ));
        }
        go::boolean(text).map(|set| if set { Self::Version } else { Self::No })
    }
}

/// The versions of Kubernetes to behave like and to be compatible with.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct VersionFlags {
    /// Version of Kubernetes to behave like, as `1.36`, `kube=1.37` or `1.38` (a preview); without
    /// it, the version of the API server decides between 1.36 and 1.37
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    emulated_version: Vec<String>,

    /// Oldest version of Kubernetes to be compatible with, as `1.35` or `kube=1.36`; by default the
    /// one before the version to behave like
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    min_compatibility_version: Vec<String>,
}

/// A version that Loadmaster does not emulate. The texts are those of Kubernetes, with an addition
/// about what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VersionError {
    #[error(
        "could not parse {0:?} as version; give a version like {newest}",
        newest = Level::default()
    )]
    NotAVersion(String),
    #[error("illegal version string {0:?}")]
    NoMinor(String),
    #[error("patch version not allowed, got: {COMPONENT}={0}")]
    Patch(Version),
    #[error("component not registered: {0}")]
    Component(String),
    #[error("duplicate version flag, {COMPONENT}={0} and {COMPONENT}={1}")]
    Duplicate(Version, Version),
    #[error(
        "emulation version {0} is not between [{oldest}, {newest}.0]; omit --emulated-version to follow the \
         version of the API server",
        oldest = Level::ALL[0],
        newest = Level::ALL[Level::ALL.len() - 1]
    )]
    NotEmulated(Version),
    #[error(
        "minCompatibilityVersion version {version} is not between [1.{OLDEST_COMPATIBLE}, {level}]; Kubernetes \
         {level} is followed"
    )]
    NotCompatible { version: Version, level: Level },
}

/// A version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version(Vec<u32>);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

impl Version {
    fn parse(text: &str) -> Result<Self, VersionError> {
        let text = text.trim();
        let numbers = text.strip_prefix('v').unwrap_or(text).split('.').map(str::parse);
        let numbers = numbers.collect::<Result<Vec<_>, _>>();
        let numbers = numbers.map_err(|_| VersionError::NotAVersion(text.to_owned()))?;
        match numbers.len() {
            0 | 1 => Err(VersionError::NoMinor(text.to_owned())),
            _ if numbers.get(2).is_some_and(|patch| *patch != 0) => {
                Err(VersionError::Patch(Self(numbers)))
            }
            _ => Ok(Self(numbers)),
        }
    }

    /// Returns the minor version, if the major one is 1.
    fn minor(&self) -> Option<u32> {
        self.0.strip_prefix(&[1])?.first().copied()
    }
}

/// Returns the version in the values of one flag.
fn version(values: &[String]) -> Result<Option<Version>, VersionError> {
    let mut found: Option<Version> = None;
    for value in values {
        let (component, version) = value.split_once('=').unwrap_or((COMPONENT, value));
        let version = Version::parse(version)?;
        if component.trim() != COMPONENT {
            return Err(VersionError::Component(component.trim().to_owned()));
        }
        if let Some(other) = found {
            return Err(VersionError::Duplicate(other, version));
        }
        found = Some(version);
    }
    Ok(found)
}

impl VersionFlags {
    /// Returns the level that `--emulated-version` asks for, if it is given.
    pub(crate) fn level(&self) -> Result<Option<Level>, VersionError> {
        let Some(version) = version(&self.emulated_version)? else { return Ok(None) };
        let level = version.minor().and_then(Level::of_minor);
        level.map(Some).ok_or(VersionError::NotEmulated(version))
    }

    /// Returns the minor version of the oldest Kubernetes to be compatible with at a level.
    pub(crate) fn min_compatibility(&self, level: Level) -> Result<u32, VersionError> {
        let Some(version) = version(&self.min_compatibility_version)? else {
            return Ok(level.minor() - 1);
        };
        match version.minor() {
            Some(minor) if (OLDEST_COMPATIBLE..=level.minor()).contains(&minor) => Ok(minor),
            _ => Err(VersionError::NotCompatible { version, level }),
        }
    }

    /// Whether no version is given.
    pub(crate) const fn are_default(&self) -> bool {
        self.emulated_version.is_empty() && self.min_compatibility_version.is_empty()
    }

    /// Returns the level for a command that asks no API server.
    pub(crate) fn level_or_default(&self) -> Result<Level, VersionError> {
        Ok(self.level()?.unwrap_or_default())
    }

    /// Returns the gates of a level with the default values.
    pub(crate) fn gates(&self, level: Level) -> Result<Gates, VersionError> {
        Ok(Gates::at(level).with_min_compatibility(self.min_compatibility(level)?))
    }
}
