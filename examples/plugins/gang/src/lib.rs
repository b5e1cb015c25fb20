//! Gang: the pods of a group are bound together or not at all.
//!
//! An example of a Permit plugin, in the spirit of the coscheduling plugin of the Kubernetes scheduler
//! plugins. Two labels put a pod into a gang of its namespace:
//!
//! ```yaml
//! metadata:
//!   labels:
//!     gang.example.com/name: training-7
//!     gang.example.com/min-available: "3"
//! ```
//!
//! # How it works
//!
//! - **PreFilter** reads the labels. A pod outside any gang passes; a pod whose labels cannot be read is
//!   rejected until they change.
//! - **Permit** counts the members that have a node: bound, assumed, or waiting. Once they are enough,
//!   all go on. Until then the members wait, which keeps their room, for at most
//!   `permitWaitingTimeSeconds`. The first to wait brings the other members into the active queue, and
//!   is turned away at once where fewer members exist than the gang needs.
//! - **Unreserve** of a member that waited, because its time is over or because it was deleted, rejects
//!   the others that wait, so that no half gang keeps room.
//! - **Events** bring rejected members back: a member that some other way got a node, and a change of
//!   labels. In all other cases a member that finds room brings them back, from Permit.
//!
//! # What it does not do
//!
//! - It does not reject a gang that lacks members before Filter has run. The check is in Permit, where a
//!   member that finds a node brings the others back.
//! - It does not reject the waiting members as soon as one of them finds no node (as coscheduling does in
//!   PostFilter). The rejected ones would leave room that the next member finds at once, and so on, round
//!   and round without a pause; coscheduling needs a backoff per gang, hence a clock and a memory, to
//!   break that circle. Here the timeout ends it.
//! - It does not keep a gang that never fits from coming again: each time it keeps what room it finds for
//!   the waiting time, and others have to wait. A lower priority for such gangs limits the harm.
//! - It does not take back what is bound: a member whose bind fails after the gang was let go is
//!   retried alone.

mod membership;

use std::sync::Arc;
use std::time::Duration;

use framework::{
    ActionType, ClusterEvent, Command, Counter, CycleState, EventObjects, EventResource, Handle,
    Permit, PermitVerdict, Plugin, PluginArgs, Pod, PreFilter, PreFilterResult, QueueingHint,
    Registry, RegistryError, Reserve, Status, Time, Uid,
};
use serde::{Deserialize, Serialize};

pub use membership::{MIN_AVAILABLE, NAME_LABEL};

use membership::Membership;

/// Plugin name.
pub const NAME: &str = "Gang";

/// Longest wait in Permit, in seconds: the engine allows no more.
const WAITING_TIME_MAX: u64 = 15 * 60;

/// The arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GangArgs {
    /// How long a member waits for the others.
    pub permit_waiting_time_seconds: u64,
}

/// The plugin.
#[derive(Debug)]
pub struct Gang {
    timeout: Duration,
    given_up: Arc<Counter>,
}

/// Left in the cycle state by Permit when the pod has to wait.
#[derive(Debug, Clone, Copy)]
struct WaitsSince(Time);

impl Default for GangArgs {
    fn default() -> Self {
        Self { permit_waiting_time_seconds: 60 }
    }
}

/// Adds the plugin to `registry`.
///
/// # Errors
/// The name is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register(NAME, plugin)
}

/// Makes the plugin from [`GangArgs`].
///
/// # Errors
/// The arguments do not decode, or the waiting time is out of range.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let args: GangArgs = args.decode()?;
    let seconds = args.permit_waiting_time_seconds;
    if !(1..=WAITING_TIME_MAX).contains(&seconds) {
        return Err(format!(
            "permitWaitingTimeSeconds: must be from 1 to {WAITING_TIME_MAX}, got {seconds}"
        ));
    }
    let given_up = Counter::new(
        "gang_given_up_total",
        "Members that waited for their gang and were not bound.",
    );
    let gang = Gang { timeout: Duration::from_secs(seconds), given_up: given_up.clone() };
    let pods = ActionType::ADD | ActionType::UPDATE_POD_LABEL;
    Ok(Plugin::new(NAME, gang)
        .pre_filter()
        .reserve()
        .permit()
        .args(&args)
        .metric(&given_up)
        .on_with_hint(ClusterEvent::new(EventResource::Pod, pods), Gang::after_pod_change)
        .build())
}

impl Gang {
    /// Wakes a member when its own labels change, or when another member has a node now.
    fn after_pod_change(
        &self,
        pod: &Pod,
        objects: &EventObjects<'_>,
        _handle: &Handle<'_>,
    ) -> Result<QueueingHint, String> {
        let (_, Some(new)) = objects.pods()? else { return Ok(QueueingHint::Skip) };
        let is_placed_sibling = || {
            let own = Membership::of(pod).ok().flatten();
            new.node_name.is_some() && own.is_some_and(|own| own.includes(new))
        };
        Ok(QueueingHint::queue_if(new.uid == pod.uid || is_placed_sibling()))
    }
}

impl PreFilter for Gang {
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &Pod,
        _handle: &Handle<'_>,
    ) -> Result<PreFilterResult, Status> {
        match Membership::of(pod) {
            Ok(None) => Err(Status::skip()),
            Ok(Some(membership)) => {
                state.write(membership);
                Ok(PreFilterResult::default())
            }
            Err(fault) => Err(Status::unresolvable(fault)),
        }
    }
}

impl Permit for Gang {
    fn permit(
        &self,
        state: &mut CycleState,
        _pod: &Pod,
        _node: &str,
        handle: &Handle<'_>,
    ) -> PermitVerdict {
        let Some(own) = state.read::<Membership>() else { return PermitVerdict::Allow };
        let waiting = own.waiting(handle);
        let placed = own.placed(handle.cluster);
        if placed.len() >= own.min_available {
            waiting.into_iter().for_each(|member| handle.command(allow(member)));
            return PermitVerdict::Allow;
        }
        if waiting.is_empty() {
            let others = own.unplaced(&placed, handle);
            let existing = placed.len() + others.len();
            if existing < own.min_available {
                return PermitVerdict::Reject(Status::unschedulable(own.lacks_members(existing)));
            }
            handle.command(Command::Activate(others));
        }
        let reason = own.lacks_nodes(placed.len());
        state.write(WaitsSince(handle.now));
        PermitVerdict::Wait { timeout: self.timeout, reason }
    }
}

impl Reserve for Gang {
    fn reserve(&self, _: &mut CycleState, _: &Pod, _: &str, _: &Handle<'_>) -> Status {
        Status::success()
    }

    /// Rejects the other waiting members when this one waited and gave up.
    ///
    /// A member that fails in the very call in which it began to wait, because another plugin rejects
    /// it, takes nobody along: the others may still become enough without it, and if it did, members
    /// that activate and reject one another could go on forever at one point in time.
    fn unreserve(&self, state: &mut CycleState, pod: &Pod, _: &str, handle: &Handle<'_>) {
        let waited = state.read().is_some_and(|WaitsSince(since)| *since < handle.now);
        let Some(own) = state.read::<Membership>().filter(|_| waited) else { return };
        self.given_up.inc();
        for member in own.waiting(handle) {
            handle.command(reject(member, own.abandoned_by(pod)));
        }
    }
}

fn allow(pod: Uid) -> Command {
    Command::Allow { pod, plugin: NAME.into() }
}

fn reject(pod: Uid, message: String) -> Command {
    Command::Reject { pod, plugin: NAME.into(), message }
}

#[cfg(test)]
mod tests;
