//! Which of several schedulers acts on a pod.
//!
//! It is the one whose intent is on the pod. Another scheduler that sees something to do waits, and
//! does it if it is still to be done then: the first one may be gone. The waits of the schedulers
//! differ, so that one of them is enough.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::{Time, Uid};

use crate::scheduler::SchedulerConfig;

/// Whether it is this scheduler's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is.
    Own,
    /// It is another one's, until this time.
    Waits(Time),
    /// Another scheduler has had the time for it.
    TakesOver,
}

/// The duties of this scheduler.
#[derive(Debug)]
pub(super) struct Duty {
    /// Its name on intents.
    name: Arc<str>,
    /// Time for which it leaves the pods of others alone.
    patience: Duration,
    /// Whether it is the first of several, which acts on delegates without an original.
    is_first: bool,
    /// Pods of others about which something is to be done, and until when this scheduler waits.
    waits: BTreeMap<Uid, Time>,
}

impl Duty {
    pub(super) fn new(config: &SchedulerConfig) -> Self {
        let (index, _) = config.turn;
        let waits = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
        Self {
            name: config.name.clone(),
            patience: config.takeover_wait.saturating_mul(waits),
            is_first: index == 0,
            waits: BTreeMap::new(),
        }
    }

    /// Whether this scheduler has the name.
    pub(super) fn is(&self, name: &str) -> bool {
        *self.name == *name
    }

    /// Returns whose turn it is to do something about a pod with the intent of `holder`.
    pub(super) fn turn(
        &mut self,
        uid: &Uid,
        holder: Option<&str>,
        is_adopted: bool,
        now: Time,
    ) -> Turn {
        if is_adopted || holder.map_or(self.is_first, |holder| self.is(holder)) {
            self.waits.remove(uid);
            return Turn::Own;
        }
        let until = *self.waits.entry(uid.clone()).or_insert(now + self.patience);
        if now < until {
            return Turn::Waits(until);
        }
        self.waits.remove(uid);
        Turn::TakesOver
    }

    /// Notes that there is nothing to do about a pod.
    pub(super) fn done(&mut self, uid: &Uid) {
        self.waits.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duty(name: &str, index: u64) -> Duty {
        let mut config = SchedulerConfig::new(name, Vec::new());
        (config.turn, config.takeover_wait) = ((index, 3), Duration::from_secs(10));
        Duty::new(&config)
    }

    #[test]
    fn pods_of_others_are_left_to_them_for_a_while() {
        let (uid, mut second) = (Uid::from("p"), duty("s/1", 1));
        let now = Time::from_secs(1_000);
        assert_eq!(second.turn(&uid, Some("s/1"), false, now), Turn::Own);
        let until = now + Duration::from_secs(20);
        let mut turn =
            |seconds| second.turn(&uid, Some("s/0"), false, now + Duration::from_secs(seconds));
        assert_eq!((turn(0), turn(19)), (Turn::Waits(until), Turn::Waits(until)));
        assert_eq!(turn(20), Turn::TakesOver);
        assert_eq!(turn(21), Turn::Waits(until + Duration::from_secs(21)), "the next change");
        second.done(&uid);
        let later = now + Duration::from_secs(100);
        assert_eq!(
            second.turn(&uid, Some("s/0"), false, later),
            Turn::Waits(later + Duration::from_secs(20)),
            "the other one has done it"
        );
        assert_eq!(second.turn(&uid, Some("s/0"), true, later), Turn::Own, "it is gone");
    }

    #[test]
    fn first_scheduler_acts_on_what_belongs_to_none() {
        let (uid, now) = (Uid::from("p"), Time::from_secs(1_000));
        assert_eq!(duty("s/0", 0).turn(&uid, None, false, now), Turn::Own);
        assert!(matches!(duty("s/2", 2).turn(&uid, None, false, now), Turn::Waits(_)));
    }
}
