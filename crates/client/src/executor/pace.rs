//! How soon pods are read whose bindings stay unknown.

use std::collections::BTreeMap;
use std::time::Duration;

use framework::{Time, Uid};

use crate::backoff::Backoff;

/// Who was not asked about for so long is settled. Longer than the longest pause with two requests
/// that time out.
const SETTLED: Duration = Duration::from_mins(5);

/// Spaces the reads of one pod.
///
/// A pod that is read unbound is bound to its node again. As long as the server fails every bind,
/// that goes round and round: the first read is made at once, the next ones after pauses that grow.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// By pod, with the time of its last read.
    pods: BTreeMap<Uid, (Time, Backoff)>,
}

impl Pace {
    /// The pause before the pod is read, none the first time.
    pub(super) fn pause(
        &mut self,
        pod: &Uid,
        now: Time,
        rng: &mut fastrand::Rng,
    ) -> Option<Duration> {
        if let Some((last, backoff)) = self.pods.get_mut(pod) {
            *last = now;
            return Some(backoff.next(now, rng));
        }
        self.pods.retain(|_, (last, _)| now.since(*last) < SETTLED);
        self.pods.insert(pod.clone(), (now, backoff()));
        None
    }
}

/// Pauses that grow from 0.1 to 30 seconds.
pub(super) const fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(100), 2.0, Duration::from_secs(30), 0.5, SETTLED)
}
