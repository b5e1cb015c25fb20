//! The arguments of the plugin.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use framework::api::ResourceList;
use serde::{Deserialize, Serialize};

/// Maximum number of CPUs or devices of a node of full size.
const FULL_NODE_MAX: u32 = 1_000_000;

/// The arguments of the plugin (`GpuShareArgs`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GpuShareArgs {
    /// The criterion for the best node and the best device.
    pub strategy: Strategy,
    /// The expected pods, read by strategies that look ahead.
    pub workload: Vec<Task>,
    /// The size relative to which free resources are measured.
    pub full_node: FullNode,
}

/// The criterion for the best node and the best of its devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// Prefers the node with the least CPU and GPU left, and on it the device with the least left.
    #[default]
    BestFit,
    /// Prefers the placement that adds least to the GPU capacity that the expected workload cannot
    /// use. Breaks ties by best fit.
    FragmentationGradient,
}

/// A kind of pods in the expected workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Task {
    /// The requests of a pod. CPU, memory and thousandths of a GPU are read.
    pub requests: ResourceList,
    /// GPU models that the pod can use; empty for all.
    pub models: Vec<String>,
    /// The number of pods of this kind, in any unit.
    pub popularity: f64,
}

/// A node of full size. Free resources are measured relative to it, which makes CPU and GPU
/// comparable. A larger amount counts as full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FullNode {
    /// CPUs.
    pub cpus: u32,
    /// GPU devices.
    pub gpus: u32,
}

impl Default for FullNode {
    fn default() -> Self {
        Self { cpus: 128, gpus: 8 }
    }
}

impl GpuShareArgs {
    /// Returns the arguments if they are valid.
    ///
    /// # Errors
    /// The errors of all fields.
    pub(crate) fn checked(self) -> Result<Self, String> {
        let mut faults = Vec::new();
        if self.strategy == Strategy::FragmentationGradient && self.workload.is_empty() {
            faults.push("workload: FragmentationGradient requires at least one task".to_owned());
        }
        for (place, task) in self.workload.iter().enumerate() {
            let popularity = task.popularity;
            if !popularity.is_finite() || popularity <= 0.0 {
                let text = "must be greater than 0";
                faults.push(format!("workload[{place}].popularity: {text}, got {popularity}"));
            }
        }
        for (field, value) in [("cpus", self.full_node.cpus), ("gpus", self.full_node.gpus)] {
            if !(1..=FULL_NODE_MAX).contains(&value) {
                faults.push(format!("fullNode.{field}: must be from 1 to {FULL_NODE_MAX}"));
            }
        }
        if faults.is_empty() { Ok(self) } else { Err(faults.join("; ")) }
    }
}

/// Returns the most popular of `tasks` that together make up at least `percent` of the pods, each
/// kind once, by descending popularity.
pub fn typical_tasks(tasks: impl IntoIterator<Item = Task>, percent: f64) -> Vec<Task> {
    let mut kinds: Vec<Task> = Vec::new();
    let mut places = HashMap::new();
    for task in tasks {
        let kind = (task.requests.clone(), task.models.clone());
        match places.entry(kind) {
            Entry::Occupied(place) => {
                let known: &mut Task = &mut kinds[*place.get()];
                known.popularity += task.popularity;
            }
            Entry::Vacant(place) => {
                place.insert(kinds.len());
                kinds.push(task);
            }
        }
    }
    kinds.sort_by(|a, b| b.popularity.total_cmp(&a.popularity));
    let pods: f64 = kinds.iter().map(|task| task.popularity).sum();
    let mut counted = 0.0;
    kinds.retain(|task| {
        let wanted = counted < pods * percent / 100.0;
        counted += task.popularity;
        wanted
    });
    kinds
}

#[cfg(test)]
mod tests {
    use framework::PluginArgs;
    use framework::api::QuantityText;
    use serde_json::json;

    use super::*;

    fn task(cpu: &str, popularity: f64) -> Task {
        let requests = [("cpu".to_owned(), QuantityText(cpu.to_owned()))].into();
        Task { requests, popularity, ..Task::default() }
    }

    #[test]
    fn typical_tasks_are_the_most_popular_kinds() {
        let tasks = || [("1", 1.0), ("2", 4.0), ("1", 2.0), ("3", 1.0)].map(|(c, p)| task(c, p));
        let (one, two, three) = (task("1", 3.0), task("2", 4.0), task("3", 1.0));
        assert_eq!(typical_tasks(tasks(), 100.0), [two.clone(), one.clone(), three]);
        assert_eq!(typical_tasks(tasks(), 51.0), [two.clone(), one]);
        assert_eq!(typical_tasks(tasks(), 50.0), [two]);
        assert_eq!(typical_tasks([], 100.0), []);
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        let decode = |value| PluginArgs::new(value).decode::<GpuShareArgs>()?.checked();
        let complete = decode(json!({})).unwrap();
        assert_eq!(
            serde_json::to_value(complete).unwrap(),
            json!({"strategy": "BestFit", "workload": [], "fullNode": {"cpus": 128, "gpus": 8}})
        );
        for (args, expected) in [
            (json!({"strategy": "WorstFit"}), "unknown variant `WorstFit`"),
            (json!({"fullNode": {"gpu": 1}}), "unknown field `gpu`"),
            (json!({"fullNode": {"cpus": 0}}), "fullNode.cpus: must be from 1 to 1000000"),
            (json!({"fullNode": {"gpus": -1}}), "invalid value: integer `-1`"),
            (
                json!({"strategy": "FragmentationGradient"}),
                "workload: FragmentationGradient requires at least one task",
            ),
            (
                json!({"workload": [{"popularity": 1}, {"popularity": -2}]}),
                "workload[1].popularity: must be greater than 0, got -2",
            ),
        ] {
            let error = decode(args).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
