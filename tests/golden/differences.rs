//! Where Loadmaster decides otherwise than kube-scheduler on purpose: docs/differences.toml.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

/// The file, as far as the runner reads it.
#[derive(Debug, Deserialize)]
struct Differences {
    difference: Vec<Difference>,
}

#[derive(Debug, Deserialize)]
struct Difference {
    id: String,
    area: String,
    plugin: String,
    /// Arguments of the plugin without which it decides as kube-scheduler does.
    #[serde(default)]
    arguments: Vec<String>,
    /// The events it is about, as `Resource/Action`; any if empty.
    #[serde(default)]
    events: Vec<String>,
}

impl Difference {
    fn is_about(&self, resource: &str, action: &str) -> bool {
        self.events.iter().any(|event| match event.rsplit_once('/') {
            Some((own, "Update")) => own == resource && action.starts_with("Update"),
            Some((own, of)) => own == resource && of == action,
            None => false,
        })
    }
}

static DIFFERENCES: LazyLock<Differences> = LazyLock::new(|| {
    toml::from_str(include_str!("../../docs/differences.toml"))
        .unwrap_or_else(|error| panic!("docs/differences.toml: {error}"))
});

fn of_hints(plugin: &str) -> impl Iterator<Item = &'static Difference> {
    let hints = DIFFERENCES.difference.iter().filter(|own| own.area == "queueing-hints");
    hints.filter(move |own| own.plugin == plugin)
}

/// The difference that explains why a hint of `plugin` about an event is more generous than the one
/// recorded, under a profile that gives the plugin these arguments.
pub(crate) fn of_hint(
    plugin: &str,
    arguments: &Value,
    resource: &str,
    action: &str,
) -> Option<&'static str> {
    let is_given = |argument: &String| !arguments[argument].is_null();
    of_hints(plugin)
        .filter(|own| own.arguments.is_empty() || own.arguments.iter().any(is_given))
        .find(|own| own.events.is_empty() || own.is_about(resource, action))
        .map(|own| own.id.as_str())
}

/// The difference that explains why `plugin` hears of an event that its namesake does not register.
pub(crate) fn of_registration(plugin: &str, resource: &str, action: &str) -> Option<&'static str> {
    of_hints(plugin).find(|own| own.is_about(resource, action)).map(|own| own.id.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_file_reads_and_ids_are_unique() {
        let mut ids: Vec<_> = DIFFERENCES.difference.iter().map(|own| &own.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), DIFFERENCES.difference.len());
    }

    #[test]
    fn a_hint_is_explained_by_the_arguments_of_its_plugin() {
        let of = |plugin, arguments| of_hint(plugin, &arguments, "Node", "UpdateNodeLabel");
        let explained = of("NodeAffinity", json!({"addedAffinity": {}}));
        assert_eq!(explained, Some("node-affinity-added-affinity-hint"));
        assert_eq!(of("NodeAffinity", Value::Null), None);
        assert_eq!(of("NodePorts", json!({"addedAffinity": {}})), None);
    }
}
