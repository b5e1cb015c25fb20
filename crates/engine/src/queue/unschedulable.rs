//! Entities that wait for an event (`unschedulablePods` in kube-scheduler).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use framework::{EntityKey, PluginName, Pod, QueuedEntity, Template, Time};

use super::backoff::{Backoff, is_backing_off};
use super::place::Place;

/// The position of an entity among those that wait: longest wait first, then first arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    since: Time,
    arrival: u64,
}

/// The properties of an entity that determine which events may move it. The keys of rejected
/// entities sort before the keys of gated ones.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitKey {
    gate: Option<PluginName>,
    scheduler_name: Arc<str>,
    /// Sorted by name.
    rejectors: Box<[PluginName]>,
    /// A number for the pods of one template that share the answer of each attempt.
    answer: Option<u64>,
}

/// The properties of pods that share the answer of each attempt.
type AnswerKey = (Template, Box<[PluginName]>);

/// The entities of one key.
pub(super) type Waiting = BTreeMap<Slot, QueuedEntity>;

/// Rejected and gated entities, by the plugins that rejected or gate them, so that an event visits
/// only those that it may help. Rejected pods of one template that share their answer have a key of
/// their own.
#[derive(Debug, Default)]
pub(super) struct UnschedulableEntities {
    /// Never iterated.
    slots: HashMap<EntityKey, (Arc<WaitKey>, Slot)>,
    /// None is empty.
    waiting: BTreeMap<Arc<WaitKey>, Waiting>,
    /// The key of the pods that share an answer.
    answers: HashMap<AnswerKey, Arc<WaitKey>>,
    gated: usize,
    /// Number of arrivals.
    arrivals: u64,
}

/// What the new object of a pod changes.
#[derive(Debug)]
pub(super) enum Replaced {
    /// The entity stays where it is.
    InPlace,
    /// The entity no longer shares the answer of those of this key.
    LeavesAnswer(Arc<WaitKey>),
}

impl WaitKey {
    /// Whether the pods are of one template and share the answer of each attempt.
    pub(super) const fn shares_answer(&self) -> bool {
        self.answer.is_some()
    }

    const fn place(&self) -> Place {
        match self.gate {
            None => Place::Unschedulable,
            Some(_) => Place::Gated,
        }
    }

    /// Whether a PreEnqueue plugin gates the entities.
    pub(super) const fn is_gated(&self) -> bool {
        self.gate.is_some()
    }

    /// Returns the scheduler name of the pods.
    pub(super) fn scheduler_name(&self) -> &str {
        &self.scheduler_name
    }

    /// Returns the plugins that rejected the entities, by name.
    pub(super) fn rejectors(&self) -> &[PluginName] {
        &self.rejectors
    }

    /// Returns the plugins whose events may move the entities. Only events of the gating plugin
    /// move a gated one.
    pub(super) fn waits_for(&self) -> &[PluginName] {
        self.gate.as_ref().map_or(&self.rejectors, std::slice::from_ref)
    }
}

impl UnschedulableEntities {
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Number of entities that were rejected in an attempt.
    pub(super) fn rejected_count(&self) -> usize {
        self.slots.len() - self.gated
    }

    /// Number of answers that pods share.
    #[cfg(test)]
    pub(super) fn answer_count(&self) -> usize {
        self.answers.len()
    }

    /// Number of entities that a PreEnqueue plugin gates.
    pub(super) const fn gated_count(&self) -> usize {
        self.gated
    }

    /// Returns the entity `key`.
    pub(super) fn get(&self, key: &EntityKey) -> Option<(Place, &QueuedEntity)> {
        let (waiting, slot) = self.slots.get(key)?;
        Some((waiting.place(), self.waiting.get(waiting)?.get(slot)?))
    }

    /// Returns what the entity `key` waits for.
    pub(super) fn wait_key(&self, key: &EntityKey) -> Option<&WaitKey> {
        Some(&self.slots.get(key)?.0)
    }

