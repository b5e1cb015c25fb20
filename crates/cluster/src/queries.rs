//! Standing queries: the placed pods that a selector matches, counted per node, and the sum of
//! their requests. Every change of a placed pod updates them.
//!
//! A query that is not registered gives the same answer, computed on each call.

use std::borrow::Cow;
use std::sync::Arc;

use foldhash::HashMap;

use super::label_sets::{LabelSet, LabelSetIx, LabelSets};
use super::pods::Pods;
use super::selector_index::SelectorIndex;
use super::slab::Slab;
use super::sums::RunningSums;
use super::{Cluster, NodeColumn, NodeIx, PodSums};
use crate::{Namespaces, PodQuery};
use api::Pod;

/// The dense id of a standing query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QueryIx(u32);

/// The number of pods on a node that a query matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodCount {
    /// Pods that are not being deleted.
    pub live: u32,
    /// Pods that are being deleted.
    pub terminating: u32,
}

impl PodCount {
    /// Returns the number of live and terminating pods.
    pub const fn total(self) -> u32 {
        self.live + self.terminating
    }

    fn of(&mut self, pod: &Pod) -> &mut u32 {
        if pod.terminating { &mut self.terminating } else { &mut self.live }
    }
}

#[derive(Debug, Clone)]
struct Standing {
    query: Arc<PodQuery>,
    counts: NodeColumn<PodCount>,
    sums: RunningSums,
    last_registered: u64,
}

/// The standing queries.
#[derive(Debug, Clone, Default)]
pub(super) struct Queries {
    table: Slab<Standing>,
    ids: HashMap<Arc<PodQuery>, QueryIx>,
    index: SelectorIndex<QueryIx>,
    /// The number of registrations, repeated ones included.
    clock: u64,
}

/// Maximum number of standing queries. One more replaces the least recently registered half.
const MAX_STANDING: usize = 4096;

fn scope(query: &PodQuery) -> Option<&[Arc<str>]> {
    match &query.namespaces {
        Namespaces::All | Namespaces::AllBut(_) => None,
        Namespaces::These(these) => Some(these),
    }
}

/// Counts the pods of the `matched` label sets by node.
fn count(label_sets: &LabelSets, matched: &[LabelSetIx], pods: &Pods) -> NodeColumn<PodCount> {
    let mut counts = NodeColumn::default();
    for pod in matched.iter().flat_map(|set| &label_sets.get(*set).pods) {
        let placed = pods.get(*pod);
        counts.change(placed.node, |count: &mut PodCount| *count.of(&placed.pod) += 1);
    }
    counts
}

/// Sums the requests of the pods of the `matched` label sets.
fn sum(label_sets: &LabelSets, matched: &[LabelSetIx], pods: &Pods) -> RunningSums {
    let mut sums = RunningSums::default();
    let matched = matched.iter().flat_map(|set| &label_sets.get(*set).pods);
    matched.for_each(|pod| sums.add(&pods.get(*pod).pod));
    sums
}

impl Queries {
    /// Returns the standing queries that match the pods of a label set.
    pub(super) fn matching(&self, set: &LabelSet) -> impl Iterator<Item = QueryIx> {
        let candidates = self.index.candidates(set.namespace(), set.labels());
        candidates.filter(|query| set.is_matched_by(&self.table.get(query.0).query))
    }

    /// Adds a pod to the answers of `queries`, which match it.
    pub(super) fn add_pod(&mut self, queries: &[QueryIx], pod: &Pod, node: NodeIx) {
        for query in queries {
            let standing = self.table.get_mut(query.0);
            standing.sums.add(pod);
            standing.counts.change(node, |count| *count.of(pod) += 1);
        }
    }

    /// Removes a pod from the answers of `queries`, which match it.
    pub(super) fn remove_pod(&mut self, queries: &[QueryIx], pod: &Pod, node: NodeIx) {
        for query in queries {
            let standing = self.table.get_mut(query.0);
            standing.sums.subtract(pod);
            match standing.sums.pods() {
                0 => standing.counts = NodeColumn::default(),
                _ => standing.counts.change(node, |count| *count.of(pod) -= 1),
            }
        }
    }

