//! Watches whose events are handled as they arrive.

use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt;

use super::lines::Lines;
use super::{ApiClient, error_chain, no_response, read_body};
use crate::wire::status_error;

/// Time that a server gets to end a watch. A proxy may keep a connection open whose other half is
/// dead.
const GRACE: Duration = Duration::from_secs(5);

/// The end of a watch by an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WatchFailed {
    /// The status of the response; `None` if the connection failed.
    pub status: Option<StatusCode>,
    /// The message of the server, or the reason why there is none.
    pub message: String,
}

impl From<String> for WatchFailed {
    fn from(message: String) -> Self {
        Self { status: None, message }
    }
}

impl ApiClient {
    /// Watches the collection at `path`, which may have a query, until the server ends the watch
    /// after `length`, in whole seconds. Passes the JSON of each event to `take`.
    ///
    /// # Errors
    /// The server rejected the watch or did not end it, or the connection failed.
    pub async fn watch(
        &self,
        path: &str,
        length: Duration,
        take: impl FnMut(&[u8]),
    ) -> Result<(), WatchFailed> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let seconds = length.as_secs();
        let path = format!("{path}{separator}timeoutSeconds={seconds}&watch=true");
        let watched = tokio::time::timeout(length + GRACE, self.follow(&path, take)).await;
        watched.unwrap_or_else(|_| Err(no_response(length + GRACE).into()))
    }

    async fn follow(&self, path: &str, mut take: impl FnMut(&[u8])) -> Result<(), WatchFailed> {
        let response = self.get(path).await?;
        let status = response.status();
        if status != StatusCode::OK {
            let body = read_body(response.into_body()).await.unwrap_or_default();
            let message = status_error(status.as_u16(), None, &body).message;
            return Err(WatchFailed { status: Some(status), message });
        }
        let (mut lines, mut body) = (Lines::default(), response.into_body());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| error_chain(&error))?;
            let Ok(chunk) = frame.into_data() else { continue };
            lines.push(&chunk, &mut take);
        }
        Ok(())
    }
}
