//! What is known of the NUMA nodes of each node.
//!
//! The report of an agent accounts for some of the pods on the node. With over-reservation, the
//! pods for which it does not account are subtracted from every NUMA node, since it is not known
//! which of them the kubelet takes. A new report replaces the last one when its fingerprint says
//! that it accounts for the pods that are known to run.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{NodeIx, NodeView, Pod, Uid};

use super::args::{Foreign, Settings};
use super::columns::{Columns, Names, Wanted};
use super::demand::Demand;
use super::fingerprint;
use super::topology::{Fingerprint, KIND, Topology};
use super::victims;

/// Number of pods that are gone which a report may have.
const FORGOTTEN: usize = 32;

/// What a decision sees of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// There is no report, or none that can be read.
    Missing,
    /// Pods of another scheduler came after the report.
    Stale,
    /// The report, without what later pods may take.
    Topology(Arc<Topology>),
    /// The reports that are possible without the victims of a preemption.
    OneOf(Vec<Topology>),
}

/// A report that was accepted, and the pods for which it accounts.
#[derive(Debug, Clone)]
struct Accepted {
    /// The name of the node: the id of a node that is gone is used again.
    node: Arc<str>,
    topology: Arc<Topology>,
    /// The generation of the object.
    generation: u64,
    pods: BTreeSet<Uid>,
}

#[derive(Debug, Default)]
struct Row {
    /// The generation of the node for which the row was computed; 0 for none.
    generation: u64,
    accepted: Option<Accepted>,
    seen: Option<Seen>,
}

/// The rows of all nodes, by [`NodeIx::index`].
#[derive(Debug, Default)]
pub(super) struct Books {
    rows: Vec<Row>,
    columns: Vec<Columns>,
    names: Names,
    /// Scheduler names of the profiles with the plugin, as far as they had pods.
    own_names: BTreeSet<Arc<str>>,
    buffer: Option<Seen>,
}

impl Books {
    /// Notes that pods of this scheduler name are ours.
    pub(super) fn note_own(&mut self, pod: &Pod) {
        if !self.own_names.contains(&pod.spec.scheduler_name) {
            self.own_names.insert(pod.spec.scheduler_name.clone());
            self.rows.iter_mut().for_each(|row| row.generation = 0);
            self.columns.clear();
        }
    }

    /// Returns what is seen of the node.
    #[inline]
    pub(super) fn seen(&mut self, node: &NodeView<'_>, settings: &Settings) -> &Seen {
        let index = node.ix().index();
        match node.generation() {
            Some(generation) => {
                if self.rows.get(index).is_none_or(|row| row.generation != generation) {
                    self.refresh(generation, node, settings);
                }
                self.rows[index].seen.as_ref().unwrap_or(&Seen::Missing)
            }
            None => {
                // A what-if: the report that was accepted last, with other pods on the node.
                self.seen(&node.cluster().node(node.ix()), settings);
                let accepted = self.rows[index].accepted.as_ref();
                let seen = accepted.map_or(Seen::Missing, |own| match settings.frees_victims {
                    true => self.look_without_victims(own, node, settings),
                    false => self.look(own, node, settings),
                });
                self.buffer.insert(seen)
            }
        }
    }

    /// Gives ids to the resources that a pod asks for.
    pub(super) fn learn(&mut self, demand: &Demand) {
        self.names.learn(demand);
    }

    /// Returns what the pod asks for, if all its resources have ids.
    pub(super) fn wanted(&self, demand: &Demand) -> Option<Wanted> {
        Wanted::of(demand, &self.names)
    }

    /// Whether the node takes the pod. Returns `None` if its columns are old, or its report has to
    /// be looked at.
    #[inline]
    pub(super) fn takes(&self, node: &NodeView<'_>, pod: &Wanted) -> Option<bool> {
        self.columns.get(node.ix().index())?.takes(node.generation()?, pod)
    }

    /// Makes the columns of the node again if they are old, or do not know what the pod asks for.
    pub(super) fn renew(&mut self, node: &NodeView<'_>, pod: &Wanted, settings: &Settings) {
        let Some(generation) = node.generation() else { return };
        let index = node.ix().index();
        if self.columns.get(index).is_some_and(|own| own.are_current(generation, pod)) {
            return;
        }
        self.seen(node, settings);
        if self.columns.len() <= index {
            self.columns.resize(index + 1, Columns::default());
        }
        let seen = self.rows[index].seen.as_ref();
        self.columns[index] = Columns::of(node, generation, seen, settings, &mut self.names);
    }

    fn refresh(&mut self, generation: u64, node: &NodeView<'_>, settings: &Settings) {
        let index = node.ix().index();
        if self.rows.len() <= index {
            self.rows.resize_with(index + 1, Row::default);
        }
        let before = self.rows[index].accepted.take().filter(|own| own.node == *node.name());
        let accepted = accept(before, node, settings);
        let seen = accepted.as_ref().map(|own| self.look(own, node, settings));
        self.rows[index] = Row { generation, accepted, seen };
    }

