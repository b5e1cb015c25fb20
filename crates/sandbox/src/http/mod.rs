//! The HTTP face: the store served over HTTPS, with credentials, watches and faults.
//!
//! Certificates and tokens are made at every start and exist in memory only. A request becomes an
//! [`api::Request`](crate::api::Request), is served under the lock of the store, and its answer
//! goes out; a watch is a body that looks into the store whenever that has changed.

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

/// Connections that are still open so long after the server was told to stop are closed.
const GRACE: Duration = Duration::from_secs(2);

/// Requests at a time on one HTTP/2 connection, as the real API server allows.
const HTTP2_STREAMS: u32 = 100;

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens.
    pub bind_address: IpAddr,
    /// The port; 0 takes any that is free.
    pub port: u16,
    /// Decides uids, generated names and faults.
    pub seed: u64,
    /// Whether controllers run: ReplicaSets make their pods, and so on.
    pub controllers: bool,
    /// How kubelets behave: bound pods become Running, nodes Ready. None run without it.
    pub kubelets: Option<kubelet::Settings>,
    /// What goes wrong.
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

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
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
    /// Starts a server; when this returns it takes connections.
    ///
    /// # Errors
    /// The address cannot be listened on.
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
        // Every connection gets a router of its own from the acceptor.
        let serving = tokio::spawn(https.serve(Router::new().into_make_service()));
        let endpoint = Endpoint { address, authority };
        Ok(Self { cluster, endpoint, handle, serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.endpoint.address
    }

    /// The address for clients, as `https://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        self.endpoint.url()
    }

    /// A kubeconfig (YAML) of the administrator, with a bearer token.
    pub fn kubeconfig(&self) -> String {
        self.endpoint.with_token(self.cluster.admin_token())
    }

    /// A kubeconfig (YAML) of the administrator, with a client certificate.
    pub fn kubeconfig_with_certificate(&self) -> String {
        self.endpoint.with_certificate(self.cluster.admin())
    }

    /// A kubeconfig (YAML) of whoever has this bearer token, for example one that the `token`
    /// subresource of a service account gave out.
    pub fn kubeconfig_for(&self, token: &str) -> String {
        self.endpoint.with_token(token)
    }

    /// Looks into the store, or changes it, past HTTP, faults and authorization. Clients see the
    /// changes as any others. Requests wait until `work` is done.
    pub fn with_store<T>(&self, work: impl FnOnce(&mut Store, Time) -> T) -> T {
        self.cluster.with_store(work)
    }

    /// What goes wrong at present.
    pub fn faults(&self) -> Settings {
        self.cluster.faults().settings().clone()
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&self, settings: Settings) {
        self.cluster.faults().set(settings);
    }

    /// Stops: watches end, requests under way are answered, and then nobody listens any more.
    pub async fn stop(mut self) {
        self.cluster.stopping.cancel();
        self.handle.graceful_shutdown(Some(GRACE));
        if let Ok(Err(error)) = (&mut self.serving).await {
            tracing::warn!(%error, "The server had stopped before");
        }
    }
}

/// Listens, and says where if the port was left open.
fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// 32 random bytes in hexadecimal.
fn random_token(provider: &CryptoProvider) -> Result<String, rustls::Error> {
    let mut bytes = [0; 32];
    provider.secure_random.fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
