//! Invariants of preemptions: victims and preemptors.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::queue::Place;
use engine::{Attempt, Engine, Outcome};
use framework::preemption::Preemption;
use framework::{NominatedPods, Pod, QueuedEntity, Time, Uid};

use super::decisions::Evaluates;
use super::extender::Extender;
use super::groups;
use super::oracle::{Budgets, Oracle, Related};
use super::patience::PENDING_TEXT;
use super::rules::{Checked, rule};

/// How the result of an attempt begins after which no node is a candidate for evictions.
const NO_CANDIDATE: &str = " preemption: 0/";

/// What the next attempt should do, for every pod that may be tried next.
#[derive(Debug, Default)]
pub(crate) struct Foreseen {
    /// The evictions that it should begin.
    evictions: BTreeMap<Uid, Option<Preemption>>,
    /// The nodes of which it should choose one. The set form finds them, and a ranking may decide.
    best: BTreeMap<Uid, BTreeSet<Arc<str>>>,
}

impl Foreseen {
    /// Computes the evictions with the engine, and checks them against the rules. An evaluation may
    /// take the turn in which an extender that does not answer is tried again; these extenders are
    /// added to `probed`.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn by(
        decider: &mut impl Evaluates,
        related: &Related,
        probed: &mut Vec<usize>,
        now: Time,
    ) -> Result<Self, String> {
        let engine = decider.engine();
        let oracle = Oracle::of_engine(engine, related);
        let budgets = Budgets::of_engine(engine, related);
        let wall_time = engine.handle(now).wall_time();
        let mut foreseen = Self::default();
        for pod in next(engine) {
            let mut extender = Extender::default();
            let ports = &mut Ports { extenders: &mut extender, probe: &mut () };
            let evaluation = decider.evaluate(&pod, Form::Set, now, ports);
            probed.append(&mut extender.probed);
            let engine = decider.engine();
            if let Some(evaluation) = &evaluation {
                let cluster = engine.cluster();
                let best =
                    evaluation.best().into_iter().map(|node| cluster.node_name(node).clone());
                foreseen.best.insert(pod.uid.clone(), best.collect());
            }
            let Some(rescue) = evaluation.and_then(|evaluation| evaluation.post_filter) else {
                continue;
            };
            let pauses = Pauses::of(&pod, engine, now);
            let groups_protect = groups::protect_victims(engine);
            let (oracle, budgets, pod) = (&oracle, &budgets, &*pod);
            let rules = Rules { oracle, budgets, pod, pauses, wall_time, groups_protect };
            if oracle.is_sure_of(pod) {
                rules.nothing_takes()?;
            }
            match &rescue.preemption {
                Some(preemption) => rules.is_right(preemption)?,
                None => rules.is_hopeless(&rescue.result.status.message())?,
            }
            foreseen.evictions.insert(pod.uid.clone(), rescue.preemption);
        }
        Ok(foreseen)
    }

    /// Checks that the attempt did what was expected. Returns the evictions it began. With
    /// `may_fail` an extender has failed.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn after(
        mut self,
        attempt: &Attempt,
        engine: &Engine,
        may_fail: bool,
    ) -> Result<Option<Preemption>, String> {
        let Attempt { pod, outcome } = attempt;
        let best = self.best.remove(&pod.uid).filter(|_| !may_fail);
        if let (Outcome::Assumed(node), Some(best)) = (outcome, &best) {
            rule(best.contains(node), || format!("{} is put on {node}, not on {best:?}", pod.key))?;
        }
        let rejected =
            |outcome: &Outcome| matches!(outcome, Outcome::Unschedulable(_) | Outcome::Repeated(_));
        if let (Outcome::Unschedulable(text) | Outcome::Repeated(text), Some(best)) =
            (outcome, &best)
        {
            // A plugin may reject the pod once a node is chosen.
            let is_right = best.is_empty() || text.contains(PENDING_TEXT);
            rule(is_right, || format!("{} is told {text:?}, and fits on {best:?}", pod.key))?;
        }
        gives_up_its_nomination(attempt, engine)?;
        let preemption = self.evictions.remove(&pod.uid).flatten();
        let Some(preemption) = preemption.filter(|_| rejected(outcome)) else { return Ok(None) };
        let nominator = engine.nominator();
        let nomination = nominator.node_of(&pod.uid);
        rule(nomination == Some(&preemption.node), || {
            format!("{} is nominated to {nomination:?} after {preemption:?}", pod.key)
        })?;
        if engine.is_preempting(&pod.uid) {
            let nominated = nominator.nominated_to(&preemption.node);
            let lower = nominated.iter().find(|other| other.priority() < pod.priority());
            rule(lower.is_none(), || {
                format!("{} keeps its nomination in spite of {}", lower.unwrap_or(pod).key, pod.key)
            })?;
        }
        Ok(Some(preemption))
    }
}

