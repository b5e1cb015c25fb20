//! TrainJobs: a runtime describes a JobSet, and the TrainJob says how many nodes train with what
//! resources.

use serde_json::{Value, json};

use super::Controllers;
use super::foreign::{TRAINER, group_and_kind};
use super::template::{count, name, namespace, put, text};

/// The label of the job of a runtime that trains.
const STEP: &str = "trainer.kubeflow.org/trainjob-ancestor-step";
/// The names of that job and of its container.
const NODES: [&str; 3] = ["node", "trainer-node", "trainer"];

/// Whether the object describes how TrainJobs run.
pub(super) fn is_runtime(object: &Value) -> bool {
    let (group, kind) = group_and_kind(object);
    group == TRAINER && ["ClusterTrainingRuntime", "TrainingRuntime"].contains(&kind)
}

/// Returns kind, namespace and name of a runtime.
pub(super) fn key_of(runtime: &Value) -> (String, String, String) {
    let kind = text(runtime, "/kind");
    let namespace = if kind == "TrainingRuntime" { namespace(runtime) } else { "" };
    (kind.to_owned(), namespace.to_owned(), name(runtime).to_owned())
}

/// Returns the JobSet that a TrainJob makes from its runtime.
///
/// # Errors
/// The runtime is not in the input.
pub(super) fn job_set(controllers: &Controllers<'_>, object: &Value) -> Result<Value, String> {
    let kind = match text(object, "/spec/runtimeRef/kind") {
        "" => "ClusterTrainingRuntime",
        kind => kind,
    };
    let name = text(object, "/spec/runtimeRef/name");
    let namespace = if kind == "TrainingRuntime" { namespace(object) } else { "" };
    let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
    let runtime = controllers.runtimes.get(&key);
    let runtime = runtime.ok_or_else(|| {
        format!(
            "spec.runtimeRef: the {kind} {name} is not in the input, and it has the pod templates"
        )
    })?;
    let mut spec = runtime["spec"]["template"]["spec"].clone();
    let nodes = nodes(object, runtime);
    for job in spec["replicatedJobs"].as_array_mut().into_iter().flatten().filter(|job| trains(job))
    {
        for field in ["parallelism", "completions"] {
            put(job, &["template", "spec", field], json!(nodes));
        }
        set_resources(job, &object["spec"]["trainer"]["resourcesPerNode"]);
    }
    Ok(json!({"spec": spec}))
}

/// Returns the number of pods of the job that trains. A launcher may be one of the nodes.
fn nodes(object: &Value, runtime: &Value) -> usize {
    let of_runtime = || count(runtime, "/spec/mlPolicy/numNodes");
    let nodes = count(object, "/spec/trainer/numNodes").or_else(of_runtime).unwrap_or(1);
    let launches = runtime.pointer("/spec/mlPolicy/mpi/runLauncherAsNode") == Some(&json!(true));
    nodes.saturating_sub(usize::from(launches))
}

fn trains(job: &Value) -> bool {
    let step = &job["template"]["metadata"]["labels"][STEP];
    *step == "trainer" || step.is_null() && NODES.contains(&text(job, "/name"))
}

fn set_resources(job: &mut Value, resources: &Value) {
    let path = "/template/spec/template/spec/containers";
    let Some(containers) = job.pointer_mut(path).and_then(Value::as_array_mut) else { return };
    let is_only = containers.len() == 1;
    let mut own = containers.iter_mut();
    let own = own.find(|own| is_only || NODES.contains(&text(own, "/name")));
    if let Some(container) = own.filter(|_| resources.is_object()) {
        put(container, &["resources"], resources.clone());
    }
}
