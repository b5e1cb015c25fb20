//! One call of the model: the request that it sends next, and what follows from a reply.

use std::time::Duration;

use control::api_dispatcher::CallType;
use engine::{EffectKind, Eviction};
use framework::{PodKey, ScheduledCondition, Time, Uid, Write, WriteAction};
use serde_json::{Value, json};

use super::replies::{Asked, Refusal, Shows};

/// Number of requests after which a write that may be carried out twice is given up, beside reads
/// that show its pod.
const TRIES: u32 = 4;

/// Time without a read after which the delays between the reads of a pod start over.
pub(crate) const READS_END: Duration = Duration::from_mins(5);

/// A time that is known up to the jitter of a delay.
pub(crate) type About = (Time, Time);

/// A call that has not finished.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) effect: EffectKind,
    /// The end of its delay.
    pub(crate) delayed: Option<About>,
    /// The time since which only limits hold it back.
    pub(crate) ready: Option<About>,
    /// The time at which its present request was sent.
    pub(crate) sent: Option<Time>,
    pub(crate) first_sent: Option<Time>,
    /// The status of the reply before, if the next request repeats its request.
    pub(crate) repeats: Option<Option<u16>>,
    /// Whether the pod is read before it is patched.
    reads: bool,
    tries: u32,
    delays: Delays,
    /// The first time at which it was throttled or not sent.
    failing_since: Option<Time>,
    /// The last failure of a read, whose delays start over after a while.
    failed_at: Option<Time>,
    /// Number of touches that changed nothing.
    unchanged: i64,
    /// The last effect that writes a nomination, which gets the answer.
    nominates: Option<u64>,
}

/// What follows from a reply.
#[derive(Debug, PartialEq)]
pub(crate) enum Follows {
    /// The call ends with this answer.
    Answer(Is, Option<Value>),
    /// The next request is sent as soon as the limits allow.
    Next,
    /// The request is repeated after a delay between these two.
    Again(Duration, Duration),
    /// Either, because a limit of time lies between the two delays.
    AgainOr(Duration, Duration, Is),
}

/// The kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Is {
    Ok,
    Conflict,
    Outdated,
    Gone,
    Forbidden,
    Throttled,
    Error,
    Unknown,
}

/// Delays that grow by a factor.
#[derive(Debug, Clone)]
pub(crate) struct Delays {
    next: f64,
    factor: f64,
    longest: f64,
    jitter: f64,
}

impl Delays {
    fn of(effect: &EffectKind) -> Self {
        match effect {
            EffectKind::Bind { .. } | EffectKind::ExtenderBind { .. } | EffectKind::Write(_) => {
                Self { next: 0.1, factor: 2.0, longest: 5.0, jitter: 0.5 }
            }
            EffectKind::ReadPod { .. } => Self::of_reads(),
            _ => Self { next: 0.01, factor: 5.0, longest: 10.0, jitter: 0.1 },
        }
    }

    pub(crate) const fn of_reads() -> Self {
        Self { next: 0.1, factor: 2.0, longest: 30.0, jitter: 0.5 }
    }

    /// Returns the shortest and the longest next delay.
    pub(crate) fn take(&mut self) -> (Duration, Duration) {
        let delay = self.next.min(self.longest);
        self.next = delay * self.factor;
        let nanosecond = Duration::from_nanos(2);
        let shortest = Duration::from_secs_f64(delay).saturating_sub(nanosecond);
        (shortest, Duration::from_secs_f64(delay * (1.0 + self.jitter)) + nanosecond)
    }
}

impl Call {
    pub(crate) fn new(id: u64, effect: EffectKind) -> Self {
        let delays = Delays::of(&effect);
        Self {
            nominates: writes_nomination(&effect).then_some(id),
            id,
            effect,
            delayed: None,
            ready: None,
            sent: None,
            first_sent: None,
            repeats: None,
            reads: false,
            tries: 0,
            delays,
            failing_since: None,
            failed_at: None,
            unchanged: 0,
        }
    }

