//! A certificate authority in memory: the server's certificate and the administrator's.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::StartError;

/// A certificate with its key.
pub(super) struct Identity {
    /// The certificate as PEM.
    pub(super) certificate: String,
    /// The key as PEM.
    pub(super) key: String,
    der: CertificateDer<'static>,
    key_der: PrivateKeyDer<'static>,
}

impl Identity {
    /// Returns whether the peer presented this certificate.
    pub(super) fn shown_by(&self, peer: &[CertificateDer<'_>]) -> bool {
        peer.first().is_some_and(|shown| *shown == self.der)
    }
}

/// Everything that TLS needs.
pub(super) struct Certificates {
    /// The certificate of the authority as PEM, which clients trust.
    pub(super) authority: String,
    /// The client certificate of the administrator.
    pub(super) admin: Identity,
    /// The TLS configuration of the server.
    pub(super) server: Arc<ServerConfig>,
}

impl Certificates {
    /// Issues certificates for a server at this address, `localhost` and the loopback addresses.
    ///
    /// # Errors
    /// An error of a library; no input causes it.
    pub(super) fn issue(
        address: IpAddr,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, StartError> {
        let authority = authority()?;
        let server = server_identity(&authority, address)?;
        let admin = admin_identity(&authority)?;
        let server = server_config(provider, authority.der(), server)?;
        Ok(Self { authority: authority.pem(), admin, server })
    }
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Result<Authority, rcgen::Error> {
    let mut params = named("loadmaster-sandbox-ca", None, [])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn server_identity(authority: &Authority, address: IpAddr) -> Result<Identity, rcgen::Error> {
    let own = address.to_string();
    let names = ["localhost", "127.0.0.1", "::1", "kubernetes.default.svc"];
    let names = names.into_iter().chain([own.as_str()]);
    let mut params = named("loadmaster-sandbox", None, names)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    issue(params, authority)
}

/// Issues the client certificate of the administrator: the common name is the user, the
/// organisations are the groups.
fn admin_identity(authority: &Authority) -> Result<Identity, rcgen::Error> {
    let mut params = named("kubernetes-admin", Some("system:masters"), [])?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    issue(params, authority)
}

fn named<'a>(
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

fn issue(mut params: CertificateParams, authority: &Authority) -> Result<Identity, rcgen::Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?;
    Ok(Identity {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
        der: certificate.der().clone(),
        key_der: key.into(),
    })
}

/// Returns the configuration of TLS with HTTP/2 and HTTP/1.1. Client certificates of the authority
/// are optional.
fn server_config(
    provider: Arc<CryptoProvider>,
    authority: &CertificateDer<'static>,
    own: Identity,
) -> Result<Arc<ServerConfig>, StartError> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone())?;
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![own.der], own.key_der)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
