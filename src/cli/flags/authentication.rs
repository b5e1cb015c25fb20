//! Flags of the authentication of callers.

use std::path::PathBuf;

use crate::config::Duration;
use crate::http::{AuthenticationOptions, RequestHeaderNames};

use super::go;

/// Flags of the authentication of callers.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Authentication of callers")]
pub(crate) struct AuthenticationFlags {
    /// Kubeconfig for TokenReviews and the lookup; without one the service account of the pod, or
    /// else the credentials of the scheduler
    #[arg(long, value_name = "FILE", value_parser = go::path)]
    authentication_kubeconfig: Option<PathBuf>,

    /// Leaves out the lookup of the cluster's client authorities in the ConfigMap
    /// kube-system/extension-apiserver-authentication
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    authentication_skip_lookup: bool,

    /// Time for which the user of a token is cached
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    authentication_token_webhook_cache_ttl: Duration,

    /// Starts even if the lookup fails
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "true", default_missing_value = "true")]
    authentication_tolerate_lookup_failure: bool,

    /// Authorities of client certificates, in PEM, instead of those of the cluster
    #[arg(long, value_name = "FILE", value_parser = go::path)]
    client_ca_file: Option<PathBuf>,

    /// Common names of the front proxies' certificates; empty for any
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,

    /// Authorities of front proxies' certificates, in PEM, instead of those of the cluster
    #[arg(long, value_name = "FILE", value_parser = go::path)]
    requestheader_client_ca_file: Option<PathBuf>,

    /// Prefixes of the headers with extra attributes of the user
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',', value_parser = header,
        default_value = "x-remote-extra-")]
    requestheader_extra_headers_prefix: Vec<String>,

    /// Headers with groups of the user
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', value_parser = header,
        default_value = "x-remote-group")]
    requestheader_group_headers: Vec<String>,

    /// Headers with the UID of the user
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', value_parser = header)]
    requestheader_uid_headers: Vec<String>,

    /// Headers with the name of the user
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', value_parser = header,
        default_value = "x-remote-user")]
    requestheader_username_headers: Vec<String>,
}

impl AuthenticationFlags {
    /// Returns the settings of authentication.
    pub(crate) fn options(&self) -> AuthenticationOptions {
        AuthenticationOptions {
            kubeconfig: go::given(self.authentication_kubeconfig.as_ref()),
            skip_lookup: self.authentication_skip_lookup,
            tolerate_lookup_failure: self.authentication_tolerate_lookup_failure,
            token_ttl: self.authentication_token_webhook_cache_ttl.to_std(),
            client_ca_file: go::given(self.client_ca_file.as_ref()),
            request_header_ca_file: go::given(self.requestheader_client_ca_file.as_ref()),
            request_header_names: RequestHeaderNames {
                allowed: self.requestheader_allowed_names.clone(),
                username: self.requestheader_username_headers.clone(),
                uid: self.requestheader_uid_headers.clone(),
                group: self.requestheader_group_headers.clone(),
                extra_prefix: self.requestheader_extra_headers_prefix.clone(),
            },
        }
    }
}

/// Parses the name of a header.
fn header(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() { Err("empty value".to_owned()) } else { Ok(text.to_owned()) }
}
