//! The API object of an event.

use std::collections::BTreeMap;

use engine::{Event, EventSubject, EventType, ObjectRef};
use framework::{PodKey, Time, Uid, WallOffset};
use serde::Serialize;

use super::Options;
use crate::request::{collection_path, push_segment};
use crate::trace_ids::TRACE_ID_ANNOTATION;

const API_VERSION: &str = "events.k8s.io/v1";

/// Maximum length of the name of an object, in bytes.
const MAX_NAME: usize = 253;

/// Maximum length of `reportingInstance`, in bytes.
const MAX_INSTANCE: usize = 128;

/// A number that makes the name of an event unique: about the time of its first occurrence, in
/// nanoseconds.
pub(super) type Stamp = i64;

/// The importance of an event, lowest first. Of too many events the least important ones are
/// dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Importance {
    /// Failed attempts, which repeat while the pod is pending. Its condition says the same.
    Repeated,
    /// Anything else.
    Other,
    /// An event that happened to a pod once, and that no other object shows.
    Lasting,
}

/// The first occurrence of an event, and the object that is created for it.
#[derive(Debug)]
pub(super) struct EventObject {
    pub(super) event: Event,
    pub(super) stamp: Stamp,
    pub(super) time: Time,
}

/// The number of occurrences of an event and the time of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EventSeries {
    pub(super) count: u32,
    pub(super) last_observed: Time,
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
    series: Option<SeriesBody>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
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
struct SeriesBody {
    count: u32,
    last_observed_time: String,
}

#[derive(Serialize)]
struct Patch {
    series: SeriesBody,
}

impl<'a> Reference<'a> {
    fn to(object: EventSubject, key: &'a PodKey, uid: &Uid) -> Self {
        let (api_version, kind) = object.version_and_kind();
        let (namespace, name) = (&key.namespace, &key.name);
        Self { api_version, kind, namespace, name, uid: uid.to_string() }
    }
}

impl EventObject {
    pub(super) const fn new(event: Event, stamp: Stamp, time: Time) -> Self {
        Self { event, stamp, time }
    }

    pub(super) fn importance(&self) -> Importance {
        match &*self.event.reason {
            "FailedScheduling" => Importance::Repeated,
            "Scheduled" | "Preempted" => Importance::Lasting,
            _ => Importance::Other,
        }
    }

    /// Returns whether the event can occur again for the same object. A pod is bound only once.
    pub(super) fn can_repeat(&self) -> bool {
        self.event.subject != EventSubject::Pod || self.event.reason != "Scheduled"
    }

    /// Returns the name `<object>.<stamp in hex>`. The name of the object is truncated if the
    /// result would be too long.
    pub(super) fn name(&self) -> String {
        let stamp = format!(".{:x}", self.stamp);
        let object = &*self.event.regarding.name;
        let kept = object.floor_char_boundary(MAX_NAME - stamp.len());
        // A label of a DNS name ends with a letter or a digit.
        format!("{}{stamp}", object[..kept].trim_end_matches(['.', '-']))
    }

    /// Returns the path of the events in the namespace of the object.
    pub(super) fn collection_path(&self) -> String {
        collection_path(API_VERSION, &self.event.regarding.namespace, "events")
    }

    /// Returns the path of the object.
    pub(super) fn path(&self) -> String {
        let mut path = self.collection_path();
        push_segment(&mut path, &self.name());
        path
    }

    /// Returns the JSON of the object, with times of a wall clock with this offset.
    pub(super) fn to_json(
        &self,
        options: &Options,
        series: Option<EventSeries>,
        offset: WallOffset,
    ) -> Vec<u8> {
        let event = &self.event;
        let regarding = &event.regarding;
        let instance = format!("{}-{}", event.reporting_controller, options.hostname);
        let name = self.name();
        to_json(&Body {
            api_version: API_VERSION,
            kind: "Event",
            metadata: Metadata {
                name: &name,
                namespace: &regarding.namespace,
                annotations: self.annotations(options),
            },
            event_time: micro_time(self.time, offset),
            reporting_controller: &event.reporting_controller,
            reporting_instance: &instance[..instance.floor_char_boundary(MAX_INSTANCE)],
            action: &event.action,
            reason: &event.reason,
            regarding: Reference::to(event.subject, regarding, &event.uid),
            related: event
                .related
                .as_ref()
                .map(|ObjectRef { pod, uid }| Reference::to(EventSubject::Pod, pod, uid)),
            note: &event.note,
            r#type: match event.event_type {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            },
            series: series.map(|series| series.to_body(offset)),
        })
    }
}

impl EventObject {
    /// Returns the annotation with the trace of a pod that is bound.
    fn annotations(&self, options: &Options) -> BTreeMap<&'static str, String> {
        let traced = options.trace_ids.filter(|_| !self.can_repeat());
        let trace = traced.and_then(|traces| traces.of(&self.event.uid));
        trace.map(|trace| (TRACE_ID_ANNOTATION, trace.to_string())).into_iter().collect()
    }
}

impl EventSeries {
    fn to_body(self, offset: WallOffset) -> SeriesBody {
        SeriesBody { count: self.count, last_observed_time: micro_time(self.last_observed, offset) }
    }

    /// Returns the strategic merge patch that sets the series.
    pub(super) fn to_patch(self, offset: WallOffset) -> Vec<u8> {
        to_json(&Patch { series: self.to_body(offset) })
    }
}

/// Formats the wall time as a `MicroTime`.
fn micro_time(time: Time, offset: WallOffset) -> String {
    format!("{:.6}", offset.wall_time(time))
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("strings and numbers have a JSON form")
}
