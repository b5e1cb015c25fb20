//! The harness behind the choice of a node: Reserve, Permit and Unreserve.

use std::sync::Arc;
use std::time::Duration;

use super::Harness;
use framework::{
    AttemptMut, Cluster, Command, CycleState, PermitVerdict, Pod, Status, Time, WaitingPod,
};

/// The answers of a plugin about a pod assumed on a node.
pub struct Commit {
    /// The status of Reserve.
    pub reserve: Status,
    /// The verdict of Permit; Allow if the plugin has no Permit, or if Reserve failed.
    pub permit: PermitVerdict,
    /// The commands of the plugin.
    pub commands: Vec<Command>,
    state: CycleState,
}

impl Harness {
    /// Sets the time.
    #[must_use]
    pub fn at(mut self, now: Time) -> Self {
        self.parts.now = now;
        self
    }

    /// Adds a pending pod.
    #[must_use]
    pub fn pending(mut self, pod: Pod) -> Self {
        self.parts.pending.insert(pod.key.clone(), Arc::new(pod));
        self
    }

    /// Adds a pod that is assumed on the node it names and waits in Permit for this plugin.
    ///
    /// # Panics
    /// The pod does not name a node of the harness.
    #[must_use]
    pub fn waiting(mut self, pod: Pod) -> Self {
        let unassigned = Pod { node_name: None, ..pod.clone() };
        let node = pod.node_name.as_deref().and_then(|name| self.cluster.node_named(name));
        let node = node.expect("a waiting pod names a node: use `.on(\"node\")`");
        let until = self.parts.now + Duration::from_mins(15);
        let waiting = WaitingPod {
            pod: Arc::new(pod.clone()),
            node,
            since: self.parts.now,
            pending: [(self.plugin.name.clone(), until)].into(),
        };
        self.parts.waiting.insert(pod.uid.clone(), waiting);
        self.pending(unassigned).pod(pod)
    }

    /// Runs PreFilter, assumes `pod` on `node`, and runs Reserve and Permit.
    ///
    /// # Panics
    /// PreFilter rejects the pod.
    #[track_caller]
    pub fn commit(&self, pod: &Pod, node: &str) -> Commit {
        let mut state = CycleState::new();
        if let Some(plugin) = &self.plugin.pre_filter
            && let Err(status) = plugin.pre_filter(AttemptMut::new(&mut state, pod, &self.handle()))
        {
            assert!(status.is_skip(), "PreFilter rejects the pod: {}", status.message());
        }
        self.parts.commands.take();
        let (cluster, assumed) = self.assume(pod, node);
        let handle = self.parts.handle(&cluster);
        let mut commit = Commit {
            reserve: Status::success(),
            permit: PermitVerdict::Allow,
            commands: Vec::new(),
            state,
        };
        if let Some(plugin) = &self.plugin.reserve {
            commit.reserve =
                plugin.reserve(AttemptMut::new(&mut commit.state, &assumed, &handle), node);
        }
        if let Some(plugin) = self.plugin.permit.as_ref().filter(|_| commit.reserve.is_success()) {
            commit.permit =
                plugin.permit(AttemptMut::new(&mut commit.state, &assumed, &handle), node);
        }
        commit.commands = self.parts.commands.take();
        commit
    }

    /// Runs Unreserve for a pod that [`commit`](Self::commit) assumed on `node`, and returns the
    /// commands of the plugin.
    pub fn undo(&self, pod: &Pod, node: &str, mut commit: Commit) -> Vec<Command> {
        self.parts.commands.take();
        if let Some(plugin) = &self.plugin.reserve {
            let (cluster, assumed) = self.assume(pod, node);
            let handle = self.parts.handle(&cluster);
            plugin.unreserve(AttemptMut::new(&mut commit.state, &assumed, &handle), node);
        }
        self.parts.commands.take()
    }

    /// Returns a cluster with the pod on its node, and the pod.
    fn assume(&self, pod: &Pod, node: &str) -> (Cluster, Arc<Pod>) {
        let assumed = Arc::new(Pod { node_name: Some(node.into()), ..pod.clone() });
        let mut cluster = self.cluster.clone();
        cluster.place_pod(assumed.clone(), node);
        (cluster, assumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{node, pod};
    use framework::{Handle, Permit, Plugin, Reserve};

    /// Lets a pod wait for a second one. Allows or rejects both together.
    struct Pair;

    impl Pair {
        fn other(handle: &Handle<'_>) -> Option<framework::Uid> {
            handle.waiting.keys().next().cloned()
        }
    }

    impl Reserve for Pair {
        fn reserve(&self, attempt: AttemptMut<'_>, _: &str) -> Status {
            attempt.state.write("reserved");
            Status::success()
        }

        fn unreserve(&self, attempt: AttemptMut<'_>, _: &str) {
            let AttemptMut { state, handle, .. } = attempt;
            assert_eq!(state.read(), Some(&"reserved"));
            let (plugin, message) = ("Pair".into(), format!("at {}", handle.now.as_nanos()));
            if let Some(pod) = Self::other(handle) {
                handle.command(Command::Reject { pod, plugin, message });
            }
        }
    }

    impl Permit for Pair {
        fn permit(&self, attempt: AttemptMut<'_>, node: &str) -> PermitVerdict {
            let AttemptMut { pod, handle, .. } = attempt;
            assert_eq!(handle.cluster.pods().last().map(|placed| &placed.pod.key), Some(&pod.key));
            assert_eq!(pod.node_name.as_deref(), Some(node));
            match Self::other(handle) {
                Some(pod) => {
                    handle.command(Command::Allow { pod, plugin: "Pair".into() });
                    PermitVerdict::Allow
                }
                None => {
                    let names = handle.pending_in("default").map(|pod| &*pod.key.name);
                    let reason = names.collect::<Vec<_>>().join(" ");
                    PermitVerdict::Wait { timeout: Duration::from_secs(1), reason }
                }
            }
        }
    }

    fn harness() -> Harness {
        let plugin = Plugin::new("Pair", Pair).reserve().permit().build();
        Harness::new(plugin).node(node("a").build())
    }

    #[test]
    fn commit_returns_the_verdict_and_the_commands() {
        let elsewhere = pod("x").namespace("defaults").build();
        let alone = harness()
            .pending(pod("p").build())
            .pending(pod("q").build())
            .pending(elsewhere)
            .commit(&pod("p").build(), "a");
        let (timeout, reason) = (Duration::from_secs(1), "p q".to_owned());
        assert_eq!(alone.permit, PermitVerdict::Wait { timeout, reason });
        assert!(alone.commands.is_empty() && alone.reserve.is_success());

        let second = harness().waiting(pod("p").on("a").build()).commit(&pod("q").build(), "a");
        assert_eq!(second.permit, PermitVerdict::Allow);
        let (uid, plugin) = (pod("p").build().uid, "Pair".into());
        assert_eq!(second.commands, [Command::Allow { pod: uid, plugin }]);
    }

    #[test]
    fn undo_reads_the_state_of_the_commit() {
        let harness = harness().waiting(pod("p").on("a").build());
        let commit = harness.commit(&pod("q").build(), "a");
        let commands = harness.at(Time::from_nanos(7)).undo(&pod("q").build(), "a", commit);
        assert!(
            matches!(&commands[..], [Command::Reject { message, .. }] if message == "at 7"),
            "{commands:?}"
        );
    }
}
