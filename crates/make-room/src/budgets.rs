//! What PodDisruptionBudgets allow.

use std::collections::BTreeMap;

use engine::Engine;
use framework::BudgetIx;

use crate::Movable;

/// The PodDisruptionBudgets of the pods that may be moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budgets {
    /// The budgets of the pods that have some, by their place in the list.
    of_pods: BTreeMap<usize, Vec<BudgetIx>>,
    /// The number of evictions that each budget allows now.
    allowed: BTreeMap<BudgetIx, i64>,
}

impl Budgets {
    pub(crate) fn of(engine: &Engine, pods: &[Movable]) -> Self {
        let cluster = engine.cluster();
        let mut budgets = Self::default();
        for (place, movable) in pods.iter().enumerate() {
            let Some(placed) = engine.world().placement(&movable.pod.uid) else { continue };
            if cluster.has_disruption_budget(placed.ix) {
                let own = cluster.disruption_budgets_of(placed.ix).map(|(ix, budget)| {
                    budgets.allowed.insert(ix, budget.disruptions_left());
                    ix
                });
                budgets.of_pods.insert(place, own.collect());
            }
        }
        budgets
    }

    /// Whether all of these pods may be evicted.
    pub(crate) fn allow(&self, pods: impl IntoIterator<Item = usize>) -> bool {
        let mut taken: BTreeMap<BudgetIx, i64> = BTreeMap::new();
        pods.into_iter().filter_map(|pod| self.of_pods.get(&pod)).flatten().all(|budget| {
            let taken = taken.entry(*budget).or_default();
            *taken += 1;
            self.allowed.get(budget).is_some_and(|allowed| *taken <= *allowed)
        })
    }
}
