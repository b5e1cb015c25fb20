//! Kubeconfigs, as kubectl, client-go and kube-rs read them.

use std::net::SocketAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::certificates::Identity;

/// Where the server is, and how to know it.
pub(super) struct Endpoint {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// The certificate of its authority as PEM.
    pub(super) authority: String,
}

impl Endpoint {
    /// `https://` and the address; the loopback address if the server listens on all.
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

    /// The kubeconfig of somebody with a bearer token.
    pub(super) fn with_token(&self, token: &str) -> String {
        self.kubeconfig(&format!("token: {token}"))
    }

    /// The kubeconfig of somebody with a client certificate.
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
