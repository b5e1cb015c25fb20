//! A driver of devices that have binding conditions. It reports that the devices of a claim are
//! ready, soon or late, or that they are broken, or it never reports.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use framework::Time;
use sandbox::resources::RESOURCECLAIMS;
use sandbox::store::Store;
use serde_json::{Value, json};

use super::coverage::Fault;

/// The condition that a device is ready.
pub(crate) const READY: &str = "example.com/ready";
/// The condition that a device is broken.
pub(crate) const BROKEN: &str = "example.com/broken";
/// Maximum time in which the driver reports devices if it is in time, in milliseconds.
const SOON: u64 = 3_000;
/// Maximum time in which it reports them if it is late, in milliseconds: longer than the scheduler
/// waits.
const LATE: u64 = 40_000;

/// The driver.
#[derive(Debug)]
pub(crate) struct Driver {
    rng: Rng,
    /// Whether it reports in time that all devices are ready.
    is_reliable: bool,
    /// The reports on allocations with binding conditions.
    reports: BTreeMap<Allocation, Report>,
}

/// UID of a claim, and its allocation.
type Allocation = (String, String);

/// What the driver reports on an allocation.
#[derive(Debug, Clone, Copy)]
enum Report {
    /// At the first time it reports that the devices are not ready yet, and at the second one that
    /// they are.
    Starts { at: Time, ready: Time },
    /// At this time it reports whether the devices are broken.
    Due { at: Time, is_broken: bool },
    /// It reports nothing, or has reported.
    Silence,
}

impl Driver {
    /// Creates a driver with faults.
    pub(crate) const fn new(rng: Rng) -> Self {
        Self { rng, is_reliable: false, reports: BTreeMap::new() }
    }

    /// Ends the faults. The driver also corrects what it has reported.
    pub(crate) fn recover(&mut self) {
        self.is_reliable = true;
        self.reports.clear();
    }

    /// Returns the time of the next report.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let due = self.reports.values().filter_map(|report| match report {
            Report::Due { at, .. } | Report::Starts { at, .. } => Some(*at),
            Report::Silence => None,
        });
        due.min()
    }

    /// Returns the reports that are due: the path of the status of a claim, and the patch. Adds the
    /// faults that new reports begin to `fired`.
    pub(crate) fn reports(
        &mut self,
        store: &Store,
        fired: &mut Vec<Fault>,
        now: Time,
    ) -> Vec<(String, Value)> {
        let mut open = BTreeMap::new();
        let mut patches = Vec::new();
        for claim in store.objects(RESOURCECLAIMS).filter(|claim| is_pending(claim)) {
            let uid = claim["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let allocation = (uid, claim["status"]["allocation"].to_string());
            let known = self.reports.remove(&allocation);
            let report = match known.unwrap_or_else(|| self.choose(fired, now)) {
                Report::Due { at, is_broken } if at <= now => {
                    patches.push((path_of(claim), patch(claim, is_broken, true, now)));
                    Report::Silence
                }
                Report::Starts { at, ready } if at <= now => {
                    patches.push((path_of(claim), patch(claim, false, false, now)));
                    Report::Due { at: ready, is_broken: false }
                }
                later => later,
            };
            open.insert(allocation, report);
        }
        self.reports = open;
        patches
    }

    fn choose(&mut self, fired: &mut Vec<Fault>, now: Time) -> Report {
        let report = |within: u64, is_broken: bool, rng: &mut Rng| {
            let at = now + Duration::from_millis(1 + rng.u64(..within));
            Report::Due { at, is_broken }
        };
        match self.rng.u32(..8) {
            _ if self.is_reliable => report(SOON, false, &mut self.rng),
            0 => {
                fired.push(Fault::DevicesNeverReady);
                Report::Silence
            }
            1 | 2 => {
                fired.push(Fault::DevicesBroken);
                report(SOON, true, &mut self.rng)
            }
            3 | 4 => {
                fired.push(Fault::DevicesLate);
                report(LATE, false, &mut self.rng)
            }
            5 => {
                let at = now + Duration::from_millis(1 + self.rng.u64(..SOON));
                Report::Starts { at, ready: at + Duration::from_millis(1 + self.rng.u64(..SOON)) }
            }
            _ => report(SOON, false, &mut self.rng),
        }
    }
}

/// Whether a claim has devices with a condition that is not true.
pub(crate) fn is_pending(claim: &Value) -> bool {
    conditional(claim).any(|result| {
        let kinds = result["bindingConditions"].as_array().into_iter().flatten();
        kinds.into_iter().any(|kind| !is_true(claim, result, kind))
    })
}

/// Whether a claim has a device with a failure condition that is true.
pub(crate) fn is_broken(claim: &Value) -> bool {
    conditional(claim).any(|result| {
        let kinds = result["bindingFailureConditions"].as_array().into_iter().flatten();
        kinds.into_iter().any(|kind| is_true(claim, result, kind))
    })
}

/// Returns the devices of a claim that have binding conditions.
fn conditional(claim: &Value) -> impl Iterator<Item = &Value> {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array();
    let has_some =
        |result: &&Value| result["bindingConditions"].as_array().is_some_and(|all| !all.is_empty());
    results.into_iter().flatten().filter(has_some)
}

fn is_true(claim: &Value, result: &Value, kind: &Value) -> bool {
    let is_it = |status: &&Value| {
        ["driver", "pool", "device"].iter().all(|part| status[part] == result[part])
    };
    let status = claim["status"]["devices"].as_array().into_iter().flatten().find(is_it);
    let conditions = status.and_then(|own| own["conditions"].as_array()).into_iter().flatten();
    conditions.into_iter().any(|own| own["type"] == *kind && own["status"] == "True")
}

fn path_of(claim: &Value) -> String {
    let text = |field: &str| claim["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}/status")
}

/// Returns the patch that reports the devices of a claim: whether they are broken, or that they are
/// not ready yet. It names the version, so that it concerns no other allocation.
fn patch(claim: &Value, is_broken: bool, is_true: bool, now: Time) -> Value {
    let (kind, reason) = if is_broken { (BROKEN, "Broken") } else { (READY, "Ready") };
    let condition = json!({"type": kind, "status": if is_true { "True" } else { "False" }, "reason": reason,
        "message": "the driver says so", "lastTransitionTime": now.to_string()});
    let devices = conditional(claim).map(|result| {
        json!({"driver": result["driver"], "pool": result["pool"], "device": result["device"],
            "conditions": [condition.clone()]})
    });
    json!({"metadata": {"resourceVersion": claim["metadata"]["resourceVersion"]},
        "status": {"devices": devices.collect::<Vec<_>>()}})
}
