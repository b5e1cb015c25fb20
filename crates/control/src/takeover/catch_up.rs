//! Whether the caches show everything that happened before a takeover.
//!
//! The watches of a standby may lag or hang. The scheduler writes a pod, and waits until the watch
//! of pods shows that write: a watch is ordered, so it has then shown everything before. The other
//! kinds are listed again.
//!
//! A [strict](super::Fencing::Strict) takeover writes every pending pod for that, which fences it,
//! too.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::{EffectId, Engine};
use framework::{Answer, Pod, PodKey, Time, Uid};

use super::written::Written;
use super::{Fencing, Start, Unready};
use crate::failed_call::FailedCall;

/// Time after which pods that could not be fenced no longer hold up the others.
const FENCE_TIMEOUT: Duration = Duration::from_mins(1);

/// Time after which kinds that could not be listed again no longer hold up scheduling. A request
/// whose answer is lost takes 75 s, and is then repeated.
const LIST_TIMEOUT: Duration = Duration::from_mins(2);

/// Time to wait for the watch of pods before pods are listed again, in a strict takeover.
const STRICT_PATIENCE: Duration = Duration::from_secs(5);

/// The same in others. The watch shows a write within milliseconds. If it does not, or the write
/// has no answer, a list is what the first decision may wait for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum number of pods that are fenced if one fence suffices, each in a namespace of its own:
/// the first ones may be refused by an admission webhook.
const MAX_PROBES: usize = 8;

/// The kinds that are listed again together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relist {
    /// Pods.
    Pods,
    /// All kinds but pods.
    Others,
}

/// The pods that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Every pending pod: the takeover is strict, and the scheduler before may have crashed.
    Every,
    /// One pod, which shows that the watch of pods is current.
    One,
}

/// The part of a takeover that makes sure of the caches.
#[derive(Debug)]
pub(super) struct CatchUp {
    scope: Scope,
    /// Time to wait for the watch of pods before pods are listed again.
    patience: Duration,
    /// Time at which open fences are given up.
    fences_end: Time,
    /// Time at which the lists of other kinds are given up; `None` if they are current.
    lists_end: Option<Time>,
    /// Time at which pods are listed again unless the watch has shown our writes.
    pods_listed_at: Time,
    /// Whether pods are being listed again. A list of many pods takes longer than `patience`, and
    /// another request would start it over.
    lists_pods: bool,
    /// Whether pods have been listed since the takeover began, so that all old pods are known.
    has_listed_pods: bool,
    /// The pods to fence now, not yet taken.
    wanted: Vec<PodKey>,
    /// The fences without an answer.
    open: BTreeSet<EffectId>,
    /// The pods that were fenced, also without success.
    fenced: BTreeSet<Uid>,
    /// The namespaces of these pods.
    namespaces: BTreeSet<Arc<str>>,
    /// The newest version among the answers, which the watch has to show.
    newest: Option<Written>,
    /// The newest version that a write of ours has made; 0 before that. The version of a pod that
    /// was found bound may be older than the takeover.
    own_write: u64,
    /// The kinds to list again that have not been taken.
    relists: Vec<Relist>,
    /// The fences that were given up, not yet taken for the log.
    given_up: Option<FailedCall>,
}

impl CatchUp {
    /// Writes the first pods, and asks for lists of the other kinds unless the caches have just
    /// been filled.
    pub(super) fn begin(start: &Start, engine: &Engine, now: Time) -> Self {
        let is_strict = start.fencing == Fencing::Strict;
        let (were_synced, patience) =
            (start.were_synced, if is_strict { STRICT_PATIENCE } else { PATIENCE });
        let mut takeover = Self {
            scope: if is_strict && start.may_have_crashed { Scope::Every } else { Scope::One },
            patience,
            fences_end: now + FENCE_TIMEOUT,
            lists_end: were_synced.then(|| now + LIST_TIMEOUT),
            pods_listed_at: now + patience,
            lists_pods: false,
            has_listed_pods: !were_synced && !is_strict,
            wanted: Vec::new(),
            open: BTreeSet::new(),
            fenced: BTreeSet::new(),
            namespaces: BTreeSet::new(),
            newest: None,
            own_write: 0,
            relists: if were_synced { vec![Relist::Others] } else { Vec::new() },
            given_up: None,
        };
        engine.pending().for_each(|pod| takeover.consider(&pod.key, engine, now));
        // Lists that began after the last process had ended show everything that it did.
        takeover.has_listed_pods = !were_synced;
        takeover
    }

    /// Wants a fence of a pod that was reported, if it has to be fenced.
    pub(super) fn consider(&mut self, pod: &PodKey, engine: &Engine, now: Time) {
        let known = engine.pending_pod(pod);
        let Some(pod) = known.filter(|pod| self.has_to_fence(pod, engine)) else { return };
        if self.fenced.is_empty() {
            self.fences_end = now + FENCE_TIMEOUT;
            self.pods_listed_at = now + self.patience;
        }
        self.wanted.push(pod.key.clone());
        self.fenced.insert(pod.uid.clone());
        self.namespaces.insert(pod.key.namespace.clone());
    }

