//! The plan for a pod.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use framework::{PodKey, Time, Uid};
use serde_json::Value;

use super::duty::Turn;
use super::{FINALIZER, Mirror, Original, Roster, status};
use crate::message::{CommitKey, Delegate, DelegateEvent, TryNumber};
use crate::scheduler::OriginalPod;

/// An event of a delegate to show on its original.
#[derive(Debug, Clone)]
pub struct ShownEvent {
    /// Name of the cluster of the delegate.
    pub cluster: Arc<str>,
    /// The event.
    pub event: DelegateEvent,
    /// Whether it is shown already, with another count.
    pub is_repeated: bool,
}

/// The plan for a pod.
#[derive(Debug)]
pub enum Plan {
    /// Write this status, if there is one, and then these events. They are reported to
    /// [`Mirror::status_written`] and [`Mirror::event_shown`].
    Show {
        /// Name of the pod.
        pod: PodKey,
        /// The status, as a merge patch.
        status: Option<Value>,
        /// Whether the status says that the agent does not answer.
        is_unreachable: bool,
        /// The events.
        events: Vec<ShownEvent>,
    },
    /// The delegate of a placement is not in the list of its agent. If the agent seals the commit,
    /// the pod is deleted, or placed anew.
    Missing {
        /// Name of the pod.
        pod: PodKey,
        /// The member.
        member: usize,
        /// The last try of the attempt, to be sealed.
        key: CommitKey,
        /// UID of the delegate.
        delegate: Arc<str>,
        /// Whether the pod is placed anew.
        is_replaceable: bool,
    },
    /// Delete a delegate that no original has.
    LeftOver {
        /// The member.
        member: usize,
        /// The delegate.
        delegate: Arc<Delegate>,
        /// Whether its original is not known. The API server has to confirm that it is gone.
        is_orphan: bool,
    },
    /// Evict the delegate: its cluster is drained, and the pod may be replaced.
    Evict {
        /// Name of the pod.
        pod: PodKey,
        /// The member.
        member: usize,
        /// UID of the delegate.
        delegate: Arc<str>,
    },
    /// The original is being deleted. Seal the attempts in these members and delete the delegates
    /// there. When none exists, remove the finalizer, unless clusters may be lost.
    Release {
        /// Name of the pod.
        pod: PodKey,
        /// The latest attempt.
        attempt: u32,
        /// The members.
        members: Vec<usize>,
        /// Clusters that may be lost, and the time without a renewal after which no delegate runs
        /// there.
        may_be_lost: Vec<(Arc<str>, Duration)>,
        /// `metadata.resourceVersion` of the pod.
        resource_version: u64,
        /// All finalizers of the pod.
        finalizers: Vec<String>,
    },
    /// A cluster that may run the pod is not a member any more, with a text for people.
    Stuck(String),
}

impl Mirror {
    /// Returns what this scheduler is to do about a pod now.
    pub(super) fn plan_of_duty(
        &mut self,
        uid: &Uid,
        roster: &impl Roster,
        now: Time,
        wall: Time,
    ) -> Option<Plan> {
        let plan = self.plan(uid, roster, wall);
        if let Some(original) = self.originals.get_mut(uid)
            && let Some(placement) = &original.pod.placement
            && let Some(member) = roster.named(&placement.cluster)
            && self.members[member].is_reachable
        {
            original.is_unreachable = false;
        }
        let Some(plan) = plan else {
            self.duty.done(uid);
            return None;
        };
        let original = self.originals.get(uid);
        let holder = original.and_then(|own| own.pod.intent.as_ref()).map(|own| &*own.scheduler);
        // The other scheduler may reach the agent. It corrects the status then, and is not
        // contradicted.
        let is_outage = matches!(plan, Plan::Show { is_unreachable: true, .. });
        let is_known = is_outage && original.is_some_and(|own| own.is_unreachable);
        let is_adopted = !is_outage && original.is_some_and(|own| own.is_adopted);
        match self.duty.turn(uid, holder, is_adopted, now) {
            Turn::Own => Some(plan),
            _ if is_known => None,
            Turn::Waits(until) => {
                self.timers.insert((until, uid.clone()));
                None
            }
            Turn::TakesOver => {
                if let Some(original) = self.originals.get_mut(uid) {
                    original.is_adopted = true;
                }
                Some(plan)
            }
        }
    }

