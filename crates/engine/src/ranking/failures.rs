//! The memory of a lane from attempts that found no node.

use std::sync::Arc;

use framework::{Kept, Verdicts};

use super::reads::FilterScopes;
use super::rejections::Rejections;
use crate::world::{ChangeLog, World};

/// Number of failed attempts of a lane whose verdicts are not kept, after some that could not be
/// kept.
const PASSES_AFTER_REFUSAL: u32 = 100;

/// The findings of failed attempts, for the next pod of a lane.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Whether the last attempt found no node. The next one then looks at the verdicts before the
    /// ranking.
    pub(crate) last: bool,
    rejections: Option<Box<Rejections>>,
    /// Number of failed attempts whose verdicts are not kept.
    waits: u32,
    post_filter: Option<PostFilterKept>,
}

/// The values that PostFilter plugins keep; they run only for pods that fit nowhere.
#[derive(Debug)]
struct PostFilterKept {
    kept: Kept,
    filters: FilterScopes,
    /// The state of the change log that the values show.
    state: u64,
    /// The revision of the nominations that the values show.
    nominations: u64,
}

impl Failures {
    /// Number of bytes.
    pub(super) fn bytes(&self) -> usize {
        let of_plugins = self.post_filter.as_ref().map_or(0, |own| own.kept.size());
        self.rejections.as_deref().map_or(0, Rejections::bytes) + size_of::<u64>() * of_plugins
    }

    /// Forgets the verdicts.
    pub(crate) fn drop_verdicts(&mut self) {
        self.rejections = None;
    }

    /// Returns the verdicts.
    pub(crate) fn rejections_mut(&mut self) -> Option<&mut Rejections> {
        self.rejections.as_deref_mut()
    }

    pub(crate) fn keep(&mut self, rejections: Rejections) {
        self.rejections = Some(Box::new(rejections));
    }

    /// Whether the verdicts of this attempt, which failed, may be kept.
    pub(crate) const fn may_keep(&mut self) -> bool {
        let may_keep = self.waits == 0;
        self.waits = self.waits.saturating_sub(1);
        may_keep
    }

    /// Notes that the verdicts cannot be kept.
    pub(crate) fn refuse(&mut self) {
        (self.rejections, self.waits) = (None, PASSES_AFTER_REFUSAL);
    }

    /// Whether `verdicts` are kept, and each depends only on the node, the pods on it and those
    /// nominated to it.
    fn are_local(&self, verdicts: &Arc<Verdicts>) -> bool {
        let own = self.rejections.as_ref().filter(|own| Arc::ptr_eq(own.verdicts(), verdicts));
        own.is_some_and(|own| own.are_local())
    }

    /// Returns what PostFilter plugins have kept for the pods of the lane, until they
    /// [keep](Self::suspend_post_filter) it again; `None` unless `verdicts` are the verdicts of the
    /// lane and [local](Rejections::are_local).
    pub(crate) fn resume_post_filter(
        &mut self,
        verdicts: &Arc<Verdicts>,
        log: &ChangeLog,
        world: &World,
    ) -> Option<Kept> {
        if !self.are_local(verdicts) {
            return None;
        }
        let Some(PostFilterKept { kept, filters, state, nominations }) = self.post_filter.take()
        else {
            return Some(Kept::default().next_attempt(None));
        };
        let same = self.rejections.as_ref().is_some_and(|own| *own.filters() == filters);
        let changed = log.changed_since(state).filter(|_| same);
        let nominated = world.nominator().changed_since(nominations);
        let changed = changed.zip(nominated).map(|(mut changed, names)| {
            let nodes = names.filter_map(|name| world.cluster().node_named(name));
            changed.nodes.extend(nodes);
            changed.nodes.sort_unstable();
            changed.nodes.dedup();
            Arc::new(changed)
        });
        Some(kept.next_attempt(changed))
    }

    /// Keeps the values of PostFilter plugins for the next pod of the lane.
    pub(crate) fn suspend_post_filter(&mut self, kept: Kept, log: &ChangeLog, world: &World) {
        let filters = self.rejections.as_ref().map(|own| own.filters().clone());
        let filled = filters.filter(|_| !kept.is_empty());
        let (state, nominations) = (log.revision(), world.nominator().revision());
        self.post_filter =
            filled.map(|filters| PostFilterKept { kept, filters, state, nominations });
    }
}
