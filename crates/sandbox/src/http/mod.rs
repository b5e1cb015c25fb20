//! The HTTPS server: the store with authentication, watches and faults.
//!
//! Certificates and tokens are made at every start and exist in memory only. A request becomes an
//! [`api::Request`](crate::api::Request) and is served under the lock of the store. A watch is a
//! body that reads the store after every change.

mod certificates;
mod cluster;
mod connection;
mod fault_settings;
mod kubeconfig;
mod request;
#[cfg(test)]
mod tests;
mod upkeep;
mod watch;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum_server::Handle;
use framework::Time;
use rustls::crypto::CryptoProvider;
use thiserror::Error;
use tokio::task::JoinHandle;

use self::certificates::Certificates;
use self::cluster::Cluster;
use self::connection::Acceptor;
use self::kubeconfig::Endpoint;
use self::upkeep::Upkeep;
use crate::faults::{Faults, Settings};
use crate::kubelet;
use crate::store::Store;

/// Time after a stop until open connections are closed.
const GRACE: Duration = Duration::from_secs(2);

/// Concurrent requests on one HTTP/2 connection, the limit of the API server.
const HTTP2_STREAMS: u32 = 100;

/// The options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen on.
    pub bind_address: IpAddr,
    /// The port; 0 takes any free one.
    pub port: u16,
    /// Seed of UIDs, generated names and faults.
    pub seed: u64,
    /// Whether controllers run.
    pub controllers: bool,
    /// Settings of the kubelets, `None` to run none.
    pub kubelets: Option<kubelet::Settings>,
    /// Fault settings.
    pub faults: Settings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind_address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            seed: 0,
            controllers: true,
            kubelets: Some(kubelet::Settings::default()),
            faults: Settings::default(),
        }
    }
}

/// Why a server did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Certificates cannot be made.
    #[error("cannot make certificates: {0}")]
    Certificates(#[from] rcgen::Error),
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// A running API server. It stops when dropped.
pub struct Server {
    cluster: Arc<Cluster>,
    endpoint: Endpoint,
    handle: Handle<SocketAddr>,
    serving: JoinHandle<io::Result<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.cluster.stopping.cancel();
        self.handle.shutdown();
    }
}

impl Server {
    /// Starts a server that accepts connections.
    ///
    /// # Errors
    /// The server cannot listen on the address.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let address = SocketAddr::new(options.bind_address, options.port);
        let (listener, address) =
            listen(address).map_err(|source| StartError::Bind { address, source })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let token = random_token(&provider)?;
        let Certificates { authority, admin, server } =
            Certificates::issue(options.bind_address, provider)?;
        let faults = Faults::new(options.faults.clone(), options.seed);
        let cluster = Cluster::new(options.seed, faults, admin, token);
        let handle = Handle::new();
        let mut https = axum_server::from_tcp(listener)
            .map_err(|source| StartError::Bind { address, source })?
            .acceptor(Acceptor::new(cluster.clone(), server))
            .handle(handle.clone());
        https.http_builder().http2().max_concurrent_streams(HTTP2_STREAMS);
        tokio::spawn(Upkeep::new(cluster.clone(), &options).run());
        tokio::spawn(upkeep::compact(cluster.clone()));
        // The acceptor gives every connection its own router.
        let serving = tokio::spawn(https.serve(Router::new().into_make_service()));
        let endpoint = Endpoint { address, authority };
        Ok(Self { cluster, endpoint, handle, serving })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.endpoint.address
    }

    /// Returns the address for clients, as `https://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        self.endpoint.url()
    }

    /// Returns a kubeconfig (YAML) of the administrator, with a bearer token.
    pub fn kubeconfig(&self) -> String {
        self.endpoint.with_token(self.cluster.admin_token())
    }

    /// Returns a kubeconfig (YAML) of the administrator, with a client certificate.
    pub fn kubeconfig_with_certificate(&self) -> String {
        self.endpoint.with_certificate(self.cluster.admin())
    }

    /// Returns a kubeconfig (YAML) with a bearer token, for example one from the `token`
    /// subresource of a service account.
    pub fn kubeconfig_for(&self, token: &str) -> String {
        self.endpoint.with_token(token)
    }

    /// Reads or changes the store without HTTP, faults and authorization. Clients see the changes.
    /// Requests wait until `work` is done.
    pub fn with_store<T>(&self, work: impl FnOnce(&mut Store, Time) -> T) -> T {
        self.cluster.with_store(work)
    }

    /// Returns the fault settings.
    pub fn faults(&self) -> Settings {
        self.cluster.faults().settings().clone()
    }

    /// Replaces the fault settings.
    pub fn set_faults(&self, settings: Settings) {
        self.cluster.faults().set(settings);
    }

    /// Stops the server: watches end, requests in progress are answered, then all connections are
    /// closed.
    pub async fn stop(mut self) {
        self.cluster.stopping.cancel();
        self.handle.graceful_shutdown(Some(GRACE));
        if let Ok(Err(error)) = (&mut self.serving).await {
            tracing::warn!(%error, "The server had stopped before");
        }
    }
}

/// Listens on an address. The error names it.
fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Returns 32 random bytes in hexadecimal.
fn random_token(provider: &CryptoProvider) -> Result<String, rustls::Error> {
    let mut bytes = [0; 32];
    provider.secure_random.fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
