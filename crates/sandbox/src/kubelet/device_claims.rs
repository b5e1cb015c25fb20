//! The claims for devices of a pod, which a kubelet prepares before it starts containers.

use serde_json::Value;

use crate::metadata::{namespace, uid};
use crate::object::{entries, text};
use crate::resources::RESOURCECLAIMS;
use crate::store::Store;

/// Returns whether all claims of the pod are allocated and reserved for it.
pub(super) fn are_ready(store: &Store, pod: &Value) -> bool {
    let extended = text(pod, "/status/extendedResourceClaimStatus/resourceClaimName");
    let extended = Some(extended).filter(|name| !name.is_empty());
    entries(pod, "/spec/resourceClaims").all(|entry| match claim_name(pod, entry) {
        Ok(name) => name.is_none_or(|name| is_ready(store, pod, name)),
        Err(NotCreated) => false,
    }) && extended.is_none_or(|name| is_ready(store, pod, name))
}

/// The claim for a template does not exist yet.
struct NotCreated;

/// Returns the name of the claim for an entry of the pod; `None` if it needs no claim.
fn claim_name<'a>(pod: &'a Value, entry: &'a Value) -> Result<Option<&'a str>, NotCreated> {
    if let Some(name) = entry["resourceClaimName"].as_str() {
        return Ok(Some(name));
    }
    let mut statuses = entries(pod, "/status/resourceClaimStatuses");
    let status = statuses.find(|status| status["name"] == entry["name"]).ok_or(NotCreated)?;
    Ok(status["resourceClaimName"].as_str())
}

fn is_ready(store: &Store, pod: &Value, claim: &str) -> bool {
    let Some(claim) = store.get(RESOURCECLAIMS, namespace(pod), claim) else { return false };
    claim["status"]["allocation"].is_object()
        && entries(claim, "/status/reservedFor").any(|user| text(user, "/uid") == uid(pod))
}
