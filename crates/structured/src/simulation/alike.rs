//! Pools whose devices differ in one thing only, and claims that ask for several of them.

use fastrand::Rng;
use framework::merge_patch;
use serde_json::{Value, json};

use super::random::{one_in, pick};
use super::world::claim_object;

/// What devices and pools differ in.
#[derive(Debug, Clone, Copy)]
enum Difference {
    Attribute,
    Scope,
    BindsToNode,
    BindingConditions,
    Taint,
    Capacity,
    Sharing,
    ConsumedCounters,
    /// The counters of their pools. The second of two devices of the first pool differs from all
    /// others.
    Pool,
}

const DIFFERENCES: [Difference; 12] = [
    Difference::Attribute,
    Difference::Attribute,
    Difference::Attribute,
    Difference::Scope,
    Difference::Scope,
    Difference::BindsToNode,
    Difference::BindingConditions,
    Difference::Taint,
    Difference::Capacity,
    Difference::Sharing,
    Difference::ConsumedCounters,
    Difference::Pool,
];

const CLASSES: [&str; 4] = ["any", "any", "any", "model0"];

/// Returns slices of one or two pools.
pub(crate) fn slices(rng: &mut Rng) -> Vec<(String, Value)> {
    let difference = *pick(rng, &DIFFERENCES);
    let has_counters =
        matches!(difference, Difference::ConsumedCounters | Difference::Pool) || one_in(rng, 4);
    let model = model(rng, difference, has_counters);
    // Two nodes, each with pools of its own that look alike.
    let has_twin = rng.bool();
    // Values enough to count them in a map.
    let has_many = matches!(difference, Difference::Attribute) && one_in(rng, 6);
    let scope = match (difference, rng.usize(..4)) {
        (Difference::Scope, _) => json!({"perDeviceNodeSelection": true}),
        (_, 0 | 1) if !has_twin => json!({"allNodes": true}),
        (_, 2) if !has_twin => json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["n1"]}]}]}}),
        _ => json!({"nodeName": "n1"}),
    };
    let mut all = Vec::new();
    for pool in 0..1 + rng.usize(..2) {
        let count = 1 + usize::from(has_counters);
        let generation = 1 + usize::from(one_in(rng, 4));
        let spec = |generation: usize, more: &Value| {
            let mut spec = json!({"driver": "a.com", "pool": {"name": (["p", "q"][pool]),
                "generation": generation, "resourceSliceCount": count}});
            merge_patch(&mut spec, more);
            spec
        };
        let most = if has_many { 9 } else { 4 };
        let devices = (0..1 + rng.usize(..most)).map(|number| {
            let mut device = model.clone();
            device["name"] = json!(format!("{pool}-{number}"));
            match difference {
                Difference::Pool if pool == 0 && number % 2 == 1 => set_numa(&mut device, "1"),
                _ => vary(rng, difference, &mut device),
            }
            if has_many {
                let value = *pick(rng, &["0", "1", "2", "3", "4", "5", "5"]);
                set_numa(&mut device, value);
            }
            device
        });
        let mut devices = json!({"devices": devices.collect::<Value>()});
        merge_patch(&mut devices, &scope);
        let first = all.len();
        all.push((format!("s-{pool}"), spec(generation, &devices)));
        if generation > 1 {
            // It is obsolete.
            all.push((format!("old-{pool}"), spec(1, &devices)));
        }
        if has_counters {
            let memory = *pick(rng, &["2", "2", "4", "6"]);
            let set = json!({"name": "set", "counters": {"memory": {"value": memory}}});
            let counters = json!({"allNodes": true, "sharedCounters": [set]});
            all.push((format!("s-{pool}-c"), spec(generation, &counters)));
        }
        if has_twin && scope["nodeName"].is_string() {
            let twins: Vec<_> = all[first..].iter().map(|(name, spec)| twin(name, spec)).collect();
            all.extend(twins);
        }
    }
    all
}

/// Returns the slice of a pool of the other node that looks alike.
fn twin(name: &str, spec: &Value) -> (String, Value) {
    let mut spec = spec.clone();
    let pool = spec["pool"]["name"].as_str().unwrap_or_default();
    spec["pool"]["name"] = json!(format!("{pool}2"));
    if spec["nodeName"].is_string() {
        spec["nodeName"] = json!("n2");
    }
    (format!("{name}-2"), spec)
}

