//! How controllers and kubelets follow a resource.

use std::sync::Arc;

use serde_json::Value;

use crate::resources::Resource;
use crate::store::{ChangeKind, Store};

/// What became of an object.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// It is there, new or changed.
    Present(Arc<Value>),
    /// It is gone; this was the last state.
    Gone(Arc<Value>),
}

/// Tells what is new of one resource, each change once, in the order of the store; at first
/// everything there is.
#[derive(Debug)]
pub(crate) struct Informer {
    resource: &'static Resource,
    /// The version up to which everything was told; `None` before the first time.
    told: Option<u64>,
}

impl Informer {
    pub(crate) fn new(resource: &'static Resource) -> Self {
        Self { resource, told: None }
    }

    /// What happened since the last call.
    pub(crate) fn news(&mut self, store: &Store) -> Vec<News> {
        let told = self.told.replace(store.resource_version());
        match told {
            None => store.objects(self.resource).cloned().map(News::Present).collect(),
            Some(told) if told == store.resource_version() => Vec::new(),
            Some(told) => {
                let changes = store.changes_since(self.resource, told);
                changes
                    .map(|change| match change.kind {
                        ChangeKind::Deleted => News::Gone(change.object.clone()),
                        ChangeKind::Added | ChangeKind::Modified => {
                            News::Present(change.object.clone())
                        }
                    })
                    .collect()
            }
        }
    }
}
