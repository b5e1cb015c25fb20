//! Plugins that wait, like plugins that wait for volumes or for other pods of a gang.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use framework::{
    ActionType, Attempt, AttemptMut, ClusterEvent, Code, Command, EventForPod, EventResource,
    Handle, HintResult, Permit, PermitVerdict, Plugin, PluginArgs, Pod, PodDeleted, PreBind,
    PreBindInput, PreBindPreFlight, PreBindStep, QueueingHint, Reserve, Status, Uid, Write,
    WriteAction,
};
use serde_json::json;

/// Plugin name.
pub(crate) const NAME: &str = "Patience";
/// Name of another plugin, for which some of the pods wait, too.
pub(crate) const RESTRAINT: &str = "Restraint";
/// The label that chooses the behaviour for a pod: one of [`VALUES`].
pub(crate) const LABEL: &str = "patience";
/// Wait in Permit, once, for one plugin or for two; wait in PreBind; write in PreBind; reject in
/// PreBind, once; answer Pending in Reserve, once; fail in PreBindPreFlight while the pod is to
/// wait in Permit, once.
pub(crate) const VALUES: [&str; 7] = [PERMIT, BOTH, WAIT, WRITE, REJECT, PENDING, FAIL];
/// The text of a rejection while the pod waits in Permit.
pub(crate) const TURNED_AWAY: &str = "gives way to another pod";
/// The text of the answer Pending.
pub(crate) const PENDING_TEXT: &str = "waits for the end of a pod";
/// The text of a rejection in PreBind.
pub(crate) const REJECTION: &str = "comes at a bad time";

const PERMIT: &str = "permit";
const BOTH: &str = "both";
const WAIT: &str = "wait";
const WRITE: &str = "write";
const REJECT: &str = "reject";
const PENDING: &str = "pending";
const FAIL: &str = "fail";

/// The plugin.
#[derive(Debug, Default)]
struct Patience {
    /// Pods that have waited in Permit, or were rejected in PreBind.
    waited: Mutex<BTreeSet<Uid>>,
    /// Pods that have failed in PreBindPreFlight.
    failed: Mutex<BTreeSet<Uid>>,
    /// Pods that wait in Permit, and during whose wait no placed pod was deleted, and pods that are
    /// rejected in PreBind. No event helps them.
    to_call_back: Mutex<BTreeSet<Uid>>,
}

/// Creates the plugin; it takes no arguments.
///
/// # Errors
/// None.
pub(crate) fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    let plugin = Plugin::new(NAME, Patience::default());
    let deletion = ClusterEvent::new(EventResource::Pod, ActionType::DELETE);
    let plugin = plugin.reserve().permit().pre_bind().pod_deleted();
    Ok(plugin.on_with_hint(deletion, Patience::hint).build())
}

/// A plugin that only waits in Permit.
#[derive(Debug, Default)]
struct Restraint {
    /// Pods that have waited.
    waited: Mutex<BTreeSet<Uid>>,
}

/// Creates the other plugin; it takes no arguments.
///
/// # Errors
/// None.
pub(crate) fn restraint(_args: &PluginArgs) -> Result<Plugin, String> {
    let plugin = Plugin::new(RESTRAINT, Restraint::default());
    let deletion = ClusterEvent::new(EventResource::Pod, ActionType::DELETE);
    Ok(plugin.permit().on(deletion).build())
}

impl Permit for Restraint {
    fn permit(&self, attempt: AttemptMut<'_>, _: &str) -> PermitVerdict {
        let mut waited = self.waited.lock().expect("nobody panics with the lock");
        match asks(attempt.pod, BOTH) && waited.insert(attempt.pod.uid.clone()) {
            true => wait(attempt.pod, Duration::from_millis(900)),
            false => PermitVerdict::Allow,
        }
    }
}

fn asks(pod: &Pod, value: &str) -> bool {
    pod.labels.get(LABEL).is_some_and(|own| own == value)
}

/// Whether the pod belongs to one half of all pods.
fn is_even(pod: &Pod) -> bool {
    pod.uid.to_string().bytes().map(u32::from).sum::<u32>() % 2 == 0
}

/// Returns a wait of this length, or of ten times the length, depending on the pod.
fn wait(pod: &Pod, short: Duration) -> PermitVerdict {
    let timeout = if is_even(pod) { short * 10 } else { short };
    PermitVerdict::Wait { timeout, reason: "waits for its turn".to_owned() }
}

