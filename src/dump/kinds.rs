//! The kinds of a dump: all that the tools read.

use framework::EventResource;
use kinds::Kind;
use serde_json::Value;

/// Selects pods that have not ended. The others take no room, and the tools leave them out.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Nodes and namespaces come before what is in them.
const KINDS: &[&Kind] = &[
    kinds::NODE,
    kinds::NAMESPACE,
    kinds::LIMIT_RANGE,
    kinds::RESOURCE_QUOTA,
    kinds::PRIORITY_CLASS,
    kinds::RUNTIME_CLASS,
    kinds::SERVICE,
    kinds::POD_DISRUPTION_BUDGET,
    kinds::STORAGE_CLASS,
    kinds::CSI_DRIVER,
    kinds::CSI_NODE,
    kinds::CSI_STORAGE_CAPACITY,
    kinds::VOLUME_ATTACHMENT,
    kinds::PERSISTENT_VOLUME,
    kinds::PERSISTENT_VOLUME_CLAIM,
    kinds::DEVICE_CLASS,
    kinds::DEVICE_TAINT_RULE,
    kinds::RESOURCE_SLICE,
    kinds::RESOURCE_CLAIM_TEMPLATE,
    kinds::RESOURCE_CLAIM,
    kinds::REPLICATION_CONTROLLER,
    kinds::DEPLOYMENT,
    kinds::REPLICA_SET,
    kinds::STATEFUL_SET,
    kinds::DAEMON_SET,
    kinds::CRON_JOB,
    kinds::JOB,
    kinds::JOB_SET,
    kinds::LEADER_WORKER_SET,
    kinds::RAY_CLUSTER,
    kinds::RAY_JOB,
    kinds::PYTORCH_JOB,
    kinds::MPI_JOB,
    kinds::CLUSTER_TRAINING_RUNTIME,
    kinds::TRAINING_RUNTIME,
    kinds::TRAIN_JOB,
    kinds::VOLCANO_JOB,
    kinds::ROLLOUT,
    kinds::POD_GROUP,
    kinds::COSCHEDULING_POD_GROUP,
    kinds::ELASTIC_QUOTA,
];

/// Returns the kinds of a dump, the pods last. A kind that a scheduler may watch is one of them.
pub(super) fn all() -> Vec<&'static Kind> {
    let watched = EventResource::BUILT_IN.into_iter().filter_map(|resource| resource.kind());
    let others = watched.filter(|kind| *kind != kinds::POD && !KINDS.contains(kind));
    KINDS.iter().copied().chain(others).chain([kinds::POD]).collect()
}

/// Returns the field selector of the list.
pub(super) fn field_selector(kind: &Kind) -> Option<&'static str> {
    (kind == kinds::POD).then_some(NOT_ENDED)
}

/// Whether a dump without the kind is of no use.
pub(super) fn is_needed(kind: &Kind) -> bool {
    kind == kinds::NODE || kind == kinds::POD
}

/// Sets version and kind of an object, which the items of a list do not have.
pub(super) fn complete(kind: &Kind, object: &mut Value) {
    if let Value::Object(fields) = object {
        fields.insert("apiVersion".to_owned(), kind.api_version.into());
        fields.insert("kind".to_owned(), kind.name.into());
    }
}
