//! Recorded dialogues of a real API server, replayed against a store: it answers alike, up to UIDs,
//! times and generated names.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::path::Path;

use framework::Time;
use loadmaster_sandbox::api::{Answer, Request, Response};
use loadmaster_sandbox::resources;
use loadmaster_sandbox::store::Store;
use serde_json::{Map, Value, json};

const DIALOGUES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/wire/dialogues.jsonl");
/// The version before the first recorded write.
const RECORDED_START: u64 = 208;
const START: &str = "2026-11-20T22:12:00Z";

/// Dialogues that are answered in another way on purpose, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("version", "the build is another one"),
    ("api plain", "the address of the server is not known to the store"),
    ("unauthorized", "who asks is found out by the HTTP face"),
    ("healthz", "the store has none of the hooks that are listed"),
    ("openapi v3 index", "there are no hashes, and only groups that are served"),
    ("create malformed json: 400", "the JSON parser has other words"),
    ("list bad continue: 400/410", "the JSON parser has other words"),
    ("immutable field: 422", "the text ends with a diff of Go structures"),
    ("token review", "the token is that of the recorded administrator"),
    ("not acceptable: 406", "protobuf is not offered"),
    ("watch protobuf (hex)", "protobuf is not offered"),
];

/// Dialogues that list more than is served here: what is listed here must be listed there, alike.
const SUBSETS: &[&str] =
    &["apis plain", "api aggregated discovery", "resource list v1", "resource list storage"];

