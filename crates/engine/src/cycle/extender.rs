//! Filter and prioritize calls to extenders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{NodeIx, Pod, Status, Verdicts};

use super::Cycle;
use crate::ports::{ExtenderCall, Filtered};
use crate::profile::MAX_NODE_SCORE;

/// Highest score an extender gives.
const MAX_EXTENDER_PRIORITY: i64 = 10;

/// A configured extender, as the engine reads it. Extenders are called in the order of the list, the
/// ignorable ones last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extender {
    /// Its address, for messages.
    pub name: Arc<str>,
    /// It filters nodes.
    pub filter: bool,
    /// It scores nodes.
    pub prioritize: bool,
    /// It processes preemptions.
    pub preempt: bool,
    /// It binds pods.
    pub bind: bool,
    /// Weight of its scores.
    pub weight: i64,
    /// Its errors do not fail attempts.
    pub ignorable: bool,
    /// It is called only for pods that request one of these resources; for all pods if empty.
    pub managed_resources: BTreeSet<String>,
}

impl Extender {
    /// Whether the extender is called for `pod`.
    pub fn is_interested(&self, pod: &Pod) -> bool {
        let requested = || pod.requests.fit.scalars.iter().map(|(name, _)| &**name);
        self.managed_resources.is_empty()
            || requested().any(|name| self.managed_resources.contains(name))
    }
}

impl<'a> Cycle<'a, '_> {
    /// Keeps in `nodes` the nodes that pass every extender, and records the verdicts on the others.
    pub(super) fn filter_by_extenders(
        &mut self,
        nodes: &mut Vec<NodeIx>,
        verdicts: &mut Verdicts,
    ) -> Result<(), Status> {
        let settings = self.settings;
        for (place, extender) in settings.extenders.iter().enumerate() {
            if nodes.is_empty() {
                break;
            }
            if !extender.filter || !extender.is_interested(self.pod) {
                continue;
            }
            match self.filter_by(place, nodes, verdicts) {
                Err(text) if extender.ignorable => self.cx.extenders.skipped(place, &text),
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
        let cluster = self.view.cluster();
        let by_name: BTreeMap<&str, NodeIx> =
            nodes.iter().map(|node| (&**cluster.node_name(*node), *node)).collect();
        let call = self.call(extender, nodes);
        let (answer, now) = self.cx.extenders.filter(&call, self.cx.now);
        self.cx.now = now;
        let Filtered { nodes: kept, failed, failed_and_unresolvable } = answer?;
        let asked = &self.settings.extenders[extender].name;
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

    /// Adds the scores of the extenders; errors are ignored.
    pub(super) fn prioritize_by_extenders(&mut self, nodes: &[NodeIx], totals: &mut [i64]) {
        let (cluster, pod) = (self.view.cluster(), self.pod);
        let all = self.settings.extenders.iter().enumerate();
        let called: Vec<(usize, &Extender)> = all
            .filter(|(_, extender)| extender.prioritize && extender.is_interested(pod))
            .collect();
        if called.is_empty() {
            return;
        }
        let calls: Vec<_> = called.iter().map(|(place, _)| self.call(*place, nodes)).collect();
        let (answers, now) = self.cx.extenders.prioritize(calls, self.cx.now);
        self.cx.now = now;
        let places: BTreeMap<&str, usize> = nodes
            .iter()
            .zip(0..)
            .map(|(node, place)| (&**cluster.node_name(*node), place))
            .collect();
        for ((_, extender), answer) in called.iter().zip(answers) {
            let factor = extender.weight.saturating_mul(MAX_NODE_SCORE / MAX_EXTENDER_PRIORITY);
            for (name, score) in answer.unwrap_or_default() {
                if let Some(place) = places.get(name.as_str()) {
                    totals[*place] = totals[*place].saturating_add(score.saturating_mul(factor));
                }
            }
        }
    }

    fn call(&self, extender: usize, nodes: &[NodeIx]) -> ExtenderCall<'a> {
        let cluster = self.view.cluster();
        let nodes = nodes.iter().map(|node| &**cluster.node_name(*node)).collect();
        ExtenderCall { extender, pod: self.pod, nodes }
    }
}
