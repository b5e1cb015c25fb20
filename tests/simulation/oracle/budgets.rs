//! PodDisruptionBudgets, computed naively.

use std::collections::BTreeSet;

use engine::Engine;
use framework::{LabelSelector, Pod, Uid, api};
use serde::Deserialize;
use serde_json::Value;

use super::Related;

/// All budgets.
pub(crate) struct Budgets(Vec<Budget>);

/// Allowed disruptions of a budget.
struct Budget {
    namespace: String,
    selector: LabelSelector,
    left: i64,
    /// Names of pods that the status counts already.
    disrupted: BTreeSet<String>,
    /// Evictions that the status does not count yet.
    evicting: BTreeSet<Uid>,
}

impl Budgets {
    /// Budgets from the API server, and evictions in progress that they do not count yet.
    pub(crate) fn of_engine(engine: &Engine, related: &Related) -> Self {
        let cluster = engine.cluster();
        let budgets = related.budgets().filter_map(|(namespace, name, budget)| {
            let evicting: BTreeSet<Uid> = cluster.evicting(namespace, name).cloned().collect();
            Budget::of(namespace, budget, evicting)
        });
        Self(budgets.collect())
    }

    /// Whether every budget of the pod counts its eviction.
    pub(crate) fn all_count(&self, evicted: &Pod) -> bool {
        !self.0.iter().any(|budget| budget.applies_to(evicted))
    }

    /// Returns those of `pods` that would violate a budget if all of them were evicted in this
    /// order: each pod that a budget selects uses it up.
    pub(super) fn protect<'p>(&self, pods: impl Iterator<Item = &'p Pod>) -> BTreeSet<Uid> {
        let mut left: Vec<i64> = self.0.iter().map(|budget| budget.left).collect();
        let mut protects = |pod: &Pod| {
            let mut is_kept = false;
            for (budget, left) in self.0.iter().zip(&mut left) {
                if budget.applies_to(pod) {
                    *left -= 1;
                    is_kept |= *left < 0;
                }
            }
            is_kept
        };
        pods.filter(|pod| protects(pod)).map(|pod| pod.uid.clone()).collect()
    }
}

impl Budget {
    /// Decodes a budget; `None` if its selector is absent or invalid.
    fn of(namespace: &str, object: &Value, evicting: BTreeSet<Uid>) -> Option<Self> {
        let selector = Option::<api::LabelSelector>::deserialize(&object["spec"]["selector"]);
        let selector = LabelSelector::compile(selector.ok()?.as_ref()).ok()?;
        let status = &object["status"];
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        let evicted = i64::try_from(evicting.len()).expect("there are few pods");
        let disrupted = status["disruptedPods"].as_object().into_iter().flatten();
        (!selector.is_nothing()).then(|| Self {
            namespace: namespace.to_owned(),
            selector,
            left: allowed - evicted,
            disrupted: disrupted.map(|(name, _)| name.clone()).collect(),
            evicting,
        })
    }

    fn applies_to(&self, pod: &Pod) -> bool {
        *self.namespace == *pod.key.namespace
            && self.selector.matches(&pod.labels)
            && !self.disrupted.contains(&*pod.key.name)
            && !self.evicting.contains(&pod.uid)
    }
}
