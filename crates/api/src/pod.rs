//! The compact form of a Pod.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pod_claims::{ExtendedRequest, GeneratedClaims, PodResourceClaim};
use super::resources::pod_limits;
use crate::{
    ContainerResources, EvictionHints, Extra, ExtraFields, LabelSelector, Labels, OptionalTime,
    PodRequests, PodVolume, PreferredSchedulingTerms, Problem, RequiredNodeAffinity, Resources,
    SelectorError, Time, Toleration, TopologyLevel, api,
};

/// The UID of an object, in 16 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Uid {
    /// A UUID in its canonical, lower-case form.
    Uuid(Uuid),
    /// Any other text.
    Text(Arc<Box<str>>),
}

/// A UUID whose second half is not zero, which every variant of RFC 9562 rules out. The compiler
/// stores in a second half of zero that a [`Uid`] is a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "[u8; 16]", into = "[u8; 16]")]
pub struct Uuid(u64, NonZeroU64);

impl From<Uuid> for [u8; 16] {
    fn from(Uuid(first, second): Uuid) -> Self {
        (u128::from(first) << 64 | u128::from(second.get())).to_be_bytes()
    }
}

impl TryFrom<[u8; 16]> for Uuid {
    type Error = &'static str;

    fn try_from(bytes: [u8; 16]) -> Result<Self, Self::Error> {
        let [first, second] = [0, 8].map(|start| {
            let half = bytes[start..].first_chunk().expect("a UUID has 16 bytes");
            u64::from_be_bytes(*half)
        });
        let second = NonZeroU64::new(second).ok_or("the second half of a UUID is zero")?;
        Ok(Self(first, second))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in <[u8; 16]>::from(*self).iter().enumerate() {
            let dash = if matches!(place, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let uuid = parse_uuid(text).and_then(|bytes| bytes.try_into().ok());
        uuid.map_or_else(|| Self::Text(Arc::new(text.into())), Self::Uuid)
    }
}

/// Parses a UUID. Returns `None` unless printing the result reproduces the text exactly.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let text = text.as_bytes();
    if text.len() != 36 || DASHES.iter().any(|place| text[*place] != b'-') {
        return None;
    }
    let mut digits = text.iter().filter(|byte| **byte != b'-').map(|byte| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    });
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    digits.next().is_none().then_some(uuid)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Uuid(uuid) => uuid.fmt(f),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Namespace and name of a pod; prints as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodKey {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl PodKey {
    /// Returns the key of a namespace and a name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The condition of pods that are evicted.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The reason of that condition for a pod that a scheduler preempted.
pub const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";

/// The fields of the `PodScheduled` condition that its writer compares.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScheduledCondition {
    /// `True` or `False`.
    pub status: bool,
    /// Machine-readable reason.
    pub reason: Arc<str>,
    /// Text for people.
    pub message: Arc<str>,
}

/// A pod, with the fields that scheduling reads.
///
/// The engine shares parts that are equal for all pods of a template behind [`Arc`]s. A cluster has
/// millions of pods, so the rest is small: 144 bytes, or 160 with the counters of an [`Arc`], which
/// is a size that the allocator has without waste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub key: PodKey,
    /// UID.
    pub uid: Uid,
    /// Resource version of the object, 0 if it has none.
    pub resource_version: u64,
    /// `metadata.generation`, copied to the condition as `observedGeneration`. See
    /// [`Self::generation_of`].
    pub generation: u32,
    /// Labels.
    pub labels: Arc<Labels>,
    /// The part that the pods of a template have in common.
    pub spec: Arc<PodSpec>,
    /// The requests of the pod.
    pub requests: Arc<PodRequests>,
    /// Its controller.
    pub controller: Option<Arc<Controller>>,
    /// The node the pod is assigned to.
    pub node_name: Option<Arc<str>>,
    /// When the pod started (`status.startTime`).
    pub start_time: OptionalTime,
    /// Whether the pod is being deleted.
    pub terminating: bool,
    /// Whether the API server removes the pod right after this version: the pod is being deleted
    /// without a grace period and has no finalizers.
    pub removal_follows: bool,
    /// Whether a scheduler preempted the pod: condition `DisruptionTarget` is `True` with reason
    /// [`PREEMPTION_BY_SCHEDULER`].
    pub preempted: bool,
    /// Whether the pod has ended (`Succeeded` or `Failed`) and uses no more resources.
    pub terminal: bool,
    /// Its `PodScheduled` condition, if any.
    pub scheduled_condition: Option<Arc<ScheduledCondition>>,
    /// The fields that few pods have; `None` if it has none of them.
    pub uncommon: Option<Box<UncommonFields>>,
    /// Further fields that a plugin asked for.
    pub extra: Extra,
}

/// The fields of a pod that few pods have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UncommonFields {
    /// The node that is nominated for the pod.
    pub nominated_node_name: Option<Arc<str>>,
    /// The claims generated for it; `None` if its status names none.
    pub generated_claims: Option<Arc<GeneratedClaims>>,
    /// The fields that could not be read. A pod with problems is not scheduled.
    pub problems: Box<[Problem]>,
    /// See [`Pod::is_running_member`].
    pub is_running_member: bool,
    /// See [`Pod::has_succeeded`].
    pub has_succeeded: bool,
}