/// Checks that a pod for which no evictions make room loses its nomination.
fn gives_up_its_nomination(Attempt { pod, outcome }: &Attempt, engine: &Engine) -> Checked {
    let (Outcome::Unschedulable(text) | Outcome::Repeated(text)) = outcome else { return Ok(()) };
    let nomination = engine.nominator().node_of(&pod.uid);
    rule(nomination.is_none() || !text.contains(NO_CANDIDATE), || {
        format!("{} stays nominated to {nomination:?}; its event says {text:?}", pod.key)
    })
}

/// Returns the pods one of which is tried next, unless a group is: those whose turn comes first in
/// the active queue or, if it is empty, all in the backoff queue.
fn next(engine: &Engine) -> Vec<Arc<Pod>> {
    let at = |wanted: Place| {
        let entities = engine.queue().entities().filter(move |(place, _)| *place == wanted);
        entities.map(|(_, entity)| entity)
    };
    let turn = |entity: &QueuedEntity| (Reverse(entity.priority()), entity.history().timestamp);
    let first = at(Place::Active).map(turn).min();
    let active = at(Place::Active).filter(|entity| Some(turn(entity)) == first);
    let backoff = at(Place::Backoff).filter(|_| first.is_none());
    let alone = active.chain(backoff).filter_map(|entity| match entity {
        QueuedEntity::Pod(queued) => Some(queued.pod.clone()),
        QueuedEntity::Group(_) => None,
    });
    alone.collect()
}

/// Pauses that apply to a pod.
pub(crate) struct Pauses {
    everywhere: bool,
    nodes: BTreeSet<Arc<str>>,
}

impl Pauses {
    /// Returns the pauses that apply to a pod.
    pub(crate) fn of(pod: &Pod, engine: &Engine, now: Time) -> Self {
        let fruitless = engine.handle(now).preemptions.fruitless();
        Self {
            everywhere: fruitless.pause_of(&pod.uid, now).is_some(),
            nodes: fruitless.paused_nodes(pod, now).map(|(node, _)| node.clone()).collect(),
        }
    }

    /// Whether no pause applies.
    pub(crate) fn are_over(&self) -> bool {
        !self.everywhere && self.nodes.is_empty()
    }

    /// Whether a pause forbids evictions from this node.
    pub(crate) fn include(&self, node: &str) -> bool {
        self.everywhere || self.nodes.contains(node)
    }
}

/// Checks the rules for one pod, on the cluster as the engine knows it.
struct Rules<'a> {
    oracle: &'a Oracle<'a>,
    budgets: &'a Budgets,
    pod: &'a Pod,
    pauses: Pauses,
    wall_time: Time,
    /// Whether victims may be [protected by their groups](groups::protect_victims).
    groups_protect: bool,
}

