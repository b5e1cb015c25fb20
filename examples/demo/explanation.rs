//! Why a pod is pending, as `kubectl describe pod` shows it.

use dry_run::table::{Colour, Column, Table};
use serde_json::Value;

use crate::cluster::Cluster;

const NAMESPACE: &str = "batch";
const POD: &str = "yearly-report";

/// Returns condition and events of the unschedulable pod, one event of each text, and the number of
/// nodes per reason of the last one.
pub(crate) fn of(cluster: &Cluster) -> String {
    let (pod, events) = cluster.pod_with_events(NAMESPACE, POD);
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut text = format!("$ kubectl describe pod -n {NAMESPACE} {POD}\nConditions:\n");
    for condition in conditions {
        text.push_str(&line(condition, ["type", "status", "reason"]));
    }
    text.push_str("Events:\n");
    let events = one_of_each_text(&events);
    for event in &events {
        text.push_str(&line(event, ["type", "reason", "reportingComponent"]));
        text.push_str(&format!("    {}\n", message(event)));
    }
    let last = events.last().map_or("", |event| message(event));
    format!("{text}\n{}", reasons(last).render(Colour::of_stdout()))
}

fn message(event: &Value) -> &str {
    event["message"].as_str().unwrap_or_default()
}

/// Returns the last event of each text, oldest first.
fn one_of_each_text(events: &[Value]) -> Vec<&Value> {
    let is_last = |(place, event): &(usize, &Value)| {
        events[place + 1..].iter().all(|later| message(later) != message(event))
    };
    events.iter().enumerate().filter(is_last).map(|(_, event)| event).collect()
}

fn line(object: &Value, fields: [&str; 3]) -> String {
    let fields = fields.map(|field| object[field].as_str().unwrap_or_default());
    format!("  {}\n", fields.join("  "))
}

/// The message of kube-scheduler is `0/N nodes are available: COUNT REASON, COUNT REASON. …`.
fn reasons(message: &str) -> Table {
    let mut table = Table::new([Column::numbers("NODES"), Column::words("REASON")]);
    let list = message.split_once(": ").map_or(message, |(_, list)| list);
    let list = list.split_once(". ").map_or(list, |(list, _)| list);
    for part in list.split(", ") {
        if let Some((count, reason)) = part.split_once(' ') {
            table.row([count, reason.trim_end_matches('.')]);
        }
    }
    table
}
