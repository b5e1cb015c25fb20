//! Generated certificates.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

const HOUR: Duration = Duration::from_secs(60 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A generated certificate with its key, as PEM.
pub(super) struct SelfSigned {
    /// The certificate, and the certificate of the authority that signed it.
    pub(super) chain: String,
    /// The key.
    pub(super) key: String,
}

impl SelfSigned {
    /// Generates a certificate for localhost and the address. It is valid for a year, starting an
    /// hour ago for clients whose clocks are behind.
    pub(super) fn generate(address: IpAddr) -> Result<Self, rcgen::Error> {
        let now = since_1970();
        let mut authority = params(Vec::new(), "localhost-ca", now)?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let mut names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        if !address.is_unspecified() && address.to_string() != names[0] {
            names.push(address.to_string());
        }
        let mut leaf = params(names, "localhost", now)?;
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&key, &issuer)?;
        let chain = format!("{}{}", certificate.pem(), authority_certificate.pem());
        Ok(Self { chain, key: key.serialize_pem() })
    }
}

fn params(
    names: Vec<String>,
    name: &str,
    now: Duration,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, format!("{name}@{}", now.as_secs()));
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(HOUR);
    params.not_after = epoch + now.saturating_sub(HOUR) + YEAR;
    Ok(params)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the validity of a certificate starts at the wall time"
)]
fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
