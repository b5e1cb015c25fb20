//! Whose turn it is to write a claim that several pods use.

use std::collections::BTreeMap;
use std::time::Duration;

use framework::{Time, Uid};

/// The time after which others do not wait for the answer to a write any more.
const LONGEST_TURN: Duration = Duration::from_secs(1);

/// The pods that write claims.
#[derive(Debug, Default)]
pub(super) struct Turns(BTreeMap<Uid, Turn>);

#[derive(Debug)]
struct Turn {
    pod: Uid,
    until: Time,
}

impl Turns {
    /// Begins the turn of a pod, unless another pod has its turn. Returns whether the pod may write
    /// the claim.
    pub(super) fn take(&mut self, claim: &Uid, pod: &Uid, now: Time) -> bool {
        let is_free = self.0.get(claim).is_none_or(|turn| turn.pod == *pod || turn.until <= now);
        if is_free {
            self.0.insert(claim.clone(), Turn { pod: pod.clone(), until: now + LONGEST_TURN });
        }
        is_free
    }

    /// Ends the turn of a pod.
    pub(super) fn end(&mut self, claim: &Uid, pod: &Uid) {
        if self.0.get(claim).is_some_and(|turn| turn.pod == *pod) {
            self.0.remove(claim);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
