//! The connection to the API server: credentials, TLS, HTTP/2.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Method, Reply, Request, Response};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde::Deserialize;
use thiserror::Error;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::Clock;
use crate::metrics::RestClient;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection that is silent for this long is asked for a sign of life, as client-go does.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long the sign of life may take.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Why there is no way to the API server.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Neither a kubeconfig was named nor does this run in a pod.
    #[error(
        "invalid configuration: no configuration has been provided: give --kubeconfig FILE (or \
         clientConnection.kubeconfig in the configuration), or run in a pod with a service account"
    )]
    NoConfiguration,
    /// The kubeconfig cannot be read or used.
    #[error("kubeconfig {path}: {}", reasons(.error))]
    Kubeconfig {
        /// Where it is.
        path: PathBuf,
        /// What is wrong; not the source, since the text above has it.
        error: Box<KubeconfigError>,
    },
    /// The credentials of the pod cannot be used.
    #[error("in-cluster credentials: {0}: does the pod have a service account token?")]
    InCluster(#[from] kube::config::InClusterError),
    /// `--master` is no address.
    #[error("--master: {0:?} is not the address of a server, like https://10.0.0.1:6443")]
    Master(String),
    /// The kubeconfig asks for a proxy.
    #[error("proxy-url: connections through a proxy are not built yet")]
    Proxy,
    /// Certificates, keys or credentials are no good.
    #[error("credentials: {0}")]
    Credentials(Box<kube::Error>),
}

/// An error with what caused it, in one line.
pub(crate) fn reasons(error: &(dyn std::error::Error + 'static)) -> String {
    let error = match error.downcast_ref() {
        // It only says that there is something behind it.
        Some(kube::Error::Service(error)) => error.as_ref(),
        _ => error,
    };
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        cause = error.source();
    }
    text
}

/// What the server says of itself.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// For example `v1.36.2`.
    pub git_version: String,
    minor: String,
}

impl Version {
    /// The minor version; some providers write `36+`.
    pub fn minor(&self) -> Option<u32> {
        self.minor.trim_end_matches('+').parse().ok()
    }
}

/// Why the server does not tell its version.
#[derive(Debug, Error)]
pub enum VersionError {
    /// It does not accept who we are.
    #[error(
        "the server does not accept the credentials (401 Unauthorized): renew the token or \
         certificate of the kubeconfig's user"
    )]
    Unauthorized,
    /// It is not who it should be.
    #[error("{0}: check certificate-authority and server of the kubeconfig's cluster")]
    Untrusted(String),
    /// No usable answer came.
    #[error("{0}")]
    Failed(String),
}

impl VersionError {
    /// Whether waiting does not help.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Unauthorized | Self::Untrusted(_))
    }
}

impl From<kube::Error> for VersionError {
    fn from(error: kube::Error) -> Self {
        match is_untrusted(&error) {
            true => Self::Untrusted(reasons(&error)),
            false => Self::Failed(reasons(&error)),
        }
    }
}

/// A connection to the API server. Clones share it.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    host: Arc<str>,
    metrics: RestClient,
}

/// The address of the server and the credentials.
#[derive(Debug, Clone)]
pub struct Credentials(kube::Config);

impl Credentials {
    /// Those in a kubeconfig, or of the pod this runs in. `master` overrides the address.
    ///
    /// # Errors
    /// There are none, or they cannot be used.
    pub async fn find(
        kubeconfig: Option<&Path>,
        master: Option<&str>,
    ) -> Result<Self, ConnectError> {
        let mut config = match kubeconfig {
            Some(path) => from_file(path).await?,
            None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
                kube::Config::incluster()?
            }
            None => return Err(ConnectError::NoConfiguration),
        };
        if let Some(master) = master {
            config.cluster_url =
                master.parse().map_err(|_| ConnectError::Master(master.to_owned()))?;
        }
        if config.proxy_url.is_some() {
            return Err(ConnectError::Proxy);
        }
        Ok(Self(config))
    }

    /// Those in the text of a kubeconfig.
    ///
    /// # Errors
    /// They cannot be used.
    pub async fn of(kubeconfig: &str) -> Result<Self, ConnectError> {
        let fault = |error| ConnectError::Kubeconfig {
            path: PathBuf::from("(in memory)"),
            error: Box::new(error),
        };
        let file = Kubeconfig::from_yaml(kubeconfig).map_err(fault)?;
        let options = KubeConfigOptions::default();
        Ok(Self(kube::Config::from_custom_kubeconfig(file, &options).await.map_err(fault)?))
    }

    /// The address of the server.
    pub fn server(&self) -> String {
        self.0.cluster_url.to_string()
    }
}

async fn from_file(path: &Path) -> Result<kube::Config, ConnectError> {
    let fault = |error| ConnectError::Kubeconfig { path: path.to_owned(), error: Box::new(error) };
    let file = Kubeconfig::read_from(path).map_err(fault)?;
    kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(fault)
}

impl Api {
    /// A connection with these credentials; it is made when first used. All requests share it, as far
    /// as the server speaks HTTP/2.
    ///
    /// # Errors
    /// The credentials cannot be used.
    pub fn new(credentials: &Credentials, metrics: RestClient) -> Result<Self, ConnectError> {
        let config = &credentials.0;
        let client = connect(config).map_err(|error| ConnectError::Credentials(Box::new(error)))?;
        let host = config.cluster_url.authority().map_or("", |authority| authority.as_str());
        Ok(Self { client, host: host.into(), metrics })
    }

