//! Preemptions in progress: which evictions may be requested, and what their answers mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::queue::Place;
use engine::{EffectId, Eviction, Input};
use framework::preemption::Preemption;
use framework::{Answer, NominatedPods, Pod, Uid};

use super::super::super::rules::{Checked, rule};
use super::others::disruption_target;
use super::{Asked, History, InProgress, NAMES};

impl History<'_> {
    pub(super) fn charge(&mut self, victim: &Pod) {
        if let Some(disrupted) = &self.budget
            && victim.labels.get("app").is_some()
            && !disrupted.contains(&*victim.key.name)
        {
            self.charged.insert(victim.uid.clone());
        }
    }

    /// Handles the start of a preemption: all victims but the last are evicted, or the only one.
    pub(super) fn begin(
        &mut self,
        preemption: &Preemption,
        preemptor: &Arc<Pod>,
        mut victims: Vec<Arc<Pod>>,
        asked: &Asked,
    ) -> Checked {
        victims.iter().for_each(|victim| self.charge(victim));
        self.fruitless.begin(preemptor, &preemption.node, self.now);
        let Some(last) = victims.pop() else { return Ok(()) };
        let mut own = InProgress {
            preemptor: preemptor.clone(),
            requested: BTreeMap::new(),
            last,
            last_waits: true,
            gates: true,
            has_evicted: false,
            has_failed: false,
        };
        let mut asked_for = asked.evictions.iter().peekable();
        for victim in victims {
            self.evict(&mut own, victim, &mut asked_for, asked)?;
        }
        self.advance(own, &mut asked_for, asked)?;
        rule(asked_for.peek().is_none(), || format!("too much is evicted: {:?}", asked.evictions))
    }

    /// Checks that a victim is evicted next, or that its binding is cancelled if it waits in
    /// Permit.
    pub(super) fn evict<'a>(
        &mut self,
        own: &mut InProgress,
        victim: Arc<Pod>,
        asked_for: &mut std::iter::Peekable<impl Iterator<Item = &'a (EffectId, Eviction)>>,
        asked: &Asked,
    ) -> Checked {
        let is_asked = asked_for.peek().is_some_and(|(_, eviction)| eviction.uid == victim.uid);
        if !is_asked {
            let is_cancelled = asked.preempted.contains(&(victim.uid.clone(), true))
                && !self.is_placed(&victim.uid);
            rule(is_cancelled, || format!("{} is not evicted: {own:?}", victim.key))?;
            self.charged.remove(&victim.uid);
            own.has_evicted = true;
            own.gates &= own.last.uid != victim.uid;
            return Ok(());
        }
        let Some((id, eviction)) = asked_for.next() else { return Ok(()) };
        let Eviction { pod, preemptor, condition_message, observed_generation, .. } = eviction;
        let is_right = *pod == victim.key
            && *preemptor == own.preemptor.key
            && *observed_generation == i64::from(victim.generation)
            && condition_message.is_none() == victim.preempted;
        rule(is_right, || format!("{eviction:?} is to evict {victim:?}"))?;
        let is_new = self.ending.insert(victim.uid.clone());
        rule(is_new, || format!("{} is evicted twice", victim.key))?;
        own.requested.insert(*id, victim);
        Ok(())
    }

    /// Evicts the last victim if it is its turn, and ends the preemption if nothing is left to do.
    pub(super) fn advance<'a>(
        &mut self,
        mut own: InProgress,
        asked_for: &mut std::iter::Peekable<impl Iterator<Item = &'a (EffectId, Eviction)>>,
        asked: &Asked,
    ) -> Checked {
        let is_turn = own.last_waits
            && own.requested.is_empty()
            && !own.has_failed
            && self.is_pending(&own.preemptor);
        // A binding that was cancelled in this call has freed the room already.
        let is_cancelled = asked.preempted.contains(&(own.last.uid.clone(), true));
        let may_be_evicted = self.is_running(&own.last.uid) || is_cancelled;
        if is_turn && may_be_evicted && !self.ending.contains(&own.last.uid) {
            own.last_waits = false;
            own.gates &= !self.is_assumed(&own.last.uid);
            let last = own.last.clone();
            self.evict(&mut own, last, asked_for, asked)?;
        } else if is_turn {
            // It has ended by itself, or another preemption evicts it.
            own.last_waits = false;
        }
        if !own.requested.is_empty() {
            self.preemptions.push(own);
            return Ok(());
        }
        let may_go_on = !own.has_failed && self.is_pending(&own.preemptor);
        if may_go_on && own.gates && self.is_running(&own.last.uid) {
            self.preemptions.push(own);
            return Ok(());
        }
        if own.last_waits {
            self.charged.remove(&own.last.uid);
        }
        self.finish(&own)
    }

    /// Checks that a preemptor is tried again if evictions have failed, or if its victims are gone.
    pub(super) fn finish(&mut self, own: &InProgress) -> Checked {
        if own.has_failed && !own.has_evicted {
            self.fruitless.call_off(&own.preemptor.uid);
        }
        let is_gated = self
            .preemptions
            .iter()
            .any(|other| other.gates && other.preemptor.uid == own.preemptor.uid);
        let Some(place) = self.place_of(&own.preemptor).filter(|_| !is_gated) else {
            return Ok(());
        };
        let is_tried = !matches!(place, Place::Unschedulable | Place::Gated);
        rule(!own.has_failed || is_tried, || {
            format!("{} is {place:?} after an eviction has failed", own.preemptor.key)
        })?;
        let is_gone = !self.is_placed(&own.last.uid);
        rule(!is_gone || place != Place::Gated, || {
            format!("{} is {place:?}, and its victims are gone", own.preemptor.key)
        })
    }

    /// Returns what happens to a request to evict a pod.
    pub(super) fn some_fate(&mut self) -> u8 {
        let fails = self.random.u8(..8) < self.failures;
        let fates: &[u8] = if fails { &[0, 1, 2, 8] } else { &[3, 4, 5, 6, 7] };
        fates[self.random.usize(..fates.len())]
    }

    pub(super) fn answer_eviction(
        &mut self,
        id: EffectId,
        eviction: &Eviction,
        fate: u8,
        trace: &mut Vec<String>,
    ) -> Checked {
        let name = NAMES.into_iter().find(|name| **name == *eviction.pod.name);
        let known = self.server.get(&*eviction.pod.name);
        let is_there = known.is_some_and(|pod| Uid::from(&*pod.metadata.uid) == eviction.uid);
        let answer = match (fate, is_there, name) {
            (_, false, _) => Answer::Gone("not found".to_owned()),
            (0, _, Some(name)) => {
                // The condition was written, and the deletion failed.
                self.change(name, &eviction.uid, |pod| {
                    pod.status.conditions.push(disruption_target());
                });
                Answer::Error("refused".to_owned())
            }
            (1, ..) => Answer::Forbidden("forbidden".to_owned()),
            (8, ..) => Answer::Unknown("no answer".to_owned()),
            (2, _, Some(name)) => {
                self.delete(name);
                Answer::Unknown("no answer".to_owned())
            }
            (3..=5, _, Some(name)) => {
                self.change(name, &eviction.uid, |pod| {
                    let now = "2026-01-01T00:00:00Z".to_owned();
                    pod.metadata.deletion_timestamp = Some(now);
                    if !pod.status.conditions.iter().any(|own| own.type_ == "DisruptionTarget") {
                        pod.status.conditions.push(disruption_target());
                    }
                });
                Answer::ok()
            }
            (_, _, Some(name)) => {
                self.delete(name);
                Answer::ok()
            }
            _ => Answer::Error("no such pod".to_owned()),
        };
        trace.push(format!("the eviction of {} is answered: {answer:?}", eviction.pod));
        let preemption = self.preemptions.iter().position(|own| own.requested.contains_key(&id));
        let nominated_to =
            |history: &Self, node: &str| history.engine.nominator().nominated_to(node);
        let placed = self.engine.world().placed(&eviction.uid);
        let cluster = self.engine.cluster();
        let home = placed.map(|placed| cluster.node_name(placed.node).clone());
        let (_, asked) = self.call(|engine, now, ports| {
            engine.step(Input::Answer { effect: id, answer: answer.clone() }, now, ports)
        });
        let Some(place) = preemption else {
            return self.nothing_is_evicted(&asked);
        };
        let mut own = self.preemptions.remove(place);
        let Some(victim) = own.requested.remove(&id) else { return Ok(()) };
        let is_reported = asked.preempted.contains(&(victim.uid.clone(), false));
        match &answer {
            Answer::Ok(_) => {
                own.has_evicted = true;
                rule(is_reported, || format!("no event says that {} is evicted", victim.key))?;
            }
            Answer::Gone(_) => {}
            _ => {
                own.has_failed = true;
                rule(!is_reported, || format!("an event says that {} is evicted", victim.key))?;
                self.ending.remove(&victim.uid);
                self.charged.remove(&victim.uid);
                self.last_ends(&victim.uid, Some(&mut own));
                for pod in home.iter().flat_map(|node| nominated_to(self, node)) {
                    let is_gated = self
                        .preemptions
                        .iter()
                        .any(|other| other.gates && other.preemptor.uid == pod.uid);
                    let place = self.place_of(&pod);
                    let waits = matches!(place, Some(Place::Unschedulable));
                    rule(is_gated || !waits || own.gates && own.preemptor.uid == pod.uid, || {
                        format!("{} counts on {}, which stays", pod.key, victim.key)
                    })?;
                }
            }
        }
        let mut asked_for = asked.evictions.iter().peekable();
        self.advance(own, &mut asked_for, &asked)?;
        rule(asked_for.peek().is_none(), || format!("too much is evicted: {:?}", asked.evictions))
    }

    /// Preemptors are not gated any more once their last victim, whose eviction was requested,
    /// ends.
    pub(super) fn last_ends(&mut self, victim: &Uid, also: Option<&mut InProgress>) {
        for own in self.preemptions.iter_mut().chain(also) {
            if own.last.uid == *victim && !own.last_waits {
                own.gates = false;
            }
        }
        self.preemptions.retain(|own| own.gates || !own.requested.is_empty());
    }
}
