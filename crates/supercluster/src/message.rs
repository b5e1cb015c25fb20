//! The messages between schedulers and agents.
//!
//! They are JSON over HTTPS; in one process they are passed as they are. [`API_VERSION`] names the
//! version of all of them, and both sides refuse another one. Ages are durations of the agent's own
//! clock, never absolute times, so that clocks may differ.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use framework::{Pod, api};
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// Group and version of the messages.
pub const API_VERSION: &str = "supercluster.loadmaster.io/v1alpha1";

/// 10,000 basis points are all nodes.
pub const ALL_BASIS_POINTS: u32 = 10_000;

/// A pod as an API object, and in the compact form that is made from it.
#[derive(Debug, Clone)]
pub struct PodObject {
    /// The compact form.
    pub pod: Arc<Pod>,
    /// The object. Everything that is written comes from it.
    pub object: Arc<Value>,
}

impl PodObject {
    /// Converts an API object.
    ///
    /// # Errors
    /// The JSON does not have the shape of a pod.
    pub fn from_json(object: Value) -> Result<Self, serde_json::Error> {
        let pod = Pod::from_api(&api::Pod::deserialize(&object)?);
        Ok(Self { pod: Arc::new(pod), object: Arc::new(object) })
    }

    /// Returns the value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.object.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }
}

impl Serialize for PodObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PodObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_json(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Identifies a commit: the original pod, and which try of its placement this is. Tries of a pod
/// are ordered, and an agent refuses a try once it has answered that it will not make it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitKey {
    /// UID of the original pod.
    pub pod: Arc<str>,
    /// The try.
    #[serde(flatten)]
    pub number: TryNumber,
}

/// The number of a try.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub struct TryNumber {
    /// Number of the attempt, as written on the original pod.
    pub attempt: u32,
    /// Number of the commit candidate within the attempt.
    pub candidate: u16,
}

impl TryNumber {
    /// Returns the last try of an attempt.
    pub const fn last_of(attempt: u32) -> Self {
        Self { attempt, candidate: u16::MAX }
    }
}

impl fmt::Display for CommitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}.{}", self.pod, self.number.attempt, self.number.candidate)
    }
}

/// The state of an agent that a sample shows. A commit returns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The life of the agent: another text after each start.
    pub incarnation: Arc<str>,
    /// When the sample was taken, in milliseconds of the agent's clock.
    pub taken_ms: u64,
    /// Number of changes of nodes and placed pods that the agent had seen.
    pub revision: u64,
}

/// Asks for nodes that can take a pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SampleRequest {
    /// The pod.
    pub pod: PodObject,
    /// Number of failed attempts to place the pod.
    #[serde(default)]
    pub scheduling_retry_count: u32,
    /// The sampling strategy.
    pub strategy: Arc<str>,
    /// Number of nodes wanted, in basis points of all nodes of the cluster. The number is rounded
    /// down, and at least 1.
    pub nodes_to_sample_bp: u32,
    /// Maximum number of nodes of the answer: the best ones, chosen at random among equally good
    /// ones. Without it, the answer has all nodes that can take the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    /// Keys of the labels that the answer has of each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_labels: Vec<Arc<str>>,
    /// The objects that a commit would bring, so that the member need not have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyName>,
}

/// A kind of objects that can be copied to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CopyKind {
    /// Secrets.
    #[serde(rename = "secrets")]
    Secret,
    /// ConfigMaps.
    #[serde(rename = "configmaps")]
    ConfigMap,
}

impl CopyKind {
    /// Returns the name of the resource.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
        }
    }

    /// Returns the kind of its objects.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

/// The name of an object that a commit would bring.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyName {
    /// Its resource.
    pub kind: CopyKind,
    /// Its name; the namespace is that of the pod.
    pub name: Arc<str>,
}

/// The contents of a Secret or ConfigMap that a pod names. Its text form has no contents.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    /// Its resource.
    pub kind: CopyKind,
    /// Its name; the namespace is that of the pod.
    pub name: Arc<str>,
    /// The type of a Secret.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// `data` as in the object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
    /// `binaryData` of a ConfigMap.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub binary_data: BTreeMap<String, String>,
}