impl Rules<'_> {
    fn nothing_takes(&self) -> Checked {
        let takers: Vec<_> = self.oracle.takers(self.pod).collect();
        rule(takers.is_empty(), || {
            format!("{} fits nowhere, and {takers:?} would take it", self.pod.key)
        })
    }

    fn is_right(&self, Preemption { node, victims, .. }: &Preemption) -> Checked {
        let pod = self.pod;
        let on = |pod: &Pod| pod.node_name.as_deref().unwrap_or("no node").to_owned();
        let keys = victims.iter().map(|victim| format!("{} on {}", victim.key, on(victim)));
        let keys: Vec<_> = keys.collect();
        let broken = |how: &str| format!("{} evicts {keys:?} from {node}: {how}", pod.key);
        rule(pod.spec.may_preempt, || broken("it may not evict others"))?;
        rule(!self.oracle.room_is_being_made(pod), || broken("its victims are ending"))?;
        rule(!self.pauses.include(node), || broken("it is to pause"))?;
        let least =
            self.groups_protect || victims.iter().all(|victim| victim.priority() < pod.priority());
        rule(least, || broken("a victim is as important"))?;
        let uids: BTreeSet<Uid> = victims.iter().map(|victim| victim.uid.clone()).collect();
        let takes_without = |gone: &BTreeSet<Uid>| self.oracle.takes_without(node, pod, gone);
        rule(takes_without(&uids), || {
            let others = self.oracle.others_on(node, &uids);
            broken(&format!("that does not make room beside {others:?}"))
        })?;
        if self.groups_protect {
            return Ok(());
        }
        let too_many = proper_subsets(&uids).find(takes_without);
        rule(too_many.is_none(), || broken(&format!("{too_many:?} would do")))?;
        self.is_kind(node, &uids).map_err(|how| broken(&how))?;
        self.is_best(node, &uids).map_err(|how| broken(&how))
    }

    /// Checks that the victims are those that Kubernetes chooses, on one of the nodes that it
    /// prefers.
    fn is_best(&self, node: &str, victims: &BTreeSet<Uid>) -> Checked {
        let candidates = self.oracle.candidates(self.pod, self.budgets, self.wall_time);
        let Some(mut candidates) = candidates.filter(|_| self.oracle.is_sure_of(self.pod)) else {
            return Ok(());
        };
        candidates.retain(|candidate| !self.pauses.include(&candidate.node));
        let own = candidates.iter().find(|candidate| *candidate.node == *node);
        let own = own.ok_or_else(|| "that node offers no room".to_owned())?;
        rule(own.victims == *victims, || format!("instead of {own:?}"))?;
        let best = candidates.iter().min_by_key(|candidate| candidate.rank);
        rule(best.is_some_and(|best| best.rank == own.rank), || format!("{best:?} is preferred"))
    }

    /// Checks that a budget is violated only if no node offers an alternative.
    fn is_kind(&self, node: &str, victims: &BTreeSet<Uid>) -> Checked {
        let protected = self.oracle.protected_from(self.pod, node, self.budgets, self.wall_time);
        if victims.is_disjoint(&protected) || !self.oracle.is_sure_of(self.pod) {
            return Ok(());
        }
        let mut others = self.oracle.kind_givers(self.pod, self.budgets, self.wall_time);
        others.retain(|node| !self.pauses.include(node));
        rule(others.is_empty(), || {
            format!("{protected:?} are protected, and {others:?} would violate no budget")
        })
    }

    /// Checks that no evictions would make room for a pod that was rejected, unless the pod may not
    /// preempt or its victims are terminating.
    fn is_hopeless(&self, text: &str) -> Checked {
        let may_hope =
            self.pod.spec.may_preempt && !self.groups_protect && self.oracle.is_sure_of(self.pod);
        if !may_hope || self.oracle.waits_for_victims(self.pod) {
            return Ok(());
        }
        let mut givers = self.oracle.givers(self.pod);
        givers.retain(|node| !self.pauses.include(node));
        rule(givers.is_empty(), || {
            let pod = &self.pod.key;
            format!("{pod} is told {text:?}, and evictions would make room on {givers:?}")
        })
    }
}

/// Returns all proper subsets.
fn proper_subsets(all: &BTreeSet<Uid>) -> impl Iterator<Item = BTreeSet<Uid>> {
    (0..(1_u32 << all.len()) - 1).map(move |bits| {
        let members = (0..).zip(all).filter(move |(place, _)| bits >> place & 1 == 1);
        members.map(|(_, uid)| uid.clone()).collect()
    })
}
