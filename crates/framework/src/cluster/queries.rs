//! Standing queries: which placed pods a selector means, counted per node as they come and go.
//!
//! The answer to a query that does not stand is the same, only counted when it is asked for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::classes::{Class, ClassIx, Classes};
use super::pods::Pods;
use super::selector_index::SelectorIndex;
use super::slab::Slab;
use super::{Cluster, NodeColumn, NodeIx};
use crate::{Namespaces, Pod, PodQuery};

/// The dense id of a standing query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QueryIx(u32);

/// How many pods of a node a query means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodCount {
    /// Pods that are not being deleted.
    pub live: u32,
    /// Pods that are being deleted.
    pub terminating: u32,
}

impl PodCount {
    /// All of them.
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
    /// Number of pods counted.
    pods: usize,
    last_asked: u64,
}

/// All standing queries.
#[derive(Debug, Clone, Default)]
pub(super) struct Queries {
    table: Slab<Standing>,
    ids: HashMap<Arc<PodQuery>, QueryIx>,
    index: SelectorIndex<QueryIx>,
    /// Grows by one with each question.
    clock: u64,
}

/// So many stand at most. For one more, the half that has not been asked for longest is forgotten.
const MOST: usize = 4096;

fn scope(query: &PodQuery) -> Option<&[Arc<str>]> {
    match &query.namespaces {
        Namespaces::All => None,
        Namespaces::These(these) => Some(these),
    }
}

/// Counts the pods of `classes` by node.
fn count(classes: &Classes, meant: &[ClassIx], pods: &Pods) -> NodeColumn<PodCount> {
    let mut counts = NodeColumn::default();
    for pod in meant.iter().flat_map(|class| &classes.get(*class).pods) {
        let placed = pods.get(*pod);
        counts.change(placed.node, |count: &mut PodCount| *count.of(&placed.pod) += 1);
    }
    counts
}

impl Queries {
    /// The standing queries that mean the pods of a class.
    pub(super) fn meaning(&self, class: &Class) -> impl Iterator<Item = QueryIx> {
        let candidates = self.index.may_mean(class.namespace(), class.labels());
        candidates.filter(|query| class.is_meant_by(&self.table.get(query.0).query))
    }

    /// Counts in a pod that `queries` mean.
    pub(super) fn count_in(&mut self, queries: &[QueryIx], pod: &Pod, node: NodeIx) {
        for query in queries {
            let standing = self.table.get_mut(query.0);
            standing.pods += 1;
            standing.counts.change(node, |count| *count.of(pod) += 1);
        }
    }

    /// Counts out a pod that `queries` mean.
    pub(super) fn count_out(&mut self, queries: &[QueryIx], pod: &Pod, node: NodeIx) {
        for query in queries {
            let standing = self.table.get_mut(query.0);
            standing.pods -= 1;
            match standing.pods {
                0 => standing.counts = NodeColumn::default(),
                _ => standing.counts.change(node, |count| *count.of(pod) -= 1),
            }
        }
    }

    fn stand(&mut self, query: &PodQuery, classes: &mut Classes, pods: &Pods) {
        self.clock += 1;
        if let Some(id) = self.ids.get(query) {
            self.table.get_mut(id.0).last_asked = self.clock;
            return;
        }
        if self.table.len() == MOST {
            self.forget_half(classes);
        }
        let meant = classes.meant_by(query);
        let query = Arc::new(query.clone());
        let standing = Standing {
            query: query.clone(),
            counts: count(classes, &meant, pods),
            pods: meant.iter().map(|class| classes.get(*class).pods.len()).sum(),
            last_asked: self.clock,
        };
        let id = QueryIx(self.table.insert(standing));
        self.index.insert(scope(&query), &query.selector, id);
        self.ids.insert(query, id);
        for class in meant {
            classes.get_mut(class).queries.push(id);
        }
    }

    fn forget_half(&mut self, classes: &mut Classes) {
        let mut oldest: Vec<(u64, QueryIx)> =
            self.table.iter().map(|(id, standing)| (standing.last_asked, QueryIx(id))).collect();
        oldest.sort_unstable();
        for (_, id) in oldest.into_iter().take(MOST / 2) {
            let forgotten = self.table.remove(id.0);
            self.index.remove(scope(&forgotten.query), &forgotten.query.selector, id);
            self.ids.remove(&forgotten.query);
        }
        classes.retain_queries(|query| self.table.contains(query.0));
    }
}

