//! The scope of a verdict or a score, for pods of one [template](crate::Template). The scheduler
//! keeps what has not changed for the next pod of the template.

use crate::{EventResource, NodeIx, Plugin};

/// The dependence of the verdict of a Filter plugin on a node, with a [`FilterScope`], or of the
/// score of a node, with a [`ScoreScope`].
///
/// ```
/// use loadmaster_framework::{Dependence, FilterScope};
///
/// let labels_of_the_node = Dependence::on(FilterScope::Node).without_pods();
/// assert!(!labels_of_the_node.pods);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dependence<S> {
    /// Where the answer comes from.
    pub scope: S,
    /// Whether the answer, or the key of the node, can change when pods are added to the node or
    /// removed from it. It is the same for all pods. If not, a dry run filters each node once, and
    /// a decision looks again only at nodes whose objects have changed.
    pub pods: bool,
    /// The part of the pod. It matters for the scopes `Node` and `NodeAsOf`.
    pub part: PodPart,
}

impl<S> Dependence<S> {
    /// Returns the dependence on `scope`, on the pods of a node, and on all that pods of one
    /// template share.
    pub const fn on(scope: S) -> Self {
        Self { scope, pods: true, part: PodPart::Template }
    }

    /// Returns the dependence without the pods on the node.
    #[must_use]
    pub fn without_pods(self) -> Self {
        Self { pods: false, ..self }
    }

    /// Returns the dependence on the [requests](crate::PodRequests) of the pod alone.
    #[must_use]
    pub fn of_requests(self) -> Self {
        Self { part: PodPart::Requests, ..self }
    }
}

impl Plugin {
    /// Returns the dependence of the verdicts of the plugin if it [says
    /// nothing](crate::Filter::dependence): the whole cluster. The pods of a node matter unless the
    /// plugin declares its events, none of them is about pods, and it counts, records or follows no
    /// placed pods.
    ///
    /// A verdict that depends on pods changes back when they do. A plugin that registers no event
    /// about pods says that this does not happen.
    pub fn inferred_dependence(&self) -> Dependence<FilterScope> {
        let cluster = Dependence::on(FilterScope::Cluster);
        if self.may_depend_on_pods() { cluster } else { cluster.without_pods() }
    }

    fn may_depend_on_pods(&self) -> bool {
        let Some(events) = &self.events else { return true };
        let is_about_pods = |resource: &EventResource| {
            matches!(
                resource,
                EventResource::Any
                    | EventResource::Pod
                    | EventResource::AssignedPod
                    | EventResource::UnschedulablePod
            )
        };
        self.pre_filter_extensions.is_some()
            || self.standing_queries.is_some()
            || self.reserve.is_some()
            || self.pod_deleted.is_some()
            || events.iter().any(|registered| is_about_pods(&registered.event.resource))
    }
}

/// The state on which the verdict of a Filter plugin on a node depends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FilterScope {
    /// The whole cluster. Every attempt filters every node.
    #[default]
    Cluster,
    /// The node and the pods on it.
    Node,
    /// The node and the pods on it, and other objects whose state has this number. All verdicts are
    /// dropped when the number changes.
    NodeAsOf(u64),
    /// The [key](crate::Filter::key_set) of the node, and the rest of the cluster. Nodes with equal
    /// keys have equal verdicts. The key changes only with the node and the pods on it, or if the
    /// plugin calls [`CycleState::rekey`](crate::CycleState::rekey).
    Tier,
}

/// The state on which the score of a node depends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScoreScope {
    /// The whole cluster. Every attempt scores every node.
    #[default]
    Cluster,
    /// The node and the pods on it. If the plugin normalises, the result further depends on which
    /// scores the feasible nodes have, but not on how many nodes have a score.
    Node,
    /// The [key](crate::Score::key_set) of the node, which changes only with the node and the pods
    /// on it, and the rest of the cluster. Nodes with equal keys have equal scores. If the plugin
    /// normalises, the result further depends on which keys the feasible nodes have, but not on how
    /// many nodes have a key.
    Key,
    /// The key of the node, the rest of the cluster, and the tiers of feasible nodes with equal
    /// keys, from which [`PreScore::pre_score_tiers`](crate::PreScore::pre_score_tiers) prepares
    /// the scores. The key changes only with the node and the pods on it, or if the plugin calls
    /// [`CycleState::rekey`](crate::CycleState::rekey). It is asked before PreScore.
    Tier,
}

/// The part of a pod that decides about a verdict or a score of the scope `Node`. Pods whose
/// plugins read equal parts share what the scheduler keeps for the nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PodPart {
    /// Anything that pods of one [template](crate::Template) have in common.
    #[default]
    Template,
    /// The [requests](crate::PodRequests).
    Requests,
}

/// Feasible nodes that have equal keys for every plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeTier {
    /// One of the nodes.
    pub node: NodeIx,
    /// Number of nodes.
    pub len: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ActionType, Attempt, AttemptMut, ClusterEvent, Filter, Handle, NodeView, Pod, PodDeleted,
        Reserve, Status,
    };

    struct Silent;

    impl Filter for Silent {
        fn filter(&self, _: &Attempt<'_>, _: &NodeView<'_>) -> Status {
            Status::success()
        }
    }

    impl Reserve for Silent {
        fn reserve(&self, _: AttemptMut<'_>, _: &str) -> Status {
            Status::success()
        }

        fn unreserve(&self, _: AttemptMut<'_>, _: &str) {}
    }

    impl PodDeleted for Silent {
        fn pod_deleted(&self, _: &Pod, _: &Handle<'_>) {}
    }

    #[test]
    fn plugin_that_says_nothing_depends_on_pods_unless_its_declarations_exclude_them() {
        let event = |resource| ClusterEvent::new(resource, ActionType::ALL);
        let silent = || Plugin::new("Silent", Silent).filter();
        let on_nodes = || silent().on(event(EventResource::Node));
        let rows = [
            (silent(), true),
            (silent().no_events(), false),
            (on_nodes(), false),
            (on_nodes().watch("racks.v1.example.com"), false),
            (on_nodes().on(event(EventResource::AssignedPod)), true),
            (silent().on(event(EventResource::Pod)), true),
            (silent().on(event(EventResource::Any)), true),
            (on_nodes().reserve(), true),
            (on_nodes().pod_deleted(), true),
        ];
        for (place, (plugin, pods)) in rows.into_iter().enumerate() {
            let Dependence { scope, pods: inferred, part } = plugin.build().inferred_dependence();
            let expected = (FilterScope::Cluster, pods, PodPart::Template);
            assert_eq!((scope, inferred, part), expected, "row {place}");
        }
    }
}
