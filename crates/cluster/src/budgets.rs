//! PodDisruptionBudgets, as preemption reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use serde::Deserialize;
use serde_json::Value;

use super::label_sets::{LabelSet, LabelSets};
use super::object::Indexed;
use super::object_state::{DecodeError, ObjectState, decode};
use super::selector_index::SelectorIndex;
use super::slab::Slab;
use super::{Cluster, PlacedPod, PodIx};
use crate::{Namespaces, PodQuery};
use ::api::{LabelSelector, ObjectKey, Pod, Uid, api};

/// The budgets that select at least one pod.
#[derive(Debug, Clone, Default)]
pub(super) struct DisruptionBudgets {
    ids: HashMap<Name, BudgetIx>,
    budgets: Slab<DisruptionBudget>,
    by_selector: SelectorIndex<BudgetIx>,
    /// Pods that the scheduler evicts, until the eviction ends.
    evicted: BTreeMap<Uid, Pod>,
    /// Number of budgets that were added or removed.
    changes: u64,
}

/// Namespace and name.
type Name = (Arc<str>, Arc<str>);

/// The dense id of a PodDisruptionBudget. Ids of removed budgets are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetIx(u32);

/// What preemption reads of a PodDisruptionBudget that protects pods.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Protection {
    pods: PodQuery,
    /// `status.disruptionsAllowed`: the number of its pods that may still be evicted.
    disruptions_allowed: i32,
    /// `status.disruptedPods`: names of pods whose eviction the status counts already.
    disrupted_pods: BTreeSet<Arc<str>>,
}

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDisruptionBudget {
    /// `None` for an absent or invalid selector, which protects no pod.
    protection: Option<Arc<Protection>>,
}

/// A PodDisruptionBudget that protects pods, with the evictions in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionBudget {
    shown: Arc<Protection>,
    /// Pods that the scheduler evicts and that the status may not count yet.
    evicting: BTreeSet<Uid>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
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
    /// Adds, replaces or removes a budget, and updates the label sets of its pods. Ignores
    /// other objects.
    pub(super) fn set(&mut self, object: Indexed<'_>, label_sets: &mut LabelSets) {
        let ObjectState::PodDisruptionBudget(budget) = object.state else { return };
        let name: Name = (object.key.namespace.clone(), object.key.name.clone());
        let shown = object.present(budget).and_then(|shown| shown.protection.clone());
        let budget = |evicting| shown.map(|shown| DisruptionBudget { shown, evicting });
        let Some(ix) = self.ids.get(&name).copied() else {
            let new = budget(BTreeSet::new());
            return new.into_iter().for_each(|new| self.insert(name.clone(), new, label_sets));
        };
        let evicting = std::mem::take(&mut self.budgets.get_mut(ix.0).evicting);
        match budget(evicting) {
            Some(new) if new.shown.pods == self.budgets.get(ix.0).shown.pods => {
                *self.budgets.get_mut(ix.0) = new;
            }
            new => {
                self.remove(&name, ix, label_sets);
                new.into_iter().for_each(|new| self.insert(name.clone(), new, label_sets));
            }
        }
    }

    fn insert(&mut self, name: Name, budget: DisruptionBudget, label_sets: &mut LabelSets) {
        self.changes += 1;
        let matched = label_sets.matched_by(&budget.shown.pods);
        let ix = BudgetIx(self.budgets.insert(budget));
        let PodQuery { selector, .. } = &self.budgets.get(ix.0).shown.pods;
        self.by_selector.insert(Some(std::slice::from_ref(&name.0)), selector, ix);
        self.ids.insert(name, ix);
        matched.into_iter().for_each(|set| label_sets.get_mut(set).budgets.push(ix));
    }

    fn remove(&mut self, name: &Name, ix: BudgetIx, label_sets: &mut LabelSets) {
        self.changes += 1;
        self.ids.remove(name);
        let PodQuery { selector, .. } = &self.budgets.get(ix.0).shown.pods;
        self.by_selector.remove(Some(std::slice::from_ref(&name.0)), selector, ix);
        for set in label_sets.matched_by(&self.budgets.remove(ix.0).shown.pods) {
            label_sets.get_mut(set).budgets.retain(|own| *own != ix);
        }
    }

    /// Returns the budgets that select the pods of a label set.
    pub(super) fn matching(&self, set: &LabelSet) -> impl Iterator<Item = BudgetIx> {
        let candidates = self.by_selector.candidates(set.namespace(), set.labels());
        candidates.filter(|ix| set.is_matched_by(&self.budgets.get(ix.0).shown.pods))
    }

    fn named(&self, namespace: &str, name: &str) -> Option<BudgetIx> {
        self.ids.get(&(namespace.into(), name.into())).copied()
    }
}

