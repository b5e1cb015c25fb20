//! NodeResourceTopologyMatch: keeps pods off nodes whose kubelet would refuse them, because no NUMA
//! node has enough room, and prefers nodes by the room of their NUMA nodes.
//!
//! The room is read from NodeResourceTopology objects, which an agent on each node writes.
//!
//! | Module | Content |
//! |---|---|
//! | `topology` | the objects |
//! | `demand` | what a pod asks |
//! | `align`, `combinations` | whether a kubelet admits the pod |
//! | `scoring` | the strategies |
//! | `books`, `fingerprint` | which pods a report accounts for |
//! | `columns` | the filter of many nodes |
//! | `victims` | the room that victims of a preemption leave |

mod align;
mod args;
mod books;
mod columns;
mod combinations;
mod demand;
mod fingerprint;
mod scoring;
mod topology;
mod victims;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use framework::{
    ActionType, Attempt, AttemptMut, ClusterEvent, Command, Dependence, EventForPod, EventResource,
    Filter, FilterScope, Handle, HintResult, MAX_NODE_SCORE, NodeBits, NodeView, ObjectKey,
    ObjectUpdate, PerNode, Plugin, PluginArgs, Pod, PostBind, PreFilter, PreFilterResult,
    QueueingHint, Reserve, Score, ScoreScope, Status,
};

pub use args::{Cache, NodeResourceTopologyMatchArgs, ScoringStrategy};

use crate::qos::{self, QosClass};
use args::Settings;
use books::{Books, Reserved, Seen};
use columns::Wanted;
use demand::Demand;
use topology::{KIND, Topology};

/// Name of the plugin.
pub const NAME: &str = "NodeResourceTopologyMatch";

const STALE: &str = "invalid node topology data";
const MISSING: &str = "node has no topology data";

/// The plugin.
#[derive(Debug)]
struct NodeResourceTopologyMatch {
    settings: Settings,
    ledger: RwLock<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    books: Books,
    reserved: Reserved,
}

/// Makes the plugin from [`NodeResourceTopologyMatchArgs`].
///
/// # Errors
/// The arguments do not decode, or one has a value that is not known.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let args = args.decode::<NodeResourceTopologyMatchArgs>()?.with_defaults();
    let plugin =
        NodeResourceTopologyMatch { settings: args.settings()?, ledger: RwLock::default() };
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_ALLOCATABLE;
    let topologies = ClusterEvent::new(EventResource::Custom(KIND.into()), ActionType::ALL);
    let deleted = ClusterEvent::new(EventResource::Pod, ActionType::DELETE);
    let nodes = ClusterEvent::new(EventResource::Node, nodes);
    let plugin = Plugin::new(NAME, plugin)
        .pre_filter()
        .filter()
        .score()
        .reserve()
        .post_bind()
        .describes_nodes(KIND)
        .watch_as::<Topology>(KIND)
        .keep_containers()
        .on_with_hint(topologies, NodeResourceTopologyMatch::after_topology)
        .on_with_hint(deleted, NodeResourceTopologyMatch::after_pod)
        .on_with_hint(nodes, NodeResourceTopologyMatch::after_node)
        .decides_by_template()
        .args(&args);
    let plugin = qos::FIELDS.iter().fold(plugin, |plugin, field| plugin.keep_pod_field(field));
    Ok(args.notes().into_iter().fold(plugin, |plugin, note| plugin.note(note)).build())
}

/// The demand of the pod, for the following extension points.
#[derive(Debug, Clone)]
struct Prepared(Arc<Demand>);

impl NodeResourceTopologyMatch {
    /// Locks the ledger. A poisoned lock is usable, because rows are replaced as a whole.
    fn ledger(&self) -> RwLockWriteGuard<'_, Ledger> {
        self.ledger.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the ledger for readers, of which there may be several.
    fn read(&self) -> RwLockReadGuard<'_, Ledger> {
        self.ledger.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the demand of the pod. A profile may leave out PreFilter.
    fn demand(&self, attempt: &Attempt<'_>) -> Arc<Demand> {
        let prepared = attempt.state.read::<Prepared>().map(|Prepared(demand)| demand.clone());
        prepared.unwrap_or_else(|| Arc::new(Demand::of(attempt.pod)))
    }

    fn verdict(&self, ledger: &mut Ledger, demand: &Demand, node: &NodeView<'_>) -> Status {
        if demand.is_indifferent() {
            return Status::success();
        }
        if self.settings.discard_reserved && ledger.reserved.is_on(node.ix()) {
            return Status::unschedulable(STALE);
        }
        match ledger.books.seen(node, &self.settings) {
            Seen::Stale => Status::unschedulable(STALE),
            Seen::Missing if self.settings.rejects_missing => Status::unresolvable(MISSING),
            Seen::Missing => Status::success(),
            Seen::Topology(topology) => self.check(topology, demand, node),
            Seen::OneOf(possible) => possible.iter().fold(Status::success(), |status, topology| {
                if status.is_success() { self.check(topology, demand, node) } else { status }
            }),
        }
    }

    fn check(&self, topology: &Topology, demand: &Demand, node: &NodeView<'_>) -> Status {
        match topology.config.policy {
            policy if self.settings.filters(policy) => align::check(topology, policy, demand, node),
            _ => Status::success(),
        }
    }

    /// Queues the pod if the node with this name takes it now.
    fn after_change_of(&self, name: Option<&str>, event: EventForPod<'_>) -> HintResult {
        let cluster = event.handle.cluster;
        let Some(node) = name.and_then(|name| cluster.node_named(name)) else {
            return Ok(QueueingHint::Skip);
        };
        let mut ledger = self.ledger();
        ledger.books.note_own(event.pod);
        let verdict = self.verdict(&mut ledger, &Demand::of(event.pod), &cluster.node(node));
        Ok(QueueingHint::queue_if(verdict.is_success()))
    }

