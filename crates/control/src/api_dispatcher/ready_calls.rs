//! The calls that can be sent, by the part of the cluster that they depend on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::EffectId;
use framework::Time;

use super::object_key::ObjectKey;
use crate::request::RequestId;

/// Time without an answer after which a group is slow. A healthy API server answers a write within
/// a few milliseconds, and a busy one within a fraction of a second.
const SLOW: Duration = Duration::from_millis(500);

/// Maximum number of requests in flight to one extender. Each takes a connection of its own.
const MAX_IN_FLIGHT_TO_EXTENDER: usize = 64;

/// The order in which ready calls are sent: by the time of their turn, then by age.
pub(super) type SendOrder = (Time, EffectId);

/// Calls that succeed or fail together: the admission webhooks, quotas and permissions that concern
/// one call of a group concern the others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Writes of one resource in one namespace; the namespace is empty for cluster-scoped objects.
    /// Patches of the status of pods are a part of their own, and plugins divide their writes
    /// further ([`Write::group`](framework::Write)), such as volumes by their class.
    Objects { resource: Arc<str>, namespace: Arc<str>, part: Arc<str> },
    /// Calls of the extender with this index.
    Extender(usize),
}

/// The calls that can be sent and the requests in flight, by group.
///
/// A group gets another slot if it uses at most as many as are free. One namespace whose requests
/// hang therefore takes half of the slots, two take two thirds, and other namespaces always find
/// free ones.
#[derive(Debug, Default)]
pub(super) struct ReadyCalls {
    groups: BTreeMap<Group, GroupCalls>,
    /// The first ready call of each group of objects.
    heads: BTreeMap<SendOrder, Group>,
    /// The first ready call of each extender.
    extender_heads: BTreeMap<SendOrder, Group>,
    /// Number of ready calls.
    len: usize,
}

#[derive(Debug, Default)]
struct GroupCalls {
    ready: BTreeMap<SendOrder, ObjectKey>,
    /// The requests in flight, oldest first, and when they were sent.
    in_flight: BTreeMap<RequestId, Time>,
    /// Whether the last answer was slow, or the oldest request has no answer for too long.
    is_slow: bool,
}

impl GroupCalls {
    /// Returns the time from which the group is slow unless an answer arrives; `None` if it is slow
    /// already.
    fn slow_from(&self) -> Option<Time> {
        let oldest = self.in_flight.values().next().filter(|_| !self.is_slow);
        oldest.map(|sent| *sent + SLOW)
    }
}

impl ReadyCalls {
    /// Returns the number of ready calls.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds the first call of an object.
    pub(super) fn insert(&mut self, group: Group, order: SendOrder, object: ObjectKey) {
        self.change(group, |calls| calls.ready.insert(order, object));
    }

    /// Removes the first call of an object.
    pub(super) fn remove(&mut self, group: &Group, order: SendOrder) {
        self.change(group.clone(), |calls| calls.ready.remove(&order));
    }

    /// Removes all ready calls.
    pub(super) fn clear(&mut self) {
        self.heads.clear();
        self.extender_heads.clear();
        self.len = 0;
        self.groups.retain(|_, calls| {
            calls.ready.clear();
            !calls.in_flight.is_empty()
        });
    }

    /// Returns whether the share of some group of objects admits another request while `free` slots
    /// are free.
    pub(super) fn has_sendable(&self, free: usize) -> bool {
        self.first_sendable(free).is_some()
    }

    /// Removes and returns the next call to the API server that its share admits.
    pub(super) fn pop(&mut self, free: usize) -> Option<(Group, ObjectKey)> {
        let (order, group) = self.first_sendable(free)?;
        let (order, group) = (*order, group.clone());
        let object = self.change(group.clone(), |calls| calls.ready.remove(&order))?;
        Some((group, object))
    }

    /// Removes and returns the next call to an extender.
    pub(super) fn pop_of_extender(&mut self) -> Option<(Group, ObjectKey)> {
        let mut heads = self.extender_heads.iter();
        let (order, group) =
            heads.find(|(_, group)| self.in_flight(group) < MAX_IN_FLIGHT_TO_EXTENDER)?;
        let (order, group) = (*order, group.clone());
        let object = self.change(group.clone(), |calls| calls.ready.remove(&order))?;
        Some((group, object))
    }

    /// Records a request that is sent.
    pub(super) fn sent(&mut self, group: &Group, request: RequestId, now: Time) {
        self.groups.entry(group.clone()).or_default().in_flight.insert(request, now);
    }

    /// Records the answer to a request.
    pub(super) fn answered(&mut self, group: &Group, request: RequestId, now: Time) {
        self.change(group.clone(), |calls| {
            let sent = calls.in_flight.remove(&request);
            calls.is_slow = sent.is_some_and(|sent| now.since(sent) >= SLOW);
        });
    }

    /// Returns the number of calls that wait for the API server. Calls of slow groups wait for
    /// something else, such as a webhook that hangs. Looks at every group.
    pub(super) fn backlog(&self) -> usize {
        let groups = self.groups.values().filter(|calls| !calls.is_slow);
        groups.map(|calls| calls.ready.len()).sum()
    }

    /// Notes the groups whose oldest request has had no answer for too long. Looks at every group.
    pub(super) fn mark_slow(&mut self, now: Time) {
        for calls in self.groups.values_mut() {
            calls.is_slow |= calls.slow_from().is_some_and(|from| from <= now);
        }
    }

    /// Returns the time at which [`mark_slow`](Self::mark_slow) has work to do next. Looks at every
    /// group.
    pub(super) fn next_slow(&self) -> Option<Time> {
        self.groups.values().filter_map(GroupCalls::slow_from).min()
    }

    fn in_flight(&self, group: &Group) -> usize {
        self.groups.get(group).map_or(0, |calls| calls.in_flight.len())
    }

    /// Only groups with many requests in flight are passed over, so the search is short.
    fn first_sendable(&self, free: usize) -> Option<(&SendOrder, &Group)> {
        self.heads.iter().find(|(_, group)| self.in_flight(group) <= free)
    }

    /// Changes a group, and keeps its head and the number of ready calls up to date. Forgets a
    /// group without calls.
    fn change<T>(&mut self, group: Group, change: impl FnOnce(&mut GroupCalls) -> T) -> T {
        let heads = match group {
            Group::Objects { .. } => &mut self.heads,
            Group::Extender(_) => &mut self.extender_heads,
        };
        let calls = self.groups.entry(group.clone()).or_default();
        let (head, len) = (calls.ready.keys().next().copied(), calls.ready.len());
        let result = change(calls);
        self.len = self.len + calls.ready.len() - len;
        let new_head = calls.ready.keys().next().copied();
        let is_empty = calls.ready.is_empty() && calls.in_flight.is_empty();
        if head != new_head {
            head.map(|head| heads.remove(&head));
            new_head.map(|head| heads.insert(head, group.clone()));
        }
        if is_empty {
            self.groups.remove(&group);
        }
        result
    }
}
