//! The calls that can be sent, by the part of the cluster that they depend on.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::EffectId;
use framework::Time;

use super::flow::Flow;
use super::object_key::ObjectKey;
use crate::request::RequestId;

/// Time without an answer after which a flow is slow. A healthy API server answers a write within
/// a few milliseconds, and a busy one within a fraction of a second.
const SLOW: Duration = Duration::from_millis(500);

/// Maximum number of requests in flight to one extender. Each takes a connection of its own.
const MAX_IN_FLIGHT_TO_EXTENDER: usize = 64;

/// The order in which ready calls are sent: by the time of their turn, then by age.
pub(super) type SendOrder = (Time, EffectId);

/// The calls that can be sent and the requests in flight, by flow.
///
/// A flow gets another slot if it uses at most as many as are free. One namespace whose requests
/// hang therefore takes half of the slots, two take two thirds, and other namespaces always find
/// free ones.
#[derive(Debug, Default)]
pub(super) struct ReadyCalls {
    flows: BTreeMap<Flow, FlowCalls>,
    /// The first ready call of each flow of objects.
    heads: BTreeMap<SendOrder, Flow>,
    /// The first ready call of each extender.
    extender_heads: BTreeMap<SendOrder, Flow>,
    /// Number of ready calls.
    len: usize,
}

#[derive(Debug, Default)]
struct FlowCalls {
    ready: BTreeMap<SendOrder, ObjectKey>,
    /// The requests in flight, oldest first, and when they were sent.
    in_flight: BTreeMap<RequestId, Time>,
    /// Whether the last answer was slow, or the oldest request has no answer for too long.
    is_slow: bool,
}

impl FlowCalls {
    /// Returns the time from which the flow is slow unless an answer arrives; `None` if it is slow
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
    pub(super) fn insert(&mut self, flow: Flow, order: SendOrder, object: ObjectKey) {
        self.change(flow, |calls| calls.ready.insert(order, object));
    }

    /// Removes the first call of an object.
    pub(super) fn remove(&mut self, flow: &Flow, order: SendOrder) {
        self.change(flow.clone(), |calls| calls.ready.remove(&order));
    }

    /// Removes all ready calls.
    pub(super) fn clear(&mut self) {
        self.heads.clear();
        self.extender_heads.clear();
        self.len = 0;
        self.flows.retain(|_, calls| {
            calls.ready.clear();
            !calls.in_flight.is_empty()
        });
    }

    /// Returns whether the share of some flow of objects admits another request while `free` slots
    /// are free.
    pub(super) fn has_sendable(&self, free: usize) -> bool {
        self.first_sendable(free).is_some()
    }

    /// Removes and returns the next call to the API server that its share admits.
    pub(super) fn pop(&mut self, free: usize) -> Option<(Flow, ObjectKey)> {
        let (order, flow) = self.first_sendable(free)?;
        let (order, flow) = (*order, flow.clone());
        let object = self.change(flow.clone(), |calls| calls.ready.remove(&order))?;
        Some((flow, object))
    }

    /// Removes and returns the next call to an extender.
    pub(super) fn pop_of_extender(&mut self) -> Option<(Flow, ObjectKey)> {
        let mut heads = self.extender_heads.iter();
        let (order, flow) =
            heads.find(|(_, flow)| self.in_flight(flow) < MAX_IN_FLIGHT_TO_EXTENDER)?;
        let (order, flow) = (*order, flow.clone());
        let object = self.change(flow.clone(), |calls| calls.ready.remove(&order))?;
        Some((flow, object))
    }

    /// Records a request that is sent.
    pub(super) fn sent(&mut self, flow: &Flow, request: RequestId, now: Time) {
        self.flows.entry(flow.clone()).or_default().in_flight.insert(request, now);
    }

    /// Records the answer to a request.
    pub(super) fn answered(&mut self, flow: &Flow, request: RequestId, now: Time) {
        self.change(flow.clone(), |calls| {
            let sent = calls.in_flight.remove(&request);
            calls.is_slow = sent.is_some_and(|sent| now.since(sent) >= SLOW);
        });
    }

    /// Returns the number of calls that wait for the API server. Calls of slow flows wait for
    /// something else, such as a webhook that hangs. Looks at every flow.
    pub(super) fn backlog(&self) -> usize {
        let flows = self.flows.values().filter(|calls| !calls.is_slow);
        flows.map(|calls| calls.ready.len()).sum()
    }

    /// Notes the flows whose oldest request has had no answer for too long. Looks at every flow.
    pub(super) fn mark_slow(&mut self, now: Time) {
        for calls in self.flows.values_mut() {
            calls.is_slow |= calls.slow_from().is_some_and(|from| from <= now);
        }
    }

    /// Returns the time at which [`mark_slow`](Self::mark_slow) has work to do next. Looks at every
    /// flow.
    pub(super) fn next_slow(&self) -> Option<Time> {
        self.flows.values().filter_map(FlowCalls::slow_from).min()
    }

    fn in_flight(&self, flow: &Flow) -> usize {
        self.flows.get(flow).map_or(0, |calls| calls.in_flight.len())
    }

    /// Only flows with many requests in flight are passed over, so the search is short.
    fn first_sendable(&self, free: usize) -> Option<(&SendOrder, &Flow)> {
        self.heads.iter().find(|(_, flow)| self.in_flight(flow) <= free)
    }

    /// Changes a flow, and keeps its head and the number of ready calls up to date. Forgets a
    /// flow without calls.
    fn change<T>(&mut self, flow: Flow, change: impl FnOnce(&mut FlowCalls) -> T) -> T {
        let heads = match flow {
            Flow::Objects { .. } => &mut self.heads,
            Flow::Extender(_) => &mut self.extender_heads,
        };
        let calls = self.flows.entry(flow.clone()).or_default();
        let (head, len) = (calls.ready.keys().next().copied(), calls.ready.len());
        let result = change(calls);
        self.len = self.len + calls.ready.len() - len;
        let new_head = calls.ready.keys().next().copied();
        let is_empty = calls.ready.is_empty() && calls.in_flight.is_empty();
        if head != new_head {
            head.map(|head| heads.remove(&head));
            new_head.map(|head| heads.insert(head, flow.clone()));
        }
        if is_empty {
            self.flows.remove(&flow);
        }
        result
    }
}
