//! Invariants of every step and of the world at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use engine::Engine;
use engine::queue::Place;
use framework::{Node, NominatedPods, Pod, QueuedPod, Time, Uid};
use sandbox::resources::NAMESPACES;
use serde_json::Value;

use super::churn::ALONE;
use super::devices;
use super::groups::{self, is_member};
use super::oracle::{Oracle, Related, read_node, read_pod};
use super::preemptions::Pauses;
use super::replica::Replica;
use super::server::{Bound, Server, is_ours, requests};
use super::volumes;

/// A violated rule.
#[derive(Debug)]
pub(crate) struct Violation {
    /// The seed that replays the violation.
    pub(crate) seed: u64,
    /// The rule and the violation.
    pub(crate) text: String,
    /// The last events.
    pub(crate) trace: Vec<String>,
}

impl std::error::Error for Violation {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        write!(f, "seed {}: {}", self.seed, self.text)
    }
}

/// The result of a check: `Ok`, or the violated rule.
pub(crate) type Checked = Result<(), String>;

/// Gates: no binding is requested for a gated pod.
pub(crate) fn before_binding(server: &Server, asked: &Bound) -> Checked {
    let pod = server.live_pods().find(|pod| pod["metadata"]["uid"] == asked.uid.as_str());
    let Some(pod) = pod else { return Ok(()) };
    let gates = pod["spec"]["schedulingGates"].as_array().map_or(0, Vec::len);
    rule(gates == 0, || format!("pod {} is bound in spite of its gates", name(pod)))?;
    rule(is_ours(pod), || format!("pod {} is none of ours", name(pod)))
}

/// Feasibility: a pod that we bind to a node fits there, as far as no other client interferes.
pub(crate) fn after_binding(server: &Server, bound: &Bound) -> Checked {
    let Some(node) = server.nodes().find(|node| name(node) == bound.node) else { return Ok(()) };
    let ours = server.live_pods().filter(|pod| {
        pod["spec"]["nodeName"] == bound.node.as_str()
            && pod["metadata"]["uid"].as_str().is_some_and(|uid| {
                server.bound_by_us.get(uid).is_some_and(|node| *node == bound.node)
            })
    });
    let ours: Vec<&Value> = ours.map(AsRef::as_ref).collect();
    rule(fits(node, &ours), || {
        let pods: Vec<&str> = ours.iter().map(|pod| name(pod)).collect();
        format!("node {} is overcommitted by pods we bound: {pods:?}", bound.node)
    })?;
    are_alone(&ours)
}

/// Anti-affinity: no two pods that we bound to one node exclude each other.
fn are_alone(ours: &[&Value]) -> Checked {
    let mut seen = BTreeSet::new();
    let of_interest = ours.iter().filter(|pod| !pod["metadata"]["labels"][ALONE].is_null());
    let twice = of_interest.into_iter().find(|pod| {
        let metadata = &pod["metadata"];
        !seen.insert((metadata["namespace"].as_str(), metadata["labels"][ALONE].as_str()))
    });
    rule(twice.is_none(), || format!("{:?} is not alone on its node", twice.map(|pod| name(pod))))
}

/// Validity: the server understands our requests and permits them, unless the namespace is
/// terminating.
pub(crate) fn is_well_formed(server: &Server, path: &str, status: u16) -> Checked {
    let is_understood = !matches!(status, 400 | 401 | 403 | 405 | 406 | 415);
    rule(is_understood || status == 403 && is_in_a_namespace_that_goes(server, path), || {
        format!("the server answers {status} to {path}")
    })
}

fn is_in_a_namespace_that_goes(server: &Server, path: &str) -> bool {
    let mut going = server
        .store
        .objects(NAMESPACES)
        .filter(|namespace| !namespace["metadata"]["deletionTimestamp"].is_null());
    going.any(|namespace| path.contains(&format!("/namespaces/{}/", name(namespace))))
}

