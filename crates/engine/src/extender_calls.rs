//! Calls of extenders, and the extenders that are not called because they do not answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::{Time, WallOffset};

use crate::extender::Extender;
use crate::ports::{
    CallError, ExtenderCall, ExtenderClient, Filtered, HostPriorities, MetaVictims, Outage,
    PreemptionCall, Probing,
};

/// Shortest pause before an extender that did not answer is tried again.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause, if calls take no longer than a twelfth of it.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Longest pause as a multiple of the time that the unanswered call took. Calls that get no answer
/// then take less than a tenth of the time.
const LONGEST_PAUSE_PER_CALL: u32 = 12;

/// Which extenders answer, by their index.
#[derive(Debug, Default)]
pub(crate) struct ExtenderHealth(Vec<Health>);

/// Whether one extender answers.
///
/// A call in a scheduling cycle holds up all pods. After one without an answer the extender is not
/// called in a cycle until it has answered a call for which no cycle waits.
#[derive(Debug)]
struct Health {
    name: Arc<str>,
    outage: Option<Outage>,
    /// When the last outage ended.
    up_since: Time,
    /// The last pause.
    pause: Duration,
    longest_pause: Duration,
}

impl ExtenderHealth {
    /// All extenders answer.
    pub(crate) fn new(extenders: &[Extender]) -> Self {
        let health = |extender: &Extender| Health {
            name: extender.name.clone(),
            outage: None,
            up_since: Time::ZERO,
            pause: Duration::ZERO,
            longest_pause: LONGEST_PAUSE,
        };
        Self(extenders.iter().map(health).collect())
    }

    /// Returns the name of each extender, and its outage if it does not answer.
    pub(crate) fn outages(&self) -> impl Iterator<Item = (&str, Option<&Outage>)> {
        self.0.iter().map(|health| (&*health.name, health.outage.as_ref()))
    }
}

impl Health {
    /// Notes a call in a cycle that got no answer. The pause doubles unless the extender has
    /// answered for long.
    fn failed(&mut self, began: Time, now: Time, error: String) {
        let took = now.since(began);
        self.longest_pause = LONGEST_PAUSE.max(took * LONGEST_PAUSE_PER_CALL);
        if began.since(self.up_since) >= self.longest_pause {
            self.pause = Duration::ZERO;
        }
        self.pause = (self.pause * 2).clamp(SHORTEST_PAUSE.max(took), self.longest_pause);
        self.outage = Some(Outage { since: began, next_try: now + self.pause, error });
    }

    /// Returns whether the extender is to be tried again now, and notes that it is.
    fn try_again(&mut self, now: Time) -> bool {
        let Some(outage) = self.outage.as_mut().filter(|outage| outage.next_try <= now) else {
            return false;
        };
        self.pause = (self.pause * 2).min(self.longest_pause);
        outage.next_try = now + self.pause;
        true
    }

    fn explain(&self, outage: &Outage, offset: WallOffset) -> String {
        let Self { name, .. } = self;
        let Outage { since, next_try, error } = outage;
        let [since, next_try] =
            [since, next_try].map(|time| offset.wall_time(*time).floor_to_second());
        format!(
            "extender {name:?} has not answered since {since} and is not called until it does; it is \
             tried again at {next_try}: {error}"
        )
    }
}

/// The extenders for the duration of one call into the engine. One that does not answer is not
/// called: the result is an error at once, and from time to time a call for which nothing waits.
pub(crate) struct ExtenderCalls<'a> {
    client: &'a mut dyn ExtenderClient,
    pub(crate) health: ExtenderHealth,
    wall_offset: WallOffset,
}

impl<'a> ExtenderCalls<'a> {
    pub(crate) fn new(
        client: &'a mut dyn ExtenderClient,
        health: ExtenderHealth,
        wall_offset: WallOffset,
    ) -> Self {
        Self { client, health, wall_offset }
    }

    /// Returns which nodes pass the extender, and the time after the call.
    pub(crate) fn filter(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<Filtered, String>, Time) {
        if let Some(error) = self.refuse(call.extender, Probing::Filter(call), now) {
            return (Err(error), now);
        }
        let (answer, end) = self.client.filter(call, now);
        (self.note(call.extender, answer, now, end), end)
    }

    /// Calls several extenders at once. Returns one result for each call, and the time after the
    /// calls.
    pub(crate) fn prioritize(
        &mut self,
        calls: Vec<ExtenderCall<'_>>,
        now: Time,
    ) -> (Vec<Result<HostPriorities, String>>, Time) {
        let refused: Vec<Option<String>> = calls
            .iter()
            .map(|call| self.refuse(call.extender, Probing::Prioritize(call), now))
            .collect();
        let called = calls.into_iter().zip(&refused).filter(|(_, refused)| refused.is_none());
        let called: Vec<ExtenderCall<'_>> = called.map(|(call, _)| call).collect();
        let (answers, end) = match called.is_empty() {
            true => (Vec::new(), now),
            false => self.client.prioritize(&called, now),
        };
        let mut answers = called.iter().zip(answers);
        let results = refused.into_iter().map(|refused| match refused {
            Some(error) => Err(error),
            None => {
                let (call, answer) = answers.next().ok_or("the call has no result")?;
                self.note(call.extender, answer, now, end)
            }
        });
        (results.collect(), end)
    }

    /// Returns the candidates that the extender accepts, with their victims, and the time after the
    /// call.
    pub(crate) fn process_preemption(
        &mut self,
        call: &PreemptionCall<'_>,
        now: Time,
    ) -> (Result<BTreeMap<String, MetaVictims>, String>, Time) {
        if let Some(error) = self.refuse(call.extender, Probing::Preempt(call), now) {
            return (Err(error), now);
        }
        let (answer, end) = self.client.process_preemption(call, now);
        (self.note(call.extender, answer, now, end), end)
    }

    /// Reports that an ignorable extender was skipped because of this error.
    pub(crate) fn skipped(&mut self, extender: usize, error: &str) {
        self.client.skipped(extender, error);
    }

    /// Handles the outcome of a call for which nothing waited.
    pub(crate) fn probed(&mut self, extender: usize, outcome: Result<(), String>, now: Time) {
        let Some(health) = self.health.0.get_mut(extender) else { return };
        let Some(outage) = &mut health.outage else { return };
        match outcome {
            Ok(()) => {
                (health.outage, health.up_since) = (None, now);
                self.client.outage_changed(extender, None);
            }
            Err(error) => outage.error = error,
        }
    }

    /// Returns the error of a call that is not made, because the extender does not answer. If it is
    /// time to try the extender again, begins the call without waiting for the answer.
    fn refuse(&mut self, extender: usize, call: Probing<'_>, now: Time) -> Option<String> {
        let health = self.health.0.get_mut(extender)?;
        let is_due = health.try_again(now);
        let error = health.explain(health.outage.as_ref()?, self.wall_offset);
        if is_due {
            self.client.probe(call);
        }
        Some(error)
    }

    /// Notes whether a call got an answer.
    fn note<T>(
        &mut self,
        extender: usize,
        answer: Result<T, CallError>,
        began: Time,
        now: Time,
    ) -> Result<T, String> {
        if let Err(CallError::NoAnswer(error)) = &answer
            && let Some(health) = self.health.0.get_mut(extender)
        {
            health.failed(began, now, error.clone());
            self.client.outage_changed(extender, health.outage.as_ref());
        }
        answer.map_err(CallError::into_text)
    }
}
