//! The domains of node labels, kept from one group to the next.

use std::sync::Arc;

use framework::{Cluster, DomainIx, GroupPlacement, NodeIx, Topology};
use rustc_hash::FxHashMap;

use crate::world::ChangeLog;

/// The number of a domain. It is used again when the domain has no node any more.
pub(super) type DomainNumber = u32;

/// Maximum number of lists of labels that are kept.
const MAX_KEPT: usize = 8;

/// The nodes by the values of some labels. The nodes with equal values of all of them are a domain.
#[derive(Debug)]
pub(super) struct Domains {
    keys: Box<[Arc<str>]>,
    /// Number of this value and of its latest complete look at all nodes. Numbers of domains hold
    /// as long as it stays the same.
    build: u64,
    /// The revision of the change log up to which changes are taken in.
    revision: u64,
    last_used: u64,
    /// The domain of each node that has all labels.
    of_node: Vec<Option<DomainNumber>>,
    list: Vec<Domain>,
    /// Never iterated.
    by_values: FxHashMap<Box<[DomainIx]>, DomainNumber>,
    /// The numbers of domains without nodes.
    free: Vec<DomainNumber>,
}

/// The nodes with these values.
#[derive(Debug)]
struct Domain {
    values: Box<[DomainIx]>,
    texts: Box<[Arc<str>]>,
    placement: Arc<GroupPlacement>,
}

/// The domains of the lists of labels that were used last.
#[derive(Debug, Default)]
pub(super) struct DomainsByKeys {
    kept: Vec<Domains>,
    /// Number of uses, and of complete looks at all nodes.
    clock: u64,
}

impl DomainsByKeys {
    /// Returns the present domains of these labels.
    pub(super) fn of(&mut self, keys: &[Arc<str>], cluster: &Cluster, log: &ChangeLog) -> &Domains {
        self.clock += 1;
        let place = self.kept.iter().position(|own| *own.keys == *keys);
        let place = place.unwrap_or_else(|| {
            if self.kept.len() == MAX_KEPT {
                let uses = self.kept.iter().enumerate();
                let oldest = uses.min_by_key(|(_, own)| own.last_used).map(|(place, _)| place);
                oldest.into_iter().for_each(|oldest| drop(self.kept.swap_remove(oldest)));
            }
            self.kept.push(Domains::new(keys));
            self.kept.len() - 1
        });
        let own = &mut self.kept[place];
        own.last_used = self.clock;
        own.repair(self.clock, cluster, log);
        own
    }
}

/// Looking in.
impl Domains {
    /// See the field.
    pub(super) const fn build(&self) -> u64 {
        self.build
    }

    /// Returns the length of arrays by domain.
    pub(super) const fn table_len(&self) -> usize {
        self.list.len()
    }

    /// Returns the domain of a node.
    pub(super) fn of_node(&self, node: NodeIx) -> Option<DomainNumber> {
        self.of_node.get(node.index()).copied().flatten()
    }

    /// Returns the nodes of a domain.
    pub(super) fn placement(&self, domain: DomainNumber) -> &Arc<GroupPlacement> {
        &self.list[domain as usize].placement
    }

    /// Returns the values of a domain, in the order of the labels.
    pub(super) fn values(&self, domain: DomainNumber) -> &[Arc<str>] {
        &self.list[domain as usize].texts
    }

    /// Returns the domains that have a node and these values; `None` stands for any value.
    pub(super) fn with_values<'d>(
        &'d self,
        values: &'d [Option<Arc<str>>],
    ) -> impl Iterator<Item = DomainNumber> + 'd {
        let list = (0..).zip(&self.list);
        let is_meant = |domain: &Domain| {
            let mut pairs = values.iter().zip(&domain.texts);
            pairs.all(|(wanted, own)| wanted.as_ref().is_none_or(|wanted| wanted == own))
        };
        list.filter(move |(_, domain)| !domain.placement.nodes.is_empty() && is_meant(domain))
            .map(|(number, _)| number)
    }
}

/// Changes.
impl Domains {
    fn new(keys: &[Arc<str>]) -> Self {
        Self {
            keys: keys.into(),
            build: 0,
            revision: 0,
            last_used: 0,
            of_node: Vec::new(),
            list: Vec::new(),
            by_values: FxHashMap::default(),
            free: Vec::new(),
        }
    }

    /// Takes in the changes since the last call. `build` is the number of a complete look.
    fn repair(&mut self, build: u64, cluster: &Cluster, log: &ChangeLog) {
        let is_new = self.build == 0;
        match log.changed_since(self.revision).filter(|_| !is_new) {
            Some(changed) => self.look_at(&changed.objects, cluster),
            None => {
                *self = Self { build, last_used: self.last_used, ..Self::new(&self.keys) };
                let nodes: Vec<NodeIx> = cluster.nodes().iter().collect();
                self.look_at(&nodes, cluster);
            }
        }
        self.revision = log.revision();
    }

    /// Looks at the labels of these nodes. All of them leave their domains first, because the ids
    /// of values are used again.
    fn look_at(&mut self, nodes: &[NodeIx], cluster: &Cluster) {
        nodes.iter().for_each(|node| self.leave(*node));
        let topologies = self.keys.iter().map(|key| cluster.topology(key));
        let Some(topologies) = topologies.collect::<Option<Vec<_>>>() else { return };
        for node in nodes {
            let values = topologies.iter().map(|topology| topology.domain_of(*node));
            if let Some(values) = values.collect::<Option<Box<[DomainIx]>>>() {
                self.join(*node, values, &topologies);
            }
        }
    }

    fn leave(&mut self, node: NodeIx) {
        let Some(number) = self.of_node.get_mut(node.index()).and_then(Option::take) else {
            return;
        };
        let domain = &mut self.list[number as usize];
        let nodes = &mut Arc::make_mut(&mut domain.placement).nodes;
        if let Ok(place) = nodes.binary_search(&node) {
            nodes.remove(place);
        }
        if nodes.is_empty() {
            self.by_values.remove(&domain.values);
            self.free.push(number);
        }
    }

    fn join(&mut self, node: NodeIx, values: Box<[DomainIx]>, topologies: &[Topology<'_>]) {
        let number = match self.by_values.get(&values) {
            Some(known) => *known,
            None => self.add(values, topologies),
        };
        let nodes = &mut Arc::make_mut(&mut self.list[number as usize].placement).nodes;
        if let Err(place) = nodes.binary_search(&node) {
            nodes.insert(place, node);
        }
        if self.of_node.len() <= node.index() {
            self.of_node.resize(node.index() + 1, None);
        }
        self.of_node[node.index()] = Some(number);
    }

    /// Adds a domain without nodes.
    fn add(&mut self, values: Box<[DomainIx]>, topologies: &[Topology<'_>]) -> DomainNumber {
        let texts = topologies.iter().zip(&values).map(|(own, value)| own.value(*value).clone());
        let texts: Box<[Arc<str>]> = texts.collect();
        let name = match &texts[..] {
            [only] => only.clone(),
            several => several.join("/").into(),
        };
        let placement = Arc::new(GroupPlacement { name, nodes: Vec::new() });
        let domain = Domain { values: values.clone(), texts, placement };
        let number = match self.free.pop() {
            Some(number) => {
                self.list[number as usize] = domain;
                number
            }
            None => {
                self.list.push(domain);
                DomainNumber::try_from(self.list.len() - 1).unwrap_or(DomainNumber::MAX)
            }
        };
        self.by_values.insert(values, number);
        number
    }
}
