//! The objects of one resource and what became of them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

use super::encoding;

/// Changes kept of a resource; older ones are forgotten. A change of a pod takes some ten
/// kilobytes.
pub(crate) const HISTORY: usize = 20_000;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It came.
    Added,
    /// It has other content now.
    Modified,
    /// It is gone.
    Deleted,
}

impl ChangeKind {
    /// The type of the watch event.
    pub(crate) fn event(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One write: how an object got from one version to the next.
#[derive(Debug, Clone)]
pub struct Change {
    /// The version of the store with this write.
    pub version: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// The object after it; of a deleted one the last state, with the version of the deletion.
    pub object: Arc<Value>,
    /// The object before it, `None` if it was added.
    pub before: Option<Arc<Value>>,
    encoded: Encoded,
}

/// The body of an object as bytes, made when first asked for and then shared.
pub(super) type Encoded = Arc<OnceLock<Bytes>>;

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

    /// The object as JSON, without `kind` and `apiVersion`.
    pub(super) fn body(&self) -> &Bytes {
        self.encoded.get_or_init(|| encoding::body(&self.object))
    }
}

impl Change {
    /// The object as JSON, without `kind` and `apiVersion`.
    pub(super) fn body(&self) -> &Bytes {
        self.encoded.get_or_init(|| encoding::body(&self.object))
    }
}

/// Where an object is: `namespace/name`, or the name of one without a namespace. Lists are in the
/// order of these keys.
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
    /// The version of the latest change that is no longer in the history.
    forgotten: u64,
    /// The version before which clients read nothing.
    compacted: u64,
}

/// The objects of a collection as they were at a version: those that changed since, as they were.
pub(super) type Overlay = BTreeMap<Box<str>, Option<Stored>>;

impl Collection {
    pub(super) fn get(&self, key: &str) -> Option<&Stored> {
        self.objects.get(key)
    }

    /// All objects in key order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Stored> {
        self.objects.values()
    }

    /// Objects of a namespace, or of all if `namespace` is empty, from a key on.
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

    /// Takes in a write. `object` is the state after it, or of a deleted object the last one.
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

    /// The changes after `version`, oldest first.
    pub(super) fn changes_since(&self, version: u64) -> impl DoubleEndedIterator<Item = &Change> {
        let start = self.history.partition_point(|change| change.version <= version);
        self.history.range(start..)
    }

    /// Whether clients can still read the state at `version` and all changes after it.
    pub(super) fn remembers(&self, version: u64) -> bool {
        version >= self.compacted && self.has_changes_since(version)
    }

    /// Whether [`Self::changes_since`] has them all.
    pub(super) fn has_changes_since(&self, version: u64) -> bool {
        version >= self.forgotten
    }

    /// Lets clients read nothing of before `version` any more. Changes stay for controllers.
    pub(super) fn compact(&mut self, version: u64) {
        self.compacted = version;
    }

    /// What differed at `version` from now; the objects as they were then.
    pub(super) fn overlay(&self, version: u64) -> Overlay {
        let mut overlay = Overlay::new();
        for change in self.changes_since(version).rev() {
            let key = key(super::namespace(&change.object), super::name(&change.object));
            overlay.insert(key.into(), change.before.clone().map(Stored::new));
        }
        overlay
    }
}

/// What is in a namespace, or everything if `namespace` is empty, from a key on.
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
