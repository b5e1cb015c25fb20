//! What the scheduler has sent and what it must never send.

use std::collections::{BTreeMap, BTreeSet};

use client::{Method, Reply, Request, RequestId, Response};
use engine::{Engine, Event};
use framework::Uid;
use framework::preemption::Preemption;
use serde_json::Value;

use super::rules::{Checked, rule};
use super::server::{Bound, Server};

/// What one life of the scheduler has written, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Bindings that were sent and may have an effect still: UID and node.
    bindings: BTreeMap<RequestId, (String, String)>,
    /// The objects of requests that were not replied to.
    at_work: BTreeMap<RequestId, String>,
    /// The pods that were bound, with their nodes.
    bound: BTreeMap<Uid, String>,
    /// UIDs of the pods that were said to be scheduled.
    announced: BTreeSet<Uid>,
    /// UIDs of the pods that are to make room, with the highest priority of those they make it for.
    victims: BTreeMap<Uid, i32>,
    /// Deletions that were not replied to, with the UIDs of the pods.
    deletions: BTreeMap<RequestId, Uid>,
}

impl Writes {
    /// A request of the executor sets out. It is the only one for its object, and it names the UID
    /// if it writes. A binding is the only one that can have an effect on its pod, or all of those
    /// that can have the same. The status of a pod that is bound is not written to.
    ///
    /// # Errors
    /// It is not so.
    pub(crate) fn sent(&mut self, server: &Server, request: &Request) -> Checked {
        let object = object_of(&request.path);
        let is_first = self.at_work.values().all(|other| *other != object);
        rule(is_first, || format!("two requests for {object} are under way"))?;
        self.at_work.insert(request.id, object);
        if request.method != Method::Get {
            self.is_meant_well(server, request)?;
        }
        if request.method == Method::Delete {
            let uid = uid_in(&body_of(request), "preconditions");
            self.deletions.insert(request.id, Uid::from(uid.as_str()));
        }
        let Some(Bound { uid, node }) = Bound::by(request) else { return Ok(()) };
        let other = self.bindings.values().find(|(pod, at)| *pod == uid && *at != node);
        let other = other.filter(|_| server.live_pods().any(|pod| is_open(pod, &uid)));
        let broken =
            other.map(|(pod, at)| format!("{pod} is bound to {node}, and to {at} perhaps"));
        self.bindings.insert(request.id, (uid, node));
        broken.map_or(Ok(()), Err)
    }

    /// Pods are to make room for one of this priority, unless they are ending as it is.
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
            && server.live_pods().any(|pod| pod["metadata"]["uid"] == uid);
        rule(!is_late, || format!("{} of a pod that is bound", request.path))
    }

    /// Pods are evicted for those of higher priority, and nobody else is deleted.
    fn may_evict(&self, server: &Server, uid: &str) -> Checked {
        let highest = self.victims.get(&Uid::from(uid));
        let highest = highest.ok_or_else(|| format!("{uid} is evicted for nobody"))?;
        let pod = server.live_pods().find(|pod| pod["metadata"]["uid"] == uid);
        let priority = pod.map(|pod| pod["spec"]["priority"].as_i64().unwrap_or(0));
        rule(priority.is_none_or(|priority| priority < i64::from(*highest)), || {
            format!("{uid} of priority {priority:?} is evicted for one of {highest}")
        })
    }

    /// The scheduler has a reply.
    pub(crate) fn replied(&mut self, request: RequestId, reply: &Reply) {
        self.at_work.remove(&request);
        let deleted = self.deletions.remove(&request);
        if let (Some(pod), Reply::Answered(Response { status: 200, .. })) = (deleted, reply) {
            // Whoever needs its room from now on knows that it is on its way.
            self.victims.remove(&pod);
        }
    }

    /// The server has seen the request, or never will, for certain.
    pub(crate) fn is_over(&mut self, request: RequestId) {
        self.bindings.remove(&request);
    }

    /// The server has carried out a binding.
    pub(crate) fn carried_out(&mut self, bound: &Bound) {
        self.bound.insert(Uid::from(bound.uid.as_str()), bound.node.clone());
    }

    /// What was bound keeps its room on the node for as long as it is there, whatever the scheduler
    /// knows of it.
    ///
    /// # Errors
    /// It is not so.
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

    /// The scheduler says something of a pod: that it is scheduled is said of pods that are bound,
    /// and once.
    ///
    /// # Errors
    /// It is not so.
    pub(crate) fn announced(&mut self, server: &Server, event: &Event) -> Checked {
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

    /// Once everything is quiet, all that was bound has been said to be scheduled.
    ///
    /// # Errors
    /// It is not so.
    pub(crate) fn are_announced(&self) -> Checked {
        let silent = self.bound.iter().find(|(uid, _)| !self.announced.contains(*uid));
        silent.map_or(Ok(()), |(uid, node)| Err(format!("{uid} is bound to {node} in silence")))
    }
}

fn body_of(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap_or_default()
}

/// The UID in this section, or an empty one.
fn uid_in(body: &Value, section: &str) -> String {
    body[section]["uid"].as_str().unwrap_or_default().to_owned()
}

/// Whether a patch says that the pod is going to be evicted.
fn is_disruption(patch: &Value) -> bool {
    let conditions = patch["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "DisruptionTarget")
}

/// Whether a binding of the pod could still be carried out.
fn is_open(pod: &Value, uid: &str) -> bool {
    let metadata = &pod["metadata"];
    metadata["uid"] == uid
        && metadata["deletionTimestamp"].is_null()
        && pod["spec"]["nodeName"].is_null()
}

/// The path of a pod, also where that of a subresource was asked for.
fn object_of(path: &str) -> String {
    path.trim_end_matches("/binding").trim_end_matches("/status").to_owned()
}
