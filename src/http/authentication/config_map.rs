//! The authorities of the cluster, which the API server publishes in a ConfigMap.

use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::Deserialize;
use tokio::time::timeout;
use tracing::{info, warn};

use super::client_certificate::ClientAuthorities;
use super::request_header::{RequestHeader, RequestHeaderNames};
use super::trust::Trust;
use crate::api_client::{ApiClient, WatchFailed, no_response, read_body};
use crate::wire::status_error;

/// The ConfigMap, from the cache of the API server.
const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/\
                    extension-apiserver-authentication?resourceVersion=0";
/// A watch of the ConfigMap, which begins with its present state. The permission to read it by name
/// covers the watch, because it selects the name.
const WATCH_PATH: &str = "/api/v1/namespaces/kube-system/configmaps?\
                          fieldSelector=metadata.name%3Dextension-apiserver-authentication&\
                          resourceVersion=0";
/// Length of a watch.
const WATCH_LENGTH: Duration = Duration::from_secs(45);
/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The ConfigMap as a source of authorities.
pub(super) struct Lookup {
    client: ApiClient,
    /// The last error in the log, until a lookup succeeds.
    logged_error: Option<String>,
}

impl Lookup {
    pub(super) const fn new(client: ApiClient) -> Self {
        Self { client, logged_error: None }
    }

    /// Reads the authorities. Returns `None` if the ConfigMap does not exist. Logs new errors.
    ///
    /// # Errors
    /// The ConfigMap cannot be read, or its content is invalid.
    pub(super) async fn read(&mut self) -> Result<Option<Trust>, String> {
        let read = timeout(TIMEOUT, get(&self.client)).await;
        let found = read.unwrap_or_else(|_| Err(no_response(TIMEOUT)));
        self.log(found.as_ref().err());
        found
    }

    /// Passes the authorities to `set` whenever they change, until the watch ends. If the ConfigMap
    /// is deleted, the last authorities stay in use. Logs new errors.
    pub(super) async fn watch(&mut self, set: impl Fn(Trust)) {
        let client = self.client.clone();
        let watched = client.watch(WATCH_PATH, WATCH_LENGTH, |event| {
            let trust = changed(event).transpose();
            self.log(trust.as_ref().and_then(|trust| trust.as_ref().err()));
            if let Some(Ok(trust)) = trust {
                set(trust);
            }
        });
        if let Err(WatchFailed { status, message }) = watched.await {
            self.log(Some(&with_advice(status, message)));
        }
    }

    fn log(&mut self, error: Option<&String>) {
        if self.logged_error.as_ref() != error {
            match error {
                Some(err) => warn!(err, "{}", FAILED),
                None => info!("Looked up the in-cluster authentication configuration"),
            }
            self.logged_error = error.cloned();
        }
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
    match status {
        StatusCode::OK => {
            let config_map = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            decode(config_map).map(Some)
        }
        StatusCode::NOT_FOUND => Ok(None),
        _ => {
            let message = status_error(status.as_u16(), None, &body).message;
            Err(with_advice(Some(status), message))
        }
    }
}

/// Adds what to do to the message of an error.
fn with_advice(status: Option<StatusCode>, message: String) -> String {
    match status {
        Some(StatusCode::FORBIDDEN) => format!(
            "{message} (usually fixed by 'kubectl create rolebinding -n kube-system ROLEBINDING_NAME \
             --role=extension-apiserver-authentication-reader \
             --serviceaccount=YOUR_NS:YOUR_SA')",
        ),
        _ => message,
    }
}

/// An event of the watch.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: serde_json::Value,
}

/// Returns the authorities of an event that adds or changes the ConfigMap.
fn changed(event: &[u8]) -> Result<Option<Trust>, String> {
    let event: Event = serde_json::from_slice(event).map_err(|error| error.to_string())?;
    match event.kind.as_str() {
        "ADDED" | "MODIFIED" => {
            let config_map =
                serde_json::from_value(event.object).map_err(|error| error.to_string())?;
            decode(config_map).map(Some)
        }
        "ERROR" => Err(event.object["message"].as_str().unwrap_or("the watch failed").to_owned()),
        _ => Ok(None),
    }
}

/// Decodes the content of the ConfigMap. Authorities that are missing are not trusted.
fn decode(config_map: ConfigMap) -> Result<Trust, String> {
    let data = config_map.data.unwrap_or_default();
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
