//! The status of PodDisruptionBudgets that have none. In a cluster, the disruption controller
//! writes it.

use std::sync::Arc;

use framework::{EventResource, LabelSelector, Pod, api};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::{DumpedObject, DumpedPod};

/// Writes a status into every budget without `status.disruptionsAllowed`. Pods that have a node
/// count as healthy. The scale of a controller is the number of its pods, waiting pods included.
pub(crate) fn complete(objects: &mut [DumpedObject], pods: &[DumpedPod]) {
    for object in objects.iter_mut().filter(|own| own.kind == EventResource::PodDisruptionBudget) {
        let mut budget: Value = serde_json::from_str(object.raw.get()).unwrap_or_default();
        if !budget["status"]["disruptionsAllowed"].is_null() {
            continue;
        }
        let Some(selector) = selector_of(&budget) else { continue };
        let own = pods.iter().filter(|own| {
            own.pod.key.namespace == object.namespace && selector.matches(&own.pod.labels)
        });
        let allowed = allowed(&budget["spec"], own);
        budget["status"] = json!({"disruptionsAllowed": allowed});
        if let Ok(raw) = to_raw_value(&budget) {
            object.raw = Arc::from(raw);
        }
    }
}

/// Returns the selector of a budget; `None` for an absent or invalid one, which selects no pod.
pub(crate) fn selector_of(budget: &Value) -> Option<LabelSelector> {
    let selector = budget["spec"].get("selector").filter(|selector| !selector.is_null())?;
    let selector = api::LabelSelector::deserialize(selector).ok()?;
    LabelSelector::compile(Some(&selector)).ok()
}

/// Returns how many of the pods may be evicted. As in Kubernetes, `maxUnavailable` and percentages
/// count only pods with a controller, and percentages are rounded up.
fn allowed<'a>(spec: &Value, pods: impl Iterator<Item = &'a DumpedPod>) -> i64 {
    let (mut present, mut scale, mut healthy) = (0, 0, 0);
    let is_active = |pod: &Pod| !pod.terminating;
    for DumpedPod { pod, owner, .. } in pods.filter(|own| is_active(&own.pod)) {
        present += 1;
        scale += i64::from(owner.is_some());
        healthy += i64::from(pod.node_name.is_some());
    }
    let (expected, wanted) = match (limit(&spec["maxUnavailable"]), limit(&spec["minAvailable"])) {
        (Some(limit), _) => (scale, (scale - limit.of_total(scale)).max(0)),
        (None, Some(Limit::Number(wanted))) => (present, wanted),
        (None, Some(percent)) => (scale, percent.of_total(scale)),
        (None, None) => (0, 0),
    };
    if expected > 0 { (healthy - wanted).max(0) } else { 0 }
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    Number(i64),
    Percent(i64),
}

/// Reads a number or a percentage.
fn limit(value: &Value) -> Option<Limit> {
    match value {
        Value::String(text) => text.strip_suffix('%')?.parse().ok().map(Limit::Percent),
        other => other.as_i64().map(Limit::Number),
    }
}

impl Limit {
    fn of_total(self, total: i64) -> i64 {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => (percent.saturating_mul(total) + 99).div_euclid(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Owner;

    fn pods(with_node: usize, without: usize, owner: Option<&str>) -> Vec<DumpedPod> {
        let pod = |number: usize| {
            let node = (number < with_node).then_some("n");
            let raw = json!({"metadata": {"name": format!("p{number}"), "namespace": "ns",
                "labels": {"app": "web"}}, "spec": {"nodeName": node, "containers": []}});
            let owner = owner.map(|kind| Owner { kind: kind.into(), name: "o".into() });
            let pod = Pod::from_api(&serde_json::from_value(raw).unwrap());
            DumpedPod { pod, raw: None, created: None, owner }
        };
        (0..with_node + without).map(pod).collect()
    }

    fn allowed_by(spec: Value, status: Value, pods: &[DumpedPod]) -> Value {
        let mut budget = json!({"spec": spec, "status": status});
        budget["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
        let kind = EventResource::PodDisruptionBudget;
        let raw = to_raw_value(&budget).unwrap().into();
        let mut objects = [DumpedObject { kind, namespace: "ns".into(), name: "b".into(), raw }];
        complete(&mut objects, pods);
        let budget: Value = serde_json::from_str(objects[0].raw.get()).unwrap();
        budget["status"]["disruptionsAllowed"].clone()
    }

    #[test]
    fn absent_status_is_that_of_the_disruption_controller() {
        let (set, bare) = (pods(7, 3, Some("ReplicaSet")), pods(3, 0, None));
        let rows = [
            (json!({"minAvailable": 5}), &set, 2),
            (json!({"minAvailable": 9}), &set, 0),
            // 45 % of 10 is rounded up to 5.
            (json!({"minAvailable": "45%"}), &set, 2),
            (json!({"maxUnavailable": 4}), &set, 1),
            (json!({"maxUnavailable": "35%"}), &set, 1),
            (json!({"minAvailable": 1}), &bare, 2),
            // Pods without a controller have no scale.
            (json!({"maxUnavailable": 1}), &bare, 0),
            (json!({}), &set, 0),
        ];
        for (spec, pods, expected) in rows {
            assert_eq!(allowed_by(spec.clone(), json!({}), pods), expected, "{spec}");
        }
        let kept = allowed_by(json!({"minAvailable": 5}), json!({"disruptionsAllowed": 0}), &set);
        assert_eq!(kept, 0, "a status counts as it is");
    }
}
