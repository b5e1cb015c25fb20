//! What must hold at every step, and once everything is quiet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use client::RequestId;
use engine::Engine;
use framework::{Pod, Time};
use serde_json::Value;

use super::replica::Replica;
use super::server::{Bound, OURS, Server, requests};
use super::world::Summary;

/// A rule was broken.
#[derive(Debug)]
pub struct Violation {
    /// The seed that replays it.
    pub seed: u64,
    /// Which rule, and how.
    pub text: String,
    /// What happened last.
    pub trace: Vec<String>,
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

type Checked = Result<(), String>;

/// Bindings that were sent and may have an effect still.
#[derive(Debug, Default)]
pub struct OpenBindings {
    by_request: BTreeMap<RequestId, (String, String)>,
}

impl OpenBindings {
    /// A binding sets out. It is the only one that can have an effect on its pod, or all of those
    /// that can have the same.
    ///
    /// # Errors
    /// One of them would put the pod elsewhere.
    pub fn sent(&mut self, server: &Server, binding: &Bound, request: RequestId) -> Checked {
        let Bound { uid, node } = binding;
        let is_open = |pod: &&Arc<Value>| {
            pod["metadata"]["uid"] == uid.as_str() && pod["spec"]["nodeName"].is_null()
        };
        let other = self.by_request.values().find(|(pod, at)| pod == uid && at != node);
        let other = other.filter(|_| server.live_pods().any(|pod| is_open(&pod)));
        let broken =
            other.map(|(pod, at)| format!("{pod} is bound to {node}, and to {at} perhaps"));
        self.by_request.insert(request, (uid.clone(), node.clone()));
        broken.map_or(Ok(()), Err)
    }

