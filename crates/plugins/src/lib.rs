//! The in-tree plugins of kube-scheduler 1.36.
//!
//! One module per plugin, under the name Kubernetes gives it:
//!
//! | Plugin | Module | Points |
//! |---|---|---|
//! | SchedulingGates | [`scheduling_gates`] | PreEnqueue |
//! | PrioritySort | [`priority_sort`] | QueueSort |
//! | NodeUnschedulable | [`node_unschedulable`] | Filter |
//! | NodeName | [`node_name`] | Filter |
//! | TaintToleration | [`taint_toleration`] | Filter, PreScore, Score |
//! | NodeAffinity | [`node_affinity`] | PreFilter, Filter, PreScore, Score |
//! | NodePorts | [`node_ports`] | PreFilter, Filter |
//! | NodeResourcesFit | [`node_resources::fit`] | PreFilter, Filter, PreScore, Score, PlacementScore |
//! | NodeResourcesBalancedAllocation | [`node_resources::balanced_allocation`] | PreScore, Score |
//! | PodTopologySpread | [`pod_topology_spread`] | PreFilter, Filter, PreScore, Score |
//! | InterPodAffinity | [`inter_pod_affinity`] | PreFilter, Filter, PreScore, Score |
//! | VolumeRestrictions | [`volume_restrictions`] | PreFilter, Filter |
//! | NodeVolumeLimits | [`node_volume_limits`] | PreFilter, Filter |
//! | VolumeBinding | [`volume_binding`] | PreFilter, Filter, PreScore, Score, Reserve, PreBind |
//! | VolumeZone | [`volume_zone`] | PreFilter, Filter |
//! | DynamicResources | [`dynamic_resources`] | PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind |
//! | ImageLocality | [`image_locality`] | Score |
//! | NodeDeclaredFeatures | [`node_declared_features`] | PreFilter, Filter |
//! | DefaultPreemption | [`default_preemption`] | PreEnqueue, PostFilter, PodGroupPostFilter |
//! | DefaultBinder | [`default_binder`] | Bind |
//! | GangScheduling | [`gang_scheduling`] | PreEnqueue, PlacementFeasible, Permit |
//! | TopologyPlacementGenerator | [`topology_placement`] | PlacementGenerate |
//! | PodGroupPodsCount | [`pod_group_pods_count`] | PlacementScore |
//!
//! Each module has a `NAME` and a function `plugin`, which makes the plugin from its arguments. The
//! [`catalogue`] lists all plugins of 1.36. [`node_resources::tightest_placement`]
//! (TightestPlacement, PlacementScore) is not one of them: a profile has it if it enables it.
//!
//! Filters and scores have a one-node form and a set form. The one-node form implements the rule
//! for one node. The set form computes the same results from columns and bit sets of the cluster.
//! Property tests compare the two forms with each other and with an oracle on API objects.

#[cfg(test)]
mod arbitrary;
mod args;
pub mod catalogue;
pub mod default_binder;
pub mod default_preemption;
mod domain_tally;
pub mod dynamic_resources;
#[cfg(test)]
mod forms;
pub mod gang_scheduling;
mod hint;
pub mod image_locality;
pub mod inter_pod_affinity;
mod lookup;
pub mod node_affinity;
pub mod node_declared_features;
pub mod node_name;
pub mod node_ports;
pub mod node_resources;
mod node_sets;
pub mod node_unschedulable;
pub mod node_volume_limits;
mod normalize;
pub mod not_built;
mod packed_keys;
pub mod pod_group_pods_count;
pub mod pod_topology_spread;
pub mod priority_sort;
pub mod scheduling_gates;
mod shape;
pub mod taint_toleration;
pub mod topology_placement;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_zone;

use framework::{Plugin, PluginArgs, Registry};

use catalogue::Entry;
use node_resources::tightest_placement;

/// Returns a registry of every plugin in the [`catalogue`], and of those beside it.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    for entry in &catalogue::ALL {
        let added = match entry.name {
            // All profiles share the assumed volumes.
            volume_binding::NAME => registry.register_shared(entry.name, |args, caches| {
                Ok(by_template(volume_binding::plugin_with(args, caches)?))
            }),
            // All profiles share what is known of claims.
            dynamic_resources::NAME => registry.register_shared(entry.name, |args, shared| {
                Ok(by_template(dynamic_resources::plugin_with(args, shared)?))
            }),
            _ => registry.register(entry.name, |args| make(entry, args)),
        };
        added.expect("the catalogue has every name once");
    }
    let beside = registry.register(tightest_placement::NAME, tightest_placement::plugin);
    beside.expect("no plugin of Kubernetes has the name");
    registry
}

/// Makes the plugin of a catalogue entry, or its stand-in.
fn make(entry: &Entry, args: &PluginArgs) -> Result<Plugin, String> {
    let plugin = match entry.factory {
        Some(factory) => factory(args)?,
        None => not_built::plugin(entry),
    };
    Ok(by_template(plugin))
}

fn by_template(mut plugin: Plugin) -> Plugin {
    // None of them reads the name, the UID or the status of the pod.
    plugin.decides_by_template = true;
    plugin
}

#[cfg(test)]
mod tests {
    use framework::{Attempt, Cluster, CycleState, ExtensionPoint, PluginArgs};
    use testkit::{handle, pod};

    use super::*;

    #[test]
    fn node_only_filters_declare_it() {
        let registry = registry();
        let make =
            |entry: &Entry| registry.get(entry.name).unwrap()(&PluginArgs::default()).unwrap();
        let filters = catalogue::ALL.iter().filter_map(|entry| Some((entry, make(entry).filter?)));
        let (state, pod, cluster) = (CycleState::new(), pod("p").build(), Cluster::default());
        let indifferent = filters.filter(|(_, filter)| {
            let dependence = filter.dependence(&Attempt::new(&state, &pod, &handle(&cluster)));
            !dependence.expect("built-in plugins say what they depend on").pods
        });
        let names: Vec<_> = indifferent.map(|(entry, _)| entry.name).collect();
        let expected = [
            "NodeUnschedulable",
            "NodeName",
            "TaintToleration",
            "NodeAffinity",
            "VolumeBinding",
            "VolumeZone",
            "DynamicResources",
            "NodeDeclaredFeatures",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn plugins_implement_the_extension_points_of_the_catalogue() {
        let registry = registry();
        assert_eq!(registry.names().count(), catalogue::ALL.len() + 1);
        for entry in &catalogue::ALL {
            let plugin = registry.get(entry.name).unwrap()(&PluginArgs::default()).unwrap();
            assert_eq!(&*plugin.name, entry.name);
            for point in ExtensionPoint::ALL {
                let expected = entry.points.contains(&point);
                assert_eq!(plugin.extends(point), expected, "{} at {point}", entry.name);
            }
        }
    }
}
