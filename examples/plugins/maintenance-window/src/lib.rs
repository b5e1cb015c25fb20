//! MaintenanceWindow: rejects nodes under maintenance.
//!
//! This example of a Filter plugin reads a custom resource and has queueing hints that requeue the
//! pods it rejected. The custom resource is cluster-scoped. A controller or an administrator opens
//! and closes the windows; the plugin reads no clock:
//!
//! ```yaml
//! apiVersion: example.com/v1
//! kind: MaintenanceWindow
//! metadata: {name: rack-7}
//! spec:
//!   state: Open                        # or Closed
//!   nodes: [node-12]                   # nodes by name, and
//!   nodeLabel: {key: rack, value: "7"} # nodes by label
//! ```
//!
//! While a window is open, the plugin rejects its nodes. The scheduler needs permission to get,
//! list and watch `maintenancewindows.example.com`.

mod window;

use std::sync::Arc;

use framework::{
    ActionType, Attempt, AttemptMut, Cluster, ClusterEvent, Dependence, EventForPod, EventResource,
    Filter, FilterScope, Gauge, HintResult, NodeBits, NodeFields, NodeView, Plugin, PluginArgs,
    PreFilter, PreFilterResult, QueueingHint, Registry, RegistryError, Status,
};

use window::Window;

/// Plugin name.
pub const NAME: &str = "MaintenanceWindow";

/// The custom resource, as `<plural>.<version>.<group>`.
pub const KIND: &str = "maintenancewindows.v1.example.com";

/// The MaintenanceWindow plugin.
#[derive(Debug)]
pub struct MaintenanceWindow {
    unreadable: Arc<Gauge>,
}

/// The cycle state of PreFilter: the open windows, read once per attempt.
#[derive(Debug, Clone)]
struct OpenWindows(Arc<[Window]>);

/// The arguments. The plugin accepts none.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArgs {}

/// Adds the plugin to `registry`.
///
/// # Errors
/// Returns an error if the name is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register(NAME, plugin)
}

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// Returns an error if there are arguments.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    args.decode::<NoArgs>()?;
    let kind = EventResource::Custom(KIND.into());
    let windows = ActionType::UPDATE | ActionType::DELETE;
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
    let unreadable = Gauge::new(
        "maintenance_window_unreadable",
        "MaintenanceWindows that could not be read and are passed over.",
    );
    let plugin = MaintenanceWindow { unreadable: unreadable.clone() };
    Ok(Plugin::new(NAME, plugin)
        .pre_filter()
        .filter()
        .metric(&unreadable)
        .on_with_hint(ClusterEvent::new(kind, windows), MaintenanceWindow::after_window_change)
        .on_with_hint(
            ClusterEvent::new(EventResource::Node, nodes),
            MaintenanceWindow::after_node_change,
        )
        .build())
}

impl MaintenanceWindow {
    /// Returns the open windows by name, and the number of invalid objects.
    fn open_windows(&self, cluster: &Cluster) -> (Vec<Window>, usize) {
        let (mut open, mut unreadable) = (Vec::new(), 0);
        for object in cluster.objects(KIND) {
            match Window::read(object) {
                Ok(window) if window.is_open() => open.push(window),
                Ok(_) => {}
                Err(_) => unreadable += 1,
            }
        }
        (open, unreadable)
    }

    /// Requeues a pod if some node was in the window and is now in none. `cluster` is the state
    /// after the change, so a node in another open window does not count. An invalid window
    /// rejected no node.
    fn after_window_change(&self, event: EventForPod<'_>) -> HintResult {
        let cluster = event.handle.cluster;
        let (old, _) = event.objects.others()?;
        let old = old.and_then(|old| Window::read(&old.json()).ok()).filter(Window::is_open);
        let Some(old) = old else { return Ok(QueueingHint::Skip) };
        let mut free = cluster.nodes().clone();
        for window in &self.open_windows(cluster).0 {
            window.remove_nodes(cluster, &mut free);
        }
        let mut free_before = free.clone();
        old.remove_nodes(cluster, &mut free_before);
        Ok(QueueingHint::queue_if(free != free_before))
    }

    /// Requeues a pod if a node outside all windows was added, or was relabelled and was in a
    /// window before.
    fn after_node_change(&self, event: EventForPod<'_>) -> HintResult {
        let (old, Some(new)) = event.objects.nodes()? else { return Ok(QueueingHint::Skip) };
        let (open, _) = self.open_windows(event.handle.cluster);
        let was_held = old.is_none_or(|old| holder(&open, old).is_some());
        Ok(QueueingHint::queue_if(was_held && holder(&open, new).is_none()))
    }
}

impl PreFilter for MaintenanceWindow {
    /// Returns Skip if no window is open.
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let (open, unreadable) = self.open_windows(attempt.handle.cluster);
        self.unreadable.set(i64::try_from(unreadable).unwrap_or(i64::MAX));
        if open.is_empty() {
            return Err(Status::skip());
        }
        attempt.state.write(OpenWindows(open.into()));
        Ok(PreFilterResult::default())
    }
}

impl Filter for MaintenanceWindow {
    /// Returns an unresolvable status, because evicting pods does not help.
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        match attempt.state.read::<OpenWindows>() {
            None => missing_state(),
            Some(OpenWindows(open)) => holder(open, node).map_or(Status::success(), |window| {
                Status::unresolvable(format!("node(s) in maintenance window {}", window.name()))
            }),
        }
    }

    /// Removes the nodes of each window. The framework explains a rejection with the one-node form,
    /// and only if a reason is needed.
    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let OpenWindows(open) = attempt.state.read().ok_or_else(missing_state)?;
        open.iter().for_each(|window| window.remove_nodes(attempt.handle.cluster, nodes));
        Ok(())
    }

    /// Windows open and close without a change of the node.
    fn dependence(&self, _attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        Some(Dependence::on(FilterScope::Cluster).without_pods())
    }
}

/// Returns the first open window that contains `node`.
fn holder<'w>(open: &'w [Window], node: &impl NodeFields) -> Option<&'w Window> {
    open.iter().find(|window| window.has(node))
}

fn missing_state() -> Status {
    Status::error("PreFilter of MaintenanceWindow did not run")
}

#[cfg(test)]
mod tests;
