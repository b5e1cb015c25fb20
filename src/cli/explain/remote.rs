//! Answers from a running scheduler.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use http::StatusCode;
use serde_json::Value;
use tokio::time::timeout;

use super::Source;
use crate::api_client::{ApiClient, Credentials, read_body};
use crate::http::PROXIED_AUTHORIZATION;
use crate::metrics::Metrics;

/// Port of the scheduler.
const PORT: u16 = 10259;
/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Asks at a path, with a body or without one.
///
/// # Errors
/// The scheduler cannot be asked, or refuses to answer.
pub(in crate::cli) fn ask(
    source: &Source,
    path: &str,
    body: Option<Vec<u8>>,
) -> anyhow::Result<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(ask_async(source, path, body))
}

/// Asks at a path, with a body or without one.
///
/// # Errors
/// The scheduler cannot be asked, or refuses to answer.
pub(in crate::cli) async fn ask_async(
    source: &Source,
    path: &str,
    body: Option<Vec<u8>>,
) -> anyhow::Result<Vec<u8>> {
    let credentials =
        Credentials::of_user(source.kubeconfig.as_deref(), source.context.as_deref()).await?;
    if let Some(server) = &source.server {
        let credentials = credentials.at(server, source.insecure_skip_tls_verify)?;
        return request(&client(&credentials)?, path, None, body).await;
    }
    let client = client(&credentials)?;
    let (namespace, pod) = match &source.scheduler {
        Some(scheduler) => named(scheduler)?,
        None => leader(&client, &source.lease).await?,
    };
    let Some(token) = credentials.token() else {
        bail!(
            "the kubeconfig has no token, and the API server does not pass a client certificate on to a pod: run \
             `kubectl port-forward -n {namespace} {pod} {PORT}` and repeat the command with \
             --server https://127.0.0.1:{PORT} --insecure-skip-tls-verify"
        );
    };
    let proxied = format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{PORT}/proxy{path}");
    let answer = request(&client, &proxied, Some(&format!("Bearer {token}")), body).await;
    answer.with_context(|| format!("asked pod {namespace}/{pod} through {}", credentials.server()))
}

fn client(credentials: &Credentials) -> anyhow::Result<ApiClient> {
    Ok(ApiClient::new(credentials, "explain", Metrics::new().rest_client(), Arc::default())?)
}

fn named(text: &str) -> anyhow::Result<(String, String)> {
    let (namespace, name) = text
        .split_once('/')
        .ok_or_else(|| anyhow!("{text:?} is not of the form NAMESPACE/NAME"))?;
    Ok((namespace.to_owned(), name.to_owned()))
}

/// Returns the pod that holds the Lease: its identity is the name of the pod, `_` and a UUID.
async fn leader(client: &ApiClient, lease: &str) -> anyhow::Result<(String, String)> {
    let (namespace, name) = named(lease)?;
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let read = request(client, &path, None, None).await;
    let body = read.with_context(|| {
        format!("cannot read the Lease {lease} of the scheduler; name it with --lease, or a pod with --scheduler")
    })?;
    let lease_object: Value = serde_json::from_slice(&body)?;
    let holder = lease_object["spec"]["holderIdentity"].as_str().unwrap_or_default();
    match holder.split_once('_') {
        Some((pod, _)) if !pod.is_empty() => Ok((namespace, pod.to_owned())),
        _ => bail!("no scheduler holds the Lease {lease}"),
    }
}

async fn request(
    client: &ApiClient,
    path: &str,
    authorization: Option<&str>,
    body: Option<Vec<u8>>,
) -> anyhow::Result<Vec<u8>> {
    let header = authorization.map(|value| (PROXIED_AUTHORIZATION, value));
    let exchange = async {
        let response = client.ask(path, header, body).await.map_err(|error| anyhow!(error))?;
        let status = response.status();
        let body = read_body(response.into_body()).await?;
        Ok::<_, anyhow::Error>((status, body))
    };
    let waited = timeout(TIMEOUT, exchange).await;
    let (status, body) =
        waited.map_err(|_| anyhow!("no answer within {} s", TIMEOUT.as_secs()))??;
    if status == StatusCode::OK {
        return Ok(body.to_vec());
    }
    let object: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = object["message"]
        .as_str()
        .map_or_else(|| String::from_utf8_lossy(&body).trim().to_owned(), str::to_owned);
    bail!("{text} (status {})", status.as_u16())
}
