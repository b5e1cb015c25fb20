//! Objects in JSON and in protobuf: both have the same compact form.

use std::path::Path;

use control::reflector::WatchEvent;
use framework::EventResource;
use loadmaster::wire::{Decoder, Update};
use sandbox::protobuf::watch_frame;
use serde_json::{Value, json};

use super::golden::corpus::{self, CorpusError};

/// Returns the nodes and pods of all recorded cases in `folder`.
fn nodes_and_pods(folder: &Path) -> Result<Vec<Value>, CorpusError> {
    let mut found = Vec::new();
    for area in corpus::read(folder, &[])? {
        area.cases.into_iter().for_each(|case| collect(case, &mut found));
    }
    Ok(found)
}

fn collect(value: Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(fields)
            if fields.get("kind").is_some_and(|kind| kind == "Pod" || kind == "Node") =>
        {
            found.push(fields.into());
        }
        Value::Object(fields) => fields.into_iter().for_each(|(_, value)| collect(value, found)),
        Value::Array(items) => items.into_iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// Decodes an event of each encoding around the object.
fn decoded(decoder: &Decoder, object: &Value) -> [WatchEvent<Update>; 2] {
    let line = json!({"type": "ADDED", "object": object}).to_string();
    let frame = watch_frame("ADDED", object).expect("a node or a pod");
    [decoder.watch_event(line.as_bytes()), decoder.watch_frame(&frame[4..])]
}

#[test]
fn recorded_nodes_and_pods_have_one_form_in_both_encodings() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/corpus");
    let decoder = |resource| {
        let fields = framework::ExtraFields { containers: true, ..Default::default() };
        Decoder::new(resource, fields)
    };
    let (nodes, pods) = (decoder(EventResource::Node), decoder(EventResource::Pod));
    let objects = nodes_and_pods(&corpus).unwrap_or_else(|error| panic!("{error}"));
    assert!(objects.len() > 10_000, "{} objects", objects.len());
    // Neighbours of a case differ little.
    for mut object in objects.into_iter().step_by(3) {
        object["apiVersion"] = "v1".into();
        without_empty(&mut object);
        let decoder = if object["kind"] == "Pod" { &pods } else { &nodes };
        let [from_json, from_protobuf] = decoded(decoder, &object);
        let WatchEvent::Updated(meta, of_json) = from_json else { panic!("{object}") };
        let WatchEvent::Updated(other_meta, of_protobuf) = from_protobuf else {
            panic!("{object}")
        };
        assert_eq!(meta, other_meta, "{object}");
        // A change has no equality; its debug form shows every field.
        let shown = |update: &Update| format!("{:?}", update.change);
        assert_eq!(shown(&of_json), shown(&of_protobuf), "{object}");
    }
}

/// Removes empty lists and maps, as the API server does, and which protobuf does not have.
fn without_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(without_empty);
            let optional = ["nodeSelector", "preferredDuringSchedulingIgnoredDuringExecution"];
            fields.retain(|name, value| {
                let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty);
                !(is_empty && optional.contains(&name.as_str()))
            });
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty),
        _ => {}
    }
}
