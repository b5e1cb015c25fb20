//! Moves from the node where the pod is to go.

use engine::Supposition;
use framework::{NodeBits, NodeIx};

use super::bounds::Leaving;
use super::{Exhausted, Found, Search, Step, Target, only};
use crate::Cost;

/// A node, and the pods that have to leave it.
#[derive(Debug, Clone)]
struct Candidate {
    node: NodeIx,
    leaving: Vec<usize>,
    cost: Cost,
}

impl Search<'_, '_> {
    /// Finds the cheapest plan whose moves all leave the node of the pod; the pods that leave are
    /// chosen as preemption chooses victims. `best` has the plan also if the search ends early.
    pub(super) fn moves_of_one_node(
        &mut self,
        targets: &[Target],
        best: &mut Option<Found>,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<(), Exhausted> {
        for target in targets {
            let limit = best.as_ref().map(|best| best.cost);
            if limit.is_some_and(|limit| target.bound >= limit) {
                break;
            }
            let pods = self.pods.on(target.node).iter().copied();
            let pods: Vec<usize> = pods.filter(|pod| self.may_leave(*pod)).collect();
            let found = match self.candidate(target.node, &pods, supposed)? {
                Some(candidate) => self.vacate(candidate, &pods, limit, supposed)?,
                None => None,
            };
            found.into_iter().for_each(|found| *best = Some(found));
        }
        Ok(())
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
        let leaving = Leaving { node, pods, gone: None };
        if self.bounds.cost(leaving, self.pods, supposed.cluster()).is_none() {
            return Ok(None);
        }
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
        let is_within_limit = |own: &Vec<usize>| own.len() <= self.quest.moves;
        Ok(leaving.filter(is_within_limit).map(|leaving| {
            let cost = self.pods.cost_of(&leaving);
            Candidate { node, leaving, cost }
        }))
    }

    /// Moves the pods of a candidate to other nodes, if that costs less than `limit`. If one of
    /// these pods of its node fits nowhere, others have to leave instead.
    fn vacate(
        &mut self,
        mut candidate: Candidate,
        pods: &[usize],
        limit: Option<Cost>,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Option<Found>, Exhausted> {
        let mut pods = pods.to_vec();
        while limit.is_none_or(|limit| candidate.cost < limit) {
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
        Ok(None)
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
        let mut preferred = others.clone();
        preferred.subtract(&self.spared);
        let order = self.pods.largest_first(leaving);
        supposed.suppose(|supposed| {
            let mut steps: Vec<Step> = Vec::new();
            for pod in order {
                let moved = steps.iter().map(|step| step.pod).chain([pod]);
                if !self.may_move(moved) {
                    return Ok(Err(Some(pod)));
                }
                let mut moved = self.move_within(pod, &preferred, supposed)?;
                if moved.is_none() && !self.spared.is_empty() {
                    moved = self.move_within(pod, &others, supposed)?;
                }
                match moved {
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
