//! The API of an agent beside samples, commits and seals: the delegates and their deletion.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Where the API begins. It has the version of its messages,
/// [`API_VERSION`](supercluster::message::API_VERSION). It does not begin with `/apis`: the role
/// `system:discovery` lets every user of a cluster get the paths below that.
pub(super) const ROOT: &str = "/supercluster.loadmaster.io/v1alpha1";
/// Maximum number of delegates of an answer.
pub(super) const PAGE: usize = 500;

/// Asks for the delegates that have changed. In the query of a URL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DelegatesQuery {
    /// The incarnation of the agent that gave `after`; without it, or with another one, all
    /// delegates are listed.
    pub(super) incarnation: String,
    /// The revision of the last answer.
    pub(super) after: u64,
    /// Time in milliseconds to wait for a change if there is none.
    pub(super) wait_ms: u64,
}

/// Asks to delete the delegate of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeletionRequest {
    /// UID of the original pod. A pod that is not its delegate is left alone.
    pub(super) pod: Arc<str>,
    /// Namespace of the pod.
    pub(super) namespace: Arc<str>,
    /// Name of the pod.
    pub(super) name: Arc<str>,
    /// UID of the delegate; without it, any delegate of the pod is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) delegate: Option<Arc<str>>,
    /// Time to end its containers in seconds; the time in its specification if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) grace_period_seconds: Option<u64>,
    /// Whether it is evicted, so that the PodDisruptionBudgets of the member are respected.
    #[serde(default)]
    pub(super) evict: bool,
}

/// The outcome of the deletion of a delegate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub(super) enum DeletionOutcome {
    /// No delegate of the pod exists.
    Gone,
    /// It is being deleted.
    Deleting,
    /// It may not be evicted now.
    Refused(EvictionRefusal),
}

/// Why a delegate may not be evicted now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EvictionRefusal {
    /// The text of the API server.
    pub(super) message: String,
}

/// The sampling strategies of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StrategyList {
    /// Their names.
    pub(super) strategies: Vec<Arc<str>>,
}

/// The state of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentStatus {
    /// UID of the namespace `kube-system`.
    pub(super) cluster: Arc<str>,
    /// The life of the agent.
    pub(super) incarnation: Arc<str>,
    /// Whether it has read the cluster.
    pub(super) is_synced: bool,
    /// Number of delegates.
    pub(super) delegates: usize,
}
