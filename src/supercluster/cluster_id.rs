//! The ID of a cluster: the UID of its namespace `kube-system`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use control::Method;
use serde_json::Value;
use tracing::warn;

use super::replies::Written;
use crate::api_client::{APPLICATION_JSON, ApiClient, JsonRequest};

/// Time to wait for the ID of the cluster, and between two attempts to read it.
const ID_TIMEOUT: Duration = Duration::from_secs(5);
const ID_PATH: &str = "/api/v1/namespaces/kube-system";

/// Returns the UID of the namespace `kube-system`.
pub(super) async fn cluster_id(client: &ApiClient) -> anyhow::Result<Arc<str>> {
    const WHY: &str = "cannot read the namespace kube-system, whose UID identifies the cluster";
    loop {
        let request = JsonRequest {
            method: Method::Get,
            path: ID_PATH.to_owned(),
            content_type: APPLICATION_JSON,
            body: Vec::new(),
            timeout: ID_TIMEOUT,
        };
        match client.request(request).await.into() {
            Written::Done(body) => {
                let namespace: Value = serde_json::from_slice(&body).context(WHY)?;
                let uid = namespace["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty());
                return Ok(uid.ok_or_else(|| anyhow!("{WHY}: it has none"))?.into());
            }
            Written::Unknown(err) => warn!(err, "{WHY}; retrying"),
            Written::NotFound(err) | Written::Conflict(err) | Written::Refused(err) => {
                bail!("{WHY}: {err}");
            }
        }
        tokio::time::sleep(ID_TIMEOUT).await;
    }
}
