//! Random slices and claims.

use fastrand::Rng;
use framework::merge_patch;
use serde_json::{Value, json};

use super::world::claim_object;

/// Names of counter sets, one of them wrong.
const SETS: [&str; 20] = {
    let mut sets = ["set"; 20];
    sets[0] = "other";
    sets
};

pub(crate) fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.usize(..from.len())]
}

pub(crate) fn one_in(rng: &mut Rng, chance: usize) -> bool {
    rng.usize(..chance) == 0
}

pub(crate) fn device(rng: &mut Rng, name: &str, style: usize, has_counters: bool) -> Value {
    let mut attributes = json!({"uuid": {"string": name}});
    for (attribute, values) in [("model", 2), ("numa", 3)] {
        if !one_in(rng, 12) {
            let value = rng.usize(..values).to_string();
            attributes[attribute] = json!({"string": value});
        }
    }
    if one_in(rng, 30) {
        // A value of a kind that Kubernetes may add.
        attributes["numa"] = json!({"strings": []});
    }
    let mut device = json!({"name": name, "attributes": attributes});
    if has_counters && !one_in(rng, 4) || one_in(rng, 400) {
        let mut counters = json!({"memory": {"value": *pick(rng, &["1", "2", "4"])}});
        if rng.bool() {
            counters["cores"] = json!({"value": *pick(rng, &["1", "2"])});
        }
        device["consumesCounters"] = json!([{"counterSet": "set", "counters": counters}]);
    }
    if style == 2 || one_in(rng, 12) {
        let mut capacity = json!({"value": *pick(rng, &["4", "8"])});
        match rng.usize(..6) {
            0 | 1 => {
                capacity["requestPolicy"] = json!({"default": "1",
                    "validRange": {"min": "1", "max": "6", "step": *pick(rng, &["1", "2"])}});
            }
            2 => {
                capacity["requestPolicy"] = json!({"default": "2", "validValues": ["2", "3"]});
            }
            3 => capacity["requestPolicy"] = policy(rng),
            _ => {}
        }
        device["capacity"] = json!({"bandwidth": capacity});
        if one_in(rng, 4) {
            let value = *pick(rng, &["1", "2", "3500m"]);
            device["capacity"]["memory"] = json!({"value": value});
        }
        device["allowMultipleAllocations"] = json!(rng.bool());
    } else if one_in(rng, 20) {
        device["allowMultipleAllocations"] = json!(true);
    }
    if one_in(rng, 40) {
        // A quantity that cannot be read.
        device["capacity"]["memory"] = json!({"value": "?"});
    }
    if one_in(rng, 6) {
        let effect = *pick(rng, &["NoSchedule", "NoExecute", "None"]);
        device["taints"] = json!([{"key": "t", "value": "v", "effect": effect}]);
    }
    if one_in(rng, 10) {
        device["bindingConditions"] = json!(["ready"]);
        device["bindingFailureConditions"] = json!(["broken"]);
    }
    if one_in(rng, 20) {
        device["bindsToNode"] = json!(true);
    }
    device
}

/// Returns a policy that lacks some fields.
fn policy(rng: &mut Rng) -> Value {
    let mut policy = json!({});
    if rng.bool() {
        policy["default"] = json!(*pick(rng, &["1", "3", "7"]));
    }
    let mut range = json!({});
    for (field, values) in [("min", ["1", "2"]), ("max", ["5", "6"]), ("step", ["2", "3"])] {
        if rng.bool() {
            range[field] = json!(*pick(rng, &values));
        }
    }
    match rng.usize(..3) {
        0 => policy["validRange"] = range,
        1 => policy["validValues"] = json!(["1", "4", "6"]),
        _ => {}
    }
    policy
}

