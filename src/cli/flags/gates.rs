//! The values of `--feature-gates`.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// One setting of a gate, such as `A=true` or `kube:A=true`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GateSetting(String);

impl GateSetting {
    /// Returns the setting as it was given.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for GateSetting {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

/// kube-scheduler prints the colon after the component also if none is given.
impl fmt::Display for GateSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.0.contains(':') { "" } else { ":" };
        write!(f, "{colon}{}", self.0)
    }
}
