//! Members that are bound only together.
//!
//! A member that has passed Permit and PreBind waits until so many members of its group have passed
//! that they are enough. Members that were bound before count. The members that are assumed and not
//! on this way count, too: their binding cycles have sent their requests.
//!
//! Rule members-are-bound-together of docs/differences.toml.

use std::collections::{BTreeMap, BTreeSet};

use framework::{PodGroupKey, Uid};

/// The groups with members that are not bound yet.
#[derive(Debug, Default)]
pub(crate) struct Gangs(BTreeMap<PodGroupKey, Gang>);

#[derive(Debug, Default)]
struct Gang {
    /// Number of members that are bound together, by the last decision.
    min_count: u32,
    /// Whether enough members have passed PreBind once.
    is_released: bool,
    /// The members before the end of PreBind.
    before: BTreeSet<Uid>,
    /// The members that have passed PreBind and wait for others.
    ready: BTreeSet<Uid>,
}

/// The number of members with a node, and the number that are bound together by the PodGroup as the
/// watch shows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quorum {
    pub(crate) scheduled: u32,
    pub(crate) min_count: Option<u32>,
}

/// Members whose bind may be requested.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) pods: Vec<Uid>,
    /// Whether these are the first of their decision.
    pub(crate) is_first: bool,
}

impl Gangs {
    /// Expects the members that a decision has placed.
    pub(crate) fn expect(
        &mut self,
        group: &PodGroupKey,
        min_count: u32,
        pods: impl Iterator<Item = Uid>,
    ) {
        let gang = self.0.entry(group.clone()).or_default();
        gang.min_count = min_count;
        gang.before.extend(pods);
    }

    /// Notes that the members which are expected next join those whose binds were requested.
    pub(crate) fn rejoin(&mut self, group: &PodGroupKey) {
        self.0.entry(group.clone()).or_default().is_released = true;
    }

    /// Whether the member is expected and has not passed PreBind.
    pub(crate) fn expects(&self, group: &PodGroupKey, pod: &Uid) -> bool {
        self.0.get(group).is_some_and(|gang| gang.before.contains(pod))
    }

    /// Notes that a member has passed PreBind.
    pub(super) fn gather(&mut self, group: &PodGroupKey, pod: &Uid) {
        let gang = self.0.entry(group.clone()).or_default();
        gang.before.remove(pod);
        gang.ready.insert(pod.clone());
    }

    /// Notes that a member is bound or has failed.
    pub(crate) fn leave(&mut self, group: &PodGroupKey, pod: &Uid) {
        if let Some(gang) = self.0.get_mut(group) {
            gang.before.remove(pod);
            gang.ready.remove(pod);
            self.drop_if_empty(group);
        }
    }

    /// Returns the members that may be bound, once.
    pub(crate) fn release(&mut self, group: &PodGroupKey, quorum: Quorum) -> Released {
        let Some(gang) = self.0.get_mut(group) else { return Released::default() };
        let before = u32::try_from(gang.before.len()).unwrap_or(u32::MAX);
        let passed = quorum.scheduled.saturating_sub(before);
        let is_first = !gang.is_released;
        gang.is_released |= passed >= gang.needed(quorum);
        if !gang.is_released || gang.ready.is_empty() {
            return Released::default();
        }
        let pods = std::mem::take(&mut gang.ready).into_iter().collect();
        self.drop_if_empty(group);
        Released { pods, is_first }
    }

    /// Returns the members that are not bound together any more, because too few are left.
    pub(crate) fn dissolve(&mut self, group: &PodGroupKey, quorum: Quorum) -> Vec<Uid> {
        let is_short = |gang: &&Gang| !gang.is_released && quorum.scheduled < gang.needed(quorum);
        if self.0.get(group).filter(is_short).is_none() {
            return Vec::new();
        }
        let Gang { before, ready, .. } = self.0.remove(group).unwrap_or_default();
        before.into_iter().chain(ready).collect()
    }

    fn drop_if_empty(&mut self, group: &PodGroupKey) {
        let is_empty = |gang: &Gang| gang.before.is_empty() && gang.ready.is_empty();
        if self.0.get(group).is_some_and(is_empty) {
            self.0.remove(group);
        }
    }
}

impl Gang {
    /// Returns the number of members that are bound together. A PodGroup that now wants more has
    /// no effect on those that were decided.
    fn needed(&self, quorum: Quorum) -> u32 {
        quorum.min_count.map_or(self.min_count, |now| now.min(self.min_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(name: &str) -> Uid {
        name.into()
    }

    fn quorum(scheduled: u32) -> Quorum {
        Quorum { scheduled, min_count: Some(2) }
    }

    fn gang(names: &[&str]) -> (Gangs, PodGroupKey) {
        let (mut gangs, group) = (Gangs::default(), PodGroupKey::new("default", "g"));
        gangs.expect(&group, 2, names.iter().map(|name| uid(name)));
        (gangs, group)
    }

    fn released(gangs: &mut Gangs, group: &PodGroupKey, scheduled: u32) -> (Vec<String>, bool) {
        let Released { pods, is_first } = gangs.release(group, quorum(scheduled));
        (pods.iter().map(ToString::to_string).collect(), is_first)
    }

    #[test]
    fn members_are_released_together_and_later_ones_at_once() {
        let (mut gangs, group) = gang(&["a", "b", "c"]);
        gangs.gather(&group, &uid("a"));
        assert_eq!(released(&mut gangs, &group, 3), (vec![], false));
        gangs.gather(&group, &uid("b"));
        assert_eq!(released(&mut gangs, &group, 3), (vec!["a".into(), "b".into()], true));
        gangs.leave(&group, &uid("a"));
        assert!(gangs.dissolve(&group, quorum(1)).is_empty(), "they are being bound");
        gangs.gather(&group, &uid("c"));
        assert_eq!(released(&mut gangs, &group, 2), (vec!["c".into()], false));
        assert!(gangs.0.is_empty());
    }

    #[test]
    fn members_give_way_when_too_few_are_left() {
        let (mut gangs, group) = gang(&["a", "b", "c"]);
        gangs.gather(&group, &uid("a"));
        gangs.leave(&group, &uid("b"));
        assert!(gangs.dissolve(&group, quorum(2)).is_empty(), "two are enough");
        gangs.leave(&group, &uid("c"));
        assert_eq!(gangs.dissolve(&group, quorum(1)), [uid("a")]);
        assert!(!gangs.expects(&group, &uid("a")) && gangs.0.is_empty());
    }

    #[test]
    fn member_that_rejoins_is_released_at_once_and_is_not_the_first() {
        let (mut gangs, group) = (Gangs::default(), PodGroupKey::new("default", "g"));
        gangs.rejoin(&group);
        gangs.expect(&group, 2, [uid("a")].into_iter());
        gangs.gather(&group, &uid("a"));
        assert_eq!(released(&mut gangs, &group, 1), (vec!["a".into()], false));
        assert!(gangs.0.is_empty());
    }

    #[test]
    fn lower_count_releases_and_higher_one_does_not_hold_back() {
        let (mut gangs, group) = gang(&["a", "b", "c"]);
        gangs.gather(&group, &uid("a"));
        let wants = |scheduled, min_count| Quorum { scheduled, min_count: Some(min_count) };
        assert_eq!(gangs.release(&group, wants(3, 1)).pods, [uid("a")]);
        let (mut gangs, group) = gang(&["a", "b"]);
        gangs.gather(&group, &uid("a"));
        gangs.gather(&group, &uid("b"));
        assert_eq!(gangs.release(&group, wants(2, 9)).pods.len(), 2);
    }
}