    fn after_topology(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.others()?;
        self.after_change_of(new.or(old).map(|object| &**object.name()), event)
    }

    fn after_pod(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.pods()?;
        let gone = old.or(new);
        self.after_change_of(gone.and_then(|pod: &Pod| pod.node_name.as_deref()), event)
    }

    fn after_node(&self, event: EventForPod<'_>) -> HintResult {
        let (_, new) = event.objects.nodes()?;
        self.after_change_of(new.map(|node| &*node.name), event)
    }

    /// Lets the node take pods again, and wakes those that waited for it.
    fn end_reservation(&self, pod: &Pod, node: &str, handle: &Handle<'_>) {
        if !self.settings.discard_reserved {
            return;
        }
        self.ledger().reserved.remove(&pod.uid);
        let key = ObjectKey::cluster_scoped(EventResource::Custom(KIND.into()), node.into());
        if let Some(topology) = handle.cluster.stored_object(&key) {
            let update = ObjectUpdate { old: None, new: Some(topology) };
            handle.command(Command::ObjectChanged(Box::new(update)));
        }
    }

    fn score_of(&self, ledger: &mut Ledger, demand: &Demand, node: &NodeView<'_>) -> i64 {
        if demand.class != QosClass::Guaranteed {
            return MAX_NODE_SCORE;
        }
        if self.settings.discard_reserved && ledger.reserved.is_on(node.ix()) {
            return 0;
        }
        match ledger.books.seen(node, &self.settings) {
            Seen::Topology(topology) => self.settings.scorer.score(topology, demand),
            Seen::OneOf(possible) => {
                let scores = possible.iter().map(|own| self.settings.scorer.score(own, demand));
                scores.min().unwrap_or(0)
            }
            Seen::Missing | Seen::Stale => 0,
        }
    }
}

impl PreFilter for NodeResourceTopologyMatch {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        let AttemptMut { state, pod, .. } = attempt;
        self.ledger().books.note_own(pod);
        let demand = Demand::of(pod);
        let is_indifferent = demand.is_indifferent();
        state.write_for_search(Prepared(Arc::new(demand)));
        if is_indifferent { Err(Status::skip()) } else { Ok(PreFilterResult::default()) }
    }
}

impl Filter for NodeResourceTopologyMatch {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let demand = self.demand(attempt);
        self.verdict(&mut self.ledger(), &demand, node)
    }

    /// Filters most nodes by their columns, while other threads may do the same.
    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let demand = self.demand(attempt);
        if demand.is_indifferent() {
            return Ok(());
        }
        let cluster = attempt.handle.cluster;
        let mut left = Vec::new();
        let mut by_columns = |ledger: &Ledger, wanted: &Wanted| {
            nodes.retain(|ix| {
                let taken = ledger.books.takes(&cluster.node(ix), wanted);
                if taken.is_none() {
                    left.push(ix);
                }
                taken != Some(false)
            });
        };
        let known = {
            let ledger = self.read();
            ledger.books.wanted(&demand).map(|wanted| by_columns(&ledger, &wanted))
        };
        if known.is_none() {
            self.ledger().books.learn(&demand);
            left = nodes.iter().collect();
        }
        if left.is_empty() {
            return Ok(());
        }
        let mut ledger = self.ledger();
        let wanted = ledger.books.wanted(&demand);
        for ix in left {
            let node = cluster.node(ix);
            let taken = wanted.as_ref().and_then(|own| {
                ledger.books.renew(&node, own, &self.settings);
                ledger.books.takes(&node, own)
            });
            if !taken.unwrap_or_else(|| self.verdict(&mut ledger, &demand, &node).is_success()) {
                nodes.remove(ix);
            }
        }
        Ok(())
    }

    /// A report counts as a change of its node.
    fn dependence(&self, _attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        Some(match &self.settings {
            // The end of a bind changes no node.
            settings if settings.discard_reserved => Dependence::on(FilterScope::Cluster),
            settings if settings.over_reserve => Dependence::on(FilterScope::Node),
            _ => Dependence::on(FilterScope::Node).without_pods(),
        })
    }
}

impl Score for NodeResourceTopologyMatch {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let demand = self.demand(attempt);
        Ok(self.score_of(&mut self.ledger(), &demand, node))
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let demand = self.demand(attempt);
        let mut ledger = self.ledger();
        for (node, score) in scores.nodes.iter().zip(scores.values) {
            *score = self.score_of(&mut ledger, &demand, &attempt.handle.cluster.node(*node));
        }
        Ok(())
    }

    fn dependence(&self, _attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(match &self.settings {
            settings if settings.discard_reserved => Dependence::on(ScoreScope::Cluster),
            settings if settings.over_reserve => Dependence::on(ScoreScope::Node),
            _ => Dependence::on(ScoreScope::Node).without_pods(),
        })
    }
}

impl Reserve for NodeResourceTopologyMatch {
    fn reserve(&self, attempt: AttemptMut<'_>, node: &str) -> Status {
        if self.settings.discard_reserved
            && let Some(node) = attempt.handle.cluster.node_named(node)
        {
            self.ledger().reserved.add(node, &attempt.pod.uid);
        }
        Status::success()
    }

    fn unreserve(&self, attempt: AttemptMut<'_>, node: &str) {
        self.end_reservation(attempt.pod, node, attempt.handle);
    }
}

impl PostBind for NodeResourceTopologyMatch {
    fn post_bind(&self, attempt: &Attempt<'_>, node: &str) {
        self.end_reservation(attempt.pod, node, attempt.handle);
    }
}

#[cfg(test)]
mod tests;
