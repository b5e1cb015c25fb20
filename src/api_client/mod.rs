//! The client of the API server: credentials, transport and requests.

mod credentials;
mod frames;
mod kubeconfig;
mod lines;
mod server_status;
#[cfg(test)]
mod tests;
mod token_file;
mod transport;
mod unverified;
mod version;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control::{Method, Reply, Request, Response, Tried};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use kube::client::Body;

use self::transport::{CONNECT_TIMEOUT, HttpClient, WhenUnavailable, connect, was_not_sent};
use crate::clock::Clock;
use crate::metrics::RestClient;

pub use self::credentials::{ConnectError, Credentials, ServerFiles};
pub(crate) use self::frames::{FrameTooLong, Frames};
pub(crate) use self::lines::Lines;
pub use self::server_status::{ServerStatus, TOLERANCE};
pub(crate) use self::transport::{error_chain, https_connector};
pub use self::version::{Version, VersionError};
pub use self::watch::WatchFailed;

/// Maximum size in bytes of the response to a request other than a list or a watch: many times the
/// size of an object.
const MAX_RESPONSE: usize = 64 * 1024 * 1024;

/// Media type of JSON.
pub const APPLICATION_JSON: &str = "application/json";
/// Media type of a JSON merge patch.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// Media type of a strategic merge patch.
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// A request outside of the machines of the crate `control`, to be sent once.
#[derive(Debug, Clone)]
pub struct JsonRequest {
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Media type of the body.
    pub content_type: &'static str,
    /// Body.
    pub body: Vec<u8>,
    /// Time to wait for the reply.
    pub timeout: Duration,
}

/// A header of a request.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: &'a str,
}

/// An HTTP request, to be sent once.
struct HttpCall {
    method: Method,
    path: String,
    /// Media type of the body.
    content_type: &'static str,
    body: Vec<u8>,
    timeout: Duration,
}

impl From<Request> for HttpCall {
    fn from(request: Request) -> Self {
        let Request { method, path, content_type, body, timeout, .. } = request;
        Self { method, path, content_type, body, timeout }
    }
}

/// A client of the API server. Clones share its connection.
#[derive(Clone)]
pub struct ApiClient {
    client: HttpClient,
    host: Arc<str>,
    metrics: RestClient,
    status: Arc<ServerStatus>,
    /// Maximum size in bytes of the response to a request other than a list or a watch.
    max_response: usize,
}

impl ApiClient {
    /// Creates a client whose user agent names `component`. It connects with the first request. All
    /// requests share one connection if the server speaks HTTP/2. The client records the outcome of
    /// requests that are not watches in `status`.
    ///
    /// # Errors
    /// The credentials cannot be used.
    pub fn new(
        credentials: &Credentials,
        component: &str,
        metrics: RestClient,
        status: Arc<ServerStatus>,
    ) -> Result<Self, ConnectError> {
        Self::connect(credentials, component, WhenUnavailable::Stay, metrics, status)
    }

    /// Creates a client for replicas of which one is ready, behind a load balancer. After an answer
    /// with status 503 it connects anew, and may reach another one. Otherwise it is like
    /// [`new`](Self::new), and no status is recorded.
    ///
    /// # Errors
    /// The credentials cannot be used.
    pub fn of_replicas(
        credentials: &Credentials,
        component: &str,
        metrics: RestClient,
    ) -> Result<Self, ConnectError> {
        let status = Arc::default();
        Self::connect(credentials, component, WhenUnavailable::Leave, metrics, status)
    }

    fn connect(
        credentials: &Credentials,
        component: &str,
        when_unavailable: WhenUnavailable,
        metrics: RestClient,
        status: Arc<ServerStatus>,
    ) -> Result<Self, ConnectError> {
        let config = &credentials.0;
        let client = connect(config, component, when_unavailable)
            .map_err(|error| ConnectError::Credentials(Box::new(error)))?;
        let host = config.cluster_url.authority().map_or("", |authority| authority.as_str());
        Ok(Self { client, host: host.into(), metrics, status, max_response: MAX_RESPONSE })
    }

    /// Sets the maximum size in bytes of responses. A longer one counts as lost.
    #[must_use]
    pub fn with_max_response(self, max_response: usize) -> Self {
        Self { max_response, ..self }
    }

