//! Sampling strategies: which nodes of a cluster an agent looks at.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::decide::DrawNodes;
use fastrand::Rng;
use framework::{Cluster, NodeBits, NodeIx};

use crate::message::ALL_BASIS_POINTS;

/// Where a strategy takes its nodes from.
pub enum Source<'a> {
    /// Nodes that it draws from the table of nodes.
    Draw(Box<dyn DrawNodes + 'a>),
    /// The best nodes of all by the Score plugins. A commit may be made on another node that is as
    /// good.
    Best,
}

/// A sampling strategy. One value serves all requests, also at the same time.
pub trait SamplingStrategy: Send + Sync {
    /// Begins a sample. Random choices come from `seed`.
    fn start(&self, seed: u64) -> Source<'_>;

    /// Returns the number of nodes wanted of so many: the share, as [`sample_size`] rounds it.
    fn sample_size(&self, nodes: usize, basis_points: u32) -> usize {
        sample_size(nodes, basis_points)
    }
}

/// Draws nodes at random, without replacement.
#[derive(Debug, Default)]
pub struct Random;

impl SamplingStrategy for Random {
    fn start(&self, seed: u64) -> Source<'_> {
        Source::Draw(Box::new(RandomDraw(Rng::with_seed(seed))))
    }
}

struct RandomDraw(Rng);

impl DrawNodes for RandomDraw {
    fn draw(&mut self, cluster: &Cluster, missing: usize, seen: &NodeBits, drawn: &mut NodeBits) {
        let left = cluster.node_count() - seen.count().min(cluster.node_count());
        let (wanted, table) = (missing.min(left), cluster.table_len());
        let is_new = |node, drawn: &NodeBits| {
            cluster.nodes().contains(node) && !seen.contains(node) && !drawn.contains(node)
        };
        // Rejection is fast while most of the table qualifies.
        if (wanted + table - left) * 2 <= table {
            let mut count = 0;
            while count < wanted {
                let node = NodeIx::new(self.0.usize(..table));
                if is_new(node, drawn) {
                    drawn.insert(node);
                    count += 1;
                }
            }
            return;
        }
        let rest = cluster.nodes().iter().filter(|node| !seen.contains(*node));
        for node in self.0.choose_multiple(rest, wanted) {
            drawn.insert(node);
        }
    }
}

/// Takes the next nodes in the order of the table. All requests share the position.
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: AtomicUsize,
}

impl SamplingStrategy for RoundRobin {
    fn start(&self, _: u64) -> Source<'_> {
        Source::Draw(Box::new(RoundRobinDraw(&self.next)))
    }
}

struct RoundRobinDraw<'a>(&'a AtomicUsize);

impl DrawNodes for RoundRobinDraw<'_> {
    fn draw(&mut self, cluster: &Cluster, missing: usize, seen: &NodeBits, drawn: &mut NodeBits) {
        let table = cluster.table_len();
        let start = self.0.load(Ordering::Relaxed);
        let (mut walked, mut count) = (0, 0);
        while walked < table && count < missing {
            let node = NodeIx::new((start + walked) % table);
            walked += 1;
            if cluster.nodes().contains(node) && !seen.contains(node) {
                drawn.insert(node);
                count += 1;
            }
        }
        self.0.store((start + walked) % table.max(1), Ordering::Relaxed);
    }
}

/// Looks at all nodes, whatever share is asked for.
#[derive(Debug, Default)]
pub struct All;

impl SamplingStrategy for All {
    fn start(&self, _: u64) -> Source<'_> {
        Source::Draw(Box::new(AllDraw))
    }

    fn sample_size(&self, nodes: usize, _: u32) -> usize {
        nodes.max(1)
    }
}

struct AllDraw;

impl DrawNodes for AllDraw {
    fn draw(&mut self, cluster: &Cluster, _: usize, seen: &NodeBits, drawn: &mut NodeBits) {
        drawn.copy_from(cluster.nodes());
        drawn.subtract(seen);
    }
}

/// Takes the best nodes of all. Pods of one template have a ranking, which looks only at nodes that
/// have changed.
#[derive(Debug, Default)]
pub struct Best;

impl SamplingStrategy for Best {
    fn start(&self, _: u64) -> Source<'_> {
        Source::Best
    }
}

