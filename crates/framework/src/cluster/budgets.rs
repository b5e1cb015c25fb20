//! PodDisruptionBudgets, as far as preemption heeds them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::classes::{Class, Classes};
use super::selector_index::SelectorIndex;
use super::slab::Slab;
use super::{Cluster, PlacedPod, PodIx};
use crate::{LabelSelector, Namespaces, Pod, PodQuery, Uid, api};

/// The budgets that select any pod at all.
#[derive(Debug, Clone, Default)]
pub(super) struct DisruptionBudgets {
    ids: HashMap<Name, BudgetIx>,
    budgets: Slab<DisruptionBudget>,
    by_selector: SelectorIndex<BudgetIx>,
    /// Pods the scheduler evicts that some budget has counted, until they are gone or spared.
    evicted: BTreeSet<Uid>,
}

/// Namespace and name.
type Name = (Arc<str>, Arc<str>);

/// The dense id of a PodDisruptionBudget. Ids of budgets that are gone are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetIx(u32);

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionBudget {
    pods: PodQuery,
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
    /// Adds, replaces or removes a budget, and tells the classes of the pods it means.
    pub(super) fn set(
        &mut self,
        namespace: &str,
        name: &str,
        object: Option<&Value>,
        classes: &mut Classes,
    ) {
        let name: Name = (namespace.into(), name.into());
        let new = object.and_then(|object| DisruptionBudget::of(&name.0, object));
        let Some(ix) = self.ids.get(&name).copied() else {
            return new.into_iter().for_each(|new| self.insert(name.clone(), new, classes));
        };
        let evicting = std::mem::take(&mut self.budgets.get_mut(ix.0).evicting);
        match new.map(|new| DisruptionBudget { evicting, ..new }) {
            Some(new) if new.pods == self.budgets.get(ix.0).pods => {
                *self.budgets.get_mut(ix.0) = new;
            }
            new => {
                self.remove(&name, ix, classes);
                new.into_iter().for_each(|new| self.insert(name.clone(), new, classes));
            }
        }
    }

    fn insert(&mut self, name: Name, budget: DisruptionBudget, classes: &mut Classes) {
        let meant = classes.meant_by(&budget.pods);
        let ix = BudgetIx(self.budgets.insert(budget));
        let PodQuery { selector, .. } = &self.budgets.get(ix.0).pods;
        self.by_selector.insert(Some(std::slice::from_ref(&name.0)), selector, ix);
        self.ids.insert(name, ix);
        meant.into_iter().for_each(|class| classes.get_mut(class).budgets.push(ix));
    }

    fn remove(&mut self, name: &Name, ix: BudgetIx, classes: &mut Classes) {
        self.ids.remove(name);
        let PodQuery { selector, .. } = &self.budgets.get(ix.0).pods;
        self.by_selector.remove(Some(std::slice::from_ref(&name.0)), selector, ix);
        for class in classes.meant_by(&self.budgets.remove(ix.0).pods) {
            classes.get_mut(class).budgets.retain(|own| *own != ix);
        }
    }

    /// The budgets that mean the pods of a class.
    pub(super) fn meaning(&self, class: &Class) -> impl Iterator<Item = BudgetIx> {
        let candidates = self.by_selector.may_mean(class.namespace(), class.labels());
        candidates.filter(|ix| class.is_meant_by(&self.budgets.get(ix.0).pods))
    }

    fn named(&self, namespace: &str, name: &str) -> Option<BudgetIx> {
        self.ids.get(&(namespace.into(), name.into())).copied()
    }
}

