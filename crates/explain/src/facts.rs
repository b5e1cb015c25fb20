//! The facts that a running engine knows of a pod without computing.

use std::time::Duration;

use engine::Engine;
use engine::queue::Place;
use engine::record::{Finding, Record};
use framework::{NodeIx, Pod, PodKey, Status, Time, Uid};

use crate::answer::{Attempt, Decision, DecisionsAnswer, PodFacts, QueueTimes, Rejection, Waiting};
use crate::event_words;

/// Returns what the engine knows of the pod of this name; `None` if it knows no such pod.
pub fn facts(engine: &Engine, pod: &PodKey, now: Time) -> Option<PodFacts> {
    if let Some(pending) = engine.pending_pod(pod) {
        return Some(of_pod(engine, pending, now));
    }
    let placed = engine.cluster().pods().find(|placed| placed.pod.key == *pod)?;
    Some(of_pod(engine, &placed.pod, now))
}

/// Returns what the engine knows of the pod with this UID. It finds a placed pod without a search.
pub fn facts_by_uid(engine: &Engine, pod: &PodKey, uid: &Uid, now: Time) -> Option<PodFacts> {
    let pending = engine.pending_pod(pod).filter(|pending| pending.uid == *uid);
    let placed = || engine.world().placed(uid).map(|placed| &placed.pod);
    Some(of_pod(engine, pending.or_else(placed)?, now))
}

/// Maximum number of decisions in an answer.
const DECISIONS: usize = 100;

/// Returns the decisions after the first `after` ones; of many the latest.
pub fn decisions(engine: &Engine, after: u64, now: Time) -> DecisionsAnswer {
    let records = engine.records();
    let number = records.number();
    let new = usize::try_from(number.saturating_sub(after)).unwrap_or(usize::MAX);
    let latest = records.recent().rev().take(new.min(DECISIONS));
    let mut decisions: Vec<Decision> = latest
        .map(|record| Decision {
            namespace: record.pod.namespace.to_string(),
            name: record.pod.name.to_string(),
            attempt: attempt(record, now),
        })
        .collect();
    decisions.reverse();
    DecisionsAnswer { number, decisions }
}

fn of_pod(engine: &Engine, pod: &Pod, now: Time) -> PodFacts {
    let placed = engine.world().placed(&pod.uid).map(|placed| placed.node);
    let name = |node: NodeIx| engine.cluster().node_name(node).to_string();
    let queued = engine.queue().get(&pod.key).filter(|(_, queued)| queued.pod.uid == pod.uid);
    let records = engine.records().of_pod(&pod.uid);
    let state = match (placed, queued) {
        (Some(_), _) if engine.waiting_pods().contains_key(&pod.uid) => "waitingOnPermit",
        (Some(_), _) if engine.world().is_assumed(&pod.uid) => "assumed",
        (Some(_), _) => "running",
        (None, Some((place, _))) => place_name(place),
        (None, None) if engine.queue().is_in_flight(&pod.uid) => "inFlight",
        (None, None) => "unknown",
    };
    let mut facts = PodFacts {
        namespace: pod.key.namespace.to_string(),
        name: pod.key.name.to_string(),
        uid: pod.uid.to_string(),
        scheduler_name: pod.spec.scheduler_name.to_string(),
        priority: pod.priority(),
        state: state.to_owned(),
        node: placed.map(name),
        nominated: engine.nominator().node_of(&pod.uid).map(ToString::to_string),
        is_preempting: engine.is_preempting(&pod.uid),
        room: room(engine, pod),
        attempts: records.last().map_or(0, |record| record.attempt),
        state_number: engine.changes().state(),
        ..PodFacts::default()
    };
    if let Some((_, queued)) = queued {
        facts.attempts = queued.history.attempts;
        facts.pending_seconds =
            Some(seconds(now, queued.history.initial_attempt.unwrap_or(queued.history.timestamp)));
        facts.times = times(queued.history.times.until(now));
        facts.backoff_seconds = queued
            .history
            .backoff_expiration
            .filter(|_| matches!(facts.state.as_str(), "backoff" | "errorBackoff"))
            .map(|end| end.since(now).as_secs_f64());
        let plugins = match &queued.history.gating_plugin {
            Some(gate) => vec![gate.clone()],
            None => queued
                .history
                .unschedulable_plugins
                .union(&queued.history.pending_plugins)
                .cloned()
                .collect(),
        };
        facts.waits_for = waits_for(engine, &pod.spec.scheduler_name, &plugins);
    } else if let Some(last) = records.last() {
        facts.times = times(last.times);
    }
    facts.history = records.iter().map(|record| attempt(record, now)).collect();
    facts
}

