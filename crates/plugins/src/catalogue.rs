//! All plugins of kube-scheduler 1.36, implemented or not.

use framework::{ExtensionPoint, Plugin, PluginArgs};

use crate::{
    default_binder, default_preemption, dynamic_resources, gang_scheduling, image_locality,
    inter_pod_affinity, node_affinity, node_declared_features, node_name, node_ports,
    node_resources, node_unschedulable, node_volume_limits, pod_group_pods_count,
    pod_topology_spread, priority_sort, scheduling_gates, taint_toleration, topology_placement,
    volume_binding, volume_restrictions, volume_zone,
};

/// Makes a plugin from its arguments.
pub type Factory = fn(&PluginArgs) -> Result<Plugin, String>;

/// A feature gate that a plugin depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Name of the gate.
    pub name: &'static str,
    /// Default of the gate in 1.36.
    pub on_by_default: bool,
}

impl Gate {
    const fn on(name: &'static str) -> Option<Self> {
        Some(Self { name, on_by_default: true })
    }

    const fn off(name: &'static str) -> Option<Self> {
        Some(Self { name, on_by_default: false })
    }
}

/// The static description of a plugin.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Name of the plugin.
    pub name: &'static str,
    /// Extension points of the plugin, in the order of a scheduling attempt.
    pub points: &'static [ExtensionPoint],
    /// Weight in the default list. 0 if the list sets none; a score plugin then has weight 1.
    pub default_weight: i32,
    /// Kind of its arguments in `pluginConfig`, if it takes arguments.
    pub args_kind: Option<&'static str>,
    /// The gate that the default list requires for the plugin.
    pub gate: Option<Gate>,
    /// Makes the plugin; `None` if it is not implemented.
    pub factory: Option<Factory>,
}

impl Entry {
    const fn new(name: &'static str, points: &'static [ExtensionPoint]) -> Self {
        Self { name, points, default_weight: 0, args_kind: None, gate: None, factory: None }
    }

    /// Whether the plugin is implemented.
    pub const fn is_built(&self) -> bool {
        self.factory.is_some()
    }

    /// Whether the plugin is in the default list with default gates.
    pub fn is_default(&self) -> bool {
        self.gate.is_none_or(|gate| gate.on_by_default)
    }
}

use ExtensionPoint::{
    Bind, Filter, Permit, PlacementGenerate, PlacementScore, PostFilter, PreBind, PreEnqueue,
    PreFilter, PreScore, QueueSort, Reserve, Score,
};

