//! Arguments of the two plugins: decoding, defaults and validation.

use std::collections::BTreeSet;

use framework::PluginArgs;
use serde::{Deserialize, Serialize};

use crate::args::{Faults, decode_strictly, null_as_default, quoted};
use crate::shape::{ShapePoint, check_shape};

/// `NodeResourcesFitArgs`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FitArgs {
    /// Extended resources that the filter ignores.
    #[serde(deserialize_with = "null_as_default")]
    pub(super) ignored_resources: Vec<String>,
    /// Domains of extended resources that the filter ignores.
    #[serde(deserialize_with = "null_as_default")]
    pub(super) ignored_resource_groups: Vec<String>,
    /// The scoring strategy.
    #[serde(deserialize_with = "null_as_default")]
    pub(super) scoring_strategy: ScoringStrategy,
}

/// The scoring strategy and its parameters.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ScoringStrategy {
    /// Name of the strategy. It has a default only if the whole strategy is absent.
    #[serde(rename = "type", default, deserialize_with = "null_as_default")]
    pub(super) kind: String,
    /// The rated resources and their weights.
    #[serde(deserialize_with = "null_as_default")]
    pub(super) resources: Vec<ResourceSpec>,
    /// The parameter of strategy RequestedToCapacityRatio, required for it and invalid for others.
    pub(super) requested_to_capacity_ratio: Option<RequestedToCapacityRatio>,
}

/// The parameter of strategy RequestedToCapacityRatio.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RequestedToCapacityRatio {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) shape: Vec<ShapePoint>,
}

/// A resource and its weight.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ResourceSpec {
    pub(super) name: String,
    pub(super) weight: i64,
}

/// `NodeResourcesBalancedAllocationArgs`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct BalancedAllocationArgs {
    /// The rated resources. Every weight is 1.
    #[serde(deserialize_with = "null_as_default")]
    pub(super) resources: Vec<ResourceSpec>,
}

/// Names of the strategies.
pub(super) const LEAST_ALLOCATED: &str = "LeastAllocated";
pub(super) const MOST_ALLOCATED: &str = "MostAllocated";
pub(super) const REQUESTED_TO_CAPACITY_RATIO: &str = "RequestedToCapacityRatio";

impl Default for ScoringStrategy {
    fn default() -> Self {
        let kind = LEAST_ALLOCATED.to_owned();
        Self { kind, resources: Vec::new(), requested_to_capacity_ratio: None }
    }
}

impl FitArgs {
    /// Decodes arguments, fills in defaults and validates the result.
    ///
    /// # Errors
    /// Returns all errors, with the texts of kube-scheduler.
    pub(super) fn decode(args: &PluginArgs) -> Result<Self, String> {
        let mut args: Self = decode_strictly(args)?;
        fill_in_resources(&mut args.scoring_strategy.resources);
        let mut faults = Faults::default();
        for (index, name) in args.ignored_resources.iter().enumerate() {
            faults.check_label_name(&format!("ignoredResources[{index}]"), name);
        }
        for (index, group) in args.ignored_resource_groups.iter().enumerate() {
            let path = format!("ignoredResourceGroups[{index}]");
            if group.contains('/') {
                faults.invalid(&path, quoted(group), "resource group name can't contain '/'");
            }
            faults.check_label_name(&path, group);
        }
        args.scoring_strategy.check(&mut faults);
        faults.none_or(args)
    }
}

impl ScoringStrategy {
    fn check(&self, faults: &mut Faults) {
        let known = [LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO];
        if !known.contains(&self.kind.as_str()) {
            faults.add(format!(
                "scoringStrategy.type: Unsupported value: {}: supported values: {}",
                quoted(&self.kind),
                known.map(quoted).join(", "),
            ));
        }
        for (index, resource) in self.resources.iter().enumerate() {
            if !(1..=100).contains(&resource.weight) {
                let name = &resource.name;
                faults.invalid(
                    &format!("scoringStrategy.resources[{index}].weight"),
                    resource.weight,
                    &format!("resource weight of {name} not in valid range (0, 100]"),
                );
            }
        }
        let path = "scoringStrategy.requestedToCapacityRatio";
        match (&self.requested_to_capacity_ratio, self.kind == REQUESTED_TO_CAPACITY_RATIO) {
            (Some(parameter), true) => {
                check_shape(&format!("{path}.shape"), &parameter.shape, faults);
            }
            (None, true) => faults.add(format!(
                "{path}: Required value: must be specified when type is RequestedToCapacityRatio"
            )),
            (Some(_), false) => faults.add(format!(
                "{path}: Forbidden: must be nil when type is not RequestedToCapacityRatio"
            )),
            (None, false) => {}
        }
    }
}

impl BalancedAllocationArgs {
    /// Decodes arguments, fills in defaults and validates the result.
    ///
    /// # Errors
    /// Returns all errors, with the texts of kube-scheduler.
    pub(super) fn decode(args: &PluginArgs) -> Result<Self, String> {
        let mut args: Self = decode_strictly(args)?;
        fill_in_resources(&mut args.resources);
        let mut faults = Faults::default();
        let mut seen = BTreeSet::new();
        for (index, resource) in args.resources.iter().enumerate() {
            if !seen.insert(&resource.name) {
                let name = quoted(&resource.name);
                faults.add(format!("resources[{index}].name: Duplicate value: {name}"));
            }
            if resource.weight != 1 {
                let path = format!("resources[{index}].weight");
                faults.invalid(&path, resource.weight, "must be 1");
            }
        }
        faults.none_or(args)
    }
}

