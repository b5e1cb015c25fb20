//! Bodies in protobuf: recorded ones, and ones that the tests encode with the table.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use framework::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::schema::{Field, Message, Place, SCHEMA, Type};
use super::wire::{Content, Fields};
use super::{MAGIC, MEDIA_TYPE, Malformed, decode, object, with_json_body};
use crate::api::{Answer, Request, Response};
use crate::object::entries;
use crate::recorded::{dialogue, dialogues};
use crate::resources::{DEPLOYMENTS, NAMESPACES, PODS};
use crate::store::Store;

const NOW: Time = Time::from_secs(1_700_000_000);

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}

fn number(place: u64, number: i64) -> Vec<u8> {
    [varint(place << 3), varint(number.cast_unsigned())].concat()
}

fn delimited(place: u64, content: &[u8]) -> Vec<u8> {
    [varint(place << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// Returns the message of an object as a Go client writes it.
fn message(message: &Message, object: &Value) -> Vec<u8> {
    let fields = message.fields();
    fields.flat_map(|(place, field)| encode_field(place, field, object)).collect()
}

fn encode_field(place: u64, field: &Field, object: &Value) -> Vec<u8> {
    let encode = |value: &Value| encode_value(place, field.holds, value);
    match field.place {
        Place::Inline => encode(object),
        Place::Named { name, .. } => object.get(name).map(encode).unwrap_or_default(),
        Place::List(name) => entries(object, &format!("/{name}")).flat_map(encode).collect(),
        Place::Map(name) => {
            let entries = object.get(name).and_then(Value::as_object).into_iter().flatten();
            let entry = |(key, value): (&String, &Value)| {
                let value = encode_value(2, field.holds, value);
                delimited(place, &[delimited(1, key.as_bytes()), value].concat())
            };
            entries.flat_map(entry).collect()
        }
    }
}

fn encode_value(place: u64, holds: Type, value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    match holds {
        _ if value.is_null() => Vec::new(),
        Type::Bool => number(place, value.as_bool().unwrap().into()),
        Type::Int => number(place, value.as_i64().unwrap()),
        Type::String => delimited(place, text.as_bytes()),
        Type::Bytes => delimited(place, &STANDARD.decode(text).unwrap()),
        Type::Quantity => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            delimited(place, &delimited(1, text.as_bytes()))
        }
        Type::IntOrString => {
            let kind = number(1, value.is_string().into());
            let int = number(2, value.as_i64().unwrap_or_default());
            delimited(place, &[kind, int, delimited(3, text.as_bytes())].concat())
        }
        Type::Time | Type::MicroTime => {
            let nanos = Time::parse_rfc3339(text).unwrap().as_nanos();
            let (seconds, nanos) =
                (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
            delimited(place, &[number(1, seconds), number(2, nanos)].concat())
        }
        Type::Raw => delimited(place, &delimited(1, value.to_string().as_bytes())),
        Type::Strings => {
            let items = entries(value, "").flat_map(|item| encode_value(1, Type::String, item));
            delimited(place, &items.collect::<Vec<u8>>())
        }
        Type::Message(of) => delimited(place, &message(SCHEMA.message(of), value)),
    }
}

/// Returns the whole body for an object.
fn body(object: &Value) -> Vec<u8> {
    let text = |field: &str| object[field].as_str().unwrap();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let raw = message(SCHEMA.kind(api_version, kind).unwrap(), object);
    envelope(api_version, kind, &raw)
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [delimited(1, api_version.as_bytes()), delimited(2, kind.as_bytes())].concat();
    let empty = [delimited(3, b""), delimited(4, b"")].concat();
    [MAGIC.to_vec(), delimited(1, &type_meta), delimited(2, raw), empty].concat()
}

fn send(store: &mut Store, method: &str, target: &str, body: impl Into<Bytes>) -> Response {
    let mut request = Request::new(method, target, body);
    request.content_type = MEDIA_TYPE.to_owned();
    request.accept = format!("{MEDIA_TYPE},application/json");
    match store.serve(&request, NOW) {
        Answer::Whole(response) => response,
        Answer::Watch(_) => panic!("a watch was opened"),
    }
}

fn read(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

/// Removes nulls and managed fields.
fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| !value.is_null() && name != "managedFields");
            fields.values_mut().for_each(prune);
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

/// Returns the objects of a watch in protobuf: frames with a length and an envelope of a
/// `WatchEvent`.
fn recorded_objects(mut stream: &[u8]) -> Vec<Value> {
    let content = |bytes, wanted| {
        let field = Fields::of(bytes).map(Result::unwrap).find(|(place, _)| *place == wanted);
        decode::delimited(field.unwrap().1).unwrap()
    };
    let mut objects = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk() {
        let (event, rest) = rest.split_at(u32::from_be_bytes(*length).try_into().unwrap());
        objects.push(object(content(content(event, 2), 1)).unwrap());
        stream = rest;
    }
    objects
}

#[test]
fn recorded_protobuf_decodes_to_the_recorded_json() {
    let json = dialogue("watch from 0: synthetic ADDED first");
    let (Some(protobuf), Some(json)) = (dialogue("watch protobuf (hex)"), json) else { return };
    let mut objects = recorded_objects(&protobuf.response_bytes());
    objects.iter_mut().for_each(prune);
    assert!(!objects.is_empty());
    for object in objects {
        let mut frames = json.frames().as_array().unwrap().clone();
        frames.iter_mut().for_each(prune);
        let same = frames
            .iter()
            .find(|frame| frame["object"]["metadata"]["uid"] == object["metadata"]["uid"]);
        assert_eq!(object, same.unwrap()["object"]);
    }
}

#[test]
fn recorded_objects_round_trip_through_protobuf() {
    for dialogue in dialogues().iter().filter(|dialogue| dialogue.creates()) {
        let mut sent = dialogue.response_body().clone();
        prune(&mut sent);
        let mut received = object(&body(&sent)).unwrap();
        prune(&mut received);
        assert_eq!(received, sent, "{}", dialogue.name());
    }
}

#[test]
fn zeros_stay_only_where_they_differ_from_absent() {
    let spec = json!({
        "hostNetwork": false, "nodeName": "", "enableServiceLinks": false, "priority": 0,
        "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsUser": 0},
        "volumes": [{"name": "scratch", "emptyDir": {"medium": ""}}],
        "containers": [{"name": "c", "tty": false, "env": [{"name": "A", "value": ""}],
            "securityContext": {"allowPrivilegeEscalation": false}}],
    });
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
    let wanted = json!({
        "enableServiceLinks": false, "priority": 0,
        "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsUser": 0},
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "containers": [{"name": "c", "env": [{"name": "A"}],
            "securityContext": {"allowPrivilegeEscalation": false}}],
    });
    assert_eq!(object(&body(&pod)).unwrap()["spec"], wanted);
    let none = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "spec": {"replicas": 0, "paused": false, "minReadySeconds": 0}});
    assert_eq!(object(&body(&none)).unwrap()["spec"], json!({"replicas": 0}));
}

