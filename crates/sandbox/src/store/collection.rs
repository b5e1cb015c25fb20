//! The objects of one resource and the history of their changes.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

use super::encoding;
use crate::protobuf;
use crate::resources::Resource;

/// Maximum number of changes kept for a resource. A change of a pod takes about ten kilobytes.
pub(crate) const HISTORY: usize = 20_000;

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created.
    Added,
    /// The object was updated.
    Modified,
    /// The object was removed.
    Deleted,
}

impl ChangeKind {
    /// Returns the type of the watch event.
    pub(crate) fn event(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One write: an object before and after it.
#[derive(Debug, Clone)]
pub struct Change {
    /// The version of the store after this write.
    pub version: u64,
    /// The kind of the write.
    pub kind: ChangeKind,
    /// The object after the write; for a deletion the last state, with the version of the deletion.
    pub object: Arc<Value>,
    /// The object before it, `None` if it was added.
    pub before: Option<Arc<Value>>,
    encoded: Encoded,
}

/// The body of an object as bytes, encoded on first use and shared.
type Encoded = Arc<Encodings>;

#[derive(Debug, Default)]
struct Encodings {
    json: OnceLock<Bytes>,
    protobuf: OnceLock<Bytes>,
}

/// An object and its bytes.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) object: Arc<Value>,
    encoded: Encoded,
}

impl Stored {
    pub(super) fn new(object: Arc<Value>) -> Self {
        Self { object, encoded: Encoded::default() }
    }

    /// Returns the object as JSON, without `kind` and `apiVersion`.
    pub(super) fn body(&self) -> &Bytes {
        self.encoded.json.get_or_init(|| encoding::body(&self.object))
    }

    /// Returns the object as a message in protobuf, without its envelope.
    pub(super) fn message(&self, resource: &Resource) -> &Bytes {
        self.encoded.protobuf.get_or_init(|| protobuf::message(resource, &self.object))
    }
}

impl Change {
    /// Returns the object after the write.
    pub(super) fn stored(&self) -> Stored {
        Stored { object: self.object.clone(), encoded: self.encoded.clone() }
    }
}

/// Returns the key of an object: `namespace/name`, or the name alone without a namespace. Lists are
/// ordered by key.
pub(super) fn key(namespace: &str, name: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

/// The objects of one resource by key, and the latest changes.
#[derive(Debug, Default)]
pub(super) struct Collection {
    objects: BTreeMap<Box<str>, Stored>,
    history: VecDeque<Change>,
    /// The version of the latest change that has left the history.
    forgotten: u64,
    /// The oldest version that clients can read.
    compacted: u64,
}

/// The objects that changed since a version, as they were at that version.
pub(super) type Overlay = BTreeMap<Box<str>, Option<Stored>>;

impl Collection {
    pub(super) fn get(&self, key: &str) -> Option<&Stored> {
        self.objects.get(key)
    }

    /// Returns all objects in key order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Stored> {
        self.objects.values()
    }

    /// Returns the objects of a namespace, or of all if `namespace` is empty, from a key on.
    pub(super) fn range<'a>(
        &'a self,
        namespace: &str,
        from: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Stored)> + use<'a> {
        range(&self.objects, namespace, from)
    }

    /// Like [`Self::range`], at the version that `overlay` was made for.
    pub(super) fn range_at<'a>(
        &'a self,
        namespace: &str,
        from: &str,
        overlay: &'a Overlay,
    ) -> impl Iterator<Item = (&'a str, &'a Stored)> {
        let mut now = self.range(namespace, from).peekable();
        let mut then =
            range(overlay, namespace, from).map(|(key, stored)| (key, stored.as_ref())).peekable();
        let merged = std::iter::from_fn(move || {
            let (Some((changed, _)), next) = (then.peek(), now.peek()) else {
                return now.next().map(|(key, stored)| (key, Some(stored)));
            };
            match next.map_or(Ordering::Greater, |(key, _)| key.cmp(changed)) {
                Ordering::Less => now.next().map(|(key, stored)| (key, Some(stored))),
                Ordering::Greater => then.next(),
                Ordering::Equal => {
                    now.next();
                    then.next()
                }
            }
        });
        merged.filter_map(|(key, stored)| Some((key, stored?)))
    }

    /// Records a write. `object` is the state after it, or the last state of a deleted object.
    pub(super) fn record(&mut self, key: &str, kind: ChangeKind, object: Arc<Value>, version: u64) {
        let stored = Stored::new(object);
        let before = match kind {
            ChangeKind::Deleted => self.objects.remove(key),
            ChangeKind::Added | ChangeKind::Modified => {
                self.objects.insert(key.into(), stored.clone())
            }
        };
        let Stored { object, encoded } = stored;
        let before = before.map(|stored| stored.object);
        self.history.push_back(Change { version, kind, object, before, encoded });
        if self.history.len() > HISTORY
            && let Some(oldest) = self.history.pop_front()
        {
            self.forgotten = oldest.version;
        }
    }

    /// Returns the changes after `version`, oldest first.
    pub(super) fn changes_since(&self, version: u64) -> impl DoubleEndedIterator<Item = &Change> {
        let start = self.history.partition_point(|change| change.version <= version);
        self.history.range(start..)
    }

    /// Returns whether clients can still read the state at `version` and all changes after it.
    pub(super) fn remembers(&self, version: u64) -> bool {
        version >= self.compacted && self.has_changes_since(version)
    }

    /// Returns whether [`Self::changes_since`] is complete.
    pub(super) fn has_changes_since(&self, version: u64) -> bool {
        version >= self.forgotten
    }

    /// Expires the history before `version` for clients. Controllers still read it.
    pub(super) fn compact(&mut self, version: u64) {
        self.compacted = version;
    }

    /// Returns the objects that changed since `version`, as they were then.
    pub(super) fn overlay(&self, version: u64) -> Overlay {
        let mut overlay = Overlay::new();
        for change in self.changes_since(version).rev() {
            let key = key(super::namespace(&change.object), super::name(&change.object));
            overlay.insert(key.into(), change.before.clone().map(Stored::new));
        }
        overlay
    }
}

/// Returns the entries of a namespace, or all if `namespace` is empty, from a key on.
fn range<'a, T>(
    map: &'a BTreeMap<Box<str>, T>,
    namespace: &str,
    from: &str,
) -> impl Iterator<Item = (&'a str, &'a T)> + use<'a, T> {
    let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let start = from.max(&prefix);
    let entries = map.range::<str, _>((Bound::Included(start), Bound::Unbounded));
    entries.map(|(key, value)| (&**key, value)).take_while(move |(key, _)| key.starts_with(&prefix))
}
