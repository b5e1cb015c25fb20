//! Moves from the node where the pod is to go.

use engine::Supposition;
use framework::{NodeBits, NodeIx};

use super::{Exhausted, Found, Search, Step, only};
use crate::Cost;

/// A node, and the pods that have to leave it.
#[derive(Debug, Clone)]
struct Candidate {
    node: NodeIx,
    leaving: Vec<usize>,
    cost: Cost,
}

impl Search<'_> {
    /// Returns the cheapest plan whose moves all leave the node of the pod; the pods that leave are
    /// chosen as preemption chooses victims.
    pub(super) fn moves_of_one_node(
        &mut self,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Option<Found>, Exhausted> {
        let mut candidates = Vec::new();
        for (node, pods) in self.pods.by_node().clone() {
            candidates.extend(self.candidate(node, &pods, supposed)?);
        }
        candidates.sort_by_key(|own| (own.cost, own.node));
        let mut best: Option<Found> = None;
        for candidate in candidates {
            if best.as_ref().is_some_and(|best| candidate.cost >= best.cost) {
                break;
            }
            let found = self.vacate(candidate, supposed)?;
            best = match (best, found) {
                (Some(best), Some(found)) if found.cost < best.cost => Some(found),
                (None, found) => found,
                (best, _) => best,
            };
        }
        Ok(best)
    }

    /// Returns which of these pods have to leave a node. All of them leave, and then stay one after
    /// the other, the most expensive first, if the pod still fits.
    fn candidate(
        &mut self,
        node: NodeIx,
        pods: &[usize],
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Option<Candidate>, Exhausted> {
        let here = only(node, supposed.cluster().table_len());
        let leaving = supposed.suppose(|supposed| {
            pods.iter().for_each(|pod| self.pods.remove(*pod, supposed));
            if self.fits_within(&here, supposed)?.is_none() {
                return Ok(None);
            }
            let mut leaving = Vec::new();
            for pod in pods {
                self.pods.put(*pod, supposed);
                if self.fits_within(&here, supposed)?.is_none() {
                    self.pods.remove(*pod, supposed);
                    leaving.push(*pod);
                }
            }
            Ok(Some(leaving))
        })?;
        let is_within_limit = |own: &Vec<usize>| own.len() <= self.question.limits.moves;
        Ok(leaving.filter(is_within_limit).map(|leaving| {
            let cost = self.pods.cost_of(&leaving);
            Candidate { node, leaving, cost }
        }))
    }

    /// Moves the pods of a candidate to other nodes. If one of them fits nowhere, others have to
    /// leave instead.
    fn vacate(
        &mut self,
        mut candidate: Candidate,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Option<Found>, Exhausted> {
        let mut pods = self.pods.on(candidate.node).to_vec();
        loop {
            let stuck = match self.try_candidate(&candidate, supposed)? {
                Ok(found) => return Ok(Some(found)),
                Err(stuck) => stuck,
            };
            let Some(stuck) = stuck else { return Ok(None) };
            pods.retain(|pod| *pod != stuck);
            let Some(other) = self.candidate(candidate.node, &pods, supposed)? else {
                return Ok(None);
            };
            candidate = other;
        }
    }

    /// Moves the pods of a candidate, the largest first. On failure returns the pod that fits
    /// nowhere, or whose budget does not allow its eviction beside the others; none if all of them
    /// fit and the pod does not.
    fn try_candidate(
        &mut self,
        candidate: &Candidate,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Result<Found, Option<usize>>, Exhausted> {
        let Candidate { node, leaving, cost } = candidate;
        let here = only(*node, supposed.cluster().table_len());
        let mut others: NodeBits = supposed.cluster().nodes().clone();
        others.remove(*node);
        let order = self.pods.largest_first(leaving);
        supposed.suppose(|supposed| {
            let mut steps: Vec<Step> = Vec::new();
            for pod in order {
                let moved = steps.iter().map(|step| step.pod).chain([pod]);
                if !self.budgets.allow(moved) {
                    return Ok(Err(Some(pod)));
                }
                match self.move_within(pod, &others, supposed)? {
                    Some(to) => steps.push(Step { pod, to }),
                    None => return Ok(Err(Some(pod))),
                }
            }
            Ok(match self.fits_within(&here, supposed)? {
                Some(node) => Ok(Found { steps, node, cost: *cost }),
                None => Err(None),
            })
        })
    }
}
