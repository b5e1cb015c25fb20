//! Flags about the HTTPS endpoints.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::http::{Certificate, Serving, TlsVersion};

/// How the endpoints are served.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Secure serving")]
pub(crate) struct ServingFlags {
    /// Address to listen on; callers from other hosts only get the health checks
    // kube-scheduler listens everywhere. It can, since it authenticates its callers.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind_address: IpAddr,

    /// Port of health checks and metrics over HTTPS; 0 for none
    #[arg(long, value_name = "PORT", default_value = "10259", value_parser = port,
        allow_negative_numbers = true)]
    secure_port: u16,

    /// Certificate of the endpoints, in PEM; without one it is made at every start
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// Key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// Oldest version of TLS that is spoken: VersionTLS12 or VersionTLS13
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    tls_min_version: TlsVersion,

    /// Paths that everybody may ask for
    #[arg(
        long,
        value_name = "PATHS",
        value_delimiter = ',',
        default_value = "/healthz,/readyz,/livez"
    )]
    authorization_always_allow_paths: Vec<String>,
}

impl ServingFlags {
    /// How to serve; none if the port is turned off.
    pub(crate) fn serving(&self) -> Option<Serving> {
        let files = self.tls_cert_file.clone().zip(self.tls_private_key_file.clone());
        (self.secure_port != 0).then(|| Serving {
            address: SocketAddr::new(self.bind_address, self.secure_port),
            certificate: files.map_or(Certificate::SelfSigned, |(certificate, key)| {
                Certificate::Files { certificate, key }
            }),
            oldest_tls: self.tls_min_version,
            always_allow: self.authorization_always_allow_paths.clone(),
        })
    }
}

/// A port; the text is that of kube-scheduler, whose last sentence does not hold.
fn port(text: &str) -> Result<u16, String> {
    let number: i64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    number.try_into().map_err(|_| {
        format!(
            "--secure-port {number} must be between 1 and 65535, inclusive. It cannot be turned \
             off with 0"
        )
    })
}
