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

/// The filters of a profile that bound how many pods fit.
pub(super) struct Bounding<'p>(Vec<(&'p PluginName, &'p Arc<dyn PodRoom>)>);

impl<'p> Bounding<'p> {
    pub(super) fn of(profile: &'p Profile) -> Self {
        let filters = profile.filter.iter();
        let bounding =
            filters.filter_map(|filter| Some((&filter.name, filter.registered.pod_room.as_ref()?)));
        Self(bounding.collect())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn names(&self) -> Vec<PluginName> {
        self.0.iter().map(|(name, _)| (*name).clone()).collect()
    }

    /// Lowers the number of each node to a bound of how many such pods fit.
    ///
    /// # Errors
    /// A plugin panicked.
    pub(super) fn bound(
        &self,
        pod: &Pod,
        room: PerNode<'_>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<(), Status> {
        let PerNode { nodes, values, .. } = room;
        for (name, plugin) in &self.0 {
            let handle = world.handle(cx.now);
            call_beside("PodRoom", name, cx.probe, || {
                plugin.pod_room(pod, &handle, PerNode::new(nodes, values));
            })?;
        }
        Ok(())
    }

    /// Returns what the bounds depend on beside the nodes.
    ///
    /// # Errors
    /// A plugin panicked.
    pub(super) fn as_of(
        &self,
        requests: &[Equal<'_>],
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<Vec<u64>, Status> {
        let mut as_of = Vec::with_capacity(self.0.len() * requests.len());
        for (name, plugin) in &self.0 {
            for Equal { pod, .. } in requests {
                let handle = world.handle(cx.now);
                as_of.push(call_beside("PodRoom", name, cx.probe, || {
                    plugin.pod_room_as_of(pod, &handle)
                })?);
            }
        }
        Ok(as_of)
    }
}

/// Returns how many of the members may fit in each placement. The room of a placement is the sum
/// over its nodes, for the members with equal requests; these do not take room from others.
///
/// # Errors
/// A plugin panicked.
pub(super) fn rooms(
    profile: &Profile,
    members: &[Arc<Pod>],
    placements: &[Arc<GroupPlacement>],
    world: &World,
    cx: &mut Context<'_>,
) -> Result<Rooms, Status> {
    let bounding = Bounding::of(profile);
    let Requests { equal, others } = Requests::of(members);
    if bounding.is_empty() || equal.is_empty() {
        let all = u32::try_from(members.len()).unwrap_or(u32::MAX);
        return Ok(Rooms { most: vec![all; placements.len()], plugins: Vec::new() });
    }
    let nodes: Vec<NodeIx> = placements.iter().flat_map(|own| own.nodes.iter().copied()).collect();
    let mut room = vec![0; nodes.len()];
    let mut most = vec![others; placements.len()];
    for Equal { pod, count } in equal {
        room.fill(i64::from(count));
        bounding.bound(pod, PerNode::new(&nodes, &mut room), world, cx)?;
        let mut rest = &room[..];
        for (placement, most) in placements.iter().zip(&mut most) {
            let (own, others) = rest.split_at(placement.nodes.len());
            let fitting = own.iter().fold(0_i64, |sum, room| sum.saturating_add((*room).max(0)));
            *most += u32::try_from(fitting).unwrap_or(u32::MAX).min(count);
            rest = others;
        }
    }
    Ok(Rooms { most, plugins: bounding.names() })
}

/// Members with equal requests.
pub(super) struct Equal<'m> {
    /// One of them.
    pub(super) pod: &'m Pod,
    pub(super) count: u32,
}

/// The members of a group by their requests.
pub(super) struct Requests<'m> {
    pub(super) equal: Vec<Equal<'m>>,
    /// Number of members beyond [`MAX_REQUESTS`].
    pub(super) others: u32,
}

impl<'m> Requests<'m> {
    pub(super) fn of(members: &'m [Arc<Pod>]) -> Self {
        let (mut equal, mut others) = (Vec::<Equal<'_>>::new(), 0);
        for pod in members {
            match equal.iter().position(|own| own.pod.requests == pod.requests) {
                Some(place) => equal[place].count += 1,
                None if equal.len() < MAX_REQUESTS => equal.push(Equal { pod, count: 1 }),
                None => others += 1,
            }
        }
        Self { equal, others }
    }
}
