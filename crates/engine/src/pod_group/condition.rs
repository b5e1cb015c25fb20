//! The condition of a PodGroup.

use framework::{
    Level, PodGroup, PodGroupCondition, PodGroupKey, PodGroupSource, Write, WriteAction,
};
use serde_json::json;

use crate::context::Context;
use crate::world::World;

/// Returns the condition of a group.
pub(crate) fn condition(status: bool, reason: &str, message: &str) -> PodGroupCondition {
    PodGroupCondition { status, reason: reason.into(), message: message.into() }
}

/// Returns the condition of a group that was scheduled.
pub(crate) fn scheduled(message: &str) -> PodGroupCondition {
    condition(true, "Scheduled", message)
}

/// Returns the version in which a PodGroup is written, which is the one of the level.
pub(super) const fn api_version(source: PodGroupSource, level: Level) -> &'static str {
    match source {
        PodGroupSource::Kubernetes if level.is_at_least(Level::V1_37) => {
            "scheduling.k8s.io/v1beta1"
        }
        PodGroupSource::Kubernetes => "scheduling.k8s.io/v1alpha2",
        PodGroupSource::Coscheduling => "scheduling.x-k8s.io/v1alpha1",
    }
}

/// Returns the write of a condition.
pub(super) fn write(
    group: &PodGroupKey,
    known: &PodGroup,
    condition: &PodGroupCondition,
    world: &World,
    cx: &Context<'_>,
) -> Write {
    let level = world.profiles().level();
    let condition_type = match level.is_at_least(Level::V1_37) {
        true => "PodGroupInitiallyScheduled",
        false => "PodGroupScheduled",
    };
    let mut entry = json!({
        "type": condition_type,
        "status": if condition.status { "True" } else { "False" },
        "reason": &*condition.reason,
        "message": &*condition.message,
        "observedGeneration": known.generation,
    });
    if known.condition.as_ref().is_none_or(|shown| shown.status != condition.status) {
        let now = world.wall_offset().wall_time(cx.now);
        entry["lastTransitionTime"] = now.floor_to_second().to_string().into();
    }
    let patch = json!({
        "metadata": {"uid": known.uid.to_string()},
        "status": {"conditions": [entry]},
    });
    Write {
        api_version: api_version(group.source, level).into(),
        resource: "podgroups".into(),
        namespace: group.namespace.clone(),
        name: group.name.clone(),
        subresource: Some("status".into()),
        flow: "".into(),
        action: WriteAction::StrategicMergePatch(patch),
    }
}
