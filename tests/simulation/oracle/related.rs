//! Namespaces, Services, controllers, PodDisruptionBudgets and storage, as objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Change;
use framework::{
    COSCHEDULING_POD_GROUPS, ControllerKind, EventResource, LabelSelector, Labels, ObjectKey, Pod,
    api,
};
use sandbox::resources::{
    NAMESPACES, PODDISRUPTIONBUDGETS, PODGROUPS, REPLICASETS, REPLICATIONCONTROLLERS, Resource,
    SERVICES, STATEFULSETS,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::driver::is_pending;
use super::super::groups;
use super::super::server::Server;
use super::super::sources;
use super::devices;
use super::storage::{self, Storage};

/// The objects of these kinds.
const KINDS: [(EventResource, &Resource); 7] = [
    (EventResource::Namespace, NAMESPACES),
    (EventResource::Service, SERVICES),
    (EventResource::ReplicationController, REPLICATIONCONTROLLERS),
    (EventResource::ReplicaSet, REPLICASETS),
    (EventResource::StatefulSet, STATEFULSETS),
    (EventResource::PodDisruptionBudget, PODDISRUPTIONBUDGETS),
    (EventResource::PodGroup, PODGROUPS),
];

/// Objects that relate pods to each other, with labels, selectors and allowed disruptions; objects
/// of storage and devices.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Related {
    objects: BTreeMap<Key, Arc<Value>>,
    /// Decoded storage objects.
    pub(crate) storage: Storage,
}

/// Kind, namespace and name.
pub(super) type Key = (EventResource, Arc<str>, Arc<str>);

impl Related {
    /// Returns the stored objects.
    pub(crate) fn of_server(server: &Server) -> Self {
        let mut related = Self::default();
        for (kind, resource) in KINDS.iter().chain(&storage::KINDS).chain(&devices::KINDS) {
            for object in server.store.objects(resource) {
                let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().into();
                let key = (kind.clone(), text("namespace"), text("name"));
                related.set(key, Some(object));
            }
        }
        for (key, group) in groups::stored_of_coscheduling(server) {
            let kind = EventResource::Custom(COSCHEDULING_POD_GROUPS.into());
            related.set((kind, key.namespace, key.name), Some(group));
        }
        for report in sources::stored(server) {
            let name = report["metadata"]["name"].as_str().unwrap_or_default();
            related.set((sources::kind(), "".into(), name.into()), Some(report));
        }
        related
    }

    /// Sets an object to its present state, or `None` if it was deleted.
    pub(crate) fn set(&mut self, key: Key, object: Option<&Arc<Value>>) {
        let is_storage = storage::KINDS.iter().any(|(kind, _)| *kind == key.0);
        let is_of_devices = devices::KINDS.iter().any(|(kind, _)| *kind == key.0);
        let is_group = matches!(key.0, EventResource::PodGroup | EventResource::Custom(_));
        let object = object.map(|object| match is_storage || is_of_devices {
            true => storage::what_counts(object),
            false if key.0 == sources::kind() => sources::what_counts(object),
            false if is_group => json!({"metadata": {"uid": object["metadata"]["uid"]},
                "spec": object["spec"]}),
            false => what_counts(object),
        });
        if is_storage {
            self.storage.set(&key, object.as_ref());
        }
        match object {
            Some(object) => self.objects.insert(key, Arc::new(object)),
            None => self.objects.remove(&key),
        };
    }

