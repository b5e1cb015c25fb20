//! The Lease as an API object, and the part of it that an election reads and writes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::config::LeaderElectionConfig;

/// Fields of the spec that only coordinated leader election uses. An election without coordination
/// removes them, as in client-go.
const COORDINATED: [&str; 2] = ["preferredHolder", "strategy"];

/// The election's part of a Lease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeaderElectionRecord {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i32>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<i32>,
}

impl LeaderElectionRecord {
    /// Returns the record of a new Lease.
    pub(super) fn new(config: &LeaderElectionConfig, time: &str) -> Self {
        Self {
            holder_identity: Some(config.identity.clone()),
            lease_duration_seconds: Some(config.lease_duration_seconds()),
            acquire_time: Some(time.to_owned()),
            renew_time: Some(time.to_owned()),
            lease_transitions: Some(0),
        }
    }

    /// Returns the record after this replica renewed the Lease that it holds.
    pub(super) fn renewed(&self, config: &LeaderElectionConfig, time: &str) -> Self {
        Self {
            acquire_time: self.acquire_time.clone(),
            lease_transitions: self.lease_transitions,
            ..Self::new(config, time)
        }
    }

    /// Returns the record after this replica took over a Lease that is free.
    pub(super) fn taken_over(&self, config: &LeaderElectionConfig, time: &str) -> Self {
        let transitions = self.lease_transitions.unwrap_or(0).saturating_add(1);
        Self { lease_transitions: Some(transitions), ..Self::new(config, time) }
    }

    /// Returns the record after the holder released the Lease. It expires after a second.
    pub(super) fn released(&self, time: &str) -> Self {
        Self {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(time.to_owned()),
            renew_time: Some(time.to_owned()),
            lease_transitions: self.lease_transitions,
        }
    }

    /// Returns the identity of the holder, or nothing if the Lease has none.
    pub(super) fn holder(&self) -> &str {
        self.holder_identity.as_deref().unwrap_or_default()
    }

    /// Returns how long the holder may keep the Lease without renewing it.
    pub(super) fn lease_duration(&self) -> Duration {
        let seconds = self.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Duration::from_secs(seconds.unwrap_or(0))
    }
}

/// A Lease that the API server returned. Fields that the election does not know are kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lease {
    object: Map<String, Value>,
    pub(super) record: LeaderElectionRecord,
}

impl Lease {
    /// Decodes a Lease.
    ///
    /// # Errors
    /// The text is not a Lease.
    pub(super) fn from_json(json: &[u8]) -> Result<Self, String> {
        let object: Map<String, Value> =
            serde_json::from_slice(json).map_err(|error| format!("no Lease: {error}"))?;
        Self::from_object(object)
    }

    /// Decodes a Lease from an object.
    ///
    /// # Errors
    /// The object is not a Lease.
    pub(super) fn from_object(object: Map<String, Value>) -> Result<Self, String> {
        if object.get("kind").is_some_and(|kind| kind != "Lease") {
            return Err(format!("no Lease: the kind is {}", object["kind"]));
        }
        let spec = object.get("spec").filter(|spec| !spec.is_null());
        let record = spec.map(LeaderElectionRecord::deserialize).transpose();
        let record = record.map_err(|error| format!("no Lease: spec: {error}"))?;
        Ok(Self { object, record: record.unwrap_or_default() })
    }

    /// Returns the UID.
    pub(super) fn uid(&self) -> &str {
        let metadata = self.object.get("metadata");
        metadata.and_then(|metadata| metadata["uid"].as_str()).unwrap_or_default()
    }

    /// Returns the JSON of this Lease with another record, and the level of the replica that writes
    /// it.
    pub(super) fn with_record(
        &self,
        record: &LeaderElectionRecord,
        level: Option<&str>,
    ) -> Vec<u8> {
        let mut object = self.object.clone();
        if let Some(level) = level {
            let metadata = object.entry("metadata").or_insert_with(|| json!({}));
            metadata["annotations"][LEVEL_ANNOTATION] = level.into();
        }
        let mut spec = match object.remove("spec") {
            Some(Value::Object(spec)) => spec,
            _ => Map::new(),
        };
        COORDINATED.into_iter().for_each(|field| drop(spec.remove(field)));
        spec.append(&mut fields(record));
        object.insert("spec".to_owned(), Value::Object(spec));
        object.insert("apiVersion".to_owned(), API_VERSION.into());
        object.insert("kind".to_owned(), "Lease".into());
        Value::Object(object).to_string().into_bytes()
    }
}

/// The annotation of a Lease that names the version of Kubernetes that its holder follows.
pub const LEVEL_ANNOTATION: &str = "loadmaster.io/kubernetes-level";

/// The API version of Leases.
pub(super) const API_VERSION: &str = "coordination.k8s.io/v1";

/// Returns the JSON of a new Lease.
pub(super) fn new_lease(config: &LeaderElectionConfig, record: &LeaderElectionRecord) -> Vec<u8> {
    let mut lease = json!({
        "apiVersion": API_VERSION,
        "kind": "Lease",
        "metadata": { "name": config.name, "namespace": config.namespace },
        "spec": fields(record),
    });
    if let Some(level) = &config.level {
        lease["metadata"]["annotations"] = json!({ LEVEL_ANNOTATION: level });
    }
    lease.to_string().into_bytes()
}

fn fields(record: &LeaderElectionRecord) -> Map<String, Value> {
    match serde_json::to_value(record) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("a record is an object of strings and numbers"),
    }
}
