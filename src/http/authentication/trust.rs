//! The authorities that authentication trusts, and the sources that they are read from.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::HeaderMap;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{error, info};

use super::super::files::{Files, ReadError};
use super::client_certificate::ClientAuthorities;
use super::config_map::Lookup;
use super::request_header::{RequestHeader, RequestHeaderNames};
use super::{AuthenticationOptions, User};
use crate::api_client::ApiClient;

/// The trusted authorities.
#[derive(Debug, Clone, Default)]
pub(in crate::http) struct Trust {
    /// Sign the certificates of users.
    pub(super) clients: Option<ClientAuthorities>,
    /// Sign the certificates of front proxies.
    pub(super) proxies: Option<RequestHeader>,
}

impl Trust {
    /// Authenticates the certificate of a client.
    ///
    /// # Errors
    /// The certificate is of no use, for these reasons; none without a certificate, and if it names
    /// no user.
    pub(super) fn authenticate(
        &self,
        chain: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Result<User, Vec<String>> {
        let by_proxy = || self.proxies.as_ref()?.authenticate(chain, headers).transpose();
        let by_client = || self.clients.as_ref()?.authenticate(chain).transpose();
        let mut errors = Vec::new();
        for authenticate in [&by_proxy as &dyn Fn() -> Option<Result<User, String>>, &by_client] {
            match authenticate() {
                Some(Ok(user)) => return Ok(user),
                Some(Err(error)) => errors.push(error),
                None => {}
            }
        }
        Err(errors)
    }
}

/// An error of loading the authorities at the start.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be read.
    #[error("{flag}: {error}")]
    Read {
        /// The flag that names the file.
        flag: &'static str,
        /// The reason.
        error: ReadError,
    },
    /// A file contains no usable certificate.
    #[error("{flag}: error reading {}: {reason}", file.display())]
    Invalid {
        /// The flag that names the file.
        flag: &'static str,
        /// Path of the file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The authorities of the cluster cannot be looked up, and that is not tolerated.
    #[error("unable to load configmap based request-header-client-ca-file: {0}")]
    Lookup(String),
}

/// Delay between two watches of the ConfigMap.
const WATCH_RETRY: Duration = Duration::from_secs(5);
/// Time for which the start waits for a lookup that may fail.
const LOOKUP_WAIT: Duration = Duration::from_secs(2);

/// A file with authorities.
#[derive(Clone)]
struct AuthoritiesFile {
    flag: &'static str,
    file: Files<1>,
}

impl AuthoritiesFile {
    fn read(flag: &'static str, path: PathBuf) -> Result<Self, TrustError> {
        let file = Files::read([path]).map_err(|error| TrustError::Read { flag, error })?;
        Ok(Self { flag, file })
    }

    fn decode(&self) -> Result<ClientAuthorities, TrustError> {
        let ([file], [bundle]) = (self.file.paths(), self.file.contents());
        let invalid = |reason| TrustError::Invalid { flag: self.flag, file: file.clone(), reason };
        ClientAuthorities::from_pem(bundle).map_err(invalid)
    }

    /// Waits for a valid change. Logs invalid ones.
    async fn changed(&mut self) -> ClientAuthorities {
        loop {
            self.file.changed().await;
            match self.decode() {
                Ok(authorities) => {
                    info!(flag = self.flag, "Reloaded the authorities of client certificates");
                    return authorities;
                }
                Err(err) => error!(%err, "Failed to reload the authorities of client certificates"),
            }
        }
    }
}

/// The sources of the trusted authorities. A file replaces a part of the ConfigMap.
pub(in crate::http) struct TrustSources {
    trust: watch::Sender<Trust>,
    client_ca: Option<AuthoritiesFile>,
    proxy_ca: Option<AuthoritiesFile>,
    proxy_names: RequestHeaderNames,
    lookup: Option<Lookup>,
}

impl TrustSources {
    /// Reads the files, and looks up what is not in files with `client`.
    ///
    /// # Errors
    /// A file is invalid, or the lookup failed and that is not tolerated.
    pub(in crate::http) async fn load(
        options: &AuthenticationOptions,
        client: &ApiClient,
    ) -> Result<Self, TrustError> {
        let read = |flag, path: &Option<PathBuf>| {
            path.clone().map(|path| AuthoritiesFile::read(flag, path)).transpose()
        };
        let client_ca = read("--client-ca-file", &options.client_ca_file)?;
        let proxy_ca = read("--requestheader-client-ca-file", &options.request_header_ca_file)?;
        let is_complete = client_ca.is_some() && proxy_ca.is_some();
        let mut sources = Self {
            trust: watch::Sender::default(),
            proxy_names: options.request_header_names.clone(),
            lookup: (!options.skip_lookup && !is_complete).then(|| Lookup::new(client.clone())),
            client_ca,
            proxy_ca,
        };
        if let Some(file) = &sources.client_ca {
            sources.set_clients(file.decode()?);
        }
        if let Some(file) = &sources.proxy_ca {
            sources.set_proxies(file.decode()?);
        }
        sources.look_up_first(options.tolerate_lookup_failure).await?;
        Ok(sources)
    }

    async fn look_up_first(&mut self, tolerate_failure: bool) -> Result<(), TrustError> {
        let Some(mut lookup) = self.lookup.take() else { return Ok(()) };
        match tolerate_failure {
            // An API server that does not answer must not delay the health checks.
            true => drop(timeout(LOOKUP_WAIT, self.look_up(&mut lookup)).await),
            false => self.look_up(&mut lookup).await.map_err(TrustError::Lookup)?,
        }
        self.lookup = Some(lookup);
        Ok(())
    }

    /// Looks up the authorities that are not in files.
    async fn look_up(&self, lookup: &mut Lookup) -> Result<(), String> {
        if let Some(found) = lookup.read().await? {
            self.set_looked_up(found);
        }
        Ok(())
    }

    /// Trusts the authorities of the ConfigMap that are not in files.
    fn set_looked_up(&self, found: Trust) {
        self.trust.send_modify(|trust| {
            if self.client_ca.is_none() {
                trust.clients = found.clients;
            }
            if self.proxy_ca.is_none() {
                trust.proxies = found.proxies;
            }
        });
    }

    fn set_clients(&self, authorities: ClientAuthorities) {
        self.trust.send_modify(|trust| trust.clients = Some(authorities));
    }

    fn set_proxies(&self, authorities: ClientAuthorities) {
        let names = self.proxy_names.clone();
        let proxies = Some(RequestHeader { authorities, names });
        self.trust.send_modify(|trust| trust.proxies = proxies);
    }

    /// Returns the trusted authorities, which change with their sources.
    pub(in crate::http) fn subscribe(&self) -> watch::Receiver<Trust> {
        self.trust.subscribe()
    }

    /// Follows the changes of all sources; never ends.
    pub(in crate::http) async fn follow(mut self) {
        let (client_ca, proxy_ca) = (self.client_ca.clone(), self.proxy_ca.clone());
        let lookup = self.lookup.take();
        let clients = follow_file(client_ca, |authorities| self.set_clients(authorities));
        let proxies = follow_file(proxy_ca, |authorities| self.set_proxies(authorities));
        let lookups = async {
            let Some(mut lookup) = lookup else { return };
            loop {
                lookup.watch(|found| self.set_looked_up(found)).await;
                tokio::time::sleep(WATCH_RETRY).await;
            }
        };
        tokio::join!(clients, proxies, lookups);
    }
}

async fn follow_file(file: Option<AuthoritiesFile>, set: impl Fn(ClientAuthorities)) {
    let Some(mut file) = file else { return };
    loop {
        set(file.changed().await);
    }
}