    /// Records the version of a volume or claim in an answer of the API server. The watch may have
    /// reported a newer one.
    pub(crate) fn was_written(&mut self, object: &Arc<Value>) {
        let is_it = |(_, resource): &&(EventResource, &Resource)| object["kind"] == resource.kind;
        let Some((kind, _)) = storage::KINDS.iter().find(is_it) else { return };
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().into();
        let key = (kind.clone(), text("namespace"), text("name"));
        let version =
            |object: &Value| object["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
        let is_news = self.objects.get(&key).is_some_and(|known| {
            known["metadata"]["uid"] == object["metadata"]["uid"]
                && version(known) < version(object)
        });
        if is_news {
            self.set(key, Some(object));
        }
    }

    /// Returns all objects as changes.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        self.objects.iter().map(|((kind, namespace, name), object)| {
            let key = ObjectKey::namespaced(kind.clone(), namespace.clone(), name.clone());
            Change::decode(key, Some(object.clone())).expect("the object decodes")
        })
    }

    /// Returns the labels of a namespace; none if it is unknown.
    pub(super) fn namespace_labels(&self, namespace: &str) -> Labels {
        let object = self.get(EventResource::Namespace, "", namespace);
        let labels = object.and_then(|object| read(&object["metadata"]["labels"]));
        Labels::from(&labels.unwrap_or_default())
    }

    /// Returns the combined selector of the Services that select a pod and of its controller; it
    /// selects everything if there are none.
    pub(super) fn selector_of_mates(&self, pod: &Pod) -> LabelSelector {
        let is_near = |key: &Key| key.0 == EventResource::Service && key.1 == pod.key.namespace;
        let services = self.objects.iter().filter(|(key, _)| is_near(key));
        let sets = services.filter_map(|(_, service)| read(&service["spec"]["selector"]));
        let selecting = sets.filter(|set| LabelSelector::from_set(set).matches(&pod.labels));
        let mut pairs: BTreeMap<String, String> = selecting.flatten().collect();
        let mut further = LabelSelector::EVERYTHING;
        match self.controller_selector(pod) {
            Some((ControllerKind::ReplicationController, set)) => {
                pairs.extend(read(set).unwrap_or_default())
            }
            Some((_, selector)) => {
                let selector = api::LabelSelector::deserialize(selector).ok();
                let selector = selector.and_then(|own| LabelSelector::compile(Some(&own)).ok());
                further = selector.unwrap_or(further);
            }
            None => {}
        }
        LabelSelector::from_set(&pairs).and(&further)
    }

    fn controller_selector(&self, pod: &Pod) -> Option<(ControllerKind, &Value)> {
        let controller = pod.controller.as_ref()?;
        let kind = match controller.kind {
            ControllerKind::ReplicationController => EventResource::ReplicationController,
            ControllerKind::ReplicaSet => EventResource::ReplicaSet,
            ControllerKind::StatefulSet => EventResource::StatefulSet,
            _ => return None,
        };
        let object = self.get(kind, &pod.key.namespace, &controller.name)?;
        Some((controller.kind, &object["spec"]["selector"]))
    }

    /// Returns the PodDisruptionBudgets, with namespace and name.
    pub(crate) fn budgets(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        let budgets =
            self.objects.iter().filter(|(key, _)| key.0 == EventResource::PodDisruptionBudget);
        budgets.map(|((_, namespace, name), budget)| (&**namespace, &**name, &**budget))
    }

    /// Whether a claim that is reserved for the pod has devices that are not ready.
    pub(crate) fn waits_for_devices(&self, pod: &Pod) -> bool {
        let uid = pod.uid.to_string();
        let claims = self.objects.iter().filter(|(key, _)| key.0 == EventResource::ResourceClaim);
        let is_its = |claim: &Value| {
            let consumers = claim["status"]["reservedFor"].as_array().into_iter().flatten();
            consumers.into_iter().any(|consumer| consumer["uid"] == *uid)
        };
        claims.map(|(_, claim)| &**claim).any(|claim| is_pending(claim) && is_its(claim))
    }

    fn get(&self, kind: EventResource, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(&(kind, namespace.into(), name.into()))
    }
}

fn what_counts(object: &Value) -> Value {
    let (labels, selector) = (&object["metadata"]["labels"], &object["spec"]["selector"]);
    let status = &object["status"];
    let (allowed, disrupted) = (&status["disruptionsAllowed"], &status["disruptedPods"]);
    json!({"metadata": {"labels": labels}, "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted}})
}

fn read(pairs: &Value) -> Option<BTreeMap<String, String>> {
    Option::deserialize(pairs).ok().flatten()
}
