//! PodDisruptionBudgets, as far as preemption heeds them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::Cluster;
use super::selector_index::SelectorIndex;
use crate::{LabelSelector, Pod, Uid, api};

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
    /// How many of its pods may be evicted, as its status says.
    disruptions_allowed: i32,
    /// Names of pods whose eviction is counted already.
    disrupted_pods: BTreeSet<Arc<str>>,
    /// Pods the scheduler evicts, as far as the status may not count them yet.
    evicting: BTreeSet<Uid>,
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
        let old = self.budgets.remove(&key);
        if let Some(old) = &old {
            self.by_selector.remove(Some(within), &old.selector, key.clone());
        }
        if let Some(mut budget) = object.and_then(DisruptionBudget::of) {
            budget.evicting = old.map(|old| old.evicting).unwrap_or_default();
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
            evicting: BTreeSet::new(),
        })
    }

    /// How many of its pods may be evicted beside those that are being evicted.
    pub fn disruptions_left(&self) -> i64 {
        let evicting = i64::try_from(self.evicting.len()).unwrap_or(i64::MAX);
        i64::from(self.disruptions_allowed).saturating_sub(evicting)
    }

    /// Whether evicting `pod`, which is of the namespace of the budget, would use it up. An eviction
    /// that is counted already does not.
    fn pays_for(&self, pod: &Pod) -> bool {
        self.selector.matches(&pod.labels)
            && !self.disrupted_pods.contains(&pod.key.name)
            && !self.evicting.contains(&pod.uid)
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

/// For the engine: its own evictions count before the status of a budget shows them.
impl Cluster {
    /// Notes that the scheduler evicts `pod`.
    pub fn begin_eviction(&mut self, pod: &Pod) {
        let keys: Vec<_> =
            self.disruption_budgets_of(pod).into_iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(budget) = self.disruption_budgets.budgets.get_mut(&key) {
                budget.evicting.insert(pod.uid.clone());
            }
        }
    }

    /// Notes that the scheduler does not evict `pod` after all.
    pub fn cancel_eviction(&mut self, pod: &Pod) {
        let all = &mut self.disruption_budgets;
        for key in all.by_selector.may_mean(&pod.key.namespace, &pod.labels) {
            if let Some(budget) = all.budgets.get_mut(&key) {
                budget.evicting.remove(&pod.uid);
            }
        }
    }

    /// Pods the scheduler evicts, as far as the status of this budget may not count them yet.
    pub fn evicting(&self, namespace: &str, name: &str) -> impl Iterator<Item = &Uid> {
        let key = BudgetKey(Arc::new((namespace.into(), name.into())));
        self.disruption_budgets.budgets.get(&key).into_iter().flat_map(|budget| &budget.evicting)
    }

    /// Notes that the status of this budget counts the evictions of `pods`.
    pub fn settle_evictions(&mut self, namespace: &str, name: &str, pods: &[Uid]) {
        let key = BudgetKey(Arc::new((namespace.into(), name.into())));
        if let Some(budget) = self.disruption_budgets.budgets.get_mut(&key) {
            budget.evicting.retain(|uid| !pods.contains(uid));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::EventResource;
    use crate::testing::pod;

    fn left(object: Value, pod: &Pod) -> Vec<i64> {
        let mut cluster = Cluster::default();
        let kind = EventResource::PodDisruptionBudget;
        cluster.set_object(&kind, "default", "b", Some(Arc::new(object)));
        let budgets = cluster.disruption_budgets_of(pod);
        budgets.iter().map(|(_, budget)| budget.disruptions_left()).collect()
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
            assert_eq!(left(object.clone(), &pod.build()), expected, "{object}");
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

    #[test]
    fn an_eviction_counts_once_until_the_status_shows_it() {
        let mut cluster = Cluster::default();
        let kind = EventResource::PodDisruptionBudget;
        let budget = |allowed: i32| {
            let selector = json!({ "matchLabels": { "app": "web" } });
            let status = json!({ "disruptionsAllowed": allowed });
            Some(Arc::new(json!({ "spec": { "selector": selector }, "status": status })))
        };
        let [a, b, other] = ["a", "b", "other"].map(|name| pod(name).label("app", "web").build());
        let left = |cluster: &Cluster, pod: &Pod| {
            cluster.disruption_budgets_of(pod).first().map(|(_, budget)| budget.disruptions_left())
        };
        cluster.set_object(&kind, "default", "b", budget(3));
        for evicted in [&a, &b, &a] {
            cluster.begin_eviction(evicted);
        }
        assert_eq!(left(&cluster, &other), Some(1));
        assert_eq!(left(&cluster, &a), None, "it is counted already");
        cluster.set_object(&kind, "default", "b", budget(2));
        cluster.settle_evictions("default", "b", std::slice::from_ref(&a.uid));
        assert_eq!(cluster.evicting("default", "b").collect::<Vec<_>>(), [&b.uid]);
        assert_eq!(left(&cluster, &other), Some(1), "the status counts the one that went");
        cluster.cancel_eviction(&b);
        assert_eq!(left(&cluster, &other), Some(2));
    }
}
