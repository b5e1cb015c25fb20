//! The address of the API server and the credentials, from a kubeconfig or a service account.

use std::path::{Path, PathBuf};

use secrecy::ExposeSecret;
use serde_json::json;
use thiserror::Error;

use super::kubeconfig;

/// An error in the address or the credentials of the API server.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// No kubeconfig is given, and the process does not run in a pod.
    #[error(
        "invalid configuration: no configuration has been provided: give --kubeconfig FILE (or \
         clientConnection.kubeconfig in the configuration), or run in a pod with a service account"
    )]
    NoConfiguration,
    /// The kubeconfig cannot be read or is invalid.
    #[error("kubeconfig {path}: {reason}")]
    Kubeconfig {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The service account of the pod cannot be used.
    #[error("in-cluster credentials: {0}: does the pod have a service account token?")]
    InCluster(#[from] kube::config::InClusterError),
    /// The value of `--master` is not an address.
    #[error("--master: {0:?} is not the address of a server, like https://10.0.0.1:6443")]
    Master(String),
    /// A certificate, a key or other credentials are invalid.
    #[error("credentials: {0}")]
    Credentials(Box<kube::Error>),
}

/// The address of the API server and the credentials.
#[derive(Debug, Clone)]
pub struct Credentials(pub(super) kube::Config);

impl Credentials {
    /// Loads the credentials from a kubeconfig or, without one, from the service account of the
    /// pod. `master` overrides the address.
    ///
    /// # Errors
    /// There are no credentials, or they are invalid.
    pub async fn load(
        kubeconfig: Option<&Path>,
        master: Option<&str>,
    ) -> Result<Self, ConnectError> {
        let mut config = match kubeconfig {
            Some(path) => from_file(path).await?,
            None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
                kube::Config::incluster()?
            }
            None => return Err(ConnectError::NoConfiguration),
        };
        if let Some(master) = master {
            config.cluster_url =
                master.parse().map_err(|_| ConnectError::Master(master.to_owned()))?;
        }
        Ok(Self(config))
    }

    /// Loads the credentials of a person: from a kubeconfig, by default that of kubectl, and one of
    /// its contexts.
    ///
    /// # Errors
    /// There are no credentials, or they are invalid.
    pub async fn of_user(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Self, ConnectError> {
        let of_kubectl = || PathBuf::from("(of kubectl)");
        let path = kubeconfig.map_or_else(of_kubectl, Path::to_owned);
        let file = match kubeconfig {
            Some(path) => kubeconfig::of_file(path).map_err(invalid(path))?,
            None => kubeconfig::of_kubectl().map_err(|(path, reason)| invalid(&path)(reason))?,
        };
        Ok(Self(kubeconfig::client_config(file, context).await.map_err(invalid(&path))?))
    }

    /// Returns the same credentials for another server, whose certificate is checked against the
    /// authorities of the kubeconfig unless it is `insecure`.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn at(mut self, server: &str, insecure: bool) -> Result<Self, ConnectError> {
        self.0.cluster_url = server.parse().map_err(|_| ConnectError::Master(server.to_owned()))?;
        self.0.accept_invalid_certs = insecure;
        self.0.tls_server_name = None;
        Ok(self)
    }

    /// Returns the bearer token, if the credentials have one as text or in a file.
    pub fn token(&self) -> Option<String> {
        let own = &self.0.auth_info;
        let read = |path: &String| std::fs::read_to_string(path).ok();
        let token = own.token.as_ref().map(|token| token.expose_secret().to_owned());
        let token = token.or_else(|| own.token_file.as_ref().and_then(read))?;
        Some(token.trim().to_owned()).filter(|token| !token.is_empty())
    }

    /// Parses the text of a kubeconfig.
    ///
    /// # Errors
    /// The kubeconfig is invalid.
    pub async fn parse(kubeconfig: &str) -> Result<Self, ConnectError> {
        let path = Path::new("(in memory)");
        let file = kubeconfig::of_text(kubeconfig).map_err(invalid(path))?;
        Ok(Self(kubeconfig::client_config(file, None).await.map_err(invalid(path))?))
    }

    /// Returns the credentials for a server whose files are named one by one. A token file is read
    /// again when the token has changed.
    ///
    /// # Errors
    /// The address or a file is invalid.
    pub async fn of_files(files: ServerFiles<'_>) -> Result<Self, ConnectError> {
        let path = |path: Option<&Path>| path.map(|path| path.display().to_string());
        let kubeconfig = json!({
            "current-context": "server",
            "contexts": [{"name": "server", "context": {"cluster": "server", "user": "server"}}],
            "clusters": [{"name": "server", "cluster": {
                "server": files.server,
                "certificate-authority": path(files.certificate_authority),
                "tls-server-name": files.tls_server_name,
            }}],
            "users": [{"name": "server", "user": {
                "tokenFile": path(files.token_file),
                "client-certificate": path(files.client_certificate),
                "client-key": path(files.client_key),
            }}],
        });
        Self::parse(&kubeconfig.to_string()).await
    }

    /// Returns the address of the API server.
    pub fn server(&self) -> String {
        self.0.cluster_url.to_string()
    }
}

/// A server, and the files with which it and this process prove who they are.
#[derive(Debug, Clone, Copy)]
pub struct ServerFiles<'a> {
    /// URL.
    pub server: &'a str,
    /// Authorities of its certificate, in PEM; those of the system without it.
    pub certificate_authority: Option<&'a Path>,
    /// The name in its certificate, if it is not the one in the URL.
    pub tls_server_name: Option<&'a str>,
    /// File with a bearer token.
    pub token_file: Option<&'a Path>,
    /// Client certificate, in PEM.
    pub client_certificate: Option<&'a Path>,
    /// Its key, in PEM.
    pub client_key: Option<&'a Path>,
}

async fn from_file(path: &Path) -> Result<kube::Config, ConnectError> {
    let file = kubeconfig::of_file(path).map_err(invalid(path))?;
    kubeconfig::client_config(file, None).await.map_err(invalid(path))
}

/// Returns the error of a kubeconfig for a reason.
fn invalid(path: &Path) -> impl Fn(String) -> ConnectError {
    move |reason| ConnectError::Kubeconfig { path: path.to_owned(), reason }
}
