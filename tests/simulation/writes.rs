//! Invariants of the requests of the scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use control::{Destination, Method, Reply, Request, RequestId, Response};
use engine::{Engine, Event};
use framework::preemption::Preemption;
use framework::{Pod, Time, Uid};
use serde_json::Value;

use super::groups::is_member;
use super::rules::{Checked, rule};
use super::server::{Bound, Server};

/// The writes of one run of the scheduler, and their outcome.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Bindings that were sent and may still take effect.
    bindings: BTreeMap<RequestId, SentBinding>,
    /// Status patches without a reply, with the UIDs of the pods, and whether they are to stop a
    /// bind.
    patches: BTreeMap<RequestId, (String, bool)>,
    /// UIDs of the pods whose last status patch was not carried out, for all that is known.
    unwritten: BTreeSet<String>,
    /// UIDs of the pods whose binds such a patch was to stop, and was refused.
    refused_fences: BTreeSet<String>,
    /// The objects of requests without a reply.
    at_work: BTreeMap<RequestId, String>,
    /// The bound pods, with their nodes.
    bound: BTreeMap<Uid, String>,
    /// UIDs of the pods with a `Scheduled` event.
    announced: BTreeSet<Uid>,
    /// UIDs of victims, with the highest priority of their preemptors.
    victims: BTreeMap<Uid, i32>,
    /// The last victim of each preemptor, if it is certain, and the others.
    last_victims: BTreeMap<Uid, (Option<Uid>, Vec<Uid>)>,
    /// UIDs of the victims of groups.
    victims_of_groups: BTreeSet<Uid>,
    /// Victims that were deleted and have no `Preempted` event yet.
    silent_victims: BTreeSet<Uid>,
    /// Deletions without a reply, with the UIDs of the pods.
    deletions: BTreeMap<RequestId, Uid>,
    /// Patches of pods without a reply, with the generation of the specification that the scheduler
    /// knew.
    touches: BTreeMap<RequestId, Option<i64>>,
    /// The version that the last of them gave each pod, with the generation of its specification,
    /// and the time of the reply.
    versions: BTreeMap<String, (u64, Option<i64>, Time)>,
    /// UIDs of the pods that were to be patched.
    touched: BTreeSet<String>,
    /// UIDs of the pods that an answer has shown with a node.
    shown_bound: BTreeSet<String>,
    /// UIDs of the pods that the server has deleted for us.
    deleted: BTreeSet<String>,
    /// The generation of the specification of each pod in its last decision.
    decided: BTreeMap<Uid, u32>,
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

/// Time in which the watch may not show a write of ours. The scheduler remembers its own writes for
/// a minute.
const REMEMBERED: Duration = Duration::from_secs(55);

/// Time after which the scheduler takes a lost binding as dead that an extender sends.
const EXTENDER_WAIT: Duration = Duration::from_secs(90);

