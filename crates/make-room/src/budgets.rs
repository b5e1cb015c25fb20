//! What PodDisruptionBudgets allow.

use std::collections::BTreeMap;

use engine::Engine;
use framework::BudgetIx;

use crate::Movable;

/// The PodDisruptionBudgets of the pods that may be moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budgets {
    /// The budgets of each pod, in the order of the pods.
    of_pods: Vec<Vec<BudgetIx>>,
    /// The number of evictions that each budget allows now.
    allowed: BTreeMap<BudgetIx, i64>,
}

impl Budgets {
    pub(crate) fn of(engine: &Engine, pods: &[Movable]) -> Self {
        let cluster = engine.cluster();
        let mut budgets = Self::default();
        for movable in pods {
            let placement = engine.world().placement(&movable.pod.uid);
            let own = placement.into_iter().flat_map(|at| cluster.disruption_budgets_of(at.ix));
            let own = own.map(|(ix, budget)| {
                budgets.allowed.insert(ix, budget.disruptions_left());
                ix
            });
            let own = own.collect();
            budgets.of_pods.push(own);
        }
        budgets
    }

    /// Whether all of these pods may be evicted.
    pub(crate) fn allow(&self, pods: impl IntoIterator<Item = usize>) -> bool {
        let mut left = self.allowed.clone();
        pods.into_iter().flat_map(|pod| &self.of_pods[pod]).all(|budget| {
            let left = left.entry(*budget).or_default();
            *left -= 1;
            *left >= 0
        })
    }
}
