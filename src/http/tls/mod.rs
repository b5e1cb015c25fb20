//! TLS of the server.

mod client_certificate;
mod parameters;
mod self_signed;
mod serving_certificate;
#[cfg(test)]
mod tests;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::select_all;
use rustls::ServerConfig;

use self::client_certificate::AnyClientCertificate;
use self::parameters::provider;
use self::serving_certificate::{KeyPair, ServingCertificates};
use super::files::ReadError;

pub use self::parameters::{CipherSuite, Curve, TlsVersion, UnknownTlsVersion};
pub use self::serving_certificate::{Certificate, KeyPairFiles, NamedCertificate};

/// The settings of TLS.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Certificate for clients that ask for no name of `named`.
    pub certificate: Certificate,
    /// Certificates for server names (`--tls-sni-cert-key`).
    pub named: Vec<NamedCertificate>,
    /// Minimum version (`--tls-min-version`).
    pub min_version: TlsVersion,
    /// Cipher suites of TLS 1.2 (`--tls-cipher-suites`); empty for all.
    pub cipher_suites: Vec<CipherSuite>,
    /// Curves (`--tls-curve-preferences`); empty for all.
    pub curves: Vec<Curve>,
}

/// An error of loading or generating a certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
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
    /// A certificate cannot be generated.
    #[error("cannot generate a self-signed certificate: {0}")]
    SelfSigned(#[from] rcgen::Error),
    /// A generated certificate cannot be written.
    #[error("--cert-dir: cannot write a self-signed certificate to {}: {error}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// `--cert-dir` has a certificate or a key only.
    #[error(
        "--cert-dir: {} is missing, certificate and key must be supplied as a pair",
        missing.display()
    )]
    HalfPair {
        /// The missing file.
        missing: PathBuf,
    },
}

/// The TLS of a server, whose certificates can be loaded again.
pub(super) struct ServerTls {
    settings: Tls,
    /// Whether HTTP/2 is offered.
    http2: bool,
    certificate: KeyPair,
    /// The certificates of `settings.named`.
    named: Vec<KeyPair>,
}

impl ServerTls {
    /// Reads the certificates, and generates one that is missing.
    pub(super) fn load(settings: Tls, address: IpAddr, http2: bool) -> Result<Self, TlsError> {
        let certificate = KeyPair::of_server(&settings.certificate, address)?;
        let named = settings.named.iter().map(|named| KeyPair::of_files(named.files.clone()));
        let named = named.collect::<Result<_, _>>()?;
        Ok(Self { settings, http2, certificate, named })
    }

    /// Waits until the files of a certificate change.
    pub(super) async fn changed(&mut self) {
        let all = std::iter::once(&mut self.certificate).chain(&mut self.named);
        select_all(all.map(|pair| pair.changed().boxed())).await;
    }

    /// Returns the TLS configuration with the current certificates.
    pub(super) fn server_config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let settings = &self.settings;
        let provider = Arc::new(provider(&settings.cipher_suites, &settings.curves));
        let mut certificates = ServingCertificates::new(self.certificate.decode(&provider)?);
        for (named, pair) in settings.named.iter().zip(&self.named) {
            certificates.add(&named.names, pair.decode(&provider)?);
        }
        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&settings.min_version.and_newer())?
            .with_client_cert_verifier(Arc::new(AnyClientCertificate::new(provider)))
            .with_cert_resolver(Arc::new(certificates));
        let protocols: &[&[u8]] = if self.http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config))
    }
}
