//! Waiting for the API server, checking its version, and reporting outages.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use tracing::{info, warn};

use super::followed::Followed;
use crate::api_client::{ApiClient, ServerStatus, Version, VersionError};
use crate::clock::Clock;

/// The oldest supported minor version of Kubernetes.
const MIN_MINOR_VERSION: u32 = 33;
/// Delay between two attempts to read the version of the server.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Waits until the API server responds, and checks its version if it tells it.
///
/// # Errors
/// The server does not accept the credentials, is not trusted, or is too old, or the level was
/// chosen without the server, which chooses another one.
pub(super) async fn wait_for_api_server(
    client: &ApiClient,
    server: &str,
    followed: &Followed,
) -> anyhow::Result<()> {
    let mut logged = None;
    loop {
        match client.version().await {
            Ok(version) => {
                info!(server, version = version.git_version, "Connected to the API server");
                check_version(server, &version)?;
                return Ok(followed.compare(server, &version)?);
            }
            Err(VersionError::Withheld(status)) => {
                let status = status.as_u16();
                warn!(
                    server,
                    status,
                    "The API server does not tell its version, so it is unknown whether it runs \
                     Kubernetes 1.{MIN_MINOR_VERSION} or later, the oldest supported version; to have it \
                     checked, permit get on the nonResourceURL /version"
                );
                return Ok(());
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

/// Number of looks at the status of the server within its tolerance: one every five seconds.
const LOOKS: u32 = 6;
/// Time between two log lines about the same outage.
const REMINDER_INTERVAL: Duration = Duration::from_mins(5);

/// Logs outages of the API server and their ends. Never ends.
///
/// While requests fail, this task sends requests of its own: the scheduler may have no other
/// request to send, and would not notice the end of the outage.
pub(super) async fn report_outages(client: ApiClient, status: Arc<ServerStatus>) -> Infallible {
    let mut logged: Option<Clock> = None;
    loop {
        tokio::time::sleep(status.tolerance() / LOOKS).await;
        if status.requests_fail() {
            // The client records the outcome.
            let _ = client.version().await;
        }
        match (status.check(), logged) {
            (Err(err), last) if last.is_none_or(|last| last.elapsed() >= REMINDER_INTERVAL) => {
                warn!(err, "Not ready: the API server is unreachable or refuses requests");
                logged = Some(Clock::start());
            }
            (Ok(()), Some(_)) => {
                info!("Ready: the API server accepts requests again");
                logged = None;
            }
            _ => {}
        }
    }
}

fn check_version(server: &str, version: &Version) -> anyhow::Result<()> {
    match version.minor() {
        Some(minor) if minor < MIN_MINOR_VERSION => bail!(
            "{server} runs Kubernetes {}, and the oldest version that Loadmaster works with is \
             1.{MIN_MINOR_VERSION}: upgrade the API server, or run the kube-scheduler of its version",
            version.git_version
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;
    use framework::Level;

    use super::*;
    use crate::api_client::Credentials;
    use crate::logs::tests::Capture;
    use crate::metrics::Metrics;

    /// Longer than a request to this host takes.
    const TOLERANCE: Duration = Duration::from_millis(60);

    /// Returns a client of a server with this answer at `/version`, and the status of that server.
    async fn client(status: StatusCode, body: &'static str) -> (ApiClient, Arc<ServerStatus>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/version", get(async move || (status, body)));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let kubeconfig = format!(
            "{{clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [], \
             contexts: [{{name: c, context: {{cluster: c}}}}], current-context: c}}"
        );
        let credentials = Credentials::parse(&kubeconfig).await.unwrap();
        let metrics = Metrics::new().rest_client();
        let status = Arc::new(ServerStatus::with_tolerance(TOLERANCE));
        (ApiClient::new(&credentials, "t", metrics, status.clone()).unwrap(), status)
    }

    #[tokio::test]
    async fn outage_is_logged_once_and_its_end_is_looked_for() {
        let capture = Capture::start();
        let answer = r#"{"major": "1", "minor": "36", "gitVersion": "v1.36.2"}"#;
        let (client, status) = client(StatusCode::OK, answer).await;
        // No other request notices that the server is back.
        status.requested(Some("no response"));
        let pods = Arc::from("pods");
        status.watched(&pods, Some("/api/v1/pods: not allowed"));
        let reporting = report_outages(client, status.clone());
        assert!(tokio::time::timeout(TOLERANCE * 4, reporting).await.is_err());
        let text = capture.text();
        assert_eq!(text.matches("Not ready: the API server is unreachable").count(), 1, "{text}");
        assert!(text.contains("/api/v1/pods: not allowed"), "{text}");
        assert!(!status.requests_fail(), "the task has asked for the version");
    }

    #[tokio::test]
    async fn end_of_an_outage_is_logged() {
        let capture = Capture::start();
        let (client, status) = client(StatusCode::OK, "{}").await;
        let pods = Arc::from("pods");
        status.watched(&pods, Some("/api/v1/pods: not allowed"));
        let granted = async {
            tokio::time::sleep(TOLERANCE * 2).await;
            status.watched(&pods, None);
            tokio::time::sleep(TOLERANCE).await;
        };
        let reporting = report_outages(client, status.clone());
        tokio::select! {
            _ = reporting => {}
            () = granted => {}
        }
        let text = capture.text();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(
            text.trim_end().ends_with("Ready: the API server accepts requests again\""),
            "{text}"
        );
    }

    #[tokio::test]
    async fn daemon_starts_without_the_permission_to_read_the_version() {
        let (client, status) = client(StatusCode::FORBIDDEN, "{}").await;
        wait_for_api_server(&client, "s", &Followed::by_flag(Level::V1_36)).await.unwrap();
        assert!(!status.requests_fail(), "a server that answers is ready");
    }

    #[tokio::test]
    async fn old_server_is_refused() {
        let old = r#"{"major": "1", "minor": "32+", "gitVersion": "v1.32.4"}"#;
        let (client, _) = client(StatusCode::OK, old).await;
        let error =
            wait_for_api_server(&client, "s", &Followed::by_flag(Level::V1_36)).await.unwrap_err();
        let expected = "s runs Kubernetes v1.32.4, and the oldest version that Loadmaster works with is 1.33: \
                        upgrade the API server, or run the kube-scheduler of its version";
        assert_eq!(error.to_string(), expected);
    }

    #[tokio::test]
    async fn oldest_supported_server_is_accepted() {
        let oldest = r#"{"major": "1", "minor": "33", "gitVersion": "v1.33.0"}"#;
        let (client, _) = client(StatusCode::OK, oldest).await;
        wait_for_api_server(&client, "s", &Followed::by_flag(Level::V1_36)).await.unwrap();
    }
}
