//! Verdicts, scores and keys of many nodes.

use framework::{
    Attempt, CycleState, ExtensionPoint, Filter, Handle, NodeBits, NodeIx, PerNode, Pod, Score,
    Status,
};

use super::settings::Form;
use super::subject::Subject;
use crate::plugin_call::call_plugin;
use crate::ports::Probe;
use crate::profile::Named;

/// The one-node form is faster for fewer nodes than one in so many, because the set form looks at
/// all words of a bit set.
const NODES_PER_FEW: usize = 4096;
/// The one-node form is faster for fewer nodes than this in any cluster.
const FEW: usize = 4;

/// A plugin that gives each node a key.
#[derive(Clone, Copy)]
pub(crate) enum Keyed<'p> {
    Filter(&'p Named<dyn Filter>),
    /// Its key is its score before it is normalised.
    Score(&'p Named<dyn Score>),
    ScoreKey(&'p Named<dyn Score>),
}

/// Asks plugins about nodes, on any thread.
pub(crate) struct Scorer<'a> {
    pub(crate) handle: Handle<'a>,
    pub(crate) pod: &'a Pod,
    pub(crate) state: &'a CycleState,
    pub(crate) probe: &'a mut dyn Probe,
}

impl<'a> Scorer<'a> {
    pub(crate) fn of(subject: &'a mut Subject<'_, '_>) -> Self {
        let handle = subject.handle();
        Self { handle, pod: subject.pod, state: &subject.state, probe: &mut *subject.cx.probe }
    }

    /// Whether the one-node form is faster for so many nodes than the set form.
    pub(crate) fn are_few(&self, nodes: &[NodeIx]) -> bool {
        nodes.len() < FEW + self.handle.cluster.table_len() / NODES_PER_FEW
    }

    pub(crate) fn form_for(&self, nodes: &[NodeIx]) -> Form {
        if self.are_few(nodes) { Form::OneNode } else { Form::Set }
    }

    /// Retains the nodes that pass the set form of a plugin.
    pub(crate) fn retain(
        &mut self,
        own: &Named<dyn Filter>,
        nodes: &mut NodeBits,
    ) -> Result<(), Status> {
        let Self { ref handle, pod, state, .. } = *self;
        let attempt = Attempt::new(state, pod, handle);
        call_plugin(ExtensionPoint::Filter, &own.name, self.probe, || {
            own.plugin.filter_set(&attempt, nodes)
        })
        .flatten()
    }

    /// Writes the score of `nodes[i]`, before it is normalised, to `scores[i]`.
    pub(crate) fn score(
        &mut self,
        own: &Named<dyn Score>,
        form: Form,
        nodes: &[NodeIx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let Self { ref handle, pod, state, .. } = *self;
        let attempt = Attempt::new(state, pod, handle);
        call_plugin(ExtensionPoint::Score, &own.name, self.probe, || match form {
            Form::Set | Form::Ranked => own.plugin.score_set(&attempt, PerNode::new(nodes, scores)),
            Form::OneNode => nodes.iter().zip(&mut *scores).try_for_each(|(node, score)| {
                *score = own.plugin.score(&attempt, &handle.cluster.node(*node))?;
                Ok(())
            }),
        })
        .and_then(|scored| scored)
        .map_err(|status| {
            let (name, message) = (&own.name, status.message());
            let text = format!("running Score plugins: plugin {name:?} failed with: {message}");
            Status::error(text).by(name)
        })
    }

    /// Writes the key of `nodes[i]` to `keys[i]`.
    pub(crate) fn write_keys(
        &mut self,
        own: Keyed<'_>,
        nodes: &[NodeIx],
        keys: &mut [i64],
    ) -> Result<(), Status> {
        let Self { ref handle, pod, state, .. } = *self;
        let attempt = Attempt::new(state, pod, handle);
        match own {
            Keyed::Filter(own) => {
                call_plugin(ExtensionPoint::Filter, &own.name, self.probe, || {
                    own.plugin.key_set(&attempt, PerNode::new(nodes, keys))
                })
            }
            Keyed::ScoreKey(own) => {
                call_plugin(ExtensionPoint::Score, &own.name, self.probe, || {
                    own.plugin.key_set(&attempt, PerNode::new(nodes, keys))
                })
            }
            Keyed::Score(own) => return self.score(own, self.form_for(nodes), nodes, keys),
        }
        .flatten()
    }
}
