//! Backoff between reads of a pod whose binding has an unknown outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use framework::{Time, Uid};

use crate::backoff::Backoff;

/// Time without a read after which a pod starts with no delay again. It is longer than the longest
/// delay and two requests that time out.
const FORGET_AFTER: Duration = Duration::from_mins(5);

/// The delays between reads of each pod.
///
/// A pod that turns out to be unbound is bound to its node again. While every bind fails with an
/// unknown outcome, reads and binds alternate. The first read is sent at once, later ones after
/// growing delays.
#[derive(Debug, Default)]
pub(super) struct ReadBackoff {
    /// The time of the last read and the backoff of each pod.
    pods: BTreeMap<Uid, (Time, Backoff)>,
}

impl ReadBackoff {
    /// Returns the delay before the pod is read; `None` for the first read.
    pub(super) fn next(
        &mut self,
        pod: &Uid,
        now: Time,
        rng: &mut fastrand::Rng,
    ) -> Option<Duration> {
        if let Some((last, backoff)) = self.pods.get_mut(pod) {
            *last = now;
            return Some(backoff.next(now, rng));
        }
        self.pods.retain(|_, (last, _)| now.since(*last) < FORGET_AFTER);
        self.pods.insert(pod.clone(), (now, backoff()));
        None
    }
}

/// Returns a backoff with delays from 0.1 to 30 seconds.
pub(super) const fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(100), 2.0, Duration::from_secs(30), 0.5, FORGET_AFTER)
}
