//! One namespace, driver or class that does not answer for hours leaves the pods of others at full
//! speed.
//!
//! The scheduler and the store of the sandbox run under a virtual clock. A decision takes a quarter
//! of a millisecond, and the API server answers after two, unless the trouble of a scenario
//! concerns the request.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod world;

use std::time::Duration;

use sandbox::api::Request;
use serde_json::{Value, json};

use self::world::{Load, World};

/// Time in which pods come.
const RUN: Duration = Duration::from_secs(8);
/// Time between two healthy pods.
const INTERVAL: Duration = Duration::from_millis(50);
/// Number of pods in trouble at the start; more than calls that may wait before decisions are held.
const MANY: usize = 1500;

/// Returns how many healthy pods are bound, and the median and the longest time that they took,
/// beside this number of pods in trouble.
fn run(hangs: fn(&Request) -> bool, load: Load, in_trouble: usize) -> (usize, Duration, Duration) {
    let mut world = World::new(hangs);
    (0..in_trouble).for_each(|number| world.create_all((load.in_trouble)(number)));
    let end = world.now + RUN;
    for number in 0.. {
        if world.now >= end {
            break;
        }
        world.create_all((load.healthy)(number));
        // Trouble goes on.
        if in_trouble > 0 && number % 10 == 0 {
            world.create_all((load.in_trouble)(MANY + number));
        }
        world.pass(INTERVAL);
    }
    let mut took = world.healthy_took();
    took.sort_unstable();
    (took.len(), took[took.len() / 2], took[took.len() - 1])
}

/// Checks that the healthy pods lose less than a tenth of throughput and of the median latency, and
/// at most a second once, before the trouble is noticed.
fn assert_full_speed(hangs: fn(&Request) -> bool, load: Load) {
    let (bound, median, longest) = run(hangs, load, MANY);
    let (alone, median_alone, longest_alone) = run(hangs, load, 0);
    assert!(bound * 10 >= alone * 9, "{bound} bound, {alone} without the trouble");
    assert!(median * 10 <= median_alone * 11, "{median:?}, {median_alone:?} without the trouble");
    let limit = longest_alone + Duration::from_secs(1);
    assert!(longest <= limit, "{longest:?}, {longest_alone:?} without the trouble");
}

fn plain(namespace: &str, number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("p-{number}"), "namespace": namespace },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{ "name": "main", "image": "app" }],
        },
    })
}

/// Returns a pod with a claim of a class, and the claim.
fn with_claim(namespace: &str, class: &str, number: usize) -> Vec<Value> {
    let claim = format!("c-{number}");
    let mut pod = plain(namespace, number);
    pod["spec"]["volumes"] =
        json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": claim, "namespace": namespace },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    vec![claim, pod]
}

/// Returns a volume of a class, a claim that fits it, and a pod with the claim.
fn with_volume(namespace: &str, class: &str, number: usize) -> Vec<Value> {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": { "name": format!("{class}-{number}") },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "capacity": { "storage": "1Gi" },
            "csi": { "driver": format!("{class}.example.com"), "volumeHandle": number.to_string() },
        },
    });
    [vec![volume], with_claim(namespace, class, number)].concat()
}

#[test]
fn namespace_whose_webhook_hangs() {
    let hangs = |request: &Request| request.path.starts_with("/api/v1/namespaces/bad/");
    let load = Load {
        healthy: |number| vec![plain("good", number)],
        in_trouble: |number| vec![plain("bad", number)],
    };
    assert_full_speed(hangs, load);
}

#[test]
fn provisioner_that_never_answers() {
    let load = Load {
        healthy: |number| with_claim("good", "fast", number),
        in_trouble: |number| with_claim("good-too", "dead", number),
    };
    assert_full_speed(|_| false, load);
}

#[test]
fn webhook_on_the_volumes_of_one_driver_that_hangs() {
    let hangs = |request: &Request| request.path.starts_with("/api/v1/persistentvolumes/bad-");
    let load = Load {
        healthy: |number| with_volume("good", "good", number),
        in_trouble: |number| with_volume("good-too", "bad", number),
    };
    assert_full_speed(hangs, load);
}
