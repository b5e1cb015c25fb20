//! Plugins that do anything that a plugin may do, and an extender that may not answer. They note
//! what they did, for the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use engine::ports::{CallError, ExtenderCall, ExtenderClient, Filtered, Probing};
use fastrand::Rng;
use framework::{
    ActionType, Attempt, AttemptMut, ClusterEvent, Command, EventResource, ObjectKey, Permit,
    PermitVerdict, Plugin, Pod, PodKey, PostBind, PreBind, PreBindInput, PreBindPreFlight,
    PreBindStep, Reserve, Status, Time, Uid, Write, WriteAction,
};
use serde_json::json;

/// The names of the plugins.
pub(super) const NAMES: [&str; 3] = ["First", "Second", "Third"];

/// The wait of a plugin in PreBind.
#[derive(Debug, Clone)]
pub(super) struct Wait {
    pub(super) until: Time,
    /// The objects whose change ends it; empty if any change does.
    pub(super) objects: BTreeSet<ObjectKey>,
}

/// What the plugins draw their behaviour from, and what they have done.
#[derive(Debug)]
pub(super) struct Seen {
    random: Rng,
    /// Whether plugins let every pod pass at once.
    is_idle: bool,
    /// Whether plugins wait in PreBind more often than not.
    is_patient: bool,
    /// Whether plugins let every pod pass, after a wait at most.
    pub(super) is_calm: bool,
    /// The node that is reserved for each pod.
    pub(super) reserved: BTreeMap<Uid, String>,
    /// Number of times that PostBind ran for each pod.
    pub(super) bound: BTreeMap<Uid, u32>,
    /// The waits in PreBind, by pod and plugin.
    pub(super) waits: BTreeMap<(Uid, usize), Wait>,
    /// The plugins that were called after a change.
    pub(super) changed: BTreeSet<(Uid, usize)>,
    /// The pods for which a plugin has work in PreBind, or that wait in Permit.
    pub(super) not_at_once: BTreeSet<Uid>,
    /// The last verdict of Reserve or Permit against each pod: the plugin, and whether it rejected
    /// the pod.
    pub(super) refused: BTreeMap<Uid, (usize, bool)>,
    /// The pods whose attempt a plugin has failed since the last look.
    pub(super) failed: BTreeSet<Uid>,
    /// Number of writes that were asked for beside PreBind.
    pub(super) asked: usize,
    /// What should not have been called.
    pub(super) violations: Vec<String>,
}

impl Seen {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        Self {
            is_idle: random.bool(),
            is_patient: random.u8(..3) == 0,
            random,
            is_calm: false,
            reserved: BTreeMap::new(),
            bound: BTreeMap::new(),
            waits: BTreeMap::new(),
            changed: BTreeSet::new(),
            not_at_once: BTreeSet::new(),
            refused: BTreeMap::new(),
            failed: BTreeSet::new(),
            asked: 0,
            violations: Vec::new(),
        }
    }

    /// Whether something happens that does so once in `chance` calls while there is trouble.
    fn once_in(&mut self, chance: u8) -> bool {
        !self.is_calm && !self.is_idle && self.random.u8(..chance) == 0
    }

    /// Returns a rejection or an error.
    fn refusal(&mut self, plugin: usize, pod: &Pod) -> Status {
        let rejects = self.random.bool();
        self.refused.insert(pod.uid.clone(), (plugin, rejects));
        if rejects { Status::unschedulable("not yet") } else { Status::error("broken") }
    }

    /// Begins a wait for some objects or for any.
    fn wait(&mut self, plugin: usize, pod: &Pod, now: Time, most: Option<Time>) -> PreBindStep {
        let timeout = Duration::from_secs([1, 4, 30][self.random.usize(..3)]);
        let all = [
            ObjectKey::pod(&pod.key),
            ObjectKey::cluster_scoped(EventResource::Node, "n0".into()),
            ObjectKey::cluster_scoped(EventResource::Node, "n1".into()),
            ObjectKey::pod(&PodKey::new(&pod.key.namespace, "p0")),
        ];
        let random = &mut self.random;
        let objects: Vec<ObjectKey> = match random.u8(..3) {
            0 => Vec::new(),
            _ => all.into_iter().filter(|_| random.bool()).collect(),
        };
        let until = most.map_or(now + timeout, |most| most.min(now + timeout));
        let wait = Wait { until, objects: objects.iter().cloned().collect() };
        self.waits.insert((pod.uid.clone(), plugin), wait);
        PreBindStep::Wait { timeout, objects }
    }

    fn fails(&mut self, pod: &Pod) -> PreBindStep {
        self.failed.insert(pod.uid.clone());
        PreBindStep::Done(match self.random.bool() {
            true => Status::unschedulable("comes at a bad time"),
            false => Status::error("broken"),
        })
    }

    /// Returns the next step of a plugin in PreBind.
    fn next(&mut self, plugin: usize, pod: &Pod, now: Time, most: Option<Time>) -> PreBindStep {
        match self.random.u8(..8) {
            _ if self.is_patient && self.random.u8(..4) > 0 => self.wait(plugin, pod, now, most),
            0..3 => self.wait(plugin, pod, now, most),
            3 | 4 if !self.is_calm => PreBindStep::Write(annotation(pod)),
            5 if !self.is_calm => self.fails(pod),
            _ => PreBindStep::Done(Status::success()),
        }
    }
}