    /// Returns every entity, rejected ones first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &QueuedEntity)> {
        self.waiting
            .iter()
            .flat_map(|(key, entities)| entities.values().map(|entity| (key.place(), entity)))
    }

    /// Returns the entities of each key by [`Slot`].
    pub(super) fn by_wait_key(&self) -> impl Iterator<Item = (&WaitKey, &Waiting)> {
        self.waiting.iter().map(|(key, entities)| (&**key, entities))
    }

    /// Adds an entity whose key is new. It is gated if its history names a gating plugin.
    pub(super) fn insert(&mut self, entity: QueuedEntity) -> Place {
        let history = entity.history();
        debug_assert!(!history.has_no_rejector(), "no event can move {:?}", entity.key());
        // The flush of a gated entity starts its wait anew, and leaves the order of the queue
        // alone.
        let flushed = history.gate_flushed.filter(|_| history.gating_plugin.is_some());
        let since = flushed.map_or(history.timestamp, |flushed| flushed.max(history.timestamp));
        let slot = Slot { since, arrival: self.arrivals };
        self.arrivals += 1;
        let waiting = self.wait_key_of(&entity);
        let place = waiting.place();
        self.insert_at(waiting, slot, entity);
        place
    }

    fn insert_at(&mut self, waiting: Arc<WaitKey>, slot: Slot, entity: QueuedEntity) {
        self.gated += usize::from(waiting.is_gated());
        self.slots.insert(entity.key(), (waiting.clone(), slot));
        self.waiting.entry(waiting).or_default().insert(slot, entity);
    }

    /// Returns what an entity waits for, with a new key for the first pod that shares its answer.
    fn wait_key_of(&mut self, entity: &QueuedEntity) -> Arc<WaitKey> {
        let answer = answer_key(entity);
        if let Some(known) = answer.as_ref().and_then(|key| self.answers.get(key)) {
            return known.clone();
        }
        let history = entity.history();
        let waiting = WaitKey {
            gate: history.gating_plugin.clone(),
            scheduler_name: entity.scheduler_name().clone(),
            rejectors: history.rejectors().cloned().collect(),
            answer: answer.is_some().then_some(self.arrivals),
        };
        let known = self.waiting.get_key_value(&waiting).map(|(known, _)| known.clone());
        let waiting = known.unwrap_or_else(|| Arc::new(waiting));
        if let Some(key) = answer {
            self.answers.insert(key, waiting.clone());
        }
        waiting
    }

    /// Removes and returns the entity `key`.
    pub(super) fn remove(&mut self, key: &EntityKey) -> Option<QueuedEntity> {
        Some(self.take(key)?.1)
    }

    /// Removes and returns the entity `key` and what it waits for.
    pub(super) fn take(&mut self, key: &EntityKey) -> Option<(Arc<WaitKey>, QueuedEntity)> {
        let (waiting, slot) = self.slots.remove(key)?;
        self.gated -= usize::from(waiting.is_gated());
        let entities = self.waiting.get_mut(&waiting)?;
        let entity = entities.remove(&slot)?;
        if entities.is_empty() {
            self.waiting.remove(&waiting);
            if let Some(key) = answer_key(&entity) {
                self.answers.remove(&key);
            }
        }
        Some((waiting, entity))
    }

    /// Replaces a pod of the entity `key`; the scheduler name of a pod is immutable. Returns `None`
    /// if the entity is elsewhere. A pod whose template has changed no longer shares its answer.
    pub(super) fn update(&mut self, key: &EntityKey, pod: &Arc<Pod>) -> Option<Replaced> {
        let (waiting, slot) = self.slots.get(key).cloned()?;
        let entity = self.waiting.get_mut(&waiting).and_then(|entities| entities.get_mut(&slot));
        let entity = entity.expect("a slot holds an entity");
        if !waiting.shares_answer() || template_of(entity) == Some(Template::of(pod)) {
            entity.set_pod(pod.clone());
            return Some(Replaced::InPlace);
        }
        let mut entity = self.remove(key).expect("a slot holds an entity");
        entity.set_pod(pod.clone());
        entity.history_mut().template_rejected = false;
        let own = self.wait_key_of(&entity);
        self.insert_at(own, slot, entity);
        Some(Replaced::LeavesAnswer(waiting))
    }

    /// Returns the entity to try first: the one that waits longest and does not back off, or else
    /// the one whose backoff ends first.
    pub(super) fn first_to_try<'a>(
        entities: impl Iterator<Item = (&'a Slot, &'a QueuedEntity)>,
        backoff: Backoff,
        now: Time,
    ) -> Option<(&'a Slot, &'a QueuedEntity)> {
        let mut first: Option<(Time, (&Slot, &QueuedEntity))> = None;
        for (slot, entity) in entities {
            let history = entity.history();
            match history.backoff_expiration.or_else(|| backoff.expiration(history)) {
                Some(end) if is_backing_off(Some(end), now) => {
                    if first.is_none_or(|(earliest, _)| end < earliest) {
                        first = Some((end, (slot, entity)));
                    }
                }
                _ => return Some((slot, entity)),
            }
        }
        first.map(|(_, entity)| entity)
    }

    /// Returns the entities of a key by slot.
    pub(super) fn entities_of(&self, waiting: &WaitKey) -> Option<&Waiting> {
        self.waiting.get(waiting)
    }

    /// Notes that the pods that share an answer were rejected together with the waiting entity
    /// `rejected`, by its rejectors.
    pub(super) fn reject_alike(&mut self, waiting: &Arc<WaitKey>, rejected: &EntityKey) {
        let Some((own, slot)) = self.slots.get(rejected).cloned() else { return };
        let first = self.entities_of(waiting).and_then(BTreeMap::first_key_value);
        let Some(before) = first.and_then(|(_, first)| answer_key(first)) else { return };
        let rejected = &self.waiting[&own][&slot];
        if own == *waiting || Some(before.0.clone()) != template_of(rejected) {
            return;
        }
        let plugins = rejected.history().unschedulable_plugins.clone();
        self.answers.remove(&before);
        for (slot, mut entity) in self.waiting.remove(waiting).into_iter().flatten() {
            entity.history_mut().unschedulable_plugins.clone_from(&plugins);
            self.insert_at(own.clone(), slot, entity);
        }
    }

    /// Whether some entity, gated or not, has waited for more than `max_wait` at `now`.
    pub(super) fn any_overdue(&self, now: Time, max_wait: Duration) -> bool {
        let mut oldest = self.waiting.values().filter_map(BTreeMap::first_key_value);
        oldest.any(|(slot, _)| slot.is_overdue(now, max_wait))
    }

    /// Returns the start of the longest wait of an entity, rejected or gated.
    pub(super) fn oldest(&self) -> Option<Time> {
        let oldest = self.waiting.values().filter_map(BTreeMap::first_key_value);
        oldest.map(|(slot, _)| slot.since).min()
    }
}

