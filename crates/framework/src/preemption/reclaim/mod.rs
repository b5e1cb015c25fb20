//! Preemption under quotas: which pods a preemptor may evict, and which it needs to.
//!
//! A pod whose quota stays within its guarantee takes back what others have borrowed, whatever
//! their priority: first from quotas above their share, then from quotas above their guarantee.
//! Within its own quota it evicts pods of lower priority, and so does a pod without a quota among
//! pods without one. The limits of quotas must hold afterwards, so victims may be on other nodes
//! than the preemptor.

mod for_group;
mod on_node;
mod units;

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::quota::{Amounts, Books, QuotaIx, QuotaView, Reading, Request, ResourceIx, Sums};
use crate::{Cluster, Handle, Pod, PodGroupKey, Time};

pub use self::for_group::reclaim_for_group;
pub use self::on_node::{Elsewhere, reclaim_on_node};

/// Whether a preemptor must spare a pod, besides what quotas say.
pub type Exempts<'a> = &'a dyn Fn(&Pod) -> bool;

/// A preemptor under quotas.
pub struct Reclaim<'a> {
    cluster: &'a Cluster,
    reading: Reading,
    priority: i32,
    quota: Option<QuotaIx>,
    request: Request,
    /// The resources that the preemptor itself asks for.
    asked: Amounts,
    /// The group that gets the room, whose own pods are spared.
    spared: Option<&'a PodGroupKey>,
    exempts: Exempts<'a>,
    /// What pods use that are evicted already. They make room for the pods that are nominated.
    leaving: Sums,
    wall_time: Time,
    shares: RefCell<BTreeMap<(QuotaIx, ResourceIx), i128>>,
    /// Whether something may be taken from a quota at the beginning.
    gives: RefCell<BTreeMap<QuotaIx, bool>>,
}

/// Down to which level pods are taken from a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Its share.
    Share,
    /// What is guaranteed to it, if others have less than that.
    Owed,
}

impl Level {
    /// Pods above shares are taken first.
    pub(super) const ALL: [Self; 2] = [Self::Share, Self::Owed];
}

/// How a preemptor may take a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    /// The pod has a lower priority.
    Priority,
    /// The quota of the pod has borrowed what is guaranteed to the quota of the preemptor.
    Borrowed(QuotaIx),
}

impl<'a> Reclaim<'a> {
    /// Returns the preemptor of a failed attempt.
    pub fn new(pod: &Pod, handle: &Handle<'a>, reading: Reading, exempts: Exempts<'a>) -> Self {
        let cluster = handle.cluster;
        let quota = cluster.quotas().quota_of(pod).map(QuotaView::ix);
        let asked = cluster.quotas().request_of(pod);
        let request = quota
            .map_or_else(Request::default, |quota| request_in(quota, pod, &asked, handle, reading));
        Self {
            cluster,
            reading,
            priority: pod.priority(),
            quota,
            request,
            asked,
            spared: None,
            exempts,
            leaving: leaving(cluster),
            wall_time: handle.wall_time(),
            shares: RefCell::default(),
            gives: RefCell::default(),
        }
    }