impl UncommonFields {
    /// Returns the fields for [`Pod::uncommon`].
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// The part of a pod that the pods of a template have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodSpec {
    /// Name of the responsible scheduler.
    pub scheduler_name: Arc<str>,
    /// Priority; absent counts as 0.
    pub priority: i32,
    /// Whether it may preempt other pods.
    pub may_preempt: bool,
    /// `spec.nodeSelector` and required node affinity.
    pub required_node_affinity: RequiredNodeAffinity,
    /// Preferred node affinity; `None` when the list is absent.
    pub preferred_node_affinity: Option<Result<PreferredSchedulingTerms, SelectorError>>,
    /// Tolerations.
    pub tolerations: Box<[Toleration]>,
    /// Host ports of containers and sidecars.
    pub host_ports: Box<[HostPort]>,
    /// Limits; 0 means no limit. They affect no decision.
    pub limits: Resources,
    /// Images of init containers and containers, normalised, one entry per container.
    pub images: Box<[Arc<str>]>,
    /// Images mounted as volumes, normalised.
    pub image_volumes: Box<[Arc<str>]>,
    /// Names of the gates that keep the pod from being scheduled.
    pub scheduling_gates: Box<[Arc<str>]>,
    /// The PodGroup that `spec.schedulingGroup` names.
    pub scheduling_group: Option<Arc<str>>,
    /// The levels of a topology that annotations of Kueue ask for; none for pods without a group.
    pub pod_set_topology: Option<Arc<[TopologyLevel]>>,
    /// Pod affinity; `None` if the field is absent.
    pub pod_affinity: Option<PodAffinity>,
    /// Pod anti-affinity; `None` if the field is absent.
    pub pod_anti_affinity: Option<PodAffinity>,
    /// Topology spread constraints.
    pub topology_spread_constraints: Box<[TopologySpreadConstraint]>,
    /// The volumes that affect placement, in their order.
    pub volumes: Box<[PodVolume]>,
    /// Claims for dynamic resources (`spec.resourceClaims`).
    pub resource_claims: Box<[PodResourceClaim]>,
    /// Requests of its containers for extended resources, in the order of the containers (init
    /// containers first) and of the names of the resources.
    pub extended_requests: Box<[ExtendedRequest]>,
    /// Whether the exit of some container restarts all containers.
    pub restarts_all_containers: bool,
    /// Whether a container mounts a volume with `bindMountOptions`.
    pub has_bind_mount_options: bool,
    /// Whether it uses the network of the host with its own user namespace.
    pub host_network_in_user_namespace: bool,
    /// What it says of its eviction.
    pub eviction: EvictionHints,
}

