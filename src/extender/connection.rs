//! The connection to one extender: address, TLS and timeout.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use control::{Reply, Response};
use engine::ports::CallError;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use crate::api_client::{error_chain, https_connector};
use crate::config::Base64;
use crate::config::v1::{self, TlsConfig};

/// Time from which on a failed call held up the scheduling loop. One that fails faster costs no
/// more than one that succeeds.
const WAIT: Duration = Duration::from_millis(100);
/// Timeout of a call if the configuration sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a response in bytes, many times the size needed in a large cluster.
const MAX_RESPONSE: usize = 1 << 30;

/// An error in the configuration of an extender.
#[derive(Debug, Error)]
pub enum ExtenderError {
    /// The address is invalid. It is hidden if it may contain a password.
    #[error("urlPrefix {0:?} is not the address of a server, like http://extender.example.com/v1")]
    Address(String),
    /// The address contains a user.
    #[error("urlPrefix: a user in the address is not supported: remove it from the address of {0}")]
    User(String),
    /// A file cannot be read.
    #[error("open {}: {error}", file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The field for root certificates contains none.
    #[error("tlsConfig: unable to load root certificates: no PEM certificate in {0}")]
    NoRootCertificate(&'static str),
    /// Root certificates are set although the server is not verified.
    #[error("specifying a root certificates file with the insecure flag is not allowed")]
    InsecureWithRoots,
    /// The certificate, the key or the server name is invalid.
    #[error("tlsConfig: {0}")]
    Tls(String),
}

/// A connection to one extender. It is established with the first call and then reused.
pub(super) struct Connection {
    address: String,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
}

/// Formats without the client, which contains the private key.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, timeout, .. } = self;
        write!(f, "{address} within {timeout:?}")
    }
}

