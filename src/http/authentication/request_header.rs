//! Users that a front proxy passes on in headers.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;

use super::User;
use super::client_certificate::{ClientAuthorities, common_name};

/// The names of the headers and of the proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestHeaderNames {
    /// Common names of the proxies' certificates (`--requestheader-allowed-names`); empty for any.
    pub allowed: Vec<String>,
    /// Headers with the name of the user; the first one that is set counts.
    pub username: Vec<String>,
    /// Headers with the UID of the user; the first one that is set counts.
    pub uid: Vec<String>,
    /// Headers with groups.
    pub group: Vec<String>,
    /// Prefixes of headers with extra attributes.
    pub extra_prefix: Vec<String>,
}

/// Trusts the headers of clients that have a certificate of a front proxy.
#[derive(Debug, Clone)]
pub(super) struct RequestHeader {
    pub(super) authorities: ClientAuthorities,
    pub(super) names: RequestHeaderNames,
}

impl RequestHeader {
    /// Authenticates the user that a proxy passes on. Returns `None` without a certificate, and
    /// without a user.
    ///
    /// # Errors
    /// The client is not a proxy.
    pub(super) fn authenticate(
        &self,
        chain: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Result<Option<User>, String> {
        let Some(subject) = self.authorities.verify(chain)? else { return Ok(None) };
        let proxy = common_name(&subject).unwrap_or_default();
        let allowed = &self.names.allowed;
        if !allowed.is_empty() && !allowed.iter().any(|name| name == proxy) {
            return Err(format!("x509: subject with cn={proxy} is not in the allowed list"));
        }
        Ok(self.names.user(headers))
    }
}

impl RequestHeaderNames {
    /// Returns the user in the headers.
    fn user(&self, headers: &HeaderMap) -> Option<User> {
        let values = |name: &String| values(headers, name);
        let first =
            |names: &[String]| names.iter().flat_map(values).find(|value| !value.is_empty());
        Some(User {
            name: first(&self.username)?,
            uid: first(&self.uid).unwrap_or_default(),
            groups: self.group.iter().flat_map(values).collect(),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in self.extra_prefix.iter().map(|prefix| prefix.to_lowercase()) {
            for header in headers.keys() {
                // Header names are in lower case.
                if let Some(key) = header.as_str().strip_prefix(&prefix) {
                    let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                    extra.entry(key).or_default().extend(values(headers, header.as_str()));
                }
            }
        }
        extra
    }
}

fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}