impl PodSpec {
    /// Returns whether the pod has a required anti-affinity term that parses.
    pub fn has_required_anti_affinity(&self) -> bool {
        self.pod_anti_affinity
            .as_ref()
            .is_some_and(|anti| anti.required.as_ref().is_ok_and(|terms| !terms.is_empty()))
    }
}

/// Pod affinity or anti-affinity. One malformed term makes its whole category an error.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodAffinity {
    /// The required terms.
    pub required: Result<Box<[PodAffinityTerm]>, SelectorError>,
    /// The preferred terms.
    pub preferred: Result<Box<[WeightedPodAffinityTerm]>, SelectorError>,
}

/// A term on the pods of a topology domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodAffinityTerm {
    /// Selects the pods by label.
    pub selector: LabelSelector,
    /// Selects the pods by namespace: the listed namespaces, or the own namespace of the pod
    /// without list and selector. Sorted, each once.
    pub namespaces: Box<[Arc<str>]>,
    /// Selects further namespaces by their labels.
    pub namespace_selector: LabelSelector,
    /// The node label whose value names the domain.
    pub topology_key: Arc<str>,
}

/// A weighted term.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WeightedPodAffinityTerm {
    /// Weight, 1 to 100.
    pub weight: i32,
    /// The term.
    pub term: PodAffinityTerm,
}

/// The action for a pod that would violate a topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WhenUnsatisfiable {
    /// Reject the node: a hard constraint.
    DoNotSchedule,
    /// Prefer other nodes: a soft constraint.
    ScheduleAnyway,
    /// An unknown action, which has no effect.
    Other(Arc<str>),
}

impl From<&str> for WhenUnsatisfiable {
    fn from(text: &str) -> Self {
        match text {
            "DoNotSchedule" => Self::DoNotSchedule,
            "ScheduleAnyway" => Self::ScheduleAnyway,
            other => Self::Other(other.into()),
        }
    }
}

/// A topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TopologySpreadConstraint {
    /// Maximum difference between domains.
    pub max_skew: i32,
    /// The node label whose value names the domain.
    pub topology_key: Arc<str>,
    /// Whether the constraint is hard or soft.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Selects the counted pods, without `matchLabelKeys`.
    pub selector: Result<LabelSelector, SelectorError>,
    /// Minimum number of domains; absent counts as 1.
    pub min_domains: i32,
    /// Whether to count only nodes that match the node affinity of the pod (`nodeAffinityPolicy:
    /// Honor`, the default).
    pub honors_node_affinity: bool,
    /// Whether to leave out nodes with untolerated taints (`nodeTaintsPolicy: Honor`).
    pub honors_node_taints: bool,
    /// Label keys of the pod whose values are added to the selector.
    pub match_label_keys: Box<[Arc<str>]>,
}

impl TopologySpreadConstraint {
    /// Converts the API object.
    pub fn compile(constraint: &api::TopologySpreadConstraint) -> Self {
        Self {
            max_skew: constraint.max_skew,
            topology_key: constraint.topology_key.as_str().into(),
            when_unsatisfiable: constraint.when_unsatisfiable.as_str().into(),
            selector: LabelSelector::compile(constraint.label_selector.as_ref()),
            min_domains: constraint.min_domains.unwrap_or(1),
            honors_node_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_node_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
            match_label_keys: super::node::texts(&constraint.match_label_keys),
        }
    }
}

/// The kinds of controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the kinds of these names")]
pub enum ControllerKind {
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    /// The kubelet, which owns static pods.
    Node,
    /// A kind that is none of Kubernetes itself.
    Other,
}

impl ControllerKind {
    /// Whether its selector identifies pods that belong together, so that they are spread by
    /// default.
    pub const fn has_selector(self) -> bool {
        matches!(self, Self::ReplicationController | Self::ReplicaSet | Self::StatefulSet)
    }

    /// Returns the name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReplicationController => "ReplicationController",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
            Self::Node => "Node",
            Self::Other => "Other",
        }
    }
}

/// The controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Controller {
    /// Its kind.
    pub kind: ControllerKind,
    /// Its name; the namespace is the namespace of the pod.
    pub name: Arc<str>,
}

