//! The daemon, in a process of its own.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;

use crate::folder::Folder;
use crate::process::Process;

/// Starts `loadmaster run`; with a port it answers questions there, on 127.0.0.1.
///
/// Callers are those of the demo's cluster, also if the demo runs in a pod of another one.
pub(crate) fn start(
    folder: &Folder,
    kubeconfig: &str,
    port: Option<u16>,
) -> anyhow::Result<Process> {
    let port = port.unwrap_or(0).to_string();
    let args = [
        "--leader-elect=false",
        "--whatif",
        "--bind-address=127.0.0.1",
        "--secure-port",
        &port,
        "--kubeconfig",
        kubeconfig,
        "--authentication-kubeconfig",
        kubeconfig,
        "--authorization-kubeconfig",
        kubeconfig,
    ];
    Process::start(folder, "run", &args, Stdio::null())
}

/// Returns a port of 127.0.0.1 that is free now.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
