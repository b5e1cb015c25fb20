//! Recorded dialogues of a real API server, replayed against a store. The store gives the same
//! answers, up to UIDs, times, versions and generated names.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::path::Path;

use framework::Time;
use loadmaster_sandbox::api::{Answer, Request, Response, User};
use loadmaster_sandbox::resources::{self, Resource};
use loadmaster_sandbox::store::{DeleteOptions, Store};
use serde_json::{Map, Value, json};

const RECORDINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/wire/");
/// The version before the first recorded write.
const RECORDED_START: u64 = 208;
const START: &str = "2026-11-20T22:12:00Z";

/// A file of dialogues that were recorded in one session.
struct Recording {
    file: &'static str,
    /// Dialogues in which the store differs on purpose, with the reason.
    different: &'static [(&'static str, &'static str)],
    /// Dialogues that list more than the sandbox serves: whatever it lists must be listed there,
    /// too.
    subsets: &'static [&'static str],
    /// Makes the objects that existed when the recording began.
    prepare: fn(&mut Replay),
}

const DIALOGUES: Recording = Recording {
    file: "dialogues.jsonl",
    different: &[
        ("version", "the build differs"),
        ("apis plain", "kube-apiserver serves DeviceTaintRules only with `--runtime-config`"),
        ("api plain", "the store does not know the address of the server"),
        ("unauthorized", "the HTTP server authenticates, not the store"),
        ("healthz", "the store has none of the listed hooks"),
        ("openapi v3 index", "there are no hashes, and only groups that are served"),
        ("create malformed json: 400", "the JSON parser words its errors differently"),
        ("list bad continue: 400/410", "the JSON parser words its errors differently"),
        ("immutable field: 422", "the text ends with a diff of Go structures"),
        ("token review", "the token is that of the recorded administrator"),
        ("not acceptable: 406", "protobuf is not offered"),
        ("watch protobuf (hex)", "protobuf is not offered"),
    ],
    subsets: &["api aggregated discovery", "resource list v1", "resource list storage"],
    prepare: |_| {},
};

const MORE_DIALOGUES: Recording = Recording {
    file: "dialogues-more.jsonl",
    different: &[
        ("lease renew by PUT", RECORDED_LATER),
        ("lease PUT without resourceVersion, invalid duration", RECORDED_LATER),
        ("version without credentials", "the build differs"),
        ("nodes with a bad token", "the HTTP server authenticates, not the store"),
        ("bind while the namespace's webhook is down", NO_WEBHOOKS),
        ("status patch while the namespace's webhook is down", NO_WEBHOOKS),
        ("bind refused by an admission policy", "the sandbox has no admission policies"),
    ],
    subsets: &[],
    prepare: Replay::prepare_more,
};

/// What the recording shows instead of tokens.
const LEFT_OUT: &str = "<token>";
const RECORDED_LATER: &str = "the recording shows the body as the client changed it afterwards";
const NO_WEBHOOKS: &str = "the sandbox calls no webhooks; a fault gives this answer";

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
    /// The caller; the administrator if absent.
    #[serde(rename = "as")]
    caller: Option<String>,
}

#[derive(serde::Deserialize)]
struct RecordedResponse {
    status: u16,
    headers: Map<String, Value>,
    body: Option<Value>,
    frames: Option<Vec<Value>>,
}

#[test]
fn the_store_answers_as_recorded() {
    DIALOGUES.replay();
}

#[test]
fn the_store_answers_as_recorded_about_leases_bindings_devices_and_custom_kinds() {
    MORE_DIALOGUES.replay();
}

#[test]
fn fault_answers_like_a_webhook_that_is_down() {
    let Some(dialogues) = MORE_DIALOGUES.read() else { return };
    let recorded = dialogues.iter().filter(|dialogue| dialogue.name.contains("webhook is down"));
    let answer = loadmaster_sandbox::status::Status::webhook_down().response();
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    for dialogue in recorded {
        assert_eq!(dialogue.response.status, answer.status);
        assert_eq!(dialogue.response.body.as_ref(), Some(&body), "{}", dialogue.name);
    }
}

#[test]
fn every_difference_names_a_recorded_dialogue() {
    for recording in [DIALOGUES, MORE_DIALOGUES] {
        let Some(dialogues) = recording.read() else { continue };
        let different = recording.different.iter().map(|(name, _)| name);
        for name in different.chain(recording.subsets) {
            assert!(dialogues.iter().any(|dialogue| dialogue.name == *name), "{name}");
        }
    }
}