    /// Sends a request, once, and waits for what becomes of it.
    pub async fn send(&self, request: Request) -> Reply {
        let (timeout, method, sent) = (request.timeout, request.method, request.body.len());
        let started = Clock::start();
        let reply = match tokio::time::timeout(timeout, self.exchange(request)).await {
            Ok(Ok(response)) => Reply::Answered(response),
            Ok(Err(error)) if never_sent(&error) => Reply::NotSent(reasons(&error)),
            Ok(Err(error)) => Reply::Lost(reasons(&error)),
            Err(_) => Reply::Lost(format!("no answer within {timeout:?}")),
        };
        self.count(method, &reply, sent, started.elapsed());
        reply
    }

    fn count(&self, method: Method, reply: &Reply, sent: usize, took: Duration) {
        let (status, received) = match reply {
            Reply::Answered(response) => (Some(response.status), response.body.len()),
            Reply::Refused(_) | Reply::NotSent(_) | Reply::Lost(_) => (None, 0),
        };
        self.metrics.requested(method.as_str(), &self.host, status);
        self.metrics.took(method.as_str(), &self.host, took, sent, received);
    }

    /// Asks for `path` and gives the head of the answer with its body still to come.
    ///
    /// # Errors
    /// No answer came.
    pub async fn get(&self, path: &str) -> Result<http::Response<Body>, String> {
        let request = get(path).map_err(|error| reasons(&error))?;
        let answer = self.client.send(request).await;
        let status = answer.as_ref().ok().map(|response| response.status().as_u16());
        self.metrics.requested("GET", &self.host, status);
        answer.map_err(|error| reasons(&error))
    }

    /// Asks the server for its version.
    ///
    /// # Errors
    /// It does not answer, or not with a version.
    pub async fn version(&self) -> Result<Version, VersionError> {
        let answer = async {
            let response = self.client.send(get("/version")?).await?;
            Ok::<_, kube::Error>((response.status(), whole(response.into_body()).await?))
        };
        let late = |_| VersionError::Failed(format!("no answer within {CONNECT_TIMEOUT:?}"));
        match tokio::time::timeout(CONNECT_TIMEOUT, answer).await.map_err(late)?? {
            (StatusCode::UNAUTHORIZED, _) => Err(VersionError::Unauthorized),
            (StatusCode::OK, body) => serde_json::from_slice(&body)
                .map_err(|error| VersionError::Failed(format!("/version: {error}"))),
            (status, _) => Err(VersionError::Failed(format!("/version: {status}"))),
        }
    }

    async fn exchange(&self, request: Request) -> Result<Response, kube::Error> {
        let http = http::Request::builder()
            .method(request.method.as_str())
            .uri(&request.path)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, request.content_type)
            .body(Body::from(request.body))
            .map_err(kube::Error::HttpError)?;
        let response = self.client.send(http).await?;
        let (status, retry_after) = (response.status().as_u16(), retry_after(response.headers()));
        let body = whole(response.into_body()).await?;
        Ok(Response { status, retry_after, body: body.into() })
    }
}

fn get(path: &str) -> Result<http::Request<Body>, kube::Error> {
    let request = http::Request::get(path).header(ACCEPT, "application/json");
    request.body(Body::empty()).map_err(kube::Error::HttpError)
}

/// A body, once all of it has come.
///
/// # Errors
/// The connection broke.
pub(super) async fn whole(body: Body) -> Result<Bytes, kube::Error> {
    Ok(body.collect().await?.to_bytes())
}

/// The `Retry-After` header, which the API server gives in seconds.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The error and what caused it, one after the other.
fn chain(error: &kube::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: &(dyn std::error::Error + 'static) = match error {
        kube::Error::Service(error) => error.as_ref(),
        error => error,
    };
    // What an I/O error carries is not its source, only the source of that is.
    std::iter::successors(Some(first), |error| match error.downcast_ref::<std::io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static)),
        None => error.source(),
    })
}

/// Whether the request cannot have reached the server.
fn never_sent(error: &kube::Error) -> bool {
    let connecting = |error: &(dyn std::error::Error + 'static)| {
        error.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
    };
    matches!(error, kube::Error::Auth(_)) || chain(error).any(connecting)
}

/// Whether the certificate of the server is not to be trusted.
fn is_untrusted(error: &kube::Error) -> bool {
    chain(error)
        .any(|error| matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))))
}

/// The HTTP stack. That of kube speaks HTTP/1.1 only, where each request under way takes a
/// connection of its own, and repeats requests by itself, which a binding must never be.
fn connect(config: &kube::Config) -> Result<kube::Client, kube::Error> {
    let client = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_adaptive_window(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build(https_connector(config)?);
    let agent = format!("loadmaster/{} (linux) scheduler", env!("CARGO_PKG_VERSION"));
    let agent =
        HeaderValue::try_from(agent).map_err(|error| kube::Error::HttpError(error.into()))?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(move |mut request: http::Request<Body>| {
            request.headers_mut().insert(USER_AGENT, agent.clone());
            request
        })
        .map_err(BoxError::from)
        .service(client);
    Ok(kube::Client::new(service.boxed(), config.default_namespace.clone()))
}

/// What makes connections with the TLS settings in there.
pub(crate) fn https_connector(
    config: &kube::Config,
) -> Result<HttpsConnector<HttpConnector>, kube::Error> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let mut https = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|error| {
            kube::Error::Service(format!("tls-server-name {name:?}: {error}").into())
        })?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(https.enable_all_versions().wrap_connector(http))
}
