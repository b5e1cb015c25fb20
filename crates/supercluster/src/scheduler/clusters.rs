//! The member clusters as a scheduler knows them, and which of them answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::{Labels, Time};

/// A member cluster.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// Its name, unique among the members.
    pub name: Arc<str>,
    /// Labels, for cluster affinity and spread.
    pub labels: Labels,
    /// Properties of its ClusterProfile.
    pub properties: BTreeMap<Arc<str>, Arc<str>>,
    /// Why it takes no new pods; `None` if it does.
    pub closed: Option<Arc<str>>,
}

impl Cluster {
    /// Returns labels and properties in one set. A label wins over a property of the same name.
    pub(super) fn attributes(&self) -> Labels {
        let properties = self.properties.iter().map(|(name, value)| (&**name, &**value));
        properties.chain(self.labels.iter()).collect()
    }
}

/// Index of a cluster in the list of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterIx(pub usize);

/// Number of calls without an answer after which a cluster is not asked for a while.
const FAILURES_BEFORE_BREAK: u32 = 3;
/// The first pause; the next ones are longer, up to [`LONGEST_BREAK`].
const FIRST_BREAK: Duration = Duration::from_secs(1);
const LONGEST_BREAK: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Member {
    pub(super) cluster: Cluster,
    /// Whether it has left the list of members. It keeps its index, because commits may be under
    /// way.
    has_left: bool,
    /// The ID that its agent reports.
    id: Option<Arc<str>>,
    /// The member that reported the same ID before.
    duplicate_of: Option<Arc<str>>,
    /// Number of consecutive calls without an answer.
    failures: u32,
    /// Not asked before this time.
    closed_until: Time,
    /// After a pause one call shows whether the agent answers again; other pods do not ask it
    /// before this time.
    probed_until: Time,
    /// The last answer of any kind.
    heard: Time,
}

/// The members.
#[derive(Debug, Default)]
pub(super) struct Members(Vec<Member>);

impl Members {
    pub(super) fn new(clusters: Vec<Cluster>) -> Self {
        Self(clusters.into_iter().map(Member::new).collect())
    }

    /// Sets the state of the member of this index. The index may be the next free one.
    pub(super) fn set(&mut self, ix: ClusterIx, cluster: Cluster) {
        match self.0.get_mut(ix.0) {
            Some(member) => (member.cluster, member.has_left) = (cluster, false),
            None => self.0.push(Member::new(cluster)),
        }
    }

    /// Takes a cluster from the list of members.
    pub(super) fn remove(&mut self, ix: ClusterIx) {
        let Some(member) = self.0.get_mut(ix.0) else { return };
        (member.has_left, member.id, member.duplicate_of) = (true, None, None);
        let name = member.cluster.name.clone();
        for other in self.0.iter_mut().filter(|own| own.duplicate_of.as_ref() == Some(&name)) {
            // Its next answer is compared anew.
            (other.id, other.duplicate_of) = (None, None);
        }
    }

    pub(super) fn has_left(&self, ix: ClusterIx) -> bool {
        self.0[ix.0].has_left
    }

    pub(super) fn get(&self, ix: ClusterIx) -> &Cluster {
        &self.0[ix.0].cluster
    }

    pub(super) fn named(&self, name: &str) -> Option<ClusterIx> {
        let is_named = |member: &Member| *member.cluster.name == *name && !member.has_left;
        self.0.iter().position(is_named).map(ClusterIx)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClusterIx, &Member)> {
        let members = self.0.iter().enumerate().filter(|(_, member)| !member.has_left);
        members.map(|(place, member)| (ClusterIx(place), member))
    }

    /// Notes that the agent of a cluster has answered, and the ID of its cluster.
    ///
    /// # Errors
    /// Another member is the same cluster.
    pub(super) fn answered(&mut self, ix: ClusterIx, id: &Arc<str>) -> Result<(), String> {
        if self.0[ix.0].has_left {
            return Ok(());
        }
        if self.0[ix.0].id.as_ref() != Some(id) {
            let mut others = self.0.iter().enumerate().filter(|(place, _)| *place != ix.0);
            let same = others.find(|(_, member)| {
                member.id.as_ref() == Some(id) && member.duplicate_of.is_none() && !member.has_left
            });
            let duplicate_of = same.map(|(_, member)| member.cluster.name.clone());
            let member = &mut self.0[ix.0];
            (member.id, member.duplicate_of) = (Some(id.clone()), duplicate_of);
        }
        let member = &mut self.0[ix.0];
        (member.failures, member.closed_until, member.probed_until) = (0, Time::ZERO, Time::ZERO);
        match &member.duplicate_of {
            None => Ok(()),
            Some(other) => Err(format!("it is the same cluster as {other}")),
        }
    }

    /// Notes that a call was not answered in time. Calls that were under way when the cluster
    /// was closed do not close it for longer: many pods that are sampled for at the same time are
    /// one failure.
    pub(super) fn failed(&mut self, ix: ClusterIx, now: Time) {
        let member = &mut self.0[ix.0];
        if member.closed_until > now {
            return;
        }
        member.probed_until = Time::ZERO;
        member.failures += 1;
        if member.failures >= FAILURES_BEFORE_BREAK {
            let doublings = (member.failures - FAILURES_BEFORE_BREAK).min(5);
            let pause = (FIRST_BREAK * (1 << doublings)).min(LONGEST_BREAK);
            member.closed_until = now + pause;
        }
    }
}

