//! Relations between pods other than labels: their namespaces, and the Services and controllers
//! that select them.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;

use super::Cluster;
use super::object::Indexed;
use super::object_state::{ControllerSelector, Namespace, ObjectState, Service};
use super::selector_index::SelectorIndex;
use ::api::{ControllerKind, LabelSelector, Labels, ObjectKey, Pod};

/// Namespaces, Services and controllers: the fields that relate pods.
#[derive(Debug, Clone, Default)]
pub(super) struct Related {
    namespaces: BTreeMap<Arc<str>, Arc<Namespace>>,
    no_labels: Labels,
    services: HashMap<Name, Arc<Service>>,
    by_selector: SelectorIndex<Name>,
    controllers: HashMap<(ControllerKind, Name), Arc<ControllerSelector>>,
}

/// Namespace and name.
type Name = Arc<(Arc<str>, Arc<str>)>;

impl Related {
    /// Adds or removes a namespace, Service or controller; ignores other objects.
    pub(super) fn set(&mut self, object: Indexed<'_>) {
        let Indexed { key, state, is_there } = object;
        match state {
            ObjectState::Namespace(namespace) if is_there => {
                self.namespaces.insert(key.name.clone(), namespace.clone());
            }
            ObjectState::Namespace(_) => drop(self.namespaces.remove(&key.name)),
            ObjectState::Service(service) => {
                let service = object.present(service).filter(|own| own.selector.is_some());
                self.set_service(name_of(key), service);
            }
            ObjectState::ControllerSelector(controller) => {
                let key = (controller.kind, name_of(key));
                match is_there && controller.selector.is_some() {
                    true => drop(self.controllers.insert(key, controller.clone())),
                    false => drop(self.controllers.remove(&key)),
                }
            }
            _ => {}
        }
    }

    fn set_service(&mut self, name: Name, service: Option<Arc<Service>>) {
        let within = std::slice::from_ref(&name.0);
        let old = self.services.remove(&name);
        if let Some(selector) = old.as_ref().and_then(|old| old.selector.as_ref()) {
            self.by_selector.remove(Some(within), selector, name.clone());
        }
        let Some(service) = service else { return };
        if let Some(selector) = &service.selector {
            self.by_selector.insert(Some(within), selector, name.clone());
        }
        self.services.insert(name, service);
    }
}

fn name_of(key: &ObjectKey) -> Name {
    Name::new((key.namespace.clone(), key.name.clone()))
}

impl Cluster {
    /// Returns the labels of a namespace; no labels if the namespace is unknown.
    pub fn namespace_labels(&self, namespace: &str) -> &Labels {
        let known = self.related.namespaces.get(namespace);
        known.map_or(&self.related.no_labels, |known| &known.labels)
    }

