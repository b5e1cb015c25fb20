//! MaintenanceWindow: keeps pods off nodes that are being worked on.
//!
//! An example of a Filter that reads a custom resource, with queueing hints that wake the pods it
//! rejected. The custom resource is cluster-scoped, and the controller or person who does the
//! maintenance opens and closes it; the plugin reads no clock:
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
//! While a window is open, no new pod is placed on its nodes. The scheduler needs permission to get,
//! list and watch `maintenancewindows.example.com`.

mod window;

use std::sync::Arc;

use framework::{
    ActionType, Cluster, ClusterEvent, CycleState, EventObjects, EventResource, Filter, Gauge,
    Handle, NodeBits, NodeFields, NodeView, Plugin, PluginArgs, Pod, PreFilter, PreFilterResult,
    QueueingHint, Registry, RegistryError, Status,
};

use window::Window;

/// Plugin name.
pub const NAME: &str = "MaintenanceWindow";

/// The custom resource, as `<plural>.<version>.<group>`.
pub const KIND: &str = "maintenancewindows.v1.example.com";

/// The plugin.
#[derive(Debug)]
pub struct MaintenanceWindow {
    unreadable: Arc<Gauge>,
}

/// The open windows, left by PreFilter so that they are read once per attempt and not once per node.
#[derive(Debug, Clone)]
struct OpenWindows(Arc<[Window]>);

/// Arguments: there are none, and none are accepted.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArgs {}

/// Adds the plugin to `registry`.
///
/// # Errors
/// The name is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register(NAME, plugin)
}

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// There are arguments.
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
    /// The open windows, by name, and how many objects could not be read.
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

    /// Wakes a pod if some node was in the window and now is in none. `cluster` is the state after the
    /// change, so a node that another open window holds does not count. A window that cannot be read
    /// kept no node away.
    fn after_window_change(
        &self,
        _pod: &Pod,
        objects: &EventObjects<'_>,
        handle: &Handle<'_>,
    ) -> Result<QueueingHint, String> {
        let cluster = handle.cluster;
        let (old, _) = objects.others()?;
        let old = old.and_then(|old| Window::read(old).ok()).filter(Window::is_open);
        let Some(old) = old else { return Ok(QueueingHint::Skip) };
        let mut free = cluster.nodes().clone();
        for window in &self.open_windows(cluster).0 {
            window.remove_nodes(cluster, &mut free);
        }
        let mut free_before = free.clone();
        old.remove_nodes(cluster, &mut free_before);
        Ok(QueueingHint::queue_if(free != free_before))
    }

    /// Wakes a pod if a node is new or has new labels, and is in no window; for labels, if it was in one
    /// before.
    fn after_node_change(
        &self,
        _pod: &Pod,
        objects: &EventObjects<'_>,
        handle: &Handle<'_>,
    ) -> Result<QueueingHint, String> {
        let (old, Some(new)) = objects.nodes()? else { return Ok(QueueingHint::Skip) };
        let (open, _) = self.open_windows(handle.cluster);
        let was_held = old.is_none_or(|old| holder(&open, old).is_some());
        Ok(QueueingHint::queue_if(was_held && holder(&open, new).is_none()))
    }
}

impl PreFilter for MaintenanceWindow {
    /// Leaves the filter out where no window is open.
    fn pre_filter(
        &self,
        state: &mut CycleState,
        _pod: &Pod,
        handle: &Handle<'_>,
    ) -> Result<PreFilterResult, Status> {
        let (open, unreadable) = self.open_windows(handle.cluster);
        self.unreadable.set(i64::try_from(unreadable).unwrap_or(i64::MAX));
        if open.is_empty() {
            return Err(Status::skip());
        }
        state.write(OpenWindows(open.into()));
        Ok(PreFilterResult::default())
    }
}

impl Filter for MaintenanceWindow {
    /// Evicting pods would not help, so the rejection is not to be resolved by preemption.
    fn filter(
        &self,
        state: &CycleState,
        _pod: &Pod,
        node: &NodeView<'_>,
        _handle: &Handle<'_>,
    ) -> Status {
        match state.read::<OpenWindows>() {
            None => missing_state(),
            Some(OpenWindows(open)) => holder(open, node).map_or(Status::success(), |window| {
                Status::unresolvable(format!("node(s) in maintenance window {}", window.name()))
            }),
        }
    }

    /// Removes the nodes of each window. The default explanation runs the one-node form, and only when
    /// reasons are needed.
    fn filter_set(
        &self,
        state: &CycleState,
        _pod: &Pod,
        handle: &Handle<'_>,
        nodes: &mut NodeBits,
    ) -> Result<(), Status> {
        let OpenWindows(open) = state.read().ok_or_else(missing_state)?;
        open.iter().for_each(|window| window.remove_nodes(handle.cluster, nodes));
        Ok(())
    }
}

/// The first open window that `node` is in.
fn holder<'w>(open: &'w [Window], node: &impl NodeFields) -> Option<&'w Window> {
    open.iter().find(|window| window.has(node))
}

fn missing_state() -> Status {
    Status::error("PreFilter of MaintenanceWindow did not run")
}

#[cfg(test)]
mod tests;