/// Returns the expressions of a node selector. Several slices have the same, with values in another
/// order.
fn expressions(rng: &mut Rng) -> Value {
    let key = "topology.kubernetes.io/zone";
    let mut all = Vec::new();
    if !one_in(rng, 4) {
        all.push(json!({"key": key, "operator": "In", "values": [*pick(rng, &["n1", "n2"])]}));
    }
    if one_in(rng, 2) {
        let values = *pick(rng, &[["n1", "n2"], ["n2", "n1"], ["n3", "n1"]]);
        all.push(json!({"key": key, "operator": "In", "values": values}));
    }
    if all.is_empty() || one_in(rng, 4) {
        all.push(json!({"key": key, "operator": *pick(rng, &["Exists", "NotIn"]), "values": []}));
        if all.last().is_some_and(|last| last["operator"] == "NotIn") {
            all.pop();
            all.push(json!({"key": key, "operator": "NotIn", "values": ["n3", "n2"]}));
        }
    }
    all.into()
}

/// Changes a claim so that it has something that Kubernetes may add, or that the API server would
/// reject.
fn spoil(rng: &mut Rng, devices: &mut Value) {
    let request = &mut devices["requests"][0];
    let is_exact = request["exactly"].is_object();
    let body = match is_exact {
        true => &mut request["exactly"],
        false => &mut request["firstAvailable"][0],
    };
    match rng.usize(..5) {
        0 => body["deviceClassName"] = json!(""),
        1 => body["allocationMode"] = json!("Most"),
        2 => body["selectors"] = json!([{"cel": {"expression": "a.com/numa=0"}}, {}]),
        3 => body["capacity"] = json!({"requests": {"bandwidth": "?"}}),
        _ => devices["constraints"] = json!([{"matchAttribute": "a.com/numa"}, {}]),
    }
}

pub(crate) fn slices(rng: &mut Rng) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for pool in 0..1 + rng.usize(..2) {
        let style = rng.usize(..4);
        let driver = *pick(rng, &["a.com", "b.com"]);
        let name = *pick(rng, &["p", "q", "r"]);
        let parts = 1 + rng.usize(..2);
        let has_counters = style == 1 || one_in(rng, 4);
        let count = parts + usize::from(has_counters) + usize::from(one_in(rng, 25));
        let generation = if one_in(rng, 6) { 2 } else { 1 };
        let spec = |more: Value| {
            let mut spec = json!({"driver": driver, "pool": {
                "name": name, "generation": generation, "resourceSliceCount": count}});
            merge_patch(&mut spec, &more);
            spec
        };
        for part in 0..parts {
            let number = 1 + rng.usize(..3);
            let mut devices: Vec<_> = (0..number)
                .map(|number| device(rng, &format!("{pool}-{part}-{number}"), style, has_counters))
                .collect();
            if one_in(rng, 60) {
                devices.push(devices[0].clone());
            }
            let mut more = match rng.usize(..6) {
                0 => json!({"allNodes": true}),
                1 => {
                    let mut term = json!({"matchExpressions": expressions(rng)});
                    if one_in(rng, 3) {
                        let name = *pick(rng, &["n1", "n1", "n2"]);
                        term["matchFields"] = json!([
                            {"key": "metadata.name", "operator": "In", "values": [name]}]);
                    }
                    json!({"nodeSelector": {"nodeSelectorTerms": [term]}})
                }
                2 => {
                    for device in &mut devices {
                        match rng.usize(..4) {
                            0 => device["allNodes"] = json!(true),
                            1 => device["nodeName"] = json!("n2"),
                            _ => device["nodeName"] = json!("n1"),
                        }
                    }
                    json!({"perDeviceNodeSelection": true})
                }
                3 if one_in(rng, 3) => json!({"nodeName": "n2"}),
                _ => json!({"nodeName": "n1"}),
            };
            more["devices"] = devices.into();
            all.push((format!("s-{pool}-{part}"), spec(more)));
        }
        if has_counters {
            let counters = json!({"memory": {"value": *pick(rng, &["4", "6", "9"])},
                "cores": {"value": *pick(rng, &["2", "4"])}});
            let set = *pick(rng, &SETS);
            let more = json!({"nodeName": "n1",
                "sharedCounters": [{"name": set, "counters": counters}]});
            all.push((format!("s-{pool}-c"), spec(more)));
        }
    }
    all
}

