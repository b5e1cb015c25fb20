//! The HTTPS server: the store with authentication, watches and faults.
//!
//! Certificates and tokens are made at every start and exist in memory only. A request becomes an
//! [`api::Request`](crate::api::Request) and is served under the lock of the store. A watch is a
//! body that reads the store after every change.

mod certificates;
mod client_certificates;
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
use axum_server::tls_rustls::RustlsConfig;
use framework::Time;
use rustls::crypto::CryptoProvider;
use thiserror::Error;
use tokio::task::JoinHandle;

use self::certificates::Certificates;
pub use self::certificates::{CertificateError, Identity};
use self::cluster::{Cluster, in_future};
use self::connection::Acceptor;
use self::kubeconfig::Endpoint;
use self::upkeep::Upkeep;
use crate::authentication::ServiceAccountToken;
use crate::devices::Devices;
use crate::faults::{Faults, Settings};
use crate::resources::SERVICEACCOUNTS;
use crate::store::Store;
use crate::{kubelet, metadata};

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
    /// The devices of nodes without the annotation `sandbox.loadmaster.dev/devices`. Their driver
    /// is one of the controllers.
    pub devices: Devices,
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
            devices: Devices::default(),
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
    #[error(transparent)]
    Certificates(#[from] CertificateError),
}

/// A running API server. It stops when dropped.
pub struct Server {
    cluster: Arc<Cluster>,
    endpoint: Endpoint,
    tls: RustlsConfig,
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
        let certificates = Certificates::new(provider)?;
        let tls = RustlsConfig::from_config(certificates.server(options.bind_address)?);
        let authority = certificates.cluster_authority().certificate;
        let faults = Faults::new(options.faults.clone(), options.seed);
        let cluster = Cluster::new(options.seed, faults, certificates, token);
        let handle = Handle::new();
        let mut https = axum_server::from_tcp(listener)
            .map_err(|source| StartError::Bind { address, source })?
            .acceptor(Acceptor::new(cluster.clone(), tls.clone()))
            .handle(handle.clone());
        https.http_builder().http2().max_concurrent_streams(HTTP2_STREAMS);
        tokio::spawn(Upkeep::new(cluster.clone(), &options).run());
        tokio::spawn(upkeep::compact(cluster.clone()));
        // The acceptor gives every connection its own router.
        let serving = tokio::spawn(https.serve(Router::new().into_make_service()));
        let endpoint = Endpoint { address, authority };
        Ok(Self { cluster, endpoint, tls, handle, serving })
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

    /// Returns a kubeconfig (YAML) with a client certificate, for example one that
    /// [`Self::client_certificate`] issued.
    pub fn kubeconfig_with_certificate(&self, certificate: &Identity) -> String {
        self.endpoint.with_certificate(certificate)
    }

    /// Issues a token of a ServiceAccount, which may be shorter-lived than the tokens that clients
    /// request; `None` without such a ServiceAccount.
    pub fn token(&self, namespace: &str, name: &str, lifetime: Duration) -> Option<String> {
        self.cluster.with_store(|store, now| {
            let account = store.get(SERVICEACCOUNTS, namespace, name)?;
            let token = ServiceAccountToken {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: metadata::uid(account).to_owned(),
                id: store.new_uid(),
                audiences: Vec::new(),
                issued: now,
                lifetime,
            };
            Some(token.encode())
        })
    }

    /// Issues a client certificate for a user in one group. Without a lifetime it is valid for
    /// ever.
    ///
    /// # Errors
    /// A name that a certificate cannot hold.
    pub fn client_certificate(
        &self,
        user: &str,
        group: Option<&str>,
        lifetime: Option<Duration>,
    ) -> Result<Identity, CertificateError> {
        self.cluster.certificates().client(user, group, lifetime.map(in_future))
    }

    /// Issues the client certificate of a front proxy, which names its callers in headers.
    ///
    /// # Errors
    /// An error of a library.
    pub fn front_proxy_certificate(&self) -> Result<Identity, CertificateError> {
        self.cluster.certificates().front_proxy_client()
    }

    /// Returns certificate and key of the authority of the server and its clients.
    pub fn authority(&self) -> Identity {
        self.cluster.certificates().cluster_authority()
    }

    /// Returns certificate and key of the authority of front proxies.
    pub fn front_proxy_authority(&self) -> Identity {
        self.cluster.certificates().front_proxy_authority()
    }

    /// Replaces the certificate of the server by a new one of the same authority. Open connections
    /// continue.
    ///
    /// # Errors
    /// An error of a library.
    pub fn rotate_certificate(&self) -> Result<(), CertificateError> {
        let config = self.cluster.certificates().server(self.endpoint.address.ip())?;
        self.tls.reload_from_config(config);
        Ok(())
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
fn random_token(provider: &CryptoProvider) -> Result<String, CertificateError> {
    let mut bytes = [0; 32];
    provider.secure_random.fill(&mut bytes).map_err(rustls::Error::from)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