impl Controller {
    fn of(owners: &[api::OwnerReference]) -> Option<Self> {
        let owner = owners.iter().find(|owner| owner.controller)?;
        let kind = match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("v1", "ReplicationController") => ControllerKind::ReplicationController,
            ("apps/v1", "ReplicaSet") => ControllerKind::ReplicaSet,
            ("apps/v1", "StatefulSet") => ControllerKind::StatefulSet,
            ("apps/v1", "DaemonSet") => ControllerKind::DaemonSet,
            ("batch/v1", "Job") => ControllerKind::Job,
            ("v1", "Node") => ControllerKind::Node,
            _ => ControllerKind::Other,
        };
        Some(Self { kind, name: owner.name.as_str().into() })
    }
}

impl PodAffinityTerm {
    fn compile(term: &api::PodAffinityTerm, own_namespace: &str) -> Result<Self, SelectorError> {
        let mut namespaces: BTreeSet<Arc<str>> =
            term.namespaces.iter().map(|name| name.as_str().into()).collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(own_namespace.into());
        }
        Ok(Self {
            selector: LabelSelector::compile(term.label_selector.as_ref())?,
            namespaces: namespaces.into_iter().collect(),
            namespace_selector: LabelSelector::compile(term.namespace_selector.as_ref())?,
            topology_key: term.topology_key.as_str().into(),
        })
    }

    /// Returns whether the term selects `pod`, whose namespace has the labels `namespace_labels`.
    pub fn matches(&self, pod: &Pod, namespace_labels: &Labels) -> bool {
        self.selector.matches(&pod.labels)
            && (self.namespaces.contains(&pod.key.namespace)
                || self.namespace_selector.matches(namespace_labels))
    }
}

impl PodAffinity {
    fn compile(affinity: &api::PodAffinity, namespace: &str) -> Self {
        let compile = |term| PodAffinityTerm::compile(term, namespace);
        Self {
            required: affinity.required.iter().map(compile).collect(),
            preferred: affinity
                .preferred
                .iter()
                .map(|weighted| {
                    let term = compile(&weighted.pod_affinity_term)?;
                    Ok(WeightedPodAffinityTerm { weight: weighted.weight, term })
                })
                .collect(),
        }
    }
}

/// The protocol of a host port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// TCP; also the default.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// An unknown protocol, as written.
    Other(Arc<str>),
}

/// A port of the node that a container reserves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPort {
    /// Address of the node; `0.0.0.0` means all addresses.
    pub ip: Arc<str>,
    /// Protocol.
    pub protocol: Protocol,
    /// Port number.
    pub port: i32,
}

impl HostPort {
    const ALL: &str = "0.0.0.0";

    fn compile(port: &api::ContainerPort) -> Self {
        let ip = if port.host_ip.is_empty() { Self::ALL } else { &port.host_ip };
        let protocol = match port.protocol.as_str() {
            "" | "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            other => Protocol::Other(other.into()),
        };
        Self { ip: ip.into(), protocol, port: port.host_port }
    }

    /// Returns whether the port is for all addresses, so that it conflicts with every use of its
    /// number.
    pub fn is_on_all_addresses(&self) -> bool {
        &*self.ip == Self::ALL
    }

    /// Returns whether one node cannot provide both ports: same protocol and port, and the same
    /// address or all addresses in one of them. IPv6 `::` is not special.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.is_on_all_addresses() || other.is_on_all_addresses())
    }
}

/// The label by which Coscheduling of scheduler-plugins assigns a pod to a PodGroup of the
/// namespace.
pub const POD_GROUP_LABEL: &str = "scheduling.x-k8s.io/pod-group";

impl Pod {
    /// Returns the name of the PodGroup that the pod belongs to, by `spec.schedulingGroup` or by
    /// [label](POD_GROUP_LABEL).
    pub fn group(&self) -> Option<&str> {
        let label = || self.labels.get(POD_GROUP_LABEL).filter(|name| !name.is_empty());
        self.spec.scheduling_group.as_deref().or_else(label)
    }