/// All plugins, in the order of the default `multiPoint` list.
pub static ALL: [Entry; 23] = [
    Entry {
        factory: Some(scheduling_gates::plugin),
        ..Entry::new(scheduling_gates::NAME, &[PreEnqueue])
    },
    Entry { factory: Some(priority_sort::plugin), ..Entry::new(priority_sort::NAME, &[QueueSort]) },
    Entry {
        factory: Some(node_unschedulable::plugin),
        ..Entry::new(node_unschedulable::NAME, &[Filter])
    },
    Entry { factory: Some(node_name::plugin), ..Entry::new(node_name::NAME, &[Filter]) },
    Entry {
        default_weight: 3,
        factory: Some(taint_toleration::plugin),
        ..Entry::new(taint_toleration::NAME, &[Filter, PreScore, Score])
    },
    Entry {
        default_weight: 2,
        args_kind: Some("NodeAffinityArgs"),
        factory: Some(node_affinity::plugin),
        ..Entry::new(node_affinity::NAME, &[PreFilter, Filter, PreScore, Score])
    },
    Entry {
        factory: Some(node_ports::plugin),
        ..Entry::new(node_ports::NAME, &[PreFilter, Filter])
    },
    Entry {
        default_weight: 1,
        args_kind: Some("NodeResourcesFitArgs"),
        factory: Some(node_resources::fit::plugin),
        ..Entry::new(
            node_resources::fit::NAME,
            &[PreFilter, Filter, PreScore, Score, PlacementScore],
        )
    },
    Entry {
        factory: Some(volume_restrictions::plugin),
        ..Entry::new(volume_restrictions::NAME, &[PreFilter, Filter])
    },
    Entry {
        factory: Some(node_volume_limits::plugin),
        ..Entry::new(node_volume_limits::NAME, &[PreFilter, Filter])
    },
    Entry {
        args_kind: Some("VolumeBindingArgs"),
        factory: Some(volume_binding::plugin),
        ..Entry::new(volume_binding::NAME, &[PreFilter, Filter, PreScore, Score, Reserve, PreBind])
    },
    Entry {
        factory: Some(volume_zone::plugin),
        ..Entry::new(volume_zone::NAME, &[PreFilter, Filter])
    },
    Entry {
        default_weight: 2,
        args_kind: Some("PodTopologySpreadArgs"),
        factory: Some(pod_topology_spread::plugin),
        ..Entry::new(pod_topology_spread::NAME, &[PreFilter, Filter, PreScore, Score])
    },
    Entry {
        default_weight: 2,
        args_kind: Some("InterPodAffinityArgs"),
        factory: Some(inter_pod_affinity::plugin),
        ..Entry::new(inter_pod_affinity::NAME, &[PreFilter, Filter, PreScore, Score])
    },
    Entry {
        default_weight: 2,
        args_kind: Some("DynamicResourcesArgs"),
        gate: Gate::on("DynamicResourceAllocation"),
        factory: Some(dynamic_resources::plugin),
        ..Entry::new(
            dynamic_resources::NAME,
            &[PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind],
        )
    },
    Entry {
        args_kind: Some("DefaultPreemptionArgs"),
        factory: Some(default_preemption::plugin),
        ..Entry::new(default_preemption::NAME, &[PreEnqueue, PostFilter])
    },
    Entry {
        default_weight: 1,
        args_kind: Some("NodeResourcesBalancedAllocationArgs"),
        factory: Some(node_resources::balanced_allocation::plugin),
        ..Entry::new(node_resources::balanced_allocation::NAME, &[PreScore, Score])
    },
    Entry {
        default_weight: 1,
        factory: Some(image_locality::plugin),
        ..Entry::new(image_locality::NAME, &[Score])
    },
    Entry { factory: Some(default_binder::plugin), ..Entry::new(default_binder::NAME, &[Bind]) },
    Entry {
        gate: Gate::on("NodeDeclaredFeatures"),
        factory: Some(node_declared_features::plugin),
        ..Entry::new(node_declared_features::NAME, &[PreFilter, Filter])
    },
    Entry {
        gate: Gate::off("GangScheduling"),
        factory: Some(gang_scheduling::plugin),
        ..Entry::new(gang_scheduling::NAME, &[PreEnqueue, Permit])
    },
    Entry {
        gate: Gate::off("TopologyAwareWorkloadScheduling"),
        factory: Some(topology_placement::plugin),
        ..Entry::new(topology_placement::NAME, &[PlacementGenerate])
    },
    Entry {
        default_weight: 1,
        gate: Gate::off("TopologyAwareWorkloadScheduling"),
        factory: Some(pod_group_pods_count::plugin),
        ..Entry::new(pod_group_pods_count::NAME, &[PlacementScore])
    },
];

