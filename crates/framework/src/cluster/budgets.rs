//! PodDisruptionBudgets, as far as preemption heeds them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::Cluster;
use super::selector_index::SelectorIndex;
use crate::{LabelSelector, Pod, api};

/// The budgets that can mean a pod at all.
#[derive(Debug, Clone, Default)]
pub(super) struct DisruptionBudgets {
    budgets: HashMap<BudgetKey, DisruptionBudget>,
    by_selector: SelectorIndex<BudgetKey>,
}

/// Names a budget: its namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetKey(Arc<(Arc<str>, Arc<str>)>);

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionBudget {
    selector: LabelSelector,
    /// How many of its pods may be evicted now.
    pub disruptions_allowed: i32,
    /// Names of pods whose eviction is counted already.
    disrupted_pods: BTreeSet<Arc<str>>,
}

#[derive(Deserialize)]
struct Spec {
    selector: Option<api::LabelSelector>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct State {
    disruptions_allowed: i32,
    disrupted_pods: Option<std::collections::BTreeMap<Arc<str>, Value>>,
}

impl DisruptionBudgets {
    pub(super) fn set(&mut self, namespace: &str, name: &str, object: Option<&Value>) {
        let key = BudgetKey(Arc::new((namespace.into(), name.into())));
        let within = std::slice::from_ref(&key.0.0);
        if let Some(old) = self.budgets.remove(&key) {
            self.by_selector.remove(Some(within), &old.selector, key.clone());
        }
        if let Some(budget) = object.and_then(DisruptionBudget::of) {
            self.by_selector.insert(Some(within), &budget.selector, key.clone());
            self.budgets.insert(key, budget);
        }
    }
}

impl DisruptionBudget {
    /// `None` for a budget that means no pod: to preemption that is also one with an absent, empty or
    /// invalid selector. A status that cannot be read allows nothing.
    fn of(object: &Value) -> Option<Self> {
        let spec = Spec::deserialize(&object["spec"]).ok()?;
        let selector = LabelSelector::compile(spec.selector.as_ref()).ok()?;
        let state = State::deserialize(&object["status"]).unwrap_or_default();
        let means_some = !selector.is_nothing() && !selector.is_everything();
        means_some.then(|| Self {
            selector,
            disruptions_allowed: state.disruptions_allowed,
            disrupted_pods: state.disrupted_pods.unwrap_or_default().into_keys().collect(),
        })
    }

    /// Whether evicting `pod`, which is of the namespace of the budget, would use it up. What the
    /// Eviction API has counted already does not.
    fn pays_for(&self, pod: &Pod) -> bool {
        self.selector.matches(&pod.labels) && !self.disrupted_pods.contains(&pod.key.name)
    }
}

impl Cluster {
    /// The PodDisruptionBudgets that an eviction of `pod` would use up, by name. A pod without labels
    /// has none.
    pub fn disruption_budgets_of(&self, pod: &Pod) -> Vec<(BudgetKey, &DisruptionBudget)> {
        if pod.labels.is_empty() {
            return Vec::new();
        }
        let all = &self.disruption_budgets;
        let keys = all.by_selector.may_mean(&pod.key.namespace, &pod.labels);
        let budgets = keys.filter_map(|key| Some((all.budgets.get(&key)?, key)));
        let mut budgets: Vec<_> = budgets
            .filter(|(budget, _)| budget.pays_for(pod))
            .map(|(budget, key)| (key, budget))
            .collect();
        budgets.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        budgets.dedup_by(|(a, _), (b, _)| a == b);
        budgets
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::EventResource;
    use crate::testing::pod;

    fn allowed(object: Value, pod: &Pod) -> Vec<i32> {
        let mut cluster = Cluster::default();
        let kind = EventResource::PodDisruptionBudget;
        cluster.set_object(&kind, "default", "b", Some(Arc::new(object)));
        let budgets = cluster.disruption_budgets_of(pod);
        budgets.iter().map(|(_, budget)| budget.disruptions_allowed).collect()
    }

    #[test]
    fn only_a_budget_that_selects_the_pod_by_labels_means_it() {
        let web = || pod("p").label("app", "web");
        let status = json!({ "disruptionsAllowed": 2, "disruptedPods": { "q": "2026-01-01" } });
        let selecting =
            |selector: Value| json!({ "spec": { "selector": selector }, "status": status });
        let app = || json!({ "matchLabels": { "app": "web" } });
        let not_db = json!([{ "key": "app", "operator": "NotIn", "values": ["db"] }]);
        let odd = json!([{ "key": "app", "operator": "Like", "values": ["w"] }]);
        let rows = [
            (selecting(app()), web(), vec![2]),
            (selecting(json!({ "matchExpressions": not_db })), web(), vec![2]),
            (selecting(json!({ "matchExpressions": not_db })), pod("p"), vec![]),
            (selecting(app()), web().namespace("other"), vec![]),
            (selecting(app()), pod("q").label("app", "web"), vec![]),
            (selecting(json!({})), web(), vec![]),
            (selecting(json!(null)), web(), vec![]),
            (selecting(json!("app=web")), web(), vec![]),
            (selecting(json!({ "matchExpressions": odd })), web(), vec![]),
            (json!({ "spec": { "selector": app() } }), web(), vec![0]),
            (json!({ "spec": { "selector": app() }, "status": "fine" }), web(), vec![0]),
            (json!({}), web(), vec![]),
        ];
        for (object, pod, expected) in rows {
            assert_eq!(allowed(object.clone(), &pod.build()), expected, "{object}");
        }
    }

    #[test]
    fn a_budget_that_is_replaced_or_gone_leaves_nothing_behind() {
        let mut cluster = Cluster::default();
        let kind = EventResource::PodDisruptionBudget;
        let budget = |app: &str| {
            let selector = json!({ "matchLabels": { "app": app } });
            Some(Arc::new(json!({ "spec": { "selector": selector } })))
        };
        let count = |cluster: &Cluster, app: &str| {
            cluster.disruption_budgets_of(&pod("p").label("app", app).build()).len()
        };
        cluster.set_object(&kind, "default", "b", budget("web"));
        cluster.set_object(&kind, "default", "b", budget("db"));
        assert_eq!((count(&cluster, "web"), count(&cluster, "db")), (0, 1));
        cluster.set_object(&kind, "default", "b", None);
        assert_eq!(count(&cluster, "db"), 0);
    }
}
