//! Plural names of kinds, which the objects in files do not state.

use std::collections::BTreeMap;

use serde_json::Value;

/// The plurals of the metrics server: it names them after the objects that it measures.
const METRICS: [(&str, &str); 2] = [("NodeMetrics", "nodes"), ("PodMetrics", "pods")];
const METRICS_GROUP: &str = "metrics.k8s.io";

/// The known plural names, by group and kind.
#[derive(Debug)]
pub(super) struct Plurals(BTreeMap<(String, String), String>);

impl Default for Plurals {
    fn default() -> Self {
        let metrics = METRICS.map(|(kind, plural)| (METRICS_GROUP, kind, plural));
        let entry = |(group, kind, plural): (&str, &str, &str)| {
            ((group.to_owned(), kind.to_owned()), plural.to_owned())
        };
        Self(metrics.map(entry).into())
    }
}

impl Plurals {
    /// Takes in the plural that a CustomResourceDefinition names.
    pub(super) fn learn(&mut self, definition: &Value) {
        let text = |pointer: &str| definition.pointer(pointer)?.as_str().map(str::to_owned);
        let names = (text("/spec/group"), text("/spec/names/kind"), text("/spec/names/plural"));
        if let (Some(group), Some(kind), Some(plural)) = names {
            self.0.insert((group, kind), plural);
        }
    }

    /// Returns `<plural>.<version>[.<group>]` of a kind. A plural that is not known is taken to be the
    /// usual one.
    pub(super) fn resource_name(&self, api_version: &str, kind: &str) -> String {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let known = self.0.get(&(group.to_owned(), kind.to_owned()));
        let plural = known.cloned().unwrap_or_else(|| usual_plural(kind));
        match group {
            "" => format!("{plural}.{version}"),
            group => format!("{plural}.{version}.{group}"),
        }
    }
}

fn usual_plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if singular.ends_with(['s', 'x']) || singular.ends_with("ch") => format!("{singular}es"),
        _ => format!("{singular}s"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn usual_plurals_are_formed() {
        let plurals = Plurals::default();
        for (api_version, kind, expected) in [
            ("v1", "Service", "services.v1"),
            ("apps/v1", "ReplicaSet", "replicasets.v1.apps"),
            ("storage.k8s.io/v1", "StorageClass", "storageclasses.v1.storage.k8s.io"),
            ("example.com/v1", "TeamPolicy", "teampolicies.v1.example.com"),
            ("example.com/v1", "Gateway", "gateways.v1.example.com"),
            ("metrics.k8s.io/v1beta1", "NodeMetrics", "nodes.v1beta1.metrics.k8s.io"),
        ] {
            assert_eq!(plurals.resource_name(api_version, kind), expected);
        }
    }

    #[test]
    fn definition_names_an_irregular_plural() {
        let mut plurals = Plurals::default();
        let names = json!({"kind": "Chassis", "plural": "chassis"});
        plurals.learn(&json!({"spec": {"group": "example.com", "names": names}}));
        plurals.learn(&json!({"spec": {"group": "example.com"}}));
        assert_eq!(plurals.resource_name("example.com/v1", "Chassis"), "chassis.v1.example.com");
        assert_eq!(plurals.resource_name("other.com/v1", "Chassis"), "chassises.v1.other.com");
    }
}
