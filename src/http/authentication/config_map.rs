//! The authorities of the cluster, which the API server publishes in a ConfigMap.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::timeout;
use tracing::{info, warn};

use super::client_certificate::ClientAuthorities;
use super::request_header::{RequestHeader, RequestHeaderNames};
use super::trust::Trust;
use crate::api_client::{ApiClient, no_response, read_body};
use crate::wire::status_error;

/// From the cache of the API server: the ConfigMap is read all the time and hardly ever changes.
const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/\
                    extension-apiserver-authentication?resourceVersion=0";
/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Lookups of the ConfigMap.
pub(super) struct Lookup {
    client: ApiClient,
    /// The last error in the log, until a lookup succeeds.
    logged_error: Option<String>,
}

impl Lookup {
    pub(super) const fn new(client: ApiClient) -> Self {
        Self { client, logged_error: None }
    }

    /// Reads the authorities. Returns `None` if there is no such ConfigMap. Logs new errors.
    ///
    /// # Errors
    /// The ConfigMap cannot be read, or its content is invalid.
    pub(super) async fn read(&mut self) -> Result<Option<Trust>, String> {
        let read = timeout(TIMEOUT, get(&self.client)).await;
        let found = read.unwrap_or_else(|_| Err(no_response(TIMEOUT)));
        let error = found.as_ref().err().cloned();
        if self.logged_error != error {
            match &error {
                Some(err) => warn!(err, "{}", FAILED),
                None => info!("Looked up the in-cluster authentication configuration"),
            }
            self.logged_error = error;
        }
        found
    }
}

/// The texts of kube-scheduler in one line.
const FAILED: &str = "Error looking up in-cluster authentication configuration. Continuing without \
                      authentication configuration. This may treat all requests as anonymous. To \
                      require authentication configuration lookup to succeed, set \
                      --authentication-tolerate-lookup-failure=false";

async fn get(client: &ApiClient) -> Result<Option<Trust>, String> {
    let response = client.get(PATH).await?;
    let status = response.status();
    let body = read_body(response.into_body()).await.map_err(|error| error.to_string())?;
    let message = || status_error(status.as_u16(), None, &body).message;
    match status {
        StatusCode::OK => {
            let config_map: ConfigMap =
                serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            decode(&config_map.data.unwrap_or_default()).map(Some)
        }
        StatusCode::NOT_FOUND => Ok(None),
        StatusCode::FORBIDDEN => Err(format!(
            "{} (usually fixed by 'kubectl create rolebinding -n kube-system ROLEBINDING_NAME \
             --role=extension-apiserver-authentication-reader \
             --serviceaccount=YOUR_NS:YOUR_SA')",
            message()
        )),
        _ => Err(message()),
    }
}

/// Decodes the content of the ConfigMap. Authorities that are missing are not trusted.
fn decode(data: &BTreeMap<String, String>) -> Result<Trust, String> {
    let authorities = |key: &str| {
        let bundle = data.get(key).filter(|bundle| !bundle.trim().is_empty());
        let authorities = bundle.map(|bundle| ClientAuthorities::from_pem(bundle.as_bytes()));
        authorities.transpose().map_err(|error| format!("{key}: {error}"))
    };
    let list = |key: &str| match data.get(key).map(String::as_str) {
        None | Some("") => Ok(Vec::new()),
        Some(text) => serde_json::from_str(text).map_err(|error| format!("{key}: {error}")),
    };
    let names = RequestHeaderNames {
        allowed: list("requestheader-allowed-names")?,
        username: list("requestheader-username-headers")?,
        uid: list("requestheader-uid-headers")?,
        group: list("requestheader-group-headers")?,
        extra_prefix: list("requestheader-extra-headers-prefix")?,
    };
    let proxies = authorities("requestheader-client-ca-file")?;
    Ok(Trust {
        clients: authorities("client-ca-file")?,
        proxies: proxies.map(|authorities| RequestHeader { authorities, names }),
    })
}