    /// Returns the pod, if the call is about one.
    fn pod(&self) -> Option<(PodKey, Option<&Uid>)> {
        Some(match &self.effect {
            EffectKind::Bind { binding, .. } | EffectKind::ExtenderBind { binding, .. } => {
                (binding.pod.clone(), Some(&binding.uid))
            }
            EffectKind::Evict(Eviction { pod, uid, .. })
            | EffectKind::ReadPod { pod, uid }
            | EffectKind::Fence { pod, uid, .. }
            | EffectKind::PatchPodStatus { pod, uid, .. }
            | EffectKind::RequestEviction { pod, uid }
            | EffectKind::TouchPod { pod, uid, .. } => (pod.clone(), Some(uid)),
            EffectKind::Write(write) if &*write.resource == "pods" => {
                let Write { namespace, name, .. } = write;
                (PodKey { namespace: namespace.clone(), name: name.clone() }, None)
            }
            EffectKind::Write(_) | EffectKind::Event(_) | EffectKind::PlanMoves(_) => return None,
        })
    }

    pub(crate) fn uid(&self) -> Option<&Uid> {
        self.pod().and_then(|(_, uid)| uid)
    }

    /// Returns the object as the log names it.
    pub(crate) fn object(&self) -> String {
        match (self.pod(), &self.effect) {
            (Some((pod, _)), _) => format!("{}/{}", pod.namespace, pod.name),
            (None, EffectKind::Write(write)) => format!("{} {}", write.resource, write.name),
            (None, _) => String::new(),
        }
    }

    /// Returns the name of the calls that depend on the same webhooks, permissions and drivers.
    pub(crate) fn flow(&self) -> String {
        match &self.effect {
            EffectKind::ExtenderBind { extender, .. } => format!("extender {extender}"),
            EffectKind::Write(write) => {
                format!("{} of {:?} in {:?}", write.resource, &*write.flow, &*write.namespace)
            }
            _ => {
                let namespace = self.pod().map(|(pod, _)| pod.namespace).unwrap_or_default();
                let part = match &self.effect {
                    EffectKind::RequestEviction { .. } => "eviction",
                    _ if self.call_type() == CallType::PodStatusPatch => "status",
                    _ => "",
                };
                format!("pods of {part:?} in {namespace:?}")
            }
        }
    }

    pub(crate) const fn call_type(&self) -> CallType {
        match &self.effect {
            EffectKind::Bind { .. } => CallType::PodBinding,
            EffectKind::ExtenderBind { .. } => CallType::ExtenderBinding,
            EffectKind::Write(_) => CallType::ObjectWrite,
            EffectKind::Evict(_) | EffectKind::RequestEviction { .. } => CallType::PodEviction,
            EffectKind::ReadPod { .. } => CallType::PodRead,
            _ => CallType::PodStatusPatch,
        }
    }

