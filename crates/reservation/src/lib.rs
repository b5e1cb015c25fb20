//! The plugins RoomReservation and MakeRoom: room is held for the pod or group that has waited
//! longest, and pods are moved so that a pod fits.
//!
//! The engine chooses the nodes ([`HoldPolicy`], [`MovePolicy`](framework::MovePolicy)); the
//! cluster has them ([`Cluster::holds`]); the plugins keep other pods off them, unless they end in
//! time or the holder may evict them.
//!
//! [`Cluster::holds`]: framework::Cluster::holds

mod make_room;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use framework::{
    Attempt, AttemptMut, Dependence, Filter, FilterScope, HoldPolicy, NodeBits, NodeView, Plugin,
    PluginArgs, PluginBuilder, PreFilter, PreFilterResult, Registry, Status, run_time,
};
use serde::{Deserialize, Serialize};

pub use self::make_room::MakeRoomArgs;

/// Name of the plugin that holds room.
pub const NAME: &str = "RoomReservation";
/// The reason in the condition of a pod that only held room rejects. Autoscalers add no node for
/// it, since it has room when the hold ends.
const REASON: &str = "RoomReserved";

const HELD: &str = "node(s) held for a pod or group that has waited longer";
/// Maximum of `maxReservations`.
const MOST: usize = 16;

/// The arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RoomReservationArgs {
    /// Seconds from the first attempt of a pod or group until room is reserved for it.
    pub after_seconds: u64,
    /// Maximum number of pods and groups for which room is reserved at a time.
    pub max_reservations: usize,
    /// Maximum share of the nodes that is reserved. One node may always be.
    pub max_percent_of_nodes: usize,
    /// Seconds after which a reservation ends, whether or not its pods have started.
    pub expires_after_seconds: u64,
    /// Seconds for which the room of a lost pod of a group is reserved for its replacement.
    pub lost_pod_seconds: u64,
}

impl Default for RoomReservationArgs {
    fn default() -> Self {
        Self {
            after_seconds: 300,
            max_reservations: 1,
            max_percent_of_nodes: 10,
            expires_after_seconds: 6 * 3600,
            lost_pod_seconds: 60,
        }
    }
}

impl RoomReservationArgs {
    fn policy(&self) -> Result<HoldPolicy, String> {
        Ok(HoldPolicy {
            after: Duration::from_secs(self.after_seconds),
            most: in_range("maxReservations", self.max_reservations, MOST)?,
            percent_of_nodes: in_range("maxPercentOfNodes", self.max_percent_of_nodes, 100)?,
            expires_after: Duration::from_secs(self.expires_after_seconds.max(1)),
            replaced_within: Duration::from_secs(self.lost_pod_seconds),
        })
    }
}

/// Returns the value of a field from 1 to `most`.
fn in_range<T: Copy + PartialOrd + fmt::Display + From<u8>>(
    field: &str,
    value: T,
    most: T,
) -> Result<T, String> {
    match (T::from(1)..=most).contains(&value) {
        true => Ok(value),
        false => Err(format!("{field}: Invalid value: {value}: must be from 1 to {most}")),
    }
}

/// Registers the plugins whose names are free.
pub fn add_to(registry: &mut Registry) {
    type Make = fn(&PluginArgs) -> Result<Plugin, String>;
    for (name, make) in [(NAME, plugin as Make), (make_room::NAME, make_room)] {
        if registry.get(name).is_none() {
            registry.register(name, make).expect("the name is free");
        }
    }
}

/// Makes the plugin MakeRoom from [`MakeRoomArgs`].
///
/// # Errors
/// The arguments do not decode, or one is out of range.
pub fn make_room(args: &PluginArgs) -> Result<Plugin, String> {
    let args = args.decode::<MakeRoomArgs>()?;
    Ok(keeping_off(make_room::NAME).args(&args).makes_room(args.policy()?).build())
}

/// Makes the plugin RoomReservation from [`RoomReservationArgs`].
///
/// # Errors
/// The arguments do not decode, or one is out of range.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let args = args.decode::<RoomReservationArgs>()?;
    Ok(keeping_off(NAME).args(&args).holds_room(args.policy()?).build())
}

/// Begins a plugin that keeps pods off room that is held for others.
fn keeping_off(name: &str) -> PluginBuilder<KeepOff> {
    // The engine activates the pods that it rejects when room is released.
    Plugin::new(name, KeepOff).pre_filter().filter().no_events().rejects_as(REASON)
}

#[derive(Debug)]
struct KeepOff;

/// The nodes that an attempt has to keep off.
#[derive(Debug, Clone)]
struct KeptOff {
    nodes: NodeBits,
    /// A number that differs if these nodes may.
    as_of: u64,
}

impl PreFilter for KeepOff {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let AttemptMut { state, pod, handle, .. } = attempt;
        let holds = handle.cluster.holds();
        if holds.is_empty() {
            return Err(Status::skip());
        }
        let ends = run_time(pod).map(|run_time| handle.wall_time() + run_time);
        let (mut nodes, mut as_of) = (NodeBits::default(), DefaultHasher::new());
        holds.revision().hash(&mut as_of);
        let refusing = holds.iter().enumerate().filter(|(_, hold)| !hold.admits(pod, ends));
        for (place, hold) in refusing {
            nodes.union(&hold.nodes);
            place.hash(&mut as_of);
        }
        if nodes.is_empty() {
            return Err(Status::skip());
        }
        state.write(KeptOff { nodes, as_of: as_of.finish() });
        Ok(PreFilterResult::default())
    }
}

