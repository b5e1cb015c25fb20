//! A plugin that lets pods wait, rejects them and writes, and checks how it is called.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use framework::{
    ActionType, Attempt, AttemptMut, ClusterEvent, Command, EventResource, ObjectKey, Permit,
    PermitVerdict, Plugin, Pod, PostBind, PreBind, PreBindInput, PreBindPreFlight, PreBindStep,
    Reserve, Status, Time, Uid, Write, WriteAction,
};
use serde_json::json;

use super::server::{ANNOTATION, LABEL};

/// Names of the plugin and of a second one, for which some pods wait in Permit, too.
pub(crate) const NAMES: [&str; 2] = ["First", "Second"];

/// What the plugin does with a pod: nothing; lets it wait in Permit, for one plugin or for both;
/// lets it wait in PreBind for some object or for its own; writes it; rejects it in PreBind, in
/// Reserve or in PreBindPreFlight, once; asks for a write without waiting, and rejects the pod
/// until it is written.
pub(crate) const DOES: [&str; 11] = [
    "nothing",
    "permit",
    "both",
    "wait",
    "wait-own",
    "write",
    "reject",
    "reserve",
    "flight",
    "ask",
    "write-wait",
];

/// How long a pod waits in Permit for each of them.
pub(crate) const PERMIT_WAITS: [Duration; 2] = [Duration::from_secs(7), Duration::from_secs(2)];

/// The longest wait in PreBind.
const WAIT: Duration = Duration::from_secs(4);

/// What the plugin has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The node that is reserved for each pod.
    pub(crate) reserved: BTreeMap<Uid, String>,
    /// Number of times that PostBind ran for each pod.
    pub(crate) bound: BTreeMap<Uid, u32>,
    /// The end of the wait of each pod in PreBind.
    pub(crate) waits: BTreeMap<Uid, Time>,
    /// The pods that were rejected or have waited.
    once: BTreeMap<Uid, u32>,
    /// What should not have been called.
    pub(crate) violations: Vec<String>,
}

/// The plugin under one of its names.
#[derive(Debug)]
pub(crate) struct Scripted {
    seen: Arc<Mutex<Seen>>,
    is_second: bool,
}

/// Returns what plugins have seen.
pub(crate) fn look(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Creates the plugin under each of its names.
pub(crate) fn plugins(seen: &Arc<Mutex<Seen>>) -> [Plugin; 2] {
    let own = |is_second| Scripted { seen: seen.clone(), is_second };
    [
        Plugin::new(NAMES[0], own(false))
            .reserve()
            .permit()
            .pre_bind()
            .post_bind()
            .on(ClusterEvent::new(EventResource::Pod, ActionType::UPDATE_POD_LABEL))
            .build(),
        Plugin::new(NAMES[1], own(true)).permit().pre_bind().build(),
    ]
}

fn does(pod: &Pod) -> &str {
    pod.labels.get(LABEL).unwrap_or_default()
}

impl Scripted {
    fn look(&self) -> MutexGuard<'_, Seen> {
        look(&self.seen)
    }
}

impl Seen {
    /// Whether this is the first time for the pod.
    fn is_first(&mut self, pod: &Pod) -> bool {
        let times = self.once.entry(pod.uid.clone()).or_default();
        *times += 1;
        *times == 1
    }
}

impl Reserve for Scripted {
    fn reserve(&self, attempt: AttemptMut<'_>, node: &str) -> Status {
        let AttemptMut { pod, handle, .. } = attempt;
        let mut seen = self.look();
        if let Some(other) = seen.reserved.insert(pod.uid.clone(), node.to_owned()) {
            let text =
                format!("{} is reserved on {node} while {other} is reserved for it", pod.key);
            seen.violations.push(text);
        }
        match does(pod) {
            "reserve" if seen.is_first(pod) => Status::unschedulable("not yet"),
            "ask" if pod.labels.get(ANNOTATION).is_none() => {
                let (key, uid) = (pod.key.clone(), pod.uid.clone());
                handle.command(Command::Write { pod: key, uid, write: annotation(pod) });
                Status::unschedulable("is not written")
            }
            _ => Status::success(),
        }
    }

    /// A pod that was rejected is tried again, because no event helps it.
    fn unreserve(&self, attempt: AttemptMut<'_>, _: &str) {
        let AttemptMut { pod, handle, .. } = attempt;
        let mut seen = self.look();
        seen.reserved.remove(&pod.uid);
        seen.waits.remove(&pod.uid);
        if ["permit", "both", "reject", "reserve"].contains(&does(pod)) {
            handle.command(Command::Activate(vec![pod.key.clone()]));
        }
    }
}

