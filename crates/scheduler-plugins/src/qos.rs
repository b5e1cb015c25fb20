//! The QoS class of pods.

use framework::{Pod, api, parse_resource_list};
use serde::Deserialize;
use serde_json::Value;

/// The QoS class that the API server wrote when the pod was created.
const CLASS: &str = "/status/qosClass";

/// The resources of the whole pod.
const POD_LEVEL: &str = "/spec/resources";

/// The fields of pods that [`QosClass::of`] reads, beside the containers.
pub(crate) const FIELDS: [&str; 2] = [CLASS, POD_LEVEL];

/// A QoS class, the one that is evicted first in first place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QosClass {
    BestEffort,
    Burstable,
    Guaranteed,
}

/// CPU and memory of a container or a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Amounts {
    milli_cpu: i64,
    memory: i64,
}

impl QosClass {
    /// Returns the class of a pod: the one that its status names, or else that of its resources.
    pub(crate) fn of(pod: &Pod) -> Self {
        match pod.extra.get(CLASS).and_then(Value::as_str) {
            Some("Guaranteed") => Self::Guaranteed,
            Some("Burstable") => Self::Burstable,
            Some("BestEffort") => Self::BestEffort,
            _ => Self::by_resources(pod),
        }
    }

    /// Returns the class as the API server computes it. Limits without requests count as requests.
    fn by_resources(pod: &Pod) -> Self {
        let pod_level = pod.extra.get(POD_LEVEL).and_then(pod_level);
        let own = pod.containers().iter().map(|container| {
            let amounts =
                |of: &framework::Resources| Amounts { milli_cpu: of.milli_cpu, memory: of.memory };
            (amounts(&container.requests), amounts(&container.limits))
        });
        let parts: Vec<_> = pod_level.map_or_else(|| own.collect(), |whole| vec![whole]);
        let or = |request: i64, limit: i64| if request == 0 { limit } else { request };
        let is_named = |(requests, limits): &(Amounts, Amounts)| {
            [requests.milli_cpu, requests.memory, limits.milli_cpu, limits.memory] != [0; 4]
        };
        let is_exact = |(requests, limits): &(Amounts, Amounts)| {
            limits.milli_cpu > 0
                && limits.memory > 0
                && or(requests.milli_cpu, limits.milli_cpu) == limits.milli_cpu
                && or(requests.memory, limits.memory) == limits.memory
        };
        match () {
            () if !parts.iter().any(is_named) => Self::BestEffort,
            () if parts.iter().all(is_exact) => Self::Guaranteed,
            () => Self::Burstable,
        }
    }
}

fn pod_level(resources: &Value) -> Option<(Amounts, Amounts)> {
    let list = |field| {
        let list = api::ResourceList::deserialize(resources.get(field)?).ok()?;
        let amounts = parse_resource_list(&list, field, &mut Vec::new());
        Some(Amounts { milli_cpu: amounts.milli_cpu, memory: amounts.memory })
    };
    let none = Amounts { milli_cpu: 0, memory: 0 };
    let (requests, limits) = (list("requests"), list("limits"));
    if requests.is_none() && limits.is_none() {
        return None;
    }
    Some((requests.unwrap_or(none), limits.unwrap_or(none)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use framework::ExtraFields;
    use serde_json::json;

    use super::*;

    fn class(pod: &Value) -> QosClass {
        let wanted = ExtraFields {
            pod: FIELDS.map(Arc::from).into_iter().collect::<BTreeSet<_>>(),
            containers: true,
            ..ExtraFields::default()
        };
        QosClass::of(&Pod::from_json(pod, &wanted).unwrap())
    }

    #[test]
    fn class_is_that_of_the_status_or_of_the_resources() {
        let container = |requests: Value, limits: Value| json!({"name": "c", "resources": {"requests": requests, "limits": limits}});
        let full = || json!({"cpu": "1", "memory": "1Gi"});
        let pod = |containers: Value| json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
        let rows = [
            (pod(json!([container(json!({}), json!({}))])), QosClass::BestEffort),
            (
                pod(json!([container(json!({"example.com/gpu": "1"}), json!({}))])),
                QosClass::BestEffort,
            ),
            (pod(json!([container(full(), full())])), QosClass::Guaranteed),
            (pod(json!([container(json!({}), full())])), QosClass::Guaranteed),
            (pod(json!([container(full(), json!({"cpu": "1"}))])), QosClass::Burstable),
            (pod(json!([container(json!({"cpu": "500m"}), full())])), QosClass::Burstable),
            (
                pod(json!([container(full(), full()), container(json!({}), json!({}))])),
                QosClass::Burstable,
            ),
        ];
        for (pod, expected) in rows {
            assert_eq!(class(&pod), expected, "{pod}");
        }
        let mut named = pod(json!([container(full(), full())]));
        named["status"] = json!({"qosClass": "BestEffort"});
        assert_eq!(class(&named), QosClass::BestEffort);
        let mut whole = pod(json!([container(json!({}), json!({}))]));
        whole["spec"]["resources"] = json!({"limits": full()});
        assert_eq!(class(&whole), QosClass::Guaranteed);
    }
}
