//! The parts of watched objects that the roles read.

use std::sync::Arc;

use framework::{Pod, Uid};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use supercluster::delegate::DelegateMark;
use supercluster::message::{Delegate, DelegateEvent, PodObject};
use supercluster::scheduler::OriginalPod;

/// Maximum number of characters of the message of an event.
const MAX_MESSAGE: usize = 1_000;

/// Returns an original pod, `None` if the object cannot be read. Its kind and `managedFields` are
/// left out: the object is sent to agents.
pub fn original(pod: Pod, object: &RawValue) -> Option<OriginalPod> {
    let mut object: Value = serde_json::from_str(object.get()).ok()?;
    let fields = object.as_object_mut()?;
    fields.remove("kind");
    fields.remove("apiVersion");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Some(OriginalPod::new(PodObject { pod: Arc::new(pod), object: Arc::new(object) }))
}

/// The fields of a delegate that an agent reads beside the compact form.
#[derive(Deserialize)]
struct Marked {
    metadata: Annotated,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
struct Annotated {
    #[serde(default)]
    annotations: Value,
}

/// Returns the mark of a delegate and its status, `None` if the pod is not a delegate.
pub fn delegate(object: &RawValue) -> Option<(DelegateMark, Value)> {
    let Marked { metadata, status } = serde_json::from_str(object.get()).ok()?;
    Some((DelegateMark::in_annotations(&metadata.annotations)?, status))
}

/// The fields of the answer to a write that an agent reads beside the compact form.
#[derive(Deserialize)]
struct Answered {
    metadata: Annotated,
}

/// Returns a pod as the API server has answered it, with its mark if it is a delegate.
pub(super) fn answered(body: &[u8]) -> Result<(Arc<Pod>, Option<DelegateMark>), serde_json::Error> {
    let pod = Pod::from_api(&serde_json::from_slice(body)?);
    let Answered { metadata } = serde_json::from_slice(body)?;
    Ok((Arc::new(pod), DelegateMark::in_annotations(&metadata.annotations)))
}

/// Returns a delegate as the agent lists it.
pub(super) fn listed(pod: &Pod, mark: &DelegateMark, status: Value) -> Delegate {
    Delegate {
        pod: mark.key.pod.clone(),
        number: mark.key.number,
        namespace: pod.key.namespace.clone(),
        name: pod.key.name.clone(),
        origin: mark.origin.clone(),
        uid: pod.uid.to_string().into(),
        node: pod.node_name.clone(),
        terminating: pod.terminating,
        status,
        events: Vec::new(),
    }
}

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

/// Returns the UID of the pod and the event in a line of a watch of events, `None` if it is none to
/// show.
pub fn event(line: &[u8]) -> Option<(Uid, DelegateEvent)> {
    let WatchEvent { kind, object } = serde_json::from_slice(line).ok()?;
    if !matches!(kind.as_str(), "ADDED" | "MODIFIED") || object.involved_object.uid.is_empty() {
        return None;
    }
    let component = match object.reporting_component.is_empty() {
        true => object.source.component,
        false => object.reporting_component,
    };
    let of_series = object.series.map(|series| series.count);
    let shown = DelegateEvent {
        uid: object.metadata.uid.into(),
        warning: object.kind == "Warning",
        reason: object.reason.into(),
        message: object.message.chars().take(MAX_MESSAGE).collect::<String>().into(),
        component: component.into(),
        count: of_series.or(object.count).unwrap_or(1).max(1),
    };
    Some((Uid::from(&*object.involved_object.uid), shown))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn object_of_an_original_has_no_managed_fields() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p",
            "managedFields": [{"manager": "kubectl"}]}, "spec": {"unknown": 1}});
        let pod = Pod::from_api(&framework::api::Pod::default());
        let raw = serde_json::value::to_raw_value(&object).unwrap();
        let original = original(pod, &raw).unwrap();
        let expected = json!({"metadata": {"name": "p"}, "spec": {"unknown": 1}});
        assert_eq!(*original.object.object, expected);
    }

    #[test]
    fn delegate_is_read_without_its_specification() {
        let object = json!({"metadata": {"name": "p", "annotations": {
                "supercluster.loadmaster.io/origin-uid": "u",
                "supercluster.loadmaster.io/try": "2.1",
                "supercluster.loadmaster.io/node": "n",
                "supercluster.loadmaster.io/incarnation": "i"}},
            "spec": {"containers": []}, "status": {"phase": "Running"}});
        let raw = serde_json::value::to_raw_value(&object).unwrap();
        let (mark, status) = delegate(&raw).unwrap();
        assert_eq!(Some(&mark), DelegateMark::of(&object).as_ref());
        assert_eq!(status, json!({"phase": "Running"}));
        let (_, answered) = answered(object.to_string().as_bytes()).unwrap();
        assert_eq!(answered, Some(mark));
        let other = serde_json::value::to_raw_value(&json!({"metadata": {"name": "p"}})).unwrap();
        assert!(delegate(&other).is_none(), "a pod without annotations");
    }

    fn line(kind: &str, object: &Value) -> Vec<u8> {
        json!({"type": kind, "object": object}).to_string().into_bytes()
    }

    #[test]
    fn events_of_both_forms_are_read() {
        let object = json!({"metadata": {"uid": "e"}, "involvedObject": {"kind": "Pod", "uid": "p"},
            "reason": "BackOff", "message": "x".repeat(2_000), "type": "Warning", "count": 7,
            "source": {"component": "kubelet"}, "reportingComponent": ""});
        let (pod, found) = event(&line("ADDED", &object)).unwrap();
        assert_eq!((pod, found.count, found.warning), (Uid::from("p"), 7, true));
        assert_eq!((&*found.component, found.message.len()), ("kubelet", MAX_MESSAGE));
        let series = json!({"metadata": {"uid": "e"}, "involvedObject": {"uid": "p"},
            "reason": "FailedScheduling", "series": {"count": 3},
            "reportingComponent": "loadmaster-agent"});
        let (_, found) = event(&line("MODIFIED", &series)).unwrap();
        assert_eq!((found.count, &*found.component), (3, "loadmaster-agent"));
        assert!(event(&line("DELETED", &series)).is_none());
        assert!(event(&line("BOOKMARK", &json!({"metadata": {}}))).is_none());
        assert!(event(b"{").is_none());
    }
}
