//! Plugins of [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins), under
//! their own names and with their own arguments. None is enabled until a profile enables it.
//!
//! | Plugin | Module |
//! |---|---|
//! | NodeResourcesAllocatable | [`node_resources_allocatable`] |
//! | NodeMetadata | [`node_metadata`] |
//! | PodState | [`pod_state`] |
//! | QOSSort | [`qos_sort`] |
//! | NodeResourceTopologyMatch | [`node_resource_topology`] |
//! | TargetLoadPacking | [`load::target_load_packing`] |
//! | LoadVariationRiskBalancing | [`load::load_variation_risk_balancing`] |
//! | LowRiskOverCommitment | [`load::low_risk_over_commitment`] |
//! | LoadAwareScheduling, of Koordinator | [`load::load_aware_scheduling`] |
//! | Coscheduling | [`coscheduling`] |
//! | CapacityScheduling | [`capacity_scheduling`] |
//!
//! Each module has a `NAME` and a function `plugin`, which makes the plugin from its arguments.
//! [`add_to`] registers them all, and stand-ins for those that are not built.

mod args;
pub mod capacity_scheduling;
pub mod coscheduling;
pub mod load;
mod min_max;
pub mod node_metadata;
pub mod node_resource_topology;
pub mod node_resources_allocatable;
mod not_built;
pub mod pod_state;
mod qos;
pub mod qos_sort;

use framework::{Plugin, PluginArgs, Registry};

/// Makes a plugin from its arguments.
type Factory = fn(&PluginArgs) -> Result<Plugin, String>;

/// The plugins of this crate, by name.
const ALL: [(&str, Factory); 11] = [
    (node_resources_allocatable::NAME, node_resources_allocatable::plugin),
    (node_metadata::NAME, node_metadata::plugin),
    (node_resource_topology::NAME, node_resource_topology::plugin),
    (load::target_load_packing::NAME, load::target_load_packing::plugin),
    (load::load_variation_risk_balancing::NAME, load::load_variation_risk_balancing::plugin),
    (load::low_risk_over_commitment::NAME, load::low_risk_over_commitment::plugin),
    (load::load_aware_scheduling::NAME, load::load_aware_scheduling::plugin),
    (pod_state::NAME, pod_state::plugin),
    (qos_sort::NAME, qos_sort::plugin),
    (coscheduling::NAME, coscheduling::plugin),
    (capacity_scheduling::NAME, capacity_scheduling::plugin),
];

/// Registers the plugins of this crate, and a factory that says what serves instead for each of
/// those that are not built. A plugin that is already registered keeps its name.
pub fn add_to(registry: &mut Registry) {
    for (name, factory) in ALL {
        if registry.get(name).is_none() {
            registry.register(name, factory).expect("the name is free");
        }
    }
    not_built::add_to(registry);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_plugins_keep_their_names() {
        let mut registry = Registry::new();
        let own = |_: &PluginArgs| Err("mine".to_owned());
        registry.register(node_resources_allocatable::NAME, own).unwrap();
        add_to(&mut registry);
        let factory = registry.get(node_resources_allocatable::NAME).unwrap();
        assert_eq!(factory(&PluginArgs::default()).map(|_| ()), Err("mine".to_owned()));
    }
}
