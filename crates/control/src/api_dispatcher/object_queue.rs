//! The queue of API calls on one object.

use std::collections::VecDeque;

use framework::Uid;

use super::api_call::{ApiCall, Operation};
use super::measure::{CallState, CallType};

/// The API calls on one object in the order in which they run. Only the first call is sent; the
/// others wait until it has finished.
#[derive(Debug, Default)]
pub(super) struct ObjectQueue {
    calls: VecDeque<ApiCall>,
    /// Whether a request of the first call is in flight.
    in_flight: bool,
}

impl ObjectQueue {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns the first call, unless a request of it is in flight.
    pub(super) fn waiting(&self) -> Option<&ApiCall> {
        self.calls.front().filter(|_| !self.in_flight)
    }

    /// Adds a call. A status patch is merged into a status patch before it. A bind replaces the
    /// waiting status patches of its pod, because the API server sets the condition and clears the
    /// nomination of a pod that it binds.
    pub(super) fn push(&mut self, call: ApiCall) {
        if let Operation::Bind { binding, .. } | Operation::ExtenderBind { binding, .. } =
            &call.operation
        {
            self.drop_status_patches(&binding.uid);
        }
        if let Some(call) = self.merge(call) {
            // Most objects have one call at a time, and many objects may have one.
            self.calls.reserve_exact(1);
            self.calls.push_back(call);
        }
    }

    /// Returns whether the first call is a status patch and a bind of the same pod waits behind it.
    /// The API server sets the condition when it binds the pod, so the patch is not retried.
    pub(super) fn is_overtaken(&self) -> bool {
        let mut operations = self.calls.iter().map(|call| &call.operation);
        let Some(Operation::PatchPodStatus(patch)) = operations.next() else { return false };
        operations.any(|operation| match operation {
            Operation::Bind { binding, .. } | Operation::ExtenderBind { binding, .. } => {
                binding.uid == patch.uid
            }
            _ => false,
        })
    }

    fn drop_status_patches(&mut self, pod: &Uid) {
        let in_flight = usize::from(self.in_flight);
        let mut index = 0;
        self.calls.retain(|call| {
            let is_in_flight = index < in_flight;
            index += 1;
            is_in_flight
                || !matches!(&call.operation, Operation::PatchPodStatus(patch) if patch.uid == *pod)
        });
    }

    /// Merges the call into the last one. Returns it if that is not possible.
    fn merge(&mut self, call: ApiCall) -> Option<ApiCall> {
        let last_is_in_flight = self.in_flight && self.calls.len() == 1;
        match self.calls.back_mut().filter(|_| !last_is_in_flight) {
            Some(last) => last.merge(call),
            None => Some(call),
        }
    }

    /// Returns the first call for changes, unless a request of it is in flight.
    pub(super) fn waiting_mut(&mut self) -> Option<&mut ApiCall> {
        self.calls.front_mut().filter(|_| !self.in_flight)
    }

    /// Returns every call with its state.
    pub(super) fn states(&self) -> impl Iterator<Item = (CallType, CallState)> {
        let in_flight = usize::from(self.in_flight);
        self.calls.iter().enumerate().map(move |(index, call)| match index < in_flight {
            true => (call.call_type(), CallState::InFlight),
            false => (call.call_type(), call.state()),
        })
    }

    /// Marks the first call as in flight and returns it.
    pub(super) fn start_first(&mut self) -> Option<&mut ApiCall> {
        self.in_flight = true;
        self.calls.front_mut()
    }

    /// Marks the first call as not in flight and returns it.
    pub(super) fn first_mut(&mut self) -> Option<&mut ApiCall> {
        self.in_flight = false;
        self.calls.front_mut()
    }

    /// Removes the first call.
    pub(super) fn pop(&mut self) -> Option<ApiCall> {
        self.calls.pop_front()
    }

    /// Drops all calls but the one in flight.
    pub(super) fn drop_waiting(&mut self) {
        self.calls.truncate(usize::from(self.in_flight));
    }
}
