//! The active queue.
//!
//! Entities leave in the order of the QueueSort plugin. If a profile orders by quota, pods of
//! quotas below their guarantee go before others: the entities of each quota have a heap, and each
//! level of the tree a heap of the quotas with entities at or below them. What the quotas of a
//! level are compared by changes with what their pods use; [`ActiveQueue::usage_changed`] moves the
//! quotas concerned, and no entity.
//!
//! Entities without a quota leave in the order of the QueueSort plugin, compared with the one that
//! leaves first of all quotas.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;
use framework::quota::{QuotaIx, QuotaView, Standing};
use framework::{EntityKey, QueuedEntity};

use super::heap::{EntityHeap, Heap, Keyed, Order};
use super::order::SortPlugin;

#[derive(Debug, Default)]
pub(super) struct ActiveQueue {
    /// The entities without a quota.
    others: EntityHeap,
    /// The entities of each quota; there is none without.
    by_quota: BTreeMap<QuotaIx, EntityHeap>,
    /// The quota of each entity of `by_quota`; never iterated.
    quotas: HashMap<EntityKey, QuotaIx>,
    /// The quotas with entities, at or below them, by their parent; never iterated.
    levels: HashMap<Option<QuotaIx>, Heap<Contender>>,
    /// The structure of the books to which ids of quotas belong.
    structure: u64,
    /// Counts arrivals.
    arrivals: u64,
}

/// A quota with entities, at or below it.
#[derive(Debug)]
struct Contender {
    quota: QuotaIx,
    standing: Standing,
    /// The quota at or below it whose entity leaves first.
    first: QuotaIx,
}

impl Keyed for Contender {
    type Key = QuotaIx;

    fn key(&self) -> QuotaIx {
        self.quota
    }
}

/// The order of the quotas of one level.
struct ByStanding<'o, 'a> {
    by_quota: &'o BTreeMap<QuotaIx, EntityHeap>,
    sort: &'o mut SortPlugin<'a>,
}

impl Order<Contender> for ByStanding<'_, '_> {
    fn before(&mut self, a: &Contender, b: &Contender) -> bool {
        a.standing < b.standing
            || a.standing == b.standing
                && is_first(&self.by_quota[&a.first], &self.by_quota[&b.first], self.sort)
    }
}

/// Whether an entity of the heap `a` leaves before those of the heap `b`.
fn is_first(a: &EntityHeap, b: &EntityHeap, sort: &mut SortPlugin<'_>) -> bool {
    match (a.first(), b.first()) {
        (Some((own, arrival)), Some((other, later))) => {
            sort.before(own, other) || arrival < later && !sort.before(other, own)
        }
        (own, _) => own.is_some(),
    }
}

impl ActiveQueue {
    /// Number of entities.
    pub(super) fn len(&self) -> usize {
        self.others.len() + self.quotas.len()
    }

