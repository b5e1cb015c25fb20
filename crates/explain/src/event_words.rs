//! Cluster events in the words of users.

use framework::{ActionType, ClusterEvent, EventResource};

/// Actions on nodes.
const OF_NODES: [(ActionType, &str); 8] = [
    (ActionType::ADD, "a node is added"),
    (ActionType::DELETE, "a node is removed"),
    (ActionType::UPDATE_NODE_ALLOCATABLE, "a node offers more"),
    (ActionType::UPDATE_NODE_LABEL, "the labels of a node change"),
    (ActionType::UPDATE_NODE_TAINT, "a node loses a taint or is uncordoned"),
    (ActionType::UPDATE_NODE_CONDITION, "the conditions of a node change"),
    (ActionType::UPDATE_NODE_ANNOTATION, "the annotations of a node change"),
    (ActionType::UPDATE_NODE_DECLARED_FEATURE, "a node declares a feature"),
];
/// Actions on pods.
const OF_PODS: [(ActionType, &str); 7] = [
    (ActionType::ADD, "another pod gets a node"),
    (ActionType::DELETE, "another pod ends or is deleted"),
    (ActionType::UPDATE_POD_LABEL, "the labels of a pod change"),
    (ActionType::UPDATE_POD_SCALE_DOWN, "a pod requests less"),
    (ActionType::UPDATE_POD_TOLERATION, "this pod gets a toleration"),
    (ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED, "the last gate of this pod is removed"),
    (ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM, "a claim of this pod is made"),
];

/// Returns what has to happen for an event, one text for each action.
pub(crate) fn words(event: &ClusterEvent) -> Vec<String> {
    if event.is_wildcard() {
        return vec!["anything changes".to_owned()];
    }
    let of = |table: &[(ActionType, &str)]| {
        let own = table.iter().filter(|(action, _)| event.action.intersects(*action));
        own.map(|(_, text)| (*text).to_owned()).collect()
    };
    match &event.resource {
        EventResource::Node => of(&OF_NODES),
        EventResource::Pod | EventResource::AssignedPod | EventResource::UnschedulablePod => {
            of(&OF_PODS)
        }
        other => of_kind(other.name(), event.action),
    }
}

fn of_kind(resource: &str, action: ActionType) -> Vec<String> {
    let kind = resource.rsplit('/').next().unwrap_or(resource);
    let article = if kind.starts_with(['A', 'E', 'I', 'O']) { "an" } else { "a" };
    let actions = [
        (ActionType::ADD, "is added"),
        (ActionType::UPDATE, "changes"),
        (ActionType::DELETE, "is deleted"),
    ];
    let own = actions.into_iter().filter(|(own, _)| action.intersects(*own));
    own.map(|(_, text)| format!("{article} {kind} {text}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_said_in_words_of_users() {
        let rows = [
            (
                EventResource::Node,
                ActionType::ADD | ActionType::UPDATE_NODE_TAINT,
                vec!["a node is added", "a node loses a taint or is uncordoned"],
            ),
            (EventResource::Pod, ActionType::DELETE, vec!["another pod ends or is deleted"]),
            (
                EventResource::PersistentVolumeClaim,
                ActionType::ADD | ActionType::UPDATE,
                vec!["a PersistentVolumeClaim is added", "a PersistentVolumeClaim changes"],
            ),
        ];
        for (resource, action, expected) in rows {
            assert_eq!(words(&ClusterEvent::new(resource, action)), expected);
        }
        assert_eq!(words(&ClusterEvent::wildcard("X")), ["anything changes"]);
    }
}