impl Copied {
    /// Returns kind and name, for people.
    pub fn named(&self) -> String {
        format!("{} {:?}", self.kind.kind(), self.name)
    }

    /// Returns the size of its contents in bytes.
    pub fn size(&self) -> usize {
        let entries = self.data.iter().chain(&self.binary_data);
        entries.map(|(key, value)| key.len() + value.len()).sum()
    }
}

impl fmt::Debug for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named())
    }
}

/// The objects that come with a commit.
pub type CommitCopies = Arc<[Arc<Copied>]>;

/// The resources of a node that no pod has requested.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FreeResources {
    /// Thousandths of a CPU.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory_bytes: i64,
    /// Bytes.
    pub ephemeral_storage_bytes: i64,
    /// Number of pods.
    pub pods: i64,
    /// The extended resources that the pod requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extended: BTreeMap<Arc<str>, i64>,
}

/// A node that can take the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSample {
    /// Name.
    pub name: Arc<str>,
    /// Sum of the weighted scores of the agent's Score plugins.
    pub score: i64,
    /// Free resources.
    pub free: FreeResources,
    /// The requested labels, as far as the node has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// The answer to a [`SampleRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SampleResponse {
    /// Identifies the cluster: the UID of its namespace `kube-system`.
    pub cluster: Arc<str>,
    /// The snapshot that the sample shows.
    pub snapshot: Snapshot,
    /// The nodes; the highest score first. Empty if no node of the cluster can take the pod.
    pub nodes: Vec<NodeSample>,
    /// Sum of the weights of the Score plugins: a score divided by it lies between 0 and 100.
    pub score_weight: i64,
    /// Number of nodes of the cluster.
    pub total_nodes: u32,
    /// Number of nodes that were looked at.
    pub looked_at: u32,
    /// Why no node can take the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Asks for samples for several pods at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SampleListRequest {
    /// The requests, at most [`MAX_LIST`].
    pub requests: Vec<SampleRequest>,
}

/// Maximum number of requests of a list.
pub const MAX_LIST: usize = 64;

/// The answer to one of several sample requests. Each answer is sent when it is known; a missing
/// answer is lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SampleAnswer {
    /// Place of the request in the list.
    pub index: usize,
    /// The outcome.
    pub outcome: SampleOutcome,
}

/// The outcome of a sample request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SampleOutcome {
    /// The sample.
    Sample(Arc<SampleResponse>),
    /// The agent did not look into it.
    Refusal(Refusal),
}

/// The node of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitTarget {
    /// The node that was decided on.
    pub node: Arc<str>,
    /// If present, the agent chooses its best node at the time of the commit, and reports a
    /// conflict if the score of that node is lower than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_of_at_least: Option<i64>,
}

/// The terms under which a delegate runs that may be replaced when its cluster is lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseTerms {
    /// UID of the Lease of the cluster in the management cluster.
    pub lease: Arc<str>,
    /// Time without a renewal of the lease after which the agent deletes the delegate, in seconds.
    pub fence_after_s: u32,
}

/// A time on the clock of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stamp {
    /// The life of the agent.
    pub incarnation: Arc<str>,
    /// Milliseconds of its clock.
    pub taken_ms: u64,
}

/// Renews a lease. `heard` is the stamp of an earlier answer: the lease then counts as renewed at
/// that time of the agent's clock, however long this request was under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewRequest {
    /// UID of the Lease of the cluster in the management cluster.
    pub lease: Arc<str>,
    /// The stamp of an earlier answer. Without it, only a stamp is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<Stamp>,
}

/// The answer to a [`RenewRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewResponse {
    /// Identifies the cluster: the UID of its namespace `kube-system`.
    pub cluster: Arc<str>,
    /// The time of this answer.
    pub stamp: Stamp,
}

