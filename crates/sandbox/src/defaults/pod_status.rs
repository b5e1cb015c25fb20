//! The initial status of a pod.

use framework::{Quantity, Time};
use serde_json::{Value, json};

use super::fill::{Object, default, defaults, ensure, items, text};

/// Returns the status of a new pod.
pub(super) fn new_status(spec: &Value, now: Time) -> Value {
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(spec)});
    let gates = spec["schedulingGates"].as_array();
    if gates.is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": now.floor_to_second().to_string(),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    status
}

/// Returns `Guaranteed` if all containers limit cpu and memory and request as much, `BestEffort` if
/// none requests or limits any, else `Burstable`. Pod-level resources take precedence.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    let lists = ["initContainers", "containers"].iter().filter_map(|list| spec[*list].as_array());
    let containers = lists.flatten().map(|container| &container["resources"]);
    let pod = Some(&spec["resources"]).filter(|resources| demands_any(resources));
    let demands: Vec<&Value> = match pod {
        Some(resources) => vec![resources],
        None => containers.collect(),
    };
    if !demands.iter().any(|resources| demands_any(resources)) {
        "BestEffort"
    } else if demands.iter().all(|resources| is_guaranteed(resources)) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn demands_any(resources: &Value) -> bool {
    let amounts = ["requests", "limits"].map(|list| &resources[list]);
    let amount = |name: &str| amounts.iter().any(|list| nanos(&list[name]).is_some_and(|n| n > 0));
    amount("cpu") || amount("memory")
}

fn is_guaranteed(resources: &Value) -> bool {
    ["cpu", "memory"].iter().all(|name| {
        let limit = nanos(&resources["limits"][*name]).filter(|limit| *limit > 0);
        limit.is_some() && nanos(&resources["requests"][*name]) == limit
    })
}

fn nanos(quantity: &Value) -> Option<i128> {
    quantity.as_str()?.parse::<Quantity>().ok().map(|quantity| quantity.nanos())
}

/// Writes the fields of pod conditions and container statuses that are present even when empty.
pub(super) fn complete(status: &mut Object) {
    for condition in items(status, "conditions") {
        defaults(condition, [("lastProbeTime", Value::Null), ("lastTransitionTime", Value::Null)]);
    }
    let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
    for list in lists {
        for container in items(status, list) {
            for state in ["state", "lastState"] {
                ensure(container, state);
            }
            for (field, zero) in [
                ("ready", Value::from(false)),
                ("restartCount", 0.into()),
                ("image", "".into()),
                ("imageID", "".into()),
            ] {
                default(container, field, zero);
            }
        }
    }
    if text(status, "phase").is_empty() {
        status.remove("phase");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qos_class_follows_cpu_and_memory() {
        let all = json!({"cpu": "1", "memory": "1Gi"});
        let cases = [
            (json!([{}]), "BestEffort"),
            (json!([{"resources": {"requests": {"x/y": "1"}}}]), "BestEffort"),
            (json!([{"resources": {"requests": {"cpu": "0"}}}]), "BestEffort"),
            (json!([{"resources": {"requests": {"cpu": "1"}}}]), "Burstable"),
            (json!([{"resources": {"requests": all, "limits": all}}]), "Guaranteed"),
            (json!([{"resources": {"requests": all, "limits": all}}, {}]), "Burstable"),
            (
                json!([{"resources": {
                    "requests": {"cpu": "1000m", "memory": "1Gi"}, "limits": all,
                }}]),
                "Guaranteed",
            ),
            (
                json!([{"resources": {"requests": {"cpu": "1", "memory": "1"}, "limits": all}}]),
                "Burstable",
            ),
        ];
        for (containers, expected) in cases {
            let spec = json!({"containers": containers});
            assert_eq!(qos_class(&spec), expected, "{spec}");
        }
        let spec = json!({"containers": [{}], "resources": {"requests": all, "limits": all}});
        assert_eq!(qos_class(&spec), "Guaranteed");
    }
}