    /// Converts the API object. Fields that cannot be read are left out and reported in
    /// [`problems`](UncommonFields::problems).
    pub fn from_api(pod: &api::Pod) -> Self {
        let mut problems = Vec::new();
        let requests = PodRequests::of(&pod.spec, &pod.status, &mut problems);
        let mut spec = PodSpec::compile(pod);
        let is_member =
            || spec.scheduling_group.is_some() || pod.metadata.labels.contains_key(POD_GROUP_LABEL);
        if !pod.metadata.annotations.is_empty() && is_member() {
            let annotations = &pod.metadata.annotations;
            spec.pod_set_topology = TopologyLevel::of_pod_set(annotations, &mut problems);
        }
        let name = |text: &str| (!text.is_empty()).then(|| Arc::from(text));
        let status = &pod.status;
        let start_time = status.start_time.as_deref().and_then(|at| Time::parse_rfc3339(at).ok());
        let uncommon = UncommonFields {
            nominated_node_name: name(&status.nominated_node_name),
            generated_claims: GeneratedClaims::of(status).map(Arc::new),
            problems: problems.into(),
            is_running_member: status.phase == "Running"
                && pod.metadata.labels.contains_key(POD_GROUP_LABEL),
            has_succeeded: status.phase == "Succeeded",
        };
        Self {
            key: PodKey::new(&pod.metadata.namespace, &pod.metadata.name),
            uid: Uid::from(pod.metadata.uid.as_str()),
            resource_version: pod.metadata.resource_version.parse().unwrap_or(0),
            generation: Self::generation_of(&pod.metadata),
            labels: Arc::new(Labels::from(&pod.metadata.labels)),
            spec: Arc::new(spec),
            requests: Arc::new(requests),
            controller: Controller::of(&pod.metadata.owner_references).map(Arc::new),
            node_name: name(&pod.spec.node_name),
            start_time: start_time.into(),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            removal_follows: removal_follows(&pod.metadata),
            preempted: status.conditions.iter().any(is_preemption),
            terminal: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
            scheduled_condition: scheduled_condition(&status.conditions),
            uncommon: uncommon.boxed(),
            extra: Extra::default(),
        }
    }

    /// Decodes and converts the API object, and keeps the further fields in `wanted`.
    ///
    /// # Errors
    /// The JSON does not have the shape of a Pod.
    pub fn from_json(pod: &Value, wanted: &ExtraFields) -> Result<Self, serde_json::Error> {
        let object = api::Pod::deserialize(pod)?;
        Ok(Self { extra: Extra::of_pod(&object, pod, wanted), ..Self::from_api(&object) })
    }

    /// Returns the requests and limits of each container, in the order in which the containers
    /// start. Empty unless a plugin asked for them with
    /// `PluginBuilder::keep_containers` of `framework`.
    pub fn containers(&self) -> &[ContainerResources] {
        self.extra.containers()
    }

    /// Whether the pod is being deleted and keeps its room for some time.
    pub const fn lingers(&self) -> bool {
        self.terminating && !self.removal_follows
    }

    /// Priority; absent counts as 0.
    pub fn priority(&self) -> i32 {
        self.spec.priority
    }

    /// Returns `metadata.generation` of an object in four bytes. The API server counts the
    /// specifications of a pod from 1, so no pod reaches the limits.
    pub fn generation_of(metadata: &api::ObjectMeta) -> u32 {
        u32::try_from(metadata.generation.max(0)).unwrap_or(u32::MAX)
    }
}

/// Uncommon fields.
impl Pod {
    /// The node that is nominated for the pod.
    pub fn nominated_node_name(&self) -> Option<&Arc<str>> {
        self.uncommon.as_ref()?.nominated_node_name.as_ref()
    }

    /// The claims generated for it; `None` if its status names none.
    pub fn generated_claims(&self) -> Option<&Arc<GeneratedClaims>> {
        self.uncommon.as_ref()?.generated_claims.as_ref()
    }