/// Start: no decision is made before all initial objects are known.
pub(crate) fn before_decisions(server: &Server, replica: &mut Replica) -> Checked {
    rule(replica.is_synced(), || "a pod is tried before the watches are in sync".to_owned())?;
    let found = std::mem::take(&mut replica.found);
    let there: BTreeSet<Uid> = server.placed_pods().collect();
    let world = replica.scheduler.engine().world();
    let unknown = found.iter().find(|uid| there.contains(*uid) && world.placed(uid).is_none());
    rule(unknown.is_none(), || format!("a pod is tried, and {unknown:?} was not told of"))
}

/// Queue: every unbound pod of ours is in exactly one place, in its last version. The pods in
/// flight are those that wait in Permit, and a pod for which others wait is tried.
pub(crate) fn at_every_step(engine: &Engine) -> Checked {
    let in_flight = engine.queue().counts().in_flight;
    // The flight of a group ends with its decision.
    let alone = engine.waiting_pods().values().filter(|own| own.pod.pod_group().is_none());
    rule(in_flight == alone.count(), || {
        format!(
            "{in_flight} pods are in flight, and {:?} wait in Permit",
            engine.waiting_pods().keys()
        )
    })?;
    let kept = engine.queue().in_flight_events().len();
    rule(in_flight > 0 || kept == 0, || {
        format!("{kept} events are kept, and no pod is in flight")
    })?;
    trials_are_under_way(engine)?;
    nominated_pods_wait(engine)?;
    let mut queued = 0;
    for pod in engine.pending() {
        let queued_pod = engine.queue().get(&pod.key).map(|(_, queued)| &queued.pod);
        let is_queued = queued_pod.is_some();
        let is_current = queued_pod.is_none_or(|queued| Arc::ptr_eq(queued, pod));
        rule(is_current, || format!("{} is queued in another version than the last", pod.key))?;
        let is_assumed = engine.world().is_assumed(&pod.uid);
        let places = usize::from(is_queued) + usize::from(is_assumed);
        rule(places <= 1, || format!("{} is queued and assumed", pod.key))?;
        let is_on_its_way = engine.queue().is_in_flight(&pod.uid) || engine.is_binding(&pod.uid);
        rule(places == 1 || is_on_its_way || pod.terminating, || {
            format!("{} is nowhere", pod.key)
        })?;
        queued += usize::from(is_queued);
    }
    let counts = engine.queue().counts();
    let all = counts.active + counts.backoff + counts.unschedulable + counts.gated;
    rule(all == queued, || format!("{all} pods are queued, {queued} of them are pending"))
}

/// Checks that a nominated pod waits for its attempt, in its last version: it counts for its node
/// only once.
fn nominated_pods_wait(engine: &Engine) -> Checked {
    let nominator = engine.nominator();
    for pod in nominator.nodes().flat_map(|node| nominator.nominated_to(node)) {
        let known = engine.pending_pod(&pod.key).filter(|known| known.uid == pod.uid);
        let is_last = known.is_some_and(|known| known.resource_version == pod.resource_version);
        rule(is_last && engine.world().placed(&pod.uid).is_none(), || {
            format!("{} is nominated as {}, known is {known:?}", pod.key, pod.resource_version)
        })?;
    }
    Ok(())
}

/// Checks that each pod whose attempt decides for others is about to be tried, or waits in Permit.
fn trials_are_under_way(engine: &Engine) -> Checked {
    let queue = engine.queue();
    let parked = queue.iter().filter(|(place, _)| *place == Place::Unschedulable);
    for (_, queued) in parked {
        let Some(tried) = queue.trial_for(&queued.pod.key) else { continue };
        let is_ready = |(place, other): (Place, &QueuedPod)| {
            matches!(place, Place::Active | Place::Backoff) && other.pod.uid == *tried
        };
        let is_tried = queue.is_in_flight(tried) || queue.iter().any(is_ready);
        rule(is_tried, || format!("{} waits for {tried:?}, which is not tried", queued.pod.key))?;
    }
    Ok(())
}

/// Permit: no pod waits for longer than a plugin has said.
pub(crate) fn no_permit_is_overdue(engine: &Engine, now: Time) -> Checked {
    let mut overdue = engine.waiting_pods().values();
    let overdue = overdue.find(|waiting| waiting.pending.values().any(|end| *end <= now));
    rule(overdue.is_none(), || format!("{overdue:?} waits in Permit at {now}"))
}

