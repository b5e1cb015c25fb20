//! The recorded dialogues of a real API server, for tests.

use std::sync::LazyLock;

use serde_json::Value;

use crate::resources::{self, Resource};

/// One request and its answer.
pub(crate) struct Dialogue(Value);

/// Returns all recorded dialogues; none, with a message, where the recording is absent.
pub(crate) fn dialogues() -> &'static [Dialogue] {
    static DIALOGUES: LazyLock<Vec<Dialogue>> = LazyLock::new(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/wire/dialogues.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| {
            eprintln!("skipped: no recorded dialogues: {path}: {error}");
            String::new()
        });
        text.lines().map(|line| Dialogue(serde_json::from_str(line).unwrap())).collect()
    });
    &DIALOGUES
}

/// Returns the dialogue of this name, if there is a recording.
pub(crate) fn dialogue(name: &str) -> Option<&'static Dialogue> {
    dialogues().iter().find(|dialogue| dialogue.name() == name)
}

impl Dialogue {
    /// Returns its name in the recording.
    pub(crate) fn name(&self) -> &str {
        self.0["name"].as_str().unwrap()
    }

    /// Returns whether the request creates an object, or would without `dryRun`.
    pub(crate) fn creates(&self) -> bool {
        self.0["request"]["method"] == "POST"
            && self.0["response"]["status"] == 201
            && self.find_resource().is_some_and(|resource| resource.stored)
    }

    /// Returns the resource that the path of the request names.
    pub(crate) fn resource(&self) -> &'static Resource {
        self.find_resource().unwrap()
    }

    fn find_resource(&self) -> Option<&'static Resource> {
        let path = self.0["request"]["path"].as_str()?.split('?').next()?;
        let mut segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let group = if segments[0] == "api" { "" } else { segments[1] };
        segments.drain(..if group.is_empty() { 2 } else { 3 });
        if segments.len() > 2 && segments[0] == "namespaces" {
            segments.drain(..2);
        }
        let below = segments.len() > 2;
        resources::resource(group, segments[0]).filter(|_| !below)
    }

    /// Returns the body of the request.
    pub(crate) fn request_body(&self) -> &Value {
        &self.0["request"]["body"]
    }

    /// Returns the frames of a watch.
    pub(crate) fn frames(&self) -> &Value {
        &self.0["response"]["frames"]
    }

    /// Returns the bytes of an answer in protobuf.
    pub(crate) fn response_bytes(&self) -> Vec<u8> {
        let hex = self.0["response"]["bytesHex"].as_str().unwrap();
        let digits: Vec<u8> =
            hex.chars().map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap()).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    /// Returns the body of the answer.
    pub(crate) fn response_body(&self) -> &Value {
        &self.0["response"]["body"]
    }
}