impl Filter for KeepOff {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let off = attempt.state.read::<KeptOff>();
        match off.is_some_and(|off| off.nodes.contains(node.ix())) {
            true => Status::unresolvable(HELD),
            false => Status::success(),
        }
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let off = attempt.state.read::<KeptOff>();
        off.into_iter().for_each(|off| nodes.subtract(&off.nodes));
        Ok(())
    }

    fn dependence(&self, attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let as_of = attempt.state.read::<KeptOff>().map_or(0, |off| off.as_of);
        Some(Dependence::on(FilterScope::NodeAsOf(as_of)).without_pods())
    }

    fn only_rejection(&self) -> Option<Status> {
        Some(Status::unresolvable(HELD))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use framework::{Hold, Holder, NodeIx, PodGroupKey, Purpose, Time};
    use serde_json::json;
    use testkit::{cluster, node, pod};

    use super::*;

    #[test]
    fn arguments_have_ranges() {
        let moving = |args| make_room(&PluginArgs::new(args)).map(|made| made.makes_room.unwrap());
        let policy = moving(json!({"maxMovesPerPlan": 3, "highestPriority": -1})).unwrap();
        assert_eq!((policy.most, policy.highest_priority), (3, -1));
        let error = moving(json!({"maxMovesPerPlan": 101})).unwrap_err();
        assert_eq!(error, "maxMovesPerPlan: Invalid value: 101: must be from 1 to 100");
        assert!(moving(json!({"moveTimeoutSeconds": 0})).is_err());
        assert!(moving(json!({"maxMoves": 3})).is_err());
        let made = |args| plugin(&PluginArgs::new(args)).map(|made| made.holds_room.unwrap());
        let policy = made(json!({"afterSeconds": 60})).unwrap();
        assert_eq!((policy.after, policy.most), (Duration::from_secs(60), 1));
        let error = made(json!({"maxReservations": 17})).unwrap_err();
        assert_eq!(error, "maxReservations: Invalid value: 17: must be from 1 to 16");
        assert!(made(json!({"maxPercentOfNodes": 0})).is_err());
        assert!(made(json!({"percent": 5})).is_err());
    }

    /// Rooms of lost pods have no limit: a zone that fails takes pods of many groups.
    #[test]
    fn pods_are_told_apart_by_the_holds_that_refuse_them_however_many_there_are() {
        let mut cluster = cluster([node("a").build()], []);
        for number in 0..200 {
            cluster.hold(Hold {
                holder: Holder::Group(PodGroupKey::new("default", &format!("g{number}"))),
                purpose: Purpose::Replacement(2),
                scheduler_name: "s".into(),
                priority: 0,
                may_preempt: false,
                nodes: [NodeIx::new(0)].into_iter().collect(),
                since: Time::ZERO,
                start: None,
                expires: Time::from_secs(100),
            });
        }
        let handle = testkit::handle(&cluster);
        let as_of = |pod: framework::Pod| {
            let mut state = framework::CycleState::new();
            KeepOff.pre_filter(AttemptMut::new(&mut state, &pod, &handle)).unwrap();
            state.read::<KeptOff>().unwrap().as_of
        };
        let member = |number: usize| pod("p").scheduling_group(&format!("g{number}")).build();
        let numbers: BTreeSet<u64> = (0..200).map(|number| as_of(member(number))).collect();
        assert_eq!(numbers.len(), 200);
        assert_eq!(as_of(member(7)), as_of(member(7)));
    }

    #[test]
    fn both_forms_reject_the_nodes_that_are_held_for_another_pod() {
        let mut cluster = cluster(["a", "b", "c"].map(|name| node(name).build()), []);
        let holder = pod("large").build();
        cluster.hold(Hold {
            holder: Holder::Pod(holder.key.clone(), holder.uid.clone()),
            purpose: Purpose::Start,
            scheduler_name: "s".into(),
            priority: 0,
            may_preempt: true,
            nodes: [NodeIx::new(1)].into_iter().collect(),
            since: Time::ZERO,
            start: None,
            expires: Time::from_secs(100),
        });
        let handle = testkit::handle(&cluster);
        let passing = |pod: &framework::Pod| {
            let mut state = framework::CycleState::new();
            let prepared = KeepOff.pre_filter(AttemptMut::new(&mut state, pod, &handle));
            let attempt = Attempt::new(&state, pod, &handle);
            let mut nodes = cluster.nodes().clone();
            KeepOff.filter_set(&attempt, &mut nodes).unwrap();
            for ix in cluster.nodes().iter() {
                let one = KeepOff.filter(&attempt, &cluster.node(ix)).is_success();
                assert_eq!(one, nodes.contains(ix));
            }
            assert_eq!(prepared.is_err(), nodes.count() == 3, "it skips the filter if all pass");
            nodes.count()
        };
        assert_eq!(passing(&holder), 3);
        assert_eq!(passing(&pod("other").build()), 2);
        assert_eq!(passing(&pod("higher").priority(1).build()), 3);
        assert_eq!(passing(&pod("evictable").priority(-1).build()), 3);
        cluster.release(&Holder::Pod(holder.key.clone(), holder.uid.clone()));
        assert_eq!(cluster.holds().revision(), 2);
    }
}
