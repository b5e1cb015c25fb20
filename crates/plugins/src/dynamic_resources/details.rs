//! Which request, selector, constraint or claim keeps a pod from a node, for explanations.

use std::collections::BTreeMap;

use framework::device::ResourceClaim;
use framework::{Detail, Handle, NodeBits, NodeView, Pod};

use super::DynamicResources;
use super::search::{Search, can_use};
use super::trials::Trials;

/// Returns the details about rejected nodes, one for each distinct text.
pub(super) fn of_rejected(
    plugin: &DynamicResources,
    search: &Search,
    pod: &Pod,
    handle: &Handle<'_>,
    rejected: &NodeBits,
) -> Vec<Detail> {
    let mut trials = Trials::start(plugin, search, pod, handle);
    let mut by_text: BTreeMap<String, NodeBits> = BTreeMap::new();
    for node in rejected.iter() {
        let view = handle.cluster.node(node);
        let text = missing_resource(search, &view)
            .or_else(|| trials.diagnosis(node).map(|diagnosis| diagnosis.to_string()))
            .or_else(|| unavailable_claim(plugin, search, &view, handle));
        if let Some(text) = text {
            by_text.entry(text).or_default().insert(node);
        }
    }
    trials.end();
    let detail = |(text, nodes)| Detail { text, nodes, remedies: Vec::new() };
    by_text.into_iter().map(detail).collect()
}

fn missing_resource(search: &Search, node: &NodeView<'_>) -> Option<String> {
    let name = search.extended.as_ref()?.missing(node)?;
    Some(format!("neither the node nor a device class provides {name}"))
}

fn unavailable_claim(
    plugin: &DynamicResources,
    search: &Search,
    node: &NodeView<'_>,
    handle: &Handle<'_>,
) -> Option<String> {
    let text = |claim: &ResourceClaim| match can_use(claim, node) {
        Ok(false) => Some("it is allocated for other nodes"),
        _ if plugin.is_failed(claim, handle) => Some("its devices did not become ready"),
        _ => None,
    };
    search.claims.iter().find_map(|claim| {
        Some(format!("claim {}/{}: {}", claim.namespace, claim.name, text(claim)?))
    })
}
