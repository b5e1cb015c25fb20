//! Passes that are divided into parts, which run on one thread or several.

use framework::{Code, Commands};

use super::unusable::Unusable;
use crate::cycle::{Panics, Scorer, Subject};
use crate::ports::{Count, Probe, Span, Task};

/// The result of a part of a pass.
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

/// Runs `work` for each part of a pass, by the parallelizer if there are several. A failure ends
/// the pass as if no later part had run.
pub(super) fn run_in_parts<P: Send>(
    subject: &mut Subject<'_, '_>,
    mut parts: impl ExactSizeIterator<Item = P>,
    work: impl Fn(&mut Scorer<'_>, P) -> Result<(), Unusable> + Sync,
) -> Result<(), Unusable> {
    if parts.len() < 2 {
        let mut scorer = Scorer::of(subject);
        return parts.try_for_each(|part| work(&mut scorer, part));
    }
    let mut outcomes: Vec<Option<Outcome>> = (0..parts.len()).map(|_| None).collect();
    let shared = subject.world.shared(subject.cx.now);
    let (pod, state, work) = (&**subject.pod, &subject.state, &work);
    let probe = &*subject.cx.probe;
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
    subject.settings.parallelizer.run(tasks.collect());
    for outcome in outcomes {
        let Outcome { result, commands, panics } = outcome.ok_or(Unusable)?;
        subject.commands.append(commands);
        panics.report(subject.cx.probe);
        result?;
    }
    Ok(())
}
