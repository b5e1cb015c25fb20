//! Room for a pod that fits nowhere, made by moves of other pods.
//!
//! [`make_room`] looks for the cheapest moves after which the pod fits. A move ends a pod on one
//! node; its controller makes it again, and the profile of the pod decides in full where it goes.
//! Everything happens in a savepoint, one move after the other, so each step of a [`Plan`] is
//! proven: the moved pod fits where it goes while the pods that move later are still in their
//! place, and the last move leaves room for the pod. No PodDisruptionBudget is asked for more than
//! it allows now. Nothing in the cluster changes.
//!
//! [`make_room_for_group`] does the same for the members of a PodGroup together.
//!
//! [`find_moves`] answers the question of an engine that makes room.
//!
//! [`empty_nodes`] looks for nodes whose pods all fit elsewhere, in the same way. [`RunningPods`]
//! says which pods may be moved, and [`report`] has the answers as JSON.

mod budgets;
mod cost;
mod empty_nodes;
mod group;
mod plan;
pub mod report;
mod running;
mod search;
mod wanted;

pub use cost::{Cost, Movable};
pub use empty_nodes::{Drains, EmptyNode, EmptyNodes, Stays, empty_nodes, empty_nodes_until};
pub use group::{GroupAnswer, GroupPlan, GroupQuestion, PlacedMember, make_room_for_group};
pub use plan::{Answer, Move, Plan};
pub use running::{KeptPod, RunningPods};
pub use search::{Limits, Question, make_room, make_room_until};
pub use wanted::find_moves;
