//! Classes for tests.

use serde_json::Value;

use crate::Classes;
use crate::object::text;

/// Objects in lists.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) priority_classes: Vec<Value>,
    pub(crate) runtime_classes: Vec<Value>,
}

fn named<'a>(objects: &'a [Value], name: &str) -> Option<&'a Value> {
    objects.iter().find(|own| text(own, "/metadata/name") == name)
}

impl Classes for Objects {
    fn priority_class(&self, name: &str) -> Option<&Value> {
        named(&self.priority_classes, name)
    }

    fn priority_classes(&self) -> impl Iterator<Item = &Value> {
        self.priority_classes.iter()
    }

    fn runtime_class(&self, name: &str) -> Option<&Value> {
        named(&self.runtime_classes, name)
    }

    fn limit_ranges(&self, _namespace: &str) -> impl Iterator<Item = &Value> {
        [].iter()
    }
}
