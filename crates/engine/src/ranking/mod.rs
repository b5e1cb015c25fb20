//! Rankings: the nodes of a lane of pods in the order of their scores, kept from one pod to the
//! next.
//!
//! The pods of one template and profile are a lane. As long as the verdicts and scores of their
//! plugins depend only on the [node or its tier](framework::FilterScope), only the nodes in the
//! change log have to be looked at again. The decision equals the decision of a full pass: the same
//! best nodes, in the same order for the seeded draw. A lane also holds what its plugins
//! [keep](framework::Kept).
//!
//! State:
//!
//! * `rankings` owns the memory of all lanes and limits it, `known` is the memory of one [`Lane`].
//! * `local` has the scores of plugins that look at one node at a time, `locals` the scores that
//!   lanes share: of pods with equal requests.
//! * `nodes` has the order of one lane: its nodes by tier and local score. The nodes of a tier have
//!   equal keys.
//! * `key_codes` finds nodes with equal keys, for many at once.
//! * `cells` finds the n-th of the nodes that are equally good; `blocks` has the cell of each node.
//! * `rejections` has the verdicts on the nodes of a lane that fits nowhere, `failures` what else
//!   failed attempts leave.
//!
//! Rules:
//!
//! * `search` answers for one pod: [`Recalled`]. `order` has the nodes of the answer, `within` the
//!   nodes of a set.
//! * `scopes` divides the plugins by what their answers depend on (`reads`).
//! * `repair` looks at changed nodes, or at all for a new lane, `tier_pass` at one node of each
//!   tier.
//! * `rejection_pass` repairs and repeats rejections.
//! * `parts` divides the nodes among threads, `in_parts` runs plugins on them.
//! * `check` makes a decision again by a full pass.

mod blocks;
mod cell_id;
mod cells;
mod check;
mod draw;
mod failures;
mod in_parts;
mod key_codes;
mod known;
mod lane;
mod local;
mod locals;
mod nodes;
mod order;
mod parts;
mod rankings;
mod reads;
mod rejection_pass;
mod rejections;
mod repair;
mod scopes;
mod search;
mod tier_pass;
mod unusable;
mod within;

pub(crate) use self::lane::Lane;
pub(crate) use self::rankings::Rankings;
pub(crate) use self::search::{Counts, Recalled};

#[cfg(test)]
mod tests;
