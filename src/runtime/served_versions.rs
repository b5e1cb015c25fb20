//! The version in which the API server serves a kind that is served in several ones.

use std::sync::Arc;

use framework::EventResource;
use framework::device::DEVICE_TAINT_RULES;
use tracing::info;

use crate::api_client::ApiClient;
use crate::wire::{Decoder, WatchedKind};

/// The stable path of DeviceTaintRules, served since Kubernetes 1.37.
const STABLE: &str = "/apis/resource.k8s.io/v1/devicetaintrules";

/// Sets the path of DeviceTaintRules to the stable version, unless the API server does not serve
/// it. The objects of both versions have the same form, and a server that serves both has each rule
/// in both.
pub(super) async fn choose_versions(client: &ApiClient, kinds: &mut [(Decoder, WatchedKind)]) {
    let is_rule = |kind: &WatchedKind| matches!(&kind.resource, EventResource::Custom(name) if **name == *DEVICE_TAINT_RULES);
    for (_, kind) in kinds.iter_mut().filter(|(_, kind)| is_rule(kind)) {
        choose_version(client, &mut kind.path).await;
    }
}

async fn choose_version(client: &ApiClient, path: &mut Arc<str>) {
    if !is_served(client, STABLE).await {
        info!(
            path = &**path,
            "The API server does not serve DeviceTaintRules in version v1; watching the beta version"
        );
        return;
    }
    let beta = std::mem::replace(path, STABLE.into());
    if is_served(client, &beta).await {
        info!(
            path = STABLE,
            "The API server serves DeviceTaintRules in version v1 and in the beta version, each rule in both; \
             watching v1"
        );
    }
}

/// Whether the server serves a list at `path`. A server that does not say so is asked again by the
/// watch.
async fn is_served(client: &ApiClient, path: &str) -> bool {
    let answer = client.get(&format!("{path}?limit=1")).await;
    answer.is_ok_and(|answer| answer.status().as_u16() != 404)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;

    use super::*;
    use crate::api_client::{Credentials, ServerStatus};
    use crate::logs::tests::Capture;
    use crate::metrics::Metrics;

    const BETA: &str = "/apis/resource.k8s.io/v1beta2/devicetaintrules";

    /// Returns a client of a server that serves lists at these paths.
    async fn client(paths: &[&'static str]) -> ApiClient {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let list = async || r#"{"items": [], "metadata": {}}"#;
        let router = paths.iter().fold(Router::new(), |router, path| router.route(path, get(list)));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let kubeconfig = format!(
            "{{clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [], \
             contexts: [{{name: c, context: {{cluster: c}}}}], current-context: c}}"
        );
        let credentials = Credentials::parse(&kubeconfig).await.unwrap();
        let metrics = Metrics::new().rest_client();
        ApiClient::new(&credentials, "t", metrics, Arc::new(ServerStatus::default())).unwrap()
    }

    #[tokio::test]
    async fn beta_is_watched_only_where_v1_is_absent() {
        let rows: [(&[&'static str], &str, &str); 3] = [
            (&[BETA], BETA, "does not serve DeviceTaintRules in version v1; watching the beta"),
            (&[STABLE], STABLE, ""),
            (&[STABLE, BETA], STABLE, "in version v1 and in the beta version, each rule in both"),
        ];
        for (served, expected, told) in rows {
            let client = client(served).await;
            let capture = Capture::start();
            let mut path = Arc::from(BETA);
            choose_version(&client, &mut path).await;
            assert_eq!(&*path, expected, "{served:?}");
            let text = capture.text();
            assert!(text.contains(told), "{text}");
            assert_eq!(text.lines().count(), usize::from(!told.is_empty()), "{text}");
        }
    }
}
