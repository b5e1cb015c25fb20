//! A trace on single GPU devices: the profile that places by GpuShare alone.

use std::sync::Arc;

use framework::Registry;
use gpu_share::{GpuShareArgs, Strategy, Task, typical_tasks};
use serde_json::json;

use super::Settings;
use super::replay::SCHEDULER;
use crate::config::{self, ConfigError, Gates};
use crate::trace::{Trace, TracePod};

/// Settings with GpuShare as the only plugin that scores, as in the published comparison. The expected
/// workload is every kind of pod in the trace, as often as it is there.
///
/// # Errors
/// GpuShare is registered already under other terms, or its arguments are not in order.
pub fn settings(
    settings: Settings,
    trace: &Trace,
    strategy: Strategy,
) -> Result<Settings, ConfigError> {
    let workload = match strategy {
        Strategy::BestFit => Vec::new(),
        Strategy::FragmentationGradient => typical_tasks(trace.pods.iter().map(task), 100.0),
    };
    let args = GpuShareArgs { strategy, workload, ..GpuShareArgs::default() };
    let document = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{
            "schedulerName": SCHEDULER,
            "plugins": {
                "multiPoint": {"enabled": [{"name": gpu_share::NAME}]},
                "preScore": {"disabled": [{"name": "*"}]},
                "score": {"disabled": [{"name": "*"}], "enabled": [{"name": gpu_share::NAME}]},
            },
            "pluginConfig": [{"name": gpu_share::NAME, "args": args}],
        }],
    });
    let loaded = config::load(&document.to_string(), &Gates::default())?;
    let mut registry = Registry::clone(&settings.registry);
    if registry.get(gpu_share::NAME).is_none() {
        gpu_share::register(&mut registry).expect("the name is free");
    }
    Ok(Settings { config: Arc::new(loaded.config), registry: Arc::new(registry), ..settings })
}

fn task(pod: &TracePod) -> Task {
    let requests = pod.to_pod(SCHEDULER).spec.containers.swap_remove(0).resources.requests;
    Task { requests, models: pod.models.clone(), popularity: 1.0 }
}
