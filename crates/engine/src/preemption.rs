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
//! free that was to be made.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::preemption::Preemption;
use framework::{Answer, NominatedPods, PluginName, Pod, Status, StatusPatch, Time, Uid};

use crate::cache::Cache;
use crate::effect::{EffectId, EffectKind, Event, EventType, Eviction, ObjectRef, note};
use crate::engine::{Engine, cx};
use crate::ports::{Count, Ports};
use crate::queue::Place;

/// The preemptions under way.
#[derive(Default)]
pub(crate) struct Preemptions {
    /// In the order in which they began.
    under_way: BTreeMap<u64, UnderWay>,
    /// Which of them an eviction belongs to.
    by_effect: BTreeMap<EffectId, u64>,
    /// Counts preemptions.
    begun: u64,
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
    failed: bool,
}

impl UnderWay {
    /// The preemptor may be tried again.
    fn release(&mut self, cache: &mut Cache) {
        if std::mem::take(&mut self.holds_back) {
            cache.end_preemption(&self.preemptor.uid);
        }
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
            failed: false,
        };
        for victim in preemption.victims {
            self.evict(&mut step, victim, now, ports);
        }
        self.go_on(step, now, ports);
    }

    fn may_be_evicted(&self, victim: &Pod) -> bool {
        self.cache.placed(&victim.uid).is_some_and(|placed| !placed.pod.terminating)
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
            self.cache.cancel_eviction(&victim);
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
        if !step.evicting.is_empty() {
            self.preemptions.under_way.insert(step.number, step);
            return;
        }
        if let Some(spared) = &step.kept {
            self.cache.cancel_eviction(spared);
        }
        step.release(&mut self.cache);
        if step.failed {
            self.queue.retry_after_error(&step.preemptor, &mut cx!(self, now, ports.probe));
        } else if self.cache.placed(&step.last).is_none() {
            self.wake_gated(&step.preemptor, now, ports);
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
                Answer::Ok(_) => self.tell_preempted(&step, &victim, ""),
                Answer::Gone(_) => {}
                _ => {
                    step.failed = true;
                    self.cache.cancel_eviction(&victim);
                }
            }
        }
        self.go_on(step, now, ports);
    }

    /// A pod is ending or gone. If it is the last victim, its preemptor may be tried again.
    pub(crate) fn victim_leaves(&mut self, uid: &Uid) {
        for step in self.preemptions.under_way.values_mut() {
            if step.kept.is_none() && step.last == *uid {
                step.release(&mut self.cache);
            }
        }
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
