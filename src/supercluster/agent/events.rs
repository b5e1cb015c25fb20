//! Events of delegates, which schedulers show on the originals.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use framework::Uid;
use serde::Deserialize;
use supercluster::message::DelegateEvent;
use tracing::info;

use super::Shared;
use crate::api_client::ApiClient;
use crate::supervision::catch_panic;

/// Events of pods. Without a resourceVersion, a watch begins with those that exist.
const PATH: &str = "/api/v1/events?fieldSelector=involvedObject.kind%3DPod";
/// Length of a watch. The next one begins with all events again.
const LENGTH: Duration = Duration::from_mins(5);
/// Pause before the next watch.
const PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of characters of a message.
const MAX_MESSAGE: usize = 1_000;

/// The fields of a watch event that are read.
#[derive(Deserialize)]
struct WatchEvent {
    #[serde(rename = "type")]
    kind: String,
    object: Event,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    metadata: Metadata,
    involved_object: Involved,
    reason: String,
    message: String,
    #[serde(rename = "type")]
    kind: String,
    count: Option<u32>,
    series: Option<Series>,
    source: Source,
    reporting_component: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Involved {
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Series {
    count: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Source {
    component: String,
}

impl Default for Event {
    fn default() -> Self {
        Self {
            metadata: Metadata::default(),
            involved_object: Involved::default(),
            reason: String::new(),
            message: String::new(),
            kind: "Normal".to_owned(),
            count: None,
            series: None,
            source: Source::default(),
            reporting_component: String::new(),
        }
    }
}

/// Returns the UID of the pod and the event, `None` if it is none to show.
fn read(line: &[u8]) -> Option<(Uid, DelegateEvent)> {
    let WatchEvent { kind, object } = serde_json::from_slice(line).ok()?;
    if !matches!(kind.as_str(), "ADDED" | "MODIFIED") || object.involved_object.uid.is_empty() {
        return None;
    }
    let component = match object.reporting_component.is_empty() {
        true => object.source.component,
        false => object.reporting_component,
    };
    let of_series = object.series.map(|series| series.count);
    let event = DelegateEvent {
        uid: object.metadata.uid.into(),
        warning: object.kind == "Warning",
        reason: object.reason.into(),
        message: object.message.chars().take(MAX_MESSAGE).collect::<String>().into(),
        component: component.into(),
        count: of_series.or(object.count).unwrap_or(1).max(1),
    };
    Some((Uid::from(&*object.involved_object.uid), event))
}

/// Follows the events of pods without end.
pub(super) async fn follow(client: ApiClient, shared: Arc<Shared>) -> Infallible {
    let mut logged: Option<String> = None;
    loop {
        let take = |line: &[u8]| {
            if let Some((uid, event)) = read(line) {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn line(kind: &str, object: &Value) -> Vec<u8> {
        json!({"type": kind, "object": object}).to_string().into_bytes()
    }

    #[test]
    fn events_of_both_forms_are_read() {
        let object = json!({"metadata": {"uid": "e"}, "involvedObject": {"kind": "Pod", "uid": "p"},
            "reason": "BackOff", "message": "x".repeat(2_000), "type": "Warning", "count": 7,
            "source": {"component": "kubelet"}, "reportingComponent": ""});
        let (pod, event) = read(&line("ADDED", &object)).unwrap();
        assert_eq!((pod, event.count, event.warning), (Uid::from("p"), 7, true));
        assert_eq!((&*event.component, event.message.len()), ("kubelet", MAX_MESSAGE));
        let series = json!({"metadata": {"uid": "e"}, "involvedObject": {"uid": "p"},
            "reason": "FailedScheduling", "series": {"count": 3},
            "reportingComponent": "loadmaster-agent"});
        let (_, event) = read(&line("MODIFIED", &series)).unwrap();
        assert_eq!((event.count, &*event.component), (3, "loadmaster-agent"));
        assert!(read(&line("DELETED", &series)).is_none());
        assert!(read(&line("BOOKMARK", &json!({"metadata": {}}))).is_none());
        assert!(read(b"{").is_none());
    }
}
