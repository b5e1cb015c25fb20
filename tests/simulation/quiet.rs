//! Invariants of quiet moments: a process that decides has no request under way, and no pod to try.
//! What it counts and waits for must then be true.

use std::collections::BTreeSet;

use engine::Engine;
use engine::queue::Place;
use framework::Uid;
use serde_json::Value;

use super::devices;
use super::oracle::{Oracle, Related, needs_devices, read_pod};
use super::replica::Replica;
use super::rules::{self, Checked, rule};
use super::server::Server;
use super::writes::Writes;

/// Checks that evictions under way are those that the server has carried out.
///
/// # Errors
/// The scheduler reckons with an eviction that has failed, or was never requested.
pub(crate) fn evictions_are_true(server: &Server, replica: &Replica) -> Checked {
    let engine = replica.scheduler.engine();
    let cluster = engine.cluster();
    let ends = |uid: &Uid| {
        let uid = uid.to_string();
        let mut pods = server.live_pods();
        pods.find(|pod| pod["metadata"]["uid"] == uid.as_str())
            .is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    };
    for placed in cluster.pods() {
        let (key, uid) = (&placed.pod.key, &placed.pod.uid);
        rule(!engine.is_evicting(uid) || ends(uid), || {
            format!("the eviction of {key} is over, and {key} counts as ending")
        })?;
    }
    let budgets = replica.related.budgets();
    let counted = budgets.flat_map(|(namespace, name, _)| cluster.evicting(namespace, name));
    for uid in counted {
        rule(ends(uid), || format!("the eviction of {uid} is over, and counts for a budget"))?;
    }
    Ok(())
}

/// Checks that pods whose newest version is known are nominated as the server shows, unless it has
/// refused to write that.
///
/// # Errors
/// The nominations differ.
pub(crate) fn nominations_are_true(server: &Server, engine: &Engine, writes: &Writes) -> Checked {
    for pod in server.live_pods().filter(|pod| rules::waits_for_us(pod)) {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let is_open = rules::may_be_placed(pod) && writes.have_status(uid);
        let uid = Uid::from(uid);
        let version = pod["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let is_known = engine.pending().any(|known| {
            let place = engine.queue().get(&known.key).map(|(place, _)| place);
            let is_queued = matches!(place, Some(Place::Unschedulable));
            known.uid == uid && known.resource_version.to_string() == version && is_queued
        });
        if !is_known || !is_open {
            continue;
        }
        let shown = pod["status"]["nominatedNodeName"].as_str().filter(|node| !node.is_empty());
        let known = engine.nominator().node_of(&uid).map(|node| &**node);
        rule(known == shown, || {
            let name = &pod["metadata"]["name"];
            format!("{name} is shown to be nominated to {shown:?}, and it is to {known:?}")
        })?;
    }
    Ok(())
}

/// Checks that no unschedulable pod would have its devices, if the process knows the newest state
/// of all objects.
///
/// # Errors
/// A pod was not requeued.
pub(crate) fn devices_are_used(server: &Server, replica: &mut Replica) -> Checked {
    let parked: BTreeSet<String> = {
        let queue = replica.scheduler.engine().queue();
        let parked = queue.iter().filter(|(place, queued)| {
            *place == Place::Unschedulable
                && needs_devices(&queued.pod)
                && queued.history.pending_plugins.is_empty()
                && queue.trial_for(&queued.pod.key).is_none()
        });
        parked.map(|(_, queued)| queued.pod.uid.to_string()).collect()
    };
    if parked.is_empty() || !rules::knows_all(server, replica) {
        return Ok(());
    }
    let related = Related::of_server(server);
    let oracle = Oracle::of_server(server, &related);
    let is_parked = |pod: &&Value| {
        pod["metadata"]["uid"].as_str().is_some_and(|uid| parked.contains(uid))
            && rules::may_be_placed(pod)
            && !devices::lacks_claim(server, pod)
    };
    for pod in server.live_pods().map(AsRef::as_ref).filter(is_parked) {
        let pod = read_pod(pod);
        let takers: Vec<_> = oracle.takers(&pod).cloned().collect();
        rule(takers.is_empty(), || {
            format!("{} waits for devices, and {takers:?} have them", pod.key)
        })?;
    }
    Ok(())
}
