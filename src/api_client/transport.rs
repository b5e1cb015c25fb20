//! The HTTP stack: TLS, HTTP/2, keepalive, and the classification of its errors.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connect, HttpConnector, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use percent_encoding::percent_decode_str;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::token_file::TokenFile;
use super::unverified::AnyServerCertificate;

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

/// What a client does with a connection on which a server has answered that it is unavailable
/// (503).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenUnavailable {
    /// It keeps the connection.
    Stay,
    /// It uses the connection for no other request, so that the next one may reach another server
    /// behind the same address.
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
) -> Result<HttpClient, kube::Error> {
    let Some(proxy) = &config.proxy_url else {
        return client_over(https_connector(config)?, config, component, when_unavailable);
    };
    let credentials = credentials_of(proxy);
    match proxy.scheme_str() {
        Some("http") => {
            let tunnel = Tunnel::new(address_of(proxy)?, http_connector());
            let tunnel = match credentials {
                None => tunnel,
                Some((user, password)) => {
                    let text = BASE64.encode(format!("{user}:{password}"));
                    let header = HeaderValue::try_from(format!("Basic {text}"));
                    tunnel.with_auth(header.map_err(|error| kube::Error::HttpError(error.into()))?)
                }
            };
            client_over(over_tls(tunnel, config)?, config, component, when_unavailable)
        }
        Some("socks5") => {
            let socks = SocksV5::new(address_of(proxy)?, http_connector());
            let socks = match credentials {
                None => socks,
                Some((user, password)) => socks.with_auth(user, password),
            };
            client_over(over_tls(socks, config)?, config, component, when_unavailable)
        }
        scheme => {
            let scheme = scheme.unwrap_or_default();
            let text = format!(
                "proxy-url: {scheme:?} proxies are not supported, expected http://HOST:PORT or socks5://HOST:PORT"
            );
            Err(kube::Error::Service(text.into()))
        }
    }
}

/// Returns user and password in the address of a proxy.
fn credentials_of(proxy: &http::Uri) -> Option<(String, String)> {
    let (credentials, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decoded(user), decoded(password)))
}

/// Returns the address of a proxy without credentials.
fn address_of(proxy: &http::Uri) -> Result<http::Uri, kube::Error> {
    let authority = proxy.authority().map_or("", |authority| authority.as_str());
    let address = authority.rsplit('@').next().unwrap_or_default();
    let scheme = proxy.scheme_str().unwrap_or("http");
    let address = format!("{scheme}://{address}").parse();
    address.map_err(|error: http::uri::InvalidUri| kube::Error::HttpError(error.into()))
}

/// Creates the HTTP client over connections of this kind.
fn client_over<C: Connect + Clone + Send + Sync + 'static>(
    connector: C,
    config: &kube::Config,
    component: &str,
    when_unavailable: WhenUnavailable,
) -> Result<HttpClient, kube::Error> {
    let client = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_adaptive_window(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build(connector);
    let agent = format!("loadmaster/{} (linux)/{component}", env!("CARGO_PKG_VERSION"));
    let agent =
        HeaderValue::try_from(agent).map_err(|error| kube::Error::HttpError(error.into()))?;
    let token = token_file(config)?.map(Arc::new);
    let auth = if token.is_none() { config.auth_layer()? } else { None };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(auth)
        .layer(config.extra_headers_layer()?)
        .map_request(move |mut request: http::Request<Body>| {
            let headers = request.headers_mut();
            headers.insert(USER_AGENT, agent.clone());
            if let Some(token) = &token {
                headers.insert(AUTHORIZATION, token.header());
            }
            request
        })
        .map_err(BoxError::from)
        .service_fn(move |request| send(client.clone(), request, when_unavailable));
    Ok(HttpClient(BoxCloneSyncService::new(service)))
}

/// Opens the token file of the credentials, if there is one. The kube crate takes the end of the
/// line for a part of the token. A token beside the file counts only if the file cannot be read, as
/// in client-go.
fn token_file(config: &kube::Config) -> Result<Option<TokenFile>, kube::Error> {
    let user = &config.auth_info;
    match user.token_file.as_deref().map(|path| TokenFile::open(Path::new(path))) {
        Some(Err(_)) if user.token.is_some() => Ok(None),
        opened => opened.transpose(),
    }
}

/// A client that adds address and credentials to requests. Clones share its connections.
///
/// The client of the kube crate passes each request through a task of its own.
#[derive(Debug, Clone)]
pub(super) struct HttpClient(
    BoxCloneSyncService<http::Request<Body>, http::Response<Incoming>, BoxError>,
);

impl HttpClient {
    /// Sends a request once. Returns the response, whose body is still being received.
    ///
    /// # Errors
    /// There is no connection, or it failed.
    pub(super) async fn send(
        &self,
        request: http::Request<Body>,
    ) -> Result<http::Response<Incoming>, kube::Error> {
        let sent = self.0.clone().oneshot(request).await;
        sent.map_err(|error| match error.downcast() {
            Ok(error) => *error,
            Err(error) => kube::Error::Service(error),
        })
    }
}

async fn send<C: Connect + Clone + Send + Sync + 'static>(
    client: legacy::Client<C, Body>,
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
    over_tls(http_connector(), config)
}

