//! Decodes responses of the API server, lists and watch streams, into the compact forms.
//!
//! Nodes and pods come as JSON or as protobuf. Either becomes the lean type of the API, and one
//! function turns that into the compact form.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use control::reflector::{NamespacedName, ObjectMeta, Page, StatusError, Undecodable, WatchEvent};
use engine::Change;
use framework::protobuf::{self, Message};
use framework::{EventResource, Extra, ExtraFields, Node, ObjectKey, Pod, PodKey, Uid, api};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::messages;
use super::reduced::reduced;
use super::substitute::substitute;
use super::whole::{Whole, whole};

/// Maximum length in bytes of the part of an unexpected body that errors show.
const SHOWN: usize = 200;

/// Decodes the objects of one kind.
#[derive(Debug, Clone)]
pub struct Decoder {
    resource: EventResource,
    fields: ExtraFields,
    whole: Whole,
}

/// A new, changed or deleted object.
#[derive(Debug, Clone)]
pub struct Update {
    /// The change for the engine.
    pub change: Change,
    /// The object as JSON, if it is kept.
    pub object: Option<Box<RawValue>>,
}

impl From<Change> for Update {
    fn from(change: Change) -> Self {
        Self { change, object: None }
    }
}

/// The identity and version of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Identity<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
}

/// The annotation of the bookmark that ends the initial events of a streamed list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A bookmark with that annotation, perhaps.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotated<'a> {
    #[serde(borrow)]
    metadata: Annotations<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations<'a> {
    #[serde(borrow)]
    annotations: Option<InitialEventsEnd<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InitialEventsEnd<'a> {
    #[serde(rename = "k8s.io/initial-events-end", borrow)]
    value: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    metadata: Identity<'a>,
}

#[derive(Debug, Deserialize)]
struct RawEvent<'a> {
    #[serde(rename = "type", borrow)]
    type_: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Debug, Deserialize)]
struct List<'a> {
    metadata: ListMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) next: String,
}

/// The fields of a `v1` Status that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) code: u16,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Details {
    pub(super) retry_after_seconds: u64,
}

/// A decoded object.
type Decoded = Result<(ObjectMeta, Update), Box<Undecodable<Update>>>;

impl Decoder {
    /// Creates a decoder for objects of this kind, with the additional `fields` that plugins read.
    pub const fn new(resource: EventResource, fields: ExtraFields) -> Self {
        Self { resource, fields, whole: Whole::NONE }
    }

    /// Also returns these objects as JSON.
    pub fn keeping(self, whole: Whole) -> Self {
        Self { whole, ..self }
    }

    /// Whether this decoder reads objects in protobuf, too: nodes and pods, unless a plugin or an
    /// extender needs fields that only their JSON has.
    pub fn reads_protobuf(&self) -> bool {
        match self.resource {
            EventResource::Node => self.fields.node.is_empty() && !self.whole.nodes,
            EventResource::Pod => {
                let Whole { pending_pods, placed_pods, labelled, .. } = self.whole;
                let keeps = pending_pods || placed_pods || labelled.is_some();
                self.fields.pod.is_empty() && !keeps
            }
            _ => false,
        }
    }