impl DisruptionBudget {
    /// Reads a budget of policy/v1. An empty selector matches every pod of the namespace, those without
    /// labels included. A budget with an absent or invalid selector protects no pod and gives `None`. A
    /// status that does not decode allows no disruptions.
    fn of(namespace: &Arc<str>, object: &Value) -> Option<Self> {
        let spec = Spec::deserialize(&object["spec"]).ok()?;
        let selector = LabelSelector::compile(spec.selector.as_ref()).ok()?;
        let state = State::deserialize(&object["status"]).unwrap_or_default();
        (!selector.is_nothing()).then(|| Self {
            pods: PodQuery { namespaces: Namespaces::one(namespace), selector },
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

    /// Whether evicting `pod`, which it means, would use it up. An eviction that is counted already
    /// does not.
    fn pays_for(&self, pod: &Pod) -> bool {
        !self.disrupted_pods.contains(&pod.key.name) && !self.evicting.contains(&pod.uid)
    }
}

impl Cluster {
    /// Returns the PodDisruptionBudgets that the eviction of a placed pod would use up, each once.
    ///
    /// # Panics
    /// The cluster has no pod with this id.
    pub fn disruption_budgets_of(
        &self,
        pod: PodIx,
    ) -> impl Iterator<Item = (BudgetIx, &DisruptionBudget)> {
        let PlacedPod { pod, membership, .. } = self.pod(pod);
        let class = self.classes.get(membership.class);
        let budgets =
            class.budgets.iter().map(|ix| (*ix, self.disruption_budgets.budgets.get(ix.0)));
        budgets.filter(|(_, budget)| budget.pays_for(pod))
    }
}

/// For the engine: its own evictions count before the status of a budget shows them.
impl Cluster {
    /// Notes that the scheduler evicts `pod`.
    pub fn begin_eviction(&mut self, pod: &Pod) {
        let all = &mut self.disruption_budgets;
        for ix in all.by_selector.may_mean(&pod.key.namespace, &pod.labels) {
            let budget = all.budgets.get_mut(ix.0);
            if budget.pods.matches(pod) && budget.pays_for(pod) {
                budget.evicting.insert(pod.uid.clone());
                all.evicted.insert(pod.uid.clone());
            }
        }
    }

    /// Notes that the scheduler does not evict the pod after all, or that it is gone. Budgets that
    /// have counted it may mean other pods by now, or the pod have other labels.
    pub fn cancel_eviction(&mut self, pod: &Uid) {
        let all = &mut self.disruption_budgets;
        if all.evicted.remove(pod) {
            all.budgets.values_mut().for_each(|budget| {
                budget.evicting.remove(pod);
            });
        }
    }

    /// Pods the scheduler evicts, as far as the status of this budget may not count them yet.
    pub fn evicting(&self, namespace: &str, name: &str) -> impl Iterator<Item = &Uid> {
        let all = &self.disruption_budgets;
        let budget = all.named(namespace, name).map(|ix| all.budgets.get(ix.0));
        budget.into_iter().flat_map(|budget| &budget.evicting)
    }

    /// Notes that the status of this budget counts the evictions of `pods`.
    pub fn settle_evictions(&mut self, namespace: &str, name: &str, pods: &[Uid]) {
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
    use crate::EventResource;
    use crate::testing::pod;

    /// What the budgets of a pod have left.
    fn left_for(cluster: &Cluster, pod: PodIx) -> Vec<i64> {
        let budgets = cluster.disruption_budgets_of(pod);
        budgets.map(|(_, budget)| budget.disruptions_left()).collect()
    }

    /// The same for one budget, whichever of the two came first.
    fn left(object: Value, pod: Pod) -> Vec<i64> {
        let mut cluster = Cluster::default();
        let kind = EventResource::PodDisruptionBudget;
        let before = cluster.place_pod(Arc::new(pod.clone()), "n");
        cluster.set_object(&kind, "default", "b", Some(Arc::new(object)));
        let left = left_for(&cluster, before);
        cluster.remove_pod(before);
        let after = cluster.place_pod(Arc::new(pod), "n");
        assert_eq!(left, left_for(&cluster, after));
        left
    }

    #[test]
    fn a_budget_protects_the_pods_its_selector_matches() {
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
            (selecting(json!("app=web")), web(), vec![]),
            (selecting(json!({ "matchExpressions": odd })), web(), vec![]),
            (json!({ "spec": { "selector": app() } }), web(), vec![0]),
            (json!({ "spec": { "selector": app() }, "status": "fine" }), web(), vec![0]),
            (json!({}), web(), vec![]),
        ];
        for (object, pod, expected) in rows {
            assert_eq!(left(object.clone(), pod.build()), expected, "{object}");
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
        let apps = ["web", "db"]
            .map(|app| cluster.place_pod(Arc::new(pod(app).label("app", app).build()), "n"));
        let counts = |cluster: &Cluster| apps.map(|pod| left_for(cluster, pod).len());
        cluster.set_object(&kind, "default", "b", budget("web"));
        cluster.set_object(&kind, "default", "b", budget("db"));
        assert_eq!(counts(&cluster), [0, 1]);
        cluster.set_object(&kind, "default", "b", None);
        assert_eq!(counts(&cluster), [0, 0]);
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
        let place =
            |cluster: &mut Cluster, pod: &Pod| cluster.place_pod(Arc::new(pod.clone()), "n");
        let (a_ix, other) = (place(&mut cluster, &a), place(&mut cluster, &other));
        cluster.set_object(&kind, "default", "b", budget(3));
        for evicted in [&a, &b, &a] {
            cluster.begin_eviction(evicted);
        }
        assert_eq!(left_for(&cluster, other), [1]);
        assert_eq!(left_for(&cluster, a_ix), [0; 0], "it is counted already");
        cluster.set_object(&kind, "default", "b", budget(2));
        cluster.settle_evictions("default", "b", std::slice::from_ref(&a.uid));
        assert_eq!(cluster.evicting("default", "b").collect::<Vec<_>>(), [&b.uid]);
        assert_eq!(left_for(&cluster, other), [1], "the status counts the one that went");
        cluster.cancel_eviction(&b.uid);
        assert_eq!(left_for(&cluster, other), [2]);
    }

    #[test]
    fn an_eviction_that_ends_counts_for_no_budget_whatever_it_means_by_now() {
        let kind = EventResource::PodDisruptionBudget;
        let budget = |app: &str| {
            let selector = json!({ "matchLabels": { "app": app } });
            Some(Arc::new(json!({ "spec": { "selector": selector } })))
        };
        let web = pod("p").label("app", "web").build();
        let mut cluster = Cluster::default();
        cluster.set_object(&kind, "default", "b", budget("web"));
        cluster.begin_eviction(&web);
        cluster.set_object(&kind, "default", "b", budget("db"));
        assert_eq!(cluster.evicting("default", "b").count(), 1);
        cluster.cancel_eviction(&web.uid);
        assert_eq!(cluster.evicting("default", "b").count(), 0);
    }
}
