//! Claims as JSON: their devices, users and conditions.

use framework::{EventResource, ObjectKey, Time};
use serde_json::Value;

use super::BINDING_TIMEOUT;

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(super) fn claim_key(name: &str) -> ObjectKey {
    ObjectKey::namespaced(EventResource::ResourceClaim, "default".into(), name.into())
}

pub(super) fn uid_of(object: &Value) -> String {
    text(&object["metadata"]["uid"])
}

pub(super) fn version_of(object: &Value) -> u64 {
    text(&object["metadata"]["resourceVersion"]).parse().unwrap_or_default()
}

/// Returns the devices of a claim, as `node/device`.
pub(super) fn devices_of(allocation: &Value) -> Vec<String> {
    let results = allocation["devices"]["results"].as_array().into_iter().flatten();
    results.map(|own| format!("{}/{}", text(&own["pool"]), text(&own["device"]))).collect()
}

pub(super) fn users_of(claim: &Value) -> Vec<String> {
    let users = claim["status"]["reservedFor"].as_array().into_iter().flatten();
    users.map(|user| text(&user["uid"])).collect()
}

/// Returns the numbers of devices that are enough for a claim, the preferred one first.
pub(super) fn counts_of(claim: &Value) -> Vec<usize> {
    let request = &claim["spec"]["devices"]["requests"][0];
    let one = std::slice::from_ref(&request["exactly"]);
    let bodies = request["firstAvailable"].as_array().map_or(one, Vec::as_slice);
    let counts = bodies.iter().filter_map(|body| body["count"].as_u64());
    counts.filter_map(|count| usize::try_from(count).ok()).collect()
}

/// Returns the place of the first alternative of each claim, in the order of the claims, such that
/// all fit together.
pub(super) fn choose(claims: &[Vec<usize>], free: usize) -> Option<Vec<usize>> {
    let Some((first, others)) = claims.split_first() else { return Some(Vec::new()) };
    let mut places = first.iter().enumerate().filter(|(_, count)| **count <= free);
    places.find_map(|(place, count)| {
        let rest = choose(others, free - count)?;
        Some([place].into_iter().chain(rest).collect())
    })
}

/// Returns the score of a claim that gets this alternative: the earlier it is, the higher.
pub(super) fn score_of(claim: &Value, place: usize) -> i64 {
    let has_alternatives = claim["spec"]["devices"]["requests"][0]["firstAvailable"].is_array();
    if has_alternatives { 8 - i64::try_from(place).unwrap_or_default() } else { 0 }
}

/// Returns the place of the alternative for which a claim is allocated.
pub(super) fn chosen_of(claim: &Value) -> usize {
    let devices = devices_of(&claim["status"]["allocation"]);
    counts_of(claim).iter().position(|count| *count == devices.len()).unwrap_or_default()
}

pub(super) fn is_allocated(claim: &Value) -> bool {
    !claim["status"]["allocation"].is_null()
}

/// Returns when a claim was allocated.
pub(super) fn allocated_at(claim: &Value) -> Option<Time> {
    let time = &claim["status"]["allocation"]["allocationTimestamp"];
    Time::parse_rfc3339(&text(time)).ok()
}

/// Returns whether all devices are ready; an error if one of them is broken, or if they have not
/// become ready in time.
pub(super) fn are_ready(claim: &Value, now: Time) -> Result<bool, ()> {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array();
    let mut all = true;
    for result in results.into_iter().flatten() {
        let kinds = |field: &str| result[field].as_array().cloned().unwrap_or_default();
        let binding = kinds("bindingConditions");
        let devices = claim["status"]["devices"].as_array().into_iter().flatten();
        let of_device = devices.filter(|own| {
            ["driver", "pool", "device"].iter().all(|field| own[*field] == result[*field])
        });
        let is_true = |kind: &Value| {
            let conditions = of_device.clone().filter_map(|own| own["conditions"].as_array());
            conditions.flatten().any(|own| own["type"] == *kind && own["status"] == "True")
        };
        // Without conditions for the binding, those of its failure do not count.
        if !binding.is_empty() && kinds("bindingFailureConditions").iter().any(is_true) {
            return Err(());
        }
        all &= binding.iter().all(is_true);
    }
    let is_late = allocated_at(claim).is_some_and(|since| since + BINDING_TIMEOUT < now);
    if !all && is_late { Err(()) } else { Ok(all) }
}
