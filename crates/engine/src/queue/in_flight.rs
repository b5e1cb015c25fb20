//! Entities in flight, and the events since they were popped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use foldhash::HashMap;
use framework::{EntityKey, Pod, QueuedEntity, Uid};
use smallvec::SmallVec;

use crate::object_event::ObjectEvent;

/// Maximum number of events kept. An entity that waits in Permit for so long that events since its
/// pop are dropped backs off if it is rejected, because any of them may help it.
const MAX_EVENTS: usize = 4096;

/// The entities between [`pop`](super::Queue::pop) and [`done`](super::Queue::done), and the events
/// since the earliest of these pops. When an attempt fails, the queue checks whether one of the
/// events since its pop may help the entity.
///
/// An event is dropped once every entity that was in flight when it came is done.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Never iterated.
    entities: HashMap<Uid, Marker>,
    /// The entity popped last under a key; never iterated.
    by_key: HashMap<EntityKey, Uid>,
    /// Number of entities by the position of the first event since their pop.
    starts: BTreeMap<u64, usize>,
    /// The events kept; the first has the position `dropped`.
    events: VecDeque<ObjectEvent>,
    /// Number of dropped events, which is the position of the first event kept.
    dropped: u64,
}

/// An entity in flight.
#[derive(Debug)]
struct Marker {
    key: EntityKey,
    /// The pods as they were popped.
    pods: SmallVec<[Arc<Pod>; 1]>,
    /// Position of the first event since its pop.
    start: u64,
}

impl InFlight {
    /// Number of entities.
    pub(super) fn len(&self) -> usize {
        self.entities.len()
    }

    /// Returns the events kept, oldest first.
    pub(super) fn events(&self) -> impl ExactSizeIterator<Item = &ObjectEvent> {
        self.events.iter()
    }

    /// Whether the entity is in flight.
    pub(super) fn contains(&self, uid: &Uid) -> bool {
        self.entities.contains_key(uid)
    }

    /// Returns the pods of an entity in flight as they were popped.
    pub(super) fn popped(&self, uid: &Uid) -> &[Arc<Pod>] {
        self.entities.get(uid).map_or(&[], |marker| &marker.pods)
    }

    /// Returns the pods of the entity of this key that was popped last, if it is in flight.
    pub(super) fn named(&self, key: &EntityKey) -> &[Arc<Pod>] {
        self.by_key.get(key).map_or(&[], |uid| self.popped(uid))
    }

    /// Adds a popped entity. Returns false if it is in flight already.
    pub(super) fn start(&mut self, entity: &QueuedEntity) -> bool {
        let uid = entity.uid();
        if self.contains(uid) {
            return false;
        }
        let key = entity.key();
        let pods = entity.pods().iter().map(|queued| queued.pod.clone()).collect();
        let start = self.dropped + self.events.len() as u64;
        self.by_key.insert(key.clone(), uid.clone());
        self.entities.insert(uid.clone(), Marker { key, pods, start });
        *self.starts.entry(start).or_default() += 1;
        true
    }

    /// Keeps an event if any entity is in flight.
    pub(super) fn record(&mut self, event: &ObjectEvent) {
        if self.entities.is_empty() {
            return;
        }
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back(event.clone());
    }

    /// Returns all events since the entity was popped, or `None` if it is not in flight, or if some
    /// of the events are no longer kept.
    pub(super) fn since(&self, uid: &Uid) -> Option<impl Iterator<Item = &ObjectEvent>> {
        let start = self.entities.get(uid)?.start.checked_sub(self.dropped)?;
        let start = usize::try_from(start).expect("a position kept is an index");
        Some(self.events.range(start..))
    }

    /// Removes an entity. Ignores one that is not in flight.
    pub(super) fn done(&mut self, uid: &Uid) {
        let Some(marker) = self.entities.remove(uid) else { return };
        if self.by_key.get(&marker.key) == Some(uid) {
            self.by_key.remove(&marker.key);
        }
        let waiting = self.starts.get_mut(&marker.start).expect("a start is counted");
        *waiting -= 1;
        if *waiting == 0 {
            self.starts.remove(&marker.start);
            self.drop_unneeded();
        }
    }

