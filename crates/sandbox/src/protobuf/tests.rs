//! Bodies in protobuf: recorded ones, and ones that the tests encode with the table.

use bytes::Bytes;
use framework::protobuf::{self, Content, Fields, MEDIA_TYPE, Message as _};
use framework::{Time, api};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::schema::{Message, Place, SCHEMA, Type};
use super::{decoded, encode, with_json_body};
use crate::api::{Answer, Request, Response};
use crate::recorded::{dialogue, dialogues};
use crate::resources::{DEPLOYMENTS, NAMESPACES, NODES, PODS};
use crate::store::Store;

const NOW: Time = Time::from_secs(1_700_000_000);

/// Returns the whole body for an object.
fn body(object: &Value) -> Vec<u8> {
    let text = |field: &str| object[field].as_str().unwrap();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let mut raw = Vec::new();
    encode::write_object(&mut raw, SCHEMA.kind(api_version, kind).unwrap(), object);
    encode::object(api_version, kind, &raw)
}

/// Returns a field whose content has a length.
fn delimited(place: u64, content: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    encode::content(&mut field, place, content);
    field
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
        field.unwrap().1.delimited().unwrap()
    };
    let mut objects = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk() {
        let (event, rest) = rest.split_at(u32::from_be_bytes(*length).try_into().unwrap());
        objects.push(decoded(content(content(event, 2), 1)).unwrap());
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
        let mut received = decoded(&body(&sent)).unwrap();
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
    assert_eq!(decoded(&body(&pod)).unwrap()["spec"], wanted);
    let none = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "spec": {"replicas": 0, "paused": false, "minReadySeconds": 0}});
    assert_eq!(decoded(&body(&none)).unwrap()["spec"], json!({"replicas": 0}));
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
        assert_eq!(decoded(&body(&example)).unwrap(), example);
    }
}

#[test]
fn packed_numbers_are_a_list() {
    let group = delimited(3, &[1, 0x80, 1]);
    let context = delimited(14, &delimited(4, &group[2..]));
    let pod = decoded(&encode::object("v1", "Pod", &delimited(2, &context))).unwrap();
    assert_eq!(pod["spec"]["securityContext"], json!({"supplementalGroups": [1, 128]}));
}

#[test]
fn malformed_bodies_are_refused_with_the_reason() {
    let faults: [(&[u8], protobuf::Malformed); 5] = [
        (b"{}", protobuf::Malformed::Magic),
        (b"k8s\0\x0a\x05v1", protobuf::Malformed::Truncated),
        (b"k8s\0\x0f", protobuf::Malformed::WireType(7)),
        (b"k8s\0\x08\x01", protobuf::Malformed::Mismatch),
        (b"k8s\0\x1a\x04gzip", protobuf::Malformed::Encoding("gzip".to_owned())),
    ];
    for (body, fault) in faults {
        let refusal = decoded(body).unwrap_err();
        assert_eq!(refusal.code, 400);
        assert!(refusal.message.ends_with(&fault.to_string()), "{}", refusal.message);
    }
    let unknown = decoded(&encode::object("example.com/v1", "Widget", &[])).unwrap_err();
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

/// Returns a random JSON object with fields of the message, as an API server writes them: lists and
/// maps are not empty.
fn random_object(rng: &mut fastrand::Rng, message: &Message) -> Value {
    let mut object = Map::new();
    for (_, field) in message.fields() {
        if let Place::Inline = field.place {
            let Value::Object(inline) = random_value(rng, field.holds) else { continue };
            object.extend(inline);
            continue;
        }
        if rng.u8(..3) > 0 {
            continue;
        }
        let (name, value) = match field.place {
            Place::Named { name, .. } => (name, random_value(rng, field.holds)),
            Place::List(name) => {
                let items = (0..rng.usize(1..3)).map(|_| random_value(rng, field.holds));
                (name, items.collect::<Vec<_>>().into())
            }
            Place::Map(name) => {
                let keys = ["cpu", "example.com/gpu", ""];
                let entries = keys.map(|key| (key.to_owned(), random_value(rng, field.holds)));
                (name, Map::from_iter(entries).into())
            }
            Place::Inline => continue,
        };
        object.insert(name.to_owned(), value);
    }
    object.into()
}

fn random_value(rng: &mut fastrand::Rng, holds: Type) -> Value {
    match holds {
        Type::Bool => rng.bool().into(),
        Type::Int => {
            (*rng.choice(&[0, 1, -1, 80, i64::from(i32::MAX), i64::from(i32::MIN)]).unwrap()).into()
        }
        Type::String => (*rng.choice(&["", "a", "Always", "True", "é"]).unwrap()).into(),
        Type::Quantity => (*rng.choice(&["1", "100m", "1Gi", "-3", ""]).unwrap()).into(),
        Type::Bytes => "AAEC".into(),
        Type::IntOrString => (*rng.choice(&[json!(8080), json!("http")]).unwrap()).clone(),
        Type::Time => "2026-11-20T22:12:00Z".into(),
        Type::MicroTime => "2026-11-20T22:12:00.000001Z".into(),
        Type::Raw => json!({"f:metadata": {}}),
        Type::Strings => json!(["a", ""]),
        Type::Message(place) => random_object(rng, SCHEMA.message(place)),
    }
}

/// Decodes both encodings of a random object to the type that the scheduler reads.
fn decodes_alike<T>(kind: &str, seed: u64)
where
    T: protobuf::Message + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let message = SCHEMA.kind("v1", kind).unwrap();
    let json = random_object(&mut fastrand::Rng::with_seed(seed), message);
    let mut bytes = Vec::new();
    encode::write_object(&mut bytes, message, &json);
    let of_json: T = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(T::decode(&bytes).as_ref(), Ok(&of_json), "{json}");
}