impl Permit for Patience {
    /// A pod waits until another one arrives for each plugin, or a timeout passes. Every second one
    /// that arrives lets it be rejected instead.
    fn permit(&self, attempt: AttemptMut<'_>, _: &str) -> PermitVerdict {
        let AttemptMut { pod, handle, .. } = attempt;
        let first = handle.waiting.iter().next();
        if let Some((other, plugin)) =
            first.and_then(|(uid, own)| Some((uid, own.pending.keys().next()?)))
        {
            let (other, plugin) = (other.clone(), plugin.clone());
            handle.command(match is_even(pod) {
                true => Command::Allow { pod: other, plugin },
                false => Command::Reject { pod: other, plugin, message: TURNED_AWAY.into() },
            });
        }
        let mut waited = self.waited.lock().expect("nobody panics with the lock");
        if [PERMIT, BOTH, FAIL].iter().any(|value| asks(pod, value))
            && waited.insert(pod.uid.clone())
        {
            self.to_call_back().insert(pod.uid.clone());
            return wait(pod, Duration::from_millis(500));
        }
        PermitVerdict::Allow
    }
}

impl Reserve for Patience {
    fn reserve(&self, attempt: AttemptMut<'_>, _: &str) -> Status {
        let mut waited = self.waited.lock().expect("nobody panics with the lock");
        match asks(attempt.pod, PENDING) && waited.insert(attempt.pod.uid.clone()) {
            true => Status::new(Code::Pending, PENDING_TEXT),
            false => Status::success(),
        }
    }

    /// A deletion during the wait of a pod that timed out in Permit requeues it. The plugin itself
    /// requeues the others.
    fn unreserve(&self, attempt: AttemptMut<'_>, _: &str) {
        if self.to_call_back().remove(&attempt.pod.uid) {
            attempt.handle.command(Command::Activate(vec![attempt.pod.key.clone()]));
        }
    }
}

impl PodDeleted for Patience {
    /// The deletion of a pod without a node is no event, so the pods that wait in Permit are
    /// activated: the engine requeues those that are rejected later.
    fn pod_deleted(&self, pod: &Pod, handle: &Handle<'_>) {
        if pod.node_name.is_some() {
            return self.to_call_back().clear();
        }
        self.to_call_back().retain(|waiting| !handle.waiting.contains_key(waiting));
        let waiting = handle.waiting.values().map(|waiting| waiting.pod.key.clone());
        handle.command(Command::Activate(waiting.collect()));
    }
}

impl Patience {
    /// Every deletion helps. Half of the hints fail, which counts as help, too.
    fn hint(&self, event: EventForPod<'_>) -> HintResult {
        match is_even(event.pod) {
            true => Err("the hint fails".to_owned()),
            false => Ok(QueueingHint::Queue),
        }
    }

    /// Rejects a pod, once.
    fn reject(&self, pod: &Pod) -> Status {
        let mut waited = self.waited.lock().expect("nobody panics with the lock");
        if !waited.insert(pod.uid.clone()) {
            return Status::success();
        }
        self.to_call_back().insert(pod.uid.clone());
        Status::unschedulable(REJECTION)
    }

    fn to_call_back(&self) -> MutexGuard<'_, BTreeSet<Uid>> {
        self.to_call_back.lock().expect("nobody panics with the lock")
    }
}

impl PreBind for Patience {
    fn pre_flight(&self, attempt: &Attempt<'_>, _: &str) -> PreBindPreFlight {
        let pod = attempt.pod;
        let mut failed = self.failed.lock().expect("nobody panics with the lock");
        if asks(pod, FAIL) && failed.insert(pod.uid.clone()) {
            return PreBindPreFlight::Fail(Status::error("not yet"));
        }
        match [WAIT, WRITE, REJECT].iter().any(|value| asks(pod, value)) {
            true => PreBindPreFlight::Run { allow_parallel: is_even(pod) },
            false => PreBindPreFlight::Skip { allow_parallel: true },
        }
    }

    fn pre_bind(&self, attempt: AttemptMut<'_>, _: &str, input: PreBindInput<'_>) -> PreBindStep {
        let pod = attempt.pod;
        match input {
            PreBindInput::Start if asks(pod, WRITE) => PreBindStep::Write(annotation(pod)),
            PreBindInput::Start if asks(pod, REJECT) => PreBindStep::Done(self.reject(pod)),
            PreBindInput::Answer(answer) => PreBindStep::Done(match answer.failure() {
                None => Status::success(),
                Some(text) => Status::error(text.to_owned()),
            }),
            PreBindInput::Deadline => PreBindStep::Done(Status::success()),
            _ => PreBindStep::Wait { timeout: Duration::from_secs(2), objects: vec![] },
        }
    }
}

fn annotation(pod: &Pod) -> Write {
    let metadata = json!({"uid": pod.uid.to_string(), "annotations": {LABEL: "kept"}});
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
