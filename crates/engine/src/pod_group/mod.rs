//! Decisions about PodGroups (`schedule_one_podgroup.go` in kube-scheduler).
//!
//! [`decide`] places the members one by one inside a savepoint, so that each sees the ones before
//! it. If the group is to be in one of several placements, such as racks, `placement` tries them.
//! If enough members fit, the savepoint is kept, and
//! [`Attempts::bind_group`](crate::attempts::Attempts::bind_group) starts their binding cycles.
//! Otherwise everything is as before, and [`make_room`] runs the PodGroupPostFilter plugins.

mod condition;
mod decision;
mod placement;
mod placement_scores;
mod preemption;
mod reports;
mod rooms;
mod statuses;
mod validation;

pub(crate) use self::condition::{condition, scheduled};
pub(crate) use self::decision::{MemberDecision, PodGroupDecision, PodGroupQuestion, decide};
pub(crate) use self::placement::bounded_placements;
pub(crate) use self::preemption::make_room;
pub(crate) use self::reports::GroupReports;
pub(crate) use self::statuses::GroupStatuses;
pub(crate) use self::validation::{InCommon, check_members};

/// The first reason of the status of a group that is rejected.
pub(crate) const UNSCHEDULABLE: &str = "pod group is unschedulable";
