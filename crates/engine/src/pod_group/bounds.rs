//! Bounds of how many members of a group fit in each domain, kept from one group to the next.
//!
//! Groups whose members have equal requests share them. Only nodes that the change log names are
//! looked at again.

use std::sync::Arc;

use framework::{
    DomainLabel, GroupPlacement, NodeIx, PerNode, PluginName, Pod, PodGroupKey, PodRequests,
    Prospect, ProspectiveGroup, Status,
};

use super::domains::{DomainNumber, Domains, DomainsByKeys};
use super::placement_scores::{PlacementScores, RawScores};
use super::rooms::{Bounding, Equal, Requests, Rooms, rooms};
use crate::context::Context;
use crate::profile::Profile;
use crate::world::World;

/// Maximum number of bounds that are kept. Each holds 8 bytes a node, and 4 for each request beyond
/// the first.
const MAX_KEPT: usize = 16;

/// A group whose placements are bounded.
#[derive(Clone, Copy)]
pub(crate) struct BoundedGroup<'a> {
    pub(crate) group: &'a PodGroupKey,
    pub(crate) profile: &'a Profile,
    pub(crate) members: &'a [Arc<Pod>],
}

/// The placements of a group, and what is known of each.
pub(super) struct BoundedPlacements {
    pub(super) list: Vec<BoundedPlacement>,
    /// The plugins that gave the bounds.
    pub(super) plugins: Vec<PluginName>,
}

/// A placement of a group.
pub(super) struct BoundedPlacement {
    pub(super) prospect: Prospect,
    /// How many more pods like these there is room for, summed over their requests.
    pub(super) room: u64,
    /// The limits of its scores by the plugins whose limits are local, if they are known.
    pub(super) local_limits: Option<RawScores>,
}

/// What is known of domains. It only makes decisions faster.
#[derive(Debug, Default)]
pub(crate) struct KnownPlacements {
    domains: DomainsByKeys,
    bounds: Vec<Bounds>,
    /// Number of uses.
    clock: u64,
}

impl BoundedPlacements {
    /// Bounds placements of which nothing is known.
    ///
    /// # Errors
    /// A plugin panicked.
    pub(super) fn of(
        placements: Vec<Arc<GroupPlacement>>,
        bounded: BoundedGroup<'_>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<Self, Status> {
        let BoundedGroup { profile, members, .. } = bounded;
        let Rooms { most, plugins } = rooms(profile, members, &placements, world, cx)?;
        let list = placements.into_iter().zip(most).map(|(placement, most)| BoundedPlacement {
            prospect: Prospect { placement, most },
            room: most.into(),
            local_limits: None,
        });
        Ok(Self { list: list.collect(), plugins })
    }
}

impl KnownPlacements {
    /// Returns the values of labels of a node that has all of them.
    pub(super) fn values_at(
        &mut self,
        keys: &[Arc<str>],
        node: NodeIx,
        world: &World,
    ) -> Vec<Arc<str>> {
        let domains = self.domains.of(keys, world.cluster(), world.log());
        domains.of_node(node).map(|domain| domains.values(domain).to_vec()).unwrap_or_default()
    }

    /// Returns the domains that a group may be in. No bounds are kept for a group that may be in
    /// one domain only, or whose members have many different requests.
    ///
    /// # Errors
    /// A plugin panicked.
    pub(super) fn bounded(
        &mut self,
        labels: &[DomainLabel],
        bounded: BoundedGroup<'_>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<BoundedPlacements, Status> {
        let BoundedGroup { profile, members, .. } = bounded;
        let keys: Vec<Arc<str>> = labels.iter().map(|label| label.key.clone()).collect();
        let domains = self.domains.of(&keys, world.cluster(), world.log());
        let requests = Requests::of(members);
        let bounding = Bounding::of(profile);
        let values: Vec<Option<Arc<str>>> =
            labels.iter().map(|label| label.value.clone()).collect();
        let is_pinned = !labels.is_empty() && domains.with_values(&values).nth(1).is_none();
        let is_bounded = !requests.equal.is_empty() && requests.others == 0 && !bounding.is_empty();
        if is_pinned || !is_bounded {
            let placements = domains.with_values(&values);
            let placements = placements.map(|domain| domains.placement(domain).clone()).collect();
            return BoundedPlacements::of(placements, bounded, world, cx);
        }
        self.clock += 1;
        let bounds = of_requests(&mut self.bounds, &keys, profile, &requests);
        bounds.last_used = self.clock;
        Update { bounds, domains, bounding: &bounding, requests: &requests.equal, bounded }
            .run(world, cx)?;
        Ok(BoundedPlacements { list: bounds.list(domains, &values), plugins: bounding.names() })
    }
}

