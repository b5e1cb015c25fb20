//! Bounds of how many members of a group fit in each of its placements.

use std::sync::Arc;

use framework::{GroupPlacement, NodeIx, PerNode, PluginName, Pod, PodRoom, Status};

use crate::context::Context;
use crate::plugin_call::call_beside;
use crate::profile::Profile;
use crate::world::World;

/// Maximum number of different requests that are bounded. Members with others count as fitting.
const MAX_REQUESTS: usize = 8;

/// The bounds, and the plugins that gave them.
pub(super) struct Rooms {
    /// Maximum number of members that fit in each placement.
    pub(super) most: Vec<u32>,
    pub(super) plugins: Vec<PluginName>,
}

/// A filter that bounds how many pods fit.
type Bounding<'p> = (&'p PluginName, &'p Arc<dyn PodRoom>);

/// Returns how many of the members may fit in each placement. The room of a placement is the sum
/// over its nodes, for the members with equal requests; these do not take room from others.
///
/// # Errors
/// A plugin panicked.
pub(super) fn rooms(
    profile: &Profile,
    members: &[Arc<Pod>],
    placements: &[GroupPlacement],
    world: &World,
    cx: &mut Context<'_>,
) -> Result<Rooms, Status> {
    let bounding = profile
        .filter
        .iter()
        .filter_map(|filter| Some((&filter.name, filter.registered.pod_room.as_ref()?)));
    let bounding: Vec<Bounding<'_>> = bounding.collect();
    let (requests, others) = by_requests(members);
    if bounding.is_empty() || requests.is_empty() {
        let all = u32::try_from(members.len()).unwrap_or(u32::MAX);
        return Ok(Rooms { most: vec![all; placements.len()], plugins: Vec::new() });
    }
    let nodes: Vec<NodeIx> = placements.iter().flat_map(|own| own.nodes.iter().copied()).collect();
    let mut room = vec![0; nodes.len()];
    let mut most = vec![others; placements.len()];
    for Equal { pod, count } in requests {
        room.fill(i64::from(count));
        for (name, plugin) in &bounding {
            let handle = world.handle(cx.now);
            call_beside("PodRoom", name, cx.probe, || {
                plugin.pod_room(pod, &handle, PerNode::new(&nodes, &mut room));
            })?;
        }
        let mut rest = &room[..];
        for (placement, most) in placements.iter().zip(&mut most) {
            let (own, others) = rest.split_at(placement.nodes.len());
            let fitting = own.iter().fold(0_i64, |sum, room| sum.saturating_add((*room).max(0)));
            *most += u32::try_from(fitting).unwrap_or(u32::MAX).min(count);
            rest = others;
        }
    }
    let plugins = bounding.into_iter().map(|(name, _)| name.clone()).collect();
    Ok(Rooms { most, plugins })
}

/// Members with equal requests.
struct Equal<'m> {
    pod: &'m Pod,
    count: u32,
}

/// Returns the members by their requests, and the number of members beyond [`MAX_REQUESTS`].
fn by_requests(members: &[Arc<Pod>]) -> (Vec<Equal<'_>>, u32) {
    let (mut equal, mut others) = (Vec::<Equal<'_>>::new(), 0);
    for pod in members {
        match equal.iter().position(|own| own.pod.requests == pod.requests) {
            Some(place) => equal[place].count += 1,
            None if equal.len() < MAX_REQUESTS => equal.push(Equal { pod, count: 1 }),
            None => others += 1,
        }
    }
    (equal, others)
}
