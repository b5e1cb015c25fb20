//! Flags about versions: the one that is printed, and those of Kubernetes that are emulated.

use std::fmt;
use std::str::FromStr;

use super::go;

/// The component that a version may name.
const COMPONENT: &str = "kube";

/// The minor version of Kubernetes whose scheduler this is.
const MINOR: u32 = 36;

/// The oldest minor version that kube-scheduler 1.36 emulates and is compatible with.
const OLDEST: u32 = 33;

/// What `--version` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionRequest {
    /// Nothing.
    No,
    /// The version.
    Version,
    /// The version, that of Kubernetes and the platform.
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
pub(super) struct VersionFlags {
    /// Version of Kubernetes to behave like, as `1.36` or `kube=1.36`; no other one is built
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    emulated_version: Vec<String>,

    /// Oldest version of Kubernetes to be compatible with, as `1.35` or `kube=1.36`
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    min_compatibility_version: Vec<String>,
}

/// A version that Loadmaster does not emulate. Unless the version is merely not built, the texts are
/// those of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VersionError {
    #[error("could not parse {0:?} as version")]
    NotAVersion(String),
    #[error("illegal version string {0:?}")]
    NoMinor(String),
    #[error("patch version not allowed, got: {COMPONENT}={0}")]
    Patch(Version),
    #[error("component not registered: {0}")]
    Component(String),
    #[error("duplicate version flag, {COMPONENT}={0} and {COMPONENT}={1}")]
    Duplicate(Version, Version),
    #[error("emulation version {0} is not between [1.{OLDEST}, 1.{MINOR}.0]")]
    NotEmulated(Version),
    #[error("minCompatibilityVersion version {0} is not between [1.{OLDEST}, 1.{MINOR}]")]
    NotCompatible(Version),
    #[error(
        "--{flag}={version}: only the behaviour of Kubernetes 1.{MINOR} is built; omit the flag"
    )]
    NotBuilt { flag: &'static str, version: Version },
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
    /// Checks that no other behaviour than that of Kubernetes 1.36 is asked for.
    pub(super) fn check(&self) -> Result<(), VersionError> {
        if let Some(version) = version(&self.emulated_version)? {
            match version.minor() {
                Some(MINOR) => {}
                Some(OLDEST..MINOR) => {
                    return Err(VersionError::NotBuilt { flag: "emulated-version", version });
                }
                _ => return Err(VersionError::NotEmulated(version)),
            }
        }
        if let Some(version) = version(&self.min_compatibility_version)? {
            match version.minor() {
                // 1.35 is the default of kube-scheduler.
                Some(35 | MINOR) => {}
                Some(OLDEST..MINOR) => {
                    let flag = "min-compatibility-version";
                    return Err(VersionError::NotBuilt { flag, version });
                }
                _ => return Err(VersionError::NotCompatible(version)),
            }
        }
        Ok(())
    }
}