impl PodDisruptionBudget {
    /// Decodes a budget of policy/v1. An empty selector matches every pod of the namespace,
    /// including pods without labels. An absent status allows no disruptions.
    pub(super) fn decode(key: &ObjectKey, object: &Value) -> Result<Self, DecodeError> {
        let spec: Option<Spec> = decode(&object["spec"], "spec")?;
        let state: Option<State> = decode(&object["status"], "status")?;
        let state = state.unwrap_or_default();
        let selector = LabelSelector::compile(spec.and_then(|spec| spec.selector).as_ref());
        let selector = selector.ok().filter(|selector| !selector.is_nothing());
        let protection = selector.map(|selector| Protection {
            pods: PodQuery { namespaces: Namespaces::one(&key.namespace), selector },
            disruptions_allowed: state.disruptions_allowed,
            disrupted_pods: state.disrupted_pods.unwrap_or_default().into_keys().collect(),
        });
        Ok(Self { protection: protection.map(Arc::new) })
    }
}

impl DisruptionBudget {
    /// Returns how many more of its pods may be evicted, beside the evictions in progress.
    pub fn disruptions_left(&self) -> i64 {
        let evicting = i64::try_from(self.evicting.len()).unwrap_or(i64::MAX);
        i64::from(self.shown.disruptions_allowed).saturating_sub(evicting)
    }

    /// Returns whether evicting `pod`, which the budget selects, takes one of its disruptions. An
    /// eviction that the status counts already takes none.
    fn is_charged_for(&self, pod: &Pod) -> bool {
        !self.shown.disrupted_pods.contains(&pod.key.name) && !self.evicting.contains(&pod.uid)
    }
}

impl Cluster {
    /// Returns the PodDisruptionBudgets that the eviction of a placed pod takes a disruption from,
    /// each once.
    ///
    /// # Panics
    /// Panics if no pod has this id.
    pub fn disruption_budgets_of(
        &self,
        pod: PodIx,
    ) -> impl Iterator<Item = (BudgetIx, &DisruptionBudget)> {
        let PlacedPod { pod, membership, .. } = self.pod(pod);
        let set = self.label_sets.get(membership.set);
        let budgets = set.budgets.iter().map(|ix| (*ix, self.disruption_budgets.budgets.get(ix.0)));
        budgets.filter(|(_, budget)| budget.is_charged_for(pod))
    }

    /// Whether a PodDisruptionBudget selects a placed pod.
    ///
    /// # Panics
    /// Panics if no pod has this id.
    pub fn has_disruption_budget(&self, pod: PodIx) -> bool {
        let PlacedPod { membership, .. } = self.pod(pod);
        !self.label_sets.get(membership.set).budgets.is_empty()
    }

    /// Returns the number of budgets that were added or removed. Until it changes, the same budgets
    /// select a pod.
    pub const fn budget_changes(&self) -> u64 {
        self.disruption_budgets.changes
    }
}

/// Evictions in progress, for the engine: they count until the status of the budget shows them.
impl Cluster {
    /// Records that the scheduler evicts `pod`.
    pub fn begin_eviction(&mut self, pod: &Pod) {
        let all = &mut self.disruption_budgets;
        for ix in all.by_selector.candidates(&pod.key.namespace, &pod.labels) {
            let budget = all.budgets.get_mut(ix.0);
            if budget.shown.pods.matches(pod) && budget.is_charged_for(pod) {
                budget.evicting.insert(pod.uid.clone());
            }
        }
        all.evicted.insert(pod.uid.clone(), pod.clone());
    }

    /// Returns the pods that the scheduler evicts and that are not gone.
    pub fn evicted(&self) -> impl Iterator<Item = &Pod> {
        self.disruption_budgets.evicted.values()
    }

    /// Whether the scheduler evicts a pod that is not gone.
    pub fn is_evicted(&self, pod: &Uid) -> bool {
        self.disruption_budgets.evicted.contains_key(pod)
    }

    /// Records that the eviction of the pod is cancelled or that the pod is gone. Clears it from
    /// every budget that counts it, even if the budget no longer selects the pod.
    pub fn cancel_eviction(&mut self, pod: &Uid) {
        let all = &mut self.disruption_budgets;
        if all.evicted.remove(pod).is_some() {
            all.budgets.values_mut().for_each(|budget| {
                budget.evicting.remove(pod);
            });
        }
    }

    /// Returns the pods that the scheduler evicts and that the status of this budget may not count
    /// yet.
    pub fn evicting(&self, namespace: &str, name: &str) -> impl Iterator<Item = &Uid> {
        let all = &self.disruption_budgets;
        let budget = all.named(namespace, name).map(|ix| all.budgets.get(ix.0));
        budget.into_iter().flat_map(|budget| &budget.evicting)
    }