/// Returns the bounds for these requests, in place of those that were used least recently if there
/// are none.
fn of_requests<'b>(
    kept: &'b mut Vec<Bounds>,
    keys: &[Arc<str>],
    profile: &Profile,
    requests: &Requests<'_>,
) -> &'b mut Bounds {
    let is_same = |own: &Bounds| {
        *own.keys == *keys
            && own.scheduler_name == profile.scheduler_name
            && own.requests.len() == requests.equal.len()
            && own
                .requests
                .iter()
                .zip(&requests.equal)
                .all(|(own, other)| own.1 == other.count && own.0 == other.pod.requests)
    };
    let place = kept.iter().position(is_same).unwrap_or_else(|| {
        if kept.len() == MAX_KEPT {
            let uses = kept.iter().enumerate();
            let oldest = uses.min_by_key(|(_, own)| own.last_used).map(|(place, _)| place);
            oldest.into_iter().for_each(|oldest| drop(kept.swap_remove(oldest)));
        }
        let requests = requests.equal.iter();
        kept.push(Bounds {
            keys: keys.into(),
            scheduler_name: profile.scheduler_name.clone(),
            requests: requests.map(|own| (own.pod.requests.clone(), own.count)).collect(),
            ..Bounds::default()
        });
        kept.len() - 1
    });
    &mut kept[place]
}

/// The bounds for members with these requests in the domains of these labels.
#[derive(Debug, Default)]
struct Bounds {
    keys: Box<[Arc<str>]>,
    scheduler_name: Arc<str>,
    /// The requests, and the number of members with them.
    requests: Box<[(Arc<PodRequests>, u32)]>,
    last_used: u64,
    /// The [build](Domains::build) of the domains; 0 if nothing is known.
    build: u64,
    /// The revision of the change log up to which changes are taken in.
    revision: u64,
    /// What the bounds depend on beside the nodes.
    as_of: Vec<u64>,
    /// The domain of each node.
    of_node: Vec<Option<DomainNumber>>,
    /// For each node the number of pods that fit, for each of the requests.
    rooms: Vec<u32>,
    /// For each domain the sums of these.
    sums: Vec<u64>,
    /// For each domain the local limits of its scores; `None` if a plugin has none.
    limits: Option<Vec<RawScores>>,
}

impl Bounds {
    /// Returns the domains with these values, with their bounds.
    fn list(&self, domains: &Domains, values: &[Option<Arc<str>>]) -> Vec<BoundedPlacement> {
        let bounded = |domain: DomainNumber| BoundedPlacement {
            prospect: self.prospect(domain, domains),
            room: self.sums(domain).iter().sum(),
            local_limits: self.limits.as_ref().map(|limits| limits[domain as usize].clone()),
        };
        domains.with_values(values).map(bounded).collect()
    }

    /// Returns the room of a domain for each of the requests.
    fn sums(&self, domain: DomainNumber) -> &[u64] {
        self.sums.chunks(self.requests.len()).nth(domain as usize).unwrap_or_default()
    }

    fn prospect(&self, domain: DomainNumber, domains: &Domains) -> Prospect {
        let counts = self.requests.iter().map(|(_, count)| *count);
        let most = self
            .sums(domain)
            .iter()
            .zip(counts)
            .map(|(sum, count)| u32::try_from(*sum).unwrap_or(u32::MAX).min(count));
        Prospect { placement: domains.placement(domain).clone(), most: most.sum() }
    }
}

/// Brings bounds up to date.
struct Update<'u> {
    bounds: &'u mut Bounds,
    domains: &'u Domains,
    bounding: &'u Bounding<'u>,
    requests: &'u [Equal<'u>],
    bounded: BoundedGroup<'u>,
}

