//! Tries the claims of a pod on many nodes.

use std::sync::{Arc, PoisonError};

use framework::{Handle, NodeIx, Pod, Status};
use structured::{
    AllocateError, Allocator, Answer, Diagnoses, Diagnosis, Limits, LongSearches, NodesByShape,
    Trial,
};

use super::extended::ThroughDevices;
use super::search::{Search, Wanted, can_use};
use super::{CANNOT_ALLOCATE, DynamicResources, UNAVAILABLE, score, status_of};

/// The trial of what is to be allocated where devices have to provide the same resources.
struct Try {
    through: ThroughDevices,
    wanted: Wanted,
    trial: Trial,
    diagnoses: Diagnoses,
}

/// The trials of the claims of one pod. It gives the verdicts and scores of the one-node form, but
/// nodes whose devices look alike are searched once.
pub(super) struct Trials<'a> {
    plugin: &'a DynamicResources,
    search: &'a Search,
    pod: &'a Pod,
    handle: &'a Handle<'a>,
    allocator: Allocator<'a>,
    nodes: NodesByShape<'a>,
    /// The wanted allocations, by the resources that devices have to provide; usually one entry.
    tries: Vec<Try>,
    /// Whether the devices of an allocated claim failed to become ready.
    has_failed: bool,
    /// Whether some claim is allocated.
    has_allocated: bool,
}

impl<'a> Trials<'a> {
    pub(super) fn start(
        plugin: &'a DynamicResources,
        search: &'a Search,
        pod: &'a Pod,
        handle: &'a Handle<'a>,
    ) -> Self {
        let allocator = plugin.allocator(search, handle.cluster);
        let has_failed = search.claims.iter().any(|claim| plugin.is_failed(claim, handle));
        let has_allocated = search.claims.iter().any(|claim| claim.allocation.is_some());
        let nodes = allocator.nodes_by_shape();
        let tries = Vec::new();
        Self { plugin, search, pod, handle, allocator, nodes, tries, has_failed, has_allocated }
    }

    /// Keeps the answers for the next pod with such claims.
    pub(super) fn end(self) {
        // A panic leaves the memos consistent: an entry is complete before it is added.
        let mut memos = self.plugin.memos.lock().unwrap_or_else(PoisonError::into_inner);
        self.tries.into_iter().for_each(|own| memos.keep(own.trial));
    }

    /// Returns why the node cannot take the pod; `None` if it can.
    ///
    /// # Errors
    /// Returns any other status.
    pub(super) fn fault(
        &mut self,
        node: NodeIx,
        long: &mut LongSearches,
    ) -> Result<Option<&'static str>, Status> {
        if self.answer(node, long)? == Answer::DoesNotFit {
            return Ok(Some(CANNOT_ALLOCATE));
        }
        let is_unavailable =
            self.has_failed || self.has_allocated && !self.can_use_allocated(node)?;
        Ok(is_unavailable.then_some(UNAVAILABLE))
    }

    fn can_use_allocated(&self, node: NodeIx) -> Result<bool, Status> {
        let node = self.handle.cluster.node(node);
        for claim in &self.search.claims {
            if !can_use(claim, &node)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the score of what would be allocated on the node.
    pub(super) fn score(&mut self, node: NodeIx, long: &mut LongSearches) -> Result<i64, Status> {
        match self.answer(node, long)? {
            Answer::Fits { rank } => Ok(rank),
            _ => Ok(0),
        }
    }

    /// Returns why the devices of the node do not suffice; `None` if they do.
    pub(super) fn diagnosis(&mut self, node: NodeIx) -> Option<Arc<Diagnosis>> {
        let place = self.place_of(node, &mut LongSearches::default()).ok()?;
        let Try { trial, diagnoses, .. } = &mut self.tries[place];
        let budget = self.plugin.budget;
        self.allocator.diagnose(trial, diagnoses, &self.nodes, node, budget)
    }

    fn answer(&mut self, node: NodeIx, long: &mut LongSearches) -> Result<Answer, Status> {
        let place = self.place_of(node, long)?;
        let Try { wanted, trial, .. } = &mut self.tries[place];
        if trial.is_empty() {
            return Ok(Answer::Fits { rank: 0 });
        }
        let rank = |allocations: &[_]| score::sum(&wanted.claims, allocations);
        let budget = self.plugin.budget;
        let answer = self.allocator.fits(trial, &self.nodes, node, Limits { budget, long }, rank);
        let view = || self.handle.cluster.node(node);
        match answer {
            Ok(Answer::OutOfSteps) => Err(status_of(&AllocateError::OutOfSteps, &view())),
            Ok(answer) => Ok(answer),
            Err(error) => Err(status_of(&error, &view())),
        }
    }

    /// Returns the place of the trial for the node.
    fn place_of(&mut self, node: NodeIx, long: &mut LongSearches) -> Result<usize, Status> {
        let through = match &self.search.extended {
            None => ThroughDevices::default(),
            Some(_) => self.search.through_devices(&self.handle.cluster.node(node))?,
        };
        let known = self.tries.iter().position(|own| own.through == through);
        Ok(known.unwrap_or_else(|| self.add(through, long)))
    }

    /// Starts a trial; returns its place.
    fn add(&mut self, through: ThroughDevices, long: &mut LongSearches) -> usize {
        let wanted = self.search.wanted(self.pod, &through);
        let claims = self.plugin.prepare(&wanted, self.handle.cluster, long);
        let mut memos = self.plugin.memos.lock().unwrap_or_else(PoisonError::into_inner);
        let trial = memos.start(claims, self.handle.cluster);
        self.tries.push(Try { through, wanted, trial, diagnoses: Diagnoses::default() });
        self.tries.len() - 1
    }
}