    /// Drops the events that came before the pop of every entity in flight.
    fn drop_unneeded(&mut self) {
        let end = self.dropped + self.events.len() as u64;
        let keep_from = self.starts.first_key_value().map_or(end, |(start, _)| *start);
        let keep_from = keep_from.max(self.dropped);
        let seen = usize::try_from(keep_from - self.dropped).expect("a position kept is an index");
        self.events.drain(..seen);
        self.dropped = keep_from;
    }
}

#[cfg(test)]
mod tests {
    use framework::{ClusterEvent, EventResource, Time};
    use testkit::{PodBuilder, pod};

    use super::*;
    use crate::object_event::Objects;

    fn entity(pod: PodBuilder) -> QueuedEntity {
        QueuedEntity::of_pod(Arc::new(pod.build()), Time::ZERO)
    }

    fn event(label: &'static str) -> ObjectEvent {
        ObjectEvent { event: ClusterEvent::wildcard(label), objects: Objects::None }
    }

    fn seen(in_flight: &InFlight, uid: &Uid) -> Option<Vec<String>> {
        Some(in_flight.since(uid)?.map(|event| event.event.to_string()).collect())
    }

    #[test]
    fn events_since_pop_are_kept_until_done() {
        let mut in_flight = InFlight::default();
        let [a, b] = ["a", "b"].map(|name| entity(pod(name)));
        in_flight.record(&event("before anything is in flight"));
        assert!(in_flight.start(&a));
        assert!(!in_flight.start(&a));
        in_flight.record(&event("1"));
        assert!(in_flight.start(&b));
        in_flight.record(&event("2"));
        assert_eq!(seen(&in_flight, a.uid()).unwrap(), ["1", "2"]);
        assert_eq!(seen(&in_flight, b.uid()).unwrap(), ["2"]);

        in_flight.done(a.uid());
        in_flight.done(a.uid());
        assert_eq!(seen(&in_flight, a.uid()), None);
        assert_eq!(in_flight.events().len(), 1, "the first event is of no use to b");
        assert_eq!(seen(&in_flight, b.uid()).unwrap(), ["2"]);
        in_flight.done(b.uid());
        assert_eq!((in_flight.len(), in_flight.events().len()), (0, 0));
    }

    #[test]
    fn events_are_bounded_while_a_pod_stays_in_flight() {
        let mut in_flight = InFlight::default();
        let [waits, next] = ["waits", "next"].map(|name| entity(pod(name)));
        in_flight.start(&waits);
        for number in 0..3 * MAX_EVENTS {
            if number == 2 * MAX_EVENTS {
                in_flight.start(&next);
            }
            in_flight.record(&event("e"));
        }
        assert_eq!(in_flight.events().len(), MAX_EVENTS);
        assert!(in_flight.since(waits.uid()).is_none(), "any event may have happened");
        assert_eq!(in_flight.since(next.uid()).unwrap().count(), MAX_EVENTS);
        in_flight.done(waits.uid());
        assert_eq!(in_flight.since(next.uid()).unwrap().count(), MAX_EVENTS);
        in_flight.done(next.uid());
        assert_eq!(in_flight.events().len(), 0);
    }

    #[test]
    fn name_belongs_to_the_pod_popped_last() {
        let mut in_flight = InFlight::default();
        let [first, second] = ["1", "2"].map(|uid| entity(pod("p").uid(uid)));
        in_flight.start(&first);
        in_flight.start(&second);
        assert_eq!(in_flight.named(&first.key()), [second.pods()[0].pod.clone()]);
        in_flight.done(first.uid());
        assert_eq!(in_flight.named(&first.key()), [second.pods()[0].pod.clone()]);
        in_flight.done(second.uid());
        assert_eq!(in_flight.named(&first.key()), []);
    }

    #[test]
    fn events_are_dropped_when_no_pod_is_in_flight() {
        let mut in_flight = InFlight::default();
        let node = ClusterEvent::new(EventResource::Node, framework::ActionType::ADD);
        let event = ObjectEvent { event: node, objects: Objects::None };
        for round in 0..100 {
            let pod = entity(pod(&round.to_string()));
            in_flight.start(&pod);
            in_flight.record(&event);
            in_flight.record(&event);
            in_flight.done(pod.uid());
            assert_eq!(in_flight.events().len(), 0);
        }
        assert!(in_flight.starts.is_empty() && in_flight.by_key.is_empty());
    }
}
