//! An engine with the in-tree plugins and those of this crate.

use std::fmt::Debug;

use engine::cycle::Form;
use engine::profile::PluginConfig;
use framework::EventResource;
use plugin_trial::{World, profiles};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Creates a world whose profile has this plugin.
pub(crate) fn world(form: Form, name: &str, args: Value) -> World {
    world_with(form, &[PluginConfig { name: name.to_owned(), args: Some(args) }])
}

/// Creates a world whose profile has these plugins.
pub(crate) fn world_with(form: Form, plugins: &[PluginConfig]) -> World {
    let mut registry = plugins::registry();
    loadmaster_scheduler_plugins::add_to(&mut registry);
    World::new(form, profiles(&registry, plugins, 5))
}

/// Nodes and pods of these tests.
pub(crate) trait Setting {
    /// Adds a node that can give these amounts to pods.
    fn node_with(&mut self, name: &str, allocatable: &Value);

    fn node(&mut self, name: &str) {
        self.node_with(name, &json!({"cpu": "64", "memory": "256Gi", "pods": "110"}));
    }

    /// Adds or replaces an object of a custom kind.
    fn object(&mut self, kind: &str, object: Value);

    fn pod(&mut self, name: &str, cpu: i64) {
        let amounts = json!({"cpu": cpu.to_string(), "memory": "1Gi"});
        let resources = json!({"requests": amounts, "limits": amounts});
        self.pod_of(name, &[json!({"name": "c", "resources": resources})]);
    }

    /// Creates a Guaranteed pod of these containers.
    fn pod_of(&mut self, name: &str, containers: &[Value]) {
        self.create(name, "Guaranteed", containers);
    }

    /// Creates a pod that asks for nothing.
    fn best_effort_pod(&mut self, name: &str) {
        self.create(name, "BestEffort", &[json!({"name": "c"})]);
    }

    fn create(&mut self, name: &str, class: &str, containers: &[Value]);
}

impl Setting for World {
    fn node_with(&mut self, name: &str, allocatable: &Value) {
        self.add_node(
            name,
            json!({"status": {"capacity": allocatable, "allocatable": allocatable}}),
        );
    }

    fn object(&mut self, kind: &str, object: Value) {
        self.add_object(EventResource::Custom(kind.into()), object);
    }

    fn create(&mut self, name: &str, class: &str, containers: &[Value]) {
        self.add_pod(
            name,
            json!({"spec": {"containers": containers}, "status": {"qosClass": class}}),
        );
    }
}

/// A step of a history. A plugin adds steps that change what it reads.
#[derive(Debug, Clone)]
pub(crate) enum Step<T> {
    Own(T),
    Pod { cpu: i64 },
    Delete(usize),
    Pass { rounds: usize },
}

/// Returns steps, of which about a third are those of the plugin.
pub(crate) fn steps<T: Debug + Clone + 'static>(
    own: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Vec<Step<T>>> {
    let step = prop_oneof![
        5 => own.prop_map(Step::Own),
        6 => (1i64..5).prop_map(|cpu| Step::Pod { cpu }),
        2 => (0usize..20).prop_map(Step::Delete),
        2 => (1usize..6).prop_map(|rounds| Step::Pass { rounds }),
    ];
    prop::collection::vec(step, 1..40)
}

/// The name of a node of a history.
pub(crate) fn node_name(number: usize) -> String {
    format!("n{number}")
}

/// Number of nodes of a history.
pub(crate) const NODES: usize = 4;

/// Checks that decisions which look only at changed nodes are those of full passes, in both forms.
///
/// # Errors
/// A pod is elsewhere after one of the steps.
pub(crate) fn forms_agree<T>(
    name: &str,
    args: &Value,
    steps: &[Step<T>],
    own: impl Fn(&mut World, &T),
) -> Result<(), TestCaseError> {
    let history = |form| {
        let mut world = self::world(form, name, args.clone());
        (0..NODES).for_each(|node| world.node(&node_name(node)));
        let (mut pods, mut history) = (0, Vec::new());
        for step in steps {
            match step {
                Step::Own(step) => own(&mut world, step),
                Step::Pod { cpu } => {
                    world.pod(&format!("p{pods}"), *cpu);
                    pods += 1;
                }
                Step::Delete(pod) => world.delete(&format!("p{pod}")),
                Step::Pass { rounds } => (0..*rounds).for_each(|_| world.pass(15)),
            }
            world.settle();
            history.push(world.placements());
        }
        history
    };
    let ranked = history(Form::Ranked);
    prop_assert_eq!(&ranked, &history(Form::Set));
    prop_assert_eq!(&ranked, &history(Form::OneNode));
    Ok(())
}
