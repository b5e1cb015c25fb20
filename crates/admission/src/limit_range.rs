//! LimitRanger: requests and limits that containers lack.

use serde_json::{Map, Value};

use super::object::{ensure, list, text};

/// Quantities by resource.
type Amounts = Map<String, Value>;

/// Fills in the defaults of the LimitRanges. Of several that name a resource, the first counts.
pub(super) fn admit<'a>(pod: &mut Value, ranges: impl Iterator<Item = &'a Value>) {
    let mut ranges = ranges.peekable();
    if ranges.peek().is_none() {
        return;
    }
    requests_from_limits(pod);
    for range in ranges {
        let (requests, limits) = defaults(range);
        for container in containers(pod) {
            fill(container, "limits", &limits);
            fill(container, "requests", &requests);
        }
    }
}

/// Returns the default requests and limits of containers. As the API server does for the LimitRange
/// itself, a maximum is the default limit, and a default limit or else a minimum the default
/// request.
fn defaults(range: &Value) -> (Amounts, Amounts) {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let items = list(range, "/spec/limits").iter();
    for item in items.filter(|item| text(item, "/type") == "Container") {
        let own = |field: &str| item[field].as_object().cloned().unwrap_or_default();
        let defaults = filled(own("default"), &own("max"));
        let asked = filled(filled(own("defaultRequest"), &defaults), &own("min"));
        limits.extend(defaults);
        requests.extend(asked);
    }
    (requests, limits)
}

fn filled(mut amounts: Amounts, others: &Amounts) -> Amounts {
    for (name, amount) in others {
        amounts.entry(name.clone()).or_insert_with(|| amount.clone());
    }
    amounts
}

/// Sets absent requests to the limits, as the API server does before admission.
fn requests_from_limits(pod: &mut Value) {
    for container in containers(pod) {
        let limits = container.pointer("/resources/limits").and_then(Value::as_object).cloned();
        fill(container, "requests", &limits.unwrap_or_default());
    }
}

fn containers(pod: &mut Value) -> impl Iterator<Item = &mut Value> {
    let spec = pod.get_mut("spec").and_then(Value::as_object_mut);
    let lists = spec.into_iter().flat_map(|spec| spec.iter_mut());
    let lists =
        lists.filter(|(field, _)| ["containers", "initContainers"].contains(&field.as_str()));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten()
}

fn fill(container: &mut Value, field: &str, amounts: &Amounts) {
    if amounts.is_empty() || ensure(container, "resources").is_none() {
        return;
    }
    let Some(own) = ensure(&mut container["resources"], field) else { return };
    for (name, amount) in amounts {
        own.entry(name.clone()).or_insert_with(|| amount.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn admitted(limits: Value, resources: Value) -> Value {
        let range = json!({"spec": {"limits": limits}});
        let mut pod = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
        admit(&mut pod, [&range].into_iter());
        pod["spec"]["containers"][0]["resources"].clone()
    }

    #[test]
    fn containers_get_the_defaults() {
        let rows = [
            (
                json!({"default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}),
                json!({}),
                json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}),
            ),
            (
                json!({"default": {"cpu": "2"}}),
                json!({}),
                json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}),
            ),
            (
                json!({"max": {"cpu": "4"}, "min": {"cpu": "1", "memory": "1Gi"}}),
                json!({}),
                json!({"limits": {"cpu": "4"}, "requests": {"cpu": "4", "memory": "1Gi"}}),
            ),
            (
                json!({"default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}),
                json!({"limits": {"cpu": "8"}}),
                json!({"limits": {"cpu": "8"}, "requests": {"cpu": "8"}}),
            ),
            (
                json!({"defaultRequest": {"cpu": "1", "memory": "1Gi"}}),
                json!({"requests": {"cpu": "3"}}),
                json!({"requests": {"cpu": "3", "memory": "1Gi"}}),
            ),
        ];
        for (mut item, given, expected) in rows {
            item["type"] = json!("Container");
            assert_eq!(admitted(json!([item]), given), expected, "{item}");
        }
        let of_pods = json!([{"type": "Pod", "max": {"cpu": "1"}}]);
        assert_eq!(admitted(of_pods, json!({})), json!({}));
    }

    #[test]
    fn first_range_counts_and_init_containers_get_defaults() {
        let range = |cpu: &str| {
            let item = json!({"type": "Container", "defaultRequest": {"cpu": cpu}});
            json!({"spec": {"limits": [item]}})
        };
        let mut pod = json!({"spec": {"initContainers": [{}], "containers": [{}]}});
        admit(&mut pod, [&range("1"), &range("2")].into_iter());
        for list in ["initContainers", "containers"] {
            assert_eq!(pod["spec"][list][0]["resources"], json!({"requests": {"cpu": "1"}}));
        }
    }
}