    /// The server has seen the request, or never will, for certain.
    pub fn is_over(&mut self, request: RequestId) {
        self.by_request.remove(&request);
    }
}

/// Gates hold: no binding is asked for while a pod has some.
pub fn before_binding(server: &Server, asked: &Bound) -> Checked {
    let pod = server.live_pods().find(|pod| pod["metadata"]["uid"] == asked.uid.as_str());
    let Some(pod) = pod else { return Ok(()) };
    let gates = pod["spec"]["schedulingGates"].as_array().map_or(0, Vec::len);
    rule(gates == 0, || format!("pod {} is bound in spite of its gates", name(pod)))?;
    let scheduler = pod["spec"]["schedulerName"].as_str();
    rule(scheduler == Some(OURS), || format!("pod {} is none of ours", name(pod)))
}

/// What we bind to a node fits there, and may be there, as far as nobody but us decides on it.
pub fn after_binding(server: &Server, bound: &Bound) -> Checked {
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
    let pod = ours.iter().find(|pod| pod["metadata"]["uid"] == bound.uid.as_str());
    rule(pod.is_none_or(|pod| selects(pod, node)), || {
        format!("a pod is bound to {} against its node selector", bound.node)
    })
}

/// A decision respects what the engine knew when it was taken.
pub fn after_decision(engine: &Engine, pod: &Pod, node: &str) -> Checked {
    let cluster = engine.cache().cluster();
    let at = cluster.node_named(node).ok_or_else(|| format!("{} goes nowhere", pod.key))?;
    let view = cluster.node(at);
    let (has, asked) = (view.allocatable(), view.requested());
    let room = asked.milli_cpu <= has.milli_cpu
        && asked.memory <= has.memory
        && view.pod_count() <= view.allowed_pods();
    rule(room, || format!("{} is put on {node}, where there is no room", pod.key))?;
    let open = !view.is_unschedulable()
        && view.taints().iter().all(|taint| &*taint.key != "example.com/busy");
    rule(open, || format!("{} is put on {node}, which takes no pods", pod.key))
}

/// Every pod that waits for us is in exactly one place.
pub fn at_every_step(replica: &Replica) -> Checked {
    let engine = replica.scheduler.engine();
    let mut queued = 0;
    for pod in engine.pending() {
        let is_queued = engine.queue().get(&pod.key).is_some();
        let is_assumed = engine.cache().is_assumed(&pod.uid);
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

/// Once everything is quiet, the scheduler and the server agree, and what can be placed is.
pub fn at_rest(server: &Server, replica: &mut Replica, summary: &mut Summary) -> Checked {
    let unfinished = replica.scheduler.executor().unfinished();
    let engine = replica.scheduler.engine();
    rule(unfinished == 0, || format!("{unfinished} effects are unfinished"))?;
    rule(engine.binding_count() == 0, || "binding cycles are under way".to_owned())?;
    nodes_agree(server, engine)?;
    placed_pods_agree(server, engine)?;
    pending_pods_agree(server, engine)?;
    for pod in server.live_pods().filter(|pod| waits_for_us(pod)) {
        summary.pending += 1;
        nothing_takes(server, pod)?;
    }
    Ok(())
}

/// Nothing is written any more.
pub fn is_quiet(last_write: Time, now: Time, quiet: Duration) -> Checked {
    let silence = now.since(last_write);
    rule(silence >= quiet, || format!("the last write was only {silence:?} ago"))
}

fn nodes_agree(server: &Server, engine: &Engine) -> Checked {
    let cluster = engine.cache().cluster();
    let stored: BTreeSet<&str> = server.nodes().map(|node| name(node)).collect();
    let known: BTreeSet<&str> =
        cluster.nodes().iter().map(|node| &**cluster.node_name(node)).collect();
    rule(stored == known, || format!("nodes are {stored:?}, known are {known:?}"))
}

fn placed_pods_agree(server: &Server, engine: &Engine) -> Checked {
    let cluster = engine.cache().cluster();
    let stored: BTreeMap<&str, &str> = server
        .live_pods()
        .filter_map(|pod| {
            Some((pod["metadata"]["uid"].as_str()?, pod["spec"]["nodeName"].as_str()?))
        })
        .collect();
    let placed: BTreeMap<String, &str> = cluster
        .pods()
        .map(|placed| (placed.pod.uid.to_string(), &**cluster.node_name(placed.node)))
        .collect();
    let placed: BTreeMap<&str, &str> =
        placed.iter().map(|(uid, node)| (uid.as_str(), *node)).collect();
    rule(stored == placed, || format!("bound pods are {stored:?}, known are {placed:?}"))?;
    let assumed = cluster.pods().find(|placed| engine.cache().is_assumed(&placed.pod.uid));
    rule(assumed.is_none(), || format!("{:?} is assumed still", assumed.map(|it| &it.pod.key)))
}

fn pending_pods_agree(server: &Server, engine: &Engine) -> Checked {
    let waiting = server.live_pods().filter(|pod| waits_for_us(pod));
    let stored: BTreeSet<String> = waiting.map(|pod| name(pod).to_owned()).collect();
    let known: BTreeSet<String> = engine.pending().map(|pod| pod.key.name.to_string()).collect();
    rule(stored == known, || format!("pending pods are {stored:?}, known are {known:?}"))
}

fn waits_for_us(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_null() && pod["spec"]["schedulerName"] == OURS
}

/// A pod that is pending in the end is gated, or no node can take it, and its condition says so.
fn nothing_takes(server: &Server, pod: &Value) -> Checked {
    if !pod["spec"]["schedulingGates"].as_array().is_none_or(Vec::is_empty)
        || !pod["metadata"]["deletionTimestamp"].is_null()
    {
        return Ok(());
    }
    let taker = server.nodes().find(|node| takes(server, node, pod));
    rule(taker.is_none(), || {
        format!("{} is pending, and node {:?} would take it", name(pod), taker.map(|it| name(it)))
    })?;
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let explained = conditions.into_iter().any(|condition| {
        condition["type"] == "PodScheduled" && condition["reason"] == "Unschedulable"
    });
    rule(explained, || format!("{} is pending without an explanation", name(pod)))
}

/// Whether a node takes a pod, in the plainest way to say it.
fn takes(server: &Server, node: &Value, pod: &Value) -> bool {
    let mut pods: Vec<&Value> = server
        .live_pods()
        .filter(|other| other["spec"]["nodeName"] == node["metadata"]["name"])
        .map(AsRef::as_ref)
        .collect();
    let port = |pod: &Value| pod["spec"]["containers"][0]["ports"][0]["hostPort"].as_i64();
    let free = port(pod).is_none() || pods.iter().all(|other| port(other) != port(pod));
    let tainted = node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
    pods.push(pod);
    free && !tainted
        && node["spec"]["unschedulable"] != true
        && selects(pod, node)
        && fits(node, &pods)
}

fn selects(pod: &Value, node: &Value) -> bool {
    let selector = pod["spec"]["nodeSelector"].as_object();
    selector.is_none_or(|selector| {
        selector.iter().all(|(key, value)| node["metadata"]["labels"][key] == *value)
    })
}

fn fits(node: &Value, pods: &[&Value]) -> bool {
    let amounts = pods.iter().map(|pod| requests(pod));
    let (cpu, memory) = amounts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let whole = |name: &str| node["status"]["allocatable"][name].as_str().unwrap_or_default();
    let amount = |name: &str| whole(name).trim_end_matches("Gi").parse::<i64>().unwrap_or(0);
    cpu <= amount("cpu") * 1000
        && memory <= amount("memory") << 30
        && i64::try_from(pods.len()).is_ok_and(|count| count <= amount("pods"))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn rule(holds: bool, broken: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(broken()) }
}
