//! The way to one extender: its address, TLS, time limit.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use client::{Reply, Response};
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

use crate::config::Base64;
use crate::config::v1::{self, TlsConfig};
use crate::drive::{https_connector, reasons};

/// How long a call may take where the configuration does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest answer that is read: many times what a large cluster needs.
const LONGEST_ANSWER: usize = 1 << 30;

/// An extender that cannot be used as it is configured.
#[derive(Debug, Error)]
pub enum ExtenderError {
    /// There is no calling this address. It is not shown if it has a password in it.
    #[error("urlPrefix {0:?} is not the address of a server, like http://extender.example.com/v1")]
    Address(String),
    /// The address names a user.
    #[error("urlPrefix: a user in the address is not supported: take it out of the one for {0}")]
    User(String),
    /// A file cannot be read.
    #[error("open {}: {error}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no certificate of an authority in what should have one.
    #[error("tlsConfig: unable to load root certificates: no PEM certificate in {0}")]
    NoAuthority(&'static str),
    /// It makes no sense to name authorities and not to ask them.
    #[error("specifying a root certificates file with the insecure flag is not allowed")]
    InsecureAuthority,
    /// The certificates, the key or the server name are no good.
    #[error("tlsConfig: {0}")]
    Tls(String),
}

/// The way to one extender. The connection is made when it is needed, and kept.
pub(super) struct Connection {
    address: String,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
}

/// Without the client, which knows the key.
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
        let connector = connector.map_err(|error| ExtenderError::Tls(reasons(&error)))?;
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

    /// Posts a question once. Only 200 counts as an answer.
    pub(super) async fn post(&self, verb: &str, body: Bytes) -> Reply {
        let url = format!("{}/{verb}", self.address);
        let request = Request::post(&url).header(CONTENT_TYPE, "application/json");
        let request = match request.body(Full::new(body)) {
            Ok(request) => request,
            Err(error) => return Reply::NotSent(format!("Post {url:?}: {error}")),
        };
        let deadline = Instant::now() + self.timeout;
        let response = match timeout_at(deadline, self.client.request(request)).await {
            Err(_) => return late(&url, "Client.Timeout exceeded while awaiting headers"),
            Ok(Err(error)) => {
                let text = format!("Post {url:?}: {}", reasons(&error));
                return if error.is_connect() { Reply::NotSent(text) } else { Reply::Lost(text) };
            }
            Ok(Ok(response)) => response,
        };
        if response.status() != StatusCode::OK {
            let code = response.status().as_u16();
            let text = format!("failed {verb} with extender at URL {url}, code {code}");
            return Reply::Refused(text);
        }
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect();
        match timeout_at(deadline, body).await {
            Err(_) => late(&url, "Client.Timeout or context cancellation while reading body"),
            Ok(Err(error)) => Reply::Lost(format!("Post {url:?}: {}", reasons(&*error))),
            Ok(Ok(body)) => {
                let body = body.to_bytes().into();
                Reply::Answered(Response { status: 200, retry_after: None, body })
            }
        }
    }
}

/// In the words of Go.
fn late(url: &str, what: &str) -> Reply {
    Reply::Lost(format!("Post {url:?}: context deadline exceeded ({what})"))
}

/// Address and TLS settings in the form in which those of API servers are kept.
fn tls(address: &str, extender: &v1::Extender) -> Result<kube::Config, ExtenderError> {
    let uri = server(address)?;
    let is_plain = uri.scheme_str() == Some("http");
    let mut config = kube::Config::new(uri);
    let tls = extender.tls_config.clone().unwrap_or_default();
    let authorities = authorities(&tls)?;
    if tls.insecure && authorities.is_some() {
        return Err(ExtenderError::InsecureAuthority);
    }
    // As in kube-scheduler: whoever turns TLS on and names no authority does not check the server.
    config.accept_invalid_certs = tls.insecure || (extender.enable_https && authorities.is_none());
    let is_checked_by_system = !config.accept_invalid_certs && !is_plain;
    // Those of the system are not even looked for where nobody asks them: there may be none.
    config.root_cert = authorities.or_else(|| (!is_checked_by_system).then(Vec::new));
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

fn authorities(tls: &TlsConfig) -> Result<Option<Vec<Vec<u8>>>, ExtenderError> {
    let Some(pem) = bytes(&tls.ca_data, &tls.ca_file)? else { return Ok(None) };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => {
            Ok(Some(found.into_iter().map(|authority| authority.to_vec()).collect()))
        }
        _ => Err(ExtenderError::NoAuthority(if tls.ca_data.is_empty() {
            "caFile"
        } else {
            "caData"
        })),
    }
}

/// What is given as data or in a file; data goes first.
fn bytes(data: &Base64, file: &str) -> Result<Option<Vec<u8>>, ExtenderError> {
    if !data.is_empty() {
        let bytes = BASE64_STANDARD.decode(data.as_str());
        return bytes.map(Some).map_err(|error| ExtenderError::Tls(error.to_string()));
    }
    if file.is_empty() {
        return Ok(None);
    }
    let fault = |error| ExtenderError::Read { file: file.into(), error };
    fs::read(file).map(Some).map_err(fault)
}
