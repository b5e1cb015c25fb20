//! Runs what is called outside of a scheduling attempt: timers and notifications.

use super::Harness;
use framework::{Attempt, Command, CycleState, Pod};

impl Harness {
    /// Runs the timer of the plugin with `token`, at the [time](Self::at) of the harness. Returns
    /// the commands of the plugin.
    ///
    /// # Panics
    /// The plugin has no timer.
    #[track_caller]
    pub fn fire(&self, token: u64) -> Vec<Command> {
        self.parts.commands.take();
        let timer = self.plugin.timer.as_ref().expect("the plugin is built with `.timer()`");
        timer.fire(token, &self.handle());
        self.parts.commands.take()
    }

    /// Notifies the plugin that `pod` is gone; the cluster of the harness stays as it is. Returns
    /// the commands of the plugin.
    ///
    /// # Panics
    /// The plugin is not notified of deleted pods.
    #[track_caller]
    pub fn pod_deleted(&self, pod: &Pod) -> Vec<Command> {
        self.parts.commands.take();
        let plugin = self.plugin.pod_deleted.as_ref();
        let plugin = plugin.expect("the plugin is built with `.pod_deleted()`");
        plugin.pod_deleted(pod, &self.handle());
        self.parts.commands.take()
    }

    /// Runs PostBind for a pod bound to `node`, with an empty cycle state. Returns the commands of
    /// the plugin.
    ///
    /// # Panics
    /// The plugin has no PostBind.
    #[track_caller]
    pub fn post_bind(&self, pod: &Pod, node: &str) -> Vec<Command> {
        self.parts.commands.take();
        let plugin = self.plugin.post_bind.as_ref();
        let plugin = plugin.expect("the plugin is built with `.post_bind()`");
        plugin.post_bind(&Attempt::new(&CycleState::new(), pod, &self.handle()), node);
        self.parts.commands.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod;
    use framework::{Handle, Plugin, PodDeleted, PodKey, PostBind, Time, Timer};

    /// Activates a pod whenever it is called, and names it after the call.
    struct Activates;

    fn activate(handle: &Handle<'_>, name: &str) {
        handle.command(Command::Activate(vec![PodKey::new("default", name)]));
    }

    impl Timer for Activates {
        fn fire(&self, token: u64, handle: &Handle<'_>) {
            activate(handle, &format!("{token}-at-{}", handle.now.as_nanos()));
        }
    }

    impl PodDeleted for Activates {
        fn pod_deleted(&self, pod: &Pod, handle: &Handle<'_>) {
            activate(handle, &pod.key.name);
        }
    }

    impl PostBind for Activates {
        fn post_bind(&self, attempt: &Attempt<'_>, node: &str) {
            activate(attempt.handle, node);
        }
    }

    #[test]
    fn calls_outside_of_an_attempt_return_their_commands() {
        let plugin = Plugin::new("Activates", Activates).timer().pod_deleted().post_bind().build();
        let harness = Harness::new(plugin).at(Time::from_nanos(5));
        let activated = |name: &str| [Command::Activate(vec![PodKey::new("default", name)])];
        assert_eq!(harness.fire(7), activated("7-at-5"));
        assert_eq!(harness.pod_deleted(&pod("p").build()), activated("p"));
        assert_eq!(harness.post_bind(&pod("p").build(), "n"), activated("n"));
    }
}