    /// Decodes one line of a watch in JSON.
    pub fn watch_event(&self, line: &[u8]) -> WatchEvent<Update> {
        match serde_json::from_slice::<RawEvent<'_>>(line) {
            Ok(event) => self.event(&event.type_, Encoded::Json(event.object)),
            Err(error) => no_event(&error),
        }
    }

    /// Decodes one frame of a watch in protobuf.
    pub fn watch_frame(&self, frame: &[u8]) -> WatchEvent<Update> {
        match protobuf::WatchEvent::read(frame) {
            Ok(event) => self.event(event.type_, Encoded::Protobuf(event.object.raw)),
            Err(error) => no_event(&error),
        }
    }

    fn event(&self, type_: &str, object: Encoded<'_>) -> WatchEvent<Update> {
        match type_ {
            "ADDED" | "MODIFIED" => match self.object(object) {
                Ok((meta, update)) => WatchEvent::Updated(meta, update),
                Err(undecodable) => WatchEvent::Undecodable(*undecodable),
            },
            "DELETED" => match object.identity() {
                Ok(found) => WatchEvent::Deleted(found.meta()),
                Err(message) => unnamed(message),
            },
            "BOOKMARK" => bookmark(object),
            "ERROR" => WatchEvent::Error(match object {
                Encoded::Json(raw) => status_error(0, None, raw.get().as_bytes()),
                Encoded::Protobuf(raw) => messages::status(raw).unwrap_or_default().error(0, None),
            }),
            other => unnamed(format!("an event of the unknown type {other:?}")),
        }
    }

    /// Decodes a page of a list, in JSON or protobuf.
    ///
    /// # Errors
    /// The body is not a list.
    pub fn page(&self, body: &[u8]) -> Result<Page<Update>, String> {
        if !body.starts_with(protobuf::MAGIC) {
            let list: List<'_> = serde_json::from_slice(body).map_err(|error| no_list(&error))?;
            let items = list.items.unwrap_or_default().into_iter().map(Encoded::Json);
            return Ok(self.page_of(list.metadata, items));
        }
        let list = protobuf::Unknown::read(body).and_then(|list| messages::list(list.raw));
        let (metadata, items) = list.map_err(|error| no_list(&error))?;
        Ok(self.page_of(metadata, items.into_iter().map(Encoded::Protobuf)))
    }

    fn page_of<'a>(
        &self,
        metadata: ListMeta,
        items: impl Iterator<Item = Encoded<'a>>,
    ) -> Page<Update> {
        let mut page = Page {
            items: Vec::new(),
            undecodable: Vec::new(),
            resource_version: metadata.resource_version.into(),
            continue_token: Some(metadata.next).filter(|token| !token.is_empty()),
        };
        for item in items {
            match self.object(item) {
                Ok(object) => page.items.push(object),
                Err(undecodable) => page.undecodable.push(*undecodable),
            }
        }
        page
    }

    /// Returns the change that deletes an object.
    pub fn deletion(&self, meta: ObjectMeta) -> Change {
        let NamespacedName { namespace, name } = meta.key;
        match &self.resource {
            EventResource::Node => Change::NodeDeleted(name),
            EventResource::Pod => {
                Change::PodDeleted { key: PodKey { namespace, name }, uid: meta.uid }
            }
            kind => Change::ObjectDeleted(ObjectKey::namespaced(kind.clone(), namespace, name)),
        }
    }

    fn object(&self, encoded: Encoded<'_>) -> Decoded {
        let decoded = match (&self.resource, encoded) {
            (EventResource::Node, Encoded::Json(raw)) => self.node(raw).map_err(text),
            (EventResource::Node, Encoded::Protobuf(raw)) => {
                api::Node::decode(raw).map_err(text).map(|object| self.compact_node(&object, None))
            }
            (EventResource::Pod, Encoded::Json(raw)) => self.pod(raw).map_err(text),
            (EventResource::Pod, Encoded::Protobuf(raw)) => {
                api::Pod::decode(raw).map_err(text).map(|object| self.compact_pod(&object, None))
            }
            (_, Encoded::Json(raw)) => return self.other(raw),
            (_, Encoded::Protobuf(_)) => Err("the kind is not read in protobuf".to_owned()),
        };
        decoded.map_err(|error| {
            let meta = encoded.identity().ok().map(|found| found.meta());
            undecodable(meta, error)
        })
    }

    fn node(&self, raw: &RawValue) -> Result<(ObjectMeta, Update), serde_json::Error> {
        let object: api::Node = serde_json::from_str(raw.get())?;
        let json = parsed(raw, !self.fields.node.is_empty())?;
        let (meta, update) = self.compact_node(&object, json.as_ref());
        let object = self.whole.nodes.then(|| whole(raw)).transpose()?;
        Ok((meta, Update { object, ..update }))
    }

    fn pod(&self, raw: &RawValue) -> Result<(ObjectMeta, Update), serde_json::Error> {
        let object: api::Pod = serde_json::from_str(raw.get())?;
        let json = parsed(raw, !self.fields.pod.is_empty())?;
        let (meta, update) = self.compact_pod(&object, json.as_ref());
        let labels = &object.metadata.labels;
        let is_kept = self.whole.labelled.is_some_and(|label| labels.contains_key(label))
            || match object.spec.node_name.is_empty() {
                true => self.whole.pending_pods,
                false => self.whole.placed_pods,
            };
        let object = match (is_kept, self.whole.as_sent) {
            (false, _) => None,
            (true, true) => Some(raw.to_owned()),
            (true, false) => Some(whole(raw)?),
        };
        Ok((meta, Update { object, ..update }))
    }

    /// Returns the compact form of a node, with the further fields of its JSON that plugins read.
    fn compact_node(&self, object: &api::Node, json: Option<&Value>) -> (ObjectMeta, Update) {
        let mut node = Node::from_api(object).0;
        if let Some(json) = json {
            node.extra = Extra::of(json, &self.fields.node);
        }
        let meta = meta("".into(), node.name.clone(), &object.metadata);
        (meta, Change::Node(node).into())
    }

    /// Returns the compact form of a pod, with the further fields of its JSON that plugins read.
    fn compact_pod(&self, object: &api::Pod, json: Option<&Value>) -> (ObjectMeta, Update) {
        let mut pod = Pod::from_api(object);
        pod.extra = Extra::of_pod(object, json.unwrap_or(&Value::Null), &self.fields);
        let meta = meta(pod.key.namespace.clone(), pod.key.name.clone(), &object.metadata);
        (meta, Change::Pod(Box::new(pod)).into())
    }

    fn other(&self, raw: &RawValue) -> Decoded {
        let meta = Encoded::Json(raw).identity().map_err(|error| undecodable(None, error))?.meta();
        let object = match serde_json::from_str(raw.get()) {
            Ok(object) => Arc::new(reduced(&self.resource, object)),
            Err(error) => return Err(undecodable(Some(meta), error)),
        };
        let NamespacedName { namespace, name } = meta.key.clone();
        let key = ObjectKey::namespaced(self.resource.clone(), namespace, name);
        match Change::decode(key.clone(), Some(object.clone())) {
            Ok(change) => Ok((meta, change.into())),
            Err(error) => {
                let substitute = substitute(&self.resource, &object, &error);
                let substitute = substitute.and_then(|own| Change::decode(key, Some(own)).ok());
                let substitute = substitute.map(Update::from);
                let unreadable = undecodable(Some(meta), error);
                Err(Box::new(Undecodable { substitute, ..*unreadable }))
            }
        }
    }
}

