//! The serving certificate: loaded from files, or generated at the start.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};

/// The source of the serving certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// Generated in memory at the start and signed by an authority that is discarded.
    SelfSigned,
    /// Loaded from PEM files, and reloaded when they change.
    Files {
        /// File with the certificate chain (`--tls-cert-file`).
        certificate: PathBuf,
        /// File with the private key (`--tls-private-key-file`).
        key: PathBuf,
    },
}

/// The minimum version of TLS (`--tls-min-version`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2. The flag values for older versions select it too.
    #[default]
    V12,
    /// TLS 1.3.
    V13,
}

/// An error for an unknown version of TLS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown tls version {0:?}")]
pub struct UnknownTlsVersion(String);

impl FromStr for TlsVersion {
    type Err = UnknownTlsVersion;

    fn from_str(name: &str) -> Result<Self, UnknownTlsVersion> {
        match name {
            "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => Ok(Self::V12),
            "VersionTLS13" => Ok(Self::V13),
            _ => Err(UnknownTlsVersion(name.to_owned())),
        }
    }
}

/// An error of loading or generating the certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("open {}: {error}", file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A file contains no PEM certificate or key.
    #[error("{}: no usable PEM block: {error}", file.display())]
    Pem {
        /// Path of the file.
        file: PathBuf,
        /// The reason.
        error: rustls::pki_types::pem::Error,
    },
    /// Certificate and key do not match, or their kind is not supported.
    #[error("the certificate cannot be served: {0}")]
    Unusable(#[from] rustls::Error),
    /// The certificate cannot be generated.
    #[error("cannot generate a self-signed certificate: {0}")]
    SelfSigned(#[from] rcgen::Error),
}

impl Certificate {
    /// Returns the TLS settings of a server with this certificate on the address.
    pub(super) fn load(
        &self,
        address: IpAddr,
        min_version: TlsVersion,
    ) -> Result<Arc<ServerConfig>, TlsError> {
        let (chain, key) = match self {
            Self::SelfSigned => self_signed(address)?,
            Self::Files { certificate, key } => (read_chain(certificate)?, read_key(key)?),
        };
        let versions: &[_] = match min_version {
            TlsVersion::V12 => &[&TLS13, &TLS12],
            TlsVersion::V13 => &[&TLS13],
        };
        let mut config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_protocol_versions(versions)?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Returns the modification times of the files, if the certificate has files.
    pub(super) fn modified(&self) -> Option<[SystemTime; 2]> {
        let Self::Files { certificate, key } = self else { return None };
        let modified = |file| fs::metadata(file).and_then(|file| file.modified()).ok();
        Some([modified(certificate)?, modified(key)?])
    }
}

fn read(file: &PathBuf) -> Result<Vec<u8>, TlsError> {
    fs::read(file).map_err(|error| TlsError::Read { file: file.clone(), error })
}

fn read_chain(file: &PathBuf) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(file)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    chain.map_err(|error| TlsError::Pem { file: file.clone(), error })
}

fn read_key(file: &PathBuf) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(file)?)
        .map_err(|error| TlsError::Pem { file: file.clone(), error })
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Generates a certificate for localhost and the address, with the authority that signed it. Both are
/// valid for a year, starting an hour ago for clients whose clocks are behind.
fn self_signed(
    address: IpAddr,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let now = since_1970();
    let mut authority = params(Vec::new(), "localhost-ca", now)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
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
    let chain = vec![certificate.der().clone(), authority_certificate.der().clone()];
    Ok((chain, key.into()))
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
