//! Questions to the scheduler, and their answers as values.
//!
//! - [`facts`] reads from a running engine what is known without computing: place in the queue,
//!   decision records. It takes microseconds.
//! - [`ClusterCopy`] copies the cluster in slices, so that a question delays no decision
//!   noticeably. The engine of a [`Follower`] takes it over and answers everything else. The next
//!   copy has only what differs.
//! - [`explain_pod`], [`explain_node`], [`explain_group`], [`explain_pod_group`],
//!   [`explain_quotas`] and [`explain_cluster`] ask that engine; [`list_nodes`], [`list_pods`],
//!   [`list_groups`], [`list_pod_groups`] and [`find_names`] list what it knows. What they compute
//!   describes the state of the copy and is labelled `now`; what was recorded at the time of an
//!   attempt is in the facts.
//! - [`help`] finds changes that would get a pending pod a node. Each is tried in the engine.
//!
//! Nothing here reads a clock or does I/O. Answers are JSON for machines; the command line renders
//! them.

mod answer;
mod cluster;
mod copy;
mod event_words;
mod facts;
mod follower;
mod group;
pub mod help;
mod lab;
mod list;
mod node;
mod nodes;
mod now;
mod pod;
mod pod_group;
mod quantity;
mod quota;

pub use answer::{
    Attempt, Best, ClusterAnswer, Constraint, Decision, DecisionsAnswer, Detail, GroupAnswer,
    GroupPod, GroupRow, GroupsAnswer, NamesAnswer, NodeAnswer, NodeCheck, NodePod, NodeRow,
    NodesAnswer, Now, PendingCause, PluginScore, PodAnswer, PodFacts, PodGroupAnswer,
    PodGroupDomain, PodGroupLevel, PodGroupMember, PodGroupRow, PodGroupShare, PodGroupTopology,
    PodGroupsAnswer, PodRow, PodsAnswer, Preemption, QueueTimes, Rejection, Stranded, Suggestion,
    Waiting, Without,
};
pub use cluster::explain_cluster;
pub use copy::{ClusterCopy, CopiedNodes, GroupWaits};
pub use facts::{decisions, facts, facts_by_uid};
pub use follower::Follower;
pub use group::explain_group;
pub use lab::Lab;
pub use list::{Filter, find_names, list_groups, list_pods};
pub use node::explain_node;
pub use nodes::list_nodes;
pub use pod::explain_pod;
pub use pod_group::{explain_pod_group, list_pod_groups};
pub use quota::{QuotaResource, QuotaRow, QuotasAnswer, explain_quotas};
