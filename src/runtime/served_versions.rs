//! The version in which the API server serves a kind that is served in several ones.

use framework::EventResource;
use framework::device::DEVICE_TAINT_RULES;
use tracing::info;

use crate::api_client::ApiClient;
use crate::wire::{Decoder, WatchedKind};

/// The stable path of DeviceTaintRules, served since Kubernetes 1.37.
const STABLE: &str = "/apis/resource.k8s.io/v1/devicetaintrules";

/// Sets the path of DeviceTaintRules to the stable version, unless the API server does not serve
/// it. The objects of both versions have the same form, and a server that serves both has each rule
/// in both.
pub(super) async fn choose_versions(client: &ApiClient, kinds: &mut [(Decoder, WatchedKind)]) {
    let is_rule = |kind: &WatchedKind| matches!(&kind.resource, EventResource::Custom(name) if **name == *DEVICE_TAINT_RULES);
    for (_, kind) in kinds.iter_mut().filter(|(_, kind)| is_rule(kind)) {
        if is_served(client, STABLE).await {
            kind.path = STABLE.into();
        } else {
            info!(
                path = &*kind.path,
                "The API server does not serve DeviceTaintRules in version v1; watching the beta version"
            );
        }
    }
}

/// Whether the server serves a list at `path`. A server that does not say so is asked again by the
/// watch.
async fn is_served(client: &ApiClient, path: &str) -> bool {
    let answer = client.get(&format!("{path}?limit=1")).await;
    answer.is_ok_and(|answer| answer.status().as_u16() != 404)
}
