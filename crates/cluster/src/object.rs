//! An object of a kind other than node and pod, decoded once.

use std::sync::Arc;

use serde_json::Value;

use super::object_state::{DecodeError, ObjectState, TypedObject};
use api::{EventResource, ObjectKey};

/// An object of a kind other than node and pod: its type, and the JSON from which it was decoded.
#[derive(Debug, Clone)]
pub struct Object {
    pub(super) key: ObjectKey,
    pub(super) state: ObjectState,
    pub(super) json: Json,
}

/// The JSON of an object, for those who show or record it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    /// An object of a custom kind, which plugins read.
    Tree(Arc<Value>),
    /// Any other object. A tree would take several times as much memory.
    Text(Arc<str>),
}

impl Json {
    pub(super) fn to_value(&self) -> Arc<Value> {
        match self {
            Self::Tree(object) => object.clone(),
            // The text was written as JSON, so it parses.
            Self::Text(text) => Arc::new(serde_json::from_str(text).unwrap_or_default()),
        }
    }
}

impl Object {
    /// Decodes an object.
    ///
    /// # Errors
    /// A field that the scheduler reads has another shape.
    pub fn decode(key: ObjectKey, json: impl Into<Arc<Value>>) -> Result<Self, DecodeError> {
        let json = json.into();
        let state = ObjectState::decode(&key, &json)?;
        let json = match key.kind {
            EventResource::Custom(_) => Json::Tree(json),
            _ => Json::Text(json.to_string().into()),
        };
        Ok(Self { key, state, json })
    }

    /// Creates an object whose type is known, for example one that a plugin has changed and that
    /// the watch has not shown. `json` has the fields that readers of the JSON need.
    pub fn new(key: ObjectKey, state: ObjectState, json: &Value) -> Self {
        Self { key, state, json: Json::Text(json.to_string().into()) }
    }

    /// Checks that an object decodes.
    ///
    /// # Errors
    /// A field that the scheduler reads has another shape.
    pub fn check(key: &ObjectKey, json: &Value) -> Result<(), DecodeError> {
        ObjectState::decode(key, json).map(drop)
    }

    /// Returns its kind, namespace and name.
    pub const fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns its kind.
    pub const fn kind(&self) -> &EventResource {
        &self.key.kind
    }

    /// Returns its namespace; empty for cluster-scoped objects.
    pub const fn namespace(&self) -> &Arc<str> {
        &self.key.namespace
    }

    /// Returns its name.
    pub const fn name(&self) -> &Arc<str> {
        &self.key.name
    }

    /// Returns the object as the type of its kind. Returns `None` if its kind has another type.
    pub fn get<T: TypedObject>(&self) -> Option<&T> {
        T::of(&self.state)
    }

    /// Returns the object as JSON. The JSON of a built-in kind is parsed by each call.
    pub fn json(&self) -> Arc<Value> {
        self.json.to_value()
    }

    /// Whether a section of the object, such as `status`, is the same in both, with the fields that
    /// its type leaves out.
    pub fn has_same_section(&self, section: &str, other: &Self) -> bool {
        self.json == other.json || self.json()[section] == other.json()[section]
    }
}

/// Two versions of an object are the same if their JSON is.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.json == other.json
    }
}

impl Eq for Object {}

/// The versions of an object before and after a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectUpdate {
    /// The version before; `None` for a new object.
    pub old: Option<Object>,
    /// The version after; `None` if the object is gone.
    pub new: Option<Object>,
}

impl ObjectUpdate {
    /// Whether both versions are the same.
    pub fn is_none(&self) -> bool {
        self.old == self.new
    }
}

/// The typed state of an object that is added to or removed from the indexes of the cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Indexed<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) state: &'a ObjectState,
    pub(super) is_there: bool,
}

impl Indexed<'_> {
    /// Returns the object, or `None` if it is gone.
    pub(super) fn present<T>(self, object: &Arc<T>) -> Option<Arc<T>> {
        self.is_there.then(|| object.clone())
    }
}
