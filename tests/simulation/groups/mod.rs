//! Invariants of PodGroups, and what the rules about single pods need to know of them.
//!
//! - [`queueing`]: groups that wait: each has a reason, and does not fit whole.
//! - [`binding`]: members are bound together.
//! - [`texts`]: members and groups say why they wait.

pub(crate) mod binding;
pub(crate) mod queueing;
pub(crate) mod texts;

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Engine;
use framework::{Pod, PodGroup, PodGroupKey, PodGroupSource, Time, api};
use sandbox::resources::PODGROUPS;
use serde::Deserialize;
use serde_json::{Value, json};

use super::oracle::read_pod;
use super::server::Server;

/// The API of PodGroups of Kubernetes.
pub(crate) const NATIVE: &str = "scheduling.k8s.io/v1beta1";
/// The API of PodGroups of Coscheduling.
pub(crate) const OTHER: &str = "scheduling.x-k8s.io/v1alpha1";

/// Lets the API server serve the PodGroups of Coscheduling.
pub(crate) fn serve_coscheduling(server: &mut Server, now: Time) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1alpha1", "served": true, "storage": true,
        "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduling.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved"}},
        "spec": {"group": "scheduling.x-k8s.io", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "PodGroup", "plural": "podgroups"}}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let status = server.request("POST", path, &definition, now);
    assert_eq!(status, 201, "the definition of PodGroups is refused");
}

/// Whether a stored pod belongs to a group.
pub(crate) fn is_member(pod: &Value) -> bool {
    group_of(pod).is_some()
}

/// Returns the stored PodGroups of both APIs.
pub(crate) fn stored(server: &Server) -> BTreeMap<PodGroupKey, PodGroup> {
    let native = server.store.objects(PODGROUPS).map(|group| {
        let read = api::PodGroup::deserialize(&**group).expect("a PodGroup is well-formed");
        (key(group, PodGroupSource::Kubernetes), PodGroup::from_api(&read))
    });
    let other = stored_of_coscheduling(server).map(|(key, group)| {
        let read = api::CoschedulingPodGroup::deserialize(&**group);
        (key, PodGroup::from_coscheduling(&read.expect("a PodGroup is well-formed")))
    });
    native.chain(other).collect()
}

/// Returns the stored PodGroups of Coscheduling.
pub(crate) fn stored_of_coscheduling(
    server: &Server,
) -> impl Iterator<Item = (PodGroupKey, &Arc<Value>)> {
    let resource = server.store.resource_of_kind(OTHER, "PodGroup");
    let groups = resource.into_iter().flat_map(|resource| server.store.objects(resource));
    groups.map(|group| (key(group, PodGroupSource::Coscheduling), group))
}

fn key(group: &Value, source: PodGroupSource) -> PodGroupKey {
    let text = |field: &str| group["metadata"][field].as_str().unwrap_or_default();
    PodGroupKey { source, ..PodGroupKey::new(text("namespace"), text("name")) }
}

/// Returns the group that a stored pod belongs to.
fn group_of(pod: &Value) -> Option<PodGroupKey> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let native = pod["spec"]["schedulingGroup"]["podGroupName"].as_str();
    if let Some(name) = native {
        return Some(PodGroupKey::new(namespace, name));
    }
    let name = pod["metadata"]["labels"][framework::POD_GROUP_LABEL].as_str()?;
    let source = PodGroupSource::Coscheduling;
    Some(PodGroupKey { source, ..PodGroupKey::new(namespace, name) })
}

/// Returns the pods of each group that have not ended.
pub(crate) fn stored_members(server: &Server) -> BTreeMap<PodGroupKey, Vec<Pod>> {
    let mut members = BTreeMap::<_, Vec<_>>::new();
    for pod in server.live_pods().filter(|pod| is_member(pod)) {
        let pod = read_pod(pod);
        if let Some(group) = pod.pod_group() {
            members.entry(group).or_default().push(pod);
        }
    }
    members
}

/// Whether a pod on a node belongs to a PodGroup, which protects it by its own priority, and before
/// pods without a group, or lets it be evicted with others. The oracle of preemption knows no
/// groups.
pub(crate) fn protect_victims(engine: &Engine) -> bool {
    let cluster = engine.cluster();
    cluster.pods().any(|placed| cluster.pod_group_of(&placed.pod).is_some())
}
