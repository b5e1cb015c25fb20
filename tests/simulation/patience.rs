//! A plugin that waits, like plugins that wait for volumes or for other pods of a gang.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use framework::{
    ActionType, ClusterEvent, Command, CycleState, EventResource, Handle, Permit, PermitVerdict,
    Plugin, PluginArgs, Pod, PodDeleted, PreBind, PreBindInput, PreBindPreFlight, PreBindStep,
    Reserve, Status, Uid, Write, WriteAction,
};
use serde_json::json;

/// Plugin name.
pub(crate) const NAME: &str = "Patience";
/// The label that chooses the behaviour for a pod: one of [`VALUES`].
pub(crate) const LABEL: &str = "patience";
/// Wait in Permit, once; wait in PreBind; write in PreBind; reject in PreBind, once.
pub(crate) const VALUES: [&str; 4] = [PERMIT, WAIT, WRITE, REJECT];
/// The text of a rejection in PreBind.
pub(crate) const REJECTION: &str = "comes at a bad time";

const PERMIT: &str = "permit";
const WAIT: &str = "wait";
const WRITE: &str = "write";
const REJECT: &str = "reject";

/// The plugin.
#[derive(Debug, Default)]
struct Patience {
    /// Pods that have waited in Permit, or were rejected in PreBind.
    waited: Mutex<BTreeSet<Uid>>,
    /// Pods that wait in Permit, and during whose wait no placed pod was deleted, and pods that are rejected in
    /// PreBind. No event helps them.
    to_call_back: Mutex<BTreeSet<Uid>>,
}

/// Creates the plugin; it takes no arguments.
///
/// # Errors
/// None.
pub(crate) fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    let plugin = Plugin::new(NAME, Patience::default());
    let deletion = ClusterEvent::new(EventResource::Pod, ActionType::DELETE);
    Ok(plugin.reserve().permit().pre_bind().pod_deleted().on(deletion).build())
}

fn asks(pod: &Pod, value: &str) -> bool {
    pod.labels.get(LABEL).is_some_and(|own| own == value)
}

impl Permit for Patience {
    /// A pod waits until another one arrives or its timeout passes.
    fn permit(&self, _: &mut CycleState, pod: &Pod, _: &str, handle: &Handle<'_>) -> PermitVerdict {
        if let Some(other) = handle.waiting.keys().next() {
            handle.command(Command::Allow { pod: other.clone(), plugin: NAME.into() });
        }
        let mut waited = self.waited.lock().expect("nobody panics with the lock");
        if asks(pod, PERMIT) && waited.insert(pod.uid.clone()) {
            self.to_call_back().insert(pod.uid.clone());
            let reason = "waits for its turn".to_owned();
            return PermitVerdict::Wait { timeout: Duration::from_secs(5), reason };
        }
        PermitVerdict::Allow
    }
}

impl Reserve for Patience {
    fn reserve(&self, _: &mut CycleState, _: &Pod, _: &str, _: &Handle<'_>) -> Status {
        Status::success()
    }

    /// A deletion during the wait of a pod that timed out in Permit requeues it. The plugin itself requeues
    /// the others.
    fn unreserve(&self, _: &mut CycleState, pod: &Pod, _: &str, handle: &Handle<'_>) {
        if self.to_call_back().remove(&pod.uid) {
            handle.command(Command::Activate(vec![pod.key.clone()]));
        }
    }
}

impl PodDeleted for Patience {
    fn pod_deleted(&self, pod: &Pod, _: &Handle<'_>) {
        if pod.node_name.is_some() {
            self.to_call_back().clear();
        }
    }
}

impl Patience {
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
    fn pre_flight(&self, _: &CycleState, pod: &Pod, _: &str, _: &Handle<'_>) -> PreBindPreFlight {
        match [WAIT, WRITE, REJECT].iter().any(|value| asks(pod, value)) {
            true => PreBindPreFlight::Run { allow_parallel: false },
            false => PreBindPreFlight::Skip { allow_parallel: true },
        }
    }

    fn pre_bind(
        &self,
        _: &mut CycleState,
        pod: &Pod,
        _: &str,
        _: &Handle<'_>,
        input: PreBindInput<'_>,
    ) -> PreBindStep {
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
        group: "".into(),
        action: WriteAction::MergePatch(json!({ "metadata": metadata })),
    }
}
