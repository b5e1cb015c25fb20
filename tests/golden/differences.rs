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
}

static DIFFERENCES: LazyLock<Differences> = LazyLock::new(|| {
    toml::from_str(include_str!("../../docs/differences.toml"))
        .unwrap_or_else(|error| panic!("docs/differences.toml: {error}"))
});

/// The difference that explains why a hint of `plugin` is more generous than the one recorded,
/// under a profile that gives the plugin these arguments.
pub(crate) fn of_hint(plugin: &str, arguments: &Value) -> Option<&'static str> {
    let is_given = |argument: &String| !arguments[argument].is_null();
    let mut hints = DIFFERENCES.difference.iter().filter(|own| own.area == "queueing-hints");
    hints
        .find(|own| own.plugin == plugin && own.arguments.iter().any(is_given))
        .map(|own| own.id.as_str())
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
        let explained = of_hint("NodeAffinity", &json!({"addedAffinity": {}}));
        assert_eq!(explained, Some("node-affinity-added-affinity-hint"));
        assert_eq!(of_hint("NodeAffinity", &Value::Null), None);
        assert_eq!(of_hint("NodePorts", &json!({"addedAffinity": {}})), None);
    }
}