/// Time after which the scheduler takes a lost binding as dead whose fence was refused (decision
/// 19).
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
    /// other binding may take effect on its pod, except for the same node after the server has
    /// refused a patch that would have stopped it. A bind names a version, so that a patch can stop
    /// it. The status of a bound pod is not written. A request that names an old resourceVersion
    /// has no effect, so no bind names a version that an earlier write of ours has replaced.
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
            let uid = uid_in(&body_of(request), "metadata");
            // The attempt is over.
            if !is_fence(request) {
                self.refused_fences.remove(&uid);
            }
            self.patches.insert(request.id, (uid, is_fence(request)));
        }
        if request.method == Method::Delete && !is_of_devices {
            let uid = uid_in(&body_of(request), "preconditions");
            rule(!self.deleted.contains(&uid), || format!("{uid} is evicted for the second time"))?;
            self.deletions.insert(request.id, Uid::from(uid.as_str()));
        }
        let is_of_pods = request.path.starts_with("/api/v1/") && request.path.contains("/pods/");
        if request.method == Method::Patch && is_of_pods {
            self.touches.insert(request.id, observed_generation(&body_of(request)));
            self.touched.insert(uid_in(&body_of(request), "metadata"));
        }
        let Some(Bound { uid, node }) = Bound::by(request) else { return Ok(()) };
        let version = version_in(&body_of(request));
        let by_extender = request.destination != Destination::ApiServer;
        let named = version.parse().ok().filter(|_| !by_extender).unwrap_or(u64::MAX);
        rule(by_extender || !version.is_empty(), || format!("{uid} is bound in any version"))?;
        let own = self.versions.get(&uid).filter(|(.., at)| now.since(*at) < REMEMBERED);
        let decided = self.decided.get(&Uid::from(uid.as_str())).map(|own| i64::from(*own));
        // A bind in the version of another specification than was decided on has to be refused.
        let own = own.filter(|(_, written, _)| decided.is_none() || decided == *written);
        rule(own.is_none_or(|(own, ..)| *own <= named), || {
            format!(
                "{}: {uid}, decided on in generation {decided:?}, is bound in version {named}, and \
                 our own write made it {own:?}",
                request.path
            )
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
        // After a refused patch the pod is bound to the node again and again, without another patch
        // between.
        let is_fence_refused = self.refused_fences.contains(&uid);
        let binding = SentBinding { uid, node, version, sent: now, by_extender, is_fence_refused };
        self.bindings.insert(request.id, binding);
        broken.map_or(Ok(()), Err)
    }

    /// Records victims for a preemptor of this priority, unless they are terminating.
    pub(crate) fn preempts(&mut self, preemption: &Preemption, priority: i32) {
        let mut victims = preemption.victims.clone();
        // The least important of those on the node comes last. Others of their groups may be on
        // other nodes.
        let is_near = |victim: &Arc<Pod>| victim.node_name.as_ref() == Some(&preemption.node);
        if let Some(last) = victims.iter().rposition(is_near) {
            victims[last..].rotate_left(1);
        }
        let mut others: Vec<Uid> = victims.iter().map(|victim| victim.uid.clone()).collect();
        // Victims that are evicted for another pod are not evicted again, so another one may be the
        // last.
        let are_new = preemption
            .victims
            .iter()
            .all(|own| !own.terminating && !self.victims.contains_key(&own.uid));
        let last = if are_new { others.pop() } else { None };
        self.last_victims.insert(preemption.uid.clone(), (last, others));
        for victim in preemption.victims.iter().filter(|victim| !victim.terminating) {
            let highest = self.victims.entry(victim.uid.clone()).or_insert(priority);
            *highest = priority.max(*highest);
        }
    }

    /// Records victims for a group of this priority. Which of them is the last is not known.
    pub(crate) fn group_preempts(&mut self, victims: &[Uid], priority: i32) {
        for victim in victims {
            let highest = self.victims.entry(victim.clone()).or_insert(priority);
            *highest = priority.max(*highest);
        }
        self.victims_of_groups.extend(victims.iter().cloned());
    }

    /// Checks a write of a pod. No condition or nomination is written once an answer has shown that
    /// the pod has a node. A write of a plugin may follow such an answer: it may wait behind a
    /// patch that reads the pod after a conflict.
    fn is_meant_well(&self, server: &Server, request: &Request) -> Checked {
        let body = body_of(request);
        let is_deletion = request.method == Method::Delete;
        let uid = uid_in(&body, if is_deletion { "preconditions" } else { "metadata" });
        rule(!uid.is_empty(), || format!("{} does not say which pod is meant", request.path))?;
        if is_deletion || is_disruption(&body) {
            self.are_others_evicted(server, &uid)?;
            return self.may_evict(server, &uid);
        }
        let status = &body["status"];
        let is_status = request.path.ends_with("/status")
            && !(status["conditions"].is_null() && status.get("nominatedNodeName").is_none());
        let is_known =
            self.bound.contains_key(&Uid::from(uid.as_str())) || self.shown_bound.contains(&uid);
        let is_late = is_status
            && is_known
            && server.live_pods().any(|pod| {
                pod["metadata"]["uid"] == uid && !names_old_version(&version_in(&body), pod)
            });
        rule(!is_late, || format!("{} of a pod that is bound: {body}", request.path))
    }

    /// Checks that the last victim of a preemptor is evicted only after the others: if one of these
    /// evictions fails, the pod would be evicted in vain.
    fn are_others_evicted(&self, server: &Server, uid: &str) -> Checked {
        let uid = Uid::from(uid);
        let mut orders = self.last_victims.values();
        let is_for_group = self.victims_of_groups.contains(&uid);
        if is_for_group || orders.any(|(_, others)| others.contains(&uid)) {
            return Ok(());
        }
        let stays = |other: &&Uid| {
            let other = other.to_string();
            server.live_pods().any(|pod| {
                let metadata = &pod["metadata"];
                metadata["uid"] == other.as_str()
                    && metadata["deletionTimestamp"].is_null()
                    && !pod["spec"]["nodeName"].is_null()
            })
        };
        let mut waiting =
            self.last_victims.values().filter(|(last, _)| last.as_ref() == Some(&uid));
        let is_due = waiting.clone().count() == 0
            || waiting.any(|(_, others)| others.iter().find(stays).is_none());
        rule(is_due, || {
            format!("{uid} is evicted before the other victims: {:?}", self.last_victims)
        })
    }

    /// Checks that a victim that is deleted has the condition that says so.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn tells_its_victim(server: &Server, request: &Request) -> Checked {
        if request.method != Method::Delete || !request.path.contains("/pods/") {
            return Ok(());
        }
        let uid = uid_in(&body_of(request), "preconditions");
        let pod = server.live_pods().find(|pod| pod["metadata"]["uid"] == uid.as_str());
        let conditions = pod.map(|pod| pod["status"]["conditions"].as_array());
        let is_told = conditions.is_none_or(|all| {
            all.into_iter().flatten().any(|condition| condition["type"] == "DisruptionTarget")
        });
        rule(is_told, || format!("{} is evicted without a condition: {conditions:?}", request.path))
    }

    /// Checks that pods are deleted only for preemptors of higher priority.
    fn may_evict(&self, server: &Server, uid: &str) -> Checked {
        let highest = self.victims.get(&Uid::from(uid));
        let highest = highest.ok_or_else(|| format!("{uid} is evicted for nobody"))?;
        let pod = server.live_pods().find(|pod| pod["metadata"]["uid"] == uid);
        // The priority of its PodGroup protects a member.
        let pod = pod.filter(|pod| !is_member(pod));
        let priority = pod.map(|pod| pod["spec"]["priority"].as_i64().unwrap_or(0));
        rule(priority.is_none_or(|priority| priority < i64::from(*highest)), || {
            format!("{uid} of priority {priority:?} is evicted for one of {highest}")
        })
    }

    /// Records a reply.
    pub(crate) fn replied(&mut self, request: RequestId, reply: &Reply, now: Time) {
        self.at_work.remove(&request);
        self.note_bound(reply);
        let touched = self.touches.remove(&request);
        if let (Some(known), Reply::Answered(Response { status: 200, body, .. })) = (touched, reply)
        {
            let pod: Value = serde_json::from_slice(body).unwrap_or_default();
            let (uid, generation) =
                (uid_in(&pod, "metadata"), pod["metadata"]["generation"].as_i64());
            // A bind to a specification that the scheduler did not know has to be refused, and one
            // of a bound pod.
            let is_to_be_named = generation.is_some()
                && (known.is_none() || known == generation)
                && pod["spec"]["nodeName"].is_null();
            match is_to_be_named {
                true => {
                    let version = version_in(&pod).parse().unwrap_or_default();
                    self.versions.insert(uid, (version, generation, now));
                }
                false => drop(self.versions.remove(&uid)),
            }
        }
        let deleted = self.deletions.remove(&request);
        let patched = self.patches.remove(&request);
        if let Some((pod, _)) = &patched {
            match reply {
                Reply::Answered(Response { status: 200, .. }) => self.unwritten.remove(pod),
                _ => self.unwritten.insert(pod.clone()),
            };
        }
        if let Some((pod, is_fence)) = patched.filter(|_| is_refusal(reply)) {
            if is_fence {
                self.refused_fences.insert(pod.clone());
            }
            let bindings = self.bindings.values_mut().filter(|binding| binding.uid == pod);
            bindings.for_each(|binding| binding.is_fence_refused = true);
        }
        if let (Some(pod), Reply::Answered(Response { status: 200, .. })) = (deleted, reply) {
            // From now on other pods that need the room know that the victim is terminating.
            self.victims.remove(&pod);
            self.deleted.insert(pod.to_string());
            self.silent_victims.insert(pod);
        }
    }

    /// Notes a pod with a node that an answer shows.
    fn note_bound(&mut self, reply: &Reply) {
        let Reply::Answered(Response { status: 200, body, .. }) = reply else { return };
        let object = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let is_bound = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        if object["kind"] == "Pod" && is_bound {
            self.shown_bound.insert(uid_in(&object, "metadata"));
        }
    }

    /// Records the specification that the decision for a node is based on.
    pub(crate) fn decided(&mut self, pod: &Pod) {
        self.decided.insert(pod.uid.clone(), pod.generation);
    }

    /// Checks that a pod that is bound has the specification that was decided on.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn is_as_decided(&self, server: &Server, bound: &Bound) -> Checked {
        let pod = server.live_pods().find(|pod| pod["metadata"]["uid"] == bound.uid.as_str());
        let generation = pod.and_then(|pod| pod["metadata"]["generation"].as_i64());
        let decided = self.decided.get(&Uid::from(bound.uid.as_str()));
        let (Some(generation), Some(decided)) = (generation, decided) else { return Ok(()) };
        rule(generation == i64::from(*decided), || {
            format!("{bound:?} in generation {generation}, and {decided} was decided on")
        })
    }

    /// Checks that a pod keeps its room as long as the server would carry out a bind that was sent.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn are_reckoned_with(&self, server: &Server, engine: &Engine, now: Time) -> Checked {
        let (cache, cluster) = (engine.world(), engine.cluster());
        for binding in self.bindings.values().filter(|binding| binding.may_arrive(now)) {
            if !server.live_pods().any(|pod| binding.may_bind(pod)) {
                continue;
            }
            let placed = cache.placed(&Uid::from(binding.uid.as_str()));
            let node = placed.map(|placed| &**cluster.node_name(placed.node));
            rule(node == Some(&*binding.node), || {
                format!("{binding:?} may be carried out, and its room is on {node:?}")
            })?;
        }
        Ok(())
    }

    /// Checks that no bind is stopped whose outcome the watch has shown.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn seek_no_known_outcome(
        &self,
        engine: &Engine,
        is_shown: impl Fn(&Uid) -> bool,
    ) -> Checked {
        let fences = self.patches.values().filter(|(_, is_fence)| *is_fence);
        let mut pods = fences.map(|(uid, _)| Uid::from(uid.as_str()));
        let known = pods.find(|uid| is_shown(uid) && engine.is_binding(uid));
        rule(known.is_none(), || {
            format!("the watch shows {known:?} bound, and its binding cycle goes on")
        })
    }

    /// Whether the process has patched the pod, or has tried to.
    pub(crate) fn have_touched(&self, uid: &str) -> bool {
        self.touched.contains(uid)
    }

    /// Returns the number of pods that the process has patched, or has tried to.
    pub(crate) fn touched(&self) -> usize {
        self.touched.len()
    }

    /// Whether the server has carried out the last status patch of the pod, if there was one. One
    /// that is refused is not repeated before the next attempt.
    pub(crate) fn have_status(&self, uid: &str) -> bool {
        !self.unwritten.contains(uid)
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
        let (cache, cluster) = (engine.world(), engine.cluster());
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

    /// Checks at rest that every bound pod has its `Scheduled` event, and every victim its
    /// `Preempted` event.
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

/// Whether a patch is to stop a bind of unknown outcome.
pub(crate) fn is_fence(request: &Request) -> bool {
    String::from_utf8_lossy(&request.body).contains("is unknown (try ")
}

/// Whether a patch that was answered so is certainly not carried out, and is not outdated either.
fn is_refusal(reply: &Reply) -> bool {
    let response = match reply {
        Reply::Answered(response) => response,
        other => return matches!(other, Reply::NotSent(_)),
    };
    let body = String::from_utf8_lossy(&response.body);
    match response.status {
        _ if body.contains("denied the request") => true,
        409 | 429 => false,
        400..500 => true,
        500 => body.contains("\"InternalError\"") && !body.contains("etcdserver"),
        _ => false,
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

/// Returns the generation that the conditions of a patch are about.
fn observed_generation(patch: &Value) -> Option<i64> {
    let conditions = patch["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find_map(|condition| condition["observedGeneration"].as_i64())
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