#[test]
fn values_of_every_type_decode_as_in_go() {
    let examples = [
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {
            "holderIdentity": "", "renewTime": "2026-11-20T22:12:00.000001Z"}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {
            "minAvailable": "50%", "maxUnavailable": 0}}),
        json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "AAEC", "empty": ""}}),
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"cpu": "1500m"}}}),
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": -1,
            "data": {"spec": [1, null]}}),
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": {
            "user": {"extra": {"scopes": ["a", ""]}}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "deletionTimestamp": "1969-12-31T23:59:59Z"}}),
    ];
    for example in examples {
        assert_eq!(object(&body(&example)).unwrap(), example);
    }
}

#[test]
fn packed_numbers_are_a_list() {
    let group = delimited(3, &[1, 0x80, 1]);
    let context = delimited(14, &delimited(4, &group[2..]));
    let pod = object(&envelope("v1", "Pod", &delimited(2, &context))).unwrap();
    assert_eq!(pod["spec"]["securityContext"], json!({"supplementalGroups": [1, 128]}));
}

#[test]
fn malformed_bodies_are_refused_with_the_reason() {
    let faults: [(&[u8], Malformed); 5] = [
        (b"{}", Malformed::Magic),
        (b"k8s\0\x0a\x05v1", Malformed::Truncated),
        (b"k8s\0\x0f", Malformed::WireType(7)),
        (b"k8s\0\x08\x01", Malformed::Mismatch),
        (b"k8s\0\x1a\x04gzip", Malformed::Encoding("gzip".to_owned())),
    ];
    for (body, fault) in faults {
        let refusal = object(body).unwrap_err();
        assert_eq!(refusal.code, 400);
        assert!(refusal.message.ends_with(&fault.to_string()), "{}", refusal.message);
    }
    let unknown = object(&envelope("example.com/v1", "Widget", &[])).unwrap_err();
    assert_eq!((unknown.code, unknown.reason), (415, "UnsupportedMediaType"));
}

