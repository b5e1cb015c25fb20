//! Waiting for the API server and checking its version.

use std::time::Duration;

use anyhow::bail;
use tracing::{info, warn};

use crate::api_client::{ApiClient, Version};

/// The oldest supported minor version of Kubernetes.
const MIN_MINOR_VERSION: u32 = 33;
/// Delay between two attempts to read the version of the server.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Waits until the API server responds with its version.
///
/// # Errors
/// The server does not accept the credentials, is not trusted, or is too old.
pub(super) async fn wait_for_api_server(client: &ApiClient, server: &str) -> anyhow::Result<()> {
    let mut logged = None;
    loop {
        match client.version().await {
            Ok(version) => {
                info!(server, version = version.git_version, "Connected to the API server");
                return check_version(server, &version);
            }
            Err(error) if error.is_final() => bail!("{server}: {error}"),
            Err(error) => {
                let err = error.to_string();
                if logged.as_ref() != Some(&err) {
                    warn!(server, err, "Cannot reach the API server; retrying");
                    logged = Some(err);
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

fn check_version(server: &str, version: &Version) -> anyhow::Result<()> {
    match version.minor() {
        Some(minor) if minor < MIN_MINOR_VERSION => bail!(
            "{server} runs Kubernetes {}: the oldest supported version is 1.{MIN_MINOR_VERSION}",
            version.git_version
        ),
        _ => Ok(()),
    }
}
