//! Decisions: which node is best for a pod, or why none is.
//!
//! A `Decision` is a value: deciding reads the world and changes nothing in it. The engine carries
//! out a decision by its commit, or drops it. Samples, explanations, trials and checks of one node
//! are decisions without a commit.
//!
//! * `decider` decides: by the nominated node, by a ranking (`ranking`), or by a full pass
//!   (`cycle`).
//! * `decision` is what it returns.
//! * `sample` returns the best of many nodes, `explain` tells why.

mod decider;
mod decision;
mod explain;
mod sample;

pub(crate) use self::decider::Decider;
pub(crate) use self::decision::{Decision, Found, Unfit};
pub(crate) use self::explain::gate;
pub use self::explain::{Evaluation, PostFilterEvaluation, Trial};
pub use self::sample::{DrawNodes, MAX_DRAWS, Sample, SampledNode, Selection, WantedSample};