/// Returns the plugin called `name`.
pub fn get(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// Returns the default `multiPoint` list with default gates, in order.
pub fn defaults() -> impl Iterator<Item = &'static Entry> {
    ALL.iter().filter(|entry| entry.is_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use framework::{ActionType as Action, EventResource as R};

    use super::*;

    #[test]
    fn default_list_equals_kubernetes() {
        let list: Vec<_> = defaults().map(|entry| (entry.name, entry.default_weight)).collect();
        let expected = [
            ("SchedulingGates", 0),
            ("PrioritySort", 0),
            ("NodeUnschedulable", 0),
            ("NodeName", 0),
            ("TaintToleration", 3),
            ("NodeAffinity", 2),
            ("NodePorts", 0),
            ("NodeResourcesFit", 1),
            ("VolumeRestrictions", 0),
            ("NodeVolumeLimits", 0),
            ("VolumeBinding", 0),
            ("VolumeZone", 0),
            ("PodTopologySpread", 2),
            ("InterPodAffinity", 2),
            ("DynamicResources", 2),
            ("DefaultPreemption", 0),
            ("NodeResourcesBalancedAllocation", 1),
            ("ImageLocality", 1),
            ("DefaultBinder", 0),
            ("NodeDeclaredFeatures", 0),
        ];
        assert_eq!(list, expected);
    }

    const ADD: Action = Action::ADD;
    const UPDATE: Action = Action::UPDATE;
    const DELETE: Action = Action::DELETE;

    fn made(name: &str) -> Plugin {
        let factory = get(name).and_then(|entry| entry.factory).unwrap();
        factory(&PluginArgs::default()).unwrap()
    }

    /// Events of the volume plugins: the events of Kubernetes, and the events that rules of
    /// docs/differences.toml add.
    fn volume_events() -> [(&'static str, Vec<(R, Action)>); 4] {
        let all = ADD | UPDATE | DELETE;
        let nodes = || (R::Node, ADD | Action::UPDATE_NODE_LABEL);
        let [claims, volumes] = [R::PersistentVolumeClaim, R::PersistentVolume];
        let restrictions = vec![(R::Pod, DELETE), (R::Node, ADD), (claims.clone(), ADD)];
        let limits = vec![
            (R::CsiNode, all),
            (R::Node, ADD),
            (volumes.clone(), DELETE),
            (claims.clone(), ADD | DELETE),
            (R::Pod, DELETE),
            (R::AssignedPod, ADD),
            (R::VolumeAttachment, ADD | DELETE),
            // With the gate VolumeLimitScaling, which is on by default since 1.37.
            (R::CsiDriver, UPDATE | DELETE),
        ];
        let binding = vec![
            (R::StorageClass, ADD | UPDATE),
            (claims.clone(), ADD | UPDATE),
            (volumes.clone(), all),
            nodes(),
            (R::CsiNode, all),
            (R::CsiDriver, UPDATE | DELETE),
            (R::CsiStorageCapacity, ADD | UPDATE),
            (R::AssignedPod, DELETE),
        ];
        let changes = [claims, volumes].map(|kind| (kind, ADD | UPDATE));
        let zone = [vec![(R::StorageClass, ADD), nodes()], changes.to_vec()].concat();
        [
            (volume_restrictions::NAME, restrictions),
            (node_volume_limits::NAME, limits),
            (volume_binding::NAME, binding),
            (volume_zone::NAME, zone),
        ]
    }

    #[test]
    fn volume_plugins_register_their_events() {
        for (name, expected) in volume_events() {
            let mut heard = BTreeMap::new();
            for own in made(name).events.iter().flatten().map(|own| &own.event) {
                let actions = heard.entry(own.resource.clone()).or_insert(own.action);
                *actions = *actions | own.action;
            }
            assert_eq!(heard, expected.into_iter().collect(), "{name}");
        }
    }

    /// The plugin registers no event for these kinds but reads them, so they must be watched.
    #[test]
    fn node_volume_limits_watches_volumes_and_classes_without_their_events() {
        let expected = [R::PersistentVolume, R::StorageClass];
        assert_eq!(made(node_volume_limits::NAME).read_kinds, expected.into());
    }

    #[test]
    fn names_are_unique_and_found_by_lookup() {
        for entry in &ALL {
            assert!(std::ptr::eq(get(entry.name).unwrap(), entry), "{} twice", entry.name);
        }
        assert!(get("nodeaffinity").is_none());
    }
}
