//! LimitRanger: whether a pod keeps to the minima, maxima and ratios of the LimitRanges.

use std::collections::BTreeMap;

use framework::Quantity;
use serde_json::Value;

use super::object::{list, text};
use super::{Cause, Refusal};

/// Quantities by resource.
type Amounts = BTreeMap<String, Quantity>;

/// Returns a refusal for each LimitRange that the pod does not keep to.
pub(super) fn check<'a>(pod: &Value, ranges: impl Iterator<Item = &'a Value>) -> Vec<Refusal> {
    let refusal = |range| {
        let faults = faults(pod, range);
        let message = match &faults[..] {
            [] => return None,
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let value = text(range, "/metadata/name").to_owned();
        Some(Refusal { cause: Cause::LimitRange, value, message })
    };
    ranges.filter_map(refusal).collect()
}

fn faults(pod: &Value, range: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for limit in list(range, "/spec/limits") {
        match text(limit, "/type") {
            "Container" => {
                let containers = list(pod, "/spec/containers").iter();
                for container in containers.chain(list(pod, "/spec/initContainers")) {
                    Usage::of_container(container).check(limit, "Container", &mut faults);
                }
            }
            "Pod" => Usage::of_pod(pod).check(limit, "Pod", &mut faults),
            _ => {}
        }
    }
    faults
}

/// Requests and limits of a container or a pod.
#[derive(Debug, Clone, Default)]
struct Usage {
    requests: Amounts,
    limits: Amounts,
}

impl Usage {
    fn of_container(container: &Value) -> Self {
        let own = |field| amounts(&container["resources"][field]);
        Self { requests: own("requests"), limits: own("limits") }
    }

    /// Returns the sum of the containers, or what an init container needs beside the sidecars
    /// before it if that is more. Resources that the pod states for itself replace the sum.
    fn of_pod(pod: &Value) -> Self {
        let mut sum = Self::default();
        for container in list(pod, "/spec/containers") {
            sum.add(&Self::of_container(container));
        }
        let (mut sidecars, mut largest) = (Self::default(), Self::default());
        for container in list(pod, "/spec/initContainers") {
            let own = Self::of_container(container);
            let mut needed = sidecars.clone();
            needed.add(&own);
            if container["restartPolicy"] == "Always" {
                sum.add(&own);
                sidecars.add(&own);
            }
            largest.raise(&needed);
        }
        sum.raise(&largest);
        let own = |field| amounts(&pod["spec"]["resources"][field]);
        sum.requests.extend(own("requests"));
        sum.limits.extend(own("limits"));
        sum
    }

    fn add(&mut self, other: &Self) {
        add(&mut self.requests, &other.requests);
        add(&mut self.limits, &other.limits);
    }

    fn raise(&mut self, other: &Self) {
        raise(&mut self.requests, &other.requests);
        raise(&mut self.limits, &other.limits);
    }

    fn check(&self, limit: &Value, subject: &str, faults: &mut Vec<String>) {
        for (name, least) in amounts(&limit["min"]) {
            faults.extend(
                self.below(&name, &least)
                    .map(|but| format!("minimum {name} usage per {subject} is {least}{but}")),
            );
        }
        for (name, most) in amounts(&limit["max"]) {
            faults.extend(
                self.above(&name, &most)
                    .map(|but| format!("maximum {name} usage per {subject} is {most}{but}")),
            );
        }
        for (name, most) in amounts(&limit["maxLimitRequestRatio"]) {
            faults.extend(self.beyond_ratio(&name, &most).map(|but| {
                format!("{name} max limit to request ratio per {subject} is {most}, but {but}")
            }));
        }
    }

    fn below(&self, name: &str, least: &Quantity) -> Option<String> {
        let is_below = |own: &&Quantity| own.nanos() < least.nanos();
        let Some(request) = self.requests.get(name) else {
            return Some(".  No request is specified".to_owned());
        };
        let request = Some(request).filter(is_below).map(|own| format!(", but request is {own}"));
        let limit = self.limits.get(name).filter(is_below);
        request.or(limit.map(|own| format!(", but limit is {own}")))
    }

    fn above(&self, name: &str, most: &Quantity) -> Option<String> {
        let is_above = |own: &&Quantity| own.nanos() > most.nanos();
        let Some(limit) = self.limits.get(name) else {
            return Some(".  No limit is specified".to_owned());
        };
        let limit = Some(limit).filter(is_above).map(|own| format!(", but limit is {own}"));
        let request = self.requests.get(name).filter(is_above);
        limit.or(request.map(|own| format!(", but request is {own}")))
    }

    fn beyond_ratio(&self, name: &str, most: &Quantity) -> Option<String> {
        let of = |amounts: &Amounts| amounts.get(name).map_or(0, Quantity::nanos);
        let (request, limit) = (of(&self.requests), of(&self.limits));
        if request == 0 {
            return Some("no request is specified or request is 0".to_owned());
        }
        if limit == 0 {
            return Some("no limit is specified or limit is 0".to_owned());
        }
        let ratio = limit as f64 / request as f64;
        let is_beyond = ratio * 1e9 > most.nanos() as f64;
        is_beyond.then(|| format!("provided ratio is {ratio:.6}"))
    }
}

/// Reads quantities; invalid ones are left out.
fn amounts(object: &Value) -> Amounts {
    let fields = object.as_object().into_iter().flatten();
    let read = |(name, value): (&String, &Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((name.clone(), text.parse().ok()?))
    };
    fields.filter_map(read).collect()
}

fn add(sums: &mut Amounts, others: &Amounts) {
    for (name, other) in others {
        let sum = match sums.get(name) {
            Some(own) => sum(own, other),
            None => other.clone(),
        };
        sums.insert(name.clone(), sum);
    }
}

fn raise(largest: &mut Amounts, others: &Amounts) {
    for (name, other) in others {
        let is_larger = largest.get(name).is_none_or(|own| own.nanos() < other.nanos());
        if is_larger {
            largest.insert(name.clone(), other.clone());
        }
    }
}

/// Returns the sum with the suffixes of the first. Fractions are rounded up to thousandths.
fn sum(a: &Quantity, b: &Quantity) -> Quantity {
    const UNIT: i128 = 1_000_000_000;
    const THOUSANDTH: i128 = UNIT / 1000;
    let nanos = a.nanos().saturating_add(b.nanos());
    let whole = i64::try_from(nanos / UNIT).unwrap_or(i64::MAX);
    let thousandths = || format!("{}m", (nanos + THOUSANDTH - 1) / THOUSANDTH).parse().ok();
    let fraction = if nanos % UNIT == 0 { None } else { thousandths() };
    fraction.unwrap_or_else(|| Quantity::new(whole, a.format()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(limit: &Value, spec: &Value) -> Vec<String> {
        let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [limit]}});
        let refusals = check(&json!({"spec": spec}), [&range].into_iter());
        refusals.into_iter().map(|own| own.message).collect()
    }

    fn cpu(request: &str, limit: &str) -> Value {
        json!({"resources": {"requests": {"cpu": request}, "limits": {"cpu": limit}}})
    }

    #[test]
    fn containers_keep_to_their_limits() {
        let containers = |own: Value| json!({"containers": [own]});
        let rows = [
            (json!({"max": {"cpu": "1"}}), cpu("1", "1"), ""),
            (
                json!({"max": {"cpu": "1"}}),
                cpu("2", "2"),
                "maximum cpu usage per Container is 1, but limit is 2",
            ),
            (
                json!({"max": {"cpu": "1"}}),
                json!({}),
                "maximum cpu usage per Container is 1.  No limit is specified",
            ),
            (
                json!({"min": {"cpu": "500m"}}),
                cpu("100m", "1"),
                "minimum cpu usage per Container is 500m, but request is 100m",
            ),
            (
                json!({"min": {"cpu": "500m"}}),
                json!({}),
                "minimum cpu usage per Container is 500m.  No request is specified",
            ),
            (json!({"maxLimitRequestRatio": {"cpu": "2"}}), cpu("250m", "500m"), ""),
            (
                json!({"maxLimitRequestRatio": {"cpu": "2"}}),
                cpu("100m", "500m"),
                "cpu max limit to request ratio per Container is 2, but provided ratio is 5.000000",
            ),
            (
                json!({"max": {"cpu": "1"}, "min": {"memory": "1"}}),
                cpu("2", "2"),
                "[minimum memory usage per Container is 1.  No request is specified, \
              maximum cpu usage per Container is 1, but limit is 2]",
            ),
        ];
        for (mut limit, container, expected) in rows {
            limit["type"] = json!("Container");
            let expected: Vec<_> =
                Some(expected).filter(|text| !text.is_empty()).into_iter().collect();
            assert_eq!(messages(&limit, &containers(container)), expected, "{limit}");
        }
    }

    #[test]
    fn sums_of_a_pod_count_sidecars_and_the_largest_init_container() {
        let limit = json!({"type": "Pod", "max": {"cpu": "2"}});
        let mut sidecar = cpu("500m", "500m");
        sidecar["restartPolicy"] = json!("Always");
        let pod = |init: Value, main: Value| json!({"initContainers": [sidecar.clone(), init], "containers": [main]});
        assert_eq!(messages(&limit, &pod(cpu("1500m", "1500m"), cpu("1500m", "1500m"))), [""; 0]);
        let above = |total: &str| [format!("maximum cpu usage per Pod is 2, but limit is {total}")];
        assert_eq!(messages(&limit, &pod(cpu("1", "1"), cpu("1600m", "1600m"))), above("2100m"));
        assert_eq!(messages(&limit, &pod(cpu("2", "2"), cpu("1", "1"))), above("2500m"));
        let mut own = pod(cpu("1", "1"), cpu("1", "1"));
        own["resources"] = json!({"limits": {"cpu": "3"}});
        assert_eq!(messages(&limit, &own), above("3"));
    }
}