    /// Sends a request once and waits for the reply.
    pub async fn send(&self, request: Request) -> Reply {
        let (method, waited) = (request.method, request.waited);
        self.metrics.waited(method.as_str(), &self.host, waited);
        if let Some(Tried { status }) = request.retry_of {
            self.metrics.retried(method.as_str(), &self.host, status);
        }
        self.call(request.into()).await
    }

    /// Creates an object from its JSON: sends a POST request once and waits for the reply.
    pub async fn create(&self, path: &str, body: Vec<u8>, timeout: Duration) -> Reply {
        let (method, path) = (Method::Post, path.to_owned());
        self.call(HttpCall { method, path, content_type: "application/json", body, timeout }).await
    }

    /// Sends a request with a body of JSON once and waits for the reply.
    pub async fn request(&self, request: JsonRequest) -> Reply {
        let JsonRequest { method, path, content_type, body, timeout } = request;
        self.call(HttpCall { method, path, content_type, body, timeout }).await
    }

    async fn call(&self, call: HttpCall) -> Reply {
        let (timeout, method, sent) = (call.timeout, call.method, call.body.len());
        let clock = Clock::start();
        let reply = match tokio::time::timeout(timeout, self.exchange(call)).await {
            Ok(Ok(response)) => Reply::Answered(response),
            Ok(Err(error)) if was_not_sent(&error) => Reply::NotSent(error_chain(&error)),
            Ok(Err(error)) => Reply::Lost(error_chain(&error)),
            Err(_) => Reply::Lost(no_response(timeout)),
        };
        self.observe(method, &reply, sent, clock.elapsed());
        self.status.requested(failure(&reply).as_deref());
        reply
    }

    fn observe(&self, method: Method, reply: &Reply, sent: usize, took: Duration) {
        let (status, received) = match reply {
            Reply::Answered(response) => (Some(response.status), response.body.len()),
            Reply::Rejected(_) | Reply::NotSent(_) | Reply::Lost(_) => (None, 0),
        };
        self.metrics.requested(method.as_str(), &self.host, status);
        self.metrics.took(method.as_str(), &self.host, took, sent, received);
    }

    /// Sends a GET request for `path`. Returns the response, whose body is still being received.
    ///
    /// # Errors
    /// The server did not respond.
    pub async fn get(&self, path: &str) -> Result<http::Response<Incoming>, String> {
        self.get_as(path, JSON).await
    }

    /// Sends a GET request for the metadata of the objects at `path`, and otherwise behaves like
    /// [`get`](Self::get).
    ///
    /// # Errors
    /// The server did not respond.
    pub async fn get_metadata(&self, path: &str) -> Result<http::Response<Incoming>, String> {
        self.get_as(path, METADATA).await
    }

    /// Returns whether the object at `path` exists, of which only the metadata is asked for; `None`
    /// if the server does not say so.
    pub async fn exists(&self, path: &str) -> Option<bool> {
        let response = self.get_metadata(path).await.ok()?;
        match response.status().as_u16() {
            200 => Some(true),
            // The API server says the same of a path that it does not serve, without naming an
            // object.
            404 => {
                let body = read_body(response.into_body()).await.ok()?;
                let status: serde_json::Value = serde_json::from_slice(&body).ok()?;
                status["details"]["name"].is_string().then_some(false)
            }
            _ => None,
        }
    }

    /// Sends a GET request for `path` with this header, or a POST request if there is a body of
    /// YAML. Otherwise behaves like [`get`](Self::get).
    ///
    /// # Errors
    /// The header is invalid, or the server did not respond.
    pub async fn ask(
        &self,
        path: &str,
        header: Option<Header<'_>>,
        body: Option<Vec<u8>>,
    ) -> Result<http::Response<Incoming>, String> {
        let request = match body {
            Some(_) => http::Request::post(path).header(CONTENT_TYPE, YAML),
            None => http::Request::get(path),
        };
        let request =
            header.into_iter().fold(request, |own, header| own.header(header.name, header.value));
        let body = body.map_or_else(Body::empty, Body::from);
        let request = request.header(ACCEPT, JSON).body(body).map_err(|error| error.to_string())?;
        let response = self.client.send(request).await;
        response.map_err(|error| error_chain(&error))
    }

    /// Sends a GET request for `path` in one of the media types of `accept`, and otherwise behaves
    /// like [`get`](Self::get).
    ///
    /// # Errors
    /// The server did not respond.
    pub async fn get_as(
        &self,
        path: &str,
        accept: &str,
    ) -> Result<http::Response<Incoming>, String> {
        let request = get_request(path, accept).map_err(|error| error_chain(&error))?;
        let response = self.client.send(request).await;
        let status = response.as_ref().ok().map(|response| response.status().as_u16());
        self.metrics.requested("GET", &self.host, status);
        response.map_err(|error| error_chain(&error))
    }

