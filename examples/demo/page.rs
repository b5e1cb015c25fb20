//! The page of `loadmaster ui`, in a process of its own.

use std::process::Stdio;

use crate::folder::Folder;
use crate::process::Process;

pub(crate) struct Page {
    process: Process,
    /// With the token.
    address: String,
}

impl Page {
    /// Starts a page that asks the scheduler at this port.
    pub(crate) async fn start(
        folder: &Folder,
        kubeconfig: &str,
        port: u16,
    ) -> anyhow::Result<Self> {
        let server = format!("https://127.0.0.1:{port}");
        let args = ["--kubeconfig", kubeconfig, "--server", &server, "--insecure-skip-tls-verify"];
        let mut process = Process::start(folder, "ui", &args, Stdio::piped())?;
        let address = process.first_line().await?;
        Ok(Self { process, address })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns an error if the page is gone.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        self.process.check()
    }
}
