//! Cluster events, and the answers of queueing hints.

use std::fmt;
use std::ops::BitOr;

use crate::{EventResource, Handle, Node, Object, Pod, TypedObject};

/// A set of actions on an object, with the bit values of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionType(u16);

impl ActionType {
    /// Created, or seen for the first time.
    pub const ADD: Self = Self(1);
    /// Deleted.
    pub const DELETE: Self = Self(1 << 1);
    /// `status.allocatable` of a node changed.
    pub const UPDATE_NODE_ALLOCATABLE: Self = Self(1 << 2);
    /// Labels of a node changed.
    pub const UPDATE_NODE_LABEL: Self = Self(1 << 3);
    /// Taints of a node changed, or it was uncordoned.
    pub const UPDATE_NODE_TAINT: Self = Self(1 << 4);
    /// Conditions of a node changed.
    pub const UPDATE_NODE_CONDITION: Self = Self(1 << 5);
    /// Annotations of a node changed.
    pub const UPDATE_NODE_ANNOTATION: Self = Self(1 << 6);
    /// Declared features of a node changed.
    pub const UPDATE_NODE_DECLARED_FEATURE: Self = Self(1 << 7);
    /// Labels of a pod changed.
    pub const UPDATE_POD_LABEL: Self = Self(1 << 8);
    /// A pod requests less.
    pub const UPDATE_POD_SCALE_DOWN: Self = Self(1 << 9);
    /// Tolerations of a pod changed.
    pub const UPDATE_POD_TOLERATION: Self = Self(1 << 10);
    /// The last scheduling gate of a pod was removed.
    pub const UPDATE_POD_SCHEDULING_GATES_ELIMINATED: Self = Self(1 << 11);
    /// The generated resource claims of a pod changed.
    pub const UPDATE_POD_GENERATED_RESOURCE_CLAIM: Self = Self(1 << 12);
    /// Any update.
    pub const UPDATE: Self = Self(8188);
    /// Any action.
    pub const ALL: Self = Self(8191);

    /// Whether the two sets share an action.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the name of a named action, and an empty text for other sets.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ADD => "Add",
            Self::DELETE => "Delete",
            Self::UPDATE_NODE_ALLOCATABLE => "UpdateNodeAllocatable",
            Self::UPDATE_NODE_LABEL => "UpdateNodeLabel",
            Self::UPDATE_NODE_TAINT => "UpdateNodeTaint",
            Self::UPDATE_NODE_CONDITION => "UpdateNodeCondition",
            Self::UPDATE_NODE_ANNOTATION => "UpdateNodeAnnotation",
            Self::UPDATE_NODE_DECLARED_FEATURE => "UpdateNodeDeclaredFeature",
            Self::UPDATE_POD_LABEL => "UpdatePodLabel",
            Self::UPDATE_POD_SCALE_DOWN => "UpdatePodScaleDown",
            Self::UPDATE_POD_TOLERATION => "UpdatePodToleration",
            Self::UPDATE_POD_SCHEDULING_GATES_ELIMINATED => "UpdatePodSchedulingGatesEliminated",
            Self::UPDATE_POD_GENERATED_RESOURCE_CLAIM => "UpdatePodGeneratedResourceClaim",
            Self::UPDATE => "Update",
            Self::ALL => "All",
            _ => "",
        }
    }
}

impl BitOr for ActionType {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A resource and an action on it (`ClusterEvent` in Kubernetes).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterEvent {
    /// The resource.
    pub resource: EventResource,
    /// The actions.
    pub action: ActionType,
    label: Option<&'static str>,
}

impl ClusterEvent {
    /// Creates an event. Its label is the label in Kubernetes: resource and action.
    pub const fn new(resource: EventResource, action: ActionType) -> Self {
        Self { resource, action, label: None }
    }

    /// Creates a wildcard event with a given label, such as `UnschedulableTimeout`.
    pub const fn wildcard(label: &'static str) -> Self {
        Self { resource: EventResource::Any, action: ActionType::ALL, label: Some(label) }
    }

    /// Whether this is the wildcard event, which stands for any change of any resource.
    pub fn is_wildcard(&self) -> bool {
        self.resource == EventResource::Any && self.action == ActionType::ALL
    }

    /// Whether a plugin that registered this event is notified of `incoming`.
    ///
    /// A registered `Update` matches every specific update. A registered specific update does not
    /// match an incoming `Update`.
    pub fn matches(&self, incoming: &Self) -> bool {
        self.is_wildcard()
            || (self.resource.covers(&incoming.resource)
                && self.action.intersects(incoming.action)
                && incoming.action <= self.action)
    }
}

impl fmt::Display for ClusterEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.label {
            Some(label) => f.write_str(label),
            None => write!(f, "{}{}", self.resource.name(), self.action.name()),
        }
    }
}

