//! Plugins that do not say what their answers depend on.

use std::collections::BTreeSet;

use framework::preemption::PreemptionProgress;
use framework::{
    Attempt, AttemptMut, Cluster, Commands, CycleState, Handle, PendingPods, PluginName, Pod, Time,
    WaitingPods, WallOffset, api,
};

use crate::plugin_call::call_beside;
use crate::profile::Profile;

impl Profile {
    /// Returns the Filter and Score plugins that [do not say](framework::Filter::dependence) what
    /// their answers depend on. Each of them makes the scheduler look at every node for each pod of
    /// the profile.
    ///
    /// The plugins are asked about an empty pod in an empty cluster. A plugin that panics is not
    /// returned.
    pub fn silent_plugins(&self) -> BTreeSet<PluginName> {
        let (cluster, waiting, pending) =
            (Cluster::default(), WaitingPods::default(), PendingPods::default());
        let (preemptions, commands) = (PreemptionProgress::default(), Commands::default());
        let handle = Handle {
            cluster: &cluster,
            waiting: &waiting,
            pending: &pending,
            nominated: &(),
            preemptions: &preemptions,
            now: Time::ZERO,
            wall_offset: WallOffset::default(),
            commands: &commands,
        };
        let pod = Pod::from_api(&api::Pod::default());
        let filters = self.filter.iter().filter(|own| {
            let state = CycleState::new();
            let attempt = Attempt::new(&state, &pod, &handle);
            let said =
                call_beside("Filter", &own.name, &mut (), || own.plugin.dependence(&attempt));
            said == Ok(None)
        });
        let scores = self.score.iter().filter(|own| {
            let mut state = CycleState::new();
            let attempt = AttemptMut::new(&mut state, &pod, &handle);
            let said = call_beside("Score", &own.name, &mut (), || own.plugin.dependence(attempt));
            said == Ok(None)
        });
        let filters = filters.map(|own| own.name.clone());
        filters.chain(scores.map(|own| own.name.clone())).collect()
    }
}
