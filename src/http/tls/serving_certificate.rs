//! The certificates of the server, and the choice between them by server name.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tracing::info;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::super::files::{Files, ReadError};
use super::TlsError;
use super::self_signed::SelfSigned;

/// Base name of the files in `--cert-dir`, as in kube-scheduler.
const PAIR_NAME: &str = "kube-scheduler";

/// The source of the serving certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// Generated in memory at the start and signed by an authority that is discarded.
    SelfSigned,
    /// The files `kube-scheduler.crt` and `kube-scheduler.key` of a folder (`--cert-dir`). They are
    /// generated if both are missing.
    Folder(PathBuf),
    /// PEM files (`--tls-cert-file`, `--tls-private-key-file`).
    Files(KeyPairFiles),
}

/// The PEM files of a certificate chain and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPairFiles {
    /// File with the certificate chain.
    pub certificate: PathBuf,
    /// File with the private key.
    pub key: PathBuf,
}

impl KeyPairFiles {
    /// Returns the pair of a folder, and generates it if both files are missing.
    fn in_folder(folder: &Path, address: IpAddr) -> Result<Self, TlsError> {
        let [certificate, key] =
            ["crt", "key"].map(|extension| folder.join(format!("{PAIR_NAME}.{extension}")));
        match (certificate.exists(), key.exists()) {
            (true, true) => {}
            (false, false) => {
                let pair = SelfSigned::generate(address)?;
                let written = fs::create_dir_all(folder)
                    .and_then(|()| create(&certificate, 0o644, &pair.chain))
                    .and_then(|()| create(&key, 0o600, &pair.key));
                written.map_err(|error| TlsError::Folder { folder: folder.to_owned(), error })?;
            }
            (is_certificate, _) => {
                let missing = if is_certificate { key } else { certificate };
                return Err(TlsError::HalfPair { missing });
            }
        }
        Ok(Self { certificate, key })
    }

    fn read(self) -> Result<Files<2>, ReadError> {
        Files::read([self.certificate, self.key])
    }
}

/// Creates a file with these permissions. It must not exist.
fn create(file: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    file.write_all(text.as_bytes())
}

/// A certificate for some server names (`--tls-sni-cert-key`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCertificate {
    /// The files.
    pub files: KeyPairFiles,
    /// The server names, possibly with a first label `*`; if empty, the names in the certificate.
    pub names: Vec<String>,
}

impl FromStr for NamedCertificate {
    type Err = String;

    /// Parses `certificate,key` or `certificate,key:name,name`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (files, names) = text.split_once(':').unwrap_or((text, ""));
        let names = names.split(',').map(|name| name.trim().to_lowercase());
        let names = names.filter(|name| !name.is_empty()).collect();
        match files.split(',').map(str::trim).collect::<Vec<_>>()[..] {
            [certificate, key] if !certificate.is_empty() && !key.is_empty() => {
                let files = KeyPairFiles { certificate: certificate.into(), key: key.into() };
                Ok(Self { files, names })
            }
            _ => Err("expected comma separated certificate and key file paths".to_owned()),
        }
    }
}

/// The certificates of the server. Clients that ask for no known name get the first one.
#[derive(Debug)]
pub(super) struct ServingCertificates {
    default: Arc<CertifiedKey>,
    named: Vec<(Vec<String>, Arc<CertifiedKey>)>,
}

impl ServingCertificates {
    pub(super) fn new(default: CertifiedKey) -> Self {
        Self { default: Arc::new(default), named: Vec::new() }
    }

    /// Adds a certificate for these names, or for the names in it.
    pub(super) fn add(&mut self, names: &[String], key: CertifiedKey) {
        let own = || key.cert.first().map(names_in).unwrap_or_default();
        let names = if names.is_empty() { own() } else { names.to_vec() };
        self.named.push((names, Arc::new(key)));
    }

    /// Returns the certificate for a name: one for exactly this name, or one for all names with its
    /// domain.
    fn select(&self, name: &str) -> &Arc<CertifiedKey> {
        let name = name.to_lowercase();
        let wildcard = name.split_once('.').map(|(_, domain)| format!("*.{domain}"));
        let find = |name: &String| {
            let mut named = self.named.iter();
            named.find_map(|(names, key)| names.contains(name).then_some(key))
        };
        find(&name).or_else(|| find(&wildcard?)).unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for ServingCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(hello.server_name().map_or(&self.default, |name| self.select(name)).clone())
    }
}

/// Returns the DNS names of a certificate.
fn names_in(certificate: &CertificateDer<'static>) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let dns = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_lowercase()),
        _ => None,
    });
    dns.collect()
}

/// A certificate chain and its key.
pub(super) enum KeyPair {
    Generated(SelfSigned),
    Files(Files<2>),
}

impl KeyPair {
    /// Loads the serving certificate of a server on this address, and generates it if necessary.
    pub(super) fn of_server(source: &Certificate, address: IpAddr) -> Result<Self, TlsError> {
        Ok(match source {
            Certificate::SelfSigned => {
                let pair = SelfSigned::generate(address)?;
                info!("Generated self-signed cert in-memory");
                Self::Generated(pair)
            }
            Certificate::Folder(folder) => {
                Self::Files(KeyPairFiles::in_folder(folder, address)?.read()?)
            }
            Certificate::Files(files) => Self::Files(files.clone().read()?),
        })
    }

    /// Loads the files of a certificate.
    pub(super) fn of_files(files: KeyPairFiles) -> Result<Self, ReadError> {
        files.read().map(Self::Files)
    }

    /// Waits until the files change; never ends without files.
    pub(super) async fn changed(&mut self) {
        match self {
            Self::Generated(_) => std::future::pending().await,
            Self::Files(files) => files.changed().await,
        }
    }

    /// Decodes the certificate and its key.
    pub(super) fn decode(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let in_memory = [PathBuf::new(), PathBuf::new()];
        let ([chain_file, key_file], [chain, key]) = match self {
            Self::Generated(pair) => (&in_memory, [pair.chain.as_bytes(), pair.key.as_bytes()]),
            Self::Files(files) => (files.paths(), files.contents().each_ref().map(Vec::as_slice)),
        };
        let invalid = |file: &PathBuf, error| TlsError::Pem { file: file.clone(), error };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| invalid(chain_file, error))?;
        if chain.is_empty() {
            return Err(invalid(chain_file, pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| invalid(key_file, error))?;
        Ok(CertifiedKey::from_der(chain, key, provider)?)
    }
}
