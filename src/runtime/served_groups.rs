//! Whether the API server serves PodGroups. That decides about their pods unless a gate does.

use std::time::Duration;

use framework::Level;
use serde_json::Value;
use thiserror::Error;
use tracing::{info, warn};

use super::followed::Followed;
use crate::api_client::{ApiClient, Credentials, read_body};
use crate::metrics::Metrics;

/// Time that the API server gets to answer, before the scheduler starts without an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Delay between two requests.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Whether the API server serves PodGroups of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedGroups {
    /// A gate decides, or the role does not schedule groups.
    NotAsked,
    /// The server has not answered.
    Unknown,
    /// It serves PodGroups of one API at least.
    Served,
    /// It serves no PodGroups, or does not say so.
    Absent,
}

/// The API server did not say at first that it serves PodGroups.
#[derive(Debug, Error)]
#[error(
    "{server} serves PodGroups, and did not answer at first: starting again with the gate \
     GenericWorkload"
)]
pub struct GroupsServed {
    /// The API server.
    server: String,
    /// The level that was followed.
    pub followed: Followed,
}

impl ServedGroups {
    /// Asks the API server, within a few seconds.
    ///
    /// # Errors
    /// The credentials cannot be used.
    pub async fn ask(credentials: &Credentials, level: Level) -> anyhow::Result<Self> {
        // The metrics do not have this request, like that for the version.
        let metrics = Metrics::default().rest_client();
        let client = ApiClient::new(credentials, "scheduler", metrics, Default::default())?;
        let asking = async {
            loop {
                match Self::of(&client, level).await {
                    Self::Unknown => tokio::time::sleep(RETRY_DELAY).await,
                    served => return served,
                }
            }
        };
        let asked = tokio::time::timeout(PATIENCE, asking).await.unwrap_or(Self::Unknown);
        asked.log();
        Ok(asked)
    }

    /// Asks the API server once.
    async fn of(client: &ApiClient, level: Level) -> Self {
        let mut answer = Self::Absent;
        for path in paths(level) {
            match Self::at(client, path).await {
                Self::Absent => {}
                Self::Unknown => answer = Self::Unknown,
                served => return served,
            }
        }
        answer
    }

    /// Asks for the resources of one version of an API group, which every account may read.
    async fn at(client: &ApiClient, path: &str) -> Self {
        let Ok(response) = client.get(path).await else { return Self::Unknown };
        let status = response.status().as_u16();
        match status {
            200 => {
                let Ok(body) = read_body(response.into_body()).await else { return Self::Unknown };
                let list: Value = serde_json::from_slice(&body).unwrap_or_default();
                let mut resources = list["resources"].as_array().into_iter().flatten();
                match resources.any(|resource| resource["name"] == "podgroups") {
                    true => Self::Served,
                    false => Self::Absent,
                }
            }
            404 => Self::Absent,
            401 | 403 => {
                warn!(
                    path,
                    status,
                    "The API server does not tell whether it serves PodGroups; to have their pods \
                     decided together, permit get on the nonResourceURLs /apis/*, or set the gate \
                     GenericWorkload"
                );
                Self::Absent
            }
            _ => Self::Unknown,
        }
    }

    fn log(self) {
        match self {
            Self::Served => info!(
                "The API server serves PodGroups: their pods are decided together (gate \
                 GenericWorkload)"
            ),
            Self::Absent => info!(
                "The API server serves no PodGroups; restart the scheduler when that changes, or \
                 set the gate GenericWorkload"
            ),
            Self::Unknown => warn!("It is unknown whether the API server serves PodGroups"),
            Self::NotAsked => {}
        }
    }

    /// Asks a server that did not answer before.
    ///
    /// # Errors
    /// It serves PodGroups, so that the scheduler has to start with other gates.
    pub(super) async fn ask_again(
        self,
        client: &ApiClient,
        server: &str,
        followed: &Followed,
    ) -> Result<(), GroupsServed> {
        if self != Self::Unknown || Self::of(client, followed.level).await != Self::Served {
            return Ok(());
        }
        Err(GroupsServed { server: server.to_owned(), followed: followed.clone() })
    }
}

/// Returns the discovery paths of the PodGroups that are read at a level.
fn paths(level: Level) -> [&'static str; 2] {
    let kubernetes = match level.is_at_least(Level::V1_37) {
        true => "/apis/scheduling.k8s.io/v1beta1",
        false => "/apis/scheduling.k8s.io/v1alpha2",
    };
    [kubernetes, "/apis/scheduling.x-k8s.io/v1alpha1"]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;
    use crate::api_client::ServerStatus;
    use crate::logs::tests::Capture;

    const GROUPS: &str = r#"{"resources": [{"name": "workloads"}, {"name": "podgroups"}]}"#;
    const OTHERS: &str = r#"{"resources": [{"name": "priorityclasses"}]}"#;

    /// Path, status and body of an answer.
    type Answer = (&'static str, StatusCode, &'static str);

    /// Returns a client of a server with these answers.
    async fn client(answers: &[Answer]) -> ApiClient {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = answers.iter().fold(Router::new(), |router, (path, status, body)| {
            let answer = (*status, *body);
            router.route(path, get(async move || answer))
        });
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
    async fn pod_groups_of_the_level_or_of_coscheduling_are_served() {
        use StatusCode as S;
        const BETA: &str = "/apis/scheduling.k8s.io/v1beta1";
        const ALPHA: &str = "/apis/scheduling.k8s.io/v1alpha2";
        const COSCHEDULING: &str = "/apis/scheduling.x-k8s.io/v1alpha1";
        let rows: [(&[Answer], Level, ServedGroups); 8] = [
            (&[], Level::V1_37, ServedGroups::Absent),
            (&[(BETA, S::OK, GROUPS)], Level::V1_37, ServedGroups::Served),
            (&[(BETA, S::OK, OTHERS)], Level::V1_37, ServedGroups::Absent),
            (&[(BETA, S::OK, GROUPS)], Level::V1_36, ServedGroups::Absent),
            (&[(ALPHA, S::OK, GROUPS)], Level::V1_36, ServedGroups::Served),
            (&[(COSCHEDULING, S::OK, GROUPS)], Level::V1_36, ServedGroups::Served),
            (&[(BETA, S::SERVICE_UNAVAILABLE, "")], Level::V1_37, ServedGroups::Unknown),
            (&[(BETA, S::FORBIDDEN, "")], Level::V1_37, ServedGroups::Absent),
        ];
        for (answers, level, expected) in rows {
            let served = ServedGroups::of(&client(answers).await, level).await;
            assert_eq!(served, expected, "{answers:?} {level}");
        }
    }

    #[tokio::test]
    async fn server_that_serves_pod_groups_and_was_not_asked_in_time_is_a_reason_to_start_again() {
        let capture = Capture::start();
        let served = [("/apis/scheduling.k8s.io/v1beta1", StatusCode::OK, GROUPS)];
        let client = client(&served).await;
        let followed = Followed::by_flag(Level::V1_37);
        let again = ServedGroups::Unknown.ask_again(&client, "s", &followed).await.unwrap_err();
        assert_eq!(again.followed, followed);
        assert!(again.to_string().starts_with("s serves PodGroups"), "{again}");
        for decided in [ServedGroups::NotAsked, ServedGroups::Absent] {
            assert!(decided.ask_again(&client, "s", &followed).await.is_ok());
        }
        assert_eq!(capture.text(), "");
    }
}
