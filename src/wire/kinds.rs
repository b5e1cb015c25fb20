//! The kinds that profiles need watched, and the kinds that feeds bring.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::profile::{Profile, Profiles};
use framework::{COSCHEDULING_POD_GROUPS, EventResource, Feed};

/// Selects pods that have not ended; ended pods occupy no resources.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// A watched kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedKind {
    /// The resource in cluster events.
    pub resource: EventResource,
    /// Plural name with group, as in RBAC rules: `pods`, `resourceclaims.resource.k8s.io`.
    pub name: Arc<str>,
    /// Path of its list in the API.
    pub path: Arc<str>,
    /// Field selector of the list.
    pub field_selector: Option<Cow<'static, str>>,
    /// Whether its objects describe nodes, so that pods are scheduled by what else is known.
    pub describes_nodes: bool,
}

impl WatchedKind {
    /// Whether pods can be scheduled without the kind. Every server has nodes and pods.
    pub const fn is_optional(&self) -> bool {
        !matches!(self.resource, EventResource::Node | EventResource::Pod)
    }

    /// Whether pods can be scheduled without the permission to watch the kind. Without PodGroups,
    /// the pods that name one wait, and no other pod depends on them. Without what describes nodes,
    /// plugins take the nodes as undescribed.
    pub fn is_optional_if_forbidden(&self) -> bool {
        match &self.resource {
            EventResource::PodGroup => true,
            EventResource::Custom(name) => {
                self.describes_nodes || **name == *COSCHEDULING_POD_GROUPS
            }
            _ => false,
        }
    }

    /// Whether a plugin lacks something while the server does not know the kind. Clusters without
    /// Coscheduling have no PodGroups of it, and need none.
    pub fn is_missed_if_absent(&self) -> bool {
        self.is_custom() && *self.resource.name() != *COSCHEDULING_POD_GROUPS
    }

    /// Whether the kind is none of Kubernetes itself.
    pub fn is_custom(&self) -> bool {
        let is_known = |own: &&kinds::Kind| own.built_in && *own.resource == *self.name;
        matches!(self.resource, EventResource::Custom(_)) && !kinds::ALL.iter().any(is_known)
    }
}

/// Returns the kinds that these profiles need, by their names `<plural>.<version>[.<group>]`:
/// always nodes and pods, and the kinds that a plugin in use registers events of, reads or feeds.
pub(super) fn needed_kinds(profiles: &Profiles) -> Vec<(EventResource, Arc<str>)> {
    let is_needed = |resource: &EventResource| {
        matches!(resource, EventResource::Node | EventResource::Pod)
            || profiles.iter().any(|profile| needs(profile, resource))
    };
    let built_in = EventResource::BUILT_IN.into_iter().filter(is_needed);
    let built_in = built_in.filter_map(|resource| {
        let name = resource.kind()?.versioned_resource;
        Some((resource, name.into()))
    });
    let mut custom = profiles.watched_kinds();
    custom.extend(fed_kinds(profiles));
    let custom = custom.into_iter().map(|kind| (EventResource::Custom(kind.clone()), kind));
    built_in.chain(custom).collect()
}

/// Whether a plugin of the profile reads these objects or registers their events. Extenders, and
/// plugins that register no events, receive the events of most kinds.
fn needs(profile: &Profile, resource: &EventResource) -> bool {
    let plugins = || profile.plugins.values();
    let declared = plugins().flat_map(|plugin| plugin.events.iter().flatten());
    let registered = profile.events.iter().map(|(_, registration)| registration);
    registered.chain(declared).any(|registration| registration.event.resource == *resource)
        || plugins().any(|plugin| plugin.read_kinds.contains(resource))
}

/// Returns the kinds to watch for these profiles. Nodes come first, so that pods find their nodes.
/// A kind that a feed brings is not watched.
pub fn watched_kinds(profiles: &Profiles) -> Vec<WatchedKind> {
    let fed = fed_kinds(profiles);
    let kinds = needed_kinds(profiles).into_iter().filter(|(_, name)| !fed.contains(name));
    let of_nodes = profiles.node_kinds();
    let kinds = kinds.filter_map(|(resource, name)| {
        let describes_nodes = of_nodes.contains(&name);
        Some(WatchedKind { describes_nodes, ..watched(resource, &name)? })
    });
    kinds.collect()
}