/// Asks to create and bind a delegate of a pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitRequest {
    /// Identifies the commit.
    pub key: CommitKey,
    /// The snapshot that the decision rests on.
    pub snapshot: Snapshot,
    /// The pod.
    pub pod: PodObject,
    /// The node.
    pub target: CommitTarget,
    /// UID of the namespace `kube-system` of the management cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Arc<str>>,
    /// Set if the delegate may be replaced when its cluster is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<LeaseTerms>,
    /// Objects that the pod names, to be created with the delegate.
    #[serde(default = "no_copies", skip_serializing_if = "<[_]>::is_empty")]
    pub copies: CommitCopies,
}

fn no_copies() -> CommitCopies {
    Arc::from([])
}

/// Asks what became of a commit whose answer was lost, and refuses it from now on if it was not
/// made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SealRequest {
    /// The commit. The earlier tries for its pod are refused as well.
    pub key: CommitKey,
}

/// Asks for commits for several pods at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitListRequest {
    /// The requests, at most [`MAX_LIST`].
    pub requests: Vec<CommitRequest>,
}

/// The answer to one of several commit requests. Each answer is sent when the outcome is known; a
/// missing answer is lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitAnswer {
    /// Place of the request in the list.
    pub index: usize,
    /// The outcome.
    pub outcome: CommitOutcome,
}

/// A delegate that runs in place of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Committed {
    /// The commit that created it.
    pub key: CommitKey,
    /// UID of the delegate.
    pub uid: Arc<str>,
    /// Its node.
    pub node: Arc<str>,
    /// The time of its [`LeaseTerms`], if it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_after_s: Option<u32>,
}

/// The check that found a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConflictCode {
    /// The node does not exist any more.
    NodeGone,
    /// The node is cordoned.
    NodeUnschedulable,
    /// The pod does not tolerate a taint of the node.
    Taints,
    /// The node does not match the node selector, the node affinity or the node name of the pod.
    NodeSelection,
    /// The node lacks free resources.
    Resources,
    /// A host port is in use.
    Ports,
    /// A topology spread constraint is violated.
    TopologySpread,
    /// Affinity or anti-affinity between pods is violated.
    PodAffinity,
    /// A volume or a claim is not available there.
    Volumes,
    /// A device is not available there.
    Devices,
    /// No node has the score that the decision asks for.
    ScoreFell,
    /// Another pod has the name of the delegate.
    NameTaken,
    /// Reserve, Permit, PreBind or Bind failed.
    Binding,
    /// Another plugin.
    Other,
}

impl ConflictCode {
    /// Returns the code for a rejection by this Filter plugin.
    pub fn of_plugin(name: &str) -> Self {
        match name {
            "NodeUnschedulable" => Self::NodeUnschedulable,
            "TaintToleration" => Self::Taints,
            "NodeAffinity" | "NodeName" => Self::NodeSelection,
            "NodeResourcesFit" => Self::Resources,
            "NodePorts" => Self::Ports,
            "PodTopologySpread" => Self::TopologySpread,
            "InterPodAffinity" => Self::PodAffinity,
            "VolumeBinding" | "VolumeRestrictions" | "VolumeZone" | "NodeVolumeLimits" => {
                Self::Volumes
            }
            "DynamicResources" => Self::Devices,
            _ => Self::Other,
        }
    }
}

/// A decision that the present state of the cluster does not allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// The check.
    pub code: ConflictCode,
    /// Text for people.
    pub message: String,
}

/// Why an agent did not look into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RefusalCode {
    /// The agent has not read the cluster yet.
    NotReady,
    /// A field is missing or invalid, or the strategy is unknown.
    Malformed,
    /// The sample was taken by an earlier incarnation of the agent, which may have carried out this
    /// commit: ask with a [`SealRequest`].
    OtherIncarnation,
    /// The sample is too old.
    StaleSample,
    /// The commit is sealed: it was not made, and will not be.
    Sealed,
    /// Another commit for the pod is under way.
    Busy,
    /// The lease of the delegate has ended, or ends too soon.
    NoLease,
    /// The API server refused the delegate, or a plugin failed.
    Failed,
}

