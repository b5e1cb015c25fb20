//! The version of the API server.

use http::StatusCode;
use serde::Deserialize;
use thiserror::Error;

use super::transport::{error_chain, is_untrusted};

/// The version of an API server, from `/version`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// For example `v1.36.2`.
    pub git_version: String,
    minor: String,
}

impl Version {
    /// Returns the minor version. Some providers write it as `36+`.
    pub fn minor(&self) -> Option<u32> {
        self.minor.trim_end_matches('+').parse().ok()
    }
}

/// An error of reading the version.
#[derive(Debug, Error)]
pub enum VersionError {
    /// The server does not accept the credentials.
    #[error(
        "the server does not accept the credentials (401 Unauthorized): renew the token or \
         certificate of the kubeconfig's user"
    )]
    Unauthorized,
    /// The certificate of the server is not trusted.
    #[error("{0}: check certificate-authority and server of the kubeconfig's cluster")]
    Untrusted(String),
    /// The server works, and does not tell its version.
    #[error("the server does not tell its version: /version: {0}")]
    Withheld(StatusCode),
    /// The server sent no valid response.
    #[error("{0}")]
    Failed(String),
}

impl VersionError {
    /// Returns whether a retry cannot succeed without a change of the configuration.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Unauthorized | Self::Untrusted(_))
    }
}

impl From<kube::Error> for VersionError {
    fn from(error: kube::Error) -> Self {
        match is_untrusted(&error) {
            true => Self::Untrusted(error_chain(&error)),
            false => Self::Failed(error_chain(&error)),
        }
    }
}
