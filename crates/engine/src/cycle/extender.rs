//! Scheduler extenders inside a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{NodeIx, Pod, Status, Verdicts};

use super::Cycle;
use crate::ports::{ExtenderCall, Filtered};
use crate::profile::MAX_NODE_SCORE;

/// Highest score an extender gives.
const MAX_EXTENDER_PRIORITY: i64 = 10;

/// What the engine knows of a configured extender. Extenders are asked in the order of the list, in
/// which the ignorable ones come last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extender {
    /// Its address, as it stands in messages.
    pub name: Arc<str>,
    /// It filters nodes.
    pub filter: bool,
    /// It rates nodes.
    pub prioritize: bool,
    /// It has a say in preemption.
    pub preempt: bool,
    /// It binds pods.
    pub bind: bool,
    /// Weight of its scores.
    pub weight: i64,
    /// Its errors do not fail attempts.
    pub ignorable: bool,
    /// It is asked only about pods that request one of these; about all pods if empty.
    pub managed_resources: BTreeSet<String>,
}

impl Extender {
    /// Whether the extender is asked about `pod`.
    pub fn is_interested(&self, pod: &Pod) -> bool {
        let requested = || pod.requests.fit.scalars.iter().map(|(name, _)| &**name);
        self.managed_resources.is_empty()
            || requested().any(|name| self.managed_resources.contains(name))
    }
}

impl<'a> Cycle<'a, '_> {
    /// Keeps in `nodes` those no extender turns down, and records the verdicts on the others.
    pub(super) fn filter_by_extenders(
        &mut self,
        nodes: &mut Vec<NodeIx>,
        verdicts: &mut Verdicts,
    ) -> Result<(), Status> {
        let extenders = self.extenders;
        for (place, extender) in extenders.iter().enumerate() {
            if nodes.is_empty() {
                break;
            }
            if !extender.filter || !extender.is_interested(self.pod) {
                continue;
            }
            match self.filter_by(place, nodes, verdicts) {
                Err(text) if extender.ignorable => self.ports.outside.skipped(place, &text),
                Err(text) => return Err(Status::error(text)),
                Ok(kept) => *nodes = kept,
            }
        }
        Ok(())
    }

    fn filter_by(
        &mut self,
        extender: usize,
        nodes: &[NodeIx],
        verdicts: &mut Verdicts,
    ) -> Result<Vec<NodeIx>, String> {
        let cluster = self.cache.cluster();
        let by_name: BTreeMap<&str, NodeIx> =
            nodes.iter().map(|node| (&**cluster.node_name(*node), *node)).collect();
        let call = self.call(extender, nodes);
        let (answer, now) = self.ports.outside.filter(&call, *self.now);
        *self.now = now;
        let Filtered { nodes: kept, failed, failed_and_unresolvable } = answer?;
        let asked = &self.extenders[extender].name;
        let find = |name: &String| {
            by_name.get(name.as_str()).copied().ok_or_else(|| {
                format!(
                    "extender {asked:?} claims a filtered node {name:?} which is not found in the \
                     input node list"
                )
            })
        };
        let mut kept = kept.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        kept.sort_unstable();
        kept.dedup();
        for (name, reason) in failed {
            if let Some(node) = by_name.get(name.as_str()) {
                verdicts.record(*node, Status::unschedulable(reason));
            }
        }
        for (name, reason) in failed_and_unresolvable {
            if let Some(node) = by_name.get(name.as_str()) {
                verdicts.record(*node, Status::unresolvable(reason));
            }
        }
        Ok(kept)
    }

    /// Adds the scores of the extenders; errors are passed over.
    pub(super) fn prioritize_by_extenders(&mut self, nodes: &[NodeIx], totals: &mut [i64]) {
        let (cluster, pod) = (self.cache.cluster(), self.pod);
        let asked = self.extenders.iter().enumerate();
        let asked: Vec<(usize, &Extender)> = asked
            .filter(|(_, extender)| extender.prioritize && extender.is_interested(pod))
            .collect();
        if asked.is_empty() {
            return;
        }
        let calls: Vec<_> = asked.iter().map(|(place, _)| self.call(*place, nodes)).collect();
        let (answers, now) = self.ports.outside.prioritize(&calls, *self.now);
        *self.now = now;
        let places: BTreeMap<&str, usize> = nodes
            .iter()
            .zip(0..)
            .map(|(node, place)| (&**cluster.node_name(*node), place))
            .collect();
        for ((_, extender), answer) in asked.iter().zip(answers) {
            let factor = extender.weight.saturating_mul(MAX_NODE_SCORE / MAX_EXTENDER_PRIORITY);
            for (name, score) in answer.unwrap_or_default() {
                if let Some(place) = places.get(name.as_str()) {
                    totals[*place] = totals[*place].saturating_add(score.saturating_mul(factor));
                }
            }
        }
    }

    fn call(&self, extender: usize, nodes: &[NodeIx]) -> ExtenderCall<'a> {
        let cluster = self.cache.cluster();
        let nodes = nodes.iter().map(|node| &**cluster.node_name(*node)).collect();
        ExtenderCall { extender, pod: self.pod, nodes }
    }
}
