//! An event as it stands in the API.

use engine::{Event, EventType, ObjectRef};
use framework::{PodKey, Time, Uid};
use serde::Serialize;

use crate::request::{collection_path, push_segment};

const API_VERSION: &str = "events.k8s.io/v1";

/// Longest name of an object, in bytes.
const NAME_MAX: usize = 253;

/// Longest `reportingInstance` the API server takes, in bytes.
const INSTANCE_MAX: usize = 128;

/// An event that was seen for the first time.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) event: Event,
    /// Makes its name unique.
    pub(super) stamp: i64,
    pub(super) time: Time,
}

/// How often an event has happened, and when it did so last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occurrences {
    pub(super) count: u32,
    pub(super) last: Time,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    event_time: String,
    reporting_controller: &'a str,
    reporting_instance: &'a str,
    action: &'a str,
    reason: &'a str,
    regarding: Reference<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    related: Option<Reference<'a>>,
    note: &'a str,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Series>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    api_version: &'static str,
    kind: &'static str,
    namespace: &'a str,
    name: &'a str,
    uid: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    count: u32,
    last_observed_time: String,
}

#[derive(Serialize)]
struct Patch {
    series: Series,
}

impl<'a> Reference<'a> {
    fn to_pod(pod: &'a PodKey, uid: &Uid) -> Self {
        Self {
            api_version: "v1",
            kind: "Pod",
            namespace: &pod.namespace,
            name: &pod.name,
            uid: uid.to_string(),
        }
    }
}

impl Record {
    pub(super) const fn new(event: Event, stamp: i64, time: Time) -> Self {
        Self { event, stamp, time }
    }

    /// Whether it can happen to the same pod again. A pod is bound once.
    pub(super) fn may_repeat(&self) -> bool {
        self.event.reason != "Scheduled"
    }

    /// `<pod>.<stamp in hex>`, with the end of the pod's name cut off where it would be too long.
    pub(super) fn name(&self) -> String {
        let stamp = format!(".{:x}", self.stamp);
        let pod = &*self.event.regarding.name;
        let kept = pod.floor_char_boundary(NAME_MAX - stamp.len());
        // What ends a label of a DNS name is a letter or a digit.
        format!("{}{stamp}", pod[..kept].trim_end_matches(['.', '-']))
    }

    /// Where it is created: in the namespace of its pod.
    pub(super) fn collection_path(&self) -> String {
        collection_path(API_VERSION, &self.event.regarding.namespace, "events")
    }

    /// Where it is.
    pub(super) fn path(&self) -> String {
        let mut path = self.collection_path();
        push_segment(&mut path, &self.name());
        path
    }

    /// The object.
    pub(super) fn to_json(&self, hostname: &str, series: Option<Occurrences>) -> Vec<u8> {
        let event = &self.event;
        let pod = &event.regarding;
        let instance = format!("{}-{hostname}", event.reporting_controller);
        to_json(&Body {
            api_version: API_VERSION,
            kind: "Event",
            metadata: Metadata { name: &self.name(), namespace: &pod.namespace },
            event_time: micros(self.time),
            reporting_controller: &event.reporting_controller,
            reporting_instance: &instance[..instance.floor_char_boundary(INSTANCE_MAX)],
            action: &event.action,
            reason: &event.reason,
            regarding: Reference::to_pod(pod, &event.uid),
            related: event
                .related
                .as_ref()
                .map(|ObjectRef { pod, uid }| Reference::to_pod(pod, uid)),
            note: &event.note,
            r#type: match event.event_type {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            },
            series: series.map(Occurrences::to_series),
        })
    }
}

impl Occurrences {
    fn to_series(self) -> Series {
        Series { count: self.count, last_observed_time: micros(self.last) }
    }

    /// The strategic merge patch that tells it.
    pub(super) fn to_patch(self) -> Vec<u8> {
        to_json(&Patch { series: self.to_series() })
    }
}

/// The form of a `MicroTime`.
fn micros(time: Time) -> String {
    format!("{time:.6}")
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("strings and numbers have a JSON form")
}