    fn register(&mut self, query: &PodQuery, label_sets: &mut LabelSets, pods: &Pods) {
        self.clock += 1;
        if let Some(id) = self.ids.get(query) {
            self.table.get_mut(id.0).last_registered = self.clock;
            return;
        }
        if self.table.len() == MAX_STANDING {
            self.forget_half(label_sets);
        }
        let matched = label_sets.matched_by(query);
        let query = Arc::new(query.clone());
        let standing = Standing {
            query: query.clone(),
            counts: count(label_sets, &matched, pods),
            sums: sum(label_sets, &matched, pods),
            last_registered: self.clock,
        };
        let id = QueryIx(self.table.insert(standing));
        self.index.insert(scope(&query), &query.selector, id);
        self.ids.insert(query, id);
        for set in matched {
            label_sets.get_mut(set).queries.push(id);
        }
    }

    fn forget_half(&mut self, label_sets: &mut LabelSets) {
        let mut oldest: Vec<(u64, QueryIx)> = self
            .table
            .iter()
            .map(|(id, standing)| (standing.last_registered, QueryIx(id)))
            .collect();
        oldest.sort_unstable();
        for (_, id) in oldest.into_iter().take(MAX_STANDING / 2) {
            let forgotten = self.table.remove(id.0);
            self.index.remove(scope(&forgotten.query), &forgotten.query.selector, id);
            self.ids.remove(&forgotten.query);
        }
        label_sets.retain_queries(|query| self.table.contains(query.0));
    }
}