fn http_connector() -> HttpConnector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(KEEPALIVE_TIME));
    http.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    http.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    http
}

/// Adds the TLS settings of a kubeconfig to connections.
fn over_tls<C>(connector: C, config: &kube::Config) -> Result<HttpsConnector<C>, kube::Error> {
    let mut tls = config.rustls_client_config()?;
    if config.accept_invalid_certs {
        let verifier = AnyServerCertificate::new(tls.crypto_provider().clone());
        tls.dangerous().set_certificate_verifier(Arc::new(verifier));
    }
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|error| {
            kube::Error::Service(format!("tls-server-name {name:?}: {error}").into())
        })?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(https.enable_all_versions().wrap_connector(connector))
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
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use tower::Service;

    use super::*;

    /// Returns whether the system probes the connection to this local port when it is idle: its
    /// timer is that of keepalive, number 2.
    fn is_probed(port: u16) -> bool {
        let table = fs::read_to_string("/proc/self/net/tcp").unwrap();
        let remote = format!("0100007F:{port:04X}");
        let connection = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut timers =
            connection.filter(|columns| columns[2] == remote).map(|columns| columns[5]);
        timers.any(|timer| timer.starts_with("02:"))
    }

    /// A proxy that answers one request in the place of the server. Returns its port.
    #[expect(clippy::disallowed_methods, reason = "the proxy is no part of the program")]
    fn proxy(expected_head: &'static [&'static str]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = || {
                let mut head = String::new();
                while reader.read_line(&mut head).unwrap() > 2 {}
                head
            };
            let connect = head();
            let is_expected = expected_head.iter().all(|part| connect.contains(part));
            let status = if is_expected { "200 OK" } else { "400 Bad Request" };
            (&stream).write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).unwrap();
            head();
            (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        });
        port
    }

    async fn asked_through(proxy: &str) -> Result<StatusCode, kube::Error> {
        let mut config = kube::Config::new("http://api.example.com:8080".parse().unwrap());
        config.root_cert = Some(Vec::new());
        config.proxy_url = Some(proxy.parse().unwrap());
        let client = connect(&config, "test", WhenUnavailable::Stay)?;
        let request = http::Request::get("/version").body(Body::empty()).unwrap();
        Ok(client.send(request).await?.status())
    }

    #[tokio::test]
    async fn requests_go_through_the_proxy_of_the_kubeconfig() {
        let port = proxy(&["CONNECT api.example.com:8080 ", "Basic dTpwQHNz"]);
        let asked = asked_through(&format!("http://u:p%40ss@127.0.0.1:{port}")).await;
        assert_eq!(asked.unwrap(), StatusCode::OK);
        let error = asked_through("ftp://127.0.0.1:1").await.unwrap_err();
        assert!(error_chain(&error).contains("expected http://HOST:PORT"), "{error:?}");
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
