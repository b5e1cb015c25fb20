//! What PodDisruptionBudgets let go.

use std::collections::BTreeSet;

use engine::Engine;
use framework::{LabelSelector, Pod, Uid, api};
use serde::Deserialize;
use serde_json::Value;

use super::Related;

/// All budgets.
pub(crate) struct Budgets(Vec<Budget>);

/// How many pods may go.
struct Budget {
    namespace: String,
    selector: LabelSelector,
    left: i64,
    /// Names of pods that are counted already.
    disrupted: BTreeSet<String>,
    /// Pods that count although its status does not say so yet.
    evicting: BTreeSet<Uid>,
}

impl Budgets {
    /// Those that were told, and the evictions of the engine that they do not know of.
    pub(crate) fn of_engine(engine: &Engine, related: &Related) -> Self {
        let cluster = engine.cache().cluster();
        let budgets = related.budgets().filter_map(|(namespace, name, budget)| {
            let evicting: BTreeSet<Uid> = cluster.evicting(namespace, name).cloned().collect();
            Budget::of(namespace, budget, evicting)
        });
        Self(budgets.collect())
    }

    /// Whether every budget of the pod counts its eviction.
    pub(crate) fn all_count(&self, evicted: &Pod) -> bool {
        !self.0.iter().any(|budget| budget.means(evicted))
    }

    /// Those of `pods` that may not go if all before them go: each that a budget means uses it up.
    pub(super) fn protect<'p>(&self, pods: impl Iterator<Item = &'p Pod>) -> BTreeSet<Uid> {
        let mut left: Vec<i64> = self.0.iter().map(|budget| budget.left).collect();
        let mut protects = |pod: &Pod| {
            let mut is_kept = false;
            for (budget, left) in self.0.iter().zip(&mut left) {
                if budget.means(pod) {
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
    /// `None` for one that selects nothing, or everything, which is the same here.
    fn of(namespace: &str, object: &Value, evicting: BTreeSet<Uid>) -> Option<Self> {
        let selector = Option::<api::LabelSelector>::deserialize(&object["spec"]["selector"]);
        let selector = LabelSelector::compile(selector.ok()?.as_ref()).ok()?;
        let status = &object["status"];
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        let evicted = i64::try_from(evicting.len()).expect("there are few pods");
        let disrupted = status["disruptedPods"].as_object().into_iter().flatten();
        (!selector.is_everything() && !selector.is_nothing()).then(|| Self {
            namespace: namespace.to_owned(),
            selector,
            left: allowed - evicted,
            disrupted: disrupted.map(|(name, _)| name.clone()).collect(),
            evicting,
        })
    }

    fn means(&self, pod: &Pod) -> bool {
        *self.namespace == *pod.key.namespace
            && !pod.labels.is_empty()
            && self.selector.matches(&pod.labels)
            && !self.disrupted.contains(&*pod.key.name)
            && !self.evicting.contains(&pod.uid)
    }
}
