//! Commands that plugins give through their handle.

use framework::{Command, Status};

use super::Engine;
use crate::context::Context;
use crate::plugin_events::record_plugin_event;

impl Engine {
    /// Applies the commands that plugins gave through their handle, until there are no more: a
    /// command may run plugins that give further commands.
    pub(super) fn apply_commands(&mut self, cx: &mut Context<'_>) {
        while !self.world.commands().is_empty() {
            for command in self.world.commands().take() {
                self.apply_command(command, cx);
            }
        }
    }

    fn apply_command(&mut self, command: Command, cx: &mut Context<'_>) {
        match command {
            Command::Allow { pod, plugin } => {
                self.attempts.allow(pod, &plugin, &mut self.world, cx);
            }
            Command::Reject { pod, plugin, message } => {
                let status = Status::unschedulable(message).by(&plugin);
                self.attempts.reject_waiting(&pod, status, &mut self.world, cx);
            }
            Command::Activate(pods) => self.world.activate(&pods, cx),
            Command::Preempt(preemption) => {
                let Self { preemptions, world, attempts, .. } = self;
                preemptions.start(preemption, world, attempts, cx);
            }
            Command::PreemptForGroup(preemption) => {
                let Self { preemptions, world, attempts, .. } = self;
                preemptions.start_for_group(preemption, world, attempts, cx);
            }
            Command::PausePreemption { preemptor, uid, pause } => {
                self.preemptions.pause(preemptor, &uid, &pause, &self.world, cx);
            }
            Command::SetTimer { plugin, at, token } => self.timers.set(plugin, token, at),
            Command::Event(event) => record_plugin_event(event, &self.world, cx),
            Command::Write { pod, uid, write } => self.plugin_writes.request(pod, uid, write, cx),
            Command::ObjectChanged(update) => self.world.handle_update(*update, cx),
            _ => {}
        }
    }
}