/// Sets the defaults: cpu and memory if no resource is named, weight 1 if no weight is given.
fn fill_in_resources(resources: &mut Vec<ResourceSpec>) {
    if resources.is_empty() {
        resources
            .extend(["cpu", "memory"].map(|name| ResourceSpec { name: name.into(), weight: 1 }));
    }
    for resource in resources {
        if resource.weight == 0 {
            resource.weight = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn strategy(args: Value) -> Result<ScoringStrategy, String> {
        FitArgs::decode(&PluginArgs::new(args)).map(|args| args.scoring_strategy)
    }

    fn spec(name: &str, weight: i64) -> ResourceSpec {
        ResourceSpec { name: name.to_owned(), weight }
    }

    #[test]
    fn absent_fields_get_defaults() {
        let default = FitArgs::decode(&PluginArgs::default()).unwrap().scoring_strategy;
        assert_eq!(default.kind, LEAST_ALLOCATED);
        assert_eq!(default.resources, [spec("cpu", 1), spec("memory", 1)]);
        assert_eq!(strategy(json!({"scoringStrategy": null})), Ok(default));
        let most = strategy(json!({"scoringStrategy": {
            "type": "MostAllocated",
            "resources": [{"name": "cpu", "weight": 3}, {"name": "nvidia.com/gpu"}],
        }}));
        assert_eq!(most.unwrap().resources, [spec("cpu", 3), spec("nvidia.com/gpu", 1)]);
        let balanced = PluginArgs::new(json!({"resources": [{"name": "cpu"}]}));
        let balanced = BalancedAllocationArgs::decode(&balanced).unwrap();
        assert_eq!(balanced.resources, [spec("cpu", 1)]);
    }

    #[test]
    fn unknown_fields_are_rejected() {
        let rows = [
            (json!({"bogus": 1}), "bogus"),
            (
                json!({"scoringStrategy": {"type": "MostAllocated", "bogus": 1}}),
                "scoringStrategy.bogus",
            ),
            (
                json!({"scoringStrategy": {"resources": [{"nmae": "cpu"}]}}),
                "scoringStrategy.resources[0].nmae",
            ),
        ];
        for (args, path) in rows {
            assert_eq!(strategy(args), Err(format!("unknown field \"{path}\"")));
        }
    }

    #[test]
    fn errors_have_the_texts_of_kube_scheduler() {
        let ratio = |shape: Value| {
            json!({"scoringStrategy": {
                "type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}
            }})
        };
        let points = json!([
            {"utilization": 50, "score": 0},
            {"utilization": 10, "score": 11},
            {"utilization": 101, "score": -1},
        ]);
        let rows = [
            (
                json!({"ignoredResources": ["bad resource!", "cpu"]}),
                "ignoredResources[0]: Invalid value: \"bad resource!\": name part must consist of \
                 alphanumeric characters, '-', '_' or '.', and must start and end with an \
                 alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
                 for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            (
                json!({"ignoredResourceGroups": ["a/b", "ok.io"]}),
                "ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't \
                 contain '/'",
            ),
            (
                json!({"scoringStrategy": {}}),
                "scoringStrategy.type: Unsupported value: \"\": supported values: \
                 \"LeastAllocated\", \"MostAllocated\", \"RequestedToCapacityRatio\"",
            ),
            (
                json!({"scoringStrategy": {"type": "Bogus"}}),
                "scoringStrategy.type: Unsupported value: \"Bogus\": supported values: \
                 \"LeastAllocated\", \"MostAllocated\", \"RequestedToCapacityRatio\"",
            ),
            (
                json!({"scoringStrategy": {"type": "LeastAllocated",
                    "resources": [{"name": "cpu", "weight": 101}]}}),
                "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu \
                 not in valid range (0, 100]",
            ),
            (
                json!({"scoringStrategy": {"type": "RequestedToCapacityRatio"}}),
                "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when \
                 type is RequestedToCapacityRatio",
            ),
            (
                json!({"scoringStrategy": {"type": "MostAllocated",
                    "requestedToCapacityRatio": {}}}),
                "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not \
                 RequestedToCapacityRatio",
            ),
            (
                ratio(json!([])),
                "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one \
                 point must be specified",
            ),
            (
                ratio(points),
                "[scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: \
                 10: values must be sorted in increasing order, \
                 scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: 11: not \
                 in valid range [0, 10], \
                 scoringStrategy.requestedToCapacityRatio.shape[2].utilization: Invalid value: \
                 101: not in valid range [0, 100], \
                 scoringStrategy.requestedToCapacityRatio.shape[2].score: Invalid value: -1: not \
                 in valid range [0, 10]]",
            ),
        ];
        for (args, expected) in rows {
            assert_eq!(strategy(args).unwrap_err(), expected);
        }
    }

    #[test]
    fn balanced_resources_are_distinct_with_weight_one() {
        let resources = |args: Value| {
            BalancedAllocationArgs::decode(&PluginArgs::new(args)).map(|args| args.resources)
        };
        let twice = json!({"resources": [{"name": "cpu", "weight": 1}, {"name": "cpu"}]});
        assert_eq!(resources(twice).unwrap_err(), "resources[1].name: Duplicate value: \"cpu\"");
        let heavy = json!({"resources": [{"name": "cpu", "weight": 2}]});
        assert_eq!(
            resources(heavy).unwrap_err(),
            "resources[0].weight: Invalid value: 2: must be 1"
        );
    }
}
