//! Flags of the HTTPS endpoints.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::http::{Certificate, Serving, TlsVersion};

/// Flags of the HTTPS endpoints.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Secure serving")]
pub(crate) struct ServingFlags {
    /// Address to listen on; callers from other hosts may read only the health checks
    // kube-scheduler listens on all addresses and authenticates its callers.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind_address: IpAddr,

    /// Port of health checks and metrics over HTTPS; 0 for none
    #[arg(long, value_name = "PORT", default_value = "10259", value_parser = port,
        allow_negative_numbers = true)]
    secure_port: u16,

    /// Certificate of the endpoints, in PEM; without one it is generated at every start
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// Key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// Oldest supported version of TLS: VersionTLS12 or VersionTLS13
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    tls_min_version: TlsVersion,

    /// Paths that callers from every host may read
    #[arg(
        long,
        value_name = "PATHS",
        value_delimiter = ',',
        default_value = "/healthz,/readyz,/livez"
    )]
    authorization_always_allow_paths: Vec<String>,
}

impl ServingFlags {
    /// Returns the settings of the endpoints; none if the port is 0.
    pub(crate) fn serving(&self) -> Option<Serving> {
        let files = self.tls_cert_file.clone().zip(self.tls_private_key_file.clone());
        (self.secure_port != 0).then(|| Serving {
            address: SocketAddr::new(self.bind_address, self.secure_port),
            certificate: files.map_or(Certificate::SelfSigned, |(certificate, key)| {
                Certificate::Files { certificate, key }
            }),
            min_tls_version: self.tls_min_version,
            always_allow: self.authorization_always_allow_paths.clone(),
        })
    }
}

/// Parses a port. The error text is that of kube-scheduler; its last sentence is wrong.
fn port(text: &str) -> Result<u16, String> {
    let number: i64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    number.try_into().map_err(|_| {
        format!(
            "--secure-port {number} must be between 1 and 65535, inclusive. It cannot be turned \
             off with 0"
        )
    })
}