impl Cluster {
    /// The placed pods that `query` means, by node; nodes that are not known (any more) among them.
    /// Kept up to date where the query [stands](Self::stand), counted now where it does not.
    pub fn matching_pods(&self, query: &PodQuery) -> Cow<'_, NodeColumn<PodCount>> {
        match self.queries.ids.get(query) {
            Some(id) => Cow::Borrowed(&self.queries.table.get(id.0).counts),
            None => Cow::Owned(count(&self.classes, &self.classes.meant_by(query), &self.pods)),
        }
    }

    /// Keeps the answer to `query` up to date from now on, until thousands of others have been asked for
    /// since it was last.
    pub fn stand(&mut self, query: &PodQuery) {
        self.queries.stand(query, &mut self.classes, &self.pods);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LabelSelector;
    use crate::testing::{PodBuilder, node, pod};

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
    fn an_answer_is_the_same_whether_the_query_stands_or_not() {
        let mut cluster = Cluster::default();
        cluster.set_node(&node("n0").build());
        cluster.place_pod(Arc::new(app("a", "web").build()), "n0");
        cluster.place_pod(Arc::new(terminating(app("b", "web")).build()), "n0");
        cluster.place_pod(Arc::new(app("c", "db").build()), "n0");
        cluster.place_pod(Arc::new(app("d", "web").namespace("other").build()), "no such node");
        let web = with_label("app", "web");
        let expected = vec![(0, 1, 1), (1, 1, 0)];
        assert_eq!(counted(&cluster, &web), expected);
        cluster.stand(&web);
        assert_eq!(counted(&cluster, &web), expected);
        let here = PodQuery { namespaces: Namespaces::one(&"default".into()), ..web };
        assert_eq!(counted(&cluster, &here), [(0, 1, 1)]);
    }

    #[test]
    fn a_pod_that_starts_terminating_changes_sides() {
        let mut cluster = Cluster::default();
        let web = with_label("app", "web");
        cluster.stand(&web);
        let placed = cluster.place_pod(Arc::new(app("a", "web").build()), "n0");
        assert_eq!(counted(&cluster, &web), [(0, 1, 0)]);
        cluster.remove_pod(placed);
        let placed = cluster.place_pod(Arc::new(terminating(app("a", "web")).build()), "n0");
        assert_eq!(counted(&cluster, &web), [(0, 0, 1)]);
        cluster.remove_pod(placed);
        assert_eq!(counted(&cluster, &web), []);
    }

    #[test]
    fn counts_that_came_to_nothing_take_no_room() {
        let mut cluster = Cluster::default();
        let web = with_label("app", "web");
        cluster.stand(&web);
        let place =
            |number| cluster.place_pod(Arc::new(app("a", "web").build()), &format!("n{number}"));
        let placed: Vec<_> = (0..100).map(place).collect();
        assert!(cluster.matching_pods(&web).as_array().is_some());
        placed.into_iter().for_each(|pod| drop(cluster.remove_pod(pod)));
        assert!(cluster.matching_pods(&web).is_unused());
    }

    #[test]
    fn queries_nobody_asks_for_are_forgotten() {
        let mut cluster = Cluster::default();
        let named = |number: usize| with_label("name", &format!("p{number}"));
        let often = with_label("app", "web");
        for number in 0..2 * MOST {
            let pod = app("p", "web").label("name", &format!("p{number}"));
            cluster.place_pod(Arc::new(pod.build()), &format!("n{}", number % 7));
            cluster.stand(&named(number));
            cluster.stand(&often);
        }
        let queries = &cluster.queries;
        assert!(queries.table.len() <= MOST && queries.ids.len() == queries.table.len());
        assert!(queries.ids.contains_key(&often) && !queries.ids.contains_key(&named(0)));
        assert!(queries.ids.contains_key(&named(2 * MOST - 1)));
        for pod in cluster.pods() {
            let class = cluster.classes.get(pod.membership.class);
            let meaning: std::collections::BTreeSet<_> = cluster.queries.meaning(class).collect();
            assert_eq!(
                class.queries.iter().copied().collect::<std::collections::BTreeSet<_>>(),
                meaning
            );
        }
        assert_eq!(counted(&cluster, &named(0)), [(0, 1, 0)]);
    }
}
