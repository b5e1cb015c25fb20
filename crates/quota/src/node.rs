//! The quotas of the tree.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{ElasticQuota, QuotaKey, Time};

use crate::amounts::{Amounts, Limits, ResourceIx, Resources};
use crate::books::Books;

/// The dense id of a quota. Ids of removed quotas are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaIx(pub(crate) u32);

impl QuotaIx {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The order of quotas of one name or namespace: the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) created: Time,
    pub(crate) key: QuotaKey,
    pub(crate) quota: QuotaIx,
}

/// A quota, and what the pods below it use.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) key: QuotaKey,
    pub(crate) object: Arc<ElasticQuota>,
    pub(crate) min: Limits,
    pub(crate) max: Limits,
    pub(crate) weight: Limits,
    /// Whether it counts. Of the quotas of a namespace that are in no tree, the oldest does.
    pub(crate) counts: bool,
    pub(crate) parent: Option<QuotaIx>,
    pub(crate) children: BTreeSet<QuotaIx>,
    /// Amounts of pods with a node, below it and its own.
    pub(crate) used: Amounts,
    /// Amounts of all pods that choose it, and the demands of its children.
    pub(crate) demand: Amounts,
    /// Number of pods without a node, below it and its own.
    pub(crate) waiting: i64,
    /// What children that do not lend leave of their `min`.
    pub(crate) withheld: Amounts,
}

impl Node {
    pub(crate) fn new(key: QuotaKey, object: Arc<ElasticQuota>, resources: &mut Resources) -> Self {
        let spec = &object.spec;
        let mut limits = |amounts: &Option<_>| {
            amounts.as_ref().map_or_else(Limits::default, |own| Limits::of(own, resources))
        };
        let (min, max) = (limits(&spec.min), limits(&spec.max));
        Self {
            min,
            max,
            weight: limits(&spec.weight),
            key,
            object,
            counts: false,
            parent: None,
            children: BTreeSet::new(),
            used: Amounts::default(),
            demand: Amounts::default(),
            waiting: 0,
            withheld: Amounts::default(),
        }
    }

    pub(crate) fn rank(&self, quota: QuotaIx) -> Rank {
        let created = self.object.created.unwrap_or(Time::from_nanos(i64::MAX));
        Rank { created, key: self.key.clone(), quota }
    }

    /// Whether the quota governs a resource: its `min` or its `max` mentions it.
    pub(crate) fn governs(&self, resource: ResourceIx) -> bool {
        self.min.mentions(resource) || self.max.mentions(resource)
    }

    /// Returns what is asked for, at most `max`.
    pub(crate) fn capped_demand(&self, resource: ResourceIx) -> i128 {
        let demand = self.demand.get(resource);
        self.max.get(resource).map_or(demand, |max| demand.min(i128::from(max).max(0)))
    }

    /// Returns what the quota leaves of its `min`, if it does not lend.
    pub(crate) fn kept_back(&self, resource: ResourceIx) -> i128 {
        if self.object.spec.lends {
            return 0;
        }
        let min = self.min.get(resource).unwrap_or_default();
        (i128::from(min) - self.used.get(resource)).max(0)
    }
}

/// A quota, to be read.
#[derive(Debug, Clone, Copy)]
pub struct QuotaView<'a> {
    pub(crate) books: &'a Books,
    pub(crate) ix: QuotaIx,
}

impl<'a> QuotaView<'a> {
    pub(crate) fn node(self) -> &'a Node {
        self.books.node(self.ix)
    }

    /// Returns the id of the quota.
    pub const fn ix(self) -> QuotaIx {
        self.ix
    }

    /// Returns namespace and name.
    pub fn key(self) -> &'a QuotaKey {
        &self.node().key
    }

    /// Returns the object.
    pub fn object(self) -> &'a Arc<ElasticQuota> {
        &self.node().object
    }

    /// Whether the quota counts. Of several quotas of one namespace that are in no tree, only the
    /// oldest does.
    pub fn counts(self) -> bool {
        self.node().counts
    }

    /// Returns the parent.
    pub fn parent(self) -> Option<Self> {
        Some(Self { ix: self.node().parent?, ..self })
    }

    /// Returns the children, by id.
    pub fn children(self) -> impl Iterator<Item = Self> {
        self.node().children.iter().map(move |ix| Self { ix: *ix, ..self })
    }

    /// Returns the quota and those above it, the quota itself first.
    pub fn path(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |own| own.parent())
    }

    /// Whether the quota governs a resource: its `min` or its `max` mentions it.
    pub fn governs(self, resource: ResourceIx) -> bool {
        self.node().governs(resource)
    }

    /// Returns the guaranteed amount; `None` if it is not mentioned.
    pub fn min(self, resource: ResourceIx) -> Option<i64> {
        self.node().min.get(resource)
    }

    /// Returns the largest amount; `None` if it is not mentioned.
    pub fn max(self, resource: ResourceIx) -> Option<i64> {
        self.node().max.get(resource)
    }

    /// Returns the amount that pods with a node use.
    pub fn used(self, resource: ResourceIx) -> i128 {
        self.node().used.get(resource)
    }

    /// Returns the amount that pods with a node use of the resource of this name.
    pub fn used_of(self, name: &str) -> i128 {
        self.books.resource(name).map_or(0, |resource| self.used(resource))
    }

    /// Returns the amount that all pods ask for, with and without a node. Of the demand of a child
    /// at most its `max` counts.
    pub fn demand(self, resource: ResourceIx) -> i128 {
        self.node().demand.get(resource)
    }

    /// Number of pods without a node.
    pub fn waiting(self) -> i64 {
        self.node().waiting
    }

    /// Returns the resources that `min` or `max` mentions, by id.
    pub fn governed(self) -> impl Iterator<Item = ResourceIx> {
        self.books.all_resources().filter(move |resource| self.governs(*resource))
    }
}