/// Room: a pod that is assumed on a node is in its binding cycle, or bound there, or gone.
pub(crate) fn no_room_is_kept_in_vain(server: &Server, engine: &Engine) -> Checked {
    let world = engine.world();
    if world.assumed_count() <= engine.binding_count() {
        return Ok(());
    }
    let cluster = world.cluster();
    let kept = |pod: &&Arc<Pod>| world.is_assumed(&pod.uid) && !engine.is_binding(&pod.uid);
    for pod in cluster.pods().map(|placed| &placed.pod).filter(kept) {
        let uid = pod.uid.to_string();
        let stored = server.live_pods().find(|stored| stored["metadata"]["uid"] == uid.as_str());
        rule(stored.is_none_or(|stored| !stored["spec"]["nodeName"].is_null()), || {
            format!("{} has room on {:?}, and its binding cycle is over", pod.key, pod.node_name)
        })?;
    }
    Ok(())
}

/// Checks that scheduler and server agree at rest, and that every pod that fits is placed. Returns
/// the number of pods that do not fit.
pub(crate) fn at_rest(server: &Server, replica: &mut Replica, now: Time) -> Result<usize, String> {
    nothing_is_left(replica)?;
    let engine = replica.scheduler.engine();
    nodes_agree(server, engine)?;
    placed_pods_agree(server, engine)?;
    pending_pods_agree(server, engine)?;
    let related = Related::of_server(server);
    let known = &replica.related;
    volumes::at_rest(server)?;
    devices::at_rest(server)?;
    rule(related == *known, || format!("stored is {related:?}, known is {known:?}"))?;
    let mut oracle = Oracle::of_server(server, &related);
    groups::queueing::waiting_groups_do_not_fit(&mut oracle, engine)?;
    let waiting: Vec<&Value> =
        server.live_pods().filter(|pod| waits_for_us(pod)).map(AsRef::as_ref).collect();
    // Only the leader knows for which pods a plugin answered Pending, and which preemptions are
    // paused.
    let leads = replica.scheduler.may_act(now);
    for pod in waiting.iter().filter(|_| leads) {
        nothing_takes(&oracle, pod, engine)?;
        nobody_makes_room(&oracle, pod, replica, now)?;
    }
    nominations_agree(&waiting, engine, leads)?;
    Ok(waiting.len())
}

/// Whether the watches have shown the newest state.
pub(crate) fn knows_all(server: &Server, replica: &Replica) -> bool {
    let engine = replica.scheduler.engine();
    nodes_agree(server, engine).is_ok()
        && placed_pods_agree(server, engine).is_ok()
        && pending_pods_agree(server, engine).is_ok()
        && Related::of_server(server) == replica.related
}

/// Checks that no request, binding or eviction is unfinished at rest.
fn nothing_is_left(replica: &mut Replica) -> Checked {
    let effects = replica.scheduler.api_dispatcher().unfinished();
    let events = replica.scheduler.event_recorder().unfinished();
    let dropped = replica.scheduler.events_dropped();
    let related = &replica.related;
    let engine = replica.scheduler.engine();
    let cluster = engine.cluster();
    let is_held_back = |pod: &&Arc<Pod>| engine.is_preempting(&pod.uid);
    let stays = |uid: &&Uid| {
        let placed = engine.world().placed(uid);
        placed.is_none_or(|placed| !placed.pod.terminating) && !engine.is_evicting(uid)
    };
    let evicting = related.budgets();
    let evicting = evicting.flat_map(|(namespace, name, _)| cluster.evicting(namespace, name));
    for (count, what) in [
        (effects, "effects are unfinished"),
        (events, "events are unwritten"),
        (usize::try_from(dropped).unwrap_or(usize::MAX), "events were dropped"),
        (engine.binding_count(), "binding cycles are under way"),
        (engine.waiting_pods().len(), "pods wait in Permit"),
        (engine.world().assumed_count(), "pods are assumed"),
        (engine.pending().filter(is_held_back).count(), "preemptors are held back"),
        (evicting.filter(stays).count(), "evictions that are over count for budgets"),
        (engine.queue().counts().in_flight, "pods are in flight"),
        (engine.queue().in_flight_events().len(), "events are kept for pods in flight"),
    ] {
        rule(count == 0, || format!("{count} {what}"))?;
    }
    Ok(())
}

