//! Answers from a running scheduler.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use http::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tokio::time::timeout;

use super::Source;
use crate::api_client::{ApiClient, Credentials, Header, read_body};
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

/// Whether a scheduler may hold the Lease. Without an answer about the Lease it may.
///
/// # Errors
/// The kubeconfig cannot be used.
pub(super) fn has_scheduler(source: &Source) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(async {
        let (kubeconfig, context) = (source.kubeconfig.as_deref(), source.context.as_deref());
        let credentials = Credentials::of_user(kubeconfig, context).await?;
        let holder = holder(&client(&credentials)?, source.lease()).await;
        Ok(match holder {
            Ok(holder) => !holder.is_empty(),
            Err(error) => status_of(&error) != Some(404),
        })
    })
}

/// Asks at a path, with a body or without one. If the scheduler does not know a pod, the API server
/// is asked why.
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
    let asked = ask_scheduler(source, credentials.clone(), path, body).await;
    let Err(error) = asked else { return asked };
    let is_unknown = status_of(&error) == Some(404);
    let pod = path.strip_prefix("/explain/pods/").filter(|_| is_unknown);
    match pod {
        Some(pod) => Err(why_unknown(&credentials, pod).await.unwrap_or(error)),
        None => Err(error),
    }
}

async fn ask_scheduler(
    source: &Source,
    credentials: Credentials,
    path: &str,
    body: Option<Vec<u8>>,
) -> anyhow::Result<Vec<u8>> {
    if let Some(server) = &source.server {
        let credentials = credentials.at(server, source.insecure_skip_tls_verify)?;
        return request(&client(&credentials)?, path, None, body).await;
    }
    let client = client(&credentials)?;
    let (namespace, pod) = match &source.scheduler {
        Some(scheduler) => named(scheduler)?,
        None => leader(&client, source.lease()).await?,
    };
    let forwarding = format!(
        "run `kubectl port-forward -n {namespace} {pod} {PORT}` and repeat the command with \
         --server https://127.0.0.1:{PORT} --insecure-skip-tls-verify"
    );
    let Some(token) = credentials.token() else {
        bail!(
            "the kubeconfig has no token, and the API server does not pass a client certificate on to a pod: {forwarding}"
        );
    };
    let proxied = format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{PORT}/proxy{path}");
    let answer = request(&client, &proxied, Some(&format!("Bearer {token}")), body).await;
    let asked = || format!("asked pod {namespace}/{pod} through {}", credentials.server());
    match answer {
        Err(error) if is_of_another_program(&error) => Err(anyhow!(
            "pod {namespace}/{pod} does not answer questions: {error}. Is it another scheduler, such as kube-scheduler? \
             Name the Lease of Loadmaster with --lease, or its pod with --scheduler"
        )),
        Err(error) if is_out_of_reach(&error) => Err(error.context(format!(
            "the API server cannot reach the port of pod {namespace}/{pod}, which may listen on 127.0.0.1 only: \
             {forwarding}"
        ))),
        answer => answer.with_context(asked),
    }
}

/// Whether a program answered that does not know the path.
fn is_of_another_program(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<Refused>();
    refused.is_some_and(|own| own.status == 404 && own.text == "404 page not found")
}

/// Whether the proxy of the API server has found no open port.
fn is_out_of_reach(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<Refused>();
    refused
        .is_some_and(|own| own.status >= 500 && own.text.contains("error trying to reach service"))
}

/// Says why the scheduler does not know a pod, named as in the path; `None` if the API server does
/// not tell.
async fn why_unknown(credentials: &Credentials, pod: &str) -> Option<anyhow::Error> {
    let pod = pod.split('?').next().unwrap_or_default();
    let (namespace, name) = pod.split_once('/')?;
    let client = client(credentials).ok()?;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let key = format!("{}/{}", decoded(namespace), decoded(name));
    let body = match request(&client, &path, None, None).await {
        Ok(body) => body,
        Err(error) if status_of(&error) == Some(404) => {
            return Some(anyhow!(
                "there is no pod {key}. If a quota or a webhook refuses a pod, it is never made, and the events of its \
                 controller say so"
            ));
        }
        Err(_) => return None,
    };
    let pod: Value = serde_json::from_slice(&body).ok()?;
    let (phase, scheduler) = (&pod["status"]["phase"], &pod["spec"]["schedulerName"]);
    match phase.as_str() {
        Some(phase @ ("Succeeded" | "Failed")) => {
            Some(anyhow!("pod {key} has ended ({phase}), and schedulers forget such pods"))
        }
        _ => Some(anyhow!(
            "pod {key} belongs to the scheduler {}, which is not the one that was asked",
            scheduler.as_str().unwrap_or("default-scheduler")
        )),
    }
}

/// An answer with a status other than 200.
#[derive(Debug, thiserror::Error)]
#[error("{text} (status {status})")]
struct Refused {
    text: String,
    status: u16,
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

/// Returns the pod that holds the Lease: its identity is the name of the pod, `_` and a UUID. With
/// the network of the host it may be the name of the node, and then no pod is asked.
async fn leader(client: &ApiClient, lease: &str) -> anyhow::Result<(String, String)> {
    let (namespace, name) = named(lease)?;
    let holder = holder(client, lease).await?;
    if holder.is_empty() {
        bail!("no scheduler holds the Lease {lease}");
    }
    let host = holder.split('_').next().unwrap_or_default();
    if pod_exists(client, &namespace, host).await == Some(false) {
        // The name that a kubelet gives to the pod of a file.
        let static_pod = format!("{name}-{host}");
        let found = pod_exists(client, &namespace, &static_pod).await == Some(true);
        let pod = if found { format!("{namespace}/{static_pod}") } else { "NAMESPACE/NAME".into() };
        bail!(
            "the Lease {lease} is held by {holder:?}, and {host:?} is no pod in {namespace}: pass the pod of the scheduler \
             with --scheduler {pod}, or its port with --server URL"
        );
    }
    Ok((namespace, host.to_owned()))
}

/// Returns the identity of the holder of a Lease; empty if there is none.
async fn holder(client: &ApiClient, lease: &str) -> anyhow::Result<String> {
    let (namespace, name) = named(lease)?;
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let read = request(client, &path, None, None).await;
    let body = read.with_context(|| {
        format!(
            "cannot read the Lease {lease} of the scheduler; name it with --lease, or a pod with --scheduler, or ask the \
             cluster itself with --read-cluster"
        )
    })?;
    let lease: Value = serde_json::from_slice(&body)?;
    Ok(lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
}

fn status_of(error: &anyhow::Error) -> Option<u16> {
    error.downcast_ref().map(|own: &Refused| own.status)
}

/// Whether a pod exists; `None` if the API server does not tell.
async fn pod_exists(client: &ApiClient, namespace: &str, name: &str) -> Option<bool> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    match request(client, &path, None, None).await {
        Ok(_) => Some(true),
        Err(error) if status_of(&error) == Some(404) => Some(false),
        Err(_) => None,
    }
}

async fn request(
    client: &ApiClient,
    path: &str,
    authorization: Option<&str>,
    body: Option<Vec<u8>>,
) -> anyhow::Result<Vec<u8>> {
    let header = authorization.map(|value| Header { name: PROXIED_AUTHORIZATION, value });
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
    bail!(Refused { text, status: status.as_u16() })
}
