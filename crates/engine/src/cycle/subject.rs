//! The pod of a decision, and all that its plugins are called with.

use std::sync::Arc;

use framework::{
    Cluster, Code, Commands, CycleState, ExtensionPoint, Handle, NodeBits, NodeIx, Pod, Status,
};

use super::diagnosis::{Diagnosis, FitError};
use super::error::ScheduleError;
use super::settings::{Form, Settings};
use crate::context::Context;
use crate::plugin_call::HasCode;
use crate::ports::Span;
use crate::profile::Profile;
use crate::world::World;

/// The question which of some nodes is best for a pod.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) world: &'a World,
    pub(crate) profile: &'a Profile,
    pub(crate) pod: &'a Arc<Pod>,
    /// The nodes among which to choose; `None` for all.
    pub(crate) within: Option<&'a NodeBits>,
    /// Whether the pod is decided as a member of a group, for which no PostFilter plugin runs.
    pub(crate) as_member: bool,
}

/// The pod of a decision, the profile that decides about it, and the data of its plugins.
pub(crate) struct Subject<'a, 'c> {
    pub(crate) world: &'a World,
    pub(crate) settings: &'a Settings,
    pub(crate) profile: &'a Profile,
    pub(crate) pod: &'a Arc<Pod>,
    /// The nodes among which to choose; `None` for all.
    pub(crate) within: Option<&'a NodeBits>,
    /// The form of the plugins.
    pub(crate) form: Form,
    pub(crate) state: CycleState,
    /// The commands that the plugins have given.
    pub(crate) commands: &'a Commands,
    pub(crate) cx: &'a mut Context<'c>,
}

impl<'a, 'c> Subject<'a, 'c> {
    pub(crate) fn new(
        question: Question<'a>,
        settings: &'a Settings,
        commands: &'a Commands,
        cx: &'a mut Context<'c>,
    ) -> Self {
        let Question { world, profile, pod, within, .. } = question;
        let (form, state) = (settings.form, CycleState::new());
        Self { world, settings, profile, pod, within, form, state, commands, cx }
    }

    /// Returns the same question for plugins that have kept nothing and found nothing yet.
    pub(crate) fn afresh(&mut self) -> Subject<'_, 'c> {
        let Self { world, settings, profile, pod, within, form, commands, .. } = *self;
        let (state, cx) = (CycleState::new(), &mut *self.cx);
        Subject { world, settings, profile, pod, within, form, state, commands, cx }
    }

    pub(crate) const fn cluster(&self) -> &'a Cluster {
        self.world.cluster()
    }

    /// Returns the handle for the plugins.
    pub(crate) fn handle(&self) -> Handle<'a> {
        self.world.shared(self.cx.now).handle(self.commands)
    }

    /// Returns the node that the pod is nominated to.
    pub(crate) fn own_nomination(&self) -> Option<NodeIx> {
        let node = self.world.nominator().node_of(&self.pod.uid)?;
        self.cluster().node_named(node)
    }

    pub(crate) fn start(&mut self, point: ExtensionPoint) {
        self.cx.probe.start(Span::Point(point.into(), &self.profile.scheduler_name));
    }

    pub(crate) fn stop(&mut self, point: ExtensionPoint, code: Code) {
        self.cx.probe.stop(Span::Point(point.into(), &self.profile.scheduler_name), code);
    }

    /// Runs the plugins of an extension point, and measures them together.
    pub(crate) fn measure<T: HasCode>(
        &mut self,
        point: ExtensionPoint,
        run: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.start(point);
        let result = run(self);
        self.stop(point, result.code());
        result
    }

    /// Checks that there are nodes, and that the pod could be decoded in full: otherwise some of
    /// its requirements are unknown.
    pub(crate) fn check(&self) -> Result<(), ScheduleError> {
        if self.cluster().node_count() == 0 {
            return Err(ScheduleError::NoNodes);
        }
        let problems = self.pod.problems();
        if problems.is_empty() {
            return Ok(());
        }
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let status = Status::unresolvable(format!(
            "the pod is invalid, and an API server refuses it: {}",
            problems.join(", ")
        ));
        let diagnosis = Diagnosis::by_pre_filter(status);
        Err(self.rejected(Diagnosis { is_of_invalid_pod: true, ..diagnosis }))
    }

    /// Returns the error of a pod that no node can take.
    pub(crate) fn rejected(&self, diagnosis: Diagnosis) -> ScheduleError {
        let all = self.within.map_or_else(|| self.cluster().node_count(), NodeBits::count);
        ScheduleError::Fit(Box::new(FitError { num_all_nodes: all, diagnosis }))
    }
}
