//! Certificate authorities in memory, as kubeadm sets them up: one for the server and its clients,
//! one for front proxies.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use super::client_certificates::{self, ClientCertificates};
use crate::api::User;

/// Why a certificate cannot be issued or used; no input causes it.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate cannot be made.
    #[error("cannot make certificates: {0}")]
    Issue(#[from] rcgen::Error),
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// A certificate with its key, both as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// Names of front proxies that delegated authentication accepts.
const FRONT_PROXY: &str = "front-proxy-client";

type Authority = CertifiedIssuer<'static, KeyPair>;

/// The authorities of a cluster.
pub(super) struct Certificates {
    /// Signs the certificates of the server and of clients.
    cluster: Authority,
    /// Signs the certificates of front proxies.
    front_proxy: Authority,
    clients: ClientCertificates,
    provider: Arc<CryptoProvider>,
}

impl Certificates {
    /// Makes the authorities.
    ///
    /// # Errors
    /// An error of a library.
    pub(super) fn new(provider: Arc<CryptoProvider>) -> Result<Self, CertificateError> {
        let cluster = authority("loadmaster-sandbox-ca")?;
        let front_proxy = authority("loadmaster-sandbox-front-proxy-ca")?;
        let clients = ClientCertificates::new(cluster.der(), provider.clone())?;
        Ok(Self { cluster, front_proxy, clients, provider })
    }

    /// Returns certificate and key of the authority of server and clients.
    pub(super) fn cluster_authority(&self) -> Identity {
        identity(&self.cluster)
    }

    /// Returns certificate and key of the authority of front proxies.
    pub(super) fn front_proxy_authority(&self) -> Identity {
        identity(&self.front_proxy)
    }

    /// Issues a client certificate: the common name is the user, the organisation is its group.
    /// Without an end it is valid for ever.
    ///
    /// # Errors
    /// A name that a certificate cannot hold.
    pub(super) fn client(
        &self,
        user: &str,
        group: Option<&str>,
        end: Option<SystemTime>,
    ) -> Result<Identity, CertificateError> {
        let mut params = params(user, group, [])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if let Some(end) = end {
            params.not_after = end.into();
        }
        issue(params, &self.cluster)
    }

    /// Issues the certificate of a front proxy that names callers in headers.
    ///
    /// # Errors
    /// An error of a library.
    pub(super) fn front_proxy_client(&self) -> Result<Identity, CertificateError> {
        let mut params = params(FRONT_PROXY, None, [])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        issue(params, &self.front_proxy)
    }

    /// Returns the TLS configuration of a server at this address, `localhost` and the loopback
    /// addresses, with a new certificate: HTTP/2 and HTTP/1.1, client certificates are optional.
    ///
    /// # Errors
    /// An error of a library.
    pub(super) fn server(&self, address: IpAddr) -> Result<Arc<ServerConfig>, CertificateError> {
        let own = address.to_string();
        let names = ["localhost", "127.0.0.1", "::1", "kubernetes.default.svc"];
        let mut params =
            params("loadmaster-sandbox", None, names.into_iter().chain([own.as_str()]))?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let (certificate, key) = sign(params, &self.cluster)?;
        let requested = client_certificates::requested(self.cluster.der(), &self.provider)?;
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(requested)
            .with_single_cert(vec![certificate.der().clone()], key.into())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Returns the user of a chain of client certificates; `None` if it is not valid at this time.
    pub(super) fn user(&self, chain: &[CertificateDer<'_>], now: Duration) -> Option<User> {
        self.clients.user(chain, now)
    }

    /// Returns ConfigMap `extension-apiserver-authentication`, which servers that delegate
    /// authentication read.
    pub(super) fn authentication_config(&self) -> Value {
        json!({
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": {
                "client-ca-file": self.cluster.pem(),
                "requestheader-allowed-names": json!([FRONT_PROXY]).to_string(),
                "requestheader-client-ca-file": self.front_proxy.pem(),
                "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
                "requestheader-group-headers": r#"["X-Remote-Group"]"#,
                "requestheader-username-headers": r#"["X-Remote-User"]"#,
            },
        })
    }
}

fn authority(name: &str) -> Result<Authority, rcgen::Error> {
    let mut params = params(name, None, [])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn identity(authority: &Authority) -> Identity {
    Identity { certificate: authority.pem(), key: authority.key().serialize_pem() }
}

fn params<'a>(
    name: &str,
    organisation: Option<&str>,
    alternatives: impl IntoIterator<Item = &'a str>,
) -> Result<CertificateParams, rcgen::Error> {
    let alternatives: Vec<String> = alternatives.into_iter().map(str::to_owned).collect();
    let mut params = CertificateParams::new(alternatives)?;
    let mut subject = DistinguishedName::new();
    if let Some(organisation) = organisation {
        subject.push(DnType::OrganizationName, organisation);
    }
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    Ok(params)
}

fn issue(params: CertificateParams, authority: &Authority) -> Result<Identity, CertificateError> {
    let (certificate, key) = sign(params, authority)?;
    Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn sign(
    mut params: CertificateParams,
    authority: &Authority,
) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, authority)?, key))
}