#[derive(serde::Deserialize)]
struct Dialogue {
    name: String,
    request: RecordedRequest,
    response: RecordedResponse,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedRequest {
    method: String,
    path: String,
    accept: String,
    #[serde(default)]
    content_type: String,
    body: Option<Value>,
}

#[derive(serde::Deserialize)]
struct RecordedResponse {
    status: u16,
    headers: Map<String, Value>,
    body: Option<Value>,
    frames: Option<Vec<Value>>,
}

#[test]
fn a_store_answers_as_the_recorded_api_server_did() {
    let Ok(text) = std::fs::read_to_string(DIALOGUES) else {
        println!("skipped: {} is not there", Path::new(DIALOGUES).display());
        return;
    };
    let mut replay = Replay::new();
    let mut faults = Vec::new();
    for line in text.lines() {
        let dialogue: Dialogue = serde_json::from_str(line).unwrap();
        faults.extend(replay.play(&dialogue).err().map(|fault| (dialogue.name, fault)));
    }
    let faults: Vec<String> =
        faults.into_iter().map(|(name, fault)| format!("## {name}\n{fault}")).collect();
    assert!(faults.is_empty(), "{} differ:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_difference_names_a_recorded_dialogue() {
    let Ok(text) = std::fs::read_to_string(DIALOGUES) else {
        println!("skipped: {} is not there", Path::new(DIALOGUES).display());
        return;
    };
    let dialogues: Vec<Dialogue> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for name in DIFFERENT.iter().map(|(name, _)| name).chain(SUBSETS) {
        assert!(dialogues.iter().any(|dialogue| dialogue.name == *name), "{name}");
    }
}

/// A store in the state of the recorded one.
struct Replay {
    store: Store,
    now: Time,
    /// Recorded UIDs and those of the same objects here.
    uids: Vec<(String, String)>,
}

impl Replay {
    fn new() -> Self {
        let now = Time::parse_rfc3339(START).unwrap();
        let mut store = Store::new(1, now);
        assert!(store.resource_version() <= RECORDED_START, "{}", store.resource_version());
        for number in store.resource_version()..RECORDED_START {
            let filler = json!({"metadata": {"name": format!("filler-{number}")}});
            store.create(resources::CONFIGMAPS, filler, now).unwrap();
        }
        Self { store, now, uids: Vec::new() }
    }

    fn play(&mut self, dialogue: &Dialogue) -> Result<(), String> {
        let name = dialogue.name.as_str();
        let answer = self.store.serve(&dialogue.request.to_request(&self.uids), self.now);
        if name == "create node" {
            self.create_other_nodes();
        }
        if DIFFERENT.iter().any(|(different, _)| *different == name) {
            return Ok(());
        }
        match answer {
            Answer::Whole(response) => {
                self.learn_uid(&response, &dialogue.response);
                compare_responses(name, &response, &dialogue.response)
            }
            Answer::Watch(id) => {
                self.act_beside(name);
                let frames = self.store.frames(id, self.now);
                let frames: Vec<Value> =
                    frames.lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
                let recorded = dialogue.response.frames.as_deref().unwrap_or_default();
                compare_frames(&frames, recorded)
            }
        }
    }

    fn learn_uid(&mut self, response: &Response, recorded: &RecordedResponse) {
        let body = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
        let uid = |body: &Value| Some(body.pointer("/metadata/uid")?.as_str()?.to_owned());
        self.uids.extend(recorded.body.as_ref().and_then(uid).zip(uid(&body)));
    }

    /// Two more nodes were made when the first one was.
    fn create_other_nodes(&mut self) {
        for index in [1, 2] {
            let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
            let node = json!({
                "metadata": {"name": format!("n{index}"), "labels": {"zone": format!("z{index}")}},
                "status": {"allocatable": resources, "capacity": resources,
                    "conditions": [{"type": "Ready", "status": "True"}]},
            });
            self.store.create(resources::NODES, node, self.now).unwrap();
        }
    }

    /// What others did to a pod while these watches were open.
    fn act_beside(&mut self, name: &str) {
        const POD: &str = "/api/v1/namespaces/default/pods/w1";
        if !name.starts_with("watch pods: add") && !name.starts_with("watch with field selector") {
            return;
        }
        let container = json!({"name": "c", "image": "pause", "resources":
            {"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}}});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w1", "labels": {"app": "w"}},
            "spec": {"schedulerName": "loadmaster", "containers": [container]},
        });
        let label = json!({"metadata": {"labels": {"k": "v"}}});
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "w1"},
            "target": {"kind": "Node", "name": "n0"}});
        let requests = [
            ("POST", "/api/v1/namespaces/default/pods".to_owned(), pod),
            ("PATCH", POD.to_owned(), label),
            ("POST", format!("{POD}/binding"), binding),
            ("DELETE", POD.to_owned(), json!({"gracePeriodSeconds": 0})),
        ];
        for (method, path, body) in requests {
            let mut request = Request::new(method, &path, body.to_string());
            if method == "PATCH" {
                request.content_type = "application/merge-patch+json".to_owned();
            }
            let Answer::Whole(response) = self.store.serve(&request, self.now) else {
                panic!("{method} {path} opened a watch");
            };
            assert!(response.status < 300, "{method} {path}: {:?}", response.body);
        }
    }
}

impl RecordedRequest {
    fn to_request(&self, uids: &[(String, String)]) -> Request {
        let body = match &self.body {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(body) => body.to_string(),
        };
        let body = uids.iter().fold(body, |body, (recorded, own)| body.replace(recorded, own));
        Request {
            accept: self.accept.clone(),
            content_type: self.content_type.clone(),
            ..Request::new(&self.method, &self.path, body)
        }
    }
}

fn compare_responses(
    name: &str,
    response: &Response,
    recorded: &RecordedResponse,
) -> Result<(), String> {
    let text = String::from_utf8_lossy(&response.body);
    let body = match response.content_type {
        "application/yaml" => serde_yaml::from_str(&text).unwrap(),
        content_type if content_type.starts_with("application/json") => {
            serde_json::from_str(&text).unwrap()
        }
        _ => Value::String(text.clone().into_owned()),
    };
    let wanted = match &recorded.body {
        Some(Value::String(text)) if response.content_type == "application/yaml" => {
            serde_yaml::from_str(text).unwrap()
        }
        body => body.clone().unwrap_or_default(),
    };
    if response.status != recorded.status {
        return Err(format!("{} instead of {}: {text}", response.status, recorded.status));
    }
    let (body, wanted) = (scrubbed(body), scrubbed(wanted));
    if SUBSETS.contains(&name) { contained(&body, &wanted) } else { same(&body, &wanted) }?;
    if recorded.headers.contains_key("Warning") == response.warnings.is_empty() {
        return Err(format!("warnings: {:?}", response.warnings));
    }
    let wanted = recorded.headers.get("Retry-After").and_then(Value::as_str);
    let found = response.retry_after.map(|seconds| seconds.to_string());
    same(&json!(found), &json!(wanted))?;
    same(&json!(response.content_type), &recorded.headers["Content-Type"])
}

