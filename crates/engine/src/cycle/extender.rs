//! Scheduler extenders inside a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{NodeIx, Pod, Status, Verdicts};

use super::Cycle;
use crate::ports::{ExtenderAnswer, ExtenderCall, ExtenderVerb};
use crate::profile::MAX_NODE_SCORE;

/// Highest score an extender gives.
const MAX_EXTENDER_PRIORITY: i64 = 10;

/// What the engine knows of a configured extender. Extenders are asked in the order of the list, in
/// which the ignorable ones come last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extender {
    /// How it is called in messages.
    pub name: Arc<str>,
    /// It filters nodes.
    pub filter: bool,
    /// It rates nodes.
    pub prioritize: bool,
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

impl Cycle<'_, '_> {
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
                Err(_) if extender.ignorable => {}
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
        let answer = self.ask(extender, nodes, ExtenderVerb::Filter)?;
        let ExtenderAnswer::Filtered { nodes: kept, failed, failed_and_unresolvable } = answer
        else {
            return Err(format!("extender {extender} answered another question"));
        };
        let find = |name: &String| {
            let unknown = || format!("extender claims a filtered node that is unknown: {name:?}");
            by_name.get(name.as_str()).copied().ok_or_else(unknown)
        };
        let mut kept = kept.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        kept.sort_unstable();
        kept.dedup();
        for (name, reason) in &failed {
            if let Some(node) = by_name.get(name.as_str()) {
                verdicts.record(*node, Status::unschedulable(reason.clone()));
            }
        }
        for (name, reason) in &failed_and_unresolvable {
            if let Some(node) = by_name.get(name.as_str()) {
                verdicts.record(*node, Status::unresolvable(reason.clone()));
            }
        }
        Ok(kept)
    }

    /// Adds the scores of the extenders; errors are passed over.
    pub(super) fn prioritize_by_extenders(&mut self, nodes: &[NodeIx], totals: &mut [i64]) {
        let cluster = self.cache.cluster();
        let extenders = self.extenders;
        for (place, extender) in extenders.iter().enumerate() {
            if !extender.prioritize || !extender.is_interested(self.pod) {
                continue;
            }
            let answer = self.ask(place, nodes, ExtenderVerb::Prioritize);
            let Ok(ExtenderAnswer::Prioritized(scores)) = answer else { continue };
            let scores: BTreeMap<&str, i64> =
                scores.iter().map(|(name, score)| (name.as_str(), *score)).collect();
            let factor = extender.weight.saturating_mul(MAX_NODE_SCORE / MAX_EXTENDER_PRIORITY);
            for (node, total) in nodes.iter().zip(&mut *totals) {
                if let Some(score) = scores.get(&**cluster.node_name(*node)) {
                    *total = total.saturating_add(score.saturating_mul(factor));
                }
            }
        }
    }

    fn ask(
        &mut self,
        extender: usize,
        nodes: &[NodeIx],
        verb: ExtenderVerb,
    ) -> Result<ExtenderAnswer, String> {
        let cluster = self.cache.cluster();
        let nodes = nodes.iter().map(|node| &**cluster.node_name(*node)).collect();
        let call = ExtenderCall { extender, pod: self.pod, nodes, verb };
        let (answer, now) = self.ports.outside.extend(&call, *self.now);
        *self.now = now;
        answer
    }
}