    /// Returns whether the pod has to be fenced. A version that is newer than one of our writes is
    /// newer than the takeover. No scheduler can bind a pod that is gated or terminating, and none
    /// with the same flags has bound a member of a group that the gate of groups keeps back. The
    /// condition of such a pod is the proof that a strict takeover needs.
    fn has_to_fence(&self, pod: &Pod, engine: &Engine) -> bool {
        let is_wanted = match self.scope {
            Scope::Every => {
                let is_new = self.own_write != 0 && self.own_write < pod.resource_version;
                !self.fenced.contains(&pod.uid) && !is_new
            }
            Scope::One => {
                self.own_write == 0
                    && self.fenced.len() < MAX_PROBES
                    && !self.namespaces.contains(&pod.key.namespace)
            }
        };
        let has_proof = self.scope == Scope::One || has_gate_in_condition(pod);
        is_wanted
            && !self.has_listed_pods
            && !(has_proof && engine.is_gated_by_group(pod))
            && pod.spec.scheduling_gates.is_empty()
            && !pod.terminating
    }

    pub(super) fn take_wanted(&mut self) -> Vec<PodKey> {
        std::mem::take(&mut self.wanted)
    }

    /// Notes the effect that fences a wanted pod.
    pub(super) fn touched(&mut self, effect: EffectId) {
        self.open.insert(effect);
    }

    /// Handles an answer. Returns whether it belongs to a fence.
    pub(super) fn answer(&mut self, effect: EffectId, answer: &Answer) -> bool {
        if !self.open.remove(&effect) {
            return false;
        }
        if let Some(written) = Written::of(answer) {
            if !written.is_bound {
                self.own_write = self.own_write.max(written.version);
            }
            let newest = self.newest.as_ref().map_or(0, |newest| newest.version);
            if written.version > newest {
                self.newest = Some(written);
            }
        }
        true
    }

    /// Notes that all kinds of a relist have been listed again.
    pub(super) fn listed(&mut self, relist: Relist) {
        match relist {
            Relist::Pods => (self.has_listed_pods, self.lists_pods) = (true, false),
            Relist::Others => self.lists_end = None,
        }
    }

    /// Gives up what has taken too long.
    pub(super) fn tick(&mut self, engine: &Engine, now: Time) {
        if self.fences_end <= now && !self.open.is_empty() && self.scope == Scope::Every {
            self.given_up = Some(FailedCall {
                action: "stopping earlier binds of",
                object: format!("{} pods", self.open.len()),
                error: format!(
                    "their status could not be patched within {FENCE_TIMEOUT:?}; a bind of a scheduler \
                     that crashed may still be carried out"
                ),
            });
            self.open.clear();
        }
        self.lists_end.take_if(|end| *end <= now);
        if self.pods_listed_at <= now && self.has_to_list_pods(engine) {
            self.relists.push(Relist::Pods);
            self.lists_pods = true;
            self.pods_listed_at = now + self.patience;
        }
    }

    /// Returns the time at which [`tick`](Self::tick) is due next.
    pub(super) fn next_deadline(&self, engine: &Engine) -> Option<Time> {
        let fences =
            (self.scope == Scope::Every && !self.open.is_empty()).then_some(self.fences_end);
        let pods = self.has_to_list_pods(engine).then_some(self.pods_listed_at);
        [fences, self.lists_end, pods].into_iter().flatten().min()
    }

    /// Whether pods have to be listed again, unless the watch shows our writes in time.
    fn has_to_list_pods(&self, engine: &Engine) -> bool {
        let is_fencing = self.unready(engine) == Some(Unready::Fencing);
        !is_fencing && !self.lists_pods && !self.shows_pods(engine)
    }

    /// Returns why the takeover is not complete, or `None` if pods may be scheduled.
    pub(super) fn unready(&self, engine: &Engine) -> Option<Unready> {
        match self.scope {
            Scope::Every if !self.open.is_empty() => Some(Unready::Fencing),
            _ if self.lists_end.is_some() || !self.shows_pods(engine) => Some(Unready::CatchingUp),
            _ => None,
        }
    }

    /// Returns whether the takeover is complete. Without a pod to fence and without a new list it
    /// goes on, because the first pod that comes may be an old one.
    pub(super) fn is_complete(&self, engine: &Engine) -> bool {
        self.has_proof() && self.unready(engine).is_none()
    }

    /// Whether there is a proof to wait for: an own write or a new list of pods, which the watch
    /// shows only after everything that happened before the takeover.
    const fn has_proof(&self) -> bool {
        self.own_write != 0 || self.has_listed_pods
    }

    /// Whether the watch of pods has shown our writes, or a new list replaces that proof. A pod
    /// that was bound meanwhile may have changed again before its fence was answered.
    fn shows_pods(&self, engine: &Engine) -> bool {
        if !self.has_proof() && !self.fenced.is_empty() {
            return false;
        }
        self.newest.as_ref().is_none_or(|written| written.is_shown(engine))
    }

    /// Returns the newest version that a write of ours has made; 0 if there is none. A pod in a
    /// newer one was written after the takeover.
    pub(super) const fn own_write(&self) -> u64 {
        self.own_write
    }

    /// Returns the number of pods that were written, or were to be.
    pub(super) fn fenced(&self) -> usize {
        self.fenced.len()
    }

    /// Returns the number of writes that have no answer.
    pub(super) fn unanswered(&self) -> usize {
        self.open.len()
    }

    pub(super) fn take_relists(&mut self) -> Vec<Relist> {
        std::mem::take(&mut self.relists)
    }

    pub(super) fn take_given_up(&mut self) -> Option<FailedCall> {
        self.given_up.take()
    }
}

fn has_gate_in_condition(pod: &Pod) -> bool {
    let condition = pod.scheduled_condition.as_ref();
    condition.is_some_and(|condition| &*condition.reason == "SchedulingGated")
}
