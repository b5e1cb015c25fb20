//! The disruption controller: writes into the status of every PodDisruptionBudget how many of its
//! pods may be evicted.
//!
//! The expected number of pods comes from the ReplicaSet, Deployment, StatefulSet or
//! ReplicationController. The controller reads it when pods of the budget change, which happens
//! when the application is scaled.

use std::collections::BTreeMap;
use std::time::Duration;

use framework::{LabelSelector, Time, api};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::work_queue::{Key, WorkQueue, key};
use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{generation, name, namespace, uid};
use crate::object::{
    condition_status, controller_of, is_terminating, number, put, remove, set_condition, text,
};
use crate::resources::{
    DEPLOYMENTS, PODDISRUPTIONBUDGETS, PODS, REPLICASETS, REPLICATIONCONTROLLERS, STATEFULSETS,
};
use crate::store::Store;

/// An evicted pod that still exists after this time was not evicted.
const DELETION_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// Returns the selector of a budget. An absent or malformed selector matches no pod, an empty one
/// all pods.
pub(crate) fn budget_selector(budget: &Value) -> LabelSelector {
    let selector = budget["spec"].get("selector").filter(|selector| !selector.is_null());
    let selector = selector.and_then(|own| api::LabelSelector::deserialize(own).ok());
    LabelSelector::compile(selector.as_ref()).unwrap_or(LabelSelector::NOTHING)
}

#[derive(Debug)]
pub(super) struct DisruptionController {
    pods: Informer,
    informer: Informer,
    budgets: BTreeMap<Key, Budget>,
    queue: WorkQueue,
}

/// The pods of one budget, counted incrementally.
#[derive(Debug)]
struct Budget {
    selector: LabelSelector,
    pods: BTreeMap<String, PodFacts>,
    healthy: i64,
    /// Controllers of the pods, with the number of their pods.
    owners: BTreeMap<Owner, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PodFacts {
    terminating: bool,
    healthy: bool,
    owner: Option<Owner>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    kind: String,
    name: String,
    uid: String,
}

impl PodFacts {
    fn of(pod: &Value) -> Self {
        let terminating = is_terminating(pod);
        let owner = controller_of(pod).map(|owner| Owner {
            kind: text(owner, "/kind").to_owned(),
            name: text(owner, "/name").to_owned(),
            uid: text(owner, "/uid").to_owned(),
        });
        let healthy = !terminating && condition_status(pod, "Ready") == "True";
        Self { terminating, healthy, owner }
    }
}

impl Budget {
    fn new(selector: LabelSelector) -> Self {
        Self { selector, pods: BTreeMap::new(), healthy: 0, owners: BTreeMap::new() }
    }

    /// Adds or updates a pod if the budget selects it. Returns whether the counts changed.
    fn meet(&mut self, pod: &Value) -> bool {
        let selected = self.selector.matches_by(|key| pod["metadata"]["labels"][key].as_str());
        self.set(name(pod), selected.then(|| PodFacts::of(pod)))
    }

    fn is_healthy(&self, pod: &str) -> bool {
        self.pods.get(pod).is_some_and(|facts| facts.healthy)
    }

