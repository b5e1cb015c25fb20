//! Invariants of the requests of the scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use client::{Destination, Method, Reply, Request, RequestId, Response};
use engine::{Engine, Event};
use framework::preemption::Preemption;
use framework::{Time, Uid};
use serde_json::Value;

use super::rules::{Checked, rule};
use super::server::{Bound, Server};

/// The writes of one run of the scheduler, and their outcome.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Bindings that were sent and may still take effect.
    bindings: BTreeMap<RequestId, SentBinding>,
    /// Status patches without a reply, with the UIDs of the pods.
    patches: BTreeMap<RequestId, String>,
    /// The objects of requests without a reply.
    at_work: BTreeMap<RequestId, String>,
    /// The bound pods, with their nodes.
    bound: BTreeMap<Uid, String>,
    /// UIDs of the pods with a `Scheduled` event.
    announced: BTreeSet<Uid>,
    /// UIDs of victims, with the highest priority of their preemptors.
    victims: BTreeMap<Uid, i32>,
    /// Victims that were deleted and have no `Preempted` event yet.
    silent_victims: BTreeSet<Uid>,
    /// Deletions without a reply, with the UIDs of the pods.
    deletions: BTreeMap<RequestId, Uid>,
    /// Patches of pods without a reply.
    touches: BTreeSet<RequestId>,
    /// The version that the last of them gave each pod, and the time of its reply.
    versions: BTreeMap<String, (u64, Time)>,
}

/// A binding that was sent.
#[derive(Debug)]
struct SentBinding {
    /// UID of the pod.
    uid: String,
    node: String,
    /// The resourceVersion that it names, if any.
    version: String,
    sent: Time,
    /// Whether an extender sends it.
    by_extender: bool,
    /// Whether a patch that would have stopped it was refused.
    is_fence_refused: bool,
}

/// Time in which the watch may not show a write of ours. The scheduler remembers its own writes for a minute.
const REMEMBERED: Duration = Duration::from_secs(55);

/// Time after which the scheduler takes a lost binding as dead that an extender sends.
const EXTENDER_WAIT: Duration = Duration::from_secs(90);

/// Time after which the scheduler takes a lost binding as dead whose fence was refused (decision 19).
const REFUSED_FENCE_WAIT: Duration = Duration::from_mins(10);

impl SentBinding {
    /// Whether the scheduler has to reckon with it.
    fn may_arrive(&self, now: Time) -> bool {
        match self.by_extender {
            true => now.since(self.sent) < EXTENDER_WAIT,
            false => !self.is_fence_refused || now.since(self.sent) < REFUSED_FENCE_WAIT,
        }
    }

    /// Whether the server would carry it out for this pod.
    fn may_bind(&self, pod: &Value) -> bool {
        is_open(pod, &self.uid) && !names_old_version(&self.version, pod)
    }
}

