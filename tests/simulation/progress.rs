//! Progress: while some pod fits and nothing is wrong on its own path, pods are bound; and every
//! pod that waits says why.

use std::collections::BTreeMap;
use std::time::Duration;

use framework::{Pod, Time};
use sandbox::resources::NAMESPACES;
use serde_json::Value;

use super::devices::lacks_claim;
use super::oracle::{Oracle, needs_devices, read_pod};
use super::replica::Replica;
use super::rules::{Checked, may_be_placed, rule, waits_for_plugin, waits_for_us};
use super::server::Server;
use super::trouble::{Troubles, needs_extender};

/// Maximum time without a bind while a process decides, some pod fits and its path is healthy.
const MOST_WITHOUT_BIND: Duration = Duration::from_mins(2);
/// Maximum time after which a process decides again when one was killed or stopped: two lists whose
/// answers are lost, and two minutes for a takeover.
const MOST_WITHOUT_LEADER: Duration = Duration::from_mins(5);
/// Maximum time for which a single pod fits, with a healthy path, and is not bound.
const MOST_FOR_ONE_POD: Duration = Duration::from_mins(10);
/// Maximum time without a condition that says why the pod waits.
const MOST_WITHOUT_REASON: Duration = Duration::from_mins(5);
/// Maximum time for which a pod is refused again and again before its condition says so.
const MOST_WITHOUT_CAUSE: Duration = Duration::from_mins(2);
/// Time that is added if an extender binds the pod: the scheduler waits for 90 seconds after a call
/// without an answer, and then reads the pod after up to 30 seconds.
const MOST_FOR_EXTENDER: Duration = Duration::from_mins(2);

/// What has been seen of pods that wait.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The time for which some pod could have been bound, and which one.
    open: Option<(Duration, String)>,
    /// The time of the last look at which a process decided.
    decided: Option<Time>,
    /// The time since which no process decides, or since the last one was killed or stopped.
    undecided: Option<Time>,
    /// The times since which single pods could have been bound, by UID.
    ready: BTreeMap<String, Time>,
    /// The times since which pods without gates have waited, by UID. They move while no process
    /// decides, like those of pods that are refused.
    waiting: BTreeMap<String, Time>,
    /// The time of the last look.
    looked: Option<Time>,
    /// Pods whose binds the server refuses, by UID.
    refused: BTreeMap<String, Refused>,
}

/// A pod whose last attempts all ended because the server refused the bind.
#[derive(Debug)]
struct Refused {
    since: Time,
    /// The text of all these answers.
    text: String,
    /// Whether another attempt has begun.
    is_tried: bool,
}

/// What a check reads.
pub(crate) struct Sight<'a> {
    /// The API server.
    pub(crate) server: &'a Server,
    /// The process that leads.
    pub(crate) leader: Option<&'a Replica>,
    /// Whether it makes decisions: it has caught up with the cluster.
    pub(crate) decides: bool,
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

    /// Records that a process was killed or stopped.
    pub(crate) fn disturbed(&mut self, now: Time) {
        self.undecided = Some(now);
    }

    /// Records an attempt that found a node. The one before has failed for another reason if no
    /// answer has refused its bind.
    pub(crate) fn attempted(&mut self, uid: &str) {
        if self.refused.get(uid).is_some_and(|refused| refused.is_tried) {
            self.refused.remove(uid);
        } else if let Some(refused) = self.refused.get_mut(uid) {
            refused.is_tried = true;
        }
    }

    /// Records that a process has learned that the server refuses to bind a pod.
    pub(crate) fn refused(&mut self, uid: &str, text: String, now: Time) {
        let known = self.refused.remove(uid).filter(|refused| refused.text == text);
        let since = known.map_or(now, |refused| refused.since);
        self.refused.insert(uid.to_owned(), Refused { since, text, is_tried: false });
    }

    /// Records an attempt that found no node, or a bind that something on the way disturbs.
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
        let before = self.looked.replace(sight.now).unwrap_or(sight.now);
        self.some_process_decides(sight)?;
        if !sight.decides {
            let undecided = sight.now.since(before);
            let refused = self.refused.values_mut().map(|refused| &mut refused.since);
            for since in self.waiting.values_mut().chain(refused) {
                *since = (*since + undecided).min(sight.now);
            }
        }
        if let Some(leader) = sight.leader {
            self.look_for_ready_pods(sight, leader);
        }
        if let Some((waited, pod)) = &self.open {
            rule(*waited <= MOST_WITHOUT_BIND, || {
                format!("nothing was bound for {waited:?}, and {pod} could be")
            })?;
        }
        let starved =
            self.ready.iter().find(|(_, since)| sight.now.since(**since) > MOST_FOR_ONE_POD);
        rule(starved.is_none(), || format!("{starved:?} could be bound all the time, and is not"))?;
        self.every_pod_says_why(sight)
    }

    /// The time in which pods could be bound does not pass while no process decides.
    fn some_process_decides(&mut self, sight: &Sight<'_>) -> Checked {
        let before = self.decided.take();
        if sight.decides {
            self.undecided = None;
            self.decided = Some(sight.now);
            if let (Some((waited, _)), Some(before)) = (&mut self.open, before) {
                *waited += sight.now.since(before);
            }
            return Ok(());
        }
        let waited = sight.now.since(*self.undecided.get_or_insert(sight.now));
        rule(waited <= MOST_WITHOUT_LEADER, || format!("no process decides for {waited:?}"))
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
                self.open.get_or_insert_with(|| (Duration::ZERO, pod.clone()));
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
            let may_explain = sight.troubles.let_explain(namespace);
            if !may_be_placed(pod) || !may_explain || lacks_claim(sight.server, pod) {
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
            let Some(Refused { since, text, is_tried: false }) = self.refused.get(uid) else {
                continue;
            };
            let waited = sight.now.since(*since);
            // The call of an extender that got no answer is waited for.
            let longest = match needs_extender(&read_pod(pod)) {
                true => MOST_WITHOUT_CAUSE + MOST_FOR_EXTENDER,
                false => MOST_WITHOUT_CAUSE,
            };
            rule(message.contains(text.as_str()) || waited <= longest, || {
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
    // An extender binds the version that the watch shows. Each status patch changes it, so that the
    // bind is refused until the watch has caught up.
    let is_known = engine.pending_pod(&pod.key).is_some_and(|known| {
        let is_shown = known.resource_version == pod.resource_version;
        known.uid == pod.uid && (is_shown || !needs_extender(pod))
    });
    let chosen = engine.world().placed(&pod.uid).map(|placed| {
        let cluster = engine.cluster();
        &**cluster.node_name(placed.node)
    });
    // After a bind of unknown outcome the pod is read, and the bind is stopped by a status patch.
    let can_stop = || sight.troubles.let_read() && sight.troubles.let_explain(&pod.key.namespace);
    let may_be_stopped = chosen.is_none() || can_stop();
    let takers: Vec<&str> = oracle.takers(pod).map(|node| &**node).chain(chosen).collect();
    is_known
        && !waits_for_plugin(engine, pod)
        && may_be_stopped
        && !is_in_namespace_that_goes(sight.server, pod)
        && !leader.related.storage.has_unbound(pod)
        && !needs_devices(pod)
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