#[test]
fn reads_are_answered_in_protobuf_to_clients_that_ask_for_it() {
    let mut store = Store::new(1, NOW);
    let pod = json!({"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [
        {"name": "c", "image": "pause"}]}});
    store.create(PODS, pod, NOW).unwrap();
    let mut get = |target: &str, accept: &str| {
        let mut request = Request::new("GET", target, "");
        request.accept = accept.to_owned();
        match store.serve(&request, NOW) {
            Answer::Whole(response) => response,
            Answer::Watch(_) => panic!("a watch was opened"),
        }
    };
    let both = format!("{MEDIA_TYPE}, */*");
    let list = get("/api/v1/pods", &both);
    assert_eq!(list.content_type, MEDIA_TYPE);
    let list = protobuf::Unknown::read(&list.body).unwrap();
    assert_eq!((list.api_version, list.kind), ("v1", "PodList"));
    let pod = get("/api/v1/namespaces/default/pods/p", &both);
    assert_eq!(decoded(&pod.body).unwrap()["metadata"]["name"], "p");
    let missing = get("/api/v1/namespaces/default/pods/q", &both);
    assert_eq!((missing.status, missing.content_type), (404, MEDIA_TYPE));
    assert_eq!(decoded(&missing.body).unwrap()["reason"], "NotFound");
    for (target, accept) in [
        ("/api/v1/namespaces", &*both),
        ("/api/v1/pods", "application/json"),
        ("/api/v1/pods", &format!("application/json,{MEDIA_TYPE}")),
    ] {
        assert_eq!(get(target, accept).content_type, "application/json", "{target} {accept}");
    }
    assert_eq!(get("/api/v1/namespaces", MEDIA_TYPE).status, 406);
}

#[test]
fn watch_in_protobuf_has_frames() {
    let mut store = Store::new(1, NOW);
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}});
    store.create(NODES, node, NOW).unwrap();
    let target = "/api/v1/nodes?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
                  &resourceVersionMatch=NotOlderThan";
    let mut request = Request::new("GET", target, "");
    request.accept = format!("{MEDIA_TYPE}, */*");
    let Answer::Watch(watch) = store.serve(&request, NOW) else { panic!("no watch was opened") };
    let stream = "application/vnd.kubernetes.protobuf;stream=watch";
    assert_eq!(store.watch_content_type(watch), Some(stream));
    let lines = store.frames(watch, NOW).lines;
    let events: Vec<_> = lines
        .iter()
        .map(|line| {
            let (length, event) = line.split_first_chunk().unwrap();
            assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
            protobuf::WatchEvent::read(event).unwrap()
        })
        .collect();
    let types: Vec<_> = events.iter().map(|event| (event.type_, event.object.kind)).collect();
    assert_eq!(types, [("ADDED", "Node"), ("BOOKMARK", "Node")]);
    let node = api::Node::decode(events[0].object.raw).unwrap();
    assert_eq!((&*node.metadata.name, &*node.status.allocatable["cpu"].0), ("n", "4"));
    let bookmark = api::Node::decode(events[1].object.raw).unwrap();
    assert_eq!(bookmark.metadata.annotations["k8s.io/initial-events-end"], "true");
    store.compact();
    request = Request::new("GET", "/api/v1/nodes?watch=true&resourceVersion=1", "");
    request.accept = MEDIA_TYPE.to_owned();
    let Answer::Watch(watch) = store.serve(&request, NOW) else { panic!("no watch was opened") };
    let lines = store.frames(watch, NOW).lines;
    let event = protobuf::WatchEvent::read(&lines[0][4..]).unwrap();
    assert_eq!((event.type_, event.object.kind), ("ERROR", "Status"));
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
        let _ = decoded(&raw);
        let _ = decoded(&encode::object("v1", "Pod", &raw));
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
        let _ = decoded(&body);
        let _ = decoded(&body[..end.index(body.len())]);
    }

    #[test]
    fn scheduler_reads_both_encodings_alike(seed: u64) {
        decodes_alike::<api::Pod>("Pod", seed);
        decodes_alike::<api::Node>("Node", seed);
    }

    #[test]
    fn numbers_survive(wanted: i64) {
        let mut bytes = Vec::new();
        encode::integer(&mut bytes, 1, wanted);
        let field = Fields::of(&bytes).next().unwrap().unwrap();
        prop_assert_eq!(field, (1, Content::Varint(wanted.cast_unsigned())));
    }
}
