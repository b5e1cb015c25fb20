//! Fields of pods and nodes that only some plugin reads, kept because it asked for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

/// Which further fields to keep of pods and of nodes, as JSON pointers (RFC 6901), for example
/// `/metadata/annotations/example.com~1tier`. The empty pointer keeps the whole object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtraFields {
    /// Of pods.
    pub pod: BTreeSet<Arc<str>>,
    /// Of nodes.
    pub node: BTreeSet<Arc<str>>,
}

impl ExtraFields {
    /// Adds the fields of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.pod.extend(other.pod.iter().cloned());
        self.node.extend(other.node.iter().cloned());
    }

    /// Whether nothing but what scheduling itself reads is kept.
    pub fn is_empty(&self) -> bool {
        self.pod.is_empty() && self.node.is_empty()
    }
}

/// The further fields of one object, by pointer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Extra(Option<Arc<Fields>>);

type Fields = Box<[(Arc<str>, Value)]>;

impl Extra {
    /// The wanted fields that `object` has.
    pub fn of(object: &Value, wanted: &BTreeSet<Arc<str>>) -> Self {
        let present =
            |pointer: &Arc<str>| Some((pointer.clone(), object.pointer(pointer)?.clone()));
        let fields: Fields = wanted.iter().filter_map(present).collect();
        Self((!fields.is_empty()).then(|| Arc::new(fields)))
    }

    /// The field at `pointer`, if some plugin asked for it and the object has it.
    pub fn get(&self, pointer: &str) -> Option<&Value> {
        let fields = self.0.as_deref()?;
        let place = fields.binary_search_by(|(known, _)| (**known).cmp(pointer)).ok()?;
        Some(&fields[place].1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    }
}