impl Writes {
    /// Checks an outgoing request. It is the only one for its object, and a write names the UID. No
    /// other binding may take effect on its pod, except for the same node after the server has refused a patch
    /// that would have stopped it. A bind names a version, so that a patch can stop it. The status of a bound
    /// pod is not written. A request that names an old resourceVersion has no effect, so no bind names a
    /// version that an earlier write of ours has replaced.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn sent(&mut self, server: &Server, request: &Request, now: Time) -> Checked {
        let object = object_of(&request.path);
        let creates_claim =
            request.method == Method::Post && request.path.ends_with("/resourceclaims");
        let is_first = creates_claim || self.at_work.values().all(|other| *other != object);
        rule(is_first, || format!("two requests for {object} are under way"))?;
        self.at_work.insert(request.id, object);
        let is_of_devices = request.path.contains("/resourceclaims");
        if request.method != Method::Get && !is_of_devices {
            self.is_meant_well(server, request)?;
        }
        if request.method == Method::Patch && request.path.ends_with("/status") && !is_of_devices {
            self.patches.insert(request.id, uid_in(&body_of(request), "metadata"));
        }
        if request.method == Method::Delete && !is_of_devices {
            let uid = uid_in(&body_of(request), "preconditions");
            self.deletions.insert(request.id, Uid::from(uid.as_str()));
        }
        let is_of_pods = request.path.starts_with("/api/v1/") && request.path.contains("/pods/");
        if request.method == Method::Patch && is_of_pods {
            self.touches.insert(request.id);
        }
        let Some(Bound { uid, node }) = Bound::by(request) else { return Ok(()) };
        let version = version_in(&body_of(request));
        let by_extender = request.destination != Destination::ApiServer;
        let named = version.parse().ok().filter(|_| !by_extender).unwrap_or(u64::MAX);
        rule(by_extender || !version.is_empty(), || format!("{uid} is bound in any version"))?;
        let own = self.versions.get(&uid).filter(|(_, at)| now.since(*at) < REMEMBERED);
        rule(own.is_none_or(|(own, _)| *own <= named), || {
            format!("{uid} is bound in version {named}, and our own write made it {own:?}")
        })?;
        let mut others = self.bindings.values();
        let other = others.find(|other| {
            other.uid == uid
                && other.node != node
                && other.may_arrive(now)
                && server.live_pods().any(|pod| other.may_bind(pod))
        });
        let broken =
            other.map(|other| format!("{uid} is bound to {node}, and to {} perhaps", other.node));
        let mut earlier = self.bindings.values().filter(|other| other.uid == uid);
        let unfenced = earlier.find(|other| {
            let is_ours = !by_extender && !other.by_extender && !other.is_fence_refused;
            is_ours && server.live_pods().any(|pod| other.may_bind(pod))
        });
        rule(unfenced.is_none(), || {
            format!("{uid} is bound again, and no patch was answered since {unfenced:?}")
        })?;
        let binding =
            SentBinding { uid, node, version, sent: now, by_extender, is_fence_refused: false };
        self.bindings.insert(request.id, binding);
        broken.map_or(Ok(()), Err)
    }

    /// Records victims for a preemptor of this priority, unless they are terminating.
    pub(crate) fn preempts(&mut self, preemption: &Preemption, priority: i32) {
        for victim in preemption.victims.iter().filter(|victim| !victim.terminating) {
            let highest = self.victims.entry(victim.uid.clone()).or_insert(priority);
            *highest = priority.max(*highest);
        }
    }

    fn is_meant_well(&self, server: &Server, request: &Request) -> Checked {
        let body = body_of(request);
        let is_deletion = request.method == Method::Delete;
        let uid = uid_in(&body, if is_deletion { "preconditions" } else { "metadata" });
        rule(!uid.is_empty(), || format!("{} does not say which pod is meant", request.path))?;
        if is_deletion || is_disruption(&body) {
            return self.may_evict(server, &uid);
        }
        let is_late = request.path.ends_with("/status")
            && self.bound.contains_key(&Uid::from(uid.as_str()))
            && server.live_pods().any(|pod| {
                pod["metadata"]["uid"] == uid && !names_old_version(&version_in(&body), pod)
            });
        rule(!is_late, || format!("{} of a pod that is bound", request.path))
    }

    /// Checks that pods are deleted only for preemptors of higher priority.
    fn may_evict(&self, server: &Server, uid: &str) -> Checked {
        let highest = self.victims.get(&Uid::from(uid));
        let highest = highest.ok_or_else(|| format!("{uid} is evicted for nobody"))?;
        let pod = server.live_pods().find(|pod| pod["metadata"]["uid"] == uid);
        let priority = pod.map(|pod| pod["spec"]["priority"].as_i64().unwrap_or(0));
        rule(priority.is_none_or(|priority| priority < i64::from(*highest)), || {
            format!("{uid} of priority {priority:?} is evicted for one of {highest}")
        })
    }

    /// Records a reply.
    pub(crate) fn replied(&mut self, request: RequestId, reply: &Reply, now: Time) {
        self.at_work.remove(&request);
        if let (true, Reply::Answered(Response { status: 200, body, .. })) =
            (self.touches.remove(&request), reply)
        {
            let pod: Value = serde_json::from_slice(body).unwrap_or_default();
            let version = version_in(&pod).parse().unwrap_or_default();
            self.versions.insert(uid_in(&pod, "metadata"), (version, now));
        }
        let deleted = self.deletions.remove(&request);
        if let (Some(pod), Reply::Answered(Response { status: status @ 400.., .. })) =
            (self.patches.remove(&request), reply)
            && *status != 409
        {
            let bindings = self.bindings.values_mut().filter(|binding| binding.uid == pod);
            bindings.for_each(|binding| binding.is_fence_refused = true);
        }
        if let (Some(pod), Reply::Answered(Response { status: 200, .. })) = (deleted, reply) {
            // From now on other pods that need the room know that the victim is terminating.
            self.victims.remove(&pod);
            self.silent_victims.insert(pod);
        }
    }

    /// Records that the request was carried out, or never will be.
    pub(crate) fn is_over(&mut self, request: RequestId) {
        self.bindings.remove(&request);
    }

    /// Records a binding that the server carried out.
    pub(crate) fn carried_out(&mut self, bound: &Bound) {
        self.bound.insert(Uid::from(bound.uid.as_str()), bound.node.clone());
    }

    /// Checks that a bound pod keeps its room on the node as long as it exists.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn keep_their_room(&mut self, server: &Server, engine: &Engine) -> Checked {
        let (cache, cluster) = (engine.cache(), engine.cache().cluster());
        let has_room = |uid: &Uid, node: &String| {
            cache.placed(uid).is_some_and(|placed| **cluster.node_name(placed.node) == **node)
        };
        for (uid, node) in self.bound.extract_if(.., |uid, node| !has_room(uid, node)) {
            let uid = uid.to_string();
            let is_there = server.live_pods().any(|pod| pod["metadata"]["uid"] == uid.as_str());
            rule(!is_there, || format!("{uid} is bound to {node} and has no room there"))?;
        }
        Ok(())
    }

    /// Checks an event: `Scheduled` is written once, and only for bound pods.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn announced(&mut self, server: &Server, event: &Event) -> Checked {
        if event.reason == "Preempted" {
            self.silent_victims.remove(&event.uid);
        }
        let Some((_, node)) =
            event.note.rsplit_once(" to ").filter(|_| event.reason == "Scheduled")
        else {
            return Ok(());
        };
        let uid = event.uid.to_string();
        let pod = server.live_pods().find(|pod| pod["metadata"]["uid"] == uid.as_str());
        rule(pod.is_none_or(|pod| pod["spec"]["nodeName"] == node), || {
            format!("{}, which is not true", event.note)
        })?;
        rule(self.announced.insert(event.uid.clone()), || {
            format!("{}, for the second time", event.note)
        })
    }

    /// Checks at rest that every bound pod has its `Scheduled` event, and every victim its `Preempted` event.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn are_announced(&self) -> Checked {
        let victim = self.silent_victims.first();
        rule(victim.is_none(), || format!("{victim:?} was evicted in silence"))?;
        let silent = self.bound.iter().find(|(uid, _)| !self.announced.contains(*uid));
        silent.map_or(Ok(()), |(uid, node)| Err(format!("{uid} is bound to {node} in silence")))
    }
}

fn body_of(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap_or_default()
}

/// Returns the UID in this section, or an empty one.
fn uid_in(body: &Value, section: &str) -> String {
    body[section]["uid"].as_str().unwrap_or_default().to_owned()
}

/// Returns the resourceVersion that a write names, or an empty one.
fn version_in(body: &Value) -> String {
    body["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

/// Whether the server refuses a write with this resourceVersion, because the pod has changed since.
fn names_old_version(version: &str, pod: &Value) -> bool {
    !version.is_empty() && *version != pod["metadata"]["resourceVersion"]
}

/// Whether a patch sets `DisruptionTarget`.
fn is_disruption(patch: &Value) -> bool {
    let conditions = patch["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "DisruptionTarget")
}

/// Whether a binding of the pod may still be carried out.
fn is_open(pod: &Value, uid: &str) -> bool {
    let metadata = &pod["metadata"];
    metadata["uid"] == uid
        && metadata["deletionTimestamp"].is_null()
        && pod["spec"]["nodeName"].is_null()
}

/// Returns the path of a pod, also for a subresource.
fn object_of(path: &str) -> String {
    path.trim_end_matches("/binding").trim_end_matches("/status").to_owned()
}
