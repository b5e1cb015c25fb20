//! Decisions about PodGroups (`schedule_one_podgroup.go` in kube-scheduler).
//!
//! [`decide`] places the members one by one inside a savepoint, so that each sees the ones before
//! it. If the group is to be in one of several placements, such as racks, `placement` tries them:
//! `domains` has the nodes of each rack, `bounds` how many members fit there at most, and `layout`
//! divides the members among several of them.
//! If enough members fit, the savepoint is kept, and
//! [`Attempts::bind_group`](crate::attempts::Attempts::bind_group) starts their binding cycles.
//! A group that does not fit in the order of the queue is tried in `other_orders`, within the
//! `search_budget`. Otherwise everything is as before, and [`make_room`] runs the
//! PodGroupPostFilter plugins.

mod backtracking;
mod bounds;
mod condition;
mod decision;
mod domains;
mod layout;
mod missing;
mod other_orders;
mod placement;
mod placement_scores;
mod preemption;
mod reports;
mod rooms;
mod search_budget;
mod statuses;
mod validation;

pub(crate) use self::bounds::{BoundedGroup, KnownPlacements};
pub(crate) use self::condition::{condition, scheduled};
pub(crate) use self::decision::{
    MemberDecision, Orders, PodGroupDecision, PodGroupQuestion, decide, find,
};
pub(crate) use self::missing::{missing_nodes, over_quota};
pub use self::placement::LevelProspects;
pub(crate) use self::placement::{bounded_levels, bounded_placements};
pub(crate) use self::preemption::make_room;
pub(crate) use self::reports::GroupReports;
pub use self::search_budget::GroupSearch;
pub(crate) use self::search_budget::SearchBudget;
pub(crate) use self::statuses::GroupStatuses;
pub(crate) use self::validation::{InCommon, check_members};

/// The first reason of the status of a group that is rejected.
pub(crate) const UNSCHEDULABLE: &str = "pod group is unschedulable";
