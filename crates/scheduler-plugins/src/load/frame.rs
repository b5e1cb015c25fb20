//! What the load plugins have in common as Score plugins.

use std::sync::{PoisonError, RwLock};

use framework::{
    Attempt, AttemptMut, Dependence, Handle, NodeView, PerNode, Pod, Score, ScoreScope, Status,
    Time,
};

use super::Reader;

/// What a load plugin derives from nodes, and how it scores them.
pub(super) trait Rating: Send + Sync + 'static {
    /// What is derived from a node, its pods and its measurement.
    type Row: Copy + Default + Send + Sync;
    /// What is derived from the pod to be placed.
    type Asked;
    /// Whether the pods on a node count by more than what is measured.
    const COUNTS_PODS: bool;

    /// Derives the row of a node.
    fn row(&self, node: &NodeView<'_>, reader: &Reader) -> Self::Row;

    /// Derives what the pod asks for.
    fn asked(&self, pod: &Pod) -> Self::Asked;

    /// Scores a node. A measurement from before `fresh_since` counts as none.
    fn score(&self, row: &Self::Row, asked: &Self::Asked, fresh_since: Time) -> i64;
}

/// A load plugin: its rating, where it reads the load, and the rows of nodes.
#[derive(Debug)]
pub(super) struct LoadPlugin<R: Rating> {
    pub(super) rating: R,
    pub(super) reader: Reader,
    rows: Rows<R::Row>,
}

/// The pod to be placed, and since when measurements count.
pub(super) struct Incoming<A> {
    pub(super) asked: A,
    pub(super) fresh_since: Time,
}

impl<R: Rating> LoadPlugin<R> {
    pub(super) fn new(rating: R, reader: &Reader) -> Self {
        Self { rating, reader: reader.clone(), rows: Rows::default() }
    }

    /// Returns the row of the node.
    pub(super) fn row(&self, node: &NodeView<'_>) -> R::Row {
        self.rows.of(node, || self.rating.row(node, &self.reader))
    }

    /// Calls `visit` with the row of each of the nodes and its place among them. Nodes that have
    /// not changed come first.
    pub(super) fn rows<'a>(
        &self,
        nodes: impl Iterator<Item = NodeView<'a>>,
        visit: impl FnMut(usize, &R::Row),
    ) {
        self.rows.of_all(nodes, |node| self.rating.row(node, &self.reader), visit);
    }

    pub(super) fn incoming(&self, pod: &Pod, handle: &Handle<'_>) -> Incoming<R::Asked> {
        Incoming { asked: self.rating.asked(pod), fresh_since: self.reader.fresh_since(handle) }
    }
}

impl<R: Rating> Score for LoadPlugin<R> {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let Incoming { asked, fresh_since } = self.incoming(attempt.pod, attempt.handle);
        Ok(self.rating.score(&self.row(node), &asked, fresh_since))
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let Incoming { asked, fresh_since } = self.incoming(attempt.pod, attempt.handle);
        let cluster = attempt.handle.cluster;
        let PerNode { nodes, values, .. } = scores;
        self.rows(nodes.iter().map(|node| cluster.node(*node)), |place, row| {
            values[place] = self.rating.score(row, &asked, fresh_since);
        });
        Ok(())
    }

    fn dependence(&self, attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        let dependence = Reader::dependence(attempt);
        Some(if R::COUNTS_PODS { dependence } else { dependence.without_pods() })
    }
}

/// A value of each node, by [`framework::NodeIx::index`], kept until the node, its pods or its
/// measurement change. Threads that read values do not wait for each other.
#[derive(Debug)]
struct Rows<T>(RwLock<Vec<Row<T>>>);

#[derive(Debug, Clone, Copy)]
struct Row<T> {
    /// The generation of the node from which the value is; 0 for none.
    generation: u64,
    value: T,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

/// A value that was derived anew.
struct Derived<T> {
    index: usize,
    row: Row<T>,
}

impl<T: Copy + Default> Rows<T> {
    /// Returns the value of the node, which `derive` computes. A node with other pods, of a
    /// what-if, is not kept.
    fn of(&self, node: &NodeView<'_>, derive: impl FnOnce() -> T) -> T {
        let Some(generation) = node.generation() else { return derive() };
        let index = node.ix().index();
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner).get(index).copied();
        match kept {
            Some(row) if row.generation == generation => row.value,
            _ => {
                let row = Row { generation, value: derive() };
                self.keep(&[Derived { index, row }]);
                row.value
            }
        }
    }

    fn of_all<'a>(
        &self,
        nodes: impl Iterator<Item = NodeView<'a>>,
        derive: impl Fn(&NodeView<'a>) -> T,
        mut visit: impl FnMut(usize, &T),
    ) {
        let mut changed = Vec::new();
        {
            let rows = self.0.read().unwrap_or_else(PoisonError::into_inner);
            for (place, node) in nodes.enumerate() {
                match rows.get(node.ix().index()) {
                    Some(row) if node.generation() == Some(row.generation) => {
                        visit(place, &row.value);
                    }
                    _ => changed.push((place, node)),
                }
            }
        }
        let mut derived = Vec::new();
        for (place, node) in changed {
            let value = derive(&node);
            visit(place, &value);
            if let Some(generation) = node.generation() {
                derived.push(Derived { index: node.ix().index(), row: Row { generation, value } });
            }
        }
        if !derived.is_empty() {
            self.keep(&derived);
        }
    }

    /// Keeps values. A poisoned lock is usable, because rows are replaced as a whole.
    fn keep(&self, derived: &[Derived<T>]) {
        let mut rows = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for Derived { index, row } in derived {
            if rows.len() <= *index {
                rows.resize(*index + 1, Row { generation: 0, value: T::default() });
            }
            rows[*index] = *row;
        }
    }
}