    fn books(&self) -> &'a Books {
        self.cluster.quotas()
    }

    /// Whether the limits of the quotas hold with the preemptor and without these pods.
    fn fits_quota(&self, less: &Sums) -> bool {
        let admits = |quota| self.books().admit(quota, &self.request, less, self.reading).is_ok();
        self.quota.is_none_or(admits)
    }

    /// Returns how the preemptor may take a pod at the beginning, if at all.
    fn right_to(&self, pod: &Pod, priority: i32) -> Option<Right> {
        let other = self.books().quota_of(pod).map(QuotaView::ix);
        let is_lower = priority < self.priority;
        match (self.quota, other) {
            (None, None) => is_lower.then_some(Right::Priority),
            (Some(own), Some(other)) if own == other => {
                let may = self.reading == Reading::Mentioned || !self.is_entitled_strictly(own);
                (is_lower && may).then_some(Right::Priority)
            }
            (Some(own), Some(other)) => {
                let known = self.gives.borrow().get(&other).copied();
                let gives = known.unwrap_or_else(|| self.gives(own, other));
                self.gives.borrow_mut().insert(other, gives);
                gives.then_some(Right::Borrowed(other))
            }
            _ => None,
        }
    }

    /// Whether the preemptor may take something from another quota at the beginning.
    fn gives(&self, own: QuotaIx, other: QuotaIx) -> bool {
        let is_entitled = match self.reading {
            Reading::Strict => self.is_entitled_strictly(own),
            Reading::Mentioned => self.is_entitled(own, other),
        };
        is_entitled && self.is_above(Level::Owed, other, &self.leaving)
    }

    fn is_entitled_strictly(&self, own: QuotaIx) -> bool {
        !self.books().is_over_min(own, &Sums::default(), &self.request.own, Reading::Strict)
    }

    /// Returns what is guaranteed to a quota and can be had: less than its `min` if those above it
    /// have less.
    fn owed(&self, view: QuotaView<'_>, resource: ResourceIx) -> i128 {
        let min = i128::from(view.min(resource).unwrap_or_default());
        min.min(self.share_of(view.ix(), resource))
    }

    /// Whether the quota of the preemptor, and each above it up to where the paths of both quotas
    /// part, stays within its guarantee.
    fn is_entitled(&self, own: QuotaIx, other: QuotaIx) -> bool {
        let books = self.books();
        let mut is_guaranteed = false;
        for view in apart(books, own, other) {
            for (resource, _) in self.asked.iter() {
                if !view.governs(resource) {
                    continue;
                }
                let after = view.used(resource) + self.request.own.get(resource);
                if after > self.owed(view, resource) {
                    return false;
                }
                is_guaranteed = true;
            }
        }
        is_guaranteed
    }

    /// Whether a quota still uses more than this level, without these pods, of something that the
    /// preemptor asks for.
    fn is_above(&self, level: Level, other: QuotaIx, less: &Sums) -> bool {
        let books = self.books();
        let Some(own) = self.quota else { return false };
        if self.reading == Reading::Strict {
            return books.is_over_min(other, less, &Amounts::default(), Reading::Strict);
        }
        apart(books, other, own).all(|view| {
            let above = |resource: ResourceIx| {
                let used = view.used(resource) - less.of(view.ix(), resource);
                let owed = match level {
                    Level::Share => self.share_of(view.ix(), resource),
                    Level::Owed => self.owed(view, resource),
                };
                view.governs(resource) && used > owed
            };
            self.asked.iter().any(|(resource, _)| above(resource))
        })
    }

    fn share_of(&self, quota: QuotaIx, resource: ResourceIx) -> i128 {
        let mut shares = self.shares.borrow_mut();
        *shares.entry((quota, resource)).or_insert_with(|| self.books().share_of(quota, resource))
    }
}

/// Returns what the pods use that are evicted already.
fn leaving(cluster: &Cluster) -> Sums {
    let (books, mut sums) = (cluster.quotas(), Sums::default());
    for pod in cluster.evicted() {
        if let Some(quota) = books.quota_of(pod) {
            books.sum_up(&mut sums, quota.ix(), &books.used_by(pod), 1);
        }
    }
    sums
}

/// Returns the quotas from `own` upwards that are not above `other`, the highest of which has the
/// same parent as one above `other`.
fn apart(books: &Books, own: QuotaIx, other: QuotaIx) -> impl Iterator<Item = QuotaView<'_>> {
    let above_other: Vec<QuotaIx> = books.view(other).path().map(QuotaView::ix).collect();
    books.view(own).path().take_while(move |view| !above_other.contains(&view.ix()))
}

/// Returns what a pod asks its quota for: its own amounts, beside those of nominated pods that go
/// before it. In its own quota those are pods of at least its priority, elsewhere pods of quotas
/// within their `min`, and for a pod that would borrow all of them.
pub fn request_in(
    quota: QuotaIx,
    pod: &Pod,
    asked: &Amounts,
    handle: &Handle<'_>,
    reading: Reading,
) -> Request {
    let books = handle.cluster.quotas();
    let mut request = Request { own: asked.clone(), ..Request::default() };
    let nothing = (Sums::default(), Amounts::default());
    let is_borrower =
        reading == Reading::Mentioned && books.is_over_min(quota, &nothing.0, asked, reading);
    for node in handle.nominated.nodes() {
        for other in handle.nominated.nominated_to(&node) {
            let Some(other_quota) = books.quota_of(&other).filter(|_| other.uid != pod.uid) else {
                continue;
            };
            let amounts = || books.request_of(&other);
            if other_quota.ix() == quota {
                if other.priority() >= pod.priority() {
                    request.own.add_all(&amounts());
                }
                continue;
            }
            let ix = other_quota.ix();
            if is_borrower || !books.is_over_min(ix, &nothing.0, &nothing.1, reading) {
                books.sum_up(&mut request.beside, ix, &amounts(), 1);
            }
        }
    }
    request
}