    /// Returns all known namespaces, by name.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Arc<str>, &Labels)> {
        self.related.namespaces.iter().map(|(name, namespace)| (name, &namespace.labels))
    }

    /// Returns the selectors of the Services that select `pod`, by name of the Service. A Service
    /// without a selector selects no pod.
    pub fn services_selecting(&self, pod: &Pod) -> Vec<&LabelSelector> {
        let related = &self.related;
        let mut names: Vec<Name> =
            related.by_selector.candidates(&pod.key.namespace, &pod.labels).collect();
        names.sort_unstable();
        let selectors =
            names.iter().filter_map(|name| related.services.get(name)?.selector.as_ref());
        selectors.filter(|selector| selector.matches(&pod.labels)).collect()
    }

    /// Returns the selector of the controller of `pod`, if both are known.
    pub fn controller_selector(&self, pod: &Pod) -> Option<(ControllerKind, &LabelSelector)> {
        let controller = pod.controller.as_ref().filter(|own| own.kind.has_selector())?;
        let name = Name::new((pod.key.namespace.clone(), controller.name.clone()));
        let known = self.related.controllers.get(&(controller.kind, name))?;
        let selector = known.selector.as_ref()?;
        Some((controller.kind, selector))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{PodBuilder, SetJson, pod};
    use ::api::{EventResource, api};

    fn set(cluster: &mut Cluster, kind: EventResource, name: &str, selector: Value) {
        let object = Arc::new(json!({ "spec": { "selector": selector } }));
        cluster.set_json(&kind, "default", name, Some(object));
    }

    fn owned(kind: &str, name: &str) -> PodBuilder {
        let api_version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
        pod("p").label("app", "web").with(|pod| {
            pod.metadata.owner_references = vec![api::OwnerReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                name: name.to_owned(),
                uid: String::new(),
                controller: true,
            }];
        })
    }

    fn services(cluster: &Cluster, pod: PodBuilder) -> Vec<String> {
        let pod = pod.build();
        cluster.services_selecting(&pod).into_iter().map(ToString::to_string).collect()
    }

    #[test]
    fn services_select_by_equality_in_order_of_name() {
        let mut cluster = Cluster::default();
        let too_long = "x".repeat(64);
        for (name, selector) in [
            ("z", json!({ "app": "web" })),
            ("b", json!({ "app": "db" })),
            ("a", json!({ "tier": "front", "app": "web" })),
            ("everything", json!({})),
            ("nothing", json!(null)),
            ("text", json!("app=web")),
            ("number", json!({ "app": 7 })),
            ("long", json!({ "app": too_long })),
        ] {
            set(&mut cluster, EventResource::Service, name, selector);
        }
        let web = || pod("p").label("app", "web");
        assert_eq!(services(&cluster, web()), ["", "app=web"]);
        assert_eq!(
            services(&cluster, web().label("tier", "front")),
            ["app=web,tier=front", "", "app=web"]
        );
        assert_eq!(services(&cluster, pod("p").label("app", &too_long)).len(), 2);
        assert_eq!(services(&cluster, web().namespace("other")), Vec::<String>::new());
    }

    #[test]
    fn service_requires_all_labels_of_its_selector() {
        let mut cluster = Cluster::default();
        let selector = json!({ "app": "web", "tier": "front" });
        set(&mut cluster, EventResource::Service, "s", selector);
        let web = || pod("p").label("app", "web");
        let front = pod("p").label("tier", "front");
        let both = web().label("tier", "front");
        let found = [web(), front, both].map(|pod| services(&cluster, pod).len());
        assert_eq!(found, [0, 0, 1]);
    }

    #[test]
    fn replaced_or_removed_service_leaves_no_trace() {
        let mut cluster = Cluster::default();
        let web = || pod("p").label("app", "web");
        let db = || pod("p").label("app", "db");
        set(&mut cluster, EventResource::Service, "s", json!({ "app": "web" }));
        set(&mut cluster, EventResource::Service, "s", json!({ "app": "db" }));
        assert_eq!((services(&cluster, web()).len(), services(&cluster, db()).len()), (0, 1));
        set(&mut cluster, EventResource::Service, "s", json!(0));
        assert_eq!(services(&cluster, db()).len(), 1, "the last version that decodes stays");
        set(&mut cluster, EventResource::Service, "s", json!({ "app": "web" }));
        cluster.set_json(&EventResource::Service, "default", "s", None);
        assert_eq!(services(&cluster, web()).len(), 0);
    }

    #[test]
    fn controllers_are_found_by_kind_and_name() {
        let set_selector = || json!({ "matchLabels": { "app": "web" } });
        let too_long = json!({ "matchLabels": { "app": "x".repeat(64) } });
        let operator = json!({ "matchExpressions": [{ "key": "app", "operator": "Like" }] });
        for (kind, resource, selector, expected) in [
            ("ReplicaSet", EventResource::ReplicaSet, set_selector(), Some("app=web")),
            ("StatefulSet", EventResource::StatefulSet, set_selector(), Some("app=web")),
            ("ReplicaSet", EventResource::StatefulSet, set_selector(), None),
            ("ReplicaSet", EventResource::ReplicaSet, json!({}), Some("")),
            ("ReplicaSet", EventResource::ReplicaSet, json!(null), None),
            ("ReplicaSet", EventResource::ReplicaSet, json!("app=web"), None),
            ("ReplicaSet", EventResource::ReplicaSet, json!({ "matchLabels": ["app"] }), None),
            ("ReplicaSet", EventResource::ReplicaSet, too_long, None),
            ("ReplicaSet", EventResource::ReplicaSet, operator, None),
            (
                "ReplicationController",
                EventResource::ReplicationController,
                json!({ "app": "web" }),
                Some("app=web"),
            ),
            ("Job", EventResource::ReplicaSet, set_selector(), None),
        ] {
            let mut cluster = Cluster::default();
            let case = format!("{kind} {resource:?} {selector}");
            set(&mut cluster, resource.clone(), "c", selector);
            let pod = owned(kind, "c").build();
            let found = cluster.controller_selector(&pod).map(|(_, selector)| selector.to_string());
            assert_eq!(found.as_deref(), expected, "{case}");
            let other = owned(kind, "d").build();
            assert_eq!(cluster.controller_selector(&other), None, "{case}");
            cluster.set_json(&resource, "default", "c", None);
            assert_eq!(cluster.controller_selector(&pod), None, "{case}");
        }
    }
}