/// The objects of an event, before and after the change.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum EventObjects<'a> {
    /// A pod: `old` is absent when it was added, `new` when it was deleted.
    Pod {
        /// Before the change.
        old: Option<&'a Pod>,
        /// After the change.
        new: Option<&'a Pod>,
    },
    /// A node: `old` is absent when it was added, `new` when it was deleted.
    Node {
        /// Before the change.
        old: Option<&'a Node>,
        /// After the change.
        new: Option<&'a Node>,
    },
    /// An object of another kind: `old` is absent when it was added, `new` when it was deleted.
    Other {
        /// Before the change.
        old: Option<&'a Object>,
        /// After the change.
        new: Option<&'a Object>,
    },
    /// An event without an object: a timeout or a forced activation.
    None,
}

impl<'a> EventObjects<'a> {
    /// Returns the pod, before and after the change.
    ///
    /// # Errors
    /// The event is not about a pod.
    pub fn pods(&self) -> Result<(Option<&'a Pod>, Option<&'a Pod>), String> {
        match *self {
            Self::Pod { old, new } => Ok((old, new)),
            _ => Err("the event is not about a pod".to_owned()),
        }
    }

    /// Returns the node, before and after the change.
    ///
    /// # Errors
    /// The event is not about a node.
    pub fn nodes(&self) -> Result<(Option<&'a Node>, Option<&'a Node>), String> {
        match *self {
            Self::Node { old, new } => Ok((old, new)),
            _ => Err("the event is not about a node".to_owned()),
        }
    }

    /// Returns the object of another kind, before and after the change.
    ///
    /// # Errors
    /// The event is about a pod or a node, or has no object.
    pub fn others(&self) -> Result<(Option<&'a Object>, Option<&'a Object>), String> {
        match *self {
            Self::Other { old, new } => Ok((old, new)),
            _ => Err("the event is not about an object of another kind".to_owned()),
        }
    }

    /// Returns the object of another kind as its type, before and after the change.
    ///
    /// # Errors
    /// The event is not about an object of this type.
    pub fn typed<T: TypedObject>(&self) -> Result<(Option<&'a T>, Option<&'a T>), String> {
        let read = |object: Option<&'a Object>| {
            let typed = object.map(|own| own.get::<T>().ok_or_else(|| not_a(T::NAME)));
            typed.transpose()
        };
        let (old, new) = self.others().map_err(|_| not_a(T::NAME))?;
        Ok((read(old)?, read(new)?))
    }
}

fn not_a(name: &str) -> String {
    format!("the event is not about a {name}")
}

/// An event, as a queueing hint is asked about it for one pod (the arguments of `QueueingHintFn`).
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct EventForPod<'a> {
    /// The pod that the plugin rejected.
    pub pod: &'a Pod,
    /// The object of the event, before and after the change.
    pub objects: EventObjects<'a>,
    /// The state of the cluster, with the change.
    pub handle: &'a Handle<'a>,
}

impl<'a> EventForPod<'a> {
    /// Asks about an event for `pod`.
    pub const fn new(pod: &'a Pod, objects: EventObjects<'a>, handle: &'a Handle<'a>) -> Self {
        Self { pod, objects, handle }
    }
}

/// What a queueing hint returns. An error counts as [`QueueingHint::Queue`].
pub type HintResult = Result<QueueingHint, String>;

/// The answer of a plugin to an event, about a pod it rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueingHint {
    /// The event does not make the pod schedulable; the pod stays where it is.
    Skip,
    /// The event may make the pod schedulable; the pod is requeued.
    Queue,
}

impl QueueingHint {
    /// Returns Queue if the event `helps`, else Skip.
    pub const fn queue_if(helps: bool) -> Self {
        if helps { Self::Queue } else { Self::Skip }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(resource: EventResource, action: ActionType) -> ClusterEvent {
        ClusterEvent::new(resource, action)
    }

    #[test]
    fn event_matches_by_resource_and_action() {
        use ActionType as A;
        use EventResource as R;
        let everything = event(R::Any, A::ALL);
        let rows = [
            (everything.clone(), event(R::Node, A::ADD), true),
            (
                event(R::Node, A::ADD | A::UPDATE_NODE_TAINT),
                event(R::Node, A::UPDATE_NODE_TAINT),
                true,
            ),
            (event(R::Node, A::ADD), event(R::Node, A::DELETE), false),
            (event(R::Node, A::UPDATE_NODE_LABEL), event(R::Node, A::UPDATE), false),
            (event(R::Pod, A::UPDATE), event(R::AssignedPod, A::UPDATE_POD_LABEL), true),
            (event(R::Pod, A::UPDATE), event(R::UnschedulablePod, A::UPDATE), true),
            (event(R::Pod, A::DELETE), event(R::Node, A::DELETE), false),
            (event(R::Node, A::ADD), everything, false),
        ];
        for (registered, incoming, expected) in rows {
            assert_eq!(registered.matches(&incoming), expected, "{registered} ~ {incoming}");
        }
    }

    #[test]
    fn label_joins_resource_and_action() {
        let taint = event(EventResource::Node, ActionType::UPDATE_NODE_TAINT);
        assert_eq!(taint.to_string(), "NodeUpdateNodeTaint");
        let delete = event(EventResource::AssignedPod, ActionType::DELETE);
        assert_eq!(delete.to_string(), "AssignedPodDelete");
        assert_eq!(ClusterEvent::wildcard("ForceActivate").to_string(), "ForceActivate");
    }
}
