//! Further fields of pods and nodes that a plugin asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Time;
use super::containers::ContainerResources;
use crate::api;

/// The end of the pointer of a field that is a time.
const SECONDS: &str = "@seconds";

/// The further fields of pods and nodes to keep. Fields are JSON pointers (RFC 6901), for example
/// `/metadata/annotations/example.com~1tier`. The empty pointer keeps the whole object.
/// `/status/conditions/*/type,status` keeps a list of objects with only these fields, and
/// `/metadata/creationTimestamp@seconds` a time of RFC 3339 as its seconds since the epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtraFields {
    /// Fields of pods.
    pub pod: BTreeSet<Arc<str>>,
    /// Fields of nodes.
    pub node: BTreeSet<Arc<str>>,
    /// Whether to keep the requests and limits of each container of a pod.
    pub containers: bool,
}

impl ExtraFields {
    /// Adds the fields of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.pod.extend(other.pod.iter().cloned());
        self.node.extend(other.node.iter().cloned());
        self.containers |= other.containers;
    }

    /// Returns the fields that `kept` lacks, as a text.
    pub fn missing_in(&self, kept: &Self) -> String {
        let of = |fields: &BTreeSet<Arc<str>>, kept: &BTreeSet<Arc<str>>, owner: &str| {
            fields
                .difference(kept)
                .map(|field| format!("{} of {owner}", field.trim_end_matches(SECONDS)))
                .collect::<Vec<_>>()
        };
        let mut missing = of(&self.pod, &kept.pod, "pods");
        missing.extend(of(&self.node, &kept.node, "nodes"));
        if self.containers && !kept.containers {
            missing.push("the containers of pods".to_owned());
        }
        missing.join(", ")
    }

    /// Returns whether no further field is kept.
    pub fn is_empty(&self) -> bool {
        self.pod.is_empty() && self.node.is_empty() && !self.containers
    }
}

/// The kept fields of one object. An object without such fields takes one word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extra(Option<Arc<Kept>>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Kept {
    /// Fields by pointer, sorted.
    #[serde(with = "json_texts")]
    fields: Box<[(Arc<str>, Value)]>,
    containers: Arc<[ContainerResources]>,
}

impl Extra {
    /// Returns the wanted fields that `object` has.
    pub fn of(object: &Value, wanted: &BTreeSet<Arc<str>>) -> Self {
        Self::with(object, wanted, Arc::default())
    }

    /// Returns the wanted fields of a pod. `json` is read only if fields are wanted.
    pub fn of_pod(pod: &api::Pod, json: &Value, wanted: &ExtraFields) -> Self {
        let containers = match wanted.containers {
            true => ContainerResources::of_pod(&pod.spec),
            false => Arc::default(),
        };
        Self::with(json, &wanted.pod, containers)
    }

    fn with(
        object: &Value,
        wanted: &BTreeSet<Arc<str>>,
        containers: Arc<[ContainerResources]>,
    ) -> Self {
        let present = |pointer: &Arc<str>| Some((pointer.clone(), found(object, pointer)?));
        let fields: Box<[_]> = wanted.iter().filter_map(present).collect();
        if fields.is_empty() && containers.is_empty() {
            return Self(None);
        }
        Self(Some(Arc::new(Kept { fields, containers })))
    }

    /// Returns the field at `pointer`, if a plugin asked for it and the object has it.
    pub fn get(&self, pointer: &str) -> Option<&Value> {
        let fields = &self.0.as_deref()?.fields;
        let place = fields.binary_search_by(|(known, _)| (**known).cmp(pointer)).ok()?;
        Some(&fields[place].1)
    }

    pub(super) fn containers(&self) -> &[ContainerResources] {
        self.0.as_deref().map_or(&[], |kept| &kept.containers)
    }

    /// Returns the list of containers for sharing it with other pods. Returns `None` if there is no
    /// list, or if this value is already shared.
    pub(super) fn containers_mut(&mut self) -> Option<&mut Arc<[ContainerResources]>> {
        let kept = Arc::get_mut(self.0.as_mut()?)?;
        (!kept.containers.is_empty()).then_some(&mut kept.containers)
    }
}

/// Returns the field of an object at a pointer.
fn found(object: &Value, pointer: &str) -> Option<Value> {
    if let Some(pointer) = pointer.strip_suffix(SECONDS) {
        let time = Time::parse_rfc3339(object.pointer(pointer)?.as_str()?).ok()?;
        return Some(time.as_nanos().div_euclid(1_000_000_000).into());
    }
    let Some((list, fields)) = pointer.split_once("/*/") else {
        return object.pointer(pointer).cloned();
    };
    let reduced = |element: &Value| {
        let field = |name: &str| Some((name.to_owned(), element.get(name)?.clone()));
        Value::Object(fields.split(',').filter_map(field).collect())
    };
    Some(Value::Array(object.pointer(list)?.as_array()?.iter().map(reduced).collect()))
}

/// Fields as JSON texts, for formats that do not describe themselves.
mod json_texts {
    use std::sync::Arc;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::Value;

    /// A pointer and its value.
    type Field = (Arc<str>, Value);

    pub(super) fn serialize<S: Serializer>(
        fields: &[Field],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(fields.iter().map(|(pointer, value)| (pointer, value.to_string())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Box<[Field]>, D::Error> {
        let texts = Vec::<(Arc<str>, String)>::deserialize(deserializer)?;
        let field = |(pointer, text): (Arc<str>, String)| {
            Ok((pointer, serde_json::from_str(&text).map_err(D::Error::custom)?))
        };
        texts.into_iter().map(field).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_keep_the_wanted_fields_of_their_objects() {
        let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": "now"});
        let object = json!({"status": {"conditions": [ready, {"type": "Odd"}], "phase": "x"}});
        let wanted = ["/status/conditions/*/type,status", "/status/phase/*/type", "/none/*/type"];
        let extra = Extra::of(&object, &wanted.into_iter().map(Arc::from).collect());
        let kept = json!([{"type": "Ready", "status": "True"}, {"type": "Odd"}]);
        assert_eq!(extra.get(wanted[0]), Some(&kept));
        assert_eq!((extra.get(wanted[1]), extra.get(wanted[2])), (None, None));
    }

    #[test]
    fn times_are_kept_as_seconds() {
        let object =
            json!({"at": "2026-11-29T21:38:00.9Z", "early": "1969-12-31T23:59:59Z", "x": "y"});
        let wanted = ["/at@seconds", "/early@seconds", "/x@seconds", "/none@seconds"];
        let extra = Extra::of(&object, &wanted.into_iter().map(Arc::from).collect());
        let found = wanted.map(|pointer| extra.get(pointer).and_then(Value::as_i64));
        assert_eq!(found, [Some(1_795_988_280), Some(-1), None, None]);
    }

    #[test]
    fn only_wanted_fields_are_kept() {
        let object = json!({"metadata": {"annotations": {"a/b": "1", "c": "2"}}, "spec": {"x": 3}});
        let wanted = ["/spec/x", "/metadata/annotations/a~1b", "/spec/absent"];
        let extra = Extra::of(&object, &wanted.into_iter().map(Arc::from).collect());
        assert_eq!(extra.get("/metadata/annotations/a~1b"), Some(&json!("1")));
        assert_eq!(extra.get("/spec/x"), Some(&json!(3)));
        assert_eq!(extra.get("/spec/absent"), None);
        assert_eq!(extra.get("/metadata/annotations/c"), None);
        assert_eq!(Extra::of(&object, &BTreeSet::new()), Extra::default());
        assert_eq!(size_of::<Extra>(), size_of::<usize>());
    }
}