    /// The fields that could not be read. A pod with problems is not scheduled.
    pub fn problems(&self) -> &[Problem] {
        self.uncommon.as_ref().map_or(&[], |uncommon| &uncommon.problems)
    }

    /// Sets the node that is nominated for the pod.
    pub fn set_nominated_node_name(&mut self, node: Option<Arc<str>>) {
        self.change_uncommon(|uncommon| uncommon.nominated_node_name = node);
    }

    /// Sets the claims generated for the pod.
    pub fn set_generated_claims(&mut self, claims: Option<Arc<GeneratedClaims>>) {
        self.change_uncommon(|uncommon| uncommon.generated_claims = claims);
    }

    /// Sets the fields that could not be read, and returns the previous ones.
    pub fn replace_problems(&mut self, problems: Box<[Problem]>) -> Box<[Problem]> {
        self.change_uncommon(|uncommon| std::mem::replace(&mut uncommon.problems, problems))
    }

    fn change_uncommon<T>(&mut self, change: impl FnOnce(&mut UncommonFields) -> T) -> T {
        let mut uncommon = self.uncommon.take().map_or_else(UncommonFields::default, |own| *own);
        let result = change(&mut uncommon);
        self.uncommon = uncommon.boxed();
        result
    }
}

fn removal_follows(metadata: &api::ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
        && metadata.deletion_grace_period_seconds == Some(0)
        && metadata.finalizers.is_empty()
}

fn is_preemption(condition: &api::PodCondition) -> bool {
    condition.type_ == DISRUPTION_TARGET
        && condition.status == "True"
        && condition.reason == PREEMPTION_BY_SCHEDULER
}

fn scheduled_condition(conditions: &[api::PodCondition]) -> Option<Arc<ScheduledCondition>> {
    let condition = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    Some(Arc::new(ScheduledCondition {
        status: condition.status == "True",
        reason: condition.reason.as_str().into(),
        message: condition.message.as_str().into(),
    }))
}

impl PodSpec {
    fn compile(pod: &api::Pod) -> Self {
        let (spec, namespace) = (&pod.spec, pod.metadata.namespace.as_str());
        let affinity = spec.affinity.clone().unwrap_or_default();
        let node_affinity = affinity.node_affinity.as_ref();
        let containers = || spec.init_containers.iter().chain(&spec.containers);
        let sidecar = |c: &&api::Container| c.restart_policy.as_deref() == Some("Always");
        let keeps_ports = spec.init_containers.iter().filter(sidecar).chain(&spec.containers);
        let image_volumes = spec.volumes.iter().filter_map(|volume| volume.image.as_ref());
        Self {
            scheduler_name: spec.scheduler_name.as_str().into(),
            priority: spec.priority.unwrap_or(0),
            may_preempt: spec.preemption_policy.as_deref() != Some("Never"),
            required_node_affinity: RequiredNodeAffinity::of(spec),
            preferred_node_affinity: node_affinity
                .and_then(|affinity| affinity.preferred.as_deref())
                .map(|terms| PreferredSchedulingTerms::compile(terms, "")),
            tolerations: spec.tolerations.iter().map(Toleration::from).collect(),
            host_ports: keeps_ports
                .flat_map(|container| &container.ports)
                .filter(|port| port.host_port > 0)
                .map(HostPort::compile)
                .collect(),
            limits: pod_limits(spec),
            images: containers().map(|container| normalized_image(&container.image)).collect(),
            image_volumes: image_volumes.map(|image| normalized_image(&image.reference)).collect(),
            scheduling_gates: spec
                .scheduling_gates
                .iter()
                .map(|g| g.name.as_str().into())
                .collect(),
            scheduling_group: spec
                .scheduling_group
                .as_ref()
                .and_then(|group| group.pod_group_name.as_deref())
                .map(Arc::from),
            pod_set_topology: None,
            pod_affinity: affinity.pod_affinity.map(|a| PodAffinity::compile(&a, namespace)),
            pod_anti_affinity: affinity
                .pod_anti_affinity
                .map(|anti| PodAffinity::compile(&anti, namespace)),
            topology_spread_constraints: spec
                .topology_spread_constraints
                .iter()
                .map(TopologySpreadConstraint::compile)
                .collect(),
            volumes: spec.volumes.iter().filter_map(PodVolume::of).collect(),
            resource_claims: spec.resource_claims.iter().map(PodResourceClaim::compile).collect(),
            extended_requests: ExtendedRequest::of_pod(spec),
            restarts_all_containers: containers()
                .flat_map(|container| &container.restart_policy_rules)
                .any(|rule| rule.action == "RestartAllContainers"),
            has_bind_mount_options: containers()
                .flat_map(|container| &container.volume_mounts)
                .any(|mount| !mount.bind_mount_options.is_empty()),
            host_network_in_user_namespace: spec.host_network && spec.host_users == Some(false),
            eviction: EvictionHints::of(pod),
        }
    }
}

