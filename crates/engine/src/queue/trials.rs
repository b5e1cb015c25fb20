//! Trials: one entity is tried for all that share its answer.
//!
//! Pods of one template that are rejected because of it share the answer of each attempt. An event
//! that may help them moves one. If its attempt is rejected, the others would be rejected too and
//! go on waiting. If it finds a node, the next one is tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use framework::{EntityKey, Uid};

use super::hint::QueueingStrategy;
use super::unschedulable::WaitKey;

/// The trial of one entity for all of a key that share its answer.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) waiting: Arc<WaitKey>,
    /// The entity that is tried.
    pub(super) entity: EntityKey,
    /// How the event requeues the entities.
    pub(super) strategy: QueueingStrategy,
    /// The label of the event.
    pub(super) label: Arc<str>,
}

/// The trials under way, at most one for each key.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// Never iterated.
    by_entity: HashMap<Uid, Trial>,
    entities: BTreeMap<Arc<WaitKey>, Uid>,
}

impl Trials {
    /// Number of trials.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entities.len()
    }

    /// Whether the entity is tried for others.
    pub(super) fn contains(&self, entity: &Uid) -> bool {
        self.by_entity.contains_key(entity)
    }

    /// Returns the trial for the entities of a key.
    pub(super) fn of(&self, waiting: &WaitKey) -> Option<&Trial> {
        self.by_entity.get(self.entities.get(waiting)?)
    }

    /// Returns the entity that is tried for those of a key.
    pub(super) fn entity_of(&self, waiting: &WaitKey) -> Option<&Uid> {
        self.entities.get(waiting)
    }

    /// Begins a trial. An earlier one for the same entities ends.
    pub(super) fn begin(&mut self, uid: &Uid, trial: Trial) {
        if let Some(before) = self.entities.insert(trial.waiting.clone(), uid.clone()) {
            self.by_entity.remove(&before);
        }
        self.by_entity.insert(uid.clone(), trial);
    }

    /// Ends the trial of this entity, if there is one.
    pub(super) fn end(&mut self, uid: &Uid) -> Option<Trial> {
        let trial = self.by_entity.remove(uid)?;
        self.entities.remove(&trial.waiting);
        Some(trial)
    }
}
