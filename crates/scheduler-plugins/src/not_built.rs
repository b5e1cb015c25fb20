//! Plugins of scheduler-plugins that are not built. A profile that enables one cannot be built, and
//! the error says what serves instead.

use framework::{Plugin, PluginArgs, Registry};

/// A plugin that is not built, and what serves instead.
struct NotBuilt {
    name: &'static str,
    instead: &'static str,
}

const ALL: [NotBuilt; 6] = [
    NotBuilt {
        name: "NetworkOverhead",
        instead: "pods that talk to each other are kept close by podAffinity or by a PodGroup with \
                  schedulingConstraints.topology (docs/groups.md); remove the plugin from the \
                  profile",
    },
    NotBuilt {
        name: "TopologicalSort",
        instead: "PrioritySort orders the queue; give pods that others depend on a higher priority, \
                  and enable PrioritySort at queueSort",
    },
    NotBuilt {
        name: "SySched",
        instead: "pods with different system calls are kept apart by taints and by podAntiAffinity; \
                  remove the plugin from the profile",
    },
    NotBuilt {
        name: "Peaks",
        instead: "NodeResourcesFit with the scoring strategy MostAllocated fills nodes, so that \
                  others can be switched off; remove the plugin from the profile",
    },
    NotBuilt {
        name: "CrossNodePreemption",
        instead: "DefaultPreemption evicts pods on one node, and on several for a PodGroup \
                  (docs/groups.md); enable DefaultPreemption at postFilter",
    },
    NotBuilt {
        name: "PreemptionToleration",
        instead: "CapacityScheduling reads the annotations of PriorityClasses (docs/quotas.md), and \
                  DefaultPreemption protects pods by priority and PodDisruptionBudgets; enable one \
                  of them at postFilter",
    },
];

/// Registers a factory that fails for each of these plugins whose name is free.
pub(crate) fn add_to(registry: &mut Registry) {
    for NotBuilt { name, instead } in &ALL {
        if registry.get(name).is_none() {
            let fail =
                move |_: &PluginArgs| Err::<Plugin, _>(format!("it is not built: {instead}"));
            registry.register(name, fail).expect("the name is free");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_with_such_a_plugin_fails_with_what_serves_instead() {
        let mut registry = Registry::new();
        add_to(&mut registry);
        for NotBuilt { name, .. } in &ALL {
            let factory = registry.get(name).unwrap();
            let error = factory(&PluginArgs::default()).map(|_| ()).unwrap_err();
            assert!(error.starts_with("it is not built: "), "{name}: {error}");
        }
    }
}
