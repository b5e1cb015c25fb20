//! Decoding and serialization of core API types inside arguments.

use framework::api;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::config::decode::record;

record!(api::NodeAffinity = "v1" "NodeAffinity" {
    "requiredDuringSchedulingIgnoredDuringExecution" => required,
    "preferredDuringSchedulingIgnoredDuringExecution" => preferred,
});

record!(api::NodeSelector = "v1" "NodeSelector" {
    "nodeSelectorTerms" => node_selector_terms,
});

record!(api::NodeSelectorTerm = "v1" "NodeSelectorTerm" {
    "matchExpressions" => match_expressions,
    "matchFields" => match_fields,
});

record!(api::SelectorRequirement = "v1" "NodeSelectorRequirement" {
    "key" => key,
    "operator" => operator as "v1.NodeSelectorOperator",
    "values" => values,
});

record!(api::PreferredSchedulingTerm = "v1" "PreferredSchedulingTerm" {
    "weight" => weight,
    "preference" => preference,
});

record!(api::TopologySpreadConstraint = "v1" "TopologySpreadConstraint" {
    "maxSkew" => max_skew,
    "topologyKey" => topology_key,
    "whenUnsatisfiable" => when_unsatisfiable as "v1.UnsatisfiableConstraintAction",
    "labelSelector" => label_selector,
    "minDomains" => min_domains,
    "nodeAffinityPolicy" => node_affinity_policy,
    "nodeTaintsPolicy" => node_taints_policy,
    "matchLabelKeys" => match_label_keys,
});

record!(api::LabelSelector = "v1" "LabelSelector" {
    "matchLabels" => match_labels,
    "matchExpressions" => match_expressions,
});

/// Serializes core API objects without fields that are absent or empty lists, as Kubernetes does.
pub(super) fn pruned<T: Serialize, S: Serializer>(
    objects: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let value = serde_json::to_value(objects).map_err(serde::ser::Error::custom)?;
    without_empty(value).serialize(serializer)
}

fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, value)| !is_left_out(name, value));
            Value::Object(kept.map(|(name, value)| (name, without_empty(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        other => other,
    }
}

/// An empty object is meaningful; only an empty map of labels is omitted, like an empty list.
fn is_left_out(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && name == "matchLabels",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_fields_are_not_serialized() {
        let affinity = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {},
            ]},
        });
        let read: api::NodeAffinity = serde_json::from_value(affinity.clone()).unwrap();
        assert_eq!(pruned(&read, serde_json::value::Serializer).unwrap(), affinity);
        let constraint = json!({
            "maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "X", "labelSelector": {},
        });
        let read: api::TopologySpreadConstraint =
            serde_json::from_value(constraint.clone()).unwrap();
        assert_eq!(pruned(&read, serde_json::value::Serializer).unwrap(), constraint);
    }
}