/// Checks that the nodes of the scheduler equal the stored ones.
fn nodes_agree(server: &Server, engine: &Engine) -> Checked {
    let stored: BTreeMap<&str, Node> =
        server.nodes().map(|node| (name(node), read_node(node))).collect();
    let cluster = engine.cluster();
    let known: BTreeSet<&str> =
        cluster.nodes().iter().map(|node| &**cluster.node_name(node)).collect();
    rule(stored.keys().copied().eq(known.iter().copied()), || {
        format!("nodes are {:?}, known are {known:?}", stored.keys())
    })?;
    for (name, stored) in &stored {
        let known = engine.world().node(name);
        let same = known.as_ref().is_some_and(|known| {
            (&known.labels, &known.taints, known.unschedulable)
                == (&stored.labels, &stored.taints, stored.unschedulable)
                && (&known.allocatable, known.allowed_pods, &known.declared_features)
                    == (&stored.allocatable, stored.allowed_pods, &stored.declared_features)
        });
        rule(same, || format!("{name} is {stored:?}, known is {known:?}"))?;
    }
    Ok(())
}

/// Returns node and version by UID.
type Placed = BTreeMap<String, (String, String)>;

fn placed_pods_agree(server: &Server, engine: &Engine) -> Checked {
    let cluster = engine.cluster();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let stored: Placed = server
        .live_pods()
        .filter_map(|pod| {
            let (node, metadata) = (text(&pod["spec"]["nodeName"])?, &pod["metadata"]);
            Some((text(&metadata["uid"])?, (node, text(&metadata["resourceVersion"])?)))
        })
        .collect();
    let placed: Placed = cluster
        .pods()
        .map(|placed| {
            let Pod { uid, resource_version, .. } = &*placed.pod;
            let node = cluster.node_name(placed.node).to_string();
            (uid.to_string(), (node, resource_version.to_string()))
        })
        .collect();
    rule(stored == placed, || format!("bound pods are {stored:?}, known are {placed:?}"))
}

fn pending_pods_agree(server: &Server, engine: &Engine) -> Checked {
    let waiting = server.live_pods().filter(|pod| waits_for_us(pod));
    let stored: BTreeSet<String> = waiting
        .map(|pod| {
            let metadata = &pod["metadata"];
            let text = |key: &str| metadata[key].as_str().unwrap_or_default();
            format!("{}/{} {}", text("namespace"), text("name"), text("resourceVersion"))
        })
        .collect();
    let known: BTreeSet<String> =
        engine.pending().map(|pod| format!("{} {}", pod.key, pod.resource_version)).collect();
    rule(stored == known, || format!("pending pods are {stored:?}, known are {known:?}"))
}

/// Whether a pod has no node and names one of our profiles.
pub(crate) fn waits_for_us(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_null() && is_ours(pod)
}

/// Checks that a pod that stays pending is gated, fits on no node, or waits for the event of a
/// plugin that answered Pending.
fn nothing_takes(oracle: &Oracle<'_>, pod: &Value, engine: &Engine) -> Checked {
    if !may_be_placed(pod) || is_member(pod) {
        return Ok(());
    }
    let pod = read_pod(pod);
    if waits_for_plugin(engine, &pod) {
        return Ok(());
    }
    let takers: Vec<_> = oracle.takers(&pod).cloned().collect();
    rule(takers.is_empty(), || {
        let place = engine.queue().get(&pod.key).map(|(place, _)| place);
        format!("{}, {place:?}, is pending, and {takers:?} would take it", pod.key)
    })
}

/// Whether a plugin answered Pending for the pod.
pub(crate) fn waits_for_plugin(engine: &Engine, pod: &Pod) -> bool {
    let queued = engine.queue().get(&pod.key);
    queued.is_some_and(|(_, queued)| !queued.history.pending_plugins.is_empty())
}

