//! DefaultBinder: binds a pod through its `binding` subresource.

use framework::{Attempt, Bind, BindStep, Binding, Plugin, PluginArgs};

/// Plugin name.
pub const NAME: &str = "DefaultBinder";

/// The DefaultBinder plugin.
#[derive(Debug)]
pub struct DefaultBinder;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    Ok(Plugin::new(NAME, DefaultBinder).bind().build())
}

impl Bind for DefaultBinder {
    fn bind(&self, attempt: &Attempt<'_>, node: &str) -> BindStep {
        BindStep::Bind(Binding {
            pod: attempt.pod.key.clone(),
            uid: attempt.pod.uid.clone(),
            node: node.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use framework::{Cluster, CycleState, PodKey, Uid};
    use testkit::{handle, pod};

    use super::*;

    #[test]
    fn binding_names_pod_uid_and_node() {
        let pod = pod("p").namespace("team-a").uid("u-1").build();
        let BindStep::Bind(binding) = DefaultBinder
            .bind(&Attempt::new(&CycleState::new(), &pod, &handle(&Cluster::default())), "n")
        else {
            panic!("expected a binding");
        };
        let expected =
            Binding { pod: PodKey::new("team-a", "p"), uid: Uid::from("u-1"), node: "n".into() };
        assert_eq!(binding, expected);
    }
}