fn undecodable(meta: Option<ObjectMeta>, error: impl Display) -> Box<Undecodable<Update>> {
    let message = format!("cannot be decoded: {error}");
    Box::new(Undecodable { meta, message, substitute: None })
}

/// Returns the event for an object that cannot be named.
fn unnamed(message: String) -> WatchEvent<Update> {
    WatchEvent::Undecodable(Undecodable { meta: None, message, substitute: None })
}

/// An object as the server sent it.
#[derive(Debug, Clone, Copy)]
enum Encoded<'a> {
    Json(&'a RawValue),
    Protobuf(&'a [u8]),
}

impl<'a> Encoded<'a> {
    fn identity(self) -> Result<Identity<'a>, String> {
        let found = match self {
            Self::Json(raw) => serde_json::from_str::<Identified<'_>>(raw.get())
                .map(|object| object.metadata)
                .map_err(text),
            Self::Protobuf(raw) => messages::metadata(raw).map(Identity::from).map_err(text),
        };
        found.map_err(|error| format!("has no readable metadata: {error}"))
    }

    /// Whether the annotation that ends the initial events is `true`.
    fn ends_initial_events(self) -> bool {
        let value = match self {
            Self::Json(raw) => serde_json::from_str::<Annotated<'_>>(raw.get())
                .ok()
                .and_then(|object| object.metadata.annotations?.value),
            Self::Protobuf(raw) => messages::metadata(raw)
                .ok()
                .and_then(|mut found| found.annotations.remove(INITIAL_EVENTS_END))
                .map(Cow::Owned),
        };
        value.is_some_and(|value| value == "true")
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn no_event(error: &dyn std::error::Error) -> WatchEvent<Update> {
    unnamed(format!("not a watch event: {error}"))
}

fn no_list(error: &dyn std::error::Error) -> String {
    format!("not a list: {error}")
}

fn parsed(raw: &RawValue, is_needed: bool) -> Result<Option<Value>, serde_json::Error> {
    is_needed.then(|| serde_json::from_str(raw.get())).transpose()
}

impl From<api::ObjectMeta> for Identity<'_> {
    fn from(metadata: api::ObjectMeta) -> Self {
        Self {
            name: metadata.name.into(),
            namespace: metadata.namespace.into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.into(),
        }
    }
}

impl Identity<'_> {
    fn meta(&self) -> ObjectMeta {
        ObjectMeta {
            key: NamespacedName {
                namespace: (&*self.namespace).into(),
                name: (&*self.name).into(),
            },
            uid: Uid::from(&*self.uid),
            resource_version: (&*self.resource_version).into(),
        }
    }
}

