//! Flags of the authorization of callers.

use std::path::PathBuf;

use crate::config::Duration;
use crate::http::AuthorizationOptions;

use super::go;

/// Flags of the authorization of callers.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Authorization of callers")]
pub(crate) struct AuthorizationFlags {
    /// Kubeconfig for SubjectAccessReviews; without one the service account of the pod, or else the
    /// credentials of the scheduler
    #[arg(long, value_name = "FILE", value_parser = go::path)]
    authorization_kubeconfig: Option<PathBuf>,

    /// Paths that every caller may read; a path that ends with * stands for its prefix
    #[arg(long, value_name = "PATHS", value_delimiter = ',', value_parser = always_allowed,
        default_value = "/healthz,/readyz,/livez")]
    authorization_always_allow_paths: Vec<String>,

    /// Time for which a permission is cached
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    authorization_webhook_cache_authorized_ttl: Duration,

    /// Time for which a refusal is cached
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    authorization_webhook_cache_unauthorized_ttl: Duration,
}

impl AuthorizationFlags {
    /// Returns the settings of authorization.
    pub(crate) fn options(&self) -> AuthorizationOptions {
        AuthorizationOptions {
            kubeconfig: go::given(self.authorization_kubeconfig.as_ref()),
            always_allow_paths: self.authorization_always_allow_paths.clone(),
            authorized_ttl: self.authorization_webhook_cache_authorized_ttl.to_std(),
            unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl.to_std(),
        }
    }
}

/// Parses a path whose only `*` may be at the end.
fn always_allowed(text: &str) -> Result<String, String> {
    match text.strip_suffix('*').unwrap_or(text).contains('*') {
        true => Err(format!("only trailing * allowed in {text:?}")),
        false => Ok(text.to_owned()),
    }
}
