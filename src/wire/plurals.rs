//! Plural names of kinds, which the objects in files do not state.

use std::collections::BTreeMap;

use serde_json::Value;

/// The plurals of the metrics server: it names them after the objects that it measures.
const METRICS: [(&str, &str); 2] = [("NodeMetrics", "nodes"), ("PodMetrics", "pods")];
const METRICS_GROUP: &str = "metrics.k8s.io";

/// The known plural names, by group and kind.
#[derive(Debug, Clone)]
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
    /// Adds the plural that a CustomResourceDefinition names.
    pub(super) fn learn(&mut self, definition: &Value) {
        let text = |pointer: &str| definition.pointer(pointer)?.as_str().map(str::to_owned);
        let names = (text("/spec/group"), text("/spec/names/kind"), text("/spec/names/plural"));
        if let (Some(group), Some(kind), Some(plural)) = names {
            self.0.insert((group, kind), plural);
        }
    }

    /// Returns the name of the resource that an object belongs to, `<plural>.<version>[.<group>]`.
    /// The plural comes from the kinds of Kubernetes, from a CustomResourceDefinition, or from the
    /// `selfLink` of the object; otherwise the resource is not known, because a plural may be any
    /// word.
    pub(super) fn resource_name(
        &self,
        api_version: &str,
        kind: &str,
        object: &Value,
    ) -> Option<String> {
        if let Some(own) = kinds::find(api_version, kind) {
            return Some(own.versioned_resource.to_owned());
        }
        let (group, version) = api_version.split_once('/')?;
        let known = self.0.get(&(group.to_owned(), kind.to_owned())).map(String::as_str);
        let plural = known.or_else(|| plural_in_link(object, api_version))?;
        Some(format!("{plural}.{version}.{group}"))
    }
}

/// Returns the plural in `metadata.selfLink`, which servers up to Kubernetes 1.19 write.
fn plural_in_link<'a>(object: &'a Value, api_version: &str) -> Option<&'a str> {
    let link = object["metadata"]["selfLink"].as_str()?;
    let path = link.strip_prefix("/apis/")?.strip_prefix(api_version)?.strip_prefix('/')?;
    let path = match path.strip_prefix("namespaces/") {
        Some(path) => path.split_once('/')?.1,
        None => path,
    };
    path.split('/').next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name_of(plurals: &Plurals, api_version: &str, kind: &str) -> Option<String> {
        plurals.resource_name(api_version, kind, &json!({}))
    }

    #[test]
    fn kinds_of_kubernetes_have_their_plurals() {
        let plurals = Plurals::default();
        for (api_version, kind, expected) in [
            ("v1", "Service", Some("services.v1")),
            ("apps/v1", "ReplicaSet", Some("replicasets.v1.apps")),
            ("storage.k8s.io/v1", "StorageClass", Some("storageclasses.v1.storage.k8s.io")),
            ("metrics.k8s.io/v1beta1", "NodeMetrics", Some("nodes.v1beta1.metrics.k8s.io")),
            // Plugins name the kind by its beta version.
            (
                "resource.k8s.io/v1",
                "DeviceTaintRule",
                Some("devicetaintrules.v1beta2.resource.k8s.io"),
            ),
            ("policy/v1beta1", "PodDisruptionBudget", None),
            ("v1", "ReplicaSet", None),
            ("example.com/v1", "Gateway", None),
        ] {
            assert_eq!(name_of(&plurals, api_version, kind).as_deref(), expected, "{kind}");
        }
    }

    #[test]
    fn definition_or_link_names_the_plural() {
        let mut plurals = Plurals::default();
        let names = json!({"kind": "Chassis", "plural": "chassis"});
        plurals.learn(&json!({"spec": {"group": "example.com", "names": names}}));
        plurals.learn(&json!({"spec": {"group": "example.com"}}));
        let found = name_of(&plurals, "example.com/v1", "Chassis");
        assert_eq!(found.as_deref(), Some("chassis.v1.example.com"));
        assert_eq!(name_of(&plurals, "other.com/v1", "Chassis"), None);
        for (link, expected) in [
            ("/apis/other.com/v1/racks/r", Some("racks.v1.other.com")),
            ("/apis/other.com/v1/namespaces/n/racks/r", Some("racks.v1.other.com")),
            ("/apis/other.com/v2/racks/r", None),
            ("racks/r", None),
        ] {
            let object = json!({"metadata": {"selfLink": link}});
            let found = plurals.resource_name("other.com/v1", "Rack", &object);
            assert_eq!(found.as_deref(), expected, "{link}");
        }
    }
}