fn meta(namespace: Arc<str>, name: Arc<str>, metadata: &api::ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        key: NamespacedName { namespace, name },
        uid: Uid::from(metadata.uid.as_str()),
        resource_version: metadata.resource_version.as_str().into(),
    }
}

fn bookmark(object: Encoded<'_>) -> WatchEvent<Update> {
    match object.identity() {
        Ok(found) => WatchEvent::Bookmark {
            resource_version: (&*found.resource_version).into(),
            initial_events_end: object.ends_initial_events(),
        },
        Err(message) => unnamed(message),
    }
}

/// Returns the error of a response: the `Status` in the body, in JSON or protobuf, or, if the body
/// is not one, the start of the body. A `code` of 0 stands for the code of the `Status`.
pub fn status_error(code: u16, retry_after: Option<Duration>, body: &[u8]) -> StatusError {
    let status = match protobuf::Unknown::read(body) {
        Ok(object) => messages::status(object.raw).unwrap_or_default(),
        Err(_) => serde_json::from_slice(body).unwrap_or_default(),
    };
    let mut error = status.error(code, retry_after);
    if error.message.is_empty() {
        error.message = shown(body);
    }
    error
}

impl Status {
    fn error(self, code: u16, retry_after: Option<Duration>) -> StatusError {
        let in_body = self.details.map(|details| Duration::from_secs(details.retry_after_seconds));
        StatusError {
            code: if code == 0 { self.code } else { code },
            reason: self.reason,
            message: self.message,
            retry_after: retry_after.or(in_body.filter(|pause| !pause.is_zero())),
        }
    }
}

fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]);
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decoder(resource: EventResource) -> Decoder {
        Decoder::new(resource, ExtraFields::default())
    }

    fn event(decoder: &Decoder, type_: &str, object: &Value) -> WatchEvent<Update> {
        decoder.watch_event(json!({"type": type_, "object": object}).to_string().as_bytes())
    }

    fn pod() -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7"},
            "spec": {"schedulerName": "loadmaster", "nodeName": "n1"},
        })
    }

    #[test]
    fn only_the_annotation_true_ends_the_initial_events() {
        let ends = |annotations: Value| {
            let object = json!({"metadata": {"resourceVersion": "9", "annotations": annotations}});
            match event(&decoder(EventResource::Pod), "BOOKMARK", &object) {
                WatchEvent::Bookmark { initial_events_end, .. } => initial_events_end,
                other => panic!("a bookmark is expected, not {other:?}"),
            }
        };
        assert!(ends(json!({"k8s.io/initial-events-end": "true"})));
        assert!(!ends(json!({"k8s.io/initial-events-end": "false"})));
        assert!(!ends(json!({"other": "true"})));
        assert!(!ends(json!(null)));
    }

    #[test]
    fn code_of_the_response_goes_before_that_in_the_body() {
        let body = json!({"kind": "Status", "code": 500, "reason": "InternalError"}).to_string();
        assert_eq!(status_error(503, None, body.as_bytes()).code, 503);
        assert_eq!(status_error(0, None, body.as_bytes()).code, 500);
    }

    #[test]
    fn object_is_decoded_with_its_identity() {
        let WatchEvent::Updated(meta, Update { change: Change::Pod(pod), object: None }) =
            event(&decoder(EventResource::Pod), "ADDED", &pod())
        else {
            panic!("a changed pod is expected");
        };
        assert_eq!(meta.key.to_string(), "shop/web");
        assert_eq!((&*meta.uid.to_string(), &*meta.resource_version), ("u1", "7"));
        assert_eq!(pod.node_name.as_deref(), Some("n1"));
    }

    #[test]
    fn deleted_object_has_name_and_uid() {
        let decoder = decoder(EventResource::Pod);
        let WatchEvent::Deleted(meta) = event(&decoder, "DELETED", &pod()) else {
            panic!("a deletion is expected");
        };
        let Change::PodDeleted { key, uid } = decoder.deletion(meta) else {
            panic!("a deleted pod is expected");
        };
        assert_eq!((key, uid), (PodKey::new("shop", "web"), Uid::from("u1")));
    }

    #[test]
    fn undecodable_object_is_named() {
        let mut odd = pod();
        odd["spec"]["nodeName"] = json!(7);
        match event(&decoder(EventResource::Pod), "MODIFIED", &odd) {
            WatchEvent::Undecodable(Undecodable { meta: Some(meta), message, .. }) => {
                assert_eq!(meta.key.to_string(), "shop/web");
                assert!(message.contains("expected a string"), "{message}");
            }
            other => panic!("an undecodable object is expected, not {other:?}"),
        }
    }

    fn replica_set(selector: Value, ready: u32) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7"},
            "spec": {"selector": selector},
            "status": {"readyReplicas": ready},
        })
    }

    #[test]
    fn status_of_a_controller_is_ignored() {
        let decoder = decoder(EventResource::ReplicaSet);
        let object_of = |ready| {
            let object = replica_set(json!({"matchLabels": {"app": "web"}}), ready);
            match event(&decoder, "MODIFIED", &object) {
                WatchEvent::Updated(_, Update { change: Change::Object(object), .. }) => {
                    object.json()
                }
                other => panic!("a changed object is expected, not {other:?}"),
            }
        };
        assert_eq!(object_of(1), object_of(2));
    }

    #[test]
    fn invalid_selector_of_a_controller_is_reported() {
        let odd = replica_set(json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}), 1);
        match event(&decoder(EventResource::ReplicaSet), "ADDED", &odd) {
            WatchEvent::Undecodable(Undecodable { meta: Some(meta), message, .. }) => {
                assert_eq!(meta.key.to_string(), "shop/web");
                assert!(message.starts_with("cannot be decoded: spec.selector: "), "{message}");
            }
            other => panic!("an undecodable object is expected, not {other:?}"),
        }
    }

    #[test]
    fn annotated_bookmark_ends_the_initial_events() {
        let decoder = decoder(EventResource::Node);
        let mut object = json!({"kind": "Node", "metadata": {"resourceVersion": "12"}});
        let ends = |object: &Value| match event(&decoder, "BOOKMARK", object) {
            WatchEvent::Bookmark { resource_version, initial_events_end } => {
                assert_eq!(&*resource_version, "12");
                initial_events_end
            }
            other => panic!("a bookmark is expected, not {other:?}"),
        };
        assert!(!ends(&object));
        object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        assert!(ends(&object));
    }

    #[test]
    fn error_event_has_code_and_message_of_the_status() {
        let status = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "old"});
        match event(&decoder(EventResource::Pod), "ERROR", &status) {
            WatchEvent::Error(status_error) => {
                assert_eq!((status_error.code, &*status_error.message), (410, "old"))
            }
            other => panic!("an error is expected, not {other:?}"),
        }
    }

    #[test]
    fn page_keeps_decodable_objects() {
        let list = json!({
            "metadata": {"resourceVersion": "9", "continue": "more"},
            "items": [pod(), {"metadata": {"name": "odd"}, "spec": 5}],
        });
        let page = decoder(EventResource::Pod).page(list.to_string().as_bytes()).unwrap();
        assert_eq!((page.items.len(), page.undecodable.len()), (1, 1));
        assert_eq!((&*page.resource_version, page.continue_token.as_deref()), ("9", Some("more")));
        let nothing = json!({"metadata": {"resourceVersion": "9"}, "items": null});
        let page = decoder(EventResource::Pod).page(nothing.to_string().as_bytes()).unwrap();
        assert!(page.items.is_empty() && page.continue_token.is_none());
    }

    #[test]
    fn error_without_a_status_shows_the_body() {
        let status_error = status_error(502, None, b"<html>Bad Gateway</html>\n");
        assert_eq!((status_error.code, &*status_error.message), (502, "<html>Bad Gateway</html>"));
    }

    #[test]
    fn status_in_protobuf_has_reason_and_pause() {
        let body = b"k8s\0\x12\x15\x1a\x03old\x22\x07Expired\x2a\x02\x28\x07\x30\x9a\x03";
        let error = status_error(0, None, body);
        assert_eq!((error.code, &*error.reason, &*error.message), (410, "Expired", "old"));
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn page_in_protobuf_keeps_decodable_objects() {
        let list = b"\x0a\x09\x12\x019\x1a\x04more\x12\x0a\x0a\x08\x0a\x01n\x1a\0\x32\x017\x12\x02\x0a\x7f";
        let body = [&b"k8s\0\x12\x1b"[..], list].concat();
        let page = decoder(EventResource::Node).page(&body).unwrap();
        assert_eq!((page.items.len(), page.undecodable.len()), (1, 1));
        assert_eq!(page.items[0].0.key.to_string(), "n");
        assert_eq!((&*page.resource_version, page.continue_token.as_deref()), ("9", Some("more")));
        assert!(decoder(EventResource::Node).page(b"k8s\0\x12\x7f").is_err());
    }

    #[test]
    fn kinds_whose_json_is_needed_are_not_read_in_protobuf() {
        let reads = |resource, fields: ExtraFields, whole| {
            Decoder::new(resource, fields).keeping(whole).reads_protobuf()
        };
        let none = ExtraFields::default;
        let field = || ["/spec/x".into()].into();
        let of_pods = || ExtraFields { pod: field(), ..none() };
        let containers = ExtraFields { containers: true, ..none() };
        let kept = |nodes, pending_pods, placed_pods| Whole {
            nodes,
            pending_pods,
            placed_pods,
            ..Whole::NONE
        };
        let labelled = Whole { labelled: Some("example.com/kept"), ..Whole::NONE };
        use EventResource::{Node, Pod, Service};
        for (resource, fields, whole, expected) in [
            (Pod, none(), Whole::NONE, true),
            (Pod, containers, kept(true, false, false), true),
            (Pod, of_pods(), Whole::NONE, false),
            (Pod, none(), kept(false, true, false), false),
            (Pod, none(), kept(false, false, true), false),
            (Pod, none(), labelled, false),
            (Node, of_pods(), kept(false, true, true), true),
            (Node, ExtraFields { node: field(), ..none() }, Whole::NONE, false),
            (Node, none(), kept(true, false, false), false),
            (Service, none(), Whole::NONE, false),
        ] {
            let what = format!("{resource:?} {fields:?} {whole:?}");
            assert_eq!(reads(resource, fields, whole), expected, "{what}");
        }
    }

    #[test]
    fn pods_with_a_label_are_kept() {
        let whole = Whole { labelled: Some("example.com/kept"), ..Whole::NONE };
        let decoder = decoder(EventResource::Pod).keeping(whole);
        let is_kept = |object: &Value| match event(&decoder, "ADDED", object) {
            WatchEvent::Updated(_, update) => update.object.is_some(),
            other => panic!("a changed object is expected, not {other:?}"),
        };
        let mut pod = pod();
        assert!(!is_kept(&pod));
        pod["metadata"]["labels"] = json!({"example.com/kept": "true"});
        assert!(is_kept(&pod), "with a node or without one");
    }

    #[test]
    fn objects_for_a_role_are_returned_as_sent() {
        let whole = Whole { placed_pods: true, as_sent: true, ..Whole::NONE };
        let decoder = decoder(EventResource::Pod).keeping(whole);
        let mut pod = pod();
        pod["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
        let WatchEvent::Updated(_, update) = event(&decoder, "ADDED", &pod) else {
            panic!("a changed object is expected")
        };
        assert_eq!(update.object.map(|object| object.to_string()), Some(pod.to_string()));
    }

    #[test]
    fn kept_objects_are_returned_as_json() {
        let whole = Whole { pending_pods: true, ..Whole::NONE };
        let decoder = decoder(EventResource::Pod).keeping(whole);
        let kept = |object: &Value| match event(&decoder, "ADDED", object) {
            WatchEvent::Updated(_, update) => update.object.map(|object| object.to_string()),
            other => panic!("a changed object is expected, not {other:?}"),
        };
        let mut pod = pod();
        assert_eq!(kept(&pod), None, "it has a node");
        pod["spec"]["nodeName"] = Value::Null;
        pod["kind"] = json!("Pod");
        pod["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
        pod["spec"]["unknown"] = json!(1.50);
        let expected = r#"{"metadata":{"name":"web","namespace":"shop","resourceVersion":"7","uid":"u1"},"spec":{"nodeName":null,"schedulerName":"loadmaster","unknown":1.5}}"#;
        assert_eq!(kept(&pod).as_deref(), Some(expected));
    }
}
