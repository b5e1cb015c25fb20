//! NodeName: rejects every node except the one in `spec.nodeName`.

use framework::{
    ActionType, Attempt, ClusterEvent, Dependence, EventResource, Filter, FilterScope, NodeBits,
    NodeView, Plugin, PluginArgs, Status,
};

use crate::node_sets::retain_only;

/// Plugin name.
pub const NAME: &str = "NodeName";

const REASON: &str = "node(s) didn't match the requested node name";

/// The NodeName plugin.
#[derive(Debug)]
pub struct NodeName;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    let nodes = ClusterEvent::new(EventResource::Node, ActionType::ADD);
    Ok(Plugin::new(NAME, NodeName).filter().on(nodes).build())
}

impl Filter for NodeName {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        if attempt.pod.node_name.as_ref().is_none_or(|wanted| wanted == node.name()) {
            return Status::success();
        }
        Status::unresolvable(REASON)
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        if let Some(wanted) = &attempt.pod.node_name {
            retain_only(attempt.handle.cluster.node_named(wanted), nodes);
        }
        Ok(())
    }

    fn dependence(&self, attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        let scope =
            if attempt.pod.node_name.is_none() { FilterScope::Node } else { FilterScope::Cluster };
        Some(Dependence::on(scope).without_pods())
    }

    fn only_rejection(&self) -> Option<Status> {
        Some(Status::unresolvable(REASON))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary::{self, history, node_name};
    use crate::forms;

    proptest! {
        #![proptest_config(forms::config())]

        #[test]
        fn forms_agree(
            history in history(),
            mut pod in arbitrary::pod(),
            wanted in prop::option::of(0_usize..9),
            choice: u64,
        ) {
            pod.spec.node_name = wanted.map(node_name).unwrap_or_default();
            let plugin = plugin(&PluginArgs::default()).unwrap();
            forms::check_filter(&plugin, &history.replay(), &pod, choice, |node| {
                if [&*node.metadata.name, ""].contains(&&*pod.spec.node_name) {
                    return Status::success();
                }
                Status::unresolvable("node(s) didn't match the requested node name")
            });
        }
    }
}