impl Members {
    /// Notes that a cluster is asked for a sample, which is answered by `deadline` or not at
    /// all.
    pub(super) fn asked(&mut self, ix: ClusterIx, deadline: Time) {
        let member = &mut self.0[ix.0];
        if member.failures >= FAILURES_BEFORE_BREAK {
            member.probed_until = deadline;
        }
    }

    /// Notes that the agent of a cluster has answered something.
    pub(super) fn heard(&mut self, ix: ClusterIx, now: Time) {
        self.0[ix.0].heard = now;
    }

    /// Whether the agent of a cluster has not answered anything after this time.
    pub(super) fn is_silent_since(&self, ix: ClusterIx, time: Time) -> bool {
        self.0[ix.0].heard <= time
    }
}

impl Member {
    const fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            has_left: false,
            id: None,
            duplicate_of: None,
            failures: 0,
            closed_until: Time::ZERO,
            probed_until: Time::ZERO,
            heard: Time::ZERO,
        }
    }

    /// Returns why the cluster is not asked for samples.
    pub(super) fn closed(&self, now: Time) -> Option<String> {
        if let Some(reason) = &self.cluster.closed {
            return Some(reason.to_string());
        }
        match &self.duplicate_of {
            Some(other) => Some(format!("it is the same cluster as {other}")),
            None if self.closed_until.max(self.probed_until) > now => {
                Some(format!("its agent did not answer {} times", self.failures))
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Members {
        let cluster = |name: &str| Cluster { name: name.into(), ..Cluster::default() };
        Members::new(vec![cluster("a"), cluster("b")])
    }

    #[test]
    fn silent_cluster_is_asked_again_after_growing_pauses() {
        let mut members = members();
        let (a, now) = (ClusterIx(0), Time::from_secs(100));
        let closed = |members: &Members, at: i64| members.0[0].closed(Time::from_secs(at));
        members.failed(a, now);
        members.failed(a, now);
        assert_eq!(closed(&members, 100), None, "two lost answers are no outage");
        members.failed(a, now);
        assert!(closed(&members, 100).is_some() && closed(&members, 101).is_none());
        members.failed(a, Time::from_secs(101));
        assert!(closed(&members, 102).is_some() && closed(&members, 103).is_none());
        let mut at = 103;
        for pause in [4, 8, 16, 30, 30] {
            for _ in 0..20 {
                members.failed(a, Time::from_secs(at));
            }
            at += pause;
            assert!(closed(&members, at - 1).is_some() && closed(&members, at).is_none());
        }
        members.answered(a, &"id".into()).unwrap();
        members.failed(a, Time::from_secs(300));
        assert_eq!(closed(&members, 300), None, "an answer starts the count anew");
    }

    #[test]
    fn one_call_shows_whether_a_silent_cluster_is_back() {
        let mut members = members();
        let (a, now) = (ClusterIx(0), Time::from_secs(100));
        members.asked(a, Time::from_secs(101));
        assert_eq!(members.0[0].closed(now), None, "it has always answered");
        (0..3).for_each(|_| members.failed(a, now));
        let later = Time::from_secs(102);
        assert_eq!(members.0[0].closed(later), None);
        members.asked(a, Time::from_secs(103));
        assert!(members.0[0].closed(later).is_some(), "another pod asks");
        members.failed(a, Time::from_secs(103));
        assert!(members.0[0].closed(Time::from_secs(104)).is_some(), "a longer pause");
        members.asked(a, Time::from_secs(106));
        members.answered(a, &"id".into()).unwrap();
        assert_eq!(members.0[0].closed(Time::from_secs(105)), None);
    }

    #[test]
    fn cluster_that_is_listed_twice_is_used_once() {
        let mut members = members();
        members.answered(ClusterIx(0), &"same".into()).unwrap();
        let error = members.answered(ClusterIx(1), &"same".into()).unwrap_err();
        assert_eq!(error, "it is the same cluster as a");
        assert_eq!(members.0[1].closed(Time::ZERO), Some(error));
        assert_eq!(members.0[0].closed(Time::ZERO), None);
        members.answered(ClusterIx(1), &"other".into()).unwrap();
        assert_eq!(members.0[1].closed(Time::ZERO), None, "the member was replaced");
    }

    #[test]
    fn cluster_that_has_left_is_no_member_and_keeps_its_index() {
        let mut members = members();
        members.answered(ClusterIx(0), &"same".into()).unwrap();
        members.answered(ClusterIx(1), &"same".into()).unwrap_err();
        members.remove(ClusterIx(0));
        assert!(members.named("a").is_none() && members.has_left(ClusterIx(0)));
        assert_eq!((members.iter().count(), &*members.get(ClusterIx(0)).name), (1, "a"));
        members.answered(ClusterIx(1), &"same".into()).unwrap();
        let closed = Some("drained".into());
        members.set(ClusterIx(0), Cluster { name: "a".into(), closed, ..Cluster::default() });
        assert_eq!(members.named("a"), Some(ClusterIx(0)));
        assert_eq!(members.0[0].closed(Time::ZERO), Some("drained".to_owned()));
        let error = members.answered(ClusterIx(0), &"same".into()).unwrap_err();
        assert_eq!(error, "it is the same cluster as b", "the other one has taken its place");
        members.set(ClusterIx(2), Cluster { name: "c".into(), ..Cluster::default() });
        assert_eq!(members.named("c"), Some(ClusterIx(2)));
    }
}