impl Connection {
    pub(super) fn new(extender: &v1::Extender) -> Result<Self, ExtenderError> {
        let address = extender.url_prefix.trim_end_matches('/').to_owned();
        let config = tls(&address, extender)?;
        let connector = https_connector(&config);
        let connector = connector.map_err(|error| ExtenderError::Tls(error_chain(&error)))?;
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
        let timeout = extender.http_timeout.to_std();
        let timeout = if timeout.is_zero() { DEFAULT_TIMEOUT } else { timeout };
        Ok(Self { address, client, timeout })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Posts a call once and decodes the answer. A call that failed after a wait got no answer, and
    /// so did one for which a proxy in front of the extender answers (502, 503, 504).
    pub(super) async fn call<T>(
        &self,
        verb: &str,
        body: Bytes,
        decode: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, CallError> {
        let began = Instant::now();
        let error = match self.post(verb, body).await {
            Reply::Answered(response) => return Ok(decode(&response.body)?),
            Reply::Rejected(error) if !is_of_proxy(&error) => return Err(CallError::Failed(error)),
            Reply::Rejected(error) | Reply::NotSent(error) | Reply::Lost(error) => error,
        };
        match began.elapsed() < WAIT {
            true => Err(CallError::Failed(error)),
            false => Err(CallError::NoAnswer(error)),
        }
    }

    /// Posts a call once, and returns without an error if the extender answered at all.
    pub(super) async fn probe(&self, verb: &str, body: Bytes) -> Result<(), String> {
        match self.post(verb, body).await {
            Reply::Answered(_) => Ok(()),
            Reply::Rejected(error) if !is_of_proxy(&error) => Ok(()),
            Reply::Rejected(error) | Reply::NotSent(error) | Reply::Lost(error) => Err(error),
        }
    }

    /// Posts a call once. A status other than 200 is an error.
    pub(super) async fn post(&self, verb: &str, body: Bytes) -> Reply {
        let url = format!("{}/{verb}", self.address);
        let request = Request::post(&url).header(CONTENT_TYPE, "application/json");
        let request = match request.body(Full::new(body)) {
            Ok(request) => request,
            Err(error) => return Reply::NotSent(format!("Post {url:?}: {error}")),
        };
        let deadline = Instant::now() + self.timeout;
        let response = match timeout_at(deadline, self.client.request(request)).await {
            Err(_) => return timed_out(&url, "Client.Timeout exceeded while awaiting headers"),
            Ok(Err(error)) => {
                let text = format!("Post {url:?}: {}", error_chain(&error));
                return if error.is_connect() { Reply::NotSent(text) } else { Reply::Lost(text) };
            }
            Ok(Ok(response)) => response,
        };
        if response.status() != StatusCode::OK {
            let code = response.status().as_u16();
            let text = format!("failed {verb} with extender at URL {url}, code {code}");
            return Reply::Rejected(text);
        }
        let body = Limited::new(response.into_body(), MAX_RESPONSE).collect();
        match timeout_at(deadline, body).await {
            Err(_) => timed_out(&url, "Client.Timeout or context cancellation while reading body"),
            Ok(Err(error)) => Reply::Lost(format!("Post {url:?}: {}", error_chain(&*error))),
            Ok(Ok(body)) => {
                let body = body.to_bytes().into();
                Reply::Answered(Response { status: 200, retry_after: None, body })
            }
        }
    }
}

/// Returns whether this is the error for a status with which a proxy says that the extender does
/// not answer.
fn is_of_proxy(error: &str) -> bool {
    [", code 502", ", code 503", ", code 504"].iter().any(|code| error.ends_with(code))
}

/// Returns the reply for a timeout, with the message of Go.
fn timed_out(url: &str, what: &str) -> Reply {
    Reply::Lost(format!("Post {url:?}: context deadline exceeded ({what})"))
}

/// Converts address and TLS settings to a client configuration.
fn tls(address: &str, extender: &v1::Extender) -> Result<kube::Config, ExtenderError> {
    let uri = server(address)?;
    let is_plain = uri.scheme_str() == Some("http");
    let mut config = kube::Config::new(uri);
    let tls = extender.tls_config.clone().unwrap_or_default();
    let roots = root_certificates(&tls)?;
    if tls.insecure && roots.is_some() {
        return Err(ExtenderError::InsecureWithRoots);
    }
    // As in kube-scheduler, `enableHTTPS` without root certificates disables the verification.
    config.accept_invalid_certs = tls.insecure || (extender.enable_https && roots.is_none());
    let uses_system_roots = !config.accept_invalid_certs && !is_plain;
    // The root certificates of the system are only loaded if they are used, because there may be
    // none.
    config.root_cert = roots.or_else(|| (!uses_system_roots).then(Vec::new));
    config.tls_server_name = Some(tls.server_name.clone()).filter(|name| !name.is_empty());
    let certificate = bytes(&tls.cert_data, &tls.cert_file)?;
    let key = bytes(&tls.key_data, &tls.key_file)?;
    if let (Some(certificate), Some(key)) = (certificate, key) {
        config.auth_info.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
        config.auth_info.client_key_data = Some(BASE64_STANDARD.encode(key).into());
    }
    Ok(config)
}

fn server(address: &str) -> Result<Uri, ExtenderError> {
    let uri: Option<Uri> = address.parse().ok();
    let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
    match uri {
        Some(uri) => match uri.authority().and_then(|server| server.as_str().rsplit_once('@')) {
            Some((_, host)) => Err(ExtenderError::User(host.to_owned())),
            None => Ok(uri),
        },
        None if address.contains('@') => Err(ExtenderError::Address("(not shown)".to_owned())),
        None => Err(ExtenderError::Address(address.to_owned())),
    }
}

fn root_certificates(tls: &TlsConfig) -> Result<Option<Vec<Vec<u8>>>, ExtenderError> {
    let Some(pem) = bytes(&tls.ca_data, &tls.ca_file)? else { return Ok(None) };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => {
            Ok(Some(found.into_iter().map(|authority| authority.to_vec()).collect()))
        }
        _ => Err(ExtenderError::NoRootCertificate(if tls.ca_data.is_empty() {
            "caFile"
        } else {
            "caData"
        })),
    }
}

/// Returns the content of a field that is set as data or as a file. Data takes precedence.
fn bytes(data: &Base64, file: &str) -> Result<Option<Vec<u8>>, ExtenderError> {
    if !data.is_empty() {
        let bytes = BASE64_STANDARD.decode(data.as_str());
        return bytes.map(Some).map_err(|error| ExtenderError::Tls(error.to_string()));
    }
    if file.is_empty() {
        return Ok(None);
    }
    let read_error = |error| ExtenderError::Read { file: file.into(), error };
    fs::read(file).map(Some).map_err(read_error)
}