/// Returns an image reference with its tag: `:latest` is added to a reference without tag and
/// digest.
fn normalized_image(image: &str) -> Arc<str> {
    let tagged = image.rfind(':') > image.rfind('/');
    if tagged { image.into() } else { format!("{image}:latest").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_small() {
        assert_eq!((size_of::<Uid>(), size_of::<Pod>()), (16, 144));
    }

    #[test]
    fn removal_follows_a_deletion_without_grace_period_and_finalizers() {
        let end = Some("2026-01-01T00:00:00Z".to_owned());
        for (deletion_timestamp, grace, finalizer, follows, lingers) in [
            (end.clone(), Some(0), None, true, false),
            (end.clone(), Some(30), None, false, true),
            (end.clone(), Some(0), Some("x".to_owned()), false, true),
            (end, None, None, false, true),
            (None, Some(0), None, false, false),
        ] {
            let metadata = api::ObjectMeta {
                deletion_timestamp,
                deletion_grace_period_seconds: grace,
                finalizers: finalizer.into_iter().collect(),
                ..api::ObjectMeta::default()
            };
            let pod = Pod::from_api(&api::Pod { metadata, ..api::Pod::default() });
            assert_eq!((pod.removal_follows, pod.lingers()), (follows, lingers), "{grace:?}");
        }
    }

    #[test]
    fn uid_prints_as_it_was_read() {
        let zero_half = "9b1deb4d-3b7d-4bad-0000-000000000000";
        for (text, is_uuid) in [
            ("9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", true),
            ("00000000-0000-0000-8000-000000000000", true),
            (zero_half, false),
            ("9B1DEB4D-3b7d-4bad-9bdd-2b0d7b3dcb6d", false),
            ("mirror", false),
            ("", false),
        ] {
            let uid = Uid::from(text);
            assert_eq!((uid.to_string().as_str(), matches!(uid, Uid::Uuid(_))), (text, is_uuid));
        }
        assert!(Uid::from("00000000-0000-0000-8000-000000000001") < Uid::from("1"));
    }

    #[test]
    fn uncommon_fields_take_no_memory_once_they_are_unset() {
        let plain = Pod::from_api(&api::Pod::default());
        let mut changed = plain.clone();
        changed.set_nominated_node_name(Some("n".into()));
        let mut nominated = api::Pod::default();
        nominated.status.nominated_node_name = "n".to_owned();
        assert_eq!(changed, Pod::from_api(&nominated));
        changed.set_nominated_node_name(None);
        assert!(changed.uncommon.is_none() && changed == plain);
        assert_eq!(changed.replace_problems([Problem::new("spec", "odd")].into()), [].into());
        assert_eq!((changed.problems().len(), plain.problems().len()), (1, 0));
    }

    #[test]
    fn generation_beyond_the_limits_saturates() {
        let of = |generation| {
            Pod::generation_of(&api::ObjectMeta { generation, ..api::ObjectMeta::default() })
        };
        assert_eq!([of(-1), of(0), of(7), of(i64::MAX)], [0, 0, 7, u32::MAX]);
    }
}
