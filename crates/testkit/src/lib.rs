//! The test kit for plugins of Loadmaster.
//!
//! - [`node`], [`pod`], [`claim`], [`volume`] and others build objects in a line; [`cluster()`]
//!   puts them together.
//! - [`Harness`] runs one plugin against a small cluster: [`run`](Harness::run) through a
//!   scheduling cycle, in both forms; [`commit`](Harness::commit) through Reserve and Permit;
//!   [`hint`](Harness::hint), [`fire`](Harness::fire), [`pod_deleted`](Harness::pod_deleted) and
//!   [`post_bind`](Harness::post_bind) for the rest.
//! - [`Harness::ranking_problem`] tells whether the plugin makes the scheduler look at every node.
//! - [`handle`], [`HandleParts`] and [`FakeDryRun`] make the arguments of single calls.
//!
//! A test of a plugin, with the kit as a development dependency called `testkit`:
//!
//! ```
//! # use loadmaster_testkit as testkit;
//! use framework::{Attempt, AttemptMut, Dependence, NodeView, Plugin, Score, ScoreScope, Status};
//! use testkit::{Harness, node, pod};
//!
//! /// Prefers nodes with few pods.
//! struct FewPods;
//!
//! impl Score for FewPods {
//!     fn score(&self, _: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
//!         Ok((100 - node.pod_count()).max(0))
//!     }
//!
//!     fn dependence(&self, _: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
//!         Some(Dependence::on(ScoreScope::Node))
//!     }
//! }
//!
//! let harness = Harness::new(Plugin::new("FewPods", FewPods).score().build())
//!     .node(node("full").build())
//!     .node(node("free").build())
//!     .pod(pod("there").on("full").build());
//! let waiting = pod("p").build();
//! let run = harness.run(&waiting);
//! assert_eq!((run.scores["full"], run.scores["free"]), (99, 100));
//! assert_eq!(harness.ranking_problem(&waiting), None);
//! ```

mod builders;
mod harness;

pub use builders::{
    FakeDryRun, HandleParts, NodeBuilder, PodBuilder, SetJson, StorageObject, bound_claim, claim,
    cluster, csi_node, handle, node, object, pod, storage_class, volume, volume_attachment,
};
pub use harness::{Commit, Harness, Run};