    pub(crate) const fn action(&self) -> &'static str {
        match &self.effect {
            EffectKind::Bind { .. } => "binding",
            EffectKind::ExtenderBind { .. } => "binding through an extender",
            EffectKind::Write(Write { action: WriteAction::Create(_), .. }) => "creating",
            EffectKind::Write(Write { action: WriteAction::Delete(_), .. }) => "deleting",
            EffectKind::Write(_) => "patching",
            EffectKind::Evict(_) | EffectKind::RequestEviction { .. } => "evicting",
            EffectKind::ReadPod { .. } => "reading",
            _ => "patching the status",
        }
    }

    /// Returns the effect that is answered when the call has finished.
    pub(crate) const fn answered_effect(&self) -> Option<u64> {
        if self.is_patch() { self.nominates } else { Some(self.id) }
    }

    /// Whether the call patches a status.
    pub(crate) const fn is_patch(&self) -> bool {
        matches!(self.effect, EffectKind::PatchPodStatus { .. })
    }

    pub(crate) const fn is_bind(&self) -> bool {
        matches!(self.effect, EffectKind::Bind { .. } | EffectKind::ExtenderBind { .. })
    }

    pub(crate) const fn is_of_extender(&self) -> bool {
        matches!(self.effect, EffectKind::ExtenderBind { .. })
    }

    pub(crate) const fn is_read(&self) -> bool {
        matches!(self.effect, EffectKind::ReadPod { .. })
    }

    /// Whether nothing has failed if the pod is gone.
    pub(crate) const fn is_moot(&self, answer: Is) -> bool {
        let needs_pod = matches!(
            self.effect,
            EffectKind::PatchPodStatus { .. }
                | EffectKind::TouchPod { .. }
                | EffectKind::Evict(_)
                | EffectKind::RequestEviction { .. }
        );
        needs_pod && matches!(answer, Is::Gone)
    }

    /// Whether its turn is a second later than that of others.
    pub(crate) fn turn(&self) -> Option<About> {
        let (from, to) = self.ready?;
        let later = Duration::from_secs(u64::from(self.is_patch()));
        Some((from + later, to + later))
    }

    /// Merges a later patch of the same pod.
    pub(crate) fn merge(&mut self, later: &Self) {
        let EffectKind::PatchPodStatus { observed_generation, resource_version, patch, .. } =
            &later.effect
        else {
            return;
        };
        self.nominates = later.nominates.or(self.nominates);
        let EffectKind::PatchPodStatus {
            observed_generation: own_generation,
            resource_version: own_version,
            patch: own,
            ..
        } = &mut self.effect
        else {
            return;
        };
        *own_generation = *observed_generation;
        *own_version = *own_version.max(&mut resource_version.clone());
        if patch.condition.is_some() {
            own.condition.clone_from(&patch.condition);
        }
        if patch.nominated_node_name.is_some() {
            own.nominated_node_name.clone_from(&patch.nominated_node_name);
        }
        self.tries = 0;
    }

    /// Returns what the present request asks for.
    pub(crate) const fn asked(&self) -> Asked {
        match &self.effect {
            EffectKind::Bind { .. } => Asked::Bind,
            EffectKind::ExtenderBind { .. } => Asked::ExtenderBind,
            EffectKind::ReadPod { .. } => Asked::Read,
            _ if self.reads => Asked::Read,
            EffectKind::Evict(Eviction { condition_message: None, .. }) => Asked::Delete,
            _ => Asked::Write,
        }
    }

    /// Whether the present request changes a pod that others may yet bind.
    pub(crate) fn writes_pod(&self) -> bool {
        self.asked() == Asked::Write && self.pod().is_some()
    }

    /// Returns the version that the next request names, and the generation for which it takes a
    /// newer one of our own writes.
    pub(crate) const fn version(&self) -> Option<(u64, Option<i64>)> {
        match &self.effect {
            _ if self.reads => None,
            EffectKind::Bind { resource_version, generation, .. } => {
                Some((*resource_version, Some(*generation)))
            }
            EffectKind::PatchPodStatus { resource_version, observed_generation, .. }
            | EffectKind::TouchPod { resource_version, observed_generation, .. } => {
                Some((*resource_version, Some(*observed_generation)))
            }
            EffectKind::Fence { resource_version, .. } => Some((*resource_version, None)),
            _ => None,
        }
    }

    /// Notes the version that a request has named.
    pub(crate) const fn has_named(&mut self, version: u64) {
        if let EffectKind::Bind { resource_version, .. }
        | EffectKind::PatchPodStatus { resource_version, .. }
        | EffectKind::TouchPod { resource_version, .. } = &mut self.effect
        {
            *resource_version = version;
        }
    }

    /// Returns method, path, media type and body of the next request, without the resourceVersion.
    pub(crate) fn request(&self, wall: Time) -> (&'static str, String, &'static str, Value) {
        let second = wall.floor_to_second();
        let condition = |kind: &str, status: bool, reason: &str, message: &str, generation: i64| {
            json!({ "type": kind, "status": if status { "True" } else { "False" }, "reason": reason,
                "message": message, "observedGeneration": generation, "lastProbeTime": null,
                "lastTransitionTime": second.to_string() })
        };
        let scheduled = |own: &ScheduledCondition, generation: i64| {
            condition("PodScheduled", own.status, &own.reason, &own.message, generation)
        };
        let path = self.pod().map_or_else(String::new, |(pod, _)| {
            format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
        });
        let uid = self.uid().map(ToString::to_string);
        let options = |uid: &str| json!({ "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid } });
        let patch = |path: &str, status: Value| {
            let body = json!({ "metadata": { "uid": uid }, "status": status });
            ("PATCH", format!("{path}/status"), "application/strategic-merge-patch+json", body)
        };
        match &self.effect {
            EffectKind::ReadPod { .. } => ("GET", path, "", Value::Null),
            _ if self.reads => ("GET", path, "", Value::Null),
            EffectKind::Bind { binding, .. } => {
                let body = json!({ "apiVersion": "v1", "kind": "Binding",
                    "metadata": { "name": &*binding.pod.name, "namespace": &*binding.pod.namespace, "uid": uid },
                    "target": { "kind": "Node", "name": &*binding.node } });
                ("POST", format!("{path}/binding"), "application/json", body)
            }
            EffectKind::ExtenderBind { binding, .. } => {
                let body = json!({ "PodName": &*binding.pod.name, "PodNamespace": &*binding.pod.namespace,
                    "PodUID": uid, "Node": &*binding.node });
                ("POST", String::new(), "application/json", body)
            }
            EffectKind::Write(write) => of_write(write),
            EffectKind::Evict(Eviction { condition_message: None, .. }) => {
                ("DELETE", path, "application/json", options(uid.as_deref().unwrap_or_default()))
            }
            EffectKind::Evict(Eviction {
                condition_message: Some(text),
                observed_generation,
                ..
            }) => {
                let reason = "PreemptionByScheduler";
                let condition =
                    condition("DisruptionTarget", true, reason, text, *observed_generation);
                patch(&path, json!({ "conditions": [condition] }))
            }
            EffectKind::RequestEviction { pod, .. } => {
                let body = json!({ "apiVersion": "policy/v1", "kind": "Eviction",
                    "metadata": { "name": &*pod.name, "namespace": &*pod.namespace },
                    "deleteOptions": options(uid.as_deref().unwrap_or_default()) });
                ("POST", format!("{path}/eviction"), "application/json", body)
            }
            EffectKind::Fence { condition, observed_generation, .. } => {
                patch(&path, json!({ "conditions": [scheduled(condition, *observed_generation)] }))
            }
            EffectKind::PatchPodStatus { patch: own, observed_generation, .. } => {
                let mut status = json!({});
                if let Some(condition) = &own.condition {
                    status["conditions"] = json!([scheduled(condition, *observed_generation)]);
                }
                if let Some(node) = &own.nominated_node_name {
                    status["nominatedNodeName"] =
                        if node.is_empty() { Value::Null } else { json!(**node) };
                }
                patch(&path, status)
            }
            EffectKind::TouchPod { has_condition, observed_generation, .. } => {
                let text = "the scheduler has started and has not tried to schedule the pod yet";
                let mut condition = match has_condition {
                    true => json!({ "type": "PodScheduled" }),
                    false => condition(
                        "PodScheduled",
                        false,
                        "SchedulerStarted",
                        text,
                        *observed_generation,
                    ),
                };
                let probed = Time::from_nanos(second.as_nanos() - self.unchanged * 1_000_000_000);
                condition["lastProbeTime"] = probed.to_string().into();
                patch(&path, json!({ "conditions": [condition] }))
            }
            EffectKind::Event(_) | EffectKind::PlanMoves(_) => ("", String::new(), "", Value::Null),
        }
    }

    /// Handles a reply.
    pub(crate) fn replied(&mut self, shows: &Shows, period: Duration, now: Time) -> Follows {
        // A read that shows the pod belongs to the patch after it.
        let shows_pod = self.reads && matches!(shows, Shows::CarriedOut(Some(_)));
        self.tries += u32::from(!shows_pod);
        match &self.effect {
            EffectKind::Bind { .. } | EffectKind::Write(_) => {
                self.write_replied(shows, period, now)
            }
            EffectKind::ExtenderBind { .. } => Follows::Answer(
                match shows {
                    Shows::CarriedOut(_) => Is::Ok,
                    Shows::Nothing => Is::Unknown,
                    _ => Is::Error,
                },
                None,
            ),
            EffectKind::Fence { .. } | EffectKind::RequestEviction { .. } => match shows {
                Shows::CarriedOut(body) => Follows::Answer(Is::Ok, body.clone()),
                Shows::Refused(Refusal::NotFound | Refusal::OtherPod | Refusal::OtherUid) => {
                    Follows::Answer(Is::Gone, None)
                }
                Shows::Refused(Refusal::Forbidden) => Follows::Answer(Is::Forbidden, None),
                Shows::Refused(Refusal::Changed | Refusal::Taken) => {
                    Follows::Answer(Is::Conflict, None)
                }
                Shows::Refused(_) | Shows::NotSent => Follows::Answer(Is::Error, None),
                Shows::Pause(_) => Follows::Answer(Is::Throttled, None),
                Shows::Nothing => Follows::Answer(Is::Unknown, None),
            },
            EffectKind::ReadPod { .. } => match shows {
                Shows::CarriedOut(Some(pod)) => Follows::Answer(Is::Ok, Some(pod.clone())),
                Shows::Refused(Refusal::NotFound) => Follows::Answer(Is::Gone, None),
                Shows::Refused(Refusal::Forbidden) => Follows::Answer(Is::Forbidden, None),
                _ => {
                    let last = self.failed_at.replace(now);
                    if last.is_some_and(|last| now.since(last) > READS_END) {
                        self.delays = Delays::of_reads();
                    }
                    self.again(shows)
                }
            },
            EffectKind::PatchPodStatus { .. } if !self.reads && self.nominates.is_some() => {
                let follows = match self.effect {
                    EffectKind::PatchPodStatus { resource_version: 0, .. } => {
                        self.repeatable_replied(shows)
                    }
                    _ => self.patch_replied(shows),
                };
                match (follows, shows) {
                    (Follows::Answer(Is::Ok, _), Shows::CarriedOut(Some(pod))) => {
                        let version = &pod["metadata"]["resourceVersion"];
                        let shown = json!({ "metadata": { "resourceVersion": version } });
                        Follows::Answer(Is::Ok, Some(shown))
                    }
                    (follows, _) => follows,
                }
            }
            EffectKind::PatchPodStatus { resource_version: 0, .. } if !self.reads => {
                self.repeatable_replied(shows)
            }
            EffectKind::PatchPodStatus { .. } | EffectKind::TouchPod { .. } => {
                self.patch_replied(shows)
            }
            EffectKind::Evict(_) => {
                let follows = self.repeatable_replied(shows);
                if let (Follows::Answer(Is::Ok, _), EffectKind::Evict(eviction)) =
                    (&follows, &mut self.effect)
                    && eviction.condition_message.take().is_some()
                {
                    self.tries = 0;
                    return Follows::Next;
                }
                follows
            }
            EffectKind::Event(_) | EffectKind::PlanMoves(_) => Follows::Next,
        }
    }

    fn again(&mut self, shows: &Shows) -> Follows {
        let pause = if let Shows::Pause(pause) = shows { *pause } else { Duration::ZERO };
        let (shortest, longest) = self.delays.take();
        Follows::Again(shortest.max(pause), longest.max(pause))
    }

    /// A write that must not be carried out twice: it is repeated only if it was certainly not
    /// carried out, and for a limited time.
    fn write_replied(&mut self, shows: &Shows, period: Duration, now: Time) -> Follows {
        let is_bind = self.is_bind();
        let answer = match shows {
            Shows::CarriedOut(body) => {
                return Follows::Answer(Is::Ok, body.clone().filter(|_| !is_bind));
            }
            Shows::Nothing => Is::Unknown,
            Shows::Refused(Refusal::Forbidden) => Is::Forbidden,
            Shows::Refused(Refusal::NotFound) => Is::Gone,
            Shows::Refused(Refusal::Changed) if is_bind => Is::Outdated,
            Shows::Refused(Refusal::Changed | Refusal::Taken | Refusal::OtherPod) => Is::Conflict,
            Shows::Refused(Refusal::Invalid | Refusal::Internal | Refusal::OtherUid) => Is::Error,
            Shows::Pause(_) | Shows::NotSent => {
                let last = *self.failing_since.get_or_insert(now) + period;
                let is = if *shows == Shows::NotSent { Is::Error } else { Is::Throttled };
                let Follows::Again(shortest, longest) = self.again(shows) else {
                    return Follows::Next;
                };
                return match (now + shortest <= last, now + longest <= last) {
                    (_, true) => Follows::Again(shortest, longest),
                    (false, _) => Follows::Answer(is, None),
                    (true, false) => Follows::AgainOr(shortest, longest, is),
                };
            }
        };
        Follows::Answer(answer, None)
    }

    /// A write that may be carried out twice: it is repeated after any failure that may pass.
    fn repeatable_replied(&mut self, shows: &Shows) -> Follows {
        match shows {
            Shows::CarriedOut(_) => Follows::Answer(Is::Ok, None),
            Shows::Refused(Refusal::NotFound | Refusal::OtherPod | Refusal::OtherUid) => {
                Follows::Answer(Is::Gone, None)
            }
            Shows::Refused(Refusal::Forbidden) => Follows::Answer(Is::Forbidden, None),
            Shows::Refused(Refusal::Invalid) => Follows::Answer(Is::Error, None),
            _ if self.tries < TRIES => self.again(shows),
            _ => Follows::Answer(Is::Error, None),
        }
    }

    /// A patch that names a version. After a conflict the pod is read.
    fn patch_replied(&mut self, shows: &Shows) -> Follows {
        let pod = match shows {
            Shows::Refused(Refusal::Changed | Refusal::Taken) if self.tries < TRIES => {
                self.reads = true;
                return Follows::Next;
            }
            Shows::CarriedOut(Some(pod)) if self.reads || !self.is_patch() => pod,
            Shows::CarriedOut(None) if self.reads || !self.is_patch() => {
                return self.repeatable_replied(&Shows::Nothing);
            }
            _ => return self.repeatable_replied(shows),
        };
        let metadata = &pod["metadata"];
        let uid = self.uid().map(ToString::to_string);
        let was_read = std::mem::take(&mut self.reads);
        if metadata["uid"].as_str() != uid.as_deref() {
            return Follows::Answer(Is::Gone, None);
        }
        let is_bound = !pod["spec"]["nodeName"].is_null();
        let version =
            metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        let named = self.version().map_or(0, |(named, _)| named);
        if self.is_patch() {
            if is_bound {
                return Follows::Answer(Is::Ok, None);
            }
        } else if is_bound || !was_read && version != named {
            let (key, _) = self.pod().unwrap_or_else(|| (PodKey::new("", ""), None));
            let metadata = json!({ "namespace": &*key.namespace, "name": &*key.name, "uid": uid,
                "resourceVersion": version.to_string() });
            let mut answer = json!({ "metadata": metadata });
            if is_bound {
                answer["spec"] = json!({ "nodeName": pod["spec"]["nodeName"] });
            }
            return Follows::Answer(Is::Ok, Some(answer));
        } else if !was_read {
            self.unchanged += 1;
            return Follows::Next;
        }
        self.has_named(version);
        if let EffectKind::TouchPod { has_condition, .. } = &mut self.effect {
            *has_condition = pod["status"]["conditions"][0]["type"] == "PodScheduled";
        }
        Follows::Next
    }
}

fn writes_nomination(effect: &EffectKind) -> bool {
    matches!(effect, EffectKind::PatchPodStatus { patch, .. } if patch.nominated_node_name.is_some())
}

fn of_write(write: &Write) -> (&'static str, String, &'static str, Value) {
    let namespace = match &*write.namespace {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    let collection = format!("/api/v1{namespace}/{}", write.resource);
    let mut object = format!("{collection}/{}", write.name);
    if let Some(subresource) = &write.subresource {
        object = format!("{object}/{subresource}");
    }
    let json = "application/json";
    match &write.action {
        WriteAction::MergePatch(body) => {
            ("PATCH", object, "application/merge-patch+json", body.clone())
        }
        WriteAction::StrategicMergePatch(body) => {
            ("PATCH", object, "application/strategic-merge-patch+json", body.clone())
        }
        WriteAction::Create(body) => ("POST", collection, json, body.clone()),
        WriteAction::Delete(uid) => {
            let preconditions = json!({ "uid": uid.to_string() });
            let body = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions });
            ("DELETE", object, json, body)
        }
    }
}
