//! Invariants of what users read about pending pods: events and conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use control::Request;
use engine::{Attempt, Engine, Event, EventSubject, Outcome};
use framework::{ScheduledCondition, Time, Uid};
use sandbox::resources::EVENTS;
use serde_json::Value;

use super::patience::{REJECTION, TURNED_AWAY};
use super::rules::{Checked, rule};
use super::server::Server;

/// The reasons of events that nothing supersedes.
const LASTING: [&str; 2] = ["Scheduled", "Preempted"];

/// The text of a pod that was not permitted in time.
const NOT_PERMITTED: &str = "rejected due to timeout after waiting";
/// The texts of a bind that was refused because the pod has another version. The scheduler reads
/// such a pod and binds it again.
const BY_PLUGIN: &str = "running Bind plugin";
const OUTDATED: &str = "ResourceVersion in precondition";

/// What a process has found out about pods that fit on no node.
#[derive(Debug, Default)]
pub(crate) struct Explanations {
    /// The result of the last attempt of each rejected pod.
    texts: BTreeMap<Uid, String>,
    /// The rejected pod whose event has not been recorded yet.
    owed: Option<Uid>,
    /// The last attempt, if it did not count.
    look: Option<Look>,
    /// The pods that waited in Permit after the last step, and the earliest ends of their waits.
    permits: BTreeMap<Uid, Time>,
    /// The last events that the server has to have, with pod and note, once they are collected.
    told: Option<Vec<(Uid, String)>>,
}

/// An attempt that did not count.
#[derive(Debug)]
struct Look {
    uid: Uid,
    text: String,
    /// The result of the attempt before.
    before: Option<String>,
    /// The condition that the watch shows.
    shown: Option<Arc<ScheduledCondition>>,
}

impl Look {
    /// Checks that the attempt says nothing that the pod does not say already, and that no event
    /// repeats it.
    fn is_known(&self, events: &[Event]) -> Checked {
        let shown = self.shown.as_ref().map(|shown| &*shown.message);
        let is_known = self.before.as_ref() == Some(&self.text) && shown == Some(&*self.text);
        let is_told =
            events.iter().any(|event| event.uid == self.uid && event.reason == "FailedScheduling");
        rule(is_known && !is_told, || format!("an attempt should count: {self:?}, {events:?}"))
    }
}

impl Explanations {
    /// Records an attempt.
    pub(crate) fn decided(&mut self, attempt: &Attempt) {
        let uid = &attempt.pod.uid;
        if attempt.pod.pod_group().is_some() {
            return;
        }
        match &attempt.outcome {
            Outcome::Unschedulable(text) => {
                self.texts.insert(uid.clone(), text.clone());
                self.owed = Some(uid.clone());
            }
            Outcome::Repeated(text) => {
                self.look = Some(Look {
                    uid: uid.clone(),
                    text: text.clone(),
                    before: self.texts.get(uid).cloned(),
                    shown: attempt.pod.scheduled_condition.clone(),
                });
            }
            _ => drop(self.texts.remove(uid)),
        }
    }

    /// Handles the pods that wait in Permit.
    pub(crate) fn permits(&mut self, engine: &Engine) {
        let waiting = engine.waiting_pods().iter();
        let ends =
            waiting.filter_map(|(pod, own)| Some((pod.clone(), *own.pending.values().min()?)));
        self.permits = ends.collect();
    }

