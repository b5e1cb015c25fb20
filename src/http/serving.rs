//! Listening, serving and shutting down.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum_server::Handle;
use axum_server::tls_rustls::{RustlsConfig, from_tcp_rustls};
use hyper_util::rt::TokioTimer;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info};

use super::App;
use super::router::router;
use super::tls::{Certificate, TlsError, TlsVersion};

/// The settings of the server.
#[derive(Debug, Clone)]
pub struct Serving {
    /// `--bind-address` and `--secure-port`.
    pub address: SocketAddr,
    /// Serving certificate.
    pub certificate: Certificate,
    /// Minimum version of TLS (`--tls-min-version`).
    pub min_tls_version: TlsVersion,
    /// Paths that clients on other hosts may access.
    pub always_allow: Vec<String>,
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
    /// The certificate is invalid.
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
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    tls: RustlsConfig,
    serving: Serving,
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

/// Binds the port and loads the certificate.
///
/// # Errors
/// The port is in use, or the certificate is invalid.
pub fn bind(serving: Serving) -> Result<Listener, ServingError> {
    let Serving { address, certificate, min_tls_version, .. } = &serving;
    let config = certificate.load(address.ip(), *min_tls_version)?;
    if *certificate == Certificate::SelfSigned {
        info!("Generated self-signed cert in-memory");
    }
    let listen = || {
        let tcp = TcpListener::bind(address)?;
        tcp.set_nonblocking(true)?;
        Ok(tcp)
    };
    let tcp = listen().map_err(|error| ServingError::Listen { address: *address, error })?;
    Ok(Listener { tcp, tls: RustlsConfig::from_config(config), serving })
}

/// Maximum time to receive the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);

/// Time for requests in flight to end after the shutdown.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// Serves requests until `shutdown` completes. Requests in flight then have another second.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    listener: Listener,
    app: App,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let address = listener.address()?;
    let Listener { tcp, tls, serving } = listener;
    let router = router(app, &serving.always_allow);
    let handle = Handle::new();
    let mut server = from_tcp_rustls(tcp, tls.clone())?.handle(handle.clone());
    let http1 = &mut server.http_builder().http1();
    http1.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    info!("Serving securely on {address}");
    let served = server.serve(router.into_make_service_with_connect_info::<SocketAddr>());
    let stop = async {
        shutdown.await;
        handle.graceful_shutdown(Some(SHUTDOWN_GRACE_PERIOD));
    };
    tokio::select! {
        served = served => served,
        // `reload_certificate` never ends, so this branch does not end before the other one.
        _ = async { tokio::join!(stop, reload_certificate(&serving, &tls)) } => Ok(()),
    }
}

/// Interval between checks of the certificate files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);

/// Reloads the certificate when its files change; never ends. An invalid certificate is logged, and the
/// old one stays in use.
async fn reload_certificate(serving: &Serving, tls: &RustlsConfig) {
    let mut loaded = serving.certificate.modified();
    let mut ticks = interval(RELOAD_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let changed = serving.certificate.modified();
        if changed.is_some() && changed != loaded {
            loaded = changed;
            match serving.certificate.load(serving.address.ip(), serving.min_tls_version) {
                Ok(config) => {
                    tls.reload_from_config(config);
                    info!("Reloaded the serving certificate");
                }
                Err(err) => error!(%err, "Failed to reload the serving certificate"),
            }
        }
    }
}