impl Cluster {
    /// Returns the number of placed pods that `query` matches on each node, including nodes that
    /// the cluster does not know. The call takes constant time for a
    /// [registered](Self::register_query) query; otherwise it counts the pods.
    pub fn matching_pods(&self, query: &PodQuery) -> Cow<'_, NodeColumn<PodCount>> {
        match self.queries.ids.get(query) {
            Some(id) => Cow::Borrowed(&self.queries.table.get(id.0).counts),
            None => {
                Cow::Owned(count(&self.label_sets, &self.label_sets.matched_by(query), &self.pods))
            }
        }
    }

    /// Returns the number of placed pods that `query` matches in the whole cluster, and their
    /// requests. The call does not visit pods for a [registered](Self::register_query) query;
    /// otherwise it sums over them.
    pub fn requested_by(&self, query: &PodQuery) -> PodSums {
        match self.queries.ids.get(query) {
            Some(id) => self.queries.table.get(id.0).sums.totals(),
            None => sum(&self.label_sets, &self.label_sets.matched_by(query), &self.pods).totals(),
        }
    }

    /// Keeps the answers to `query` up to date, until thousands of other queries have been
    /// registered more recently.
    pub fn register_query(&mut self, query: &PodQuery) {
        self.queries.register(query, &mut self.label_sets, &self.pods);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PodBuilder, node, pod};
    use api::LabelSelector;

    fn app(name: &str, app: &str) -> PodBuilder {
        pod(name).label("app", app)
    }

    fn terminating(builder: PodBuilder) -> PodBuilder {
        builder
            .with(|pod| pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned()))
    }

    fn with_label(key: &str, value: &str) -> PodQuery {
        let set = [(key.to_owned(), value.to_owned())].into();
        PodQuery { namespaces: Namespaces::All, selector: LabelSelector::from_set(&set) }
    }

    fn counted(cluster: &Cluster, query: &PodQuery) -> Vec<(usize, u32, u32)> {
        let counts = cluster.matching_pods(query);
        counts.iter().map(|(node, count)| (node.index(), count.live, count.terminating)).collect()
    }

    #[test]
    fn standing_query_has_the_answer_of_a_fresh_count() {
        let mut cluster = Cluster::default();
        cluster.set_node(&node("n0").build());
        cluster.place_pod(Arc::new(app("a", "web").build()), "n0");
        cluster.place_pod(Arc::new(terminating(app("b", "web")).build()), "n0");
        cluster.place_pod(Arc::new(app("c", "db").build()), "n0");
        cluster.place_pod(Arc::new(app("d", "web").namespace("other").build()), "no such node");
        let web = with_label("app", "web");
        let expected = vec![(0, 1, 1), (1, 1, 0)];
        assert_eq!(counted(&cluster, &web), expected);
        cluster.register_query(&web);
        assert_eq!(counted(&cluster, &web), expected);
        let here = PodQuery { namespaces: Namespaces::one(&"default".into()), ..web };
        assert_eq!(counted(&cluster, &here), [(0, 1, 1)]);
    }

    #[test]
    fn requests_are_summed_over_all_nodes() {
        let mut cluster = Cluster::default();
        let gpu =
            |name| app(name, "web").cpu("1500m").memory("1Gi").request("example.com/gpu", "2");
        cluster.place_pod(Arc::new(gpu("a").build()), "n0");
        let placed = cluster.place_pod(Arc::new(terminating(gpu("b")).build()), "n1");
        cluster.place_pod(Arc::new(app("c", "db").cpu("1").build()), "n1");
        let web = with_label("app", "web");
        let both = cluster.requested_by(&web);
        assert_eq!((both.pods, both.requests.milli_cpu, both.requests.memory), (2, 3000, 2 << 30));
        assert_eq!(both.requests.scalar("example.com/gpu"), 4);
        cluster.register_query(&web);
        assert_eq!(cluster.requested_by(&web), both);
        cluster.remove_pod(placed);
        assert_eq!(cluster.requested_by(&web).requests.scalar("example.com/gpu"), 2);
    }

    #[test]
    fn sums_are_exact_after_an_overflow() {
        let mut cluster = Cluster::default();
        let web = with_label("app", "web");
        cluster.register_query(&web);
        let absurd = |name| Arc::new(app(name, "web").memory("9e18").build());
        let placed = ["a", "b", "c"].map(|name| cluster.place_pod(absurd(name), "n0"));
        assert_eq!(cluster.requested_by(&web).requests.memory, i64::MAX);
        cluster.remove_pod(placed[0]);
        cluster.remove_pod(placed[1]);
        assert_eq!(cluster.requested_by(&web).requests.memory, 9_000_000_000_000_000_000);
    }

    #[test]
    fn terminating_pods_are_counted_separately() {
        let mut cluster = Cluster::default();
        let web = with_label("app", "web");
        cluster.register_query(&web);
        let placed = cluster.place_pod(Arc::new(app("a", "web").build()), "n0");
        assert_eq!(counted(&cluster, &web), [(0, 1, 0)]);
        cluster.remove_pod(placed);
        let placed = cluster.place_pod(Arc::new(terminating(app("a", "web")).build()), "n0");
        assert_eq!(counted(&cluster, &web), [(0, 0, 1)]);
        cluster.remove_pod(placed);
        assert_eq!(counted(&cluster, &web), []);
    }

    #[test]
    fn query_without_pods_takes_no_memory_per_node() {
        let mut cluster = Cluster::default();
        let web = with_label("app", "web");
        cluster.register_query(&web);
        let place =
            |number| cluster.place_pod(Arc::new(app("a", "web").build()), &format!("n{number}"));
        let placed: Vec<_> = (0..100).map(place).collect();
        assert!(cluster.matching_pods(&web).as_array().is_some());
        placed.into_iter().for_each(|pod| drop(cluster.remove_pod(pod)));
        assert!(cluster.matching_pods(&web).is_unused());
    }

    #[test]
    fn least_recently_registered_queries_are_dropped() {
        let mut cluster = Cluster::default();
        let named = |number: usize| with_label("name", &format!("p{number}"));
        let often = with_label("app", "web");
        for number in 0..2 * MAX_STANDING {
            let pod = app("p", "web").label("name", &format!("p{number}"));
            cluster.place_pod(Arc::new(pod.build()), &format!("n{}", number % 7));
            cluster.register_query(&named(number));
            cluster.register_query(&often);
        }
        let queries = &cluster.queries;
        assert!(queries.table.len() <= MAX_STANDING && queries.ids.len() == queries.table.len());
        assert!(queries.ids.contains_key(&often) && !queries.ids.contains_key(&named(0)));
        assert!(queries.ids.contains_key(&named(2 * MAX_STANDING - 1)));
        for pod in cluster.pods() {
            let set = cluster.label_sets.get(pod.membership.set);
            let matching: std::collections::BTreeSet<_> = cluster.queries.matching(set).collect();
            assert_eq!(
                set.queries.iter().copied().collect::<std::collections::BTreeSet<_>>(),
                matching
            );
        }
        assert_eq!(counted(&cluster, &named(0)), [(0, 1, 0)]);
    }
}
