//! `pods/eviction`: deletes a pod if its PodDisruptionBudget allows it.

use std::sync::Arc;

use framework::Time;
use serde_json::{Value, json};

use super::{Call, created};
use crate::api::Response;
use crate::controllers::budget_selector;
use crate::metadata::{generation, name, namespace};
use crate::object::{
    condition_status, is_terminating, number, put, set_condition, text, timestamp,
};
use crate::resources::{PODDISRUPTIONBUDGETS, PODS};
use crate::status::{Cause, Details, Status};
use crate::store::{DeleteOptions, Store};

/// Maximum number of evictions that a budget records until the pods are gone.
const MAX_DISRUPTED_PODS: usize = 2000;
/// Seconds to wait until the controller has observed a changed budget.
const RETRY_UNOBSERVED: u32 = 10;

pub(super) fn create(store: &mut Store, call: &Call<'_>) -> Result<Response, Status> {
    let eviction = call.body()?;
    call.check_name(name(&eviction), "Eviction")?;
    let pod = store.get(PODS, call.namespace, call.name);
    let pod = pod.ok_or_else(|| Status::not_found(PODS, call.name))?.clone();
    let options = delete_options(&eviction, call);
    let dry_run = DeleteOptions { dry_run: true, ..options.clone() };
    store.delete(PODS, call.namespace, call.name, &dry_run, call.now)?;

    let budget = budget_to_ask(store, &pod)?;
    if let Some(budget) = &budget {
        check(budget)?;
    }
    if !options.dry_run {
        if let Some(budget) = budget {
            charge(store, &budget, call.name, call.now)?;
        }
        store.modify(PODS, call.namespace, call.name, call.now, |pod| {
            mark(pod, call.now);
            Ok(())
        })?;
        store.delete(PODS, call.namespace, call.name, &options, call.now)?;
    }
    Ok(created())
}

fn delete_options(eviction: &Value, call: &Call<'_>) -> DeleteOptions {
    let options = &eviction["deleteOptions"];
    let precondition = |field: &str| options["preconditions"][field].as_str().map(str::to_owned);
    DeleteOptions {
        grace_period_seconds: number(options, "/gracePeriodSeconds"),
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
        dry_run: call.is_dry_run() || options["dryRun"][0] == "All",
        ..DeleteOptions::default()
    }
}

/// Returns the budget that must allow the eviction. There is none for a pod that has not started or
/// has ended, and none for an unhealthy pod of an application with enough healthy pods.
fn budget_to_ask(store: &Store, pod: &Value) -> Result<Option<Arc<Value>>, Status> {
    let idle = matches!(text(pod, "/status/phase"), "Pending" | "Succeeded" | "Failed");
    if idle || is_terminating(pod) {
        return Ok(None);
    }
    let mut budgets = store.objects(PODDISRUPTIONBUDGETS).filter(|budget| {
        namespace(budget) == namespace(pod)
            && budget_selector(budget).matches_by(|key| pod["metadata"]["labels"][key].as_str())
    });
    let budget = budgets.next();
    if budgets.next().is_some() {
        return Err(Status::internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does \
             not support.",
        ));
    }
    let ready = condition_status(pod, "Ready") == "True";
    Ok(budget.filter(|budget| ready || !spares_unhealthy(budget)).cloned())
}

/// Returns whether pods that are not ready may be evicted without the budget.
fn spares_unhealthy(budget: &Value) -> bool {
    let desired = number(budget, "/status/desiredHealthy").unwrap_or(0);
    let current = number(budget, "/status/currentHealthy").unwrap_or(0);
    text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow"
        || (desired > 0 && current >= desired)
}

fn check(budget: &Value) -> Result<(), Status> {
    let name = name(budget);
    let count = |field| number(budget, field).unwrap_or(0);
    if count("/status/observedGeneration") < generation(budget).unwrap_or(0) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(too_many_requests(why, RETRY_UNOBSERVED));
    }
    let allowed = count("/status/disruptionsAllowed");
    if allowed < 0 {
        return Err(forbidden(budget, "pdb disruptions allowed is negative"));
    }
    let disrupted = budget["status"]["disruptedPods"].as_object();
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(forbidden(budget, why));
    }
    if allowed == 0 {
        let (desired, current) = (count("/status/desiredHealthy"), count("/status/currentHealthy"));
        let why = format!(
            "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        );
        return Err(too_many_requests(why, 0));
    }
    Ok(())
}

fn forbidden(budget: &Value, why: &str) -> Status {
    Status::forbidden(PODDISRUPTIONBUDGETS, name(budget), why)
}

fn too_many_requests(why: String, retry_after: u32) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let cause = Cause { reason: "DisruptionBudget", message: why, field: String::new() };
    Status::too_many_requests(message, retry_after).with_details(Details {
        causes: vec![cause],
        retry_after_seconds: (retry_after > 0).then_some(retry_after),
        ..Details::default()
    })
}

/// Charges the eviction of `pod` to the budget, until the controller has counted again.
fn charge(store: &mut Store, budget: &Value, pod: &str, now: Time) -> Result<(), Status> {
    let allowed = number(budget, "/status/disruptionsAllowed").unwrap_or(0) - 1;
    let charge = |budget: &mut Value| {
        put(budget, &["status", "disruptionsAllowed"], json!(allowed));
        put(budget, &["status", "disruptedPods", pod], json!(timestamp(now)));
        if allowed == 0 {
            let generation = generation(budget);
            let condition = json!({"type": "DisruptionAllowed", "status": "False",
                "reason": "InsufficientPods", "message": "", "observedGeneration": generation});
            set_condition(budget, condition, now);
        }
        Ok(())
    };
    store.modify(PODDISRUPTIONBUDGETS, namespace(budget), name(budget), now, charge)?;
    Ok(())
}

fn mark(pod: &mut Value, now: Time) {
    let condition = json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"});
    set_condition(pod, condition, now);
}
