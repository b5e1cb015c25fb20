//! The Lease objects of many clusters.
//!
//! - [`MemberLeases`], in the management cluster: one Lease for each member. The scheduler renews
//!   it when it hears from the agent.
//! - [`KeptLeases`], in a member: one Lease in which the agent keeps the times of the last renewals
//!   for its next process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::{Method, Reply, Response};
use framework::{Time, WallOffset};
use serde::Deserialize;
use serde_json::{Value, json};
use supercluster::scheduler::{LeaseAnswer, LeaseOperation, LeaseRecord};

use crate::api_client::{APPLICATION_JSON, ApiClient, JsonRequest, MERGE_PATCH};

/// The Lease of a member is named by this and the name of the member.
const MEMBER_PREFIX: &str = "loadmaster-member-";
/// The Lease in a member.
const KEPT: &str = "loadmaster-delegates";
/// Annotation with the number of renewals.
const RENEWALS: &str = "supercluster.loadmaster.io/renewals";
/// Annotation with the times of the last renewals by UID of the Lease in the management cluster, as
/// JSON.
const RENEWED: &str = "supercluster.loadmaster.io/renewed";
/// Time to wait for the response to a read or write.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The fields of a Lease that are read.
#[derive(Debug, Deserialize)]
struct Lease {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: Arc<str>,
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    lease_transitions: Option<u64>,
}

/// The path of the Leases of a namespace.
fn collection(namespace: &str) -> String {
    control::collection_path("coordination.k8s.io/v1", namespace, "leases")
}

async fn send(
    client: &ApiClient,
    method: Method,
    path: String,
    body: Option<Value>,
) -> Result<Response, String> {
    let content_type = if method == Method::Patch { MERGE_PATCH } else { APPLICATION_JSON };
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request = JsonRequest { method, path, content_type, body, timeout: TIMEOUT };
    match client.request(request).await {
        Reply::Answered(response) => Ok(response),
        Reply::Rejected(text) | Reply::NotSent(text) | Reply::Lost(text) => Err(text),
    }
}

/// Returns the Lease of this name, which is created with this object if it does not exist.
async fn read_or_create(
    client: &ApiClient,
    namespace: &str,
    object: Value,
) -> Result<Lease, String> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{}/{name}", collection(namespace));
    let mut response = send(client, Method::Get, path, None).await?;
    if response.status == 404 {
        response = send(client, Method::Post, collection(namespace), Some(object)).await?;
    }
    lease_in(&response)
}

fn lease_in(response: &Response) -> Result<Lease, String> {
    if !response.is_success() {
        return Err(response.error_message());
    }
    serde_json::from_slice(&response.body).map_err(|error| format!("no Lease: {error}"))
}

fn lease(name: &str, annotations: Value, spec: Value) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "annotations": annotations}, "spec": spec})
}

