//! Authentication: finds out who a caller is.

mod bearer_token;
mod client_certificate;
mod config_map;
mod request_header;
#[cfg(test)]
mod tests;
mod trust;
mod user;

use std::path::PathBuf;
use std::time::Duration;

use axum::http::HeaderMap;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;

pub use self::bearer_token::PROXIED_AUTHORIZATION;
pub(super) use self::bearer_token::TokenReviewer;
pub use self::request_header::RequestHeaderNames;
pub use self::trust::TrustError;
pub(super) use self::trust::{Trust, TrustSources};
pub(super) use self::user::User;

/// The settings of authentication.
#[derive(Debug, Clone)]
pub struct AuthenticationOptions {
    /// Kubeconfig for TokenReviews and the lookup (`--authentication-kubeconfig`).
    pub kubeconfig: Option<PathBuf>,
    /// Whether to leave out the lookup of the cluster's authorities in the ConfigMap
    /// `kube-system/extension-apiserver-authentication` (`--authentication-skip-lookup`).
    pub skip_lookup: bool,
    /// Whether to start if that lookup fails (`--authentication-tolerate-lookup-failure`).
    pub tolerate_lookup_failure: bool,
    /// Time for which the user of a token is cached (`--authentication-token-webhook-cache-ttl`).
    pub token_ttl: Duration,
    /// Authorities of client certificates, instead of those of the cluster (`--client-ca-file`).
    pub client_ca_file: Option<PathBuf>,
    /// Authorities of front proxies, instead of those of the cluster
    /// (`--requestheader-client-ca-file`).
    pub request_header_ca_file: Option<PathBuf>,
    /// The names that go with `request_header_ca_file`.
    pub request_header_names: RequestHeaderNames,
}

/// The reasons for which credentials are not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub(super) struct InvalidCredentials(Vec<String>);

/// The authenticators.
pub(super) struct Authenticator {
    pub(super) trust: watch::Receiver<Trust>,
    pub(super) tokens: TokenReviewer,
}

impl Authenticator {
    /// Authenticates a request, in the order of kube-scheduler: headers of a front proxy, client
    /// certificate, bearer token. A request without credentials belongs to an anonymous user.
    ///
    /// # Errors
    /// The request has credentials, and none is valid.
    pub(super) async fn authenticate(
        &self,
        certificates: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Result<User, InvalidCredentials> {
        let trust = self.trust.borrow().clone();
        let mut errors = match trust.authenticate(certificates, headers) {
            Ok(user) => return Ok(user.authenticated()),
            Err(errors) => errors,
        };
        match self.tokens.authenticate(headers).await {
            Ok(Some(user)) => return Ok(user.authenticated()),
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
        match errors.is_empty() {
            true => Ok(User::anonymous()),
            false => Err(InvalidCredentials(errors)),
        }
    }
}