impl Recording {
    /// Returns the dialogues; `None`, with a message, where the recording is absent.
    fn read(&self) -> Option<Vec<Dialogue>> {
        let path = Path::new(RECORDINGS).join(self.file);
        let Ok(text) = std::fs::read_to_string(&path) else {
            println!("skipped: {} is absent", path.display());
            return None;
        };
        Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn replay(&self) {
        let Some(dialogues) = self.read() else { return };
        let mut replay = Replay::new();
        (self.prepare)(&mut replay);
        let mut faults = Vec::new();
        for dialogue in &dialogues {
            if let Err(fault) = replay.play(dialogue, self) {
                faults.push(format!("## {}\n{fault}", dialogue.name));
            }
        }
        assert!(faults.is_empty(), "{} differ:\n{}", faults.len(), faults.join("\n"));
    }
}

/// A store in the state of the recorded one.
struct Replay {
    store: Store,
    now: Time,
    /// Recorded UIDs and those of the same objects in the store.
    uids: Vec<(String, String)>,
    /// Recorded resourceVersions and those of the same writes in the store.
    versions: Vec<(String, String)>,
    /// The token that the store issued.
    token: String,
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
        Self { store, now, uids: Vec::new(), versions: Vec::new(), token: String::new() }
    }

    /// Makes the namespaces, the ServiceAccount and the pods of the second recording.
    fn prepare_more(&mut self) {
        for name in ["good", "bad", "quota"] {
            self.create(resources::NAMESPACES, json!({"metadata": {"name": name}}));
        }
        let held = json!({"metadata": {"name": "held", "namespace": "quota",
            "finalizers": ["example.com/held"]}});
        self.create(resources::CONFIGMAPS, held);
        let options = DeleteOptions::default();
        self.store.delete(resources::NAMESPACES, "", "quota", &options, self.now).unwrap();
        let account = json!({"metadata": {"name": "prom", "namespace": "kube-system"}});
        self.create(resources::SERVICEACCOUNTS, account);
        for name in ["a", "b", "g", "d", "p"] {
            let mut pod = json!({"metadata": {"name": name, "namespace": "good"},
                "spec": {"containers": [{"name": "c", "image": "pause"}]}});
            match name {
                "g" => pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]),
                "d" => pod["metadata"]["finalizers"] = json!(["example.com/held"]),
                _ => {}
            }
            self.create(resources::PODS, pod);
        }
        self.store.delete(resources::PODS, "good", "d", &options, self.now).unwrap();
        let pod = self.store.get(resources::PODS, "good", "a").unwrap().clone();
        let version = pod["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
        self.uids.push(("b9db72ea-990b-4d28-9ef1-f548f2446758".to_owned(), uid));
        self.versions.push(("221".to_owned(), version));
    }

    fn create(&mut self, resource: &'static Resource, object: Value) {
        self.store.create(resource, object, self.now).unwrap();
    }

    fn play(&mut self, dialogue: &Dialogue, recording: &Recording) -> Result<(), String> {
        let name = dialogue.name.as_str();
        if name == "access review allowed" {
            self.permit_scraping();
        }
        let answer = self.store.serve(&dialogue.request.to_request(self), self.now);
        if name == "create node" {
            self.create_other_nodes();
        }
        let different = recording.different.iter().any(|(different, _)| *different == name);
        match answer {
            Answer::Whole(response) => {
                self.learn(&response, &dialogue.response);
                if different {
                    return Ok(());
                }
                let subset = recording.subsets.contains(&name);
                compare_responses(&response, &dialogue.response, subset)
            }
            Answer::Watch(_) if different => Ok(()),
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

    /// Remembers the UID and the version of the object in an answer.
    fn learn(&mut self, response: &Response, recorded: &RecordedResponse) {
        let Some(recorded) = &recorded.body else { return };
        let body = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
        let field = |body: &Value, field| Some(body["metadata"][field].as_str()?.to_owned());
        self.uids.extend(field(recorded, "uid").zip(field(&body, "uid")));
        let version = |body| field(body, "resourceVersion");
        self.versions.extend(version(recorded).zip(version(&body)));
        if let Some(token) = body["status"]["token"].as_str() {
            token.clone_into(&mut self.token);
        }
    }

    /// Grants what was granted before a question was asked again.
    fn permit_scraping(&mut self) {
        let rules = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
        let role = json!({"metadata": {"name": "scrape"}, "rules": rules});
        self.create(resources::CLUSTERROLES, role);
        let binding = json!({
            "metadata": {"name": "scrape"},
            "roleRef":
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrape"},
            "subjects": [{"kind": "ServiceAccount", "name": "prom", "namespace": "kube-system"}],
        });
        self.create(resources::CLUSTERROLEBINDINGS, binding);
    }

    /// Makes the two nodes that the recording made beside the first one.
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

    /// Does to a pod what other clients did while these watches were open.
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
    /// Returns the request with the UIDs and versions of the replay.
    fn to_request(&self, replay: &Replay) -> Request {
        let body = match self.body.clone() {
            None => String::new(),
            Some(Value::String(text)) => text,
            Some(mut body) => {
                replay.translate_version(&mut body);
                body.to_string()
            }
        };
        let uids = replay.uids.iter();
        let body = uids.fold(body, |body, (recorded, own)| body.replace(recorded, own));
        let body = body.replace(LEFT_OUT, &replay.token);
        Request {
            accept: self.accept.clone(),
            content_type: self.content_type.clone(),
            user: self.user(),
            ..Request::new(&self.method, &self.path, body)
        }
    }

    fn user(&self) -> User {
        match self.caller.as_deref() {
            None => User::admin(),
            Some("ServiceAccount kube-system/prom") => User::new(
                "system:serviceaccount:kube-system:prom",
                ["system:serviceaccounts", "system:authenticated"],
            ),
            Some(_) => User::anonymous(),
        }
    }
}

impl Replay {
    /// Replaces the recorded resourceVersion of an object by that of the same write in the store.
    fn translate_version(&self, body: &mut Value) {
        let Some(version) = body.pointer_mut("/metadata/resourceVersion") else { return };
        let own = self.versions.iter().rev().find(|(recorded, _)| version == recorded.as_str());
        if let Some((_, own)) = own {
            *version = json!(own);
        }
    }
}

fn compare_responses(
    response: &Response,
    recorded: &RecordedResponse,
    subset: bool,
) -> Result<(), String> {
    let text = String::from_utf8_lossy(&response.body);
    let body = match response.content_type {
        "application/yaml" => yaml::decode(&text).unwrap(),
        content_type if content_type.starts_with("application/json") => {
            serde_json::from_str(&text).unwrap()
        }
        _ => Value::String(text.clone().into_owned()),
    };
    let wanted = match &recorded.body {
        Some(Value::String(text)) if response.content_type == "application/yaml" => {
            yaml::decode(text).unwrap()
        }
        body => body.clone().unwrap_or_default(),
    };
    if response.status != recorded.status {
        return Err(format!("{} instead of {}: {text}", response.status, recorded.status));
    }
    let (body, wanted) = (scrubbed(body), scrubbed(wanted));
    if subset { contained(&body, &wanted) } else { same(&body, &wanted) }?;
    if recorded.headers.contains_key("Warning") == response.warnings.is_empty() {
        return Err(format!("warnings: {:?}", response.warnings));
    }
    let wanted = recorded.headers.get("Retry-After").and_then(Value::as_str);
    let found = response.retry_after.map(|seconds| seconds.to_string());
    same(&json!(found), &json!(wanted))?;
    same(&json!(response.content_type), &recorded.headers["Content-Type"])
}

/// Compares the frames of a watch with the recorded ones, which may be cut at the end.
fn compare_frames(frames: &[Value], recorded: &[Value]) -> Result<(), String> {
    if frames.len() < recorded.len() {
        return Err(format!("{} frames instead of {}", frames.len(), recorded.len()));
    }
    for (frame, recorded) in frames.iter().zip(recorded) {
        let (frame, mut wanted) = (scrubbed(frame.clone()), scrubbed(recorded.clone()));
        if wanted["type"] == "BOOKMARK" {
            // The sandbox leaves out the zero values of the kind.
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

/// Compares values where the wanted lists may have more entries than those found.
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

/// Returns the value without what differs each time.
fn scrubbed(value: Value) -> Value {
    const DROPPED: [&str; 3] = ["managedFields", "storageVersionHash", "continue"];
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(key, _)| !DROPPED.contains(&key.as_str()))
            .map(|(key, value)| match key.as_str() {
                "resourceVersion" => (key, json!("<version>")),
                "token" if value.as_str().is_some_and(is_token) => (key, json!(LEFT_OUT)),
                _ => (key, scrubbed(value)),
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(scrubbed).collect(),
        Value::String(text) if Time::parse_rfc3339(&text).is_ok() => json!("<time>"),
        Value::String(text) => {
            let text = without_object_versions(&text);
            let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            Value::String(words.map(scrubbed_word).collect())
        }
        other => other,
    }
}

/// Returns whether a text has the form of a JSON Web Token.
fn is_token(text: &str) -> bool {
    text.starts_with("ey") && text.split('.').count() == 3
}

/// Removes the versions from the text of a failed precondition.
fn without_object_versions(text: &str) -> String {
    const BEFORE: [&str; 2] =
        ["ResourceVersion in precondition: ", "ResourceVersion in object meta: "];
    BEFORE.iter().fold(text.to_owned(), |text, before| match text.split_once(before) {
        Some((start, end)) => {
            let end = end.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{start}{before}{end}")
        }
        None => text,
    })
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