/// Returns the room that is held for a pod, and the moves that make room for it, for people.
fn room(engine: &Engine, pod: &Pod) -> Option<String> {
    let parts = [engine.world().room_of(pod), engine.moves_for(pod)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

const fn place_name(place: Place) -> &'static str {
    match place {
        Place::Active => "active",
        Place::Backoff => "backoff",
        Place::ErrorBackoff => "errorBackoff",
        Place::Unschedulable => "unschedulable",
        Place::Gated => "gated",
    }
}

fn seconds(now: Time, earlier: Time) -> f64 {
    now.since(earlier).as_secs_f64()
}

fn times(times: framework::QueueTimes) -> QueueTimes {
    let seconds = |time: Duration| time.as_secs_f64();
    QueueTimes {
        active: seconds(times.active),
        backoff: seconds(times.backoff),
        unschedulable: seconds(times.unschedulable),
        gated: seconds(times.gated),
    }
}

fn waits_for(
    engine: &Engine,
    scheduler_name: &str,
    plugins: &[framework::PluginName],
) -> Vec<Waiting> {
    let Some(profile) = engine.profiles().get(scheduler_name) else { return Vec::new() };
    let waiting = plugins.iter().map(|plugin| {
        let own = profile.events.iter().filter(|(name, _)| name == plugin);
        let mut events: Vec<String> =
            own.map(|(_, registered)| registered.event.to_string()).collect();
        events.sort_unstable();
        events.dedup();
        let own = profile.events.iter().filter(|(name, _)| name == plugin);
        let mut words = Vec::new();
        for word in own.flat_map(|(_, registered)| event_words::words(&registered.event)) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        Waiting { plugin: plugin.to_string(), events, words }
    });
    waiting.collect()
}

fn attempt(record: &Record, now: Time) -> Attempt {
    let mut attempt = Attempt {
        number: record.attempt,
        seconds_ago: seconds(now, record.at),
        state_number: record.state,
        times: times(record.times),
        ..Attempt::default()
    };
    match &record.finding {
        Finding::Chosen(choice) => {
            attempt.outcome = "chosen".to_owned();
            attempt.node = Some(choice.node.to_string());
            attempt.ties = Some(choice.ties);
            attempt.total = choice.total;
            attempt.feasible = Some(choice.feasible);
        }
        Finding::Rejected(rejected) => {
            attempt.outcome = "rejected".to_owned();
            attempt.nodes = Some(rejected.nodes);
            let rejections = rejected.rejections.iter();
            attempt.rejections = rejections
                .map(|rejection| Rejection {
                    count: rejection.count as usize,
                    nodes: rejection.names.iter().map(ToString::to_string).collect(),
                    ..of_status(&rejection.status)
                })
                .collect();
            attempt.further_rejections = rejected.further;
            attempt.message = rejected.post_filter.to_string();
            attempt.nominated = rejected.nominated.as_ref().map(ToString::to_string);
            attempt.victims = rejected.victims.iter().map(ToString::to_string).collect();
            attempt.further_victims = rejected.further_victims;
        }
        Finding::Failed(message) => {
            attempt.outcome = "failed".to_owned();
            attempt.message = message.to_string();
        }
    }
    attempt
}

/// Returns the rejection of no nodes with this status.
pub(crate) fn of_status(status: &Status) -> Rejection {
    Rejection {
        plugin: status.plugin().map(ToString::to_string).unwrap_or_default(),
        code: status.code().name().to_owned(),
        reasons: status.reasons().iter().map(ToString::to_string).collect(),
        count: 0,
        nodes: Vec::new(),
        details: Vec::new(),
    }
}
