//! The API of an agent beside samples, commits and seals: the delegates and their deletion.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use supercluster::message::TryNumber;

/// Where the API begins. It has the version of its messages,
/// [`API_VERSION`](supercluster::message::API_VERSION). It does not begin with `/apis`: the role `system:discovery` lets
/// every user of a cluster get the paths below that.
pub(super) const ROOT: &str = "/supercluster.loadmaster.io/v1alpha1";
/// Maximum number of events of a delegate, the latest ones.
pub(super) const MAX_EVENTS: usize = 10;
/// Maximum number of delegates of an answer.
pub(super) const PAGE: usize = 500;

/// A delegate, as the watch of the agent shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delegate {
    /// UID of the original pod.
    pub(super) pod: Arc<str>,
    /// The commit that created it.
    #[serde(flatten)]
    pub(super) number: TryNumber,
    /// Namespace of both pods.
    pub(super) namespace: Arc<str>,
    /// Name of both pods.
    pub(super) name: Arc<str>,
    /// UID of the delegate.
    pub(super) uid: Arc<str>,
    /// UID of the namespace `kube-system` of the management cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Arc<str>>,
    /// Its node; `None` while it is not bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<Arc<str>>,
    /// Whether it is being deleted.
    #[serde(default)]
    pub(super) terminating: bool,
    /// Its status.
    pub(super) status: Value,
    /// Its latest events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<DelegateEvent>,
}

/// An event of a delegate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DelegateEvent {
    /// UID of the Event in the member.
    pub(super) uid: Arc<str>,
    /// Whether its type is Warning.
    #[serde(default)]
    pub(super) warning: bool,
    /// Reason.
    pub(super) reason: Arc<str>,
    /// Text for people.
    pub(super) message: Arc<str>,
    /// The component that reported it.
    pub(super) component: Arc<str>,
    /// Number of occurrences.
    pub(super) count: u32,
}

/// A delegate that does not exist any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GoneDelegate {
    /// UID of the original pod.
    pub(super) pod: Arc<str>,
    /// UID of the delegate.
    pub(super) uid: Arc<str>,
}

/// Asks for the delegates that have changed. In the query of a URL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DelegatesQuery {
    /// The incarnation of the agent that gave `after`; without it, or with another one, all delegates are listed.
    pub(super) incarnation: String,
    /// The revision of the last answer.
    pub(super) after: u64,
    /// Time in milliseconds to wait for a change if there is none.
    pub(super) wait_ms: u64,
}

/// The delegates that have changed, in the order of their changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DelegateList {
    /// The life of the agent.
    pub(super) incarnation: Arc<str>,
    /// The revision up to which changes are in this answer.
    pub(super) revision: u64,
    /// Whether the list begins anew: delegates that are in no page of it do not exist.
    pub(super) begins_anew: bool,
    /// Whether more changes follow at once.
    pub(super) more: bool,
    /// Delegates.
    pub(super) delegates: Vec<Arc<Delegate>>,
    /// Delegates that are gone.
    pub(super) gone: Vec<GoneDelegate>,
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
    /// Time to end its containers in seconds; that of its specification if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) grace_period_seconds: Option<u64>,
    /// Whether it is evicted, so that the PodDisruptionBudgets of the member are respected.
    #[serde(default)]
    pub(super) evict: bool,
}

/// What became of a delegate that was to be deleted.
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
