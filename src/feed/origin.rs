//! Where the objects of a poll come from.

use std::time::Duration;

use bytes::Bytes;
use control::reflector::{Page, StatusError};
use framework::HttpFeed;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::json;

use crate::api_client::{ApiClient, JSON, error_chain, https_connector, read_body};
use crate::wire::{Decoder, Update, status_error};

/// Maximum size of an answer in bytes, many times the size needed in a large cluster.
const MAX_ANSWER: usize = 256 << 20;

/// Time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(90);

/// A place that has all objects of a kind.
pub(super) enum Origin {
    /// A list of the API server.
    List {
        /// The client of the API server.
        client: ApiClient,
        /// The path of the list.
        path: String,
    },
    /// Another server.
    Server(Box<Server>),
    /// A server of which no client can be made.
    Unusable(String),
}

/// Another server, and a client of it.
pub(super) struct Server {
    feed: HttpFeed,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    /// The header `Authorization`.
    authorization: Option<HeaderValue>,
}

impl Origin {
    /// Returns the server of a feed. It is connected with the first request.
    pub(super) fn of(feed: HttpFeed) -> Self {
        let address = feed.server.address.clone();
        match Server::new(feed) {
            Ok(server) => Self::Server(Box::new(server)),
            Err(error) => Self::Unusable(format!("{address}: {error}")),
        }
    }

    /// Returns all objects that there are.
    ///
    /// # Errors
    /// The server does not answer, or its answer is not as expected.
    pub(super) async fn list(&self, decoder: &Decoder) -> Result<Page<Update>, String> {
        match self {
            Self::List { client, path } => {
                let response = client.get(path).await?;
                let status = response.status();
                let body =
                    read_body(response.into_body()).await.map_err(|error| error.to_string())?;
                match status {
                    StatusCode::OK => decoder.page(&body),
                    _ => Err(refusal(path, &status_error(status.as_u16(), None, &body))),
                }
            }
            Self::Server(server) => {
                let items = server.objects().await?;
                decoder.page(json!({"metadata": {}, "items": items}).to_string().as_bytes())
            }
            Self::Unusable(error) => Err(error.clone()),
        }
    }
}

impl Server {
    fn new(feed: HttpFeed) -> Result<Self, String> {
        let uri: Uri = feed.server.address.parse().map_err(|_| "is not an address".to_owned())?;
        let is_plain = uri.scheme_str() == Some("http");
        let mut config = kube::Config::new(uri);
        config.accept_invalid_certs = feed.server.accepts_any_certificate;
        if is_plain || config.accept_invalid_certs {
            // There may be no root certificates of the system.
            config.root_cert = Some(Vec::new());
        }
        let connector = https_connector(&config).map_err(|error| error_chain(&error))?;
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        let authorization = match &feed.server.token {
            Some(token) => {
                let header = HeaderValue::try_from(format!("Bearer {token}"));
                let mut header = header.map_err(|_| "the token cannot be sent".to_owned())?;
                header.set_sensitive(true);
                Some(header)
            }
            None => None,
        };
        Ok(Self { feed, client, authorization })
    }

    async fn objects(&self) -> Result<Vec<serde_json::Value>, String> {
        let mut answers = Vec::new();
        for path in &self.feed.paths {
            let url = format!("{}{path}", self.feed.server.address.trim_end_matches('/'));
            answers.push(self.get(&url).await.map_err(|error| format!("GET {url}: {error}"))?);
        }
        let bodies: Vec<&[u8]> = answers.iter().map(|answer| &**answer).collect();
        (self.feed.read)(&bodies)
    }

    async fn get(&self, url: &str) -> Result<Bytes, String> {
        let mut request = Request::get(url).header(ACCEPT, JSON);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::new()).map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| error_chain(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|error| error_chain(&*error))?.to_bytes();
        match status {
            StatusCode::OK => Ok(body),
            _ => Err(format!("status {status}{}", beginning(&body))),
        }
    }
}

/// Returns why the API server refused a list, and the remedy.
fn refusal(path: &str, StatusError { code, message, .. }: &StatusError) -> String {
    match code {
        403 => format!("{path}: not allowed: {message}; grant the verb list to this account"),
        404 => format!("{path}: the API server does not serve this kind: {message}"),
        _ => format!("{path}: the API server responded with status {code}: {message}"),
    }
}

/// Returns the beginning of a body, behind a colon, if it is a text.
fn beginning(body: &[u8]) -> String {
    const MOST: usize = 200;
    let text: String = String::from_utf8_lossy(body).trim().chars().take(MOST).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}
