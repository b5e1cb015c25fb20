//! The requests of the engine, and what the server does with each.

use engine::{EffectId, EffectKind};
use framework::{Answer, Binding, PodKey, ScheduledCondition, Time, Uid, Write};
use serde_json::{Value, json};

use super::super::scheduler::server::{Server, Stored};

/// A request that was sent, and may be carried out.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) id: EffectId,
    pub(super) kind: EffectKind,
    pub(super) pod: PodKey,
    pub(super) uid: Uid,
    pub(super) at: Time,
    /// The answer of the server, once the request was carried out.
    pub(super) carried_out: Option<Answer>,
    pub(super) is_answered: bool,
}

impl Sent {
    /// Returns a request for a pod; `None` for events and status patches, which need no answer.
    pub(super) fn new(id: EffectId, kind: EffectKind, at: Time) -> Option<Self> {
        let (pod, uid) = match &kind {
            EffectKind::Bind { binding: Binding { pod, uid, .. }, .. }
            | EffectKind::ExtenderBind { binding: Binding { pod, uid, .. }, .. }
            | EffectKind::ReadPod { pod, uid }
            | EffectKind::Fence { pod, uid, .. } => (pod.clone(), uid.clone()),
            EffectKind::Write(write) => {
                let uid = write.body()["metadata"]["uid"].as_str().unwrap_or_default();
                (PodKey::new(&write.namespace, &write.name), uid.into())
            }
            _ => return None,
        };
        Some(Self { id, kind, pod, uid, at, carried_out: None, is_answered: false })
    }

    pub(super) const fn is_bind(&self) -> bool {
        matches!(self.kind, EffectKind::Bind { .. } | EffectKind::ExtenderBind { .. })
    }

    /// Whether the request looks for the outcome of a bind.
    pub(super) const fn finds_out(&self) -> bool {
        matches!(self.kind, EffectKind::ReadPod { .. } | EffectKind::Fence { .. })
    }

    /// Returns the node that the pod would be bound to if the request were carried out now.
    pub(super) fn would_bind(&self, server: &Server) -> Option<String> {
        let (node, version) = match &self.kind {
            EffectKind::Bind { binding, resource_version, .. } => {
                (&binding.node, *resource_version)
            }
            EffectKind::ExtenderBind { binding, .. } => (&binding.node, 0),
            _ => return None,
        };
        let pod = server.by_uid(&self.uid.to_string())?;
        let is_of_version = version == 0 || version == pod.version;
        (pod.node.is_none() && !pod.is_deleting && is_of_version).then(|| node.to_string())
    }

    /// Carries the request out.
    pub(super) fn serve(&self, server: &mut Server, time: &str) -> Answer {
        let Some(pod) = server.pods.get(&*self.pod.name).cloned() else {
            return Answer::Gone(format!("pods {:?} not found", self.pod.name));
        };
        if let EffectKind::ReadPod { .. } = self.kind {
            return Answer::Ok(Some(pod.to_json()));
        }
        if *pod.uid != *self.uid.to_string() {
            return Answer::Conflict("another UID".to_owned());
        }
        match &self.kind {
            EffectKind::Bind { .. } | EffectKind::ExtenderBind { .. } => {
                if let Some(node) = self.would_bind(server) {
                    server.bind(&pod.name, node);
                    return Answer::ok();
                }
                match (&self.kind, &pod.node, pod.is_deleting) {
                    (EffectKind::ExtenderBind { .. }, ..) => {
                        Answer::Error("cannot bind".to_owned())
                    }
                    (_, Some(node), _) => Answer::Conflict(format!("is assigned to {node}")),
                    (_, None, true) => Answer::Conflict("is being deleted".to_owned()),
                    (_, None, false) => Answer::Outdated("has changed".to_owned()),
                }
            }
            EffectKind::Fence { resource_version, condition, .. } => {
                if pod.version != *resource_version {
                    return Answer::Conflict("has changed".to_owned());
                }
                let condition = to_json(condition, time);
                let conditions = [("PodScheduled".to_owned(), condition)].into();
                store_changed(server, &pod, Stored { conditions, ..pod.clone() })
            }
            EffectKind::Write(Write { .. }) => {
                store_changed(server, &pod, Stored { is_annotated: true, ..pod.clone() })
            }
            _ => Answer::ok(),
        }
    }
}

fn to_json(condition: &ScheduledCondition, time: &str) -> Value {
    json!({ "type": "PodScheduled", "status": "False", "lastTransitionTime": time,
        "reason": &*condition.reason, "message": &*condition.message })
}

/// Stores a pod unless nothing has changed. Returns it as it is.
fn store_changed(server: &mut Server, before: &Stored, pod: Stored) -> Answer {
    let name = pod.name.clone();
    if *before != pod {
        server.store(pod);
    }
    Answer::Ok(server.pods.get(&name).map(Stored::to_json))
}

/// Carries out a patch of the status at once.
pub(super) fn patch_status(server: &mut Server, kind: &EffectKind, time: &str) {
    let EffectKind::PatchPodStatus { pod, uid, patch, .. } = kind else { return };
    let known = server.pods.get(&*pod.name).filter(|pod| *pod.uid == *uid.to_string());
    let Some(known) = known.filter(|pod| pod.node.is_none()).cloned() else { return };
    let mut new = known.clone();
    if let Some(condition) = &patch.condition {
        let condition = to_json(condition, time);
        new.conditions.insert("PodScheduled".to_owned(), condition);
    }
    match patch.nominated_node_name.as_deref() {
        Some("") => new.nominated = None,
        Some(node) => new.nominated = Some(node.to_owned()),
        None => {}
    }
    store_changed(server, &known, new);
}

/// Whether an answer shows that the pod cannot be bound by this cycle any more: it is gone, going,
/// bound or another one.
pub(super) fn shows_end(answer: &Answer, uid: &Uid) -> bool {
    let pod = match answer {
        Answer::Ok(Some(pod)) => pod,
        Answer::Gone(_) => return true,
        _ => return false,
    };
    let is_set = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    is_set(&pod["spec"]["nodeName"])
        || is_set(&pod["metadata"]["deletionTimestamp"])
        || pod["metadata"]["uid"] != *uid.to_string()
}
