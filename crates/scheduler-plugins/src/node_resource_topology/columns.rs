//! What the NUMA nodes of small nodes have, in columns: the filter of the policy single-numa-node
//! without a search by name.
//!
//! `align` has the same rules for one node, and the reasons.

use std::sync::Arc;

use framework::{ContainerKind, NodeView};

use super::args::Settings;
use super::books::Seen;
use super::demand::{Demand, Request};
use super::topology::{Policy, Scope, Topology};

/// Number of NUMA nodes of a node in columns.
const ZONES: usize = 4;

/// Number of amounts of a node in columns, over all its NUMA nodes.
const AMOUNTS: usize = 24;

/// Number of resources that have an id.
const NAMES: usize = u64::BITS as usize;

/// The ids of resources: their places here.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<Arc<str>>);

impl Names {
    fn id(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|own| **own == *name)
    }

    /// Returns the id of the resource, which it gets if there is one left.
    fn or_new_id(&mut self, name: &Arc<str>) -> Option<usize> {
        self.id(name).or_else(|| {
            (self.0.len() < NAMES).then(|| {
                self.0.push(name.clone());
                self.0.len() - 1
            })
        })
    }

    /// Gives ids to the resources that a pod asks for.
    pub(super) fn learn(&mut self, demand: &Demand) {
        for request in demand.parts().flatten() {
            self.or_new_id(&request.name);
        }
    }
}

/// What is known of a node without a look at its report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    /// The report has to be looked at.
    #[default]
    Other,
    /// The node takes every pod.
    Takes,
    /// The node takes no pod.
    Refuses,
    /// The node is filtered by its columns.
    Columns,
}

/// A node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Columns {
    /// The generation of the node for which the columns were made; 0 for none.
    generation: u64,
    /// The resources of a device plugin that the node has.
    devices: u64,
    /// The resources that each NUMA node lists.
    listed: [u64; ZONES],
    /// What is available: of each NUMA node, as many resources as there are columns.
    available: [i64; AMOUNTS],
    kind: Kind,
    /// Number of NUMA nodes.
    zones: u8,
    /// Number of columns.
    width: u8,
    /// Number of resources that had an id.
    names: u8,
    scope: Option<Scope>,
}

impl Columns {
    /// Makes the columns of a node of which this is seen.
    pub(super) fn of(
        node: &NodeView<'_>,
        generation: u64,
        seen: Option<&Seen>,
        settings: &Settings,
        names: &mut Names,
    ) -> Self {
        let kind = match seen {
            _ if settings.discard_reserved => Kind::Other,
            None | Some(Seen::Missing) if settings.rejects_missing => Kind::Refuses,
            None | Some(Seen::Missing) => Kind::Takes,
            Some(Seen::Stale) => Kind::Refuses,
            Some(Seen::OneOf(_)) => Kind::Other,
            Some(Seen::Topology(own)) if !settings.filters(own.config.policy) => Kind::Takes,
            Some(Seen::Topology(own)) => match Self::of_topology(own, names) {
                Some(columns) => return columns.with_node(node, generation, names),
                None => Kind::Other,
            },
        };
        Self { kind, ..Self::default() }.with_node(node, generation, names)
    }

    fn with_node(self, node: &NodeView<'_>, generation: u64, names: &Names) -> Self {
        let has = |name: &Arc<str>| node.scalar(name).allocatable != 0;
        let devices = names.0.iter().enumerate().filter(|(_, name)| has(name));
        let devices = devices.fold(0, |all, (id, _)| all | 1 << id);
        Self { generation, devices, names: names.0.len() as u8, ..self }
    }

    fn of_topology(topology: &Topology, names: &mut Names) -> Option<Self> {
        let zones = &topology.zones;
        if topology.config.policy != Policy::SingleNumaNode || zones.len() > ZONES {
            return None;
        }
        let mut columns =
            Self { kind: Kind::Columns, scope: Some(topology.config.scope), ..Self::default() };
        let mut width = 0;
        for resource in zones.iter().flat_map(|zone| &zone.resources) {
            width = width.max(names.or_new_id(&resource.name)? + 1);
        }
        if width * zones.len() > AMOUNTS {
            return None;
        }
        for (place, zone) in zones.iter().enumerate() {
            // Of a resource that is listed twice, the first one counts.
            for resource in zone.resources.iter().rev() {
                let id = names.id(&resource.name)?;
                columns.listed[place] |= 1 << id;
                columns.available[place * width + id] = resource.available;
            }
        }
        Some(Self { zones: zones.len() as u8, width: width as u8, ..columns })
    }