    /// Whether there is no entity.
    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.quotas.is_empty()
    }

    /// Returns the entity `key`.
    pub(super) fn get(&self, key: &EntityKey) -> Option<&QueuedEntity> {
        let of_quota = || self.by_quota[self.quotas.get(key)?].get(key);
        self.others.get(key).or_else(of_quota)
    }

    /// Returns every entity, in an order that depends only on the history of the queue.
    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedEntity> {
        self.others.iter().chain(self.by_quota.values().flat_map(Heap::iter))
    }

    /// Adds an entity, in place of another one of the same key.
    pub(super) fn push(&mut self, entity: QueuedEntity, sort: &mut SortPlugin<'_>) {
        if sort.quotas().is_some() {
            self.remove(&entity.key(), sort);
        }
        self.arrivals += 1;
        self.push_at(entity, self.arrivals, sort);
    }

    fn push_at(&mut self, entity: QueuedEntity, arrival: u64, sort: &mut SortPlugin<'_>) {
        let Some(quota) = sort.quota_of(&entity) else {
            self.others.push_at(entity, arrival, sort);
            return;
        };
        self.quotas.insert(entity.key(), quota);
        self.by_quota.entry(quota).or_default().push_at(entity, arrival, sort);
        self.first_changed(quota, sort);
    }

    /// Removes and returns the entity that leaves next.
    pub(super) fn pop(&mut self, sort: &mut SortPlugin<'_>) -> Option<QueuedEntity> {
        self.follow_structure(sort);
        let first = self.levels.get(&None).and_then(Heap::peek).map(|contender| contender.first);
        match first {
            Some(quota) if !is_first(&self.others, &self.by_quota[&quota], sort) => {
                self.take(quota, sort, |heap, sort| heap.pop(sort))
            }
            _ => self.others.pop(sort),
        }
    }

    /// Removes and returns the entity `key`.
    pub(super) fn remove(
        &mut self,
        key: &EntityKey,
        sort: &mut SortPlugin<'_>,
    ) -> Option<QueuedEntity> {
        match self.quotas.get(key) {
            Some(quota) => self.take(*quota, sort, |heap, sort| heap.remove(key, sort)),
            None => self.others.remove(key, sort),
        }
    }

    fn take(
        &mut self,
        quota: QuotaIx,
        sort: &mut SortPlugin<'_>,
        take: impl FnOnce(&mut EntityHeap, &mut SortPlugin<'_>) -> Option<QueuedEntity>,
    ) -> Option<QueuedEntity> {
        let heap = self.by_quota.get_mut(&quota)?;
        let taken = take(heap, sort)?;
        if heap.is_empty() {
            self.by_quota.remove(&quota);
        }
        self.quotas.remove(&taken.key());
        self.first_changed(quota, sort);
        Some(taken)
    }

    /// Changes the entity `key`, which keeps its key and its arrival. Returns whether there is one.
    pub(super) fn update(
        &mut self,
        key: &EntityKey,
        sort: &mut SortPlugin<'_>,
        change: impl FnOnce(&mut QueuedEntity),
    ) -> bool {
        if sort.quotas().is_none() {
            return self.others.update(key, sort, change);
        }
        let Some(arrival) = self.arrival_of(key) else { return false };
        let Some(mut entity) = self.remove(key, sort) else { return false };
        change(&mut entity);
        self.push_at(entity, arrival, sort);
        true
    }

    fn arrival_of(&self, key: &EntityKey) -> Option<u64> {
        let of_quota = || self.by_quota[self.quotas.get(key)?].arrival_of(key);
        self.others.arrival_of(key).or_else(of_quota)
    }
}

/// Quotas.
impl ActiveQueue {
    /// Moves the quotas whose pods use more or less than before.
    pub(super) fn usage_changed(&mut self, quotas: &BTreeSet<QuotaIx>, sort: &mut SortPlugin<'_>) {
        let Some(books) = sort.quotas().filter(|_| !self.quotas.is_empty()) else { return };
        for quota in quotas {
            let view = books.view(*quota);
            let level = self.levels.get(&view.parent().map(QuotaView::ix));
            let known = level.and_then(|level| level.get(quota));
            if known.is_some_and(|known| known.standing != view.standing()) {
                self.first_changed(*quota, sort);
            }
        }
    }

    /// Moves a quota, and those above it, to their places.
    fn first_changed(&mut self, quota: QuotaIx, sort: &mut SortPlugin<'_>) {
        let Some(books) = sort.quotas().filter(|books| books.structure() == self.structure) else {
            return;
        };
        for view in books.view(quota).path() {
            let quota = view.ix();
            let below = || Some(self.levels.get(&Some(quota))?.peek()?.first);
            let first = if self.by_quota.contains_key(&quota) { Some(quota) } else { below() };
            let level = self.levels.entry(view.parent().map(QuotaView::ix)).or_default();
            let order = &mut ByStanding { by_quota: &self.by_quota, sort: &mut *sort };
            let Some(first) = first else {
                level.remove(&quota, order);
                continue;
            };
            let standing = view.standing();
            let change = |known: &mut Contender| (known.standing, known.first) = (standing, first);
            if !level.update(&quota, order, change) {
                level.push(Contender { quota, standing, first }, order);
            }
        }
    }

    /// Orders all entities anew if quotas have changed since the last time.
    fn follow_structure(&mut self, sort: &mut SortPlugin<'_>) {
        let Some(books) = sort.quotas().filter(|books| books.structure() != self.structure) else {
            return;
        };
        self.structure = books.structure();
        self.levels.clear();
        self.quotas.clear();
        let of_quotas = std::mem::take(&mut self.by_quota).into_values();
        let all = std::iter::once(std::mem::take(&mut self.others)).chain(of_quotas);
        for (entity, arrival) in all.flat_map(Heap::into_items) {
            self.push_at(entity, arrival, sort);
        }
    }
}