fn plugin_feeds(profiles: &Profiles) -> impl Iterator<Item = &Feed> {
    let plugins = profiles.iter().flat_map(|profile| profile.plugins.values());
    plugins.flat_map(|plugin| &plugin.feeds)
}

fn fed_kinds(profiles: &Profiles) -> BTreeSet<Arc<str>> {
    plugin_feeds(profiles).map(|feed| feed.kind().clone()).collect()
}

/// Returns one feed for each kind that plugins feed. Several profiles may enable the same plugin:
/// of their polls the one with the shortest interval remains, of their tasks the first.
pub fn feeds(profiles: &Profiles) -> Vec<(WatchedKind, Feed)> {
    let mut by_kind = BTreeMap::<Arc<str>, Feed>::new();
    for feed in plugin_feeds(profiles) {
        let known = by_kind.entry(feed.kind().clone()).or_insert_with(|| feed.clone());
        if let (Feed::Poll { interval: known, .. }, Feed::Poll { interval, .. }) = (known, feed) {
            *known = (*known).min(*interval);
        }
    }
    let feeds = by_kind.into_iter();
    feeds
        .filter_map(|(kind, feed)| {
            Some((watched(EventResource::Custom(kind.clone()), &kind)?, feed))
        })
        .collect()
}

/// Parses `<plural>.<version>[.<group>]`; the core group has no name.
fn watched(resource: EventResource, kind: &str) -> Option<WatchedKind> {
    let mut parts = kind.splitn(3, '.');
    let (plural, version, group) = (parts.next()?, parts.next()?, parts.next());
    let (name, path) = match group {
        None => (plural.to_owned(), format!("/api/{version}/{plural}")),
        Some(group) => (format!("{plural}.{group}"), format!("/apis/{group}/{version}/{plural}")),
    };
    let is_pod = resource == EventResource::Pod;
    let field_selector = is_pod.then_some(Cow::Borrowed(NOT_ENDED));
    let (name, path) = (name.into(), path.into());
    Some(WatchedKind { resource, name, path, field_selector, describes_nodes: false })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use framework::{
        ActionType, Attempt, ClusterEvent, Filter, NodeView, Plugin, PostBind, Status,
    };

    use super::*;
    use crate::config::{self, Gates};

    fn paths(profiles: &Profiles) -> Vec<String> {
        watched_kinds(profiles).iter().map(|kind| kind.path.to_string()).collect()
    }

    fn profiles_with(plugins: &str, plugin: Option<Plugin>) -> Profiles {
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
             profiles: [{{plugins: {plugins}}}]\n"
        );
        let mut registry = plugins::registry();
        if let Some(plugin) = plugin {
            registry.register("Mine", move |_| Ok(plugin.clone())).unwrap();
        }
        let loaded = config::load(&text, &Gates::default()).unwrap();
        loaded.config.build_profiles(&registry).unwrap()
    }

    struct Mine;
    impl PostBind for Mine {
        fn post_bind(&self, _: &Attempt<'_>, _: &str) {}
    }
    impl Filter for Mine {
        fn filter(&self, _: &Attempt<'_>, _: &NodeView<'_>) -> Status {
            Status::success()
        }
    }

    /// Kinds for all profiles.
    const ALWAYS: [&str; 2] = ["/api/v1/nodes", "/api/v1/pods"];
    /// Read by InterPodAffinity and PodTopologySpread.
    const RELATED: [&str; 5] = [
        "/api/v1/namespaces",
        "/api/v1/services",
        "/api/v1/replicationcontrollers",
        "/apis/apps/v1/replicasets",
        "/apis/apps/v1/statefulsets",
    ];
    /// Registered by NodeResourcesFit, because a DeviceClass may provide an extended resource.
    const DEVICE_CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
    /// Registered by DynamicResources.
    const DEVICES: [&str; 3] = [
        "/apis/resource.k8s.io/v1/resourceclaims",
        "/apis/resource.k8s.io/v1/resourceslices",
        DEVICE_CLASSES,
    ];

    /// Read by DynamicResources with the gate DRADeviceTaintRules, which is on by default since
    /// 1.37. A server that has the stable version is asked for that one.
    const TAINT_RULES: &str = "/apis/resource.k8s.io/v1beta2/devicetaintrules";

    /// Read by DefaultPreemption.
    const BUDGETS: &str = "/apis/policy/v1/poddisruptionbudgets";

    /// Read by the volume plugins.
    const STORAGE: [&str; 7] = [
        "/api/v1/persistentvolumes",
        "/api/v1/persistentvolumeclaims",
        "/apis/storage.k8s.io/v1/csinodes",
        "/apis/storage.k8s.io/v1/csidrivers",
        "/apis/storage.k8s.io/v1/volumeattachments",
        "/apis/storage.k8s.io/v1/csistoragecapacities",
        "/apis/storage.k8s.io/v1/storageclasses",
    ];

    #[test]
    fn default_plugins_determine_the_watched_kinds() {
        let expected =
            [&ALWAYS[..], &RELATED, &[BUDGETS], &STORAGE, &DEVICES, &[TAINT_RULES]].concat();
        assert_eq!(paths(&profiles_with("{}", None)), expected);
    }

    #[test]
    fn kinds_of_disabled_plugins_are_not_watched() {
        let off = "{multiPoint: {disabled: [{name: PodTopologySpread}, {name: InterPodAffinity}, \
                   {name: DynamicResources}]}}";
        let expected = [&ALWAYS[..], &[BUDGETS], &STORAGE, &[DEVICE_CLASSES]].concat();
        assert_eq!(paths(&profiles_with(off, None)), expected);
    }

    #[test]
    fn kinds_of_out_of_tree_plugins_are_watched() {
        let claims = ClusterEvent::new(EventResource::ResourceClaim, ActionType::ADD);
        let plugin = Plugin::new("Mine", Mine)
            .post_bind()
            .on(claims)
            .read(EventResource::Service)
            .watch("quotas.v1.example.com")
            .build();
        let on = "{multiPoint: {enabled: [{name: Mine}], disabled: [{name: PodTopologySpread}, \
                  {name: InterPodAffinity}, {name: DynamicResources}]}}";
        let before = ["/api/v1/services", BUDGETS];
        let behind = [
            "/apis/resource.k8s.io/v1/resourceclaims",
            DEVICE_CLASSES,
            "/apis/example.com/v1/quotas",
        ];
        let expected = [&ALWAYS[..], &before, &STORAGE, &behind].concat();
        assert_eq!(paths(&profiles_with(on, Some(plugin))), expected);
    }

    #[test]
    fn kinds_that_a_feed_brings_are_not_watched() {
        const KIND: &str = "nodes.v1beta1.metrics.k8s.io";
        let poll =
            |seconds| Feed::Poll { kind: KIND.into(), interval: Duration::from_secs(seconds) };
        let plugin = Plugin::new("Mine", Mine).filter().no_events().watch(KIND);
        let plugin = plugin.feed(poll(30)).feed(poll(10)).feed(poll(20)).build();
        let profiles = profiles_with("{multiPoint: {enabled: [{name: Mine}]}}", Some(plugin));
        assert!(needed_kinds(&profiles).iter().any(|(_, name)| **name == *KIND));
        let path = "/apis/metrics.k8s.io/v1beta1/nodes";
        assert!(!paths(&profiles).contains(&path.to_owned()));
        let feeds = feeds(&profiles);
        let [(kind, Feed::Poll { interval, .. })] = &feeds[..] else { panic!("{feeds:?}") };
        assert_eq!((&*kind.path, interval.as_secs()), (path, 10));
    }

    #[test]
    fn only_kinds_that_describe_nodes_are_optional_if_forbidden() {
        let plugin = Plugin::new("Mine", Mine).filter().no_events();
        let plugin =
            plugin.watch("policies.v1.example.com").describes_nodes("zones.v1.example.com");
        let profiles =
            profiles_with("{multiPoint: {enabled: [{name: Mine}]}}", Some(plugin.build()));
        let kinds = watched_kinds(&profiles);
        let kinds = kinds.iter().filter(|kind| kind.is_custom());
        let kinds: Vec<_> =
            kinds.map(|kind| (&*kind.name, kind.is_optional_if_forbidden())).collect();
        assert_eq!(kinds, [("policies.example.com", false), ("zones.example.com", true)]);
    }

    #[test]
    fn plugin_without_registered_events_watches_all_kinds() {
        let plugin = Plugin::new("Mine", Mine).filter().build();
        let paths = paths(&profiles_with("{multiPoint: {enabled: [{name: Mine}]}}", Some(plugin)));
        assert!(paths.contains(&"/api/v1/persistentvolumes".to_owned()), "{paths:?}");
    }
}
