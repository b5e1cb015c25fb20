//! The API server: the sandbox, or kube-apiserver.

use std::env;
use std::path::Path;

use anyhow::Context;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use sandbox::faults::Settings;
use sandbox::http::{Options, Server};

use crate::control_plane;

/// The API server of a run.
pub(crate) enum ApiServer {
    /// The sandbox, in this process.
    Sandbox(Server),
    /// kube-apiserver and etcd, with the kubeconfig of the administrator. Nothing runs the pods.
    Real(Box<Kubeconfig>),
}

impl ApiServer {
    pub(crate) async fn start(seed: u64) -> anyhow::Result<Self> {
        if let Some(assets) = env::var_os("KUBEBUILDER_ASSETS") {
            return Ok(Self::Real(Box::new(control_plane::kubeconfig(Path::new(&assets)).await)));
        }
        let options = Options { seed, ..Options::default() };
        Ok(Self::Sandbox(Server::start(options).await?))
    }

    /// Returns the administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        match self {
            Self::Sandbox(server) => {
                Kubeconfig::from_yaml(&server.kubeconfig()).context("kubeconfig of the sandbox")
            }
            Self::Real(kubeconfig) => Ok((**kubeconfig).clone()),
        }
    }

    /// Returns a client with the rights of the administrator.
    pub(crate) async fn client(&self) -> anyhow::Result<kube::Client> {
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(self.kubeconfig()?, &options).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// Sets the faults of the sandbox, in the notation of `loadmaster sandbox --fault`. Returns whether the
    /// server has faults to set.
    pub(crate) fn set_faults(&self, faults: &[&str]) -> anyhow::Result<bool> {
        let Self::Sandbox(server) = self else { return Ok(false) };
        let mut settings = Settings::default();
        for fault in faults {
            settings = settings.with(fault)?;
        }
        server.set_faults(settings);
        Ok(true)
    }
}