    /// Adds the room of the pods that the what-if removes, as far as it is known.
    fn look_without_victims(
        &self,
        accepted: &Accepted,
        node: &NodeView<'_>,
        settings: &Settings,
    ) -> Seen {
        let accounted = node.removed().filter(|pod| accepted.pods.contains(&pod.uid));
        let victims: Vec<Demand> = accounted.map(|pod| Demand::of(pod)).collect();
        if victims.is_empty() {
            return self.look(accepted, node, settings);
        }
        let mut possible = Vec::new();
        for topology in victims::without(&accepted.topology, &victims) {
            let accepted = Accepted { topology: Arc::new(topology), ..accepted.clone() };
            match self.look(&accepted, node, settings) {
                Seen::Topology(topology) => possible.push(Arc::unwrap_or_clone(topology)),
                other => return other,
            }
        }
        Seen::OneOf(possible)
    }

    /// Applies the pods for which the report does not account.
    fn look(&self, accepted: &Accepted, node: &NodeView<'_>, settings: &Settings) -> Seen {
        if !settings.over_reserve {
            return Seen::Topology(accepted.topology.clone());
        }
        let mut topology = accepted.topology.clone();
        for pod in node.pods().filter(|pod| !accepted.pods.contains(&pod.uid)) {
            let demand = Demand::of(pod);
            if self.own_names.contains(&pod.spec.scheduler_name) {
                let own = Arc::make_mut(&mut topology);
                for request in &demand.whole {
                    own.zones
                        .iter_mut()
                        .for_each(|zone| zone.subtract(&request.name, request.amount));
                }
                continue;
            }
            match settings.foreign {
                Foreign::All => return Seen::Stale,
                Foreign::OnlyExclusiveResources if demand.is_exclusive(&accepted.topology) => {
                    return Seen::Stale;
                }
                Foreign::OnlyExclusiveResources | Foreign::None => {}
            }
        }
        Seen::Topology(topology)
    }
}

/// Returns the report that counts: the current one if it accounts for the pods on the node, or else
/// the last one.
fn accept(before: Option<Accepted>, node: &NodeView<'_>, settings: &Settings) -> Option<Accepted> {
    let (cluster, name) = (node.cluster(), node.name());
    let generation = cluster.object_generation(KIND, "", name)?;
    let Some(current) = cluster.decoded::<Topology>(KIND, "", name) else {
        // An object that cannot be read is no report.
        return None;
    };
    let started = |pod: &&Arc<Pod>| pod.start_time.get().is_some();
    let all = || node.pods().map(|pod| pod.uid.clone()).collect::<BTreeSet<_>>();
    let with = |pods| {
        let topology = Arc::new(current.clone());
        Some(Accepted { node: name.clone(), topology, generation, pods })
    };
    if !settings.over_reserve {
        return match before {
            Some(before) if before.generation == generation => Some(before),
            _ => with(BTreeSet::new()),
        };
    }
    let Some(mut before) = before else {
        let known = match &current.fingerprint {
            Some(own) => matching(own, current, node, settings),
            None => None,
        };
        return with(known.unwrap_or_else(all));
    };
    if before.generation != generation {
        let has_other_config = current.config != before.topology.config;
        let pods = match &current.fingerprint {
            _ if has_other_config && settings.follows_attributes => Some(all()),
            Some(own) => matching(own, current, node, settings),
            None => {
                let accounted =
                    node.pods().filter(|pod| started(pod) || before.pods.contains(&pod.uid));
                Some(accounted.map(|pod| pod.uid.clone()).collect())
            }
        };
        if let Some(pods) = pods {
            return with(pods);
        }
    } else if let Some(own) = &current.fingerprint
        && let Some(pods) = matching(own, current, node, settings)
    {
        return with(pods);
    }
    // Pods that are taken off for a while come back, so they are forgotten late.
    let present = node.pod_count().max(0) as usize;
    if before.pods.len() > 2 * present + FORGOTTEN {
        let present = all();
        before.pods.retain(|uid| present.contains(uid));
    }
    Some(before)
}

/// Returns the pods for which a report accounts, if its fingerprint is that of the pods that run,
/// or of all pods of the node.
fn matching(
    reported: &Fingerprint,
    topology: &Topology,
    node: &NodeView<'_>,
    settings: &Settings,
) -> Option<BTreeSet<Uid>> {
    let only_exclusive = settings.only_exclusive.unwrap_or(reported.only_exclusive);
    let counts = |pod: &&Arc<Pod>| !only_exclusive || Demand::of(pod).is_exclusive(topology);
    let started = |pod: &&Arc<Pod>| pod.start_time.get().is_some();
    let running: Vec<&Arc<Pod>> = node.pods().filter(started).collect();
    let all: Vec<&Arc<Pod>> = node.pods().collect();
    [running, all].into_iter().find_map(|pods| {
        let counted = pods.iter().filter(|pod| counts(pod)).map(|pod| &***pod);
        let is_same = fingerprint::of(counted) == reported.text;
        is_same.then(|| pods.iter().map(|pod| pod.uid.clone()).collect())
    })
}

/// The pods that are being bound to each node, for `discardReservedNodes`.
#[derive(Debug, Default)]
pub(super) struct Reserved(BTreeSet<(NodeIx, Uid)>);

impl Reserved {
    pub(super) fn add(&mut self, node: NodeIx, pod: &Uid) {
        self.0.insert((node, pod.clone()));
    }

    pub(super) fn remove(&mut self, pod: &Uid) {
        self.0.retain(|(_, own)| own != pod);
    }

    pub(super) fn is_on(&self, node: NodeIx) -> bool {
        self.0.iter().any(|(own, _)| *own == node)
    }
}
