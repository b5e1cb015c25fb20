//! Pauses of preemptors, whose evictions too often led to no binding.

use std::collections::{BTreeMap, BTreeSet};

use framework::{PodKey, Time, Uid};

/// The end of each pause.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    by_pod: BTreeMap<Uid, (Time, PodKey)>,
    by_end: BTreeSet<(Time, Uid)>,
}

impl Pauses {
    /// Sets the end of the pause of a pod. Returns whether the end has changed.
    pub(super) fn set(&mut self, pod: PodKey, uid: &Uid, until: Time) -> bool {
        let before = self.by_pod.insert(uid.clone(), (until, pod));
        let before = before.map(|(until, _)| until);
        if let Some(before) = before {
            self.by_end.remove(&(before, uid.clone()));
        }
        self.by_end.insert((until, uid.clone()));
        before != Some(until)
    }

    pub(super) fn remove(&mut self, uid: &Uid) {
        if let Some((until, _)) = self.by_pod.remove(uid) {
            self.by_end.remove(&(until, uid.clone()));
        }
    }

    pub(super) fn next_end(&self) -> Option<Time> {
        self.by_end.first().map(|(until, _)| *until)
    }

    /// Removes and returns a pod whose pause has ended.
    pub(super) fn pop_ended(&mut self, now: Time) -> Option<PodKey> {
        let (until, _) = self.by_end.first()?;
        let (_, uid) = if *until <= now { self.by_end.pop_first()? } else { return None };
        self.by_pod.remove(&uid).map(|(_, pod)| pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_pause_replaces_the_one_before() {
        let (mut pauses, at) = (Pauses::default(), Time::from_secs);
        let key = |name| PodKey::new("default", name);
        let [a, b] = ["a", "b"].map(Uid::from);
        assert!(pauses.set(key("a"), &a, at(5)));
        assert!(pauses.set(key("b"), &b, at(7)));
        assert!(pauses.set(key("a"), &a, at(9)));
        assert!(!pauses.set(key("a"), &a, at(9)), "the end has not changed");
        assert_eq!((pauses.next_end(), pauses.pop_ended(at(6))), (Some(at(7)), None));
        assert_eq!(pauses.pop_ended(at(8)), Some(key("b")));
        assert_eq!((pauses.next_end(), pauses.pop_ended(at(8))), (Some(at(9)), None));
        pauses.remove(&a);
        assert_eq!((pauses.next_end(), pauses.pop_ended(at(10))), (None, None));
        assert!(pauses.by_pod.is_empty());
    }
}