#[test]
fn objects_are_created_updated_and_deleted() {
    let mut store = Store::new(1, NOW);
    let labels = json!({"app": "web"});
    let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}});
    let all = "/apis/apps/v1/namespaces/default/deployments";
    let created = send(&mut store, "POST", all, body(&deployment));
    assert_eq!((created.status, created.content_type), (201, "application/json"));
    assert_eq!(read(&created)["spec"]["replicas"], 3);

    deployment["spec"]["replicas"] = json!(0);
    let one = &format!("{all}/web");
    assert_eq!(send(&mut store, "PUT", one, body(&deployment)).status, 200);
    assert_eq!(store.get(DEPLOYMENTS, "default", "web").unwrap()["spec"]["replicas"], 0);

    let mut options = json!({"apiVersion": "apps/v1", "kind": "DeleteOptions",
        "preconditions": {"uid": "another"}});
    assert_eq!(send(&mut store, "DELETE", one, body(&options)).status, 409);
    options["preconditions"] = json!({});
    assert_eq!(send(&mut store, "DELETE", one, body(&options)).status, 200);
    assert_eq!(store.get(DEPLOYMENTS, "default", "web"), None);
}

#[test]
fn subresources_and_reviews_accept_protobuf() {
    let mut store = Store::new(1, NOW);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c",
        "image": "pause"}]}});
    store.create(PODS, pod, NOW).unwrap();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n1"}});
    let path = "/api/v1/namespaces/default/pods/p/binding";
    assert_eq!(send(&mut store, "POST", path, body(&binding)).status, 201);
    assert_eq!(store.get(PODS, "default", "p").unwrap()["spec"]["nodeName"], "n1");

    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = send(&mut store, "POST", path, body(&review));
    assert_eq!(read(&answer)["status"]["allowed"], true);
}

#[test]
fn objects_of_another_kind_are_refused_as_in_json() {
    let mut store = Store::new(1, NOW);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(send(&mut store, "POST", pods, body(&namespace)).status, 400);
    assert_eq!(store.get(NAMESPACES, "", "n"), None);
}

/// Returns a valid body, which the tests damage.
fn right() -> Vec<u8> {
    body(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p",
        "labels": {"app": "web"}, "creationTimestamp": "2026-11-20T22:12:00Z"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}},
            "livenessProbe": {"httpGet": {"port": "http"}}}]}}))
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = object(&raw);
        let _ = object(&envelope("v1", "Pod", &raw));
        let mut request = Request::new("POST", "/", raw);
        request.content_type = MEDIA_TYPE.to_owned();
        let _ = with_json_body(&request);
    }

    #[test]
    fn no_spoiled_message_makes_it_panic(
        spoiled in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let mut body = right();
        for (place, byte) in spoiled {
            let place = place.index(body.len());
            body[place] = byte;
        }
        let _ = object(&body);
        let _ = object(&body[..end.index(body.len())]);
    }

    #[test]
    fn numbers_survive(wanted: i64) {
        let bytes = number(1, wanted);
        let field = Fields::of(&bytes).next().unwrap().unwrap();
        prop_assert_eq!(field, (1, Content::Varint(wanted.cast_unsigned())));
    }
}