impl PostBind for Scripted {
    fn post_bind(&self, attempt: &Attempt<'_>, _: &str) {
        *self.look().bound.entry(attempt.pod.uid.clone()).or_default() += 1;
    }
}

impl Permit for Scripted {
    /// A pod waits until a timeout rejects it, or another pod that arrives lets it pass or be
    /// rejected; once.
    fn permit(&self, attempt: AttemptMut<'_>, _: &str) -> PermitVerdict {
        let AttemptMut { pod, handle, .. } = attempt;
        let mut seen = self.look();
        if !self.is_second
            && let Some((other, waiting)) = handle.waiting.iter().next()
            && let Some(plugin) = waiting.pending.keys().next()
        {
            let (other, plugin, message) = (other.clone(), plugin.clone(), "gives way".into());
            handle.command(match pod.labels.get("mark").is_some_and(|mark| mark == "1") {
                true => Command::Allow { pod: other, plugin },
                false => Command::Reject { pod: other, plugin, message },
            });
        }
        let waits = match (does(pod), self.is_second) {
            ("permit", false) => seen.is_first(pod),
            ("both", false) => seen.is_first(pod),
            ("both", true) => seen.once.get(&pod.uid) == Some(&1),
            _ => false,
        };
        if !waits {
            return PermitVerdict::Allow;
        }
        let timeout = PERMIT_WAITS[usize::from(self.is_second)];
        PermitVerdict::Wait { timeout, reason: "waits for its turn".to_owned() }
    }
}

impl PreBind for Scripted {
    fn pre_flight(&self, attempt: &Attempt<'_>, _: &str) -> PreBindPreFlight {
        let mut seen = self.look();
        if self.is_second {
            return match does(attempt.pod) == "write-wait" {
                true => PreBindPreFlight::Run { allow_parallel: true },
                false => PreBindPreFlight::Skip { allow_parallel: true },
            };
        }
        match does(attempt.pod) {
            "flight" if seen.is_first(attempt.pod) => {
                PreBindPreFlight::Fail(Status::error("not yet"))
            }
            "wait" | "wait-own" | "write" | "reject" | "write-wait" => {
                PreBindPreFlight::Run { allow_parallel: true }
            }
            _ => PreBindPreFlight::Skip { allow_parallel: true },
        }
    }

    fn pre_bind(&self, attempt: AttemptMut<'_>, _: &str, input: PreBindInput<'_>) -> PreBindStep {
        let AttemptMut { pod, handle, .. } = attempt;
        let mut seen = self.look();
        let now = handle.now;
        match input {
            PreBindInput::Start => match (does(pod), self.is_second) {
                ("write", _) | ("write-wait", false) => PreBindStep::Write(annotation(pod)),
                ("reject", _) => PreBindStep::Done(match seen.is_first(pod) {
                    true => Status::unschedulable("comes at a bad time"),
                    false => Status::success(),
                }),
                _ => {
                    seen.waits.insert(pod.uid.clone(), now + WAIT);
                    wait(pod)
                }
            },
            PreBindInput::Answer(answer) => PreBindStep::Done(match answer.failure() {
                None => Status::success(),
                Some(text) => Status::error(text.to_owned()),
            }),
            PreBindInput::Deadline => {
                let until = seen.waits.remove(&pod.uid);
                if until.is_none_or(|until| now < until) {
                    seen.violations.push(format!(
                        "{} waits until {until:?}, and is called at {now:?}",
                        pod.key
                    ));
                }
                PreBindStep::Done(Status::success())
            }
            _ => wait(pod),
        }
    }
}

/// Waits for a change of any object, or of the pod.
fn wait(pod: &Pod) -> PreBindStep {
    let objects = match does(pod) {
        "wait-own" => vec![
            ObjectKey::pod(&pod.key),
            ObjectKey::cluster_scoped(EventResource::Node, "n0".into()),
        ],
        _ => Vec::new(),
    };
    PreBindStep::Wait { timeout: WAIT, objects }
}

fn annotation(pod: &Pod) -> Write {
    let metadata = json!({ "uid": pod.uid.to_string(), "annotations": { ANNOTATION: "yes" } });
    Write {
        api_version: "v1".into(),
        resource: "pods".into(),
        namespace: pod.key.namespace.clone(),
        name: pod.key.name.clone(),
        subresource: None,
        flow: "".into(),
        action: WriteAction::MergePatch(json!({ "metadata": metadata })),
    }
}