/// Returns the properties that an entity has in common with those that share its answer, if it may.
fn answer_key(entity: &QueuedEntity) -> Option<AnswerKey> {
    let history = entity.history();
    let shares = history.template_rejected && history.gating_plugin.is_none();
    let template = template_of(entity).filter(|_| shares)?;
    Some((template, history.rejectors().cloned().collect()))
}

/// Returns the template of a pod that is scheduled alone.
fn template_of(entity: &QueuedEntity) -> Option<Template> {
    match entity {
        QueuedEntity::Pod(queued) => Some(Template::of(&queued.pod)),
        QueuedEntity::Group(_) => None,
    }
}

impl Slot {
    /// Whether the entity has waited for more than `max_wait` at `now`.
    pub(super) fn is_overdue(&self, now: Time, max_wait: Duration) -> bool {
        now.since(self.since) > max_wait
    }
}

#[cfg(test)]
mod tests {
    use framework::PodKey;
    use testkit::pod;

    use super::*;

    fn waiting(name: &str, seconds: i64, rejectors: &[&str], gate: Option<&str>) -> QueuedEntity {
        let pod = Arc::new(pod(name).build());
        let mut entity = QueuedEntity::of_pod(pod, Time::from_secs(seconds));
        let history = entity.history_mut();
        history.unschedulable_plugins = rejectors.iter().map(|name| (*name).into()).collect();
        history.gating_plugin = gate.map(PluginName::from);
        entity
    }

    /// What entities wait for, and the names of these entities.
    fn waiting_for(entities: &UnschedulableEntities) -> Vec<(String, String)> {
        let name = |entity: &QueuedEntity| entity.pods()[0].pod.key.name.to_string();
        let names = |entities: &Waiting| entities.values().map(name).collect::<Vec<_>>().join(" ");
        let plugins = |key: &WaitKey| {
            key.waits_for().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        entities.by_wait_key().map(|(key, own)| (plugins(key), names(own))).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn entities_are_kept_by_their_rejectors() {
        let mut pods = UnschedulableEntities::default();
        pods.insert(waiting("late", 9, &["Fit"], None));
        pods.insert(waiting("both", 5, &["Fit", "Ports"], None));
        pods.insert(waiting("gated", 1, &["Fit", "Gates"], Some("Gates")));
        pods.insert(waiting("early", 5, &["Fit"], None));
        pods.insert(waiting("second", 5, &["Fit"], None));
        let expected = [("Fit", "early second late"), ("Fit Ports", "both"), ("Gates", "gated")];
        assert_eq!(waiting_for(&pods), pairs(&expected));
        assert_eq!((pods.rejected_count(), pods.gated_count()), (4, 1));
        assert_eq!(pods.oldest(), Some(Time::from_secs(1)));
        let overdue = |seconds| pods.any_overdue(Time::from_secs(seconds), Duration::from_secs(5));
        assert_eq!((overdue(6), overdue(7)), (false, true));

        assert!(pods.remove(&EntityKey::Pod(PodKey::new("default", "both"))).is_some());
        assert!(pods.remove(&EntityKey::Pod(PodKey::new("default", "both"))).is_none());
        assert!(pods.remove(&EntityKey::Pod(PodKey::new("default", "gated"))).is_some());
        assert_eq!(waiting_for(&pods), pairs(&[("Fit", "early second late")]));
        assert_eq!((pods.rejected_count(), pods.gated_count()), (3, 0));
    }
}
