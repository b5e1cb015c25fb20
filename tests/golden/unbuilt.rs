//! Plugins that are not built and would take part in the decision about a pod.
//!
//! Needed if a recording does not name the plugin of each entry.

use std::collections::BTreeSet;

use framework::{Code, CycleState, Pod};

use super::setting::{Setting, is_unbuilt};
use super::world::World;

/// Returns the plugins that are not built and would reject nodes for the pod: those whose
/// placeholders reject it. None of them would score nodes.
pub(crate) fn filters(pod: &Pod, world: &World, setting: &Setting) -> BTreeSet<String> {
    let stand_ins = setting.full().pre_filter.iter().filter(|plugin| is_unbuilt(&plugin.name));
    stand_ins
        .filter(|stand_in| {
            let mut state = CycleState::new();
            let answer = stand_in.plugin.pre_filter(&mut state, pod, &world.handle());
            answer.is_err_and(|status| status.code() != Code::Skip)
        })
        .map(|stand_in| stand_in.name.to_string())
        .collect()
}
