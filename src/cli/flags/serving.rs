//! Flags of the HTTPS endpoints.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::http::{
    Certificate, CipherSuite, Curve, KeyPairFiles, NamedCertificate, Serving, Tls, TlsVersion,
};

use super::go;

/// Concurrent requests on an HTTP/2 connection if the flag is 0, as in kube-scheduler.
const DEFAULT_STREAMS: u32 = 100;

/// Flags of the HTTPS endpoints.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Secure serving")]
pub(crate) struct ServingFlags {
    /// Address to listen on; 0.0.0.0 or :: for all addresses of IPv4 and IPv6
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    bind_address: IpAddr,

    /// Port of health checks and metrics over HTTPS; 0 for none
    #[arg(long, value_name = "PORT", default_value = "10259", value_parser = port,
        allow_negative_numbers = true)]
    secure_port: u16,

    /// Folder of kube-scheduler.crt and kube-scheduler.key, which are generated if they are
    /// missing; without it a certificate is generated at every start
    #[arg(long, value_name = "FOLDER", value_parser = go::path)]
    cert_dir: Option<PathBuf>,

    /// Certificate of the endpoints, in PEM; goes before --cert-dir
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// Key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// Certificate and key for server names, as `file.crt,file.key:name,*.domain`; without names
    /// those of the certificate; may be repeated
    #[arg(long, value_name = "FILES")]
    tls_sni_cert_key: Vec<NamedCertificate>,

    /// Cipher suites of TLS 1.2, under the names of Go; all if not given
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tls_cipher_suites: Vec<CipherSuite>,

    /// Oldest supported version of TLS: VersionTLS12 (the default) or VersionTLS13
    #[arg(long, value_name = "VERSION", default_value = "", hide_default_value = true)]
    tls_min_version: TlsVersion,

    /// Curves for the key exchange: 23 (CurveP256), 24 (CurveP384), 29 (X25519); all if not given
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    tls_curve_preferences: Vec<Curve>,

    /// Serves HTTP/1.1 only
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    disable_http2_serving: bool,

    /// Concurrent requests on an HTTP/2 connection; 0 for 100
    #[arg(long, value_name = "N", default_value = "0")]
    http2_max_streams_per_connection: u32,

    /// Lets other processes listen on the same port (SO_REUSEPORT)
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    permit_port_sharing: bool,

    /// Listens on a port whose last connections are still closing (SO_REUSEADDR); always on
    #[arg(long, value_name = "BOOL", value_parser = go::boolean, num_args = 0..=1,
        require_equals = true, default_value = "false", default_missing_value = "true")]
    permit_address_sharing: bool,
}

impl ServingFlags {
    /// Returns the settings of the endpoints; none if the port is 0.
    pub(crate) fn serving(&self) -> Option<Serving> {
        (self.secure_port != 0).then(|| Serving {
            address: SocketAddr::new(self.bind_address, self.secure_port),
            share_port: self.permit_port_sharing,
            tls: Tls {
                certificate: self.certificate(),
                named: self.tls_sni_cert_key.clone(),
                min_version: self.tls_min_version,
                cipher_suites: self.tls_cipher_suites.clone(),
                curves: self.tls_curve_preferences.clone(),
            },
            max_streams: (!self.disable_http2_serving).then_some(
                match self.http2_max_streams_per_connection {
                    0 => DEFAULT_STREAMS,
                    streams => streams,
                },
            ),
        })
    }

    fn certificate(&self) -> Certificate {
        let [certificate, key, folder] =
            [&self.tls_cert_file, &self.tls_private_key_file, &self.cert_dir]
                .map(|path| go::given(path.as_ref()));
        match (certificate, key, folder) {
            (Some(certificate), Some(key), _) => {
                Certificate::Files(KeyPairFiles { certificate, key })
            }
            (.., Some(folder)) => Certificate::Folder(folder),
            (.., None) => Certificate::SelfSigned,
        }
    }
}

/// Parses a port. The error text is kube-scheduler's; its last sentence is wrong.
fn port(text: &str) -> Result<u16, String> {
    let number: i64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    number.try_into().map_err(|_| {
        format!(
            "--secure-port {number} must be between 1 and 65535, inclusive. It cannot be turned \
             off with 0"
        )
    })
}