    /// Sends a POST request with a body of JSON. Returns the response, whose body is still being
    /// received.
    ///
    /// # Errors
    /// The server did not respond.
    pub async fn post(
        &self,
        path: &str,
        body: Vec<u8>,
    ) -> Result<http::Response<Incoming>, String> {
        let request = http::Request::post(path).header(ACCEPT, JSON).header(CONTENT_TYPE, JSON);
        let request = request.body(Body::from(body)).map_err(|error| error.to_string())?;
        let response = self.client.send(request).await;
        let status = response.as_ref().ok().map(|response| response.status().as_u16());
        self.metrics.requested("POST", &self.host, status);
        response.map_err(|error| error_chain(&error))
    }

    /// Reads the version of the server.
    ///
    /// # Errors
    /// The server did not respond with a version.
    pub async fn version(&self) -> Result<Version, VersionError> {
        let version = self.read_version().await;
        let failure = match &version {
            // The server works.
            Ok(_) | Err(VersionError::Withheld(_)) => None,
            Err(error) => Some(error.to_string()),
        };
        self.status.requested(failure.as_deref());
        version
    }

    async fn read_version(&self) -> Result<Version, VersionError> {
        let response = async {
            let response = self.client.send(get_request("/version", JSON)?).await?;
            Ok::<_, kube::Error>((response.status(), read_body(response.into_body()).await?))
        };
        let timed_out = |_| VersionError::Failed(no_response(CONNECT_TIMEOUT));
        match tokio::time::timeout(CONNECT_TIMEOUT, response).await.map_err(timed_out)?? {
            (StatusCode::UNAUTHORIZED, _) => Err(VersionError::Unauthorized),
            (StatusCode::OK, body) => serde_json::from_slice(&body)
                .map_err(|error| VersionError::Failed(format!("/version: {error}"))),
            (status @ (StatusCode::FORBIDDEN | StatusCode::NOT_FOUND), _) => {
                Err(VersionError::Withheld(status))
            }
            (status, _) => Err(VersionError::Failed(format!("/version: {status}"))),
        }
    }

    async fn exchange(&self, call: HttpCall) -> Result<Response, kube::Error> {
        let http = http::Request::builder()
            .method(call.method.as_str())
            .uri(&call.path)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, call.content_type)
            .body(Body::from(call.body))
            .map_err(kube::Error::HttpError)?;
        let response = self.client.send(http).await?;
        let (status, retry_after) = (response.status().as_u16(), retry_after(response.headers()));
        let body = Limited::new(response.into_body(), self.max_response).collect().await;
        let body = body.map_err(kube::Error::Service)?.to_bytes();
        Ok(Response { status, retry_after, body: body.into() })
    }
}

/// Returns why a reply shows that the server cannot be reached or does not accept the credentials.
/// A server that answers anything else works, even if it rejects the request.
fn failure(reply: &Reply) -> Option<String> {
    match reply {
        Reply::NotSent(reason) | Reply::Lost(reason) => Some(reason.clone()),
        Reply::Answered(response) if response.status == StatusCode::UNAUTHORIZED => {
            Some(VersionError::Unauthorized.to_string())
        }
        Reply::Answered(_) | Reply::Rejected(_) => None,
    }
}

/// The error message for a timeout.
pub(crate) fn no_response(timeout: Duration) -> String {
    format!("no response within {timeout:?}")
}

/// Media type of whole objects.
pub(crate) const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
/// Media types of lists of metadata; servers that do not know the first one send whole objects.
const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

fn get_request(path: &str, accept: &str) -> Result<http::Request<Body>, kube::Error> {
    let request = http::Request::get(path).header(ACCEPT, accept);
    request.body(Body::empty()).map_err(kube::Error::HttpError)
}

/// Reads a body to its end.
///
/// # Errors
/// The connection failed.
pub(crate) async fn read_body(body: Incoming) -> Result<Bytes, kube::Error> {
    let read = body.collect().await.map_err(|error| kube::Error::Service(error.into()));
    Ok(read?.to_bytes())
}

/// Returns the `Retry-After` header, which the API server sends in seconds.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
