//! Evicting victims, step by step, while the pod that needs their room is held back.
//!
//! ```text
//!   lower nominations cleared ─▶ all victims but the last, at once ─▶ the last one ─▶ done
//!                                          │ one cannot be evicted        │
//!                                          ▼                              ▼
//!                        the preemptor is tried again after an error backoff
//! ```
//!
//! A victim that is still on its way to the node, in Permit or PreBind, is turned back in memory.
//! The last victim waits for the others, so that its end, which wakes the preemptor, finds all room
//! free that was to be made. The preemptor is held back until that end is seen: before, it would find
//! its victims still there and evict others, as it may in kube-scheduler.
//!
//! Nobody is evicted twice: a victim that has been asked to go counts as ending, for whomever. Those
//! who evict again and again without being bound are made to [pause](pauses).

mod pauses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::preemption::Preemption;
use framework::{Answer, NominatedPods, PluginName, Pod, Status, StatusPatch, Time, Uid};

use crate::cache::Cache;
use crate::effect::{EffectId, EffectKind, Event, EventType, Eviction, ObjectRef, note};
use crate::engine::{Engine, cx};
use crate::ports::{Count, Ports};
use crate::queue::Place;

use self::pauses::Pauses;

/// The preemptions under way.
#[derive(Default)]
pub(crate) struct Preemptions {
    /// In the order in which they began.
    under_way: BTreeMap<u64, UnderWay>,
    /// Which of them an eviction belongs to.
    by_effect: BTreeMap<EffectId, u64>,
    /// Counts preemptions.
    begun: u64,
    /// Victims whose eviction has been asked for and has not failed, until the watch shows their end.
    ending: BTreeSet<Uid>,
    pauses: Pauses,
}

impl Preemptions {
    /// When a pod may preempt again that was put off.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.pauses.next_end()
    }
}

/// A preemption whose victims are being evicted.
struct UnderWay {
    number: u64,
    /// The pod room is made for, as it was.
    preemptor: Arc<Pod>,
    /// The plugin that asked for it.
    plugin: PluginName,
    node: Arc<str>,
    /// Victims whose eviction has been asked for.
    evicting: BTreeMap<EffectId, Arc<Pod>>,
    /// The last victim, until it is its turn.
    kept: Option<Arc<Pod>>,
    /// UID of the last victim.
    last: Uid,
    /// Whether the preemptor is held back.
    holds_back: bool,
    /// Whether a pod has been evicted.
    evicted: bool,
    failed: bool,
}

impl UnderWay {
    /// The preemptor may be tried again.
    fn release(&mut self, cache: &mut Cache) {
        if std::mem::take(&mut self.holds_back) {
            cache.end_preemption(&self.preemptor.uid);
        }
    }

    fn is_over(&self) -> bool {
        self.evicting.is_empty() && !self.holds_back
    }
}

impl Engine {
    /// Carries a preemption out. Victims that are ending already are left alone; if there are no
    /// others nothing is to be done.
    pub(crate) fn preempt(&mut self, mut preemption: Preemption, now: Time, ports: &mut Ports<'_>) {
        let preemptor = self.pending.get(&preemption.preemptor).cloned();
        let Some(preemptor) = preemptor.filter(|pod| pod.uid == preemption.uid) else { return };
        let count = Count::Victims(preemption.victims.len());
        preemption.victims.retain(|victim| self.may_be_evicted(victim));
        preemption.victims.iter().for_each(|victim| self.cache.begin_eviction(victim));
        let Some(last) = preemption.victims.pop() else { return };
        ports.probe.count(count);
        self.clear_lower_nominations(&preemption.node, &preemptor);
        self.cache.begin_preemption(&preemptor.uid);
        self.cache.fruitless_preemptions_mut().begin(&preemptor, &preemption.node, now);
        self.preemptions.begun += 1;
        let mut step = UnderWay {
            number: self.preemptions.begun,
            preemptor,
            plugin: preemption.plugin,
            node: preemption.node,
            evicting: BTreeMap::new(),
            last: last.uid.clone(),
            kept: Some(last),
            holds_back: true,
            evicted: false,
            failed: false,
        };
        for victim in preemption.victims {
            self.evict(&mut step, victim, now, ports);
        }
        self.go_on(step, now, ports);
    }

