//! The HTTP stack: TLS, HTTP/2, keepalive, and the classification of its errors.

use std::error::Error;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{HttpConnector, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// Timeout of establishing a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Idle time after which TCP probes a connection, which matters to HTTP/1.1 without pings.
const KEEPALIVE_TIME: Duration = Duration::from_secs(30);
/// Time between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of lost probes after which the connection is dead: 45 seconds after the last byte.
const KEEPALIVE_RETRIES: u32 = 3;
/// Idle time after which an HTTP/2 connection is pinged, as in client-go.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time to wait for the response to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// What a client does with a connection on which a server has answered that it is unavailable (503).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenUnavailable {
    /// It keeps the connection.
    Stay,
    /// It uses the connection for no other request, so that the next one may reach another server behind the same address.
    Leave,
}

/// Creates the HTTP client of a kubeconfig. The user agent names `component`.
///
/// The stack of the kube crate is not used: it speaks only HTTP/1.1, where each concurrent request
/// needs its own connection, and it retries requests, which must not happen to a binding.
///
/// # Errors
/// The TLS settings or the credentials cannot be used.
pub(super) fn connect(
    config: &kube::Config,
    component: &str,
    when_unavailable: WhenUnavailable,
) -> Result<kube::Client, kube::Error> {
    let client = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_adaptive_window(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build(https_connector(config)?);
    let agent = format!("loadmaster/{} (linux)/{component}", env!("CARGO_PKG_VERSION"));
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
        .service_fn(move |request| send(client.clone(), request, when_unavailable));
    Ok(kube::Client::new(service.boxed(), config.default_namespace.clone()))
}

async fn send(
    client: legacy::Client<HttpsConnector<HttpConnector>, Body>,
    mut request: http::Request<Body>,
    when_unavailable: WhenUnavailable,
) -> Result<http::Response<Incoming>, legacy::Error> {
    if when_unavailable == WhenUnavailable::Stay {
        return client.request(request).await;
    }
    let connection = capture_connection(&mut request);
    let response = client.request(request).await?;
    if response.status() == StatusCode::SERVICE_UNAVAILABLE
        && let Some(connection) = &*connection.connection_metadata()
    {
        connection.poison();
    }
    Ok(response)
}

/// Creates a connector with the TLS settings of a kubeconfig.
///
/// # Errors
/// The TLS settings cannot be used.
pub(crate) fn https_connector(
    config: &kube::Config,
) -> Result<HttpsConnector<HttpConnector>, kube::Error> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(KEEPALIVE_TIME));
    http.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    http.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
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

/// Formats an error with its sources in one line.
pub(crate) fn error_chain(error: &(dyn Error + 'static)) -> String {
    let error = match error.downcast_ref() {
        // This variant only wraps the error of the service.
        Some(kube::Error::Service(error)) => error.as_ref(),
        _ => error,
    };
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let reason = error.to_string();
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        source = error.source();
    }
    text
}

/// Returns whether the server cannot have received the request.
pub(super) fn was_not_sent(error: &kube::Error) -> bool {
    let is_connect = |error: &(dyn Error + 'static)| {
        error.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
    };
    matches!(error, kube::Error::Auth(_)) || sources(error).any(is_connect)
}

/// Returns whether the certificate of the server is not trusted.
pub(super) fn is_untrusted(error: &kube::Error) -> bool {
    sources(error)
        .any(|error| matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))))
}

/// Iterates over the error and its sources.
fn sources(error: &kube::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = match error {
        kube::Error::Service(error) => error.as_ref(),
        error => error,
    };
    // `source` of an I/O error skips the error that it wraps.
    std::iter::successors(Some(first), |&error| match error.downcast_ref::<std::io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;

    use tower::Service;

    use super::*;

    /// Returns whether the system probes the connection to this local port when it is idle: its timer is
    /// that of keepalive, number 2.
    fn is_probed(port: u16) -> bool {
        let table = fs::read_to_string("/proc/self/net/tcp").unwrap();
        let remote = format!("0100007F:{port:04X}");
        let connection = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut timers =
            connection.filter(|columns| columns[2] == remote).map(|columns| columns[5]);
        timers.any(|timer| timer.starts_with("02:"))
    }

    #[tokio::test]
    async fn idle_connection_is_probed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server: http::Uri = format!("http://127.0.0.1:{port}").parse().unwrap();
        let mut config = kube::Config::new(server.clone());
        // The system may have no root certificates.
        config.root_cert = Some(Vec::new());
        let mut connector = https_connector(&config).unwrap();
        let _connection = connector.call(server).await.unwrap();
        let _accepted = listener.accept().unwrap();
        assert!(is_probed(port));
    }
}