    fn set(&mut self, pod: &str, facts: Option<PodFacts>) -> bool {
        if self.pods.get(pod) == facts.as_ref() {
            return false;
        }
        if let Some(old) = self.pods.remove(pod) {
            self.healthy -= i64::from(old.healthy);
            if let Some(count) = old.owner.as_ref().and_then(|owner| self.owners.get_mut(owner)) {
                *count -= 1;
            }
            self.owners.retain(|_, count| *count > 0);
        }
        if let Some(new) = facts {
            self.healthy += i64::from(new.healthy);
            if let Some(owner) = &new.owner {
                *self.owners.entry(owner.clone()).or_default() += 1;
            }
            self.pods.insert(pod.to_owned(), new);
        }
        true
    }
}

impl DisruptionController {
    pub(super) fn new() -> Self {
        Self {
            pods: Informer::new(PODS),
            informer: Informer::new(PODDISRUPTIONBUDGETS),
            budgets: BTreeMap::new(),
            queue: WorkQueue::default(),
        }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        self.take_in_budgets(store);
        for event in self.pods.events(store) {
            match event {
                ObjectEvent::Present(pod) => self.pod_changed(&pod, |budget| budget.meet(&pod)),
                ObjectEvent::Removed(pod) => {
                    self.pod_changed(&pod, |budget| budget.set(name(&pod), None))
                }
            }
        }
        while let Some(key) = self.queue.pop(now) {
            self.sync(store, &key, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.queue.next_deadline()
    }

    /// Fills new budgets, and those with a new selector, in one walk over all pods.
    fn take_in_budgets(&mut self, store: &Store) {
        let mut unfilled = Vec::new();
        for event in self.informer.events(store) {
            match event {
                ObjectEvent::Removed(budget) => drop(self.budgets.remove(&key(&budget))),
                ObjectEvent::Present(budget) => {
                    let (key, selector) = (key(&budget), budget_selector(&budget));
                    if self.budgets.get(&key).is_none_or(|own| own.selector != selector) {
                        self.budgets.insert(key.clone(), Budget::new(selector));
                        unfilled.push(key.clone());
                    }
                    self.queue.add(key);
                }
            }
        }
        if unfilled.is_empty() {
            return;
        }
        for pod in store.objects(PODS) {
            for key in unfilled.iter().filter(|key| key.0 == namespace(pod)) {
                if let Some(budget) = self.budgets.get_mut(key) {
                    budget.meet(pod);
                }
            }
        }
    }

    fn pod_changed(&mut self, pod: &Value, change: impl Fn(&mut Budget) -> bool) {
        let from = (namespace(pod).to_owned(), String::new());
        let budgets = self.budgets.range_mut(from..);
        for (key, budget) in budgets.take_while(|(key, _)| key.0 == namespace(pod)) {
            if change(budget) {
                self.queue.add(key.clone());
            }
        }
    }

    fn sync(&mut self, store: &mut Store, key: &Key, now: Time) {
        let Some(own) = self.budgets.get(key) else { return };
        let Some(object) = store.get(PODDISRUPTIONBUDGETS, &key.0, &key.1).cloned() else { return };
        let disrupted = disrupted_pods(&object, own, now);
        let missing = disrupted.keys().filter(|pod| own.is_healthy(pod)).count();
        let healthy = own.healthy - i64::try_from(missing).unwrap_or(0);
        let outcome = wanted(&object["spec"], own, || expected_scale(store, &key.0, own))
            .map(|wanted| wanted.allowance(healthy));
        if let Some(first) = disrupted.values().filter_map(deadline).min() {
            self.queue.add_after(key.clone(), first);
        }
        let write = |budget: &mut Value| {
            write_status(budget, healthy, &outcome, disrupted, now);
            Ok(())
        };
        // The write fails if the budget was deleted, which then needs no status.
        store.modify(PODDISRUPTIONBUDGETS, &key.0, &key.1, now, write).ok();
    }
}

/// Returns the evicted pods that still exist and are expected to end.
fn disrupted_pods(budget: &Value, own: &Budget, now: Time) -> Map<String, Value> {
    let noted = budget["status"]["disruptedPods"].as_object().into_iter().flatten();
    let pending = noted.filter(|(pod, since)| {
        own.pods.get(*pod).is_some_and(|facts| !facts.terminating)
            && deadline(since).is_some_and(|deadline| now < deadline)
    });
    pending.map(|(pod, since)| (pod.clone(), since.clone())).collect()
}

fn deadline(since: &Value) -> Option<Time> {
    let since = Time::parse_rfc3339(since.as_str()?).ok()?;
    Some(since + DELETION_TIMEOUT)
}

/// The numbers of expected and desired healthy pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wanted {
    expected: i64,
    healthy: i64,
}

/// The state of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Allowance {
    wanted: Wanted,
    disruptions: i64,
}

impl Wanted {
    fn allowance(self, healthy: i64) -> Allowance {
        let spare = (healthy - self.healthy).max(0);
        Allowance { wanted: self, disruptions: if self.expected > 0 { spare } else { 0 } }
    }
}

/// Returns the expected and desired numbers of pods. Only `maxUnavailable` and percentages, which
/// are rounded up, depend on the scale of the application; a plain `minAvailable` uses the number
/// of existing pods.
fn wanted(
    spec: &Value,
    budget: &Budget,
    scale: impl Fn() -> Result<i64, String>,
) -> Result<Wanted, String> {
    if let Some(limit) = IntOrPercent::of(&spec["maxUnavailable"])? {
        let expected = scale()?;
        return Ok(Wanted { expected, healthy: (expected - limit.of_total(expected)).max(0) });
    }
    match IntOrPercent::of(&spec["minAvailable"])? {
        None => Ok(Wanted { expected: 0, healthy: 0 }),
        Some(IntOrPercent::Int(healthy)) => {
            Ok(Wanted { expected: i64::try_from(budget.pods.len()).unwrap_or(i64::MAX), healthy })
        }
        Some(percent) => {
            let expected = scale()?;
            Ok(Wanted { expected, healthy: percent.of_total(expected) })
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum IntOrPercent {
    Int(i64),
    Percent(i64),
}

impl IntOrPercent {
    fn of(value: &Value) -> Result<Option<Self>, String> {
        match value {
            Value::Null => Ok(None),
            Value::String(text) => {
                let percent = text.strip_suffix('%').and_then(|digits| digits.parse().ok());
                let fault = || format!("invalid value for IntOrString: {text:?} is no percentage");
                percent.map(|percent| Some(Self::Percent(percent))).ok_or_else(fault)
            }
            other => Ok(other.as_i64().map(Self::Int)),
        }
    }

    fn of_total(self, total: i64) -> i64 {
        match self {
            Self::Int(count) => count,
            // Rounds up, for positive numbers.
            Self::Percent(percent) => (percent.saturating_mul(total) + 99).div_euclid(100),
        }
    }
}

/// Returns the sum of the scales of the controllers of the pods. Pods without a controller do not
/// count.
fn expected_scale(store: &Store, namespace: &str, budget: &Budget) -> Result<i64, String> {
    let mut scales = BTreeMap::new();
    for owner in budget.owners.keys() {
        let (uid, replicas) = scale_of(store, namespace, owner)?;
        scales.insert(uid, replicas);
    }
    Ok(scales.values().sum())
}

/// Returns UID and scale of the owner: of the Deployment if a ReplicaSet belongs to one.
fn scale_of(store: &Store, namespace: &str, owner: &Owner) -> Result<(String, i64), String> {
    let resource = match owner.kind.as_str() {
        "ReplicaSet" => REPLICASETS,
        "StatefulSet" => STATEFULSETS,
        "ReplicationController" => REPLICATIONCONTROLLERS,
        kind => return Err(format!("{kind} {:?} does not say how many pods it keeps", owner.name)),
    };
    let object = store.get(resource, namespace, &owner.name).filter(|own| uid(own) == owner.uid);
    let object = object.ok_or_else(|| format!("{} {:?} is gone", owner.kind, owner.name))?;
    let deployment = controller_of(object)
        .filter(|above| above["kind"] == "Deployment")
        .and_then(|above| store.get(DEPLOYMENTS, namespace, text(above, "/name")));
    let object = deployment.unwrap_or(object);
    Ok((uid(object).to_owned(), number(object, "/spec/replicas").unwrap_or(1)))
}

fn write_status(
    budget: &mut Value,
    healthy: i64,
    outcome: &Result<Allowance, String>,
    disrupted: Map<String, Value>,
    now: Time,
) {
    let generation = generation(budget);
    let (disruptions, reason, message) = match outcome {
        Ok(allowance) => {
            let Wanted { expected, healthy: desired } = allowance.wanted;
            put(budget, &["status", "currentHealthy"], json!(healthy));
            put(budget, &["status", "desiredHealthy"], json!(desired));
            put(budget, &["status", "expectedPods"], json!(expected));
            if disrupted.is_empty() {
                remove(budget, &["status"], "disruptedPods");
            } else {
                put(budget, &["status", "disruptedPods"], Value::Object(disrupted));
            }
            put(budget, &["status", "observedGeneration"], json!(generation));
            let reason =
                if allowance.disruptions > 0 { "SufficientPods" } else { "InsufficientPods" };
            (allowance.disruptions, reason, "")
        }
        // No pod may be evicted while the expected number is unknown.
        Err(fault) => (0, "SyncFailed", fault.as_str()),
    };
    put(budget, &["status", "disruptionsAllowed"], json!(disruptions));
    let status = if disruptions > 0 { "True" } else { "False" };
    let condition = json!({"type": "DisruptionAllowed", "status": status, "reason": reason,
        "message": message, "observedGeneration": generation});
    set_condition(budget, condition, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget_of(pods: usize) -> Budget {
        let mut budget = Budget::new(LabelSelector::EVERYTHING);
        for index in 0..pods {
            let facts = PodFacts { terminating: false, healthy: true, owner: None };
            budget.set(&format!("p{index}"), Some(facts));
        }
        budget
    }

    #[test]
    fn allowed_disruptions_match_kubernetes() {
        // spec, pods, scale of the application, healthy pods: desired, expected, allowed
        let table = [
            (json!({"minAvailable": 1}), 3, 9, 3, (1, 3, 2)),
            (json!({"minAvailable": 3}), 3, 9, 3, (3, 3, 0)),
            (json!({"minAvailable": 5}), 3, 9, 3, (5, 3, 0)),
            (json!({"minAvailable": 0}), 0, 0, 0, (0, 0, 0)),
            (json!({"minAvailable": "50%"}), 3, 7, 7, (4, 7, 3)),
            (json!({"minAvailable": "100%"}), 3, 3, 3, (3, 3, 0)),
            (json!({"minAvailable": "0%"}), 3, 3, 2, (0, 3, 2)),
            (json!({"maxUnavailable": 1}), 3, 3, 3, (2, 3, 1)),
            (json!({"maxUnavailable": 1}), 3, 3, 2, (2, 3, 0)),
            (json!({"maxUnavailable": 9}), 3, 3, 1, (0, 3, 1)),
            (json!({"maxUnavailable": "30%"}), 7, 7, 7, (4, 7, 3)),
            (json!({"maxUnavailable": "1%"}), 7, 7, 7, (6, 7, 1)),
            (json!({"maxUnavailable": "0%"}), 7, 7, 7, (7, 7, 0)),
            (json!({}), 3, 3, 3, (0, 0, 0)),
        ];
        for (spec, pods, scale, healthy, expected) in table {
            let wanted = wanted(&spec, &budget_of(pods), || Ok(scale)).unwrap();
            let Allowance { wanted, disruptions } = wanted.allowance(healthy);
            assert_eq!((wanted.healthy, wanted.expected, disruptions), expected, "{spec}");
        }
        let odd = json!({"minAvailable": "many"});
        assert!(wanted(&odd, &budget_of(1), || Ok(1)).is_err());
    }

    #[test]
    fn pod_counts_follow_added_changed_and_removed_pods() {
        let mut budget = budget_of(2);
        let owner = Owner { kind: "Job".into(), name: "j".into(), uid: "u".into() };
        let facts =
            |healthy| Some(PodFacts { terminating: false, healthy, owner: Some(owner.clone()) });
        assert!(budget.set("p0", facts(false)));
        assert!(!budget.set("p0", facts(false)));
        assert_eq!((budget.healthy, budget.owners.len()), (1, 1));
        assert!(budget.set("p0", facts(true)));
        assert!(budget.set("p1", None));
        assert!(!budget.set("p1", None));
        assert_eq!((budget.healthy, budget.owners[&owner]), (1, 1));
        assert!(budget.set("p0", None));
        assert!(budget.owners.is_empty());
    }
}
