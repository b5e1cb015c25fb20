//! The version in which the API server serves a kind that is served in several ones.

use std::sync::Arc;

use framework::device::DEVICE_TAINT_RULES;
use framework::{EventResource, Level};
use tracing::info;

use crate::api_client::ApiClient;
use crate::wire::{Decoder, WatchedKind};

/// A kind that is served in two versions.
struct TwoVersions {
    /// The plural name of the kind in log lines.
    kind: &'static str,
    newer: &'static str,
    newer_path: &'static str,
    older: &'static str,
    /// Whether the older version is that of level 1.36, which writes it.
    older_is_of_1_36: bool,
}

/// DeviceTaintRules are stable since Kubernetes 1.37.
const TAINT_RULES: TwoVersions = TwoVersions {
    kind: "DeviceTaintRules",
    newer: "v1",
    newer_path: "/apis/resource.k8s.io/v1/devicetaintrules",
    older: "v1beta2",
    older_is_of_1_36: false,
};
/// PodGroups are beta since Kubernetes 1.37.
const POD_GROUPS: TwoVersions = TwoVersions {
    kind: "PodGroups",
    newer: "v1beta1",
    newer_path: "/apis/scheduling.k8s.io/v1beta1/podgroups",
    older: "v1alpha2",
    older_is_of_1_36: true,
};

/// Sets the path of DeviceTaintRules and PodGroups to that of their newer version, unless the API
/// server does not serve it. The scheduler reads the same fields of both versions, and a server that
/// serves both has each object in both. At level 1.36 PodGroups are read in the version in which
/// their conditions are written, if it is served.
pub(super) async fn choose_versions(
    client: &ApiClient,
    kinds: &mut [(Decoder, WatchedKind)],
    level: Level,
) {
    for (_, kind) in kinds {
        if let Some(versions) = TwoVersions::of(&kind.resource) {
            versions.choose(client, &mut kind.path, level).await;
        }
    }
}

impl TwoVersions {
    fn of(resource: &EventResource) -> Option<Self> {
        match resource {
            EventResource::Custom(name) if **name == *DEVICE_TAINT_RULES => Some(TAINT_RULES),
            EventResource::PodGroup => Some(POD_GROUPS),
            _ => None,
        }
    }

    async fn choose(&self, client: &ApiClient, path: &mut Arc<str>, level: Level) {
        let Self { kind, newer, newer_path, older, older_is_of_1_36 } = self;
        let writes_older = *older_is_of_1_36 && !level.is_at_least(Level::V1_37);
        if writes_older && is_served(client, path).await {
            return;
        }
        if !is_served(client, newer_path).await {
            info!(
                path = &**path,
                "The API server does not serve {kind} in version {newer}; watching {older}"
            );
            return;
        }
        let older_path = std::mem::replace(path, (*newer_path).into());
        if is_served(client, &older_path).await {
            info!(
                path = newer_path,
                "The API server serves {kind} in the versions {newer} and {older}, each object in both; watching {newer}"
            );
        }
    }
}

/// Whether the server serves a list at `path`. A server that does not say so is asked again by the
/// watch. A server denies a list that is not permitted whether or not it serves it, and serves the
/// version of the group if it is an older one.
async fn is_served(client: &ApiClient, path: &str) -> bool {
    let status = async |path: &str| client.get(path).await.map(|answer| answer.status().as_u16());
    match status(&format!("{path}?limit=1")).await {
        Ok(404) | Err(_) => false,
        Ok(403) => {
            let version = path.rsplit_once('/').map_or(path, |(version, _)| version);
            status(version).await != Ok(404)
        }
        Ok(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;

    use super::*;
    use crate::api_client::{Credentials, ServerStatus};
    use crate::logs::tests::Capture;
    use crate::metrics::Metrics;

    const STABLE: &str = TAINT_RULES.newer_path;
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
    async fn older_version_is_watched_only_where_the_newer_one_is_absent() {
        let rows: [(&[&'static str], &str, &str); 3] = [
            (&[BETA], BETA, "does not serve DeviceTaintRules in version v1; watching v1beta2"),
            (&[STABLE], STABLE, ""),
            (&[STABLE, BETA], STABLE, "in the versions v1 and v1beta2, each object in both"),
        ];
        for (served, expected, told) in rows {
            let client = client(served).await;
            let capture = Capture::start();
            let mut path = Arc::from(BETA);
            TAINT_RULES.choose(&client, &mut path, Level::V1_36).await;
            assert_eq!(&*path, expected, "{served:?}");
            let text = capture.text();
            assert!(text.contains(told), "{text}");
            assert_eq!(text.lines().count(), usize::from(!told.is_empty()), "{text}");
        }
    }

    #[tokio::test]
    async fn pod_groups_are_watched_in_the_version_of_the_level() {
        const BETA: &str = POD_GROUPS.newer_path;
        const ALPHA: &str = "/apis/scheduling.k8s.io/v1alpha2/podgroups";
        let rows: [(&[&'static str], Level, &str); 4] = [
            (&[ALPHA, BETA], Level::V1_36, ALPHA),
            (&[ALPHA, BETA], Level::V1_37, BETA),
            (&[ALPHA], Level::V1_37, ALPHA),
            (&[BETA], Level::V1_36, BETA),
        ];
        for (served, level, expected) in rows {
            let client = client(served).await;
            let mut path = Arc::from(ALPHA);
            POD_GROUPS.choose(&client, &mut path, level).await;
            assert_eq!(&*path, expected, "{served:?} {level}");
        }
    }
}
