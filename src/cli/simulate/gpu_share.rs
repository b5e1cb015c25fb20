//! A trace on single GPU devices: the profile in which only GpuShare scores.

use std::sync::Arc;

use dry_run::Settings;
use framework::Registry;
use gpu_share::{GpuShareArgs, Strategy, Task, typical_tasks};
use serde_json::json;
use simulator::replay::SCHEDULER;
use simulator::trace::{Trace, TracePod};

use crate::config::{self, ConfigError, Gates};

/// Returns settings in which GpuShare is the only plugin that scores, as in the published
/// comparison. The plugin expects every kind of pod in the trace, as often as the trace has it.
///
/// # Errors
/// GpuShare does not accept its arguments.
pub(super) fn settings(
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
    let profiles = loaded.config.scheduler_profiles();
    Ok(Settings { profiles, registry: Arc::new(registry), ..settings })
}

fn task(pod: &TracePod) -> Task {
    let requests = pod.to_pod(SCHEDULER).spec.containers.swap_remove(0).resources.requests;
    Task { requests, models: pod.models.clone(), popularity: 1.0 }
}