/// Returns what plugins have seen.
pub(super) fn look(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// One of the plugins.
#[derive(Debug)]
struct Scripted {
    seen: Arc<Mutex<Seen>>,
    number: usize,
}

/// Creates the plugins.
pub(super) fn plugins(seen: &Arc<Mutex<Seen>>) -> [Plugin; 3] {
    let event = || ClusterEvent::new(EventResource::Pod, ActionType::UPDATE_POD_LABEL);
    [0, 1, 2].map(|number| {
        let own = Scripted { seen: seen.clone(), number };
        let plugin = Plugin::new(NAMES[number], own).reserve().permit().pre_bind().on(event());
        if number == 0 { plugin.post_bind().build() } else { plugin.build() }
    })
}

impl Reserve for Scripted {
    fn reserve(&self, attempt: AttemptMut<'_>, node: &str) -> Status {
        let AttemptMut { pod, handle, .. } = attempt;
        let mut seen = look(&self.seen);
        if self.number == 0 {
            if let Some(other) = seen.reserved.insert(pod.uid.clone(), node.to_owned()) {
                let text = format!("{} has {other} reserved, and now {node}", pod.key);
                seen.violations.push(text);
            }
        } else if seen.once_in(12) {
            if seen.random.bool() {
                seen.asked += 1;
                let (key, uid) = (pod.key.clone(), pod.uid.clone());
                handle.command(Command::Write { pod: key, uid, write: annotation(pod) });
            }
            return seen.refusal(self.number, pod);
        }
        Status::success()
    }

    fn unreserve(&self, attempt: AttemptMut<'_>, _: &str) {
        let mut seen = look(&self.seen);
        if self.number == 0 {
            seen.reserved.remove(&attempt.pod.uid);
        }
        seen.waits.remove(&(attempt.pod.uid.clone(), self.number));
    }
}

impl PostBind for Scripted {
    fn post_bind(&self, attempt: &Attempt<'_>, _: &str) {
        *look(&self.seen).bound.entry(attempt.pod.uid.clone()).or_default() += 1;
    }
}

impl Permit for Scripted {
    fn permit(&self, attempt: AttemptMut<'_>, _: &str) -> PermitVerdict {
        let AttemptMut { pod, handle, .. } = attempt;
        let mut seen = look(&self.seen);
        if let Some((other, waiting)) = handle.waiting.iter().next()
            && let Some(plugin) = waiting.pending.keys().next()
        {
            let (pod, plugin, message) = (other.clone(), plugin.clone(), "gives way".into());
            handle.command(match seen.random.u8(..3) {
                0 => Command::Reject { pod, plugin, message },
                _ => Command::Allow { pod, plugin },
            });
        }
        if seen.once_in(14) {
            return PermitVerdict::Reject(seen.refusal(self.number, pod));
        }
        if !seen.once_in(8) {
            return PermitVerdict::Allow;
        }
        seen.not_at_once.insert(pod.uid.clone());
        let timeout = Duration::from_secs(seen.random.u64(1..9));
        PermitVerdict::Wait { timeout, reason: "waits for its turn".to_owned() }
    }
}

impl PreBind for Scripted {
    fn pre_flight(&self, attempt: &Attempt<'_>, _: &str) -> PreBindPreFlight {
        let mut seen = look(&self.seen);
        let allow_parallel = seen.random.u8(..4) > 0;
        match seen.random.u8(..24) {
            _ if seen.is_idle => PreBindPreFlight::Skip { allow_parallel },
            0 if !seen.is_calm => {
                seen.failed.insert(attempt.pod.uid.clone());
                PreBindPreFlight::Fail(Status::error("not yet"))
            }
            drawn if drawn < if seen.is_patient { 18 } else { 8 } => {
                seen.not_at_once.insert(attempt.pod.uid.clone());
                PreBindPreFlight::Run { allow_parallel }
            }
            _ => PreBindPreFlight::Skip { allow_parallel },
        }
    }

    fn pre_bind(&self, attempt: AttemptMut<'_>, _: &str, input: PreBindInput<'_>) -> PreBindStep {
        let AttemptMut { pod, handle, .. } = attempt;
        let (mut seen, now) = (look(&self.seen), handle.now);
        let key = (pod.uid.clone(), self.number);
        let wait = seen.waits.remove(&key);
        match input {
            PreBindInput::Answer(answer) if answer.failure().is_some() => {
                seen.failed.insert(pod.uid.clone());
                PreBindStep::Done(Status::error(answer.failure().unwrap_or_default().to_owned()))
            }
            PreBindInput::Deadline => {
                if wait.as_ref().is_none_or(|wait| now < wait.until) {
                    let text = format!("{} waits as {wait:?}, and is called at {now:?}", pod.key);
                    seen.violations.push(text);
                }
                PreBindStep::Done(Status::success())
            }
            PreBindInput::Changed => {
                seen.changed.insert(key);
                match seen.random.bool() {
                    true => seen.wait(self.number, pod, now, wait.map(|wait| wait.until)),
                    false => PreBindStep::Done(Status::success()),
                }
            }
            _ => seen.next(self.number, pod, now, None),
        }
    }
}

fn annotation(pod: &Pod) -> Write {
    let metadata = json!({ "uid": pod.uid.to_string(), "annotations": { "kept": "yes" } });
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

/// Extenders that accept all nodes, fail, or do not answer.
#[derive(Debug, Default)]
pub(super) struct Extenders {
    pub(super) random: Rng,
    pub(super) is_calm: bool,
    /// The extenders that have not answered their last call in a cycle, nor a call for which no
    /// cycle waits.
    pub(super) silent: BTreeSet<usize>,
    /// The calls in cycles, and those for which no cycle waits, since the last look.
    pub(super) called: Vec<usize>,
    pub(super) probed: Vec<usize>,
    pub(super) skipped: Vec<usize>,
}

impl ExtenderClient for Extenders {
    fn filter(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<Filtered, CallError>, Time) {
        self.called.push(call.extender);
        let answer = match self.random.u8(..6) {
            0 if !self.is_calm => {
                self.silent.insert(call.extender);
                Err(CallError::NoAnswer("timeout".to_owned()))
            }
            1 if !self.is_calm => Err(CallError::Failed("status 500".to_owned())),
            _ => {
                let nodes = call.nodes.iter().map(|node| (*node).to_owned()).collect();
                Ok(Filtered { nodes, ..Filtered::default() })
            }
        };
        (answer, now)
    }

    fn probe(&mut self, call: Probing<'_>) {
        if let Probing::Filter(call) = call {
            self.probed.push(call.extender);
        }
    }

    fn skipped(&mut self, extender: usize, _: &str) {
        self.skipped.push(extender);
    }
}