/// Checks that preemption would not help it either, unless the pod may not preempt now, waits for
/// victims that do not terminate, or would evict others in vain, or pods that were placed after its
/// last attempt.
fn nobody_makes_room(oracle: &Oracle<'_>, pod: &Value, replica: &Replica, now: Time) -> Checked {
    let engine = replica.scheduler.engine();
    let is_open = may_be_placed(pod) && !is_member(pod);
    let pod = read_pod(pod);
    if groups::protect_victims(engine) {
        return Ok(());
    }
    let waits = oracle.waits_for_victims(&pod) || waits_for_plugin(engine, &pod);
    if !is_open || !pod.spec.may_preempt || waits {
        return Ok(());
    }
    let pauses = Pauses::of(&pod, engine, now);
    let mut givers = oracle.givers(&pod);
    givers.retain(|node| {
        let is_known = !replica.got_a_pod_since(node, &pod.uid);
        is_known && !pauses.include(node) && !oracle.has_namesake_of_claim(node, &pod)
    });
    rule(givers.is_empty(), || {
        let place = engine.queue().get(&pod.key).map(|(place, _)| place);
        let (key, nominated) = (&pod.key, pod.nominated_node_name());
        format!("{key}, {place:?}, nominated to {nominated:?}, could make room on {givers:?}")
    })
}

/// Checks that the nominations of the scheduler equal those of the server. Gated pods are exempt,
/// and in a standby the pods whose nomination it will write when it leads.
fn nominations_agree(waiting: &[&Value], engine: &Engine, leads: bool) -> Checked {
    for pod in waiting.iter().filter(|pod| may_be_placed(pod)) {
        let pod = read_pod(pod);
        if !leads && !engine.nominator().has_seen_all(&pod.uid) {
            continue;
        }
        // A plugin may gate a pod, too, for example while a claim of it does not exist.
        if engine.queue().get(&pod.key).is_some_and(|(place, _)| place == Place::Gated) {
            continue;
        }
        let known = engine.nominator().node_of(&pod.uid);
        rule(known == pod.nominated_node_name(), || {
            let shown = pod.nominated_node_name();
            format!("{} is shown to be nominated to {shown:?}, and it is to {known:?}", pod.key)
        })?;
    }
    Ok(())
}

/// Checks that the conditions of pending pods say that they do not fit.
pub(crate) fn pending_pods_are_explained(server: &Server) -> Checked {
    groups::texts::waiting_groups_say_why(server)?;
    let pending = server.live_pods().filter(|pod| waits_for_us(pod) && may_be_placed(pod));
    let mut pending = pending.filter(|pod| !devices::lacks_claim(server, pod) && !is_member(pod));
    let unexplained = pending.find(|pod| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        !conditions.any(|condition| {
            condition["type"] == "PodScheduled" && condition["reason"] == "Unschedulable"
        })
    });
    unexplained.map_or(Ok(()), |pod| Err(format!("{} is pending, unexplained", name(pod))))
}

/// Whether a pod is not gated and not being deleted.
pub(crate) fn may_be_placed(pod: &Value) -> bool {
    pod["spec"]["schedulingGates"].as_array().is_none_or(Vec::is_empty)
        && pod["metadata"]["deletionTimestamp"].is_null()
}

fn fits(node: &Value, pods: &[&Value]) -> bool {
    let amounts = pods.iter().map(|pod| requests(pod));
    let (cpu, memory) = amounts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let whole = |name: &str| node["status"]["allocatable"][name].as_str().unwrap_or_default();
    let amount = |name: &str| whole(name).trim_end_matches("Gi").parse::<i64>().unwrap_or(0);
    let has_port = |pod: &&&Value| !pod["spec"]["containers"][0]["ports"][0]["hostPort"].is_null();
    pods.iter().filter(has_port).count() <= 1
        && cpu <= amount("cpu") * 1000
        && memory <= amount("memory") << 30
        && i64::try_from(pods.len()).is_ok_and(|count| count <= amount("pods"))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Checks a rule.
pub(crate) fn rule(holds: bool, broken: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(broken()) }
}
