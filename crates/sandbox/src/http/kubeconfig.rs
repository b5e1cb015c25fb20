//! Kubeconfigs, as kubectl, client-go and kube-rs read them.

use std::net::SocketAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::certificates::Identity;

/// The address of the server and its authority.
pub(super) struct Endpoint {
    /// The address that the server listens on.
    pub(super) address: SocketAddr,
    /// The certificate of its authority as PEM.
    pub(super) authority: String,
}

impl Endpoint {
    /// Returns the URL; with the loopback address if the server listens on all addresses.
    pub(super) fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address.is_ipv4() {
                true => std::net::Ipv4Addr::LOCALHOST.into(),
                false => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("https://{address}")
    }

    /// Returns a kubeconfig with a bearer token.
    pub(super) fn with_token(&self, token: &str) -> String {
        self.kubeconfig(&format!("token: {token}"))
    }

    /// Returns a kubeconfig with a client certificate.
    pub(super) fn with_certificate(&self, identity: &Identity) -> String {
        let certificate = BASE64_STANDARD.encode(&identity.certificate);
        let key = BASE64_STANDARD.encode(&identity.key);
        self.kubeconfig(&format!(
            "client-certificate-data: {certificate}\n    client-key-data: {key}"
        ))
    }

    fn kubeconfig(&self, credentials: &str) -> String {
        let url = self.url();
        let authority = BASE64_STANDARD.encode(&self.authority);
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: sandbox
  cluster:
    server: {url}
    certificate-authority-data: {authority}
users:
- name: sandbox
  user:
    {credentials}
contexts:
- name: sandbox
  context:
    cluster: sandbox
    user: sandbox
current-context: sandbox
"
        )
    }
}