/// A request that an agent did not look into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The reason.
    pub code: RefusalCode,
    /// Text for people.
    pub message: String,
}

impl Refusal {
    /// Returns a refusal.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The outcome of a commit. A lost answer is the fourth outcome, unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
pub enum CommitOutcome {
    /// A delegate of the pod is bound. Its key is another one if an earlier commit made it.
    Committed(Committed),
    /// The commit was not made, and will not be.
    Conflict(Conflict),
    /// The agent did not look into it.
    Rejected(Refusal),
}

/// The answer to a [`SealRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum SealOutcome {
    /// A delegate of the pod is bound.
    Committed(Committed),
    /// The commit was not made, and will not be.
    Sealed,
    /// The agent cannot tell yet.
    Rejected(Refusal),
}

/// Asks which nodes can take a pod, and why the others cannot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiagnosisRequest {
    /// The pod.
    pub pod: PodObject,
    /// The only node to look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
}

/// The answer to a [`DiagnosisRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// Identifies the cluster: the UID of its namespace `kube-system`.
    pub cluster: Arc<str>,
    /// Number of nodes of the cluster.
    pub total_nodes: u32,
    /// Number of nodes that were looked at, the first ones of the table.
    pub looked_at: u32,
    /// Number of these nodes that can take the pod.
    pub fitting: u32,
    /// Names of some of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitting_nodes: Vec<Arc<str>>,
    /// Why the others cannot, the most frequent reason first.
    pub reasons: Vec<NodeReason>,
}

/// Why nodes cannot take a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReason {
    /// The reason of the first plugin that rejects them.
    pub reason: String,
    /// That plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Arc<str>>,
    /// Number of nodes.
    pub count: u32,
    /// Names of some of them.
    pub nodes: Vec<Arc<str>>,
}

/// A delegate, as the watch of the agent shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delegate {
    /// UID of the original pod.
    pub pod: Arc<str>,
    /// The commit that created it.
    #[serde(flatten)]
    pub number: TryNumber,
    /// Namespace of both pods.
    pub namespace: Arc<str>,
    /// Name of both pods.
    pub name: Arc<str>,
    /// UID of the delegate.
    pub uid: Arc<str>,
    /// UID of the namespace `kube-system` of the management cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Arc<str>>,
    /// Its node; `None` while it is not bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// Whether it is being deleted.
    #[serde(default)]
    pub terminating: bool,
    /// Its status.
    pub status: Value,
    /// Its latest events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<DelegateEvent>,
}

/// An event of a delegate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegateEvent {
    /// UID of the Event in the member.
    pub uid: Arc<str>,
    /// Whether its type is Warning.
    #[serde(default)]
    pub warning: bool,
    /// Reason.
    pub reason: Arc<str>,
    /// Text for people.
    pub message: Arc<str>,
    /// The component that reported it.
    pub component: Arc<str>,
    /// Number of occurrences.
    pub count: u32,
}

/// A delegate that does not exist any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GoneDelegate {
    /// UID of the original pod.
    pub pod: Arc<str>,
    /// UID of the delegate.
    pub uid: Arc<str>,
}

/// The delegates that have changed, in the order of their changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegateList {
    /// The life of the agent.
    pub incarnation: Arc<str>,
    /// The revision up to which changes are in this answer.
    pub revision: u64,
    /// Whether the list begins anew: delegates that are in no page of it do not exist.
    pub begins_anew: bool,
    /// Whether more changes follow at once.
    pub more: bool,
    /// Delegates.
    pub delegates: Vec<Arc<Delegate>>,
    /// Delegates that are gone.
    pub gone: Vec<GoneDelegate>,
}

/// A request to an agent.
#[derive(Debug, Clone)]
pub enum Request {
    /// Asks for a sample.
    Sample(Arc<SampleRequest>),
    /// Asks for a commit.
    Commit(Arc<CommitRequest>),
    /// Asks what became of a commit.
    Seal(SealRequest),
    /// Renews a lease.
    Renew(RenewRequest),
    /// Asks why nodes cannot take a pod.
    Diagnose(Arc<DiagnosisRequest>),
}

