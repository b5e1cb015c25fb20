//! A binary heap of items, mostly entities, from which any item can be taken by its key.

use std::fmt::Debug;
use std::hash::Hash;

use foldhash::HashMap;
use framework::{EntityKey, QueuedEntity};

/// An item of a heap.
pub(super) trait Keyed {
    /// What identifies an item.
    type Key: Clone + Eq + Hash + Debug;

    fn key(&self) -> Self::Key;
}

impl Keyed for QueuedEntity {
    type Key = EntityKey;

    fn key(&self) -> EntityKey {
        self.key()
    }
}

/// The order in which items leave a heap.
pub(super) trait Order<T> {
    /// Whether `a` leaves before `b`. Items that compare equal leave in the order of their arrival.
    fn before(&mut self, a: &T, b: &T) -> bool;
}

/// A heap of entities.
pub(super) type EntityHeap = Heap<QueuedEntity>;

/// A heap of items with unique keys.
///
/// Every method that changes the heap takes the order, which must be the same each time. If the
/// order contradicts itself, items leave in an arbitrary order, but none is lost.
#[derive(Debug)]
pub(super) struct Heap<T: Keyed> {
    /// The items, in no particular order.
    entries: Vec<Entry<T>>,
    /// Indexes into `entries`: no child leaves before its parent.
    heap: Vec<usize>,
    /// Key to index into `entries`; never iterated.
    by_key: HashMap<T::Key, usize>,
    /// Counts arrivals.
    arrivals: u64,
}

#[derive(Debug)]
struct Entry<T> {
    item: T,
    /// Number of its arrival.
    arrival: u64,
    /// Index into `heap` of this entry.
    position: usize,
}

impl<T: Keyed> Default for Heap<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), heap: Vec::new(), by_key: HashMap::default(), arrivals: 0 }
    }
}

impl<T: Keyed> Heap<T> {
    /// Number of items.
    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the heap is empty.
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the item `key`.
    pub(super) fn get(&self, key: &T::Key) -> Option<&T> {
        self.by_key.get(key).map(|entry| &self.entries[*entry].item)
    }

    /// Returns the item that leaves next.
    pub(super) fn peek(&self) -> Option<&T> {
        self.heap.first().map(|entry| &self.entries[*entry].item)
    }

    /// Returns the item that leaves next, and the number of its arrival.
    pub(super) fn first(&self) -> Option<(&T, u64)> {
        self.heap.first().map(|entry| &self.entries[*entry]).map(|own| (&own.item, own.arrival))
    }

    /// Returns the number of the arrival of the item `key`.
    pub(super) fn arrival_of(&self, key: &T::Key) -> Option<u64> {
        self.by_key.get(key).map(|entry| self.entries[*entry].arrival)
    }

    /// Returns all items with the numbers of their arrivals.
    pub(super) fn into_items(self) -> impl Iterator<Item = (T, u64)> {
        self.entries.into_iter().map(|entry| (entry.item, entry.arrival))
    }