    fn may_be_evicted(&self, victim: &Pod) -> bool {
        self.is_running(&victim.uid) && !self.preemptions.ending.contains(&victim.uid)
    }

    /// Pods of lower priority that are nominated to the node may not fit there any more: without
    /// nomination they find another place sooner.
    fn clear_lower_nominations(&mut self, node: &str, preemptor: &Pod) {
        let nominated = self.queue.nominator().nominated_to(node);
        for pod in nominated.iter().filter(|pod| pod.priority() < preemptor.priority()) {
            self.queue.nominator_mut().delete(&pod.uid);
            let patch = StatusPatch { nominated_node_name: Some("".into()), ..Default::default() };
            self.patch_pod_status(pod, patch);
        }
    }

    /// Evicts a victim: in memory if it is not bound yet, else by an effect.
    fn evict(&mut self, step: &mut UnderWay, victim: Arc<Pod>, now: Time, ports: &mut Ports<'_>) {
        if self.turn_back(&victim.uid, &step.plugin, now, ports) {
            self.cache.cancel_eviction(&victim.uid);
            step.evicted = true;
            return self.tell_preempted(step, &victim, " (in kube-scheduler memory).");
        }
        let scheduler = &step.preemptor.spec.scheduler_name;
        let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
        let effect = self.emit(EffectKind::Evict(Eviction {
            pod: victim.key.clone(),
            uid: victim.uid.clone(),
            preemptor: step.preemptor.key.clone(),
            observed_generation: victim.generation,
            condition_message: (!victim.preempted).then_some(message),
        }));
        self.preemptions.ending.insert(victim.uid.clone());
        self.preemptions.by_effect.insert(effect, step.number);
        step.evicting.insert(effect, victim);
    }

