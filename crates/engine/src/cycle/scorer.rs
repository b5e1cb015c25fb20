//! Verdicts, scores and keys of many nodes, which plugins give on one thread or several.

use framework::{
    Code, Commands, CycleState, ExtensionPoint, Filter, Handle, NodeBits, NodeIx, Pod, Status,
};

use super::ranked::Unusable;
use super::{Cycle, Form, Panics};
use crate::plugin_call::call_plugin;
use crate::ports::{Count, Probe, Span, Task};
use crate::profile::{Named, ScorePlugin};

/// The one-node form is faster for fewer nodes than one in so many, because the set form looks at all words of a
/// bit set.
const NODES_PER_FEW: usize = 4096;
/// The one-node form is faster for fewer nodes than this in any cluster.
const FEW: usize = 4;

/// A plugin that gives each node a key.
#[derive(Clone, Copy)]
pub(super) enum Keyed<'p> {
    Filter(&'p Named<dyn Filter>),
    /// Its key is its score before it is normalised.
    Score(&'p ScorePlugin),
    ScoreKey(&'p ScorePlugin),
}

/// Asks plugins about nodes, on any thread.
pub(super) struct Scorer<'a> {
    pub(super) handle: Handle<'a>,
    pod: &'a Pod,
    state: &'a CycleState,
    probe: &'a mut dyn Probe,
}

impl Scorer<'_> {
    /// Whether the one-node form is faster for so many nodes than the set form.
    pub(super) fn are_few(&self, nodes: &[NodeIx]) -> bool {
        nodes.len() < FEW + self.handle.cluster.table_len() / NODES_PER_FEW
    }

    pub(super) fn form_for(&self, nodes: &[NodeIx]) -> Form {
        if self.are_few(nodes) { Form::OneNode } else { Form::Set }
    }

    /// Retains the nodes that pass the set form of a plugin.
    pub(super) fn retain(
        &mut self,
        own: &Named<dyn Filter>,
        nodes: &mut NodeBits,
    ) -> Result<(), Status> {
        let Self { handle, pod, state, .. } = *self;
        call_plugin(ExtensionPoint::Filter, &own.name, self.probe, || {
            own.plugin.filter_set(state, pod, &handle, nodes)
        })
        .flatten()
    }

    /// Writes the score of `nodes[i]`, before it is normalised, to `scores[i]`.
    pub(super) fn score(
        &mut self,
        own: &ScorePlugin,
        form: Form,
        nodes: &[NodeIx],
        scores: &mut [i64],
    ) -> Result<(), Status> {
        let Self { handle, pod, state, .. } = *self;
        call_plugin(ExtensionPoint::Score, &own.name, self.probe, || match form {
            Form::Set | Form::Ranked => own.plugin.score_set(state, pod, &handle, nodes, scores),
            Form::OneNode => nodes.iter().zip(&mut *scores).try_for_each(|(node, score)| {
                *score = own.plugin.score(state, pod, &handle.cluster.node(*node), &handle)?;
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
    pub(super) fn write_keys(
        &mut self,
        own: Keyed<'_>,
        nodes: &[NodeIx],
        keys: &mut [i64],
    ) -> Result<(), Status> {
        let Self { handle, pod, state, .. } = *self;
        match own {
            Keyed::Filter(own) => {
                call_plugin(ExtensionPoint::Filter, &own.name, self.probe, || {
                    own.plugin.key_set(state, pod, &handle, nodes, keys)
                })
            }
            Keyed::ScoreKey(own) => {
                call_plugin(ExtensionPoint::Score, &own.name, self.probe, || {
                    own.plugin.key_set(state, pod, &handle, nodes, keys)
                })
            }
            Keyed::Score(own) => return self.score(own, self.form_for(nodes), nodes, keys),
        }
        .flatten()
    }
}

/// What came out of a part of a pass.
struct Outcome {
    result: Result<(), Unusable>,
    commands: Commands,
    panics: Panics,
}

/// The probe of a task.
struct TaskProbe {
    calls: Box<dyn Probe + Send>,
    /// To be counted when all tasks have ended.
    panics: Panics,
}

impl Probe for TaskProbe {
    fn start(&mut self, span: Span<'_>) {
        self.calls.start(span);
    }

    fn stop(&mut self, span: Span<'_>, code: Code) {
        self.calls.stop(span, code);
    }

    fn count(&mut self, count: Count<'_>) {
        self.panics.count(count);
    }
}

impl Cycle<'_, '_> {
    pub(super) fn scorer(&mut self) -> Scorer<'_> {
        let handle = self.handle();
        Scorer { handle, pod: self.pod, state: self.state, probe: self.cx.probe }
    }

    /// Runs `work` for each part of a pass, by the parallelizer if there are several. A failure ends the pass as if no later part had run.
    pub(super) fn run_in_parts<P: Send>(
        &mut self,
        mut parts: impl ExactSizeIterator<Item = P>,
        work: impl Fn(&mut Scorer<'_>, P) -> Result<(), Unusable> + Sync,
    ) -> Result<(), Unusable> {
        if parts.len() < 2 {
            let mut scorer = self.scorer();
            return parts.try_for_each(|part| work(&mut scorer, part));
        }
        let mut outcomes: Vec<Option<Outcome>> = (0..parts.len()).map(|_| None).collect();
        let (shared, pod, state) = (self.view.shared(self.cx.now), &**self.pod, &*self.state);
        let work = &work;
        let probe = &*self.cx.probe;
        let tasks = parts.zip(&mut outcomes).map(|(part, outcome)| {
            let mut probe = TaskProbe { calls: probe.of_task(), panics: Panics::default() };
            Box::new(move || {
                let commands = Commands::default();
                let handle = shared.handle(&commands);
                let mut scorer = Scorer { handle, pod, state, probe: &mut probe };
                let result = work(&mut scorer, part);
                *outcome = Some(Outcome { result, commands, panics: probe.panics });
            }) as Task<'_>
        });
        self.settings.parallelizer.run(tasks.collect());
        for outcome in outcomes {
            let Outcome { result, commands, panics } = outcome.ok_or(Unusable)?;
            commands.take().into_iter().for_each(|command| self.view.commands().push(command));
            panics.report(self.cx.probe);
            result?;
        }
        Ok(())
    }
}