fn body(rng: &mut Rng) -> Value {
    let mut body = json!({"deviceClassName": *pick(rng, &["any", "any", "any", "model0"])});
    if one_in(rng, 150) {
        body["deviceClassName"] = json!("gone");
    }
    match rng.usize(..10) {
        0 => body["allocationMode"] = json!("All"),
        1..4 => body["count"] = json!(1 + rng.usize(..3)),
        _ => {}
    }
    if one_in(rng, 3) {
        let text = *pick(
            rng,
            &[
                "a.com/numa=1",
                "a.com/numa=1",
                "a.com/model=1",
                "a.com/model=1",
                "b.com/numa=0",
                "b.com/model=0",
                "a.com/numa!0",
                "a.com/numa?1",
                "*=1",
                "*=0-0-0",
                "#bandwidth=4",
                "#bandwidth!8",
                "#bandwidth?4",
                "#memory=2",
            ],
        );
        body["selectors"] = json!([{"cel": {"expression": text}}]);
    }
    if rng.bool() {
        let mut toleration = json!({"operator": "Exists"});
        if rng.bool() {
            toleration["effect"] = json!("NoSchedule");
        }
        body["tolerations"] = json!([toleration]);
    }
    if one_in(rng, 6) {
        let amount = *pick(rng, &["1", "2", "3", "7", "9"]);
        body["capacity"] = json!({"requests": {"bandwidth": amount}});
        if one_in(rng, 4) {
            body["capacity"]["requests"]["memory"] = json!("2");
        }
    }
    body
}

pub(crate) fn claims(rng: &mut Rng) -> Vec<Value> {
    let one = |number: usize, rng: &mut Rng| {
        let requests: Vec<_> = (0..1 + rng.usize(..2))
            .map(|request| {
                if one_in(rng, 3) {
                    let subs = (0..1 + rng.usize(..3)).map(|sub| {
                        let mut body = body(rng);
                        body["name"] = json!(format!("s{sub}"));
                        body
                    });
                    let subs: Value = subs.collect();
                    return json!({"name": format!("r{request}"), "firstAvailable": subs});
                }
                let mut body = body(rng);
                if one_in(rng, 10) {
                    body["adminAccess"] = json!(true);
                }
                if one_in(rng, 40) {
                    body["count"] = json!(20);
                }
                json!({"name": format!("r{request}"), "exactly": body})
            })
            .collect();
        let constraints: Vec<_> = (0..rng.usize(..5).saturating_sub(2))
            .map(|_| {
                let kind = *pick(rng, &["matchAttribute", "matchAttribute", "distinctAttribute"]);
                let name = *pick(rng, &["a.com/numa", "a.com/model", "a.com/numa", "b.com/numa"]);
                let mut constraint = json!({kind: name});
                if rng.bool() {
                    let names = ["r0", "r1", "r0/s0", "r1/s1"];
                    constraint["requests"] = json!([*pick(rng, &names), *pick(rng, &names)]);
                }
                constraint
            })
            .collect();
        let mut devices = json!({"requests": requests, "constraints": constraints});
        if one_in(rng, 4) {
            let parameters = json!({"of": number});
            let mut config = json!({"opaque": {"driver": "a.com", "parameters": parameters}});
            if rng.bool() {
                config["requests"] = json!([*pick(rng, &["r0", "r1", "r0/s0", "r1/s1"])]);
            }
            devices["config"] = json!([config]);
        }
        if one_in(rng, 30) {
            spoil(rng, &mut devices);
        }
        claim_object(&format!("c{number}"), &devices)
    };
    (0..1 + rng.usize(..2)).map(|number| one(number, rng)).collect()
}
