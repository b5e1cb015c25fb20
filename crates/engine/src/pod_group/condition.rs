//! The condition of a PodGroup.

use framework::{
    Level, PodGroup, PodGroupCondition, PodGroupKey, PodGroupSource, Write, WriteAction,
};
use serde_json::json;

use crate::context::Context;
use crate::effect::EffectKind;
use crate::world::World;

/// Returns the condition of a group.
pub(crate) fn condition(status: bool, reason: &str, message: &str) -> PodGroupCondition {
    PodGroupCondition { status, reason: reason.into(), message: message.into() }
}

/// Writes the condition of a PodGroup, unless the watch shows it. A group that was scheduled once
/// keeps its condition. PodGroups of Coscheduling have no such condition.
pub(crate) fn report_condition(
    group: &PodGroupKey,
    condition: &PodGroupCondition,
    world: &World,
    cx: &mut Context<'_>,
) {
    let Some(known) = world.pod_group(group) else { return };
    let shown = known.condition.as_ref();
    let is_final = shown.is_some_and(|shown| shown.status || shown == condition);
    if group.source == PodGroupSource::Kubernetes && !is_final {
        cx.effects.emit(EffectKind::Write(write(group, known, condition, world, cx)));
    }
}

fn write(
    group: &PodGroupKey,
    known: &PodGroup,
    condition: &PodGroupCondition,
    world: &World,
    cx: &Context<'_>,
) -> Write {
    let is_beta = world.profiles().level().is_at_least(Level::V1_37);
    let (version, condition_type) = match is_beta {
        true => ("scheduling.k8s.io/v1beta1", "PodGroupInitiallyScheduled"),
        false => ("scheduling.k8s.io/v1alpha2", "PodGroupScheduled"),
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
        api_version: version.into(),
        resource: "podgroups".into(),
        namespace: group.namespace.clone(),
        name: group.name.clone(),
        subresource: Some("status".into()),
        flow: "".into(),
        action: WriteAction::StrategicMergePatch(patch),
    }
}
