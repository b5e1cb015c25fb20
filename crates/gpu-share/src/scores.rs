//! Cached scores.

use std::collections::BTreeMap;

use framework::{Cluster, PerNode};

use crate::demand::Shape;
use crate::rows::Rows;
use crate::scorer::Scorer;

/// Maximum number of cached scores for all shapes of pods: 16 MiB.
const CELLS_MAX: usize = 1 << 20;

/// Scores by shape of pod and by node. There are few shapes, and a decision changes one node, so
/// nearly all scores of a shape stay valid for its next pod.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    columns: BTreeMap<Shape, Column>,
    uses: u64,
}

#[derive(Debug, Default)]
struct Column {
    /// The last use, as a counter.
    used: u64,
    /// Scores by [`NodeIx::index`](framework::NodeIx::index).
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    /// The version of the row for which the score is valid; no row has version 0.
    version: u64,
    score: i64,
}

impl Scores {
    /// Writes the score of each node.
    pub(crate) fn write(
        &mut self,
        shape: Shape,
        cluster: &Cluster,
        scores: PerNode<'_>,
        rows: &mut Rows,
        scorer: &Scorer,
    ) {
        let cells = self.cells(shape, cluster.table_len());
        for (node, score) in scores.nodes.iter().zip(scores.values) {
            let (node, cell) = (cluster.node(*node), &mut cells[node.index()]);
            let version = rows.row(&node, scorer).version;
            if cell.version != version {
                *cell = Cell { version, score: rows.place(&node, shape, scorer).score };
            }
            *score = cell.score;
        }
    }

    fn cells(&mut self, shape: Shape, nodes: usize) -> &mut [Cell] {
        self.uses += 1;
        if !self.columns.contains_key(&shape) && (self.columns.len() + 1) * nodes > CELLS_MAX {
            self.drop_longest_unused();
        }
        let column = self.columns.entry(shape).or_default();
        column.used = self.uses;
        if column.cells.len() < nodes {
            column.cells.resize(nodes, Cell::default());
        }
        &mut column.cells
    }

    fn drop_longest_unused(&mut self) {
        let longest = self.columns.iter().min_by_key(|(_, column)| column.used);
        if let Some(shape) = longest.map(|(shape, _)| *shape) {
            self.columns.remove(&shape);
        }
    }
}