/// Returns what all devices have in common.
fn model(rng: &mut Rng, difference: Difference, has_counters: bool) -> Value {
    let mut device = json!({"attributes": {"model": {"string": "0"}, "numa": {"string": "0"}}});
    if has_counters {
        device["consumesCounters"] =
            json!([{"counterSet": "set", "counters": {"memory": {"value": "2"}}}]);
    }
    if matches!(difference, Difference::Capacity | Difference::Sharing) || one_in(rng, 6) {
        device["capacity"] = json!({"bandwidth": {"value": "4"}});
        device["allowMultipleAllocations"] = json!(rng.bool());
    }
    device
}

fn set_numa(device: &mut Value, value: &str) {
    device["attributes"]["numa"] = json!({"string": value});
}

/// Changes a device, mostly.
fn vary(rng: &mut Rng, difference: Difference, device: &mut Value) {
    if let Difference::Scope = difference {
        match rng.usize(..3) {
            0 => device["allNodes"] = json!(true),
            number => device["nodeName"] = json!(["n1", "n2"][number - 1]),
        }
    }
    if rng.bool() {
        return;
    }
    match difference {
        Difference::Attribute => {
            let value = *pick(rng, &["1", "1", "1", "2"]);
            set_numa(device, value);
        }
        Difference::BindsToNode => device["bindsToNode"] = json!(true),
        Difference::BindingConditions => {
            device["bindingConditions"] = json!(["ready"]);
            device["bindingFailureConditions"] = json!(["broken"]);
        }
        Difference::Taint => {
            device["taints"] = json!([{"key": "t", "value": "v", "effect": "NoSchedule"}]);
        }
        Difference::Capacity => device["capacity"]["bandwidth"]["value"] = json!("2"),
        Difference::Sharing => {
            let shared = device["allowMultipleAllocations"] == json!(true);
            device["allowMultipleAllocations"] = json!(!shared);
        }
        Difference::ConsumedCounters => {
            device["consumesCounters"][0]["counters"]["memory"]["value"] = json!("1");
        }
        Difference::Scope | Difference::Pool => {}
    }
}

/// Returns claims with few requests for numbers of devices, of which constraints and selectors
/// mostly concern all.
pub(crate) fn claims(rng: &mut Rng) -> Vec<Value> {
    let one = |number: usize, rng: &mut Rng| {
        let requests = (0..1 + rng.usize(..3)).map(|request| {
            let count = *pick(rng, &[1, 1, 2]);
            let mut body = json!({"deviceClassName": *pick(rng, &CLASSES), "count": count});
            if one_in(rng, if request == 0 { 6 } else { 3 }) {
                let text = match rng.usize(..10) {
                    0 => *pick(rng, &["a.com/numa!1", "a.com/numa?1", "a.com/numa?0", "*=0-1"]),
                    1 => *pick(rng, &["#bandwidth=4", "#bandwidth=2", "#bandwidth?2"]),
                    2 | 3 => "a.com/numa=0",
                    _ => "a.com/numa=1",
                };
                body["selectors"] = json!([{"cel": {"expression": text}}]);
            }
            if one_in(rng, 3) {
                body["tolerations"] = json!([{"operator": "Exists"}]);
            }
            if one_in(rng, 5) {
                let amount = *pick(rng, &["1", "2", "3"]);
                body["capacity"] = json!({"requests": {"bandwidth": amount}});
            }
            json!({"name": format!("r{request}"), "exactly": body})
        });
        let requests: Value = requests.collect();
        let constraints = (0..rng.usize(..4).saturating_sub(1)).map(|_| {
            let kind = *pick(rng, &["matchAttribute", "distinctAttribute", "distinctAttribute"]);
            let mut constraint = json!({kind: "a.com/numa"});
            if one_in(rng, 4) {
                constraint["requests"] = json!(["r0", "r1"]);
            }
            constraint
        });
        let constraints: Value = constraints.collect();
        claim_object(
            &format!("c{number}"),
            &json!({"requests": requests, "constraints": constraints}),
        )
    };
    (0..1 + usize::from(one_in(rng, 4))).map(|number| one(number, rng)).collect()
}