/// The answer of an agent.
#[derive(Debug, Clone)]
pub enum Response {
    /// To a sample request.
    Sample(Result<Arc<SampleResponse>, Refusal>),
    /// To a commit request.
    Commit(CommitOutcome),
    /// To a seal request.
    Seal(SealOutcome),
    /// To a renewal.
    Renew(Result<RenewResponse, Refusal>),
    /// To a question about nodes.
    Diagnose(Result<Diagnosis, Refusal>),
}

/// The body of a message with its version.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Versioned<T> {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// The message.
    #[serde(flatten)]
    pub message: T,
}

impl<T> Versioned<T> {
    /// Returns the message with its version.
    pub const fn new(message: T) -> Self {
        Self { api_version: API_VERSION, message }
    }
}

/// Reads a message. The version is looked at first: the fields of another one may be others.
///
/// # Errors
/// The other side speaks another version, or the body is not such a message.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        #[serde(default)]
        api_version: String,
    }
    let Head { api_version } = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if api_version != API_VERSION {
        return Err(format!("apiVersion is {api_version:?}, not {API_VERSION:?}"));
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod_json() -> Value {
        json!({"metadata": {"name": "p", "namespace": "default", "uid": "u",
                "annotations": {"example.com/a": "b"}, "unknown": [1]},
            "spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}})
    }

    #[test]
    fn messages_survive_json_with_all_fields_of_the_pod() {
        let request = CommitRequest {
            key: CommitKey { pod: "u".into(), number: TryNumber { attempt: 3, candidate: 1 } },
            snapshot: Snapshot { incarnation: "a-1".into(), taken_ms: 5, revision: 9 },
            pod: PodObject::from_json(pod_json()).unwrap(),
            target: CommitTarget { node: "n".into(), best_of_at_least: Some(-4) },
            origin: Some("management".into()),
            terms: Some(LeaseTerms { lease: "l".into(), fence_after_s: 240 }),
            copies: Arc::from([Arc::new(Copied {
                kind: CopyKind::ConfigMap,
                name: "settings".into(),
                type_: None,
                data: [("a".to_owned(), "1".to_owned())].into(),
                binary_data: BTreeMap::new(),
            })]),
        };
        let text = serde_json::to_string(&Versioned::new(request.clone())).unwrap();
        let read: CommitRequest = decode(text.as_bytes()).unwrap();
        assert_eq!((&read.key, &read.snapshot), (&request.key, &request.snapshot));
        assert_eq!((&read.target, &read.terms), (&request.target, &request.terms));
        assert_eq!(read.copies, request.copies);
        assert_eq!(*read.pod.object, pod_json(), "unknown fields too");
        assert_eq!(read.pod.pod.requests.placed.milli_cpu, 2_000);
        assert_eq!(read.pod.annotation("example.com/a"), Some("b"));
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let text = r#"{"apiVersion": "supercluster.loadmaster.io/v9", "keys": []}"#;
        let error = decode::<SealRequest>(text.as_bytes()).unwrap_err();
        let expected = "apiVersion is \"supercluster.loadmaster.io/v9\", not ";
        assert!(error.starts_with(expected), "{error}");
        assert!(decode::<SealRequest>(b"{}").unwrap_err().starts_with("apiVersion is \"\""));
    }

    #[test]
    fn outcomes_are_told_apart_in_json() {
        let conflict = Conflict { code: ConflictCode::Ports, message: "in use".into() };
        let json = serde_json::to_value(CommitOutcome::Conflict(conflict.clone())).unwrap();
        assert_eq!(json, json!({"outcome": "conflict", "code": "Ports", "message": "in use"}));
        let read: CommitOutcome = serde_json::from_value(json).unwrap();
        assert_eq!(read, CommitOutcome::Conflict(conflict));
        let sealed = serde_json::to_value(SealOutcome::Sealed).unwrap();
        assert_eq!(sealed, json!({"state": "sealed"}));
    }
}
