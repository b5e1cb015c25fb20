//! The API server: the sandbox, or kube-apiserver.

use std::env;
use std::path::Path;

use anyhow::Context;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use sandbox::faults::Settings;
use sandbox::http::{Options, Server};

use crate::control_plane;

/// A fault of an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    LoseAnswers,
    FailRequests,
    FailBindings,
    Throttle,
    BreakWatches,
    StallWatches,
    SlowServer,
}

impl Fault {
    pub(crate) const ALL: [Self; 7] = [
        Self::LoseAnswers,
        Self::FailRequests,
        Self::FailBindings,
        Self::Throttle,
        Self::BreakWatches,
        Self::StallWatches,
        Self::SlowServer,
    ];

    /// Returns the fault in the notation of `loadmaster sandbox --fault`.
    const fn settings(self) -> &'static [&'static str] {
        match self {
            Self::LoseAnswers => &["lost-answers=0.3"],
            Self::FailRequests => &["errors=0.3"],
            Self::FailBindings => &["errors=1", "only-path=/binding"],
            Self::Throttle => &["throttling=0.3"],
            Self::BreakWatches => &["dropped-watches=1", "compaction=1s"],
            Self::StallWatches => &["stalled-watches=0.3"],
            Self::SlowServer => &["latency=10ms..800ms"],
        }
    }
}

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
        Self::sandbox(Options { seed, ..Options::default() }).await
    }

    pub(crate) async fn sandbox(options: Options) -> anyhow::Result<Self> {
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

    /// Sets the fault of the sandbox, or ends it. Returns whether the server has faults to set.
    pub(crate) fn set_fault(&self, fault: Option<Fault>) -> anyhow::Result<bool> {
        let Self::Sandbox(server) = self else { return Ok(false) };
        let mut settings = Settings::default();
        for setting in fault.map_or(&[][..], Fault::settings) {
            settings = settings.with(setting)?;
        }
        server.set_faults(settings);
        Ok(true)
    }
}