impl Update<'_> {
    /// Looks again at the nodes that have changed, or at all.
    fn run(mut self, world: &World, cx: &mut Context<'_>) -> Result<(), Status> {
        let as_of = self.bounding.as_of(self.requests, world, cx)?;
        let is_known = self.bounds.build == self.domains.build() && self.bounds.as_of == as_of;
        let changed = world.log().changed_since(self.bounds.revision).filter(|_| is_known);
        let is_new = changed.is_none();
        let nodes = match changed {
            Some(changed) => changed.nodes,
            None => {
                let Bounds { of_node, rooms, sums, .. } = &mut *self.bounds;
                of_node.clear();
                rooms.clear();
                sums.clear();
                self.bounds.limits = None;
                world.cluster().nodes().iter().collect()
            }
        };
        // Nothing is known if a plugin panics.
        self.bounds.build = 0;
        let touched = self.look_at(&nodes, world, cx)?;
        self.limit(if is_new { None } else { Some(touched) }, world, cx);
        let Self { bounds, domains, .. } = self;
        (bounds.build, bounds.revision, bounds.as_of) =
            (domains.build(), world.log().revision(), as_of);
        Ok(())
    }

    /// Bounds the rooms of these nodes. Returns the domains that they are in or have left.
    fn look_at(
        &mut self,
        nodes: &[NodeIx],
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<Vec<DomainNumber>, Status> {
        let Self { bounds, domains, bounding, requests, .. } = self;
        let Bounds { of_node, rooms, sums, .. } = &mut **bounds;
        let width = requests.len();
        sums.resize(domains.table_len() * width, 0);
        let mut touched = Vec::new();
        for node in nodes {
            let Some(domain) = of_node.get_mut(node.index()).and_then(Option::take) else {
                continue;
            };
            let own = &rooms[node.index() * width..][..width];
            let sums = &mut sums[domain as usize * width..][..width];
            sums.iter_mut().zip(own).for_each(|(sum, own)| *sum -= u64::from(*own));
            touched.push(domain);
        }
        let here = nodes.iter().filter_map(|node| Some((*node, domains.of_node(*node)?)));
        let here: Vec<(NodeIx, DomainNumber)> = here.collect();
        let nodes: Vec<NodeIx> = here.iter().map(|(node, _)| *node).collect();
        let len = nodes.last().map_or(0, |last| last.index() + 1);
        if of_node.len() < len {
            of_node.resize(len, None);
            rooms.resize(len * width, 0);
        }
        let mut room = vec![0; nodes.len()];
        for (place, Equal { pod, .. }) in requests.iter().enumerate() {
            room.fill(i64::from(u32::MAX));
            bounding.bound(pod, PerNode::new(&nodes, &mut room), world, cx)?;
            for ((node, domain), room) in here.iter().zip(&room) {
                let room = u32::try_from((*room).max(0)).unwrap_or(u32::MAX);
                rooms[node.index() * width + place] = room;
                sums[*domain as usize * width + place] += u64::from(room);
            }
        }
        for (node, domain) in here {
            of_node[node.index()] = Some(domain);
            touched.push(domain);
        }
        touched.sort_unstable();
        touched.dedup();
        Ok(touched)
    }

    /// Asks the plugins whose limits are local about these domains, or about all. The only domain
    /// needs none.
    fn limit(&mut self, touched: Option<Vec<DomainNumber>>, world: &World, cx: &mut Context<'_>) {
        let Self { bounds, domains, bounded, .. } = self;
        let BoundedGroup { group, profile, members } = *bounded;
        let known = bounds.limits.take();
        if domains.with_values(&[]).nth(1).is_none() {
            return;
        }
        let asked = match (&known, touched) {
            (Some(_), Some(touched)) => touched,
            _ => domains.with_values(&[]).collect(),
        };
        let mut limits = known.unwrap_or_default();
        limits.resize(domains.table_len(), RawScores::new());
        let prospects = asked.iter().map(|domain| bounds.prospect(*domain, domains));
        let prospects: Vec<Prospect> = prospects.collect();
        let prospective = ProspectiveGroup { group, members, prospects: &prospects };
        let Some(own) = PlacementScores::new(profile).local_limits(prospective, world, cx) else {
            return;
        };
        for (domain, own) in asked.into_iter().zip(own) {
            limits[domain as usize] = own;
        }
        bounds.limits = Some(limits);
    }
}