/// The strategies of an agent by name.
#[derive(Clone)]
pub struct Strategies(BTreeMap<Arc<str>, Arc<dyn SamplingStrategy>>);

impl Default for Strategies {
    /// `random`, `round-robin`, `all` and `best`.
    fn default() -> Self {
        Self(Self::IN_TREE.iter().map(|(name, make)| ((*name).into(), make())).collect())
    }
}

/// Makes a strategy of the tree.
type MakeStrategy = fn() -> Arc<dyn SamplingStrategy>;

impl Strategies {
    /// The strategies in the tree.
    pub(crate) const IN_TREE: [(&'static str, MakeStrategy); 4] = [
        ("random", || Arc::new(Random)),
        ("round-robin", || Arc::new(RoundRobin::default())),
        ("all", || Arc::new(All)),
        ("best", || Arc::new(Best)),
    ];

    /// Returns an empty list.
    pub const fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds a strategy, or replaces the one of this name.
    pub fn register(&mut self, name: &str, strategy: Arc<dyn SamplingStrategy>) {
        self.0.insert(name.into(), strategy);
    }

    /// Returns the strategy of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn SamplingStrategy>> {
        self.0.get(name)
    }

    /// Returns the names in order.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }
}

impl fmt::Debug for Strategies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Returns the number of nodes that a share of `nodes` is: rounded down, at least one. `nodes`
/// counts every node, cordoned ones too.
pub const fn sample_size(nodes: usize, basis_points: u32) -> usize {
    let size = nodes.saturating_mul(basis_points as usize) / ALL_BASIS_POINTS as usize;
    if size == 0 { 1 } else { size }
}

#[cfg(test)]
mod tests {
    use testkit::{cluster, node};

    use super::*;

    fn draw(source: Source<'_>, count: usize, seen: &NodeBits) -> Vec<usize> {
        let nodes: Vec<_> = (0..10).map(|n| node(&format!("n{n}")).build()).collect();
        let cluster = cluster(nodes, []);
        let mut drawn = NodeBits::default();
        match source {
            Source::Draw(mut draw) => draw.draw(&cluster, count, seen, &mut drawn),
            Source::Best => panic!("the strategy draws"),
        }
        drawn.iter().map(NodeIx::index).collect()
    }

    #[test]
    fn sample_sizes_round_down_to_at_least_one() {
        for (nodes, basis_points, size) in
            [(149, 200, 2), (49, 200, 1), (2000, 200, 40), (2000, 0, 1), (7, 10_000, 7), (0, 9, 1)]
        {
            assert_eq!(sample_size(nodes, basis_points), size, "{nodes} nodes, {basis_points} bp");
        }
    }

    #[test]
    fn random_draws_distinct_nodes_that_were_not_seen() {
        let seen: NodeBits = (0..4).map(NodeIx::new).collect();
        for seed in 0..50 {
            let drawn = draw(Random.start(seed), 3, &seen);
            assert_eq!(drawn.len(), 3);
            assert!(drawn.iter().all(|node| *node >= 4), "{drawn:?}");
            assert_eq!(draw(Random.start(seed), 3, &seen), drawn, "the seed decides");
            assert_eq!(draw(Random.start(seed), 99, &seen), [4, 5, 6, 7, 8, 9]);
        }
        let hit: NodeBits = (0..200)
            .flat_map(|seed| draw(Random.start(seed), 1, &NodeBits::default()))
            .map(NodeIx::new)
            .collect();
        assert_eq!(hit.count(), 10, "every node is drawn at some time");
    }

    #[test]
    fn round_robin_goes_on_where_the_last_request_stopped() {
        let strategy = RoundRobin::default();
        let none = NodeBits::default();
        assert_eq!(draw(strategy.start(0), 4, &none), [0, 1, 2, 3]);
        assert_eq!(draw(strategy.start(1), 4, &none), [4, 5, 6, 7]);
        assert_eq!(draw(strategy.start(2), 4, &none), [0, 1, 8, 9]);
        assert_eq!(draw(strategy.start(3), 99, &none).len(), 10, "wraps once");
    }

    #[test]
    fn all_draws_everything_once() {
        assert_eq!(draw(All.start(0), 1, &NodeBits::default()).len(), 10);
        let seen: NodeBits = (0..10).map(NodeIx::new).collect();
        assert!(draw(All.start(0), 1, &seen).is_empty());
    }
}
