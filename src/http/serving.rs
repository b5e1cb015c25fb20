//! Listening, serving and shutting down.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use socket2::{Domain, Protocol, Socket, Type};
use tracing::{error, info};

use super::App;
use super::acceptor::TlsAcceptor;
use super::access::Access;
use super::router::router;
use super::tls::{ServerTls, Tls, TlsError};

/// The settings of the server.
#[derive(Debug, Clone)]
pub struct Serving {
    /// `--bind-address` and `--secure-port`.
    pub address: SocketAddr,
    /// Whether other processes may listen on the same address and port (`--permit-port-sharing`).
    pub share_port: bool,
    /// Certificates and parameters of TLS.
    pub tls: Tls,
    /// Maximum number of concurrent requests on an HTTP/2 connection; `None` serves HTTP/1.1 only.
    pub max_streams: Option<u32>,
}

/// An error of starting the server.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The server cannot listen on the address.
    #[error(
        "failed to create listener: failed to listen on {address}: listen tcp {address}: bind: {}",
        reason(error)
    )]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// A certificate is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Formats the reason like Go, where the message is known.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "address already in use".to_owned(),
        io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// A bound port that does not serve requests yet.
pub struct Listener {
    tcp: TcpListener,
    tls: ServerTls,
    config: RustlsConfig,
    max_streams: Option<u32>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("tcp", &self.tcp).finish_non_exhaustive()
    }
}

impl Listener {
    /// Returns the address. If the configured port is 0, the system has chosen one.
    ///
    /// # Errors
    /// The system does not return the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// Binds the port and loads the certificates.
///
/// # Errors
/// The port is in use, or a certificate is invalid.
pub fn bind(serving: Serving) -> Result<Listener, ServingError> {
    let Serving { address, share_port, tls, max_streams } = serving;
    let tls = ServerTls::load(tls, address.ip(), max_streams.is_some())?;
    let config = RustlsConfig::from_config(tls.server_config()?);
    let tcp =
        listen(address, share_port).map_err(|error| ServingError::Listen { address, error })?;
    Ok(Listener { tcp, tls, config, max_streams })
}

/// Number of connections that may wait until they are accepted.
const BACKLOG: i32 = 1024;

/// Listens on an address. As in Go, `0.0.0.0` stands for all addresses, IPv6 included.
fn listen(address: SocketAddr, share_port: bool) -> io::Result<TcpListener> {
    if address.ip().is_unspecified() {
        let all = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
        match listen_on(all, share_port) {
            // The host has no IPv6.
            Err(error) if address.is_ipv4() && error.kind() != io::ErrorKind::AddrInUse => {}
            listener => return listener,
        }
    }
    listen_on(address, share_port)
}

fn listen_on(address: SocketAddr, share_port: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Otherwise the port is in use for a minute after a restart. On Linux this is also all that
    // `--permit-address-sharing` asks for.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share_port)?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Maximum time to receive the headers of a request, as in kube-scheduler.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
/// Maximum size of the headers of a request, in bytes.
const MAX_HEADERS: usize = 32 * 1024;

/// Time for requests in flight to end after the shutdown.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(1);

pub(super) fn set_limits(http: &mut auto::Builder<TokioExecutor>, max_streams: Option<u32>) {
    let mut http1 = http.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MAX_HEADERS);
    let mut http2 = http.http2();
    http2.max_concurrent_streams(max_streams).max_header_list_size(MAX_HEADERS as u32);
}

/// Serves requests until `shutdown` completes. Requests in flight then have another second.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    listener: Listener,
    access: Access,
    app: App,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let address = listener.address()?;
    let Listener { tcp, tls, config, max_streams } = listener;
    let router = router(app, &access);
    let handle = Handle::new();
    let acceptor = TlsAcceptor::new(config.clone());
    let mut server = axum_server::from_tcp(tcp)?.acceptor(acceptor).handle(handle.clone());
    set_limits(server.http_builder(), max_streams);
    let server = if max_streams.is_some() { server } else { server.http1_only() };
    info!("Serving securely on {address}");
    let served = server.serve(router.into_make_service());
    let stop = async {
        shutdown.await;
        handle.graceful_shutdown(Some(SHUTDOWN_GRACE_PERIOD));
    };
    let upkeep = async { tokio::join!(stop, reload_certificates(tls, &config), access.follow()) };
    tokio::select! {
        served = served => served,
        // The reloads never end, so this branch does not end before the other one.
        _ = upkeep => Ok(()),
    }
}

/// Reloads the certificates when their files change; never ends. An invalid certificate is logged,
/// and the old one stays in use.
async fn reload_certificates(mut tls: ServerTls, config: &RustlsConfig) {
    loop {
        tls.changed().await;
        match tls.server_config() {
            Ok(new) => {
                config.reload_from_config(new);
                info!("Reloaded the serving certificate");
            }
            Err(err) => error!(%err, "Failed to reload the serving certificate"),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use hyper_util::rt::TokioIo;
    use hyper_util::service::TowerToHyperService;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, sleep, timeout};

    use super::super::connection::Connections;
    use super::super::router::keep_open;
    use super::*;

    /// Serves a connection like `serve`, without TLS. Returns the end of the client.
    fn connect(connections: &Connections, router: Router) -> DuplexStream {
        let (client, server) = duplex(1024);
        let connection = connections.open(server);
        let router = router.layer(axum::Extension(connection.handling()));
        let mut http = auto::Builder::new(TokioExecutor::new());
        set_limits(&mut http, Some(100));
        tokio::spawn(async move {
            let service = TowerToHyperService::new(router);
            http.serve_connection(TokioIo::new(connection), service).await.map_err(drop)
        });
        client
    }

    /// Answers after five minutes, as a long profile does.
    fn slow() -> Router {
        let profile = async || {
            sleep(Duration::from_mins(5)).await;
            "profile"
        };
        let routes =
            Router::new().route("/profile", get(profile)).route("/livez", get(async || "ok"));
        routes.layer(from_fn(keep_open))
    }

    async fn answer(client: &mut DuplexStream, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn connection_stays_open_while_a_handler_works() {
        let connections = Connections::default();
        let mut client = connect(&connections, slow());
        let answer = answer(&mut client, "/profile").await;
        assert!(answer.ends_with("profile"), "{answer:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn connection_with_a_part_of_a_header_is_closed_after_the_header_timeout() {
        let mut client = connect(&Connections::default(), slow());
        let started = Instant::now();
        client.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\nX-Slow: ").await.unwrap();
        let trickle = async {
            while client.write_all(b"a").await.is_ok() {
                if timeout(Duration::from_secs(1), client.read(&mut [0; 64])).await.is_ok() {
                    break;
                }
            }
        };
        trickle.await;
        let open = started.elapsed();
        assert!(open <= HEADER_TIMEOUT + Duration::from_secs(2), "{open:?}");
        assert!(open >= HEADER_TIMEOUT, "{open:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn many_slow_clients_do_not_stop_another_one() {
        let connections = Connections::default();
        let mut slow_clients = Vec::new();
        for _ in 0..1000 {
            let mut client = connect(&connections, slow());
            client.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\nX-Slow: ").await.unwrap();
            tokio::task::yield_now().await;
            slow_clients.push(client);
        }
        let started = Instant::now();
        let mut probe = connect(&connections, slow());
        let answer = answer(&mut probe, "/livez").await;
        assert!(answer.ends_with("ok"), "{answer:?}");
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