    /// Ends the binding cycle of a victim that is not being bound yet; returns whether there was one.
    fn turn_back(
        &mut self,
        victim: &Uid,
        plugin: &PluginName,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> bool {
        let waiting = Status::error("waiting on permit for pod: preempted").by(plugin);
        let in_pre_bind = Status::error(format!("preempted by {plugin}")).by(plugin);
        self.reject_waiting(victim, waiting, now, ports)
            || self.cancel_pre_bind(victim, in_pre_bind, now, ports)
    }

    /// Goes on with the last victim once the others are evicted, and ends after that.
    fn go_on(&mut self, mut step: UnderWay, now: Time, ports: &mut Ports<'_>) {
        let may_go_on = !step.failed && self.is_pending(&step.preemptor);
        if step.evicting.is_empty()
            && may_go_on
            && let Some(last) = step.kept.take()
            && self.may_be_evicted(&last)
        {
            if self.cache.is_assumed(&last.uid) {
                // Turned back in memory it wakes the preemptor at once.
                step.release(&mut self.cache);
            }
            self.evict(&mut step, last, now, ports);
        }
        let awaits_end = may_go_on && step.holds_back && self.is_running(&step.last);
        if !step.evicting.is_empty() || awaits_end {
            self.preemptions.under_way.insert(step.number, step);
            return;
        }
        if let Some(spared) = &step.kept {
            self.cache.cancel_eviction(&spared.uid);
        }
        step.release(&mut self.cache);
        if step.failed {
            if !step.evicted {
                self.cache.fruitless_preemptions_mut().call_off(&step.preemptor.uid);
            }
            self.retry_preemptors(&step, now, ports);
        } else if self.cache.placed(&step.last).is_none() {
            self.wake_gated(&step.preemptor, now, ports);
        }
    }

    /// Whether this victim is there and nothing has been seen yet of its end.
    fn is_running(&self, victim: &Uid) -> bool {
        self.cache.placed(victim).is_some_and(|placed| !placed.pod.terminating)
    }

    /// Preemptors are held back no longer, and preemptions that are over are forgotten.
    fn release(&mut self, which: impl Fn(&UnderWay) -> bool) {
        let cache = &mut self.cache;
        self.preemptions.under_way.retain(|_, step| {
            if which(step) {
                step.release(cache);
            }
            !step.is_over()
        });
    }

    /// A victim stays: the preemptor has to try again, and so has who is nominated to the node and may
    /// have counted on the same victim. Those who are still held back keep their place, and their
    /// rejectors, without whom the end of their own victims would not wake them.
    fn retry_preemptors(&mut self, step: &UnderWay, now: Time, ports: &mut Ports<'_>) {
        let others = self.queue.nominator().nominated_to(&step.node);
        for pod in std::iter::once(&step.preemptor).chain(&others) {
            if !self.cache.cluster().is_preempting(&pod.uid) {
                self.queue.retry_after_error(pod, &mut cx!(self, now, ports.probe));
            }
        }
    }

    /// All victims may have gone while the preemptor was held back; then no event is left to wake it.
    fn wake_gated(&mut self, preemptor: &Pod, now: Time, ports: &mut Ports<'_>) {
        let queued = self.queue.get(&preemptor.key);
        if queued.is_some_and(|(place, _)| place == Place::Gated) {
            let key = preemptor.key.clone();
            self.queue.activate(&[key], &mut cx!(self, now, ports.probe));
        }
    }

    fn is_pending(&self, pod: &Pod) -> bool {
        self.pending.get(&pod.key).is_some_and(|known| known.uid == pod.uid)
    }

    /// Takes the answer to an eviction. A victim that is gone needs none.
    pub(crate) fn answer_eviction(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let Some(number) = self.preemptions.by_effect.remove(&effect) else { return };
        let Some(mut step) = self.preemptions.under_way.remove(&number) else { return };
        if let Some(victim) = step.evicting.remove(&effect) {
            match answer {
                Answer::Ok(_) => {
                    step.evicted = true;
                    self.tell_preempted(&step, &victim, "");
                }
                Answer::Gone(_) => {}
                _ => {
                    step.failed = true;
                    self.victim_settled(&victim.uid);
                    self.cache.cancel_eviction(&victim.uid);
                }
            }
        }
        self.go_on(step, now, ports);
    }

    /// A pod is ending or gone, or cannot be evicted. Whose last victim it is may be tried again.
    pub(crate) fn victim_settled(&mut self, uid: &Uid) {
        self.preemptions.ending.remove(uid);
        self.release(|step| step.kept.is_none() && step.last == *uid);
    }

    /// A pod is not pending any more. Unless it has a node now, what was evicted for it was so in vain.
    pub(crate) fn preemptor_leaves(&mut self, uid: &Uid, now: Time) {
        self.preemptions.pauses.remove(uid);
        self.release(|step| step.preemptor.uid == *uid && step.evicting.is_empty());
        let placed = self.cache.placed(uid);
        let node = placed.map(|placed| self.cache.cluster().node_name(placed.node).clone());
        self.cache.fruitless_preemptions_mut().end(uid, node.as_deref(), now);
    }

    fn tell_preempted(&mut self, step: &UnderWay, victim: &Pod, suffix: &str) {
        let UnderWay { preemptor, node, .. } = step;
        let text = format!("Preempted by pod {} on node {node}", preemptor.uid);
        self.emit(EffectKind::Event(Event {
            regarding: victim.key.clone(),
            uid: victim.uid.clone(),
            related: Some(ObjectRef { pod: preemptor.key.clone(), uid: preemptor.uid.clone() }),
            event_type: EventType::Normal,
            reason: "Preempted",
            action: "Preempting",
            note: note(&format!("{text}{suffix}")),
            reporting_controller: preemptor.spec.scheduler_name.clone(),
        }));
    }
}
