//! Gang: binds all pods of a group or none.
//!
//! This example of a Permit plugin resembles Coscheduling of sigs.k8s.io/scheduler-plugins. Two
//! labels put a pod into a gang of its namespace:
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
//! - **PreFilter** reads the labels. It passes pods outside any gang, and rejects pods with invalid
//!   labels until the labels change.
//! - **Permit** counts the members that have a node: bound, assumed or waiting. Once there are
//!   enough, Permit allows all of them. Until then the members wait and keep their room, for at
//!   most `permitWaitingTimeSeconds`. The first waiting member activates the other members. If the
//!   gang has too few members, Permit rejects it at once.
//! - **Unreserve** runs for a waiting member after a timeout or its deletion. It rejects the other
//!   waiting members, so that an incomplete gang keeps no room.
//! - **Queueing hints** requeue a rejected member when another member gets a node or its own labels
//!   change. In other cases Permit activates it when a member finds room.
//!
//! # Limits
//!
//! - The plugin does not reject a gang without enough members before Filter has run. Permit makes
//!   the check, because Permit activates the other members.
//! - The plugin does not reject the waiting members as soon as one member finds no node, as
//!   Coscheduling does in PostFilter. The rejected members would free room that the next member
//!   takes at once, in an endless loop. Coscheduling breaks that loop with a backoff per gang; this
//!   example relies on the timeout.
//! - The plugin does not stop a gang that never fits from being retried. Each attempt keeps its
//!   room for the waiting time, and other pods have to wait. A lower priority of such gangs limits
//!   the effect.
//! - The plugin does not undo a binding. If the bind of an allowed member fails, that member is
//!   retried alone.

mod membership;

use std::sync::Arc;
use std::time::Duration;

use framework::{
    ActionType, AttemptMut, ClusterEvent, Command, Counter, EventObjects, EventResource, Handle,
    Permit, PermitVerdict, Plugin, PluginArgs, Pod, PreFilter, PreFilterResult, QueueingHint,
    Registry, RegistryError, Reserve, Status, Time, Uid,
};
use serde::{Deserialize, Serialize};

pub use membership::{MIN_AVAILABLE, NAME_LABEL};

use membership::Membership;

/// Plugin name.
pub const NAME: &str = "Gang";

/// Longest wait in Permit, in seconds. The engine allows no more.
const WAITING_TIME_MAX: u64 = 15 * 60;

/// The arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GangArgs {
    /// Seconds that a member waits for the others.
    pub permit_waiting_time_seconds: u64,
}

/// The Gang plugin.
#[derive(Debug)]
pub struct Gang {
    timeout: Duration,
    given_up: Arc<Counter>,
}

/// The cycle state of Permit for a pod that waits: the start of the wait.
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
/// Returns an error if the name is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register(NAME, plugin)
}

/// Makes the plugin from [`GangArgs`].
///
/// # Errors
/// Returns an error if the arguments do not decode or the waiting time is out of range.
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
        .schedules_groups()
        .args(&args)
        .metric(&given_up)
        .on_with_hint(ClusterEvent::new(EventResource::Pod, pods), Gang::after_pod_change)
        .build())
}

impl Gang {
    /// Requeues a member if its own labels change, or if another member gets a node.
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
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        match Membership::of(attempt.pod) {
            Ok(None) => Err(Status::skip()),
            Ok(Some(membership)) => {
                attempt.state.write(membership);
                Ok(PreFilterResult::default())
            }
            Err(fault) => Err(Status::unresolvable(fault)),
        }
    }
}

impl Permit for Gang {
    fn permit(&self, attempt: AttemptMut<'_>, _node: &str) -> PermitVerdict {
        let AttemptMut { state, handle, .. } = attempt;
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
    fn reserve(&self, _: AttemptMut<'_>, _: &str) -> Status {
        Status::success()
    }

    /// Rejects the other waiting members if this member waited and failed.
    ///
    /// A member may fail in the same call in which it starts to wait, because another plugin
    /// rejects it. Such a member rejects no others, because the gang may still complete without it.
    /// Otherwise, members could activate and reject each other forever at one point in time.
    fn unreserve(&self, attempt: AttemptMut<'_>, _: &str) {
        let AttemptMut { state, pod, handle, .. } = attempt;
        let waited = state.read().is_some_and(|WaitsSince(since)| *since < handle.now);
        let Some(own) = state.read::<Membership>().filter(|_| waited) else { return };
        self.given_up.inc();
        for member in own.waiting(handle) {
            handle.command(reject(member, own.failed_with(pod)));
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
