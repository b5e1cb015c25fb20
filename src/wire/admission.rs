//! Admission: fills into pods and claims of the input what an API server would, if no API server
//! has admitted them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use admission::{Cause, Classes, Given, Refusal};
use framework::storage::default_class;
use framework::{EventResource, PodKey};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::collect::{count, some_of};
use super::defaults::DEFAULT_NAMESPACE;
use super::watched_object::WatchedObject;

/// The classes of the input, and its pods that wait for them.
#[derive(Debug, Clone, Default)]
pub(super) struct Admission {
    priority_classes: BTreeMap<String, Value>,
    runtime_classes: BTreeMap<String, Value>,
    /// By namespace.
    limit_ranges: BTreeMap<String, Vec<Value>>,
    /// Pods as they were read. Never iterated.
    waiting: HashMap<PodKey, Arc<RawValue>>,
    /// The pods that an API server would refuse, by the reason.
    refused: BTreeMap<Reason, Vec<String>>,
}

/// A reason for which an API server would refuse pods.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Reason {
    cause: Cause,
    value: String,
    message: String,
}

impl Reason {
    /// Returns the warning about these pods.
    fn warning(&self, pods: &str) -> String {
        let Self { cause, value, message } = self;
        match cause {
            Cause::NoPriorityClass => format!(
                "{pods} with spec.priorityClassName {value}: there is no such PriorityClass in the input; \
                 priority 0 counts"
            ),
            Cause::NoRuntimeClass => format!(
                "{pods} with spec.runtimeClassName {value}: there is no such RuntimeClass in the input; its \
                 overhead, node selector and tolerations do not count"
            ),
            Cause::PriorityClass | Cause::RuntimeClass | Cause::LimitRange => format!(
                "{pods}: the API server refuses that because of {cause:?} {value}: {message}; left out"
            ),
        }
    }
}

/// A pod after admission.
#[derive(Debug)]
pub(super) enum Admitted {
    /// The pod as an API server would store it.
    Pod(Value),
    /// An API server would refuse the pod, for this reason.
    Refused(String),
}

impl Classes for Admission {
    fn priority_class(&self, name: &str) -> Option<&Value> {
        self.priority_classes.get(name)
    }

    fn priority_classes(&self) -> impl Iterator<Item = &Value> {
        self.priority_classes.values()
    }

    fn runtime_class(&self, name: &str) -> Option<&Value> {
        self.runtime_classes.get(name)
    }

    fn limit_ranges(&self, namespace: &str) -> impl Iterator<Item = &Value> {
        self.limit_ranges.get(namespace).into_iter().flatten()
    }
}

impl Admission {
    /// Takes an object in that decides about pods. Returns whether it is one.
    pub(super) fn take(&mut self, version: &str, kind: &str, object: &Value) -> bool {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let classes = match (version, kind) {
            ("scheduling.k8s.io/v1", "PriorityClass") => &mut self.priority_classes,
            ("node.k8s.io/v1", "RuntimeClass") => &mut self.runtime_classes,
            ("v1", "LimitRange") => {
                self.add_limit_range(text("namespace"), text("name"), object);
                return true;
            }
            _ => return false,
        };
        classes.insert(text("name"), object.clone());
        true
    }

    fn add_limit_range(&mut self, namespace: String, name: String, object: &Value) {
        let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE.to_owned() } else { namespace };
        let ranges = self.limit_ranges.entry(namespace).or_default();
        ranges.retain(|own| own["metadata"]["name"] != *name);
        ranges.push(object.clone());
    }

    /// Returns the LimitRanges of these namespaces that limit claims.
    pub(super) fn ranges_of_claims(&self, namespaces: &BTreeSet<String>) -> Vec<String> {
        let limits_claims = |range: &&Value| {
            let mut limits = range["spec"]["limits"].as_array().into_iter().flatten();
            limits.any(|limit| limit["type"] == "PersistentVolumeClaim")
        };
        let of = |namespace: &String| {
            let ranges = self.limit_ranges(namespace).filter(limits_claims);
            let names = ranges.filter_map(|range| range["metadata"]["name"].as_str());
            names.map(|name| format!("{namespace}/{name}")).collect::<Vec<_>>()
        };
        namespaces.iter().flat_map(of).collect()
    }

    /// Remembers a pod that no API server has admitted.
    pub(super) fn remember(&mut self, key: &PodKey, pod: &Value) {
        match is_admitted(pod) {
            true => drop(self.waiting.remove(key)),
            false => {
                let raw = to_raw_value(pod).ok().map(Arc::from);
                self.waiting.extend(raw.map(|raw| (key.clone(), raw)));
            }
        }
    }

    /// Whether no pod waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the pod of this name as an API server would answer its creation, if it waits. A
    /// class that the pod names and that the input lacks does not refuse the pod: the cluster may
    /// have it.
    pub(super) fn admitted(&mut self, key: &PodKey) -> Option<Admitted> {
        let raw = self.waiting.remove(key)?;
        let mut pod = serde_json::from_str(raw.get()).ok()?;
        let mut refused = None;
        for refusal in admission::admit(&mut pod, &key.namespace, self, Given::Kept) {
            let Refusal { cause, value, message } = refusal;
            if !matches!(cause, Cause::NoPriorityClass | Cause::NoRuntimeClass) {
                refused.get_or_insert_with(|| message.clone());
            }
            let reason = Reason { cause, value, message };
            self.refused.entry(reason).or_default().push(key.to_string());
        }
        Some(refused.map_or(Admitted::Pod(pod), Admitted::Refused))
    }

    /// Returns the warnings about pods that an API server would refuse.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        let refused = std::mem::take(&mut self.refused).into_iter();
        let warning = |(reason, pods): (Reason, Vec<String>)| {
            let names = some_of(pods.iter().map(String::as_str));
            reason.warning(&format!("{} ({names})", count(pods.len(), "pod")))
        };
        refused.map(warning).collect()
    }
}

/// Whether an API server has stored the pod: each such pod has a priority.
fn is_admitted(pod: &Value) -> bool {
    let metadata = &pod["metadata"];
    let is_stored = !metadata["uid"].is_null() || !metadata["creationTimestamp"].is_null();
    is_stored && !pod["spec"]["priority"].is_null()
}

/// Sets the default class of the claims that no API server has admitted.
pub(super) fn admit_claims(objects: &mut [WatchedObject]) {
    let classes = objects.iter().filter(|own| own.kind == EventResource::StorageClass);
    let classes: Vec<Value> = classes.map(|own| own.value()).collect();
    if !classes.iter().any(default_class::is_default) {
        return;
    }
    let claims = objects.iter_mut().filter(|own| own.kind == EventResource::PersistentVolumeClaim);
    for claim in claims.filter(|own| !own.object.get().contains("\"storageClassName\"")) {
        let mut value = claim.value();
        let is_stored = !value["metadata"]["creationTimestamp"].is_null();
        let class = default_class::class_for(classes.iter(), &value).map(str::to_owned);
        if let Some(class) = class.filter(|_| !is_stored) {
            value["spec"]["storageClassName"] = class.into();
            if let Ok(raw) = to_raw_value(&value) {
                claim.object = raw.into();
            }
        }
    }
}
