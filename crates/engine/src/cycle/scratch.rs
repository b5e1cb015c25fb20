//! A full pass: Filter, PreScore and Score over all nodes to search.

use framework::NodeIx;

use super::error::ScheduleError;
use super::filter::{Candidates, FilterPass, FullPass};
use super::score::ScorePass;
use super::scored::Scored;
use super::subject::Subject;

/// Buffers that decisions reuse, so that a decision allocates nothing per node.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) filter: FilterPass,
    pub(crate) score: ScorePass,
}

impl Scratch {
    /// Finds the nodes that can take the pod, and scores them if there are several.
    ///
    /// # Errors
    /// No node can take the pod, or a plugin or extender failed.
    pub(crate) fn full_pass(
        &mut self,
        subject: &mut Subject<'_, '_>,
        pass: FullPass<'_>,
    ) -> Result<Scored<'_>, ScheduleError> {
        let FullPass { prepared, own, next_start, mut report } = pass;
        let pass = FullPass { prepared, own, next_start, report: report.as_deref_mut() };
        let candidates = self.filter.run(subject, pass)?;
        let scores = report.map(|report| &mut report.scores);
        self.score.run(subject, candidates, scores).map_err(ScheduleError::Error)
    }

    /// Returns the only node that can take the pod.
    pub(crate) fn only(&mut self, node: NodeIx) -> Scored<'_> {
        let Candidates { nodes, evaluated } = self.filter.only(node);
        Scored { nodes, totals: &[], evaluated }
    }
}
