//! The API server of a part that also runs against a real one.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::client::Admin;
use crate::process::{Sandbox, scratch};

#[path = "../../tests/e2e/control_plane.rs"]
#[expect(clippy::unwrap_used, dead_code, reason = "shared with end-to-end tests")]
mod control_plane;
#[path = "../../tests/e2e/process.rs"]
#[expect(clippy::unwrap_used, reason = "shared with end-to-end tests")]
mod process;
#[path = "../../tests/e2e/wait.rs"]
mod wait;

/// An API server with objects.
pub(crate) enum Server {
    /// The sandbox, which has loaded them.
    Sandbox(Sandbox),
    /// kube-apiserver from `KUBEBUILDER_ASSETS`, which keeps running; its kubeconfig.
    Real(PathBuf),
}

impl Server {
    /// Starts the API server. A real one is cleared first, because all runs have the same one.
    pub(crate) async fn start(objects: Vec<Value>) -> anyhow::Result<Self> {
        let Some(assets) = env::var_os("KUBEBUILDER_ASSETS") else {
            return Ok(Self::Sandbox(Sandbox::start(objects)?));
        };
        let kubeconfig = control_plane::kubeconfig(Path::new(&assets)).await;
        let path = scratch("kubeconfig");
        fs::write(&path, serde_json::to_string(&kubeconfig)?).context("kubeconfig")?;
        let admin = Admin::connect(&path).await?;
        admin.clear().await?;
        admin.create_mixed(objects).await?;
        Ok(Self::Real(path))
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        match self {
            Self::Sandbox(sandbox) => &sandbox.kubeconfig,
            Self::Real(path) => path,
        }
    }
}
