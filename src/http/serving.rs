//! The port: opened first, served later, shut down gracefully.

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

/// Settings of the endpoints.
#[derive(Debug, Clone)]
pub struct Serving {
    /// `--bind-address` and `--secure-port`.
    pub address: SocketAddr,
    /// The certificate.
    pub certificate: Certificate,
    /// Oldest supported version of TLS.
    pub oldest_tls: TlsVersion,
    /// Paths that callers from other hosts may read.
    pub always_allow: Vec<String>,
}

/// An error of the endpoints at start.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The port cannot be opened.
    #[error(
        "failed to create listener: failed to listen on {address}: listen tcp {address}: bind: {}",
        reason(error)
    )]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The reason in the words of Go, if they are known.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "address already in use".to_owned(),
        io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// An open port that is not served yet.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    tls: RustlsConfig,
    serving: Serving,
}

impl Listener {
    /// Returns the address, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// The system does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// Opens the port and loads the certificate.
///
/// # Errors
/// The port is in use, or the certificate is invalid.
pub fn bind(serving: Serving) -> Result<Listener, ServingError> {
    let Serving { address, certificate, oldest_tls, .. } = &serving;
    let config = certificate.load(address.ip(), *oldest_tls)?;
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

/// Time limit for the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);

/// Time for requests in progress during shutdown.
const GRACE: Duration = Duration::from_secs(1);

/// Serves until `shutdown` completes, and requests in progress for one more second.
///
/// # Errors
/// The port fails.
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
        handle.graceful_shutdown(Some(GRACE));
    };
    tokio::select! {
        served = served => served,
        // The second future never completes, so this one does not either.
        _ = async { tokio::join!(stop, follow_files(&serving, &tls)) } => Ok(()),
    }
}

/// Interval at which the files of the certificate are checked.
const FILES_INTERVAL: Duration = Duration::from_secs(60);

/// Reloads the certificate when its files change; never completes. An invalid new certificate
/// leaves the old one in use.
async fn follow_files(serving: &Serving, tls: &RustlsConfig) {
    let mut seen = serving.certificate.changed();
    let mut ticks = interval(FILES_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let changed = serving.certificate.changed();
        if changed.is_some() && changed != seen {
            seen = changed;
            match serving.certificate.load(serving.address.ip(), serving.oldest_tls) {
                Ok(config) => {
                    tls.reload_from_config(config);
                    info!("Reloaded the serving certificate");
                }
                Err(err) => error!(%err, "Failed to reload the serving certificate"),
            }
        }
    }
}