/// The recorded frames may be cut at the end.
fn compare_frames(frames: &[Value], recorded: &[Value]) -> Result<(), String> {
    if frames.len() < recorded.len() {
        return Err(format!("{} frames instead of {}", frames.len(), recorded.len()));
    }
    for (frame, recorded) in frames.iter().zip(recorded) {
        let (frame, mut wanted) = (scrubbed(frame.clone()), scrubbed(recorded.clone()));
        if wanted["type"] == "BOOKMARK" {
            // The zero values of the kind are of no use to anybody.
            wanted["object"]
                .as_object_mut()
                .unwrap()
                .retain(|key, _| key != "spec" && key != "status");
        }
        same(&frame, &wanted)?;
    }
    Ok(())
}

fn same(found: &Value, wanted: &Value) -> Result<(), String> {
    let mut differences = Vec::new();
    collect_differences("", found, wanted, &mut differences);
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
}

fn collect_differences(path: &str, found: &Value, wanted: &Value, to: &mut Vec<String>) {
    match (found, wanted) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                match (one.get(key), other.get(key)) {
                    (Some(found), Some(wanted)) => collect_differences(&path, found, wanted, to),
                    (found, wanted) => to.push(format!("{path}: {found:?} instead of {wanted:?}")),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (found, wanted)) in one.iter().zip(other).enumerate() {
                collect_differences(&format!("{path}[{index}]"), found, wanted, to);
            }
        }
        _ if found == wanted => {}
        _ => to.push(format!("{path}: {found} instead of {wanted}")),
    }
}

/// Every entry of a list that is found is among the wanted ones.
fn contained(found: &Value, wanted: &Value) -> Result<(), String> {
    match (found, wanted) {
        (Value::Object(one), Value::Object(other)) => one.iter().try_for_each(|(key, found)| {
            contained(found, other.get(key).unwrap_or(&Value::Null))
                .map_err(|fault| format!(".{key}{fault}"))
        }),
        (Value::Array(one), Value::Array(other)) => one.iter().try_for_each(|found| {
            let any = other.iter().any(|wanted| contained(found, wanted).is_ok());
            if any { Ok(()) } else { Err(format!("[]: {found} is not listed")) }
        }),
        _ => same(found, wanted),
    }
}

/// The value without what is different each time.
fn scrubbed(value: Value) -> Value {
    const DROPPED: [&str; 3] = ["managedFields", "storageVersionHash", "continue"];
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(key, _)| !DROPPED.contains(&key.as_str()))
            .map(|(key, value)| match key.as_str() {
                "resourceVersion" => (key, json!("<version>")),
                _ => (key, scrubbed(value)),
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(scrubbed).collect(),
        Value::String(text) if Time::parse_rfc3339(&text).is_ok() => json!("<time>"),
        Value::String(text) => {
            let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            Value::String(words.map(scrubbed_word).collect())
        }
        other => other,
    }
}

fn scrubbed_word(word: &str) -> String {
    let plain = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let parts: Vec<usize> = plain.split('-').map(str::len).collect();
    let known = match parts.as_slice() {
        [8, 4, 4, 4, 12] => "<uid>",
        [3, 5] if plain.starts_with("gen-") => "<generated>",
        _ => return word.to_owned(),
    };
    word.replace(plain, known)
}