    /// Whether these are the columns of a node of this generation, and know all that the pod asks
    /// for.
    pub(super) const fn are_current(&self, generation: u64, pod: &Wanted) -> bool {
        self.generation == generation && self.names >= pod.names
    }

    /// Whether a node of this generation takes the pod. Returns `None` if its report has to be
    /// looked at.
    #[inline]
    pub(super) fn takes(&self, generation: u64, pod: &Wanted) -> Option<bool> {
        if self.generation != generation {
            return None;
        }
        match self.kind {
            Kind::Takes => Some(true),
            Kind::Refuses => Some(false),
            Kind::Columns if self.names >= pod.names => Some(self.fits(pod)),
            Kind::Columns | Kind::Other => None,
        }
    }

    #[inline]
    fn fits(&self, pod: &Wanted) -> bool {
        let parts = match self.scope {
            Some(Scope::Pod) => std::slice::from_ref(&pod.whole),
            _ => &pod.containers[..],
        };
        if let [part] = parts {
            return self.place(&self.available, part).is_some();
        }
        let mut available = self.available;
        parts.iter().all(|part| {
            let Some(place) = self.place(&available, part) else { return false };
            if let Some(place) = place
                && part.stays
            {
                for Hard { id, amount } in &part.hard {
                    if self.listed[place] & 1 << id != 0 {
                        let own = &mut available[place * usize::from(self.width) + id];
                        *own = own.saturating_sub(*amount).max(0);
                    }
                }
            }
            true
        })
    }

    /// Returns the first NUMA node that has enough: none of them if no resource has to do with NUMA
    /// nodes. Returns `None` if no NUMA node has enough.
    #[inline]
    fn place(&self, available: &[i64; AMOUNTS], part: &Part) -> Option<Option<usize>> {
        let zones = usize::from(self.zones);
        let listed = &self.listed[..zones];
        let anywhere = listed.iter().fold(0, |all, own| all | own);
        if part.devices & !self.devices != 0 || part.somewhere & !anywhere != 0 {
            return None;
        }
        let bound = part.all & anywhere;
        if bound == 0 {
            return Some(None);
        }
        let place = listed.iter().enumerate().position(|(place, own)| {
            let offset = place * usize::from(self.width);
            bound & !own == 0
                && part.hard.iter().all(|Hard { id, amount }| {
                    bound & 1 << id == 0
                        || available.get(offset + id).is_some_and(|own| own >= amount)
                })
        });
        place.map(Some)
    }
}

/// What a pod asks for, by the ids of the resources.
#[derive(Debug)]
pub(super) struct Wanted {
    whole: Part,
    containers: Vec<Part>,
    /// Number of resources that a node has to know.
    names: u8,
}

/// What a container asks for, or the pod.
#[derive(Debug)]
struct Part {
    /// Whether it keeps its share while later containers start.
    stays: bool,
    /// The resources.
    all: u64,
    /// The devices among them, which the node has to have.
    devices: u64,
    /// The resources that at least one NUMA node has to list.
    somewhere: u64,
    /// The resources of which one NUMA node has to have enough available.
    hard: Vec<Hard>,
}

#[derive(Debug)]
struct Hard {
    id: usize,
    amount: i64,
}

impl Wanted {
    /// Returns what the pod asks for, if all its resources have ids.
    pub(super) fn of(demand: &Demand, names: &Names) -> Option<Self> {
        let part = |requests: &[Request], stays| {
            let mut part = Part { stays, all: 0, devices: 0, somewhere: 0, hard: Vec::new() };
            for request in requests {
                let id = names.id(&request.name)?;
                part.all |= 1 << id;
                if !request.is_native {
                    part.devices |= 1 << id;
                }
                if !request.may_be_elsewhere() {
                    part.somewhere |= 1 << id;
                }
                if !request.is_soft {
                    part.hard.push(Hard { id, amount: request.amount });
                }
            }
            Some(part)
        };
        let whole = part(&demand.whole, true)?;
        let containers = demand.containers.iter();
        let containers = containers.map(|own| part(&own.requests, own.kind != ContainerKind::Init));
        let containers: Vec<Part> = containers.collect::<Option<_>>()?;
        let all = containers.iter().fold(whole.all, |all, own| all | own.all);
        Some(Self { whole, containers, names: (u64::BITS - all.leading_zeros()) as u8 })
    }
}
