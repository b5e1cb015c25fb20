//! Members are bound together: the first bind of a decision is sent when enough members have room,
//! and at rest no gang is bound in part unless something outside explains it.

use std::collections::{BTreeMap, BTreeSet};

use control::Request;
use engine::Engine;
use framework::{PodGroup, PodGroupKey, Uid};

use super::super::rules::{Checked, rule};
use super::super::server::{Bound, Server};
use super::{group_of, stored};

/// The decisions of one process about groups, until their first bind.
#[derive(Debug, Default)]
pub(crate) struct Releases(BTreeMap<PodGroupKey, Decision>);

/// A decision whose binds have not begun.
#[derive(Debug)]
struct Decision {
    /// Number of members that are bound together.
    min_count: u32,
    /// The members with room after the decision.
    placed: BTreeSet<Uid>,
}

impl Releases {
    /// Notes a decision that has placed members of a group.
    pub(crate) fn decided(&mut self, group: &PodGroupKey, engine: &Engine) {
        let min_count = engine.cluster().pod_group(group).map_or(1, |known| known.min_count());
        let placed = members_with_room(group, engine);
        self.0.insert(group.clone(), Decision { min_count, placed });
    }

    /// Checks a request: the first bind of a decision is sent when so many members have room and
    /// have passed Permit as the group needs. Members that are gone since do not count against it.
    ///
    /// # Errors
    /// A gang is bound in part.
    pub(crate) fn sent(&mut self, request: &Request, engine: &Engine) -> Checked {
        let Some(Bound { uid, .. }) = Bound::by(request) else { return Ok(()) };
        let Some(placed) = engine.world().placed(&Uid::from(&*uid)) else { return Ok(()) };
        let Some(group) = placed.pod.pod_group() else { return Ok(()) };
        let Some(Decision { min_count, placed }) = self.0.remove(&group) else { return Ok(()) };
        let now = engine.cluster().pod_group(&group).map(|known| known.min_count());
        let needed = now.map_or(min_count, |now| now.min(min_count)) as usize;
        let with_room = members_with_room(&group, engine);
        let is_gone =
            |uid: &&Uid| !with_room.contains(*uid) && !engine.pending().any(|pod| pod.uid == **uid);
        let gone = placed.iter().filter(is_gone).count();
        let passed = with_room.iter().filter(|uid| !engine.waiting_pods().contains_key(*uid));
        let passed = passed.count();
        rule(passed + gone >= needed, || {
            format!("{uid} of {group} is bound, and {passed} of {needed} members have their room")
        })
    }
}

/// Returns the members of a group that are assumed or bound.
fn members_with_room(group: &PodGroupKey, engine: &Engine) -> BTreeSet<Uid> {
    let cluster = engine.cluster();
    let state = cluster.pod_group_state(group);
    let members = state.into_iter().flat_map(|state| state.scheduled());
    members.map(|member| cluster.pod(member).pod.uid.clone()).collect()
}

/// The gangs of the API server.
#[derive(Debug, Default)]
pub(crate) struct Gangs {
    known: BTreeMap<PodGroupKey, Gang>,
    /// The version of the store at the last look.
    version: u64,
}

/// A gang at the last look.
#[derive(Debug, Default)]
struct Gang {
    uid: Option<Uid>,
    min_count: u32,
    bound: BTreeSet<Uid>,
    members: BTreeSet<Uid>,
    /// Why the gang may be bound in part since the last decision that placed it.
    excuse: Option<&'static str>,
}

impl Gangs {
    /// Looks at the gangs after a step, and notes what others have done to them.
    pub(crate) fn look(&mut self, server: &Server) {
        let version = server.store.resource_version();
        if std::mem::replace(&mut self.version, version) == version {
            return;
        }
        let groups = stored(server);
        let mut members = BTreeMap::<_, (BTreeSet<Uid>, BTreeSet<Uid>)>::new();
        for pod in server.live_pods() {
            let Some(group) = group_of(pod) else { continue };
            let uid = Uid::from(pod["metadata"]["uid"].as_str().unwrap_or_default());
            let (all, bound) = members.entry(group).or_default();
            if !pod["spec"]["nodeName"].is_null() {
                bound.insert(uid.clone());
            }
            all.insert(uid);
        }
        let keys: BTreeSet<PodGroupKey> =
            groups.keys().chain(members.keys()).chain(self.known.keys()).cloned().collect();
        for key in keys {
            let own = self.known.entry(key.clone()).or_default();
            let (all, bound) = members.remove(&key).unwrap_or_default();
            let group = groups.get(&key);
            let (uid, min_count) =
                group.map_or((None, 1), |group| (Some(group.uid.clone()), group.min_count()));
            let by_others = bound
                .difference(&own.bound)
                .any(|uid| !server.bound_by_us.contains_key(&*uid.to_string()));
            let excuse = match () {
                () if !own.members.is_subset(&all) => Some("a member has gone"),
                () if own.uid != uid => Some("its PodGroup is another one"),
                () if own.min_count < min_count => Some("its count was raised"),
                () if by_others => Some("others have bound a member"),
                () => None,
            };
            let excuse = excuse.or(own.excuse);
            *own = Gang { uid, min_count, bound, members: all, excuse };
        }
    }

    /// Notes a decision that has placed members of a group, by a process that knows this of the
    /// group. What was before explains nothing if no member was bound.
    pub(crate) fn decided(&mut self, group: &PodGroupKey, known: Option<&PodGroup>) {
        let Some(gang) = self.known.get_mut(group) else { return };
        if gang.bound.is_empty() {
            gang.excuse = None;
        }
        let is_up_to_date = known.is_some_and(|known| {
            Some(&known.uid) == gang.uid.as_ref() && known.min_count() == gang.min_count
        });
        if !is_up_to_date {
            gang.excuse = Some("the watch had not shown its PodGroup");
        }
    }

    /// Notes that a bind was not carried out, or may not have been.
    pub(crate) fn bind_failed(&mut self, pod: &str) {
        let pod = Uid::from(pod);
        let gangs = self.known.values_mut().filter(|gang| gang.members.contains(&pod));
        gangs.for_each(|gang| gang.excuse = Some("a bind has failed"));
    }

    /// Notes that a process has ended. It may have been binding any group.
    pub(crate) fn process_ended(&mut self) {
        self.known.values_mut().for_each(|gang| gang.excuse = Some("a process has ended"));
    }

    /// Checks at rest that no gang is bound in part without an explanation.
    ///
    /// # Errors
    /// Some members of a gang are bound, and others are not.
    pub(crate) fn are_whole(&self) -> Checked {
        let mut gangs = self.known.iter();
        let part = gangs.find(|(_, gang)| {
            let bound = gang.bound.len();
            gang.uid.is_some()
                && gang.excuse.is_none()
                && bound > 0
                && bound < gang.min_count as usize
        });
        rule(part.is_none(), || format!("a gang is bound in part: {part:?}"))
    }
}