/// A time as a `MicroTime`.
fn micro_time(time: Time) -> String {
    let micros = time.as_nanos().div_euclid(1_000);
    let stamp = jiff::Timestamp::from_microsecond(micros).unwrap_or_default();
    stamp.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// The Leases of the members.
#[derive(Clone)]
pub(super) struct MemberLeases {
    pub(super) client: ApiClient,
    pub(super) namespace: Arc<str>,
    /// Identifies this scheduler.
    pub(super) holder: Arc<str>,
}

impl MemberLeases {
    /// Reads or writes the Lease of a member. `now` is the wall time.
    pub(super) async fn carry_out(
        &self,
        cluster: &str,
        operation: &LeaseOperation,
        now: Time,
    ) -> LeaseAnswer {
        let name = format!("{MEMBER_PREFIX}{cluster}");
        let (record, renewed) = match operation {
            LeaseOperation::Read => {
                let spec = json!({"holderIdentity": &*self.holder, "leaseTransitions": 0});
                let created = lease(&name, json!({RENEWALS: "0"}), spec);
                return answer(read_or_create(&self.client, &self.namespace, created).await);
            }
            LeaseOperation::Renew(record) => (record, Some(micro_time(now))),
            LeaseOperation::Fence(record) => (record, None),
        };
        let mut patch = json!({
            "metadata": {"uid": &*record.uid, "resourceVersion": record.resource_version.to_string(),
                "annotations": {RENEWALS: record.renewals.to_string()}},
            "spec": {"holderIdentity": &*self.holder, "leaseTransitions": record.fences}});
        if let Some(renewed) = renewed {
            patch["spec"]["renewTime"] = renewed.into();
        }
        let path = format!("{}/{name}", collection(&self.namespace));
        match send(&self.client, Method::Patch, path, Some(patch)).await {
            Ok(response) if matches!(response.status, 404 | 409) => LeaseAnswer::Conflict,
            Ok(response) => answer(lease_in(&response)),
            Err(error) => LeaseAnswer::Failed(error),
        }
    }
}

fn answer(lease: Result<Lease, String>) -> LeaseAnswer {
    let record = lease.and_then(|Lease { metadata, spec }| {
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is no number"));
        let renewals = metadata.annotations.get(RENEWALS).map_or("0", String::as_str);
        Ok(LeaseRecord {
            resource_version: number(&metadata.resource_version)?,
            renewals: number(renewals)?,
            fences: spec.lease_transitions.unwrap_or(0),
            uid: metadata.uid,
        })
    });
    record.map_or_else(LeaseAnswer::Failed, LeaseAnswer::Record)
}

/// The Lease in a member.
#[derive(Clone)]
pub(super) struct KeptLeases {
    pub(super) client: ApiClient,
    pub(super) namespace: Arc<str>,
}

impl KeptLeases {
    /// Returns when leases were renewed, on a clock with this offset. A time that is in the future,
    /// because the wall clock was set back, is now.
    ///
    /// # Errors
    /// The API server refuses, or does not answer.
    pub(super) async fn read(
        &self,
        now: Time,
        offset: WallOffset,
    ) -> Result<BTreeMap<Arc<str>, Time>, String> {
        let object = lease(KEPT, json!({}), json!({}));
        let kept = read_or_create(&self.client, &self.namespace, object).await?;
        let text = kept.metadata.annotations.get(RENEWED).map_or("{}", String::as_str);
        Ok(times_in(text, now, offset))
    }

    /// Stores when leases were renewed, as wall times.
    ///
    /// # Errors
    /// The API server refuses, or does not answer.
    pub(super) async fn write(
        &self,
        renewed: BTreeMap<Arc<str>, Time>,
        offset: WallOffset,
    ) -> Result<(), String> {
        let latest = renewed.values().max().copied();
        let renewed = renewed
            .iter()
            .map(|(uid, time)| (uid.to_string(), Value::from(offset.wall_time(*time).to_string())));
        let renewed: serde_json::Map<String, Value> = renewed.collect();
        let mut patch =
            json!({"metadata": {"annotations": {RENEWED: Value::Object(renewed).to_string()}}});
        if let Some(latest) = latest {
            patch["spec"]["renewTime"] = micro_time(offset.wall_time(latest)).into();
        }
        let path = format!("{}/{KEPT}", collection(&self.namespace));
        lease_in(&send(&self.client, Method::Patch, path, Some(patch)).await?).map(drop)
    }
}

/// Returns the times in the annotation, which are wall times, on a clock with this offset.
fn times_in(text: &str, now: Time, offset: WallOffset) -> BTreeMap<Arc<str>, Time> {
    let renewed: BTreeMap<Arc<str>, String> = serde_json::from_str(text).unwrap_or_default();
    let wall_now = offset.wall_time(now);
    let times = renewed.into_iter().filter_map(|(uid, time)| {
        let age = wall_now.since(Time::parse_rfc3339(&time).ok()?);
        let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
        Some((uid, Time::from_nanos(now.as_nanos().saturating_sub(age))))
    });
    times.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_are_read_on_a_clock_that_is_set_and_not_later_than_now() {
        let (now, wall) = (Time::from_secs(500), Time::from_secs(10_000));
        let offset = WallOffset::between(now, wall);
        let text = json!({"past": Time::from_secs(9_940).to_string(), "odd": "yesterday",
            "future": Time::from_secs(10_900).to_string()});
        let times = times_in(&text.to_string(), now, offset);
        let expected: BTreeMap<Arc<str>, Time> =
            [("future".into(), now), ("past".into(), Time::from_secs(440))].into();
        assert_eq!(times, expected);
        assert!(times_in("[", now, offset).is_empty());
    }

    #[test]
    fn lease_of_a_member_is_read() {
        let body = json!({"metadata": {"uid": "u", "resourceVersion": "12",
            "annotations": {RENEWALS: "7"}}, "spec": {"leaseTransitions": 3}});
        let response = |status, body: &Value| Response {
            status,
            retry_after: None,
            body: body.to_string().into_bytes(),
        };
        let record = LeaseRecord { uid: "u".into(), resource_version: 12, renewals: 7, fences: 3 };
        assert_eq!(answer(lease_in(&response(200, &body))), LeaseAnswer::Record(record));
        let refused = answer(lease_in(&response(403, &json!({"message": "no"}))));
        assert!(matches!(refused, LeaseAnswer::Failed(_)), "{refused:?}");
        assert_eq!(micro_time(Time::from_nanos(1_234_567)), "1970-01-01T00:00:00.001234Z");
    }
}
