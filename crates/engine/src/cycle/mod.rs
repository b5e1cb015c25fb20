//! The steps of a decision about one pod. Each returns a value, from which the next goes on.
//!
//! ```text
//!   Question ─▶ Subject ─▶ Prepared ─▶ Candidates ─▶ Scored ─▶ Chosen
//!                 PreFilter       Filter        PreScore, Score
//! ```
//!
//! * `subject` has the question, and all that plugins are called with.
//! * `prepare` runs PreFilter, `nominated` looks at the node that the pod is nominated to, `filter`
//!   and `score` at all others; `scratch` runs both. The module `ranking` knows most answers
//!   already.
//! * `extender` calls extenders, `dry_run` runs the filters on one node as it would be.
//! * `post_filter` finds out how a pod that fits nowhere could be helped.
//! * `placement` runs Reserve and Permit on the chosen node.
//!
//! Nothing here changes the [`World`](crate::world).

mod diagnosis;
mod dry_run;
mod error;
mod extender;
mod extender_preemption;
mod filter;
mod nominated;
mod placement;
mod post_filter;
mod prepare;
mod report;
mod sampling;
mod score;
mod scored;
mod scorer;
mod scratch;
mod settings;
mod subject;

pub use self::diagnosis::{Diagnosis, FitError};
pub(crate) use self::dry_run::Panics;
pub use self::error::{NO_NODES, ScheduleError};
pub(crate) use self::extender::filter_by_extenders;
pub(crate) use self::filter::{
    FullPass, rejections_beside, rejections_beside_nominated, retain_passing, verdict_on,
};
pub(crate) use self::nominated::NominatedNode;
pub(crate) use self::placement::Placement;
pub(crate) use self::post_filter::run_post_filter;
pub(crate) use self::prepare::Prepared;
pub use self::report::NodeScores;
pub(crate) use self::report::Report;
pub use self::sampling::{Sampling, num_feasible_nodes_to_find};
pub(crate) use self::score::{FeasibleNodes, ScorePass, Totals, run_pre_score, score_by};
pub(crate) use self::scored::{Chosen, Scored};
pub(crate) use self::scorer::{Keyed, Scorer};
pub(crate) use self::scratch::Scratch;
pub(crate) use self::settings::Settings;
pub use self::settings::{Form, TieBreak};
pub(crate) use self::subject::{Question, Subject};

pub use crate::extender::Extender;
