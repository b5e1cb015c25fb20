//! Placements of pod groups: sets of nodes, one of which takes all pods of a group.

use std::sync::Arc;

use crate::{Handle, NodeIx, PerNode, Pod, PodGroupKey, Status};

/// Nodes that may take all pods of a group, for example those of a rack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlacement {
    /// Its name, shown to people.
    pub name: Arc<str>,
    /// The nodes, in ascending order.
    pub nodes: Vec<NodeIx>,
}

/// The answer of a PlacementGenerate plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupPlacements {
    /// The pods of the group may be on any nodes.
    Anywhere,
    /// All pods of the group are placed in one of these.
    OneOf(Vec<Arc<GroupPlacement>>),
    /// All pods of the group are placed on nodes with equal values of these labels. The scheduler
    /// keeps the nodes of each domain, and what it knows of them, from one group to the next.
    Domains(Vec<DomainLabel>),
    /// The pods of the group are placed by the first of these rules by which enough of them fit.
    Levels(Vec<LevelPlacement>),
}

/// A rule how the pods of a group are placed in the domains of a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelPlacement {
    /// All pods are on nodes with equal values of these labels; on any nodes if there is none.
    pub within: Vec<DomainLabel>,
    /// The narrower level whose domains the pods are divided among.
    pub division: Option<LevelDivision>,
}

/// How the pods of a group are divided among the domains of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelDivision {
    /// The key of the label.
    pub key: Arc<str>,
    /// What is asked for.
    pub division: Division,
}

/// What is asked for where the pods of a group are in several domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// Each block of so many pods is in one domain.
    Blocks(u32),
    /// The pods are in few domains.
    Few,
    /// The pods are in at least so many domains.
    Over(u32),
}

/// A node label whose values are the domains of a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainLabel {
    /// The key of the label.
    pub key: Arc<str>,
    /// The only value that a node may have; `None` for any.
    pub value: Option<Arc<str>>,
}

/// Proposes sets of nodes for a pod group.
pub trait PlacementGenerate: Send + Sync {
    /// Runs before the first member is placed. The answer includes the members that have a node
    /// already: a placement in which the other members may not join them is left out.
    ///
    /// # Errors
    /// A rejection, if there is no placement. The group then waits for the events that this plugin
    /// registered. Any other status fails the attempt.
    fn placement_generate(
        &self,
        group: &PodGroupKey,
        handle: &Handle<'_>,
    ) -> Result<GroupPlacements, Status>;
}

/// A group that is placed for a while. The cluster shows its pods on their nodes.
#[derive(Debug, Clone, Copy)]
pub struct PlacedGroup<'a> {
    /// The group.
    pub group: &'a PodGroupKey,
    /// The placement.
    pub placement: &'a GroupPlacement,
    /// The members that the attempt is about, whether or not they have a node.
    pub members: &'a [Arc<Pod>],
}

/// A group before it is placed.
#[derive(Debug, Clone, Copy)]
pub struct ProspectiveGroup<'a> {
    /// The group.
    pub group: &'a PodGroupKey,
    /// The members that the attempt is about; none has a node.
    pub members: &'a [Arc<Pod>],
    /// The placements that may hold enough of them.
    pub prospects: &'a [Prospect],
}

/// A placement that may hold a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prospect {
    /// The placement.
    pub placement: Arc<GroupPlacement>,
    /// Maximum number of members of the attempt that may fit.
    pub most: u32,
}

/// Scores the placements of a pod group.
pub trait PlacementScore: Send + Sync {
    /// Returns the score of a placement that can take enough members. After
    /// [normalizing](Self::normalize_placement_scores) it must be within
    /// [`MIN_NODE_SCORE`](crate::MIN_NODE_SCORE) and [`MAX_NODE_SCORE`](crate::MAX_NODE_SCORE).
    ///
    /// # Errors
    /// Any status ends the attempt.
    fn placement_score(&self, placed: PlacedGroup<'_>, handle: &Handle<'_>) -> Result<i64, Status>;

    /// Returns a limit of the [score](Self::placement_score) of each prospect before the group is
    /// placed, whichever members will fit and on whichever nodes. With limits of all plugins the
    /// scheduler need not try placements that cannot be the best.
    ///
    /// A plugin that returns a limit normalizes so that the score of a placement rises with its own
    /// raw score and does not rise with those of others.
    ///
    /// `None`, the default, makes the scheduler try every placement.
    fn placement_score_limits(
        &self,
        _group: ProspectiveGroup<'_>,
        _handle: &Handle<'_>,
    ) -> Option<Vec<i64>> {
        None
    }

    /// Whether the [limit](Self::placement_score_limits) of a prospect depends on nothing but its
    /// nodes, the pods on them and the requests of the members, neither on the group nor on the
    /// number of members that may fit. The scheduler then asks again only about prospects of which
    /// a node has changed.
    fn limits_are_local(&self) -> bool {
        false
    }

    /// Scales the scores of all placements that can take enough members to 0 to 100. By default
    /// they stay as they are.
    ///
    /// # Errors
    /// Any status ends the attempt.
    fn normalize_placement_scores(&self, _scores: &mut [i64]) -> Result<(), Status> {
        Ok(())
    }
}

/// Bounds the number of pods that a [`Filter`](crate::Filter) lets onto a node. Placements that
/// cannot hold enough members are then not tried. Not an extension point of a profile: it runs for
/// filters that a profile enables.
pub trait PodRoom: Send + Sync {
    /// Lowers the number of each node to a bound of how many pods with the requests of `pod` fit
    /// beside those on it. It must depend on nothing else of the pod, and on nothing of the cluster
    /// but the node, the pods on it and [what `pod_room_as_of` counts](Self::pod_room_as_of).
    fn pod_room(&self, pod: &Pod, handle: &Handle<'_>, room: PerNode<'_>);

    /// Returns a number that differs if something else has changed on which the bound of these
    /// requests depends. The scheduler then asks about all nodes again.
    fn pod_room_as_of(&self, _pod: &Pod, _handle: &Handle<'_>) -> u64 {
        0
    }
}
