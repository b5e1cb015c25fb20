//! Calls of Reserve plugins.

use framework::{AttemptMut, CycleState, ExtensionPoint, Handle, Pod, Status};

use crate::plugin_call::call_plugin;
use crate::ports::{Point, Probe};
use crate::profile::Profile;

/// An assumed pod on its node, for which Reserve runs or is taken back.
pub(crate) struct Reserving<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) pod: &'a Pod,
    pub(crate) node: &'a str,
    pub(crate) state: &'a mut CycleState,
    pub(crate) handle: Handle<'a>,
}

impl Reserving<'_> {
    /// Runs Reserve of all plugins, up to the first that does not succeed.
    ///
    /// # Errors
    /// A plugin rejects the pod or fails.
    pub(crate) fn reserve(&mut self, probe: &mut dyn Probe) -> Result<(), Status> {
        let (profile, node) = (self.profile, self.node);
        for plugin in &profile.reserve {
            let status = call_plugin(ExtensionPoint::Reserve, &plugin.name, probe, || {
                plugin.plugin.reserve(self.attempt(), node)
            })
            .unwrap_or_else(|status| status);
            if status.is_rejection() {
                return Err(status.by(&plugin.name));
            }
            if !status.is_success() {
                let name = &plugin.name;
                let text = format!("running Reserve plugin {name:?}: {}", status.message());
                return Err(Status::error(text).by(name));
            }
        }
        Ok(())
    }

    /// Runs Unreserve in reverse order, also of plugins whose Reserve did not run.
    pub(crate) fn unreserve(&mut self, probe: &mut dyn Probe) {
        let (profile, node) = (self.profile, self.node);
        for plugin in profile.reserve.iter().rev() {
            // A panic is counted; there is nothing left to undo.
            let _ = call_plugin(Point::Unreserve, &plugin.name, probe, || {
                plugin.plugin.unreserve(self.attempt(), node);
            });
        }
    }

    /// Undoes Reserve in reverse order, also of plugins whose Reserve did not run. The commands
    /// that the plugins give meanwhile are dropped.
    pub(crate) fn undo(&mut self, probe: &mut dyn Probe) {
        let commands = self.handle.commands.len();
        let (profile, node) = (self.profile, self.node);
        for plugin in profile.reserve.iter().rev() {
            // A panic is counted; there is nothing left to undo.
            let _ = call_plugin(Point::Unreserve, &plugin.name, probe, || {
                plugin.plugin.undo_reserve(self.attempt(), node);
            });
        }
        self.handle.commands.split_off(commands);
    }

    const fn attempt(&mut self) -> AttemptMut<'_> {
        AttemptMut::new(self.state, self.pod, &self.handle)
    }
}
