//! A cluster event together with its objects.

use std::sync::Arc;

use framework::{
    ActionType, ClusterEvent, EventObjects, EventResource, Node, Object, ObjectUpdate, Pod,
};

/// The objects of an event, shared.
#[derive(Debug, Clone)]
pub enum Objects {
    /// A pod before and after the change.
    Pod(Option<Arc<Pod>>, Option<Arc<Pod>>),
    /// A node before and after the change.
    Node(Option<Arc<Node>>, Option<Arc<Node>>),
    /// An object of another kind before and after the change.
    Other(Option<Arc<Object>>, Option<Arc<Object>>),
    /// No object.
    None,
}

/// A cluster event and the objects it is about. The queue keeps it while a pod in flight may need
/// it.
#[derive(Debug, Clone)]
pub struct ObjectEvent {
    /// The event.
    pub event: ClusterEvent,
    /// The objects.
    pub objects: Objects,
}

impl ObjectEvent {
    /// An event about a pod that has a node.
    pub(crate) fn assigned_pod(
        action: ActionType,
        old: Option<Arc<Pod>>,
        new: Option<Arc<Pod>>,
    ) -> Self {
        let event = ClusterEvent::new(EventResource::AssignedPod, action);
        Self { event, objects: Objects::Pod(old, new) }
    }

    /// An event about a node.
    pub(crate) fn node(action: ActionType, old: Option<Arc<Node>>, new: Option<Arc<Node>>) -> Self {
        let event = ClusterEvent::new(EventResource::Node, action);
        Self { event, objects: Objects::Node(old, new) }
    }

    /// An event about an object of another kind, which does not say which part of the object
    /// changed. Returns `None` if there was and is no object.
    pub(crate) fn of_object(update: ObjectUpdate) -> Option<Self> {
        let ObjectUpdate { old, new } = update;
        let action = match (&old, &new) {
            (None, None) => return None,
            (None, Some(_)) => ActionType::ADD,
            (Some(_), Some(_)) => ActionType::UPDATE,
            (Some(_), None) => ActionType::DELETE,
        };
        let kind = new.as_ref().or(old.as_ref())?.kind().clone();
        let objects = Objects::Other(old.map(Arc::new), new.map(Arc::new));
        Some(Self { event: ClusterEvent::new(kind, action), objects })
    }

    /// The objects as queueing hints see them.
    pub fn objects(&self) -> EventObjects<'_> {
        match &self.objects {
            Objects::Pod(old, new) => {
                EventObjects::Pod { old: old.as_deref(), new: new.as_deref() }
            }
            Objects::Node(old, new) => {
                EventObjects::Node { old: old.as_deref(), new: new.as_deref() }
            }
            Objects::Other(old, new) => {
                EventObjects::Other { old: old.as_deref(), new: new.as_deref() }
            }
            Objects::None => EventObjects::None,
        }
    }
}
