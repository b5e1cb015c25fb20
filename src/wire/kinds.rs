//! The kinds that are watched, in one table.

use std::sync::Arc;

use engine::profile::Profiles;
use framework::{EventResource, Plugin};

/// Pods that have ended take no room and are not watched.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// One kind that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedKind {
    /// How the engine calls it.
    pub resource: EventResource,
    /// Its plural name with its group, as in RBAC rules: `pods`, `resourceclaims.resource.k8s.io`.
    pub name: Arc<str>,
    /// Where the API server lists it.
    pub path: Arc<str>,
    /// Which objects are of interest.
    pub field_selector: Option<&'static str>,
}

impl WatchedKind {
    /// Whether pods can be scheduled without it: every server knows nodes and pods.
    pub const fn is_optional(&self) -> bool {
        !matches!(self.resource, EventResource::Node | EventResource::Pod)
    }
}

/// The kinds of Kubernetes itself that a plugin can ask for, as `<plural>.<version>[.<group>]`.
const BUILT_IN: [(EventResource, &str); 13] = [
    (EventResource::Node, "nodes.v1"),
    (EventResource::Pod, "pods.v1"),
    (EventResource::PersistentVolume, "persistentvolumes.v1"),
    (EventResource::PersistentVolumeClaim, "persistentvolumeclaims.v1"),
    (EventResource::CsiNode, "csinodes.v1.storage.k8s.io"),
    (EventResource::CsiDriver, "csidrivers.v1.storage.k8s.io"),
    (EventResource::VolumeAttachment, "volumeattachments.v1.storage.k8s.io"),
    (EventResource::CsiStorageCapacity, "csistoragecapacities.v1.storage.k8s.io"),
    (EventResource::StorageClass, "storageclasses.v1.storage.k8s.io"),
    (EventResource::ResourceClaim, "resourceclaims.v1.resource.k8s.io"),
    (EventResource::ResourceSlice, "resourceslices.v1.resource.k8s.io"),
    (EventResource::DeviceClass, "deviceclasses.v1.resource.k8s.io"),
    (EventResource::PodGroup, "podgroups.v1alpha2.scheduling.k8s.io"),
];

/// The kinds these profiles need: nodes and pods always, others where a plugin in use asks for them.
/// Nodes come first, so that pods find theirs.
pub fn watched_kinds(profiles: &Profiles) -> Vec<WatchedKind> {
    let plugins: Vec<&Plugin> =
        profiles.iter().flat_map(|profile| profile.plugins.values()).collect();
    let is_wanted = |resource: &EventResource| {
        matches!(resource, EventResource::Node | EventResource::Pod)
            || plugins.iter().any(|plugin| hears_of(plugin, resource))
    };
    let built_in = BUILT_IN.iter().filter(|(resource, _)| is_wanted(resource));
    let built_in = built_in.filter_map(|(resource, kind)| watched(resource.clone(), kind));
    let custom = profiles.watched_kinds();
    let custom =
        custom.into_iter().filter_map(|kind| watched(EventResource::Custom(kind.clone()), &kind));
    built_in.chain(custom).collect()
}

fn hears_of(plugin: &Plugin, resource: &EventResource) -> bool {
    plugin.events.iter().flatten().any(|registered| registered.event.resource == *resource)
}

/// `kind` is `<plural>.<version>[.<group>]`; the core group has no name.
fn watched(resource: EventResource, kind: &str) -> Option<WatchedKind> {
    let mut parts = kind.splitn(3, '.');
    let (plural, version, group) = (parts.next()?, parts.next()?, parts.next());
    let (name, path) = match group {
        None => (plural.to_owned(), format!("/api/{version}/{plural}")),
        Some(group) => (format!("{plural}.{group}"), format!("/apis/{group}/{version}/{plural}")),
    };
    let field_selector = (resource == EventResource::Pod).then_some(NOT_ENDED);
    Some(WatchedKind { resource, name: name.into(), path: path.into(), field_selector })
}

#[cfg(test)]
mod tests {
    use framework::{ActionType, ClusterEvent, CycleState, Pod, PostBind};

    use super::*;
    use crate::config::{self, Gates};

    fn paths(profiles: &Profiles) -> Vec<String> {
        watched_kinds(profiles).iter().map(|kind| kind.path.to_string()).collect()
    }

    fn profiles_with(plugin: Option<Plugin>) -> Profiles {
        let mut text = "apiVersion: kubescheduler.config.k8s.io/v1\n\
                        kind: KubeSchedulerConfiguration\n"
            .to_owned();
        let mut registry = plugins::registry();
        if let Some(plugin) = plugin {
            text.push_str("profiles: [{plugins: {multiPoint: {enabled: [{name: Mine}]}}}]\n");
            registry.register("Mine", move |_| Ok(plugin.clone())).unwrap();
        }
        let loaded = config::load(&text, &Gates::default()).unwrap();
        loaded.config.build_profiles(&registry).unwrap()
    }

    struct Mine;
    impl PostBind for Mine {
        fn post_bind(&self, _: &CycleState, _: &Pod, _: &str) {}
    }

    const NODES: &str = "/api/v1/nodes";
    const PODS: &str = "/api/v1/pods";
    /// NodeResourcesFit hears of them, because they may stand for extended resources.
    const DEVICE_CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";

    #[test]
    fn nodes_and_pods_are_watched_and_what_the_default_plugins_hear_of() {
        assert_eq!(paths(&profiles_with(None)), [NODES, PODS, DEVICE_CLASSES]);
    }

    #[test]
    fn kinds_that_plugins_ask_for_are_watched_too() {
        let claims = ClusterEvent::new(EventResource::ResourceClaim, ActionType::ADD);
        let plugin =
            Plugin::new("Mine", Mine).post_bind().on(claims).watch("quotas.v1.example.com").build();
        let expected = [
            NODES,
            PODS,
            "/apis/resource.k8s.io/v1/resourceclaims",
            DEVICE_CLASSES,
            "/apis/example.com/v1/quotas",
        ];
        assert_eq!(paths(&profiles_with(Some(plugin))), expected);
    }
}
