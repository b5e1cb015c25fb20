//! Which plugins that are not built would have a say about a pod.
//!
//! Needed where a recording does not name the plugin behind each entry.

use std::collections::BTreeSet;

use framework::{Code, CycleState, Pod};

use super::setting::{Setting, is_unbuilt};
use super::world::World;

/// The unbuilt plugins that would have a say which nodes can take the pod: their stand-ins turn down
/// the pods that need them. None of them would have a say which node is better.
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