    /// Checks the events after a step: a rejected pod has one, with the result of the attempt. A
    /// rejection in PreBind is no error. No wait in Permit times out early.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn are_told(&mut self, events: &[Event], now: Time) -> Checked {
        let is_early = |event: &&Event| {
            let end = self.permits.get(&event.uid);
            event.note.contains(NOT_PERMITTED) && end.is_some_and(|end| now < *end)
        };
        if let Some(event) = events.iter().find(is_early) {
            return Err(format!("{} times out early at {now}: {event:?}", event.regarding));
        }
        let is_wrong = |note: &str| note.contains(REJECTION) && note != REJECTION;
        let of_pods = events.iter().filter(|event| event.subject == EventSubject::Pod);
        if let Some(event) = of_pods.into_iter().find(|event| is_wrong(&event.note)) {
            return Err(format!("a plugin rejects {} in PreBind: {event:?}", event.regarding));
        }
        let is_outdated = |note: &str| note.contains(BY_PLUGIN) && note.contains(OUTDATED);
        if let Some(event) = events.iter().find(|event| is_outdated(&event.note)) {
            return Err(format!("{} has changed, which is no failure: {event:?}", event.regarding));
        }
        if let Some(told) = &mut self.told {
            let lasting = events.iter().filter(|event| LASTING.contains(&&*event.reason));
            told.extend(lasting.map(|event| (event.uid.clone(), event.note.clone())));
        }
        if let Some(look) = self.look.take() {
            look.is_known(events)?;
        }
        let Some(uid) = self.owed.take() else { return Ok(()) };
        let text = self.texts.get(&uid);
        let is_told = events.iter().any(|event| {
            let is_its = event.uid == uid && event.reason == "FailedScheduling";
            is_its && text.is_some_and(|text| begin_of(text) == begin_of(&event.note))
        });
        rule(is_told, || format!("no event says about {uid}: {text:?}"))
    }

    /// From now on no fault keeps an event from the server.
    pub(crate) fn collect(&mut self) {
        self.told = Some(Vec::new());
    }

    /// Checks at rest that the server has each event that says what became of a pod, about that
    /// pod.
    ///
    /// # Errors
    /// An event is missing.
    pub(crate) fn have_arrived(&self, server: &Server) -> Checked {
        let events = server.store.objects(EVENTS);
        let stored: BTreeSet<(&str, &str)> = events
            .map(|event| (text_of(&event["involvedObject"]["uid"]), text_of(&event["message"])))
            .collect();
        let is_there = |uid: &str| server.live_pods().any(|pod| pod["metadata"]["uid"] == uid);
        for (uid, note) in self.told.iter().flatten() {
            let uid = uid.to_string();
            let is_stored =
                stored.iter().any(|(own, text)| *own == uid && begin_of(text) == begin_of(note));
            rule(is_stored || !is_there(&uid), || {
                format!("the server has no event {note:?} of {uid}")
            })?;
        }
        Ok(())
    }

    /// Checks a condition that is written: a pod that a plugin rejects in Permit or PreBind is
    /// unschedulable.
    ///
    /// # Errors
    /// The rule is violated.
    pub(crate) fn are_written(request: &Request) -> Checked {
        let body = String::from_utf8_lossy(&request.body);
        let is_rejection = request.path.ends_with("/status")
            && request.path.contains("/pods/")
            && [REJECTION, NOT_PERMITTED, TURNED_AWAY].iter().any(|text| body.contains(text));
        rule(!is_rejection || body.contains("\"Unschedulable\""), || {
            format!("a plugin rejects the pod: {body}")
        })
    }

    /// Checks at rest that the conditions of pending pods have the results of their last attempts,
    /// and that the server has an event with each. A patch may fail for good while the server is
    /// overloaded, so each of these pods has to have been tried since.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) fn are_shown(&self, server: &Server) -> Checked {
        let events = server.store.objects(EVENTS);
        let events = events.filter(|event| event["reason"] == "FailedScheduling");
        let recorded: BTreeSet<(&str, &str)> = events
            .map(|event| {
                (text_of(&event["involvedObject"]["uid"]), begin_of(text_of(&event["message"])))
            })
            .collect();
        for pod in server.live_pods().filter(|pod| pod["spec"]["nodeName"].is_null()) {
            let uid = text_of(&pod["metadata"]["uid"]);
            let gates = pod["spec"]["schedulingGates"].as_array().map_or(0, Vec::len);
            let is_open = gates == 0 && pod["metadata"]["deletionTimestamp"].is_null();
            let Some(text) = self.texts.get(&Uid::from(uid)).filter(|_| is_open) else { continue };
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let shown = conditions.find(|condition| condition["type"] == "PodScheduled");
            let shown = shown.map(|condition| (&condition["reason"], &condition["message"]));
            let is_shown = shown.is_some_and(|(reason, message)| {
                reason == "Unschedulable" && message == text.as_str()
            });
            let name = &pod["metadata"]["name"];
            rule(is_shown, || format!("{name} shows {shown:?}, and its last attempt said {text}"))?;
            rule(recorded.contains(&(uid, begin_of(text))), || {
                let of_pod = recorded.iter().filter(|(pod, _)| *pod == uid);
                let notes: Vec<&str> = of_pod.map(|(_, note)| *note).collect();
                format!("{name} has the events {notes:?}, and its last attempt said {text}")
            })?;
        }
        Ok(())
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the part of a text that a note has in any case: the API server limits its length.
fn begin_of(text: &str) -> &str {
    text.char_indices().nth(900).map_or(text, |(end, _)| &text[..end])
}