    /// Records that the status of this budget counts the evictions of `pods`.
    pub fn confirm_evictions(&mut self, namespace: &str, name: &str, pods: &[Uid]) {
        let all = &mut self.disruption_budgets;
        if let Some(ix) = all.named(namespace, name) {
            all.budgets.get_mut(ix.0).evicting.retain(|uid| !pods.contains(uid));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{SetJson, pod};
    use ::api::EventResource;

    /// Returns the disruptions left of each budget of a pod.
    fn left_for(cluster: &Cluster, pod: PodIx) -> Vec<i64> {
        let budgets = cluster.disruption_budgets_of(pod);
        budgets.map(|(_, budget)| budget.disruptions_left()).collect()
    }

    /// Returns the disruptions left of one budget, and checks that the order of arrival does not
    /// matter.
    fn left(object: Value, pod: Pod) -> Vec<i64> {
        let mut cluster = Cluster::default();
        let kind = EventResource::PodDisruptionBudget;
        let before = cluster.place_pod(Arc::new(pod.clone()), "n");
        cluster.set_json(&kind, "default", "b", Some(Arc::new(object)));
        let left = left_for(&cluster, before);
        cluster.remove_pod(before);
        let after = cluster.place_pod(Arc::new(pod), "n");
        assert_eq!(left, left_for(&cluster, after));
        left
    }

    #[test]
    fn budget_protects_the_pods_its_selector_matches() {
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
            (selecting(json!({ "matchExpressions": not_db })), pod("p"), vec![2]),
            (selecting(app()), web().namespace("other"), vec![]),
            (selecting(app()), pod("q").label("app", "web"), vec![]),
            (selecting(json!({})), web(), vec![2]),
            (selecting(json!({})), pod("p"), vec![2]),
            (selecting(json!({})), pod("p").namespace("other"), vec![]),
            (selecting(json!(null)), web(), vec![]),
            (selecting(json!({ "matchExpressions": odd })), web(), vec![]),
            (json!({ "spec": { "selector": app() } }), web(), vec![0]),
            (json!({}), web(), vec![]),
        ];
        for (object, pod, expected) in rows {
            assert_eq!(left(object.clone(), pod.build()), expected, "{object}");
        }
    }

    #[test]
    fn replaced_or_removed_budget_leaves_no_trace() {
        let mut cluster = Cluster::default();
        let kind = EventResource::PodDisruptionBudget;
        let budget = |app: &str| {
            let selector = json!({ "matchLabels": { "app": app } });
            Some(Arc::new(json!({ "spec": { "selector": selector } })))
        };
        let apps = ["web", "db"]
            .map(|app| cluster.place_pod(Arc::new(pod(app).label("app", app).build()), "n"));
        let counts = |cluster: &Cluster| apps.map(|pod| left_for(cluster, pod).len());
        cluster.set_json(&kind, "default", "b", budget("web"));
        cluster.set_json(&kind, "default", "b", budget("db"));
        assert_eq!(counts(&cluster), [0, 1]);
        cluster.set_json(&kind, "default", "b", None);
        assert_eq!(counts(&cluster), [0, 0]);
    }

    #[test]
    fn eviction_counts_once_until_the_status_shows_it() {
        let mut cluster = Cluster::default();
        let kind = EventResource::PodDisruptionBudget;
        let budget = |allowed: i32| {
            let selector = json!({ "matchLabels": { "app": "web" } });
            let status = json!({ "disruptionsAllowed": allowed });
            Some(Arc::new(json!({ "spec": { "selector": selector }, "status": status })))
        };
        let [a, b, other] = ["a", "b", "other"].map(|name| pod(name).label("app", "web").build());
        let place =
            |cluster: &mut Cluster, pod: &Pod| cluster.place_pod(Arc::new(pod.clone()), "n");
        let (a_ix, other) = (place(&mut cluster, &a), place(&mut cluster, &other));
        cluster.set_json(&kind, "default", "b", budget(3));
        for evicted in [&a, &b, &a] {
            cluster.begin_eviction(evicted);
        }
        assert_eq!(left_for(&cluster, other), [1]);
        assert_eq!(left_for(&cluster, a_ix), [0; 0], "it is counted already");
        cluster.set_json(&kind, "default", "b", budget(2));
        cluster.confirm_evictions("default", "b", std::slice::from_ref(&a.uid));
        assert_eq!(cluster.evicting("default", "b").collect::<Vec<_>>(), [&b.uid]);
        assert_eq!(left_for(&cluster, other), [1], "the status counts the one that went");
        cluster.cancel_eviction(&b.uid);
        assert_eq!(left_for(&cluster, other), [2]);
    }

    #[test]
    fn ended_eviction_counts_for_no_budget_even_after_relabelling() {
        let kind = EventResource::PodDisruptionBudget;
        let budget = |app: &str| {
            let selector = json!({ "matchLabels": { "app": app } });
            Some(Arc::new(json!({ "spec": { "selector": selector } })))
        };
        let web = pod("p").label("app", "web").build();
        let mut cluster = Cluster::default();
        cluster.set_json(&kind, "default", "b", budget("web"));
        cluster.begin_eviction(&web);
        cluster.set_json(&kind, "default", "b", budget("db"));
        assert_eq!(cluster.evicting("default", "b").count(), 1);
        cluster.cancel_eviction(&web.uid);
        assert_eq!(cluster.evicting("default", "b").count(), 0);
    }
}
