//! Events of delegates, which schedulers show on the originals.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tracing::info;

use super::super::watched;
use super::Shared;
use crate::api_client::ApiClient;
use crate::supervision::catch_panic;

/// Events of pods. Without a resourceVersion, a watch begins with the existing events.
const PATH: &str = "/api/v1/events?fieldSelector=involvedObject.kind%3DPod";
/// Length of a watch. The next one begins with all events again.
const LENGTH: Duration = Duration::from_mins(5);
/// Pause before the next watch.
const PAUSE: Duration = Duration::from_secs(5);
/// Follows the events of pods without end.
pub(super) async fn follow(client: ApiClient, shared: Arc<Shared>) -> Infallible {
    let mut logged: Option<String> = None;
    loop {
        let take = |line: &[u8]| {
            if let Some((uid, event)) = watched::event(line) {
                shared.delegates.add_event(&uid, event);
            }
        };
        let watched = catch_panic(client.watch(PATH, LENGTH, take)).await;
        let error = match watched {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(panic.to_string()),
        };
        if let Some(err) = error.as_ref().filter(|_| logged != error) {
            info!(err, "Cannot watch events; those of delegates are not shown on their pods");
        }
        logged = error;
        tokio::time::sleep(PAUSE).await;
    }
}