    fn plan(&self, uid: &Uid, roster: &impl Roster, wall: Time) -> Option<Plan> {
        if let Some((member, delegate)) = self.left_over(uid) {
            let is_orphan = !self.originals.contains_key(uid);
            return Some(Plan::LeftOver { member, delegate, is_orphan });
        }
        let original = self.originals.get(uid)?;
        let pod = &original.pod.object.pod;
        if pod.terminating {
            return self.plan_release(uid, original, roster);
        }
        let Some(placement) = &original.pod.placement else { return plan_pending(original, wall) };
        let member = roster.named(&placement.cluster)?;
        let own = &self.members[member];
        let (key, committed) = (pod.key.clone(), &placement.committed);
        let is_replaceable = original.pod.placed_for().is_some();
        let delegate = own.delegates.get(uid).filter(|own| own.uid == committed.uid);
        let Some(delegate) = delegate else {
            // The attempt is over, so that its last number asks for the delegate that exists, if
            // there is one.
            let number = TryNumber::last_of(committed.key.number.attempt);
            let commit = CommitKey { pod: committed.key.pod.clone(), number };
            let is_missing = own.is_complete && own.is_reachable && !pod.terminal;
            let delegate = committed.uid.clone();
            let plan = Plan::Missing { pod: key, member, key: commit, delegate, is_replaceable };
            return is_missing.then_some(plan);
        };
        let leaves = roster.is_draining(member) && !delegate.terminating && !pod.terminal;
        if leaves && is_replaceable {
            return Some(Plan::Evict { pod: key, member, delegate: committed.uid.clone() });
        }
        let is_unreachable = !own.is_reachable;
        let mut status = status::of(delegate);
        if is_unreachable {
            status::set_unreachable(&mut status, &placement.cluster, wall);
        }
        let status = Some(status).filter(|status| !original.shows(status));
        let holder = original.pod.intent.as_ref().map(|intent| &intent.scheduler);
        let is_own = original.is_adopted || holder.is_none_or(|holder| self.duty.is(holder));
        // Which events another scheduler has shown is not known.
        let events = match is_own || status.is_some() {
            true => original.events_to_show(delegate, &placement.cluster),
            false => Vec::new(),
        };
        let is_shown = status.is_none() && events.is_empty();
        (!is_shown).then_some(Plan::Show { pod: key, status, is_unreachable, events })
    }

    /// Returns a delegate that the original does not have, and its member.
    pub(super) fn left_over(&self, uid: &Uid) -> Option<(usize, Arc<Delegate>)> {
        let original = self.originals.get(uid);
        let members = self.members.iter().enumerate();
        let mut listed = members.filter_map(|(ix, own)| Some((ix, own.delegates.get(uid)?)));
        let (member, delegate) = listed.find(|(_, delegate)| match original {
            // A pod that is being deleted is released in all its clusters.
            Some(original) if original.pod.object.pod.terminating => false,
            Some(original) => original.pod.is_left_over(&delegate.uid, delegate.number),
            None => self.is_synced && delegate.origin.as_ref() == Some(&self.origin),
        })?;
        Some((member, delegate.clone()))
    }

    pub(super) fn plan_release(
        &self,
        uid: &Uid,
        original: &Original,
        roster: &impl Roster,
    ) -> Option<Plan> {
        let finalizers = original.finalizers();
        if !finalizers.iter().any(|own| own == FINALIZER) {
            return None;
        }
        let OriginalPod { object, intent, placement, .. } = &original.pod;
        let placed = placement.as_ref().map(|placement| &placement.cluster);
        let intended = intent.iter().flat_map(|intent| &intent.clusters);
        let (mut members, mut may_be_lost) = (BTreeSet::new(), Vec::new());
        let named: BTreeSet<&Arc<str>> = intended.chain(placed).collect();
        let is_released =
            |name: &str| self.released.get(uid).is_some_and(|released| released.contains(name));
        for name in named.into_iter().filter(|name| !is_released(name)) {
            let member = roster.named(name);
            let answers = member.is_some_and(|member| self.members[member].is_reachable);
            let after = original.pod.gone_after(name);
            if let Some(after) = after.filter(|_| !answers) {
                may_be_lost.push((name.clone(), after));
            }
            match member {
                Some(member) => drop(members.insert(member)),
                None if after.is_some() => {}
                None => {
                    return Some(Plan::Stuck(format!(
                        "cluster {name:?} may run the pod and is no member: list it again, or remove the \
                         finalizer {FINALIZER} by hand"
                    )));
                }
            }
        }
        Some(Plan::Release {
            pod: object.pod.key.clone(),
            attempt: original.pod.latest_attempt(),
            members: members.into_iter().collect(),
            may_be_lost,
            resource_version: object.pod.resource_version,
            finalizers,
        })
    }
}

/// A pod that was taken out of a cluster is Pending again, until its next delegate has a status.
pub(super) fn plan_pending(original: &Original, wall: Time) -> Option<Plan> {
    let OriginalPod { object, intent, .. } = &original.pod;
    let phase = object.object.pointer("/status/phase").and_then(Value::as_str);
    let was_placed = intent.is_some() && phase.is_some_and(|phase| phase != "Pending");
    if !was_placed || object.pod.terminal {
        return None;
    }
    let status = status::pending(wall);
    if original.shows(&status) {
        return None;
    }
    let (pod, events) = (object.pod.key.clone(), Vec::new());
    Some(Plan::Show { pod, status: Some(status), is_unreachable: false, events })
}
