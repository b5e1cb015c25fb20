//! Client certificates: the common name is the user, the organisations are the groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::ring::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::der_parser::asn1_rs::{Oid, oid};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use super::User;

/// The attribute of a subject with the UID of the user.
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);
/// The extra attribute that identifies the credentials.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The authorities that are trusted to sign client certificates.
#[derive(Debug, Clone)]
pub(super) struct ClientAuthorities(Arc<dyn ClientCertVerifier>);

impl ClientAuthorities {
    /// Decodes a PEM bundle.
    ///
    /// # Errors
    /// The bundle has no certificate, or an invalid one.
    pub(super) fn from_pem(bundle: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        if roots.is_empty() {
            return Err("data does not contain any valid PEM certificates".to_owned());
        }
        let provider = ring::default_provider().into();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
        verifier.map(Self).map_err(|error| error.to_string())
    }

    /// Verifies the certificate of a client at the current time. Returns its subject, or `None` if
    /// the client has no certificate.
    ///
    /// # Errors
    /// No authority signed the certificate, it has expired, or it is not meant for clients.
    pub(super) fn verify<'a>(
        &self,
        chain: &'a [CertificateDer<'static>],
    ) -> Result<Option<X509Name<'a>>, String> {
        let Some((own, intermediates)) = chain.split_first() else { return Ok(None) };
        let (_, parsed) = X509Certificate::from_der(own)
            .map_err(|error| format!("the client certificate cannot be decoded: {error}"))?;
        self.0.verify_client_cert(own, intermediates, UnixTime::now()).map_err(|error| {
            format!(
                "verifying certificate SN={}, subject {:?} failed: {error}",
                parsed.tbs_certificate.raw_serial_as_string(),
                parsed.subject().to_string(),
            )
        })?;
        Ok(Some(parsed.tbs_certificate.subject))
    }

    /// Authenticates the user of a certificate. Returns `None` without a certificate, and if it
    /// names no user.
    ///
    /// # Errors
    /// The certificate is not trusted.
    pub(super) fn authenticate(
        &self,
        chain: &[CertificateDer<'static>],
    ) -> Result<Option<User>, String> {
        let Some(subject) = self.verify(chain)? else { return Ok(None) };
        let Some(name) = common_name(&subject) else { return Ok(None) };
        let uid = subject.iter_by_oid(&UID).filter_map(|value| value.as_str().ok()).next();
        let groups = subject.iter_organization().filter_map(|value| value.as_str().ok());
        let fingerprint = chain.first().map(|own| fingerprint(own)).unwrap_or_default();
        Ok(Some(User {
            name: name.to_owned(),
            uid: uid.unwrap_or_default().to_owned(),
            groups: groups.map(str::to_owned).collect(),
            extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![fingerprint])]),
        }))
    }
}

/// Returns the last common name, as Go does; `None` if it is empty.
pub(super) fn common_name<'a>(subject: &'a X509Name<'_>) -> Option<&'a str> {
    let names = subject.iter_common_name().filter_map(|value| value.as_str().ok());
    names.last().filter(|name| !name.is_empty())
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let hash = digest(&SHA256, certificate);
    let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("X509SHA256={hash}")
}
