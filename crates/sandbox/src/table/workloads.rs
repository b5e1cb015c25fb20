//! Columns of workloads, services and events.

use framework::Time;
use serde_json::Value;

use super::age;
use super::columns::{AGE, Column, NAME, number, text_or};
use crate::object::{condition_status, entries, text};

const NONE: &str = "<none>";

const CONTAINERS: Column = Column::text("Containers", "Names of the containers.", |object, _| {
    of_containers(object, "/name").into()
})
.wide();
const IMAGES: Column = Column::text("Images", "Images of the containers.", |object, _| {
    of_containers(object, "/image").into()
})
.wide();
const SELECTOR: Column = Column::text("Selector", "What selects the pods.", |object, _| {
    selector(&object["spec"]["selector"]).into()
})
.wide();
const DESIRED: Column = Column::integer("Desired", "Pods that are wanted.", |object, _| {
    number(object, "/spec/replicas").into()
});
const CURRENT: Column = Column::integer("Current", "Pods that are there.", |object, _| {
    number(object, "/status/replicas").into()
});

/// The columns of ReplicaSets and ReplicationControllers.
pub(super) const REPLICA_SET: &[Column] = &[
    NAME,
    DESIRED,
    CURRENT,
    Column::integer("Ready", "Pods that are ready.", |object, _| {
        number(object, "/status/readyReplicas").into()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

/// The columns of Deployments.
pub(super) const DEPLOYMENT: &[Column] = &[
    NAME,
    READY,
    Column::integer("Up-to-date", "Pods of the latest template.", |object, _| {
        number(object, "/status/updatedReplicas").into()
    }),
    Column::integer("Available", "Pods that have been ready for long enough.", |object, _| {
        number(object, "/status/availableReplicas").into()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const READY: Column =
    Column::text("Ready", "Pods that are ready, of those wanted.", |object, _| {
        let (ready, wanted) = ("/status/readyReplicas", "/spec/replicas");
        format!("{}/{}", number(object, ready), number(object, wanted)).into()
    });

/// The columns of StatefulSets.
pub(super) const STATEFUL_SET: &[Column] = &[NAME, READY, AGE, CONTAINERS, IMAGES];

/// The columns of DaemonSets.
pub(super) const DAEMON_SET: &[Column] = &[
    NAME,
    Column::integer("Desired", "Nodes that should run the pod.", |object, _| {
        number(object, "/status/desiredNumberScheduled").into()
    }),
    Column::integer("Current", "Nodes that run the pod.", |object, _| {
        number(object, "/status/currentNumberScheduled").into()
    }),
    Column::integer("Ready", "Nodes whose pod is ready.", |object, _| {
        number(object, "/status/numberReady").into()
    }),
    Column::integer("Up-to-date", "Nodes with a pod of the latest template.", |object, _| {
        number(object, "/status/updatedNumberScheduled").into()
    }),
    Column::integer("Available", "Nodes whose pod is available.", |object, _| {
        number(object, "/status/numberAvailable").into()
    }),
    Column::text("Node Selector", "Nodes that the pods may run on.", |object, _| {
        pairs(&object["spec"]["template"]["spec"]["nodeSelector"]).into()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

/// The columns of Jobs.
pub(super) const JOB: &[Column] = &[
    NAME,
    Column::text("Status", "How the job is doing.", |job, _| job_status(job).into()),
    Column::text("Completions", "Pods that succeeded, of those wanted.", |job, _| {
        completions(job).into()
    }),
    Column::text("Duration", "Time from start to completion.", |job, now| {
        duration(job, now).into()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

/// The columns of PodDisruptionBudgets.
pub(super) const DISRUPTION_BUDGET: &[Column] = &[
    NAME,
    Column::text("Min Available", "Pods that must be available.", |budget, _| {
        count_or_percentage(&budget["spec"]["minAvailable"]).into()
    }),
    Column::text("Max Unavailable", "Pods that may be unavailable.", |budget, _| {
        count_or_percentage(&budget["spec"]["maxUnavailable"]).into()
    }),
    Column::integer("Allowed Disruptions", "Pods that may be disrupted now.", |budget, _| {
        number(budget, "/status/disruptionsAllowed").into()
    }),
    AGE,
];

/// The columns of Services.
pub(super) const SERVICE: &[Column] = &[
    NAME,
    Column::text("Type", "How the service is reached.", |service, _| {
        text(service, "/spec/type").into()
    }),
    Column::text("Cluster-IP", "Its address in the cluster.", |service, _| {
        text_or(service, "/spec/clusterIP", NONE).into()
    }),
    Column::text("External-IP", "Its addresses outside.", |service, _| {
        external_addresses(service).into()
    }),
    Column::text("Port(s)", "Its ports.", |service, _| ports(service).into()),
    AGE,
    Column::text("Selector", "What selects its pods.", |service, _| {
        pairs(&service["spec"]["selector"]).into()
    })
    .wide(),
];

/// The columns of events in the form of the core group.
pub(super) const EVENT: &[Column] = &[
    Column::text("Last Seen", "Time since it was last seen.", |event, now| {
        age::since(last_seen(event), now).into()
    }),
    Column::text("Type", "Normal or Warning.", |event, _| text(event, "/type").into()),
    Column::text("Reason", "A word for the cause.", |event, _| text(event, "/reason").into()),
    Column::text("Object", "What it is about.", |event, _| about(event).into()),
    Column::text("Subobject", "Which part of the object it is about.", |event, _| {
        text(event, "/involvedObject/fieldPath").into()
    })
    .wide(),
    Column::text("Source", "Who tells.", |event, _| source(event).into()).wide(),
    Column::text("Message", "What happened.", |event, _| text(event, "/message").trim().into()),
    Column::text("First Seen", "Time since it was first seen.", |event, now| {
        age::since(first_seen(event), now).into()
    })
    .wide(),
    Column::integer("Count", "How often it was seen.", |event, _| seen(event).into()).wide(),
    NAME.wide(),
];

fn of_containers(object: &Value, field: &str) -> String {
    let containers = entries(object, "/spec/template/spec/containers");
    containers.map(|container| text(container, field)).collect::<Vec<_>>().join(",")
}

/// Returns a label selector, or the plain map of a ReplicationController.
fn selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels");
    let expressions: Vec<String> = entries(selector, "/matchExpressions").map(expression).collect();
    let plain = labels.is_none() && expressions.is_empty() && selector.is_object();
    let labels = if plain { Some(selector) } else { labels };
    let labels = labels.map(pairs).filter(|labels| labels != NONE);
    let parts: Vec<String> = labels.into_iter().chain(expressions).collect();
    if parts.is_empty() { NONE.to_owned() } else { parts.join(",") }
}

fn expression(requirement: &Value) -> String {
    let key = text(requirement, "/key");
    let values: Vec<&str> = entries(requirement, "/values").filter_map(Value::as_str).collect();
    let values = values.join(",");
    match text(requirement, "/operator") {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.to_owned(),
        _ => format!("!{key}"),
    }
}

fn pairs(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten();
    let pairs = pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let pairs: Vec<String> = pairs.collect();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

fn count_or_percentage(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => "N/A".to_owned(),
    }
}

fn job_status(job: &Value) -> &'static str {
    let holds = |condition: &str| condition_status(job, condition) == "True";
    if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if crate::object::is_terminating(job) {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let succeeded = number(job, "/status/succeeded");
    match (job["spec"]["completions"].as_i64(), number(job, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(job: &Value, now: Time) -> String {
    let time = |field: &str| Time::parse_rfc3339(text(&job["status"], field)).ok();
    let Some(start) = time("/startTime") else { return String::new() };
    age::human(time("/completionTime").unwrap_or(now).since(start).as_secs())
}

fn external_addresses(service: &Value) -> String {
    let balanced = entries(service, "/status/loadBalancer/ingress")
        .map(|ingress| text_or(ingress, "/ip", text(ingress, "/hostname")));
    let given = entries(service, "/spec/externalIPs").filter_map(Value::as_str);
    let addresses: Vec<&str> = balanced.chain(given).collect();
    match text(service, "/spec/type") {
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "LoadBalancer" if addresses.is_empty() => "<pending>".to_owned(),
        _ if addresses.is_empty() => NONE.to_owned(),
        _ => addresses.join(","),
    }
}

fn ports(service: &Value) -> String {
    let port = |port: &Value| {
        let (number_, protocol) = (number(port, "/port"), text_or(port, "/protocol", "TCP"));
        match number(port, "/nodePort") {
            0 => format!("{number_}/{protocol}"),
            node_port => format!("{number_}:{node_port}/{protocol}"),
        }
    };
    let ports: Vec<String> = entries(service, "/spec/ports").map(port).collect();
    if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
}

fn about(event: &Value) -> String {
    let object = &event["involvedObject"];
    format!("{}/{}", text(object, "/kind").to_lowercase(), text(object, "/name"))
}

fn source(event: &Value) -> String {
    let component = text_or(event, "/source/component", text(event, "/reportingComponent"));
    let instance = text_or(event, "/source/host", text(event, "/reportingInstance"));
    if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
}

/// Returns the first of several timestamps that is set.
fn first_of<'a>(event: &'a Value, pointers: &[&str]) -> &'a Value {
    let values = pointers.iter().filter_map(|pointer| event.pointer(pointer));
    let mut values = values.filter(|value| value.is_string());
    values.next().unwrap_or(&Value::Null)
}

fn first_seen(event: &Value) -> &Value {
    first_of(event, &["/firstTimestamp", "/eventTime"])
}

fn last_seen(event: &Value) -> &Value {
    first_of(
        event,
        &["/series/lastObservedTime", "/lastTimestamp", "/firstTimestamp", "/eventTime"],
    )
}

fn seen(event: &Value) -> i64 {
    match (number(event, "/series/count"), number(event, "/count")) {
        (0, 0) => 1,
        (0, count) => count,
        (series, _) => series,
    }
}
