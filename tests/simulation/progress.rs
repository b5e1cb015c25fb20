//! Progress: while some pod fits and nothing is wrong on its own path, pods are bound; and every pod that
//! waits says why.

use std::collections::BTreeMap;
use std::time::Duration;

use framework::{Pod, Time};
use sandbox::resources::NAMESPACES;
use serde_json::Value;

use super::oracle::{Oracle, read_pod};
use super::replica::Replica;
use super::rules::{Checked, may_be_placed, rule, waits_for_us};
use super::server::Server;
use super::trouble::Troubles;

/// Maximum time without a bind while some pod fits and its path is healthy.
const MOST_WITHOUT_BIND: Duration = Duration::from_mins(2);
/// Maximum time for which a single pod fits, with a healthy path, and is not bound.
const MOST_FOR_ONE_POD: Duration = Duration::from_mins(10);
/// Maximum time without a condition that says why the pod waits.
const MOST_WITHOUT_REASON: Duration = Duration::from_mins(5);
/// Maximum time for which a pod is refused again and again before its condition says so.
const MOST_WITHOUT_CAUSE: Duration = Duration::from_mins(2);

/// What has been seen of pods that wait.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The time since which some pod could have been bound, and which one.
    open: Option<(Time, String)>,
    /// The times since which single pods could have been bound, by UID.
    ready: BTreeMap<String, Time>,
    /// The times since which pods without gates have waited, by UID.
    waiting: BTreeMap<String, Time>,
    /// Binds that the server refused: since when, and the last text, by UID of the pod.
    refused: BTreeMap<String, (Time, String)>,
}

/// What a check reads.
pub(crate) struct Sight<'a> {
    /// The API server.
    pub(crate) server: &'a Server,
    /// The process that leads.
    pub(crate) leader: Option<&'a Replica>,
    /// The present faults.
    pub(crate) troubles: &'a Troubles,
    /// The time of the world.
    pub(crate) now: Time,
}

impl Progress {
    /// Forgets everything: something is wrong that concerns every pod.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Records that a pod was bound.
    pub(crate) fn bound(&mut self) {
        self.open = None;
    }

    /// Records that the server refused to bind a pod.
    pub(crate) fn refused(&mut self, uid: &str, text: String, now: Time) {
        let (_, last) = self.refused.entry(uid.to_owned()).or_insert((now, String::new()));
        if *last != text {
            self.refused.insert(uid.to_owned(), (now, text));
        }
    }

    /// Records an attempt that found no node, or a bind of unknown outcome.
    pub(crate) fn rejected(&mut self, uid: &str) {
        self.refused.remove(uid);
    }

    /// Checks the rules.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn look(&mut self, sight: &Sight<'_>) -> Checked {
        if sight.troubles.stop_all() || sight.leader.is_none() && sight.troubles.stop_starts() {
            self.clear();
            return Ok(());
        }
        if let Some(leader) = sight.leader {
            self.look_for_ready_pods(sight, leader);
        }
        if let Some((since, pod)) = &self.open {
            let waited = sight.now.since(*since);
            rule(waited <= MOST_WITHOUT_BIND, || {
                format!("nothing was bound for {waited:?}, and {pod} could be")
            })?;
        }
        let starved =
            self.ready.iter().find(|(_, since)| sight.now.since(**since) > MOST_FOR_ONE_POD);
        rule(starved.is_none(), || format!("{starved:?} could be bound all the time, and is not"))?;
        self.every_pod_says_why(sight)
    }

    fn look_for_ready_pods(&mut self, sight: &Sight<'_>, leader: &Replica) {
        let oracle = Oracle::of_engine(leader.scheduler.engine(), &leader.related);
        let pods = sight.server.live_pods().filter(|pod| waits_for_us(pod) && may_be_placed(pod));
        let ready =
            pods.map(|pod| read_pod(pod)).filter(|pod| is_ready(pod, &oracle, sight, leader));
        let ready: BTreeMap<String, String> =
            ready.map(|pod| (pod.uid.to_string(), pod.key.to_string())).collect();
        match ready.values().next() {
            Some(pod) => {
                self.open.get_or_insert_with(|| (sight.now, pod.clone()));
            }
            None => self.open = None,
        }
        self.ready.retain(|uid, _| ready.contains_key(uid));
        for uid in ready.into_keys() {
            self.ready.entry(uid).or_insert(sight.now);
        }
    }

    fn every_pod_says_why(&mut self, sight: &Sight<'_>) -> Checked {
        let pods = || sight.server.live_pods().filter(|pod| waits_for_us(pod));
        let present: BTreeMap<&str, &Value> = pods().map(|pod| (uid(pod), &**pod)).collect();
        self.waiting.retain(|uid, _| present.contains_key(&**uid));
        self.refused.retain(|uid, _| present.contains_key(&**uid));
        for (uid, pod) in present {
            let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
            if !may_be_placed(pod) || !sight.troubles.let_explain(namespace) {
                self.waiting.remove(uid);
                self.refused.remove(uid);
                continue;
            }
            let since = *self.waiting.entry(uid.to_owned()).or_insert(sight.now);
            let waited = sight.now.since(since);
            let (reason, message) = reason_of(pod);
            let says_why = match reason {
                "Unschedulable" | "SchedulerError" => !message.is_empty(),
                _ => false,
            };
            rule(says_why || waited <= MOST_WITHOUT_REASON, || {
                format!(
                    "{} waits for {waited:?}, and says only {reason:?}: {message:?}",
                    pod["metadata"]
                )
            })?;
            let Some((since, text)) = self.refused.get(uid) else { continue };
            let waited = sight.now.since(*since);
            rule(message.contains(text.as_str()) || waited <= MOST_WITHOUT_CAUSE, || {
                let name = &pod["metadata"]["name"];
                format!(
                    "{name} is refused for {waited:?}: {text}, and says {reason:?}: {message:?}"
                )
            })?;
        }
        Ok(())
    }
}

/// Whether a pod that has no node could be bound: it fits, and no fault is on its path.
fn is_ready(pod: &Pod, oracle: &Oracle<'_>, sight: &Sight<'_>, leader: &Replica) -> bool {
    let engine = leader.scheduler.engine();
    let is_known = engine.pending_pod(&pod.key).is_some_and(|known| known.uid == pod.uid);
    let chosen = engine.cache().placed(&pod.uid).map(|placed| {
        let cluster = engine.cache().cluster();
        &**cluster.node_name(placed.node)
    });
    let takers: Vec<&str> = oracle.takers(pod).map(|node| &**node).chain(chosen).collect();
    is_known
        && !is_in_namespace_that_goes(sight.server, pod)
        && !leader.related.storage.has_unbound(pod)
        && !takers.is_empty()
        && sight.troubles.spare(pod, takers.into_iter())
}

fn is_in_namespace_that_goes(server: &Server, pod: &Pod) -> bool {
    server.store.objects(NAMESPACES).any(|namespace| {
        let metadata = &namespace["metadata"];
        metadata["name"] == *pod.key.namespace && !metadata["deletionTimestamp"].is_null()
    })
}

fn uid(pod: &Value) -> &str {
    pod["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Returns reason and message of the condition `PodScheduled`, if it is False.
fn reason_of(pod: &Value) -> (&str, &str) {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let condition = conditions
        .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False");
    let text = |field: &str| condition.and_then(|own| own[field].as_str()).unwrap_or_default();
    (text("reason"), text("message"))
}
