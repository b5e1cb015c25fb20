//! Decisions as values.

use framework::preemption::Preemption;
use framework::{
    Code, Command, Commands, CycleState, NominatingInfo, Pod, PostFilterResult, Status, Template,
    Time,
};

use crate::cycle::{Chosen, FitError, Question};
use crate::plugin_call::HasCode;
use crate::profile::Profile;

/// A decision about a pod.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) found: Found,
    /// The data of the plugins, for Reserve.
    pub(crate) state: CycleState,
    /// The commands of the plugins, which take effect with the commit.
    pub(crate) commands: Commands,
    pub(super) course: Course,
}

/// The state that one decision leaves to the next, with a node or without.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    /// Draws one of several best nodes.
    pub(super) rng: fastrand::Rng,
    /// Where the next sampled search starts in the node order.
    pub(super) next_start: usize,
}

/// The finding of a decision.
#[derive(Debug)]
pub(crate) enum Found {
    /// A node.
    Node(Chosen),
    /// No node can take the pod.
    Unfit(Unfit),
    /// A plugin or an extender failed, or the cluster has no node.
    Failed(Status),
}

/// Why a pod fits nowhere, and how it could be helped.
#[derive(Debug)]
pub(crate) struct Unfit {
    pub(crate) fit: Box<FitError>,
    pub(crate) post_filter: PostFilterResult,
    /// Whether no node can take any pod of the template.
    pub(crate) template_rejected: bool,
}

impl HasCode for Decision {
    fn code(&self) -> Code {
        match &self.found {
            Found::Node(_) => Code::Success,
            Found::Unfit(_) => Code::Unschedulable,
            Found::Failed(status) => status.code(),
        }
    }
}

impl Decision {
    /// Returns the evictions for this pod that the decision asks for.
    pub(crate) fn preemption<T>(&self, pod: &Pod, of: impl Fn(&Preemption) -> T) -> Option<T> {
        self.commands.find_map(|command| match command {
            Command::Preempt(preemption) if preemption.uid == pod.uid => Some(of(preemption)),
            _ => None,
        })
    }
}

/// Whether an attempt that found no node says that no node can take any pod of the template: its
/// rejectors decide by template, and neither evictions nor nominations are involved, which belong
/// to single pods. An extender may decide by anything.
pub(super) fn is_template_rejected(
    question: Question<'_>,
    fit: &FitError,
    post_filter: &PostFilterResult,
    now: Time,
) -> bool {
    let Question { world, profile, pod, .. } = question;
    let nominates = match &post_filter.nominating {
        NominatingInfo::Override(node) => !node.is_empty(),
        NominatingInfo::Noop => false,
    };
    Template::describes(pod)
        && fit.diagnosis.pending_plugins.is_empty()
        && fit.diagnosis.unschedulable_plugins.iter().all(|name| by_template(profile, name))
        && profile.post_filter.iter().all(|plugin| by_template(profile, &plugin.name))
        && (profile.post_filter.is_empty() || !post_filter.status.is_success())
        && !nominates
        && pod.nominated_node_name().is_none()
        && world.nominator().node_of(&pod.uid).is_none()
        && !world.preemptions().fruitless().concern(pod, now)
}

fn by_template(profile: &Profile, plugin: &str) -> bool {
    profile.plugins.get(plugin).is_some_and(|plugin| plugin.decides_by_template)
}