    /// Returns every item, in an order that depends only on the history of the heap.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.item)
    }

    /// Adds an item. Returns the item of the same key that it replaces.
    pub(super) fn push(&mut self, item: T, order: &mut impl Order<T>) -> Option<T> {
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.push_at(item, arrival, order)
    }

    /// Adds an item with the number of its arrival.
    pub(super) fn push_at(
        &mut self,
        item: T,
        arrival: u64,
        order: &mut impl Order<T>,
    ) -> Option<T> {
        let key = item.key();
        let replaced = self.remove(&key, order);
        let index = self.entries.len();
        let position = self.heap.len();
        self.by_key.insert(key, index);
        self.entries.push(Entry { item, arrival, position });
        self.heap.push(index);
        self.sift_up(position, order);
        replaced
    }

    /// Removes and returns the item that leaves next.
    pub(super) fn pop(&mut self, order: &mut impl Order<T>) -> Option<T> {
        (!self.is_empty()).then(|| self.take(0, order))
    }

    /// Removes and returns the item `key`.
    pub(super) fn remove(&mut self, key: &T::Key, order: &mut impl Order<T>) -> Option<T> {
        let entry = *self.by_key.get(key)?;
        Some(self.take(self.entries[entry].position, order))
    }

    /// Changes the item `key`, which keeps its key and its arrival. Returns whether there is one.
    pub(super) fn update(
        &mut self,
        key: &T::Key,
        order: &mut impl Order<T>,
        change: impl FnOnce(&mut T),
    ) -> bool {
        let Some(&entry) = self.by_key.get(key) else { return false };
        change(&mut self.entries[entry].item);
        self.restore(self.entries[entry].position, order);
        true
    }

    /// Removes and returns the item at a position of the heap.
    fn take(&mut self, position: usize, order: &mut impl Order<T>) -> T {
        let last = self.heap.len() - 1;
        self.swap(position, last);
        let entry = self.heap.pop().expect("the position exists, so the heap is not empty");
        if position < last {
            self.restore(position, order);
        }
        self.take_entry(entry)
    }

    /// Removes an entry that `heap` no longer points to, and moves the last entry to its index.
    fn take_entry(&mut self, entry: usize) -> T {
        let taken = self.entries.swap_remove(entry);
        self.by_key.remove(&taken.item.key());
        if let Some(moved) = self.entries.get(entry) {
            self.heap[moved.position] = entry;
            let indexed = self.by_key.get_mut(&moved.item.key());
            *indexed.expect("every entry is indexed by its key") = entry;
        }
        taken.item
    }

    fn restore(&mut self, position: usize, order: &mut impl Order<T>) {
        if self.sift_up(position, order) == position {
            self.sift_down(position, order);
        }
    }

    /// Moves the item at `position` up until its parent leaves before it. Returns its new
    /// position.
    fn sift_up(&mut self, mut position: usize, order: &mut impl Order<T>) -> usize {
        while position > 0 {
            let parent = (position - 1) / 2;
            if !self.leaves_before(position, parent, order) {
                break;
            }
            self.swap(position, parent);
            position = parent;
        }
        position
    }

    fn sift_down(&mut self, mut position: usize, order: &mut impl Order<T>) {
        loop {
            let mut first = position;
            for child in [2 * position + 1, 2 * position + 2] {
                if child < self.heap.len() && self.leaves_before(child, first, order) {
                    first = child;
                }
            }
            if first == position {
                return;
            }
            self.swap(position, first);
            position = first;
        }
    }

    fn leaves_before(&self, a: usize, b: usize, order: &mut impl Order<T>) -> bool {
        let (a, b) = (&self.entries[self.heap[a]], &self.entries[self.heap[b]]);
        order.before(&a.item, &b.item) || (a.arrival < b.arrival && !order.before(&b.item, &a.item))
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.entries[self.heap[a]].position = a;
        self.entries[self.heap[b]].position = b;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::{PodKey, Time};
    use proptest::prelude::*;
    use testkit::pod;

    use super::*;

    /// Higher priority first.
    struct ByPriority;

    impl Order<QueuedEntity> for ByPriority {
        fn before(&mut self, a: &QueuedEntity, b: &QueuedEntity) -> bool {
            a.priority() > b.priority()
        }
    }

    fn queued(name: u8, priority: i32) -> QueuedEntity {
        let pod = pod(&name.to_string()).priority(priority).build();
        QueuedEntity::of_pod(Arc::new(pod), Time::ZERO)
    }

    fn key(name: u8) -> EntityKey {
        EntityKey::Pod(PodKey::new("default", &name.to_string()))
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(u8, i32),
        Update(u8, i32),
        Remove(u8),
        Pop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..12_u8, 0..4_i32).prop_map(|(name, priority)| Step::Push(name, priority)),
            (0..12_u8, 0..4_i32).prop_map(|(name, priority)| Step::Update(name, priority)),
            (0..12_u8).prop_map(Step::Remove),
            Just(Step::Pop),
        ]
    }

    /// Removes the pod that a heap would pop from a list in order of arrival.
    fn model_pop(model: &mut Vec<(u8, i32)>) -> Option<(u8, i32)> {
        let place = (0..model.len()).min_by_key(|place| (-model[*place].1, *place))?;
        Some(model.remove(place))
    }

    proptest! {
        #[test]
        fn heap_agrees_with_sorted_list(steps in prop::collection::vec(step(), 0..80)) {
            let (mut heap, mut model) = (EntityHeap::default(), Vec::new());
            for step in steps {
                match step {
                    Step::Push(name, priority) => {
                        heap.push(queued(name, priority), &mut ByPriority);
                        model.retain(|(other, _)| *other != name);
                        model.push((name, priority));
                    }
                    Step::Update(name, priority) => {
                        let newer = queued(name, priority);
                        let known = heap.update(&key(name), &mut ByPriority, |entity| *entity = newer);
                        let entry = model.iter_mut().find(|(other, _)| *other == name);
                        prop_assert_eq!(known, entry.is_some());
                        entry.into_iter().for_each(|entry| entry.1 = priority);
                    }
                    Step::Remove(name) => {
                        let removed = heap.remove(&key(name), &mut ByPriority).is_some();
                        prop_assert_eq!(removed, model.iter().any(|(other, _)| *other == name));
                        model.retain(|(other, _)| *other != name);
                    }
                    Step::Pop => {
                        let popped = heap.pop(&mut ByPriority).map(|entity| entity.key());
                        prop_assert_eq!(popped, model_pop(&mut model).map(|(name, _)| key(name)));
                    }
                }
                prop_assert_eq!(heap.len(), model.len());
                for (name, _) in &model {
                    prop_assert!(heap.get(&key(*name)).is_some());
                }
            }
            while let Some(popped) = heap.pop(&mut ByPriority) {
                let expected = model_pop(&mut model).map(|(name, _)| key(name));
                prop_assert_eq!(Some(popped.key()), expected);
            }
        }
    }
}
