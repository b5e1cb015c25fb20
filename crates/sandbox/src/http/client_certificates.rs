//! Client certificates: requested in the handshake, checked at every request.
//!
//! Like the API server, the handshake accepts any certificate. A certificate of another authority,
//! or one that has expired since the connection was opened, fails requests with 401.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::AttributeTypeAndValue;

use crate::api::{AUTHENTICATED, User};
use crate::authentication::CREDENTIAL_ID;

/// Checks client certificates of one authority.
pub(super) struct ClientCertificates(Arc<dyn ClientCertVerifier>);

impl ClientCertificates {
    pub(super) fn new(
        authority: &CertificateDer<'static>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        verifier(authority, provider).map(Self)
    }

    /// Returns the user of a chain that starts with the certificate of the client; `None` if it is
    /// not valid at this time since the epoch. The common name is the user, the organisations are
    /// its groups.
    pub(super) fn user(&self, chain: &[CertificateDer<'_>], now: Duration) -> Option<User> {
        let (own, intermediates) = chain.split_first()?;
        self.0.verify_client_cert(own, intermediates, UnixTime::since_unix_epoch(now)).ok()?;
        let (_, certificate) = X509Certificate::from_der(own).ok()?;
        let text =
            |attribute: &AttributeTypeAndValue<'_>| Some(attribute.as_str().ok()?.to_owned());
        let subject = certificate.subject();
        let name = subject.iter_common_name().next().and_then(text)?;
        let mut groups: Vec<String> = subject.iter_organization().filter_map(text).collect();
        groups.push(AUTHENTICATED.to_owned());
        let id = vec![format!("X509SHA256={}", sha256(own))];
        Some(User { extra: [(CREDENTIAL_ID.to_owned(), id)].into(), ..User::new(name, groups) })
    }
}

fn verifier(
    authority: &CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone())?;
    let builder = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
    builder.build().map_err(|error| Error::General(error.to_string()))
}

/// Returns the hash of a certificate in hexadecimal.
fn sha256(certificate: &CertificateDer<'_>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns what the handshake requests: certificates of this authority, which may be absent.
pub(super) fn requested(
    authority: &CertificateDer<'static>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let hints = verifier(authority, provider.clone())?.root_hint_subjects().to_vec();
    let algorithms = provider.signature_verification_algorithms;
    Ok(Arc::new(AnyCertificate { hints, algorithms }))
}

/// Accepts any certificate whose key signs the handshake.
#[derive(Debug)]
struct AnyCertificate {
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use rustls::pki_types::pem::PemObject;

    use super::super::certificates::Certificates;
    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn authorities() -> Certificates {
        Certificates::new(Arc::new(rustls::crypto::ring::default_provider())).unwrap()
    }

    #[test]
    fn certificate_names_user_and_group_until_it_expires() {
        let cluster = authorities();
        let end = NOW + Duration::from_secs(60);
        let jane = cluster.client("jane", Some("dev"), Some(UNIX_EPOCH + end)).unwrap();
        let chain = [CertificateDer::from_pem_slice(jane.certificate.as_bytes()).unwrap()];
        let user = cluster.user(&chain, NOW).unwrap();
        assert_eq!(
            (user.name.as_str(), &user.groups[..]),
            ("jane", &["dev", AUTHENTICATED].map(str::to_owned)[..])
        );
        let id = &user.extra[CREDENTIAL_ID][0];
        assert_eq!(id.strip_prefix("X509SHA256=").map(str::len), Some(64));
        assert_eq!(cluster.user(&chain, end + Duration::from_secs(1)), None);
        assert_eq!(authorities().user(&chain, NOW), None, "of another authority");
        assert_eq!(cluster.user(&[], NOW), None);
    }

    #[test]
    fn front_proxies_are_no_clients() {
        let cluster = authorities();
        let proxy = cluster.front_proxy_client().unwrap();
        let chain = [CertificateDer::from_pem_slice(proxy.certificate.as_bytes()).unwrap()];
        assert_eq!(cluster.user(&chain, NOW), None);
    }
}
